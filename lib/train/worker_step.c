/* SPDX-License-Identifier: MIT */
/* A worker's part of a step: compute, mirror, vote, update. */
#include <math.h>
#include <string.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "train/evidence.h"
#include "train/model_wire.h"
#include "train/pipeline.h"
#include "train/sums.h"
#include "train/worker_state.h"

/* The stage object that keeps bundle b up to date here, NULL if none. */
static struct spot_stage *keeper_of(const struct spot_worker *w, uint32_t b)
{
    if (w->mirror[b])
        return w->mirror[b];
    return spot_form_computes(&w->form, w->position, b) ? w->stage : NULL;
}

static bool is_active(const struct spot_worker *w, const struct spot_frame *order)
{
    return order->epoch == w->agent.epoch && w->mirror &&
           spot_form_is_active(&w->form, w->agent.id);
}

/* The epoch runs, so every member has its state: old copies can be dropped. */
static void drop_unplaced(struct spot_worker *w)
{
    for (uint32_t b = 0; b < (uint32_t)w->n_bundle; b++)
        if (!keeper_of(w, b)) {
            spot_bundle_free(w->bundle[b]);
            w->bundle[b] = NULL;
        }
}

static void put_losses(const struct spot_worker *w, struct spot_buf *out)
{
    int64_t begin, end;

    spot_form_losses(&w->form, w->position, &begin, &end);
    spot_put_u32(out, (uint32_t)(end - begin));
    for (int64_t j = begin; j < end; j++) {
        spot_put_u32(out, (uint32_t)j);
        spot_put_f64(out, w->loss[j - begin]);
    }
}

/* Returns 0, or -1 with *err if a device of this member has failed. */
static int stage_status(const struct spot_worker *w, struct spot_err *err)
{
    struct spot_stage *mirror;

    if (w->stage && spot_stage_status(w->stage, err))
        return -1;
    for (int b = 0; (mirror = spot_worker_next_mirror(w, &b));)
        if (spot_stage_status(mirror, err))
            return -1;
    return 0;
}

/* The maximum memory of this process so far. */
static uint64_t resident_byte(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_SELF, &usage) ? 0 : (uint64_t)usage.ru_maxrss * 1024;
}

/* Send the vote on this member's copies of the sums; mirrors vote too, and must agree. */
static int send_vote(struct spot_worker *w, int64_t step, double compute_s,
                     const struct spot_pipeline_times *times, const struct spot_buf *reports,
                     struct spot_err *err)
{
    struct spot_buf out = { 0 };
    uint32_t n = 0;

    spot_put_f64(&out, compute_s);
    spot_put_f64(&out, times->forward_s);
    spot_put_f64(&out, times->backward_s);
    spot_put_f64(&out, times->reduce_s);
    spot_put_u64(&out, resident_byte());
    put_losses(w, &out);
    for (uint32_t b = 0; b < (uint32_t)w->n_bundle; b++)
        n += keeper_of(w, b) != NULL;
    spot_put_u32(&out, n);
    for (uint32_t b = 0; b < (uint32_t)w->n_bundle; b++) {
        struct spot_stage *keeper = keeper_of(w, b);
        struct spot_stage_fault fault;
        struct spot_stage_times spent;
        struct spot_evidence evidence;

        if (!keeper)
            continue;
        fault = spot_stage_fault(keeper, (int)b);
        spot_put_u32(&out, b);
        spot_put_f64(&out, spot_stage_norm2(keeper, (int)b));
        spot_put_u32(&out, fault.overflow);
        spot_put_u32(&out, fault.nonfinite);
        spent =
            keeper == w->stage ? spot_stage_times(keeper, (int)b) : (struct spot_stage_times){ 0 };
        spot_put_f64(&out, spent.forward_s);
        spot_put_f64(&out, spent.backward_s);
        if (spot_evidence_of_kernel(w->config.kernel)) {
            spot_evidence_take(&evidence, w->bundle[b], spot_stage_sum(keeper, (int)b));
            spot_evidence_put(&out, &evidence, w->bundle[b]->arena.n_tensor);
        }
    }
    if (stage_status(w, err)) {
        spot_buf_release(&out);
        return -1;
    }
    if (reports->n)
        spot_buf_add(&out, reports->data, reports->n);
    return spot_agent_send(&w->agent, SPOT_MSG_VOTE, (uint64_t)step, &out, err);
}

/* A token is an index into the embedding, so tokens outside the vocabulary are rejected. The tokens
 * of a sequence are followed by their weights. */
