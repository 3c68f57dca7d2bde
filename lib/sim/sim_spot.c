/* SPDX-License-Identifier: MIT */
/* The policy `spot`: at every interval the forecast that spot-predict would make from the
 * observations, and the decision that spot-plan makes from it (plan/decision.h). */
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/decision.h"
#include "sim/seen.h"
#include "sim/sim_policy.h"

enum { KNOWN_MAX = 64 };

/* What is known before interval i: the announced changes of the coming intervals. */
struct news {
    int n, change[KNOWN_MAX];
};

static bool is_told(const struct spot_sim_train *sim, double notice_s, int k)
{
    return notice_s > 0 && (k == 0 || k * sim->interval_s < notice_s);
}

/* A change is announced `notice` before it happens. Announced are the change of this interval,
 * which happens now, and those of later intervals that begin within the notice. An interval is
 * known if both kinds of change are announced or if it has an announced one; an interval before an
 * announced change counts as still. */
static void listen(const struct spot_sim_train *sim, const struct spot_sim_row *row, size_t i,
                   struct news *news)
{
    int n = row[i - 1].available; /* according to the announced changes */

    *news = (struct news){ 0 };
    for (int k = 0; k < KNOWN_MAX && i + (size_t)k < sim->n_interval; k++) {
        const struct spot_sim_row *r = &row[i + (size_t)k];
        const bool loss = is_told(sim, sim->notice_loss_s, k);
        const bool gain = is_told(sim, sim->notice_gain_s, k);

        if (!loss && !gain)
            return;
        news->change[k] = (gain ? r->gained : 0) - (loss ? r->lost : 0);
        if (news->change[k] < -n) /* gains are not announced, losses are */
            news->change[k] = -n;
        n += news->change[k];
        if (news->change[k])
            news->n = k + 1;
    }
}

struct play {
    const struct spot_sim_train *sim;
    const struct spot_policy *policy;
    struct spot_decider *decider;
    struct spot_seen_trace *seen;
    double start_s;
    size_t *of; /* [series] */
};

/* The grid for interval i >= 1 of a job in `state`. */
static int ask(const struct play *p, const struct spot_sim_row *row, size_t i,
               const struct spot_sim_state *state, int *grid, struct spot_err *err)
{
    const struct spot_cost_table *t = p->sim->table;
    const double last_s = p->start_s + (double)(i - 1) * p->sim->interval_s;
    struct spot_seen seen = { .time_s = (double)i * p->sim->interval_s,
                              .forecast = spot_seen_at(p->seen, last_s, p->of),
                              .there = state->n,
                              .pending_s = state->carry_s };
    struct spot_action action;
    struct news news;

    listen(p->sim, row, i, &news);
    seen.announced = news.change;
    seen.n_announced = news.n;
    if (state->grid != SPOT_GRID_NONE)
        seen.runs = (struct spot_grid){ t->d[state->grid], t->p[state->grid], 1 };
    if (p->policy->restore(p->decider, "train 0x0 0", err) ||
        p->policy->observe(p->decider, &seen, err) ||
        p->policy->decide(p->decider, &action, NULL, err))
        return -1;
    *grid =
        action.grid.D ? spot_cost_grid(t, (int)action.grid.D, (int)action.grid.P) : SPOT_GRID_NONE;
    return 0;
}

static int play(const struct play *p, struct spot_sim_row *row, struct spot_err *err)
{
    const struct spot_sim_train *sim = p->sim;
    struct spot_sim_state state = { 0 };
    int best_d, best_p, grid;

    spot_throughput_best(sim->throughput, row[0].available, &best_d, &best_p);
    spot_sim_start(sim, &state, spot_cost_grid(sim->table, best_d, best_p), &row[0]);
    for (size_t i = 1; i < sim->n_interval; i++) {
        if (ask(p, row, i, &state, &grid, err))
            return -1;
        spot_sim_migrate(sim, &state, grid, &row[i]);
    }
    return 0;
}

int spot_sim_spot(const struct spot_sim_train *sim, struct spot_sim_row *row, struct spot_err *err)
{
    static const char *const none[] = { "" };
    const struct spot_train_question rule = {
        .job = sim->job,
        .throughput = sim->throughput,
        .max_loss_prob = 1,
        .solver = SPOT_SOLVER_DP,
        .is_next = true,
        .tells_losses = sim->notice_loss_s > 0,
        .tells_gains = sim->notice_gain_s > 0,
        .carries_rest = sim->table->carries_rest,
        .horizon = sim->look_ahead,
    };
    struct play p = { .sim = sim, .policy = &spot_policy_train };
    struct spot_trace own = { 0 };
    const struct spot_trace *trace = sim->trace ? sim->trace : &own;
    int rc;

    if (!sim->trace)
        spot_seen_counts(sim->available, none, NULL, 1, sim->n_interval, sim->interval_s, &own);
    p.start_s = trace->start_s;
    p.of = spot_xcalloc(trace->n_series, sizeof(*p.of));
    p.seen = spot_seen_new(trace, sim->interval_s, sim->look_ahead, sim->job);
    p.decider = p.policy->open(&(struct spot_rule){ .train = &rule });
    rc = play(&p, row, err);
    p.policy->close(p.decider);
    spot_seen_free(p.seen);
    spot_trace_release(&own);
    free(p.of);
    return rc;
}
