/* SPDX-License-Identifier: MIT */
#include "fleet_train_offers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/json.h"
#include "common/xalloc.h"
#include "model/forecast_doc.h"
#include "plan/fleet.h"

enum { TYPE, SPOT_USD, ON_DEMAND_USD, ZONE, QUOTA, COLUMNS };
enum { QUOTA_DEFAULT = 10 }; /* spotDNN's, where a catalogue has none */

/* An empty price: not for sale in that market. */
static int on_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct train_offers *o = user;
    const char *market = o->options->market;
    int64_t quota = QUOTA_DEFAULT;

    if (!*row->field[TYPE])
        return spot_csv_fail(row, TYPE, err, "expected a name");
    if (row->field[QUOTA] && *row->field[QUOTA] &&
        spot_csv_int(row, QUOTA, 0, SPOT_DNN_QUOTA_MAX, &quota, err))
        return -1;
    for (size_t k = SPOT_USD; k <= ON_DEMAND_USD; k++) {
        const bool is_spot = k == SPOT_USD;
        double usd_per_h;

        if (!row->field[k] || !*row->field[k] || (is_spot && !strcmp(market, "on-demand")) ||
            (!is_spot && !strcmp(market, "spot")))
            continue;
        if (spot_csv_real(row, k, 0, 1e6, &usd_per_h, err))
            return -1;
        if (!o->runs(row->field[TYPE], o->user))
            continue;
        o->offer = spot_xgrow(o->offer, &o->cap, o->n + 1, sizeof(*o->offer));
        o->offer[o->n++] = (struct train_offer){
            .zone = spot_xstrdup(row->field[ZONE] ? row->field[ZONE] : ""),
            .type = spot_xstrdup(row->field[TYPE]),
            .is_spot = is_spot,
            .usd_per_h = usd_per_h,
            .loss_per_h = is_spot ? o->options->loss_per_h : 0,
            .quota = quota,
        };
    }
    return 0;
}

static int read_catalogue(struct train_offers *o, struct spot_prov *prov, struct spot_err *err)
{
    static const char *const want[COLUMNS] = { "instance_type", "?spot_usd_per_h",
                                               "?on_demand_usd_per_h", "?zone", "?quota" };
    const char *source;
    FILE *in = spot_tool_open(o->options->catalogue, &source, err);
    uint64_t xxh3;
    int rc;

    if (!in)
        return -1;
    rc = spot_csv_read(in, source, want, COLUMNS, on_row, o, &xxh3, err);
    if (in != stdin)
        fclose(in);
    if (!rc && !o->n)
        rc = spot_err_set(err, SPOT_EDATA,
                          "%s: no row has a type of the job's and a price in the market '%s'",
                          source, o->options->market);
    if (!rc)
        spot_prov_add(prov, source, xxh3);
    return rc;
}

/* Losses of an instance an hour, by the next interval's. */
static double loss_per_h(const struct spot_forecast *f, const struct spot_forecast_series *s)
{
    double lost = 0;

    for (size_t i = 0; i < s->n_change; i++)
        lost += s->change[i].prob * s->change[i].lost;
    return s->now > 0 ? lost / (double)s->now / f->interval_s * 3600 : 0;
}

/* A series is of the offers of its zone and type; one without a name is of all. Of what is forecast
 * no more is bought than there is now. */
static int read_forecast(struct train_offers *o, struct spot_prov *prov, struct spot_err *err)
{
    struct spot_forecast f = { 0 };
    struct spot_json_doc json;
    int rc;

    if (!o->options->forecast)
        return 0;
    if (spot_json_load_path(&json, o->options->forecast, err))
        return -1;
    rc = spot_forecast_read(&json, &f, err);
    for (size_t i = 0; !rc && i < f.n_series; i++)
        for (size_t k = 0; k < o->n; k++) {
            const struct spot_forecast_series *s = &f.series[i];
            struct train_offer *offer = &o->offer[k];

            if (!offer->is_spot ||
                (*s->zone && *offer->zone && strcmp(s->zone, offer->zone) != 0) ||
                (*s->instance_type && strcmp(s->instance_type, offer->type) != 0))
                continue;
            offer->loss_per_h = loss_per_h(&f, s);
            offer->quota = offer->quota < s->now ? offer->quota : s->now;
        }
    if (!rc)
        spot_prov_add(prov, json.source, json.hash);
    spot_forecast_release(&f);
    spot_json_release(&json);
    return rc;
}

/* "[ZONE/]TYPE[:MARKET]=COUNT" */
static int hold(struct train_offers *o, char *word, struct spot_err *err)
{
    char *count = strchr(word, '='), *market, *type = strchr(word, '/'), *end = NULL;
    const char *zone = type ? word : NULL;
    long n = -1;

    if (count) {
        *count++ = '\0';
        n = strtol(count, &end, 10);
    }
    if (!count || end == count || *end || n < 0 || n > SPOT_DNN_QUOTA_MAX)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--current: expected [ZONE/]TYPE[:MARKET]=COUNT, got '%.64s'", word);
    if (type)
        *type++ = '\0';
    else
        type = word;
    if ((market = strchr(type, ':')))
        *market++ = '\0';
    for (size_t k = 0; k < o->n; k++) {
        struct train_offer *offer = &o->offer[k];

        if (strcmp(offer->type, type) != 0 || (zone && strcmp(offer->zone, zone) != 0) ||
            (market && strcmp(market, offer->is_spot ? "spot" : "on-demand") != 0))
            continue;
        offer->held += n;
        return 0;
    }
    return spot_err_set(err, SPOT_EUSAGE, "--current: the catalogue offers no '%.64s'", type);
}

static int read_current(struct train_offers *o, struct spot_err *err)
{
    char *copy, *rest, *word;
    int rc = 0;

    if (!o->options->current)
        return 0;
    copy = rest = spot_xstrdup(o->options->current);
    while (!rc && (word = strtok_r(rest, ",", &rest)))
        rc = hold(o, word, err);
    free(copy);
    return rc;
}

int train_offers_read(struct train_offers *o, struct spot_prov *prov, struct spot_err *err)
{
    return read_catalogue(o, prov, err) || read_forecast(o, prov, err) || read_current(o, err) ? -1
                                                                                               : 0;
}

void train_offers_release(struct train_offers *o)
{
    for (size_t k = 0; k < o->n; k++) {
        free(o->offer[k].zone);
        free(o->offer[k].type);
    }
    free(o->offer);
}
