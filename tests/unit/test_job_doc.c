/* SPDX-License-Identifier: MIT */
/* Goal: what the reader of spot.job/1 accepts is a job within its bounds, everything else is
 * refused with its place, and what is written is read back as the same job. Oracles: the published
 * parameter count of GPT-2, documents written by hand. */
#include <string.h>

#include "model/job_doc.h"
#include "suite.h"

#define HEAD     "{\"schema\":\"spot.job/1\",\"name\":\"j\",\"kind\":\"train\","
#define JOB(...) HEAD "\"global_batch\":8," __VA_ARGS__ "}"

static const struct bad_case {
    const char *text, *message;
} bad_cases[] = {
    { "[]", "expected an object" },
    { "{\"schema\":\"spot.plan/1\"}", "/schema: expected \"spot.job/1\", got \"spot.plan/1\"" },
    { "{\"schema\":\"spot.job/2\"}", "/schema: expected \"spot.job/1\", got \"spot.job/2\"" },
    { HEAD "\"micro_batch\":1}", "lacks the key 'global_batch'" },
    { "{\"schema\":\"spot.job/1\",\"name\":\"j\",\"global_batch\":8}", "lacks the key 'kind'" },
    { "{\"schema\":\"spot.job/1\",\"name\":\"j\",\"kind\":\"eat\",\"global_batch\":8}",
      "/kind: expected \"train\" or \"serve\"" },
    { JOB("\"seq\":0"), "/seq: 0 is outside [1, 16777216]" },
    { JOB("\"seq\":1,\"seq\":2"), "duplicate" },
    { JOB("\"instance_type\":4"), "/instance_type: expected a string" },
    { JOB("\"model\":{\"layers\":2}"), "/model: lacks the key 'width'" },
    { JOB("\"model\":{\"layers\":2,\"width\":8,\"ffn\":8}"), "/model: give both kv_heads and ffn" },
    { JOB("\"model\":{\"layers\":2,\"width\":8,\"heads\":4,\"kv_heads\":3,\"ffn\":8}"),
      "/model: kv_heads (3) divides heads (4), and heads width (8)" },
    { JOB("\"model\":{\"layers\":2,\"width\":8,\"kv_heads\":3,\"ffn\":8}"),
      "/model: kv_heads (3) divides heads (0), and heads width (8)" },
    { JOB("\"model\":{\"layers\":2,\"width\":8,\"recompute\":\"all\"}"),
      "/model/recompute: expected none, attention, mlp or layer, got 'all'" },
    { JOB("\"model\":{\"layers\":2,\"width\":8,\"recompute\":\"none\"}"), "heads is missing" },
    { JOB("\"layers\":{}"), "/layers: expected an array" },
    { JOB("\"layers\":[{\"params\":-1}]"), "/layers/0/params: -1 is outside [0, 1e+15]" },
    { JOB("\"layers\":[{\"params\":1,\"count\":1024},{\"params\":1}]"),
      "/layers/1: more than 1024 layers in all" },
    { JOB("\"profile\":[{\"D\":1,\"step_s\":1}]"), "/profile/0: lacks the key 'P'" },
    { JOB("\"profile\":[{\"D\":1,\"P\":1}]"),
      "/profile/0: lacks step_s, samples_per_s and latency_s" },
    { JOB("\"profile\":[{\"D\":1,\"P\":1,\"step_s\":0}]"), "/profile/0/step_s: 0 is outside" },
    { JOB("\"memory\":{\"P_min\":4,\"P_max\":3}"), "/memory: P_max 3 is below P_min 4" },
    { JOB("\"memory\":{\"P_min\":4},\"layers\":[{\"params\":1}]"),
      "/memory: P_max 1 is below P_min 4" },
    { JOB("\"memory\":{\"P_skip\":[2,0]}"), "/memory/P_skip/1: expected an integer in [1, 4096]" },
    { JOB("\"cost\":{\"usd_per_h\":-1}"), "/cost/usd_per_h: -1 is outside [0, 1000000]" },
    { JOB("\"cost\":{\"interval_s\":0}"), "/cost/interval_s: 0 is outside" },
    { JOB("\"cost\":{\"look_ahead\":0}"), "/cost/look_ahead: 0 is outside [1, 256]" },
    { JOB("\"cost\":{\"p2p\":[{\"byte\":8,\"s\":1},{\"byte\":8,\"s\":2}]}"),
      "/cost/p2p/1: byte does not ascend" },
    { JOB("\"cost\":{\"build\":[{\"P\":2,\"s\":1},{\"P\":1,\"s\":2}]}"),
      "/cost/build/1: P does not ascend" },
    { JOB("\"cost\":{\"regroup\":[{\"D_from\":0,\"add_s\":1}]}"),
      "/cost/regroup/0: lacks the key 'remove_s'" },
};

