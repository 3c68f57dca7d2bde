/* SPDX-License-Identifier: MIT */
#include "train/pipeline.h"

#include <assert.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "train/sums.h"
#include "train/train_protocol.h"

int spot_pipeline_slots(const struct spot_form *form, uint32_t d, uint32_t p)
{
    const uint32_t depth = form->P - p, m = form->share[d + 1] - form->share[d];

    return (int)(depth < m ? depth : m);
}

/* --- 1F1B ---------------------------------------------------------------- */

struct flow {
    const struct spot_pipeline *pl;
    int64_t step, begin, n; /* first microbatch, how many */
    const uint32_t *token;
    double *loss;
    int n_slot;
    bool is_first, is_last;
    size_t n_byte; /* of what crosses a boundary */
    void *stream;  /* of the stage, if its memory is a device's; then the rest is not used */
    size_t n_elem;
    float *in;               /* [n_slot][n_elem], activations that came, until their backward */
    float *out, *dout, *din; /* what leaves forward, comes from there, leaves backward */
    struct spot_pipeline_times *times;
    struct spot_sums *sums;
};

static float *in_slot(const struct flow *f, int64_t i)
{
    return f->in ? f->in + (size_t)(i % f->n_slot) * f->n_elem : NULL;
}

/* Where something of microbatch i lies that crosses a boundary. */
static void *buffer(const struct flow *f, enum spot_stage_buffer which, int64_t i)
{
    if (f->pl->comm->kind->is_device)
        return spot_stage_device_buffer(f->pl->stage, which, (int)(i % f->n_slot));
    return which == SPOT_BUFFER_IN     ? in_slot(f, i)
           : which == SPOT_BUFFER_OUT  ? f->out
           : which == SPOT_BUFFER_DOUT ? f->dout
                                       : f->din;
}

/* What of microbatch i goes to stage p or comes from there. */
static struct spot_comm_piece piece_of(const struct flow *f, bool is_send, uint32_t p,
                                       uint32_t type, int64_t i, enum spot_stage_buffer which)
{
    return (struct spot_comm_piece){ .is_send = is_send,
                                     .peer =
                                         spot_form_member(f->pl->form, f->pl->at.d, p, f->pl->at.m),
                                     .type = type,
                                     .tag = spot_tag_microbatch(f->step, f->begin + i),
                                     .data = buffer(f, which, i),
                                     .n_byte = f->n_byte };
}

/* With the next stage: send the output of `out`, take the gradient for `dout`; -1 for none. */
static int swap_next(const struct flow *f, int64_t out, int64_t dout, struct spot_err *err)
{
    const uint32_t next = f->pl->at.p + 1;
    struct spot_comm_piece piece[2];
    size_t n = 0;

    if (f->is_last)
        return 0;
    if (out >= 0)
        piece[n++] = piece_of(f, true, next, SPOT_MSG_FORWARD, out, SPOT_BUFFER_OUT);
    if (dout >= 0)
        piece[n++] = piece_of(f, false, next, SPOT_MSG_BACKWARD, dout, SPOT_BUFFER_DOUT);
    return f->pl->comm->kind->exchange(f->pl->comm, piece, n, f->stream, err);
}

/* With the stage before: send the gradient of `din`, take the input of `in`; -1 for none. */
static int swap_before(const struct flow *f, int64_t din, int64_t in, struct spot_err *err)
{
    const uint32_t before = f->pl->at.p - 1;
    struct spot_comm_piece piece[2];
    size_t n = 0;

    if (f->is_first)
        return 0;
    if (din >= 0)
        piece[n++] = piece_of(f, true, before, SPOT_MSG_BACKWARD, din, SPOT_BUFFER_DIN);
    if (in >= 0)
        piece[n++] = piece_of(f, false, before, SPOT_MSG_FORWARD, in, SPOT_BUFFER_IN);
    return f->pl->comm->kind->exchange(f->pl->comm, piece, n, f->stream, err);
}

static int forward(struct flow *f, int64_t i, struct spot_err *err)
{
    const struct spot_pipeline *const pl = f->pl;
    const double start_s = spot_clock_s();

    spot_stage_forward(pl->stage, (int)(i % f->n_slot),
                       f->is_first || f->is_last ? f->token + (size_t)i * pl->n_token : NULL,
                       f->is_first ? NULL : in_slot(f, i), f->is_last ? NULL : f->out,
                       f->is_last ? &f->loss[i] : NULL);
    spot_stage_wait(pl->stage);
    f->times->forward_s += spot_clock_s() - start_s;
    if (spot_stage_status(pl->stage, err))
        return -1;
    spot_mesh_progress(pl->mesh);
    return 0;
}

