/* SPDX-License-Identifier: MIT */
#include "trace/share_import.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/json.h"
#include "common/line.h"
#include "common/num.h"
#include "common/timestamp.h"
#include "common/unpack.h"
#include "common/xalloc.h"
#include "trace/names.h"

enum { LINE_MAX_BYTE = 1 << 16, FIELDS_MAX = 64 };
#define WHEN_MAX_S 1e11

static int add_speed(struct spot_share_import *imp, const char *kind, int64_t scale,
                     const char *type, double per_s)
{
    imp->bad.is_full = imp->n_speed == SPOT_SHARE_ROWS_MAX;
    if (imp->bad.is_full)
        return -1;
    imp->speed = spot_xgrow(imp->speed, &imp->cap_speed, imp->n_speed + 1, sizeof(*imp->speed));
    imp->speed[imp->n_speed++] =
        (struct spot_job_rates_row){ spot_xstrdup(kind), spot_xstrdup(type), scale, per_s };
    return 0;
}

/* --- lines of fields --- */

struct fields {
    const char *source;
    unsigned long line;
    char *field[FIELDS_MAX];
    size_t n;
};

static int fail(const struct fields *f, const char *name, const char *wanted, struct spot_err *err,
                const char *text)
{
    return spot_err_at(err, f->source, f->line, 0, NULL, "%s: expected %s, got '%.64s'", name,
                       wanted, text ? text : "");
}

static void split(struct fields *f, char *text, char separator)
{
    f->n = 0;
    while (f->n < FIELDS_MAX) {
        char *end = strchr(text, separator);

        f->field[f->n++] = text;
        if (!end)
            return;
        *end = '\0';
        text = end + 1;
    }
}

static int number(const struct fields *f, size_t k, const char *name, double min, double max,
                  double *out, struct spot_err *err)
{
    if (k >= f->n || spot_num_parse(f->field[k], out) || !(*out >= min && *out <= max))
        return fail(f, name, "a number in its range", err, k < f->n ? f->field[k] : NULL);
    return 0;
}

static bool is_text(const char *text)
{
    size_t n = 0;

    for (; text[n]; n++)
        if ((unsigned char)text[n] < 0x20 || (unsigned char)text[n] >= 0x7F)
            return false;
    return n > 0 && n <= SPOT_SHARE_NAME_MAX;
}

typedef int line_fn(struct spot_share_import *imp, struct fields *f, void *user,
                    struct spot_err *err);

/* on_header reads the first line; NULL: there is none. The file is an error if it fails. */
static int each_line(struct spot_share_import *imp, FILE *in, const char *source, char separator,
                     line_fn *on_header, line_fn *on_line, void *user, struct spot_err *err)
{
    struct spot_line line = { 0 };
    struct fields f = { .source = source };
    int rc;

    while ((rc = spot_bad_rows_line(&imp->bad, &line, in, LINE_MAX_BYTE, source, err)) > 0) {
        f.line = line.number;
        split(&f, line.text, separator);
        if (on_header) {
            rc = on_header(imp, &f, user, err);
            on_header = NULL;
            if (rc)
                break;
            continue;
        }
        imp->bad.is_full = imp->jobs.n == SPOT_SHARE_JOBS_MAX;
        if (imp->bad.is_full)
            rc = spot_err_at(err, source, line.number, 0, NULL, "more than %d jobs",
                             SPOT_SHARE_JOBS_MAX);
        else
            rc = on_line(imp, &f, user, err);
        rc = spot_bad_rows_take(&imp->bad, rc, err);
        if (rc)
            break;
    }
    if (!rc)
        rc = spot_bad_rows_end(&imp->bad, line.number, source, err);
    spot_line_release(&line);
    return rc;
}

/* --- gavel: its trace (tab separated), its oracle (JSON), its measurements (CSV) --- */

enum { G_KIND, G_STEPS = 5, G_SCALE, G_WEIGHT, G_SLO, G_ARRIVAL, G_FIELDS };

static int on_gavel(struct spot_share_import *imp, struct fields *f, void *user,
                    struct spot_err *err)
{
    double steps, scale, weight, slo, arrival_s;
    struct spot_share_job *job;
    char id[32];

