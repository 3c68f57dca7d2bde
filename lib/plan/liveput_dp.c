/* SPDX-License-Identifier: MIT */
#include "plan/liveput_dp.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

static int size_of(const struct spot_cost_table *t, int g)
{
    return t->d[g] * t->p[g];
}

static void sort_by_size(struct spot_liveput_dp *dp)
{
    const struct spot_cost_table *t = dp->table;
    int n = 0;

    for (int size = 0; size <= dp->n_max; size++) {
        for (int g = 0; g < dp->n_grid; g++)
            if (size_of(t, g) == size) {
                dp->rank[g] = n;
                dp->by_size[n++] = g;
            }
        dp->n_fit[size] = n;
    }
    assert(n == dp->n_grid);
}

/* What grid `rank` becomes with n instances: itself, fewer pipelines, one of n stages, nothing. */
static int clip(const struct spot_liveput_dp *dp, int n, int rank)
{
    const struct spot_cost_table *t = dp->table;
    const int g = dp->by_size[rank];
    int to;

    if (size_of(t, g) <= n)
        return rank;
    to = n / t->p[g] > 0 ? spot_cost_grid(t, n / t->p[g], t->p[g]) : spot_cost_grid(t, 1, n);
    return to == SPOT_GRID_NONE ? dp->n_grid : dp->rank[to];
}

static size_t n_gain(const struct spot_liveput_dp *dp)
{
    return (size_t)(dp->n_max - dp->n_low + 1) * (size_t)(dp->n_grid + 1) *
           (size_t)(dp->lost_max + 1);
}

void spot_liveput_dp_init(struct spot_liveput_dp *dp, struct spot_cost_table *table,
                          double interval_s, bool has_notice)
{
    const size_t wide = (size_t)table->n_grid + 1, n = (size_t)table->n_max + 1;

    *dp = (struct spot_liveput_dp){ .table = table,
                                    .interval_s = interval_s,
                                    .has_notice = has_notice,
                                    .n_low = table->n_low,
                                    .n_max = table->n_max,
                                    .n_context = SPOT_CHAIN_CONTEXTS,
                                    .n_grid = table->n_grid,
                                    .lost_max = table->lost_max < SPOT_CHAIN_SIZE_MAX
                                                    ? table->lost_max
                                                    : (int)SPOT_CHAIN_SIZE_MAX };
    dp->by_size = spot_xcalloc(wide, sizeof(int));
    dp->rank = spot_xcalloc(wide, sizeof(int));
    dp->n_fit = spot_xcalloc(n, sizeof(int));
    dp->value = spot_xcalloc(SPOT_CHAIN_CONTEXTS * n * wide, sizeof(double));
    dp->next = spot_xcalloc(SPOT_CHAIN_CONTEXTS * n * wide, sizeof(double));
    dp->gain = spot_xcalloc(n_gain(dp), sizeof(struct spot_liveput_gain *));
    dp->clip = spot_xcalloc(n * wide, sizeof(int));
    sort_by_size(dp);
    for (size_t i = 0; i < n; i++)
        for (int r = 0; r < dp->n_grid; r++)
            dp->clip[i * wide + (size_t)r] = clip(dp, (int)i, r);
}

void spot_liveput_dp_release(struct spot_liveput_dp *dp)
{
    for (size_t i = 0; dp->gain && i < n_gain(dp); i++)
        if (dp->gain[i]) {
            free(dp->gain[i]->prob);
            free(dp->gain[i]->of);
            free(dp->gain[i]);
        }
    free(dp->gain);
    free(dp->is_shut);
    free(dp->by_size);
    free(dp->rank);
    free(dp->n_fit);
    free(dp->value);
    free(dp->next);
    free(dp->clip);
    memset(dp, 0, sizeof(*dp));
}

static void fill_gain(const struct spot_liveput_dp *dp, const double *cost_s, double *gain)
{
    for (int r = 0; r < dp->n_grid; r++) {
        const int to = dp->by_size[r];

        gain[r] = dp->table->samples_per_s[to] * (dp->interval_s - cost_s[to]);
    }
}

