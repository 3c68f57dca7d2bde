/* SPDX-License-Identifier: MIT */
/* The searches of spotDNN (Shang et al., IWQoS 2023), with the equations of plan/fleet.h.
 *
 * Source: github.com/icloud-ecnu/spotDNN, and the paper where it differs. Kept: the released search
 * sorts by measured times and only examines windows of consecutive instances, which wrap around;
 * Algorithm 1 of the paper examines windows that do not, slowest first, between its bounds.
 * Corrected: nothing; spot_dnn_best examines all plans. */
#include "peers/spotdnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

static bool is_better(const struct spot_dnn_speed *s, double deadline_s, double usd)
{
    return s->time_s <= deadline_s && s->usd < usd;
}

/* The type of each instance of the quotas, stably sorted by measured time; [*n], freed by the
 * caller. */
static size_t *line_up(const struct spot_dnn_job *job, bool slowest_first, size_t *n)
{
    size_t order[SPOT_DNN_TYPES_MAX], *one;
    int64_t total = 0;

    for (size_t k = 0; k < job->n_type; k++) {
        const double sign = slowest_first ? -1 : 1;
        size_t i = k;

        for (; i > 0 && sign * job->type[order[i - 1]].iter_s > sign * job->type[k].iter_s; i--)
            order[i] = order[i - 1];
        order[i] = k;
        total += job->type[k].quota;
    }
    one = spot_xcalloc((size_t)total + 1, sizeof(*one));
    *n = 0;
    for (size_t k = 0; k < job->n_type; k++)
        for (int64_t i = 0; i < job->type[order[k]].quota; i++)
            one[(*n)++] = order[k];
    return one;
}

int spot_dnn_window(const struct spot_dnn_job *job, double loss, double deadline_s, int64_t *count,
                    struct spot_dnn_speed *speed)
{
    size_t n, *const one = line_up(job, false, &n);
    int64_t try[SPOT_DNN_TYPES_MAX];
    struct spot_dnn_speed s;

    *speed = (struct spot_dnn_speed){ .usd = INFINITY };
    memset(count, 0, job->n_type * sizeof(*count));
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

/* The paper's bounds of the number of workers: below n_upper the parameter server is not saturated;
 * n_lower is that for the fastest type and the smallest batch. */
static void worker_bounds(const struct spot_dnn_job *job, double loss, double deadline_s,
                          int64_t total, int64_t *lower, int64_t *upper)
{
    double batch = INFINITY, rate = 0, need;

    for (size_t k = 0; k < job->n_type; k++) {
        batch = fmin(batch, job->type[k].batch);
        rate = fmax(rate, job->type[k].batch / job->type[k].iter_s);
    }
    need = spot_dnn_iterations(job, (job->gamma[1] * batch + job->gamma[2]) * sqrt(job->gamma[3]),
                               loss);
    *lower = (int64_t)fmin((double)total + 1, fmax(1, ceil(batch * need / (rate * deadline_s))));
    *upper = total;
    if (job->alpha > 0)
        *upper = (int64_t)fmin((double)total, floor(pow((1 - job->beta) / job->alpha, 2)));
}

int spot_dnn_algorithm1(const struct spot_dnn_job *job, double loss, double deadline_s,
                        int64_t *count, struct spot_dnn_speed *speed)
{
    size_t n, *const one = line_up(job, true, &n);
    int64_t lower, upper, try[SPOT_DNN_TYPES_MAX];
    struct spot_dnn_speed s;

    *speed = (struct spot_dnn_speed){ .usd = INFINITY };
    memset(count, 0, job->n_type * sizeof(*count));
    worker_bounds(job, loss, deadline_s, (int64_t)n, &lower, &upper);
    for (int64_t size = lower; size <= upper; size++)
        for (size_t first = 0; first + (size_t)size <= n; first++) {
            memset(try, 0, sizeof(try));
            for (int64_t i = 0; i < size; i++)
                try[one[first + (size_t)i]]++;
            if (!spot_dnn_predict(job, try, loss, &s) && is_better(&s, deadline_s, speed->usd)) {
                *speed = s;
                memcpy(count, try, job->n_type * sizeof(*count));
            }
        }
    free(one);
    return isinf(speed->usd) ? -1 : 0;
}