    (void)user;
    if (f->n != G_FIELDS)
        return spot_err_at(err, f->source, f->line, 0, NULL,
                           "expected %d fields between tabs, got %zu", G_FIELDS, f->n);
    if (!is_text(f->field[G_KIND]))
        return fail(f, "job type", "a name", err, f->field[G_KIND]);
    if (number(f, G_STEPS, "total steps", 1, 1e15, &steps, err) ||
        number(f, G_SCALE, "scale factor", 1, SPOT_SHARE_COUNT_MAX, &scale, err) ||
        number(f, G_WEIGHT, "priority", 1e-6, 1e6, &weight, err) ||
        number(f, G_SLO, "SLO", -1, 1e9, &slo, err) ||
        number(f, G_ARRIVAL, "arrival", 0, 1e12, &arrival_s, err))
        return -1;
    if (scale != floor(scale))
        return fail(f, "scale factor", "a whole number", err, f->field[G_SCALE]);
    snprintf(id, sizeof(id), "%06zu", imp->jobs.n);
    job = spot_share_jobs_add(&imp->jobs, id, f->field[G_KIND], "");
    job->steps = steps;
    job->scale = job->scale_min = job->scale_max = (int64_t)scale;
    job->weight = weight;
    job->arrival_s = arrival_s;
    return 0;
}

static int on_measured(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct spot_share_import *imp = user;
    int64_t scale;
    double per_s;

    if (spot_csv_int(row, 1, 1, SPOT_SHARE_COUNT_MAX, &scale, err) ||
        spot_csv_real(row, 3, 0, 1e12, &per_s, err))
        return -1;
    if (!is_text(row->field[0]) || !is_text(row->field[2]))
        return spot_csv_fail(row, 0, err, "expected a name");
    if (add_speed(imp, row->field[0], scale, row->field[2], per_s))
        return spot_csv_fail(row, 0, err, "more than %d rows", SPOT_SHARE_ROWS_MAX);
    return 0;
}

/* "('ResNet-18 (batch size 16)', 2)" */
static int parse_key(const char *key, char kind[SPOT_SHARE_NAME_MAX + 1], int64_t *scale)
{
    const char *end = strrchr(key, '\'');
    char *rest;

    if (strncmp(key, "('", 2) != 0 || !end || end <= key + 2 ||
        end - key - 2 > SPOT_SHARE_NAME_MAX || strncmp(end, "', ", 3) != 0)
        return -1;
    memcpy(kind, key + 2, (size_t)(end - key - 2));
    kind[end - key - 2] = '\0';
    *scale = strtol(end + 3, &rest, 10);
    return strcmp(rest, ")") != 0 || *scale < 1 || *scale > SPOT_SHARE_COUNT_MAX || !is_text(kind)
               ? -1
               : 0;
}

static int add_oracle(struct spot_share_import *imp, const struct spot_json_doc *json,
                      const char *type, const struct spot_json_value *jobs, struct spot_err *err)
{
    const struct spot_json_value *entry;
    char kind[SPOT_SHARE_NAME_MAX + 1], at[192];
    const char *key;
    int64_t scale;

    spot_json_object_foreach(jobs, key, entry)
    {
        const struct spot_json_value *alone = spot_json_get(entry, "null");
        const double per_s = spot_json_number(alone);

        int rc = 0;

        snprintf(at, sizeof(at), "/%.60s/%.100s", type, key);
        if (parse_key(key, kind, &scale) || !is_text(type))
            rc = spot_json_fail(json, at, err, "expected a key like ('kind', 1)");
        else if (!spot_json_is_number(alone) || !(per_s >= 0 && per_s <= 1e12))
            rc = spot_json_fail(json, at, err, "expected \"null\", the steps/s alone");
        else if (add_speed(imp, kind, scale, type, per_s))
            rc = spot_json_fail(json, at, err, "more than %d rows", SPOT_SHARE_ROWS_MAX);
        if (spot_bad_rows_take(&imp->bad, rc, err))
            return -1;
    }
    return 0;
}

static int read_oracle(struct spot_share_import *imp, FILE *in, const char *source,
                       struct spot_err *err)
{
    const struct spot_json_value *jobs;
    struct spot_json_doc json;
    const char *type;
    int rc = 0;

