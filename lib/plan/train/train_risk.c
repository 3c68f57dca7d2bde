/* SPDX-License-Identifier: MIT */
/* The limit on risk, for every count that may occur: a grid that exceeds the limit is not chosen at
 * that count, and the expectations for the future exclude it too. */
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan/liveput.h"
#include "plan/liveput_dp.h"
#include "plan/train/train_score.h"

/* [held + 1] P[this many of `held` instances are lost]. Counted gross, since instances that return
 * have no state. */
static double *loss_dist(const struct spot_change_dist *dist, int held)
{
    double *prob = spot_xcalloc((size_t)held + 1, sizeof(*prob));
    double *hit = spot_xcalloc((size_t)dist->now + 1, sizeof(*hit));

    for (size_t i = 0; i < dist->n_change; i++) {
        const int lost = dist->change[i].lost;

        spot_liveput_spread(dist->now, held, lost, hit);
        for (int j = 0; j <= lost && j <= held; j++)
            prob[j] += dist->change[i].prob * hit[j];
    }
    free(hit);
    return prob;
}

struct risk {
    int *lost;           /* [n] */
    double *prob, *hold; /* [n] */
    int n;
};

/* Fill in the distribution of losses for n instances; n is the most that can be lost. */
static void losses_of(struct risk *r, const double *prob, int held, int n)
{
    r->n = 0;
    for (int j = 0; j <= held; j++) {
        if (prob[j] <= 0)
            continue;
        if (j <= n || !r->n || r->lost[r->n - 1] < n) {
            r->lost[r->n] = j < n ? j : n;
            r->prob[r->n++] = 0;
        }
        r->prob[r->n - 1] += prob[j];
    }
}

static double risk_of(const struct risk *r, int n, int d, int p)
{
    const struct spot_liveput g = { d, p, n - d * p, 0 };
    double sum = 0;

    spot_liveput_hold_many(&g, 1, r->lost, r->n, r->hold);
    for (int i = 0; i < r->n; i++)
        sum += r->prob[i] * (1 - r->hold[i]);
    return sum;
}

bool *spot_train_shut(const struct spot_train_question *q, int held,
                      const struct spot_liveput_dp *dp)
{
    const size_t space = (size_t)held + 2;
    const struct spot_cost_table *t = dp->table;
    double *prob;
    struct risk r;
    bool *is_shut;

    if (q->max_loss_prob >= 1)
        return NULL;
    held = held < q->dist->now ? held : q->dist->now;
    prob = loss_dist(q->dist, held);
    r.lost = spot_xcalloc(space, sizeof(*r.lost));
    r.prob = spot_xcalloc(2 * space, sizeof(*r.prob));
    r.hold = r.prob + space;
    is_shut = spot_xcalloc((size_t)(dp->n_max + 1) * (size_t)dp->n_grid + 1, sizeof(*is_shut));
    for (int n = dp->n_low > 1 ? dp->n_low : 1; n <= dp->n_max; n++) {
        losses_of(&r, prob, held, n);
        for (int i = 0; i < dp->n_fit[n]; i++)
            is_shut[n * dp->n_grid + i] =
                risk_of(&r, n, t->d[dp->by_size[i]], t->p[dp->by_size[i]]) > q->max_loss_prob;
    }
    free(prob);
    free(r.lost);
    free(r.prob);
    return is_shut;
}