static int parse(struct spot_job_doc *job, const char *text, struct spot_err *err)
{
    return spot_job_doc_parse(job, text, strlen(text), "t", err);
}

START_TEST(refuses_malformed_with_its_place)
{
    const struct bad_case *c = &bad_cases[_i];
    struct spot_err err = { 0 };
    struct spot_job_doc job;

    ck_assert_int_eq(parse(&job, c->text, &err), -1);
    ck_assert_msg(strstr(err.msg, c->message) != NULL, "%s\nlacks: %s", err.msg, c->message);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_null(job.layer);
}
END_TEST

START_TEST(absent_keys_take_their_defaults)
{
    struct spot_err err = { 0 };
    struct spot_job_doc job;

    ck_assert_msg(!parse(&job, JOB("\"unknown\":[1]"), &err), "%s", err.msg);
    ck_assert(job.micro_batch == 1 && job.seq == 1 && !job.n_layer && !job.n_profile);
    ck_assert(!job.instance_type && !job.source && !job.cost.is_given);
    ck_assert(job.memory.p_min == 1 && job.memory.p_max == SPOT_GRID_MAX && job.memory.d_min == 1);
    ck_assert(job.memory.state_byte_per_param == 16 && job.cost.move_byte_per_param == 12);
    ck_assert(job.cost.usd_per_h < 0 && job.cost.on_demand_usd_per_h < 0);
    ck_assert(job.cost.interval_s == 60 && job.cost.look_ahead == 12);
    spot_job_doc_release(&job);
}
END_TEST

START_TEST(a_count_repeats_a_layer_and_samples_give_a_step_time)
{
    struct spot_err err = { 0 };
    static const double want[] = { 1, 5, 5, 5, 2 };
    struct spot_job_doc job;

    ck_assert_msg(!parse(&job,
                         JOB("\"layers\":[{\"params\":1},{\"params\":5,\"count\":3},{\"params\":2}"
                             "],\"profile\":[{\"D\":2,\"P\":1,\"samples_per_s\":4}]"),
                         &err),
                  "%s", err.msg);
    ck_assert_uint_eq(job.n_layer, 5);
    for (size_t i = 0; i < 5; i++)
        ck_assert_double_eq(job.layer[i].params, want[i]);
    ck_assert_int_eq(job.memory.p_max, 5);
    ck_assert_double_eq(job.profile[0].step_s, 2); /* 8 samples at 4 per second */
    spot_job_doc_release(&job);
}
END_TEST

START_TEST(a_model_has_the_parameters_of_its_kind)
{
    struct spot_err err = { 0 };
    struct spot_job_doc job;
    double sum = 0;

    ck_assert_msg(!parse(&job,
                         JOB("\"seq\":1024,\"model\":{\"layers\":12,\"width\":768,\"heads\":12,"
                             "\"vocab\":50257}"),
                         &err),
                  "%s", err.msg);
    for (size_t i = 0; i < job.n_layer; i++)
        sum += job.layer[i].params;
    /* GPT-2 small as published, and a head of its own in place of the shared one */
    ck_assert_double_eq(sum, 124439808.0 + 50257.0 * 768);
    spot_job_doc_release(&job);
    ck_assert_msg(!parse(&job,
                         JOB("\"seq\":8192,\"model\":{\"layers\":32,\"width\":4096,"
                             "\"heads\":32,\"kv_heads\":8,\"ffn\":14336,\"vocab\":128256}"),
                         &err),
                  "%s", err.msg);
    sum = 0;
    for (size_t i = 0; i < job.n_layer; i++)
        sum += job.layer[i].params;
    ck_assert_double_eq(sum, 8030261248.0); /* Llama 3 8B as published */
    spot_job_doc_release(&job);
    ck_assert_msg(!parse(&job,
                         JOB("\"seq\":8192,\"model\":{\"layers\":28,\"width\":1024,"
                             "\"heads\":16,\"kv_heads\":8,\"head_dim\":128,\"ffn\":3072,"
                             "\"vocab\":151936}"),
                         &err),
                  "%s", err.msg);
    sum = 0;
    for (size_t i = 0; i < job.n_layer; i++)
        sum += job.layer[i].params;
    /* Qwen 3 0.6B as published, but for its norms of queries and keys, and with a head of its own
     */
    ck_assert_double_eq(sum, 596049920.0 - 28 * 256 + 151936.0 * 1024);
    spot_job_doc_release(&job);
}
END_TEST

