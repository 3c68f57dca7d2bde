/* SPDX-License-Identifier: MIT */
#include "model/forecast_doc.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

static const double SUM_TOLERANCE = 1e-6;

#define HEAD(member) offsetof(struct spot_forecast, member)
static const struct spot_field head_field[] = {
    { "interval_s", SPOT_F_REAL, HEAD(interval_s), "s", 1e-3, 1e9, true },
    { "horizon", SPOT_F_INT, HEAD(horizon), "1", 1, SPOT_FORECAST_HORIZON_MAX, true },
    { "model", SPOT_F_STR, HEAD(model), NULL, 0, 0, false },
    { 0 },
};

#define SERIES(member) offsetof(struct spot_forecast_series, member)
static const struct spot_field series_field[] = {
    { "zone", SPOT_F_STR, SERIES(zone), NULL, 0, 0, false },
    { "instance_type", SPOT_F_STR, SERIES(instance_type), NULL, 0, 0, false },
    { "time_s", SPOT_F_REAL, SERIES(time_s), "s", -1e15, 1e15, true },
    { "now", SPOT_F_INT, SERIES(now), "1", 0, SPOT_FORECAST_CAP_MAX, true },
    { "cap", SPOT_F_INT, SERIES(cap), "1", 0, SPOT_FORECAST_CAP_MAX, true },
    { "past_intervals", SPOT_F_INT, SERIES(n_past), "1", 0, 1e15, false },
    { "past_changes", SPOT_F_INT, SERIES(n_change_past), "1", 0, 1e15, false },
    { "past_s", SPOT_F_REAL, SERIES(past_s), "s", 0, 1e15, false },
    { "past_lost", SPOT_F_REAL, SERIES(past_lost), "1", 0, 1e15, false },
    { "past_instance_s", SPOT_F_REAL, SERIES(past_instance_s), "s", 0, 1e18, false },
    { 0 },
};

static const struct spot_field region_name_field[] = {
    { "region", SPOT_F_STR, 0, NULL, 0, 0, true },
    { 0 },
};

static const struct spot_field chain_field[] = {
    { "context", SPOT_F_INT, 0, "1", 0, SPOT_CHAIN_CONTEXTS - 1, true },
    { 0 },
};

#define REGION(member) offsetof(struct spot_forecast_region, member)
static const struct spot_field region_field[] = {
    { "instance_type", SPOT_F_STR, REGION(instance_type), NULL, 0, 0, false },
    { "zones", SPOT_F_INT, REGION(zones), "1", 2, SPOT_FORECAST_SERIES_MAX, true },
    { "shock_prob", SPOT_F_REAL, REGION(shock_prob), "1", 0, 1, true },
    { "loss_lift", SPOT_F_REAL, REGION(loss_lift), "1", 0, 1e9, true },
    { "calm_lift", SPOT_F_REAL, REGION(calm_lift), "1", 0, 1e9, true },
    { 0 },
};

struct step {
    int64_t step;
    double mean;
};

static const struct spot_field step_field[] = {
    { "step", SPOT_F_INT, offsetof(struct step, step), "1", 1, SPOT_FORECAST_HORIZON_MAX, true },
    { "mean", SPOT_F_REAL, offsetof(struct step, mean), "1", 0, SPOT_FORECAST_CAP_MAX, false },
    { 0 },
};

struct cell {
    int64_t lost, gained;
    double prob;
};

static const struct spot_field cell_field[] = {
    { "lost", SPOT_F_INT, offsetof(struct cell, lost), "1", 0, SPOT_FORECAST_CAP_MAX, true },
    { "gained", SPOT_F_INT, offsetof(struct cell, gained), "1", 0, SPOT_FORECAST_CAP_MAX, true },
    { "p", SPOT_F_REAL, offsetof(struct cell, prob), "1", 0, 1, true },
    { 0 },
};

