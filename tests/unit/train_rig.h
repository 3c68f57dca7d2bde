/* SPDX-License-Identifier: MIT */
/* train_rig.h - a question to spot-plan train, about a shipped job. */
#ifndef SPOT_TESTS_TRAIN_RIG_H
#define SPOT_TESTS_TRAIN_RIG_H

#include <stdio.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/train_plan.h"
#include "suite.h"

static const char *const job_name[] = { "gpt-1.5b", "gpt-6.7b", "bert", "resnet152", "vgg19" };

struct rig {
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_change_dist dist;
    struct spot_train_question q;
    struct spot_train_plan plan;
};

/* About the job that is there. */
static inline void pose(struct rig *r, int now, int n_max, enum spot_throughput_source source,
                        enum spot_train_solver solver)
{
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_throughput_init(&r->throughput, &r->job, n_max, source, &err), "%s",
                  err.msg);
    spot_change_dist_still(&r->dist, now, 60, 12);
    r->q = (struct spot_train_question){ .job = &r->job,
                                         .throughput = &r->throughput,
                                         .dist = &r->dist,
                                         .max_loss_prob = 1,
                                         .solver = solver,
                                         .horizon = 12 };
}

static inline void load(struct rig *r, const char *name, int now, int n_max,
                        enum spot_throughput_source source)
{
    struct spot_err err = { 0 };
    char path[96];

    memset(r, 0, sizeof(*r));
    snprintf(path, sizeof(path), "examples/jobs/%s.json", name);
    ck_assert_msg(!spot_job_doc_load(&r->job, path, &err), "%s", err.msg);
    pose(r, now, n_max, source, SPOT_SOLVER_DP);
}

/* Losses of 1..3 and gains of 1..2, with these probabilities. */
static inline void unrest(struct rig *r, int n_max, double lose, double gain)
{
    const int now = r->dist.now;

    spot_change_dist_release(&r->dist);
    spot_change_dist_still(&r->dist, now, 60, 12);
    r->dist.cap = n_max;
    free(r->dist.count);
    r->dist.count = spot_xcalloc(12 * ((size_t)n_max + 1), sizeof(double));
    for (int h = 0; h < 12; h++)
        r->dist.count[(size_t)h * ((size_t)n_max + 1) + (size_t)now] = 1;
    free(r->dist.change);
    r->dist.change = spot_xcalloc(6, sizeof(*r->dist.change));
    r->dist.change[0] = (struct spot_change){ 0, 0, 1 - lose - gain };
    r->dist.change[1] = (struct spot_change){ 0, 1, gain * 0.7 };
    r->dist.change[2] = (struct spot_change){ 0, 2, gain * 0.3 };
    r->dist.change[3] = (struct spot_change){ 1, 0, lose * 0.6 };
    r->dist.change[4] = (struct spot_change){ 2, 0, lose * 0.3 };
    r->dist.change[5] = (struct spot_change){ 3, 0, lose * 0.1 };
    r->dist.n_change = 6;
}

static inline void make(struct rig *r)
{
    struct spot_err err = { 0 };

    spot_train_plan_release(&r->plan);
    ck_assert_msg(!spot_train_plan_make(&r->plan, &r->q, &err), "%s", err.msg);
}

static inline void unload(struct rig *r)
{
    spot_train_plan_release(&r->plan);
    spot_change_dist_release(&r->dist);
    spot_throughput_release(&r->throughput);
    spot_job_doc_release(&r->job);
}

#endif /* SPOT_TESTS_TRAIN_RIG_H */
