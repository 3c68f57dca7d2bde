/* SPDX-License-Identifier: MIT */
#include "plan/market_read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "model/catalogue.h"
#include "trace/region.h"

static int add_restart(struct spot_market *m, char *word, struct spot_err *err)
{
    char *prob = strchr(word, ':'), *end = NULL;
    const size_t n = m->n_restart;

    if (n == SPOT_MARKET_RESTARTS_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "--restart: more than %d times",
                            SPOT_MARKET_RESTARTS_MAX);
    if (prob)
        *prob++ = '\0';
    m->restart_prob[n] = prob ? strtod(prob, &end) : 1;
    if (spot_num_parse_secs(word, &m->restart_s[n]) || m->restart_s[n] < 0 ||
        (prob && (end == prob || *end || !(m->restart_prob[n] > 0 && m->restart_prob[n] <= 1))))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--restart: expected TIME or TIME:PROBABILITY,.., got '%.64s'", word);
    m->n_restart++;
    return 0;
}

int spot_market_parse_restart(struct spot_market *market, const char *text, struct spot_err *err)
{
    char *copy = spot_xstrdup(text), *next;
    int rc = 0;

    market->n_restart = 0;
    for (char *word = copy; word && !rc; word = next) {
        next = strchr(word, ',');
        if (next)
            *next++ = '\0';
        rc = add_restart(market, word, err);
    }
    free(copy);
    return rc;
}

bool spot_market_takes_zone(const char *list, const char *zone)
{
    const size_t n = strlen(zone);

    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, zone, n) && (!at[n] || at[n] == ','))
            return true;
    return !list;
}

int spot_market_add_place(struct spot_market *m, struct spot_market_names *names, const char *zone,
                          const char *type, double spot_usd_per_h, double on_demand_usd_per_h,
                          struct spot_err *err)
{
    const size_t n = m->n_place;
    int region = (int)n;

    if (n == SPOT_MARKET_PLACES_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "more than %d places: --zone names some",
                            SPOT_MARKET_PLACES_MAX);
    for (size_t k = n; k-- > 0;)
        if (spot_region_is_same(names->zone[k], zone) || !strcmp(names->zone[k], zone))
            region = m->place[k].region;
    names->zone[n] = zone;
    names->type[n] = type;
    m->place[n] = (struct spot_market_place){ .spot_usd_per_h = spot_usd_per_h,
                                              .on_demand_usd_per_h = on_demand_usd_per_h,
                                              .speed = 1,
                                              .region = region,
                                              .quota = -1 };
    m->n_place++;
    return 0;
}

static int by_zone(const void *a, const void *b)
{
    const struct spot_trace_series *x = *(const struct spot_trace_series *const *)a,
                                   *y = *(const struct spot_trace_series *const *)b;
    const int zone = strcmp(x->zone, y->zone);

    return zone ? zone : strcmp(x->instance_type, y->instance_type);
}

void spot_market_sort_series(const struct spot_trace *trace,
                             const struct spot_trace_series **sorted)
{
    for (size_t i = 0; i < trace->n_series; i++)
        sorted[i] = &trace->series[i];
    qsort(sorted, trace->n_series, sizeof(const struct spot_trace_series *), by_zone);
}

bool spot_market_read_prices(const struct spot_trace_series *series, double start_s, double tick_s,
                             size_t n, double else_usd, double *usd_per_h, size_t stride)
{
    bool has = false;

    for (size_t i = 0; i < n; i++) {
        const size_t row = spot_trace_find(series, start_s + (double)i * tick_s + 1e-6);
        const double usd = row && series->price_usd_per_h ? series->price_usd_per_h[row - 1] : NAN;

        usd_per_h[i * stride] = isnan(usd) ? else_usd : usd;
        has = has || !isnan(usd);
    }
    return has;
}

int64_t spot_market_learn_ticks(const struct spot_market *m, double learn_s)
{
    const double h = m->n_place > SPOT_MARKET_EXACT_MAX ? 2 : 24;

    return (int64_t)ceil((learn_s > 0 ? learn_s : h * 3600) / m->tick_s);
}

struct reader {
    struct spot_market *market;
    const struct spot_market_names *names;
    double state_gb;
    bool has_row[SPOT_MARKET_PLACES_MAX];
};

static int on_row(const struct spot_catalogue_row *row, void *user, struct spot_err *err)
{
    struct reader *r = user;

    for (size_t k = 0; k < r->market->n_place; k++) {
        struct spot_market_place *p = &r->market->place[k];

        if (strcmp(row->type, r->names->type[k]) != 0 ||
            (*row->zone && strcmp(row->zone, r->names->zone[k]) != 0))
            continue;
        if (row->usd_per_h[true] < 0 && p->spot_usd_per_h < 0)
            return spot_csv_fail(row->csv, SPOT_CATALOGUE_SPOT_USD, err,
                                 "no price of spot for type '%.64s' in zone '%.64s': none here%s",
                                 r->names->type[k], r->names->zone[k], r->names->elsewhere);
        if (row->usd_per_h[true] >= 0)
            p->spot_usd_per_h = row->usd_per_h[true];
        p->on_demand_usd_per_h = row->usd_per_h[false] < 0 ? INFINITY : row->usd_per_h[false];
        p->speed = row->speed;
        p->quota = row->quota;
        p->leave_usd = r->state_gb * row->egress_usd_per_gb;
        p->leave_s = row->egress_byte_per_s > 0 ? r->state_gb * 1e9 / row->egress_byte_per_s : 0;
        r->has_row[k] = true;
    }
    return 0;
}

static int tell_missing(const struct spot_market_names *names, size_t k, const char *path,
                        const char *source, struct spot_err *err)
{
    if (*names->type[k])
        return spot_err_set(err, SPOT_EDATA, "%s: no row for type '%.64s' in zone '%.64s'", path,
                            names->type[k], names->zone[k]);
    if (!source)
        return spot_err_set(err, SPOT_EUSAGE,
                            "the prices of '%s' are by type: a trace or forecast has to name it",
                            path);
    return spot_err_set(err, SPOT_EDATA,
                        "%s: instance_type is missing: the prices of '%s' are by it", source, path);
}

int spot_market_read_catalogue(struct spot_market *market, const struct spot_market_names *names,
                               double state_gb, const char *path, const char *source,
                               struct spot_prov *prov, struct spot_err *err)
{
    struct reader r = { .market = market, .names = names, .state_gb = state_gb };

    if (spot_catalogue_read(path, on_row, &r, prov, err))
        return -1;
    for (size_t k = 0; k < market->n_place; k++)
        if (!r.has_row[k])
            return tell_missing(names, k, path, source, err);
    return 0;
}