const struct spot_doc_part spot_forecast_part[] = {
    { "", head_field, true, 0, NULL },
    { "series[]", series_field, true, SPOT_FORECAST_SERIES_MAX, NULL },
    { "series[].available[]", step_field, true, SPOT_FORECAST_HORIZON_MAX, NULL },
    { "series[].change[]", cell_field, true, SPOT_FORECAST_CHANGE_MAX, NULL },
    { "series[].chain", chain_field, false, 0, NULL },
    { "series[].start", spot_forecast_start_field, false, 0, NULL },
    { "series[].start", spot_forecast_start_price_field, false, 0, NULL },
    { "series[].shock", spot_forecast_shock_field, false, 0, NULL },
    { "regions[]", region_name_field, false, SPOT_FORECAST_SERIES_MAX, NULL },
    { "regions[]", region_field, false, SPOT_FORECAST_SERIES_MAX, NULL },
    { 0 },
};

const double *spot_forecast_at(const struct spot_forecast_series *series, int64_t step)
{
    assert(step >= 1);
    return series->prob + (step - 1) * (series->cap + 1);
}

int spot_forecast_quantile(const struct spot_forecast_series *series, int64_t step, double prob)
{
    const double *p = spot_forecast_at(series, step);
    double sum = 0;
    int k = 0;

    for (; k < series->cap; k++) {
        sum += p[k];
        if (sum >= prob - 1e-12)
            break;
    }
    return k;
}

double spot_forecast_dispersion(const struct spot_forecast_series *series, int64_t step)
{
    const double *p = spot_forecast_at(series, step);
    double mean = 0, square = 0;

    for (int64_t k = 0; k <= series->cap; k++) {
        mean += p[k] * (double)k;
        square += p[k] * (double)k * (double)k;
    }
    return mean > 0 ? (square - mean * mean) / mean : 1;
}

/* --- reading --- */

struct reader {
    const struct spot_json_doc *doc;
    struct spot_forecast *out;
    struct spot_err *err;
};

/* One "p": cap + 1 probabilities that sum to 1. */
static int read_dist(const struct reader *r, const struct spot_json_value *obj, const char *pointer,
                     int64_t cap, double *prob)
{
    char at[SPOT_JSON_POINTER_MAX], at_k[SPOT_JSON_POINTER_MAX];
    const struct spot_json_value *array;
    double sum = 0;

    if (spot_json_array(r->doc, obj, pointer, "p", true, SPOT_FORECAST_CAP_MAX + 1, &array, r->err))
        return -1;
    snprintf(at, sizeof(at), "%.240s/p", pointer);
    if ((int64_t)spot_json_array_size(array) != cap + 1)
        return spot_json_fail(r->doc, at, r->err, "expected %lld probabilities (0..cap), got %zu",
                              (long long)cap + 1, spot_json_array_size(array));
    for (int64_t k = 0; k <= cap; k++) {
        const struct spot_json_value *value = spot_json_entry(array, (size_t)k);

        snprintf(at_k, sizeof(at_k), "%.200s/%d", at, (int)k);
        if (!spot_json_is_number(value))
            return spot_json_fail(r->doc, at_k, r->err, "expected a number");
        prob[k] = spot_json_number(value);
        if (!(prob[k] >= 0 && prob[k] <= 1 + SUM_TOLERANCE))
            return spot_json_fail(r->doc, at_k, r->err, "%g is not a probability", prob[k]);
        sum += prob[k];
    }
    if (fabs(sum - 1) > SUM_TOLERANCE)
        return spot_json_fail(r->doc, at, r->err, "sums to %.9g, expected 1", sum);
    return 0;
}

static double dist_mean(const double *prob, int64_t cap)
{
    double mean = 0;

    for (int64_t k = 0; k <= cap; k++)
        mean += (double)k * prob[k];
    return mean;
}

