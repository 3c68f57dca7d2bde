/* SPDX-License-Identifier: MIT */
/* The policy `guarded`: `spot` where it may be trusted, `nowcast` elsewhere.
 *
 * Both are played in the shadow, each on a job of its own, so that it is known how far each has
 * come. The job goes where `spot` goes as long as it is no more than a budget behind `nowcast`
 * after the interval, nor would be if it then turned to what `nowcast` runs; else it goes where
 * `nowcast` goes. The budget grows when the shadow of `spot` leads: by LEAD_S for the first time,
 * then by twice that, and so on.
 *
 * How far behind `nowcast` the job can be at any time, and why: docs/design/06-liveput.md. */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/parcae.h"
#include "sim/sim_policy.h"

/* In seconds of the mean speed of `ideal` so far. */
static const double BUDGET_S = 20, LEAD_S = 10, GRANT_S = 8;

struct mixture {
    const struct spot_sim_train *sim;
    const struct spot_sim_row *program, *safe; /* the shadows */
    double program_got, safe_got, got;         /* samples before this interval */
    double ideal_per_s;                        /* sum over the intervals so far */
    double budget_s, lead_s;                   /* in force; the lead that raises it next */
    int *still;                                /* [2 * look_ahead] gained, lost: no changes */
    struct spot_sim_state state;
};

static double speed(const struct spot_sim_train *sim, int grid)
{
    return grid == SPOT_GRID_NONE ? 0 : sim->table->samples_per_s[grid];
}

/* Seconds until `to` trains, from what runs on n instances of which `lost` go. */
static double total_s(const struct spot_sim_train *sim, int n, int from, double carry_s, int lost,
                      int to)
{
    const struct spot_parcae_state state = { n, from, carry_s };

    if (to == SPOT_GRID_NONE)
        return 0;
    return spot_parcae_total_s(sim->table, &state, to,
                               spot_cost_row(sim->table, n, from, lost)[to]);
}

/* One interval of a job as it will be if only what is told happens. */
struct step {
    int grid;
    double got, left_s;
};

static struct step step_of(const struct spot_sim_train *sim, int n, int from, double carry_s,
                           int lost, int to)
{
    const double all_s = total_s(sim, n, from, carry_s, lost, to), left_s = all_s - sim->interval_s;

    return (struct step){ to, speed(sim, to) * fmax(-left_s, 0), fmax(left_s, 0) };
}

/* What the shadow runs next if nothing changes any more, and how many samples more it gets on that
 * than the job, should the job go there, too: negative where it is the shadow that has to move. */
static double gap(const struct mixture *m, int n, const struct step *job, const struct step *safe)
{
    const struct spot_sim_train *sim = m->sim;
    const struct spot_parcae_state state = { n, safe->grid, safe->left_s };
    const int to =
        spot_sim_clip(sim->table,
                      spot_parcae_choose(sim->table, &state, m->still, m->still + sim->look_ahead,
                                         sim->look_ahead, sim->interval_s, NULL),
                      n);

    return speed(sim, to) * (total_s(sim, n, job->grid, job->left_s, 0, to) -
                             total_s(sim, n, safe->grid, safe->left_s, 0, to));
}

/* Instances that the coming interval has at least, by what is told. */
static int told(const struct mixture *m, size_t i)
{
    const struct spot_sim_row *r = &m->safe[i];

    return m->state.n - (m->sim->notice_loss_s > 0 ? r->lost : 0) +
           (m->sim->notice_gain_s > 0 ? r->gained : 0);
}

/* How far behind the shadow the job will be after it went to `to` with n instances, or, if that is
 * more, after it turned back. */
static double behind(const struct mixture *m, size_t i, int n, int to)
{
    const struct spot_sim_train *sim = m->sim;
    const struct spot_sim_row *then = &m->safe[i - 1];
    const int lost = sim->notice_loss_s > 0 ? m->safe[i].lost : 0;
    const int from = spot_cost_grid(sim->table, then->d, then->p);
    const struct step job = step_of(sim, m->state.n, m->state.grid, m->state.carry_s, lost, to);
    const int safe_to = spot_sim_clip(sim->table, m->safe[i].asked, told(m, i));
    const struct step safe = step_of(sim, m->state.n, from, then->carry_s, lost, safe_to);

    return m->safe_got + safe.got - m->got - job.got + fmax(gap(m, n, &job, &safe), 0);
}

/* May the job go where the program goes? What it asks for may not fit what is there yet: then that
 * must hold for whatever fits, should more instances come. */
static bool may_follow(const struct mixture *m, size_t i)
{
    const struct spot_cost_table *t = m->sim->table;
    const int asked = m->program[i].asked, n = told(m, i);
    const int size = asked == SPOT_GRID_NONE ? 0 : t->d[asked] * t->p[asked];
    const double budget = m->budget_s * m->ideal_per_s / (double)i;
    int to, before = SPOT_GRID_NONE - 1;

    if (asked == m->safe[i].asked)
        return true;
    for (int there = n; there == n || there <= size; there++, before = to) {
        to = spot_sim_clip(t, asked, there);
        if (to != before && behind(m, i, there, to) > budget)
            return false;
    }
    return true;
}

/* The program's shadow leads by more than ever, and the job does not share in it. */
static void raise_budget(struct mixture *m, size_t i)
{
    const double lead = m->lead_s * m->ideal_per_s / (double)i;

    if (m->program_got - m->safe_got >= lead && m->got < m->safe_got + lead) {
        m->budget_s += GRANT_S;
        m->lead_s *= 2;
    }
}

static void go(struct mixture *m, struct spot_sim_row *row, size_t i)
{
    int d, p;

    m->ideal_per_s += spot_throughput_best(m->sim->throughput, row[i - 1].available, &d, &p);
    raise_budget(m, i);
    spot_sim_migrate(m->sim, &m->state, (may_follow(m, i) ? m->program : m->safe)[i].asked,
                     &row[i]);
}

void spot_sim_guard(const struct spot_sim_train *sim, const struct spot_sim_row *program,
                    const struct spot_sim_row *safe, struct spot_sim_row *row)
{
    struct mixture m = {
        .sim = sim, .program = program, .safe = safe, .budget_s = BUDGET_S, .lead_s = LEAD_S
    };

    m.still = spot_xcalloc(2 * (size_t)sim->look_ahead, sizeof(*m.still));
    for (size_t i = 0; i < sim->n_interval; i++) {
        if (!i)
            spot_sim_start(sim, &m.state, safe[0].asked, &row[0]);
        else
            go(&m, row, i);
        m.got += row[i].samples;
        m.program_got += program[i].samples;
        m.safe_got += safe[i].samples;
    }
    free(m.still);
}

int spot_sim_guarded(const struct spot_sim_train *sim, struct spot_sim_row *row,
                     struct spot_err *err)
{
    const size_t n = sim->n_interval;
    struct spot_sim_row *program = spot_xcalloc(2 * n, sizeof(*row)), *safe = program + n;
    int rc;

    for (size_t i = 0; i < n; i++)
        program[i] = safe[i] = row[i];
    rc = spot_sim_spot(sim, program, err) || spot_sim_nowcast(sim, safe, err) ? -1 : 0;
    if (!rc)
        spot_sim_guard(sim, program, safe, row);
    free(program);
    return rc;
}
