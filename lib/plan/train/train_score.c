/* SPDX-License-Identifier: MIT */
#include "plan/train/train_score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/liveput.h"
#include "plan/liveput_dp.h"
#include "plan/train/grid_window.h"

/* Limits: instances that come or go within a plan's horizon, and stage counts tried for each count.
 */
enum { SWEEPS_MAX = 100, WINDOW = 32, WINDOW_STAGES = 3 };

/* Counts times the square of grids that are examined in full: about two seconds. */
enum { EFFORT_MAX = 300000, EFFORT_SEARCH_MAX = 2000000 };

double spot_train_worth(const struct spot_train_question *q, double samples_per_s, double usd_per_h)
{
    return q->objective == SPOT_OBJECTIVE_USD_PER_SAMPLE
               ? samples_per_s / fmax(usd_per_h / 3600, 1e-300)
               : samples_per_s * q->usd_per_sample - usd_per_h / 3600;
}

/* Add a change of `size` > 0 to of[]. Large sizes are rare: a few of them stand for all, or the
 * program would take several times as long. */
static void add_size(double *of, int size, int size_max, double prob)
{
    static const int node[] = { SPOT_CHAIN_SMALL_MAX, 12, 16, 24, 32, 48, SPOT_CHAIN_SIZE_MAX };
    size_t i = 0;
    int low, high;

    size = size < size_max ? size : size_max;
    if (size <= node[0] || size == size_max) {
        of[size] += prob;
        return;
    }
    while (node[i + 1] < size)
        i++;
    low = node[i];
    high = node[i + 1] < size_max ? node[i + 1] : size_max;
    of[high] += prob * (size - low) / (high - low);
    of[low] += prob * (high - size) / (high - low);
}

void spot_train_chain(const struct spot_change_dist *dist, int held, int size_max,
                      struct spot_count_chain *chain)
{
    const int most = size_max < SPOT_CHAIN_SIZE_MAX ? size_max : (int)SPOT_CHAIN_SIZE_MAX;
    const int there = held < dist->now ? held : dist->now;
    double *hit = spot_xcalloc((size_t)dist->now + 1, sizeof(*hit));
    struct spot_count_step step = { 0 };

    for (size_t i = 0; i < dist->n_change; i++) {
        const struct spot_change *c = &dist->change[i];

        spot_liveput_spread(dist->now, there, c->lost, hit);
        for (int j = 0; j <= c->lost; j++) {
            const int change = c->gained - j;

            if (change > 0)
                add_size(step.gained, change, most, c->prob * hit[j]);
            else if (change < 0)
                add_size(step.lost, -change, most < there ? most : there, c->prob * hit[j]);
            else
                step.still += c->prob * hit[j];
        }
    }
    spot_count_chain_init(chain, held);
    spot_count_chain_fix(chain, &step);
    free(hit);
}

void spot_train_step_count(const struct spot_count_chain *chain, int n_max, const double *pmf,
                           double *next)
{
    memset(next, 0, ((size_t)n_max + 1) * sizeof(*next));
    for (int n = 0; n <= n_max; n++) {
        struct spot_count_step s;

        if (pmf[n] <= 0)
            continue;
        spot_count_chain_step(chain, n, 0, &s);
        next[n] += pmf[n] * s.still;
        for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++) {
            if (k <= n)
                next[n - k] += pmf[n] * s.lost[k];
            if (n + k <= n_max)
                next[n + k] += pmf[n] * s.gained[k];
        }
    }
}

int spot_train_missing(const struct spot_train_question *q)
{
    const int more = q->current_d * q->current_p - q->dist->now;

    return more > 0 ? more : 0;
}

int spot_train_most(const struct spot_train_question *q)
{
    int n = q->dist->now + spot_train_missing(q), most = q->dist->cap > n ? q->dist->cap : n;

    for (int k = 0; k < q->n_announced; k++) {
        n += q->announced[k];
        most = n > most ? n : most;
    }
    return most < q->throughput->n_max ? most : q->throughput->n_max;
}

/* Whether victims become known: a plan is carried out with named instances that leave. Above this
 * many instances the distribution of survivors would take seconds, and with more pipelines it
 * matters less. */
bool spot_train_sees_victims(const struct spot_train_question *q)
{
    enum { INSTANCES_MAX = 40 };

    return !q->is_next && spot_train_most(q) <= INSTANCES_MAX;
}

/* True for a grid of up to n_max instances with a known speed, and for the current grid. */
static bool is_looked_at(const struct spot_train_question *q, int at)
{
    const int wide = q->throughput->p_max + 1, d = at / wide, p = at % wide;

    return (q->throughput->samples_per_s[at] > 0 || (d == q->current_d && p == q->current_p)) &&
           d * p <= spot_train_most(q);
}

