/* SPDX-License-Identifier: MIT */
#include "train/pipeline.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/hash.h"
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
    size_t n_byte; /* bytes of a message across a boundary */
    void *stream;  /* stream of the stage, if its memory is a device's; then the buffers below are
                      not used */
    size_t n_elem;
    float *in; /* [n_slot][n_elem], received activations, kept until their backward pass */
    float *out, *dout, *din; /* sent forward, received from there, sent backward */
    struct spot_pipeline_times *times;
    struct spot_sums *sums; /* notified of the last backward pass; NULL: not part of the step */
    bool is_forward;        /* no backwards */
    struct spot_verify_set first; /* computed before the others, and reported on */
    struct spot_buf *report;
    struct spot_verify_edge edge;
};

/* The i-th microbatch to be computed, counted from `begin`. */
static int64_t turn_of(const struct flow *f, int64_t i)
{
    const int64_t at = f->first.begin - f->begin, n = f->first.n;

    return !n ? i : i < n ? at + i : i < at + n ? i - n : i;
}

static uint64_t fold(uint64_t hash, const void *data, size_t n_byte)
{
    const uint64_t both[2] = { hash, spot_hash64(data, n_byte) };

    return spot_hash64(both, sizeof(both));
}

/* Hash the input or output of the i-th microbatch, if it is checked. */
static void note(const struct flow *f, int64_t i, uint64_t *hash, const float *data)
{
    if (i < f->first.n && data)
        *hash = fold(*hash, data, f->n_byte);
}

/* Tokens are the input of the first stage, and of the backward pass of the last. */
static void note_tokens(const struct flow *f, int64_t i, uint64_t *hash)
{
    if (i < f->first.n)
        *hash = fold(*hash, f->token + (size_t)turn_of(f, i) * f->pl->n_token,
                     f->pl->n_token * sizeof(*f->token));
}

/* Append the report; exactly the checked microbatches have been computed. */
static void report(const struct spot_pipeline *pl, uint32_t p, struct spot_stage *stage,
                   const struct spot_verify_edge *edge, struct spot_buf *out)
{
    const uint32_t begin = pl->form->stage[p], end = pl->form->stage[p + 1];
    struct spot_verify_report r = { .edge = *edge };

    r.print = spot_xcalloc((end - begin) * (size_t)SPOT_TENSORS_MAX, sizeof(*r.print));
    for (uint32_t b = begin; b < end; b++) {
        const int64_t *const sum = spot_stage_sum(stage, (int)b);
        struct spot_arena arena;

        spot_arena_of(pl->shape, (int)b, &arena);
        for (int t = 0; t < arena.n_tensor; t++)
            r.print[r.n_print++] = spot_sum_print(&arena, sum, t);
    }
    spot_verify_report_put(out, &r);
    spot_verify_report_release(&r);
}

static float *in_slot(const struct flow *f, int64_t i)
{
    return f->in ? f->in + (size_t)(i % f->n_slot) * f->n_elem : NULL;
}

/* The buffer of a message of microbatch i across a boundary. */
static void *buffer(const struct flow *f, enum spot_stage_buffer which, int64_t i)
{
    if (f->pl->comm->kind->is_device)
        return spot_stage_device_buffer(f->pl->stage, which, (int)(i % f->n_slot));
    return which == SPOT_BUFFER_IN     ? in_slot(f, i)
           : which == SPOT_BUFFER_OUT  ? f->out
           : which == SPOT_BUFFER_DOUT ? f->dout
                                       : f->din;
}

/* The message of microbatch i to or from stage p. */
static struct spot_comm_piece piece_of(const struct flow *f, bool is_send, uint32_t p,
                                       uint32_t type, int64_t i, enum spot_stage_buffer which)
{
    return (struct spot_comm_piece){ .is_send = is_send,
                                     .peer =
                                         spot_form_member(f->pl->form, f->pl->at.d, p, f->pl->at.m),
                                     .type = type,
                                     .tag = spot_tag_microbatch(f->step, f->begin + turn_of(f, i)),
                                     .data = buffer(f, which, i),
                                     .n_byte = f->n_byte };
}

/* Exchange with the next stage: send the output of microbatch `out`, receive the gradient of
 * `dout`; -1 for none. */
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

