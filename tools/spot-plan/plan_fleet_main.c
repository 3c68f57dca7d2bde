/* SPDX-License-Identifier: MIT */
/* spot-plan fleet - catalogue and load in, instances and shares out. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/out.h"
#include "common/prov.h"
#include "common/xalloc.h"
#include "model/catalogue.h"
#include "model/plan_doc.h"
#include "peers/melange.h"
#include "plan_commands.h"
#include "plan_fleet.h"

static struct plan_fleet_train train = { .solver = "spot" };
static struct plan_fleet_hold hold = { .n = 1, .availability = 0.9995 };
static struct plan_fleet_options o = { .common = SPOT_TOOL_COMMON_DEFAULT,
                                       .kind = "serve",
                                       .policy = "spot",
                                       .rho = 0.9,
                                       .limit_s = 60,
                                       .unserved = 0.01,
                                       .time_s = -1,
                                       .window_s = 60 };

/* --- input --- */

static void add_offer(struct plan_fleet *s, const struct spot_catalogue_row *row, bool is_spot)
{
    const double expected = plan_fleet_price(s, row->zone, row->type, is_spot);
    const size_t n = s->demand.n_offer++;

    s->offer = spot_xgrow(s->offer, &s->cap_offer, n + 1, sizeof(*s->offer));
    s->priced = spot_xgrow(s->priced, &s->cap_priced, n + 1, sizeof(*s->priced));
    s->offer[n] =
        (struct plan_fleet_offer){ spot_xstrdup(row->zone), spot_xstrdup(row->type), is_spot };
    s->priced[n] =
        (struct spot_fleet_offer){ s->offer[n].type,
                                   expected >= 0 ? expected : row->usd_per_h[is_spot], row->quota };
}

static int on_row(const struct spot_catalogue_row *row, void *user, struct spot_err *err)
{
    struct plan_fleet *s = user;

    if (spot_catalogue_need_price(row, err))
        return -1;
    for (int is_spot = 1; is_spot >= 0; is_spot--) {
        if (row->usd_per_h[is_spot] < 0 || !strcmp(o.market, is_spot ? "on-demand" : "spot"))
            continue;
        if (s->demand.n_offer == SPOT_FLEET_TYPES_MAX)
            return spot_csv_fail(row->csv, SPOT_CATALOGUE_TYPE, err, "more than %d offers",
                                 SPOT_FLEET_TYPES_MAX);
        add_offer(s, row, is_spot);
    }
    return 0;
}

static int read_catalogue(struct plan_fleet *s, struct spot_err *err)
{
    if (spot_catalogue_read(o.catalogue, on_row, s, &s->prov, err))
        return -1;
    s->demand.offer = s->priced;
    if (!s->demand.n_offer)
        return spot_err_set(err, SPOT_EDATA, "%s: no row has a price in the market '%s'",
                            o.catalogue, o.market);
    return 0;
}

static int read_load(struct plan_fleet *s, struct spot_err *err)
{
    const size_t n_offer = s->demand.n_offer;
    size_t n;

    if (spot_json_load_path(&s->json, o.load, err) || spot_demand_read(&s->json, &s->doc, err))
        return -1;
    s->demand.n_bucket = n = s->doc.n_bucket;
    if (n * n_offer > 1 << 20)
        return spot_json_fail(&s->json, "/buckets", err, "%zu times %zu offers are more than %d", n,
                              n_offer, 1 << 20);
    spot_prov_add(&s->prov, s->json.source, s->json.hash);
    s->bucket = spot_xcalloc(n, sizeof(*s->bucket));
    s->rate_per_s = spot_xcalloc(n, sizeof(double));
    s->per_s = spot_xcalloc(n * n_offer, sizeof(double));
    s->demand.bucket = s->bucket;
    s->demand.rate_per_s = s->rate_per_s;
    s->demand.per_s = s->per_s;
    for (size_t b = 0; b < n; b++) {
        s->bucket[b] = s->doc.bucket[b].name;
        s->rate_per_s[b] = s->doc.bucket[b].rate_per_s;
        for (size_t g = 0; g < n_offer; g++)
            s->per_s[b * n_offer + g] = spot_demand_per_s(&s->doc.bucket[b], s->offer[g].type);
    }
    return 0;
}

/* --- the answer --- */