static struct spot_liveput_gain *make_gain(struct spot_liveput_dp *dp, int n, int rank, int lost)
{
    const int from = rank == dp->n_grid ? SPOT_GRID_NONE : dp->by_size[rank];
    const bool sees = dp->has_notice && dp->sees_victims && lost && from != SPOT_GRID_NONE;
    const struct spot_cost_outcomes *o = sees ? spot_cost_outcomes(dp->table, n, from, lost) : NULL;
    struct spot_liveput_gain *g = spot_xcalloc(1, sizeof(*g));
    const size_t wide = (size_t)dp->n_grid + 1;

    g->n = o ? o->n : 1;
    g->prob = spot_xcalloc((size_t)g->n, sizeof(*g->prob));
    g->of = spot_xcalloc((size_t)g->n * wide, sizeof(*g->of));
    for (int i = 0; i < g->n; i++) {
        g->prob[i] = o ? o->prob[i] : 1;
        fill_gain(dp,
                  o ? o->cost_s + (size_t)i * (size_t)dp->n_grid
                    : spot_cost_row(dp->table, n, from, lost),
                  g->of + (size_t)i * wide);
    }
    return g;
}

/* r(n, from, lost -> .) for every grid by rank; [n_grid] is 0: suspended. */
static const struct spot_liveput_gain *gain_of(struct spot_liveput_dp *dp, int n, int rank,
                                               int change)
{
    const size_t wide = (size_t)dp->n_grid + 1, lost = change < 0 ? (size_t)-change : 0;
    struct spot_liveput_gain **at =
        &dp->gain[((size_t)(n - dp->n_low) * wide + (size_t)rank) * ((size_t)dp->lost_max + 1) +
                  lost];

    if (!*at)
        *at = make_gain(dp, n, rank, (int)lost);
    return *at;
}

static int after(const struct spot_liveput_dp *dp, int context, int change)
{
    return dp->n_context == 1 ? 0 : spot_count_chain_after(context, change);
}

static size_t value_at(const struct spot_liveput_dp *dp, int context, int n)
{
    return ((size_t)context * (size_t)(dp->n_max + 1) + (size_t)n) * (size_t)(dp->n_grid + 1);
}

const double *spot_liveput_dp_value(const struct spot_liveput_dp *dp, int context, int n)
{
    return dp->value + value_at(dp, context, n);
}

/* max over grids that fit n2 of gain + value; four chains of maxima, for speed. */
static double best_of(const struct spot_liveput_dp *dp, const double *gain, const double *value,
                      int n2)
{
    double best[4];
    int r = 0;

    best[0] = best[1] = best[2] = best[3] = value[dp->n_grid]; /* suspended */
    for (; r + 4 <= dp->n_fit[n2]; r += 4)
        for (int i = 0; i < 4; i++) {
            const double x = gain[r + i] + value[r + i];

            best[i] = x > best[i] ? x : best[i];
        }
    for (; r < dp->n_fit[n2]; r++)
        best[0] = gain[r] + value[r] > best[0] ? gain[r] + value[r] : best[0];
    return fmax(fmax(best[0], best[1]), fmax(best[2], best[3]));
}

/* Its mean over what becomes known before the choice. */
static double best_after(const struct spot_liveput_dp *dp, const struct spot_liveput_gain *gain,
                         const double *value, int n2)
{
    double sum = 0;

    for (int i = 0; i < gain->n; i++)
        sum +=
            gain->prob[i] * best_of(dp, gain->of + (size_t)i * ((size_t)dp->n_grid + 1), value, n2);
    return sum;
}

