/* SPDX-License-Identifier: MIT */
/* serve_solver.h - how many pipelines of which shape should serve the arriving requests, at what
 * price, and the resulting latency percentiles.
 *
 * Every shape (M, P) and number of pipelines on the available instances is evaluated by a queueing
 * model (plan/serve_queue_model.h): one queue, batches of waiting requests up to max_batch, each
 * with the parts that answer soonest. With an SLO the cheapest that meets it wins, and if none does
 * the one that misses it least. Without one a percent of price equals a percent of latency: the
 * minimum of price x P99. Spares are held so that losses, including joint ones, do not outnumber
 * them for a larger share of time than the percentile allows. Instances that are not needed are
 * released.
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
    double dispersion; /* variance over mean of arrivals in several batches' time; 1: Poisson */
    double backlog;    /* requests waiting now, beyond a batch for each pipeline */
};

struct spot_serve_limit {
    double percentile; /* 0..1 */
    double limit_s;    /* 0: none */
};

struct spot_serve_slo {
    struct spot_serve_limit e2e, ttft;
};

/* "e2e-p99=30s,ttft-p95=2s"; without "-pNN" p99 is assumed, and "e2e:p99=30s" is equivalent.
 * Returns 0, or -1 with *err (SPOT_EUSAGE): an unknown limit, a repeated one, a first token allowed
 * later than the last. */
int spot_serve_slo_parse(struct spot_serve_slo *slo, const char *text, struct spot_err *err);

enum { SPOT_SERVE_LENGTHS_MAX = 256 };

/* Instances of one zone and type. Each is lost alone at a rate `own`, and in shocks at a rate
 * `shock`, each of which takes it with probability `reach` (struct spot_forecast_shock). Only the
 * ratios of the rates count; their level is given by loss_per_s. */
struct spot_serve_place {
    double there; /* instances */
    double own, shock, reach;
};

struct spot_serve_ask {
    const struct spot_job_serve *serve;
    double usd_per_h; /* price of an instance; negative: unknown, instances are counted instead */
    int64_t instances;
    struct spot_serve_demand demand;
    struct spot_serve_slo slo;
    /* A sample of the lengths of arriving requests. n_length 0, or a profile without lengths: all
     * have those of the profile. A batch is several consecutive ones, and takes as long as the
     * longest. */
    const struct spot_serve_length *length; /* [n_length], up to SPOT_SERVE_LENGTHS_MAX */
    size_t n_length;
    double loss_per_s; /* of an instance */
    /* The places of the instances; used ones are distributed in the same shares. n_place 0: losses
     * are independent. */
    const struct spot_serve_place *place; /* [n_place] */
    size_t n_place;
    /* time until a lost instance is replaced by one that was not held as a spare */
    double repair_s;
    /* The running shape, if current_D > 0: a change to another shape pauses everything for
     * switch_s, which counts for the requests that arrive until the next change. */
    int64_t current_D;
    struct spot_serve_shape current; /* P and M */
    double switch_s, stay_s;
};

struct spot_serve_offer {
    int64_t D;                     /* pipelines */
    struct spot_serve_shape shape; /* parts: those of a full batch */
    int64_t instances, spares;     /* used, and held in addition */
    /* at the percentiles of the SLO (.99 without one); INFINITY: the queue grows */
    double e2e_s, ttft_s;
    double mean_s, p99_s; /* end to end; the 99th percentile regardless of the SLO */
    double request_s;     /* of a full batch, without queueing */
    double request_per_s; /* capacity */
    double load;          /* arrival rate as a share of it */
    double usd_per_h;     /* price of everything held; number of instances if no price is known */
    double score;         /* the best offer has the lowest */
    double pace_s;        /* minimum time between batches that are not full; 0: none */
    bool keeps_slo;       /* also true without an SLO */
    bool is_current;
};

/* Instances of a pipeline of this shape, and pipelines on these instances, whole instances per
 * pipeline if it needs several. */
int64_t spot_serve_unit_instances(const struct spot_job_serve *serve,
                                  const struct spot_serve_shape *shape);
int64_t spot_serve_unit_pipelines(const struct spot_job_serve *serve,
                                  const struct spot_serve_shape *shape);

/* The time of a batch of n requests in the parts that answer it soonest, which are set in *shape
 * together with B, n rounded up to a power of two. Returns 0, or -1 if the profile lacks these
 * times. */
int spot_serve_soonest(const struct spot_job_serve *serve, struct spot_serve_shape *shape,
                       int64_t n, struct spot_serve_time *time);

/* Offers in descending order, with the best number of pipelines for each (M, P); free() it. *n is 0
 * if the model does not fit. Cost: shapes x pipelines, a few microseconds each. */
struct spot_serve_offer *spot_serve_offers(const struct spot_serve_ask *ask, size_t *n);

/* The first of these offers only. Returns 0, or -1 if there is none. */
int spot_serve_offer_best(const struct spot_serve_ask *ask, struct spot_serve_offer *best);

/* Compute the other fields of *offer from D, P, M, spares and pace_s. Returns 0, or -1 if the job
 * has no such pipelines. */
int spot_serve_offer_complete(const struct spot_serve_ask *ask, struct spot_serve_offer *offer);

/* Maximum requests per second of this number of GPUs; 0 if the model does not fit on them. */
double spot_serve_most(const struct spot_job_serve *serve, int64_t gpus);

/* Minimum number of GPUs that hold the model; 0 if no number does, for any M. */
int64_t spot_serve_least_gpus(const struct spot_job_serve *serve);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SERVE_SOLVER_H */
