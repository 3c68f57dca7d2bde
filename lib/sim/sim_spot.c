/* SPDX-License-Identifier: MIT */
/* The policy `spot`: the stochastic dynamic program, its chain learned as the trace goes. */
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/liveput_dp.h"
#include "sim/sim_policy.h"

enum { SWEEPS_FIRST = 200, SWEEPS_LATER = 20, INTERVALS_BETWEEN = 16, END_MAX = 24 };

enum { KNOWN_MAX = 64 };

/* What is known before interval i: the changes of the coming intervals as far as they are told,
 * and which kinds would have been told if they came in the first. */
struct news {
    int n, change[KNOWN_MAX];
    bool no_loss, no_gain; /* of the first interval, where n is 0 */
};

static bool is_told(const struct spot_sim_train *sim, double notice_s, int k)
{
    return notice_s > 0 && (k == 0 || k * sim->interval_s < notice_s);
}

/* A decision maker for any job, not only its own: the grid for interval i of a job in `state`. */
struct spot_sim_program {
    int (*ask)(struct spot_sim_program *program, size_t i, const struct spot_sim_state *state);
};

/* The program at interval `at`, whatever job asks it. */
struct program {
    struct spot_sim_program face;
    const struct spot_sim_train *sim;
    const struct spot_sim_row *row; /* counts only */
    struct spot_liveput_dp dp;
    struct spot_count_chain chain;
    struct news news;
    double *drawn_s;
    int seen, cap;
    size_t at, again;
};

/* A change is told `notice` before it happens: that of this interval, which happens now, and those
 * of later intervals that begin before the notice is over. An interval is known where both kinds
 * would be told or one is; one before a change that is told counts as still. */
static void listen(const struct spot_sim_train *sim, const struct spot_sim_row *row, size_t i,
                   struct news *news)
{
    int n = row[i - 1].available; /* by what is told */

    *news = (struct news){ .no_loss = is_told(sim, sim->notice_loss_s, 0),
                           .no_gain = is_told(sim, sim->notice_gain_s, 0) };

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
        if (news->change[k] || (loss && gain && news->n == k))
            news->n = k + 1;
    }
}

/* Bring the values up to date for interval i, of whose future n_known intervals are known. The
 * other policies know where the trace ends once their look-ahead reaches it; so does this one. */
static void solve(const struct spot_sim_train *sim, struct spot_liveput_dp *dp,
                  const struct spot_count_chain *chain, size_t i, int n_known, size_t *again)
{
    const size_t left = sim->n_interval - i;
    const int end = sim->look_ahead < END_MAX ? sim->look_ahead : (int)END_MAX;

    if (left <= (size_t)end) {
        spot_liveput_dp_finish(dp, chain, (int)left - n_known);
    } else if (i >= *again) { /* the chain changes ever less: solve ever more seldom */
        spot_liveput_dp_solve(dp, chain, SWEEPS_LATER);
        *again = i + INTERVALS_BETWEEN + i / 8;
    }
}

/* What would have been told does not come. */
static void leave_out(struct spot_count_step *step, const struct news *news)
{
    double all = step->still;

    for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++) {
        step->lost[k] = news->no_loss ? 0 : step->lost[k];
        step->gained[k] = news->no_gain ? 0 : step->gained[k];
        all += step->lost[k] + step->gained[k];
    }
    step->still /= all;
    for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++) {
        step->lost[k] /= all;
        step->gained[k] /= all;
    }
}

/* The grid for interval i. */
static int choose(struct program *p, const struct spot_sim_state *state)
{
    const struct spot_sim_train *sim = p->sim;
    const struct news *news = &p->news;
    const struct spot_liveput_view view = { .n = state->n,
                                            .from = state->grid,
                                            .carry_s = state->carry_s,
                                            .context = p->chain.context,
                                            .n_known = news->n,
                                            .change = news->change,
                                            .cost_s = sim->is_sampled ? p->drawn_s : NULL };
    struct spot_count_step step;

    if (news->n && sim->is_sampled) /* the notice says which instances leave */
        spot_sim_drawn(sim, state, news->change[0] < 0 ? -news->change[0] : 0, p->drawn_s);
    if (news->n)
        return spot_liveput_dp_after(&p->dp, &view).grid;
    spot_count_chain_step(&p->chain, state->n, p->chain.context, &step);
    leave_out(&step, news);
    return spot_liveput_dp_before(&p->dp, state->n, state->grid, state->carry_s, p->chain.context,
                                  &step)
        .grid;
}

