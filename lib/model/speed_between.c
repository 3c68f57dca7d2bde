/* SPDX-License-Identifier: MIT */
#include "model/speed_between.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "model/throughput.h"

static int by_grid(const void *a, const void *b)
{
    const struct spot_speed_point *x = a, *y = b;

    if (x->p != y->p)
        return x->p > y->p ? 1 : -1;
    return x->d != y->d ? (x->d > y->d ? 1 : -1) : (x->entry > y->entry) - (x->entry < y->entry);
}

/* Of two entries for one grid the last one counts, as in the table. */
static void keep_last(struct spot_speed_between *b)
{
    size_t n = 0;

    for (size_t i = 0; i < b->n_point; i++) {
        if (n && b->point[n - 1].d == b->point[i].d && b->point[n - 1].p == b->point[i].p)
            n--;
        b->point[n++] = b->point[i];
    }
    b->n_point = n;
}

static void find_most(struct spot_speed_between *b)
{
    for (size_t i = 0; i < b->n_point; i++) {
        const int n = b->point[i].d * b->point[i].p;
        const double x = b->global_batch / b->point[i].step_s;

        b->most_per_s = fmax(b->most_per_s, x / n);
        if (x < b->best_per_s || (x == b->best_per_s && n >= b->best_n))
            continue;
        b->best_per_s = x;
        b->best_n = n;
    }
}

void spot_speed_between_init(struct spot_speed_between *b, const struct spot_job_doc *job)
{
    memset(b, 0, sizeof(*b));
    b->global_batch = (double)job->global_batch;
    b->microbatches = (double)job->global_batch / (double)job->micro_batch;
    b->point = spot_xcalloc(job->n_profile, sizeof(*b->point));
    for (size_t i = 0; i < job->n_profile; i++) {
        const struct spot_job_profile *p = &job->profile[i];

        if (spot_job_is_planned(job, p) && !p->is_outlier)
            b->point[b->n_point++] =
                (struct spot_speed_point){ (int)p->grid.D, (int)p->grid.P, i,
                                           b->global_batch / spot_job_samples_per_s(job, p) };
    }
    qsort(b->point, b->n_point, sizeof(*b->point), by_grid);
    keep_last(b);
    find_most(b);
}

void spot_speed_between_release(struct spot_speed_between *b)
{
    free(b->point);
    memset(b, 0, sizeof(*b));
}

/* Microbatches of the replica that has the most of them. */
static double most_of(const struct spot_speed_between *b, int d)
{
    return ceil(b->microbatches / d);
}

/* The speed at a D between those of lo and hi, with the same P; at most proportional to lo. */
static double inside(const struct spot_speed_between *b, const struct spot_speed_point *lo,
                     const struct spot_speed_point *hi, int d)
{
    const double from = most_of(b, lo->d), to = most_of(b, hi->d);
    const double at =
        from > to ? (from - most_of(b, d)) / (from - to) : (double)(d - lo->d) / (hi->d - lo->d);

    return fmax(lo->step_s + at * (hi->step_s - lo->step_s), lo->step_s * lo->d / d);
}

/* The speed at a D above the last of point[n]: along the line to the nearest point with a different
 * number of microbatches. */
static double above(const struct spot_speed_between *b, const struct spot_speed_point *point,
                    size_t n, int d)
{
    const struct spot_speed_point *last = &point[n - 1];
    const double from = most_of(b, last->d), at = most_of(b, d);
    double per_microbatch_s = last->step_s / from;

    for (size_t i = n - 1; i-- > 0;)
        if (most_of(b, point[i].d) > from) {
            per_microbatch_s = (point[i].step_s - last->step_s) / (most_of(b, point[i].d) - from);
            break;
        }
    return fmax(last->step_s - (from - at) * per_microbatch_s, last->step_s * last->d / d);
}

/* The speed from the points of one P, point[n]. */
static double at_stages(const struct spot_speed_between *b, const struct spot_speed_point *point,
                        size_t n, int d, enum spot_speed_from *from)
{
    size_t i = 0;

    while (i < n && point[i].d < d)
        i++;
    *from = i == n || (!i && point[i].d != d) ? SPOT_SPEED_EXTRAPOLATED
            : point[i].d == d                 ? SPOT_SPEED_PROFILE
                                              : SPOT_SPEED_INTERPOLATED;
    if (*from == SPOT_SPEED_PROFILE)
        return point[i].step_s;
    if (i == n)
        return above(b, point, n, d);
    if (!i) /* proportional, reduced for the uneven split of G / D */
        return point->step_s * fmax(most_of(b, d) / most_of(b, point->d), (double)point->d / d);
    return inside(b, &point[i - 1], &point[i], d);
}

double spot_speed_between_s(const struct spot_speed_between *b, int d, int p,
                            enum spot_speed_from *from)
{
    size_t low = 0, end, next;
    double below_s, above_s;
    int below, over;

    *from = SPOT_SPEED_UNKNOWN;
    if (!b->n_point || p < b->point[0].p || p > b->point[b->n_point - 1].p)
        return 0;
    for (end = 0; end < b->n_point && b->point[end].p <= p; end++)
        low = b->point[end].p != b->point[low].p ? end : low;
    below = b->point[low].p;
    below_s = at_stages(b, b->point + low, end - low, d, from);
    if (below == p)
        return below_s;
    over = b->point[end].p;
    for (next = end; next < b->n_point && b->point[next].p == over;)
        next++;
    above_s = at_stages(b, b->point + end, next - end, d, from);
    *from = SPOT_SPEED_EXTRAPOLATED;
    return below_s + (above_s - below_s) * (p - below) / (over - below);
}

double spot_speed_most(const struct spot_speed_between *b, int n)
{
    if (!b->n_point)
        return INFINITY;
    return n > b->best_n ? b->best_per_s * n / b->best_n : b->most_per_s * n;
}
