/* SPDX-License-Identifier: MIT */
/* spot-plan share - jobs, throughputs and a cluster in, who runs where in the next round out. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/rows.h"
#include "cli/table.h"
#include "cli/tool.h"
#include "common/json.h"
#include "common/out.h"
#include "common/prov.h"
#include "common/xalloc.h"
#include "model/share_doc.h"
#include "plan/share_round.h"
#include "plan_commands.h"

static struct options {
    struct spot_tool_common common;
    const char *jobs, *throughput, *cluster, *policy;
    double time_s, round_s, switch_s, checkpoint_s;
    bool explain;
} o = { .common = SPOT_TOOL_COMMON_DEFAULT, .policy = "spot", .time_s = -1, .round_s = 360 };

enum { WHY_MAX = 60, WHY_TEXT = 320 };

struct session {
    enum spot_share_policy policy;
    struct spot_share_jobs jobs;
    struct spot_share_cluster cluster;
    struct spot_job_rates throughput;
    double *rate; /* [jobs][types] */
    /* those that are there and not done: */
    struct spot_share_problem problem;
    size_t *job;
    struct spot_share_want *want;
    struct spot_share_machines *type;
    double *active_rate;
    int64_t *count;
    struct spot_share_way *way;
    size_t n_way;
    struct spot_share_answer answer; /* x NULL: the policy has no shares */
    struct spot_share_choice choice;
    struct spot_prov prov;
    char why[WHY_MAX][WHY_TEXT];
    size_t n_why;
};

/* --- input --- */

static int read_all(struct session *s, struct spot_err *err)
{
    if (spot_share_jobs_load(&s->jobs, o.jobs, err) ||
        spot_share_cluster_load(&s->cluster, o.cluster, err))
        return -1;
    spot_prov_add(&s->prov, o.jobs, s->jobs.xxh3);
    spot_prov_add(&s->prov, o.cluster, s->cluster.xxh3);
    if (o.throughput) {
        if (spot_job_rates_load(&s->throughput, o.throughput, err))
            return -1;
        spot_prov_add(&s->prov, o.throughput, s->throughput.json.hash);
    }
    s->rate = spot_xcalloc(s->jobs.n * s->cluster.n, sizeof(double));
    return spot_share_rates(&s->jobs, &s->cluster, &s->throughput, s->rate, err);
}

static int find_type(const struct session *s, const struct spot_share_job *job,
                     struct spot_err *err, int *on)
{
    *on = -1;
    for (size_t j = 0; *job->on && j < s->cluster.n; j++)
        if (!strcmp(s->cluster.type[j].name, job->on))
            *on = (int)j;
    if (*job->on && *on < 0)
        return spot_err_set(err, SPOT_EDATA, "%s: job '%.64s' runs on '%.64s', which %s lacks",
                            o.jobs, job->id, job->on, o.cluster);
    return 0;
}

static int add_job(struct session *s, size_t i, struct spot_err *err)
{
    const struct spot_share_job *job = &s->jobs.job[i];
    const size_t k = s->problem.n_job, n_type = s->cluster.n;
    int on;

    if (job->arrival_s > o.time_s || job->done >= job->steps)
        return 0;
    if (find_type(s, job, err, &on))
        return -1;
    s->job[k] = i;
    s->want[k] = (struct spot_share_want){ .weight = job->weight,
                                           .left = job->steps - job->done,
                                           .age_s = o.time_s - job->arrival_s,
                                           .slo_left_s = job->arrival_s + job->slo_s - o.time_s,
                                           .scale = job->scale,
                                           .on = on,
                                           .on_scale = job->scale };
    memcpy(s->active_rate + k * n_type, s->rate + i * n_type, n_type * sizeof(double));
    s->problem.n_job++;
    return 0;
}

/* What a job has done would have taken so long on an equal part of each type. */
static void count_isolated(struct session *s)
{
    double *per_s = spot_xcalloc(s->problem.n_job, sizeof(double));

    spot_share_isolated_rate(&s->problem, per_s);
    for (size_t k = 0; k < s->problem.n_job; k++)
        s->want[k].isolated_s = s->jobs.job[s->job[k]].done / per_s[k];
    free(per_s);
}

