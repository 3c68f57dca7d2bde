/* SPDX-License-Identifier: MIT */
#include "model/moves_doc.h"

#include <stdlib.h>
#include <string.h>

#define BYTE_MAX  9e15
#define COUNT_MAX ((double)SPOT_MOVES_LIST_MAX)

#define HEAD(member) offsetof(struct spot_moves_doc, member)
static const struct spot_field head_field[] = {
    { "makespan_s", SPOT_F_REAL, HEAD(makespan_s), "s", 0, 1e15, true },
    { "bound_s", SPOT_F_REAL, HEAD(bound_s), "s", 0, 1e15, false },
    { "gap", SPOT_F_REAL, HEAD(gap), "1", 0, 1e15, false },
    { "naive_s", SPOT_F_REAL, HEAD(naive_s), "s", 0, 1e15, false },
    { "in_order_s", SPOT_F_REAL, HEAD(in_order_s), "s", 0, 1e15, false },
    { "total_byte", SPOT_F_INT, HEAD(total_byte), "byte", 0, BYTE_MAX, true },
    { "bound_byte", SPOT_F_INT, HEAD(bound_byte), "byte", 0, BYTE_MAX, false },
    { "busiest_byte", SPOT_F_INT, HEAD(busiest_byte), "byte", 0, BYTE_MAX, false },
    { "lost_byte", SPOT_F_INT, HEAD(lost_byte), "byte", 0, BYTE_MAX, true },
    { "peak_extra_byte", SPOT_F_REAL, HEAD(peak_extra_byte), "byte", 0, BYTE_MAX, false },
    { "egress_usd", SPOT_F_REAL, HEAD(usd), "usd", 0, 1e12, false },
    { "nodes_touched", SPOT_F_INT, HEAD(n_touched), "1", 0, COUNT_MAX, false },
    { "placements_compared", SPOT_F_INT, HEAD(n_compared), "1", 0, 9e15, false },
    { "all_compared", SPOT_F_BOOL, HEAD(is_exhaustive), NULL, 0, 0, false },
    { 0 },
};

#define PLACE(member) offsetof(struct spot_moves_place, member)
static const struct spot_field place_field[] = {
    { "node", SPOT_F_STR, PLACE(node), NULL, 0, 0, true },
    { "d", SPOT_F_INT, PLACE(d), "1", 0, COUNT_MAX, true },
    { "p", SPOT_F_INT, PLACE(p), "1", 0, COUNT_MAX, true },
    { "m", SPOT_F_INT, PLACE(m), "1", 0, COUNT_MAX, true },
    { 0 },
};

#define PIECE(member) offsetof(struct spot_moves_piece, member)
static const struct spot_field piece_field[] = {
    { "bundle_first", SPOT_F_INT, PIECE(first), "1", 0, COUNT_MAX, true },
    { "bundle_last", SPOT_F_INT, PIECE(last), "1", 0, COUNT_MAX, true },
    { "tensor", SPOT_F_STR, PIECE(tensor), NULL, 0, 0, true },
    { "plane", SPOT_F_STR, PIECE(plane), NULL, 0, 0, true },
    { "lo", SPOT_F_INT, PIECE(lo), "1", 0, BYTE_MAX, true },
    { "hi", SPOT_F_INT, PIECE(hi), "1", 0, BYTE_MAX, true },
    { "byte", SPOT_F_INT, PIECE(byte), "byte", 0, BYTE_MAX, true },
    { 0 },
};

#define MOVE(member) offsetof(struct spot_moves_transfer, member)
static const struct spot_field move_field[] = {
    { "order", SPOT_F_INT, MOVE(order), "1", 0, COUNT_MAX, true },
    { "unit", SPOT_F_INT, MOVE(unit), "1", 0, COUNT_MAX, true },
    { "byte_from", SPOT_F_INT, MOVE(byte_from), "byte", 0, BYTE_MAX, true },
    { "byte_to", SPOT_F_INT, MOVE(byte_to), "byte", 0, BYTE_MAX, true },
    { "from", SPOT_F_STR, MOVE(from), NULL, 0, 0, true },
    { "to", SPOT_F_STR, MOVE(to), NULL, 0, 0, true },
    { "replicated", SPOT_F_BOOL, MOVE(is_replicated), NULL, 0, 0, true },
    { "relayed", SPOT_F_BOOL, MOVE(is_relayed), NULL, 0, 0, false },
    { "begin_s", SPOT_F_REAL, MOVE(begin_s), "s", 0, 1e15, false },
    { "end_s", SPOT_F_REAL, MOVE(end_s), "s", 0, 1e15, false },
    { 0 },
};

#define LOST(member) offsetof(struct spot_moves_lost, member)
static const struct spot_field lost_field[] = {
    { "unit", SPOT_F_INT, LOST(unit), "1", 0, COUNT_MAX, true },
    { "byte", SPOT_F_INT, LOST(byte), "byte", 0, BYTE_MAX, true },
    { "how", SPOT_F_STR, LOST(how), NULL, 0, 0, true },
    { "chosen", SPOT_F_BOOL, LOST(is_chosen), NULL, 0, 0, false },
    { 0 },
};

#define GROUP(member) offsetof(struct spot_moves_group, member)
static const struct spot_field group_field[] = {
    { "what", SPOT_F_STR, GROUP(what), NULL, 0, 0, true },
    { "how", SPOT_F_STR, GROUP(how), NULL, 0, 0, true },
    { "byte", SPOT_F_INT, GROUP(byte), "byte", 0, BYTE_MAX, true },
    { 0 },
};