    if (spot_json_load(&json, in, source, err))
        return -1;
    spot_json_object_foreach(json.root, type, jobs)
    {
        rc = rc ? rc : add_oracle(imp, &json, type, jobs, err);
    }
    rc = rc ? rc : spot_bad_rows_end(&imp->bad, 1, source, err);
    if (!rc && !imp->n_speed)
        rc = spot_json_fail(&json, "", err, "has no throughputs");
    spot_json_release(&json);
    return rc;
}

static int read_gavel(struct spot_share_import *imp, FILE *in, const char *source,
                      struct spot_err *err)
{
    static const char *const want[] = { "job_type", "scale_factor", "worker_type", "steps_per_s" };
    const int first = getc(in);

    if (first != EOF)
        ungetc(first, in);
    if (first == '{')
        return read_oracle(imp, in, source, err);
    if (first == 'j') /* the header; names of jobs have capitals */
        return spot_csv_read_log(in, source, want, 4, false, on_measured, imp, &imp->bad, err);
    return each_line(imp, in, source, '\t', NULL, on_gavel, NULL, err);
}

/* --- jobs of which only the run time in seconds is known --- */

static struct spot_share_job *add_seconds(struct spot_share_import *imp, const char *id,
                                          const char *user, double submit_s, double run_s,
                                          int64_t scale)
{
    struct spot_share_job *job = spot_share_jobs_add(&imp->jobs, id, SPOT_SHARE_KIND_SECOND, user);

    job->arrival_s = submit_s;
    job->steps = run_s;
    job->scale = job->scale_min = job->scale_max = scale;
    return job;
}

static int parse_when(const char *text, double *time_s)
{
    return (spot_timestamp_parse(text, time_s) && spot_num_parse(text, time_s)) ||
                   !(fabs(*time_s) < WHEN_MAX_S)
               ? -1
               : 0;
}

enum { P_ID, P_USER, P_SUBMIT, P_RUN, P_GPUS, P_WANT };

static int on_philly(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct spot_share_import *imp = user;
    double submit_s, run_s = 0;
    int64_t gpus;
    char id[32];

    imp->bad.is_full = imp->jobs.n == SPOT_SHARE_JOBS_MAX;
    if (imp->bad.is_full)
        return spot_csv_fail(row, P_SUBMIT, err, "more than %d jobs", SPOT_SHARE_JOBS_MAX);
    if (parse_when(row->field[P_SUBMIT], &submit_s))
        return spot_csv_fail(row, P_SUBMIT, err, "expected a date or seconds, got '%.40s'",
                             row->field[P_SUBMIT]);
    if (*row->field[P_RUN] && spot_csv_real(row, P_RUN, 0, 1e9, &run_s, err))
        return -1;
    if (spot_csv_int(row, P_GPUS, 0, SPOT_SHARE_COUNT_MAX, &gpus, err))
        return -1;
    if (!(run_s > 0) || !gpus) {
        imp->n_left_out++;
        return 0;
    }
    snprintf(id, sizeof(id), "%06zu", imp->jobs.n);
    add_seconds(imp, row->field[P_ID] && is_text(row->field[P_ID]) ? row->field[P_ID] : id,
                row->field[P_USER] && is_text(row->field[P_USER]) ? row->field[P_USER] : "",
                submit_s, run_s, gpus);
    return 0;
}

static int read_philly(struct spot_share_import *imp, FILE *in, const char *source,
                       struct spot_err *err)
{
    static const char *const want[P_WANT] = { "?job_id", "?user", "submit_time", "run_time_s",
                                              "gpus" };

    return spot_csv_read_log(in, source, want, P_WANT, false, on_philly, imp, &imp->bad, err);
}

