/* SPDX-License-Identifier: MIT */
/* The policy `spot`: at every interval the forecast that spot-predict makes of what was seen, and
 * the decision that spot-plan makes by it (plan/decision.h). */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "forecast/forecast_make.h"
#include "plan/decision.h"
#include "sim/sim_policy.h"

enum { KNOWN_MAX = 64 };

/* What is seen of the trace so far. */
struct seen {
    const struct spot_sim_train *sim;
    struct spot_count_grids all, now; /* the whole, the caller's; views of its beginning */
    struct spot_count_grid own;       /* of the counts alone */
    struct spot_trackeds trackeds;
    const struct spot_forecaster *model;
    struct spot_fc_spec spec;
};

/* What is known before interval i: the changes of the coming intervals as far as they are told. */
struct news {
    int n, change[KNOWN_MAX];
};

static bool is_told(const struct spot_sim_train *sim, double notice_s, int k)
{
    return notice_s > 0 && (k == 0 || k * sim->interval_s < notice_s);
}

/* A change is told `notice` before it happens: that of this interval, which happens now, and those
 * of later intervals that begin before the notice is over. An interval is known where both kinds
 * would be told or one is; one before a change that is told counts as still. */
static void listen(const struct spot_sim_train *sim, const struct spot_sim_row *row, size_t i,
                   struct news *news)
{
    int n = row[i - 1].available; /* by what is told */

    *news = (struct news){ 0 };
    for (int k = 0; k < KNOWN_MAX && i + (size_t)k < sim->n_interval; k++) {
        const struct spot_sim_row *r = &row[i + (size_t)k];
        const bool loss = is_told(sim, sim->notice_loss_s, k);
        const bool gain = is_told(sim, sim->notice_gain_s, k);

        if (!loss && !gain)
            return;
        news->change[k] = (gain ? r->gained : 0) - (loss ? r->lost : 0);
        if (news->change[k] < -n) /* arrivals are unannounced, losses announced */
            news->change[k] = -n;
        n += news->change[k];
        if (news->change[k])
            news->n = k + 1;
    }
}

/* One series of the counts themselves, where the trace's own are not given. */
static void make_own(struct seen *s)
{
    static char none[] = "";
    const struct spot_sim_train *sim = s->sim;
    struct spot_count_grid *g = &s->own;

    *g = (struct spot_count_grid){ .zone = none,
                                   .instance_type = none,
                                   .label = none,
                                   .interval_s = sim->interval_s,
                                   .n = sim->n_interval };
    g->y = spot_xcalloc(3 * sim->n_interval, sizeof(*g->y));
    g->lost = g->y + sim->n_interval;
    g->gained = g->lost + sim->n_interval;
    for (size_t i = 0; i < sim->n_interval; i++) {
        const int change = i ? sim->available[i] - sim->available[i - 1] : 0;

        g->y[i] = sim->available[i];
        g->lost[i] = change < 0 ? -change : 0;
        g->gained[i] = change > 0 ? change : 0;
    }
    s->all = (struct spot_count_grids){ 1, g };
}

static int seen_open(struct seen *s, const struct spot_sim_train *sim, struct spot_err *err)
{
    *s = (struct seen){ .sim = sim };
    s->spec = (struct spot_fc_spec){ .horizon = sim->look_ahead, .day = 86400 / sim->interval_s };
    s->model = spot_forecaster_find("pool", &s->spec, err);
    if (!s->model)
        return -1;
    if (sim->grids)
        s->all = *sim->grids;
    else
        make_own(s);
    s->now.grid = spot_xcalloc(s->all.n, sizeof(*s->now.grid));
    return 0;
}

static void seen_close(struct seen *s)
{
    spot_trackeds_release(&s->trackeds);
    free(s->now.grid);
    free(s->own.y);
}

static int most_of(const struct spot_count_grid *g)
{
    int most = 0;

    for (size_t t = 0; t < g->n; t++)
        most = g->y[t] > most ? g->y[t] : most;
    return most;
}

/* The forecast of what was there before interval i. One series can come to what the job has grids
 * for; of several none is known to. */
static void look(struct seen *s, size_t i, struct spot_forecast *forecast)
{
    const double now_s = ((double)i - 0.5) * s->sim->interval_s;
    const double start_s = s->sim->grids ? s->sim->start_s : 0;

    s->now.n = 0;
    for (size_t k = 0; k < s->all.n; k++) {
        struct spot_count_grid *g = &s->now.grid[s->now.n];
        double n;

        *g = s->all.grid[k];
        n = (now_s - (g->start_s - start_s)) / g->interval_s + 1;
        if (n < 1)
            continue;
        g->n = n < (double)g->n ? (size_t)n : g->n;
        g->is_open = g->is_unsettled = false;
        g->cap = s->all.n == 1 ? spot_sim_cap(s->sim->job, most_of(g)) : most_of(g);
        s->now.n++;
    }
    *forecast = (struct spot_forecast){ .interval_s = s->sim->interval_s, .model = "pool" };
    spot_forecast_make(forecast, s->model, &s->spec, &s->trackeds, &s->now, true, true);
}

/* The grid for interval i >= 1 of a job in `state`. */
static int ask(struct seen *s, const struct spot_policy *policy, struct spot_decider *decider,
               const struct spot_sim_row *row, size_t i, const struct spot_sim_state *state,
               int *grid, struct spot_err *err)
{
    const struct spot_cost_table *t = s->sim->table;
    struct spot_forecast forecast;
    struct spot_seen seen = { .time_s = (double)i * s->sim->interval_s,
                              .there = state->n,
                              .pending_s = state->carry_s };
    struct spot_action action;
    struct news news;
    int rc;

    look(s, i, &forecast);
    listen(s->sim, row, i, &news);
    seen.forecast = &forecast;
    seen.announced = news.change;
    seen.n_announced = news.n;
    if (state->grid != SPOT_GRID_NONE)
        seen.runs = (struct spot_grid){ t->d[state->grid], t->p[state->grid], 1 };
    rc = policy->restore(decider, "train 0x0 0", err) || policy->observe(decider, &seen, err) ||
         policy->decide(decider, &action, NULL, err);
    spot_forecast_release(&forecast);
    if (!rc)
        *grid = action.grid.D ? spot_cost_grid(t, (int)action.grid.D, (int)action.grid.P)
                              : SPOT_GRID_NONE;
    return rc ? -1 : 0;
}

static int play(const struct spot_sim_train *sim, struct seen *s, const struct spot_policy *policy,
                struct spot_decider *decider, struct spot_sim_row *row, struct spot_err *err)
{
    struct spot_sim_state state = { 0 };
    int d, p, grid;

    spot_throughput_best(sim->throughput, row[0].available, &d, &p);
    spot_sim_start(sim, &state, spot_cost_grid(sim->table, d, p), &row[0]);
    for (size_t i = 1; i < sim->n_interval; i++) {
        if (ask(s, policy, decider, row, i, &state, &grid, err))
            return -1;
        spot_sim_migrate(sim, &state, grid, &row[i]);
    }
    return 0;
}

int spot_sim_spot(const struct spot_sim_train *sim, struct spot_sim_row *row, struct spot_err *err)
{
    const struct spot_policy *policy = spot_policy_find("train", "spot", err);
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
    struct spot_decider *decider;
    struct seen seen;
    int rc;

    if (!policy || seen_open(&seen, sim, err))
        return -1;
    decider = policy->open(&(struct spot_rule){ .train = &rule });
    rc = play(sim, &seen, policy, decider, row, err);
    policy->close(decider);
    seen_close(&seen);
    return rc;
}
