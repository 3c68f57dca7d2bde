/* SPDX-License-Identifier: MIT */
/* Goal: a text is read as jansson reads it, right or broken; values are found by key and place. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/json_tree.h"
#include "suite.h"

static uint64_t state;

static unsigned pick(unsigned n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % n;
}

static void say(struct spot_buf *out, const char *text)
{
    spot_buf_add(out, text, strlen(text));
}

static void put_string(struct spot_buf *out, unsigned unique)
{
    static const char *const part[] = { "a",  "[{,:", "\\\"",           "\\\\", "\\u00e9", "é",
                                        "}]", " ",    "\\ud83d\\ude00", "\\n",  "\\/\\b" };
    char number[16];

    say(out, "\"");
    for (unsigned n = pick(4) ? pick(5) : pick(60); n; n--)
        say(out, part[pick(11)]);
    snprintf(number, sizeof(number), "%u", unique);
    say(out, number);
    say(out, "\"");
}

static void put_value(struct spot_buf *out, int depth)
{
    static const char *const scalar[] = { "0",
                                          "-12",
                                          "1.5e+3",
                                          "true",
                                          "false",
                                          "null",
                                          "9223372036854775807",
                                          "-0",
                                          "-9223372036854775808",
                                          "0.1",
                                          "5e-324" };
    static const char *const blank[] = { "", "", " ", "\n", "\t\r\n " };
    const unsigned kind = pick(depth ? 4 : 2);
    const bool is_object = kind == 2;
    unsigned n;

    if (kind == 0) {
        say(out, scalar[pick(11)]);
        return;
    }
    if (kind == 1) {
        put_string(out, pick(100));
        return;
    }
    n = pick(4) ? pick(6) : pick(40);
    say(out, is_object ? "{" : "[");
    for (unsigned i = 0; i < n; i++) {
        say(out, i ? "," : "");
        say(out, blank[pick(5)]);
        if (is_object) {
            put_string(out, 1000 + i);
            say(out, pick(2) ? ":" : " \n: ");
        }
        put_value(out, depth - 1);
        say(out, blank[pick(5)]);
    }
    say(out, is_object ? "}" : "]");
}

static void put_document(struct spot_buf *out)
{
    out->n = 0;
    say(out, "[");
    put_value(out, 5);
    say(out, "]");
}

/* The other reader's value is the same. */
static void check_same(const struct spot_json_value *v, const json_t *want)
{
    static const enum spot_json_kind kind[] = {
        [JSON_OBJECT] = SPOT_JSON_OBJECT, [JSON_ARRAY] = SPOT_JSON_ARRAY,
        [JSON_STRING] = SPOT_JSON_STRING, [JSON_INTEGER] = SPOT_JSON_INTEGER,
        [JSON_REAL] = SPOT_JSON_REAL,     [JSON_TRUE] = SPOT_JSON_TRUE,
        [JSON_FALSE] = SPOT_JSON_FALSE,   [JSON_NULL] = SPOT_JSON_NULL,
    };
    const char *key, *mine;
    json_t *member;
    size_t i = 0;

    ck_assert(spot_json_is(v, kind[json_typeof(want)]));
    ck_assert_uint_eq(spot_json_size(v), json_object_size(want) + json_array_size(want));
    ck_assert_int_eq(spot_json_integer(v), json_integer_value(want));
    ck_assert(spot_json_number(v) == json_number_value(want));
    if (json_is_string(want))
        ck_assert_str_eq(spot_json_text(v), json_string_value(want));
    else
        ck_assert_ptr_null(spot_json_text(v));
    for (size_t k = 0; k < json_array_size(want); k++)
        check_same(spot_json_entry(v, k), json_array_get(want, k));
    ck_assert_ptr_null(spot_json_entry(v, json_array_size(want)));
    json_object_foreach((json_t *)(uintptr_t)want, key, member)
    {
        const struct spot_json_value *const at = spot_json_member(v, i++, &mine);

        ck_assert_str_eq(mine, key);
        ck_assert_ptr_eq(spot_json_find(v, key, strlen(key)), at);
        ck_assert_ptr_null(spot_json_find(v, key, strlen(key) - 1));
        check_same(at, member);
    }
}

