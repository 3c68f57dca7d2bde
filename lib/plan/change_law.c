/* SPDX-License-Identifier: MIT */
#include "plan/change_law.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

static const double NEGLIGIBLE = 1e-9; /* cells below are left out and their mass is shared */

/* out[a + b] += x[a] * y[b]: the law of a sum. */
static double *sum_law(const double *x, int n_x, const double *y, int n_y)
{
    double *out = spot_xcalloc((size_t)n_x + (size_t)n_y + 1, sizeof(*out));

    for (int a = 0; a <= n_x; a++)
        for (int b = 0; x[a] > 0 && b <= n_y; b++)
            out[a + b] += x[a] * y[b];
    return out;
}

static int by_change(const void *a, const void *b)
{
    const struct spot_change *x = a, *y = b;

    return x->lost != y->lost ? (x->lost > y->lost) - (x->lost < y->lost)
                              : (x->gained > y->gained) - (x->gained < y->gained);
}

/* Sort, join equal cells, drop the negligible, make it sum to 1. */
static void tidy(struct spot_change_law *law)
{
    size_t n = 0;
    double sum = 0;

    qsort(law->change, law->n_change, sizeof(*law->change), by_change);
    for (size_t i = 0; i < law->n_change; i++) {
        if (n && !by_change(&law->change[n - 1], &law->change[i]))
            law->change[n - 1].prob += law->change[i].prob;
        else
            law->change[n++] = law->change[i];
    }
    law->n_change = n;
    n = 0;
    for (size_t i = 0; i < law->n_change; i++)
        if (law->change[i].prob >= NEGLIGIBLE) {
            sum += law->change[i].prob;
            law->change[n++] = law->change[i];
        }
    law->n_change = n;
    for (size_t i = 0; i < n; i++)
        law->change[i].prob /= sum;
}

/* law += series: counts add up, changes convolve. */
static int add_series(struct spot_change_law *law, const struct spot_forecast_series *series,
                      struct spot_err *err)
{
    const int cap = law->cap + (int)series->cap;
    struct spot_change *change;
    size_t n = 0;
    double *count;

    if (series->cap > SPOT_CHANGE_COUNT_MAX - law->cap)
        return spot_err_set(err, SPOT_EDATA, "the forecast has more than %d instances",
                            SPOT_CHANGE_COUNT_MAX);
    if (!series->n_change)
        return spot_err_set(err, SPOT_EDATA, "the forecast lacks the law 'change'");
    count = spot_xcalloc((size_t)law->horizon * (size_t)(cap + 1), sizeof(*count));
    for (int h = 0; h < law->horizon; h++) {
        double *sum = sum_law(law->count + (size_t)h * (size_t)(law->cap + 1), law->cap,
                              spot_forecast_at(series, h + 1), (int)series->cap);

        memcpy(count + (size_t)h * (size_t)(cap + 1), sum, (size_t)(cap + 1) * sizeof(*sum));
        free(sum);
    }
    free(law->count);
    law->count = count;
    change = spot_xcalloc(law->n_change * series->n_change, sizeof(*change));
    for (size_t i = 0; i < law->n_change; i++)
        for (size_t j = 0; j < series->n_change; j++)
            change[n++] = (struct spot_change){ law->change[i].lost + series->change[j].lost,
                                                law->change[i].gained + series->change[j].gained,
                                                law->change[i].prob * series->change[j].prob };
    free(law->change);
    law->change = change;
    law->n_change = n;
    law->cap = cap;
    law->now += (int)series->now;
    tidy(law);
    return 0;
}

/* Another count than the forecast's is known: the same changes from there. */
static void move_to(struct spot_change_law *law, int now)
{
    const int cap = law->cap > now ? law->cap : now, shift = now - law->now;
    double *count = spot_xcalloc((size_t)law->horizon * (size_t)(cap + 1), sizeof(*count));

    for (int h = 0; h < law->horizon; h++)
        for (int n = 0; n <= law->cap; n++) {
            const int to = n + shift < 0 ? 0 : n + shift > cap ? cap : n + shift;

            count[(size_t)h * (size_t)(cap + 1) + (size_t)to] +=
                law->count[(size_t)h * (size_t)(law->cap + 1) + (size_t)n];
        }
    free(law->count);
    law->count = count;
    law->cap = cap;
    law->now = now;
    for (size_t i = 0; i < law->n_change; i++) {
        struct spot_change *c = &law->change[i];

        c->lost = c->lost > now ? now : c->lost;
        c->gained = c->gained > cap - now + c->lost ? cap - now + c->lost : c->gained;
    }
    tidy(law);
}

void spot_change_law_still(struct spot_change_law *law, int now, double interval_s, int horizon)
{
    *law = (struct spot_change_law){
        .now = now, .cap = now, .interval_s = interval_s, .horizon = horizon, .n_change = 1
    };
    law->change = spot_xcalloc(1, sizeof(*law->change));
    law->change[0].prob = 1;
    law->count = spot_xcalloc((size_t)horizon * (size_t)(now + 1), sizeof(*law->count));
    for (int h = 0; h < horizon; h++)
        law->count[(size_t)h * (size_t)(now + 1) + (size_t)now] = 1;
}

int spot_change_law_init(struct spot_change_law *law, const struct spot_forecast *forecast, int now,
                         struct spot_err *err)
{
    spot_change_law_still(law, 0, forecast->interval_s, (int)forecast->horizon);
    if (!forecast->n_series) {
        spot_change_law_release(law);
        return spot_err_set(err, SPOT_EDATA, "the forecast has no series");
    }
    for (size_t i = 0; i < forecast->n_series; i++)
        if (add_series(law, &forecast->series[i], err)) {
            spot_change_law_release(law);
            return -1;
        }
    if (now >= 0 && now != law->now)
        move_to(law, now);
    return 0;
}

void spot_change_law_release(struct spot_change_law *law)
{
    free(law->change);
    free(law->count);
    memset(law, 0, sizeof(*law));
}
