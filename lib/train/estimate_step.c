/* SPDX-License-Identifier: MIT */
/* Estimates the time of a step from that of one layer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "engine/initial_weights.h"
#include "engine/stage.h"
#include "train/estimate.h"
#include "train/grid_choice.h"

enum { TRIES = 4 }; /* the first is a warm-up; the fastest of the others counts */

/* Forward and backward of one microbatch of the first layer. */
static void compute(struct spot_stage *stage, size_t n_elem, double *layer_s)
{
    float *const in = spot_xcalloc(n_elem, sizeof(*in));
    float *const out = spot_xcalloc(n_elem, sizeof(*out));
    double loss = 0;

    for (size_t i = 0; i < n_elem; i++)
        in[i] = (float)(i % 97) / 97 - 0.5F;
    *layer_s = INFINITY;
    for (int k = 0; k < TRIES; k++) {
        const double start_s = spot_clock_s();

        spot_stage_begin(stage);
        spot_stage_forward(stage, 0, NULL, in, out, &loss);
        spot_stage_backward(stage, 0, in, out);
        if (k)
            *layer_s = fmin(*layer_s, spot_clock_s() - start_s);
    }
    free(out);
    free(in);
}

static int time_layer(const struct spot_estimate_options *o, const struct spot_kernel *kernel,
                      double *layer_s, struct spot_err *err)
{
    const struct spot_job_config *const c = o->config;
    const struct spot_stage_config config = {
        .shape = c->shape,
        .bundle_begin = 1,
        .bundle_end = 2,
        .micro_batch = (int)c->micro_batch,
        .n_slot = 1,
        .n_microbatch = (int)spot_job_microbatches(c),
        .n_thread = o->n_thread,
        .recompute = o->recompute,
        .kernel = kernel,
    };
    struct spot_bundle bundle, *all = &bundle;
    struct spot_stage *stage;

    if (spot_bundle_init(&bundle, &c->shape, 1, err))
        return -1;
    spot_bundle_start(&bundle, &c->shape, c->seed);
    stage = spot_stage_new(&config, &all, err);
    if (stage)
        compute(stage, spot_stage_boundary_elem(stage), layer_s);
    spot_stage_free(stage);
    spot_bundle_release(&bundle);
    return stage ? 0 : -1;
}

/* The work of a step, in units of one layer's work for one microbatch. */
static double in_layers(const struct spot_estimate_options *o)
{
    const struct spot_job_config *const c = o->config;

    return spot_grid_work(&c->shape, &o->grid, spot_job_microbatches(c)) /
           spot_grid_cost(&c->shape, 1, 2);
}

int spot_estimate_step(const struct spot_estimate_options *o, int64_t n_sharing, double *step_s,
                       struct spot_err *err)
{
    const struct spot_kernel *const kernel = spot_kernel_find(o->config->kernel, err);
    const double n_core = (double)sysconf(_SC_NPROCESSORS_ONLN);
    const double load = (double)(n_sharing * o->n_thread) / (n_core > 0 ? n_core : 1);
    double layer_s = 0;

    *step_s = 0;
    if (!kernel)
        return -1;
    if (!strncmp(o->config->kernel, "cuda", 4))
        return 0;
    if (time_layer(o, kernel, &layer_s, err))
        return -1;
    *step_s = layer_s * in_layers(o) * (load > 1 ? load : 1);
    return 0;
}
