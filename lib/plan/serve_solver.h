/* SPDX-License-Identifier: MIT */
/* serve_solver.h - how many pipelines of which shape should answer the requests that come, at what
 * price, and which latency a share of them keeps then.
 *
 * Every shape (M, P) and number of pipelines on what is there is judged by a queueing model
 * (plan/serve_queue_model.h): one queue, batches of what waits up to max_batch, each with the parts
 * that answer it soonest. Under an SLO the cheapest that keeps it wins, and if none does the one
 * that misses it least. Without one a percent of price is worth a percent of latency: the least
 * price x P99. Spares are held where losses would outnumber them for more of the time than the
 * percentile allows. Instances that are not needed are not kept.
 */
#ifndef SPOT_PLAN_SERVE_SOLVER_H
#define SPOT_PLAN_SERVE_SOLVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "model/job_doc.h"
#include "model/job_serve.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_serve_demand {
    double rate_per_s;
    double dispersion; /* variance over mean of arrivals in some batches' time; 1: Poisson */
    double backlog;    /* requests that wait now, beyond a batch for each pipeline */
};

struct spot_serve_limit {
    double percentile; /* 0..1 */
    double limit_s;    /* 0: none */
};

struct spot_serve_slo {
    struct spot_serve_limit e2e, ttft;
};

/* "e2e-p99=30s,ttft-p95=2s"; without "-pNN" p99 is meant, and "e2e:p99=30s" says the same. Returns
 * 0, or -1 with *err (SPOT_EUSAGE): no such limit, one given twice, a first token that may come
 * later than the last. */
int spot_serve_slo_parse(struct spot_serve_slo *slo, const char *text, struct spot_err *err);

enum { SPOT_SERVE_LENGTHS_MAX = 256 };

struct spot_serve_ask {
    const struct spot_job_serve *serve;
    double usd_per_h; /* of an instance; negative: not known, instances are counted */
    int64_t instances;
    struct spot_serve_demand demand;
    struct spot_serve_slo slo;
    /* Lengths of requests that come, a sample; n_length 0, or a profile that does not know lengths:
     * all are the profile's. A batch is some in a row, and takes as long as the longest of them. */
    const struct spot_serve_length *length; /* [n_length], up to SPOT_SERVE_LENGTHS_MAX */
    size_t n_length;
    double loss_per_s; /* of an instance */
    double repair_s;   /* until a lost one is replaced by one that was not held */
    /* What runs, if current_D > 0: another shape pauses all for switch_s, and is paid for by those
     * who come in the time up to the next change. */
    int64_t current_D;
    struct spot_serve_shape current; /* P and M */
    double switch_s, stay_s;
};

struct spot_serve_offer {
    int64_t D;                     /* pipelines */
    struct spot_serve_shape shape; /* parts: of a full batch */
    int64_t instances, spares;     /* used, and held beside them */
    double e2e_s, ttft_s;          /* at the SLO's percentiles (.99 without); INFINITY: it grows */
    double mean_s, p99_s;          /* end to end; the 99th percentile whatever the SLO says */
    double request_s;              /* of a full batch, without a queue */
    double request_per_s;          /* that it can answer */
    double load;                   /* share of that which comes */
    double usd_per_h;              /* of all that is held; instances where no price is known */
    double score;                  /* what is least for the best */
    double pace_s;                 /* least time between batches that are not full; 0: none */
    bool keeps_slo;                /* true without one */
    bool is_current;
};

/* Instances of a pipeline of this shape, and pipelines on these: one of them where it needs several
 * instances. */
int64_t spot_serve_unit_instances(const struct spot_job_serve *serve,
                                  const struct spot_serve_shape *shape);
int64_t spot_serve_unit_pipelines(const struct spot_job_serve *serve,
                                  const struct spot_serve_shape *shape);

/* The time of a batch of n requests in the parts that answer it soonest, which are set in *shape
 * beside B, n rounded up to a power of two. Returns 0, or -1 if the profile has no such times. */
int spot_serve_soonest(const struct spot_job_serve *serve, struct spot_serve_shape *shape,
                       int64_t n, struct spot_serve_time *time);

/* Best first, the best number of pipelines for each (M, P); free() it. *n is 0 if the model does
 * not fit. Cost: shapes x pipelines, a microsecond or some each. */
struct spot_serve_offer *spot_serve_offers(const struct spot_serve_ask *ask, size_t *n);

/* The first of them. Returns 0, or -1. */
int spot_serve_offer_best(const struct spot_serve_ask *ask, struct spot_serve_offer *best);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SERVE_SOLVER_H */
