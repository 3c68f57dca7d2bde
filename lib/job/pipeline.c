/* SPDX-License-Identifier: MIT */
#include "job/pipeline.h"

#include <assert.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "job/protocol.h"

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
};

static uint32_t member_at(const struct spot_pipeline *pl, uint32_t d, uint32_t p)
{
    return pl->form->member[d * pl->form->P + p];
}

static float *in_slot(const struct flow *f, int64_t i)
{
    return f->in ? f->in + (size_t)(i % f->n_slot) * f->n_elem : NULL;
}

/* Where something of microbatch i lies that crosses a boundary. */
static void *port(const struct flow *f, enum spot_port which, int64_t i)
{
    if (f->pl->comm->kind->is_device)
        return spot_stage_port(f->pl->stage, which, (int)(i % f->n_slot));
    return which == SPOT_PORT_IN     ? in_slot(f, i)
           : which == SPOT_PORT_OUT  ? f->out
           : which == SPOT_PORT_DOUT ? f->dout
                                     : f->din;
}

/* What of microbatch i goes to stage p or comes from there. */
static struct spot_comm_piece piece_of(const struct flow *f, bool is_send, uint32_t p,
                                       uint32_t type, int64_t i, enum spot_port which)
{
    return (struct spot_comm_piece){ .is_send = is_send,
                                     .peer = member_at(f->pl, f->pl->d, p),
                                     .type = type,
                                     .tag = spot_tag_microbatch(f->step, f->begin + i),
                                     .data = port(f, which, i),
                                     .n_byte = f->n_byte };
}

/* With the next stage: send the output of `out`, take the gradient for `dout`; -1 for none. */
static int swap_next(const struct flow *f, int64_t out, int64_t dout, struct spot_err *err)
{
    const uint32_t next = f->pl->p + 1;
    struct spot_comm_piece piece[2];
    size_t n = 0;

    if (f->is_last)
        return 0;
    if (out >= 0)
        piece[n++] = piece_of(f, true, next, SPOT_MSG_FORWARD, out, SPOT_PORT_OUT);
    if (dout >= 0)
        piece[n++] = piece_of(f, false, next, SPOT_MSG_BACKWARD, dout, SPOT_PORT_DOUT);
    return f->pl->comm->kind->exchange(f->pl->comm, piece, n, f->stream, err);
}

/* With the stage before: send the gradient of `din`, take the input of `in`; -1 for none. */
static int swap_before(const struct flow *f, int64_t din, int64_t in, struct spot_err *err)
{
    const uint32_t before = f->pl->p - 1;
    struct spot_comm_piece piece[2];
    size_t n = 0;

    if (f->is_first)
        return 0;
    if (din >= 0)
        piece[n++] = piece_of(f, true, before, SPOT_MSG_BACKWARD, din, SPOT_PORT_DIN);
    if (in >= 0)
        piece[n++] = piece_of(f, false, before, SPOT_MSG_FORWARD, in, SPOT_PORT_IN);
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

    spot_stage_backward(pl->stage, (int)(i % f->n_slot), f->is_last ? NULL : f->dout,
                        f->is_first ? NULL : f->din);
    spot_stage_wait(pl->stage);
    f->times->backward_s += spot_clock_s() - start_s;
    if (spot_stage_status(pl->stage, err))
        return -1;
    spot_mesh_progress(pl->mesh);
    return 0;
}

/* Forwards until the stages behind are busy. */
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
    const int64_t depth = f->pl->form->P - f->pl->p - 1, warm = f->n < depth ? f->n : depth;

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

static int compute(const struct spot_pipeline *pl, int64_t step, const uint32_t *token,
                   double *loss, struct spot_pipeline_times *times, struct spot_err *err)
{
    struct flow f = { .pl = pl, .step = step, .token = token, .loss = loss, .times = times };
    int64_t end;
    int rc;

    spot_form_microbatches(pl->form, pl->d, &f.begin, &end);
    f.n = end - f.begin;
    f.n_slot = spot_pipeline_slots(pl->form, pl->d, pl->p);
    f.is_first = pl->p == 0;
    f.is_last = pl->p + 1 == pl->form->P;
    if (pl->comm->kind->is_device) {
        f.stream = spot_stage_stream(pl->stage);
        f.n_byte = spot_stage_port_byte(pl->stage);
    } else {
        take_host(&f);
    }
    rc = run_1f1b(&f, err);
    free(f.in);
    free(f.out);
    free(f.dout);
    free(f.din);
    return rc;
}

/* --- the sum over replicas ----------------------------------------------- */

/* The sums of a bundle where the communicator reaches them. */
static void *sums_of(const struct spot_comm *comm, struct spot_stage *stage, uint32_t bundle)
{
    return comm->kind->is_device ? spot_stage_port(stage, SPOT_PORT_SUM, (int)bundle)
                                 : spot_stage_sum(stage, (int)bundle);
}

