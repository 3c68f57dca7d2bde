/* SPDX-License-Identifier: MIT */
/* spot-plan deadline --jobs: several jobs under the quotas of a catalogue; each is evaluated alone.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/out.h"
#include "common/xalloc.h"
#include "plan/market_quota.h"
#include "plan_deadline.h"

enum { NAME, WORK, DEADLINE, DONE, ELAPSED, NOW, ZONE, LAUNCHING, COLUMNS };
static const char *const want[COLUMNS] = { "job",        "work_s", "deadline_s", "?done_s",
                                           "?elapsed_s", "?now",   "?zone",      "?launching_s" };

typedef double step_usd[SPOT_MARKET_PLACES_MAX][3];

struct jobs {
    struct plan_deadline_job *job;
    size_t n, cap;
    step_usd *usd;                         /* [n] cost of each step of a job alone */
    struct spot_ask_answer *answer;        /* [n] what each job alone would ask */
    struct spot_market_step *alone, *step; /* [n] */
    int64_t quota[SPOT_MARKET_PLACES_MAX];
    double worth[SPOT_MARKET_PLACES_MAX], total;
};

static int read_real(const struct spot_csv_row *row, size_t k, double min, double *x,
                     struct spot_err *err)
{
    return row->field[k] && *row->field[k] ? spot_csv_real(row, k, min, 1e8, x, err) : 0;
}

static int on_job(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct jobs *j = user;
    const char *now = row->field[NOW] && *row->field[NOW] ? row->field[NOW] : "idle";
    struct plan_deadline_job *job;
    int mode = 0;

    if (j->n == SPOT_MARKET_JOBS_MAX)
        return spot_csv_fail(row, NAME, err, "more than %d jobs", SPOT_MARKET_JOBS_MAX);
    for (size_t i = 0; i < j->n; i++)
        if (!strcmp(j->job[i].name, row->field[NAME]))
            return spot_csv_fail(row, NAME, err, "'%.64s' is there twice", row->field[NAME]);
    while (mode < 3 && strcmp(now, plan_deadline_mode[mode]) != 0)
        mode++;
    if (mode == 3)
        return spot_csv_fail(row, NOW, err, "expected idle, spot or on-demand");
    j->job = spot_xgrow(j->job, &j->cap, j->n + 1, sizeof(*j->job));
    job = &j->job[j->n++];
    *job = (struct plan_deadline_job){ .name = spot_xstrdup(row->field[NAME]),
                                       .now = spot_xstrdup(now) };
    if (row->field[ZONE] && *row->field[ZONE])
        job->at = spot_xstrdup(row->field[ZONE]);
    return spot_csv_real(row, WORK, 1, 1e8, &job->work_s, err) ||
                   spot_csv_real(row, DEADLINE, 1, 1e8, &job->deadline_s, err) ||
                   read_real(row, DONE, 0, &job->done_s, err) ||
                   read_real(row, ELAPSED, 0, &job->elapsed_s, err) ||
                   read_real(row, LAUNCHING, 0, &job->launching_s, err)
               ? -1
               : 0;
}

static int read_jobs(struct plan_deadline *s, struct jobs *j, const char *path,
                     struct spot_err *err)
{
    const bool is_stdin = !strcmp(path, "-");
    const char *source = is_stdin ? "<stdin>" : path;
    FILE *in = is_stdin ? stdin : fopen(path, "re");
    uint64_t xxh3;
    int rc;

    if (!in)
        return spot_err_sys(err, "cannot open '%s'", path);
    rc = spot_csv_read(in, source, want, COLUMNS, on_job, j, &xxh3, err);
    if (!is_stdin)
        fclose(in);
    if (!rc && !j->n)
        rc = spot_err_set(err, SPOT_EDATA, "%s: no row under the header", source);
    if (!rc)
        spot_prov_add(&s->prov, source, xxh3);
    return rc;
}

/* The cost of each step of a job alone; that of the place to ask first is that of its whole order.
 */
static void take_costs(const struct plan_deadline *s, step_usd usd)
{
    const struct spot_ask_answer *a = &s->answer;

    memcpy(usd, a->first_usd, sizeof(step_usd));
    if (a->n)
        usd[a->ask[0].place][SPOT_DEADLINE_SPOT] = a->usd;
}

/* The best step of each job alone, and the cost of each of its steps. */
static int weigh(struct plan_deadline *s, struct jobs *j, struct spot_err *err)
{
    j->usd = spot_xcalloc(j->n, sizeof(*j->usd));
    j->alone = spot_xcalloc(j->n, sizeof(*j->alone));
    j->step = spot_xcalloc(j->n, sizeof(*j->step));
    j->answer = spot_xcalloc(j->n, sizeof(*j->answer));
    for (size_t k = 0; k < s->market.n_place; k++)
        j->quota[k] = s->market.place[k].quota;
    for (size_t i = 0; i < j->n; i++) {
        const struct spot_market_now now = s->now;
        double granted[SPOT_MARKET_PLACES_MAX];
        struct spot_err why;

        memcpy(granted, s->granted, sizeof(granted));
        if (plan_deadline_weigh(s, &j->job[i], &why))
            return spot_err_set(err, why.code, "job '%.64s': %s", j->job[i].name, why.msg);
        j->alone[i] = s->want;
        j->answer[i] = s->answer;
        take_costs(s, j->usd[i]);
        s->now = now;
        memcpy(s->granted, granted, sizeof(granted));
    }
    return 0;
}