char *plan_fleet_why(struct plan_fleet *s)
{
    static char spare[PLAN_FLEET_WHY];

    if (s->n_why >= PLAN_FLEET_WHY_MAX)
        return spare;

    s->why = spot_xgrow(s->why, &s->cap_why, s->n_why + 1, sizeof(*s->why));
    return s->why[s->n_why++];
}

static const char *market_of(const struct plan_fleet_offer *offer)
{
    return offer->is_spot ? "spot" : "on-demand";
}

/* "A10G in us-east-1a, spot" */
static const char *name_of(const struct plan_fleet_offer *offer, char text[160])
{
    snprintf(text, 160, "%.64s%s%.64s, %s", offer->type, *offer->zone ? " in " : "", offer->zone,
             market_of(offer));
    return text;
}

static void explain(struct plan_fleet *s)
{
    const double until_s = spot_clock_cpu_s() + o.limit_s;
    const struct spot_fleet_answer *a = &s->answer;

    snprintf(plan_fleet_why(s), PLAN_FLEET_WHY, "%s",
             s->is_waiting   ? "the fleet held stays"
             : !a->is_proven ? "time ran out: see gap"
             : s->is_risk    ? "no fleet that keeps this limit costs less, within the gap"
                             : "no fleet costs less");
    for (size_t g = 0; g < s->demand.n_offer; g++) {
        double load = 0, worth, left_s;
        char name[160];

        for (size_t b = 0; b < s->demand.n_bucket; b++)
            if (a->share[b * s->demand.n_offer + g] > 0)
                load += s->rate_per_s[b] * a->share[b * s->demand.n_offer + g] /
                        s->per_s[b * s->demand.n_offer + g];
        if (a->count[g] && s->n_why < 48)
            snprintf(plan_fleet_why(s), PLAN_FLEET_WHY, "%lld x %s: %.1f %% busy",
                     (long long)a->count[g], name_of(&s->offer[g], name),
                     100 * load / (double)a->count[g]);
        if (!o.explain || s->is_risk || s->priced[g].quota < 0 || s->n_why >= 48)
            continue;
        left_s = until_s - spot_clock_cpu_s();
        worth = left_s > 0 ? spot_fleet_quota_worth(&s->demand, a, g, left_s) : NAN;
        if (worth > 1e-9 || (worth >= 0 && a->count[g] && a->count[g] == s->priced[g].quota))
            snprintf(plan_fleet_why(s), PLAN_FLEET_WHY,
                     "one more of the quota of %s, is worth %.4f usd/h",
                     name_of(&s->offer[g], name), worth > 0 ? worth : 0);
    }
}