/* Add prob * (what target r gives if n2 are left) for every target. */
static void add_before(const struct spot_liveput_dp *dp, const double *gain, int context, int n2,
                       double prob, double *sum)
{
    const double *value = dp->value + value_at(dp, context, n2);
    const int *cut = dp->clip + (size_t)n2 * (size_t)(dp->n_grid + 1);
    int r = 0;

    for (; r < dp->n_fit[n2]; r++)
        sum[r] += prob * (gain[r] + value[r]);
    for (; r < dp->n_grid; r++)
        sum[r] += prob * (gain[cut[r]] + value[cut[r]]);
    sum[dp->n_grid] += prob * value[dp->n_grid];
}

/* The events of a step as one list: change (< 0 lost), probability. What leads beyond the counts
 * that are looked at leads to the nearest of them. */
struct event {
    int change;
    double prob;
};
enum { EVENTS = 2 * SPOT_CHAIN_SIZE_MAX + 3 };

static int events_of(const struct spot_liveput_dp *dp, int n, const struct spot_count_step *s,
                     struct event *event)
{
    const int down = n - dp->n_low < dp->lost_max ? n - dp->n_low : dp->lost_max;
    const int up = dp->n_max - n;
    double beyond[2] = { 0 };
    int n_event = 0;

    event[n_event++] = (struct event){ 0, s->still };
    for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++) {
        if (k <= down && s->lost[k] > 0)
            event[n_event++] = (struct event){ -k, s->lost[k] };
        else
            beyond[0] += s->lost[k];
        if (k <= up && s->gained[k] > 0)
            event[n_event++] = (struct event){ k, s->gained[k] };
        else
            beyond[1] += s->gained[k];
    }
    if (beyond[0] > 0 && down)
        event[n_event++] = (struct event){ -down, beyond[0] };
    if (beyond[1] > 0 && up)
        event[n_event++] = (struct event){ up, beyond[1] };
    event[0].prob += (down ? 0 : beyond[0]) + (up ? 0 : beyond[1]);
    return n_event;
}

/* One state, its law known for every context; event[0] is "still", the rest are in the same order
 * in all contexts. */
struct laws {
    int n_event;
    struct event event[SPOT_CHAIN_CONTEXTS][EVENTS];
};

/* With a notice: what follows a change does not depend on the context before it. */
static void back_up_after(struct spot_liveput_dp *dp, const struct laws *laws, int n, int rank)
{
    const struct spot_liveput_gain *still = gain_of(dp, n, rank, 0);
    double then[EVENTS];

    for (int e = 1; e < laws->n_event; e++) {
        const int change = laws->event[0][e].change;

        then[e] =
            best_after(dp, gain_of(dp, n, rank, change),
                       spot_liveput_dp_value(dp, after(dp, 0, change), n + change), n + change);
    }
    for (int c = 0; c < dp->n_context; c++) {
        double v = laws->event[c][0].prob *
                   best_after(dp, still, spot_liveput_dp_value(dp, after(dp, c, 0), n), n);

        for (int e = 1; e < laws->n_event; e++)
            v += laws->event[c][e].prob * then[e];
        dp->next[value_at(dp, c, n) + (size_t)rank] = v;
    }
}

static void back_up_before(struct spot_liveput_dp *dp, const struct laws *laws, int n, int rank,
                           double *sum)
{
    for (int c = 0; c < dp->n_context; c++) {
        double best;

        memset(sum, 0, ((size_t)dp->n_grid + 1) * sizeof(*sum));
        for (int e = 0; e < laws->n_event; e++) {
            const int change = laws->event[c][e].change;

            add_before(dp, gain_of(dp, n, rank, change)->of, after(dp, c, change), n + change,
                       laws->event[c][e].prob, sum);
        }
        best = sum[dp->n_grid];
        for (int r = 0; r < dp->n_grid; r++)
            best = sum[r] > best ? sum[r] : best;
        dp->next[value_at(dp, c, n) + (size_t)rank] = best;
    }
}

/* A grid that may not be run is never chosen. */
static void shut(const struct spot_liveput_dp *dp, double *value)
{
    for (int n = dp->n_low; dp->is_shut && n <= dp->n_max; n++)
        for (int r = 0; r < dp->n_fit[n]; r++)
            if (dp->is_shut[n * dp->n_grid + r])
                for (int c = 0; c < dp->n_context; c++)
                    value[value_at(dp, c, n) + (size_t)r] = -INFINITY;
}

