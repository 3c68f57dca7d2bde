/* SPDX-License-Identifier: MIT */
/* spot-plan serve - job, instances and rate in, plan out. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/hash.h"
#include "common/json.h"
#include "common/out.h"
#include "common/prov.h"
#include "common/xalloc.h"
#include "model/forecast_doc.h"
#include "peers/spotserve.h"
#include "plan/serve_plan.h"
#include "plan_commands.h"
#include "trace/load_cache.h"
#include "trace/load_seen.h"

#define NOT_GIVEN UINT64_MAX

static struct options {
    struct spot_tool_common common;
    const char *job, *forecast, *load, *policy, *slo, *current, *layout, *cluster, *state;
    uint64_t now, backlog, cache;
    double rate_per_s, window_s, loss_per_h, switch_s, boot_s, stay_s;
    double memory_cap_byte;
    bool explain;
} o = { .common = SPOT_TOOL_COMMON_DEFAULT,
        .policy = "spot",
        .now = NOT_GIVEN,
        .window_s = SPOT_SERVE_WINDOW_S,
        .loss_per_h = -1,
        .switch_s = -1,
        .boot_s = 60,
        .stay_s = -1,
        .memory_cap_byte = INFINITY };

/* The inputs and the answer. */
struct session {
    struct spot_job_doc job;
    struct spot_load load;
    int32_t *cached; /* cached tokens of each prompt */
    const struct spot_policy *policy;
    /* the saved state as read, and as to be written */
    char was[SPOT_DECISION_STATE_MAX], state[SPOT_DECISION_STATE_MAX];
    struct spot_seen now;
    struct spot_serve_seen seen;
    struct spot_serve_place *place; /* [seen.n_place] */
    struct spot_serve_plan plan;
    struct spot_prov prov;
    struct serve_places places;
};

/* Take from one series the number of instances and of those that were lost. */
static void take_series(struct session *s, const struct spot_forecast_series *series, bool is_first)
{
    const double since_s = series->time_s - series->past_s;
    const struct spot_forecast_shock *shock = series->shock;

    s->now.there += (int)series->now;
    s->now.time_s = is_first ? series->time_s : fmax(s->now.time_s, series->time_s);
    s->seen.since_s = is_first ? since_s : fmin(s->seen.since_s, since_s);
    s->seen.lost += series->past_lost;
    s->seen.instance_s += series->past_instance_s;
    if (shock)
        s->place[s->seen.n_place++] =
            (struct spot_serve_place){ (double)series->now, shock->own_per_h, shock->shock_per_h,
                                       shock->reach };
}

/* The number of instances, from the newest value of each series of the job's type. */
static int read_forecast(struct session *s, struct spot_err *err)
{
    struct spot_forecast forecast = { 0 };
    struct spot_json_doc json;
    int rc = spot_json_load_path(&json, o.forecast, err);

    if (rc)
        return rc;
    rc = spot_forecast_read_instances(&json, &forecast, err);
    if (!rc && s->job.instance_type && !spot_forecast_keep(&forecast, s->job.instance_type))
        rc = spot_json_fail(&json, "/series", err, "has none of the job's instance type '%.64s'",
                            s->job.instance_type);
    s->seen.place = s->place = spot_xcalloc(forecast.n_series + 1, sizeof(*s->place));
    for (size_t i = 0; i < forecast.n_series && !rc; i++)
        take_series(s, &forecast.series[i], !i);
    if (!rc)
        spot_prov_add(&s->prov, strcmp(o.forecast, "-") != 0 ? o.forecast : "<stdin>",
                      spot_hash64(json.text, json.n_byte));
    s->seen.loss_per_s = -1;
    spot_forecast_release(&forecast);
    spot_json_release(&json);
    return rc;
}

