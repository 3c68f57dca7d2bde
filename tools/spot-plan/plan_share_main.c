/* SPDX-License-Identifier: MIT */
/* spot-plan share - jobs, throughputs and a cluster in, the placement for the next round out. */

#include <stdlib.h>
#include <string.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/json.h"
#include "common/out.h"
#include "common/prov.h"
#include "common/xalloc.h"
#include "forecast/class_demand.h"
#include "model/share_doc.h"
#include "plan/decision.h"
#include "plan/share_round.h"
#include "plan_commands.h"

static struct options {
    struct spot_tool_common common;
    const char *jobs, *throughput, *cluster, *policy;
    double time_s, round_s, switch_s, checkpoint_s;
    bool explain;
} o = { .common = SPOT_TOOL_COMMON_DEFAULT, .policy = "spot", .time_s = -1, .round_s = 360 };

enum { WHY_MAX = 60, WHY_TEXT = 320, WAITS_TOLD = 32 };

struct session {
    const struct spot_policy *policy;
    struct spot_decider *decider;
    struct spot_share_jobs jobs;
    struct spot_share_cluster cluster;
    struct spot_job_rates throughput;
    double *rate; /* [jobs][types] */
    struct spot_class_demand *demand;
    const struct spot_share_plan *plan;
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

static int see_jobs(const struct session *s, struct spot_share_job_now *now, struct spot_err *err)
{
    size_t n = 0;

    for (size_t i = 0; i < s->jobs.n; i++) {
        const struct spot_share_job *job = &s->jobs.job[i];

        now[i] = (struct spot_share_job_now){ .left = job->steps - job->done,
                                              .unsaved = job->unsaved,
                                              .isolated_s = job->isolated_s,
                                              .on_scale = job->on_scale };
        now[i].is_there = job->arrival_s <= o.time_s && now[i].left > 0 && job->ended_s > o.time_s;
        if (now[i].is_there && find_type(s, job, err, &now[i].on))
            return -1;
        n += now[i].is_there;
    }
    return n ? 0
             : spot_err_set(err, SPOT_EINFEASIBLE, "no job has arrived by %g s and is not done",
                            o.time_s);
}

/* The forecast from the jobs of high priority in the document; those that ended have ended_s. */
static const struct spot_share_demand *see_demand(struct session *s)
{
    const struct spot_share_demand *law;
    double *ended_s;

    if (!s->jobs.has_classes)
        return NULL;
    ended_s = spot_xcalloc(s->jobs.n, sizeof(*ended_s));
    for (size_t i = 0; i < s->jobs.n; i++)
        ended_s[i] = s->jobs.job[i].ended_s;
    s->demand = spot_class_demand_new(&s->jobs, &s->cluster, s->rate);
    law = spot_class_demand_at(s->demand, ended_s, o.time_s);
    free(ended_s);
    return law;
}

static int decide(struct session *s, struct spot_err *err)
{
    const struct spot_share_rule rule = {
        &s->jobs,
        &s->cluster,
        &s->throughput,
        s->rate,
        { .round_s = o.round_s, .switch_s = o.switch_s, .checkpoint_s = o.checkpoint_s }
    };
    struct spot_share_job_now *job = spot_xcalloc(s->jobs.n, sizeof(*job));
    int64_t *count = spot_xcalloc(s->cluster.n, sizeof(*count));
    struct spot_share_seen seen = { job, count, NULL };
    struct spot_action action = { 0 };
    int rc;

    for (size_t j = 0; j < s->cluster.n; j++)
        count[j] = s->cluster.type[j].count;
    if (o.time_s < 0)
        /* jobs are sorted by arrival: the last one */
        o.time_s = s->jobs.job[s->jobs.n - 1].arrival_s;
    rc = see_jobs(s, job, err);
    seen.demand = see_demand(s);
    s->decider = s->policy->open(&(struct spot_rule){ .share = &rule });
    if (!rc)
        rc = s->policy->observe(s->decider,
                                &(struct spot_seen){ .time_s = o.time_s, .share = &seen }, err);
    if (!rc)
        rc = s->policy->decide(s->decider, &action, NULL, err);
    s->plan = action.share;
    free(job);
    free(count);
    return rc;
}

/* --- the answer --- */

static const char *type_name(const struct session *s, size_t j)
{
    return s->cluster.type[j].name;
}

static char *new_why(struct session *s)
{
    return s->why[s->n_why++];
}

static const char *job_id(const struct session *s, size_t k)
{
    return s->jobs.job[s->plan->view.job[k]].id;
}

static const struct spot_share_way *way_of(const struct session *s, size_t k)
{
    const ptrdiff_t way = s->plan->choice.way[k];

    return way < 0 ? NULL : &s->plan->way[way];
}

static void explain_wait(struct session *s, size_t k)
{
    const struct spot_share_choice *choice = &s->plan->choice;
    const struct spot_share_way *way = s->plan->way;
    ptrdiff_t best = SPOT_SHARE_NO_WAY;

    for (size_t w = 0; w < s->plan->n_way; w++)
        if (way[w].job == k && choice->value[w] > 0 &&
            (best < 0 || choice->value[w] / (double)way[w].scale >
                             choice->value[best] / (double)way[best].scale))
            best = (ptrdiff_t)w;
    if (best < 0)
        snprintf(new_why(s), WHY_TEXT, "%.64s waits: nothing that it runs on is worth its price",
                 job_id(s, k));
    else if (choice->risk && s->plan->view.want[k].on >= 0)
        snprintf(new_why(s), WHY_TEXT,
                 "%.64s stops: jobs of high priority need workers, and its stop is among the "
                 "cheapest that free enough",
                 job_id(s, k));
    else if (choice->risk && choice->risk[k] > 0)
        snprintf(new_why(s), WHY_TEXT,
                 "%.64s waits: jobs of high priority would take its workers from it soon with "
                 "probability %.2g",
                 job_id(s, k), choice->risk[k]);
    else
        snprintf(new_why(s), WHY_TEXT,
                 "%.64s waits: it would give %.3g for each of %lld %.64s, whose price is %.3g",
                 job_id(s, k), choice->value[best] / (double)way[best].scale,
                 (long long)way[best].scale, type_name(s, way[best].type),
                 choice->price[way[best].type]);
}

static void explain(struct session *s)
{
    size_t n_wait = 0, n_told = 0;

    snprintf(new_why(s), WHY_TEXT, "%s: %s", s->policy->name, s->policy->summary);
    for (size_t j = 0; j < s->cluster.n && j < 16; j++)
        snprintf(new_why(s), WHY_TEXT, "one more %.64s is worth %.4g", type_name(s, j),
                 s->plan->choice.price[j]);
    for (size_t k = 0; k < s->plan->view.problem.n_job; k++) {
        if (way_of(s, k))
            continue;
        if (++n_wait <= WAITS_TOLD) {
            explain_wait(s, k);
            n_told++;
        }
    }
    if (n_wait > n_told)
        snprintf(new_why(s), WHY_TEXT, "%zu more wait", n_wait - n_told);
}

/* --- output --- */

static void write_round(const struct session *s, struct spot_jw *jw)
{
    const size_t n_job = s->plan->view.problem.n_job;

    spot_jw_array(jw, "run");
    for (size_t k = 0; k < n_job; k++) {
        const struct spot_share_way *way = way_of(s, k);
        const struct spot_share_want *want = &s->plan->view.want[k];

        if (!way)
            continue;
        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "job", job_id(s, k));
        spot_jw_str(jw, "instance_type", type_name(s, way->type));
        spot_jw_int(jw, "workers", way->scale);
        spot_jw_real(jw, "steps_per_s", way->rate);
        spot_jw_bool(jw, "stays", want->on == (int)way->type && want->on_scale == way->scale);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
    spot_jw_array(jw, "wait");
    for (size_t k = 0; k < n_job; k++)
        if (!way_of(s, k))
            spot_jw_str(jw, NULL, job_id(s, k));
    spot_jw_end(jw);
}

static double usd_per_h(const struct session *s)
{
    double usd = 0;

    for (size_t k = 0; k < s->plan->view.problem.n_job; k++) {
        const struct spot_share_way *way = way_of(s, k);

        if (way)
            usd += (double)way->scale * s->cluster.type[way->type].usd_per_h;
    }
    return usd;
}

static int write_json(const struct session *s, FILE *out, struct spot_err *err)
{
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.plan", 1, &s->prov);
    spot_jw_str(&jw, "kind", "share");
    spot_jw_str(&jw, "policy", s->policy->name);
    spot_jw_real(&jw, "time_s", o.time_s);
    spot_jw_real(&jw, "hold_s", o.round_s);
    write_round(s, &jw);
    spot_jw_array(&jw, "prices");
    for (size_t j = 0; j < s->cluster.n; j++) {
        spot_jw_object(&jw, NULL);
        spot_jw_str(&jw, "instance_type", type_name(s, j));
        spot_jw_known(&jw, "worth", s->plan->choice.price[j]);
        spot_jw_end(&jw);
    }
    spot_jw_end(&jw);
    spot_jw_object(&jw, "expected");
    spot_jw_real(&jw, "objective", s->plan->choice.worth);
    spot_jw_real(&jw, "usd_per_h", usd_per_h(s));
    spot_jw_end(&jw);
    spot_jw_known(&jw, "bound", s->plan->choice.bound);
    spot_jw_array(&jw, "why");
    for (size_t i = 0; i < s->n_why; i++)
        spot_jw_str(&jw, NULL, s->why[i]);
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

static void write_table(const struct session *s, FILE *out, enum spot_format format)
{
    struct spot_table table;

    spot_table_init(&table, "job,instance_type,workers#,steps_per_s#");
    for (size_t k = 0; k < s->plan->view.problem.n_job; k++) {
        const struct spot_share_way *way = way_of(s, k);

        spot_table_add(&table, "%s %s %lld %.3f", job_id(s, k), way ? type_name(s, way->type) : "-",
                       way ? (long long)way->scale : 0, way ? way->rate : 0);
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
    s->policy = spot_policy_find("share", o.policy, err);
    if (!s->policy || read_all(s, err) || decide(s, err))
        return -1;
    explain(s);
    if (o.explain && !o.common.quiet)
        for (size_t i = 0; i < s->n_why; i++)
            fprintf(stderr, "%s\n", s->why[i]);
    return write_plan(s, format, err);
}

static void release(struct session *s)
{
    if (s->decider)
        s->policy->close(s->decider);
    spot_share_jobs_release(&s->jobs);
    spot_share_cluster_release(&s->cluster);
    spot_job_rates_release(&s->throughput);
    spot_class_demand_free(s->demand);
    free(s->rate);
    spot_prov_release(&s->prov);
}

static int plan_share(struct spot_err *err)
{
    static struct session s;
    int rc;

    if (!strcmp(o.policy, "list")) {
        for (const struct spot_policy *p = spot_policy_share; p->name; p++)
            printf("%-22s %s\n", p->name, p->summary);
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

const struct spot_cli plan_share_command = {
    .name = "spot-plan share",
    .brief = "which of many jobs runs where on one cluster",
    .reads = (const char *const[]){ "jobs", "throughput", "cluster", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .choice = (const struct spot_opt_choice[]){ { "format", "json|csv|table|md" }, { NULL, NULL } },
    .synopsis = "--jobs jobs.csv --throughput t.json --cluster cluster.csv [options]",
    .summary = "Choose which of many jobs runs where on one cluster in the next round.",
    .examples = "  spot-plan share --jobs j.csv --throughput t.json --cluster c.csv --switch 20s\n"
                "  spot-plan share --jobs j.csv --throughput t.json --cluster c.csv --policy "
                "spot:max-min\n",
    .option =
        (const struct spot_opt[]){
            { SPOT_OPT_GROUP, .help = "input" },
            SPOT_TEXT("jobs", &o.jobs, "file", "CSV (required), - is standard input"),
            SPOT_TEXT("throughput", &o.throughput, "file",
                      "spot.throughput/1: steps/s by kind of job and type of worker"),
            SPOT_TEXT("cluster", &o.cluster, "file", "CSV of types (required)"),
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
    .common = &o.common,
    .run_alone = plan_share,
};