static void write_jobs(struct spot_jw *jw, const struct plan_deadline *s, const struct jobs *j)
{
    spot_jw_array(jw, "jobs");
    for (size_t i = 0; i < j->n; i++) {
        const struct spot_market_step step = j->step[i], alone = j->alone[i];
        const double usd = j->usd[i][step.place][step.mode],
                     alone_usd = j->usd[i][alone.place][alone.mode];

        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "job", j->job[i].name);
        plan_deadline_write_step(jw, s, step);
        if (isfinite(usd) && isfinite(alone_usd)) {
            spot_jw_real(jw, "usd", usd);
            spot_jw_real(jw, "quota_usd", fmax(0, usd - alone_usd));
        }
        if (j->answer[i].n)
            plan_deadline_write_ask(jw, s, &j->answer[i]);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
    spot_jw_array(jw, "quotas");
    for (size_t k = 0; k < s->market.n_place; k++) {
        if (j->quota[k] < 0)
            continue;
        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "zone", s->names.zone[k]);
        spot_jw_str(jw, "instance_type", s->names.type[k]);
        spot_jw_int(jw, "quota", j->quota[k]);
        spot_jw_real(jw, "worth", j->worth[k]);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static int write_json(const struct plan_deadline *s, const struct jobs *j, FILE *out,
                      struct spot_err *err)
{
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.plan", 1, &s->prov);
    spot_jw_str(&jw, "kind", "deadline");
    spot_jw_real(&jw, "time_s", s->time_s);
    spot_jw_real(&jw, "hold_s", s->market.tick_s);
    write_jobs(&jw, s, j);
    spot_jw_object(&jw, "expected");
    spot_jw_real(&jw, "usd", j->total);
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

/* Why a job waits: the quota, no spot, or the price. */
static void print_wait(const struct plan_deadline *s, const struct jobs *j, size_t i, FILE *out)
{
    struct spot_market_step best = { SPOT_DEADLINE_IDLE, 0 };
    char text[PLAN_DEADLINE_WHY_TEXT / 2];
    double least = INFINITY;

    for (size_t k = 0; k < s->market.n_place; k++)
        if (j->usd[i][k][SPOT_DEADLINE_SPOT] < least) {
            least = j->usd[i][k][SPOT_DEADLINE_SPOT];
            best = (struct spot_market_step){ SPOT_DEADLINE_SPOT, k };
        }
    if (j->alone[i].mode != SPOT_DEADLINE_IDLE)
        fprintf(out, "; the quotas are worth more to other jobs");
    else if (isinf(least))
        fprintf(out, "; no place has spot");
    else {
        plan_deadline_label(s, best, text);
        fprintf(out, "; to wait is cheaper than %s, %.2f usd", text, least);
    }
}

static void print_table(const struct plan_deadline *s, const struct jobs *j, FILE *out)
{
    char text[PLAN_DEADLINE_WHY_TEXT / 2], ask[PLAN_DEADLINE_WHY_TEXT];

    for (size_t i = 0; i < j->n; i++) {
        const struct spot_market_step step = j->step[i], alone = j->alone[i];
        const double usd = j->usd[i][step.place][step.mode];

        plan_deadline_label(s, step, text);
        fprintf(out, "%.64s: %s for %g s", j->job[i].name, text, s->market.tick_s);
        if (isfinite(usd))
            fprintf(out, ", %.2f usd expected in all", usd);
        if (step.mode == SPOT_DEADLINE_IDLE)
            print_wait(s, j, i, out);
        plan_deadline_label(s, alone, text);
        if (step.mode != alone.mode || step.place != alone.place)
            fprintf(out, "; alone it would take %s, %.2f usd", text,
                    j->usd[i][alone.place][alone.mode]);
        fputc('\n', out);
        if (j->answer[i].n) {
            plan_deadline_ask_text(s, &j->answer[i], ask);
            fprintf(out, "%.64s: alone it would %s\n", j->job[i].name, ask);
        }
    }
    for (size_t k = 0; k < s->market.n_place; k++)
        if (j->worth[k] > 0)
            fprintf(out, "one more of the quota of %lld in %.40s, %.40s is worth %.2f usd\n",
                    (long long)j->quota[k], s->names.zone[k], s->names.type[k], j->worth[k]);
}

static int run(struct plan_deadline *s, struct jobs *j, const char *jobs, const char *path,
               enum spot_format format, struct spot_err *err)
{
    struct spot_out out;
    int rc = 0;

    if (read_jobs(s, j, jobs, err) || weigh(s, j, err) ||
        spot_market_divide(&(struct spot_market_quota){ .n_job = j->n,
                                                        .n_place = s->market.n_place,
                                                        .usd = j->usd,
                                                        .alone = j->alone,
                                                        .quota = j->quota },
                           j->step, &j->total, j->worth, err) ||
        spot_out_open(&out, path, err))
        return -1;
    if (s->explains && format != SPOT_FORMAT_TABLE)
        print_table(s, j, stderr);
    if (format == SPOT_FORMAT_TABLE)
        print_table(s, j, out.file);
    else
        rc = write_json(s, j, out.file, err);
    return spot_out_finish(&out, rc, err);
}

int plan_deadline_jobs(struct plan_deadline *s, const char *jobs, const char *path,
                       enum spot_format format, struct spot_err *err)
{
    struct jobs j = { 0 };
    const int rc = run(s, &j, jobs, path, format, err);

    for (size_t i = 0; i < j.n; i++) {
        free(j.job[i].name);
        free(j.job[i].now);
        free(j.job[i].at);
    }
    free(j.job);
    free(j.usd);
    free(j.answer);
    free(j.alone);
    free(j.step);
    return rc;
}
