/* SPDX-License-Identifier: MIT */
/* Goal: spot.layout/1 and spot.cluster/1 are read with what they leave out filled in, and what
 * cannot be is refused at its place. */
#include <math.h>

#include "doc_rig.h"
#include "model/cluster_doc.h"
#include "model/layout_doc.h"

/* --- layouts --- */

static const char layout_text[] =
    "{\"schema\": \"spot.layout/1\", \"colour\": {},\n"
    "\"model\": {\"layers\": 5, \"width\": 8, \"ffn\": 16, \"heads\": 4, \"vocab\": 10,\n"
    " \"kv_heads\": 2, \"vocab_pad\": 4},\n"
    "\"grid\": {\"D\": 2, \"P\": 2}, \"stage_ends\": [2, 5],\n"
    "\"components\": [{\"name\": \"w16\", \"byte_per_param\": 2, \"version\": 7},\n"
    " {\"name\": \"m\", \"byte_per_param\": 4, \"zero\": true}],\n"
    "\"kv\": [{\"name\": \"a\", \"d\": 1, \"tokens\": 9}, {\"name\": \"b\", \"d\": 0, \"tokens\": "
    "3,\n"
    " \"byte\": 1}],\n"
    "\"place\": [{\"node\": \"x\", \"d\": 0, \"p\": 1}, {\"node\": \"y\", \"d\": 1, \"p\": 0,\n"
    " \"version\": 6}]}\n";

static void read_layout(struct spot_layout *layout, const char *text)
{
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_layout_parse(layout, text, strlen(text), "t", &err), "%s", err.msg);
}

