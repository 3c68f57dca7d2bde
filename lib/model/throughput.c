/* SPDX-License-Identifier: MIT */
#include "model/throughput.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "model/stage_split.h"

static const double OUTLIER_RATIO = 1.4;
/* a curve with a larger error at some point is not trusted */
static const double MISS_MAX = 0.2;
static const double MEMORY_SHARE = 0.92; /* part of an instance's memory that state may fill */

/* --- the curve --- */

/* Time of one micro batch in a layer; relative weights where no layer has a time. */
static double layer_time(const struct spot_job_doc *job, size_t i)
{
    bool timed = false;

    for (size_t k = 0; k < job->n_layer && !timed; k++)
        timed = job->layer[k].forward_s + job->layer[k].backward_s > 0;
    if (timed)
        return job->layer[i].forward_s + job->layer[i].backward_s;
    if (job->model.shape.n_layer) /* the embedding only looks up */
        return i ? job->layer[i].params / job->layer[1].params : 0;
    return 1;
}

/* Terms of the model for a grid: pipe and M + 2P. */
static void features(const struct spot_job_doc *job, int d, int p, double *pipe, double *fill)
{
    const double micro = ceil((double)job->global_batch / ((double)d * (double)job->micro_batch));
    const int n = job->n_layer ? (int)job->n_layer : p;
    double sum = 0, slowest = 0;

    for (int k = 0; k < p; k++) {
        double t = 0;

        if (p > n) { /* fewer layers than stages: as if layers could be cut */
            t = (double)n / p;
        } else if (!job->n_layer) {
            t = 1.0 / p;
        } else {
            const struct spot_stage_span span = spot_stage_split(n, p, k);

            for (int i = span.first; i < span.end; i++)
                t += layer_time(job, (size_t)i);
        }
        sum += t;
        slowest = t > slowest ? t : slowest;
    }
    *pipe = micro * slowest + sum - slowest;
    *fill = micro + 2 * p;
}

/* Solve the normal equations of the chosen columns by elimination; false if singular. */
static bool solve(double a[3][4], int n)
{
    for (int i = 0; i < n; i++) {
        int best = i;

        for (int r = i + 1; r < n; r++)
            if (fabs(a[r][i]) > fabs(a[best][i]))
                best = r;
        for (int c = 0; c < 4; c++) {
            const double t = a[i][c];

            a[i][c] = a[best][c];
            a[best][c] = t;
        }
        if (fabs(a[i][i]) < 1e-12)
            return false;
        for (int r = 0; r < n; r++) {
            const double f = r == i ? 0 : a[r][i] / a[i][i];

            for (int c = i; c < 4; c++)
                a[r][c] -= f * a[i][c];
        }
    }
    return true;
}

struct points {
    size_t n;
    double (*x)[3]; /* terms divided by the measured time */
    size_t *index;  /* index of the profile entry */
};

/* Least squares of sum_k w_k x_k = 1 over the columns in `mask`; the other weights are 0. Returns
 * the squared error, or infinity if a weight would be negative. */
static double fit_columns(const struct points *pt, unsigned mask, double w[3])
{
    double a[3][4] = { { 0 } }, scale[3] = { 0 }, error = 0;
    int column[3] = { 0 }, n = 0;

    for (int k = 0; k < 3; k++)
        if (mask >> k & 1)
            column[n++] = k;
    for (int i = 0; i < n; i++)
        for (size_t t = 0; t < pt->n; t++)
            scale[i] = fmax(scale[i], fabs(pt->x[t][column[i]]));
    for (size_t t = 0; t < pt->n; t++)
        for (int i = 0; i < n; i++) {
            const double xi = pt->x[t][column[i]] / scale[i];

            for (int j = 0; j < n; j++)
                a[i][j] += xi * pt->x[t][column[j]] / scale[j];
            a[i][3] += xi;
        }
    if (!solve(a, n))
        return INFINITY;
    w[0] = w[1] = w[2] = 0;
    for (int i = 0; i < n; i++) {
        w[column[i]] = a[i][3] / a[i][i] / scale[i];
        if (w[column[i]] < 0)
            return INFINITY;
    }
    for (size_t t = 0; t < pt->n; t++) {
        const double r = w[0] * pt->x[t][0] + w[1] * pt->x[t][1] + w[2] * pt->x[t][2] - 1;

        error += r * r;
    }
    return error;
}

