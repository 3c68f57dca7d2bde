/* SPDX-License-Identifier: MIT */
#include "forecast/hazard.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/xalloc.h"

static const double AGE_MAX_S = 1e11, PER_H_MAX = 3600; /* once a second */

/* Expected time lived in an interval of dt_s at that hazard, if alive at its start. */
static double lived_in(double per_s, double dt_s)
{
    return per_s > 0 ? -expm1(-per_s * dt_s) / per_s : dt_s;
}

static void grow(struct spot_hazard *h)
{
    if (h->n < h->cap)
        return;
    h->cap = h->cap ? 2 * h->cap : 32;
    h->age_s = spot_xrealloc(h->age_s, h->cap, sizeof(*h->age_s));
    h->per_s = spot_xrealloc(h->per_s, h->cap, sizeof(*h->per_s));
    h->sum = spot_xrealloc(h->sum, h->cap, sizeof(*h->sum));
    h->left_s = spot_xrealloc(h->left_s, h->cap, sizeof(*h->left_s));
}

static int on_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct spot_hazard *h = user;
    const size_t i = h->n;
    double age_s, per_h;

    if (spot_csv_real(row, 0, 0, AGE_MAX_S, &age_s, err) ||
        spot_csv_real(row, 1, 0, PER_H_MAX, &per_h, err))
        return -1;
    if (!i && age_s > 0)
        return spot_csv_fail(row, 0, err, "the first age is 0, got %g", age_s);
    if (i && age_s <= h->age_s[i - 1])
        return spot_csv_fail(row, 0, err, "expected more than the %g above, got %g",
                             h->age_s[i - 1], age_s);
    if (i == SPOT_HAZARD_ROWS_MAX)
        return spot_csv_fail(row, 0, err, "more than %d rows", SPOT_HAZARD_ROWS_MAX);
    grow(h);
    h->age_s[i] = age_s;
    h->per_s[i] = per_h / 3600;
    h->sum[i] = i ? spot_hazard_sum(h, age_s) : 0;
    h->n++;
    return 0;
}

/* Mean time left to one of an age within row i, which is not the last. */
static double left_of(const struct spot_hazard *h, size_t i, double age_s)
{
    const double dt_s = h->age_s[i + 1] - age_s;

    return lived_in(h->per_s[i], dt_s) + exp(-h->per_s[i] * dt_s) * h->left_s[i + 1];
}

static void fill_left(struct spot_hazard *h)
{
    h->left_s[h->n - 1] = h->per_s[h->n - 1] > 0 ? 1 / h->per_s[h->n - 1] : INFINITY;
    for (size_t i = h->n - 1; i-- > 0;)
        h->left_s[i] = isinf(h->left_s[i + 1]) ? INFINITY : left_of(h, i, h->age_s[i]);
}

int spot_hazard_load(struct spot_hazard *hazard, FILE *in, const char *source, struct spot_err *err)
{
    static const char *const want[] = { "age_s", "hazard_per_h" };

    memset(hazard, 0, sizeof(*hazard));
    if (!spot_csv_read(in, source, want, 2, on_row, hazard, &hazard->xxh3, err)) {
        if (hazard->n) {
            fill_left(hazard);
            return 0;
        }
        spot_err_set(err, SPOT_EDATA, "%s: expected rows, got a header only", source);
    }
    spot_hazard_release(hazard);
    return -1;
}

int spot_hazard_load_path(struct spot_hazard *hazard, const char *path, struct spot_err *err)
{
    FILE *in = fopen(path, "re");
    int rc;

    memset(hazard, 0, sizeof(*hazard));
    if (!in)
        return spot_err_sys(err, "cannot open '%s'", path);
    rc = spot_hazard_load(hazard, in, path, err);
    fclose(in);
    return rc;
}

void spot_hazard_release(struct spot_hazard *hazard)
{
    free(hazard->age_s);
    free(hazard->per_s);
    free(hazard->sum);
    free(hazard->left_s);
    memset(hazard, 0, sizeof(*hazard));
}

/* The row that holds at that age. */
static size_t row_at(const struct spot_hazard *h, double age_s)
{
    size_t lo = 0, hi = h->n;

    assert(h->n && age_s >= 0);
    while (hi - lo > 1) {
        const size_t mid = lo + (hi - lo) / 2;

        if (h->age_s[mid] <= age_s)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

double spot_hazard_sum(const struct spot_hazard *hazard, double age_s)
{
    const size_t i = row_at(hazard, age_s);

    return hazard->sum[i] + hazard->per_s[i] * (age_s - hazard->age_s[i]);
}

double spot_hazard_sum_unknown(const struct spot_hazard *hazard, double since_s)
{
    const struct spot_hazard *h = hazard;
    const size_t i = row_at(h, since_s);
    double left_s = h->left_s[i];

    if (isinf(left_s))
        return 0;
    if (i + 1 < h->n)
        left_s = left_of(h, i, since_s);
    return spot_hazard_sum(h, since_s) - log(left_s / h->left_s[0]);
}
