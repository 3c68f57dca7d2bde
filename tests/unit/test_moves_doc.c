/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/moves_doc.h"
#include "suite.h"

/* Goal: a document of moves says what it was given, to the last number, and nothing that is not
 * known. */

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

/* The value at /KEY/INDEX/...; NULL where there is none. */
static const struct spot_json_value *at(const struct spot_json_value *v, const char *path)
{
    while (*path++ == '/') {
        const size_t n = strcspn(path, "/");

        v = spot_json_is_array(v) ? spot_json_entry(v, (size_t)atoi(path))
                                  : spot_json_find(v, path, n);
        path += n;
    }
    return v;
}

static const struct {
    const char *path;
    double number;
    const char *text; /* or NULL */
} wanted[] = {
    { "/schema", 0, "spot.moves/1" },
    { "/makespan_s", 0.5, NULL },
    { "/bound_s", 0.4, NULL },
    { "/gap", 0.2, NULL },
    { "/naive_s", 3, NULL },
    { "/in_order_s", 2, NULL },
    { "/egress_usd", 0.125, NULL },
    { "/peak_extra_byte", 77, NULL },
    { "/total_byte", 5170, NULL },
    { "/bound_byte", 5120, NULL },
    { "/lost_byte", 57, NULL },
    { "/nodes_touched", 3, NULL },
    { "/placements_compared", 6, NULL },
    { "/certificate/by", 0, "receiver" },
    { "/certificate/nodes/0", 0, "b" },
    { "/place/1/p", 1, NULL },
    { "/units/0/pieces/0/bundle_last", 3, NULL },
    { "/units/0/pieces/1/byte", 1024, NULL },
    { "/units/0/pieces/1/plane", 0, "m" },
    { "/units/1/unit", 1, NULL },
    { "/units/1/kv", 0, "chat" },
    { "/moves/1/byte_from", 50, NULL },
    { "/moves/1/end_s", 1e-3, NULL },
    { "/moves/1/to", 0, "c\xc3\xbc" },
    { "/lost/0/group", 0, NULL },
    { "/lost/0/recovery_s", 2.5, NULL },
    { "/lost/0/byte", 50, NULL },
    { "/lost_groups/0/kv", 0, "chat" },
    { "/lost_groups/1/byte", 7, NULL },
    { "/lost_groups/1/bundle_last", 3, NULL },
    { "/recovery_bound_s", 2, NULL },
    { "/why/0", 0, "one \"reason\"" },
};
static const char *const absent[] = { "/made_by",
                                      "/units/2",
                                      "/units/0/kv",
                                      "/moves/2",
                                      "/lost/1/group",
                                      "/lost/1/recovery_s",
                                      "/lost_groups/0/bundle_first",
                                      "/lost_groups/1/recovery_s" };

START_TEST(what_is_written_is_there_to_the_last_number)
{
    char *const text = text_of(&doc, NULL);
    struct spot_json_doc json;
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_json_parse(&json, text, strlen(text), "t", &err), "%s", err.msg);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        const struct spot_json_value *v = at(json.root, wanted[i].path);

        if (wanted[i].text)
            ck_assert_str_eq(spot_json_text(v), wanted[i].text);
        else
            ck_assert_msg(spot_json_is_number(v) && spot_json_number(v) == wanted[i].number, "%s",
                          wanted[i].path);
    }
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
        ck_assert_msg(!at(json.root, absent[i]), "%s", absent[i]);
    ck_assert(spot_json_is_true(at(json.root, "/all_compared")));
    ck_assert(spot_json_is_true(at(json.root, "/moves/1/relayed")));
    ck_assert(spot_json_is_false(at(json.root, "/moves/1/replicated")));
    ck_assert(spot_json_is_true(at(json.root, "/lost/1/chosen")));
    spot_json_release(&json);
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

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, what_is_written_is_there_to_the_last_number);
    tcase_add_test(tc, what_made_it_is_told_unless_it_is_not_wanted);
    return run_suite("moves_doc", tc);
}