/* Built, or not, as jansson says; 1 when it was. */
static int check_text(const struct spot_buf *text)
{
    char *const copy = calloc(text->n + 1, 1);
    struct spot_json_wrong wrong = { 0 };
    struct spot_json_tree tree;
    json_t *want = json_loadb((const char *)text->data, text->n,
                              JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    int rc;

    memcpy(copy, text->data, text->n);
    if (want && memchr(copy, 0, text->n)) { /* jansson takes one after a number for a blank */
        json_decref(want);
        want = NULL;
    }
    rc = spot_json_tree_build(&tree, copy, text->n, 64, &wrong);
    ck_assert_msg((rc == 0) == (want != NULL), "'%.*s': %s", (int)text->n, (char *)text->data,
                  wrong.what);
    if (want)
        check_same(tree.value, want);
    else
        ck_assert(wrong.what[0] && wrong.at <= text->n);
    spot_json_tree_release(&tree);
    free(copy);
    json_decref(want);
    return rc == 0;
}

START_TEST(right_documents_are_read_as_another_reader_does)
{
    struct spot_buf text = { 0 };

    for (state = 1; state < 700000; state += 1000) {
        const uint64_t seed = state;

        put_document(&text);
        state = seed;
        ck_assert_int_eq(check_text(&text), 1);
    }
    spot_buf_release(&text);
}
END_TEST

START_TEST(broken_documents_are_refused_as_another_reader_does)
{
    static const char byte[] = "{}[],:\"\\ 1tn-\n\x01\xff.eEu0";
    struct spot_buf text = { 0 };
    int n_broken = 0;

    for (state = 7; state < 2500007; state += 1000) {
        const uint64_t seed = state;

        put_document(&text);
        for (unsigned n = 1 + pick(3); n; n--)
            text.data[pick((unsigned)text.n)] = (unsigned char)byte[pick(sizeof(byte))];
        if (!pick(4))
            text.n = 1 + pick((unsigned)text.n);
        state = seed;
        n_broken += !check_text(&text);
    }
    ck_assert_int_gt(n_broken, 1000);
    spot_buf_release(&text);
}
END_TEST

START_TEST(corners_of_the_grammar)
{
    static const char *const text[] = { "0",
                                        "-0",
                                        "-",
                                        "01",
                                        "1.",
                                        ".5",
                                        "1e",
                                        "1e5",
                                        "1E+05",
                                        "1e400",
                                        "-1e400",
                                        "1e-400",
                                        "nan",
                                        "Infinity",
                                        "tru",
                                        "true1",
                                        "\"",
                                        "\"\\u12\"",
                                        "\"\\u0000\"",
                                        "\"\\ud800\"",
                                        "\"\\udc00\"",
                                        "\"\\ud800\\u0041\"",
                                        "\"\\uD83D\\uDE00\"",
                                        "\"\\x\"",
                                        "\"\t\"",
                                        "\"\xed\xa0\x80\"",
                                        "\"\xc0\xaf\"",
                                        "\"\x7f\"",
                                        "[1,]",
                                        "[,1]",
                                        "{\"a\"}",
                                        "{\"a\":1,}",
                                        "{a:1}",
                                        "[1 2]",
                                        "{\"a\":1 \"b\":2}",
                                        "[1}",
                                        "{\"a\":1]",
                                        "[]]",
                                        "[] []",
                                        "{\"a\":1,\"\\u0061\":2}",
                                        "{\"\":1,\"\":2}",
                                        "",
                                        " ",
                                        "\"\\",
                                        "\"\\u",
                                        "{\"a\"",
                                        "{\"a\":",
                                        "[[[]]",
                                        "\"\\/\\b\\f\\n\\r\\t\\\\\\\"\"",
                                        "-1.0e-0",
                                        "- 1" };

    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
        struct spot_buf b = { 0 };

        say(&b, text[i]);
        (void)spot_buf_more(&b, 1);
        check_text(&b);
        spot_buf_release(&b);
    }
}
END_TEST

START_TEST(nulls_go_and_the_rest_is_still_found)
{
    for (unsigned n = 0; n < 60; n++) {
        struct spot_json_wrong wrong;
        struct spot_json_tree tree;
        char text[2048] = "{", key[16];

        for (unsigned i = 0; i < n; i++)
            sprintf(text + strlen(text), "%s\"k%u\":%s", i ? "," : "", (i * 37) % n,
                    i % 3 ? "[[7],1]" : "null");
        strcat(text, "}");
        ck_assert_int_eq(spot_json_tree_build(&tree, text, strlen(text), 64, &wrong),
                         n == 37 ? -1 : 0);
        if (n == 37) /* all are k0 */
            continue;
        spot_json_drop_nulls(tree.value);
        ck_assert_uint_eq(spot_json_size(tree.value), n - (n + 2) / 3);
        for (unsigned i = 0; i < n; i++) {
            const struct spot_json_value *v;

            sprintf(key, "k%u", (i * 37) % n);
            v = spot_json_find(tree.value, key, strlen(key));
            ck_assert_int_eq(v != NULL, i % 3 != 0);
            if (v)
                ck_assert_int_eq(spot_json_integer(spot_json_entry(spot_json_entry(v, 0), 0)), 7);
        }
        spot_json_tree_release(&tree);
    }
}
END_TEST

int main(void)
{
    return run_suite("json_tree", add_tests(tcase_create("core")));
}
