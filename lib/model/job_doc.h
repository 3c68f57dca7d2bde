/* SPDX-License-Identifier: MIT */
/* job_doc.h - the document spot.job/1: what a job computes, its speed, and the cost of changes.
 *
 * A loaded job owns its arrays and the JSON text that its strings are in. docs/formats/job.md names
 * every key.
 */
#ifndef SPOT_MODEL_JOB_DOC_H
#define SPOT_MODEL_JOB_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/json.h"
#include "common/prov.h"
#include "model/grid.h"
#include "model/job_serve.h"
#include "model/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_JOB_LAYER_MAX = 1024,
    SPOT_JOB_PROFILE_MAX = 16384,
    SPOT_JOB_TABLE_MAX = 256, /* entries of p2p, build_s, regroup steps, skipped degrees */
};

struct spot_job_measured;

enum spot_job_kind { SPOT_JOB_TRAIN, SPOT_JOB_SERVE };

/* All zero if the job gives `layers` instead. Llama's architecture with kv_heads and ffn, GPT-2's
 * without; vocab 0: not given, 256. */
struct spot_job_model {
    struct spot_shape shape;
    const char *recompute; /* none, attention, mlp or layer; NULL: not given, attention */
};

/* One unit of pipeline partition. Times are for one micro batch; 0: not known. */
struct spot_job_layer {
    double params;
    double forward_s, backward_s;
    double activation_byte;
};

/* One measured grid. step_s is the time of one global batch (train); the others 0 if absent. */
struct spot_job_profile {
    struct spot_grid grid;
    int64_t micro_batch;
    double step_s;
    double samples_per_s;
    double latency_s;
    bool is_outlier; /* marked as an outlier in the document */
};

/* Which grids are allowed. */
struct spot_job_memory {
    double node_byte;            /* of one instance; 0: not given */
    double state_byte_per_param; /* weights, gradients, optimizer; default 16 */
    int64_t p_min, p_max;        /* stages of a pipeline; p_max 0: number of layers */
    int64_t d_min;               /* default 1 */
    const int64_t *p_skip;       /* [n_p_skip], stage counts that do not partition */
    size_t n_p_skip;
};

struct spot_job_xy {
    double x, y;
};

/* Group rebuild for D from `d_from` on, in seconds. */
struct spot_job_regroup_step {
    int64_t d_from;
    double add_s, remove_s;
};

/* The cost of changing the grid; the terms of Parcae's model (docs/formats/job.md). */
struct spot_job_cost {
    bool is_given;
    double usd_per_h, on_demand_usd_per_h; /* of one instance; negative: not given */
    double interval_s;                     /* default 60 */
    int64_t look_ahead;                    /* intervals, default 12 */
    double move_byte_per_param;            /* transferred by a migration, default 12 */
    struct spot_job_xy *p2p;               /* [n_p2p] bytes -> seconds, ascending */
    size_t n_p2p;
    double process_s, rendezvous_s, extra_s; /* the last two only if instances join */
    double regroup_s;                        /* constant part */
    double add_per_group_s, remove_per_group_s;
    double add_per_node_s, remove_per_node_s;
    struct spot_job_regroup_step *regroup; /* [n_regroup], ascending d_from */
    size_t n_regroup;
    /* [n_build] P -> seconds; between entries the next smaller P applies */
    struct spot_job_xy *build;
    size_t n_build;
    double checkpoint_s; /* save and load of the whole state, in addition to its transfer */
    double restart_s;    /* > 0: a constant that replaces every restart cost */
    /* added if a stage lost every replica: reading from disk, and repeating work */
    double restore_s;
};

/* docs/schema/job.json is made from this. */
extern const struct spot_doc_part spot_job_part[];

struct spot_job_doc {
    const char *name;
    enum spot_job_kind kind;
    int64_t global_batch; /* samples of one optimizer step; 0: a serving job */
    int64_t micro_batch, seq;
    const char *source;        /* source of the figures; NULL if not given */
    const char *instance_type; /* type that they apply to; NULL: any */
    struct spot_job_model model;
    struct spot_job_layer *layer; /* [n_layer]; made from `model` if the job lists none */
    size_t n_layer;
    bool lists_layers;
    struct spot_job_profile *profile; /* [n_profile] */
    size_t n_profile;
    struct spot_job_memory memory;
    struct spot_job_cost cost;
    struct spot_job_serve serve;
    const struct spot_job_measured *measured; /* written if present; a loaded job has none */
    struct spot_json_doc json;                /* of a loaded job */
};

/* Read a job from a path ("-" is stdin), or from memory. An absent key takes the default given
 * above. Returns 0, or -1 with *err (SPOT_EDATA or SPOT_ESYS) and *job zeroed. */
int spot_job_doc_load(struct spot_job_doc *job, const char *path, struct spot_err *err);
int spot_job_doc_parse(struct spot_job_doc *job, const char *text, size_t n_byte,
                       const char *source, struct spot_err *err);
void spot_job_doc_release(struct spot_job_doc *job);

/* Likely misspelt keys of a loaded job, unknown ones that resemble an absent known one:
 * "/cost/usd_per_hour: unknown key; did you mean 'usd_per_h'?". tell() gets one at a time. */
void spot_job_doc_warn_misspelt(const struct spot_job_doc *job, void (*tell)(const char *sentence));

/* Write the document; default and absent values are left out. Returns 0, or -1 with *err. */
int spot_job_doc_write(const struct spot_job_doc *job, const struct spot_prov *prov, FILE *out,
                       struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_JOB_DOC_H */
