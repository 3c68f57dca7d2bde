/* SPDX-License-Identifier: MIT */
/* spot-plan fleet --kind replicas: how many replicas to hold on spot in each zone and on demand, so
 * that as many as wanted answer. One call of the decision that spot-replay fleet makes in every
 * tick. */
#include "plan_fleet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/num.h"
#include "common/out.h"
#include "common/prov.h"
#include "common/xalloc.h"
#include "model/catalogue.h"
#include "model/forecast_doc.h"
#include "plan_commands.h"
#include "trace/load_trace.h"

enum { ZONES = SPOT_HOLD_ZONES_MAX };

struct session {
    const struct plan_fleet_hold *o;
    struct spot_json_doc json;
    struct spot_forecast forecast;
    struct spot_hold_rule rule;
    double usd_per_h[ZONES]; /* price of spot */
    bool has_own[ZONES];     /* the zone has a price of its own */
    double notice_s[ZONES];  /* notice of the row with the price */
    int cold[ZONES];
    char *on_demand_type;
    char *first_type; /* first type in the catalogue */
    int spot[ZONES], spot_ready[ZONES];
    struct spot_hold_now now;
    struct spot_action action;
    char state[SPOT_DECISION_STATE_MAX];
    struct spot_prov prov;
};

/* --- prices: of the zone if given, else of the type --- */

/* A series without a type has that of the catalogue, which must have only one. */
static int check_type(struct session *s, const struct spot_catalogue_row *row, struct spot_err *err)
{
    bool is_typed = true;

    for (size_t z = 0; z < s->forecast.n_series; z++)
        is_typed = is_typed && *s->forecast.series[z].instance_type;
    if (!s->first_type)
        s->first_type = spot_xstrdup(row->type);
    if (!is_typed && strcmp(row->type, s->first_type) != 0)
        return spot_csv_fail(row->csv, SPOT_CATALOGUE_TYPE, err,
                             "a series of the forecast has no type: '%.64s' or '%.64s'?",
                             s->first_type, row->type);
    return 0;
}

static int on_price(const struct spot_catalogue_row *row, void *user, struct spot_err *err)
{
    struct session *s = user;
    const double on_demand = row->usd_per_h[0], spot = row->usd_per_h[1];
    bool is_of_type = false;

    if (spot_catalogue_need_price(row, err) || check_type(s, row, err))
        return -1;
    for (size_t z = 0; z < s->forecast.n_series; z++) {
        const struct spot_forecast_series *series = &s->forecast.series[z];

        if (*series->instance_type && strcmp(series->instance_type, row->type) != 0)
            continue;
        is_of_type = true;
        if (!(spot > 0) || (*row->zone ? strcmp(row->zone, series->zone) != 0 : s->has_own[z]))
            continue;
        s->usd_per_h[z] = spot;
        s->notice_s[z] = row->notice_s;
        s->has_own[z] = *row->zone;
    }
    if (is_of_type && on_demand > 0 &&
        (!s->on_demand_type || on_demand < s->rule.on_demand_usd_per_h)) {
        free(s->on_demand_type);
        s->on_demand_type = spot_xstrdup(row->type);
        s->rule.on_demand_usd_per_h = on_demand;
    }
    return 0;
}

static int read_prices(struct session *s, struct spot_err *err)
{
    if (spot_catalogue_read(s->o->catalogue, on_price, s, &s->prov, err))
        return -1;
    for (size_t z = 0; z < s->forecast.n_series; z++)
        if (!(s->usd_per_h[z] > 0))
            return spot_err_set(err, SPOT_EDATA, "%s: no price on spot of '%.64s' in '%.64s'",
                                s->o->catalogue, s->forecast.series[z].instance_type,
                                s->forecast.series[z].zone);
    if (!s->on_demand_type)
        return spot_err_set(err, SPOT_EDATA, "%s: no price on demand of the forecast's types",
                            s->o->catalogue);
    s->now.usd_per_h = s->usd_per_h;
    return 0;
}

/* --- the load of past ticks, in replicas --- */

