/* SPDX-License-Identifier: MIT */
#include "plan/reshard.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/num.h"
#include "common/xalloc.h"
#include "plan/migration/flat_cut.h"

#define WORK_MAX 1e9

/* Components that both layouts treat alike: stored whole, or cut over the replicas (ZeRO). */
struct kind {
    unsigned mask; /* components of the new layout, a bit set */
    int64_t byte;  /* bytes per parameter of all of them */
    bool is_old, zero_old, zero_new;
};

struct builder {
    struct spot_reshard *r;
    const struct spot_layout *from, *to;
    struct spot_flat old_flat, new_flat; /* ZeRO cuts of both layouts */
    /* [2 + n_old + n_new] holders, then owners, of one fragment */
    int *list;
    int64_t *cut; /* cuts of one axis */
    size_t n_cut, cut_cap;
    int *table; /* [n_table] part or -1, open addressing */
    size_t n_table, part_cap;
};

static void add_cut(struct builder *b, int64_t at)
{
    b->cut = spot_xgrow(b->cut, &b->cut_cap, b->n_cut + 1, sizeof *b->cut);
    b->cut[b->n_cut++] = at;
}

/* List where ranks, and replicas of ZeRO components, cut the axis. */
static void cut_axis(struct builder *b, const struct spot_layout *layout,
                     const struct spot_flat *flat, bool is_zero, int64_t bundle, int group)
{
    int64_t lo, hi;

    for (int64_t m = 0; m < layout->m; m++) {
        spot_layout_range(&layout->model, bundle, group, m, layout->m, &lo, &hi);
        add_cut(b, lo);
        add_cut(b, hi);
    }
    for (size_t k = 0; is_zero && k < flat->n_cut; k++)
        if (flat->cut[k].bundle == bundle && flat->cut[k].group == group)
            add_cut(b, flat->cut[k].at);
}

static bool stage_has(const struct spot_layout *layout, int64_t p, int64_t bundle)
{
    int64_t first, last;

    spot_layout_stage(layout, p, &first, &last);
    return (bundle >= first && bundle <= last) ||
           (bundle == 0 && layout->model.is_tied && p == layout->p - 1);
}

/* Positions of the layout that own [lo, hi) of a group; returns their number. */
static int list_owners(const struct spot_layout *layout, const struct spot_flat *flat, bool is_zero,
                       int64_t bundle, int group, int64_t lo, int64_t hi, int *list)
{
    int n = 0;

    for (int64_t d = 0; d < layout->d; d++)
        for (int64_t p = 0; p < layout->p; p++) {
            if (!stage_has(layout, p, bundle) ||
                (bundle == 0 && p > 0 && group != SPOT_GROUP_VOCAB))
                continue;
            for (int64_t m = 0; m < layout->m; m++) {
                int64_t from, to;

                spot_layout_range(&layout->model, bundle, group, m, layout->m, &from, &to);
                if (lo < from || hi > to ||
                    (is_zero && spot_flat_owner(flat, p, m, bundle, group, lo - from) != d))
                    continue;
                list[n++] = (int)((d * layout->p + p) * layout->m + m);
            }
        }
    return n;
}

/* Make room for another part in the table; b->list is scratch. */
static void rehash(struct builder *b)
{
    if (b->r->n_part * 2 < b->n_table)
        return;
    b->n_table *= 4;
    b->table = spot_xrealloc(b->table, b->n_table, sizeof(int));
    for (size_t k = 0; k < b->n_table; k++)
        b->table[k] = -1;
    for (size_t k = 0; k < b->r->n_part; k++) {
        const struct spot_reshard_part *part = &b->r->part[k];
        const size_t n = (size_t)part->n_holder + (size_t)part->n_want;
        size_t at;

        memcpy(b->list, part->holder, n * sizeof(int));
        b->list[n] = part->n_holder;
        b->list[n + 1] = part->kv;
        at = spot_hash64(b->list, (n + 2) * sizeof(int)) % b->n_table;
        while (b->table[at] >= 0)
            at = (at + 1) % b->n_table;
        b->table[at] = (int)k;
    }
}

