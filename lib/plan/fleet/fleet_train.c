/* SPDX-License-Identifier: MIT */
#include "plan/fleet_train.h"

#include <assert.h>
#include <math.h>
#include <string.h>

double spot_fleet_up_share(double loss_per_h, double restart_s)
{
    return 1 / (1 + loss_per_h * restart_s / 3600);
}

/* Evaluate n instances with the sums of their prices and losses; starts: some of them are not held
 * yet. */
static void finish(const struct spot_sync_job *job, int64_t n, double usd_per_h, double loss_per_h,
                   bool starts, struct spot_sync_speed *s)
{
    s->usd_per_h = usd_per_h;
    s->samples_per_s = job->samples_per_s[n] * spot_fleet_up_share(loss_per_h, job->restart_s);
    s->time_s = job->samples / s->samples_per_s + (starts ? job->restart_s : 0);
    s->usd = s->time_s / 3600 * usd_per_h;
}

int spot_sync_predict(const struct spot_sync_job *job, const int64_t *count,
                      struct spot_sync_speed *speed)
{
    double usd_per_h = 0, loss_per_h = 0;
    bool starts = false;
    int64_t n = 0;

    *speed = (struct spot_sync_speed){ .usd = INFINITY };
    for (size_t k = 0; k < job->n_offer; k++) {
        n += count[k];
        usd_per_h += (double)count[k] * job->offer[k].usd_per_h;
        loss_per_h += (double)count[k] * job->offer[k].loss_per_h;
        starts = starts || count[k] > job->offer[k].held;
    }
    n = n < job->n_max ? n : job->n_max;
    if (!(job->samples_per_s[n] > 0))
        return -1;
    finish(job, n, usd_per_h, loss_per_h, starts, speed);
    return 0;
}

struct search {
    const struct spot_sync_job *job;
    double deadline_s;
    /* quotas of this offer and all later ones together */
    int64_t n, room[SPOT_SYNC_OFFERS_MAX + 1];
    double usd_per_h[SPOT_SYNC_OFFERS_MAX + 1]; /* lowest price of this offer and later ones */
    int64_t count[SPOT_SYNC_OFFERS_MAX], *best_count;
    struct spot_sync_speed *best;
};

static void descend(struct search *s, size_t k, int64_t left, double usd_per_h, double loss_per_h)
{
    struct spot_sync_speed speed;

    finish(s->job, s->n, usd_per_h + (double)left * s->usd_per_h[k], loss_per_h, false, &speed);
    if (speed.time_s > s->deadline_s || speed.usd >= s->best->usd)
        return; /* and its extensions are no better */
    if (k == s->job->n_offer) {
        if (!spot_sync_predict(s->job, s->count, &speed) && speed.time_s <= s->deadline_s &&
            speed.usd < s->best->usd) {
            *s->best = speed;
            memcpy(s->best_count, s->count, s->job->n_offer * sizeof(*s->count));
        }
        return;
    }
    for (int64_t n = left < s->job->offer[k].quota ? left : s->job->offer[k].quota;
         n >= 0 && left - n <= s->room[k + 1]; n--) {
        s->count[k] = n;
        descend(s, k + 1, left - n, usd_per_h + (double)n * s->job->offer[k].usd_per_h,
                loss_per_h + (double)n * s->job->offer[k].loss_per_h);
    }
}

int spot_sync_best(const struct spot_sync_job *job, double deadline_s, int64_t *count,
                   struct spot_sync_speed *speed)
{
    struct search s = { .job = job, .deadline_s = deadline_s, .best_count = count, .best = speed };

    assert(job->n_offer <= SPOT_SYNC_OFFERS_MAX);
    *speed = (struct spot_sync_speed){ .usd = INFINITY };
    memset(count, 0, job->n_offer * sizeof(*count));
    for (size_t k = job->n_offer; k-- > 0;) {
        s.room[k] = s.room[k + 1] + job->offer[k].quota;
        s.usd_per_h[k] = k + 1 < job->n_offer ? fmin(s.usd_per_h[k + 1], job->offer[k].usd_per_h)
                                              : job->offer[k].usd_per_h;
    }
    for (s.n = 1; s.n <= job->n_max && s.n <= s.room[0]; s.n++)
        if (job->samples_per_s[s.n] > 0)
            descend(&s, 0, s.n, 0, 0);
    return isinf(speed->usd) ? -1 : 0;
}

/* The least x in (0, most] for which `does` holds, within 0.1 %; `does` must hold for all larger x.
 */
static double least(bool (*does)(const void *user, double x), const void *user, double most)
{
    double low = 0, high = most;

    if (!does(user, most))
        return INFINITY;
    while (high - low > 1e-3 * high) {
        const double x = low > 0 ? (low + high) / 2 : high / 8;

        if (does(user, x))
            high = x;
        else
            low = x;
        if (high < 1e-9)
            break;
    }
    return high;
}

static bool sync_ends(const void *user, double deadline_s)
{
    int64_t count[SPOT_SYNC_OFFERS_MAX];
    struct spot_sync_speed s;

    return !spot_sync_best(user, deadline_s, count, &s);
}

double spot_sync_earliest(const struct spot_sync_job *job, double most_s)
{
    return least(sync_ends, job, most_s);
}

static bool dnn_ends(const struct spot_dnn_job *job, double loss, double deadline_s)
{
    int64_t count[SPOT_DNN_TYPES_MAX];
    struct spot_dnn_speed s;

    return !spot_dnn_fastest(job, loss, count, &s) && s.time_s <= deadline_s;
}

double spot_dnn_lowest(const struct spot_dnn_job *job, double loss, double deadline_s)
{
    enum { STEPS = 100 };
    double low = 0, over = loss - job->gamma[4];

    assert(over > 0);
    for (int i = 0; i < STEPS; i++, low = over, over *= 1.1) {
        if (!dnn_ends(job, job->gamma[4] + over, deadline_s))
            continue;
        while (low > 0 && over - low > 1e-3 * over) {
            const double half = (low + over) / 2;

            if (dnn_ends(job, job->gamma[4] + half, deadline_s))
                over = half;
            else
                low = half;
        }
        return job->gamma[4] + over;
    }
    return INFINITY;
}
