/* SPDX-License-Identifier: MIT */
/* Chooses the grid to run now, given the values of later states. */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/train/liveput_inner.h"

static struct spot_liveput_choice choice_of(const struct spot_liveput_dp *dp, int rank,
                                            double samples)
{
    return (struct spot_liveput_choice){ .grid = rank == dp->n_grid ? SPOT_GRID_NONE
                                                                    : dp->by_size[rank],
                                         .samples = samples };
}

/* The values before the known changes that follow the first one, from n instances: which instances
 * these take becomes known as they happen. space[2 * (n_node + 1) * (n_grid + 1)]. */
static const double *fold(struct spot_liveput_dp *dp, const int *change, int n_change, int n,
                          const double *value, double *space)
{
    const size_t wide = (size_t)dp->n_grid + 1;
    double *now = space + (n_change % 2 ? ((size_t)dp->n_node + 1) * wide : 0);
    const double *then;

    if (!n_change)
        return value;
    then = fold(dp, change + 1, n_change - 1, n + change[0], value, space);
    for (int r = 0; r <= dp->n_grid; r++)
        if (spot_liveput_may_run(dp, n, r))
            spot_liveput_after_change(dp, n, r, change[0], then, now + r, wide);
        else
            for (int node = 0; node < dp->n_node; node++)
                now[(size_t)node * wide + (size_t)r] = SPOT_LIVEPUT_NEVER;
    return now;
}

/* score[] by rank of choosing each grid now. Returns the count after the first change. */
static int look(struct spot_liveput_dp *dp, const struct spot_liveput_view *v, double *score)
{
    double *space =
        spot_xcalloc(2 * ((size_t)dp->n_node + 1) * ((size_t)dp->n_grid + 1), sizeof(*space));
    int n = v->n, context = v->context;
    const int n2 = v->n + v->change[0];
    struct spot_liveput_view first = *v;
    const double *value;

    for (int k = 0; k < v->n_known; k++) {
        n += v->change[k];
        context = spot_liveput_context(dp, context, v->change[k]);
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

    look(dp, v, by_rank);
    for (int r = 0; r < dp->n_grid; r++)
        score[dp->by_size[r]] = by_rank[r];
    score[dp->n_grid] = by_rank[dp->n_grid];
    free(by_rank);
}

/* sum[] += prob * (the value of having chosen each rank when the change comes). */
static void add_event(struct spot_liveput_dp *dp, const struct spot_cost_state *state, int context,
                      const struct spot_liveput_event *event, double *sum)
{
    const int n2 = state->n + event->change, lost = event->change < 0 ? -event->change : 0;
    const double *cost = spot_cost_row(dp->table, state->n, state->grid, lost);
    const double *value =
        spot_liveput_dp_value(dp, spot_liveput_context(dp, context, event->change), n2);
    const int *cut = dp->clip + (size_t)n2 * ((size_t)dp->n_grid + 1);

    for (int r = 0; r < dp->n_grid; r++) {
        const int to = cut[r] == dp->n_grid ? SPOT_GRID_NONE : dp->by_size[cut[r]];
        double total, got = 0, left = 0;

        if (to != SPOT_GRID_NONE) {
            total = spot_cost_total_s(dp->table, state, to, cost[to]);
            got = spot_cost_rate(dp->table, state->n - lost, to) * fmax(dp->interval_s - total, 0);
            left = fmax(total - dp->interval_s, 0);
        }
        sum[r] += event->prob * (got + spot_liveput_owing(dp, value, cut[r], left));
    }
    sum[dp->n_grid] += event->prob * value[dp->n_grid];
}

/* sum[n_grid + 1] by rank. */
static void sum_before(struct spot_liveput_dp *dp, const struct spot_cost_state *state, int context,
                       const struct spot_count_step *step, double *sum)
{
    struct spot_liveput_event event[SPOT_LIVEPUT_EVENTS];
    const int n_event = spot_liveput_events(dp, state->n, step, event);

    for (int e = 0; e < n_event; e++)
        add_event(dp, state, context, &event[e], sum);
}

void spot_liveput_dp_scores_before(struct spot_liveput_dp *dp, int n, int from, double carry_s,
                                   int context, const struct spot_count_step *step, double *score)
{
    const struct spot_cost_state state = { n, from, carry_s };
    double *sum = spot_xcalloc((size_t)dp->n_grid + 1, sizeof(*sum));

    sum_before(dp, &state, context, step, sum);
    for (int r = 0; r < dp->n_grid; r++)
        score[dp->by_size[r]] = sum[r];
    score[dp->n_grid] = sum[dp->n_grid];
    free(sum);
}

struct spot_liveput_choice spot_liveput_dp_before(struct spot_liveput_dp *dp, int n, int from,
                                                  double carry_s, int context,
                                                  const struct spot_count_step *step)
{
    const struct spot_cost_state state = { n, from, carry_s };
    double *sum = spot_xcalloc((size_t)dp->n_grid + 1, sizeof(*sum)), best;
    int at = dp->n_grid;

    sum_before(dp, &state, context, step, sum);
    best = sum[at];
    for (int r = 0; r < dp->n_grid; r++)
        if (sum[r] > best) {
            best = sum[r];
            at = r;
        }
    free(sum);
    return choice_of(dp, at, best);
}