static int count_instances(struct session *s, struct spot_err *err)
{
    if (!o.forecast && o.now == NOT_GIVEN)
        return spot_err_set(err, SPOT_EUSAGE,
                            "neither --forecast nor --now: how many instances are there?");
    if (o.forecast && read_forecast(s, err))
        return -1;
    if (o.now != NOT_GIVEN)
        s->now.there = (int)o.now;
    if (s->now.there * s->job.serve.gpus > SPOT_GRID_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "%d instances of %lld GPUs are more than %d GPUs",
                            s->now.there, (long long)s->job.serve.gpus, SPOT_GRID_MAX);
    if (o.loss_per_h >= 0)
        s->seen.loss_per_s = o.loss_per_h / 3600;
    return 0;
}

/* Expected arrivals of a forecast, summed over its steps; their spread is that of the first step.
 */
static int read_demand_forecast(struct session *s, struct spot_err *err)
{
    struct spot_forecast f = { 0 };
    struct spot_json_doc json;
    int rc = spot_json_load_path(&json, o.load, err);

    if (rc)
        return rc;
    rc = spot_forecast_read(&json, &f, err);
    if (!rc && (strcmp(f.model, "load") != 0 || !f.n_series))
        rc = spot_json_fail(&json, "/model", err,
                            "expected a forecast of load, spot-predict "
                            "--kind load");
    for (int64_t h = 0; !rc && h < f.horizon; h++)
        s->seen.rate_per_s += f.series[0].mean[h] / f.interval_s / (double)f.horizon;
    if (!rc)
        s->seen.dispersion = spot_forecast_dispersion(&f.series[0], 1);
    if (!rc && !(s->seen.rate_per_s > 0))
        rc = spot_json_fail(&json, "/series/0", err, "says that no request comes");
    if (!rc)
        spot_prov_add(&s->prov, o.load, spot_hash64(json.text, json.n_byte));
    spot_forecast_release(&f);
    spot_json_release(&json);
    return rc;
}

enum { FEW = 10 }; /* with fewer requests the rate is known to a third at best */

/* The current time is that of the newest instance row or request; without a forecast, observation
 * began with the first request. */
static int read_load(struct session *s, struct spot_err *err)
{
    struct spot_load *load = &s->load;
    double last_s, span_s;
    size_t n;

    if (spot_load_read_path(load, o.load, s->job.serve.context, err))
        return -1;
    spot_prov_add(&s->prov, strcmp(o.load, "-") != 0 ? o.load : "<stdin>", load->xxh3);
    last_s = load->time_s[load->n - 1];
    if (!o.forecast)
        s->seen.since_s = load->time_s[0];
    s->now.time_s = o.forecast ? fmax(s->now.time_s, last_s) : last_s;
    span_s = fmin(o.window_s, s->now.time_s - s->seen.since_s);
    if (!(span_s > 0))
        return spot_err_set(err, SPOT_EDATA,
                            "%s: all requests have the same time, so there is no rate", o.load);
    n = spot_load_arrivals(load, s->now.time_s - span_s, s->now.time_s);
    if (!n)
        spot_tool_warn("%s ends at %.15g s and the forecast is of %.15g s: no request of the last "
                       "%g s; do both use the same clock?",
                       o.load, last_s, s->now.time_s, span_s);
    else if (o.window_s < SPOT_SERVE_WINDOW_S && n < FEW)
        spot_tool_warn("--window: %zu request%s in the last %g s of %s: the rate is little "
                       "more than chance",
                       n, n == 1 ? "" : "s", span_s, o.load);
    if (o.cache && spot_load_check_cache(&s->job.serve, load, o.load, err))
        return -1;
    s->seen.load = load;
    s->seen.cached_token = s->cached = spot_load_cached(load, (int64_t)o.cache);
    s->seen.rate_per_s = -1;
    return 0;
}

/* Requests per second: as given, from a load, or from a forecast of one. */
static int find_rate(struct session *s, struct spot_err *err)
{
    const char *const ending = o.load ? strrchr(o.load, '.') : NULL;

    if (!o.load && !(o.rate_per_s > 0))
        return spot_err_set(err, SPOT_EUSAGE, "neither --rate nor --load: how many requests come?");
    s->seen.rate_per_s = o.rate_per_s > 0 ? o.rate_per_s : 0;
    s->seen.dispersion = 1;
    s->seen.waiting = (double)o.backlog;
    if (!o.load)
        return 0;
    return ending && !strcmp(ending, ".json") ? read_demand_forecast(s, err) : read_load(s, err);
}