static int set_problem(struct session *s, struct spot_err *err)
{
    const size_t n = s->jobs.n, m = s->cluster.n;

    s->job = spot_xcalloc(n, sizeof(*s->job));
    s->want = spot_xcalloc(n, sizeof(*s->want));
    s->type = spot_xcalloc(m, sizeof(*s->type));
    s->count = spot_xcalloc(m, sizeof(*s->count));
    s->active_rate = spot_xcalloc(n * m, sizeof(double));
    for (size_t j = 0; j < m; j++) {
        const struct spot_share_type *type = &s->cluster.type[j];

        s->count[j] = type->count;
        s->type[j] =
            (struct spot_share_machines){ type->count, type->usd_per_h, type->hazard_per_h };
    }
    s->problem = (struct spot_share_problem){ 0, m, s->want, s->active_rate, s->type };
    if (o.time_s < 0)
        o.time_s = s->jobs.job[n - 1].arrival_s; /* by arrival: the last */
    for (size_t i = 0; i < n; i++)
        if (add_job(s, i, err))
            return -1;
    if (!s->problem.n_job)
        return spot_err_set(err, SPOT_EINFEASIBLE, "no job has arrived by %g s and is not done",
                            o.time_s);
    count_isolated(s);
    s->n_way = spot_share_ways(&s->jobs, s->job, s->problem.n_job, &s->cluster, s->count,
                               &s->throughput, s->rate, &s->way);
    return 0;
}

/* --- the answer --- */

static int solve(struct session *s, struct spot_err *err)
{
    const struct spot_share_terms terms = { .aim = s->policy,
                                            .round_s = o.round_s,
                                            .switch_s = o.switch_s,
                                            .checkpoint_s = o.checkpoint_s };

    if (spot_share_is_ours(s->policy))
        return spot_share_round(&s->problem, s->way, s->n_way, &terms, &s->choice, err);
    if (spot_share_allocate(&s->problem, s->policy, &s->answer, err))
        return -1;
    spot_share_follow(&s->problem, s->answer.x, s->way, s->n_way, &s->choice);
    return 0;
}

static const char *type_name(const struct session *s, size_t j)
{
    return s->cluster.type[j].name;
}

static char *new_why(struct session *s)
{
    return s->why[s->n_why++];
}

static void explain_wait(struct session *s, size_t k)
{
    ptrdiff_t best = SPOT_SHARE_NO_WAY;

    for (size_t w = 0; w < s->n_way; w++)
        if (s->way[w].job == k && s->choice.value[w] > 0 &&
            (best < 0 || s->choice.value[w] / (double)s->way[w].scale >
                             s->choice.value[best] / (double)s->way[best].scale))
            best = (ptrdiff_t)w;
    if (best < 0)
        snprintf(new_why(s), WHY_TEXT, "%.64s waits: it has no share of what it runs on",
                 s->jobs.job[s->job[k]].id);
    else
        snprintf(new_why(s), WHY_TEXT,
                 "%.64s waits: it would give %.3g for each of %lld %.64s, whose price is %.3g",
                 s->jobs.job[s->job[k]].id, s->choice.value[best] / (double)s->way[best].scale,
                 (long long)s->way[best].scale, type_name(s, s->way[best].type),
                 s->choice.price[s->way[best].type]);
}

static void explain(struct session *s)
{
    size_t n_wait = 0, n_told = 0;

    snprintf(new_why(s), WHY_TEXT, "%s: %s", spot_share_policy_name[s->policy],
             spot_share_policy_about[s->policy]);
    if (s->answer.x && !isnan(s->answer.bound))
        snprintf(new_why(s), WHY_TEXT, "objective %.9g; prices prove that none is better than %.9g",
                 s->answer.objective, s->answer.bound);
    if (s->answer.is_slo_dropped)
        snprintf(new_why(s), WHY_TEXT, "not all SLOs can be met: none was asked for");
    for (size_t j = 0; j < s->cluster.n && j < 16; j++) {
        const double price = s->answer.x ? s->answer.price[j] : s->choice.price[j];

        if (!isnan(price))
            snprintf(new_why(s), WHY_TEXT, "one more %.64s is worth %.4g", type_name(s, j), price);
    }
    for (size_t k = 0; k < s->problem.n_job; k++)
        n_wait += s->choice.way[k] < 0;
    for (size_t k = 0; k < s->problem.n_job && n_told < 32; k++)
        if (s->choice.way[k] < 0) {
            explain_wait(s, k);
            n_told++;
        }
    if (n_wait > n_told)
        snprintf(new_why(s), WHY_TEXT, "%zu more wait", n_wait - n_told);
}

/* --- output --- */

