/* SPDX-License-Identifier: MIT */
/* The policy `guarded`: the program of `spot` where it can be trusted, `nowcast` elsewhere.
 *
 * Two shadows, each with a job of its own, tell how far `nowcast` and a job that always follows the
 * program have come. The job does what the program would do in its place as long as it is no more
 * than a budget behind `nowcast` after the interval, nor would be if it then changed to the grid of
 * `nowcast`; otherwise it follows `nowcast`. The budget is BUDGET_S and EARNED times the maximum
 * lead of the program's shadow, at most LEAD_S of it: the program earns what it may risk.
 *
 * The bound on how far the job can be behind `nowcast` at any time, and its proof:
 * docs/design/06-liveput.md. */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/parcae.h"
#include "sim/sim_policy.h"

/* In seconds of the mean speed of `ideal` so far. */
static const double BUDGET_S = 10, EARNED = 3, LEAD_S = 20;

struct mixture {
    const struct spot_sim_train *sim;
    struct spot_sim_program *program;
    const struct spot_sim_row *safe, *shadow; /* of nowcast, of the program */
    double shadow_got, safe_got, got;         /* samples before this interval */
    double ideal_per_s;                       /* sum over the intervals so far */
    double lead_s;                            /* the most that the program's shadow led */
    int *still;                               /* [2 * look_ahead] gained, lost: no changes */
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

/* May the job obey the program? What it asks for may not fit what is there yet: then that must hold
 * for whatever fits, should more instances come. */
static bool may_obey(const struct mixture *m, size_t i, int asked)
{
    const struct spot_cost_table *t = m->sim->table;
    const int n = told(m, i);
    const int size = asked == SPOT_GRID_NONE ? 0 : t->d[asked] * t->p[asked];
    const double budget =
        (BUDGET_S + EARNED * fmin(m->lead_s, LEAD_S)) * m->ideal_per_s / (double)i;
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

/* What the intervals before i showed. */
static void look_back(struct mixture *m, size_t i)
{
    const struct spot_sim_train *sim = m->sim;
    int d, p;

    m->shadow_got += m->shadow[i - 1].samples;
    m->safe_got += m->safe[i - 1].samples;
    m->ideal_per_s += spot_throughput_best(sim->throughput, m->safe[i - 1].available, &d, &p);
    if (m->ideal_per_s > 0)
        m->lead_s = fmax(m->lead_s, (m->shadow_got - m->safe_got) * (double)i / m->ideal_per_s);
}

/* The grid of the job for interval i. */
static int choose(struct mixture *m, size_t i)
{
    int asked;

    if (!i)
        return m->safe[0].asked;
    look_back(m, i);
    asked = m->program->ask(m->program, i, &m->state);
    return may_obey(m, i, asked) ? asked : m->safe[i].asked;
}

void spot_sim_guard(const struct spot_sim_train *sim, struct spot_sim_program *program,
                    const struct spot_sim_row *safe, struct spot_sim_row *shadow,
                    struct spot_sim_row *row)
{
    struct mixture m = { .sim = sim, .program = program, .safe = safe, .shadow = shadow };
    struct spot_sim_state alone = { 0 };

    m.still = spot_xcalloc(2 * (size_t)sim->look_ahead, sizeof(*m.still));
    for (size_t i = 0; i < sim->n_interval; i++) {
        const int asked = i ? program->ask(program, i, &alone) : safe[0].asked;

        spot_sim_obey(sim, &alone, asked, i, &shadow[i]);
        spot_sim_obey(sim, &m.state, choose(&m, i), i, &row[i]);
        m.got += row[i].samples;
    }
    free(m.still);
}

int spot_sim_guarded(const struct spot_sim_train *sim, struct spot_sim_row *row,
                     struct spot_err *err)
{
    const size_t n = sim->n_interval;
    struct spot_sim_row *safe = spot_xcalloc(2 * n, sizeof(*row)), *shadow = safe + n;
    struct spot_sim_program *program;
    int rc;

    for (size_t i = 0; i < n; i++)
        safe[i] = shadow[i] = row[i];
    rc = spot_sim_nowcast(sim, safe, err);
    if (!rc) {
        program = spot_sim_program_open(sim, row);
        spot_sim_guard(sim, program, safe, shadow, row);
        spot_sim_program_close(program);
    }
    free(safe);
    return rc;
}
