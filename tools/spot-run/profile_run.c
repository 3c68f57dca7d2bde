/* SPDX-License-Identifier: MIT */
/* Runs jobs to measure them. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/tool.h"
#include "common/num.h"
#include "common/temp.h"
#include "common/xalloc.h"
#include "job_options.h"
#include "model/measured_cost.h"
#include "profile.h"

enum { RUNS_MAX = 5, PROBE_ROUNDS = 7, ENDLESS = 1000000 };

/* A run is calm if its quartiles differ by less than this share of the median; otherwise it is
 * repeated. */
static const double spread_calm = 0.2;

static const size_t probe_byte[] = { 1 << 10, 1 << 13, 1 << 16, 1 << 18, 1 << 20, 1 << 22 };
enum { PROBES = sizeof(probe_byte) / sizeof(probe_byte[0]) };

static void quiet(const char *fmt, ...)
{
    (void)fmt;
}

static struct spot_trainer_options options_of(const struct profile *p, const struct spot_grid *grid)
{
    struct spot_trainer_options c = p->job.c;

    c.name = "spot-run";
    c.n_local = (uint64_t)spot_grid_size(grid);
    c.grid = *grid;
    c.lease_s = 10;
    c.stall_s = 300;
    c.settle_s = 0.01;
    c.warn = quiet;
    c.become_worker = become_worker;
    c.config.n_step = ENDLESS;
    return c;
}

static void tell(const struct profile *p, const char *what)
{
    if (p->shows_progress)
        spot_tool_draw(what);
    else
        p->info("%s", what);
}

/* --- step times ------------------------------------------------------------ */

struct watch {
    struct profile *p;
    struct spot_job_cell *cell;
    size_t n_skipped, n, cap;
    double *step_s;             /* [cap] */
    double *forward, *backward; /* [n_bundle][cap] of layers */
    struct spot_observer observer;
    int cold_fd; /* the data file, whose cached pages are dropped before each step; -1: none */
};

static void note(struct watch *w, const struct spot_step_seen *seen)
{
    double forward_s = 0, backward_s = 0, reduce_s = 0;

    for (int64_t i = 0; i < spot_grid_size(&seen->grid); i++) {
        const struct spot_member_seen *m = &seen->member[i];
        struct spot_job_stage_memory *stage = &w->cell->stage[i / seen->grid.M % seen->grid.P];

        forward_s = fmax(forward_s, m->forward_s);
        backward_s = fmax(backward_s, m->backward_s);
        reduce_s = fmax(reduce_s, m->reduce_s);
        stage->resident_byte = fmax(stage->resident_byte, (double)m->resident_byte);
    }
    w->cell->forward_s += forward_s / (double)w->cap;
    w->cell->backward_s += backward_s / (double)w->cap;
    w->cell->reduce_s += reduce_s / (double)w->cap;
    w->cell->read_s += seen->read_s / (double)w->cap;
    for (int b = 0; b < seen->n_bundle; b++) {
        w->forward[(size_t)b * w->cap + w->n] = seen->layer[b].forward_s;
        w->backward[(size_t)b * w->cap + w->n] = seen->layer[b].backward_s;
    }
    w->step_s[w->n++] = seen->step_s;
}

static void on_step(void *user, const struct spot_step_seen *seen, struct spot_wish *wish)
{
    struct watch *w = user;

    if (w->cold_fd >= 0)
        posix_fadvise(w->cold_fd, 0, 0, POSIX_FADV_DONTNEED);
    if (w->n == w->cap || !spot_grid_equal(&seen->grid, &w->cell->grid))
        return; /* a worker died: its grid will be formed again */
    if (seen->n_commit == 1 || w->n_skipped < w->p->warm_up)
        w->n_skipped++;
    else
        note(w, seen);
    wish->is_enough = w->n == w->cap;
}

/* Run one job and fill in w->cell; `c` says which. */
static int watch_job(struct watch *w, struct spot_trainer_options *c, bool is_synthetic,
                     struct spot_err *err)
{
    const size_t n_bundle = (size_t)w->p->n_bundle;
    struct spot_job_cell *cell = w->cell;
    struct spot_trainer_result result;
    int rc;

