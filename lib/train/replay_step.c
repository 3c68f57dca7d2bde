/* SPDX-License-Identifier: MIT */
#include "train/replay_step.h"

#include <stdlib.h>

#include "common/xalloc.h"
#include "engine/backend.h"
#include "train/sums.h"

struct spot_replay {
    const struct spot_job_config *config;
    const struct spot_sampler *sampler;
    struct spot_bundle *const *bundle;
    int n_bundle;
    size_t *bundle_elem; /* [n_bundle] */
    struct spot_stage *stage;
    uint32_t *token; /* tokens of all microbatches, with their weights */
    uint32_t cut[2], share[2], member[1], buddy[1];
    struct spot_form form; /* a form with a single member */
};

void spot_replay_free(struct spot_replay *r)
{
    if (!r)
        return;
    spot_stage_free(r->stage);
    free(r->bundle_elem);
    free(r->token);
    free(r);
}

static size_t words_of(const struct spot_job_config *c) /* of a microbatch */
{
    return (size_t)(c->micro_batch * spot_job_words(c));
}

static void fill(struct spot_replay *r)
{
    const int64_t n_microbatch = spot_job_microbatches(r->config);

    r->bundle_elem = spot_xcalloc((size_t)r->n_bundle, sizeof(*r->bundle_elem));
    for (int b = 0; b < r->n_bundle; b++)
        r->bundle_elem[b] = r->bundle[b]->arena.n_elem;
    r->token = spot_xcalloc((size_t)n_microbatch * words_of(r->config), sizeof(*r->token));
    r->cut[1] = (uint32_t)r->n_bundle;
    r->share[1] = (uint32_t)n_microbatch;
    r->member[0] = 1;
    r->form = (struct spot_form){ .D = 1,
                                  .P = 1,
                                  .M = 1,
                                  .stage = r->cut,
                                  .share = r->share,
                                  .member = r->member,
                                  .buddy = r->buddy };
}

struct spot_replay *spot_replay_new(const struct spot_job_config *config,
                                    const struct spot_sampler *sampler,
                                    struct spot_bundle *const *bundle, int n_thread,
                                    struct spot_err *err)
{
    const struct spot_kernel *const kernel = spot_kernel_find(config->kernel, err);
    struct spot_replay *const r = kernel ? spot_xcalloc(1, sizeof(*r)) : NULL;

    if (!r)
        return NULL;
    *r = (struct spot_replay){ .config = config,
                               .sampler = sampler,
                               .bundle = bundle,
                               .n_bundle = spot_shape_bundles(&config->shape) };
    fill(r);
    r->stage = spot_stage_new(
        &(struct spot_stage_config){ .shape = config->shape,
                                     .bundle_end = r->n_bundle,
                                     .micro_batch = (int)config->micro_batch,
                                     .n_slot = 1,
                                     .n_microbatch = (int)spot_job_microbatches(config),
                                     .n_thread = n_thread,
                                     .recompute = SPOT_RECOMPUTE_NONE,
                                     .is_weighted = config->weight_xxh3 != 0,
                                     .kernel = kernel },
        bundle, err);
    if (!r->stage) {
        spot_replay_free(r);
        return NULL;
    }
    return r;
}

static int read_tokens(struct spot_replay *r, int64_t step, struct spot_err *err)
{
    const struct spot_job_config *const c = r->config;
    const size_t each = (size_t)spot_job_words(c);

    for (int64_t k = 0; k < c->global_batch; k++) {
        const int64_t q = step * c->global_batch + k;

        if (spot_sampler_read(r->sampler, spot_sampler_sequence(r->sampler, q),
                              r->token + (size_t)k * each, err))
            return -1;
    }
    return 0;
}

static int add_gradients(struct spot_replay *r, int64_t step, float *loss, struct spot_err *err)
{
    static const struct spot_comm_kind alone = { .name = "alone" };
    struct spot_comm comm = { &alone };
    struct spot_sums sums = { .comm = &comm,
                              .form = &r->form,
                              .stage = r->stage,
                              .shape = &r->config->shape,
                              .bundle_elem = r->bundle_elem,
                              .step = step };
    const int64_t n = spot_job_microbatches(r->config);
    double sum = 0, one;

    spot_stage_begin(r->stage);
    for (int64_t j = 0; j < n; j++) {
        spot_stage_forward(r->stage, 0, r->token + (size_t)j * words_of(r->config), NULL, NULL,
                           &one);
        spot_stage_backward(r->stage, 0, NULL, NULL);
        sum += one;
    }
    *loss = (float)(sum / (double)n);
    return spot_sums_finish(&sums, err) || spot_stage_status(r->stage, err) ? -1 : 0;
}

/* 1: exponents were too large, and are smaller now; -1 with *err: something is not finite. */
static int back_off(struct spot_replay *r, int64_t step, struct spot_err *err)
{
    uint32_t *const overflow = spot_xcalloc((size_t)r->n_bundle, sizeof(*overflow));
    int rc = 0;

    for (int b = 0; !rc && b < r->n_bundle; b++) {
        const struct spot_stage_fault fault = spot_stage_fault(r->stage, b);

        overflow[b] = fault.overflow;
        if (fault.nonfinite)
            rc = spot_err_set(err, SPOT_EDATA, "a gradient of bundle %d is not finite at step %lld",
                              b, (long long)step + 1);
    }
    spot_sums_tie_overflow(&r->config->shape, &overflow[0], &overflow[r->n_bundle - 1]);
    for (int b = 0; rc >= 0 && b < r->n_bundle; b++)
        if (overflow[b]) {
            spot_stage_back_off(r->stage, b, overflow[b]);
            rc = 1;
        }
    free(overflow);
    return rc;
}

static double norm2_of(struct spot_replay *r)
{
    double norm2 = 0;

    for (int b = 0; b < r->n_bundle; b++)
        norm2 += spot_stage_norm2(r->stage, b);
    return norm2;
}

int spot_replay_step(struct spot_replay *r, struct spot_replayed *out, struct spot_err *err)
{
    const int64_t step = r->bundle[0]->step;
    const struct spot_adamw adamw = spot_job_adamw(r->config, step + 1);
    double scale;
    int rc;

    if (read_tokens(r, step, err))
        return -1;
    do {
        if (add_gradients(r, step, &out->loss, err))
            return -1;
        rc = back_off(r, step, err);
    } while (rc > 0);
    if (rc)
        return -1;
    scale = spot_job_scale(r->config, norm2_of(r));
    out->parameters = spot_step_parameters(&adamw, scale, out->loss);
    out->samples = spot_hash64(r->token, (size_t)spot_job_microbatches(r->config) *
                                             words_of(r->config) * sizeof(*r->token));
    for (int b = 0; b < r->n_bundle; b++)
        spot_evidence_take(&out->evidence[b], r->bundle[b], spot_stage_sum(r->stage, b));
    for (int b = 0; b < r->n_bundle; b++)
        spot_stage_update(r->stage, b, &adamw, scale);
    return 0;
}
