/* SPDX-License-Identifier: MIT */
#include "train/estimate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "engine/stage.h"
#include "plan/migration.h"
#include "train/grid_choice.h"

/* A worker or coordinator of an empty job, with its libraries and thread stacks. */
static const double process_byte = 16 << 20;

/* Pieces of a state in transit: read, encoded, decoded. */
static const double pass_byte = 8 << 20;

struct job {
    const struct spot_estimate_options *o;
    const struct spot_kernel *kernel;
    int n_bundle;
    int64_t *elem;   /* [n_bundle] elements of a plane */
    uint32_t *stage; /* [P + 1] first bundle of each stage */
};

static int64_t elems(const struct job *j, uint32_t begin, uint32_t end)
{
    int64_t n = 0;

    for (uint32_t b = begin; b < end; b++)
        n += j->elem[b];
    return n;
}

static int64_t largest(const struct job *j, uint32_t begin, uint32_t end)
{
    int64_t most = 0;

    for (uint32_t b = begin; b < end; b++)
        most = j->elem[b] > most ? j->elem[b] : most;
    return most;
}

/* --- a worker --------------------------------------------------------------- */

/* The value of spot_pipeline_slots for the pipeline with most microbatches. */
static int slots(const struct job *j, int64_t p)
{
    const int64_t G = spot_job_microbatches(j->o->config), D = j->o->grid.D;
    const int64_t m = (G + D - 1) / D, deep = j->o->grid.P - p;

    return (int)(m < deep ? m : deep);
}

static double engine_byte(const struct job *j, uint32_t begin, uint32_t end, int n_slot)
{
    const struct spot_job_config *const c = j->o->config;
    const struct spot_stage_config config = {
        .shape = c->shape,
        .bundle_begin = (int)begin,
        .bundle_end = (int)end,
        .micro_batch = (int)c->micro_batch,
        .n_slot = n_slot,
        .n_microbatch = (int)spot_job_microbatches(c),
        .n_thread = j->o->n_thread,
        .recompute = j->o->recompute,
        .kernel = j->kernel,
        .group = { .M = n_slot ? (int)j->o->grid.M : 0 },
    };

    return (double)spot_stage_memory(&config);
}

static double mirror_byte(const struct job *j, uint32_t begin, uint32_t end)
{
    return (double)(SPOT_PLANES * sizeof(float)) * (double)elems(j, begin, end) +
           engine_byte(j, begin, end, 0);
}

/* Received sums for mirrors wait in memory until they are used. */
static void add_mirror(const struct job *j, uint32_t begin, uint32_t end,
                       struct spot_estimate_worker *w)
{
    w->mirror_byte += mirror_byte(j, begin, end);
    w->transit_byte += (double)sizeof(int64_t) * (double)elems(j, begin, end);
}

static void add_up(struct spot_estimate_worker *w)
{
    w->process_byte = process_byte;
    w->total_byte = w->weights_byte + w->moments_byte + w->sums_byte + w->activation_byte +
                    w->mirror_byte + w->transit_byte + w->process_byte;
}

/* The stage other than p that costs most to mirror; P: none. */
static uint32_t heaviest_other(const struct job *j, uint32_t p)
{
    const uint32_t P = (uint32_t)j->o->grid.P;
    uint32_t best = P;

    for (uint32_t q = 0; q < P; q++)
        if (q != p && (best == P || elems(j, j->stage[q], j->stage[q + 1]) >
                                        elems(j, j->stage[best], j->stage[best + 1])))
            best = q;
    return best;
}

static bool has_buddies(const struct spot_estimate_options *o)
{
    return !o->no_buddies && o->grid.D * o->grid.M == 1 && o->n_member > 1;
}

/* Bytes in transit and queued: parts of sums from the replicas, and their totals; activations of
 * the microbatches in flight, both ways; a packed snapshot of all held bundles. */
static double transit_byte(const struct job *j, uint32_t p, int64_t n)
{
    const struct spot_job_config *const c = j->o->config;
    const double replicas = (double)(j->o->grid.D * j->o->grid.M);
    const double boundary =
        (double)(c->micro_batch * c->shape.seq * c->shape.width) * (double)sizeof(float);

    return 2 * (double)sizeof(int64_t) * (double)n * (replicas - 1) / replicas +
           (j->o->grid.P > 1 ? 4 * slots(j, p) * boundary : 0) +
           (double)(SPOT_PLANES * sizeof(float)) *
               (double)(n + largest(j, j->stage[p], j->stage[p + 1]));
}

static void fill_worker(const struct job *j, uint32_t p, struct spot_estimate_worker *w)
{
    const uint32_t begin = j->stage[p], end = j->stage[p + 1], other = heaviest_other(j, p);

    w->n_param = elems(j, begin, end);
    w->weights_byte = (double)sizeof(float) * (double)w->n_param;
    w->moments_byte = 2 * w->weights_byte;
    w->sums_byte = (double)sizeof(int64_t) * (double)w->n_param;
    w->activation_byte = engine_byte(j, begin, end, slots(j, p)) - w->sums_byte;
    w->transit_byte = transit_byte(j, p, w->n_param);
    if (has_buddies(j->o) && other < (uint32_t)j->o->grid.P)
        add_mirror(j, j->stage[other], j->stage[other + 1], w);
    add_up(w);
}