static void *stream_of(const struct spot_comm *comm, const struct spot_stage *stage)
{
    return comm->kind->is_device && stage ? spot_stage_stream(stage) : NULL;
}

static int sum_exactly(const struct spot_pipeline *pl, int64_t step, struct spot_err *err)
{
    const uint32_t begin = pl->form->stage[pl->p], n = pl->form->stage[pl->p + 1] - begin;
    struct spot_comm_sum *const sum = spot_xcalloc(n, sizeof(*sum));
    int rc;

    for (uint32_t i = 0; i < n; i++)
        sum[i] = (struct spot_comm_sum){ spot_tag_microbatch(step, begin + i),
                                         sums_of(pl->comm, pl->stage, begin + i),
                                         pl->bundle_elem[begin + i] };
    rc = pl->comm->kind->sum(pl->comm, SPOT_COMM_I64, sum, n, stream_of(pl->comm, pl->stage), err);
    free(sum);
    return rc;
}

/* Half the bytes: each replica's sums are rounded to 24 bits, and added up in the order that the
 * library has for this number of replicas. */
static int sum_fast(const struct spot_pipeline *pl, uint32_t bundle, int64_t step,
                    struct spot_err *err)
{
    const size_t most = spot_stage_rough_elem(pl->stage), n_elem = pl->bundle_elem[bundle];

    for (size_t at = 0, n; at < n_elem; at += n) {
        struct spot_comm_sum sum = { .tag = spot_tag_microbatch(step, bundle) };

        n = n_elem - at < most ? n_elem - at : most;
        sum.data = spot_stage_rough(pl->stage, (int)bundle, at, n);
        sum.n = n;
        if (pl->comm->kind->sum(pl->comm, SPOT_COMM_F32, &sum, 1, spot_stage_stream(pl->stage),
                                err))
            return -1;
        spot_stage_unrough(pl->stage, (int)bundle, at, n);
    }
    return 0;
}

static int sum_replicas(const struct spot_pipeline *pl, int64_t step, struct spot_err *err)
{
    if (!pl->is_fast)
        return sum_exactly(pl, step, err);
    for (uint32_t b = pl->form->stage[pl->p]; b < pl->form->stage[pl->p + 1]; b++)
        if (sum_fast(pl, b, step, err))
            return -1;
    return 0;
}

int spot_pipeline_step(const struct spot_pipeline *pl, int64_t step, const uint32_t *token,
                       double *loss, struct spot_pipeline_times *times, struct spot_err *err)
{
    double start_s;

    *times = (struct spot_pipeline_times){ 0 };
    spot_stage_begin(pl->stage);
    if (compute(pl, step, token, loss, times, err))
        return -1;
    start_s = spot_clock_s();
    if (pl->form->D > 1 && sum_replicas(pl, step, err))
        return -1;
    times->reduce_s = spot_clock_s() - start_s;
    return 0;
}

/* --- the buddy ------------------------------------------------------------ */

/* The sums of stage p, of which `stage` is an object, to or from a member. */
static size_t mirror_pieces(const struct spot_mirror *m, uint32_t p, struct spot_stage *stage,
                            bool is_send, int64_t step, struct spot_comm_piece *piece)
{
    const uint32_t begin = m->form->stage[p], n = m->form->stage[p + 1] - begin;

    for (uint32_t i = 0; i < n; i++)
        piece[i] = (struct spot_comm_piece){
            .is_send = is_send,
            .peer = is_send ? m->form->buddy[p] : m->form->member[p],
            .type = SPOT_MSG_MIRROR,
            .tag = spot_tag_microbatch(step, begin + i),
            .data = sums_of(m->comm, stage, begin + i),
            .n_byte = m->bundle_elem[begin + i] * sizeof(int64_t),
        };
    return n;
}

/* One exchange for all: two members may be each other's buddies. */
int spot_pipeline_mirror(const struct spot_mirror *m, int64_t step, struct spot_err *err)
{
    const struct spot_form *const form = m->form;
    struct spot_comm_piece *const piece = spot_xcalloc(form->stage[form->P] * 2, sizeof(*piece));
    size_t n = 0;
    int rc;

    if (m->position >= 0 && m->position < form->P && form->buddy[m->position])
        n += mirror_pieces(m, (uint32_t)m->position, m->stage, true, step, piece);
    for (uint32_t p = 0; p < form->P; p++)
        if (m->mirror[p])
            n += mirror_pieces(m, p, m->mirror[p], false, step, piece + n);
    rc = n ? m->comm->kind->exchange(m->comm, piece, n, stream_of(m->comm, m->stage), err) : 0;
    free(piece);
    return rc;
}
