/* SPDX-License-Identifier: MIT */
/* spot-plan serve - job, instances and rate in, plan out. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/table.h"
#include "cli/tool.h"
#include "common/hash.h"
#include "common/json.h"
#include "common/out.h"
#include "common/prov.h"
#include "model/forecast_doc.h"
#include "model/job_doc.h"
#include "plan/serve_plan.h"
#include "plan_commands.h"
#include "trace/load_trace.h"

#define NOT_GIVEN UINT64_MAX

static struct options {
    struct spot_tool_common common;
    const char *job, *forecast, *load, *solver;
    uint64_t now;
    double rate_per_s, window_s;
    bool explain;
} o = { .common = SPOT_TOOL_COMMON_DEFAULT, .solver = "spotserve", .now = NOT_GIVEN };

/* Everything that is read, and the answer. */
struct session {
    struct spot_job_doc job;
    struct spot_serve_question question;
    struct spot_serve_plan plan;
    struct spot_prov prov;
};

/* How many there are, from the newest value of each series of the job's type. */
static int read_forecast(struct session *s, struct spot_err *err)
{
    struct spot_forecast forecast = { 0 };
    struct spot_json_doc json;
    int rc = spot_json_load_path(&json, o.forecast, err);

    if (rc)
        return rc;
    rc = spot_forecast_read(&json, &forecast, err);
    if (!rc && !strcmp(forecast.model, "load"))
        rc = spot_json_fail(&json, "/model", err, "a forecast of load, expected one of instances");
    if (!rc && s->job.instance_type && !spot_forecast_keep(&forecast, s->job.instance_type))
        rc = spot_json_fail(&json, "/series", err, "has none of the job's instance type '%.64s'",
                            s->job.instance_type);
    for (size_t i = 0; i < forecast.n_series && !rc; i++) {
        s->question.instances += forecast.series[i].now;
        s->question.time_s = fmax(s->question.time_s, forecast.series[i].time_s);
    }
    if (!rc)
        spot_prov_add(&s->prov, strcmp(o.forecast, "-") != 0 ? o.forecast : "<stdin>",
                      spot_hash64(json.text, json.n_byte));
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
        s->question.instances = (int64_t)o.now;
    if (s->question.instances * s->job.serve.gpus > SPOT_GRID_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "%lld instances of %lld GPUs are more than %d GPUs",
                            (long long)s->question.instances, (long long)s->job.serve.gpus,
                            SPOT_GRID_MAX);
    return 0;
}

/* Requests per second: as said, or of the load's last --window. */
static int find_rate(struct session *s, struct spot_err *err)
{
    struct spot_load load;
    double from_s, span_s, n = 0;

    if (!o.load && !(o.rate_per_s > 0))
        return spot_err_set(err, SPOT_EUSAGE, "neither --rate nor --load: how many requests come?");
    s->question.rate_per_s = o.rate_per_s;
    if (!o.load)
        return 0;
    if (spot_load_read_path(&load, o.load, 0, err))
        return -1;
    spot_prov_add(&s->prov, strcmp(o.load, "-") != 0 ? o.load : "<stdin>", load.xxh3);
    span_s = load.time_s[load.n - 1] - load.time_s[0];
    if (o.window_s > 0)
        span_s = fmin(span_s, o.window_s);
    from_s = load.time_s[load.n - 1] - span_s;
    for (size_t i = 0; i < load.n; i++)
        n += load.time_s[i] > from_s;
    spot_load_release(&load);
    if (!(span_s > 0))
        return spot_err_set(err, SPOT_EDATA, "%s: all requests come at one moment: no rate",
                            o.load);
    s->question.rate_per_s = n / span_s;
    return 0;
}

/* --- output --- */

static void add_row(struct spot_table *table, const struct spot_grid *grid, int64_t batch,
                    double requests_per_s, double latency_s, int64_t spares, const char *why)
{
    char text[SPOT_GRID_TEXT];

    snprintf(text, sizeof(text), "%lld x %lld x %lld", (long long)grid->D, (long long)grid->P,
             (long long)grid->M);
    spot_table_text(table, text);
    spot_table_int(table, batch);
    spot_table_fixed(table, requests_per_s, 4);
    spot_table_fixed(table, latency_s, 3);
    spot_table_int(table, spares);
    spot_table_text(table, why);
}

