/* SPDX-License-Identifier: MIT */
/* Models of other systems, each from its own published mechanism and constants
 * (docs/design/06-liveput.md names them). Throughput, restart and transfer times come from the job,
 * as for every policy.
 *
 * A change happens at the start of an interval. The system is then down for some seconds, possibly
 * into later intervals, has lost what it had not saved, and continues with another grid. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "peers/auto_config.h"
#include "peers/train_peers.h"
#include "plan/liveput.h"

static const double VARUNA_NOTICE_S = 30; /* its code cannot use a shorter one */

/* A system that runs a grid, is down for a while, and has work that is not saved. */
struct system {
    const struct spot_sim_train *sim;
    const struct spot_peer_price *price;
    int d, p;
    double samples_per_s;
    double down_s;       /* rest of the current outage */
    double unsaved;      /* samples since the last checkpoint */
    double save_every_s; /* 0: no periodic checkpoints */
    double save_s;       /* seconds of one checkpoint */
    double saving_s;     /* rest of a checkpoint that the previous interval began */
    double since_save_s;
    size_t n_change, n_seen;
};

static void run_grid(struct system *s, int d, int p)
{
    const double x = d > 0 ? spot_throughput_at(s->sim->throughput, d, p) : 0;

    s->d = x > 0 ? d : 0;
    s->p = x > 0 ? p : 0;
    s->samples_per_s = x > 0 ? x : 0;
}

const struct spot_peer_prices *spot_sim_peers(const struct spot_sim_train *sim)
{
    return sim->peers ? sim->peers : spot_peer_prices_of(SPOT_PEER_PUBLISHED);
}

/* Transfer of the state of every stage over the peer's links, at the job's bandwidth. */
static double links_s(const struct system *s)
{
    const struct spot_migrate_cost *m = &s->sim->table->migrate;

    if (!s->p)
        return 0;
    switch (s->price->links) {
    case SPOT_PEER_ONE_LINK:
        return m->all_s[s->p];
    case SPOT_PEER_STAGE_LINKS:
        return m->slowest_s[s->p];
    case SPOT_PEER_SHARD_LINKS:
        return m->slowest_s[s->p] / s->d;
    }
    return 0;
}

static double restart_of(const struct system *s, int d, int p, bool joins)
{
    return s->price->restart * spot_migrate_restart_s(&s->sim->job->cost, d, p,
                                                      joins ? SPOT_CHANGE_ADD : SPOT_CHANGE_REMOVE);
}

static double restart_s(const struct system *s, bool joins)
{
    return s->p ? restart_of(s, s->d, s->p, joins) : 0;
}

/* Forming groups only; processes stay. */
static double groups_s(const struct system *s, int d, int p)
{
    return s->price->restart * spot_migrate_intra_s(&s->sim->job->cost, d, p);
}

/* Copying the layers that a machine lacks from a neighbour. */
static double copy_s(const struct system *s, int p)
{
    return s->price->transfer * s->sim->table->migrate.slowest_s[p];
}

/* Half of checkpoint_s is for saving, half for loading. */
static double save_s(const struct system *s)
{
    return s->price->transfer * (s->sim->job->cost.checkpoint_s / 2 + links_s(s));
}

/* Every machine loads the whole of its stage. */
static double load_s(const struct system *s)
{
    const struct spot_migrate_cost *m = &s->sim->table->migrate;
    const double move_s = !s->p                                   ? 0
                          : s->price->links == SPOT_PEER_ONE_LINK ? m->all_s[s->p]
                                                                  : m->slowest_s[s->p];

    return s->price->transfer * (s->sim->job->cost.checkpoint_s / 2 + move_s);
}

/* Discard what is not saved: it was counted in earlier rows, so subtract it there. */
static void lose(struct system *s, struct spot_sim_row *row)
{
    row->lost_samples += s->unsaved;
    s->unsaved = s->since_save_s = 0;
}