static const struct spot_field unit_field[] = {
    { "byte", SPOT_F_INT, offsetof(struct spot_moves_unit, byte), "byte", 0, BYTE_MAX, true },
    { "kv", SPOT_F_STR, offsetof(struct spot_moves_unit, kv), NULL, 0, 0, false },
    { 0 },
};

const struct spot_doc_part spot_moves_part[] = {
    { "", head_field, true, 0, NULL },
    { "place[]", place_field, true, SPOT_MOVES_LIST_MAX, NULL },
    { "units[]", unit_field, true, SPOT_MOVES_LIST_MAX, NULL },
    { "units[].pieces[]", piece_field, true, SPOT_MOVES_LIST_MAX, NULL },
    { "moves[]", move_field, true, SPOT_MOVES_LIST_MAX, NULL },
    { "lost[]", lost_field, true, SPOT_MOVES_LIST_MAX, NULL },
    { "lost_groups[]", group_field, false, SPOT_MOVES_LIST_MAX, NULL },
    { 0 },
};

static void write_strings(struct spot_jw *jw, const char *key, const char *const *text, size_t n)
{
    spot_jw_array(jw, key);
    for (size_t k = 0; k < n; k++)
        spot_jw_str(jw, NULL, text[k]);
    spot_jw_end(jw);
}

static void write_proof(struct spot_jw *jw, const struct spot_moves_doc *doc)
{
    spot_jw_object(jw, "certificate");
    spot_jw_str(jw, "by", doc->proof);
    write_strings(jw, "nodes", doc->proof_node, doc->n_proof_node);
    spot_jw_int(jw, "byte", doc->proof_byte);
    spot_jw_end(jw);
}

static void write_unit(struct spot_jw *jw, size_t index, const struct spot_moves_unit *unit)
{
    spot_jw_object(jw, NULL);
    spot_jw_int(jw, "unit", (int64_t)index);
    spot_jw_int(jw, "byte", unit->byte);
    if (unit->kv)
        spot_jw_str(jw, "kv", unit->kv);
    spot_jw_array(jw, "pieces");
    for (size_t k = 0; k < unit->n_piece; k++) {
        spot_jw_object(jw, NULL);
        spot_jw_fields(jw, piece_field, &unit->piece[k]);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
    spot_jw_end(jw);
}

static void write_lost(struct spot_jw *jw, const struct spot_moves_lost *lost)
{
    spot_jw_object(jw, NULL);
    spot_jw_fields(jw, lost_field, lost);
    if (lost->group >= 0)
        spot_jw_int(jw, "group", lost->group);
    if (lost->recovery_s >= 0)
        spot_jw_real(jw, "recovery_s", lost->recovery_s);
    spot_jw_end(jw);
}

static void write_group(struct spot_jw *jw, const struct spot_moves_group *group)
{
    spot_jw_object(jw, NULL);
    spot_jw_fields(jw, group_field, group);
    if (group->kv) {
        spot_jw_str(jw, "kv", group->kv);
    } else if (!strcmp(group->what, "bundles")) {
        spot_jw_int(jw, "bundle_first", group->first);
        spot_jw_int(jw, "bundle_last", group->last);
    }
    if (group->recovery_s >= 0)
        spot_jw_real(jw, "recovery_s", group->recovery_s);
    spot_jw_end(jw);
}

static void write_losses(struct spot_jw *jw, const struct spot_moves_doc *doc)
{
    spot_jw_array(jw, "lost");
    for (size_t k = 0; k < doc->n_lost; k++)
        write_lost(jw, &doc->lost[k]);
    spot_jw_end(jw);
    spot_jw_array(jw, "lost_groups");
    for (size_t k = 0; k < doc->n_lost_group; k++)
        write_group(jw, &doc->lost_group[k]);
    spot_jw_end(jw);
    if (doc->recovery_s >= 0)
        spot_jw_real(jw, "recovery_s", doc->recovery_s);
    if (doc->recovery_bound_s >= 0)
        spot_jw_real(jw, "recovery_bound_s", doc->recovery_bound_s);
}

int spot_moves_write(const struct spot_moves_doc *doc, const struct spot_prov *prov, FILE *out,
                     struct spot_err *err)
{
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.moves", 1, prov);
    spot_jw_fields(&jw, head_field, doc);
    if (doc->restart_s >= 0) {
        spot_jw_real(&jw, "restart_s", doc->restart_s);
        spot_jw_real(&jw, "restart_bound_s", doc->restart_bound_s);
    }
    write_proof(&jw, doc);
    spot_jw_array(&jw, "place");
    for (size_t k = 0; k < doc->n_place; k++) {
        spot_jw_object(&jw, NULL);
        spot_jw_fields(&jw, place_field, &doc->place[k]);
        spot_jw_end(&jw);
    }
    spot_jw_end(&jw);
    spot_jw_array(&jw, "units");
    for (size_t k = 0; k < doc->n_unit; k++)
        write_unit(&jw, k, &doc->unit[k]);
    spot_jw_end(&jw);
    spot_jw_array(&jw, "moves");
    for (size_t k = 0; k < doc->n_move; k++) {
        spot_jw_object(&jw, NULL);
        spot_jw_fields(&jw, move_field, &doc->move[k]);
        spot_jw_end(&jw);
    }
    spot_jw_end(&jw);
    write_losses(&jw, doc);
    write_strings(&jw, "why", doc->why, doc->n_why);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

void spot_moves_release(struct spot_moves_doc *doc)
{
    for (size_t k = 0; k < doc->n_unit; k++)
        free(doc->unit[k].piece);
    free(doc->place), free(doc->unit), free(doc->move), free(doc->lost);
    free(doc->lost_group);
    memset(doc, 0, sizeof *doc);
}
