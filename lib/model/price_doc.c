/* SPDX-License-Identifier: MIT */
#include "model/price_doc.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

#define USD_MAX 1e9

#define HEAD(member) offsetof(struct spot_price_doc, member)
static const struct spot_field head_field[] = {
    { "interval_s", SPOT_F_REAL, HEAD(interval_s), "s", 1e-3, 1e9, true },
    { "horizon", SPOT_F_INT, HEAD(horizon), "1", 1, SPOT_PRICE_DOC_HORIZON_MAX, true },
    { "model", SPOT_F_STR, HEAD(model), NULL, 0, 0, false },
    { 0 },
};

#define ENTRY(member) offsetof(struct spot_price_entry, member)
static const struct spot_field entry_field[] = {
    { "zone", SPOT_F_STR, ENTRY(zone), NULL, 0, 0, true },
    { "instance_type", SPOT_F_STR, ENTRY(instance_type), NULL, 0, 0, true },
    { "market", SPOT_F_STR, ENTRY(market), NULL, 0, 0, true },
    { "time_s", SPOT_F_REAL, ENTRY(time_s), "s", -1e15, 1e15, true },
    { "now_usd_per_h", SPOT_F_REAL, ENTRY(now_usd_per_h), "usd/h", 0, USD_MAX, true },
    { "mean_usd_per_h", SPOT_F_REAL, ENTRY(mean_usd_per_h), "usd/h", 0, USD_MAX, true },
    { "model", SPOT_F_STR, ENTRY(model), NULL, 0, 0, false },
    { "past_changes", SPOT_F_INT, ENTRY(n_change), "1", 0, 1e15, false },
    { 0 },
};

#define STEP(member) offsetof(struct spot_price_step, member)
static const struct spot_field step_field[] = {
    { "step", SPOT_F_INT, STEP(step), "1", 1, SPOT_PRICE_DOC_HORIZON_MAX, true },
    { "mean_usd_per_h", SPOT_F_REAL, STEP(mean_usd_per_h), "usd/h", 0, USD_MAX, true },
    { "lower_prob", SPOT_F_REAL, STEP(lower_prob), "1", 0, 1, true },
    { "higher_prob", SPOT_F_REAL, STEP(higher_prob), "1", 0, 1, true },
    { 0 },
};

const struct spot_doc_part spot_price_part[] = {
    { "", head_field, true, 0, NULL },
    { "series[]", entry_field, true, SPOT_PRICE_DOC_SERIES_MAX, NULL },
    { "series[].price[]", step_field, true, SPOT_PRICE_DOC_HORIZON_MAX, NULL },
    { 0 },
};

struct reader {
    const struct spot_json_doc *doc;
    struct spot_price_doc *out;
    struct spot_err *err;
};

/* Read value[n]: numbers in [least, most] that never fall. */
static int read_rising(const struct reader *r, const struct spot_json_value *list, const char *at,
                       size_t n, double least, double most, double *value)
{
    char place[SPOT_JSON_POINTER_MAX];

    for (size_t k = 0; k < n; k++) {
        const struct spot_json_value *entry = spot_json_entry(list, k);

        snprintf(place, sizeof(place), "%.200s/%zu", at, k);
        if (!spot_json_is_number(entry))
            return spot_json_fail(r->doc, place, r->err, "expected a number");
        value[k] = spot_json_number(entry);
        if (!(value[k] >= least && value[k] <= most))
            return spot_json_fail(r->doc, place, r->err, "%g is outside [%g, %g]", value[k], least,
                                  most);
        if (k && value[k] < value[k - 1])
            return spot_json_fail(r->doc, place, r->err, "%g is below the one before it, %g",
                                  value[k], value[k - 1]);
    }
    return 0;
}

static int read_quantiles(const struct reader *r)
{
    const struct spot_json_value *list;

    if (spot_json_array(r->doc, r->doc->root, "", "quantiles", true, SPOT_PRICE_DOC_QUANTILES_MAX,
                        &list, r->err))
        return -1;
    r->out->n_quantile = spot_json_array_size(list);
    return read_rising(r, list, "/quantiles", r->out->n_quantile, 1e-6, 1 - 1e-6, r->out->quantile);
}

static int read_step(const struct reader *r, const struct spot_json_value *step, const char *at,
                     struct spot_price_entry *e, int64_t i)
{
    const size_t n = r->out->n_quantile;
    const struct spot_json_value *list;
    char place[SPOT_JSON_POINTER_MAX];

    if (spot_json_read_fields(r->doc, step, at, step_field, &e->step[i], r->err) ||
        spot_json_array(r->doc, step, at, "quantiles_usd_per_h", true, SPOT_PRICE_DOC_QUANTILES_MAX,
                        &list, r->err))
        return -1;
    if (e->step[i].step != i + 1)
        return spot_json_fail(r->doc, at, r->err, "expected step %lld, got %lld", (long long)i + 1,
                              (long long)e->step[i].step);
    if (e->step[i].lower_prob + e->step[i].higher_prob > 1 + 1e-6)
        return spot_json_fail(r->doc, at, r->err, "lower_prob and higher_prob sum to more than 1");
    snprintf(place, sizeof(place), "%.200s/quantiles_usd_per_h", at);
    if (spot_json_array_size(list) != n)
        return spot_json_fail(r->doc, place, r->err, "expected %zu prices (quantiles), got %zu", n,
                              spot_json_array_size(list));
    return read_rising(r, list, place, n, 0, USD_MAX, e->quantile_usd_per_h + (size_t)i * n);
}

