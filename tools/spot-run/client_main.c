/* SPDX-License-Identifier: MIT */
/* Commands that talk to a running job: replan, stop and status. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "cluster/client.h"
#include "cluster/find_leader.h"
#include "comm/endpoint.h"
#include "common/json.h"
#include "model/grid.h"
#include "model/plan_doc.h"
#include "model/status_doc.h"
#include "run.h"

/* The address of the job, and how long to look for it. */
static struct job_at {
    const char *join, *key_file;
    double timeout_s;
} at;

static const struct spot_opt_required job_required[] = { { "join", "the address of the job" },
                                                         { NULL, NULL } };

#define JOB_OPTIONS                                                 \
    { SPOT_OPT_GROUP, .help = "options" }, SPOT_ROW_JOIN(&at.join), \
        SPOT_ROW_KEY_FILE(&at.key_file), SPOT_ROW_REACH(&at.timeout_s)

static int ask(enum spot_message type, const struct spot_buf *question, struct spot_buf *answer,
               struct spot_err *err)
{
    return spot_client_ask(at.join, at.key_file, at.timeout_s, type, question->data, question->n,
                           answer, err);
}

/* Check the plan. What the job would refuse is reported here, whether the job is running or not. */
static int check_plan(const struct spot_buf *text, const char *source, struct spot_err *err)
{
    struct spot_plan_doc plan;

    if (!text->n)
        return spot_err_set(err, SPOT_EDATA, "%s: empty input, expected a plan", source);
    if (text->n > SPOT_PLAN_MAX)
        return spot_err_set(err, SPOT_EDATA, "%s: larger than %d bytes", source, SPOT_PLAN_MAX);
    if (spot_plan_doc_parse(&plan, (const char *)text->data, text->n, source, err))
        return -1;
    spot_plan_doc_release(&plan);
    return 0;
}

static int read_plan(const char *path, struct spot_buf *text, struct spot_err *err)
{
    const char *source;
    FILE *in = spot_tool_open(path, &source, err);
    int rc;
    size_t got;

    if (!in)
        return -1;
    while ((got = fread(spot_buf_more(text, 65536), 1, 65536, in)) > 0 && text->n <= SPOT_PLAN_MAX)
        text->n += got;
    rc = ferror(in) ? spot_err_sys(err, "cannot read %s", source) : check_plan(text, source, err);
    if (in != stdin)
        fclose(in);
    return rc;
}

static int replan(bool is_forced, const char *path, struct spot_err *err)
{
    struct spot_buf text = { 0 }, answer = { 0 };
    int rc = read_plan(path, &text, err);

    if (!rc)
        rc = ask(is_forced ? SPOT_MSG_REPLAN_FORCE : SPOT_MSG_REPLAN, &text, &answer, err);
    if (rc > 0)
        rc = spot_err_set(err, rc == 1 ? SPOT_EINFEASIBLE : SPOT_EDATA, "refused: %.*s",
                          (int)answer.n, (const char *)answer.data);
    spot_buf_release(&text);
    spot_buf_release(&answer);
    return rc;
}

static bool is_forced;

static const struct spot_opt replan_option[] = {
    JOB_OPTIONS,
    SPOT_FLAG("force", &is_forced, "accept a plan older than the one in use"),
    { .type = SPOT_OPT_END },
};

static int run_replan(char **operand, size_t n, struct spot_err *err)
{
    struct spot_endpoint here;

    (void)n;
    if (!at.key_file && !spot_leader_is_stored(at.join) && spot_endpoint_parse(at.join, &here, err))
        return -1; /* before the plan is read, which may come from a pipe */
    return replan(is_forced, operand[0], err);
}

const struct spot_cli run_replan_command = {
    .name = "spot-run replan",
    .brief = "give a running job another plan",
    .n_operand_max = 1,
    .required = job_required,
    .synopsis = "--join ADDR [--key-file FILE] [--force] [plan.json]",
    .summary = "Give a running job another plan; one that is older than the job's is refused.",
    .examples = "  spot-plan train --job j.json --forecast f.json | spot-run replan --join "
                "unix:/tmp/job -\n",
    .option = replan_option,
    .run = run_replan,
};

/* Report the answer of the job, also after a clean stop. */
static int stop(bool quiet, struct spot_err *err)
{
    const struct spot_buf nothing = { 0 };
    struct spot_buf answer = { 0 };
    int rc = ask(SPOT_MSG_STOP, &nothing, &answer, err);

    if (rc > 0)
        rc = spot_err_set(err, rc == 1 ? SPOT_EINFEASIBLE : SPOT_ESYS, "%.*s", (int)answer.n,
                          (const char *)answer.data);
    else if (!rc && !quiet)
        spot_tool_note("%.*s", (int)answer.n, (const char *)answer.data);
    spot_buf_release(&answer);
    return rc;
}

static bool is_quiet;

