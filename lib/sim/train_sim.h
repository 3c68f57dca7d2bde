/* SPDX-License-Identifier: MIT */
/* train_sim.h - plays a training job against an availability trace under a policy.
 *
 * Time advances in intervals. At the start of interval i the count changes from n[i-1] to n[i]
 * (gained or lost, net); a policy answers with the grid for the interval, pays the cost of the
 * change, and trains for the rest. What it knows of the change in advance depends on the notices of
 * losses and of gains. Every machine-second of the trace belongs to exactly one class.
 */
#ifndef SPOT_SIM_TRAIN_SIM_H
#define SPOT_SIM_TRAIN_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "plan/cost_table.h"
#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SIM_INTERVALS_MAX = 400000 }; /* nine months of minutes; each takes about 140 bytes */

enum spot_sim_class {
    SPOT_SIM_EFFECTIVE,   /* training that counts */
    SPOT_SIM_RECONFIGURE, /* in the grid, waiting for a change */
    SPOT_SIM_CHECKPOINT,  /* saving or loading checkpoints */
    SPOT_SIM_REDONE,      /* training whose result was lost */
    SPOT_SIM_REDUNDANT,   /* computed twice on purpose */
    SPOT_SIM_IDLE,        /* outside the grid, or in a grid of unknown speed */
    SPOT_SIM_BOOTING,
    SPOT_SIM_CLASSES,
};

struct spot_sim_row {
    int available, gained, lost;
    int d, p, spares;
    /* grid chosen by a migrating policy, before it is reduced to fit; 0: none */
    int asked_d, asked_p;
    double carry_s;      /* rest of a migration that is unfinished after the interval */
    double cost_s;       /* charged for the change of this interval */
    double samples;      /* samples committed in it */
    double lost_samples; /* samples that had been processed and were lost */
    double usd;          /* price of all machines present; 0 without a price */
    double class_s[SPOT_SIM_CLASSES]; /* machine-seconds */
};

struct spot_peer_prices; /* lib/peers/peer_model.h */

struct spot_sim_train {
    const struct spot_job_doc *job;
    const struct spot_throughput *throughput;
    struct spot_cost_table *table; /* up to spot_sim_cap() of the maximum count */
    size_t n_interval;
    const int *available; /* [n_interval] */
    /* for forecasts, its start is interval 0; NULL: of the counts */
    const struct spot_trace *trace;
    double interval_s;
    int look_ahead;
    /* How early a loss and a gain are known; 0: only afterwards. Clouds announce losses. */
    double notice_loss_s, notice_gain_s;
    const struct spot_peer_prices *peers; /* of other systems; NULL: as published */
    bool is_sampled; /* draw the victims and charge accordingly; else the expectation is charged */
    uint64_t seed;
};

/* The number of instances for which a policy plans if `seen` is the maximum observed: that of the
 * job's profile (or 1), doubled until it suffices, but at most what a cost table allows. */
int spot_sim_cap(const struct spot_job_doc *job, int seen);

struct spot_sim_policy {
    const char *name, *summary;
    /* Fill row[n_interval]; the trace's own columns and usd are already filled. */
    int (*run)(const struct spot_sim_train *sim, struct spot_sim_row *row, struct spot_err *err);
    bool is_on_demand; /* machines that are never lost, at the on-demand price */
    const char *above; /* why the policy may exceed `optimal`; NULL: it cannot */
};

/* Ours and the yardsticks, ends with a NULL name; those of other systems: lib/peers. */
extern const struct spot_sim_policy spot_sim_policies[];

/* Run one policy. row has room for n_interval. Returns 0, or -1 with *err. */
int spot_sim_train_run(const struct spot_sim_train *sim, const struct spot_sim_policy *policy,
                       struct spot_sim_row *row, struct spot_err *err);

struct spot_sim_total {
    double samples, lost_samples, usd;
    double class_s[SPOT_SIM_CLASSES];
    int64_t migrations; /* intervals in which the grid changed or a change was paid for */
};
void spot_sim_total(const struct spot_sim_row *row, size_t n, struct spot_sim_total *total);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_TRAIN_SIM_H */
