/* SPDX-License-Identifier: MIT */
/* Bamboo on a trace of counts: its simulator (bamboo_sim.h), with nodes that come and go to follow
 * the count; victims are drawn from the seed. P is 1.5 times the least number of stages, and the
 * forward pass, a third of the time of forward and backward, is computed twice. Speeds and
 * checkpoints are those of the job. */
#include <math.h>
#include <stdlib.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "peers/bamboo_sim.h"
#include "peers/train_peers.h"

struct play {
    const struct spot_sim_train *sim;
    struct spot_sim_row *row;
    const struct spot_bamboo_job *job;
    double redundant;
};

static int64_t start_ms(const struct spot_sim_train *sim, size_t i)
{
    return llround((double)i * sim->interval_s * 1e3);
}

static void account(const struct play *p, const struct spot_bamboo_span *span, size_t i, double s)
{
    struct spot_sim_row *row = &p->row[i];
    const int busy = span->n_member;

    row->class_s[SPOT_SIM_BOOTING] += span->n_boot * s;
    row->class_s[SPOT_SIM_IDLE] += span->n_ready * s;
    if (span->state == SPOT_BAMBOO_TRAINING) {
        row->class_s[SPOT_SIM_EFFECTIVE] += busy * s / (1 + p->redundant);
        row->class_s[SPOT_SIM_REDUNDANT] += busy * s * p->redundant / (1 + p->redundant);
    } else if (span->state == SPOT_BAMBOO_SAVING) {
        row->class_s[SPOT_SIM_CHECKPOINT] += busy * s;
    } else {
        row->class_s[SPOT_SIM_RECONFIGURE] += busy * s;
        row->cost_s += span->state == SPOT_BAMBOO_MEETING ? s : 0;
    }
    row->d = span->state == SPOT_BAMBOO_STOPPED ? 0 : span->d;
    row->p = span->state == SPOT_BAMBOO_STOPPED ? 0 : span->p;
    if (row->d * row->p > row->available) /* a neighbour does the work of two */
        row->d = row->available / row->p;
    row->spares = row->available - row->d * row->p;
}

static void on_span(const struct spot_bamboo_span *span, void *user)
{
    const struct play *p = user;
    const size_t n = p->sim->n_interval;
    size_t i = (size_t)((double)span->from_ms / 1e3 / p->sim->interval_s);
    int64_t at = span->from_ms;

    while (i + 1 < n && start_ms(p->sim, i + 1) <= at)
        i++;
    p->row[i].samples += (double)(span->steps * p->job->samples);
    p->row[i].lost_samples += (double)(span->lost_steps * p->job->samples);
    for (; i < n && at < span->to_ms; i++) {
        const int64_t next = start_ms(p->sim, i + 1), to = next < span->to_ms ? next : span->to_ms;

        account(p, span, i, (double)(to - at) / 1e3);
        at = to;
    }
}

/* Nodes come with new names, and leave at random. */
static size_t make_events(const struct spot_sim_train *sim, struct spot_bamboo_event **out)
{
    struct spot_bamboo_event *event = NULL;
    size_t n = 0, cap = 0;
    int *alive = NULL, n_alive = 0, n_name = 0;
    size_t alive_cap = 0;
    struct spot_rng rng;

    spot_rng_init(&rng, sim->seed, 0);
    for (size_t i = 0; i < sim->n_interval; i++) {
        while (n_alive != sim->available[i]) {
            const bool is_add = n_alive < sim->available[i];
            int node = n_name;

            if (is_add) {
                n_name++;
                alive = spot_xgrow(alive, &alive_cap, (size_t)n_alive + 1, sizeof(*alive));
                alive[n_alive++] = node;
            } else {
                const size_t k = (size_t)spot_rng_below(&rng, (uint64_t)n_alive);

                node = alive[k];
                alive[k] = alive[--n_alive];
            }
            event = spot_xgrow(event, &cap, n + 1, sizeof(*event));
            event[n++] = (struct spot_bamboo_event){ start_ms(sim, i), is_add, node };
        }
    }
    free(alive);
    *out = event;
    return n;
}

/* P, the number of stages; it does not depend on the trace. */
static int depth(const struct spot_sim_train *sim)
{
    const int64_t stages = spot_job_stages_max(sim->job), p_max = sim->job->memory.p_max;
    const int most = (int)(stages < p_max ? stages : p_max);
    int p = (int)ceil(spot_sim_peers(sim)->bamboo.stages * (double)sim->job->memory.p_min);

    while (p < most && !spot_throughput_allows(sim->job, 2, p))
        p++;
    return p < most ? p : most;
}

/* Seconds of a checkpoint: every stage over its own link or, as released, one after the other. */
static double state_s(const struct spot_sim_train *sim, int p)
{
    const struct spot_migrate_cost *m = &sim->table->migrate;

    return spot_sim_peers(sim)->bamboo.links == SPOT_PEER_ONE_LINK ? m->all_s[p] : m->slowest_s[p];
}

static int play(const struct spot_sim_train *sim, struct spot_sim_row *row, bool is_released,
                struct spot_err *err)
{
    const struct spot_job_cost *cost = &sim->job->cost;
    const struct spot_bamboo_price *price =
        is_released ? &spot_peer_prices_of(SPOT_PEER_AS_MEASURED)->bamboo
                    : &spot_sim_peers(sim)->bamboo;
    const int p = depth(sim), most = sim->throughput->n_max / p;
    const double load_s = price->transfer * (cost->checkpoint_s / 2 +
                                             /* otherwise it never runs */
                                             (most ? state_s(sim, p) : 0));
    int64_t *step_ms = spot_xcalloc((size_t)most + 1, sizeof(*step_ms));
    struct spot_bamboo_job job = { .stages = p,
                                   .samples = sim->job->global_batch,
                                   .boot_ms = llround(price->boot_s * 1e3),
                                   .local_ms = llround(price->local_s * 1e3),
                                   .global_ms = llround(price->global_s * 1e3),
                                   .n_step = most,
                                   .step_ms = step_ms,
                                   .load_ms = llround(load_s * 1e3),
                                   .save_ms = llround(load_s * 1e3),
                                   .period = price->period,
                                   .is_released = is_released };
    struct play user = { .sim = sim, .row = row, .job = &job, .redundant = price->redundant };
    struct spot_bamboo_event *event;
    struct spot_bamboo_result result;
    size_t n_event;
    int rc;

    for (int d = 1; d <= most; d++) {
        const double x = spot_sim_speed(sim, d, p);

        step_ms[d] =
            x > 0 ? llround((double)sim->job->global_batch / x * (1 + price->redundant) * 1e3) : 0;
        /* the engine cannot run more pipelines: use what is known */
        if (!step_ms[d] && is_released && d > 1)
            step_ms[d] = step_ms[d - 1];
    }
    if (!is_released)
        job.prior_ms = llround(SPOT_SIM_PRIOR_INTERVALS * sim->interval_s * 1e3);
    n_event = make_events(sim, &event);
    rc = spot_bamboo_sim_run(&job, event, n_event, start_ms(sim, sim->n_interval), &result, on_span,
                             &user, err);
    free(event);
    free(step_ms);
    spot_sim_settle_losses(row, sim->n_interval);
    return rc;
}

int spot_sim_bamboo(const struct spot_sim_train *sim, struct spot_sim_row *row,
                    struct spot_err *err)
{
    return play(sim, row, false, err);
}

int spot_sim_bamboo_released(const struct spot_sim_train *sim, struct spot_sim_row *row,
                             struct spot_err *err)
{
    return play(sim, row, true, err);
}
