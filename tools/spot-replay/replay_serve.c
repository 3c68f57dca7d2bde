/* SPDX-License-Identifier: MIT */
/* spot-replay serve - what policies of serving do with a trace and a load. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/table.h"
#include "cli/tool.h"
#include "common/num.h"
#include "common/out.h"
#include "common/xalloc.h"
#include "replay.h"
#include "sim/serve_play.h"
#include "trace/load_trace.h"

enum { POLICIES_MAX = 32 };

static struct options {
    struct spot_tool_common common;
    const char *job, *trace, *load, *policy, *slo, *batching;
    double rate_per_s, switch_s, load_s, grace_s, boot_s, hand_s;
    bool arrivals_only;
} o = { .common = SPOT_TOOL_COMMON_DEFAULT,
        .policy = "all",
        .batching = "pools",
        .switch_s = 10,
        .load_s = 25,
        .grace_s = 30,
        .boot_s = 60,
        .hand_s = 1 };

struct choice {
    enum spot_serve_policy policy;
    int64_t n; /* of on-demand */
};

struct slo {
    double ttft_s, e2e_s; /* INFINITY: any */
    bool is_given;
};

struct session {
    struct spot_job_doc job;
    struct spot_trace trace;
    struct spot_load load;
    struct spot_serve_play play;
    struct choice choice[POLICIES_MAX];
    size_t n_choice;
    struct slo slo;
};

/* --- options --- */

static int add_policy(struct session *s, const char *name, struct spot_err *err)
{
    static const char on_demand[] = "on-demand-";
    struct choice c = { .policy = 0 };
    char *end;

    if (s->n_choice == POLICIES_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "--policy: more than %d", POLICIES_MAX);
    if (!strncmp(name, on_demand, sizeof(on_demand) - 1)) {
        c.policy = SPOT_SERVE_ON_DEMAND;
        c.n = strtoll(name + sizeof(on_demand) - 1, &end, 10);
        if (c.n < 1 || c.n > SPOT_GRID_MAX || *end)
            return spot_err_set(err, SPOT_EUSAGE,
                                "--policy: on-demand-N has N from 1 to %d, got '%s'", SPOT_GRID_MAX,
                                name);
    } else {
        while (c.policy < SPOT_SERVE_ON_DEMAND &&
               strcmp(name, spot_serve_policy_name[c.policy]) != 0)
            c.policy++;
        if (c.policy == SPOT_SERVE_ON_DEMAND)
            return spot_err_set(err, SPOT_EUSAGE,
                                "--policy has no '%.40s'; --policy list shows them", name);
    }
    s->choice[s->n_choice++] = c;
    return 0;
}

static int read_policies(struct session *s, struct spot_err *err)
{
    char *copy = spot_xstrdup(o.policy), *rest = copy, *name;
    int rc = 0;

    for (size_t k = 0; !strcmp(copy, "all") && k < SPOT_SERVE_ON_DEMAND; k++)
        rc = rc ? rc : add_policy(s, spot_serve_policy_name[k], err);
    while (!rc && strcmp(o.policy, "all") != 0 && (name = strtok_r(rest, ",", &rest)))
        rc = add_policy(s, name, err);
    free(copy);
    return rc;
}

/* "e2e=30s,ttft=2s" */
static int read_slo(struct session *s, struct spot_err *err)
{
    char *copy = spot_xstrdup(o.slo ? o.slo : ""), *rest = copy, *item;
    int rc = 0;

    s->slo = (struct slo){ INFINITY, INFINITY, o.slo != NULL };
    while (!rc && (item = strtok_r(rest, ",", &rest))) {
        char *value = strchr(item, '=');
        double *limit_s;

        if (value)
            *value++ = '\0';
        limit_s = !strcmp(item, "e2e")    ? &s->slo.e2e_s
                  : !strcmp(item, "ttft") ? &s->slo.ttft_s
                                          : NULL;
        if (!value || !limit_s || spot_num_parse_secs(value, limit_s) || !(*limit_s > 0))
            rc = spot_err_set(err, SPOT_EUSAGE, "--slo must be e2e=TIME,ttft=TIME, got '%.40s'",
                              o.slo);
    }
    free(copy);
    return rc;
}

