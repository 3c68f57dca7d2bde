/* SPDX-License-Identifier: MIT */
/* The policies around Parcae's optimiser, and its baseline (liveput/throughput.py of JF-D/Parcae,
 * efedee7). Corrected: costs are exact where the release samples them. */
#include <assert.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "forecast/forecaster.h"
#include "peers/parcae.h"
#include "peers/train_peers.h"
#include "sim/sim_policy.h"

/* Restart from a checkpoint whenever the count changes: the restart, 14 s of saving and loading
 * (except at the very start), and the transfer of the whole model through one link. */
int spot_sim_throughput(const struct spot_sim_train *sim, struct spot_sim_row *row,
                        struct spot_err *err)
{
    const struct spot_cost_table *t = sim->table;
    double left = 0;

    (void)err;
    for (size_t i = 0; i < sim->n_interval; i++) {
        struct spot_sim_row *r = &row[i];
        int d, p;
        const double x = spot_throughput_best(sim->throughput, r->available, &d, &p);
        const int g = spot_cost_grid(t, d, p);

        if (g == SPOT_GRID_NONE) {
            left = 0;
            spot_sim_account(sim, r, 0, 0, 0, 0, SPOT_SIM_IDLE);
            continue;
        }
        if (!i || r->gained || r->lost) {
            const double restart =
                t->restart_s[2 * g + (r->gained ? SPOT_CHANGE_ADD : SPOT_CHANGE_REMOVE)];

            r->cost_s = restart + (i ? sim->job->cost.checkpoint_s : 0) + t->migrate.all_s[p];
            if (t->carries_rest) /* it loads everything again */
                left = left > r->cost_s ? left : r->cost_s;
            else
                left = left > 0 ? r->cost_s + restart : r->cost_s;
        }
        spot_sim_account(sim, r, d, p, x, left, SPOT_SIM_RECONFIGURE);
        left = left > sim->interval_s ? left - sim->interval_s : 0;
    }
    return 0;
}

/* Parcae's predictor on the counts so far. */
struct predictor {
    const struct spot_forecaster *model;
    struct spot_fc_spec spec;
    void *state;
    double *prob; /* [horizon * (n_max + 1)] */
    int seen;     /* the most instances so far */
};

/* A policy's forecast of the next intervals, the next one first. */
typedef int belief_fn(const struct spot_sim_train *sim, struct predictor *predictor, size_t i,
                      int n_step, int *gained, int *lost);

static void change(const struct spot_sim_train *sim, size_t i, int *gained, int *lost)
{
    const int before = i ? sim->available[i - 1] : 0, now = sim->available[i];

    *gained = now > before ? now - before : 0;
    *lost = now < before ? before - now : 0;
}

static int know_all(const struct spot_sim_train *sim, struct predictor *predictor, size_t i,
                    int n_step, int *gained, int *lost)
{
    int n = 0;

    (void)predictor;
    for (; n < n_step && i + (size_t)n < sim->n_interval; n++)
        change(sim, i + (size_t)n, &gained[n], &lost[n]);
    return n;
}

static int know_none(const struct spot_sim_train *sim, struct predictor *predictor, size_t i,
                     int n_step, int *gained, int *lost)
{
    (void)sim;
    (void)predictor;
    (void)i;
    for (int k = 0; k < n_step; k++)
        gained[k] = lost[k] = 0;
    return n_step;
}

static int know_now(const struct spot_sim_train *sim, struct predictor *predictor, size_t i,
                    int n_step, int *gained, int *lost)
{
    const int n = know_none(sim, predictor, i, n_step, gained, lost);

    change(sim, i, &gained[0], &lost[0]);
    gained[0] = sim->notice_gain_s > 0 ? gained[0] : 0;
    lost[0] = sim->notice_loss_s > 0 ? lost[0] : 0;
    return n;
}

/* The newest counts before interval i, for the predictor. */
static struct spot_fc_past past_of(const struct spot_sim_train *sim, size_t i)
{
    const size_t n = i < SPOT_FC_PAST ? i : SPOT_FC_PAST;