static const struct spot_opt stop_option[] = {
    JOB_OPTIONS,
    { SPOT_OPT_FLAG, 'q', "quiet", &is_quiet, NULL, "do not print where the state is", 0, 0 },
    { .type = SPOT_OPT_END },
};

static int run_stop(struct spot_err *err)
{
    return stop(is_quiet, err);
}

const struct spot_cli run_stop_command = {
    .name = "spot-run stop",
    .brief = "stop a running job with its state durable",
    .required = job_required,
    .synopsis = "--join ADDR [--key-file FILE]",
    .summary = "Stop a running job when its step is done and its state is durable; wait for "
               "that.",
    .examples = "  spot-run stop --join unix:/tmp/job\n",
    .option = stop_option,
    .run_alone = run_stop,
};

/* For instance "warm 50 %: 1": the stages that it holds completely. */
static const char *warmth_at(const struct spot_status_member *member, char text[32])
{
    const struct spot_json_value *stage;
    size_t i, n = (size_t)snprintf(text, 32, "warm %.0f %%", 100 * member->warm);

    spot_json_array_foreach(member->mirrors, i, stage)
    {
        if (n < 32)
            n += (size_t)snprintf(text + n, 32 - n, i ? ",%lld" : ": %lld",
                                  (long long)spot_json_integer(stage));
    }
    return text;
}

static const char *role_at(const struct spot_status_member *member, char text[32])
{
    if (member->warm > 0)
        return warmth_at(member, text);
    if (member->d < 0)
        return "";
    snprintf(text, 32, "%lld,%lld,%lld", (long long)member->d, (long long)member->p,
             (long long)member->m);
    return text;
}

static void print_members(const struct spot_status *s)
{
    struct spot_table table;
    char text[32];

    spot_table_init(&table, "member#,name,role,d.p.m,leaving");
    for (size_t i = 0; i < s->n_member; i++) {
        const struct spot_status_member *const m = &s->member[i];

        spot_table_add(&table, "%lld %s %s %s %s", (long long)m->member, m->name, m->role,
                       role_at(m, text), m->is_leaving ? "yes" : "no");
    }
    spot_table_print(&table, stdout, SPOT_FORMAT_TABLE);
    spot_table_release(&table);
}

static void print_aside(const struct spot_status *s)
{
    for (size_t i = 0; i < s->n_aside; i++)
        printf("set aside: %s: %s\n", s->aside[i].name, s->aside[i].why);
}

/* For a foreign trainer: as its ranks report. */
static void print_ranks(const struct spot_status *s)
{
    struct spot_table table;

    if (!s->n_rank)
        return;
    spot_table_init(&table, "rank#,on,step#,s/step#,slow");
    for (size_t i = 0; i < s->n_rank; i++) {
        const struct spot_status_rank *const r = &s->rank[i];

        spot_table_add(&table, "%lld %s %lld %.3f %s", (long long)r->rank, r->name,
                       (long long)r->step, r->step_s, r->is_slow ? "yes" : "no");
    }
    putchar('\n');
    spot_table_print(&table, stdout, SPOT_FORMAT_TABLE);
    spot_table_release(&table);
}

static void print_events(const struct spot_status *s)
{
    struct spot_table table;

    spot_table_init(&table, "time_s#,event,epoch#,step#,who");
    for (size_t i = 0; i < s->n_event; i++) {
        const struct spot_status_event *const e = &s->event[i];

        spot_table_add(&table, "%.1f %s %lld %lld %s", e->time_s, e->event, (long long)e->epoch,
                       (long long)e->step, e->name);
    }
    putchar('\n');
    spot_table_print(&table, stdout, SPOT_FORMAT_TABLE);
    spot_table_release(&table);
}

/* Prints "what 1.5 unit", or "what -" for an unknown number. */
static void print_number(double x, const char *what, int digits, const char *unit)
{
    if (isnan(x))
        printf("  %s-", what);
    else
        printf("  %s%.*f%s", what, digits, x, unit);
}

static void print_want(const struct spot_status *s)
{
    char grid[SPOT_GRID_TEXT];

    if (s->is_suspended)
        printf("\nwanted: none, the plan of time %g s suspends the job\n\n", s->plan_time_s);
    else if (!s->want.D)
        printf("\nwanted: as members allow, no plan\n\n");
    else if (!isnan(s->plan_time_s))
        printf("\nwanted: grid %s, by the plan of time %g s\n\n", spot_grid_text(&s->want, grid),
               s->plan_time_s);
    else
        printf("\nwanted: grid %s, by --grid, no plan\n\n", spot_grid_text(&s->want, grid));
}

/* While a plan suspends the job it has no grid, no throughput and no expected end. */
static void print_pace(const struct spot_status *s)
{
    char grid[SPOT_GRID_TEXT];

    if (s->is_suspended)
        return;
    printf("  grid %s  %.1f ms/step", spot_grid_text(&s->grid, grid), 1e3 * s->step_s);
    print_number(s->tokens_per_s, "", 0, " tokens/s");
    print_number(s->eta_s, "ETA ", 0, " s");
}