static bool is_of_job(const struct spot_job_serve *serve, const struct spot_grid *grid)
{
    struct spot_serve_shape shape = { .P = grid->P, .M = grid->M };
    struct spot_serve_time time;

    return serve->stage_layers % grid->P == 0 && grid->P * grid->M >= serve->gpus_min &&
           !spot_serve_soonest(serve, &shape, 1, &time);
}

/* The current grid: as given, from --layout, or from --state. */
static int find_current(struct session *s, struct spot_err *err)
{
    struct spot_grid *const grid = &s->seen.runs;

    *grid = (struct spot_grid){ -1, 1, 1 };
    if (!o.current && o.layout)
        *grid = (struct spot_grid){ s->places.from.d, s->places.from.p, s->places.from.m };
    if (!o.current)
        return 0;
    if (spot_grid_parse(o.current, grid))
        return spot_err_set(err, SPOT_EUSAGE, "--current must be DxPxM, got '%.40s'", o.current);
    if (!grid->D || (spot_grid_size(grid) && is_of_job(&s->job.serve, grid)))
        return 0;
    spot_tool_warn("--current %s: the job has no such pipelines, so the cost of leaving them is "
                   "unknown and not charged",
                   o.current);
    grid->D = 0;
    return 0;
}

/* One call of the decision that spot-replay and a live loop use too. */
static int decide(struct session *s, const struct spot_serve_rule *rule, struct spot_err *err)
{
    struct spot_decider *decider = s->policy->open(&(struct spot_rule){ .serve = rule });
    struct spot_action action;
    int rc;

    s->now.serve = &s->seen;
    s->seen.is_timeless = !o.forecast && !s->seen.load;
    *s->state = '\0';
    rc = (s->policy->restore && s->policy->restore(decider, s->was, err)) ||
         s->policy->observe(decider, &s->now, err) ||
         s->policy->decide(decider, &action, &(struct spot_told){ .serve = &s->plan }, err);
    if (!rc && s->policy->save)
        s->policy->save(decider, s->state);
    s->policy->close(decider);
    return rc ? -1 : 0;
}

/* --- output --- */

static void add_row(struct spot_table *table, const struct spot_grid *grid, int64_t batch,
                    double requests_per_s, double latency_s, int64_t spares, const char *why)
{
    char text[SPOT_GRID_TEXT];

    snprintf(text, sizeof(text), "%lld x %lld x %lld", (long long)grid->D, (long long)grid->P,
             (long long)grid->M);
    spot_table_add(table, "%s %lld %.4f %.3f %lld %s", text, (long long)batch, requests_per_s,
                   latency_s, (long long)spares, why);
}

static void print_table(const struct spot_plan_doc *doc, FILE *out)
{
    struct spot_table table;

    spot_table_init(&table, "D x P x M,B#,requests/s#,latency_s#,spares#,");
    add_row(&table, &doc->next, doc->micro_batch, doc->expected.requests_per_s,
            doc->expected.latency_s, doc->spares, "the plan");
    for (size_t i = 0; i < doc->n_alternative; i++) {
        const struct spot_plan_alternative *a = &doc->alternative[i];
        const struct spot_grid grid = { a->d, a->p, a->m };

        add_row(&table, &grid, a->b, a->requests_per_s, a->latency_s, a->spares, a->why);
    }
    spot_table_print(&table, out, SPOT_FORMAT_TABLE);
    spot_table_release(&table);
    putc('\n', out);
    for (size_t i = 0; i < doc->n_why; i++)
        fprintf(out, "%s\n", doc->why[i]);
}

