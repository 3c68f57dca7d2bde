/* SPDX-License-Identifier: MIT */
/* Goal: what a document will take is known before it is parsed, for right and for broken ones. The
 * oracle is jansson with an allocator that counts. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/json.h"
#include "common/json_scan.h"
#include "suite.h"

static size_t live, peak;

static size_t chunk(size_t n)
{
    const size_t whole = (n + 8 + 15) & ~(size_t)15;

    return whole < 32 ? 32 : whole;
}

static void *counted_malloc(size_t n)
{
    size_t *const at = malloc(16 + n);

    *at = chunk(n);
    live += *at;
    peak = live > peak ? live : peak;
    return (char *)at + 16;
}

static void counted_free(void *p)
{
    if (!p)
        return;
    live -= *(size_t *)(void *)((char *)p - 16);
    free((char *)p - 16);
}

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
    static const char *const part[] = { "a", "[{,:", "\\\"", "\\\\", "\\u00e9", "é", "}]", " " };
    char number[16];

    say(out, "\"");
    for (unsigned n = pick(4) ? pick(5) : pick(60); n; n--)
        say(out, part[pick(8)]);
    snprintf(number, sizeof(number), "%u", unique);
    say(out, number);
    say(out, "\"");
}

static void put_value(struct spot_buf *out, int depth)
{
    static const char *const scalar[] = { "0", "-12", "1.5e+3", "true", "false", "null", "7" };
    static const char *const blank[] = { "", "", " ", "\n", "\t\r\n " };
    const unsigned kind = pick(depth ? 4 : 2);
    const bool is_object = kind == 2;
    unsigned n;

    if (kind == 0) {
        say(out, scalar[pick(7)]);
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

static uint64_t n_document(uint64_t of)
{
    return is_long() ? of : of / 10;
}

static void put_document(struct spot_buf *out)
{
    out->n = 0;
    say(out, "[");
    put_value(out, 5);
    say(out, "]");
}

START_TEST(a_right_document_takes_what_was_counted)
{
    struct spot_buf text = { 0 };

    json_set_alloc_funcs(counted_malloc, counted_free);
    for (state = 1; state < n_document(3000) * 1000; state += 1000) {
        const uint64_t seed = state;
        struct spot_err err = { 0 };
        size_t tree = 0;
        json_t *root;

        put_document(&text);
        state = seed;
        ck_assert_msg(
            !spot_json_scan((const char *)text.data, text.n, 64, SIZE_MAX, "t", 1, &tree, &err),
            "%s", err.msg);
        live = peak = 0;
        root = json_loadb((const char *)text.data, text.n, JSON_REJECT_DUPLICATES, NULL);
        ck_assert_ptr_nonnull(root);
        ck_assert_msg(live <= tree, "seed %llu: %zu bytes, counted %zu", (unsigned long long)seed,
                      live, tree);
        ck_assert_msg(tree <= 2 * live + 64, "seed %llu: %zu bytes, counted %zu",
                      (unsigned long long)seed, live, tree);
        ck_assert_msg(peak <= tree + 3 * text.n + 512, "seed %llu", (unsigned long long)seed);
        json_decref(root);
        ck_assert_uint_eq(live, 0);
        /* the limit is that number, to the byte */
        ck_assert(!spot_json_scan((const char *)text.data, text.n, 64, tree, "t", 1, NULL, &err));
        ck_assert(
            spot_json_scan((const char *)text.data, text.n, 64, tree - 1, "t", 1, NULL, &err));
        ck_assert_int_eq(err.code, SPOT_EDATA);
    }
    json_set_alloc_funcs(malloc, free);
    spot_buf_release(&text);
}
END_TEST

