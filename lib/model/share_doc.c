/* SPDX-License-Identifier: MIT */
#include "model/share_doc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/csv_write.h"
#include "common/num.h"
#include "common/xalloc.h"

/* --- jobs --- */

enum {
    ID,
    ARRIVAL,
    KIND,
    STEPS,
    SCALE,
    WEIGHT,
    SLO,
    DONE,
    ON,
    USER,
    SCALE_MIN,
    SCALE_MAX,
    ON_WORKERS,
    UNSAVED,
    ISOLATED,
    PRIORITY,
    ENDED,
    N_WANT
};

static const char *const want_job[N_WANT] = {
    "id",          "arrival_s", "kind",        "steps",     "scale",      "?weight",
    "?slo_s",      "?done",     "?on",         "?user",     "?scale_min", "?scale_max",
    "?on_workers", "?unsaved",  "?isolated_s", "?priority", "?ended_s"
};

struct spot_share_job *spot_share_jobs_add(struct spot_share_jobs *jobs, const char *id,
                                           const char *kind, const char *user)
{
    struct spot_share_job *job;

    jobs->job = spot_xgrow(jobs->job, &jobs->cap, jobs->n + 1, sizeof(*jobs->job));
    job = &jobs->job[jobs->n++];
    *job = (struct spot_share_job){ .id = spot_xstrdup(id),
                                    .kind = spot_xstrdup(kind),
                                    .user = spot_xstrdup(user ? user : ""),
                                    .on = spot_xstrdup(""),
                                    .weight = 1,
                                    .slo_s = INFINITY,
                                    .isolated_s = -1,
                                    .scale = 1,
                                    .scale_min = 1,
                                    .scale_max = 1,
                                    .ended_s = INFINITY };
    return job;
}

void spot_share_job_release(struct spot_share_job *job)
{
    free(job->id);
    free(job->kind);
    free(job->user);
    free(job->on);
}

void spot_share_jobs_release(struct spot_share_jobs *jobs)
{
    for (size_t i = 0; i < jobs->n; i++)
        spot_share_job_release(&jobs->job[i]);
    free(jobs->job);
    *jobs = (struct spot_share_jobs){ 0 };
}

static bool is_given(const struct spot_csv_row *row, size_t k)
{
    return row->field[k] && *row->field[k];
}

static int check_name(const struct spot_csv_row *row, size_t k, bool required, struct spot_err *err)
{
    const char *text = row->field[k];

    if (required && !is_given(row, k))
        return spot_csv_fail(row, k, err, "expected a name");
    if (text && strlen(text) > SPOT_SHARE_NAME_MAX)
        return spot_csv_fail(row, k, err, "longer than %d bytes", SPOT_SHARE_NAME_MAX);
    for (; text && *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F)
            return spot_csv_fail(row, k, err, "control character in a name");
    return 0;
}

static int optional_real(const struct spot_csv_row *row, size_t k, double min, double max,
                         double *out, struct spot_err *err)
{
    return is_given(row, k) ? spot_csv_real(row, k, min, max, out, err) : 0;
}

static int optional_int(const struct spot_csv_row *row, size_t k, int64_t min, int64_t max,
                        int64_t *out, struct spot_err *err)
{
    return is_given(row, k) ? spot_csv_int(row, k, min, max, out, err) : 0;
}

static int read_scale(const struct spot_csv_row *row, struct spot_share_job *job,
                      struct spot_err *err)
{
    if (spot_csv_int(row, SCALE, 1, SPOT_SHARE_COUNT_MAX, &job->scale, err))
        return -1;
    job->scale_min = job->scale_max = job->scale;
    return optional_int(row, SCALE_MIN, 1, job->scale, &job->scale_min, err) ||
                   optional_int(row, SCALE_MAX, job->scale, SPOT_SHARE_COUNT_MAX, &job->scale_max,
                                err)
               ? -1
               : 0;
}