    return (struct spot_fc_past){ sim->available + (i - n), n };
}

/* The fewest instances that any grid of the job runs on. */
static int least_size(const struct spot_cost_table *t)
{
    int least = t->n_max;

    for (int g = 0; g < t->n_grid; g++)
        least = t->d[g] * t->p[g] < least ? t->d[g] * t->p[g] : least;
    return least;
}

/* Called for every i in turn. A count below what the job needs is raised to that minimum, as in
 * Parcae's patch for GPT-6.7B. */
static int know_forecast(const struct spot_sim_train *sim, struct predictor *p, size_t i,
                         int n_step, int *gained, int *lost)
{
    const struct spot_fc_past past = past_of(sim, i);
    const int n = know_none(sim, p, i, n_step, gained, lost), least = least_size(sim->table);
    int at = past.y[past.n - 1];

    p->seen = at > p->seen ? at : p->seen;
    p->spec.cap = spot_sim_cap(sim->job, p->seen);
    /* otherwise there would be no room for the prediction */
    assert(p->spec.cap <= sim->table->n_max);
    p->model->observe(&p->spec, p->state, &past);
    p->model->predict(&p->spec, p->state, &past, p->prob);
    for (int k = 0; k < n; k++) {
        const double *row = p->prob + (size_t)k * ((size_t)p->spec.cap + 1);
        int next = 0;

        while (row[next] < 0.5)
            next++;
        next = next < least ? (at < least ? at : least) : next;
        gained[k] = next > at ? next - at : 0;
        lost[k] = next < at ? at - next : 0;
        at = next;
    }
    return n;
}

/* The job starts on the fastest grid, at the cost of a restart with new instances; then the
 * optimiser decides. */
static int run(const struct spot_sim_train *sim, struct spot_sim_row *row, belief_fn *belief,
               struct predictor *predictor)
{
    int *gained = spot_xcalloc(2 * (size_t)sim->look_ahead, sizeof(*gained));
    int *lost = gained + sim->look_ahead, d, p;
    struct spot_sim_state state = { 0 };

    for (size_t i = 0; i < sim->n_interval; i++) {
        int to, n;

        if (!i) {
            spot_throughput_best(sim->throughput, row[0].available, &d, &p);
            to = spot_cost_grid(sim->table, d, p);
            spot_sim_start(sim, &state, to, &row[0]);
        } else {
            const struct spot_cost_state from = { state.n, state.grid, state.carry_s };

            n = belief(sim, predictor, i, sim->look_ahead, gained, lost);
            to = spot_parcae_choose(sim->table, &from, gained, lost, n, sim->interval_s, NULL);
            spot_sim_migrate(sim, &state, to, &row[i]);
        }
    }
    free(gained);
    return 0;
}

int spot_sim_truth(const struct spot_sim_train *sim, struct spot_sim_row *row, struct spot_err *err)
{
    (void)err;
    return run(sim, row, know_all, NULL);
}

int spot_sim_persistence(const struct spot_sim_train *sim, struct spot_sim_row *row,
                         struct spot_err *err)
{
    (void)err;
    return run(sim, row, know_none, NULL);
}

int spot_sim_nowcast(const struct spot_sim_train *sim, struct spot_sim_row *row,
                     struct spot_err *err)
{
    (void)err;
    return run(sim, row, know_now, NULL);
}

int spot_sim_parcae(const struct spot_sim_train *sim, struct spot_sim_row *row,
                    struct spot_err *err)
{
    struct predictor p = { .model = spot_peer_forecasters,
                           .spec = { .cap = sim->table->n_max, .horizon = sim->look_ahead } };
    int rc;

    (void)err;
    p.state = spot_xcalloc(1, p.model->state_byte(&p.spec));
    p.prob = spot_xcalloc((size_t)p.spec.horizon * ((size_t)p.spec.cap + 1), sizeof(*p.prob));
    rc = run(sim, row, know_forecast, &p);
    free(p.state);
    free(p.prob);
    return rc;
}
