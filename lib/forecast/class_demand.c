/* SPDX-License-Identifier: MIT */
#include "forecast/class_demand.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/xalloc.h"

/* Hours of the day at this distance have no weight; rises of all hours have SOME; weights fall to
 * 1/e in this many days; and the newest are looked at. */
enum { NEAR_H = 3, MEMORY_DAYS = 14, PAST_H = 1344 };
#define SOME 0.02

struct change {
    double time_s, workers;
};

struct spot_class_demand {
    const struct spot_share_jobs *jobs;
    const struct spot_share_cluster *cluster;
    double *part;   /* [jobs->n][cluster->n] workers wanted of each type */
    double first_s; /* start of the first hour; INFINITY: not known yet */
    size_t n_hour, cap, cap_last;
    double *most; /* [n_hour][cluster->n] the largest demand in the hour */
    double *last; /* [n_hour][cluster->n] the demand at its end */
    /* [cluster->n][SPOT_SHARE_HOURS][SPOT_SHARE_LEVELS] quantiles of the rise */
    double *rise;
    struct spot_share_demand law;
};

static void divide(const struct spot_share_job *job, const struct spot_share_cluster *cluster,
                   const double *rate, double *part)
{
    double best = 0, count = 0;

    for (size_t j = 0; j < cluster->n; j++)
        best = fmax(best, rate[j]);
    for (size_t j = 0; j < cluster->n; j++)
        count += rate[j] >= best ? (double)cluster->type[j].count : 0;
    for (size_t j = 0; j < cluster->n; j++)
        part[j] = rate[j] >= best ? (double)job->scale * (double)cluster->type[j].count / count : 0;
}

struct spot_class_demand *spot_class_demand_new(const struct spot_share_jobs *jobs,
                                                const struct spot_share_cluster *cluster,
                                                const double *rate)
{
    struct spot_class_demand *d = spot_xcalloc(1, sizeof(*d));
    const size_t m = cluster->n;

    d->jobs = jobs;
    d->cluster = cluster;
    d->part = spot_xcalloc(jobs->n * m, sizeof(double));
    d->first_s = INFINITY;
    for (size_t i = 0; i < jobs->n; i++)
        divide(&jobs->job[i], cluster, rate + i * m, d->part + i * m);
    d->law.n_type = m;
    d->law.most = spot_xcalloc(m * SPOT_SHARE_HOURS * SPOT_SHARE_LEVELS, sizeof(int64_t));
    d->rise = spot_xcalloc(m * SPOT_SHARE_HOURS * SPOT_SHARE_LEVELS, sizeof(double));
    return d;
}

void spot_class_demand_free(struct spot_class_demand *demand)
{
    if (!demand)
        return;
    free(demand->part);
    free(demand->most);
    free(demand->last);
    free(demand->rise);
    free(demand->law.most);
    free(demand);
}

/* --- past hours --- */

