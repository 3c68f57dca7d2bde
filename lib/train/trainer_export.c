/* SPDX-License-Identifier: MIT */
/* A client requests the weights: it gets the description of the job and the durable step, then its
 * bundles. The only effect on the job is an earlier generation. */
#include <stdlib.h>

#include "common/version.h"
#include "train/trainer_durable_state.h"

static void put_job(const struct spot_trainer *c, int64_t step, struct spot_buf *answer)
{
    const struct spot_trainer_options *const o = c->options;

    spot_put_u32(answer, SPOT_PROTOCOL);
    spot_put_text(answer, spot_version());
    spot_put_i64(answer, c->machine->round);
    spot_put_i64(answer, step);
    spot_put_text(answer, o->bpe || o->token_byte == 1 ? "bytes"
                          : o->token_byte == 2         ? "u16"
                                                       : "u32");
    spot_put_text(answer, o->tokenizer ? o->tokenizer : "");
    spot_job_config_put(answer, &c->config);
}

/* Answer with the description of the job; `wanted` is the step that is to become durable. */
static void answer_export(struct spot_trainer *c, int64_t wanted, struct spot_buf *answer)
{
    if (wanted > c->saver.export_step)
        c->saver.export_step = wanted;
    put_job(c, spot_store_newest(c->saver.store), answer);
}

static int send_bundle(struct spot_trainer *c, int64_t step, uint32_t bundle,
                       struct spot_buf *answer, struct spot_err *err)
{
    size_t n_byte;
    uint8_t *data;

    if (step < 0 || bundle >= (uint32_t)c->n_bundle)
        return spot_err_set(err, SPOT_EUSAGE, "there is no such bundle");
    data = spot_store_read(c->saver.store, step, (int)bundle, &n_byte, err);
    if (!data)
        return -1;
    spot_buf_add(answer, data, n_byte);
    free(data);
    return 0;
}

static int show_bundle(const struct spot_trainer *c, int64_t step, uint32_t bundle,
                       struct spot_buf *answer, struct spot_err *err)
{
    const struct spot_buf *const weights = spot_trainer_look(c, step, bundle);

    if (!weights)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "the weights of this step are no longer available");
    spot_buf_add(answer, weights->data, weights->n);
    return 0;
}

int spot_trainer_client(void *job, const struct spot_frame *frame, struct spot_buf *answer,
                        uint64_t *status, struct spot_err *err)
{
    struct spot_trainer *const c = job;
    const uint32_t type = frame->type;
    const bool has_bundle = type == SPOT_MSG_FETCH || type == SPOT_MSG_LOOK;
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const int64_t step = spot_get_i64(&in);
    const uint32_t bundle = has_bundle ? spot_get_u32(&in) : 0;

    *status = 0;
    if (!spot_wire_in_done(&in) ||
        (!has_bundle && type != SPOT_MSG_EXPORT && type != SPOT_MSG_WATCH))
        return spot_err_set(err, SPOT_EUSAGE, "unknown request to this job");
    if (has_bundle)
        return type == SPOT_MSG_FETCH ? send_bundle(c, step, bundle, answer, err)
                                      : show_bundle(c, step, bundle, answer, err);
    if (c->options->observer)
        return spot_err_set(err, SPOT_EINFEASIBLE, "this job is a measurement: it keeps no state");
    if (type == SPOT_MSG_EXPORT)
        answer_export(c, step, answer);
    else
        put_job(c, spot_trainer_watch(c, step), answer);
    return 0;
}
