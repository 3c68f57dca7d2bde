/* SPDX-License-Identifier: MIT */
#include "trace/share_pollux.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/xalloc.h"

enum {
    APPS_MAX = 1000,
    POINTS_MAX = 100000,
    EPOCHS_MAX = 100000,
    BATCH_MAX = 1 << 30,
    NAME_BYTE_MAX = 255,
    BATCHES_TRIED = 50, /* a geometric series, as in the release */
};

/* A step with `local` samples per worker; sync_s is the part of it spent waiting for other workers.
 */
struct point {
    int64_t scale, local;
    double step_s, sync_s;
};

struct epoch {
    /* progress at the end of the epoch, in steps with the first batch size */
    double progress, sqr, var;
};

struct batch {
    int64_t size;
    struct epoch *epoch; /* [n] */
    size_t n, cap;
};

struct app {
    char *name;
    struct point *point; /* [n_point] on nodes that are all full except one; by scale, then local */
    size_t n_point, cap_point;
    struct batch *batch; /* [n_batch] by size */
    size_t n_batch, cap_batch;
};

struct spot_pollux {
    struct app *app; /* [n] */
    size_t n, cap;
};

/* --- files --- */

/* The number of workers of a placement such as 144 (a digit for each node) in which all nodes
 * except the first are full; 0 for other placements. */
static int64_t packed_scale(int64_t placement)
{
    int64_t scale = 0;

    for (; placement >= 10; placement /= 10) {
        if (placement % 10 != SPOT_POLLUX_NODE)
            return 0;
        scale += SPOT_POLLUX_NODE;
    }
    return placement <= SPOT_POLLUX_NODE ? scale + placement : 0;
}

static int add_point(struct app *app, const struct spot_csv_row *row, int64_t scale, size_t k,
                     struct spot_err *err)
{
    struct point p = { .scale = scale };

    if (spot_csv_int(row, k, 1, BATCH_MAX, &p.local, err) ||
        spot_csv_real(row, k + 1, 1e-9, 1e9, &p.step_s, err) ||
        spot_csv_real(row, k + 2, 0, 1e9, &p.sync_s, err))
        return -1;
    if (p.sync_s > p.step_s)
        return spot_csv_fail(row, k + 2, err, "more than the step's %g s", p.step_s);
    if (app->n_point == POINTS_MAX)
        return spot_csv_fail(row, 0, err, "more than %d measurements", POINTS_MAX);
    if (!scale || scale > SPOT_POLLUX_SCALE_MAX)
        return 0;
    app->point = spot_xgrow(app->point, &app->cap_point, app->n_point + 1, sizeof(p));
    app->point[app->n_point++] = p;
    return 0;
}

static int on_placement(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    int64_t placement;

    if (spot_csv_int(row, 0, 1, INT64_MAX, &placement, err))
        return -1;
    return add_point(user, row, packed_scale(placement), 1, err);
}

static int on_scalability(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    int64_t nodes, scale;

    if (spot_csv_int(row, 0, 1, 1000000, &nodes, err) ||
        spot_csv_int(row, 1, 1, 1000000, &scale, err))
        return -1;
    return add_point(user, row, scale == nodes * SPOT_POLLUX_NODE ? scale : 0, 2, err);
}

static int on_epoch(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct batch *batch = user;
    struct epoch e;

    if (spot_csv_real(row, 0, 0, 1e15, &e.progress, err) ||
        spot_csv_real(row, 1, 0, 1e30, &e.sqr, err) || spot_csv_real(row, 2, 0, 1e30, &e.var, err))
        return -1;
    if (batch->n && e.progress < batch->epoch[batch->n - 1].progress)
        return spot_csv_fail(row, 0, err, "less than the epoch before");
    if (batch->n == EPOCHS_MAX)
        return spot_csv_fail(row, 0, err, "more than %d epochs", EPOCHS_MAX);
    batch->epoch = spot_xgrow(batch->epoch, &batch->cap, batch->n + 1, sizeof(e));
    batch->epoch[batch->n++] = e;
    return 0;
}

static struct app *app_of(struct spot_pollux *pollux, const char *name, size_t n_byte)
{
    for (size_t i = 0; i < pollux->n; i++)
        if (strlen(pollux->app[i].name) == n_byte && !memcmp(pollux->app[i].name, name, n_byte))
            return &pollux->app[i];
    if (pollux->n == APPS_MAX)
        return NULL;
    pollux->app = spot_xgrow(pollux->app, &pollux->cap, pollux->n + 1, sizeof(*pollux->app));
    pollux->app[pollux->n] = (struct app){ .name = spot_xcalloc(n_byte + 1, 1) };
    memcpy(pollux->app[pollux->n].name, name, n_byte);
    return &pollux->app[pollux->n++];
}

/* A file DIR/NAME/FILE, where FILE is of one of three kinds; a suffix after .csv means compression.
 */