static bool may_run(const struct spot_liveput_dp *dp, int n, int rank)
{
    return rank == dp->n_grid ||
           (rank < dp->n_fit[n] && !(dp->is_shut && dp->is_shut[n * dp->n_grid + rank]));
}

/* Make next relative to its value at no instances, and swap it in. Returns how unevenly the
 * values moved, relative to how far. */
static double turn(struct spot_liveput_dp *dp)
{
    double *swap = dp->value, low = INFINITY, high = -INFINITY;
    const double base =
        dp->is_finite ? 0 : dp->next[value_at(dp, 0, dp->n_max) + (size_t)dp->n_grid];

    for (int c = 0; c < dp->n_context; c++)
        for (int n = dp->n_low; n <= dp->n_max; n++)
            for (int r = 0; r <= dp->n_grid; r++) {
                const size_t at = value_at(dp, c, n) + (size_t)r;
                const double moved = dp->next[at] - dp->value[at];

                if (!may_run(dp, n, r))
                    continue;
                low = moved < low ? moved : low;
                high = moved > high ? moved : high;
                dp->next[at] -= base;
            }
    shut(dp, dp->next);
    dp->value = dp->next;
    dp->next = swap;
    return (high - low) / fmax(fabs(high), 1e-300);
}

int spot_liveput_dp_solve(struct spot_liveput_dp *dp, const struct spot_count_chain *chain,
                          int sweeps)
{
    double *sum = spot_xcalloc((size_t)dp->n_grid + 1, sizeof(*sum));
    int done = 0;
    bool settled = false;

    assert(!dp->is_shut || dp->has_notice);
    shut(dp, dp->value);
    for (; done < sweeps && !settled; done++) {
        for (int n = dp->n_low; n <= dp->n_max; n++) {
            struct laws laws;

            for (int c = 0; c < dp->n_context; c++) {
                struct spot_count_step step;

                spot_count_chain_step(chain, n, c, &step);
                /* cppcheck-suppress uninitvar ; events_of fills it */
                laws.n_event = events_of(dp, n, &step, laws.event[c]);
            }
            for (int r = 0; r <= dp->n_grid; r++) {
                if (!may_run(dp, n, r))
                    continue;
                if (dp->has_notice)
                    back_up_after(dp, &laws, n, r);
                else
                    back_up_before(dp, &laws, n, r, sum);
            }
        }
        settled = turn(dp) < 1e-6 && !dp->is_finite;
    }
    free(sum);
    return done;
}

void spot_liveput_dp_finish(struct spot_liveput_dp *dp, const struct spot_count_chain *chain,
                            int left)
{
    memset(dp->value, 0, (size_t)SPOT_CHAIN_CONTEXTS * value_at(dp, 1, 0) * sizeof(*dp->value));
    dp->is_finite = true;
    spot_liveput_dp_solve(dp, chain, left);
    dp->is_finite = false;
}

/* Like a gain, with an unfinished migration: any further change restarts it, none waits. */
static void with_carry(const struct spot_liveput_dp *dp, int n, int from, int lost, double carry_s,
                       double *gain)
{
    const struct spot_cost_table *t = dp->table;
    const double *cost = spot_cost_row(dp->table, n, from, lost);

    for (int r = 0; r < dp->n_grid && carry_s > 0; r++) {
        const int to = dp->by_size[r];
        const double more = cost[to] > 0 ? t->restart_s[2 * to + SPOT_CHANGE_REMOVE] : carry_s;

        gain[r] -= t->samples_per_s[to] * more;
    }
}

static struct spot_liveput_choice choice_of(const struct spot_liveput_dp *dp, int rank,
                                            double samples)
{
    return (struct spot_liveput_choice){ .grid = rank == dp->n_grid ? SPOT_GRID_NONE
                                                                    : dp->by_size[rank],
                                         .samples = samples };
}

