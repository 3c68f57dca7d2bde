/* SPDX-License-Identifier: MIT */
/* spot-plan train - forecast and job in, plan out. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/json.h"
#include "common/out.h"
#include "common/prov.h"
#include "model/forecast_doc.h"
#include "model/job_doc.h"
#include "model/plan_doc.h"
#include "model/throughput.h"
#include "plan/change_dist.h"
#include "plan_commands.h"

struct options {
    struct spot_tool_common common;
    const char *job, *forecast, *objective, *source, *solver, *current;
    const char *starts, *told, *announced, *state;
    uint64_t now, spares, warm, epoch, leaving, horizon;
    double max_loss_prob, usd_per_sample, pending_s;
    bool explain;
};

#define NOT_GIVEN UINT64_MAX
enum { ANNOUNCED_MAX = 64 };

/* The inputs and the answer. */
struct session {
    struct spot_job_doc job;
    struct spot_json_doc json; /* text of the forecast */
    struct spot_forecast forecast;
    struct spot_change_dist dist;
    struct spot_throughput throughput;
    struct spot_train_plan plan;
    struct spot_prov prov;
    double time_s;
    int announced[ANNOUNCED_MAX], n_announced;
    int most; /* the most instances that there will be, counting announced changes */
};

static void session_release(struct session *s)
{
    spot_prov_release(&s->prov);
    spot_train_plan_release(&s->plan);
    spot_throughput_release(&s->throughput);
    spot_change_dist_release(&s->dist);
    spot_forecast_release(&s->forecast);
    spot_json_release(&s->json);
    spot_job_doc_release(&s->job);
}

/* A forecast says little about a number of instances that differs from its own, and a forecast of
 * several zones does not say in which one the number changed. */
static void warn_of_count(const struct spot_forecast *forecast, const struct options *o)
{
    long long own = 0, off;

    for (size_t i = 0; i < forecast->n_series; i++)
        own += forecast->series[i].now;
    off = llabs((long long)o->now - own);
    if (o->now == NOT_GIVEN || !off)
        return;
    if (off > 2 && 4 * off > own)
        spot_tool_warn("--now %llu: the forecast was made when there were %lld",
                       (unsigned long long)o->now, own);
    else if (forecast->n_series > 1)
        spot_tool_warn("--now %llu: the forecast has %lld in %zu series and cannot tell which of "
                       "them changed",
                       (unsigned long long)o->now, own, forecast->n_series);
}

/* All series must be of the instance type of the job. */
static int check_series(struct session *s, struct spot_err *err)
{
    char other[64];

    if (!s->job.instance_type)
        return 0;
    snprintf(other, sizeof(other), "%.63s", s->forecast.series[0].instance_type);
    if (spot_forecast_keep(&s->forecast, s->job.instance_type))
        return 0;
    return spot_json_fail(&s->json, "/series", err,
                          "has none of the job's instance type '%.64s'; the first is of '%s'",
                          s->job.instance_type, other);
}

/* The distribution of the next interval: from the forecast, or "no change" if only --now is given.
 */
static int load_dist(struct session *s, const struct options *o, struct spot_err *err)
{
    if (!o->forecast) {
        if (o->now == NOT_GIVEN)
            return spot_err_set(err, SPOT_EUSAGE,
                                "neither --forecast nor --now: how many instances are there?");
        spot_change_dist_still(&s->dist, (int)o->now, s->job.cost.interval_s, 1);
        return 0;
    }
    if (spot_json_load_path(&s->json, o->forecast, err) ||
        spot_forecast_read_instances(&s->json, &s->forecast, err) || check_series(s, err))
        return -1;
    spot_prov_add(&s->prov, s->json.source, s->json.hash);
    for (size_t i = 0; i < s->forecast.n_series; i++)
        if (s->forecast.series[i].time_s > s->time_s)
            s->time_s = s->forecast.series[i].time_s;
    warn_of_count(&s->forecast, o);
    if (spot_change_dist_init(&s->dist, &s->forecast, o->now == NOT_GIVEN ? -1 : (int)o->now,
                              err)) {
        const struct spot_err inner = *err;

        return spot_err_set(err, inner.code, "%s: %s", s->json.source, inner.msg);
    }
    return 0;
}

/* The index of `text` in name[]; the table of options allows only these names. */
static int index_of(const char *text, const char *const *name)
{
    int i = 0;

    while (strcmp(text, name[i]) != 0)
        i++;
    return i;
}