/* Non-negative least squares: with three columns all seven sets of nonzero weights are tried. */
static bool fit_points(const struct points *pt, double w[3])
{
    const unsigned last = pt->n < SPOT_CURVE_POINTS_MIN ? 1 : 7;
    double best = INFINITY;

    for (unsigned mask = 1; mask <= last; mask++) {
        double trial[3];
        const double error = fit_columns(pt, mask, trial);

        if (error < best) {
            best = error;
            memcpy(w, trial, 3 * sizeof(*w));
        }
    }
    return isfinite(best);
}

bool spot_job_is_planned(const struct spot_job_doc *job, const struct spot_job_profile *p)
{
    return p->step_s > 0 && p->grid.M == 1 && p->micro_batch == job->micro_batch;
}

static void gather(const struct spot_job_doc *job, const bool *skip, struct points *pt)
{
    pt->n = 0;
    for (size_t i = 0; i < job->n_profile; i++) {
        const struct spot_job_profile *p = &job->profile[i];
        double pipe, fill;

        if (!spot_job_is_planned(job, p) || skip[i])
            continue;
        features(job, (int)p->grid.D, (int)p->grid.P, &pipe, &fill);
        pt->x[pt->n][0] = pipe / p->step_s;
        pt->x[pt->n][1] = fill / p->step_s;
        pt->x[pt->n][2] = 1 / p->step_s;
        pt->index[pt->n++] = i;
    }
}

/* How far point t is from the curve fitted to all others, as a factor >= 1. */
static double off_by(const struct points *pt, size_t t)
{
    struct points rest = *pt;
    double last[3], w[3], got = 1;

    rest.n--;
    memcpy(last, pt->x[t], sizeof(last));
    memmove(pt->x + t, pt->x + t + 1, (pt->n - t - 1) * sizeof(*pt->x));
    if (fit_points(&rest, w))
        got = w[0] * last[0] + w[1] * last[1] + w[2] * last[2];
    memmove(pt->x + t + 1, pt->x + t, (pt->n - t - 1) * sizeof(*pt->x));
    memcpy(pt->x[t], last, sizeof(last));
    return got > 1 ? got : 1 / fmax(got, 1e-300);
}

/* Flag the point that is farthest from the curve of the others, if it is an outlier. A fit that
 * includes the point would follow it. */
static bool flag_worst(const struct points *pt, bool *skip)
{
    size_t worst = 0;
    double most = 0;

    if (pt->n <= SPOT_CURVE_POINTS_MIN)
        return false;
    for (size_t t = 0; t < pt->n; t++) {
        const double off = off_by(pt, t);

        if (off > most) {
            most = off;
            worst = t;
        }
    }
    if (most <= OUTLIER_RATIO)
        return false;
    skip[pt->index[worst]] = true;
    return true;
}

/* The largest error of the curve, also over points left out of the fit: these were measured too,
 * and a curve that misses them does not describe this job. */
static double miss_of(const struct spot_job_doc *job, const double w[3])
{
    double most = 0;

    for (size_t i = 0; i < job->n_profile; i++) {
        const struct spot_job_profile *p = &job->profile[i];
        double pipe, fill;

        if (!spot_job_is_planned(job, p) || p->is_outlier)
            continue;
        features(job, (int)p->grid.D, (int)p->grid.P, &pipe, &fill);
        most = fmax(most, fabs((w[0] * pipe + w[1] * fill + w[2]) / p->step_s - 1));
    }
    return most;
}

bool spot_step_curve_is_trusted(const struct spot_step_curve *curve)
{
    return curve->n_point >= SPOT_CURVE_POINTS_MIN && curve->miss_max <= MISS_MAX;
}