/* Memory of a member without a place: it mirrors a stage, or all of them if there are fewer spares
 * than stages. */
static void fill_spare(const struct job *j, struct spot_estimate_worker *w)
{
    const uint32_t P = (uint32_t)j->o->grid.P, p = heaviest_other(j, P);

    const int64_t n_spare = j->o->n_member - spot_grid_size(&j->o->grid);
    const uint32_t begin = n_spare < j->o->grid.P ? 0 : j->stage[p],
                   end = n_spare < j->o->grid.P ? (uint32_t)j->n_bundle : j->stage[p + 1];

    if (!n_spare || j->o->no_buddies)
        return;
    w->n_param = elems(j, begin, end);
    add_mirror(j, begin, end, w);
    add_up(w);
}

/* --- moves ------------------------------------------------------------------- */

/* Nodes are the members of the old grid in order of position, then newcomers. */
struct change {
    const char *kind;
    struct spot_grid to;
    int64_t n_gone, n_leaving, n_new; /* the last nodes are lost, or leave with a notice */
};

static void fill_table(const struct job *j, const uint32_t *stage, const struct spot_grid *grid,
                       int64_t n, uint8_t *table)
{
    for (int64_t k = 0; k < n; k++) {
        const int64_t p = k / grid->M % grid->P;

        for (uint32_t b = stage[p]; b < stage[p + 1]; b++)
            table[(size_t)k * (size_t)j->n_bundle + b] = 1;
    }
}

static int move(const struct job *j, const struct change *change, const int64_t *byte,
                struct spot_estimate_move *out, struct spot_err *err)
{
    const int64_t n_old = spot_grid_size(&j->o->grid) - change->n_gone;
    const int64_t n_node = n_old + change->n_new, n_position = spot_grid_size(&change->to);
    const size_t n_bundle = (size_t)j->n_bundle;
    uint8_t *const holds = spot_xcalloc((size_t)n_node * n_bundle, 1);
    uint8_t *const needs = spot_xcalloc((size_t)n_position * n_bundle, 1);
    uint32_t *const stage = spot_xcalloc((size_t)change->to.P + 1, sizeof(*stage));
    struct spot_cluster cluster = { .n_node = (size_t)n_node };
    struct spot_migration_problem problem;
    struct spot_migration_plan plan;
    int rc;

    cluster.node = spot_xcalloc((size_t)n_node, sizeof(*cluster.node));
    for (int64_t i = 0; i < n_node; i++) {
        const bool leaves = i >= n_old - change->n_leaving && i < n_old;

        cluster.node[i] = (struct spot_cluster_node){ .out_byte_per_s = j->o->byte_per_s,
                                                      .in_byte_per_s = j->o->byte_per_s,
                                                      .slots = !leaves,
                                                      .is_leaving = leaves,
                                                      .deadline_s = INFINITY };
    }
    spot_grid_stages(&j->o->config->shape, (uint32_t)change->to.P, stage);
    fill_table(j, j->stage, &j->o->grid, n_old, holds);
    fill_table(j, stage, &change->to, n_position, needs);
    spot_migration_of_bundles(&problem,
                              &(struct spot_migration_bundles){ (int)n_node, (int)n_position,
                                                                j->n_bundle, byte, holds, needs },
                              &cluster);
    problem.effort = 300; /* the value that a coordinator uses when it forms an epoch */
    rc = spot_migrate(&problem, &plan, err);
    if (!rc) {
        *out = (struct spot_estimate_move){ change->kind, change->to, plan.total_byte,
                                            plan.makespan_s };
        spot_migration_plan_release(&plan);
    }
    spot_migration_problem_release(&problem);
    free(cluster.node);
    free(stage);
    free(needs);
    free(holds);
    return rc;
}

/* List the possible changes of this grid; returns their number. */
static size_t list_changes(const struct job *j, struct change *change)
{
    const struct spot_grid g = j->o->grid;
    const int64_t D = g.D, P = g.P, M = g.M;
    size_t n = 0;

    if (D > 1)
        change[n++] = (struct change){ "pipeline_lost", { D - 1, P, M }, 1, 0, 0 };
    if (D * M > 1)
        change[n++] = (struct change){ "worker_replaced", g, 1, 0, 1 };
    change[n++] = (struct change){ "worker_relieved", g, 0, 1, 1 };
    if (D + 1 <= spot_job_microbatches(j->o->config))
        change[n++] = (struct change){ "pipeline_joins", { D + 1, P, M }, 0, 0, P * M };
    if (P < j->n_bundle)
        change[n++] = (struct change){ "stage_more", { D, P + 1, M }, 0, 0, D * M };
    if (P > 1)
        change[n++] = (struct change){ "stage_less", { D, P - 1, M }, 0, D * M, 0 };
    return n;
}