static int read_priority(const struct spot_csv_row *row, struct spot_share_jobs *jobs,
                         struct spot_share_job *job, struct spot_err *err)
{
    const char *text = is_given(row, PRIORITY) ? row->field[PRIORITY] : "";

    if (!strcmp(text, "high"))
        job->priority = SPOT_SHARE_HIGH;
    else if (!strcmp(text, "spot"))
        job->priority = SPOT_SHARE_SPOT;
    else if (*text)
        return spot_csv_fail(row, PRIORITY, err, "expected high or spot, got '%.40s'", text);
    if (jobs->n == 1)
        jobs->has_classes = *text;
    if (jobs->has_classes != (bool)*text)
        return spot_csv_fail(row, PRIORITY, err, "expected a priority of all jobs, or of none");
    return 0;
}

static int on_job(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct spot_share_jobs *jobs = user;
    struct spot_share_job *job;

    if (jobs->n == SPOT_SHARE_JOBS_MAX)
        return spot_csv_fail(row, ID, err, "more than %d jobs", SPOT_SHARE_JOBS_MAX);
    if (check_name(row, ID, true, err) || check_name(row, KIND, true, err) ||
        check_name(row, USER, false, err) || check_name(row, ON, false, err))
        return -1;
    job = spot_share_jobs_add(jobs, row->field[ID], row->field[KIND], row->field[USER]);
    if (is_given(row, ON)) {
        free(job->on);
        job->on = spot_xstrdup(row->field[ON]);
    }
    if (spot_csv_real(row, ARRIVAL, 0, 1e12, &job->arrival_s, err) ||
        spot_csv_real(row, STEPS, 1e-9, 1e15, &job->steps, err) || read_scale(row, job, err) ||
        optional_real(row, WEIGHT, 1e-6, 1e6, &job->weight, err) ||
        optional_real(row, SLO, 1e-3, 1e12, &job->slo_s, err) ||
        optional_real(row, DONE, 0, job->steps, &job->done, err) ||
        optional_real(row, UNSAVED, 0, job->done, &job->unsaved, err) ||
        optional_real(row, ISOLATED, 0, 1e15, &job->isolated_s, err))
        return -1;
    job->on_scale = job->scale;
    return optional_int(row, ON_WORKERS, 0, SPOT_SHARE_COUNT_MAX, &job->on_scale, err) ||
                   optional_real(row, ENDED, job->arrival_s, 1e12, &job->ended_s, err) ||
                   read_priority(row, jobs, job, err)
               ? -1
               : 0;
}

static int by_arrival(const void *a, const void *b)
{
    const struct spot_share_job *x = a, *y = b;

    if (x->arrival_s < y->arrival_s || x->arrival_s > y->arrival_s)
        return x->arrival_s < y->arrival_s ? -1 : 1;
    return strcmp(x->id, y->id);
}

void spot_share_jobs_sort(struct spot_share_jobs *jobs)
{
    if (jobs->n)
        qsort(jobs->job, jobs->n, sizeof(*jobs->job), by_arrival);
}

static int check_ids(const struct spot_share_jobs *jobs, const char *source, struct spot_err *err)
{
    const char **id = spot_xcalloc(jobs->n, sizeof(*id));
    int rc = 0;

    for (size_t i = 0; i < jobs->n; i++)
        id[i] = jobs->job[i].id;
    if (jobs->n)
        qsort(id, jobs->n, sizeof(*id), spot_compare_texts);
    for (size_t i = 1; !rc && i < jobs->n; i++)
        if (!strcmp(id[i - 1], id[i]))
            rc = spot_err_set(err, SPOT_EDATA, "%s: two jobs have the id '%.64s'", source, id[i]);
    free(id);
    return rc;
}

int spot_share_jobs_read(struct spot_share_jobs *jobs, FILE *in, const char *source,
                         struct spot_err *err)
{
    int rc;

