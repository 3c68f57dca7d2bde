/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "suite.h"

struct stage {
    int64_t n_layer;
    const char *gpu;
    double step_s;
    bool is_last;
    int64_t exact;
};

static const struct spot_field stage_field[] = {
    { "layers", SPOT_F_INT, offsetof(struct stage, n_layer), "1", 1, 4096, true },
    { "gpu", SPOT_F_STR, offsetof(struct stage, gpu), NULL, 0, 0, true },
    { "step_s", SPOT_F_REAL, offsetof(struct stage, step_s), "s", 0, 1e6, false },
    { "is_last", SPOT_F_BOOL, offsetof(struct stage, is_last), NULL, 0, 0, false },
    { "exact", SPOT_F_INT, offsetof(struct stage, exact), "1", -0x1p53, 0x1p53, false },
    { 0 },
};

static int load(struct spot_json_doc *doc, const char *text, struct spot_err *err)
{
    const size_t n = strlen(text);
    /* fmemopen only reads here. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    FILE *in = n ? fmemopen((void *)(uintptr_t)text, n, "r") : fopen("/dev/null", "r");
    int rc;

    ck_assert_ptr_nonnull(in);
    rc = spot_json_load(doc, in, "t", err);
    fclose(in);
    return rc;
}

static int load_stage(struct spot_json_doc *doc, const char *text, struct stage *stage,
                      struct spot_err *err)
{
    const struct spot_json_value *obj;

    if (load(doc, text, err) || spot_json_expect_schema(doc, "spot.t", 1, err))
        return -1;
    obj = spot_json_entry(spot_json_get(doc->root, "stages"), 1);
    return spot_json_read_fields(doc, obj, "/stages/1", stage_field, stage, err);
}

#define DOC(stage) \
    "{\"schema\":\"spot.t/1\",\n\"stages\":[{\"a\":[1,{\"b\":\"}]\"}]},\n  " stage "]}"

/* Goal: every wrong document is refused with its exact place. */
static const struct bad_case {
    const char *text;
    const char *message;
} bad_cases[] = {
    { "", "t: empty input, expected a JSON document" },
    { "[]", "t:1:1: expected an object" },
    { "{\"schema\":\"spot.t/2\"}", "t:1:11: /schema: expected \"spot.t/1\", got \"spot.t/2\"" },
    { "{}", "t:1:1: /: lacks the key 'schema', expected \"spot.t/1\"" },
    { "{\"a\":1,\"a\":2}", "t:1:8: duplicate key 'a'" },
    { "{\"a\":1} x", "t:1:9: expected the end, got 'x'" },
    { DOC("{\"gpu\":\"A\"}"), "t:3:3: /stages/1: lacks the key 'layers'" },
    { DOC("{\"gpu\":\"A\", \"layers\": 2.5}"), "t:3:25: /stages/1/layers: expected an integer" },
    { DOC("{\"gpu\":\"A\", \"layers\": -4}"), "t:3:25: /stages/1/layers: -4 is outside [1, 4096]" },
    { DOC("{\"layers\": 9223372036854775807}"),
      "t:3:14: /stages/1/layers: 9223372036854775807 is outside [1, 4096]" },
    { DOC("{\"gpu\":\"A\", \"layers\": 1, \"exact\": 9007199254740993}"),
      "t:3:37: /stages/1/exact: 9007199254740993 is outside [-9007199254740992, "
      "9007199254740992]" },
    { DOC("{\"gpu\":\"A\", \"layers\": 1, \"exact\": -9007199254740993}"),
      "t:3:37: /stages/1/exact: -9007199254740993 is outside [-9007199254740992, "
      "9007199254740992]" },
    { DOC("7"), "t:3:3: /stages/1: expected an object" },
};

START_TEST(refuses_wrong_documents_with_place_and_pointer)
{
    const struct bad_case *c = &bad_cases[_i];
    struct spot_json_doc doc = { 0 };
    struct spot_err err = { 0 };
    struct stage stage = { 0 };

    ck_assert_int_eq(load_stage(&doc, c->text, &stage, &err), -1);
    ck_assert_str_eq(err.msg, c->message);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    spot_json_release(&doc);
}
END_TEST

START_TEST(refuses_a_nul_byte_after_a_number)
{
    static const char text[] = "{\"a\":\n[1\0, 2]}";
    struct spot_json_doc doc;
    struct spot_err err;

    ck_assert_int_eq(spot_json_parse(&doc, text, sizeof text - 1, "t", &err), -1);
    ck_assert_str_eq(err.msg, "t:2:3: a NUL byte");
}
END_TEST

START_TEST(refuses_deep_nesting_before_parsing)
{
    char text[512] = { 0 };
    struct spot_json_doc doc;
    struct spot_err err = { 0 };

    memset(text, '[', 100);
    ck_assert_int_eq(load(&doc, text, &err), -1);
    ck_assert_str_eq(err.msg, "t:1:65: nested deeper than 64");
}
END_TEST

START_TEST(what_is_written_reads_back_to_the_same_bytes)
{
    const struct stage before = { .n_layer = 12, .gpu = "A \"100\"", .step_s = 0.1 };
    struct stage after = { 0 };
    struct spot_json_doc doc;
    struct spot_err err = { 0 };
    char text[2][256] = { { 0 } };

    for (int i = 0; i < 2; i++) {
        FILE *out = fmemopen(text[i], sizeof(text[i]) - 1, "w");
        struct spot_jw jw;

        spot_jw_init(&jw, out, false);
        spot_jw_object(&jw, NULL);
        spot_jw_fields(&jw, stage_field, i ? &after : &before);
        spot_jw_end(&jw);
        ck_assert_int_eq(spot_jw_close(&jw, &err), 0);
        fclose(out);
        if (i == 0) {
            ck_assert_msg(load(&doc, text[0], &err) == 0, "%s", err.msg);
            ck_assert_int_eq(spot_json_read_fields(&doc, doc.root, "", stage_field, &after, &err),
                             0);
        }
    }
    ck_assert_str_eq(text[0], text[1]);
    ck_assert_str_eq(
        text[0],
        "{\"layers\":12,\"gpu\":\"A \\\"100\\\"\",\"step_s\":0.1,\"is_last\":false,\"exact\":0}\n");
    spot_json_release(&doc);
}
END_TEST

START_TEST(text_that_is_no_utf8_is_written_as_replacement_characters)
{
    static const struct {
        const char *text, *json;
    } of[] = { { "gr\xc3\xb6\xc3\x9f.", "\"gr\xc3\xb6\xc3\x9f.\"\n" },
               { "\xff", "\"\xef\xbf\xbd\"\n" },
               { "a\xc3", "\"a\xef\xbf\xbd\"\n" },
               { "\xc0\xaf|", "\"\xef\xbf\xbd\xef\xbf\xbd|\"\n" },
               { "\x01\t\"\\", "\"\\u0001\\u0009\\\"\\\\\"\n" } };

    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        char text[64] = { 0 };
        FILE *out = fmemopen(text, sizeof(text) - 1, "w");
        struct spot_jw jw;

        spot_jw_init(&jw, out, false);
        spot_jw_str(&jw, NULL, of[i].text);
        ck_assert_int_eq(spot_jw_close(&jw, NULL), 0);
        fclose(out);
        ck_assert_str_eq(text, of[i].json);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, refuses_wrong_documents_with_place_and_pointer, 0,
                        sizeof(bad_cases) / sizeof(bad_cases[0]));
    add_tests(tc);
    return run_suite("json", tc);
}
