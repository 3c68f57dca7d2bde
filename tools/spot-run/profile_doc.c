/* SPDX-License-Identifier: MIT */
/* Writes the measurements as spot.job/1 and as a table. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/table.h"
#include "common/memory.h"
#include "common/xalloc.h"
#include "profile.h"
#include "train/grid_choice.h"

/* --- sizes ----------------------------------------------------------------- */

static struct spot_stage_config stage_config(const struct profile *p,
                                             const struct spot_shape *shape,
                                             const struct spot_kernel *kernel)
{
    return (struct spot_stage_config){ .shape = *shape,
                                       .micro_batch = (int)p->job.c.config.micro_batch,
                                       .n_microbatch = (int)p->n_microbatch,
                                       .n_thread = (int)p->job.c.n_thread,
                                       .recompute = p->job.c.recompute,
                                       .kernel = kernel };
}

static double planes_byte(const struct spot_shape *shape, uint32_t begin, uint32_t end)
{
    double sum = 0;

    for (uint32_t b = begin; b < end; b++) {
        struct spot_arena arena;

        spot_arena_of(shape, (int)b, &arena);
        sum += (double)spot_bundle_memory(&arena);
    }
    return sum;
}

static double stage_byte(struct spot_stage_config config, uint32_t begin, uint32_t end, int n_slot)
{
    config.bundle_begin = (int)begin;
    config.bundle_end = (int)end;
    config.n_slot = n_slot;
    return (double)spot_stage_memory(&config);
}

static void size_cell(const struct profile *p, const struct spot_stage_config *any,
                      struct spot_job_cell *cell)
{
    const int64_t G = profile_microbatches(p, cell->micro_batch), P = cell->grid.P;
    const int64_t m = (G + cell->grid.D - 1) / cell->grid.D;
    uint32_t *stage = spot_xcalloc((size_t)P + 1, sizeof(*stage));
    struct spot_stage_config config = *any;

    config.micro_batch = (int)cell->micro_batch;
    config.n_microbatch = (int)G;
    config.group.M = (int)cell->grid.M;
    spot_grid_stages(&config.shape, (uint32_t)P, stage);
    for (int64_t k = 0; k < P; k++)
        cell->stage[k].planned_byte =
            stage_byte(config, stage[k], stage[k + 1], (int)(P - k < m ? P - k : m)) +
            planes_byte(&config.shape, stage[k], stage[k + 1]);
    free(stage);
}

/* Sizes used in planning: parameters and bytes of layers and stages. */
static int set_sizes(struct profile *p, double *state_byte_per_param, struct spot_err *err)
{
    const struct spot_job_config *const c = &p->job.c.config;
    struct spot_stage_config config;
    double state_byte = 0, n_param = 0;

    config = stage_config(p, &c->shape, spot_kernel_find(c->kernel, err));
    if (!config.kernel)
        return -1;
    for (uint32_t b = 0; b < (uint32_t)p->n_bundle; b++) {
        struct spot_arena arena;

        spot_arena_of(&config.shape, (int)b, &arena);
        p->layer[b].params = (double)arena.n_elem;
        p->layer[b].activation_byte =
            stage_byte(config, b, b + 1, 2) - stage_byte(config, b, b + 1, 1);
        n_param += (double)arena.n_elem;
        state_byte += stage_byte(config, b, b + 1, 0) + planes_byte(&config.shape, b, b + 1);
    }
    for (size_t i = 0; i < p->measured.n_cell; i++)
        size_cell(p, &config, &p->measured.cell[i]);
    p->kernel = spot_kernel_name(config.kernel);
    *state_byte_per_param = state_byte / n_param;
    return 0;
}

/* --- the document ---------------------------------------------------------- */

static struct spot_job_profile *profile_of(const struct profile *p)
{
    struct spot_job_profile *entry = spot_xcalloc(p->measured.n_cell, sizeof(*entry));

    for (size_t i = 0; i < p->measured.n_cell; i++)
        entry[i] = (struct spot_job_profile){ .grid = p->measured.cell[i].grid,
                                              .micro_batch = p->measured.cell[i].micro_batch,
                                              .step_s = p->measured.cell[i].step_s,
                                              .is_outlier = p->measured.cell[i].is_outlier };
    return entry;
}

static void fit_curve(struct profile *p, const struct spot_job_doc *job)
{
    spot_step_curve_fit(&p->measured.curve, job, NULL);
    for (size_t i = 0; p->measured.curve.n_point && i < p->measured.n_cell; i++) {
        struct spot_job_cell *cell = &p->measured.cell[i];

        if (profile_is_planned(p, cell))
            cell->curve_s =
                spot_step_curve_at(&p->measured.curve, job, (int)cell->grid.D, (int)cell->grid.P);
    }
}