/* Choose the dynamic program if the job says what changes cost. */
static void pick_solver(const struct session *s, const struct options *o,
                        struct spot_train_question *q)
{
    static const char *const name[] = { "liveput", "dp" };
    const struct spot_job_cost *c = &s->job.cost;
    const bool charges =
        c->restart_s > 0 || c->n_p2p || c->process_s > 0 || c->regroup_s > 0 || c->n_build;

    q->solver = (enum spot_train_solver)(o->solver ? index_of(o->solver, name) : charges);
}

/* "samples", "usd-per-sample", or "mix" with --usd-per-sample. */
static int pick_objective(const struct options *o, struct spot_train_question *q,
                          struct spot_err *err)
{
    static const char *const name[] = { "samples", "usd-per-sample", "mix" };

    q->objective = (enum spot_train_objective)index_of(o->objective, name);
    q->usd_per_sample = o->usd_per_sample;
    if (q->objective == SPOT_OBJECTIVE_MIX && !(o->usd_per_sample > 0))
        return spot_err_set(err, SPOT_EUSAGE, "--objective mix needs --usd-per-sample");
    return 0;
}

/* Parses "DxP": the current grid, or the one before instances were lost. */
static int parse_current(const struct options *o, struct spot_train_question *q,
                         struct spot_err *err)
{
    struct spot_grid grid = { 0 };

    if (o->current && (spot_grid_parse(o->current, &grid) || grid.M != 1))
        return spot_err_set(err, SPOT_EUSAGE, "--current: expected DxP, got '%.32s'", o->current);
    if (spot_grid_size(&grid)) {
        q->current_d = (int)grid.D;
        q->current_p = (int)grid.P;
    }
    return 0;
}

/* A running job may use a grid that its document rules out. */
static void check_current(const struct session *s, struct spot_train_question *q)
{
    if (!q->current_d || spot_throughput_at(&s->throughput, q->current_d, q->current_p) >= 0)
        return;
    spot_tool_warn("--current %dx%d: the limits of the job rule this grid out, so the cost of "
                   "leaving it is unknown and not charged",
                   q->current_d, q->current_p);
    q->current_d = q->current_p = 0;
}

static void add_grid(struct spot_table *table, int64_t d, int64_t p)
{
    char text[48] = "suspend";

    if (d)
        snprintf(text, sizeof(text), "%lld x %lld", (long long)d, (long long)p);
    spot_table_add(table, "%s", text);
}

/* Add by how many percent another grid is below the plan. */
static void add_less(struct spot_table *table, double plan, double other)
{
    char text[32] = "";

    const double less = plan > 0 ? fabs(100 * (1 - other / plan)) : 0;

    if (plan > 0 && less < 0.01 && less > 0)
        snprintf(text, sizeof(text), "< 0.01 %% %s", other > plan ? "more" : "less");
    else if (plan > 0)
        snprintf(text, sizeof(text), "%.3g %% %s", less, other > plan ? "more" : "less");
    spot_table_add(table, "%s", text);
}

/* Print a sentence in lines of up to TEXT_WIDTH columns, broken at spaces; later lines are
 * indented. */
static void print_wrapped(const char *text, FILE *out)
{
    enum { TEXT_WIDTH = 96 };
    size_t n = strlen(text);

    for (const char *indent = ""; n; indent = "  ") {
        size_t cut = n;

        if (n > TEXT_WIDTH) {
            for (cut = TEXT_WIDTH; cut > 1 && text[cut] != ' ';)
                cut--;
            cut = text[cut] == ' ' ? cut : (size_t)TEXT_WIDTH;
        }
        fprintf(out, "%s%.*s\n", indent, (int)cut, text);
        cut += cut < n && text[cut] == ' ';
        text += cut;
        n -= cut;
    }
}

static void add_risk(struct spot_table *table, bool is_known, double loss_prob)
{
    if (is_known)
        spot_table_add(table, "%.4f", loss_prob);
    else
        spot_table_add(table, "%s", "no forecast");
}

/* Say what samples_per_s means in the table by which grids are compared. */
static void print_unit(const struct spot_train_question *q, FILE *out)
{
    fputs("undisturbed: samples/s of each grid itself\n", out);
    if (q->solver == SPOT_SOLVER_LIVEPUT)
        fputs("samples_per_s: what survives of each in the next interval, changes free\n", out);
    else
        fprintf(out,
                "samples_per_s: mean of %d interval%s with each as the next grid, later changes to "
                "others included\n",
                q->horizon, q->horizon == 1 ? "" : "s");
}

