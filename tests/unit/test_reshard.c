/* SPDX-License-Identifier: MIT */
/* Goal: layouts that cannot be compared are refused with what is different; state that is cut over
 * many replicas and stages has each byte in one part, whose owner is the one that arithmetic
 * says. */
#include "doc_rig.h"
#include "plan/reshard.h"

static const char text[] =
    "{\"schema\":\"spot.layout/1\",\"model\":{\"layers\":16,\"width\":8,\"ffn\":16,\"heads\":4,"
    "\"vocab\":12},\"grid\":{\"D\":2,\"P\":2,\"M\":1},"
    "\"components\":[{\"name\":\"m\",\"byte_per_param\":4,\"zero\":true}],"
    "\"kv\":[{\"name\":\"chat\",\"d\":1,\"tokens\":9}]}";

static struct spot_layout *parsed(const char *json, const char *source)
{
    struct spot_layout *const layout = malloc(sizeof(*layout));
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_layout_parse(layout, json, strlen(json), source, &err), "%s", err.msg);
    return layout;
}

static void release(struct spot_layout *layout)
{
    spot_layout_release(layout);
    free(layout);
}

static const struct {
    const char *from, *to, *want;
} other[] = {
    { "\"layers\":16", "\"layers\":17", "the layouts are of different models: old and new" },
    { "\"vocab\":12", "\"vocab\":12,\"tied\":true",
      "the layouts are of different models: old and new" },
    { "\"vocab\":12", "\"vocab\":12,\"shards\":4",
      "the layouts are of different models: old and new" },
    { "\"byte_per_param\":4", "\"byte_per_param\":2",
      "component m has 4 bytes in the old layout, 2 in the new" },
    { "\"tokens\":9", "\"tokens\":8",
      "new:1:181: /kv/0: cache chat has 8 tokens of 2 bytes a number here, 9 of 2 in the old "
      "layout" },
    { "\"tokens\":9", "\"tokens\":9,\"byte\":1",
      "new:1:181: /kv/0: cache chat has 9 tokens of 1 bytes a number here, 9 of 2 in the old "
      "layout" },
};

START_TEST(what_differs_is_told)
{
    char *const json = edited(text, other[_i].from, other[_i].to);
    struct spot_layout *const old = parsed(text, "old"), *const new = parsed(json, "new");
    struct spot_reshard r;
    struct spot_err err = { 0 };

    expect_refused(spot_reshard_init(&r, old, new, &err), &err, other[_i].want);
    release(old);
    release(new);
    free(json);
}
END_TEST

START_TEST(layouts_too_large_to_compare_are_refused_before_the_work)
{
    char *const layers = edited(text, "\"layers\":16", "\"layers\":4096");
    char *const json = edited(layers, "\"P\":2,\"M\":1", "\"P\":4,\"M\":2048");
    struct spot_layout *const old = parsed(json, "old"), *const new = parsed(json, "new");
    struct spot_reshard r;
    struct spot_err err = { 0 };

    expect_refused(spot_reshard_init(&r, old, new, &err), &err,
                   "the layouts are too large to compare: 4096 layers, 2 x 4 x 2048 to 2 x 4 x "
                   "2048");
    release(old);
    release(new);
    free(layers), free(json);
}
END_TEST

/* A component that is cut over the replicas, from D x P to D' x P: every element has one holder and
 * one owner. */
START_TEST(a_thousand_parts_have_each_byte_once)
{
    enum { OLD = 64, NEW = 61, P = 8 };
    char *const none = edited(text, ",\"kv\":[{\"name\":\"chat\",\"d\":1,\"tokens\":9}]", "");
    char *const a = edited(none, "\"D\":2,\"P\":2", "\"D\":64,\"P\":8");
    char *const b = edited(none, "\"D\":2,\"P\":2", "\"D\":61,\"P\":8");
    struct spot_layout *const old = parsed(a, "old"), *const new = parsed(b, "new");
    struct spot_reshard r;
    struct spot_err err = { 0 };
    int64_t got[NEW * P] = { 0 }, sent[OLD * P] = { 0 };

    ck_assert_msg(!spot_reshard_init(&r, old, new, &err), "%s", err.msg);
    ck_assert_uint_gt(r.n_part, 900);
    for (size_t k = 0; k < r.n_part; k++) {
        const struct spot_reshard_part *const part = &r.part[k];

        ck_assert(part->n_holder == 1 && part->n_want == 1 && part->kv == -1);
        got[part->want[0]] += part->byte;
        sent[part->holder[0]] += part->byte;
    }
    for (int64_t p = 0; p < P; p++) {
        int64_t first, last, n = 0;

        spot_layout_stage(new, p, &first, &last);
        for (int64_t bundle = first; bundle <= last; bundle++)
            n += spot_shape_bundle_params(&new->model, bundle);
        for (int64_t d = 0; d < NEW; d++) {
            ck_assert_int_eq(got[d * P + p], 4 * ((d + 1) * n / NEW - d * n / NEW));
            ck_assert_int_eq(r.need_byte[d * P + p], got[d * P + p]);
        }
        for (int64_t d = 0; d < OLD; d++)
            ck_assert_int_eq(sent[d * P + p], 4 * ((d + 1) * n / OLD - d * n / OLD));
    }
    spot_reshard_release(&r);
    release(old);
    release(new);
    free(none), free(a), free(b);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, what_differs_is_told, 0, sizeof(other) / sizeof(other[0]));
    tcase_add_test(tc, layouts_too_large_to_compare_are_refused_before_the_work);
    tcase_add_test(tc, a_thousand_parts_have_each_byte_once);
    return run_suite("reshard", tc);
}