void spot_step_curve_fit(struct spot_step_curve *curve, const struct spot_job_doc *job,
                         bool *is_outlier)
{
    struct points pt = { .x = spot_xcalloc(job->n_profile, sizeof(*pt.x)),
                         .index = spot_xcalloc(job->n_profile, sizeof(*pt.index)) };
    bool *skip = spot_xcalloc(job->n_profile, sizeof(*skip)), fits;
    double w[3] = { 0 };

    memset(curve, 0, sizeof(*curve));
    for (size_t i = 0; i < job->n_profile; i++)
        skip[i] = job->profile[i].is_outlier;
    do {
        gather(job, skip, &pt);
        fits = pt.n > 0 && fit_points(&pt, w);
    } while (fits && flag_worst(&pt, skip));
    for (size_t i = 0; i < job->n_profile; i++) {
        curve->n_outlier += skip[i];
        if (is_outlier)
            is_outlier[i] = skip[i];
    }
    if (fits) {
        curve->pipe = w[0];
        curve->fill_s = w[1];
        curve->fixed_s = w[2];
        curve->n_point = pt.n;
        curve->miss_max = miss_of(job, w);
    }
    for (size_t t = 0; t < pt.n && fits; t++) {
        const double off = fabs(w[0] * pt.x[t][0] + w[1] * pt.x[t][1] + w[2] * pt.x[t][2] - 1);

        curve->error_mean += off / (double)pt.n;
        curve->error_max = fmax(curve->error_max, off);
    }
    free(skip);
    free(pt.x);
    free(pt.index);
}

double spot_step_curve_at(const struct spot_step_curve *curve, const struct spot_job_doc *job,
                          int d, int p)
{
    double pipe, fill;

    features(job, d, p, &pipe, &fill);
    return curve->pipe * pipe + curve->fill_s * fill + curve->fixed_s;
}

/* --- memory --- */

/* Bytes of the largest stage of a D x P grid: the state of its layers, and the activations of the
 * microbatches in flight, min(P - k, those of a step) in stage k under 1F1B. Speeds of the curve
 * are only used for grids that leave 8 % of memory.node_byte free by this estimate, or that have at
 * least as many pipelines as a measured grid with the same P. 1 <= p <= n_layer. */
static double stage_byte(const struct spot_job_doc *job, int d, int p)
{
    const double micro = ceil((double)job->global_batch / (double)job->micro_batch / d);
    double most = 0;

    for (int k = 0; k < p; k++) {
        const struct spot_stage_span span = spot_stage_split((int)job->n_layer, p, k);
        double byte = 0;

        for (int i = span.first; i < span.end; i++)
            byte += job->layer[i].params * job->memory.state_byte_per_param +
                    job->layer[i].activation_byte * fmin(p - k, micro);
        most = fmax(most, byte);
    }
    return most;
}

/* True if this stage count was measured with d pipelines or fewer: with more pipelines each has no
 * more microbatches in flight. */
static bool has_run(const struct spot_job_doc *job, int d, int p)
{
    for (size_t i = 0; i < job->n_profile; i++)
        if (spot_job_is_planned(job, &job->profile[i]) && job->profile[i].grid.P == p &&
            job->profile[i].grid.D <= d)
            return true;
    return false;
}

/* Measured grids of a trusted profile fit; for other grids memory is estimated. */
static bool fits(const struct spot_job_doc *job, enum spot_throughput_source source, int d, int p)
{
    return job->memory.node_byte <= 0 || !job->n_layer ||
           stage_byte(job, d, p) <= MEMORY_SHARE * job->memory.node_byte ||
           (source == SPOT_THROUGHPUT_BOTH && has_run(job, d, p));
}

int spot_job_profiled(const struct spot_job_doc *job)
{
    int64_t most = 0;

    for (size_t i = 0; i < job->n_profile; i++) {
        const struct spot_grid *g = &job->profile[i].grid;

        if (spot_job_is_planned(job, &job->profile[i]) && g->D * g->P > most &&
            g->D * g->P <= SPOT_GRID_MAX)
            most = g->D * g->P;
    }
    return (int)most;
}

