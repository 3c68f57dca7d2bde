/* SPDX-License-Identifier: MIT */
/* A member without a place that mirrors all stages computes microbatches of other members a second
 * time, during their step: docs/design/33-evidence.md. */
#include <stdlib.h>

#include "common/memory.h"
#include "common/xalloc.h"
#include "train/pipeline.h"
#include "train/worker_state.h"

void spot_worker_drop_alone(struct spot_worker *w)
{
    for (uint32_t p = 0; p < w->n_alone; p++)
        spot_stage_free(w->alone[p]);
    free(w->alone);
    w->alone = NULL;
    w->n_alone = 0;
}

static struct spot_stage_config config_of(struct spot_worker *w, uint32_t p)
{
    return spot_worker_stage_config(w, (int)w->form.stage[p], (int)w->form.stage[p + 1], 1);
}

/* True if sums and activations fit beside the mirrors. */
static bool has_room(struct spot_worker *w)
{
    size_t n_byte = 0;

    for (uint32_t p = 0; p < w->form.P; p++) {
        const struct spot_stage_config config = config_of(w, p);

        if (!config.kernel || __builtin_add_overflow(n_byte, spot_stage_memory(&config), &n_byte))
            return false;
    }
    return n_byte <= spot_memory_available();
}

static bool build(struct spot_worker *w, int64_t step)
{
    if (w->alone)
        return true;
    if (!has_room(w))
        return false;
    w->n_alone = w->form.P;
    w->alone = spot_xcalloc(w->n_alone, sizeof(struct spot_stage *));
    for (uint32_t p = 0; p < w->form.P; p++) {
        w->alone[p] = spot_worker_new_stage(w, (int)w->form.stage[p], (int)w->form.stage[p + 1], 1,
                                            step, NULL);
        if (!w->alone[p]) {
            spot_worker_drop_alone(w);
            return false;
        }
    }
    return true;
}

int spot_worker_compute_alone(struct spot_worker *w, const struct spot_frame *frame,
                              struct spot_buf *reports, struct spot_err *err)
{
    const struct spot_pipeline pipeline = {
        .mesh = w->agent.mesh,
        .form = &w->form,
        .shape = &w->config.shape,
        .n_token = (size_t)(w->config.micro_batch * spot_job_words(&w->config)),
    };
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_pipeline_check check = { .report = reports };

    spot_verify_order_get(&in, &w->form, 0, &check.order);
    if (in.bad)
        return spot_err_set(err, SPOT_EDATA, "malformed order to check from the coordinator");
    check.token = (const uint32_t *)(const void *)in.at;
    if (spot_worker_check_tokens(w, in.at, (size_t)(in.end - in.at),
                                 (size_t)check.order.again.n * pipeline.n_token, err))
        return -1;
    if (!build(w, (int64_t)frame->tag)) {
        spot_put_u32(reports, 0);
        return 0;
    }
    spot_put_u32(reports, 1);
    return spot_pipeline_alone(&pipeline, w->alone, &check, err);
}
