/* SPDX-License-Identifier: MIT */
#include "peers/auto_config.h"

#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "model/migrate_cost.h"
#include "peers/pipe_sim.h"

static const double US = 1e6;
static const double ALLREDUCE_BYTE_PER_S = 1.25 * 1024 * 1024 * 1000; /* 10 Gb/s, as in Parcae */

struct cutpoints {
    int first, n_layer; /* the range of equal layers */
    int n;              /* the paper's K */
};

static struct cutpoints cutpoints_of(const struct spot_job_doc *job)
{
    struct cutpoints c = { 0 };

    for (int i = 0, from = 0; i < (int)job->n_layer; i++) {
        if (job->layer[i].params != job->layer[from].params)
            from = i;
        if (i + 1 - from > c.n_layer)
            c = (struct cutpoints){ .first = from, .n_layer = i + 1 - from };
    }
    c.n = c.n_layer / 2 * 2;
    return c;
}

/* Microseconds of the forward and the backward pass of each of p equal cuts; returns the parameters
 * of the largest. Layers before the range of equal layers belong to the first stage, those after it
 * to the last. */
static double stage_times(const struct spot_job_doc *job, const struct cutpoints *c, int p,
                          int64_t *forward, int64_t *backward)
{
    double *params = spot_xcalloc((size_t)p, sizeof(*params)), most = 0, all = 0;
    bool timed = false;

    for (size_t i = 0; i < job->n_layer; i++) {
        timed = timed || job->layer[i].forward_s > 0;
        all += job->layer[i].params;
    }
    for (int i = 0; i < (int)job->n_layer; i++) {
        const struct spot_job_layer *l = &job->layer[i];
        const double share = l->params / all; /* a third of the work is the forward pass */
        const int in = i < c->first ? 0 : i - c->first;
        const int k = in < c->n_layer ? (int)((int64_t)in * p / c->n_layer) : p - 1;

        forward[k] += llround((timed ? l->forward_s : share / 3) * US);
        backward[k] += llround((timed ? l->backward_s : share * 2 / 3) * US);
        params[k] += l->params;
        most = params[k] > most ? params[k] : most;
    }
    free(params);
    return most;
}

/* A ring all-reduce over the replicas of the largest stage, 4 bytes per parameter. */
static double allreduce_s(double params, int d)
{
    return d < 2 ? 0 : params * 4 / ALLREDUCE_BYTE_PER_S * 2 * (d - 1) / d;
}

static int64_t minibatch_us(const struct spot_job_doc *job, const struct cutpoints *c, int d, int p,
                            bool is_released)
{
    int64_t *forward = spot_xcalloc(2 * (size_t)p, sizeof(*forward)), *backward = forward + p;
    const double params = stage_times(job, c, p, forward, backward);
    const struct spot_pipe_sim sim = {
        .policy = SPOT_PIPE_VARUNA,
        .p = p,
        .m = (int)ceil(floor((double)job->global_batch / d) / (double)job->micro_batch),
        .forward_us = forward,
        .backward_us = backward,
        .allreduce_us = llround(allreduce_s(params, d) * US),
        .per_machine = 1,
        .is_released = is_released,
    };
    struct spot_err err = { 0 };
    int64_t us;
    const int rc = spot_pipe_sim_run(&sim, &us, &err);

    free(forward);
    return rc ? INT64_MAX : us;
}

void spot_auto_config(const struct spot_throughput *t, const struct spot_job_doc *job, int n,
                      bool is_released, int *d, int *p)
{
    const struct cutpoints c = cutpoints_of(job);
    int64_t best = INT64_MAX;

    *d = *p = 0;
    for (int k = 1; k < c.n && k <= t->p_max && k <= n; k++) {
        const int most = spot_job_pipelines_max(job), wide = n / k < most ? n / k : most;
        int64_t us;

        if (c.n % k || !spot_throughput_allows(job, wide, k))
            continue;
        us = minibatch_us(job, &c, wide, k, is_released);
        if (us < best) {
            best = us;
            *d = wide;
            *p = k;
        }
    }
}