int spot_job_pipelines_max(const struct spot_job_doc *job)
{
    const int64_t most = (job->global_batch + job->micro_batch - 1) / job->micro_batch;

    return most < SPOT_GRID_MAX ? (int)most : (int)SPOT_GRID_MAX;
}

int spot_job_stages_max(const struct spot_job_doc *job)
{
    const int64_t bundles =
        job->model.shape.n_layer ? job->model.shape.n_layer + 2 : (int64_t)SPOT_GRID_MAX;
    const int64_t listed = job->n_layer ? (int64_t)job->n_layer : (int64_t)SPOT_GRID_MAX;

    return (int)(listed < bundles ? listed : bundles);
}

bool spot_throughput_allows(const struct spot_job_doc *job, int d, int p)
{
    const struct spot_job_memory *m = &job->memory;

    if (p < m->p_min || p > m->p_max || p > spot_job_stages_max(job) || d < m->d_min ||
        d > spot_job_pipelines_max(job))
        return false;
    for (size_t i = 0; i < m->n_p_skip; i++)
        if (m->p_skip[i] == p)
            return false;
    return true;
}

/* --- the table --- */

static double *cell(struct spot_throughput *t, int d, int p)
{
    return &t->samples_per_s[(size_t)d * (size_t)(t->p_max + 1) + (size_t)p];
}

double spot_throughput_at(const struct spot_throughput *t, int d, int p)
{
    if (d < 1 || p < 1 || p > t->p_max || d > t->n_max || d * p > t->n_max)
        return -1;
    return t->samples_per_s[(size_t)d * (size_t)(t->p_max + 1) + (size_t)p];
}

enum spot_speed_from spot_throughput_from(const struct spot_throughput *t, int d, int p)
{
    if (spot_throughput_at(t, d, p) <= 0)
        return SPOT_SPEED_UNKNOWN;
    return (enum spot_speed_from)t->from[(size_t)d * (size_t)(t->p_max + 1) + (size_t)p];
}

double spot_throughput_best(const struct spot_throughput *t, int n, int *d, int *p)
{
    const int at = n < 0 ? -1 : t->best[n < t->n_max ? n : t->n_max];

    *d = at < 0 ? 0 : t->grid_order[at] / (t->p_max + 1);
    *p = at < 0 ? 0 : t->grid_order[at] % (t->p_max + 1);
    return at < 0 ? 0 : t->samples_per_s[t->grid_order[at]];
}

/* The faster of two grids by index, of equal ones the lower; -1: none. */
static int faster(const struct spot_throughput *t, int a, int b)
{
    double x, y;

    if (a < 0 || b < 0)
        return a < 0 ? b : a;
    x = t->samples_per_s[t->grid_order[a]];
    y = t->samples_per_s[t->grid_order[b]];
    return x != y ? (x > y ? a : b) : (a < b ? a : b);
}

static void find_best(struct spot_throughput *t)
{
    t->best = spot_xcalloc((size_t)t->n_max + 1, sizeof(*t->best));
    for (int n = 0; n <= t->n_max; n++)
        t->best[n] = -1;
    for (int i = 0; i < t->n_grid; i++) {
        const int n = t->grid_order[i] / (t->p_max + 1) * (t->grid_order[i] % (t->p_max + 1));

        if (t->samples_per_s[t->grid_order[i]] > 0)
            t->best[n] = faster(t, t->best[n], i);
    }
    for (int n = 1; n <= t->n_max; n++)
        t->best[n] = faster(t, t->best[n - 1], t->best[n]);
}

double spot_job_samples_per_s(const struct spot_job_doc *job, const struct spot_job_profile *p)
{
    return p->samples_per_s > 0 ? p->samples_per_s : (double)job->global_batch / p->step_s;
}

