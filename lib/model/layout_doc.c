/* SPDX-License-Identifier: MIT */
#include "model/layout_doc.h"

#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

#define BALANCE_MAX 3e8 /* stages * layers^2: about a second */

struct read_model {
    const char *name;
    bool is_tied, is_gated, has_bias;
    int64_t norm_elem;
    struct spot_shape shape;
};

#define MODEL(member) offsetof(struct read_model, shape.member)
static const struct spot_field model_field[] = {
    { "name", SPOT_F_STR, offsetof(struct read_model, name), NULL, 0, 0, false },
    { "layers", SPOT_F_INT, MODEL(n_layer), "1", 1, SPOT_LAYOUT_LAYER_MAX, true },
    { "width", SPOT_F_INT, MODEL(width), "1", 1, 1 << 20, true },
    { "ffn", SPOT_F_INT, MODEL(ffn), "1", 1, 1 << 22, true },
    { "heads", SPOT_F_INT, MODEL(n_head), "1", 1, 1 << 16, true },
    { "kv_heads", SPOT_F_INT, MODEL(n_kv_head), "1", 1, 1 << 16, false },
    { "head_dim", SPOT_F_INT, MODEL(head_dim), "1", 1, 1 << 16, false },
    { "vocab", SPOT_F_INT, MODEL(vocab), "1", 1, 1 << 24, true },
    { "vocab_pad", SPOT_F_INT, MODEL(vocab_pad), "1", 1, 1 << 20, false },
    { "positions", SPOT_F_INT, MODEL(seq), "1", 0, 1 << 24, false },
    { "norm_elems", SPOT_F_INT, offsetof(struct read_model, norm_elem), "1", 0, 16, false },
    { "shards", SPOT_F_INT, MODEL(n_shard), "1", 0, 1 << 12, false },
    { "gated", SPOT_F_BOOL, offsetof(struct read_model, is_gated), NULL, 0, 0, false },
    { "bias", SPOT_F_BOOL, offsetof(struct read_model, has_bias), NULL, 0, 0, false },
    { "tied", SPOT_F_BOOL, offsetof(struct read_model, is_tied), NULL, 0, 0, false },
    { 0 },
};

static const struct spot_field grid_field[] = {
    { "D", SPOT_F_INT, offsetof(struct spot_layout, d), "1", 1, SPOT_LAYOUT_POSITION_MAX, true },
    { "P", SPOT_F_INT, offsetof(struct spot_layout, p), "1", 1, SPOT_LAYOUT_LAYER_MAX, true },
    { "M", SPOT_F_INT, offsetof(struct spot_layout, m), "1", 1, SPOT_LAYOUT_POSITION_MAX, false },
    { 0 },
};

#define COMPONENT(member) offsetof(struct spot_layout_component, member)
static const struct spot_field component_field[] = {
    { "name", SPOT_F_STR, COMPONENT(name), NULL, 0, 0, true },
    { "byte_per_param", SPOT_F_INT, COMPONENT(byte_per_param), "byte", 1, 16, true },
    { "version", SPOT_F_INT, COMPONENT(version), "1", 0, 9e15, false },
    { "zero", SPOT_F_BOOL, COMPONENT(is_zero), NULL, 0, 0, false },
    { 0 },
};

static const struct spot_field kv_field[] = {
    { "name", SPOT_F_STR, offsetof(struct spot_layout_kv, name), NULL, 0, 0, true },
    { "d", SPOT_F_INT, offsetof(struct spot_layout_kv, d), "1", 0, SPOT_LAYOUT_POSITION_MAX, true },
    { "tokens", SPOT_F_INT, offsetof(struct spot_layout_kv, n_token), "1", 0, 1e9, true },
    { "byte", SPOT_F_INT, offsetof(struct spot_layout_kv, byte), "byte", 1, 8, false },
    { 0 },
};

struct read_place {
    struct spot_layout_place place;
    int64_t version;
};

#define PLACE(member) offsetof(struct read_place, member)
static const struct spot_field place_field[] = {
    { "node", SPOT_F_STR, PLACE(place.node), NULL, 0, 0, true },
    { "d", SPOT_F_INT, PLACE(place.d), "1", 0, SPOT_LAYOUT_POSITION_MAX, true },
    { "p", SPOT_F_INT, PLACE(place.p), "1", 0, SPOT_LAYOUT_LAYER_MAX, true },
    { "m", SPOT_F_INT, PLACE(place.m), "1", 0, SPOT_LAYOUT_POSITION_MAX, false },
    { "version", SPOT_F_INT, PLACE(version), "1", 0, 9e15, false },
    { 0 },
};