static int backward(struct flow *f, int64_t i, struct spot_err *err)
{
    const struct spot_pipeline *const pl = f->pl;
    const double start_s = spot_clock_s();
    const bool is_end = i + 1 == f->n;

    if (is_end)
        spot_sums_watch(f->sums);
    spot_stage_backward(pl->stage, (int)(i % f->n_slot), f->is_last ? NULL : f->dout,
                        f->is_first ? NULL : f->din);
    if (is_end)
        spot_sums_unwatch(f->sums);
    spot_stage_wait(pl->stage);
    f->times->backward_s += spot_clock_s() - start_s;
    if (spot_stage_status(pl->stage, err))
        return -1;
    spot_mesh_progress(pl->mesh);
    return 0;
}

/* Forwards until the stages behind are busy, or all there are. */
static int warm_up(struct flow *f, int64_t n, struct spot_err *err)
{
    for (int64_t i = 0; i < n; i++)
        if (swap_before(f, -1, i, err) || forward(f, i, err) || swap_next(f, i, -1, err))
            return -1;
    return 0;
}

/* What goes out and what comes in between two stages are one exchange, and both sides make the same
 * exchanges in the same order: no transport, however small its buffers, can block in a circle.
 * (The schedule of Narayanan et al. 2021, PipeDream-Flush.) */
static int run_1f1b(struct flow *f, struct spot_err *err)
{
    const int64_t depth = f->pl->form->P - f->pl->at.p - 1, warm = f->n < depth ? f->n : depth;

    if (warm_up(f, warm, err) || (warm < f->n && swap_before(f, -1, warm, err)))
        return -1;
    for (int64_t i = warm; i < f->n; i++)
        if (forward(f, i, err) || swap_next(f, i, i - warm, err) || backward(f, i - warm, err) ||
            swap_before(f, i - warm, i + 1 < f->n ? i + 1 : -1, err))
            return -1;
    for (int64_t i = f->n - warm; i < f->n; i++)
        if (swap_next(f, -1, i, err) || backward(f, i, err) || swap_before(f, i, -1, err))
            return -1;
    return 0;
}

static void take_host(struct flow *f)
{
    f->n_elem = spot_stage_boundary_elem(f->pl->stage);
    f->n_byte = f->n_elem * sizeof(float);
    f->in = f->is_first ? NULL : spot_xcalloc((size_t)f->n_slot, f->n_byte);
    f->out = spot_xcalloc(f->n_elem, sizeof(float));
    f->dout = spot_xcalloc(f->n_elem, sizeof(float));
    f->din = spot_xcalloc(f->n_elem, sizeof(float));
}

/* With the sums that the backwards fill, or NULL: forwards alone. */
static int compute(const struct spot_pipeline *pl, int64_t step, const uint32_t *token,
                   double *loss, struct spot_pipeline_times *times, struct spot_sums *sums,
                   struct spot_err *err)
{
    struct flow f = {
        .pl = pl, .step = step, .token = token, .loss = loss, .times = times, .sums = sums
    };
    int64_t end;
    int rc;

    spot_form_microbatches(pl->form, pl->at.d, &f.begin, &end);
    f.n = end - f.begin;
    f.n_slot = spot_pipeline_slots(pl->form, pl->at.d, pl->at.p);
    f.is_first = pl->at.p == 0;
    f.is_last = pl->at.p + 1 == pl->form->P;
    if (pl->comm->kind->is_device) {
        f.stream = spot_stage_stream(pl->stage);
        f.n_byte = spot_stage_boundary_byte(pl->stage);
    } else {
        take_host(&f);
    }
    rc = sums ? run_1f1b(&f, err) : warm_up(&f, f.n, err);
    free(f.in);
    free(f.out);
    free(f.dout);
    free(f.din);
    return rc;
}

int spot_pipeline_step(const struct spot_pipeline *pl, int64_t step, const uint32_t *token,
                       double *loss, struct spot_pipeline_times *times, struct spot_err *err)
{
    struct spot_sums sums = { .comm = pl->comm,
                              .form = pl->form,
                              .stage = pl->stage,
                              .shape = pl->shape,
                              .bundle_elem = pl->bundle_elem,
                              .at = pl->at,
                              .is_fast = pl->is_fast,
                              .step = step };
    double start_s;
    int rc;

    *times = (struct spot_pipeline_times){ 0 };
    spot_stage_begin(pl->stage);
    if (compute(pl, step, token, loss, times, &sums, err))
        return -1;
    start_s = spot_clock_s();
    rc = spot_sums_finish(&sums, err);
    if (spot_form_replicas(pl->form) > 1)
        times->reduce_s = spot_clock_s() - start_s;
    return rc;
}

int spot_pipeline_validate(const struct spot_pipeline *pl, int64_t step, const uint32_t *token,
                           double *loss, struct spot_err *err)
{
    struct spot_pipeline_times times = { 0 };

    spot_stage_begin(pl->stage);
    return compute(pl, step, token, loss, &times, NULL, err);
}