struct file {
    const char *name; /* [n_byte]; NULL: none of the kinds */
    size_t n_byte;
    enum { PLACEMENTS, SCALABILITY, VALIDATION } kind;
    int64_t batch; /* for VALIDATION: the batch size */
};

static bool starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static struct file file_of(const char *source)
{
    const char *slash = strrchr(source, '/'), *name = slash;
    struct file f = { 0 };
    char *end;

    while (name && name > source && name[-1] != '/')
        name--;
    if (!name || name == slash || slash - name > NAME_BYTE_MAX)
        return f;
    if (starts(slash, "/validation-")) {
        f.kind = VALIDATION;
        f.batch = strtol(slash + strlen("/validation-"), &end, 10);
        if (f.batch < 1 || f.batch > BATCH_MAX || !starts(end, ".csv"))
            return f;
    } else if (starts(slash, "/scalability.csv")) {
        f.kind = SCALABILITY;
    } else if (!starts(slash, "/placements.csv")) {
        return f;
    }
    f.name = name;
    f.n_byte = (size_t)(slash - name);
    return f;
}

bool spot_pollux_is_measured(const char *source)
{
    return file_of(source).name != NULL;
}

static int read_batch(struct app *app, int64_t size, FILE *in, const char *source,
                      struct spot_bad_rows *bad, struct spot_err *err)
{
    static const char *const want[] = { "progress", "grad_sqr", "grad_var" };
    size_t at = app->n_batch;

    app->batch = spot_xgrow(app->batch, &app->cap_batch, app->n_batch + 1, sizeof(*app->batch));
    for (; at > 0 && app->batch[at - 1].size > size; at--)
        app->batch[at] = app->batch[at - 1];
    app->batch[at] = (struct batch){ .size = size };
    app->n_batch++;
    return spot_csv_read_log(in, source, want, 3, false, on_epoch, &app->batch[at], bad, err);
}

int spot_pollux_read(struct spot_pollux **pollux, FILE *in, const char *source,
                     struct spot_bad_rows *bad, struct spot_err *err)
{
    static const char *const placement[] = { "placement", "local_bsz", "step_time", "sync_time" };
    static const char *const scalability[] = { "num_nodes", "num_replicas", "local_bsz",
                                               "step_time", "sync_time" };
    const struct file f = file_of(source);
    struct app *app;

    if (!*pollux)
        *pollux = spot_xcalloc(1, sizeof(**pollux));
    app = app_of(*pollux, f.name, f.n_byte);
    if (!app)
        return spot_err_at(err, source, 0, 0, NULL, "more than %d trainings", APPS_MAX);
    if (f.kind == VALIDATION)
        return read_batch(app, f.batch, in, source, bad, err);
    if (f.kind == SCALABILITY)
        return spot_csv_read_log(in, source, scalability, 5, false, on_scalability, app, bad, err);
    return spot_csv_read_log(in, source, placement, 4, false, on_placement, app, bad, err);
}

/* --- duration of a training --- */

static int by_scale(const void *a, const void *b)
{
    const struct point *x = a, *y = b;

    if (x->scale != y->scale)
        return x->scale < y->scale ? -1 : 1;
    return (x->local > y->local) - (x->local < y->local);
}

static double between(double x, double x0, double x1, double y0, double y1)
{
    return x1 > x0 ? y0 + (y1 - y0) * (x - x0) / (x1 - x0) : y0;
}

/* Interpolate between the measured numbers of samples at a measured scale. False outside of them.
 */
static bool step_there(const struct app *app, int64_t scale, double local, struct point *out)
{
    const struct point *low = NULL, *high = NULL;

    for (size_t i = 0; i < app->n_point; i++) {
        const struct point *p = &app->point[i];

        if (p->scale == scale && (double)p->local <= local)
            low = p;
        if (p->scale == scale && (double)p->local >= local && !high)
            high = p;
    }
    if (!low || !high)
        return false;
    out->step_s =
        between(local, (double)low->local, (double)high->local, low->step_s, high->step_s);
    out->sync_s =
        between(local, (double)low->local, (double)high->local, low->sync_s, high->sync_s);
    return true;
}

/* The same, also interpolating between the measured scales. */
static bool step(const struct app *app, int64_t scale, double local, struct point *out)
{
    int64_t low = 0, high = 0;
    struct point a, b;

    for (size_t i = 0; i < app->n_point; i++) {
        if (app->point[i].scale <= scale)
            low = app->point[i].scale;
        if (app->point[i].scale >= scale && !high)
            high = app->point[i].scale;
    }
    if (!low || !high || !step_there(app, low, local, &a) || !step_there(app, high, local, &b))
        return false;
    out->step_s = between((double)scale, (double)low, (double)high, a.step_s, b.step_s);
    out->sync_s = between((double)scale, (double)low, (double)high, a.sync_s, b.sync_s);
    return true;
}

/* Steps with the first batch size that one step of `size` is worth (AdaScale, Pollux eq. 7), from
 * the noise of gradients in an epoch. */
