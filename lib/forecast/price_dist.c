/* SPDX-License-Identifier: MIT */
#include "forecast/price_dist.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"

void spot_price_dist_add(struct spot_price_dist *d, double usd_per_h, double prob)
{
    if (!(prob > 0))
        return;
    d->point = spot_xgrow(d->point, &d->cap, d->n + 1, sizeof(*d->point));
    d->point[d->n++] = (struct spot_price_point){ usd_per_h, prob };
}

static int by_price(const void *a, const void *b)
{
    const struct spot_price_point *x = a, *y = b;

    return spot_num_compare(&x->usd_per_h, &y->usd_per_h);
}

void spot_price_dist_settle(struct spot_price_dist *d)
{
    double sum = 0;
    size_t n = 0;

    qsort(d->point, d->n, sizeof(*d->point), by_price);
    for (size_t i = 0; i < d->n; i++) {
        sum += d->point[i].prob;
        if (n && d->point[n - 1].usd_per_h >= d->point[i].usd_per_h)
            d->point[n - 1].prob += d->point[i].prob;
        else
            d->point[n++] = d->point[i];
    }
    d->n = n;
    for (size_t i = 0; i < n; i++)
        d->point[i].prob /= sum;
}

void spot_price_dist_clear(struct spot_price_dist *d)
{
    d->n = 0;
}

void spot_price_dist_release(struct spot_price_dist *d)
{
    free(d->point);
    memset(d, 0, sizeof(*d));
}

double spot_price_dist_mean(const struct spot_price_dist *d)
{
    double mean = 0;

    for (size_t i = 0; i < d->n; i++)
        mean += d->point[i].prob * d->point[i].usd_per_h;
    return fmin(fmax(mean, d->point[0].usd_per_h), d->point[d->n - 1].usd_per_h);
}

double spot_price_dist_quantile(const struct spot_price_dist *d, double prob)
{
    double sum = 0;
    size_t i = 0;

    for (; i + 1 < d->n; i++) {
        sum += d->point[i].prob;
        if (sum >= prob - 1e-12)
            break;
    }
    return d->point[i].usd_per_h;
}

double spot_price_dist_below(const struct spot_price_dist *d, double usd_per_h)
{
    double sum = 0;

    for (size_t i = 0; i < d->n && d->point[i].usd_per_h < usd_per_h; i++)
        sum += d->point[i].prob;
    return fmin(1, sum);
}

double spot_price_dist_at_most(const struct spot_price_dist *d, double usd_per_h)
{
    double sum = 0;

    for (size_t i = 0; i < d->n && d->point[i].usd_per_h <= usd_per_h; i++)
        sum += d->point[i].prob;
    return fmin(1, sum);
}

double spot_price_dist_crps(const struct spot_price_dist *d, double y)
{
    /* between y and the first point F is 0 and the step at y is 1 */
    double sum = 0, crps = fmax(0, d->point[0].usd_per_h - y);

    for (size_t i = 0; i < d->n; i++) {
        const double from = d->point[i].usd_per_h;
        const double to = i + 1 < d->n ? d->point[i + 1].usd_per_h : fmax(from, y);
        const double turn = fmin(fmax(y, from), to);

        sum += d->point[i].prob;
        crps += sum * sum * (turn - from) + (1 - sum) * (1 - sum) * (to - turn);
    }
    return crps;
}

static double pinball_of(const struct spot_price_dist *d, double y)
{
    enum { LEVELS = 10 };
    double loss = 0;

    for (int i = 0; i < LEVELS; i++) {
        const double level = (i + 0.5) / LEVELS, q = spot_price_dist_quantile(d, level);

        loss += y >= q ? level * (y - q) : (1 - level) * (q - y);
    }
    return loss / LEVELS;
}

void spot_price_dist_score(const struct spot_price_dist *d, double now, double y,
                           struct spot_score *score, double *pinball)
{
    const double drop = spot_price_dist_below(d, now) - (y < now);

    score->abs_sum += fabs(spot_price_dist_quantile(d, 0.5) - y);
    score->crps_sum += spot_price_dist_crps(d, y);
    score->brier_sum += drop * drop;
    spot_score_add_pit(score, spot_price_dist_below(d, y), spot_price_dist_at_most(d, y));
    *pinball += pinball_of(d, y);
}