/* Per layer, of the published models: Korthikanti et al. 2022 have 5 a s / h = 80 for GPT-3. */
static const struct activation_case {
    const char *text;
    double embedding, layer, head;
} activation_cases[] = {
    { JOB("\"seq\":2048,\"model\":{\"layers\":96,\"width\":12288,\"heads\":96,\"vocab\":51200,"
          "\"recompute\":\"none\"}"),
      2048.0 * 12288, 2048.0 * 12288 * (34 + 80), 4 * 2048.0 * (12288 + 51200) },
    { JOB("\"seq\":2048,\"micro_batch\":3,\"model\":{\"layers\":96,\"width\":12288,\"heads\":96,"
          "\"vocab\":51200}"),
      3 * 2048.0 * 12288, 3 * 2048.0 * 12288 * 34, 3 * 4 * 2048.0 * (12288 + 51200) },
    { JOB("\"seq\":2048,\"model\":{\"layers\":96,\"width\":12288,\"vocab\":51200,"
          "\"recompute\":\"layer\"}"),
      2048.0 * 12288, 2048.0 * 12288 * 2, 4 * 2048.0 * (12288 + 51200) },
    { JOB("\"seq\":8192,\"model\":{\"layers\":32,\"width\":4096,\"heads\":32,\"kv_heads\":8,"
          "\"ffn\":14336,\"vocab\":128256,\"recompute\":\"attention\"}"),
      0, 8192.0 * (49152 + 4096 + 114688), 4 * 8192.0 * (4096 + 128256) },
    { JOB("\"seq\":2048,\"model\":{\"layers\":96,\"width\":12288,\"vocab\":51200,"
          "\"recompute\":\"mlp\"}"),
      2048.0 * 12288, 2048.0 * 12288 * 18, 4 * 2048.0 * (12288 + 51200) },
    { JOB("\"seq\":8192,\"model\":{\"layers\":32,\"width\":4096,\"heads\":32,\"kv_heads\":8,"
          "\"ffn\":14336,\"vocab\":128256,\"recompute\":\"mlp\"}"),
      0, 8192.0 * (49152 + 4096), 4 * 8192.0 * (4096 + 128256) },
};

START_TEST(a_model_keeps_the_activations_of_the_published_formula)
{
    const struct activation_case *c = &activation_cases[_i];
    struct spot_err err = { 0 };
    struct spot_job_doc job;

    ck_assert_msg(!parse(&job, c->text, &err), "%s", err.msg);
    ck_assert_double_eq(job.layer[0].activation_byte, c->embedding);
    for (size_t i = 1; i + 1 < job.n_layer; i++)
        ck_assert_double_eq(job.layer[i].activation_byte, c->layer);
    ck_assert_double_eq(job.layer[job.n_layer - 1].activation_byte, c->head);
    spot_job_doc_release(&job);
}
END_TEST

static const char *const documents[] = {
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL, /* the shipped jobs */
    JOB("\"source\":\"s\",\"instance_type\":\"p3.2xlarge\",\"model\":{\"layers\":2,\"width\":8,"
        "\"recompute\":\"layer\"}"),
    /* a zero that is not the default; layers beside a model */
    JOB("\"cost\":{\"usd_per_h\":0,\"move_byte_per_param\":0},\"memory\":{\"state_byte_per_param\":"
        "0},\"model\":{\"layers\":1,\"width\":8},\"layers\":[{\"params\":3,\"forward_s\":0.5}]"),
    "{\"schema\":\"spot.job/1\",\"name\":\"\\u00e9\\\"\",\"kind\":\"serve\",\"global_batch\":1,"
    "\"serve\":{\"layers\":2,\"max_batch\":1,\"prompt_tokens\":1,\"output_tokens\":1,\"cells\":"
    "[{\"M\":1,\"B\":1,\"prefill_s\":1,\"decode_s\":2}]},"
    "\"profile\":[{\"D\":1,\"P\":2,\"M\":4,\"B\":8,\"latency_s\":0.25,\"outlier\":true}],"
    "\"memory\":{\"P_skip\":[3,5],\"P_max\":7}}",
};

static char *write(const struct spot_job_doc *job)
{
    struct spot_err err = { 0 };
    size_t n;
    char *text;
    FILE *out = open_memstream(&text, &n);

    ck_assert_msg(!spot_job_doc_write(job, NULL, out, &err), "%s", err.msg);
    fclose(out);
    return text;
}