/* The values before the known changes after the first, from n instances: who goes in them becomes
 * known as they come. space[2 * (n_grid + 1)]. */
static const double *fold(struct spot_liveput_dp *dp, const int *change, int n_change, int n,
                          const double *value, double *space)
{
    const size_t wide = (size_t)dp->n_grid + 1;
    double *now = space + (n_change % 2 ? wide : 0);
    const double *then;

    if (!n_change)
        return value;
    then = fold(dp, change + 1, n_change - 1, n + change[0], value, space);
    for (int r = 0; r <= dp->n_grid; r++)
        if (may_run(dp, n, r))
            now[r] = best_after(dp, gain_of(dp, n, r, change[0]), then, n + change[0]);
        else
            now[r] = -INFINITY;
    return now;
}

/* score[] by rank of choosing each grid now, and the count that the first change leads to. */
static int look(struct spot_liveput_dp *dp, const struct spot_liveput_view *v, double *score)
{
    double *space = spot_xcalloc(2 * ((size_t)dp->n_grid + 1), sizeof(*space));
    int n = v->n, context = v->context;
    const int n2 = v->n + v->change[0];
    struct spot_liveput_view first = *v;
    const double *value;

    for (int k = 0; k < v->n_known; k++) {
        n += v->change[k];
        context = after(dp, context, v->change[k]);
    }
    value = spot_liveput_dp_value(dp, context, n);
    if (dp->sees_victims) {
        value = fold(dp, v->change + 1, v->n_known - 1, n2, value, space);
        first.n_known = 1;
    }
    spot_liveput_known(dp, &first, value, score);
    free(space);
    return n2;
}

struct spot_liveput_choice spot_liveput_dp_after(struct spot_liveput_dp *dp,
                                                 const struct spot_liveput_view *v)
{
    double *score = spot_xcalloc((size_t)dp->n_grid + 1, sizeof(*score)), best;
    const int n2 = look(dp, v, score);
    int rank = dp->n_grid;

    best = score[rank];
    for (int r = 0; r < dp->n_fit[n2]; r++)
        if (score[r] > best) {
            best = score[r];
            rank = r;
        }
    free(score);
    return choice_of(dp, rank, best);
}

void spot_liveput_dp_scores(struct spot_liveput_dp *dp, const struct spot_liveput_view *v,
                            double *score)
{
    double *by_rank = spot_xcalloc((size_t)dp->n_grid + 1, sizeof(*by_rank));

    assert(v->n_known == 1); /* of more, ways that are not the best are forgotten */
    look(dp, v, by_rank);
    for (int r = 0; r < dp->n_grid; r++)
        score[dp->by_size[r]] = by_rank[r];
    score[dp->n_grid] = by_rank[dp->n_grid];
    free(by_rank);
}

struct spot_liveput_choice spot_liveput_dp_before(struct spot_liveput_dp *dp, int n, int from,
                                                  double carry_s, int context,
                                                  const struct spot_count_step *step)
{
    const size_t wide = (size_t)dp->n_grid + 1;
    double *sum = spot_xcalloc(2 * wide, sizeof(*sum)), *gain = sum + wide, best;
    const int rank = from == SPOT_GRID_NONE ? dp->n_grid : dp->rank[from];
    struct event event[EVENTS];
    const int n_event = events_of(dp, n, step, event);
    int at = dp->n_grid;

    for (int e = 0; e < n_event; e++) {
        const int change = event[e].change;

        memcpy(gain, gain_of(dp, n, rank, change)->of, wide * sizeof(*gain));
        with_carry(dp, n, from, change < 0 ? -change : 0, carry_s, gain);
        add_before(dp, gain, after(dp, context, change), n + change, event[e].prob, sum);
    }
    best = sum[at];
    for (int r = 0; r < dp->n_grid; r++)
        if (sum[r] > best) {
            best = sum[r];
            at = r;
        }
    free(sum);
    return choice_of(dp, at, best);
}