static int by_time(const void *a, const void *b)
{
    const struct change *x = a, *y = b;

    if (x->time_s < y->time_s || x->time_s > y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    return (x->workers > y->workers) - (x->workers < y->workers);
}

/* The largest demand for a type in [from_s, from_s + 1 h), and the last one. At equal times ends
 * count first. */
static double most_in_hour(const struct spot_class_demand *d, const double *ended_s, size_t type,
                           double from_s, struct change *change, double *last)
{
    double now = 0, most;
    size_t n = 0;

    for (size_t i = 0; i < d->jobs->n && d->jobs->job[i].arrival_s < from_s + 3600; i++) {
        const struct spot_share_job *job = &d->jobs->job[i];
        const double part = d->part[i * d->cluster->n + type];

        if (job->priority != SPOT_SHARE_HIGH || ended_s[i] <= from_s || !(part > 0))
            continue;
        if (job->arrival_s <= from_s)
            now += part;
        else
            change[n++] = (struct change){ job->arrival_s, part };
        if (ended_s[i] < from_s + 3600)
            change[n++] = (struct change){ ended_s[i], -part };
    }
    if (n)
        qsort(change, n, sizeof(*change), by_time);
    most = now;
    for (size_t k = 0; k < n; k++) {
        now += change[k].workers;
        most = fmax(most, now);
    }
    *last = now;
    return most;
}

static void add_hour(struct spot_class_demand *d, const double *ended_s, struct change *change)
{
    const double from_s = d->first_s + 3600 * (double)d->n_hour;
    const size_t m = d->cluster->n;

    d->most = spot_xgrow(d->most, &d->cap, (d->n_hour + 1) * m, sizeof(*d->most));
    d->last = spot_xgrow(d->last, &d->cap_last, (d->n_hour + 1) * m, sizeof(*d->last));
    for (size_t j = 0; j < m; j++)
        d->most[d->n_hour * m + j] =
            most_in_hour(d, ended_s, j, from_s, change, &d->last[d->n_hour * m + j]);
    d->n_hour++;
}

/* --- the forecast --- */

struct rise {
    double most, weight;
};

static int by_rise(const void *a, const void *b)
{
    const struct rise *x = a, *y = b;

    return (x->most > y->most) - (x->most < y->most);
}

/* Of the hour that ended `ago` hours before the newest. */
static double weight_of(size_t ago)
{
    const int phase = (int)(ago % 24), off = phase < 24 - phase ? phase : 24 - phase;
    const double near = off < NEAR_H ? 1 - (double)off / NEAR_H : 0;

    return (near + SOME) * exp(-(double)ago / 24 / MEMORY_DAYS);
}

static void set_levels(struct rise *rise, size_t n, double *most)
{
    double sum = 0, at = 0;
    size_t k = 0;

    qsort(rise, n, sizeof(*rise), by_rise);
    for (size_t i = 0; i < n; i++)
        sum += rise[i].weight;
    for (int level = 0; level < SPOT_SHARE_LEVELS; level++) {
        const double want = sum * (level + 0.5) / SPOT_SHARE_LEVELS;

        while (k + 1 < n && at + rise[k].weight < want)
            at += rise[k++].weight;
        most[level] = rise[k].most;
    }
}

static void learn_rises(struct spot_class_demand *d, size_t type, struct rise *rise)
{
    const size_t m = d->cluster->n, n = d->n_hour, first = n > PAST_H ? n - PAST_H : 0;

    for (int h = 1; h <= SPOT_SHARE_HOURS; h++) {
        size_t n_rise = 0;

        for (size_t s = first; s + (size_t)h < n; s++) {
            double most = -INFINITY;

            for (size_t k = s + 1; k <= s + (size_t)h; k++)
                most = fmax(most, d->most[k * m + type]);
            rise[n_rise++] = (struct rise){ most - d->last[s * m + type], weight_of(n - 1 - s) };
        }
        if (!n_rise) /* as it is */
            rise[n_rise++] = (struct rise){ 0, 1 };
        set_levels(rise, n_rise,
                   d->rise + (type * SPOT_SHARE_HOURS + (size_t)h - 1) * SPOT_SHARE_LEVELS);
    }
}

/* The law of a type: the demand now, and the rises. */
static void add_rises(struct spot_class_demand *d, const double *ended_s, size_t type, double now_s)
{
    const size_t first = type * SPOT_SHARE_HOURS * SPOT_SHARE_LEVELS;
    double now = 0;

    for (size_t i = 0; i < d->jobs->n && d->jobs->job[i].arrival_s <= now_s; i++)
        if (d->jobs->job[i].priority == SPOT_SHARE_HIGH && ended_s[i] > now_s)
            now += d->part[i * d->cluster->n + type];
    for (size_t k = 0; k < (size_t)SPOT_SHARE_HOURS * SPOT_SHARE_LEVELS; k++)
        d->law.most[first + k] = (int64_t)ceil(fmax(0, now + d->rise[first + k]) - 1e-9);
}

static void find_first(struct spot_class_demand *d, double now_s)
{
    for (size_t i = 0; i < d->jobs->n && d->jobs->job[i].arrival_s <= now_s; i++)
        if (d->jobs->job[i].priority == SPOT_SHARE_HIGH) {
            d->first_s = floor(d->jobs->job[i].arrival_s / 3600) * 3600;
            return;
        }
}

const struct spot_share_demand *spot_class_demand_at(struct spot_class_demand *demand,
                                                     const double *ended_s, double now_s)
{
    struct spot_class_demand *d = demand;
    const size_t was = d->n_hour;
    struct change *change;
    struct rise *rise;

    if (isinf(d->first_s))
        find_first(d, now_s);
    if (d->first_s + 3600 * (double)(d->n_hour + 1) <= now_s) {
        change = spot_xcalloc(2 * d->jobs->n, sizeof(*change));
        while (d->first_s + 3600 * (double)(d->n_hour + 1) <= now_s)
            add_hour(d, ended_s, change);
        free(change);
    }
    if (d->n_hour > was) {
        rise = spot_xcalloc(d->n_hour, sizeof(*rise));
        for (size_t j = 0; j < d->cluster->n; j++)
            learn_rises(d, j, rise);
        free(rise);
    }
    for (size_t j = 0; d->n_hour && j < d->cluster->n; j++)
        add_rises(d, ended_s, j, now_s);
    d->law.from_s = now_s;
    return d->n_hour ? &d->law : NULL;
}