static void print_table(const struct spot_plan_doc *doc, FILE *out)
{
    static const struct spot_column column[] = {
        { "D x P x M", false }, { "B", true },      { "requests/s", true },
        { "latency_s", true },  { "spares", true }, { "", false },
    };
    struct spot_table table;

    spot_table_init(&table, column, sizeof(column) / sizeof(column[0]));
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

static void warn_misspelt(const char *sentence)
{
    spot_tool_warn("%s", sentence);
}

static int run(struct session *s, struct spot_err *err)
{
    enum spot_format format;

    if (spot_format_parse(o.common.format, &format, err) || spot_job_doc_load(&s->job, o.job, err))
        return -1;
    format = spot_format_settle(format, o.common.output, SPOT_FORMAT_JSON);
    if (s->job.kind != SPOT_JOB_SERVE)
        return spot_json_fail(&s->job.json, "/kind", err, "expected \"serve\"");
    spot_prov_add(&s->prov, s->job.json.source, spot_hash64(s->job.json.text, s->job.json.n_byte));
    spot_job_doc_warn_misspelt(&s->job, warn_misspelt);
    s->question.job = &s->job;
    if (count_instances(s, err) || find_rate(s, err) ||
        spot_serve_plan_make(&s->plan, &s->question, err))
        return -1;
    if (o.explain && !o.common.quiet && format != SPOT_FORMAT_TABLE)
        for (size_t i = 0; i < s->plan.doc.n_why; i++)
            fprintf(stderr, "%s\n", s->plan.doc.why[i]);
    return write_plan(s, format, err);
}

static const struct spot_cli cli = {
    .name = "spot-plan serve",
    .need =
        (const struct spot_opt_need[]){ { "rate", "!load" }, { "window", "load" }, { NULL, NULL } },
    .reads = (const char *const[]){ "job", "forecast", "load", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .required = (const struct spot_opt_required[]){ { "job", "what runs" }, { NULL, NULL } },
    .choice = (const struct spot_opt_choice[]){ { "format", "json|table" },
                                                { "solver", "spotserve" },
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
            { SPOT_OPT_STRING, 0, "job", &o.job, "file",
              "what runs: spot.job/1 of kind serve (required)", 0, 0 },
            { SPOT_OPT_U64, 0, "now", &o.now, "n", "instances there are (default: the forecast's)",
              0, SPOT_GRID_MAX },
            { SPOT_OPT_STRING, 0, "forecast", &o.forecast, "file",
              "spot.forecast/1, - is standard input: the instances now", 0, 0 },
            { SPOT_OPT_REAL, 0, "rate", &o.rate_per_s, "r", "requests per second that come", 1e-9,
              1e9 },
            { SPOT_OPT_STRING, 0, "load", &o.load, "file", "the rate of this load instead", 0, 0 },
            { SPOT_OPT_SECS, 0, "window", &o.window_s, "time",
              "only of its last so much (default all)", 1e-3, 1e9 },
            { SPOT_OPT_STRING, 0, "solver", &o.solver, "name",
              "spotserve (default): least latency that keeps up", 0, 0 },
            { SPOT_OPT_FLAG, 0, "explain", &o.explain, NULL, "say why on stderr", 0, 0 },
            SPOT_TOOL_OPTIONS_AS(&o.common, "json, or table (default on a terminal)"),
            { SPOT_OPT_END },
        },
};

static int plan_serve(char **operand, size_t n, struct spot_err *err)
{
    struct session s = {
        .prov = { .tool = "spot-plan", .seed = o.common.seed, .is_off = !o.common.provenance }
    };
    const int rc = run(&s, err);

    (void)operand;
    (void)n;
    spot_prov_release(&s.prov);
    spot_serve_plan_release(&s.plan);
    spot_job_doc_release(&s.job);
    return rc;
}

const struct spot_command plan_serve_command = {
    .name = "serve",
    .brief = "the grid that requests should be answered on",
    .cli = &cli,
    .common = &o.common,
    .run = plan_serve,
};
