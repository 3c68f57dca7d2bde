/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/share.h"
#include "plan/share_level.h"

int spot_share_answer_init(const struct spot_share_problem *p, struct spot_share_answer *a,
                           struct spot_err *err)
{
    *a = (struct spot_share_answer){ .bound = NAN };
    for (size_t i = 0; i < p->n_job; i++) {
        bool runs = false;

        for (size_t j = 0; j < p->n_type; j++)
            runs |= p->rate[i * p->n_type + j] > 0;
        if (!runs)
            return spot_err_set(err, SPOT_EINFEASIBLE, "job %zu runs on no type", i);
    }
    a->x = spot_xcalloc(p->n_job * p->n_type, sizeof(double));
    a->price = spot_xcalloc(p->n_type, sizeof(double));
    for (size_t j = 0; j < p->n_type; j++)
        a->price[j] = NAN;
    return 0;
}

void spot_share_answer_release(struct spot_share_answer *answer)
{
    free(answer->x);
    free(answer->price);
    *answer = (struct spot_share_answer){ 0 };
}

double spot_share_rate(const struct spot_share_problem *p, size_t job, const double *x)
{
    double sum = 0;

    for (size_t j = 0; j < p->n_type; j++)
        sum += p->rate[job * p->n_type + j] * x[j];
    return sum;
}

/* Summed from the last type on: the released scheduler breaks ties by the last digit, and it sums
 * k80, p100, v100 where it fills v100, p100, k80. */
void spot_share_isolated_part(const struct spot_share_problem *p, size_t job, double *x)
{
    double sum = 0;

    for (size_t j = p->n_type; j-- > 0;) {
        x[j] = (double)p->type[j].count / (double)p->n_job / (double)p->want[job].scale;
        sum += x[j];
    }
    for (size_t j = 0; j < p->n_type; j++)
        x[j] /= fmax(sum, 1);
}

void spot_share_isolated_rate(const struct spot_share_problem *p, double *per_s)
{
    double x[64] = { 0 };

    for (size_t i = 0; i < p->n_job; i++) {
        spot_share_isolated_part(p, i, x);
        per_s[i] = spot_share_rate(p, i, x);
    }
}

int spot_share_makespan(const struct spot_share_problem *p, struct spot_share_answer *a,
                        struct spot_err *err)
{
    double *gain;
    int rc;

    if (spot_share_answer_init(p, a, err))
        return -1;
    gain = spot_xcalloc(p->n_job * p->n_type, sizeof(double));
    for (size_t i = 0; i < p->n_job; i++)
        for (size_t j = 0; j < p->n_type; j++)
            gain[i * p->n_type + j] = p->rate[i * p->n_type + j] / p->want[i].left;
    rc = spot_share_level(p, gain, false, NULL, a, err);
    if (!rc) { /* the level is the part of all remaining work that is done per second */
        const double per_s = a->objective;

        a->objective = 1 / per_s;
        a->bound = a->bound > 0 ? 1 / a->bound : 0;
        for (size_t j = 0; j < p->n_type; j++)
            a->price[j] /= per_s * per_s; /* seconds saved by one more worker */
    }
    free(gain);
    if (rc)
        spot_share_answer_release(a);
    return rc;
}
