/* SPDX-License-Identifier: MIT */
/* Asynchronous training by the equations of spotDNN, and an exhaustive search for the best plan. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/fleet.h"

/* Values that depend only on the number of workers. */
struct crowd {
    double root;       /* sqrt(n) */
    double contention; /* the paper's P */
    double iter_s[SPOT_DNN_TYPES_MAX];
};

static void crowd_init(struct crowd *c, const struct spot_dnn_job *job, int64_t n)
{
    const double share = job->b_ps / (double)n;
    double p, b_wk = job->b_req;

    c->root = sqrt((double)n);
    p = fmin(1, job->alpha * c->root + job->beta);
    if (job->is_paper)
        p = fmax(0, p); /* the released code: negative for few workers */
    c->contention = p;
    if (job->b_req > share)
        b_wk = p * share + (1 - p) * job->b_req;
    for (size_t k = 0; k < job->n_type; k++)
        c->iter_s[k] =
            job->type[k].comp_s + 2 * job->param / b_wk +
            (job->b_pcie > 0 ? 2 * (double)job->type[k].gpus * job->param / job->b_pcie : 0);
    for (size_t k = 0; k < job->n_type; k++) /* averaged over its losses */
        c->iter_s[k] /= job->type[k].up_share > 0 ? job->type[k].up_share : 1;
}

/* Iterations missed while new workers start and the others continue. */
static double missed(const struct spot_dnn_job *job, const struct crowd *c, const int64_t *count)
{
    double sum = 0;

    for (size_t k = 0; k < job->n_type && job->restart_s > 0; k++)
        if (count[k] > job->type[k].held)
            sum += (double)(count[k] - job->type[k].held) / c->iter_s[k];
    return sum * job->restart_s;
}

double spot_dnn_iterations(const struct spot_dnn_job *job, double x, double loss)
{
    const double from = job->loss_now > 0 ? x / (job->loss_now - job->gamma[4]) : job->gamma[0];

    return x / (loss - job->gamma[4]) - from;
}

/* Distance of the workers' shares of the work from a single worker that does everything: eq. (5).
 */
static double spread(const struct spot_dnn_job *job, const struct crowd *c, const int64_t *count,
                     double samples_per_s)
{
    double sum = 0, most = 0;

    for (size_t k = 0; k < job->n_type; k++) {
        const double w = job->type[k].batch / c->iter_s[k] / samples_per_s;

        sum += (double)count[k] * w * w;
        most = count[k] && w > most ? w : most;
    }
    return sqrt(fmax(0, sum - most * most + (most - 1) * (most - 1)));
}

/* rate: sum of n/T; usd_per_h: sum of n p. Returns whether the target loss can be reached. */
static inline bool finish(const struct spot_dnn_job *job, const struct crowd *c,
                          const int64_t *count, double rate, double usd_per_h, double loss,
                          struct spot_dnn_speed *s)
{
    const double over = loss - job->gamma[4];
    double crowding = c->root;

    s->contention = c->contention;
    s->norm_batch = rint(s->samples_per_s / rate * 10) / 10;
    if (job->is_paper)
        crowding = sqrt((spread(job, c, count, s->samples_per_s) + job->gamma[3])) * c->root;
    s->iterations = rint(
        spot_dnn_iterations(job, (job->gamma[1] * s->norm_batch + job->gamma[2]) * crowding, loss));
    s->time_s = s->iterations * s->norm_batch / s->samples_per_s;
    if (job->restart_s > 0)
        s->time_s += missed(job, c, count) / rate;
    s->time_s = rint(s->time_s * 100) / 100;
    s->usd = rint(s->time_s / 3600 * usd_per_h * 1e6) / 1e6;
    return over > 0 && s->iterations > 0;
}

int spot_dnn_predict(const struct spot_dnn_job *job, const int64_t *count, double loss,
                     struct spot_dnn_speed *speed)
{
    double rate = 0, usd_per_h = 0;
    struct crowd c;
    int64_t n = 0;

    memset(speed, 0, sizeof(*speed));
    for (size_t k = 0; k < job->n_type; k++)
        n += count[k];
    if (!n)
        return -1;
    crowd_init(&c, job, n);
    for (size_t k = 0; k < job->n_type; k++) {
        rate += (double)count[k] / c.iter_s[k];
        speed->samples_per_s += (double)count[k] * job->type[k].batch / c.iter_s[k];
        usd_per_h += (double)count[k] * job->type[k].usd_per_h;
    }
    return finish(job, &c, count, rate, usd_per_h, loss, speed) ? 0 : -1;
}

static bool is_better(const struct spot_dnn_speed *s, double deadline_s, double usd)
{
    return s->time_s <= deadline_s && s->usd < usd;
}

struct search {
    const struct spot_dnn_job *job;
    double loss, deadline_s;
    bool is_for_time; /* minimise the time, not the cost */
    struct crowd crowd;
    size_t order[SPOT_DNN_TYPES_MAX];     /* types, largest batch first: see is_hopeless() */
    int64_t room[SPOT_DNN_TYPES_MAX + 1]; /* quotas of this type and all later ones together */
    double batch[SPOT_DNN_TYPES_MAX];     /* largest batch of this type and later ones */
    /* rate of the fastest instance of this type and later ones */
    double rate[SPOT_DNN_TYPES_MAX];
    double usd_per_h[SPOT_DNN_TYPES_MAX]; /* price of the cheapest of this type and later ones */
    /* bound for n workers: the better of all equal and one doing everything */
    double crowding;
    int64_t count[SPOT_DNN_TYPES_MAX], *best_count;
    struct spot_dnn_speed *best;
};