static size_t before(const struct spot_load *load, double time_s)
{
    size_t low = 0, high = load->n;

    while (low < high) {
        const size_t middle = (low + high) / 2;

        *(load->time_s[middle] < time_s ? &low : &high) =
            load->time_s[middle] < time_s ? middle + 1 : middle;
    }
    return low;
}

static int read_load(struct session *s, struct spot_err *err)
{
    const double tick_s = s->forecast.interval_s, now_s = s->forecast.series[0].time_s;
    struct spot_load load = { 0 };

    s->now.load_most = -1;
    if (!s->o->requests)
        return 0;
    if (spot_load_read_path(&load, s->o->requests, 0, err))
        return -1;
    spot_prov_add(&s->prov, s->o->requests, load.xxh3);
    for (int back = SPOT_HOLD_LOAD_TICKS; back >= 1; back--) {
        const size_t n =
            before(&load, now_s - (back - 1) * tick_s) - before(&load, now_s - back * tick_s);

        s->now.load = (double)n / tick_s / s->o->per_replica;
        s->now.load_most = fmax(s->now.load_most, s->now.load);
    }
    spot_load_release(&load);
    return 0;
}

/* --- running replicas --- */

static int read_count(const char *text, int *count)
{
    double n;

    if (spot_num_parse(text, &n) || !(n >= 0 && n <= SPOT_FORECAST_CAP_MAX) || n != floor(n))
        return -1;
    *count = (int)n;
    return 0;
}

/* Parses N[+M]: N replicas answer, M do not yet. */
static int read_counts(const char *word, const char *text, int *all, int *ready,
                       struct spot_err *err)
{
    char *copy = spot_xstrdup(text), *more = strchr(copy, '+');
    int cold = 0, rc;

    if (more)
        *more++ = '\0';
    rc = read_count(copy, ready) || (more && read_count(more, &cold));
    free(copy);
    *all = *ready + cold;
    return rc ? spot_err_set(err, SPOT_EUSAGE,
                             "--current: '%.64s' is not ZONE/TYPE=N[+M] or on-demand=N[+M]", word)
              : 0;
}

static int hold(struct session *s, const char *word, struct spot_err *err)
{
    const char *equal = strrchr(word, '=');
    const size_t length = equal ? (size_t)(equal - word) : 0;

    if (length == strlen("on-demand") && !strncmp(word, "on-demand", length))
        return read_counts(word, equal + 1, &s->now.on_demand, &s->now.on_demand_ready, err);
    for (size_t z = 0; equal && z < s->forecast.n_series; z++) {
        const struct spot_forecast_series *series = &s->forecast.series[z];
        const size_t zone = strlen(series->zone), type = strlen(series->instance_type);

        if (length == zone + 1 + type && !strncmp(word, series->zone, zone) && word[zone] == '/' &&
            !strncmp(word + zone + 1, series->instance_type, type))
            return read_counts(word, equal + 1, &s->spot[z], &s->spot_ready[z], err);
    }
    return spot_err_set(err, SPOT_EUSAGE, "--current: '%.64s' is of no series of the forecast",
                        word);
}

static int read_current(struct session *s, struct spot_err *err)
{
    char *copy = spot_xstrdup(s->o->current ? s->o->current : ""), *rest = copy, *word;
    int rc = 0;

    s->now.wanted = (int)s->o->n;
    s->now.spot = s->spot;
    s->now.spot_ready = s->spot_ready;
    while (!rc && (word = strtok_r(rest, ",", &rest)))
        rc = hold(s, word, err);
    free(copy);
    return rc;
}

/* --- the answer --- */

static int decide(struct session *s, struct spot_err *err)
{
    const struct spot_policy *policy = &spot_policy_fleet;
    const struct spot_seen seen = { .time_s = s->forecast.series[0].time_s,
                                    .forecast = &s->forecast,
                                    .fleet = &s->now };
    struct spot_decider *decider = policy->open(&(struct spot_rule){ .fleet = &s->rule });
    const int rc =
        plan_state_read(s->o->state, s->state, err) || policy->restore(decider, s->state, err) ||
        policy->observe(decider, &seen, err) || policy->decide(decider, &s->action, NULL, err);

    policy->save(decider, s->state);
    policy->close(decider);
    return rc ? -1 : 0;
}

