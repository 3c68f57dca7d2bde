/* SPDX-License-Identifier: MIT */
/* The policy `guarded`: `spot` where it may be trusted, `nowcast` elsewhere.
 *
 * Both are played in the shadow, each on a job of its own, so that it is known how far each has
 * come. The job goes where `spot` goes as long as it could still turn to what `nowcast` runs and be
 * no more than a budget behind it; else it goes where `nowcast` goes. The budget grows when the
 * shadow of `spot` leads: by LEAD_S for the first time, then by twice that, and so on.
 *
 * How far behind `nowcast` the job can be at any time, and why: docs/design/06-liveput.md. */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/parcae.h"
#include "sim/sim_policy.h"

/* In seconds of the mean speed of `ideal` so far. */
static const double BUDGET_S = 12, LEAD_S = 10, GRANT_S = 8;

struct mixture {
    const struct spot_sim_train *sim;
    struct spot_sim_row *program, *safe; /* the shadows */
    double program_got, safe_got, got;   /* samples before this interval */
    double ideal_per_s;                  /* sum over the intervals so far */
    double budget_s, lead_s;             /* in force; the lead that raises it next */
    int *still;                          /* [2 * look_ahead] gained, lost: no changes */
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

/* How far behind the shadow the job will be after it went to `to` with n instances and turned back.
 */
static double behind(const struct mixture *m, size_t i, int n, int to)
{
    const struct spot_sim_train *sim = m->sim;
    const struct spot_sim_row *then = &m->safe[i - 1];
    const int lost = sim->notice_loss_s > 0 ? m->safe[i].lost : 0;
    const int from = spot_cost_grid(sim->table, then->d, then->p);
    const struct step job = step_of(sim, m->state.n, m->state.grid, m->state.carry_s, lost, to);
    const int safe_to = spot_sim_clip(sim->table, m->safe[i].asked, m->state.n - lost);
    const struct step safe = step_of(sim, m->state.n, from, then->carry_s, lost, safe_to);

    return m->safe_got + safe.got - m->got - job.got + gap(m, n, &job, &safe);
}

/* May the job go where the program goes? What it asks for may not fit what is there yet: then it
 * must hold for what fits, and for all of it, should as many instances come. */
static bool may_follow(const struct mixture *m, size_t i)
{
    const struct spot_cost_table *t = m->sim->table;
    const int asked = m->program[i].asked;
    const int n = m->state.n - (m->sim->notice_loss_s > 0 ? m->safe[i].lost : 0);
    const int size = asked == SPOT_GRID_NONE ? 0 : t->d[asked] * t->p[asked];
    const double budget = m->budget_s * m->ideal_per_s / (double)i;

    if (asked == m->safe[i].asked &&
        m->state.grid == spot_cost_grid(t, m->safe[i - 1].d, m->safe[i - 1].p))
        return true;
    return behind(m, i, n, spot_sim_clip(t, asked, n)) <= budget &&
           (size <= n || behind(m, i, size, asked) <= budget);
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

int spot_sim_guarded(const struct spot_sim_train *sim, struct spot_sim_row *row,
                     struct spot_err *err)
{
    const size_t n = sim->n_interval;
    struct mixture m = { .sim = sim, .budget_s = BUDGET_S, .lead_s = LEAD_S };
    int rc;

    m.program = spot_xcalloc(2 * n, sizeof(*row));
    m.safe = m.program + n;
    m.still = spot_xcalloc(2 * (size_t)sim->look_ahead, sizeof(*m.still));
    for (size_t i = 0; i < n; i++)
        m.program[i] = m.safe[i] = row[i];
    rc = spot_sim_spot(sim, m.program, err) || spot_sim_nowcast(sim, m.safe, err) ? -1 : 0;
    for (size_t i = 0; i < n && !rc; i++) {
        if (!i)
            spot_sim_start(sim, &m.state, m.safe[0].asked, &row[0]);
        else
            go(&m, row, i);
        m.got += row[i].samples;
        m.program_got += m.program[i].samples;
        m.safe_got += m.safe[i].samples;
    }
    free(m.still);
    free(m.program);
    return rc;
}