/* sqrt(2 * save * mean time between changes); one change is assumed beforehand. */
double spot_sim_save_every_s(const struct spot_sim_train *sim, double save_s, size_t n_change,
                             size_t n_seen)
{
    const double between =
        (SPOT_SIM_PRIOR_INTERVALS + (double)n_seen) / (1 + (double)n_change) * sim->interval_s;

    return sqrt(2 * save_s * between);
}

/* Called after every change. At most one save per step, however cheap. */
static void plan_saves(struct system *s)
{
    const double step_s =
        s->samples_per_s > 0 ? (double)s->sim->job->global_batch / s->samples_per_s : 0;

    s->saving_s = 0;
    s->save_s = save_s(s);
    s->save_every_s =
        fmax(step_s,
             s->price->period * spot_sim_save_every_s(s->sim, s->save_s, s->n_change, s->n_seen));
}

double spot_sim_speed(const struct spot_sim_train *sim, int d, int p)
{
    const double x = d > 0 ? spot_throughput_at(sim->throughput, d, p) : -1;
    const struct spot_step_curve *curve = &sim->throughput->curve;

    return x == 0 && curve->n_point
               ? fmin((double)sim->job->global_batch / spot_step_curve_at(curve, sim->job, d, p),
                      spot_speed_most(&sim->throughput->between, d * p))
               : x;
}

/* Train for t seconds with periodic checkpoints; returns the seconds they took. */
static double train(struct system *s, double t, double *trained_s)
{
    double saving = 0, left = t;

    *trained_s = 0;
    while (left > 0) {
        const double until =
            s->save_every_s > 0 ? fmax(s->save_every_s - s->since_save_s, 0) : INFINITY;
        const double go = s->saving_s > 0 ? 0 : until < left ? until : left;
        double save;

        *trained_s += go;
        left -= go;
        s->since_save_s += go;
        s->unsaved += go * s->samples_per_s;
        if (s->saving_s <= 0 && until > go)
            continue;
        if (s->saving_s <= 0)
            s->saving_s = s->save_s;
        save = s->saving_s < left ? s->saving_s : left;
        saving += save;
        left -= save;
        s->saving_s -= save;
        if (s->saving_s <= 0) /* only a complete checkpoint saves anything */
            s->unsaved = s->since_save_s = 0;
    }
    return saving;
}

/* The rest of the interval: first down, then training; every machine-second is assigned to its
 * class. */
static void pass(struct system *s, struct spot_sim_row *row)
{
    const double t = s->sim->interval_s, down = s->down_s < t ? s->down_s : t;
    const double busy = (double)s->d * s->p;
    double trained, saving;

    row->d = s->d;
    row->p = s->p;
    row->spares = row->available - s->d * s->p;
    row->class_s[SPOT_SIM_IDLE] += row->spares * t;
    s->down_s -= down;
    s->n_seen++;
    if (!s->d)
        return;
    saving = train(s, t - down, &trained);
    row->class_s[SPOT_SIM_RECONFIGURE] += busy * down;
    row->class_s[SPOT_SIM_CHECKPOINT] += busy * saving;
    row->class_s[SPOT_SIM_EFFECTIVE] += busy * trained;
    row->samples += trained * s->samples_per_s;
}

void spot_sim_settle_losses(struct spot_sim_row *row, size_t n)
{
    double owed = 0;

    for (size_t i = n; i-- > 0;) {
        const double processed = row[i].samples, taken = owed < processed ? owed : processed;

        if (taken > 0) {
            const double s = row[i].class_s[SPOT_SIM_EFFECTIVE] * taken / processed;

            row[i].samples -= taken;
            row[i].class_s[SPOT_SIM_EFFECTIVE] -= s;
            row[i].class_s[SPOT_SIM_REDONE] += s;
            owed -= taken;
        }
        owed += row[i].lost_samples; /* a loss at the start of i has been processed before */
    }
}

static bool changed(struct system *s, const struct spot_sim_row *row)
{
    const bool is = row->gained || row->lost;

    s->n_change += is;
    return is;
}

static void fastest(struct system *s, int n)
{
    int d, p;

    spot_throughput_best(s->sim->throughput, n, &d, &p);
    run_grid(s, d, p);
}