/* The profile knows one length. */
static int check_lengths(struct session *s, struct spot_err *err)
{
    const struct spot_job_serve *p = &s->job.serve;

    for (size_t i = 0; i < s->load.n; i++) {
        if (o.arrivals_only) {
            s->load.prompt_token[i] = (int32_t)p->prompt_token;
            s->load.output_token[i] = (int32_t)p->output_token;
        } else if (s->load.prompt_token[i] != p->prompt_token ||
                   s->load.output_token[i] != p->output_token) {
            return spot_err_set(err, SPOT_EDATA,
                                "%s: request %zu has %d and %d tokens, and the job's profile is of "
                                "%lld and %lld; --arrivals-only takes the times alone",
                                o.load, i + 1, s->load.prompt_token[i], s->load.output_token[i],
                                (long long)p->prompt_token, (long long)p->output_token);
        }
    }
    return 0;
}

static int read_all(struct session *s, struct spot_err *err)
{
    if (read_policies(s, err) || read_slo(s, err) || spot_job_doc_load(&s->job, o.job, err))
        return -1;
    if (s->job.kind != SPOT_JOB_SERVE)
        return spot_json_fail(&s->job.json, "/kind", err, "expected \"serve\"");
    if (spot_load_read_path(&s->load, o.load, 0, err) || check_lengths(s, err) ||
        spot_trace_load_path(&s->trace, o.trace, err))
        return -1;
    s->play = (struct spot_serve_play){
        .job = &s->job,
        .load = &s->load,
        .switch_s = o.switch_s,
        .load_s = o.load_s,
        .grace_s = o.grace_s,
        .boot_s = o.boot_s,
        .hand_s = o.hand_s,
        .rule = { .batching =
                      strcmp(o.batching, "shared") != 0 ? SPOT_BATCH_POOLS : SPOT_BATCH_SHARED,
                  .pool_max = 2 * (size_t)s->job.serve.max_batch,
                  .is_power_of_two = true },
    };
    spot_serve_play_trace(&s->play, &s->trace, o.common.seed);
    s->play.rate_per_s = o.rate_per_s;
    return 0;
}

/* --- output --- */

/* Nearest rank of sorted x [n]; NaN of none. */
static double rank(const double *x, size_t n, double share)
{
    const size_t k = (size_t)ceil(share * (double)n);

    return n ? x[k ? k - 1 : 0] : NAN;
}

struct lists {
    double *ttft, *tbt, *e2e; /* [n], sorted */
    size_t n_ttft, n_tbt, n_e2e, n_met;
    double token, e2e_sum;
};

static struct lists collect(const struct session *s, const struct spot_serve_result *r)
{
    const struct spot_load *load = &s->load;
    struct lists l = { .ttft = spot_xcalloc(load->n, sizeof(double)),
                       .tbt = spot_xcalloc(load->n, sizeof(double)),
                       .e2e = spot_xcalloc(load->n, sizeof(double)) };

    for (size_t i = 0; i < load->n; i++) {
        const struct spot_served *d = &r->served[i];
        const double ttft_s = d->first_token_s - load->time_s[i];
        const double e2e_s = d->end_s - load->time_s[i];

        if (!isnan(ttft_s))
            l.ttft[l.n_ttft++] = ttft_s;
        if (isnan(e2e_s))
            continue;
        l.e2e[l.n_e2e++] = e2e_s;
        l.e2e_sum += e2e_s;
        l.token += load->output_token[i];
        l.n_met += ttft_s <= s->slo.ttft_s && e2e_s <= s->slo.e2e_s;
        if (load->output_token[i] > 1)
            l.tbt[l.n_tbt++] = (d->end_s - d->first_token_s) / (load->output_token[i] - 1);
    }
    qsort(l.ttft, l.n_ttft, sizeof(double), spot_num_compare);
    qsort(l.tbt, l.n_tbt, sizeof(double), spot_num_compare);
    qsort(l.e2e, l.n_e2e, sizeof(double), spot_num_compare);
    return l;
}