    *jobs = (struct spot_share_jobs){ 0 };
    rc = spot_csv_read(in, source, want_job, N_WANT, on_job, jobs, &jobs->xxh3, err);
    if (!rc && !jobs->n)
        rc = spot_err_set(err, SPOT_EDATA, "%s:2:1: no jobs after the header", source);
    if (!rc)
        rc = check_ids(jobs, source, err);
    if (rc)
        spot_share_jobs_release(jobs);
    else
        spot_share_jobs_sort(jobs);
    return rc;
}

typedef int read_fn(void *doc, FILE *in, const char *source, struct spot_err *err);

static int load(const char *path, read_fn *read, void *doc, struct spot_err *err)
{
    FILE *in;
    int rc;

    if (!strcmp(path, "-"))
        return read(doc, stdin, "<stdin>", err);
    in = fopen(path, "re");
    if (!in)
        return spot_err_sys(err, "cannot open %s", path);
    rc = read(doc, in, path, err);
    fclose(in);
    return rc;
}

static int jobs_read(void *doc, FILE *in, const char *source, struct spot_err *err)
{
    return spot_share_jobs_read(doc, in, source, err);
}

int spot_share_jobs_load(struct spot_share_jobs *jobs, const char *path, struct spot_err *err)
{
    *jobs = (struct spot_share_jobs){ 0 };
    return load(path, jobs_read, jobs, err);
}

static void put_real(FILE *out, double x)
{
    char text[SPOT_NUM_TEXT];

    if (isfinite(x))
        fprintf(out, ",%s", spot_num_format(x, text));
    else
        putc(',', out);
}

static void put_text(FILE *out, const char *text)
{
    putc(',', out);
    spot_csv_put(out, text, ',');
}

void spot_share_jobs_write(const struct spot_share_jobs *jobs, FILE *out)
{
    bool has_span = false;

    for (size_t i = 0; i < jobs->n; i++)
        has_span |= jobs->job[i].scale_min != jobs->job[i].scale_max;
    fprintf(out, "id,arrival_s,kind,steps,scale,weight,slo_s,user%s%s\n",
            has_span ? ",scale_min,scale_max" : "", jobs->has_classes ? ",priority" : "");
    for (size_t i = 0; i < jobs->n; i++) {
        const struct spot_share_job *job = &jobs->job[i];

        spot_csv_put(out, job->id, ',');
        put_real(out, job->arrival_s);
        put_text(out, job->kind);
        put_real(out, job->steps);
        fprintf(out, ",%lld", (long long)job->scale);
        put_real(out, job->weight);
        put_real(out, job->slo_s);
        put_text(out, job->user);
        if (has_span)
            fprintf(out, ",%lld,%lld", (long long)job->scale_min, (long long)job->scale_max);
        if (jobs->has_classes)
            fprintf(out, ",%s", job->priority == SPOT_SHARE_SPOT ? "spot" : "high");
        putc('\n', out);
    }
}

/* --- the cluster --- */

enum { TYPE, COUNT, MARKET, USD, HAZARD, N_TYPE_WANT };

static int on_type(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct spot_share_cluster *cluster = user;
    struct spot_share_type type = { 0 };

    if (check_name(row, TYPE, true, err) ||
        spot_csv_int(row, COUNT, 0, SPOT_SHARE_COUNT_MAX, &type.count, err) ||
        optional_real(row, USD, 0, 1e6, &type.usd_per_h, err) ||
        optional_real(row, HAZARD, 0, 1e4, &type.hazard_per_h, err))
        return -1;
    if (is_given(row, MARKET) && strcmp(row->field[MARKET], "spot") != 0 &&
        strcmp(row->field[MARKET], "on-demand") != 0)
        return spot_csv_fail(row, MARKET, err, "expected spot or on-demand, got '%.40s'",
                             row->field[MARKET]);
    type.is_spot = is_given(row, MARKET) && !strcmp(row->field[MARKET], "spot");
    for (size_t i = 0; i < cluster->n; i++)
        if (!strcmp(cluster->type[i].name, row->field[TYPE]))
            return spot_csv_fail(row, TYPE, err, "'%.64s' is named twice", row->field[TYPE]);
    if (cluster->n == SPOT_SHARE_TYPES_MAX)
        return spot_csv_fail(row, TYPE, err, "more than %d types", SPOT_SHARE_TYPES_MAX);
    cluster->type =
        spot_xgrow(cluster->type, &cluster->cap, cluster->n + 1, sizeof(*cluster->type));
    type.name = spot_xstrdup(row->field[TYPE]);
    cluster->type[cluster->n++] = type;
    return 0;
}

