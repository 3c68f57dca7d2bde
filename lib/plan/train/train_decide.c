/* SPDX-License-Identifier: MIT */
/* The decision of a training job: which grid to run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/decision.h"

struct spot_decider {
    struct spot_train_question rule;
    struct spot_change_dist dist;
    struct spot_seen seen;
    struct spot_grid runs;
    double pending_s;
    struct spot_train_memory *memory;
};

static struct spot_decider *train_open(const struct spot_rule *rule)
{
    struct spot_decider *d = spot_xcalloc(1, sizeof(*d));

    d->rule = *rule->train;
    d->memory = spot_train_memory_new();
    return d;
}

static int train_observe(struct spot_decider *d, const struct spot_seen *seen, struct spot_err *err)
{
    spot_change_dist_release(&d->dist);
    d->seen = *seen;
    if (spot_grid_size(&seen->runs)) {
        d->runs = seen->runs;
        d->pending_s = seen->pending_s;
    }
    if (seen->forecast)
        return spot_change_dist_init(&d->dist, seen->forecast, seen->there, err);
    if (seen->there < 0)
        return spot_err_set(err, SPOT_EUSAGE, "neither a forecast nor a count of instances");
    spot_change_dist_still(&d->dist, seen->there, d->rule.job->cost.interval_s, 1);
    return 0;
}

static int train_decide(struct spot_decider *d, struct spot_action *action,
                        const struct spot_told *told, struct spot_err *err)
{
    struct spot_train_question q = d->rule;
    struct spot_train_plan own = { 0 }, *made = told ? told->train : &own;

    q.dist = &d->dist;
    q.time_s = d->seen.time_s;
    q.current_d = (int)d->runs.D;
    q.current_p = (int)d->runs.P;
    q.pending_s = d->pending_s;
    q.announced = d->seen.announced;
    q.n_announced = d->seen.n_announced;
    q.memory = d->memory;
    q.is_terse = !told;
    if (spot_train_plan_make(made, &q, err))
        return -1;
    action->grid = made->doc.next;
    d->runs = made->doc.next;
    d->pending_s = 0;
    if (!told)
        spot_train_plan_release(&own);
    return 0;
}

static void train_save(const struct spot_decider *d, char *line)
{
    snprintf(line, SPOT_DECISION_STATE_MAX, "train %lldx%lld %.17g", (long long)d->runs.D,
             (long long)d->runs.P, d->pending_s);
}

static int train_restore(struct spot_decider *d, const char *line, struct spot_err *err)
{
    long long D, P;
    double pending_s;
    int end = 0;

    if (!*line)
        return 0;
    /* all are counted. NOLINTNEXTLINE(cert-err34-c) */
    if (sscanf(line, "train %9lldx%9lld %lf%n", &D, &P, &pending_s, &end) != 3 || line[end] ||
        D < 0 || P < 0 || D * P > SPOT_CHANGE_COUNT_MAX || !(pending_s >= 0 && pending_s < 1e9))
        return spot_err_set(err, SPOT_EDATA, "'%.64s' is not a state of a training job", line);
    d->runs = (struct spot_grid){ D, P, 1 };
    d->pending_s = pending_s;
    return 0;
}

static void train_close(struct spot_decider *d)
{
    spot_change_dist_release(&d->dist);
    spot_train_memory_free(d->memory);
    free(d);
}

const struct spot_policy spot_policy_train = {
    "train",
    "spot",
    "a stochastic dynamic program over the steps of a forecast and beyond",
    train_open,
    train_observe,
    train_decide,
    train_save,
    train_restore,
    train_close,
};