/* Print the chosen grid and the others, then the reasons: at most 100 columns. */
static void print_table(const struct spot_plan_doc *doc, const struct spot_train_question *q,
                        bool has_forecast, FILE *out)
{
    struct spot_table table;

    spot_table_init(&table, "grid,spares#,undisturbed#,samples_per_s#,loss_prob#,speed,");
    add_grid(&table, doc->next.D, doc->next.P);
    spot_table_add(&table, "%lld %.3f %.3f", (long long)doc->spares,
                   doc->expected.undisturbed_samples_per_s, doc->expected.samples_per_s);
    add_risk(&table, has_forecast, doc->expected.loss_prob);
    spot_table_add(&table, "%s %s", doc->expected.from ? doc->expected.from : "", "the plan");
    for (size_t i = 0; i < doc->n_alternative; i++) {
        const struct spot_plan_alternative *a = &doc->alternative[i];

        add_grid(&table, a->d, a->p);
        spot_table_add(&table, "%lld %.3f %.3f", (long long)a->spares, a->undisturbed_samples_per_s,
                       a->samples_per_s);
        add_risk(&table, has_forecast, a->loss_prob);
        spot_table_add(&table, "%s", a->from);
        add_less(&table, doc->expected.samples_per_s, a->samples_per_s);
    }
    spot_table_print(&table, out, SPOT_FORMAT_TABLE);
    spot_table_release(&table);
    print_unit(q, out);
    putc('\n', out);
    for (size_t i = 0; i < doc->n_why; i++)
        print_wrapped(doc->why[i], out);
}

static int write_plan(struct session *s, const struct options *o,
                      const struct spot_train_question *q, enum spot_format format,
                      struct spot_err *err)
{
    struct spot_out out;
    int rc = 0;

    if (spot_out_open(&out, o->common.output, err))
        return -1;
    if (format == SPOT_FORMAT_TABLE)
        print_table(&s->plan.doc, q, o->forecast, out.file);
    else
        rc = spot_plan_doc_write(&s->plan.doc, &s->prov, out.file, err);
    return spot_out_finish(&out, rc, err);
}

static int pick_format(const struct options *o, enum spot_format *format, struct spot_err *err)
{
    if (spot_format_parse(o->common.format, format, err))
        return -1;
    *format = spot_format_settle(*format, o->common.output, SPOT_FORMAT_JSON);
    return 0;
}

/* Print the plan in words on stderr; stdout is for the document. */
static void explain(const struct spot_plan_doc *doc)
{
    for (size_t i = 0; i < doc->n_why; i++)
        fprintf(stderr, "%s\n", doc->why[i]);
    for (size_t i = 0; i < doc->n_alternative; i++)
        fprintf(stderr, "  %lld x %lld: %s\n", (long long)doc->alternative[i].d,
                (long long)doc->alternative[i].p, doc->alternative[i].why);
}

/* Parses "-2,0,+1": changes in the next intervals. */
static int parse_announced(struct session *s, const struct options *o, struct spot_err *err)
{
    const char *at = o->announced;
    long n = s->dist.now;

    while (at && *at) {
        char *end;
        const long k = strtol(at, &end, 10);

        if (end == at || (*end && *end != ',') || s->n_announced == ANNOUNCED_MAX ||
            labs(k) > SPOT_CHANGE_COUNT_MAX || (n += k) < 0)
            return spot_err_set(err, SPOT_EUSAGE,
                                "--announced: expected changes such as -2,0,+1 of the %d instances "
                                "there are, at most %d, got '%.32s'",
                                s->dist.now, ANNOUNCED_MAX, o->announced);
        s->announced[s->n_announced++] = (int)k;
        s->most = n > s->most ? (int)n : s->most;
        at = end + (*end == ',');
    }
    return 0;
}

/* Set what is known when the grid is chosen. */
static int pick_start(const struct options *o, struct spot_train_question *q, struct spot_err *err)
{
    const char *told = o->told ? o->told : "losses";

    q->is_next = !strcmp(o->starts, "next");
    q->tells_losses = !strcmp(told, "losses") || !strcmp(told, "both");
    q->tells_gains = !strcmp(told, "gains") || !strcmp(told, "both");
    if (q->is_next && q->solver != SPOT_SOLVER_DP)
        return spot_err_set(err, SPOT_EUSAGE, "--starts next is for --solver dp");
    if (q->is_next && o->leaving)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--leaving: with --starts next it is --announced -%llu",
                            (unsigned long long)o->leaving);
    return 0;
}

