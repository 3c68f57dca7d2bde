/* SPDX-License-Identifier: MIT */
#include "forecast/joint.h"

#include <stdlib.h>

static const double PROB_MIN = 1e-9;
/* weight of the overall distribution in a class, in turnovers */
static const double PRIOR_EVENTS = 2;

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The class of a net change: none, by one, by more. */
static int class_of(int net)
{
    return net == 0 ? 0 : net == 1 || net == -1 ? 1 : 2;
}

void spot_turnover_observe(struct spot_turnover *turnover, int lost, int gained)
{
    const int turned = least(least(lost, gained), SPOT_TURNOVER_MAX);

    turnover->seen[class_of(lost - gained)][turned] += 1;
}

/* The overall distribution of turnovers, for any net change: `some`: the share of intervals that
 * have one (one in twenty before any data); `keep`: the factor by which each size is rarer than the
 * one below. */
struct whole {
    double some, keep;
};

static struct whole whole_of(const struct spot_turnover *turnover)
{
    double n = 0, n_some = 0, total = 0;

    for (int c = 0; c < 3; c++)
        for (int e = 0; e <= SPOT_TURNOVER_MAX; e++) {
            n += turnover->seen[c][e];
            n_some += e ? turnover->seen[c][e] : 0;
            total += e * turnover->seen[c][e];
        }
    return (struct whole){ (n_some + 0.05) / (n + 1), 1 - (n_some + 1) / (total + 2) };
}

/* dist[e], e = 0..most, sums to 1: the observations after net changes of this class, plus a prior
 * of intervals from the overall distribution, geometric in size, that contain PRIOR_EVENTS
 * turnovers. So a class without any turnover is not certain of none while other classes have seen
 * some. */
static void turnover_dist(const double *seen, const struct whole *whole, int most, double *dist)
{
    const double n_prior = PRIOR_EVENTS / whole->some;
    double size = whole->some * (1 - whole->keep), sum = 0;

    for (int e = 0; e <= most; e++) {
        dist[e] = seen[e] + n_prior * (e ? size : 1 - whole->some);
        size *= e ? whole->keep : 1;
        sum += dist[e];
    }
    for (int e = 0; e <= most; e++)
        dist[e] /= sum;
}

static int by_lost_gained(const void *a, const void *b)
{
    const struct spot_joint_cell *x = a, *y = b;

    return x->lost != y->lost ? (x->lost > y->lost) - (x->lost < y->lost)
                              : (x->gained > y->gained) - (x->gained < y->gained);
}

size_t spot_joint(const struct spot_turnover *turnover, const double *step, int now, int cap,
                  struct spot_joint_cell *cell)
{
    const struct whole whole = whole_of(turnover);
    double dist[SPOT_TURNOVER_MAX + 1], sum = 0;
    size_t n = 0;

    for (int k = 0; k <= cap; k++) {
        const int down = k < now ? now - k : 0, up = k > now ? k - now : 0;
        const int most = least(least(now, k), SPOT_TURNOVER_MAX);

        if (step[k] < PROB_MIN)
            continue;
        turnover_dist(turnover->seen[class_of(k - now)], &whole, most, dist);
        for (int e = 0; e <= most; e++)
            if (step[k] * dist[e] >= PROB_MIN) {
                cell[n++] = (struct spot_joint_cell){ down + e, up + e, step[k] * dist[e] };
                sum += step[k] * dist[e];
            }
    }
    for (size_t i = 0; i < n; i++)
        cell[i].prob /= sum;
    qsort(cell, n, sizeof(*cell), by_lost_gained);
    return n;
}