static double gain(const struct app *app, double size, size_t epoch)
{
    const double times = size / (double)app->batch[0].size;
    const struct batch *low = &app->batch[0], *high = &app->batch[app->n_batch - 1];
    double sqr, var;

    for (size_t i = 0; i < app->n_batch; i++) {
        if ((double)app->batch[i].size <= size)
            low = &app->batch[i];
        if ((double)app->batch[i].size >= size) {
            high = &app->batch[i];
            break;
        }
    }
    sqr = between(size, (double)low->size, (double)high->size, low->epoch[epoch].sqr,
                  high->epoch[epoch].sqr);
    var = between(size, (double)low->size, (double)high->size, low->epoch[epoch].var,
                  high->epoch[epoch].var);
    return var / times + sqr > 0 ? (var + sqr) / (var / times + sqr) : 1;
}

struct span {
    double least, most; /* range of samples per worker that was measured */
};

static struct span local_span(const struct app *app)
{
    struct span s = { INFINITY, 0 };

    for (size_t i = 0; i < app->n_point; i++) {
        s.least = fmin(s.least, (double)app->point[i].local);
        s.most = fmax(s.most, (double)app->point[i].local);
    }
    return s;
}

/* Progress per second in steps with the first batch size, with a batch of `size` or the next
 * divisible one. A single worker with more than the first size uses at least two accumulation
 * steps, as in the release, which needs them to estimate the noise. 0: impossible. */
static double goodput(const struct app *app, const struct span *span, int64_t scale, double size,
                      size_t epoch)
{
    const double first = (double)app->batch[0].size,
                 most = (double)app->batch[app->n_batch - 1].size, slack = 1e-8;
    const double local = size / (double)scale;
    double parts = fmax(1, ceil(local / span->most - slack)), atomic;
    struct point at;

    if (scale == 1 && local > first + slack)
        parts = fmax(parts, 2);
    atomic = fmin(ceil(local / parts - slack), floor(most / (parts * (double)scale)));
    size = atomic * parts * (double)scale;
    if (atomic < span->least || atomic > span->most || size < first ||
        !step(app, scale, atomic, &at))
        return 0;
    return gain(app, size, epoch) / (at.step_s + (parts - 1) * (at.step_s - at.sync_s));
}

static double best_goodput(const struct app *app, const struct span *span, int64_t scale,
                           size_t epoch)
{
    const double most = (double)app->batch[app->n_batch - 1].size,
                 least = fmax((double)app->batch[0].size, span->least * (double)scale);
    double best = 0;

    for (int i = 0; least <= most && i < BATCHES_TRIED; i++)
        best = fmax(best, goodput(app, span, scale,
                                  least * pow(most / least, i / (BATCHES_TRIED - 1.0)), epoch));
    return best;
}

/* An epoch is over when the runs with all batch sizes have reached its end. */
static double progress(const struct app *app, size_t n_epoch)
{
    double least = INFINITY;

    for (size_t i = 0; i < app->n_batch; i++)
        least = fmin(least, n_epoch ? app->batch[i].epoch[n_epoch - 1].progress : 0);
    return least;
}

static double whole_s(const struct app *app, const struct span *span, int64_t scale)
{
    size_t n_epoch = SIZE_MAX;
    double sum = 0;

    for (size_t i = 0; i < app->n_batch; i++)
        n_epoch = app->batch[i].n < n_epoch ? app->batch[i].n : n_epoch;
    for (size_t e = 0; e < n_epoch; e++)
        sum += (progress(app, e + 1) - progress(app, e)) / best_goodput(app, span, scale, e);
    return sum;
}

int spot_pollux_each(const struct spot_pollux *pollux, spot_pollux_fn *fn, void *user,
                     struct spot_err *err)
{
    for (size_t i = 0; pollux && i < pollux->n; i++) {
        const struct app *app = &pollux->app[i];
        const struct span span = local_span(app);

        if (!app->n_point || !app->n_batch)
            return spot_err_set(err, SPOT_EDATA, "training '%.64s': no file %s", app->name,
                                app->n_point ? "validation-BATCH.csv" : "placements.csv");
        qsort(app->point, app->n_point, sizeof(*app->point), by_scale);
        for (int64_t scale = 1; scale <= SPOT_POLLUX_SCALE_MAX; scale++) {
            const double s = whole_s(app, &span, scale);
            const int rc = s > 0 && isfinite(s) ? fn(user, app->name, scale, 1 / s) : 0;

            if (rc)
                return rc;
        }
    }
    return 0;
}

void spot_pollux_free(struct spot_pollux *pollux)
{
    for (size_t i = 0; pollux && i < pollux->n; i++) {
        for (size_t k = 0; k < pollux->app[i].n_batch; k++)
            free(pollux->app[i].batch[k].epoch);
        free(pollux->app[i].batch);
        free(pollux->app[i].point);
        free(pollux->app[i].name);
    }
    if (pollux)
        free(pollux->app);
    free(pollux);
}