/* Exchange with the previous stage: send the gradient of microbatch `din`, receive the input of
 * `in`; -1 for none. */
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
    const int64_t at = turn_of(f, i);

    if (f->is_first)
        note_tokens(f, i, &f->edge.act_in);
    else
        note(f, i, &f->edge.act_in, in_slot(f, i));
    spot_stage_forward(pl->stage, (int)(i % f->n_slot),
                       f->is_first || f->is_last ? f->token + (size_t)at * pl->n_token : NULL,
                       f->is_first ? NULL : in_slot(f, i), f->is_last ? NULL : f->out,
                       f->is_last ? &f->loss[at] : NULL);
    spot_stage_wait(pl->stage);
    note(f, i, &f->edge.act_out, f->is_last ? NULL : f->out);
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
    const bool is_end = i + 1 == f->n && f->sums;

    if (f->is_last)
        note_tokens(f, i, &f->edge.dact_out);
    else
        note(f, i, &f->edge.dact_out, f->dout);
    if (is_end)
        spot_sums_watch(f->sums);
    spot_stage_backward(pl->stage, (int)(i % f->n_slot), f->is_last ? NULL : f->dout,
                        f->is_first ? NULL : f->din);
    if (is_end)
        spot_sums_unwatch(f->sums);
    spot_stage_wait(pl->stage);
    note(f, i, &f->edge.dact_in, f->is_first ? NULL : f->din);
    f->times->backward_s += spot_clock_s() - start_s;
    if (i + 1 == f->first.n && f->report)
        report(pl, pl->at.p, pl->stage, &f->edge, f->report);
    if (spot_stage_status(pl->stage, err))
        return -1;
    spot_mesh_progress(pl->mesh);
    return 0;
}

/* Forward passes until the later stages are busy, or all of them. */
static int warm_up(struct flow *f, int64_t n, struct spot_err *err)
{
    for (int64_t i = 0; i < n; i++)
        if (swap_before(f, -1, i, err) || forward(f, i, err) || swap_next(f, i, -1, err))
            return -1;
    return 0;
}

/* Sending and receiving between two stages are one exchange, and both sides make the same exchanges
 * in the same order, so that no transport can deadlock, however small its buffers. (The schedule of
 * Narayanan et al. 2021, PipeDream-Flush.) */
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

/* Compute microbatches [begin, begin + n). */
static int compute(struct flow *f, int64_t begin, int64_t n, struct spot_err *err)
{
    const struct spot_pipeline *const pl = f->pl;
    int rc;

    f->begin = begin;
    f->n = n;
    f->n_slot = spot_pipeline_slots(pl->form, pl->at.d, pl->at.p);
    f->is_first = pl->at.p == 0;
    f->is_last = pl->at.p + 1 == pl->form->P;
    if (pl->comm->kind->is_device) {
        f->stream = spot_stage_stream(pl->stage);
        f->n_byte = spot_stage_boundary_byte(pl->stage);
    } else {
        take_host(f);
    }
    rc = f->is_forward ? warm_up(f, f->n, err) : run_1f1b(f, err);
    free(f->in);
    free(f->out);
    free(f->dout);
    free(f->din);
    return rc;
}

/* Compute microbatches of another pipeline, of which only the report is kept. If there are more of
 * them than slots here, as many at a time as there are slots, the same number in all stages. */
static int compute_again(const struct spot_pipeline *pl, int64_t step,
                         const struct spot_pipeline_check *check, struct spot_pipeline_times *times,
                         struct spot_err *err)
{
    const struct spot_verify_set *const again = &check->order.again;
    const int64_t depth = pl->form->P < again->n ? pl->form->P : again->n;
    const int64_t slots = spot_pipeline_slots(pl->form, pl->at.d, 0);
    const int64_t most = slots < depth ? slots : again->n;
    double *const loss = spot_xcalloc((size_t)again->n, sizeof(*loss));
    struct flow f = { .pl = pl, .step = step, .token = check->token, .loss = loss, .times = times };
    int rc = 0;

    spot_stage_begin(pl->stage);
    for (int64_t i = 0; !rc && i < again->n; i += most) {
        const int64_t n = again->n - i < most ? again->n - i : most;

        f.first = (struct spot_verify_set){ again->begin + i, n };
        f.report = i + n == again->n ? check->report : NULL;
        f.token = check->token ? check->token + (size_t)i * pl->n_token : NULL;
        rc = compute(&f, again->begin + i, n, err);
    }
    free(loss);
    return rc;
}

/* --- alone ------------------------------------------------------------------ */

struct alone {
    struct spot_stage *const *stage; /* [P] */
    size_t n_byte;                   /* bytes of a message across a boundary */
    float **cross;                   /* [P - 1], between stage p and the next */
    struct spot_verify_edge *edge;   /* [P] */
};