/* The part with the holders and owners in b->list, created if it is new; the list is used up. */
static struct spot_reshard_part *part_of(struct builder *b, int n_holder, int n_want, int kv)
{
    struct spot_reshard *r = b->r;
    const size_t n = (size_t)n_holder + (size_t)n_want;
    struct spot_reshard_part *part;
    int *copy;
    size_t at;

    b->list[n] = n_holder;
    b->list[n + 1] = kv;
    at = spot_hash64(b->list, (n + 2) * sizeof(int)) % b->n_table;
    for (; b->table[at] >= 0; at = (at + 1) % b->n_table) {
        part = &r->part[b->table[at]];
        if (part->n_holder == n_holder && part->n_want == n_want && part->kv == kv &&
            !memcmp(part->holder, b->list, n * sizeof(int)))
            return part;
    }
    r->part = spot_xgrow(r->part, &b->part_cap, r->n_part + 1, sizeof *r->part);
    part = &r->part[r->n_part];
    copy = spot_xcalloc(n, sizeof(int));
    memcpy(copy, b->list, n * sizeof(int));
    *part = (struct spot_reshard_part){
        .n_holder = n_holder, .n_want = n_want, .kv = kv, .holder = copy, .want = copy + n_holder
    };
    b->table[at] = (int)r->n_part++;
    rehash(b);
    return part;
}

/* Add bytes to a part; a piece that continues the layers of an earlier one is merged into it. */
static void add_piece(struct builder *b, struct spot_reshard_part *part,
                      const struct spot_reshard_piece *piece)
{
    part->byte += piece->byte;
    for (int k = 0; k < part->n_want; k++)
        b->r->need_byte[part->want[k]] += piece->byte;
    for (size_t k = part->n_piece; k-- > 0;) {
        struct spot_reshard_piece *old = &part->piece[k];

        if (old->last + 1 == piece->first && old->group == piece->group && old->lo == piece->lo &&
            old->hi == piece->hi && old->components == piece->components && piece->first > 1 &&
            piece->first <= b->to->model.n_layer) {
            old->last = piece->last;
            old->byte += piece->byte;
            return;
        }
        if (old->last + 1 < piece->first)
            break;
    }
    part->piece = spot_xgrow(part->piece, &part->piece_cap, part->n_piece + 1, sizeof *part->piece);
    part->piece[part->n_piece++] = *piece;
}

static void add_fragment(struct builder *b, const struct kind *kind, int64_t bundle, int group,
                         int64_t lo, int64_t hi)
{
    const struct spot_layout *from = b->from, *to = b->to;
    const struct spot_reshard_piece piece = { bundle,     bundle, lo, hi, (hi - lo) * kind->byte,
                                              kind->mask, group };
    int n_holder = 0, n_want;

    if (kind->is_old)
        n_holder = list_owners(from, &b->old_flat, kind->zero_old, bundle, group, lo, hi, b->list);
    n_want =
        list_owners(to, &b->new_flat, kind->zero_new, bundle, group, lo, hi, b->list + n_holder);
    if (n_want)
        add_piece(b, part_of(b, n_holder, n_want, -1), &piece);
}

static void add_group(struct builder *b, const struct kind *kind, int64_t bundle, int group)
{
    int64_t n_atom;
    const int64_t n_elem = spot_shape_elem(&b->to->model, bundle, group, &n_atom);

    b->r->replica_byte += n_elem * kind->byte;
    b->n_cut = 0;
    if (!n_elem)
        return;
    cut_axis(b, b->from, &b->old_flat, kind->is_old && kind->zero_old, bundle, group);
    cut_axis(b, b->to, &b->new_flat, kind->zero_new, bundle, group);
    qsort(b->cut, b->n_cut, sizeof *b->cut, spot_num_compare_int64);
    for (size_t k = 0; k + 1 < b->n_cut; k++)
        if (b->cut[k] < b->cut[k + 1])
            add_fragment(b, kind, bundle, group, b->cut[k], b->cut[k + 1]);
}