static int read_steps(const struct reader *r, const struct spot_json_value *obj,
                      const char *pointer, struct spot_forecast_series *series)
{
    const int64_t horizon = r->out->horizon, cap = series->cap;
    char at[SPOT_JSON_POINTER_MAX];
    const struct spot_json_value *array;

    if (spot_json_array(r->doc, obj, pointer, "available", true, SPOT_FORECAST_HORIZON_MAX, &array,
                        r->err))
        return -1;
    snprintf(at, sizeof(at), "%.200s/available", pointer);
    if ((int64_t)spot_json_array_size(array) != horizon)
        return spot_json_fail(r->doc, at, r->err, "expected %lld steps (the horizon), got %zu",
                              (long long)horizon, spot_json_array_size(array));
    if (horizon * (cap + 1) > SPOT_FORECAST_CELL_MAX)
        return spot_json_fail(r->doc, at, r->err, "more than %d probabilities",
                              SPOT_FORECAST_CELL_MAX);
    series->mean = spot_xcalloc((size_t)horizon, sizeof(*series->mean));
    series->prob = spot_xcalloc((size_t)(horizon * (cap + 1)), sizeof(*series->prob));
    for (int64_t i = 0; i < horizon; i++) {
        const struct spot_json_value *entry = spot_json_entry(array, (size_t)i);
        double *prob = series->prob + i * (cap + 1);
        struct step step = { 0, -1 };

        snprintf(at, sizeof(at), "%.200s/available/%lld", pointer, (long long)i);
        if (spot_json_read_fields(r->doc, entry, at, step_field, &step, r->err) ||
            read_dist(r, entry, at, cap, prob))
            return -1;
        if (step.step != i + 1)
            return spot_json_fail(r->doc, at, r->err, "expected step %lld, got %lld",
                                  (long long)i + 1, (long long)step.step);
        series->mean[i] = dist_mean(prob, cap);
        if (step.mean >= 0 && fabs(step.mean - series->mean[i]) > 1e-5 * (double)(cap + 1))
            return spot_json_fail(r->doc, at, r->err, "mean %g, but its distribution has mean %g",
                                  step.mean, series->mean[i]);
    }
    return 0;
}

static int read_cell(const struct reader *r, const struct spot_json_value *entry, const char *at,
                     const struct spot_forecast_series *series, struct spot_forecast_change *out)
{
    struct cell cell;

    if (spot_json_read_fields(r->doc, entry, at, cell_field, &cell, r->err))
        return -1;
    if (cell.lost > series->now)
        return spot_json_fail(r->doc, at, r->err, "lost %lld of %lld instances",
                              (long long)cell.lost, (long long)series->now);
    if (series->now - cell.lost + cell.gained > series->cap)
        return spot_json_fail(r->doc, at, r->err, "gained %lld, which exceeds the cap of %lld",
                              (long long)cell.gained, (long long)series->cap);
    *out = (struct spot_forecast_change){ (int)cell.lost, (int)cell.gained, cell.prob };
    return 0;
}

static int by_lost_gained(const void *a, const void *b)
{
    const struct spot_forecast_change *x = a, *y = b;

    if (x->lost != y->lost)
        return x->lost < y->lost ? -1 : 1;
    return (x->gained > y->gained) - (x->gained < y->gained);
}

static int read_change(const struct reader *r, const struct spot_json_value *obj,
                       const char *pointer, struct spot_forecast_series *series)
{
    char at[SPOT_JSON_POINTER_MAX];
    const struct spot_json_value *array;
    double sum = 0;

    if (spot_json_array(r->doc, obj, pointer, "change", true, SPOT_FORECAST_CHANGE_MAX, &array,
                        r->err))
        return -1;
    series->n_change = spot_json_array_size(array);
    series->change = spot_xcalloc(series->n_change, sizeof(*series->change));
    for (size_t i = 0; i < series->n_change; i++) {
        snprintf(at, sizeof(at), "%.200s/change/%zu", pointer, i);
        if (read_cell(r, spot_json_entry(array, i), at, series, &series->change[i]))
            return -1;
        sum += series->change[i].prob;
    }
    snprintf(at, sizeof(at), "%.200s/change", pointer);
    if (fabs(sum - 1) > SUM_TOLERANCE)
        return spot_json_fail(r->doc, at, r->err, "sums to %.9g, expected 1", sum);
    qsort(series->change, series->n_change, sizeof(*series->change), by_lost_gained);
    for (size_t i = 1; i < series->n_change; i++)
        if (!by_lost_gained(&series->change[i - 1], &series->change[i]))
            return spot_json_fail(r->doc, at, r->err, "has lost %d, gained %d twice",
                                  series->change[i].lost, series->change[i].gained);
    return 0;
}