static void set_cost(const struct profile *p, struct spot_job_cost *cost)
{
    const struct spot_job_change *change = &p->measured.change;
    const struct spot_job_link *p2p = &p->measured.p2p;

    *cost = (struct spot_job_cost){ .usd_per_h = -1,
                                    .on_demand_usd_per_h = -1,
                                    .interval_s = 60,
                                    .look_ahead = 12,
                                    .move_byte_per_param = SPOT_PLANES * sizeof(float),
                                    .p2p = spot_xcalloc(p2p->n_point, sizeof(*cost->p2p)),
                                    .n_p2p = p2p->n_point };
    for (size_t i = 0; i < p2p->n_point; i++) { /* from the fit: it grows with the size */
        const double byte_s = p2p->byte_per_s > 0 ? p2p->point[i].x / p2p->byte_per_s : 0;

        cost->p2p[i] = (struct spot_job_xy){ p2p->point[i].x, p2p->latency_s + byte_s };
    }
    cost->is_given = change->changes || cost->n_p2p;
    cost->regroup_s = change->leave_s;
    cost->rendezvous_s = change->join_s > change->leave_s ? change->join_s - change->leave_s : 0;
}

int profile_write(struct profile *p, const char *name, const struct spot_prov *prov, FILE *out,
                  struct spot_err *err)
{
    const size_t available_byte = spot_memory_available();
    struct spot_job_doc job = {
        .name = name,
        .global_batch = p->job.c.config.global_batch,
        .micro_batch = p->job.c.config.micro_batch,
        .seq = p->job.c.config.shape.seq,
        .layer = p->layer,
        .n_layer = (size_t)p->n_bundle,
        .lists_layers = true,
        .profile = profile_of(p),
        .n_profile = p->measured.n_cell,
        .memory = { .p_min = 1, .d_min = 1, .p_max = p->n_bundle },
        .measured = &p->measured,
    };
    char source[192];
    int rc = set_sizes(p, &job.memory.state_byte_per_param, err);

    job.model.shape = p->job.c.config.shape;
    if (available_byte != SIZE_MAX)
        job.memory.node_byte = (double)available_byte;
    snprintf(source, sizeof(source),
             "measured by spot-run profile: up to %llu workers, threads of each: %llu, cores of "
             "the host: %ld, kernel %s",
             (unsigned long long)p->max_workers, (unsigned long long)p->job.c.n_thread,
             sysconf(_SC_NPROCESSORS_ONLN), p->kernel);
    job.source = source;
    set_cost(p, &job.cost);
    fit_curve(p, &job);
    if (!rc && out)
        rc = spot_job_doc_write(&job, prov, out, err);
    free(job.profile);
    free(job.cost.p2p);
    return rc;
}

/* --- the table ------------------------------------------------------------- */

void profile_table(struct profile *p, FILE *out)
{
    const struct spot_job_measured *m = &p->measured;
    struct spot_table table;

    spot_table_init(
        &table, "grid,b#,step_ms#,spread#,law_ms#,forward_ms#,backward_ms#,reduce_ms#,stage_MB#,");
    for (size_t i = 0; i < m->n_cell; i++) {
        const struct spot_job_cell *c = &m->cell[i];
        double most_byte = 0;
        char grid[SPOT_GRID_TEXT];

        for (int64_t k = 0; k < c->grid.P; k++)
            if (c->stage[k].resident_byte > most_byte)
                most_byte = c->stage[k].resident_byte;
        spot_table_add(&table, "%s %lld %.3f %.2f %.3f %.3f %.3f %.3f %.1f %s",
                       spot_grid_text(&c->grid, grid), (long long)c->micro_batch, 1e3 * c->step_s,
                       (c->high_s - c->low_s) / c->step_s, 1e3 * c->curve_s, 1e3 * c->forward_s,
                       1e3 * c->backward_s, 1e3 * c->reduce_s, most_byte / 1e6,
                       c->is_outlier ? "outlier" : "");
    }
    spot_table_print(&table, out, SPOT_FORMAT_TABLE);
    spot_table_release(&table);
    if (m->p2p.n_point)
        fprintf(out, "\nmessage: %.1f us and %.2f GB/s\n", 1e6 * m->p2p.latency_s,
                m->p2p.byte_per_s / 1e9);
    if (m->sum.n_point)
        fprintf(out, "sum over %lld: %.1f us and %.2f GB/s\n", (long long)m->sum.members,
                1e6 * m->sum.latency_s, m->sum.byte_per_s / 1e9);
    if (m->stall.steps)
        fprintf(out,
                "step of %lldx1, ms: compute %.3f, interconnect %.3f, network %.3f, prep %.3f, "
                "fetch %.3f\n",
                (long long)m->stall.D, 1e3 * m->stall.compute_s, 1e3 * m->stall.interconnect_s,
                1e3 * m->stall.network_s, 1e3 * m->stall.prep_s, 1e3 * m->stall.fetch_s);
    if (m->change.changes)
        fprintf(out, "change of the grid: %.1f ms, with a join %.1f ms, %.3f s per GB moved\n",
                1e3 * m->change.leave_s, 1e3 * m->change.join_s, 1e9 * m->change.byte_s);
}
