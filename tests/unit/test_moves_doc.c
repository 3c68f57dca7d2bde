/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>

#include "model/moves_doc.h"
#include "suite.h"

/* Goal: what is written is read again, to the last number; and a document that cannot be is refused
 * where it is wrong. */

static struct spot_moves_piece piece[] = { { 1, 3, 0, 64, 4096, "attention.q", "w16" },
                                           { 0, 0, 8, 16, 1024, "vocab", "m" } };
static struct spot_moves_unit unit[] = { { 5120, NULL, piece, 2 }, { 100, "chat", piece + 1, 1 } };
static struct spot_moves_transfer move[] = {
    { 0, 0, 0, 5120, "a", "b", true, false, 0, 0.25 },
    { 1, 1, 50, 100, "b", "c\xc3\xbc", false, true, 0.25, 1e-3 },
};
static struct spot_moves_place place[] = { { "a", 0, 0, 0 }, { "b", 0, 1, 0 } };
static struct spot_moves_lost lost[] = { { 1, 50, "recompute", false, 0, 2.5 },
                                         { 0, 7, "checkpoint", true, -1, -1 } };
static struct spot_moves_group group[] = { { "cache", "recompute", 50, 0, 0, "chat", 2.5 },
                                           { "bundles", "checkpoint", 7, 1, 3, NULL, -1 } };
static const char *proof_node[] = { "b" }, *why[] = { "one \"reason\"" };

static const struct spot_moves_doc doc = {
    .makespan_s = 0.5,
    .bound_s = 0.4,
    .gap = 0.2,
    .naive_s = 3,
    .in_order_s = 2,
    .usd = 0.125,
    .peak_extra_byte = 77,
    .total_byte = 5170,
    .bound_byte = 5120,
    .lost_byte = 57,
    .n_touched = 3,
    .n_compared = 6,
    .is_exhaustive = true,
    .proof = "receiver",
    .proof_node = proof_node,
    .n_proof_node = 1,
    .proof_byte = 5120,
    .place = place,
    .n_place = 2,
    .unit = unit,
    .n_unit = 2,
    .move = move,
    .n_move = 2,
    .lost = lost,
    .n_lost = 2,
    .lost_group = group,
    .n_lost_group = 2,
    .recovery_s = 2.5,
    .recovery_bound_s = 2,
    .why = why,
    .n_why = 1,
};

static char *text_of(const struct spot_moves_doc *d, const struct spot_prov *prov)
{
    struct spot_err err = { 0 };
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);

    ck_assert_msg(!spot_moves_write(d, prov, out, &err), "%s", err.msg);
    fclose(out);
    return text;
}

START_TEST(what_is_written_is_read)
{
    char *const text = text_of(&doc, NULL);
    struct spot_moves_doc got;
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_moves_parse(&got, text, strlen(text), "t", &err), "%s", err.msg);
    ck_assert(got.makespan_s == 0.5 && got.bound_s == 0.4 && got.gap == 0.2 && got.naive_s == 3);
    ck_assert(got.in_order_s == 2 && got.usd == 0.125 && got.peak_extra_byte == 77);
    ck_assert(got.total_byte == 5170 && got.bound_byte == 5120 && got.lost_byte == 57);
    ck_assert(got.n_touched == 3 && got.n_compared == 6 && got.is_exhaustive);
    ck_assert_uint_eq(got.n_unit, 2);
    ck_assert_uint_eq(got.unit[0].n_piece, 2);
    ck_assert(got.unit[0].piece[0].last == 3 && got.unit[0].piece[1].byte == 1024);
    ck_assert_str_eq(got.unit[0].piece[1].plane, "m");
    ck_assert_str_eq(got.unit[1].kv, "chat");
    ck_assert_ptr_null(got.unit[0].kv);
    ck_assert_uint_eq(got.n_move, 2);
    ck_assert(got.move[1].byte_from == 50 && got.move[1].is_relayed && got.move[0].is_replicated);
    ck_assert(got.move[1].end_s == 1e-3);
    ck_assert_str_eq(got.move[1].to, "c\xc3\xbc");
    ck_assert(got.n_place == 2 && got.place[1].p == 1);
    ck_assert(got.n_lost == 2 && got.lost[1].is_chosen && got.lost[0].byte == 50);
    ck_assert(got.n_lost_group == 2 && got.lost_group[1].byte == 7);
    spot_moves_release(&got);
    free(text);
}
END_TEST