/* Read of[]: between `least` and n probabilities; later entries stay as they are. */
static int read_chances(const struct reader *r, const struct spot_json_value *obj, const char *at,
                        const char *key, size_t least, size_t n, double *of)
{
    char at_k[SPOT_JSON_POINTER_MAX];
    const struct spot_json_value *array;

    if (spot_json_array(r->doc, obj, at, key, true, n, &array, r->err))
        return -1;
    snprintf(at_k, sizeof(at_k), "%.200s/%s", at, key);
    if (spot_json_array_size(array) > n || spot_json_array_size(array) < least)
        return spot_json_fail(r->doc, at_k, r->err, "expected %zu to %zu chances, got %zu", least,
                              n, spot_json_array_size(array));
    for (size_t i = 0; i < spot_json_array_size(array); i++) {
        const struct spot_json_value *value = spot_json_entry(array, i);

        if (!spot_json_is_number(value) || !(spot_json_number(value) >= 0) ||
            spot_json_number(value) > 1)
            return spot_json_fail(r->doc, at_k, r->err, "entry %zu is not a probability", i);
        of[i] = spot_json_number(value);
    }
    return 0;
}

static int check_sizes(const struct reader *r, const char *at, const char *key, const double *of)
{
    double sum = 0;

    for (int k = 1; k <= SPOT_CHAIN_SIZE_MAX; k++)
        sum += of[k];
    return fabs(sum - 1) <= SUM_TOLERANCE
               ? 0
               : spot_json_fail(r->doc, at, r->err, "'%s' sums to %.9g, expected 1", key, sum);
}

static int read_chain(const struct reader *r, const struct spot_json_value *series,
                      const char *pointer, struct spot_count_law **out)
{
    const struct spot_json_value *obj;
    char at[SPOT_JSON_POINTER_MAX];
    struct spot_count_law *law;
    int64_t context;

    if (spot_json_object(r->doc, series, pointer, "chain", false, &obj, r->err))
        return -1;
    if (!obj)
        return 0;
    snprintf(at, sizeof(at), "%.200s/chain", pointer);
    if (spot_json_read_fields(r->doc, obj, at, chain_field, &context, r->err))
        return -1;
    law = *out = spot_xcalloc(1, sizeof(*law));
    law->context = (int)context;
    if (read_chances(r, obj, at, "loss", SPOT_CHAIN_CONTEXTS, SPOT_CHAIN_CONTEXTS, law->loss) ||
        read_chances(r, obj, at, "gain", SPOT_CHAIN_CONTEXTS, SPOT_CHAIN_CONTEXTS, law->gain) ||
        read_chances(r, obj, at, "lost", 1, SPOT_CHAIN_SIZE_MAX, law->lost + 1) ||
        read_chances(r, obj, at, "gained", 1, SPOT_CHAIN_SIZE_MAX, law->gained + 1) ||
        check_sizes(r, at, "lost", law->lost) || check_sizes(r, at, "gained", law->gained))
        return -1;
    for (int c = 0; c < SPOT_CHAIN_CONTEXTS; c++)
        if (law->loss[c] + law->gain[c] > 1 + SUM_TOLERANCE)
            return spot_json_fail(r->doc, at, r->err, "loss and gain of context %d exceed 1", c);
    return 0;
}

static int read_series(const struct reader *r, const struct spot_json_value *obj,
                       const char *pointer, struct spot_forecast_series *series)
{
    series->zone = series->instance_type = "";
    if (spot_json_read_fields(r->doc, obj, pointer, series_field, series, r->err))
        return -1;
    if (series->now > series->cap)
        return spot_json_fail(r->doc, pointer, r->err, "now is %lld, above the cap of %lld",
                              (long long)series->now, (long long)series->cap);
    if (read_steps(r, obj, pointer, series) || read_change(r, obj, pointer, series) ||
        read_chain(r, obj, pointer, &series->chain) ||
        spot_forecast_start_read(r->doc, obj, pointer, r->out->horizon, &series->start, r->err))
        return -1;
    return spot_forecast_shock_read(r->doc, obj, pointer, &series->shock, r->err);
}

