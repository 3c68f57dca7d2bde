/* SPDX-License-Identifier: MIT */
#include "plan/train/train_score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/liveput.h"
#include "plan/liveput_dp.h"
#include "plan/train/grid_window.h"

/* Instances that come or go within a plan's horizon; stage counts tried for each count. */
enum { SWEEPS_MAX = 100, WINDOW = 32, WINDOW_STAGES = 3 };

/* Counts times grids squared that are looked at in full: about two seconds. */
enum { EFFORT_MAX = 300000, EFFORT_SEARCH_MAX = 2000000 };

double spot_train_worth(const struct spot_train_question *q, double samples_per_s, double usd_per_h)
{
    return q->objective == SPOT_OBJECTIVE_USD_PER_SAMPLE
               ? samples_per_s / fmax(usd_per_h / 3600, 1e-300)
               : samples_per_s * q->usd_per_sample - usd_per_h / 3600;
}

/* The forecast's distribution of the next interval, netted, for every later one as well. */
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

/* The fastest grid of the count in each interval of the horizon, changes free: mean samples/s. */
static double bound_of(const struct spot_train_question *q, const struct spot_count_chain *chain,
                       int n_max)
{
    double *pmf = spot_xcalloc(2 * ((size_t)n_max + 1), sizeof(*pmf)), *next = pmf + n_max + 1;
    double *memory = pmf, sum = 0;
    int d, p;

    pmf[q->dist->now - q->leaving] = 1;
    for (int h = 0; h < q->horizon; h++) {
        double *swap = pmf;

        for (int n = 0; n <= n_max; n++)
            if (pmf[n] > 0)
                sum += pmf[n] * spot_throughput_best(q->throughput, n, &d, &p);
        spot_train_step_count(chain, n_max, pmf, next);
        pmf = next;
        next = swap;
    }
    free(memory);
    return sum / q->horizon;
}

int spot_train_missing(const struct spot_train_question *q)
{
    const int more = q->current_d * q->current_p - q->dist->now;

    return more > 0 ? more : 0;
}

/* No more come by the forecast, whatever the profile has grids for, than there are or just were. */
static int most_instances(const struct spot_train_question *q)
{
    const int were = q->dist->now + spot_train_missing(q);
    const int most = q->dist->cap > were ? q->dist->cap : were;

    return most < q->throughput->n_max ? most : q->throughput->n_max;
}

/* A plan is carried out with named instances that leave. Above this many instances the distribution
 * of survivors would take seconds, and with more pipelines there is less to know. */
static bool sees_victims(const struct spot_train_question *q)
{
    enum { INSTANCES_MAX = 40 };

    return most_instances(q) <= INSTANCES_MAX;
}

/* What the warm spares beside a choice cost and save. */
static void tell_warm(struct spot_train_choice *c, const struct spot_train_question *q,
                      struct spot_cost_table *table)
{
    const int n = q->dist->now - q->leaving, g = spot_cost_grid(table, c->d, c->p);

    if (n <= c->d * c->p)
        return;
    c->warm = spot_cost_mirroring(table, n, g);
    c->mirror_share = 1 - spot_cost_rate(table, n, g) / table->samples_per_s[g];
    c->warm_saves_s = spot_cost_warm_saves_s(table, n, g, 1, g);
}