/* torchrun: any change kills all workers; they rendezvous again and load the last checkpoint. */
int spot_sim_torchrun(const struct spot_sim_train *sim, struct spot_sim_row *row,
                      struct spot_err *err)
{
    struct system s = { .sim = sim, .price = &spot_sim_peers(sim)->system[SPOT_PEER_TORCHRUN] };

    (void)err;
    for (size_t i = 0; i < sim->n_interval; i++) {
        if (!i || changed(&s, &row[i])) {
            const double wait = row[i].lost ? s.price->loss_wait_s : s.price->gain_wait_s;

            lose(&s, &row[i]);
            fastest(&s, row[i].available);
            plan_saves(&s);
            row[i].cost_s = restart_s(&s, row[i].gained > 0) + (i ? load_s(&s) + wait : 0);
            s.down_s = row[i].cost_s; /* a new rendezvous starts from the beginning */
        }
        pass(&s, &row[i]);
    }
    spot_sim_settle_losses(row, sim->n_interval);
    return 0;
}

/* The grid that Varuna chooses; its speed comes from the job, as for all policies. */
static void auto_config(struct system *s, int n, bool is_released)
{
    int d, p;

    spot_auto_config(s->sim->throughput, s->sim->job, n, is_released, &d, &p);
    s->samples_per_s = spot_sim_speed(s->sim, d, p);
    s->d = s->samples_per_s > 0 ? d : 0;
    s->p = s->samples_per_s > 0 ? p : 0;
}

/* Varuna: a checkpoint on demand if the notice is long enough; then kill, relaunch, load. */
static int varuna(const struct spot_sim_train *sim, struct spot_sim_row *row, bool is_released)
{
    struct system s = { .sim = sim, .price = &spot_sim_peers(sim)->system[SPOT_PEER_VARUNA] };

    for (size_t i = 0; i < sim->n_interval; i++) {
        if (!i || changed(&s, &row[i])) {
            const double save = save_s(&s);
            const bool can_save = row[i].gained || (sim->notice_loss_s >= VARUNA_NOTICE_S &&
                                                    save <= sim->notice_loss_s - s.price->kill_s);

            if (!can_save)
                lose(&s, &row[i]);
            else
                s.unsaved = s.since_save_s = 0;
            if (is_released)
                auto_config(&s, row[i].available, true);
            else
                fastest(&s, row[i].available);
            plan_saves(&s);
            row[i].cost_s = restart_s(&s, row[i].gained > 0);
            if (i)
                row[i].cost_s += (can_save ? save : 0) + s.price->kill_s +
                                 (row[i].lost ? s.price->loss_wait_s : 0) + load_s(&s);
            s.down_s = row[i].cost_s;
        }
        pass(&s, &row[i]);
    }
    spot_sim_settle_losses(row, sim->n_interval);
    return 0;
}

int spot_sim_varuna(const struct spot_sim_train *sim, struct spot_sim_row *row,
                    struct spot_err *err)
{
    (void)err;
    return varuna(sim, row, false);
}

int spot_sim_varuna_released(const struct spot_sim_train *sim, struct spot_sim_row *row,
                             struct spot_err *err)
{
    (void)err;
    return varuna(sim, row, true);
}

/* Oobleck, from a running grid: survivors regroup and copy missing layers; new instances join where
 * the model accepts them. */
static void regroup(struct system *s, double *members, struct spot_sim_row *row)
{
    const double before = row[-1].available;
    const bool joins = s->price->joins && row->gained;
    double build_s;

    *members *= before > 0 ? (before - row->lost) / before : 0;
    *members += joins ? row->gained : 0;
    if (!s->d || !changed(s, row) || !(row->lost || joins))
        return;
    if (row->lost) {
        row->lost_samples += 0.5 * (double)s->sim->job->global_batch;
        s->unsaved = 0;
    }
    fastest(s, (int)floor(*members + 1e-9));
    if (!s->p)
        return;
    build_s = joins && s->price->build_apart ? groups_s(s, s->d, s->p) : restart_s(s, joins);
    row->cost_s =
        (row->lost ? s->price->loss_wait_s : s->price->gain_wait_s) + build_s + copy_s(s, s->p);
    s->down_s += row->cost_s;
}