int spot_share_cluster_read(struct spot_share_cluster *cluster, FILE *in, const char *source,
                            struct spot_err *err)
{
    static const char *const want[N_TYPE_WANT] = { "instance_type", "count", "?market",
                                                   "?usd_per_h", "?hazard_per_h" };
    int rc;

    *cluster = (struct spot_share_cluster){ 0 };
    rc = spot_csv_read(in, source, want, N_TYPE_WANT, on_type, cluster, &cluster->xxh3, err);
    if (!rc && !cluster->n)
        rc = spot_err_set(err, SPOT_EDATA, "%s:2:1: no types after the header", source);
    if (rc)
        spot_share_cluster_release(cluster);
    return rc;
}

static int cluster_read(void *doc, FILE *in, const char *source, struct spot_err *err)
{
    return spot_share_cluster_read(doc, in, source, err);
}

int spot_share_cluster_load(struct spot_share_cluster *cluster, const char *path,
                            struct spot_err *err)
{
    *cluster = (struct spot_share_cluster){ 0 };
    return load(path, cluster_read, cluster, err);
}

void spot_share_cluster_release(struct spot_share_cluster *cluster)
{
    for (size_t i = 0; i < cluster->n; i++)
        free(cluster->type[i].name);
    free(cluster->type);
    *cluster = (struct spot_share_cluster){ 0 };
}

/* --- throughputs --- */

#define ROW(member) offsetof(struct spot_job_rates_row, member)
static const struct spot_field row_field[] = {
    { "kind", SPOT_F_STR, ROW(kind), NULL, 0, 0, true },
    { "scale", SPOT_F_INT, ROW(scale), "1", 1, SPOT_SHARE_COUNT_MAX, true },
    { "instance_type", SPOT_F_STR, ROW(instance_type), NULL, 0, 0, true },
    { "steps_per_s", SPOT_F_REAL, ROW(steps_per_s), "1/s", 0, 1e12, true },
    { 0 },
};

const struct spot_doc_part spot_job_rates_part[] = {
    { "rows[]", row_field, true, SPOT_SHARE_ROWS_MAX, NULL },
    { 0 },
};

static int by_key(const void *a, const void *b)
{
    const struct spot_job_rates_row *x = a, *y = b;
    int order = strcmp(x->kind, y->kind);

    if (!order)
        order = (x->scale > y->scale) - (x->scale < y->scale);
    return order ? order : strcmp(x->instance_type, y->instance_type);
}

static int read_rows(struct spot_job_rates *t, struct spot_err *err)
{
    const struct spot_json_value *list, *entry;
    char at[64];
    size_t i;

    if (spot_json_expect_schema(&t->json, "spot.throughput", 1, err) ||
        spot_json_array(&t->json, t->json.root, "", "rows", true, SPOT_SHARE_ROWS_MAX, &list, err))
        return -1;
    t->n = spot_json_array_size(list);
    t->row = spot_xcalloc(t->n, sizeof(*t->row));
    spot_json_array_foreach(list, i, entry)
    {
        snprintf(at, sizeof(at), "/rows/%zu", i);
        if (spot_json_read_fields(&t->json, entry, at, row_field, &t->row[i], err))
            return -1;
    }
    if (t->n)
        qsort(t->row, t->n, sizeof(*t->row), by_key);
    for (i = 1; i < t->n; i++)
        if (!by_key(&t->row[i - 1], &t->row[i]))
            return spot_json_fail(&t->json, "/rows", err, "has '%.64s' on %lld '%.64s' twice",
                                  t->row[i].kind, (long long)t->row[i].scale,
                                  t->row[i].instance_type);
    return 0;
}