static void print_wait(const char *what, struct spot_status_wait wait)
{
    if (!isnan(wait.p50_s))
        printf("%-15s P50 %.1f ms, P99 %.1f ms\n", what, 1e3 * wait.p50_s, 1e3 * wait.p99_s);
}

/* For a server: its work, and how long requests wait. */
static void print_serving(const struct spot_status *s)
{
    printf("serving %s: %lld replicas, %lld choices running, %lld queued", s->model,
           (long long)s->replicas, (long long)s->running, (long long)s->queued);
    print_number(s->tokens_per_s, "", 0, " tokens/s");
    if (!isnan(s->kv_use))
        printf("  cache %.0f %%", 100 * s->kv_use);
    if (s->cached_tokens && s->prompt_tokens)
        printf("  %.0f %% of prompts found",
               100.0 * (double)s->cached_tokens / (double)s->prompt_tokens);
    printf("\n%lld requests, %lld tokens, %lld preemptions\n", (long long)s->requests,
           (long long)s->tokens, (long long)s->preemptions);
    print_wait("queue", s->queue);
    print_wait("first token", s->ttft);
    print_wait("between tokens", s->between);
    print_wait("whole requests", s->whole);
    putchar('\n');
}

/* For a training job. */
static void print_training(const struct spot_status *s)
{
    char durable[32];

    snprintf(durable, sizeof(durable), "%lld", (long long)s->durable_step);
    printf("phase %s  epoch %lld  step %lld of %lld (durable %s)", s->phase, (long long)s->epoch,
           (long long)s->step, (long long)s->steps, s->durable_step < 0 ? "none" : durable);
    print_number(s->durable_lag_s, "lag ", 1, " s");
    print_number(s->loss, "loss ", 6, "");
    print_pace(s);
    print_want(s);
    if (s->durable_error)
        printf("state is not written: %s\n\n", s->durable_error);
    if (s->is_put_off)
        printf("a larger grid is delayed: members leave too often for it to repay its pause\n\n");
}

/* For a foreign trainer, whose steps are only known from its commits. */
static void print_exec(const struct spot_status *s)
{
    const struct spot_status_exec *const e = &s->exec;

    printf(
        "phase %s  epoch %lld  run %s: %lld nodes, %lld ranks, started %lld times, %lld failures",
        s->phase, (long long)s->epoch, e->run_id, (long long)e->nodes, (long long)e->world,
        (long long)e->started, (long long)e->failures);
    print_number(e->committed < 0 ? NAN : (double)e->committed, "committed ", 0, "");
    print_number(e->durable < 0 ? NAN : (double)e->durable, "durable ", 0, "");
    print_number(e->at_risk_s, "lost if killed now ", 1, " s");
    printf("\n\n");
}

static int print_status(const struct spot_buf *text, enum spot_format format, struct spot_err *err)
{
    static void (*const print[])(const struct spot_status *) = {
        [SPOT_STATUS_TRAINS] = print_training,
        [SPOT_STATUS_SERVES] = print_serving,
        [SPOT_STATUS_EXEC] = print_exec,
    };
    struct spot_status s;

    if (format != SPOT_FORMAT_TABLE) {
        fwrite(text->data, 1, text->n, stdout);
        return 0;
    }
    if (spot_status_parse(&s, (const char *)text->data, text->n, "status", err))
        return -1;
    print[s.work](&s);
    print_members(&s);
    print_aside(&s);
    print_ranks(&s);
    print_events(&s);
    spot_status_release(&s);
    return 0;
}

static const char *format_name;

static int status(struct spot_err *err)
{
    const struct spot_buf nothing = { 0 };
    struct spot_buf answer = { 0 };
    enum spot_format format;
    int rc;

    if (spot_format_parse(format_name, &format, err))
        return -1;
    format = spot_format_settle(format, NULL, SPOT_FORMAT_JSON);
    rc = ask(SPOT_MSG_STATUS, &nothing, &answer, err);
    if (!rc)
        rc = print_status(&answer, format, err);
    spot_buf_release(&answer);
    return rc;
}

static const struct spot_opt status_option[] = {
    JOB_OPTIONS,
    SPOT_TEXT("format", &format_name, "name", "table on a terminal, else json"),
    { .type = SPOT_OPT_END },
};

const struct spot_cli run_status_command = {
    .name = "spot-run status",
    .brief = "show what a running job is doing",
    .required = job_required,
    .choice = (const struct spot_opt_choice[]){ { "format", "json|table" }, { NULL, NULL } },
    .synopsis = "--join ADDR [--key-file FILE] [--format json|table]",
    .summary = "Show what a running job is doing: members, grid, step, loss, rate, "
               "time left, last events.",
    .examples = "  spot-run status --join unix:/tmp/job | jq .step\n",
    .option = status_option,
    .run_alone = status,
};