START_TEST(what_made_it_is_told_unless_it_is_not_wanted)
{
    struct spot_prov prov = { .tool = "spot-test", .seed = 7 };
    char *text;

    spot_prov_add(&prov, "in.json", 0xabc);
    text = text_of(&doc, &prov);
    ck_assert_ptr_nonnull(strstr(text, "\"made_by\""));
    ck_assert_ptr_nonnull(strstr(text, "spot-test"));
    ck_assert_ptr_nonnull(strstr(text, "in.json"));
    ck_assert_ptr_nonnull(strstr(text, "0000000000000abc"));
    free(text);
    prov.is_off = true;
    text = text_of(&doc, &prov);
    ck_assert_ptr_null(strstr(text, "made_by"));
    free(text);
    spot_prov_release(&prov);
}
END_TEST

/* Each is the good document with one text in place of another. */
static const struct {
    const char *from, *to, *want;
} edit[] = {
    { "spot.moves/1", "spot.moves/2", "schema" },
    { "\"makespan_s\": 0.5", "\"makespan_s\": -1", "/makespan_s" },
    { "\"total_byte\": 5170", "\"total_byte\": 0.5", "/total_byte" },
    { "\"all_compared\": true", "\"all_compared\": 1", "/all_compared" },
    { "\"place\"", "\"plac\"", "place" },
    { "\"units\"", "\"unit5\"", "units" },
    { "\"pieces\"", "\"piece5\"", "/units/0" },
    { "\"tensor\": \"vocab\"", "\"tensor\": 1", "/units/0/pieces/1/tensor" },
    { "\"moves\"", "\"move5\"", "moves" },
    { "\"from\": \"a\"", "\"from\": null", "/moves/0/from" },
    { "\"unit\": 1,\n      \"byte_from\"", "\"unit\": 2,\n      \"byte_from\"",
      "/moves/1: there is no unit 2" },
    { "\"byte_to\": 100", "\"byte_to\": 101", "/moves/1: bytes outside the unit's 100" },
    { "\"byte_from\": 50", "\"byte_from\": 100", "/moves/1: bytes outside the unit's 100" },
    { "\"lost\"", "\"l0st\"", "lost" },
    { "\"unit\": 1,\n      \"byte\": 50", "\"unit\": 9,\n      \"byte\": 50",
      "/lost/0: there is no unit 9" },
    { "\"what\": \"cache\"", "\"what\": 0", "/lost_groups/0/what" },
    { "}\n", "", "" },
};

START_TEST(what_cannot_be_is_refused_where_it_is_wrong)
{
    char *const text = text_of(&doc, NULL), whole[8192];
    const size_t n = strlen(edit[_i].from);
    struct spot_moves_doc got;
    struct spot_err err = { 0 };
    size_t at = *edit[_i].to ? 0 : strlen(text) - n; /* the last, or the first */

    while (strncmp(text + at, edit[_i].from, n) != 0)
        ck_assert_msg(text[at++], "no %s in %s", edit[_i].from, text);
    snprintf(whole, sizeof(whole), "%.*s%s%s", (int)at, text, edit[_i].to, text + at + n);
    ck_assert_int_eq(spot_moves_parse(&got, whole, strlen(whole), "t", &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(strstr(err.msg, edit[_i].want) != NULL, "%s", err.msg);
    free(text);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, what_is_written_is_read);
    tcase_add_test(tc, what_made_it_is_told_unless_it_is_not_wanted);
    tcase_add_loop_test(tc, what_cannot_be_is_refused_where_it_is_wrong, 0,
                        sizeof(edit) / sizeof(edit[0]));
    return run_suite("moves_doc", tc);
}