START_TEST(what_a_layout_says_is_read_and_the_rest_has_its_defaults)
{
    struct spot_layout *const got = malloc(sizeof(*got));
    struct spot_err err = { 0 };
    char path[32];

    put_file(path, layout_text, strlen(layout_text));
    ck_assert_msg(!spot_layout_load(got, path, &err), "%s", err.msg);
    unlink(path);
    ck_assert(got->d == 2 && got->p == 2 && got->m == 1);
    ck_assert(got->stage_end[0] == 2 && got->stage_end[1] == 5);
    ck_assert(got->model.n_kv_head == 2 && got->model.head_dim == 2 && got->model.vocab_pad == 4);
    ck_assert(got->model.norm_elem == 2 && !got->model.is_tied && !got->model.n_shard);
    ck_assert(got->n_component == 2 && got->component[1].is_zero && got->component[0].version == 7);
    ck_assert(got->n_kv == 2 && got->kv[0].byte == 2 && got->kv[1].byte == 1);
    ck_assert(got->kv[0].n_token == 9 && got->kv[0].d == 1);
    ck_assert_uint_eq(got->n_place, 2);
    ck_assert_str_eq(got->place[1].node, "y");
    ck_assert(!got->place[0].is_stale && got->place[1].is_stale);
    spot_layout_release(got);
    ck_assert_int_eq(spot_layout_load(got, path, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    free(got);
}
END_TEST

START_TEST(stages_are_equal_in_layers_or_balanced_in_parameters)
{
    struct spot_layout *const got = malloc(sizeof(*got));
    char *const equal = edited(layout_text, ", \"stage_ends\": [2, 5]", "");
    char *const said = edited(layout_text, "\"stage_ends\": [2, 5]", "\"partition\": \"equal\"");
    char *const balanced =
        edited(layout_text, "\"stage_ends\": [2, 5]", "\"partition\": \"balanced\"");
    char *const large = edited(balanced, "\"vocab\": 10", "\"vocab\": 100");
    int64_t first, last;

    read_layout(got, equal);
    ck_assert(got->stage_end[0] == 2 && got->stage_end[1] == 5);
    spot_layout_release(got);
    read_layout(got, said);
    ck_assert(got->stage_end[0] == 2 && got->stage_end[1] == 5);
    spot_layout_stage(got, 0, &first, &last);
    ck_assert(first == 0 && last == 2);
    spot_layout_stage(got, 1, &first, &last);
    ck_assert(first == 3 && last == 6);
    spot_layout_release(got);
    /* a layer has 8 (8 + 8 + 4 + 4) + 2 16 8 + 2 8 = 464 parameters, the table 12 8 = 96, the head
     * 96 + 8: 2 and 3 layers make 1024 and 1496, 3 and 2 make 1488 and 1032 */
    read_layout(got, balanced);
    ck_assert(got->stage_end[0] == 3 && got->stage_end[1] == 5);
    spot_layout_release(got);
    read_layout(got, large); /* 800 and 808: 2 and 3 make 1728 and 2200, 3 and 2 2192 and 1736 */
    ck_assert(got->stage_end[0] == 3 && got->stage_end[1] == 5);
    spot_layout_release(got);
    free(equal), free(said), free(balanced), free(large), free(got);
}
END_TEST

START_TEST(ranks_own_whole_shards_where_the_model_has_them)
{
    const struct spot_shape shape = { .n_layer = 1,
                                      .width = 8,
                                      .n_head = 4,
                                      .n_kv_head = 4,
                                      .head_dim = 2,
                                      .ffn = 8,
                                      .vocab = 8,
                                      .vocab_pad = 1,
                                      .n_shard = 4,
                                      .kind.bare = SPOT_BARE_ALL,
                                      .norm_elem = 2 };
    int64_t lo, hi;

    /* 8 hidden units of 2 x 8 elements in 4 shards: the ranks of 3 have 1, 1 and 2 shards */
    spot_layout_range(&shape, 1, SPOT_GROUP_FFN, 0, 3, &lo, &hi);
    ck_assert(lo == 0 && hi == 2 * 16);
    spot_layout_range(&shape, 1, SPOT_GROUP_FFN, 1, 3, &lo, &hi);
    ck_assert(lo == 2 * 16 && hi == 4 * 16);
    spot_layout_range(&shape, 1, SPOT_GROUP_FFN, 2, 3, &lo, &hi);
    ck_assert(lo == 4 * 16 && hi == 8 * 16);
    /* of heads, too; the norms are everybody's */
    spot_layout_range(&shape, 1, SPOT_GROUP_KV, 1, 2, &lo, &hi);
    ck_assert(lo == 2 * 2 * 2 * 8 && hi == 4 * 2 * 2 * 8);
    spot_layout_range(&shape, 1, SPOT_GROUP_REPLICATED, 1, 2, &lo, &hi);
    ck_assert(lo == 0 && hi == 16);
}
END_TEST

struct edit {
    const char *from, *to, *want;
};

static const struct edit bad_layout[] = {
    { "layout/1", "layout/2", "/schema: expected \"spot.layout/1\", got \"spot.layout/2\"" },
    { "\"model\"", "\"mode1\"", "/: lacks the key 'model'" },
    { "\"layers\": 5", "\"layers\": 0", "/model/layers: 0 is outside [1, 4096]" },
    { "\"kv_heads\": 2", "\"kv_heads\": 3", "/model/kv_heads: does not divide the 4 heads" },
    { "\"heads\": 4", "\"heads\": 16", "/model/heads: more heads than width" },
    { "\"layers\": 5, \"width\": 8, \"ffn\": 16",
      "\"layers\": 4096, \"width\": 1048576, \"ffn\": 4194304",
      "/model: more than 1e14 parameters" },
    { "\"grid\"", "\"gr1d\"", "/: lacks the key 'grid'" },
    { "\"D\": 2", "\"D\": 16384", "/grid: more than 16384 positions" },
    { "\"D\": 2", "\"D\": 2, \"M\": 8192", "/grid: more than 16384 positions" },
    { "\"D\": 2, \"P\": 2", "\"D\": 2, \"P\": 6", "/grid/P: more stages than the 5 layers" },
    { "\"stage_ends\": [2, 5]", "\"partition\": \"fair\"",
      "/partition: expected equal or balanced" },
    { "\"stage_ends\": [2, 5]", "\"partition\": 1", "/partition: expected equal or balanced" },
    { "[2, 5]", "[5]", "/stage_ends: expected 2 ends" },
    { "[2, 5]", "[0, 5]", "/stage_ends/0: ends must ascend to the number of layers, 5" },
    { "[2, 5]", "[5, 5]", "/stage_ends/0: ends must ascend to the number of layers, 5" },
    { "[2, 5]", "[2, 4]", "/stage_ends/1: ends must ascend to the number of layers, 5" },
    { "[2, 5]", "[\"2\", 5]", "/stage_ends/0: ends must ascend to the number of layers, 5" },
    { "\"components\"", "\"component5\"", "/: lacks the key 'components'" },
    { "\"byte_per_param\": 2", "\"byte_per_param\": 17",
      "/components/0/byte_per_param: 17 is outside [1, 16] byte" },
    { "\"name\": \"m\"", "\"name\": \"w16\"", "/components/1: named twice" },
    { "\"d\": 1, \"tokens\": 9", "\"d\": 2, \"tokens\": 9", "/kv/0: d is outside the grid" },
    { "\"tokens\": 9", "\"tokens\": -1", "/kv/0/tokens: -1 is outside [0, 1000000000]" },
    { "\"name\": \"b\"", "\"name\": \"a\"", "/kv: 'a' is named twice" },
    { "\"node\": \"x\"", "\"node\": 1", "/place/0/node: expected a string" },
    { "\"d\": 0, \"p\": 1", "\"d\": 0, \"p\": 2", "/place/0: outside the grid" },
    { "\"d\": 0, \"p\": 1", "\"d\": 0, \"p\": 1, \"m\": 1", "/place/0: outside the grid" },
    { "\"d\": 0, \"p\": 1", "\"d\": 1, \"p\": 0", "/place/1: a second node for this position" },
};

START_TEST(a_layout_that_cannot_be_is_refused_where_it_is)
{
    const struct edit *const e = &bad_layout[_i];
    struct spot_layout *const got = malloc(sizeof(*got));
    char *const text = edited(layout_text, e->from, e->to);
    struct spot_err err = { 0 };

    expect_refused_at(spot_layout_parse(got, text, strlen(text), "t", &err), &err, e->want);
    free(text), free(got);
}
END_TEST

START_TEST(too_many_layers_and_stages_are_not_balanced)
{
    struct spot_layout *const got = malloc(sizeof(*got));
    char *const rule = edited(layout_text, "\"stage_ends\": [2, 5]", "\"partition\": \"balanced\"");
    char *const layers = edited(rule, "\"layers\": 5", "\"layers\": 4096");
    char *const text = edited(layers, "\"P\": 2", "\"P\": 4096");
    struct spot_err err = { 0 };

    expect_refused_at(spot_layout_parse(got, text, strlen(text), "t", &err), &err,
                      "/partition: too many layers and stages to balance: name stage_ends");
    free(rule), free(layers), free(text), free(got);
}
END_TEST

/* --- clusters --- */

static const char cluster_text[] =
    "{\"schema\": \"spot.cluster/1\", \"rollback_s\": 60, \"links\": \"shared\", \"x\": 1,\n"
    "\"nodes\": [{\"node\": \"a\", \"out_byte_per_s\": 100, \"zone\": \"z1\", \"slots\": 2},\n"
    " {\"node\": \"b\", \"in_byte_per_s\": 50, \"leaving\": true, \"deadline_s\": 9},\n"
    " {\"node\": \"c\", \"in_byte_per_s\": 5, \"out_byte_per_s\": 7}],\n"
    "\"egress\": [{\"from\": \"z1\", \"to\": \"z2\", \"usd_per_gb\": 0.02}]}\n";

START_TEST(a_link_that_is_told_one_way_is_the_same_the_other_way)
{
    struct spot_cluster got;
    struct spot_err err = { 0 };
    char path[32];

    put_file(path, cluster_text, strlen(cluster_text));
    ck_assert_msg(!spot_cluster_load(&got, path, &err), "%s", err.msg);
    unlink(path);
    ck_assert(got.n_node == 3 && got.rollback_s == 60 && got.prefill_tokens_per_s == 0);
    ck_assert_str_eq(got.links, "shared");
    ck_assert_ptr_null(got.tensor_groups);
    ck_assert(got.node[0].in_byte_per_s == 100 && got.node[0].slots == 2);
    ck_assert(isinf(got.node[0].deadline_s) && !got.node[0].is_leaving);
    ck_assert(got.node[1].out_byte_per_s == 50 && got.node[1].slots == 1);
    ck_assert(got.node[1].is_leaving && got.node[1].deadline_s == 9);
    ck_assert_str_eq(got.node[1].zone, "");
    ck_assert(got.node[2].in_byte_per_s == 5 && got.node[2].out_byte_per_s == 7);
    ck_assert(got.n_egress == 1 && got.egress[0].usd_per_gb == 0.02);
    spot_cluster_release(&got);
    ck_assert_int_eq(spot_cluster_load(&got, path, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
}
END_TEST

static const struct edit bad_cluster[] = {
    { "cluster/1", "cluster/2", "/schema: expected \"spot.cluster/1\", got \"spot.cluster/2\"" },
    { "\"rollback_s\": 60", "\"rollback_s\": -1",
      "/rollback_s: -1 is outside [0, 1000000000000] s" },
    { "\"x\": 1", "\"prefill_tokens_per_s\": 1e-4",
      "/prefill_tokens_per_s: 0.0001 is neither 0, unknown, nor 0.001 or more" },
    { "\"x\": 1", "\"restore_byte_per_s\": 1e-9",
      "/restore_byte_per_s: 1e-09 is neither 0, unknown, nor 0.001 or more" },
    { "\"x\": 1", "\"tensor_groups\": \"near\"",
      "/tensor_groups: expected \"spread\" or \"whole\", got 'near'" },
    { "\"shared\"", "\"half\"", "/links: expected \"duplex\" or \"shared\", got 'half'" },
    { "\"nodes\"", "\"node5\"", "/: lacks the key 'nodes'" },
    { "\"node\": \"a\"", "\"node\": \"\"", "/nodes/0: a node without a name" },
    { "\"out_byte_per_s\": 100, ", "",
      "/nodes/0: lacks the key 'out_byte_per_s' or 'in_byte_per_s'" },
    { "\"out_byte_per_s\": 100", "\"out_byte_per_s\": 0",
      "/nodes/0/out_byte_per_s: 0 is outside [1, 1e+15] byte" },
    { "\"node\": \"c\"", "\"node\": \"a\"", "/nodes/2/node: 'a' is named twice" },
    { "\"usd_per_gb\": 0.02", "\"usd\": 1", "/egress/0: lacks the key 'usd_per_gb'" },
};

START_TEST(a_cluster_that_cannot_be_is_refused_where_it_is)
{
    const struct edit *const e = &bad_cluster[_i];
    char *const text = edited(cluster_text, e->from, e->to);
    struct spot_cluster got;
    struct spot_err err = { 0 };

    expect_refused_at(spot_cluster_parse(&got, text, strlen(text), "t", &err), &err, e->want);
    ck_assert_ptr_null(got.node);
    free(text);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, a_layout_that_cannot_be_is_refused_where_it_is, 0,
                        sizeof(bad_layout) / sizeof(bad_layout[0]));
    tcase_add_loop_test(tc, a_cluster_that_cannot_be_is_refused_where_it_is, 0,
                        sizeof(bad_cluster) / sizeof(bad_cluster[0]));
    add_tests(tc);
    return run_suite("layout_doc", tc);
}