const struct spot_doc_part spot_layout_part[] = {
    { "model", model_field, true, 0, NULL },
    { "grid", grid_field, true, 0, NULL },
    { "components[]", component_field, true, SPOT_LAYOUT_COMPONENT_MAX, NULL },
    { "kv[]", kv_field, false, SPOT_LAYOUT_KV_MAX, NULL },
    { "place[]", place_field, false, SPOT_LAYOUT_POSITION_MAX, NULL },
    { 0 },
};

const char *const spot_group_name[SPOT_GROUPS] = { "attention.q", "attention.kv", "ffn", "table",
                                                   "replicated" };

void spot_layout_range(const struct spot_shape *model, int64_t bundle, int group, int64_t m,
                       int64_t n_rank, int64_t *lo, int64_t *hi)
{
    int64_t n_atom, per_atom;
    const int64_t n_elem = spot_shape_elem(model, bundle, group, &n_atom);
    const int64_t share = model->n_head / model->n_kv_head;

    *lo = 0;
    *hi = n_elem;
    if (group == SPOT_GROUP_REPLICATED || !n_elem)
        return;
    per_atom = n_elem / n_atom;
    if (model->n_shard) {
        *lo = m * model->n_shard / n_rank * n_atom / model->n_shard;
        *hi = (m + 1) * model->n_shard / n_rank * n_atom / model->n_shard;
    } else if (group == SPOT_GROUP_Q && n_rank <= model->n_kv_head) {
        *lo = m * model->n_kv_head / n_rank * share;
        *hi = (m + 1) * model->n_kv_head / n_rank * share;
    } else {
        *lo = m * n_atom / n_rank;
        *hi = (m + 1) * n_atom / n_rank;
    }
    if (group == SPOT_GROUP_KV && !model->n_shard && n_rank > model->n_kv_head) {
        /* grouped queries: each rank keeps the heads that its queries read */
        const int64_t q_lo = m * model->n_head / n_rank, q_hi = (m + 1) * model->n_head / n_rank;

        *lo = q_lo / share;
        *hi = q_hi > q_lo ? (q_hi + share - 1) / share : *lo;
    }
    *lo *= per_atom;
    *hi *= per_atom;
}

void spot_layout_stage(const struct spot_layout *layout, int64_t p, int64_t *first, int64_t *last)
{
    *first = p ? layout->stage_end[p - 1] + 1 : 0;
    *last = layout->stage_end[p] + (p == layout->p - 1);
}

/* --- partition --- */

struct cut {
    double most, squares;
    int64_t end; /* end of this stage */
};

void spot_layout_balance(const struct spot_shape *model, int64_t n_stage, int64_t *stage_end)
{
    const int64_t n = model->n_layer;
    double *before = spot_xcalloc((size_t)n + 1, sizeof *before);
    /* best[p][l]: stages p.. hold layers l..; the last stage also the head */
    struct cut *best = spot_xcalloc((size_t)n_stage * (size_t)(n + 1), sizeof *best);
    int64_t at = 0;

    for (int64_t l = 0; l < n; l++)
        before[l + 1] = before[l] + (double)spot_shape_bundle_params(model, l + 1);
    for (int64_t p = n_stage - 1; p >= 0; p--)
        for (int64_t l = n; l >= 0; l--) {
            const double table = p ? 0 : (double)spot_shape_bundle_params(model, 0);
            struct cut *mine = &best[p * (n + 1) + l];

            mine->most = -1;
            for (int64_t e = p == n_stage - 1 ? n : l + 1; e <= n - (n_stage - 1 - p); e++) {
                const struct cut *next = &best[(p + 1) * (n + 1) + e];
                const bool is_last = p == n_stage - 1;
                const double cost = table + before[e] - before[l] +
                                    (is_last ? (double)spot_shape_bundle_params(model, n + 1) : 0);
                const double most = is_last || cost > next->most ? cost : next->most;
                const double squares = cost * cost + (is_last ? 0 : next->squares);

                if (e > l && (mine->most < 0 || most < mine->most ||
                              (most == mine->most && squares < mine->squares)))
                    *mine = (struct cut){ most, squares, e };
            }
        }
    for (int64_t p = 0; p < n_stage; p++) {
        stage_end[p] = best[p * (n + 1) + at].end;
        at = stage_end[p];
    }
    free(before), free(best);
}

/* --- reading --- */