/* Fill in the rest of the question, once job, distribution and throughput are known. */
static int ask(struct session *s, const struct options *o, struct spot_train_question *q,
               struct spot_err *err)
{
    pick_solver(s, o, q);
    check_current(s, q);
    if (o->leaving > (uint64_t)s->dist.now)
        return spot_err_set(err, SPOT_EUSAGE, "--leaving: more than the %d instances there are",
                            s->dist.now);
    if (o->warm && q->solver != SPOT_SOLVER_DP) {
        if (o->solver)
            return spot_err_set(err, SPOT_EUSAGE, "--warm is for --solver dp: %s prices no spares",
                                o->solver);
        spot_tool_warn("--warm: the job has no costs of changes, so a warm spare saves nothing");
    }
    q->warm = (int)o->warm;
    q->leaving = (int)o->leaving;
    q->horizon = o->horizon ? (int)o->horizon : (int)s->job.cost.look_ahead;
    q->time_s = s->time_s;
    q->carries_rest = true;
    return pick_start(o, q, err);
}

/* One call of the decision that spot-replay and a live loop use too. */
static int decide(struct session *s, const struct options *o, const struct spot_policy *policy,
                  const struct spot_train_question *q, char state[SPOT_DECISION_STATE_MAX],
                  struct spot_err *err)
{
    const struct spot_seen seen = { .time_s = s->time_s,
                                    .forecast = o->forecast ? &s->forecast : NULL,
                                    .there = o->now == NOT_GIVEN ? -1 : (int)o->now,
                                    .announced = s->announced,
                                    .n_announced = s->n_announced,
                                    .runs = { q->current_d, q->current_p, 1 },
                                    .pending_s = o->pending_s };
    struct spot_decider *decider = policy->open(&(struct spot_rule){ .train = q });
    struct spot_action action;
    int rc = plan_state_read(o->state, state, err) || policy->restore(decider, state, err) ||
             policy->observe(decider, &seen, err) ||
             policy->decide(decider, &action, &(struct spot_told){ .train = &s->plan }, err);

    policy->save(decider, state);
    policy->close(decider);
    return rc ? -1 : 0;
}

static void warn_misspelt(const char *sentence)
{
    spot_tool_warn("%s", sentence);
}

static int run(struct session *s, const struct options *o, struct spot_err *err)
{
    struct spot_train_question q = { .job = &s->job,
                                     .throughput = &s->throughput,
                                     .dist = &s->dist,
                                     .spares_min = (int)o->spares,
                                     .max_loss_prob = o->max_loss_prob };
    const struct spot_policy *policy = spot_policy_find("train", "spot", err);
    enum spot_throughput_source source;
    char state[SPOT_DECISION_STATE_MAX];
    enum spot_format format;
    int n_max;

    if (!policy || spot_throughput_source_parse(o->source, &source, err) ||
        pick_format(o, &format, err) || pick_objective(o, &q, err) || parse_current(o, &q, err) ||
        spot_job_doc_load(&s->job, o->job, err))
        return -1;
    if (s->job.kind != SPOT_JOB_TRAIN)
        return spot_json_fail(&s->job.json, "/kind", err, "expected \"train\"");
    spot_prov_add(&s->prov, s->job.json.source, s->job.json.hash);
    spot_job_doc_warn_misspelt(&s->job, warn_misspelt);
    if (load_dist(s, o, err) || parse_announced(s, o, err))
        return -1;
    /* also grids above the forecast's cap: with too few instances the plan is to suspend, not an
     * error */
    n_max = spot_job_profiled(&s->job);
    n_max = s->dist.cap > n_max ? s->dist.cap : n_max;
    n_max = s->most > n_max ? s->most : n_max;
    n_max = q.current_d * q.current_p > n_max ? q.current_d * q.current_p : n_max;
    if (spot_throughput_init(&s->throughput, &s->job, n_max ? n_max : 1, source, err) ||
        ask(s, o, &q, err) || decide(s, o, policy, &q, state, err))
        return -1;
    if (spot_train_is_cut(&q))
        spot_tool_warn(
            "too many grids to examine all of them: only the fastest, widest and deepest "
            "ones of each count within 32 of %d instances; /memory/P_min and P_max of "
            "the job narrow the choice",
            s->dist.now);
    if (s->plan.caveat)
        spot_tool_warn("%s; spot-run profile measures more grids", s->plan.caveat);
    if (o->epoch != NOT_GIVEN)
        s->plan.doc.epoch = (int64_t)o->epoch;
    if (o->explain && !o->common.quiet && format != SPOT_FORMAT_TABLE)
        explain(&s->plan.doc);
    return write_plan(s, o, &q, format, err) || plan_state_write(o->state, state, err) ? -1 : 0;
}

