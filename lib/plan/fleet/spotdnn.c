/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/fleet.h"

/* What depends on the number of workers alone. */
struct crowd {
    double root;       /* sqrt(n) */
    double contention; /* P */
    double iter_s[SPOT_DNN_TYPES_MAX];
};

static void crowd_init(struct crowd *c, const struct spot_dnn_job *job, int64_t n)
{
    const double share = job->b_ps / (double)n;
    double p, b_wk = job->b_req;

    c->root = sqrt((double)n);
    p = fmin(1, job->alpha * c->root + job->beta);
    if (job->is_paper)
        p = fmax(0, p); /* released: below 0 for few workers */
    c->contention = p;
    if (job->b_req > share)
        b_wk = p * share + (1 - p) * job->b_req;
    for (size_t k = 0; k < job->n_type; k++)
        c->iter_s[k] =
            job->type[k].comp_s + 2 * job->param / b_wk +
            (job->b_pcie > 0 ? 2 * (double)job->type[k].gpus * job->param / job->b_pcie : 0);
}

/* Distance of the workers' shares of the work from one worker that does all: eq. (5). */
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

/* rate: sum n/T; usd_per_h: sum n p. Returns whether the loss can be reached. */
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
    s->iterations =
        rint((job->gamma[1] * s->norm_batch + job->gamma[2]) * crowding / over - job->gamma[0]);
    s->time_s = rint(s->iterations * s->norm_batch / s->samples_per_s * 100) / 100;
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

int spot_dnn_window(const struct spot_dnn_job *job, double loss, double deadline_s, int64_t *count,
                    struct spot_dnn_speed *speed)
{
    size_t order[SPOT_DNN_TYPES_MAX], n = 0, *one;
    int64_t total = 0, try[SPOT_DNN_TYPES_MAX];
    struct spot_dnn_speed s;

    *speed = (struct spot_dnn_speed){ .usd = INFINITY };
    memset(count, 0, job->n_type * sizeof(*count));
    for (size_t k = 0; k < job->n_type; k++) { /* sorted by measured time, stable */
        size_t i = k;

        for (; i > 0 && job->type[order[i - 1]].iter_s > job->type[k].iter_s; i--)
            order[i] = order[i - 1];
        order[i] = k;
        total += job->type[k].quota;
    }
    one = spot_xcalloc((size_t)total + 1, sizeof(*one));
    for (size_t k = 0; k < job->n_type; k++)
        for (int64_t i = 0; i < job->type[order[k]].quota; i++)
            one[n++] = order[k];
    for (size_t size = 1; size < n; size++)
        for (size_t first = 0; first < n; first++) {
            memset(try, 0, sizeof(try));
            for (size_t i = 0; i < size; i++)
                try[one[(first + i) % n]]++;
            if (!spot_dnn_predict(job, try, loss, &s) && is_better(&s, deadline_s, speed->usd)) {
                *speed = s;
                memcpy(count, try, job->n_type * sizeof(*count));
            }
        }
    free(one);
    return isinf(speed->usd) ? -1 : 0;
}

struct search {
    const struct spot_dnn_job *job;
    double loss, deadline_s;
    struct crowd crowd;
    int64_t room[SPOT_DNN_TYPES_MAX + 1]; /* quotas of this type and those behind */
    double rate[SPOT_DNN_TYPES_MAX];      /* of the fastest instance among them */
    double usd_per_h[SPOT_DNN_TYPES_MAX]; /* of the cheapest */
    double iterations;                    /* no plan of this many workers needs fewer */
    int64_t count[SPOT_DNN_TYPES_MAX], *best_count;
    struct spot_dnn_speed *best;
};

/* Bounds of all plans of n workers. A larger batch needs fewer iterations, and none is larger than
 * the largest of an instance. */
static void bound(struct search *s, int64_t n)
{
    const struct spot_dnn_job *job = s->job;
    double batch = 0, rate = 0, usd_per_h = INFINITY, each;

    crowd_init(&s->crowd, job, n);
    for (size_t k = job->n_type; k-- > 0;) {
        batch = fmax(batch, job->type[k].batch);
        s->rate[k] = rate = fmax(rate, 1 / s->crowd.iter_s[k]);
        s->usd_per_h[k] = usd_per_h = fmin(usd_per_h, job->type[k].usd_per_h);
    }
    each = (fmin(job->gamma[1], 0) * (batch + 0.1) + job->gamma[2]) / (s->loss - job->gamma[4]);
    each *= s->crowd.root * (job->is_paper ? sqrt(fmax(0, job->gamma[3])) : 1);
    s->iterations = fmax(0, each - job->gamma[0] - 1);
}

/* Is every plan that goes on so late, or no cheaper than the best so far? */
static bool is_hopeless(const struct search *s, size_t k, int64_t left, double rate,
                        double usd_per_h)
{
    const double time_s = s->iterations / (rate + (double)left * s->rate[k]) * (1 - 1e-4) - 0.01;

    return time_s > s->deadline_s ||
           time_s / 3600 * (usd_per_h + (double)left * s->usd_per_h[k]) - 1e-6 >= s->best->usd;
}

/* Counts of type k on, `left` of them; the sums are of the types before. */
static void descend(struct search *s, size_t k, int64_t left, double rate, double samples_per_s,
                    double usd_per_h)
{
    const struct spot_dnn_type *t = &s->job->type[k];
    const int64_t least = left > s->room[k + 1] ? left - s->room[k + 1] : 0;
    const int64_t most = left < t->quota ? left : t->quota;

    for (int64_t n = least; n <= most; n++) {
        const double r = rate + (double)n / s->crowd.iter_s[k];
        const double v = samples_per_s + (double)n * t->batch / s->crowd.iter_s[k];
        const double usd = usd_per_h + (double)n * t->usd_per_h;
        struct spot_dnn_speed speed = { .samples_per_s = v };

        s->count[k] = n;
        if (k + 1 < s->job->n_type) {
            if (is_hopeless(s, k + 1, left - n, r, usd))
                continue;
            descend(s, k + 1, left - n, r, v, usd);
        } else if (finish(s->job, &s->crowd, s->count, r, usd, s->loss, &speed) &&
                   is_better(&speed, s->deadline_s, s->best->usd)) {
            *s->best = speed;
            memcpy(s->best_count, s->count, s->job->n_type * sizeof(*s->count));
        }
    }
}

int spot_dnn_best(const struct spot_dnn_job *job, double loss, double deadline_s, int64_t *count,
                  struct spot_dnn_speed *speed)
{
    struct search s = {
        .job = job, .loss = loss, .deadline_s = deadline_s, .best_count = count, .best = speed
    };

    *speed = (struct spot_dnn_speed){ .usd = INFINITY };
    memset(count, 0, job->n_type * sizeof(*count));
    for (size_t k = job->n_type; k-- > 0;)
        s.room[k] = s.room[k + 1] + job->type[k].quota;
    for (int64_t n = 1; n <= s.room[0]; n++) {
        bound(&s, n);
        descend(&s, 0, n, 0, 0, 0);
    }
    return isinf(speed->usd) ? -1 : 0;
}