static int finish(struct spot_job_rates *t, int rc)
{
    if (rc)
        spot_job_rates_release(t);
    return rc;
}

int spot_job_rates_load(struct spot_job_rates *t, const char *path, struct spot_err *err)
{
    *t = (struct spot_job_rates){ 0 };
    return spot_json_load_path(&t->json, path, err) ? -1 : finish(t, read_rows(t, err));
}

int spot_job_rates_parse(struct spot_job_rates *t, const char *text, size_t n_byte,
                         const char *source, struct spot_err *err)
{
    *t = (struct spot_job_rates){ 0 };
    return spot_json_parse(&t->json, text, n_byte, source, err) ? -1 : finish(t, read_rows(t, err));
}

void spot_job_rates_release(struct spot_job_rates *t)
{
    free(t->row);
    spot_json_release(&t->json);
    *t = (struct spot_job_rates){ 0 };
}

double spot_job_rates_find(const struct spot_job_rates *t, const char *kind, int64_t scale,
                           const char *instance_type)
{
    const struct spot_job_rates_row key = { .kind = kind,
                                            .instance_type = instance_type,
                                            .scale = scale };
    const struct spot_job_rates_row *row =
        t->n ? bsearch(&key, t->row, t->n, sizeof(*t->row), by_key) : NULL;

    return row ? row->steps_per_s : !strcmp(kind, SPOT_SHARE_KIND_SECOND) ? 1 : 0;
}

size_t spot_job_rates_of(const struct spot_job_rates *t, const char *kind,
                         const struct spot_job_rates_row **row)
{
    size_t lo = 0, hi = t->n, n = 0;

    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;

        if (strcmp(t->row[mid].kind, kind) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    while (lo + n < t->n && !strcmp(t->row[lo + n].kind, kind))
        n++;
    *row = n ? &t->row[lo] : NULL;
    return n;
}

static int nowhere(const struct spot_share_job *job, const struct spot_share_cluster *cluster,
                   bool is_known, struct spot_err *err)
{
    size_t most = 0;

    for (size_t j = 1; j < cluster->n; j++)
        if (cluster->type[j].count > cluster->type[most].count)
            most = j;
    if (is_known)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "job '%.64s' needs %lld workers of one type that it runs on; there are "
                            "at most %lld (%.64s)",
                            job->id, (long long)job->scale, (long long)cluster->type[most].count,
                            cluster->type[most].name);
    return spot_err_set(err, SPOT_EINFEASIBLE,
                        "job '%.64s': no throughput of '%.64s' on %lld workers of any type of the "
                        "cluster",
                        job->id, job->kind, (long long)job->scale);
}

int spot_share_rates(const struct spot_share_jobs *jobs, const struct spot_share_cluster *cluster,
                     const struct spot_job_rates *t, double *rate, struct spot_err *err)
{
    for (size_t i = 0; i < jobs->n; i++) {
        const struct spot_share_job *job = &jobs->job[i];
        bool is_known = false, runs = false;

        for (size_t j = 0; j < cluster->n; j++) {
            const struct spot_share_type *type = &cluster->type[j];
            const double x = spot_job_rates_find(t, job->kind, job->scale, type->name);

            is_known |= x > 0;
            rate[i * cluster->n + j] = type->count >= job->scale ? x : 0;
            runs |= rate[i * cluster->n + j] > 0;
        }
        if (!runs)
            return nowhere(job, cluster, is_known, err);
    }
    return 0;
}