static void same_job(const struct spot_job_doc *a, const struct spot_job_doc *b)
{
    const struct spot_job_cost x = a->cost, y = b->cost;

    ck_assert_str_eq(a->name, b->name);
    ck_assert(!a->instance_type == !b->instance_type && !a->source == !b->source);
    ck_assert(a->kind == b->kind && a->global_batch == b->global_batch && a->seq == b->seq);
    ck_assert_uint_eq(a->n_layer, b->n_layer);
    ck_assert(!a->n_layer || !memcmp(a->layer, b->layer, a->n_layer * sizeof(*a->layer)));
    ck_assert_uint_eq(a->n_profile, b->n_profile);
    for (size_t i = 0; i < a->n_profile; i++) {
        ck_assert(!memcmp(&a->profile[i].grid, &b->profile[i].grid, sizeof(a->profile[i].grid)));
        ck_assert_double_eq(a->profile[i].step_s, b->profile[i].step_s);
        ck_assert(a->profile[i].is_outlier == b->profile[i].is_outlier);
    }
    ck_assert_double_eq(a->memory.state_byte_per_param, b->memory.state_byte_per_param);
    ck_assert(a->memory.p_max == b->memory.p_max && a->memory.n_p_skip == b->memory.n_p_skip);
    ck_assert(x.n_p2p == y.n_p2p && x.n_build == y.n_build && x.n_regroup == y.n_regroup);
    ck_assert(!x.n_p2p || !memcmp(x.p2p, y.p2p, x.n_p2p * sizeof(*x.p2p)));
    ck_assert(!x.n_build || !memcmp(x.build, y.build, x.n_build * sizeof(*x.build)));
    ck_assert(!x.n_regroup || !memcmp(x.regroup, y.regroup, x.n_regroup * sizeof(*x.regroup)));
    ck_assert(x.usd_per_h == y.usd_per_h && x.move_byte_per_param == y.move_byte_per_param);
    ck_assert(x.is_given == y.is_given && x.checkpoint_s == y.checkpoint_s);
}

START_TEST(what_is_written_is_the_same_job)
{
    static const char *const shipped[] = { "gpt-1.5b",  "gpt-6.7b", "bert",
                                           "resnet152", "vgg19",    "demo" };
    struct spot_err err = { 0 };
    struct spot_job_doc first, second;
    char path[64], *once, *twice;
    int rc;

    if (documents[_i]) {
        rc = parse(&first, documents[_i], &err);
    } else {
        snprintf(path, sizeof(path), "examples/jobs/%s.json", shipped[_i]);
        rc = spot_job_doc_load(&first, path, &err);
    }
    ck_assert_msg(!rc, "%s", err.msg);
    once = write(&first);
    ck_assert_msg(!parse(&second, once, &err), "%s", err.msg);
    same_job(&first, &second);
    twice = write(&second);
    ck_assert_str_eq(once, twice);
    free(once);
    free(twice);
    spot_job_doc_release(&first);
    spot_job_doc_release(&second);
}
END_TEST

static char doubts[512];

static void tell(const char *sentence)
{
    strncat(doubts, sentence, sizeof(doubts) - strlen(doubts) - 2);
    strcat(doubts, "\n");
}

/* Unknown keys are legal; one that looks like a known one, which is not there, is asked about. */
START_TEST(a_key_that_was_typed_wrong_is_asked_about)
{
    static const struct {
        const char *text, *want;
    } typed[] = {
        { JOB("\"seq\":1"), "" },
        { JOB("\"colour\":1"), "" },
        { JOB("\"sep\":1"), "" }, /* too short to tell */
        { JOB("\"micro_bach\":1"), "/micro_bach: unknown key; did you mean 'micro_batch'?\n" },
        { JOB("\"micro_bach\":1,\"micro_batch\":1"), "" },
        { JOB("\"model\":{\"layers\":2,\"widthh\":1,\"width\":8,\"heads\":2,\"vocabulary\":4}"),
          "/model/vocabulary: unknown key; did you mean 'vocab'?\n" },
        { JOB("\"layers\":[{\"params\":1},{\"params\":1,\"coun\":2}]"),
          "/layers/1/coun: unknown key; did you mean 'count'?\n" },
    };

    for (size_t i = 0; i < sizeof(typed) / sizeof(typed[0]); i++) {
        struct spot_job_doc job;
        struct spot_err err = { 0 };

        ck_assert_msg(!parse(&job, typed[i].text, &err), "%s", err.msg);
        *doubts = '\0';
        spot_job_doc_warn_misspelt(&job, tell);
        ck_assert_str_eq(doubts, typed[i].want);
        spot_job_doc_release(&job);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, refuses_malformed_with_its_place, 0,
                        sizeof(bad_cases) / sizeof(*bad_cases));
    tcase_add_loop_test(tc, a_model_keeps_the_activations_of_the_published_formula, 0,
                        sizeof(activation_cases) / sizeof(*activation_cases));
    tcase_add_loop_test(tc, what_is_written_is_the_same_job, 0,
                        sizeof(documents) / sizeof(*documents));
    add_tests(tc);
    return run_suite("job_doc", tc);
}