/* --- caches --- */

/* Attention heads [*lo, *hi) of rank m. */
static void kv_range(const struct spot_layout *layout, int64_t m, int64_t *lo, int64_t *hi)
{
    int64_t n_atom;
    const int64_t n_elem = spot_shape_elem(&layout->model, 1, SPOT_GROUP_KV, &n_atom);

    spot_layout_range(&layout->model, 1, SPOT_GROUP_KV, m, layout->m, lo, hi);
    *lo /= n_elem / n_atom;
    *hi /= n_elem / n_atom;
}

static int list_kv(const struct spot_layout *layout, int64_t d, int64_t layer, int64_t lo,
                   int64_t hi, int *list)
{
    int n = 0;

    for (int64_t p = 0; p < layout->p; p++)
        for (int64_t m = 0; m < layout->m && stage_has(layout, p, layer + 1); m++) {
            int64_t from, to;

            kv_range(layout, m, &from, &to);
            if (lo >= from && hi <= to)
                list[n++] = (int)((d * layout->p + p) * layout->m + m);
        }
    return n;
}

static void add_kv(struct builder *b, const struct spot_layout_kv *old, int kv)
{
    const struct spot_layout *from = b->from, *to = b->to;
    const struct spot_layout_kv *new = &to->kv[kv];

    b->n_cut = 0;
    for (int k = 0; k < 2; k++)
        for (int64_t m = 0; m < (k ? to : from)->m; m++) {
            int64_t lo, hi;

            kv_range(k ? to : from, m, &lo, &hi);
            add_cut(b, lo);
            add_cut(b, hi);
        }
    qsort(b->cut, b->n_cut, sizeof *b->cut, spot_num_compare_int64);
    for (int64_t layer = 0; layer < to->model.n_layer; layer++)
        for (size_t k = 0; k + 1 < b->n_cut; k++) {
            const int64_t lo = b->cut[k], hi = b->cut[k + 1];
            const struct spot_reshard_piece piece = {
                layer + 1,
                layer + 1,
                lo,
                hi,
                old->n_token * spot_shape_kv_byte(&to->model, hi - lo, old->byte),
                0,
                SPOT_GROUP_KV
            };
            int n_holder, n_want;

            if (lo == hi)
                continue;
            n_holder = list_kv(from, old->d, layer, lo, hi, b->list);
            n_want = list_kv(to, new->d, layer, lo, hi, b->list + n_holder);
            add_piece(b, part_of(b, n_holder, n_want, kv), &piece);
        }
}

/* --- */

/* Sort the new layout's components into kinds. Returns their number. */
static int list_kinds(const struct spot_layout *from, const struct spot_layout *to,
                      struct kind *kind, struct spot_err *err)
{
    int n = 0;

    for (size_t k = 0; k < to->n_component; k++) {
        const struct spot_layout_component *new = &to->component[k], *old = NULL;
        struct kind mine = { 0, 0, false, false, new->is_zero };
        int at = 0;

        for (size_t i = 0; i < from->n_component; i++)
            if (!strcmp(from->component[i].name, new->name))
                old = &from->component[i];
        if (old && old->byte_per_param != new->byte_per_param)
            return spot_err_set(
                err, SPOT_EDATA, "component %s has %lld bytes in the old layout, %lld in the new",
                new->name, (long long)old->byte_per_param, (long long)new->byte_per_param);
        mine.is_old = old != NULL;
        mine.zero_old = old && old->is_zero;
        while (at < n && (kind[at].is_old != mine.is_old || kind[at].zero_old != mine.zero_old ||
                          kind[at].zero_new != mine.zero_new))
            at++;
        if (at == n)
            kind[n++] = mine;
        kind[at].mask |= 1U << k;
        kind[at].byte += new->byte_per_param;
    }
    return n;
}

static int check_model(const struct spot_layout *from, const struct spot_layout *to,
                       struct spot_err *err)
{
    const struct spot_shape old = from->model, new = to->model;