int spot_worker_check_tokens(const struct spot_worker *w, const void *data, size_t n_byte,
                             size_t n_token, struct spot_err *err)
{
    const uint32_t *const token = data;
    const size_t words = (size_t)spot_job_words(&w->config);
    float weight;

    if (n_byte != n_token * sizeof(*token))
        return spot_err_set(err, SPOT_EDATA, "the coordinator sent %zu bytes of tokens, not %zu",
                            n_byte, n_token * sizeof(*token));
    for (size_t i = 0; i < n_token; i++) {
        const bool is_weight = i % words > (size_t)w->config.shape.seq;

        memcpy(&weight, &token[i], sizeof(weight));
        if (is_weight && !isfinite(weight))
            return spot_err_set(err, SPOT_EDATA,
                                "the coordinator sent a weight that is not finite");
        if (!is_weight && token[i] >= w->config.shape.vocab)
            return spot_err_set(err, SPOT_EDATA,
                                "the coordinator sent token %u of a vocabulary "
                                "of %lld",
                                (unsigned)token[i], (long long)w->config.shape.vocab);
    }
    return 0;
}

/* Read the part of an order after this member's n_token tokens: the microbatches to be checked, and
 * their tokens. */
static int take_check(const struct spot_worker *w, const struct spot_frame *frame, size_t n_token,
                      const struct spot_pipeline *pl, bool reads, struct spot_pipeline_check *check,
                      struct spot_err *err)
{
    const size_t own = n_token * sizeof(uint32_t);
    struct spot_wire_in in = spot_wire_in(frame->data + own, frame->n_byte - own);
    size_t n_again;

    spot_verify_order_get(&in, &w->form, pl->at.d, &check->order);
    if (in.bad)
        return spot_err_set(err, SPOT_EDATA, "malformed order to check from the coordinator");
    n_again = reads ? (size_t)check->order.again.n * pl->n_token : 0;
    check->token = (const uint32_t *)(const void *)in.at;
    return spot_worker_check_tokens(w, in.at, (size_t)(in.end - in.at), n_again, err);
}

/* Compute this member's microbatches and the sum over its replicas; without `times` only forward.
 * Reports on checked microbatches are appended. */
static int compute(struct spot_worker *w, const struct spot_frame *frame,
                   struct spot_pipeline_times *times, struct spot_buf *reports,
                   struct spot_err *err)
{
    struct spot_pipeline_check check = { .report = reports };
    size_t n_token;
    const struct spot_pipeline pipeline = {
        .comm = w->comm,
        .mesh = w->agent.mesh,
        .stage = w->stage,
        .form = &w->form,
        .shape = &w->config.shape,
        .is_fast = w->config.reduce == SPOT_REDUCE_FAST,
        .at = spot_form_place(&w->form, w->position),
        .n_token = (size_t)(w->config.micro_batch * spot_job_words(&w->config)),
        .bundle_elem = w->bundle_elem,
    };
    const bool reads = pipeline.at.p == 0 || pipeline.at.p + 1 == w->form.P;
    const uint32_t *const token = (const uint32_t *)(const void *)frame->data;
    const int64_t step = (int64_t)frame->tag;
    int64_t begin, end;

    spot_form_microbatches(&w->form, pipeline.at.d, &begin, &end);
    n_token = reads ? (size_t)(end - begin) * pipeline.n_token : 0;
    if (frame->n_byte < n_token * sizeof(*token) || !times || frame->n_byte == n_token * 4) {
        if (spot_worker_check_tokens(w, frame->data, frame->n_byte, n_token, err))
            return -1;
    } else if (spot_worker_check_tokens(w, frame->data, n_token * sizeof(*token), n_token, err) ||
               take_check(w, frame, n_token, &pipeline, reads, &check, err)) {
        return -1;
    }
    return times ? spot_pipeline_step(&pipeline, step, token, w->loss, &check, times, err)
                 : spot_pipeline_validate(&pipeline, step, token, w->loss, err);
}

static int mirror(struct spot_worker *w, int64_t step, struct spot_err *err)
{
    const struct spot_mirror part = { w->comm,  &w->form,  w->position,
                                      w->stage, w->mirror, w->bundle_elem };

    if (spot_sums_mirror(&part, step, err))
        return -1;
    spot_mesh_progress(w->agent.mesh);
    return 0;
}