static int read_model(struct spot_layout *layout, struct spot_err *err)
{
    struct read_model read = { .shape = { .vocab_pad = 1 }, .norm_elem = 2 };
    struct spot_shape *const w = &layout->model;
    const struct spot_json_value *obj;

    if (spot_json_object(&layout->json, layout->json.root, "", "model", true, &obj, err) ||
        spot_json_read_fields(&layout->json, obj, "/model", model_field, &read, err))
        return -1;
    *w = read.shape;
    w->is_tied = read.is_tied;
    w->kind.is_gated = read.is_gated;
    w->kind.bare = read.has_bias ? 0 : SPOT_BARE_ALL;
    w->norm_elem = read.norm_elem ? read.norm_elem : -1;
    if (!w->n_kv_head)
        w->n_kv_head = w->n_head;
    if (!w->head_dim)
        w->head_dim = w->width / w->n_head;
    if (w->n_head % w->n_kv_head)
        return spot_json_fail(&layout->json, "/model/kv_heads", err,
                              "does not divide the %lld heads", (long long)w->n_head);
    if (!w->head_dim)
        return spot_json_fail(&layout->json, "/model/heads", err, "more heads than width");
    if ((double)w->n_layer * (double)spot_shape_bundle_params(w, 1) +
            (double)spot_shape_bundle_params(w, 0) >
        1e14)
        return spot_json_fail(&layout->json, "/model", err, "more than 1e14 parameters");
    return 0;
}

static int read_ends(struct spot_layout *layout, struct spot_err *err)
{
    const struct spot_json_value *list, *rule = spot_json_get(layout->json.root, "partition");
    char at[64];

    if (spot_json_array(&layout->json, layout->json.root, "", "stage_ends", false,
                        SPOT_LAYOUT_LAYER_MAX, &list, err))
        return -1;
    for (int64_t p = 0; p < layout->p; p++)
        layout->stage_end[p] = (p + 1) * layout->model.n_layer / layout->p;
    if (rule && (!spot_json_is_string(rule) || (strcmp(spot_json_text(rule), "balanced") != 0 &&
                                                strcmp(spot_json_text(rule), "equal") != 0)))
        return spot_json_fail(&layout->json, "/partition", err, "expected equal or balanced");
    if (!list) {
        if (!rule || strcmp(spot_json_text(rule), "balanced") != 0)
            return 0;
        if ((double)layout->p * (double)layout->model.n_layer * (double)layout->model.n_layer >
            BALANCE_MAX)
            return spot_json_fail(&layout->json, "/partition", err,
                                  "too many layers and stages to balance: name stage_ends");
        spot_layout_balance(&layout->model, layout->p, layout->stage_end);
        return 0;
    }
    if ((int64_t)spot_json_array_size(list) != layout->p)
        return spot_json_fail(&layout->json, "/stage_ends", err, "expected %lld ends",
                              (long long)layout->p);
    for (int64_t p = 0; p < layout->p; p++) {
        const struct spot_json_value *end = spot_json_entry(list, (size_t)p);
        const int64_t least = p ? layout->stage_end[p - 1] + 1 : 1;
        const int64_t most = layout->model.n_layer - (layout->p - 1 - p);

        snprintf(at, sizeof at, "/stage_ends/%lld", (long long)p);
        if (!spot_json_is_integer(end) || spot_json_integer(end) < least ||
            spot_json_integer(end) > most || (p == layout->p - 1 && spot_json_integer(end) != most))
            return spot_json_fail(&layout->json, at, err,
                                  "ends must ascend to the number of layers, %lld",
                                  (long long)layout->model.n_layer);
        layout->stage_end[p] = spot_json_integer(end);
    }
    return 0;
}

static int read_grid(struct spot_layout *layout, struct spot_err *err)
{
    const struct spot_json_value *obj;

    layout->m = 1;
    if (spot_json_object(&layout->json, layout->json.root, "", "grid", true, &obj, err) ||
        spot_json_read_fields(&layout->json, obj, "/grid", grid_field, layout, err))
        return -1;
    if (layout->d * layout->p > SPOT_LAYOUT_POSITION_MAX ||
        layout->d * layout->p * layout->m > SPOT_LAYOUT_POSITION_MAX)
        return spot_json_fail(&layout->json, "/grid", err, "more than %d positions",
                              SPOT_LAYOUT_POSITION_MAX);
    if (layout->p > layout->model.n_layer)
        return spot_json_fail(&layout->json, "/grid/P", err, "more stages than the %lld layers",
                              (long long)layout->model.n_layer);
    return read_ends(layout, err);
}

static int read_components(struct spot_layout *layout, struct spot_err *err)
{
    const struct spot_json_value *list;
    char at[64];

    if (spot_json_array(&layout->json, layout->json.root, "", "components", true,
                        SPOT_LAYOUT_COMPONENT_MAX, &list, err))
        return -1;
    layout->n_component = spot_json_array_size(list);
    for (size_t k = 0; k < layout->n_component; k++) {
        snprintf(at, sizeof at, "/components/%zu", k);
        if (spot_json_read_fields(&layout->json, spot_json_entry(list, k), at, component_field,
                                  &layout->component[k], err))
            return -1;
        for (size_t i = 0; i < k; i++)
            if (!strcmp(layout->component[i].name, layout->component[k].name))
                return spot_json_fail(&layout->json, at, err, "named twice");
    }
    return 0;
}

