/* SPDX-License-Identifier: MIT */
/* Chooses the grids to measure. */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "model/grid.h"
#include "profile.h"

enum { OTHERS_MAX = 8 }; /* microbatch sizes other than the job's */

int64_t profile_microbatches(const struct profile *p, int64_t b)
{
    return p->job.c.config.global_batch / b;
}

bool profile_is_planned(const struct profile *p, const struct spot_job_cell *cell)
{
    return cell->grid.M == 1 && cell->micro_batch == p->job.c.config.micro_batch;
}

static int add_grid(struct profile *p, const struct spot_grid *g, int64_t micro_batch,
                    struct spot_err *err)
{
    struct spot_job_measured *const m = &p->measured;
    char text[SPOT_GRID_TEXT];

    for (size_t i = 0; i < m->n_cell; i++)
        if (spot_grid_equal(&m->cell[i].grid, g) && m->cell[i].micro_batch == micro_batch)
            return spot_err_set(err, SPOT_EUSAGE, "--grids: %s comes twice",
                                spot_grid_text(g, text));
    if (m->n_cell == PROFILE_GRIDS_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "more than %d grids; name fewer with --grids",
                            PROFILE_GRIDS_MAX);
    m->cell[m->n_cell++] = (struct spot_job_cell){
        .grid = *g,
        .micro_batch = micro_batch,
        .stage = spot_xcalloc((size_t)g->P, sizeof(struct spot_job_stage_memory)),
    };
    return 0;
}

/* Each grid must be possible, and within --max-workers. */
static int check_grid(const struct profile *p, const struct spot_grid *g, struct spot_err *err)
{
    char text[SPOT_GRID_TEXT];

    if (g->D > p->n_microbatch || g->P > p->n_bundle ||
        (uint64_t)spot_grid_size(g) > p->max_workers)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--grids: %s; the job has %lld microbatches in a step and %d bundles "
                            "to make stages of, --max-workers is %llu",
                            spot_grid_text(g, text), (long long)p->n_microbatch, p->n_bundle,
                            (unsigned long long)p->max_workers);
    if (p->job.c.config.shape.n_shard % g->M)
        return spot_err_set(
            err, SPOT_EUSAGE, "--grids: %s; %lld members do not divide --shards %lld",
            spot_grid_text(g, text), (long long)g->M, (long long)p->job.c.config.shape.n_shard);
    return 0;
}

/* Parses "1x1,2x2,1x1x2". */
static int parse_grids(struct profile *p, const char *text, struct spot_err *err)
{
    bool is_planned = false;

    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t n = strcspn(at, ",");
        struct spot_grid g;
        char one[24];

        snprintf(one, sizeof(one), "%.*s", n < sizeof(one) ? (int)n : 0, at);
        if (spot_grid_parse(one, &g) || !spot_grid_size(&g))
            return spot_err_set(err, SPOT_EUSAGE,
                                "--grids must be DxP or DxPxM,... such as 1x1,2x2,1x1x2; got '%s'",
                                text);
        if (check_grid(p, &g, err) || add_grid(p, &g, p->job.c.config.micro_batch, err))
            return -1;
        is_planned |= g.M == 1;
    }
    if (!is_planned)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--grids %s: at least one with M = 1, where the layers are timed",
                            text);
    return 0;
}

static int all_grids(struct profile *p, struct spot_err *err)
{
    const int64_t most = (int64_t)p->max_workers;

    for (int64_t d = 1; d <= most && d <= p->n_microbatch; d++)
        for (int64_t q = 1; d * q <= most && q <= p->n_bundle; q++)
            if (add_grid(p, &(struct spot_grid){ d, q, 1 }, p->job.c.config.micro_batch, err))
                return -1;
    return 0;
}

/* Add the first n_own cells with another microbatch; a grid with too many pipelines for it is left
 * out. */
static int add_other(struct profile *p, size_t n_own, int64_t b, struct spot_err *err)
{
    const int64_t G = profile_microbatches(p, b);

    for (size_t i = 0; i < n_own; i++) {
        const struct spot_grid g = p->measured.cell[i].grid;

        if (g.D <= G && add_grid(p, &g, b, err))
            return -1;
    }
    return 0;
}

/* Parses "1,2,4"; each must divide the global batch. */
static int add_others(struct profile *p, const char *text, struct spot_err *err)
{
    const size_t n_own = p->measured.n_cell;
    int64_t taken[OTHERS_MAX + 1] = { p->job.c.config.micro_batch };
    int n = 1;

    for (const char *at = text; at;) {
        char *end;
        const long b = *at >= '1' && *at <= '9' ? strtol(at, &end, 10) : 0;
        bool is_new = true;

        if (b < 1 || (*end && *end != ','))
            return spot_err_set(err, SPOT_EUSAGE,
                                "--micro-batches must be numbers such as 1,2,4; got '%s'", text);
        if (b > p->job.c.config.global_batch || p->job.c.config.global_batch % b)
            return spot_err_set(err, SPOT_EUSAGE,
                                "--micro-batches: %ld does not divide --global-batch %lld", b,
                                (long long)p->job.c.config.global_batch);
        for (int i = 0; i < n; i++)
            is_new &= taken[i] != b;
        if (is_new && n > OTHERS_MAX)
            return spot_err_set(err, SPOT_EUSAGE, "--micro-batches: more than %d", OTHERS_MAX);
        if (is_new && add_other(p, n_own, taken[n++] = b, err))
            return -1;
        at = *end ? end + 1 : NULL;
    }
    return 0;
}

int profile_choose_grids(struct profile *p, const char *grids, const char *micro_batches,
                         struct spot_err *err)
{
    p->measured.cell = spot_xcalloc(PROFILE_GRIDS_MAX, sizeof(*p->measured.cell));
    if (grids ? parse_grids(p, grids, err) : all_grids(p, err))
        return -1;
    return micro_batches ? add_others(p, micro_batches, err) : 0;
}