/* The DP's scores: relative values over an unending future decide, a finite horizon is told. */
static void score_dp(struct spot_train_choice *choice, size_t n_choice,
                     const struct spot_train_question *q, struct spot_cost_table *table,
                     double *bound, double *suspend)
{
    const int missing = spot_train_missing(q), lost = q->leaving + missing, change = -lost;
    const double interval_s = q->dist->interval_s;
    double *score = spot_xcalloc(3 * ((size_t)table->n_grid + 1), sizeof(*score));
    double *told = score + table->n_grid + 1, *nothing = told + table->n_grid + 1;
    const struct spot_liveput_view view = {
        .n = q->dist->now + missing,
        .from = spot_cost_grid(table, q->current_d, q->current_p),
        .n_known = 1,
        .change = &change,
        .cost_s = q->current_d ? NULL : nothing, /* what runs nowhere yet pays for no change */
    };
    struct spot_count_chain chain;
    struct spot_liveput_dp dp;

    spot_train_chain(q->dist, q->dist->cap, table->lost_max, &chain);
    spot_liveput_dp_init(&dp, table, interval_s, true);
    dp.n_context = 1; /* one distribution for all */
    dp.sees_victims = sees_victims(q);
    if (!dp.sees_victims) /* of many instances, what is left unfinished would take seconds, too */
        dp.node_per_span = 0;
    dp.is_shut = spot_train_shut(q, q->dist->now, &dp);
    spot_liveput_dp_finish(&dp, &chain, q->horizon - 1);
    spot_liveput_dp_scores(&dp, &view, told);
    spot_liveput_dp_solve(&dp, &chain, SWEEPS_MAX);
    spot_liveput_dp_scores(&dp, &view, score);
    *suspend = score[table->n_grid];
    for (size_t i = 0; i < n_choice; i++) {
        const int g = spot_cost_grid(table, choice[i].d, choice[i].p);

        choice[i].cost_s = q->current_d ? spot_cost_row(table, view.n, view.from, lost)[g] : 0;
        choice[i].score = score[g];
        choice[i].samples_per_s = told[g] / (q->horizon * interval_s);
        if (choice[i].samples_per_s < 0)
            choice[i].samples_per_s = 0;
        if (q->warm)
            tell_warm(&choice[i], q, table);
    }
    *bound = bound_of(q, &chain, most_instances(q));
    spot_liveput_dp_release(&dp);
    free(score);
    if (q->objective != SPOT_OBJECTIVE_SAMPLES)
        spot_train_hold(choice, n_choice, q, table);
}

/* Is it a grid of up to n_max instances whose speed is known, or what runs now? */
static bool is_looked_at(const struct spot_train_question *q, int at)
{
    const int wide = q->throughput->p_max + 1, d = at / wide, p = at % wide;

    return (q->throughput->samples_per_s[at] > 0 || (d == q->current_d && p == q->current_p)) &&
           d * p <= most_instances(q);
}

/* Sums over all counts, grids before and grids after, of a sweep. */
static double effort_of(const struct spot_train_question *q)
{
    double n = 0;

    for (int i = 0; i < q->throughput->n_grid; i++)
        n += is_looked_at(q, q->throughput->grid_order[i]);
    return n * n * most_instances(q);
}

bool spot_train_is_cut(const struct spot_train_question *q)
{
    return q->solver == SPOT_SOLVER_DP && !q->exact_max &&
           most_instances(q) <= SPOT_COST_INSTANCES_MAX &&
           effort_of(q) > (sees_victims(q) ? EFFORT_MAX : EFFORT_SEARCH_MAX);
}

static bool needs_window(const struct spot_train_question *q)
{
    const int most = q->exact_max ? q->exact_max : (int)SPOT_COST_INSTANCES_MAX;

    return q->solver != SPOT_SOLVER_LIVEPUT && (most_instances(q) > most || spot_train_is_cut(q));
}

static int low_of(const struct spot_train_question *q)
{
    const int low = q->dist->now - q->leaving - WINDOW;

    return low > 0 ? low : 0;
}

static int high_of(const struct spot_train_question *q)
{
    const int missing = spot_train_missing(q), n_max = most_instances(q);
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

/* More than one for each victim of a change would make no difference to speak of. */
static int warm_of(const struct spot_train_question *q, const struct spot_cost_table *table)
{
    const int most = table->n_max < SPOT_COST_LOST_MAX ? table->n_max : (int)SPOT_COST_LOST_MAX;

    return q->warm < most ? q->warm : most;
}

int spot_train_score(struct spot_train_choice *choice, size_t n_choice,
                     const struct spot_train_question *q, const int *grid, int n_grid,
                     double *bound, double *suspend, struct spot_err *err)
{
    const int lost = q->leaving + spot_train_missing(q);
    const int lost_max = lost > SPOT_CHAIN_SMALL_MAX ? lost : (int)SPOT_CHAIN_SMALL_MAX;
    struct spot_cost_table table;

    if (needs_window(q) && lost_max > SPOT_COST_LOST_MAX)
        return spot_err_set(err, SPOT_EDATA,
                            "%d instances leave at once: this solver takes up to %d; "
                            "--solver liveput takes all",
                            lost, SPOT_COST_LOST_MAX);
    if (needs_window(q))
        spot_cost_table_init_window(&table, q->job, q->throughput, low_of(q), high_of(q), lost_max,
                                    grid, n_grid);
    else
        spot_cost_table_init_window(&table, q->job, q->throughput, 0, most_instances(q),
                                    most_instances(q), grid, n_grid);
    *suspend = -INFINITY;
    table.warm = warm_of(q, &table);
    score_dp(choice, n_choice, q, &table, bound, suspend);
    spot_cost_table_release(&table);
    return 0;
}