/* Parses [D-]HH:MM:SS or MM:SS. */
static int parse_elapsed(const char *text, double *run_s)
{
    double part[3] = { 0 }, days = 0;
    const char *at = text;
    size_t n = 0;
    char *end;

    if (strchr(text, '-')) {
        days = (double)strtol(text, &end, 10);
        if (*end != '-' || !isdigit((unsigned char)*text))
            return -1;
        at = end + 1;
    }
    for (;; at = end + 1) {
        if (n == 3 || !isdigit((unsigned char)*at))
            return -1;
        part[n++] = (double)strtol(at, &end, 10);
        if (!*end)
            break;
        if (*end != ':')
            return -1;
    }
    if (n < 2)
        return -1;
    *run_s =
        days * 86400 + (n == 3 ? part[0] * 3600 + part[1] * 60 + part[2] : part[0] * 60 + part[1]);
    return *run_s >= 0 && *run_s <= 1e9 ? 0 : -1;
}

/* Parses "billing=8,cpu=8,gres/gpu=4,gres/gpu:a100=4,node=2": the number of GPUs; if only counted
 * by type, the sum over types; if there are none, the number of nodes. 0: none, or too many. */
static int64_t count_workers(const char *tres)
{
    static const char gpu[] = "gres/gpu", node[] = "node";
    const size_t n_name = sizeof(gpu) - 1;
    int64_t n_gpu = 0, n_typed = 0, n_node = 1, n;
    bool has_gpu = false;

    for (const char *at = tres; *at; at += *at == ',') {
        const size_t n_entry = strcspn(at, ","), n_key = strcspn(at, ",=");

        n = n_key < n_entry ? strtol(at + n_key + 1, NULL, 10) : 0;
        if (n_key >= n_name && !strncmp(at, gpu, n_name) &&
            (at[n_name] == ':' || n_key == n_name)) {
            *(n_key == n_name ? &n_gpu : &n_typed) += n;
            has_gpu = true;
        } else if (n_key == strlen(node) && !strncmp(at, node, n_key))
            n_node = n;
        if (n < 0 || n > SPOT_SHARE_COUNT_MAX)
            return 0;
        at += n_entry;
    }
    n = n_gpu ? n_gpu : has_gpu ? n_typed : n_node;
    return n > SPOT_SHARE_COUNT_MAX ? 0 : n;
}

enum { S_ID, S_USER, S_SUBMIT, S_ELAPSED, S_TRES, S_WANT };

struct sacct {
    size_t column[S_WANT];
};

static int sacct_header(struct spot_share_import *imp, struct fields *f, void *user,
                        struct spot_err *err)
{
    static const char *const want[S_WANT] = { "JobID", "User", "Submit", "Elapsed", "AllocTRES" };
    struct sacct *s = user;

    (void)imp;
    for (size_t w = 0; w < S_WANT; w++) {
        s->column[w] = FIELDS_MAX;
        for (size_t k = 0; k < f->n; k++)
            if (!strcmp(f->field[k], want[w]))
                s->column[w] = k;
        if (s->column[w] == FIELDS_MAX)
            return spot_err_at(err, f->source, f->line, 0, NULL,
                               "no column %s: sacct -P -o "
                               "JobID,User,Submit,Elapsed,AllocTRES",
                               want[w]);
    }
    return 0;
}

static int on_sacct(struct spot_share_import *imp, struct fields *f, void *user,
                    struct spot_err *err)
{
    struct sacct *s = user;
    const char *field[S_WANT];
    double submit_s, run_s;
    int64_t n;

    for (size_t w = 0; w < S_WANT; w++) {
        if (s->column[w] >= f->n)
            return spot_err_at(err, f->source, f->line, 0, NULL,
                               "%zu fields, fewer than the header", f->n);
        field[w] = f->field[s->column[w]];
    }
    if (strchr(field[S_ID], '.')) /* a step of a job */
        return 0;
    if (!is_text(field[S_ID]))
        return fail(f, "JobID", "a name", err, field[S_ID]);
    if (parse_when(field[S_SUBMIT], &submit_s))
        return fail(f, "Submit", "a date", err, field[S_SUBMIT]);
    if (parse_elapsed(field[S_ELAPSED], &run_s))
        return fail(f, "Elapsed", "[days-]hours:minutes:seconds", err, field[S_ELAPSED]);
    n = count_workers(field[S_TRES]);
    if (!(run_s > 0) || !n || !*field[S_TRES]) {
        imp->n_left_out++;
        return 0;
    }
    add_seconds(imp, field[S_ID], is_text(field[S_USER]) ? field[S_USER] : "", submit_s, run_s, n);
    return 0;
}

