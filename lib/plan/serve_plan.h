/* SPDX-License-Identifier: MIT */
/* serve_plan.h - chooses (D,P,M,B) for serving requests on the available instances, as a document.
 *
 * Our own solver is plan/serve_solver.h. The alternative is the rule of SpotServe (Miao et al.,
 * ASPLOS 2024, Algorithm 1) as its artifact's solver runs it: of the configurations that sustain
 * the rate the one with the lowest latency, if there is none the one with the highest throughput.
 * It counts every GPU; its latency excludes queueing.
 */
#ifndef SPOT_PLAN_SERVE_PLAN_H
#define SPOT_PLAN_SERVE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "model/job_serve.h"
#include "model/plan_doc.h"
#include "plan/serve_solver.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_serve_choice {
    int64_t D;
    struct spot_serve_shape shape;
    struct spot_serve_time time;
    double request_per_s; /* D B / request_s */
    bool keeps_up;        /* sustains the given rate */
};

/* Choose for `gpus` GPUs and an arrival rate of rate_per_s. Degrees are tried M, B, prefill and
 * decode parts, P ascending, and the first of equals is kept, as in the artifact. Returns 0, or -1
 * if the model does not fit. Cost: a few hundred configurations. */
int spot_serve_choose(const struct spot_job_serve *serve, int64_t gpus, double rate_per_s,
                      struct spot_serve_choice *choice);

/* The best configuration of every (M, P), with its best B and parts, in the order of preference:
 * free() it; *n is 0 if the model does not fit. The first is the result of spot_serve_choose. */
struct spot_serve_choice *spot_serve_choices(const struct spot_job_serve *serve, int64_t gpus,
                                             double rate_per_s, size_t *n);

/* Fewest GPUs that hold the model; 0: none, for any M. */
int64_t spot_serve_least_gpus(const struct spot_job_serve *serve);

struct spot_job_doc;

enum spot_serve_solver { SPOT_SERVE_SOLVER_SPOT, SPOT_SERVE_SOLVER_SPOTSERVE };

struct spot_serve_question {
    const struct spot_job_doc *job; /* with `serve` */
    enum spot_serve_solver solver;
    int64_t instances;
    double rate_per_s; /* requests */
    double time_s;
    /* for our solver: dispersion, SLO, losses, what runs; the rest is filled in */
    struct spot_serve_ask ask;
};

struct spot_serve_plan {
    struct spot_plan_doc doc; /* to be written; its arrays and texts are below */
    struct spot_plan_alternative *alternative;
    char **text; /* [n_text] */
    size_t n_text;
    const char **why;
};

/* Our solver and the published rule, each into *plan; serve_plan_make selects by the question. */
int spot_serve_plan_ours(struct spot_serve_plan *plan, const struct spot_serve_question *question,
                         struct spot_err *err);

/* A sentence owned by the plan. */
SPOT_PRINTF(2, 3)
const char *spot_serve_plan_say(struct spot_serve_plan *plan, const char *fmt, ...);

/* Says how many instances would hold the model; -1 with *err (SPOT_EINFEASIBLE). */
int spot_serve_plan_refuse(const struct spot_serve_question *question, struct spot_err *err);

/* The plan as a document, with reasons and alternatives. Returns 0, or -1 with *err
 * (SPOT_EINFEASIBLE), which says how many instances would suffice. */
int spot_serve_plan_make(struct spot_serve_plan *plan, const struct spot_serve_question *question,
                         struct spot_err *err);
void spot_serve_plan_release(struct spot_serve_plan *plan);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_SERVE_PLAN_H */