static void set(struct spot_throughput *t, int d, int p, double samples_per_s,
                enum spot_speed_from from)
{
    *cell(t, d, p) = samples_per_s;
    t->from[(size_t)d * (size_t)(t->p_max + 1) + (size_t)p] = (unsigned char)from;
}

/* The stage counts for which the curve is used: with a profile, those between its least and its
 * most. Measurements with few stages do not show whether fewer would run at all. */
static void curve_reach(const struct spot_job_doc *job, enum spot_throughput_source source,
                        int *low, int *high)
{
    *low = source == SPOT_THROUGHPUT_BOTH ? SPOT_GRID_MAX : 1;
    *high = source == SPOT_THROUGHPUT_BOTH ? 0 : SPOT_GRID_MAX;
    for (size_t i = 0; source == SPOT_THROUGHPUT_BOTH && i < job->n_profile; i++) {
        const int p = (int)job->profile[i].grid.P;

        if (!spot_job_is_planned(job, &job->profile[i]))
            continue;
        *low = p < *low ? p : *low;
        *high = p > *high ? p : *high;
    }
}

/* The speed of an unmeasured grid: 0 if there is no estimate. */
static void estimate(struct spot_throughput *t, const struct spot_job_doc *job, int d, int p)
{
    const double curve_s = t->curve.n_point ? spot_step_curve_at(&t->curve, job, d, p) : 0;
    enum spot_speed_from from;
    double step_s;

    if (t->source == SPOT_THROUGHPUT_CURVE) {
        if (t->curve.n_point)
            set(t, d, p, (double)job->global_batch / curve_s, SPOT_SPEED_CURVE);
        return;
    }
    step_s = spot_speed_between_s(&t->between, d, p, &from);
    if (from != SPOT_SPEED_INTERPOLATED && spot_step_curve_is_trusted(&t->curve)) {
        from = SPOT_SPEED_CURVE;
        step_s = curve_s;
    }
    if (from != SPOT_SPEED_UNKNOWN)
        set(t, d, p, fmin((double)job->global_batch / step_s, spot_speed_most(&t->between, d * p)),
            from);
}

static void fill(struct spot_throughput *t, const struct spot_job_doc *job)
{
    int low, high;
    int *order = spot_xcalloc((size_t)(t->n_max + 1) * (size_t)(t->p_max + 1), sizeof(*order));

    curve_reach(job, t->source, &low, &high);
    for (int d = 0; d <= t->n_max; d++)
        for (int p = 0; p <= t->p_max; p++) {
            const bool may =
                d > 0 && p > 0 && d * p <= t->n_max && spot_throughput_allows(job, d, p);

            *cell(t, d, p) = may ? 0 : -1;
            if (may && t->source != SPOT_THROUGHPUT_TABLE && p >= low && p <= high &&
                fits(job, t->source, d, p))
                estimate(t, job, d, p);
            if (may)
                order[t->n_grid++] = d * (t->p_max + 1) + p;
        }
    t->grid_order = order;
    for (size_t i = 0; i < job->n_profile; i++) {
        const struct spot_grid *g = &job->profile[i].grid;
        const bool trusted = t->source == SPOT_THROUGHPUT_TABLE || !job->profile[i].is_outlier;

        if (!spot_job_is_planned(job, &job->profile[i]))
            continue;
        if (t->source != SPOT_THROUGHPUT_CURVE && trusted &&
            spot_throughput_at(t, (int)g->D, (int)g->P) >= 0)
            set(t, (int)g->D, (int)g->P, spot_job_samples_per_s(job, &job->profile[i]),
                SPOT_SPEED_PROFILE);
    }
}

/* True if a grid fits into memory. *byte: the largest stage on the grid where that is smallest. */
static bool fits_somewhere(const struct spot_throughput *t, const struct spot_job_doc *job,
                           double *byte)
{
    *byte = INFINITY;
    for (int i = 0; i < t->n_grid; i++)
        *byte = fmin(*byte, stage_byte(job, t->grid_order[i] / (t->p_max + 1),
                                       t->grid_order[i] % (t->p_max + 1)));
    return *byte <= MEMORY_SHARE * job->memory.node_byte;
}