/* Computes the same edge hashes of a microbatch as its pipeline. */
static void compute_alone(const struct spot_pipeline *pl, const struct alone *a,
                          const uint32_t *token)
{
    const uint32_t P = pl->form->P;
    const size_t n_byte = pl->n_token * sizeof(*token);
    double loss;

    a->edge[0].act_in = fold(a->edge[0].act_in, token, n_byte);
    for (uint32_t p = 0; p < P; p++) {
        const bool is_end = p + 1 == P;

        spot_stage_forward(a->stage[p], 0, p == 0 || is_end ? token : NULL,
                           p ? a->cross[p - 1] : NULL, is_end ? NULL : a->cross[p],
                           is_end ? &loss : NULL);
        spot_mesh_progress(pl->mesh);
        if (is_end)
            break;
        a->edge[p].act_out = fold(a->edge[p].act_out, a->cross[p], a->n_byte);
        a->edge[p + 1].act_in = fold(a->edge[p + 1].act_in, a->cross[p], a->n_byte);
    }
    a->edge[P - 1].dact_out = fold(a->edge[P - 1].dact_out, token, n_byte);
    for (uint32_t p = P; p-- > 0;) {
        spot_stage_backward(a->stage[p], 0, p + 1 == P ? NULL : a->cross[p],
                            p ? a->cross[p - 1] : NULL);
        spot_mesh_progress(pl->mesh);
        if (!p)
            break;
        a->edge[p].dact_in = fold(a->edge[p].dact_in, a->cross[p - 1], a->n_byte);
        a->edge[p - 1].dact_out = fold(a->edge[p - 1].dact_out, a->cross[p - 1], a->n_byte);
    }
}

int spot_pipeline_alone(const struct spot_pipeline *pl, struct spot_stage *const *stage,
                        const struct spot_pipeline_check *check, struct spot_err *err)
{
    const uint32_t P = pl->form->P;
    struct alone a = { .stage = stage,
                       .n_byte = spot_stage_boundary_elem(stage[0]) * sizeof(float),
                       .cross = spot_xcalloc(P, sizeof(float *)),
                       .edge = spot_xcalloc(P, sizeof(*a.edge)) };
    int rc = 0;

    for (uint32_t p = 0; p < P; p++) {
        a.cross[p] = p + 1 < P ? spot_xcalloc(1, a.n_byte) : NULL;
        spot_stage_begin(stage[p]);
    }
    for (int64_t i = 0; i < check->order.again.n; i++)
        compute_alone(pl, &a, check->token + (size_t)i * pl->n_token);
    for (uint32_t p = 0; p < P; p++) {
        if (!rc)
            rc = spot_stage_status(stage[p], err);
        report(pl, p, stage[p], &a.edge[p], check->report);
        free(a.cross[p]);
    }
    free(a.cross);
    free(a.edge);
    return rc;
}

/* --- a step ------------------------------------------------------------------ */

int spot_pipeline_step(const struct spot_pipeline *pl, int64_t step, const uint32_t *token,
                       double *loss, const struct spot_pipeline_check *check,
                       struct spot_pipeline_times *times, struct spot_err *err)
{
    struct spot_sums sums = { .comm = pl->comm,
                              .form = pl->form,
                              .stage = pl->stage,
                              .shape = pl->shape,
                              .bundle_elem = pl->bundle_elem,
                              .at = pl->at,
                              .is_fast = pl->is_fast,
                              .step = step };
    struct flow f = {
        .pl = pl, .step = step, .token = token, .loss = loss, .times = times, .sums = &sums
    };
    struct spot_pipeline_times aside = { 0 };
    int64_t begin, end;
    double start_s;
    int rc;

    *times = (struct spot_pipeline_times){ 0 };
    if (check && check->order.again.n && compute_again(pl, step, check, &aside, err))
        return -1;
    if (check) {
        f.first = check->order.first;
        f.report = check->report;
    }
    spot_stage_begin(pl->stage);
    spot_form_microbatches(pl->form, pl->at.d, &begin, &end);
    if (compute(&f, begin, end - begin, err))
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
    struct flow f = {
        .pl = pl, .step = step, .token = token, .loss = loss, .times = &times, .is_forward = true
    };
    int64_t begin, end;

    spot_stage_begin(pl->stage);
    spot_form_microbatches(pl->form, pl->at.d, &begin, &end);
    return compute(&f, begin, end - begin, err);
}