static int read_sacct(struct spot_share_import *imp, FILE *in, const char *source,
                      struct spot_err *err)
{
    struct sacct s = { 0 };

    return each_line(imp, in, source, '|', sacct_header, on_sacct, &s, err);
}

/* --- Pollux's workloads, and Alibaba's pods of 2023 --- */

enum { X_NAME, X_TIME, X_KIND, X_SCALE, X_WANT };

/* A job prefers its best number of workers and may run on others, but one that asks for a single
 * worker keeps to it, as in the artifact. A step is the whole training. */
static int on_workload(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct spot_share_import *imp = user;
    struct spot_share_job *job;
    double arrival_s;
    int64_t scale;

    imp->bad.is_full = imp->jobs.n == SPOT_SHARE_JOBS_MAX;
    if (imp->bad.is_full)
        return spot_csv_fail(row, X_NAME, err, "more than %d jobs", SPOT_SHARE_JOBS_MAX);
    if (!is_text(row->field[X_NAME]) || !is_text(row->field[X_KIND]))
        return spot_csv_fail(row, is_text(row->field[X_NAME]) ? X_KIND : X_NAME, err,
                             "expected a name");
    if (spot_csv_real(row, X_TIME, 0, 1e12, &arrival_s, err) ||
        spot_csv_int(row, X_SCALE, 1, SPOT_SHARE_COUNT_MAX, &scale, err))
        return -1;
    job = spot_share_jobs_add(&imp->jobs, row->field[X_NAME], row->field[X_KIND], "");
    job->arrival_s = arrival_s;
    job->steps = 1;
    job->scale = scale;
    job->scale_min = 1;
    job->scale_max = scale > 1 ? SPOT_POLLUX_SCALE_MAX : 1;
    return 0;
}

static int read_pollux(struct spot_share_import *imp, FILE *in, const char *source,
                       struct spot_err *err)
{
    static const char *const want[X_WANT] = { "name", "time", "application", "num_replicas" };

    if (spot_pollux_is_measured(source))
        return spot_pollux_read(&imp->pollux, in, source, &imp->bad, err);
    return spot_csv_read_log(in, source, want, X_WANT, false, on_workload, imp, &imp->bad, err);
}

static int add_training(void *user, const char *name, int64_t scale, double per_s)
{
    return add_speed(user, name, scale, "gpu", per_s);
}

enum { A_NAME, A_GPUS, A_CREATED, A_DELETED, A_SCHEDULED, A_QOS, A_WANT };

/* Kubernetes evicts the classes BE and Burstable first. */
static enum spot_share_priority priority_of(const char *qos)
{
    return !strcmp(qos, "BE") || !strcmp(qos, "Burstable") ? SPOT_SHARE_SPOT : SPOT_SHARE_HIGH;
}

/* A part of a GPU counts as a worker. Pods that were never scheduled, or were still running, are
 * left out. */
static int on_pod(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct spot_share_import *imp = user;
    double created_s, from_s = 0, to_s = 0;
    struct spot_share_job *job;
    int64_t gpus;

    imp->bad.is_full = imp->jobs.n == SPOT_SHARE_JOBS_MAX;
    if (imp->bad.is_full)
        return spot_csv_fail(row, A_NAME, err, "more than %d jobs", SPOT_SHARE_JOBS_MAX);
    if (!is_text(row->field[A_NAME]))
        return spot_csv_fail(row, A_NAME, err, "expected a name");
    if (spot_csv_int(row, A_GPUS, 0, SPOT_SHARE_COUNT_MAX, &gpus, err) ||
        spot_csv_real(row, A_CREATED, 0, 1e12, &created_s, err) ||
        (*row->field[A_DELETED] && spot_csv_real(row, A_DELETED, 0, 1e12, &to_s, err)) ||
        (*row->field[A_SCHEDULED] && spot_csv_real(row, A_SCHEDULED, 0, 1e12, &from_s, err)))
        return -1;
    if (!*row->field[A_SCHEDULED] || !gpus || !(to_s - from_s >= 1)) {
        imp->n_left_out++;
        return 0;
    }
    job = add_seconds(imp, row->field[A_NAME], "", created_s, to_s - from_s, gpus);
    imp->jobs.has_classes |= row->field[A_QOS] != NULL;
    if (row->field[A_QOS])
        job->priority = priority_of(row->field[A_QOS]);
    return 0;
}