    w->n = w->n_skipped = 0;
    w->cap = w->p->steps;
    w->step_s = spot_xcalloc(w->cap, sizeof(double));
    w->forward = spot_xcalloc(n_bundle * w->cap, sizeof(double));
    w->backward = spot_xcalloc(n_bundle * w->cap, sizeof(double));
    cell->forward_s = cell->backward_s = cell->reduce_s = cell->read_s = 0;
    w->observer =
        (struct spot_observer){ .is_synthetic = is_synthetic, .committed = on_step, .user = w };
    c->observer = &w->observer;
    rc = spot_trainer_run(c, &result, err);
    if (!rc) {
        spot_job_cell_sum_up(cell, w->step_s, w->n);
    }
    return rc;
}

static void end_watch(struct watch *w)
{
    free(w->step_s);
    free(w->forward);
    free(w->backward);
    w->step_s = w->forward = w->backward = NULL;
}

static void take_layers(const struct watch *w)
{
    for (int b = 0; b < w->p->n_bundle; b++) {
        w->p->layer[b].forward_s = spot_num_quantile(w->forward + (size_t)b * w->cap, w->n, 0.5);
        w->p->layer[b].backward_s = spot_num_quantile(w->backward + (size_t)b * w->cap, w->n, 0.5);
    }
}

/* A cell whose steps scatter is measured again until they are calm; the calmest run is used. */
static int measure_cell(struct profile *p, struct spot_job_cell *cell, bool takes_layers,
                        struct spot_err *err)
{
    struct spot_job_cell best = { 0 };
    int64_t runs = 0;

    for (; runs < RUNS_MAX && (!runs || spot_job_cell_spread(&best) > spread_calm); runs++) {
        struct watch w = { .p = p, .cell = cell, .cold_fd = -1 };
        struct spot_trainer_options c = options_of(p, &cell->grid);
        int rc;

        c.config.micro_batch = cell->micro_batch;
        rc = watch_job(&w, &c, false, err);

        if (!rc && (!runs || spot_job_cell_spread(cell) < spot_job_cell_spread(&best))) {
            best = *cell;
            if (takes_layers)
                take_layers(&w);
        }
        end_watch(&w);
        if (rc)
            return -1;
    }
    best.runs = runs;
    *cell = best;
    return 0;
}

/* Warn of cells that still scatter: the cause is the host, not the job, and plans based on them are
 * less reliable. */
static void tell_outlier(const struct profile *p, const struct spot_job_cell *cell)
{
    char grid[SPOT_GRID_TEXT];

    if (!cell->is_outlier)
        return;
    if (p->shows_progress)
        spot_tool_draw("");
    p->warn("grid %s, micro batch %lld: steps scatter by %.0f %% of their median in the calmest of "
            "%lld runs: the host is busy; it is marked as an outlier, which spot-plan ignores",
            spot_grid_text(&cell->grid, grid), (long long)cell->micro_batch,
            100 * spot_job_cell_spread(cell), (long long)cell->runs);
}

/* Layers are timed on the grid with the fewest workers among those used for planning. */
static size_t least_cell(const struct profile *p)
{
    const struct spot_job_cell *const cell = p->measured.cell;
    size_t least = SIZE_MAX;

    for (size_t i = 0; i < p->measured.n_cell; i++)
        if (profile_is_planned(p, &cell[i]) &&
            (least == SIZE_MAX ||
             cell[i].grid.D * cell[i].grid.P < cell[least].grid.D * cell[least].grid.P))
            least = i;
    return least;
}

int profile_cells(struct profile *p, struct spot_err *err)
{
    const size_t least = least_cell(p);

    for (size_t i = 0; i < p->measured.n_cell; i++) {
        struct spot_job_cell *cell = &p->measured.cell[i];
        char what[128], grid[SPOT_GRID_TEXT];

        snprintf(what, sizeof(what), "grid %s, micro batch %lld, %zu of %zu",
                 spot_grid_text(&cell->grid, grid), (long long)cell->micro_batch, i + 1,
                 p->measured.n_cell);
        tell(p, what);
        if (measure_cell(p, cell, i == least, err))
            return -1;
        tell_outlier(p, cell);
    }
    return 0;
}