/* A cache is matched by its name in the other layout, so names must be distinct. */
static int check_kv_names(const struct spot_layout *layout, struct spot_err *err)
{
    const char **name = spot_xcalloc(layout->n_kv, sizeof *name);
    int rc = 0;

    for (size_t k = 0; k < layout->n_kv; k++)
        name[k] = layout->kv[k].name;
    qsort(name, layout->n_kv, sizeof *name, spot_compare_texts);
    for (size_t k = 1; k < layout->n_kv && !rc; k++)
        if (!strcmp(name[k - 1], name[k]))
            rc = spot_json_fail(&layout->json, "/kv", err, "'%s' is named twice", name[k]);
    free(name);
    return rc;
}

static int read_kv(struct spot_layout *layout, struct spot_err *err)
{
    static const struct spot_layout_kv first = { .byte = 2 };
    char at[64];

    if (spot_json_rows(&layout->json, layout->json.root, "", "kv",
                       &(struct spot_doc_part){
                           .field = kv_field, .required = false, .n_max = SPOT_LAYOUT_KV_MAX },
                       &first, sizeof first, (void **)&layout->kv, &layout->n_kv, err))
        return -1;
    for (size_t k = 0; k < layout->n_kv; k++)
        if (layout->kv[k].d >= layout->d) {
            snprintf(at, sizeof at, "/kv/%zu", k);
            return spot_json_fail(&layout->json, at, err, "d is outside the grid");
        }
    return check_kv_names(layout, err);
}

static int read_places(struct spot_layout *layout, struct spot_err *err)
{
    bool *is_taken = NULL;
    const struct spot_json_value *list;
    char at[64];
    int rc = -1;
    int64_t newest = 0;

    if (spot_json_array(&layout->json, layout->json.root, "", "place", false,
                        SPOT_LAYOUT_POSITION_MAX, &list, err))
        return -1;
    for (size_t k = 0; k < layout->n_component; k++)
        if (layout->component[k].version > newest)
            newest = layout->component[k].version;
    layout->n_place = list ? spot_json_array_size(list) : 0;
    layout->place = spot_xcalloc(layout->n_place, sizeof *layout->place);
    is_taken = spot_xcalloc((size_t)(layout->d * layout->p * layout->m), sizeof(bool));
    for (size_t k = 0; k < layout->n_place; k++) {
        struct read_place read = { .version = newest };
        const struct spot_layout_place *place = &read.place;
        int64_t index;

        snprintf(at, sizeof at, "/place/%zu", k);
        if (spot_json_read_fields(&layout->json, spot_json_entry(list, k), at, place_field, &read,
                                  err))
            goto out;
        if (place->d >= layout->d || place->p >= layout->p || place->m >= layout->m) {
            spot_json_fail(&layout->json, at, err, "outside the grid");
            goto out;
        }
        index = (place->d * layout->p + place->p) * layout->m + place->m;
        if (is_taken[index]) {
            spot_json_fail(&layout->json, at, err, "a second node for this position");
            goto out;
        }
        is_taken[index] = true;
        read.place.is_stale = read.version < newest;
        layout->place[k] = read.place;
    }
    rc = 0;
out:
    free(is_taken);
    return rc;
}

static int read_layout(struct spot_layout *layout, struct spot_err *err)
{
    if (spot_json_expect_schema(&layout->json, "spot.layout", 1, err) || read_model(layout, err) ||
        read_grid(layout, err) || read_components(layout, err) || read_kv(layout, err) ||
        read_places(layout, err)) {
        spot_layout_release(layout);
        return -1;
    }
    return 0;
}

int spot_layout_load(struct spot_layout *layout, const char *path, struct spot_err *err)
{
    memset(layout, 0, sizeof *layout);
    return spot_json_load_path(&layout->json, path, err) ? -1 : read_layout(layout, err);
}

int spot_layout_parse(struct spot_layout *layout, const char *text, size_t n_byte,
                      const char *source, struct spot_err *err)
{
    memset(layout, 0, sizeof *layout);
    return spot_json_parse(&layout->json, text, n_byte, source, err) ? -1
                                                                     : read_layout(layout, err);
}

void spot_layout_release(struct spot_layout *layout)
{
    spot_json_release(&layout->json);
    free(layout->kv);
    free(layout->place);
    memset(layout, 0, sizeof *layout);
}
