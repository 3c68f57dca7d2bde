/* SPDX-License-Identifier: MIT */
#include "model/forecast_start.h"

#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"
#include "model/forecast_doc.h"

#define START(member) offsetof(struct spot_forecast_start, member)
const struct spot_field spot_forecast_start_field[] = {
    { "granted", SPOT_F_REAL, START(granted), "1", 0, 1, true },
    { "stays_1h", SPOT_F_REAL, START(stays_1h), "1", 0, 1, true },
    { "probe_age_s", SPOT_F_REAL, START(probe_age_s), "s", 0, 1e15, true },
    { "probes", SPOT_F_INT, START(probes), "1", 0, 1e15, true },
    { 0 },
};

const struct spot_field spot_forecast_start_price_field[] = {
    { "price_usd_per_h", SPOT_F_REAL, START(usd_per_h), "usd", 0, 1e9, false },
    { 0 },
};

#define SHOCK(member) offsetof(struct spot_forecast_shock, member)
const struct spot_field spot_forecast_shock_field[] = {
    { "own_per_h", SPOT_F_REAL, SHOCK(own_per_h), "1", 0, 1e6, true },
    { "shock_per_h", SPOT_F_REAL, SHOCK(shock_per_h), "1", 0, 1e6, true },
    { "reach", SPOT_F_REAL, SHOCK(reach), "1", 0, 1, true },
    { "together", SPOT_F_REAL, SHOCK(together), "1", 0, 1, true },
    { 0 },
};

static int read_stays(const struct spot_json_doc *doc, const struct spot_json_value *obj,
                      const char *at, int64_t horizon, double *stays, struct spot_err *err)
{
    char at_k[SPOT_JSON_POINTER_MAX];
    const struct spot_json_value *array;

    if (spot_json_array(doc, obj, at, "stays", true, SPOT_FORECAST_HORIZON_MAX, &array, err))
        return -1;
    snprintf(at_k, sizeof(at_k), "%.200s/stays", at);
    if ((int64_t)spot_json_array_size(array) != horizon)
        return spot_json_fail(doc, at_k, err, "expected %lld steps (the horizon), got %zu",
                              (long long)horizon, spot_json_array_size(array));
    for (int64_t k = 0; k < horizon; k++) {
        const struct spot_json_value *value = spot_json_entry(array, (size_t)k);

        stays[k] = spot_json_is_number(value) ? spot_json_number(value) : NAN;
        if (!(stays[k] >= 0 && stays[k] <= (k ? stays[k - 1] : 1) + 1e-6)) {
            snprintf(at_k, sizeof(at_k), "%.200s/stays/%d", at, (int)k);
            return spot_json_fail(doc, at_k, err, "expected a probability, no more than before");
        }
    }
    return 0;
}

int spot_forecast_start_read(const struct spot_json_doc *doc, const struct spot_json_value *series,
                             const char *pointer, int64_t horizon, struct spot_forecast_start **out,
                             struct spot_err *err)
{
    const struct spot_json_value *obj;
    char at[SPOT_JSON_POINTER_MAX];

    if (spot_json_object(doc, series, pointer, "start", false, &obj, err))
        return -1;
    if (!obj)
        return 0;
    snprintf(at, sizeof(at), "%.200s/start", pointer);
    *out = spot_xcalloc(1, sizeof(**out));
    (*out)->usd_per_h = NAN;
    (*out)->stays = spot_xcalloc((size_t)horizon, sizeof(double));
    if (spot_json_read_fields(doc, obj, at, spot_forecast_start_field, *out, err) ||
        spot_json_read_fields(doc, obj, at, spot_forecast_start_price_field, *out, err))
        return -1;
    return read_stays(doc, obj, at, horizon, (*out)->stays, err);
}

int spot_forecast_shock_read(const struct spot_json_doc *doc, const struct spot_json_value *series,
                             const char *pointer, struct spot_forecast_shock **out,
                             struct spot_err *err)
{
    const struct spot_json_value *obj;
    char at[SPOT_JSON_POINTER_MAX];

    if (spot_json_object(doc, series, pointer, "shock", false, &obj, err))
        return -1;
    if (!obj)
        return 0;
    snprintf(at, sizeof(at), "%.200s/shock", pointer);
    *out = spot_xcalloc(1, sizeof(**out));
    return spot_json_read_fields(doc, obj, at, spot_forecast_shock_field, *out, err);
}

void spot_forecast_start_write(struct spot_jw *jw, const struct spot_forecast_start *start,
                               int64_t horizon)
{
    if (!start)
        return;
    spot_jw_object(jw, "start");
    spot_jw_fields(jw, spot_forecast_start_field, start);
    spot_jw_known(jw, "price_usd_per_h", start->usd_per_h);
    spot_jw_reals(jw, "stays", start->stays, (size_t)horizon);
    spot_jw_end(jw);
}

void spot_forecast_shock_write(struct spot_jw *jw, const struct spot_forecast_shock *shock)
{
    if (!shock)
        return;
    spot_jw_object(jw, "shock");
    spot_jw_fields(jw, spot_forecast_shock_field, shock);
    spot_jw_end(jw);
}

void spot_forecast_start_free(struct spot_forecast_start *start)
{
    if (start)
        free(start->stays);
    free(start);
}
