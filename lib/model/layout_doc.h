/* SPDX-License-Identifier: MIT */
/* layout_doc.h - the document spot.layout/1: which node holds which part of a model's state.
 *
 * A model is a list of bundles: 0 the embedding, 1..L the layers, L + 1 the head. A bundle has
 * tensor groups; a group is an axis of atoms that tensor parallelism cuts, or is replicated.
 * A grid (D, P, M) gives position (d, p, m), index (d * P + p) * M + m, the bundles of stage p and
 * the atoms of rank m; docs/formats/layout.md has the rules.
 *
 * A loaded layout owns its JSON text; its strings live until release.
 */
#ifndef SPOT_MODEL_LAYOUT_DOC_H
#define SPOT_MODEL_LAYOUT_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/json.h"
#include "model/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_LAYOUT_POSITION_MAX = 16384,
    SPOT_LAYOUT_LAYER_MAX = 4096,
    SPOT_LAYOUT_COMPONENT_MAX = 16,
    SPOT_LAYOUT_KV_MAX = 4096,
};

struct spot_layout_component {
    const char *name;       /* w16, master, m, v */
    int64_t byte_per_param; /* 1..16 */
    int64_t version;        /* the step it belongs to */
    bool is_zero;           /* ZeRO-1: divided further over the D replicas */
};

/* The cache of one group of requests, on all stages and ranks of replica d. */
struct spot_layout_kv {
    const char *name;
    int64_t d, n_token;
    int64_t byte; /* bytes of one number; default 2 */
};

struct spot_layout_place {
    const char *node;
    int64_t d, p, m;
    bool is_stale; /* its version is older than that of the components: not a source */
};

/* docs/schema/layout.json is made from this. */
extern const struct spot_doc_part spot_layout_part[];

struct spot_layout {
    struct spot_json_doc json;
    struct spot_shape model; /* of SPOT_ARCH_TOLD; shards 0: cut at heads, hidden units, rows */
    int64_t d, p, m;
    int64_t stage_end[SPOT_LAYOUT_LAYER_MAX]; /* [p] layers below it belong to stages ..k */
    struct spot_layout_component component[SPOT_LAYOUT_COMPONENT_MAX];
    size_t n_component;
    struct spot_layout_kv *kv; /* [n_kv] */
    size_t n_kv;
    struct spot_layout_place *place; /* [n_place], empty: the planner assigns places */
    size_t n_place;
};

/* Returns 0, or -1 with *err: SPOT_EDATA naming the place for a document that is malformed or
 * inconsistent: sizes beyond the limits, a position outside the grid or listed twice, stage ends
 * that do not ascend to the number of layers, more stages than layers. */
int spot_layout_load(struct spot_layout *layout, const char *path, struct spot_err *err);
int spot_layout_parse(struct spot_layout *layout, const char *text, size_t n_byte,
                      const char *source, struct spot_err *err);
void spot_layout_release(struct spot_layout *layout);

extern const char *const spot_group_name[SPOT_GROUPS]; /* "attention.q", ... */

/* Elements [*lo, *hi) of the group that rank m of n_rank owns. */
void spot_layout_range(const struct spot_shape *model, int64_t bundle, int group, int64_t m,
                       int64_t n_rank, int64_t *lo, int64_t *hi);

/* First and last bundle of stage p. A tied table is also on the last stage. */
void spot_layout_stage(const struct spot_layout *layout, int64_t p, int64_t *first, int64_t *last);

/* End layers of the contiguous partition that minimises the largest stage, then the sum of squares,
 * then the ends lexicographically; cost: parameters, including table and head. */
void spot_layout_balance(const struct spot_shape *model, int64_t n_stage, int64_t *stage_end);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_LAYOUT_DOC_H */