/* --- stalls ---------------------------------------------------------------- */

/* One run of the Stash method: its median step time. */
static int stall_run(struct profile *p, int64_t D, int64_t global_batch, bool is_synthetic,
                     bool is_tcp, bool is_cold, double *step_s, struct spot_err *err)
{
    struct spot_job_stage_memory stage[1] = { { 0 } };
    struct spot_job_cell cell = { .grid = { D, 1, 1 }, .stage = stage };
    struct watch w = { .p = p, .cell = &cell, .cold_fd = -1 };
    struct spot_trainer_options c = options_of(p, &cell.grid);
    int rc;

    c.config.global_batch = global_batch;
    c.listen = is_tcp ? "127.0.0.1:0" : NULL;
    if (is_cold) {
        w.cold_fd = open(p->job.data.item[0], O_RDONLY | O_CLOEXEC);
        if (w.cold_fd < 0)
            return spot_err_sys(err, "cannot open '%s'", p->job.data.item[0]);
        fsync(w.cold_fd); /* only clean pages can be dropped */
    }
    rc = watch_job(&w, &c, is_synthetic, err);
    *step_s = cell.step_s;
    end_watch(&w);
    if (w.cold_fd >= 0)
        close(w.cold_fd);
    return rc;
}

/* RUN0: one worker with its part of the batch, synthetic data; RUN1: all workers, then over TCP;
 * RUN3: real data, warm; RUN2: real data, cold. */
int profile_stalls(struct profile *p, struct spot_err *err)
{
    const int64_t G = p->n_microbatch, b = p->job.c.config.micro_batch;
    const int64_t D = (int64_t)p->max_workers < G ? (int64_t)p->max_workers : G;
    struct spot_job_stall *s = &p->measured.stall;
    double alone_s, all_s, net_s, warm_s, cold_s;

    tell(p, "stalls");
    if (stall_run(p, 1, (G + D - 1) / D * b, true, false, false, &alone_s, err) ||
        stall_run(p, D, G * b, true, false, false, &all_s, err) ||
        stall_run(p, D, G * b, true, true, false, &net_s, err) ||
        stall_run(p, D, G * b, false, true, false, &warm_s, err) ||
        stall_run(p, D, G * b, false, true, true, &cold_s, err))
        return -1;
    *s = (struct spot_job_stall){ .D = D,
                                  .steps = (int64_t)p->steps,
                                  .compute_s = alone_s,
                                  .interconnect_s = all_s - alone_s,
                                  .network_s = net_s - all_s,
                                  .prep_s = warm_s - net_s,
                                  .fetch_s = cold_s - warm_s,
                                  .step_s = cold_s };
    return 0;
}

/* --- links ----------------------------------------------------------------- */

static void ask_probe(void *user, const struct spot_step_seen *seen, struct spot_wish *wish)
{
    (void)user;
    if (seen->n_commit > PROBES + 1) {
        wish->is_enough = true;
    } else if (seen->n_commit > 1) {
        wish->probe_byte = probe_byte[seen->n_commit - 2];
        wish->probe_rounds = PROBE_ROUNDS;
    }
}

static void add_point(struct spot_job_link *link, int64_t members, size_t n_byte, const double *s,
                      size_t n)
{
    double copy[PROBE_ROUNDS];

    if (!n || n > PROBE_ROUNDS || link->n_point == PROBES)
        return;
    memcpy(copy, s, n * sizeof(*s));
    link->members = members;
    link->point[link->n_point++] =
        (struct spot_job_xy){ (double)n_byte, fmax(spot_num_quantile(copy, n, 0.5), 1e-9) };
}