int spot_throughput_source_parse(const char *text, enum spot_throughput_source *source,
                                 struct spot_err *err)
{
    static const char *const name[] = { "table", "law", "both" };

    for (int i = 0; i < 3; i++)
        if (!strcmp(text, name[i])) {
            *source = (enum spot_throughput_source)i;
            return 0;
        }
    return spot_err_set(err, SPOT_EUSAGE, "--throughput: expected table, law or both, got '%.32s'",
                        text);
}

static int p_max_of(const struct spot_job_doc *job, int n_max)
{
    const int64_t most = spot_job_stages_max(job);
    const int64_t p = most < job->memory.p_max ? most : job->memory.p_max;

    return p < n_max ? (int)p : n_max;
}

int spot_throughput_init(struct spot_throughput *t, const struct spot_job_doc *job, int n_max,
                         enum spot_throughput_source source, struct spot_err *err)
{
    double byte;
    int d, p;

    assert(n_max >= 1 && n_max <= SPOT_GRID_MAX);
    memset(t, 0, sizeof(*t));
    t->n_max = n_max;
    t->p_max = p_max_of(job, n_max);
    t->is_outlier = spot_xcalloc(job->n_profile, sizeof(*t->is_outlier));
    t->source = source;
    spot_step_curve_fit(&t->curve, job, t->is_outlier);
    spot_speed_between_init(&t->between, job);
    t->samples_per_s =
        spot_xcalloc((size_t)(n_max + 1) * (size_t)(t->p_max + 1), sizeof(*t->samples_per_s));
    t->from = spot_xcalloc((size_t)(n_max + 1) * (size_t)(t->p_max + 1), sizeof(*t->from));
    fill(t, job);
    find_best(t);
    if (spot_throughput_best(t, n_max, &d, &p) > 0)
        return 0;
    if (source != SPOT_THROUGHPUT_TABLE && job->n_profile && t->curve.n_outlier == job->n_profile)
        spot_err_set(err, SPOT_EDATA,
                     "job '%.64s': all %zu entries of its profile are outliers, nothing is left to "
                     "fit; the source 'table' takes them as they are",
                     job->name, job->n_profile);
    else if (!spot_job_profiled(job))
        spot_err_set(err, SPOT_EDATA,
                     "job '%.64s' has no profile: its speed is not known; spot-run profile "
                     "measures one, docs/formats/job.md describes how to write one",
                     job->name);
    else if (t->n_grid && job->memory.node_byte > 0 && job->n_layer &&
             !fits_somewhere(t, job, &byte))
        spot_err_set(err, SPOT_EINFEASIBLE,
                     "job '%.64s' fits on no grid of up to %d instances: the largest stage needs "
                     "%.3g bytes at least, an instance has %.3g",
                     job->name, n_max, byte, MEMORY_SHARE * job->memory.node_byte);
    else if (job->memory.d_min > spot_job_pipelines_max(job))
        spot_err_set(err, SPOT_EINFEASIBLE,
                     "job '%.64s' runs on no grid: its limits ask for at least %lld pipelines, a "
                     "step has %d microbatch%s (/global_batch over /micro_batch)",
                     job->name, (long long)job->memory.d_min, spot_job_pipelines_max(job),
                     spot_job_pipelines_max(job) == 1 ? "" : "es");
    else
        spot_err_set(err, SPOT_EINFEASIBLE,
                     "job '%.64s' runs on no grid of up to %d instances: its limits ask for at "
                     "least %lld",
                     job->name, n_max, (long long)(job->memory.p_min * job->memory.d_min));
    spot_throughput_release(t);
    return -1;
}

void spot_throughput_release(struct spot_throughput *t)
{
    free(t->samples_per_s);
    free(t->from);
    spot_speed_between_release(&t->between);
    free(t->is_outlier);
    free(t->best);
    free((void *)(uintptr_t)t->grid_order);
    memset(t, 0, sizeof(*t));
}