static void write_shares(const struct session *s, struct spot_jw *jw)
{
    spot_jw_array(jw, "allocation");
    for (size_t i = 0; i < s->problem.n_job * s->cluster.n; i++) {
        if (!(s->answer.x[i] > 1e-9))
            continue;
        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "job", s->jobs.job[s->job[i / s->cluster.n]].id);
        spot_jw_str(jw, "instance_type", type_name(s, i % s->cluster.n));
        spot_jw_real(jw, "share", s->answer.x[i]);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void write_round(const struct session *s, struct spot_jw *jw)
{
    spot_jw_array(jw, "run");
    for (size_t k = 0; k < s->problem.n_job; k++) {
        const struct spot_share_way *way = s->choice.way[k] < 0 ? NULL : &s->way[s->choice.way[k]];

        if (!way)
            continue;
        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "job", s->jobs.job[s->job[k]].id);
        spot_jw_str(jw, "instance_type", type_name(s, way->type));
        spot_jw_int(jw, "workers", way->scale);
        spot_jw_real(jw, "steps_per_s", way->rate);
        spot_jw_bool(jw, "stays", s->want[k].on == (int)way->type);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
    spot_jw_array(jw, "wait");
    for (size_t k = 0; k < s->problem.n_job; k++)
        if (s->choice.way[k] < 0)
            spot_jw_str(jw, NULL, s->jobs.job[s->job[k]].id);
    spot_jw_end(jw);
}

static double usd_per_h(const struct session *s)
{
    double usd = 0;

    for (size_t k = 0; k < s->problem.n_job; k++)
        if (s->choice.way[k] >= 0) {
            const struct spot_share_way *way = &s->way[s->choice.way[k]];

            usd += (double)way->scale * s->type[way->type].usd_per_h;
        }
    return usd;
}

static int write_json(const struct session *s, FILE *out, struct spot_err *err)
{
    const bool has_shares = s->answer.x;
    const double objective = has_shares ? s->answer.objective : s->choice.worth;
    const double bound = has_shares ? s->answer.bound : s->choice.bound;
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.plan", 1, &s->prov);
    spot_jw_str(&jw, "kind", "share");
    spot_jw_str(&jw, "policy", spot_share_policy_name[s->policy]);
    spot_jw_real(&jw, "time_s", o.time_s);
    spot_jw_real(&jw, "hold_s", o.round_s);
    if (has_shares)
        write_shares(s, &jw);
    write_round(s, &jw);
    spot_jw_array(&jw, "prices");
    for (size_t j = 0; j < s->cluster.n; j++) {
        spot_jw_object(&jw, NULL);
        spot_jw_str(&jw, "instance_type", type_name(s, j));
        spot_jw_known(&jw, "worth", has_shares ? s->answer.price[j] : s->choice.price[j]);
        spot_jw_end(&jw);
    }
    spot_jw_end(&jw);
    spot_jw_object(&jw, "expected");
    spot_jw_real(&jw, "objective", objective);
    spot_jw_real(&jw, "usd_per_h", usd_per_h(s));
    spot_jw_end(&jw);
    spot_jw_known(&jw, "bound", bound);
    spot_jw_array(&jw, "why");
    for (size_t i = 0; i < s->n_why; i++)
        spot_jw_str(&jw, NULL, s->why[i]);
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

static void write_table(const struct session *s, FILE *out, enum spot_format format)
{
    static const struct spot_column column[] = { { "job", false },
                                                 { "instance_type", false },
                                                 { "workers", true },
                                                 { "steps_per_s", true },
                                                 { "share", true } };
    struct spot_table table;

    spot_table_init(&table, column, 5);
    for (size_t k = 0; k < s->problem.n_job; k++) {
        const struct spot_share_way *way = s->choice.way[k] < 0 ? NULL : &s->way[s->choice.way[k]];
        double share = 0;

        for (size_t j = 0; s->answer.x && j < s->cluster.n; j++)
            share += s->answer.x[k * s->cluster.n + j];
        spot_table_text(&table, s->jobs.job[s->job[k]].id);
        spot_table_text(&table, way ? type_name(s, way->type) : "-");
        spot_table_int(&table, way ? (long long)way->scale : 0);
        spot_table_fixed(&table, way ? way->rate : 0, 3);
        spot_table_fixed(&table, share, 3);
    }
    spot_table_print(&table, out, format);
    spot_table_release(&table);
}

static int write_plan(const struct session *s, enum spot_format format, struct spot_err *err)
{
    struct spot_out out;
    int rc = 0;

    if (spot_out_open(&out, o.common.output, err))
        return -1;
    if (format == SPOT_FORMAT_JSON)
        rc = write_json(s, out.file, err);
    else
        write_table(s, out.file, format);
    return spot_out_finish(&out, rc, err);
}

static int run(struct session *s, struct spot_err *err)
{
    enum spot_format format;

    if (spot_format_parse(o.common.format, &format, err))
        return -1;
    format = spot_format_settle(format, o.common.output, SPOT_FORMAT_JSON);
    if (spot_share_policy_find(o.policy, &s->policy) || s->policy == SPOT_SHARE_HADAR)
        return spot_err_set(err, SPOT_EUSAGE, "--policy has no '%.40s'; --policy list shows them",
                            o.policy);
    if (read_all(s, err) || set_problem(s, err) || solve(s, err))
        return -1;
    explain(s);
    if (o.explain && !o.common.quiet)
        for (size_t i = 0; i < s->n_why; i++)
            fprintf(stderr, "%s\n", s->why[i]);
    return write_plan(s, format, err);
}

static const struct spot_cli cli = {
    .name = "spot-plan share",
    .reads = (const char *const[]){ "jobs", "throughput", "cluster", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .choice = (const struct spot_opt_choice[]){ { "format", "json|csv|table|md" }, { NULL, NULL } },
    .synopsis = "--jobs jobs.csv --throughput t.json --cluster cluster.csv [options]",
    .summary = "Choose which of many jobs runs where on one cluster in the next round.",
    .examples = "  spot-plan share --jobs j.csv --throughput t.json --cluster c.csv --switch 20s\n"
                "  spot-plan share --jobs j.csv --throughput t.json --cluster c.csv --policy "
                "max-min-perf\n",
    .option =
        (const struct spot_opt[]){
            { SPOT_OPT_GROUP, .help = "input" },
            { SPOT_OPT_STRING, 0, "jobs", &o.jobs, "file", "CSV (required), - is standard input", 0,
              0 },
            { SPOT_OPT_STRING, 0, "throughput", &o.throughput, "file",
              "spot.throughput/1: steps/s by kind of job and type of worker", 0, 0 },
            { SPOT_OPT_STRING, 0, "cluster", &o.cluster, "file", "CSV of types (required)", 0, 0 },
            SPOT_ROW_TIME(&o.time_s),
            { SPOT_OPT_GROUP, .help = "policies" },
            SPOT_ROW_POLICY(&o.policy),
            SPOT_ROW_ROUND(&o.round_s),
            SPOT_ROW_SWITCH_JOB(&o.switch_s),
            SPOT_ROW_CHECKPOINT(&o.checkpoint_s),
            SPOT_ROW_EXPLAIN(&o.explain),
            SPOT_TOOL_OPTIONS_AS(&o.common, "json, csv, table (default on a terminal) or md"),
            { SPOT_OPT_END },
        },
};

static void release(struct session *s)
{
    spot_share_jobs_release(&s->jobs);
    spot_share_cluster_release(&s->cluster);
    spot_job_rates_release(&s->throughput);
    spot_share_answer_release(&s->answer);
    spot_share_choice_release(&s->choice);
    free(s->rate);
    free(s->job);
    free(s->want);
    free(s->type);
    free(s->active_rate);
    free(s->count);
    free(s->way);
    spot_prov_release(&s->prov);
}

static int plan_share(char **operand, size_t n, struct spot_err *err)
{
    static struct session s;
    int rc;

    (void)operand;
    (void)n;
    if (!strcmp(o.policy, "list")) {
        for (int p = 0; p < SPOT_SHARE_HADAR; p++)
            printf("%-22s %s\n", spot_share_policy_name[p], spot_share_policy_about[p]);
        return 0;
    }
    if (!o.jobs || !o.cluster)
        return spot_err_set(err, SPOT_EUSAGE, "--jobs and --cluster are needed");
    s = (struct session){
        .prov = { .tool = "spot-plan", .seed = o.common.seed, .is_off = !o.common.provenance }
    };
    rc = run(&s, err);
    release(&s);
    return rc;
}

const struct spot_command plan_share_command = {
    .name = "share",
    .brief = "which of many jobs runs where on one cluster",
    .cli = &cli,
    .common = &o.common,
    .run = plan_share,
};