static void take_probe(void *user, const struct spot_probe_seen *seen)
{
    struct profile *p = user;

    add_point(&p->measured.p2p, 2, seen->n_byte, seen->p2p_s, seen->n_p2p);
    add_point(&p->measured.sum, seen->D, seen->n_byte, seen->sum_s, seen->n_sum);
}

/* Measured between idle workers of a grid D x 1, or 1 x 2 if a step is one microbatch. */
int profile_links(struct profile *p, struct spot_err *err)
{
    const int64_t G = p->n_microbatch;
    const int64_t D = (int64_t)p->max_workers < G ? (int64_t)p->max_workers : G;
    const struct spot_observer observer = { .committed = ask_probe,
                                            .probed = take_probe,
                                            .user = p };
    struct spot_trainer_options c = options_of(p, &(struct spot_grid){ D, D > 1 ? 1 : 2, 1 });
    struct spot_trainer_result result;

    tell(p, "messages between workers");
    p->measured.p2p.point = spot_xcalloc(PROBES, sizeof(struct spot_job_xy));
    p->measured.sum.point = spot_xcalloc(PROBES, sizeof(struct spot_job_xy));
    c.observer = &observer;
    if (spot_trainer_run(&c, &result, err))
        return -1;
    if (p->measured.p2p.n_point)
        spot_job_link_fit(&p->measured.p2p);
    if (p->measured.sum.n_point)
        spot_job_link_fit(&p->measured.sum);
    return 0;
}

/* --- changes of the grid --------------------------------------------------- */

enum { CALM = 4, CHANGES = 6 }; /* steps between changes; number of changes requested */

struct changing {
    uint32_t n, wide, deep; /* number of workers, D of the wide grid, P of the deep one */
    int done;
};

/* Regroup, move and lose a worker in turn; a new one replaces the one lost. */
static void ask_change(void *user, const struct spot_step_seen *seen, struct spot_wish *wish)
{
    struct changing *c = user;
    const struct spot_grid wide = { c->wide, 1, 1 }, deep = { 1, c->deep, 1 };
    const bool is_wide = spot_grid_equal(&seen->grid, &wide);

    if ((!is_wide && !spot_grid_equal(&seen->grid, &deep)) || seen->n_commit < CALM)
        return; /* the worker that left has not been replaced yet */
    if (c->done == CHANGES)
        wish->is_enough = true;
    else if (c->done % 3 == 2)
        wish->local_leaves = 1 + (uint64_t)(c->done / 3);
    else
        wish->grid = seen->grid.P == 1 && c->deep > 1 ? deep : wide;
    c->done++;
}

int profile_changes(struct profile *p, struct spot_err *err)
{
    const uint32_t n = (uint32_t)p->max_workers;
    struct changing changing = {
        .n = n,
        .wide = n < p->n_microbatch ? n : (uint32_t)p->n_microbatch,
        .deep = n < (uint32_t)p->n_bundle ? n : (uint32_t)p->n_bundle,
    };
    const struct spot_observer observer = { .committed = ask_change, .user = &changing };
    struct spot_trainer_options c = options_of(p, &(struct spot_grid){ changing.wide, 1, 1 });
    struct spot_trainer_result result;
    struct spot_measured_cost cost;
    char *log = spot_temp_template("spot-profile");
    int fd, rc;

    tell(p, "changes of the grid");
    fd = mkstemp(log);
    if (fd < 0) {
        spot_err_sys(err, "cannot make a file like '%s'", log);
        free(log);
        return -1;
    }
    close(fd);
    c.n_local = n;
    c.events = log;
    c.observer = &observer;
    rc = spot_trainer_run(&c, &result, err);
    if (!rc)
        rc = spot_measured_cost_load(&cost, log, err);
    unlink(log);
    free(log);
    if (!rc)
        p->measured.change = (struct spot_job_change){ .changes = (int64_t)cost.n_change,
                                                       .joins = (int64_t)cost.n_join,
                                                       .leave_s = cost.leave_s,
                                                       .join_s = cost.join_s,
                                                       .byte_s = cost.byte_s };
    return rc;
}