int spot_worker_step(struct spot_worker *w, const struct spot_frame *frame, struct spot_err *err)
{
    const int64_t step = (int64_t)frame->tag;
    const double start_s = spot_clock_s();
    struct spot_pipeline_times times = { 0 };
    struct spot_buf reports = { 0 };
    struct spot_err why = { 0 };
    int rc = 0;

    if (!is_active(w, frame))
        return 0;
    drop_unplaced(w);
    spot_mesh_keep(w->agent.mesh); /* sums of an earlier step may still be in transit */
    if (w->position >= 0)
        rc = compute(w, frame, &times, &reports, &why);
    if (!rc)
        rc = spot_worker_take_precopies(w, step, &why);
    if (!rc && w->position < 0 && frame->n_byte)
        rc = spot_worker_compute_alone(w, frame, &reports, &why);
    if (!rc)
        rc = mirror(w, step, &why);
    rc = rc ? spot_worker_report(w, &why, err)
            : send_vote(w, step, spot_clock_s() - start_s, &times, &reports, err);
    spot_buf_release(&reports);
    return rc;
}

/* A member that only mirrors computes nothing, and votes without losses. */
int spot_worker_validate(struct spot_worker *w, const struct spot_frame *frame,
                         struct spot_err *err)
{
    struct spot_buf out = { 0 };
    struct spot_err why = { 0 };

    if (!is_active(w, frame))
        return 0;
    if (w->position >= 0 && (compute(w, frame, NULL, NULL, &why) || stage_status(w, &why)))
        return spot_worker_report(w, &why, err);
    put_losses(w, &out);
    return spot_agent_send(&w->agent, SPOT_MSG_VOTE, frame->tag, &out, err);
}

/* Vote on the state of the bundles kept here, after the last update. */
int spot_worker_confirm(struct spot_worker *w, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_buf out = { 0 };
    uint32_t n = 0;

    if (!is_active(w, frame))
        return 0;
    for (uint32_t b = 0; b < (uint32_t)w->n_bundle; b++)
        n += keeper_of(w, b) != NULL;
    spot_put_u32(&out, n);
    for (uint32_t b = 0; b < (uint32_t)w->n_bundle; b++) {
        if (!keeper_of(w, b))
            continue;
        spot_put_u32(&out, b);
        for (int t = 0; t < w->bundle[b]->arena.n_tensor; t++)
            spot_put_u64(&out, spot_evidence_state(w->bundle[b], t));
    }
    return spot_agent_send(&w->agent, SPOT_MSG_VOTE, frame->tag, &out, err);
}

int spot_worker_commit(struct spot_worker *w, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const double scale = spot_get_f64(&in);
    struct spot_adamw adamw = w->config.adamw;

    adamw.lr = spot_get_f64(&in);
    adamw.weight_decay = spot_get_f64(&in);
    if (!is_active(w, frame))
        return 0;
    if (!spot_wire_in_done(&in))
        return spot_err_set(err, SPOT_ESYS, "malformed commit from the coordinator");
    for (uint32_t b = 0; b < (uint32_t)w->n_bundle; b++)
        if (keeper_of(w, b))
            spot_stage_update(keeper_of(w, b), (int)b, &adamw, scale);
    w->is_redoing = false;
    return stage_status(w, err);
}

/* A step that is being redone is not yet part of the state, so its changed exponents must not be
 * sent. */
static void keep_exponents(struct spot_worker *w)
{
    for (int b = 0; !w->is_redoing && b < w->n_bundle; b++)
        if (w->bundle[b])
            memcpy(w->exponent[b], w->bundle[b]->exponent, sizeof(w->exponent[b]));
    w->is_redoing = true;
}

void spot_worker_forget_redo(struct spot_worker *w)
{
    for (int b = 0; w->is_redoing && b < w->n_bundle; b++)
        if (w->bundle[b])
            memcpy(w->bundle[b]->exponent, w->exponent[b], sizeof(w->exponent[b]));
    w->is_redoing = false;
}

int spot_worker_redo(struct spot_worker *w, const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const uint32_t n = spot_get_count(&in, 8);

    if (!is_active(w, frame))
        return 0;
    keep_exponents(w);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t b = spot_get_bundle(&in, (uint32_t)w->n_bundle);
        const uint32_t overflow = spot_get_tensors(&in, &w->config.shape, b);

        if (!in.bad && keeper_of(w, b))
            spot_stage_back_off(keeper_of(w, b), (int)b, overflow);
    }
    return spot_wire_in_done(&in)
               ? 0
               : spot_err_set(err, SPOT_ESYS, "malformed redo from the coordinator");
}