static int read_alibaba(struct spot_share_import *imp, FILE *in, const char *source,
                        struct spot_err *err)
{
    static const char *const want[A_WANT] = { "name",          "num_gpu",        "creation_time",
                                              "deletion_time", "scheduled_time", "?qos" };

    return spot_csv_read_log(in, source, want, A_WANT, false, on_pod, imp, &imp->bad, err);
}

/* --- repetitions --- */

static void free_speed(struct spot_job_rates_row *speed)
{
    free((void *)(uintptr_t)speed->kind);
    free((void *)(uintptr_t)speed->instance_type);
}

static void settle_jobs(struct spot_share_import *imp)
{
    struct spot_share_job *job = imp->jobs.job;
    struct spot_names id = { 0 };

    for (size_t i = 0; i < imp->jobs.n; i++) {
        const size_t known = id.n, at = spot_names_intern(&id, 0, job[i].id);

        if (at < known) {
            imp->n_replaced += job[at].arrival_s != job[i].arrival_s ||
                               job[at].steps != job[i].steps || job[at].scale != job[i].scale;
            spot_share_job_release(&job[at]);
        }
        job[at] = job[i];
    }
    imp->jobs.n = id.n;
    spot_names_release(&id);
}

static void settle_speeds(struct spot_share_import *imp)
{
    struct spot_job_rates_row *speed = imp->speed;
    struct spot_names kind = { 0 }, type = { 0 };

    for (size_t i = 0; i < imp->n_speed; i++) {
        const size_t k = spot_names_intern(&kind, (uint32_t)speed[i].scale, speed[i].kind);
        const size_t known = type.n,
                     at = spot_names_intern(&type, (uint32_t)k, speed[i].instance_type);

        if (at < known) {
            imp->n_replaced += speed[at].steps_per_s != speed[i].steps_per_s;
            free_speed(&speed[at]);
        }
        speed[at] = speed[i];
    }
    imp->n_speed = type.n;
    spot_names_release(&kind);
    spot_names_release(&type);
}

int spot_share_import_settle(struct spot_share_import *imp, struct spot_err *err)
{
    if (spot_pollux_each(imp->pollux, add_training, imp, err))
        return -1;
    settle_jobs(imp);
    settle_speeds(imp);
    return 0;
}

void spot_share_import_release(struct spot_share_import *imp)
{
    for (size_t i = 0; i < imp->n_speed; i++)
        free_speed(&imp->speed[i]);
    free(imp->speed);
    spot_pollux_free(imp->pollux);
    spot_share_jobs_release(&imp->jobs);
    *imp = (struct spot_share_import){ 0 };
}

/* --- all of them --- */

const struct spot_share_format spot_share_format[] = {
    { "gavel", "a trace of jobs (tabs), its oracle (JSON) or measurements (CSV) of throughputs",
      false, read_gavel },
    { "philly-csv", "[job_id,][user,]submit_time,run_time_s,gpus: one job a row", true,
      read_philly },
    { "pollux", "a workload of Pollux's artifact, or the measurements of its trainings", false,
      read_pollux },
    { "alibaba-2023", "name,num_gpu,creation_time,deletion_time,scheduled_time: one pod a row",
      false, read_alibaba },
    { "sacct", "sacct -P -o JobID,User,Submit,Elapsed,AllocTRES", true, read_sacct },
    { 0 },
};

const struct spot_share_format *spot_share_format_find(const char *name)
{
    for (const struct spot_share_format *f = spot_share_format; f->name; f++)
        if (!strcmp(f->name, name))
            return f;
    return NULL;
}

int spot_share_import_read(struct spot_share_import *imp, const struct spot_share_format *format,
                           FILE *in, const char *source, struct spot_err *err)
{
    struct spot_unpack unpack;

    imp->bad = (struct spot_bad_rows){ .is_strict = imp->bad.is_strict };
    if (spot_unpack_open(&unpack, in, source, err))
        return -1;
    return spot_unpack_close(&unpack, format->read(imp, unpack.in, source, err), err);
}