static void sort_by_batch(struct search *s)
{
    for (size_t k = 0; k < s->job->n_type; k++) {
        size_t i = k;

        for (; i > 0 && s->job->type[s->order[i - 1]].batch < s->job->type[k].batch; i--)
            s->order[i] = s->order[i - 1];
        s->order[i] = k;
    }
    for (size_t k = s->job->n_type; k-- > 0;)
        s->room[k] = s->room[k + 1] + s->job->type[s->order[k]].quota;
}

/* Set bounds that hold for all plans of n workers. */
static void bound(struct search *s, int64_t n)
{
    const struct spot_dnn_job *job = s->job;
    double batch = 0, rate = 0, usd_per_h = INFINITY;

    crowd_init(&s->crowd, job, n);
    for (size_t k = job->n_type; k-- > 0;) {
        const size_t t = s->order[k];

        s->batch[k] = batch = fmax(batch, job->type[t].batch);
        s->rate[k] = rate = fmax(rate, 1 / s->crowd.iter_s[t]);
        s->usd_per_h[k] = usd_per_h = fmin(usd_per_h, job->type[t].usd_per_h);
    }
    s->crowding = s->crowd.root * (job->is_paper ? sqrt(fmax(0, job->gamma[3])) : 1);
}

/* True if every completion of the plan is too late, or no better than the best so far. Larger
 * batches need fewer iterations, and no mean batch exceeds that with all remaining workers of the
 * largest remaining batch and the highest rate. */
static bool is_hopeless(const struct search *s, size_t k, int64_t left, double rate,
                        double samples_per_s, double usd_per_h)
{
    const struct spot_dnn_job *job = s->job;
    const double most = rate + (double)left * s->rate[k];
    const double behind = (samples_per_s + (double)left * s->rate[k] * s->batch[k]) / most;
    const double batch = rate > 0 ? fmax(samples_per_s / rate, behind) : s->batch[k];
    const double x = (fmin(job->gamma[1], 0) * (batch + 0.1) + job->gamma[2]) * s->crowding;
    const double need = fmax(0, spot_dnn_iterations(job, x, s->loss) - 1);
    const double time_s = need / most * (1 - 1e-4) - 0.01;

    if (s->is_for_time)
        return time_s >= s->best->time_s;
    return time_s > s->deadline_s ||
           time_s / 3600 * (usd_per_h + (double)left * s->usd_per_h[k]) - 1e-6 >= s->best->usd;
}

static void keep_better(struct search *s, const struct spot_dnn_speed *speed)
{
    if (s->is_for_time ? speed->time_s >= s->best->time_s
                       : !is_better(speed, s->deadline_s, s->best->usd))
        return;
    *s->best = *speed;
    memcpy(s->best_count, s->count, s->job->n_type * sizeof(*s->count));
}

/* Enumerate the counts of types k and later, `left` workers in total; the sums cover the types
 * before k. */
static void descend(struct search *s, size_t k, int64_t left, double rate, double samples_per_s,
                    double usd_per_h)
{
    const struct spot_dnn_type *t = &s->job->type[s->order[k]];
    const int64_t least = left > s->room[k + 1] ? left - s->room[k + 1] : 0;
    const int64_t most = left < t->quota ? left : t->quota;

    for (int64_t n = least; n <= most; n++) {
        const double each = (double)n / s->crowd.iter_s[s->order[k]];
        const double r = rate + each, v = samples_per_s + each * t->batch;
        const double usd = usd_per_h + (double)n * t->usd_per_h;
        struct spot_dnn_speed speed = { .samples_per_s = v };

        s->count[s->order[k]] = n;
        if (k + 1 < s->job->n_type) {
            if (!is_hopeless(s, k + 1, left - n, r, v, usd))
                descend(s, k + 1, left - n, r, v, usd);
        } else if (finish(s->job, &s->crowd, s->count, r, usd, s->loss, &speed)) {
            keep_better(s, &speed);
        }
    }
}

static int search_all(struct search *s)
{
    *s->best = (struct spot_dnn_speed){ .usd = INFINITY, .time_s = INFINITY };
    memset(s->best_count, 0, s->job->n_type * sizeof(*s->best_count));
    if (!(s->loss > s->job->gamma[4]))
        return -1;
    sort_by_batch(s);
    for (int64_t n = 1; n <= s->room[0]; n++) {
        bound(s, n);
        descend(s, 0, n, 0, 0, 0);
    }
    return isinf(s->best->usd) ? -1 : 0;
}

int spot_dnn_best(const struct spot_dnn_job *job, double loss, double deadline_s, int64_t *count,
                  struct spot_dnn_speed *speed)
{
    struct search s = {
        .job = job, .loss = loss, .deadline_s = deadline_s, .best_count = count, .best = speed
    };

    return search_all(&s);
}

int spot_dnn_fastest(const struct spot_dnn_job *job, double loss, int64_t *count,
                     struct spot_dnn_speed *speed)
{
    struct search s = {
        .job = job, .loss = loss, .is_for_time = true, .best_count = count, .best = speed
    };

    return search_all(&s);
}