static void put(struct spot_table *table, enum spot_format format, double x)
{
    if (format == SPOT_FORMAT_TABLE || format == SPOT_FORMAT_MD)
        spot_table_fixed(table, x, 3);
    else
        spot_table_real(table, x);
}

static void add_row(struct spot_table *table, enum spot_format format, const struct session *s,
                    const struct choice *c, const struct spot_serve_result *r)
{
    const struct spot_job_cost *cost = &s->job.cost;
    const bool stays = c->policy == SPOT_SERVE_ON_DEMAND;
    const double price = stays ? cost->on_demand_usd_per_h : cost->usd_per_h;
    const double usd = price >= 0 ? price * r->instance_s / 3600 : NAN;
    struct lists l = collect(s, r);
    char name[48];

    snprintf(name, sizeof(name), stays ? "%s-%lld" : "%s", spot_serve_policy_name[c->policy],
             (long long)c->n);
    spot_table_text(table, name);
    spot_table_int(table, (long long)s->load.n);
    spot_table_int(table, (long long)r->totals.finished);
    spot_table_int(table, (long long)r->totals.lost);
    spot_table_int(table, (long long)r->totals.repeated);
    put(table, format, rank(l.ttft, l.n_ttft, 0.5));
    put(table, format, rank(l.ttft, l.n_ttft, 0.99));
    put(table, format, rank(l.tbt, l.n_tbt, 0.5));
    put(table, format, rank(l.tbt, l.n_tbt, 0.99));
    put(table, format, l.n_e2e ? l.e2e_sum / (double)l.n_e2e : NAN);
    put(table, format, rank(l.e2e, l.n_e2e, 0.5));
    put(table, format, rank(l.e2e, l.n_e2e, 0.9));
    put(table, format, rank(l.e2e, l.n_e2e, 0.99));
    put(table, format, s->slo.is_given ? (double)l.n_met / (double)s->load.n : NAN);
    spot_table_int(table, (long long)l.token);
    put(table, format, usd);
    put(table, format, l.token > 0 ? usd / l.token * 1e6 : NAN);
    spot_table_int(table, (long long)r->changes);
    put(table, format, r->instance_s / 3600);
    free(l.ttft);
    free(l.tbt);
    free(l.e2e);
}

static int print(struct session *s, struct spot_err *err)
{
    static const struct spot_column column[] = {
        { "policy", false },    { "requests", true },       { "finished", true },
        { "lost", true },       { "repeated", true },       { "ttft_p50_s", true },
        { "ttft_p99_s", true }, { "tbt_p50_s", true },      { "tbt_p99_s", true },
        { "e2e_mean_s", true }, { "e2e_p50_s", true },      { "e2e_p90_s", true },
        { "e2e_p99_s", true },  { "slo_share", true },      { "tokens", true },
        { "usd", true },        { "usd_per_mtoken", true }, { "changes", true },
        { "instance_h", true },
    };
    enum spot_format format;
    struct spot_table table;
    struct spot_out out;
    int rc = 0;

    if (spot_format_parse(o.common.format, &format, err))
        return -1;
    format = spot_format_settle(format, o.common.output, SPOT_FORMAT_CSV);
    spot_table_init(&table, column, sizeof(column) / sizeof(column[0]));
    table.break_at = 9;
    for (size_t k = 0; k < s->n_choice && !rc; k++) {
        struct spot_serve_result r;

        rc = spot_serve_play_run(&s->play, s->choice[k].policy, s->choice[k].n, &r, err);
        if (rc)
            break;
        add_row(&table, format, s, &s->choice[k], &r);
        spot_serve_result_release(&r);
    }
    if (!rc && !(rc = spot_out_open(&out, o.common.output, err))) {
        spot_table_print(&table, out.file, format);
        rc = spot_out_finish(&out, 0, err);
    }
    spot_table_release(&table);
    return rc;
}