/* If too few instances are left: restart from the last checkpoint with all instances present. */
int spot_sim_oobleck(const struct spot_sim_train *sim, struct spot_sim_row *row,
                     struct spot_err *err)
{
    struct system s = { .sim = sim, .price = &spot_sim_peers(sim)->system[SPOT_PEER_OOBLECK] };
    double members = 0;

    (void)err;
    for (size_t i = 0; i < sim->n_interval; i++) {
        if (i)
            regroup(&s, &members, &row[i]);
        if (!s.d) {
            members = row[i].available;
            fastest(&s, row[i].available);
            if (s.d) {
                row[i].cost_s = restart_s(&s, true) + (i ? load_s(&s) : 0);
                s.down_s = row[i].cost_s;
            }
        }
        pass(&s, &row[i]);
    }
    spot_sim_settle_losses(row, sim->n_interval);
    return 0;
}

/* The mean number of pipelines that no loss hits; *all: the probability that none is hit. */
static double mean_intact(int d, int p, int spares, int lost, double *all)
{
    const struct spot_liveput g = { d, p, spares, lost };
    double *pmf = spot_xcalloc((size_t)d + 1, sizeof(*pmf)), sum = 0;

    spot_liveput_intact(&g, pmf);
    for (int k = 1; k <= d; k++)
        sum += k * pmf[k];
    *all = pmf[d];
    free(pmf);
    return sum;
}

/* The cost, for the training members, of a quorum with new instances: groups, and the serial part.
 */
static double join_s(const struct system *s, int d, int p)
{
    return (s->price->build_apart ? groups_s(s, d, p) : restart_of(s, d, p, true)) +
           (s->price->transfer_apart ? 0 : copy_s(s, p));
}

/* The pipelines left of s->d, and those that n instances form. A pipeline that is hit waits for the
 * timeout and forms groups again, whether its place is filled at once or not. */
static int adapt(struct system *s, int p, struct spot_sim_row *row)
{
    double intact = s->d, none = 1;
    int d = s->d, whole = row->available / p;

    if (row->lost)
        intact = mean_intact(s->d, p, row[-1].available - s->d * p, row->lost, &none);
    if (none < 1) {
        row->cost_s += (1 - none) * (s->price->loss_wait_s + groups_s(s, s->d, p));
        row->lost_samples += (1 - none) * 0.5 * (double)s->sim->job->global_batch;
        s->unsaved = 0;
        d = (int)lround(intact);
    }
    while (whole > 0 && spot_throughput_at(s->sim->throughput, whole, p) <= 0)
        whole--;
    if (whole > intact) /* places in pipelines that were hit are filled by waiting instances */
        row->cost_s += fmin(1, whole - intact) * join_s(s, whole, p);
    return whole < d || whole > intact ? whole : d;
}

/* torchft: a loss removes its whole pipeline after a timeout, and the step is lost; as soon as a
 * whole pipeline of machines is free, it joins. P stays that of the start. */
int spot_sim_torchft(const struct spot_sim_train *sim, struct spot_sim_row *row,
                     struct spot_err *err)
{
    struct system s = { .sim = sim, .price = &spot_sim_peers(sim)->system[SPOT_PEER_TORCHFT] };
    int p = 0;

    (void)err;
    for (size_t i = 0; i < sim->n_interval; i++) {
        if (!s.d) {
            fastest(&s, row[i].available);
            p = s.p;
            row[i].cost_s = s.d ? restart_s(&s, true) + (i ? load_s(&s) : 0) : 0;
            s.down_s = row[i].cost_s;
        } else {
            const int d = adapt(&s, p, &row[i]);

            s.down_s += row[i].cost_s;
            if (d != s.d)
                run_grid(&s, d, p);
        }
        pass(&s, &row[i]);
    }
    spot_sim_settle_losses(row, sim->n_interval);
    return 0;
}