static void write_offer(struct spot_jw *jw, const char *zone, const char *type, const char *market,
                        int count)
{
    if (!count)
        return;
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "zone", zone);
    spot_jw_str(jw, "instance_type", type);
    spot_jw_str(jw, "market", market);
    spot_jw_int(jw, "count", count);
    spot_jw_end(jw);
}

static int write_json(const struct session *s, FILE *out, struct spot_err *err)
{
    const struct spot_hold_step *step = &s->action.fleet;
    double usd_per_h = step->on_demand * s->rule.on_demand_usd_per_h;
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.plan", 1, &s->prov);
    spot_jw_str(&jw, "kind", "fleet");
    spot_jw_real(&jw, "time_s", s->forecast.series[0].time_s);
    spot_jw_array(&jw, "buy");
    for (size_t z = 0; z < s->forecast.n_series; z++) {
        usd_per_h += step->spot[z] * s->usd_per_h[z];
        write_offer(&jw, s->forecast.series[z].zone, s->forecast.series[z].instance_type, "spot",
                    step->spot[z]);
    }
    write_offer(&jw, "", s->on_demand_type, "on-demand", step->on_demand);
    spot_jw_end(&jw);
    spot_jw_object(&jw, "expected");
    spot_jw_real(&jw, "usd_per_h", usd_per_h);
    spot_jw_real(&jw, "miss", step->miss);
    spot_jw_int(&jw, "wanted", step->wanted);
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

static int run(struct session *s, struct spot_err *err)
{
    const struct plan_fleet_hold *o = s->o;
    struct spot_out out;

    if (spot_json_load_path(&s->json, o->forecast, err) ||
        spot_forecast_read_instances(&s->json, &s->forecast, err))
        return -1;
    spot_prov_add(&s->prov, s->json.source, s->json.hash);
    if (!s->forecast.n_series || s->forecast.n_series > ZONES)
        return spot_json_fail(&s->json, "/series", err, "has %zu, expected 1 to %d",
                              s->forecast.n_series, ZONES);
    if (ceil(o->cold_s / s->forecast.interval_s - 1e-9) > (double)s->forecast.horizon)
        return spot_json_fail(&s->json, "/horizon", err,
                              "%lld steps of %g s end before a cold start of %g s: spot-predict "
                              "--horizon",
                              (long long)s->forecast.horizon, s->forecast.interval_s, o->cold_s);
    s->rule.availability = o->availability;
    s->rule.cold = (int)fmin(1e6, fmax(1, ceil(o->cold_s / s->forecast.interval_s - 1e-9)));
    if (read_prices(s, err))
        return -1;
    for (size_t z = 0; z < s->forecast.n_series; z++)
        s->cold[z] = (int)fmin(
            1e6, fmax(1, ceil((o->cold_s - s->notice_s[z]) / s->forecast.interval_s - 1e-9)));
    s->now.cold = s->cold;
    if (read_load(s, err) || read_current(s, err) || decide(s, err) ||
        spot_out_open(&out, o->common->output, err))
        return -1;
    return spot_out_finish(&out, write_json(s, out.file, err), err) ||
                   plan_state_write(o->state, s->state, err)
               ? -1
               : 0;
}

int plan_fleet_hold(const struct plan_fleet_hold *options, struct spot_err *err)
{
    struct session *s = spot_xcalloc(1, sizeof(*s));
    int rc;

    s->o = options;
    s->prov = (struct spot_prov){ .tool = "spot-plan",
                                  .seed = options->common->seed,
                                  .is_off = !options->common->provenance };
    rc = run(s, err);
    free(s->on_demand_type);
    free(s->first_type);
    spot_forecast_release(&s->forecast);
    spot_prov_release(&s->prov);
    spot_json_release(&s->json);
    free(s);
    return rc;
}