static int list_moves(const struct job *j, struct spot_estimate *e, struct spot_err *err)
{
    struct change change[SPOT_ESTIMATE_MOVES_MAX];
    const size_t n = list_changes(j, change);
    int64_t *const byte = spot_xcalloc((size_t)j->n_bundle, sizeof(*byte));
    const double all = e->state_byte * (double)(e->grid.D * e->grid.M);
    int rc = 0;

    for (int b = 0; b < j->n_bundle; b++)
        byte[b] = j->elem[b] * (int64_t)(SPOT_PLANES * sizeof(float));
    for (size_t i = 0; !rc && i < n; i++)
        rc = move(j, &change[i], byte, &e->move[e->n_move++], err);
    free(byte);
    e->move[e->n_move++] =
        (struct spot_estimate_move){ "from_disk", e->grid, (int64_t)all, all / j->o->byte_per_s };
    return rc;
}

/* --- all parts ---------------------------------------------------------------- */

static int check(const struct spot_estimate_options *o, struct spot_err *err)
{
    const int64_t size = spot_grid_size(&o->grid), G = spot_job_microbatches(o->config);
    const int n_bundle = spot_shape_bundles(&o->config->shape);
    char grid[SPOT_GRID_TEXT];

    spot_grid_text(&o->grid, grid);
    if (size > o->n_member)
        return spot_err_set(err, SPOT_EINFEASIBLE, "grid %s needs %lld members, there are %lld",
                            grid, (long long)size, (long long)o->n_member);
    if (o->grid.D > G || o->grid.P > n_bundle || o->config->shape.n_shard % o->grid.M)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "grid %s: the job has %lld microbatches in a step, %d bundles to make "
                            "stages of, and %lld shards, which M must divide",
                            grid, (long long)G, n_bundle, (long long)o->config->shape.n_shard);
    return 0;
}

/* The state is processed in pieces; a file of weights is made from one bundle after the other, one
 * tensor of which is transposed. */
static double coordinator_byte(const struct job *j)
{
    const double weights_byte =
        (double)sizeof(float) * (double)largest(j, 0, (uint32_t)j->n_bundle);

    return process_byte + pass_byte + (j->o->saves ? 2 * weights_byte : 0);
}

/* A generation waiting for the disk, and one frame with its copy. */
static double relay_byte(const struct job *j, double state_byte)
{
    return state_byte +
           2 * (double)(SPOT_PLANES * sizeof(float)) * (double)largest(j, 0, (uint32_t)j->n_bundle);
}

static int fill(struct job *j, struct spot_estimate *e, struct spot_err *err)
{
    const struct spot_estimate_options *const o = j->o;

    e->n_param = elems(j, 0, (uint32_t)j->n_bundle);
    e->state_byte = (double)(SPOT_PLANES * sizeof(float)) * (double)e->n_param;
    e->worker = spot_xcalloc((size_t)o->grid.P, sizeof(*e->worker));
    for (int64_t p = 0; p < o->grid.P; p++) {
        fill_worker(j, (uint32_t)p, &e->worker[p]);
        e->all_byte += e->worker[p].total_byte * (double)(o->grid.D * o->grid.M);
    }
    fill_spare(j, &e->spare);
    e->all_byte += (e->spare.n_param ? e->spare.total_byte : process_byte) *
                   (double)(o->n_member - spot_grid_size(&o->grid));
    e->coordinator_byte = coordinator_byte(j);
    e->relay_byte = relay_byte(j, e->state_byte);
    e->all_byte += e->coordinator_byte;
    e->generation_byte = e->state_byte;
    e->generation_s = e->state_byte / o->byte_per_s;
    return list_moves(j, e, err);
}

int spot_estimate_init(struct spot_estimate *e, const struct spot_estimate_options *o,
                       struct spot_err *err)
{
    struct job j = { .o = o, .n_bundle = spot_shape_bundles(&o->config->shape) };
    int rc;

    memset(e, 0, sizeof(*e));
    e->grid = o->grid;
    e->n_member = o->n_member;
    j.kernel = spot_kernel_find(o->config->kernel, err);
    if (!j.kernel || check(o, err))
        return -1;
    j.elem = spot_xcalloc((size_t)j.n_bundle, sizeof(*j.elem));
    for (int b = 0; b < j.n_bundle; b++) {
        struct spot_arena arena;

        spot_arena_of(&o->config->shape, b, &arena);
        j.elem[b] = (int64_t)arena.n_elem;
    }
    j.stage = spot_xcalloc((size_t)o->grid.P + 1, sizeof(*j.stage));
    spot_grid_stages(&o->config->shape, (uint32_t)o->grid.P, j.stage);
    rc = fill(&j, e, err);
    free(j.stage);
    free(j.elem);
    return rc;
}

void spot_estimate_release(struct spot_estimate *e)
{
    free(e->worker);
    memset(e, 0, sizeof(*e));
}
