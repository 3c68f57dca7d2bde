/* SPDX-License-Identifier: MIT */
#include "plan_fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/xalloc.h"
#include "model/catalogue.h"
#include "model/forecast_doc.h"
#include "plan/fleet.h"

enum { QUOTA_DEFAULT = 10 }; /* spotDNN's quota, used if a catalogue has none */

static int on_row(const struct spot_catalogue_row *row, void *user, struct spot_err *err)
{
    struct train_offers *o = user;

    if (spot_catalogue_need_price(row, err))
        return -1;
    if (row->quota > SPOT_DNN_QUOTA_MAX)
        return spot_csv_fail(row->csv, SPOT_CATALOGUE_QUOTA, err, "expected at most %d",
                             SPOT_DNN_QUOTA_MAX);
    for (int is_spot = 1; is_spot >= 0; is_spot--) {
        if (row->usd_per_h[is_spot] < 0 || !o->runs(row->type, o->user) ||
            !strcmp(o->options->market, is_spot ? "on-demand" : "spot"))
            continue;
        o->offer = spot_xgrow(o->offer, &o->cap, o->n + 1, sizeof(*o->offer));
        o->offer[o->n++] = (struct train_offer){
            .zone = spot_xstrdup(row->zone),
            .type = spot_xstrdup(row->type),
            .is_spot = is_spot,
            .usd_per_h = row->usd_per_h[is_spot],
            .loss_per_h = is_spot ? o->options->loss_per_h : 0,
            .quota = row->quota < 0 ? QUOTA_DEFAULT : row->quota,
        };
    }
    return 0;
}

static int read_catalogue(struct train_offers *o, struct spot_prov *prov, struct spot_err *err)
{
    const char *path = o->options->catalogue;

    if (spot_catalogue_read(path, on_row, o, prov, err))
        return -1;
    return o->n ? 0
                : spot_err_set(err, SPOT_EDATA,
                               "%s: no row has a type of the job's and a price in the market '%s'",
                               path, o->options->market);
}

/* Losses of an instance per hour, from those of the next interval. */
static double loss_per_h(const struct spot_forecast *f, const struct spot_forecast_series *s)
{
    double lost = 0;

    for (size_t i = 0; i < s->n_change; i++)
        lost += s->change[i].prob * s->change[i].lost;
    return s->now > 0 ? lost / (double)s->now / f->interval_s * 3600 : 0;
}

/* A series belongs to the offers of its zone and type; one without a zone or type to all of them.
 * No more instances are bought than the series has now. */
static int read_forecast(struct train_offers *o, struct spot_prov *prov, struct spot_err *err)
{
    struct spot_forecast f = { 0 };
    struct spot_json_doc json;
    int rc;

    if (!o->options->forecast)
        return 0;
    if (spot_json_load_path(&json, o->options->forecast, err))
        return -1;
    rc = spot_forecast_read_instances(&json, &f, err);
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

/* Parses "[ZONE/]TYPE[:MARKET]=COUNT". */
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
