/* SPDX-License-Identifier: MIT */
/* plan_doc.h - the document spot.plan/1: the grid that a job should run next, and why.
 *
 * A loaded plan owns its JSON text; its strings live until release. A plan built for writing
 * borrows its strings, and its arrays are the caller's.
 */
#ifndef SPOT_MODEL_PLAN_DOC_H
#define SPOT_MODEL_PLAN_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/json.h"
#include "common/prov.h"
#include "model/grid.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_PLAN_PLACE_MAX = SPOT_GRID_MAX,
    SPOT_PLAN_PATH_MAX = 1024,
    SPOT_PLAN_WHY_MAX = 64,
    SPOT_PLAN_ALTERNATIVE_MAX = 256,
    SPOT_PLAN_WEIGHT_MAX = 4096,
    SPOT_PLAN_ROUTE_MAX = 16384,
};

/* The place of a node: pipeline d, stage p, rank m, counted from 0. */
struct spot_plan_place {
    const char *node;
    int64_t d, p, m;
};

/* For serving: a replica's share of the requests, relative to others. */
struct spot_plan_weight {
    const char *node; /* the worker at its first position; NULL: any */
    const char *zone; /* its failure domain; NULL: any */
    double weight;    /* 2 takes twice the load of 1, the default */
};

/* Of a fleet: the share of the requests of one size that such machines serve. */
struct spot_plan_route {
    const char *bucket, *type;
    const char *zone;                  /* NULL: any */
    const char *market;                /* "spot" or "on-demand" */
    double prompt_token, output_token; /* sizes of the bucket's requests; 0: any */
    double share;                      /* share of the bucket, 0..1 */
    double first_s;                    /* limit on the time to first token; 0: any */
};

/* The most likely grid of a later interval and its probability. */
struct spot_plan_path {
    int64_t d, p;
    double prob;
};

struct spot_plan_alternative {
    int64_t d, p, spares;
    int64_t m, b;                     /* of a plan to serve; 0: not given */
    double requests_per_s, latency_s; /* likewise; see expected */
    double samples_per_s;             /* expected, including losses and migrations */
    double undisturbed_samples_per_s; /* of the grid itself without losses; 0: not given */
    /* probability that a pipeline breaks in the next interval, 0..1 */
    double loss_prob;
    const char *from; /* as in expected */
    const char *why;  /* NULL or one sentence */
};

struct spot_plan_expected {
    /* source of the undisturbed speed: "profile", "interpolated", "extrapolated" or "law"; NULL:
     * not given */
    const char *from;
    /* state of the fitted curve: "trusted", "mistrusted" (not used), "asked" (used although it
     * would be mistrusted), "unused"; NULL: there is none, or not said */
    const char *law;
    double law_miss;      /* with law: its largest relative error against a measured step time */
    double samples_per_s; /* mean over the horizon */
    double undisturbed_samples_per_s; /* as in an alternative */
    double usd_per_h;                 /* negative: no price known, keys left out */
    double usd_per_sample;            /* likewise */
    /* probability that some stage loses every replica in the next interval, 0..1 */
    double loss_prob;
    /* Of a plan to serve: */
    double requests_per_s; /* capacity */
    double latency_s;      /* of one request, without queueing; 0: not given */
    double e2e_p99_s;      /* 99th percentile of a request, including the queue; 0: not given */
    double rate_per_s;     /* arrival rate; 0: not given */
};

enum spot_plan_kind { SPOT_PLAN_TRAIN, SPOT_PLAN_SERVE, SPOT_PLAN_FLEET };

/* docs/schema/plan.json is made from this. */
extern const struct spot_doc_part spot_plan_part[];

struct spot_plan_doc {
    enum spot_plan_kind kind;
    const char *job;
    double time_s;
    int64_t epoch; /* -1: the plan names none and applies to any */
    struct spot_grid next;
    int64_t micro_batch; /* samples; of a plan to serve: maximum requests of a pipeline at once */
    int64_t prefill_parts, decode_parts; /* to serve: microbatches of a batch; 0: not given */
    int64_t spares;
    struct spot_plan_place *place; /* [n_place]; empty: the coordinator assigns places */
    size_t n_place;
    /* [n_weight], to serve; the first that matches a replica counts */
    struct spot_plan_weight *weight;
    size_t n_weight;
    struct spot_plan_route *route; /* [n_route], to serve, or of a fleet */
    size_t n_route;
    struct spot_plan_path *path; /* [n_path], from the next interval on */
    size_t n_path;
    struct spot_plan_expected expected;
    double bound; /* no grid has a higher samples_per_s under this forecast */
    double gap;   /* (bound - expected) / bound, 0..1 */
    const char **why;
    size_t n_why;
    struct spot_plan_alternative *alternative; /* best first */
    size_t n_alternative;
    struct spot_json_doc json; /* of a loaded plan */
};

/* True if the plan says to stop and keep the state. */
static inline bool spot_plan_doc_is_suspend(const struct spot_plan_doc *plan)
{
    return plan->kind != SPOT_PLAN_FLEET && plan->next.D == 0;
}

/* Read a plan from memory. A plan of kind fleet is read as far as a server can follow it: without
 * `next`; `buy` is read by plan_buy.h. Returns 0, or -1 with *err (SPOT_EDATA or SPOT_ESYS) and
 * *plan zeroed. A grid beyond SPOT_GRID_MAX, a place outside the grid, a place given twice or a
 * node with two places are rejected. Strings are as in the document; job may be empty. */
int spot_plan_doc_parse(struct spot_plan_doc *plan, const char *text, size_t n_byte,
                        const char *source, struct spot_err *err);

/* The key `route`. */
void spot_plan_route_write(struct spot_jw *jw, const struct spot_plan_route *route, size_t n);

/* Free what a loaded plan owns. Not for a plan built for writing. */
void spot_plan_doc_release(struct spot_plan_doc *plan);

/* Write the document. Returns 0, or -1 with *err (SPOT_ESYS; SPOT_EDATA for a NaN). */
int spot_plan_doc_write(const struct spot_plan_doc *plan, const struct spot_prov *prov, FILE *out,
                        struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_PLAN_DOC_H */
