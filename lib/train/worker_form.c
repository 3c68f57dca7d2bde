/* SPDX-License-Identifier: MIT */
/* A worker's place in a new epoch: the state of its step, and the objects that compute with it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/xalloc.h"
#include "engine/backend.h"
#include "train/pipeline.h"
#include "train/worker_state.h"

struct spot_stage_config spot_worker_stage_config(struct spot_worker *w, int begin, int end,
                                                  int n_slot)
{
    return (struct spot_stage_config){
        .shape = w->config.shape,
        .bundle_begin = begin,
        .bundle_end = end,
        .micro_batch = (int)w->config.micro_batch,
        .n_slot = n_slot,
        .n_microbatch = (int)spot_job_microbatches(&w->config),
        .n_thread = w->options->n_thread,
        .recompute = w->options->recompute,
        .is_weighted = w->config.weight_xxh3 != 0,
        .kernel = spot_kernel_find(w->config.kernel, NULL),
        .group = n_slot ? spot_worker_group(w) : (struct spot_stage_group){ 0 },
    };
}

/* This worker's own stage. */
static struct spot_stage_config own_config(struct spot_worker *w)
{
    const struct spot_form *const f = &w->form;
    const struct spot_form_place at = spot_form_place(f, w->position);

    return spot_worker_stage_config(w, (int)f->stage[at.p], (int)f->stage[at.p + 1],
                                    spot_pipeline_slots(f, at.d, at.p));
}

static size_t held_byte(const struct spot_bundle *bundle)
{
    if (!bundle)
        return 0;
    return spot_bundle_memory(&bundle->arena) +
           (bundle->spare_sum ? spot_bundle_sum_memory(&bundle->arena) : 0);
}

/* Reject, before any move, a place that would not fit in memory; bundles already held are counted
 * as present. */
static int check_room(struct spot_worker *w, struct spot_err *err)
{
    size_t limit_byte = spot_memory_available();
    struct spot_stage_config config;
    int rc;

    if (w->position < 0 || w->stage)
        return 0;
    config = own_config(w);
    if (!config.kernel)
        return 0; /* new_stage reports it */
    for (int b = config.bundle_begin; b < config.bundle_end; b++)
        if (__builtin_add_overflow(limit_byte, held_byte(w->bundle[b]), &limit_byte))
            limit_byte = SIZE_MAX;
    if (!strncmp(w->config.kernel, "cuda", 4))
        limit_byte = 0; /* the device's own limit */
    rc = spot_stage_check(&config, limit_byte, err);
    spot_agent_set_unfit(&w->agent, rc != 0);
    return rc;
}

static int are_there(const struct spot_worker *w, int begin, int end, int64_t step,
                     struct spot_err *err)
{
    for (int b = begin; b < end; b++)
        if (!w->bundle[b] || w->bundle[b]->step != step)
            return spot_err_set(err, SPOT_EDATA, "bundle %d of step %lld did not arrive", b,
                                (long long)step);
    return 0;
}

struct spot_stage *spot_worker_new_stage(struct spot_worker *w, int begin, int end, int n_slot,
                                         int64_t step, struct spot_err *err)
{
    const struct spot_stage_config config = spot_worker_stage_config(w, begin, end, n_slot);

    if (!config.kernel) {
        spot_kernel_find(w->config.kernel, err);
        return NULL;
    }
    if (are_there(w, begin, end, step, err))
        return NULL;
    return spot_stage_new(&config, &w->bundle[begin], err);
}

/* A member that keeps its place keeps its stage, sums and activations: allocating their pages again
 * is most of what a large job waits for after a kill. Device copies stay there, too. */
static bool is_same_place(struct spot_worker *w)
{
    const struct spot_stage_config *const had = &w->stage_config;
    struct spot_stage_config own;
    struct spot_err why = { 0 };

    if (!w->stage || w->position < 0 || spot_stage_status(w->stage, &why))
        return false;
    own = own_config(w);
    return had->bundle_begin == own.bundle_begin && had->bundle_end == own.bundle_end &&
           had->n_slot == own.n_slot && had->group.m == own.group.m && had->group.M == own.group.M;
}

/* True if the stage's bundles are the same objects as before; objects that were received again may
 * be of another step. */
static bool is_stage_whole(const struct spot_worker *w, const struct spot_stage_config *own)
{
    if (!w->stage)
        return false;
    for (int b = own->bundle_begin; b < own->bundle_end; b++)
        if (!w->bundle[b] || w->bundle[b] != w->stage_on[b] || w->bundle[b]->step != w->form.step)
            return false;
    return true;
}

static int build_stage(struct spot_worker *w, struct spot_err *err)
{
    const struct spot_stage_config own = own_config(w);

    if (w->stage && spot_stage_can_renew(w->stage))
        return are_there(w, own.bundle_begin, own.bundle_end, w->form.step, err) ||
                       spot_stage_renew(w->stage, &w->bundle[own.bundle_begin], err)
                   ? -1
                   : 0;
    if (is_stage_whole(w, &own))
        return 0;
    spot_stage_free(w->stage);
    w->stage =
        spot_worker_new_stage(w, own.bundle_begin, own.bundle_end, own.n_slot, w->form.step, err);
    spot_agent_set_unfit(&w->agent, !w->stage);
    if (!w->stage)
        return -1;
    w->stage_config = own;
    free(w->stage_on);
    w->stage_on = spot_xcalloc((size_t)w->n_bundle, sizeof(struct spot_bundle *));
    memcpy(w->stage_on, w->bundle, (size_t)w->n_bundle * sizeof(struct spot_bundle *));
    return 0;
}

static void drop_sums(struct spot_worker *w)
{
    for (uint32_t b = 0; b < (uint32_t)w->n_bundle; b++)
        if (w->bundle[b] && !spot_form_keeps(&w->form, w->agent.id, b))
            spot_bundle_drop_sum(w->bundle[b]);
}

static int build_stages(struct spot_worker *w, struct spot_err *err)
{
    return (w->position >= 0 && build_stage(w, err)) || spot_worker_build_mirrors(w, err) ? -1 : 0;
}

int spot_worker_form(void *job, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_worker *const w = job;
    struct spot_err why = { 0 };
    int rc;

    if (spot_worker_sync_mirrors(w, err))
        return -1;
    spot_worker_leave_place(w);
    spot_form_release(&w->form);
    w->position = -1;
    if (spot_form_get(&w->form, frame->data, frame->n_byte,
                      &(struct spot_form_bounds){ (uint32_t)w->n_bundle,
                                                  spot_job_microbatches(&w->config),
                                                  w->config.shape.n_shard },
                      err))
        return -1;
    w->position = spot_form_position(&w->form, w->agent.id);
    if (!is_same_place(w)) {
        if (spot_worker_sync(w, err))
            return -1;
        spot_worker_drop_stage(w);
    }
    drop_sums(w);
    spot_form_mark_on_demand(&w->form, w->agent.id, w->config.comm == SPOT_COMM_NCCL);
    rc = spot_agent_enter(&w->agent, w->form.peer, w->form.n_peer, &why);
    if (!rc)
        rc = check_room(w, &why);
    if (!rc)
        rc = spot_worker_check_mirrors(w, &why);
    if (!rc)
        rc = spot_worker_move(w, &why);
    if (!rc)
        rc = build_stages(w, &why);
    if (!rc)
        rc = spot_worker_open_comm(w, &why);
    if (rc)
        return spot_worker_report(w, &why, err) ? -1 : 1;
    return 0;
}