static int write_plan(const struct session *s, enum spot_format format, struct spot_err *err)
{
    struct spot_out out;
    int rc = 0;

    if (spot_out_open(&out, o.common.output, err))
        return -1;
    if (format == SPOT_FORMAT_TABLE)
        print_table(&s->plan.doc, out.file);
    else
        rc = spot_plan_doc_write(&s->plan.doc, &s->prov, out.file, err);
    return spot_out_finish(&out, rc, err);
}

/* --- places --- */

static bool is_current(const struct session *s, const struct spot_grid *grid)
{
    return grid->D == s->places.from.d && grid->P == s->places.from.p &&
           grid->M == s->places.from.m;
}

static void say_moves(struct session *s)
{
    spot_serve_plan_why(
        &s->plan,
        "%.4g MB move over links (no placement needs fewer than %.4g), %.4g s; serving restarts "
        "after %.4g s",
        1e-6 * (double)s->places.moved_byte, 1e-6 * (double)s->places.bound_byte,
        s->places.makespan_s, s->places.restart_s);
    s->plan.doc.place = s->places.place;
    s->plan.doc.n_place = s->places.n_place;
}

/* Plan, place, and plan again with the time of the change; once more if that results in a different
 * change. */
static int plan_and_place(struct session *s, struct spot_err *err)
{
    struct spot_serve_rule rule = { .job = &s->job,
                                    .window_s = o.window_s,
                                    .boot_s = o.boot_s,
                                    .stay_s = o.stay_s > 0 ? o.stay_s : 0 };

    if (o.slo && spot_serve_slo_parse(&rule.slo, o.slo, err))
        return -1;
    s->seen.switch_s = o.switch_s >= 0 ? o.switch_s : 10;
    for (int i = 0;; i++) {
        const double asked_s = s->seen.switch_s;

        rule.switch_s = asked_s;
        if (decide(s, &rule, err))
            return -1;
        if (!o.layout || !s->plan.doc.next.D)
            break;
        if (serve_places_make(&s->places, &s->job.serve, &s->plan.doc, err))
            return -1;
        if (o.switch_s < 0 && !is_current(s, &s->plan.doc.next))
            s->seen.switch_s = s->places.restart_s;
        if (s->seen.switch_s == asked_s || i == 2) {
            say_moves(s);
            break;
        }
        spot_serve_plan_release(&s->plan);
    }
    return 0;
}

static void warn_misspelt(const char *sentence)
{
    spot_tool_warn("%s", sentence);
}

static int run(struct session *s, struct spot_err *err)
{
    enum spot_format format;

    s->policy = !strcmp(o.policy, spot_policy_spotserve.name)
                    ? &spot_policy_spotserve
                    : spot_policy_find("serve", o.policy, err);
    if (!s->policy || spot_format_parse(o.common.format, &format, err) ||
        spot_job_doc_load(&s->job, o.job, err))
        return -1;
    format = spot_format_settle(format, o.common.output, SPOT_FORMAT_JSON);
    if (s->job.kind != SPOT_JOB_SERVE)
        return spot_json_fail(&s->job.json, "/kind", err, "expected \"serve\"");
    spot_prov_add(&s->prov, s->job.json.source, spot_hash64(s->job.json.text, s->job.json.n_byte));
    spot_job_doc_warn_misspelt(&s->job, warn_misspelt);
    s->places.memory_cap_byte = o.memory_cap_byte;
    if (o.layout && serve_places_load(&s->places, o.layout, o.cluster, &s->prov, err))
        return -1;
    if (plan_state_read(o.state, s->was, err) || count_instances(s, err) || find_rate(s, err) ||
        find_current(s, err) || plan_and_place(s, err))
        return -1;
    if (o.explain && !o.common.quiet && format != SPOT_FORMAT_TABLE)
        for (size_t i = 0; i < s->plan.doc.n_why; i++)
            fprintf(stderr, "%s\n", s->plan.doc.why[i]);
    return write_plan(s, format, err) || plan_state_write(o.state, s->state, err) ? -1 : 0;
}