static const struct spot_opt_need need[] = { { "usd-per-sample", "objective mix" },
                                             { "told|announced", "starts next" },
                                             { "pending", "current" },
                                             { NULL, NULL } };
static const char *const reads[] = { "job", "forecast", NULL };
static const char *const writes[] = { "output", "state", NULL };

static struct options o = { .common = SPOT_TOOL_COMMON_DEFAULT,
                            .objective = "samples",
                            .source = "both",
                            .starts = "now",
                            .now = NOT_GIVEN,
                            .epoch = NOT_GIVEN,
                            .max_loss_prob = 1 };

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "plan" },
    SPOT_ROW_JOB(&o.job),
    SPOT_ROW_FORECAST(&o.forecast),
    SPOT_U64("now", &o.now, "n", "instances available now (default: the forecast's)", 0,
             SPOT_CHANGE_COUNT_MAX),
    SPOT_U64("spares", &o.spares, "n", "keep at least n out of the grid (default: 0)", 0,
             SPOT_CHANGE_COUNT_MAX),
    SPOT_U64("warm", &o.warm, "n",
             "most spares that mirror stages, as spot-run status shows (default: 0)", 0,
             SPOT_CHANGE_COUNT_MAX),
    SPOT_U64("epoch", &o.epoch, "n", "epoch of the job this plan is for", 0, 1e15),
    SPOT_TEXT("objective", &o.objective, "name", "samples (default), usd-per-sample or mix"),
    SPOT_REAL("usd-per-sample", &o.usd_per_sample, "usd", "value of a sample, for mix", 0, 1e9),
    SPOT_TEXT("solver", &o.solver, "name",
              "dp or liveput (default: dp where the job prices changes)"),
    PLAN_ROW_CURRENT(&o.current),
    SPOT_SECS("pending", &o.pending_s, "duration", "left of an unfinished change to --current", 0,
              1e9),
    SPOT_ROW_DECIDED(&o.state),
    SPOT_TEXT("starts", &o.starts, "when",
              "the grid starts now (default) or with the next interval"),
    SPOT_TEXT("told", &o.told, "kinds",
              "changes told before it begins: losses (default), gains, both or none"),
    SPOT_TEXT("announced", &o.announced, "n,n", "changes known of the next intervals, -2,0,+1"),
    SPOT_U64("leaving", &o.leaving, "n", "how many of --now are under notice", 0,
             SPOT_CHANGE_COUNT_MAX),
    SPOT_ROW_HORIZON(&o.horizon),
    SPOT_REAL("max-loss-prob", &o.max_loss_prob, "prob",
              "accepted probability that a stage loses all replicas (default: 1)", 0, 1),
    SPOT_ROW_THROUGHPUT(&o.source),
    SPOT_ROW_EXPLAIN(&o.explain),
    SPOT_TOOL_OPTIONS_AS(&o.common, "json, or table (default on a terminal)"),
    { SPOT_OPT_END },
};

static int plan_train(struct spot_err *err)
{
    struct session s = {
        .prov = { .tool = "spot-plan", .seed = o.common.seed, .is_off = !o.common.provenance }
    };
    const int rc = run(&s, &o, err);

    session_release(&s);
    return rc;
}

const struct spot_cli plan_train_command = {
    .name = "spot-plan train",
    .brief = "the grid a training job should run on next",
    .need = need,
    .reads = reads,
    .writes = writes,
    .required = (const struct spot_opt_required[]){ { "job", "what runs" }, { NULL, NULL } },
    .choice = (const struct spot_opt_choice[]){ { "format", "json|table" },
                                                { "solver", "dp|liveput" },
                                                { "starts", "now|next" },
                                                { "told", "losses|gains|both|none" },
                                                { "objective", "samples|usd-per-sample|mix" },
                                                { NULL, NULL } },
    .synopsis = "--job job.json [--forecast file|-] [options]",
    .summary = "Choose the grid of a training job by exact expected surviving throughput.",
    .examples = "  spot-predict trace.csv | spot-plan train --job job.json --forecast -\n"
                "  spot-plan train --job job.json --now 8 --explain\n",
    .option = option,
    .common = &o.common,
    .run_alone = plan_train,
};