static int read_entry(const struct reader *r, const struct spot_json_value *value, const char *at,
                      struct spot_price_entry *e)
{
    const size_t horizon = (size_t)r->out->horizon;
    const struct spot_json_value *list;
    char place[SPOT_JSON_POINTER_MAX];

    e->model = "";
    if (spot_json_read_fields(r->doc, value, at, entry_field, e, r->err) ||
        spot_json_array(r->doc, value, at, "price", true, SPOT_PRICE_DOC_HORIZON_MAX, &list,
                        r->err))
        return -1;
    snprintf(place, sizeof(place), "%.200s/market", at);
    if (strcmp(e->market, "spot") != 0 && strcmp(e->market, "on_demand") != 0)
        return spot_json_fail(r->doc, place, r->err, "expected spot or on_demand, got '%.40s'",
                              e->market);
    snprintf(place, sizeof(place), "%.200s/price", at);
    if (spot_json_array_size(list) != horizon)
        return spot_json_fail(r->doc, place, r->err, "expected %zu steps (the horizon), got %zu",
                              horizon, spot_json_array_size(list));
    e->step = spot_xcalloc(horizon, sizeof(*e->step));
    e->quantile_usd_per_h = spot_xcalloc(horizon * r->out->n_quantile + 1, sizeof(double));
    for (size_t i = 0; i < horizon; i++) {
        snprintf(place, sizeof(place), "%.200s/price/%zu", at, i);
        if (read_step(r, spot_json_entry(list, i), place, e, (int64_t)i))
            return -1;
    }
    return 0;
}

static int read_all(const struct reader *r)
{
    const struct spot_json_value *list;
    char at[SPOT_JSON_POINTER_MAX];

    if (read_quantiles(r) || spot_json_array(r->doc, r->doc->root, "", "series", true,
                                             SPOT_PRICE_DOC_SERIES_MAX, &list, r->err))
        return -1;
    if (!spot_json_array_size(list))
        return spot_json_fail(r->doc, "/series", r->err, "is empty, expected at least one series");
    r->out->series = spot_xcalloc(spot_json_array_size(list), sizeof(*r->out->series));
    for (size_t i = 0; i < spot_json_array_size(list); i++) {
        struct spot_price_entry *e = &r->out->series[i];

        snprintf(at, sizeof(at), "/series/%zu", i);
        r->out->n_series++; /* counts as present, so that it is released even if reading fails */
        if (read_entry(r, spot_json_entry(list, i), at, e))
            return -1;
        r->out->n_series--;
        if (spot_price_find(r->out, e->zone, e->instance_type, e->market)) {
            r->out->n_series++;
            return spot_json_fail(r->doc, at, r->err,
                                  "duplicate series: zone '%s', type '%s', market %s", e->zone,
                                  e->instance_type, e->market);
        }
        r->out->n_series++;
    }
    return 0;
}

int spot_price_read(const struct spot_json_doc *doc, struct spot_price_doc *out,
                    struct spot_err *err)
{
    const struct reader r = { doc, out, err };

    memset(out, 0, sizeof(*out));
    out->model = "";
    if (!spot_json_expect_schema(doc, "spot.price", 1, err) &&
        !spot_json_read_fields(doc, doc->root, "", head_field, out, err) && !read_all(&r))
        return 0;
    spot_price_release(out);
    return -1;
}

void spot_price_release(struct spot_price_doc *doc)
{
    for (size_t i = 0; i < doc->n_series; i++) {
        free(doc->series[i].step);
        free(doc->series[i].quantile_usd_per_h);
    }
    free(doc->series);
    memset(doc, 0, sizeof(*doc));
}

const struct spot_price_entry *spot_price_find(const struct spot_price_doc *doc, const char *zone,
                                               const char *instance_type, const char *market)
{
    for (size_t i = 0; i < doc->n_series; i++)
        if (!strcmp(doc->series[i].zone, zone) &&
            !strcmp(doc->series[i].instance_type, instance_type) &&
            !strcmp(doc->series[i].market, market))
            return &doc->series[i];
    return NULL;
}

static void write_entry(struct spot_jw *jw, const struct spot_price_doc *doc,
                        const struct spot_price_entry *e)
{
    spot_jw_object(jw, NULL);
    spot_jw_fields(jw, entry_field, e);
    spot_jw_array(jw, "price");
    for (int64_t i = 0; i < doc->horizon; i++) {
        spot_jw_object(jw, NULL);
        spot_jw_fields(jw, step_field, &e->step[i]);
        spot_jw_reals(jw, "quantiles_usd_per_h",
                      e->quantile_usd_per_h + (size_t)i * doc->n_quantile, doc->n_quantile);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
    spot_jw_end(jw);
}

int spot_price_write(const struct spot_price_doc *doc, FILE *out, const struct spot_prov *prov,
                     struct spot_err *err)
{
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.price", 1, prov);
    spot_jw_fields(&jw, head_field, doc);
    spot_jw_reals(&jw, "quantiles", doc->quantile, doc->n_quantile);
    spot_jw_array(&jw, "series");
    for (size_t i = 0; i < doc->n_series; i++)
        write_entry(&jw, doc, &doc->series[i]);
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}