static const struct spot_opt_need need[] = {
    { "rate", "!load" },
    { "window|cache-tokens", "load" },
    { "slo|current|loss-per-h|state|backlog|layout", "policy spot" },
    { "stay", "current|layout|state" },
    { "layout", "cluster" },
    { "cluster|memory-cap", "layout" },
    { NULL, NULL },
};

static int plan_serve(struct spot_err *err)
{
    struct session s = {
        .prov = { .tool = "spot-plan", .seed = o.common.seed, .is_off = !o.common.provenance }
    };
    const int rc = run(&s, err);

    spot_prov_release(&s.prov);
    spot_serve_plan_release(&s.plan);
    serve_places_release(&s.places);
    spot_load_release(&s.load);
    free(s.cached);
    free(s.place);
    spot_job_doc_release(&s.job);
    return rc;
}

const struct spot_cli plan_serve_command = {
    .name = "spot-plan serve",
    .brief = "the grid that requests should be answered on",
    .need = need,
    .reads = (const char *const[]){ "job", "forecast", "load", "layout", "cluster", NULL },
    .writes = (const char *const[]){ "output", "state", NULL },
    .required = (const struct spot_opt_required[]){ { "job", "what runs" }, { NULL, NULL } },
    .choice = (const struct spot_opt_choice[]){ { "format", "json|table" },
                                                { "policy", "spot|spotserve" },
                                                { NULL, NULL } },
    .synopsis = "--job job.json --now n --rate r [options]",
    .summary =
        "Choose replicas, stages, ranks and batch for answering requests on what is there now.",
    .examples =
        "  spot-plan serve --job examples/serve/gpt-20b.json --now 8 --rate .35\n"
        "  spot-predict trace.csv | spot-plan serve --job job.json --forecast - --load l.csv\n",
    .option =
        (const struct spot_opt[]){
            { SPOT_OPT_GROUP, .help = "plan" },
            SPOT_ROW_JOB(&o.job),
            SPOT_U64("now", &o.now, "n", "instances available now (default: the forecast's)", 0,
                     SPOT_GRID_MAX),
            SPOT_ROW_FORECAST(&o.forecast),
            SPOT_REAL("rate", &o.rate_per_s, "r", "arrival rate, requests per second", 1e-9, 1e9),
            SPOT_TEXT("load", &o.load, "file",
                      "request trace, or its forecast (.json), for rate and burstiness"),
            SPOT_SECS("window", &o.window_s, "time",
                      "of the load whose rate is taken, up to now (default: 5m)", 1e-3, 1e9),
            SPOT_U64("backlog", &o.backlog, "n", "requests that wait for a batch now (default: 0)",
                     0, 1 << 30),
            SPOT_ROW_POLICY(&o.policy),
            SPOT_ROW_CACHE(&o.cache),
            SPOT_ROW_SLO(&o.slo),
            PLAN_ROW_CURRENT(&o.current),
            SPOT_ROW_DECIDED(&o.state),
            SPOT_SECS("stay", &o.stay_s, "time",
                      "expected time to the next change (default: from losses, 1m to 1h)", 1, 1e9),
            SPOT_REAL("loss-per-h", &o.loss_per_h, "x",
                      "losses of an instance per hour (default: the forecast's)", 0, 3600),
            SPOT_ROW_SWITCH(&o.switch_s),
            SPOT_TEXT("layout", &o.layout, "file",
                      "spot.layout/1 of what runs now; the plan then places each position"),
            SPOT_TEXT("cluster", &o.cluster, "file",
                      "spot.cluster/1: candidate workers and their links"),
            SPOT_ROW_MEMORY_CAP(&o.memory_cap_byte),
            SPOT_ROW_BOOT(&o.boot_s),
            SPOT_ROW_EXPLAIN(&o.explain),
            SPOT_TOOL_OPTIONS_AS(&o.common, "json, or table (default on a terminal)"),
            { SPOT_OPT_END },
        },
    .common = &o.common,
    .run_alone = plan_serve,
};