    if (old.n_layer != new.n_layer || old.width != new.width || old.ffn != new.ffn ||
        old.n_head != new.n_head || old.n_kv_head != new.n_kv_head ||
        old.head_dim != new.head_dim || old.vocab != new.vocab || old.vocab_pad != new.vocab_pad ||
        old.seq != new.seq || old.norm_elem != new.norm_elem || old.n_shard != new.n_shard ||
        old.kind.is_gated != new.kind.is_gated || old.kind.bare != new.kind.bare ||
        old.is_tied != new.is_tied)
        return spot_err_set(err, SPOT_EDATA, "the layouts are of different models: %s and %s",
                            from->json.source, to->json.source);
    return 0;
}

static int check_caches(const struct spot_layout *from, const struct spot_layout *to,
                        struct spot_err *err)
{
    char at[64];

    for (size_t i = 0; i < from->n_kv; i++)
        for (size_t k = 0; k < to->n_kv; k++) {
            const struct spot_layout_kv *old = &from->kv[i], *new = &to->kv[k];

            if (strcmp(old->name, new->name) != 0 ||
                (old->n_token == new->n_token && old->byte == new->byte))
                continue;
            snprintf(at, sizeof at, "/kv/%zu", k);
            return spot_json_fail(
                &to->json, at, err,
                "cache %.64s has %lld tokens of %lld bytes a number here, %lld of "
                "%lld in the old layout",
                new->name, (long long)new->n_token, (long long)new->byte, (long long)old->n_token,
                (long long)old->byte);
        }
    return 0;
}

/* Estimate the work of build() and reject absurd amounts of it, which documents can ask for. */
static int check_size(const struct spot_layout *from, const struct spot_layout *to,
                      struct spot_err *err)
{
    const double n_bundle = (double)to->model.n_layer + 2;
    const double n_cut = (double)(from->m + to->m);
    const double n_owner = (double)(from->d * from->p + to->d * to->p);

    if (n_bundle * n_cut * n_owner > WORK_MAX ||
        n_bundle * (double)(from->p * from->m + to->p * to->m) > WORK_MAX / 64)
        return spot_err_set(err, SPOT_EDATA,
                            "the layouts are too large to compare: %lld layers, %lld x %lld x %lld "
                            "to %lld x %lld x %lld",
                            (long long)to->model.n_layer, (long long)from->d, (long long)from->p,
                            (long long)from->m, (long long)to->d, (long long)to->p,
                            (long long)to->m);
    return 0;
}

static void build(struct builder *b, const struct kind *kind, int n_kind)
{
    const struct spot_layout *from = b->from, *to = b->to;

    for (int64_t bundle = 0; bundle < to->model.n_layer + 2; bundle++)
        for (int group = 0; group < SPOT_GROUPS; group++)
            for (int k = 0; k < n_kind; k++)
                add_group(b, &kind[k], bundle, group);
    for (size_t i = 0; i < from->n_kv; i++)
        for (size_t k = 0; k < to->n_kv; k++)
            if (!strcmp(from->kv[i].name, to->kv[k].name))
                add_kv(b, &from->kv[i], (int)k);
}

int spot_reshard_init(struct spot_reshard *r, const struct spot_layout *from,
                      const struct spot_layout *to, struct spot_err *err)
{
    struct kind kind[SPOT_LAYOUT_COMPONENT_MAX];
    struct builder b = { .r = r, .from = from, .to = to, .n_table = 1024 };
    int n_kind;

    *r = (struct spot_reshard){ .n_bundle = to->model.n_layer + 2, .n_kv = to->n_kv };
    if (check_model(from, to, err) || check_caches(from, to, err) || check_size(from, to, err))
        return -1;
    n_kind = list_kinds(from, to, kind, err);
    if (n_kind < 0)
        return -1;
    r->n_old = (int)(from->d * from->p * from->m);
    r->n_new = (int)(to->d * to->p * to->m);
    r->need_byte = spot_xcalloc((size_t)r->n_new, sizeof *r->need_byte);
    r->kv_token = spot_xcalloc(r->n_kv, sizeof *r->kv_token);
    for (size_t k = 0; k < r->n_kv; k++)
        r->kv_token[k] = to->kv[k].n_token;
    b.list = spot_xcalloc((size_t)r->n_old + (size_t)r->n_new + 2, sizeof(int));
    b.table = spot_xcalloc(b.n_table, sizeof(int));
    for (size_t k = 0; k < b.n_table; k++)
        b.table[k] = -1;
    spot_flat_init(&b.old_flat, from);
    spot_flat_init(&b.new_flat, to);
    build(&b, kind, n_kind);
    spot_flat_release(&b.old_flat);
    spot_flat_release(&b.new_flat);
    free(b.list), free(b.cut), free(b.table);
    return 0;
}