/* The program for up to `cap` instances, whatever the table holds: what the trace comes to later is
 * not known. */
static void begin(const struct spot_sim_train *sim, struct spot_liveput_dp *dp,
                  const struct spot_count_chain *chain, int cap)
{
    spot_liveput_dp_init(dp, sim->table, sim->interval_s,
                         sim->notice_loss_s > 0 && sim->notice_gain_s > 0);
    dp->sees_losses = sim->notice_loss_s > 0;
    dp->sees_victims = sim->is_sampled;
    dp->n_max = cap < dp->n_max ? cap : dp->n_max;
    spot_liveput_dp_solve(dp, chain, SWEEPS_FIRST);
}

/* The most instances that were there or are announced. */
static int most_of(const struct spot_sim_row *row, size_t i, const struct news *news, int seen)
{
    int n = row[i - 1].available;

    seen = n > seen ? n : seen;
    for (int k = 0; k < news->n; k++) {
        n += news->change[k];
        seen = n > seen ? n : seen;
    }
    return seen;
}

/* On to interval i >= 1: hear what is told, learn, solve. */
static void advance(struct program *p, size_t i)
{
    const struct spot_sim_row *row = p->row;

    if (i > 1)
        spot_count_chain_observe(&p->chain, row[i - 2].available, row[i - 1].available);
    listen(p->sim, row, i, &p->news);
    p->seen = most_of(row, i, &p->news, p->seen);
    if (spot_sim_cap(p->sim->job, p->seen) > p->cap) {
        p->chain.cap = p->cap = spot_sim_cap(p->sim->job, p->seen);
        spot_liveput_dp_release(&p->dp);
        begin(p->sim, &p->dp, &p->chain, p->cap);
    }
    solve(p->sim, &p->dp, &p->chain, i, p->news.n ? p->news.n : 1, &p->again);
    p->at = i;
}

static int ask(struct spot_sim_program *program, size_t i, const struct spot_sim_state *state)
{
    struct program *p = (struct program *)program;
    int d, q;

    if (!i) {
        spot_throughput_best(p->sim->throughput, p->row[0].available, &d, &q);
        return spot_cost_grid(p->sim->table, d, q);
    }
    while (p->at < i)
        advance(p, p->at + 1);
    return choose(p, state);
}

static struct spot_sim_program *spot_sim_program_open(const struct spot_sim_train *sim,
                                                      const struct spot_sim_row *row)
{
    struct program *p = spot_xcalloc(1, sizeof(*p));

    *p = (struct program){ .face = { ask }, .sim = sim, .row = row, .again = INTERVALS_BETWEEN };
    p->seen = row[0].available;
    p->cap = spot_sim_cap(sim->job, p->seen);
    p->drawn_s = spot_xcalloc((size_t)sim->table->n_grid + 1, sizeof(*p->drawn_s));
    spot_count_chain_init(&p->chain, p->cap);
    begin(sim, &p->dp, &p->chain, p->cap);
    return &p->face;
}

static void spot_sim_program_close(struct spot_sim_program *program)
{
    struct program *p = (struct program *)program;

    spot_liveput_dp_release(&p->dp);
    free(p->drawn_s);
    free(p);
}

static void spot_sim_obey(const struct spot_sim_train *sim, struct spot_sim_state *state, int grid,
                          size_t i, struct spot_sim_row *row)
{
    if (i)
        spot_sim_migrate(sim, state, grid, row);
    else
        spot_sim_start(sim, state, grid, row);
}

int spot_sim_spot(const struct spot_sim_train *sim, struct spot_sim_row *row, struct spot_err *err)
{
    struct spot_sim_program *program = spot_sim_program_open(sim, row);
    struct spot_sim_state state = { 0 };

    (void)err;
    for (size_t i = 0; i < sim->n_interval; i++)
        spot_sim_obey(sim, &state, program->ask(program, i, &state), i, &row[i]);
    spot_sim_program_close(program);
    return 0;
}