static int read_region(const struct reader *r, const struct spot_json_value *obj,
                       const char *pointer, struct spot_forecast_region *region)
{
    struct {
        const char *region;
    } name = { "" };
    double mean;

    region->instance_type = "";
    if (spot_json_read_fields(r->doc, obj, pointer, region_name_field, &name, r->err) ||
        spot_json_read_fields(r->doc, obj, pointer, region_field, region, r->err))
        return -1;
    snprintf(region->region, sizeof(region->region), "%.63s", name.region);
    mean = region->shock_prob * region->loss_lift + (1 - region->shock_prob) * region->calm_lift;
    if (fabs(mean - 1) > SUM_TOLERANCE * fmax(1, region->loss_lift))
        return spot_json_fail(r->doc, pointer, r->err,
                              "shock_prob * loss_lift + (1 - shock_prob) * calm_lift is %.9g, "
                              "expected 1",
                              mean);
    return 0;
}

/* A region must be given only once, since two entries could contradict each other. */
static int is_new_region(const struct reader *r, size_t i, const char *at)
{
    const struct spot_forecast_region *all = r->out->region, *x = &all[i];

    for (size_t k = 0; k < i; k++)
        if (!strcmp(all[k].region, x->region) && !strcmp(all[k].instance_type, x->instance_type))
            return spot_json_fail(r->doc, at, r->err, "names '%s' again, as /regions/%zu does",
                                  x->region, k);
    return 0;
}

static int read_regions(const struct reader *r)
{
    char at[SPOT_JSON_POINTER_MAX];
    const struct spot_json_value *array;

    if (spot_json_array(r->doc, r->doc->root, "", "regions", false, SPOT_FORECAST_SERIES_MAX,
                        &array, r->err))
        return -1;
    if (!array)
        return 0;
    r->out->n_region = spot_json_array_size(array);
    r->out->region = spot_xcalloc(r->out->n_region, sizeof(*r->out->region));
    for (size_t i = 0; i < r->out->n_region; i++) {
        snprintf(at, sizeof(at), "/regions/%zu", i);
        if (read_region(r, spot_json_entry(array, i), at, &r->out->region[i]) ||
            is_new_region(r, i, at))
            return -1;
    }
    return 0;
}

/* A series must be given only once, too. */
static int is_new_series(const struct reader *r, size_t i, const char *at)
{
    const struct spot_forecast_series *all = r->out->series, *x = &all[i];

    for (size_t k = 0; k < i; k++)
        if (!strcmp(all[k].zone, x->zone) && !strcmp(all[k].instance_type, x->instance_type))
            return spot_json_fail(r->doc, at, r->err,
                                  "is zone '%s', instance type '%s' again, as /series/%zu is",
                                  x->zone, x->instance_type, k);
    return 0;
}

static int read_all_series(const struct reader *r)
{
    char at[SPOT_JSON_POINTER_MAX];
    const struct spot_json_value *array;

    if (spot_json_array(r->doc, r->doc->root, "", "series", true, SPOT_FORECAST_SERIES_MAX, &array,
                        r->err))
        return -1;
    if (!spot_json_array_size(array))
        return spot_json_fail(r->doc, "/series", r->err, "is empty, expected at least one series");
    r->out->n_series = spot_json_array_size(array);
    r->out->series = spot_xcalloc(r->out->n_series, sizeof(*r->out->series));
    for (size_t i = 0; i < r->out->n_series; i++) {
        snprintf(at, sizeof(at), "/series/%zu", i);
        if (read_series(r, spot_json_entry(array, i), at, &r->out->series[i]) ||
            is_new_series(r, i, at))
            return -1;
    }
    return 0;
}

int spot_forecast_read(const struct spot_json_doc *doc, struct spot_forecast *out,
                       struct spot_err *err)
{
    const struct reader r = { doc, out, err };

    memset(out, 0, sizeof(*out));
    out->model = "";
    if (spot_json_expect_schema(doc, "spot.forecast", 1, err) ||
        spot_json_read_fields(doc, doc->root, "", head_field, out, err))
        return -1;
    if (!read_all_series(&r) && !read_regions(&r))
        return 0;
    spot_forecast_release(out);
    return -1;
}