static void list_policies(void)
{
    for (size_t k = 0; k < SPOT_SERVE_POLICIES; k++)
        printf("%-18s %s\n", spot_serve_policy_name[k], spot_serve_policy_about[k]);
}

static const struct spot_cli cli = {
    .name = "spot-replay serve",
    .reads = (const char *const[]){ "job", "trace", "load", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .choice = (const struct spot_opt_choice[]){ { "format", "csv|tsv|jsonl|table|md" },
                                                { "batching", "pools|shared" },
                                                { NULL, NULL } },
    .synopsis = "--job job.json --trace trace.csv --load load.csv [options]",
    .summary = "Answer a load of requests on the instances of a trace, under each policy.",
    .examples =
        "  spot-replay serve --job examples/serve/gpt-20b.json --trace t.csv --load l.csv\n",
    .option =
        (const struct spot_opt[]){
            { SPOT_OPT_GROUP, .help = "what is answered, on what" },
            { SPOT_OPT_STRING, 0, "job", &o.job, "file", "spot.job/1 of kind serve (required)", 0,
              0 },
            { SPOT_OPT_STRING, 't', "trace", &o.trace, "file", "instances (required)", 0, 0 },
            { SPOT_OPT_STRING, 0, "load", &o.load, "file", "requests (required)", 0, 0 },
            { SPOT_OPT_FLAG, 0, "arrivals-only", &o.arrivals_only, NULL,
              "every request has the lengths of the job's profile", 0, 0 },
            { SPOT_OPT_GROUP, .help = "how" },
            { SPOT_OPT_STRING, 0, "policy", &o.policy, "names",
              "apart by commas, all (default) or list; on-demand-N", 0, 0 },
            { SPOT_OPT_REAL, 0, "rate", &o.rate_per_s, "r",
              "requests/s to keep up with (default: the last 5 minutes')", 1e-9, 1e9 },
            { SPOT_OPT_SECS, 0, "switch", &o.switch_s, "time",
              "weights and answers from instance to instance (default 10s)", 0, 1e6 },
            { SPOT_OPT_SECS, 0, "load-time", &o.load_s, "time",
              "weights from storage (default 25s)", 0, 1e6 },
            { SPOT_OPT_SECS, 0, "grace", &o.grace_s, "time",
              "a loss is announced so early (default 30s)", 0, 1e6 },
            { SPOT_OPT_SECS, 0, "boot", &o.boot_s, "time",
              "spot: from asking for an instance to it (default 60s)", 0, 1e6 },
            { SPOT_OPT_SECS, 0, "hand-over", &o.hand_s, "time",
              "spot: pause in which answers change instance (default 1s)", 0, 1e6 },
            { SPOT_OPT_STRING, 0, "batching", &o.batching, "how",
              "pools: twice the batch at each replica (default); shared", 0, 0 },
            { SPOT_OPT_STRING, 0, "slo", &o.slo, "limits", "e2e=TIME,ttft=TIME for slo_share", 0,
              0 },
            SPOT_TOOL_OPTIONS_AS(&o.common, "csv, tsv, jsonl, table or md"),
            { SPOT_OPT_END },
        },
};

static int replay_serve(char **operand, size_t n, struct spot_err *err)
{
    struct session s = { 0 };
    int rc;

    (void)operand;
    (void)n;
    if (!strcmp(o.policy, "list")) {
        list_policies();
        return 0;
    }
    if (!o.job || !o.trace || !o.load)
        return spot_err_set(err, SPOT_EUSAGE, "--job, --trace and --load are needed");
    rc = read_all(&s, err) || print(&s, err) ? -1 : 0;
    free(s.play.event);
    spot_trace_release(&s.trace);
    spot_load_release(&s.load);
    spot_job_doc_release(&s.job);
    return rc;
}

const struct spot_command replay_serve_command = {
    .name = "serve",
    .brief = "play a load against a trace on paper, under policies of serving",
    .cli = &cli,
    .common = &o.common,
    .run = replay_serve,
};