static void write_buy(struct spot_jw *jw, const struct plan_fleet *s)
{
    spot_jw_array(jw, "buy");
    for (size_t g = 0; g < s->demand.n_offer; g++) {
        if (!s->answer.count[g])
            continue;
        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "zone", s->offer[g].zone);
        spot_jw_str(jw, "instance_type", s->offer[g].type);
        spot_jw_str(jw, "market", market_of(&s->offer[g]));
        spot_jw_int(jw, "count", s->answer.count[g]);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void write_route(struct spot_jw *jw, const struct plan_fleet *s)
{
    const size_t n_offer = s->demand.n_offer, n_cell = s->demand.n_bucket * n_offer;
    struct spot_plan_route *const route = spot_xcalloc(n_cell, sizeof(*route));
    struct number {
        char text[24];
    } *const number = spot_xcalloc(s->demand.n_bucket, sizeof(*number));
    size_t n = 0;

    for (size_t i = 0; i < n_cell; i++) {
        const struct spot_demand_bucket *const b = &s->doc.bucket[i / n_offer];
        const struct plan_fleet_offer *const offer = &s->offer[i % n_offer];

        if (!(s->answer.share[i] > 1e-12))
            continue;
        snprintf(number[i / n_offer].text, sizeof(number->text), "%zu", i / n_offer);
        route[n++] =
            (struct spot_plan_route){ .bucket = b->name ? b->name : number[i / n_offer].text,
                                      .type = offer->type,
                                      .zone = *offer->zone ? offer->zone : NULL,
                                      .market = market_of(offer),
                                      .prompt_token = b->prompt_token,
                                      .output_token = b->output_token,
                                      .share = s->answer.share[i],
                                      .first_s = b->first_s };
    }
    spot_plan_route_write(jw, route, n);
    free(number);
    free(route);
}

static void write_risk(struct spot_jw *jw, const struct plan_fleet *s)
{
    spot_jw_real(jw, "usd_per_h_paid", s->risk.usd_per_h_paid);
    spot_jw_int(jw, "scenarios", (int64_t)s->n_scenario);
    spot_jw_real(jw, "unserved_tail", s->risk.cvar);
    spot_jw_real(jw, "unserved_mean", s->risk.mean_unserved);
    spot_jw_real(jw, "short_prob", s->risk.short_prob);
    if (!s->has_fresh)
        return;
    spot_jw_object(jw, "fresh");
    spot_jw_int(jw, "scenarios", PLAN_FLEET_FRESH);
    spot_jw_real(jw, "unserved_tail", s->fresh.cvar);
    spot_jw_real(jw, "unserved_mean", s->fresh.mean_unserved);
    spot_jw_real(jw, "short_prob", s->fresh.short_prob);
    spot_jw_end(jw);
}

static void write_scale(struct spot_jw *jw, const struct plan_fleet *s)
{
    spot_jw_object(jw, "autoscale");
    spot_jw_str(jw, "side", spot_fleet_side_name[s->scale.side]);
    spot_jw_real(jw, "since_s", s->scale.since_s);
    spot_jw_end(jw);
}

static int write_json(const struct plan_fleet *s, FILE *out, struct spot_err *err)
{
    const struct spot_fleet_answer *a = &s->answer;
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.plan", 1, &s->prov);
    spot_jw_str(&jw, "kind", "fleet");
    if (s->is_risk)
        spot_jw_real(&jw, "time_s", s->time_s);
    write_buy(&jw, s);
    write_route(&jw, s);
    spot_jw_object(&jw, "expected");
    spot_jw_real(&jw, "usd_per_h", a->usd_per_h);
    if (s->is_risk)
        write_risk(&jw, s);
    spot_jw_end(&jw);
    if (s->is_scaled)
        write_scale(&jw, s);
    spot_jw_real(&jw, "bound", a->bound);
    spot_jw_real(&jw, "gap", a->usd_per_h > 0 ? fmax(0, 1 - a->bound / a->usd_per_h) : 0);
    spot_jw_array(&jw, "why");
    for (size_t i = 0; i < s->n_why; i++)
        spot_jw_str(&jw, NULL, s->why[i]);
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

static void print_table(const struct plan_fleet *s, FILE *out)
{
    struct spot_table table;

    spot_table_init(&table, "zone,instance_type,market,count#,usd/h#");
    for (size_t g = 0; g < s->demand.n_offer; g++) {
        if (!s->answer.count[g])
            continue;
        spot_table_add(&table, "%s %s %s %lld %.4f", s->offer[g].zone, s->offer[g].type,
                       market_of(&s->offer[g]), (long long)s->answer.count[g],
                       (double)s->answer.count[g] * s->priced[g].usd_per_h);
    }
    spot_table_print(&table, out, SPOT_FORMAT_TABLE);
    spot_table_release(&table);
    fprintf(out, "\n%.4f usd/h, none below %.4f\n", s->answer.usd_per_h, s->answer.bound);
    for (size_t i = 0; i < s->n_why; i++)
        fprintf(out, "%s\n", s->why[i]);
}

static int run(struct plan_fleet *s, struct spot_err *err)
{
    enum spot_format format;
    struct spot_out out;
    int rc = 0;

    if (spot_format_parse(o.common.format, &format, err))
        return -1;
    format = spot_format_settle(format, o.common.output, SPOT_FORMAT_JSON);
    if (!strcmp(o.policy, "melange") && !o.slices)
        return spot_err_set(err, SPOT_EUSAGE, "--policy melange needs --slices");
    if (!o.market)
        o.market = o.forecast ? "both" : "on-demand";
    s->is_risk = o.forecast || o.zone_max || o.current;
    if (s->is_risk && !strcmp(o.policy, "melange"))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--policy melange knows no --forecast, --zone-max or --current");
    s->demand.rho = strcmp(o.policy, "melange") != 0 ? o.rho : 1;
    if ((o.prices && plan_fleet_load_prices(s, err)) || read_catalogue(s, err) ||
        read_load(s, err) || (o.requests && plan_fleet_read_requests(s, err)) ||
        (o.current && plan_fleet_scale(s, err)))
        return -1;
    if (s->is_risk ? plan_fleet_solve_risk(s, err)
        : o.slices ? spot_melange_serve(&s->demand, (int64_t)o.slices, o.limit_s, &s->answer, err)
                   : spot_fleet_serve(&s->demand, o.limit_s, &s->answer, err))
        return -1;
    explain(s);
    plan_fleet_explain_prices(s);
    if (o.explain && !o.common.quiet && format != SPOT_FORMAT_TABLE)
        for (size_t i = 0; i < s->n_why; i++)
            fprintf(stderr, "%s\n", s->why[i]);
    if (spot_out_open(&out, o.common.output, err))
        return -1;
    if (format == SPOT_FORMAT_TABLE)
        print_table(s, out.file);
    else
        rc = write_json(s, out.file, err);
    return spot_out_finish(&out, rc, err);
}

static const struct spot_opt_need need[] = {
    { "slices", "policy melange" },
    { "unserved|cold-start", "forecast" },
    { "load|prices|rho|policy|zone-max|limit|unserved|time", "kind serve" },
    { "requests|cold-start", "!kind train" },
    { "per-replica|n|availability|state", "kind replicas" },
    { "per-replica|window", "requests" },
    { "market|explain", "!kind replicas" },
    { "job|loss|loss-now|samples|deadline|restart|losses-per-h|solver", "kind train" },
    { NULL, NULL },
};

static int plan_training(struct spot_err *err)
{
    struct plan_fleet_train t = train;

    if (!t.job || !(t.deadline_s > 0))
        return spot_err_set(err, SPOT_EUSAGE, "--kind train needs --job and --deadline");
    t.common = &o.common;
    t.catalogue = o.catalogue;
    t.explain = o.explain;
    t.forecast = o.forecast;
    t.current = o.current;
    t.market = o.market ? o.market : strcmp(t.solver, "spot") != 0 ? "spot" : "both";
    return plan_fleet_train(&t, err);
}

static int plan_replicas(struct spot_err *err)
{
    struct plan_fleet_hold h = hold;
    enum spot_format format;

    if (spot_format_parse(o.common.format, &format, err))
        return -1;
    if (format == SPOT_FORMAT_TABLE)
        return spot_err_set(err, SPOT_EUSAGE, "--format table: --kind replicas writes json");
    if (!o.forecast)
        return spot_err_set(err, SPOT_EUSAGE, "--kind replicas needs --forecast");
    h.common = &o.common;
    h.catalogue = o.catalogue;
    h.forecast = o.forecast;
    h.current = o.current;
    h.cold_s = o.cold_start_s;
    h.requests = o.requests;
    if (o.requests && !(h.per_replica > 0))
        return spot_err_set(err, SPOT_EUSAGE, "--requests of replicas needs --per-replica");
    return plan_fleet_hold(&h, err);
}

static int serve(struct spot_err *err)
{
    struct plan_fleet s = {
        .o = &o,
        .prov = { .tool = "spot-plan", .seed = o.common.seed, .is_off = !o.common.provenance }
    };
    int rc;

    if (!o.load)
        return spot_err_set(err, SPOT_EUSAGE, "--load is needed, the requests to serve");
    rc = run(&s, err);
    for (size_t g = 0; g < s.demand.n_offer; g++) {
        free(s.offer[g].zone);
        free(s.offer[g].type);
    }
    free(s.offer);
    free(s.priced);
    free(s.bucket);
    free(s.rate_per_s);
    free(s.per_s);
    spot_demand_release(&s.doc);
    free(s.held);
    free(s.why);
    plan_fleet_release_prices(&s);
    spot_fleet_release(&s.answer);
    spot_fleet_risk_release(&s.risk);
    spot_json_release(&s.current);
    spot_prov_release(&s.prov);
    spot_json_release(&s.json);
    return rc;
}

static int plan_fleet(struct spot_err *err)
{
    if (!strcmp(o.kind, "replicas"))
        return plan_replicas(err);
    return (!strcmp(o.kind, "train") ? plan_training : serve)(err);
}

const struct spot_cli plan_fleet_command = {
    .name = "spot-plan fleet",
    .brief = "the cheapest instances that answer a load, or train in time",
    .need = need,
    .reads =
        (const char *const[]){ "catalogue", "load", "job", "forecast", "prices", "requests", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .required =
        (const struct spot_opt_required[]){ { "catalogue", "what can be had" }, { NULL, NULL } },
    .choice = (const struct spot_opt_choice[]){ { "format", "json|table" },
                                                { "kind", "serve|train|replicas" },
                                                { "solver", "spot|spotdnn-code|spotdnn-paper" },
                                                { "market", "on-demand|spot|both" },
                                                { "policy", "spot|melange" },
                                                { NULL, NULL } },
    .synopsis = "--kind serve|train|replicas --catalogue c.csv [options]",
    .summary = "Choose the cheapest instances that answer a load, or that train to a goal in time.",
    .examples =
        "  spot-plan fleet --kind serve --catalogue c.csv --load d.json --explain\n"
        "  spot-plan fleet --kind train --catalogue c.csv --job j.json --loss .8 --deadline 2400\n",
    .option =
        (const struct spot_opt[]){
            { SPOT_OPT_GROUP, .help = "plan" },
            SPOT_TEXT("kind", &o.kind, "what", "serve (default), train or replicas"),
            SPOT_ROW_CATALOGUE(&o.catalogue),
            SPOT_ROW_DEMAND(&o.load),
            SPOT_TEXT("market", &o.market, "name",
                      "on-demand, spot or both (default with --forecast, and to train)"),
            SPOT_ROW_FORECAST(&o.forecast),
            SPOT_ROW_PRICES(&o.prices),
            SPOT_ROW_UNSERVED(&o.unserved),
            SPOT_ROW_COLD_START(&o.cold_start_s),
            SPOT_ROW_RHO(&o.rho),
            SPOT_ROW_POLICY(&o.policy),
            SPOT_U64("slices", &o.slices, "n", "melange: slices per bucket", 1,
                     SPOT_FLEET_SLICES_MAX),
            { SPOT_OPT_MORE, .help = "limits" },
            SPOT_U64("zone-max", &o.zone_max, "n", "most machines in one zone", 1, 1000000),
            { SPOT_OPT_MORE, .help = "follow a load" },
            SPOT_TEXT("current", &o.current, "file",
                      "spot.plan/1 in force (train, replicas: a list of what runs)"),
            SPOT_TEXT("requests", &o.requests, "file",
                      "request trace; rates are those of its last --window"),
            SPOT_ROW_WINDOW(&o.window_s),
            SPOT_ROW_TIME(&o.time_s),
            { SPOT_OPT_MORE, .help = "solver" },
            SPOT_SECS("limit", &o.limit_s, "time", "time limit of the solver (default: 60s)", 1,
                      1e6),
            { SPOT_OPT_GROUP, .help = "--kind train" },
            SPOT_ROW_JOB(&train.job),
            SPOT_REAL("loss", &train.loss, "x", "loss to reach, for a job with 'async' (required)",
                      1e-9, 1e9),
            SPOT_REAL("loss-now", &train.loss_now, "x",
                      "loss reached so far (default: training begins)", 1e-9, 1e9),
            SPOT_REAL("samples", &train.samples, "n",
                      "samples to compute, for a job without 'async' (required)", 1, 1e18),
            SPOT_SECS("deadline", &train.deadline_s, "time", "deadline, from now (required)", 1e-3,
                      1e9),
            SPOT_ROW_RESTART(&train.restart_s),
            SPOT_REAL("losses-per-h", &train.loss_per_h, "n",
                      "losses per spot instance and hour (default: 0)", 0, 1e4),
            SPOT_TEXT("solver", &train.solver, "name",
                      "spot (default), or as published: spotdnn-code, spotdnn-paper"),
            { SPOT_OPT_MORE, .help = "--kind replicas" },
            SPOT_U64("n", &hold.n, "n", "replicas wanted (default: 1)", 1, SPOT_HOLD_REPLICAS_MAX),
            SPOT_REAL("per-replica", &hold.per_replica, "rate",
                      "requests/s of --requests that one answers", 1e-9, 1e9),
            SPOT_ROW_AVAILABILITY(&hold.availability),
            SPOT_ROW_DECIDED(&hold.state),
            { SPOT_OPT_GROUP, .help = "output" },
            SPOT_ROW_EXPLAIN(&o.explain),
            SPOT_TOOL_OPTIONS_AS(&o.common, "json, or table (default on a terminal)"),
            { SPOT_OPT_END },
        },
    .common = &o.common,
    .run_alone = plan_fleet,
};