START_TEST(a_broken_document_takes_no_more_than_was_counted)
{
    static const char byte[] = "{}[],:\"\\ 1tn-\n\x01\xff";
    struct spot_buf text = { 0 };
    int n_broken = 0;

    json_set_alloc_funcs(counted_malloc, counted_free);
    for (state = 7; state < n_document(5000) * 1000 + 7; state += 1000) {
        const uint64_t seed = state;
        size_t tree = 0;
        json_t *root;

        put_document(&text);
        for (unsigned n = 1 + pick(3); n; n--)
            text.data[pick((unsigned)text.n)] = (unsigned char)byte[pick(sizeof(byte) - 1)];
        if (!pick(4))
            text.n = 1 + pick((unsigned)text.n);
        state = seed;
        if (spot_json_scan((const char *)text.data, text.n, 64, SIZE_MAX, "t", 1, &tree, NULL))
            continue; /* deeper than any right one */
        live = peak = 0;
        root = json_loadb((const char *)text.data, text.n, JSON_REJECT_DUPLICATES, NULL);
        n_broken += !root;
        ck_assert_msg(peak <= tree + 3 * text.n + 512, "seed %llu: %zu bytes, counted %zu of %zu",
                      (unsigned long long)seed, peak, tree, text.n);
        json_decref(root);
    }
    ck_assert_uint_gt((uint64_t)n_broken, n_document(2000));
    json_set_alloc_funcs(malloc, free);
    spot_buf_release(&text);
}
END_TEST

/* Each of these took up to eighty times its length. */
START_TEST(a_document_of_small_values_is_refused_before_it_is_built)
{
    static const char *const unit[] = { "{},", "[],", "\"\",", "1,", "{\"\":1},", "[[[]]],\n" };
    const size_t n = (size_t)8 << 20, n_unit = strlen(unit[_i]);
    struct spot_err err = { 0 };
    struct spot_json_doc doc;
    char *text = malloc(n);
    size_t at = (size_t)sprintf(text, "{\"a\": 1,\n\"zz\":[");

    for (; at + n_unit + 8 < n; at += n_unit)
        memcpy(text + at, unit[_i], n_unit);
    at += (size_t)sprintf(text + at, "1]}");
    live = peak = 0;
    json_set_alloc_funcs(counted_malloc, counted_free);
    ck_assert_int_eq(spot_json_parse(&doc, text, at, "t", &err), -1);
    json_set_alloc_funcs(malloc, free);
    ck_assert_uint_eq(peak, 0);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(strstr(err.msg, ": up to here its values take more than 71 MiB") != NULL, "%s",
                  err.msg);
    ck_assert(!strncmp(err.msg, "t:", 2) && (_i == 5 || !strncmp(err.msg, "t:2:", 4)));
    free(text);
}
END_TEST

/* A tokenizer's vocabulary and merges, written without a blank. */
START_TEST(many_small_values_of_a_kind_that_has_them_are_read)
{
    struct spot_buf text = { 0 };
    struct spot_json_doc doc;
    struct spot_err err = { 0 };
    char entry[64];

    say(&text, "{\"vocab\":{");
    for (int i = 0; i < 128000; i++) {
        snprintf(entry, sizeof(entry), "%s\"t%x\":%d", i ? "," : "", (unsigned)i, i);
        say(&text, entry);
    }
    say(&text, "},\"merges\":[");
    for (int i = 0; i < 280000; i++) {
        snprintf(entry, sizeof(entry), "%s[\"t%x\",\"t\"]", i ? "," : "", (unsigned)i);
        say(&text, entry);
    }
    say(&text, "]}");
    ck_assert_int_eq(spot_json_parse(&doc, (char *)text.data, text.n, "t", &err), -1);
    ck_assert_msg(!spot_json_parse_large(&doc, (char *)text.data, text.n, "t", 1, 256 << 20, &err),
                  "%s", err.msg);
    spot_json_release(&doc);
    spot_buf_release(&text);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, a_right_document_takes_what_was_counted);
    tcase_add_test(tc, a_broken_document_takes_no_more_than_was_counted);
    tcase_add_loop_test(tc, a_document_of_small_values_is_refused_before_it_is_built, 0, 6);
    tcase_add_test(tc, many_small_values_of_a_kind_that_has_them_are_read);
    return run_suite("json_scan", tc);
}