/* The number of terms in a sweep: over all counts, grids before and grids after. */
static double effort_of(const struct spot_train_question *q)
{
    double n = 0;

    for (int i = 0; i < q->throughput->n_grid; i++)
        n += is_looked_at(q, q->throughput->grid_order[i]);
    return n * n * spot_train_most(q);
}

bool spot_train_is_cut(const struct spot_train_question *q)
{
    return q->solver == SPOT_SOLVER_DP && !q->exact_max &&
           spot_train_most(q) <= SPOT_COST_INSTANCES_MAX &&
           effort_of(q) > (spot_train_sees_victims(q) ? EFFORT_MAX : EFFORT_SEARCH_MAX);
}

static bool needs_window(const struct spot_train_question *q)
{
    const int most = q->exact_max ? q->exact_max : (int)SPOT_COST_INSTANCES_MAX;

    return q->solver != SPOT_SOLVER_LIVEPUT && (spot_train_most(q) > most || spot_train_is_cut(q));
}

static int low_of(const struct spot_train_question *q)
{
    const int low = q->dist->now - q->leaving - WINDOW;

    return low > 0 ? low : 0;
}

static int high_of(const struct spot_train_question *q)
{
    const int missing = spot_train_missing(q), n_max = spot_train_most(q);
    const int high = q->dist->now + (missing > WINDOW ? missing : (int)WINDOW);

    return high < n_max ? high : n_max;
}

int spot_train_grids(const struct spot_train_question *q, int **grid)
{
    const struct spot_throughput *t = q->throughput;

    int n = 0;

    *grid = spot_xcalloc((size_t)t->n_grid, sizeof(**grid));
    if (needs_window(q))
        return spot_grid_window(t, low_of(q), high_of(q), WINDOW_STAGES, q->current_d, q->current_p,
                                *grid);
    for (int i = 0; i < t->n_grid; i++)
        if (is_looked_at(q, t->grid_order[i]))
            (*grid)[n++] = t->grid_order[i];
    return n;
}

/* More warm spares than victims of a change would make no noticeable difference. */
static int warm_of(const struct spot_train_question *q, const struct spot_cost_table *table)
{
    const int most = table->n_max < SPOT_COST_LOST_MAX ? table->n_max : (int)SPOT_COST_LOST_MAX;

    return q->warm < most ? q->warm : most;
}

static bool is_kept(const struct spot_train_memory *m, int low, int high, int lost_max,
                    const int *grid, int n_grid)
{
    return m->has_table && m->low == low && m->high == high && m->lost_max == lost_max &&
           m->n_grid == n_grid && !memcmp(m->grid, grid, (size_t)n_grid * sizeof(*grid));
}

/* Make the table of costs of changes among these grids, or reuse it. */
static void have_table(struct spot_train_memory *m, const struct spot_train_question *q, int low,
                       int high, int lost_max, const int *grid, int n_grid)
{
    if (is_kept(m, low, high, lost_max, grid, n_grid))
        return;
    spot_train_forget(m);
    spot_cost_table_init_window(&m->table, q->job, q->throughput, low, high, lost_max, grid,
                                n_grid);
    m->table.carries_rest = q->carries_rest;
    m->table.warm = warm_of(q, &m->table);
    m->has_table = true;
    m->low = low;
    m->high = high;
    m->lost_max = lost_max;
    m->n_grid = n_grid;
    m->grid = spot_xcalloc((size_t)n_grid, sizeof(*grid));
    memcpy(m->grid, grid, (size_t)n_grid * sizeof(*grid));
}

/* The largest number of instances known to leave at once. */
static int leaving_most(const struct spot_train_question *q)
{
    int most = q->leaving + spot_train_missing(q);

    for (int k = 0; k < q->n_announced; k++)
        most = -q->announced[k] > most ? -q->announced[k] : most;
    return most;
}

int spot_train_score(struct spot_train_choice *choice, size_t n_choice,
                     const struct spot_train_question *q, const int *grid, int n_grid,
                     double *bound, double *suspend, struct spot_err *err)
{
    const int lost = leaving_most(q);
    const int lost_max = lost > SPOT_CHAIN_SMALL_MAX ? lost : (int)SPOT_CHAIN_SMALL_MAX;
    struct spot_train_memory own = { 0 }, *m = q->memory ? q->memory : &own;

    if (needs_window(q) && lost_max > SPOT_COST_LOST_MAX)
        return spot_err_set(err, SPOT_EDATA,
                            "%d instances leave at once: this solver takes up to %d; "
                            "--solver liveput takes all",
                            lost, SPOT_COST_LOST_MAX);
    if (needs_window(q))
        have_table(m, q, low_of(q), high_of(q), lost_max, grid, n_grid);
    else
        have_table(m, q, 0, spot_train_most(q), spot_train_most(q), grid, n_grid);
    *suspend = -INFINITY;
    spot_train_score_ahead(choice, n_choice, q, m, bound, suspend);
    spot_train_forget(&own);
    return 0;
}