/* Append the slice of the part in one bundle, if it has one. */
static void add_slice(struct spot_reshard *r, size_t *cap, const struct spot_reshard_part *part,
                      int64_t bundle)
{
    const size_t n = (size_t)part->n_holder + (size_t)part->n_want;
    struct spot_reshard_part slice = *part;
    int *copy = spot_xcalloc(n, sizeof(int));

    memcpy(copy, part->holder, n * sizeof(int));
    slice.holder = copy;
    slice.want = copy + part->n_holder;
    slice.piece = spot_xcalloc(part->n_piece, sizeof *slice.piece);
    slice.piece_cap = part->n_piece;
    slice.n_piece = 0;
    slice.byte = 0;
    for (size_t k = 0; k < part->n_piece; k++) {
        struct spot_reshard_piece piece = part->piece[k];

        if (bundle < piece.first || bundle > piece.last)
            continue;
        piece.byte /= piece.last - piece.first + 1;
        piece.first = piece.last = bundle;
        slice.piece[slice.n_piece++] = piece;
        slice.byte += piece.byte;
    }
    r->part = spot_xgrow(r->part, cap, r->n_part + 1, sizeof *r->part);
    if (slice.n_piece)
        r->part[r->n_part++] = slice;
    else
        free(copy), free(slice.piece);
}

void spot_reshard_cut(struct spot_reshard *r, const bool *is_marked)
{
    struct spot_reshard_part *old = r->part;
    const size_t n_old = r->n_part;
    size_t cap = 0;

    r->part = NULL;
    r->n_part = 0;
    for (size_t k = 0; k < n_old; k++) {
        if (!is_marked[k] || old[k].kv >= 0) {
            r->part = spot_xgrow(r->part, &cap, r->n_part + 1, sizeof *r->part);
            r->part[r->n_part++] = old[k];
            continue;
        }
        for (int64_t bundle = 0; bundle < r->n_bundle; bundle++)
            add_slice(r, &cap, &old[k], bundle);
        free((void *)(uintptr_t)old[k].holder);
        free(old[k].piece);
    }
    free(old);
}

void spot_reshard_join(struct spot_reshard *r, int n)
{
    assert(n > 0 && r->n_new % n == 0);
    r->n_new /= n;
    memset(r->need_byte, 0, (size_t)r->n_new * sizeof *r->need_byte);
    for (size_t k = 0; k < r->n_part; k++) {
        struct spot_reshard_part *part = &r->part[k];
        int *want = (int *)(uintptr_t)part->want, n_want = 0;

        for (int w = 0; w < part->n_want; w++)
            if (!n_want || want[n_want - 1] != want[w] / n)
                want[n_want++] = want[w] / n;
        part->n_want = n_want;
        for (int w = 0; w < n_want; w++)
            r->need_byte[want[w]] += part->byte;
    }
}

void spot_reshard_release(struct spot_reshard *r)
{
    for (size_t k = 0; k < r->n_part; k++) {
        free((void *)(uintptr_t)r->part[k].holder);
        free(r->part[k].piece);
    }
    free(r->part);
    free(r->need_byte), free(r->kv_token);
    *r = (struct spot_reshard){ 0 };
}