int spot_forecast_read_instances(const struct spot_json_doc *doc, struct spot_forecast *out,
                                 struct spot_err *err)
{
    if (spot_forecast_read(doc, out, err))
        return -1;
    if (strcmp(out->model, "load") != 0)
        return 0;
    spot_forecast_release(out);
    return spot_json_fail(doc, "/model", err, "a forecast of load, expected one of instances");
}

static void release_series(struct spot_forecast_series *series)
{
    free(series->mean);
    free(series->prob);
    free(series->change);
    free(series->chain);
    spot_forecast_start_free(series->start);
    free(series->shock);
}

size_t spot_forecast_keep(struct spot_forecast *forecast, const char *instance_type)
{
    size_t n = 0;

    for (size_t i = 0; i < forecast->n_series; i++) {
        const char *type = forecast->series[i].instance_type;

        if (!*type || !strcmp(type, instance_type))
            forecast->series[n++] = forecast->series[i];
        else
            release_series(&forecast->series[i]);
    }
    return forecast->n_series = n;
}

void spot_forecast_release(struct spot_forecast *forecast)
{
    for (size_t i = 0; i < forecast->n_series; i++)
        release_series(&forecast->series[i]);
    free(forecast->series);
    free(forecast->region);
    memset(forecast, 0, sizeof(*forecast));
}

/* --- writing --- */

/* The number of sizes up to the largest with a probability above 0. */
static size_t sizes_of(const double *size)
{
    size_t n = SPOT_CHAIN_SIZE_MAX;

    while (n > 1 && !(size[n] > 0))
        n--;
    return n;
}

static void write_chain(struct spot_jw *jw, const struct spot_count_law *law)
{
    spot_jw_object(jw, "chain");
    spot_jw_int(jw, "context", law->context);
    spot_jw_reals(jw, "loss", law->loss, SPOT_CHAIN_CONTEXTS);
    spot_jw_reals(jw, "gain", law->gain, SPOT_CHAIN_CONTEXTS);
    spot_jw_reals(jw, "lost", law->lost + 1, sizes_of(law->lost));
    spot_jw_reals(jw, "gained", law->gained + 1, sizes_of(law->gained));
    spot_jw_end(jw);
}

static void write_series(struct spot_jw *jw, const struct spot_forecast_series *series,
                         int64_t horizon)
{
    spot_jw_object(jw, NULL);
    spot_jw_fields(jw, series_field, series);
    spot_jw_array(jw, "available");
    for (int64_t step = 1; step <= horizon; step++) {
        spot_jw_object(jw, NULL);
        spot_jw_int(jw, "step", step);
        spot_jw_real(jw, "mean", series->mean[step - 1]);
        spot_jw_reals(jw, "p", spot_forecast_at(series, step), (size_t)series->cap + 1);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
    spot_jw_array(jw, "change");
    for (size_t i = 0; i < series->n_change; i++) {
        const struct spot_forecast_change *c = &series->change[i];

        spot_jw_object(jw, NULL);
        spot_jw_int(jw, "lost", c->lost);
        spot_jw_int(jw, "gained", c->gained);
        spot_jw_real(jw, "p", c->prob);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
    if (series->chain)
        write_chain(jw, series->chain);
    spot_forecast_start_write(jw, series->start, horizon);
    spot_forecast_shock_write(jw, series->shock);
    spot_jw_end(jw);
}

int spot_forecast_write(const struct spot_forecast *forecast, FILE *out,
                        const struct spot_prov *prov, struct spot_err *err)
{
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.forecast", 1, prov);
    spot_jw_fields(&jw, head_field, forecast);
    spot_jw_array(&jw, "series");
    for (size_t i = 0; i < forecast->n_series; i++)
        write_series(&jw, &forecast->series[i], forecast->horizon);
    spot_jw_end(&jw);
    if (forecast->n_region)
        spot_jw_array(&jw, "regions");
    for (size_t i = 0; i < forecast->n_region; i++) {
        spot_jw_object(&jw, NULL);
        spot_jw_str(&jw, "region", forecast->region[i].region);
        spot_jw_fields(&jw, region_field, &forecast->region[i]);
        spot_jw_end(&jw);
    }
    if (forecast->n_region)
        spot_jw_end(&jw);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}
