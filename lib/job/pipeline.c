/* SPDX-License-Identifier: MIT */
#include "job/pipeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "job/protocol.h"

int spot_pipeline_slots(const struct spot_form *form, uint32_t p, int64_t n_microbatch)
{
    const int64_t depth = form->P - p, m_max = (n_microbatch + form->D - 1) / form->D;

    return (int)(depth < m_max ? depth : m_max);
}

/* --- 1F1B ---------------------------------------------------------------- */

struct flow {
    const struct spot_pipeline *pl;
    int64_t step, begin, n; /* first microbatch, how many */
    const uint32_t *token;
    double *loss;
    int n_slot;
    struct spot_frame **kept; /* [n_slot], the activations that came in, until their backward */
    float *out, *back;        /* what leaves, forward and backward */
    size_t boundary_byte;
};

static uint32_t member_at(const struct spot_pipeline *pl, uint32_t d, uint32_t p)
{
    return pl->form->member[d * pl->form->P + p];
}

/* A frame of the right size from a neighbour, NULL with *err. */
static struct spot_frame *take(const struct flow *f, uint32_t from, uint32_t type, int64_t i,
                               struct spot_err *err)
{
    struct spot_frame *frame =
        spot_mesh_recv(f->pl->mesh, from, type, spot_tag_microbatch(f->step, f->begin + i), err);

    if (frame && frame->n_byte != f->boundary_byte) {
        spot_err_set(err, SPOT_ESYS, "member %u sent %zu bytes of activations, expected %zu",
                     (unsigned)from, frame->n_byte, f->boundary_byte);
        free(frame);
        return NULL;
    }
    return frame;
}

static int forward(struct flow *f, int64_t i, struct spot_err *err)
{
    const struct spot_pipeline *pl = f->pl;
    const int slot = (int)(i % f->n_slot);
    const bool is_first = pl->p == 0, is_last = pl->p + 1 == pl->form->P;

    if (!is_first) {
        free(f->kept[slot]);
        f->kept[slot] = take(f, member_at(pl, pl->d, pl->p - 1), SPOT_MSG_FORWARD, i, err);
        if (!f->kept[slot])
            return -1;
    }
    spot_stage_forward(pl->stage, slot,
                       is_first || is_last ? f->token + (size_t)i * pl->n_token : NULL,
                       is_first ? NULL : (const float *)(const void *)f->kept[slot]->data,
                       is_last ? NULL : f->out, is_last ? &f->loss[i] : NULL);
    if (spot_stage_status(pl->stage, err))
        return -1;
    spot_mesh_progress(pl->mesh);
    return is_last ? 0
                   : spot_mesh_send(pl->mesh, member_at(pl, pl->d, pl->p + 1), SPOT_MSG_FORWARD,
                                    spot_tag_microbatch(f->step, f->begin + i), f->out,
                                    f->boundary_byte, err);
}

static int backward(struct flow *f, int64_t i, struct spot_err *err)
{
    const struct spot_pipeline *pl = f->pl;
    const bool is_first = pl->p == 0, is_last = pl->p + 1 == pl->form->P;
    struct spot_frame *gradient = NULL;

    if (!is_last) {
        gradient = take(f, member_at(pl, pl->d, pl->p + 1), SPOT_MSG_BACKWARD, i, err);
        if (!gradient)
            return -1;
    }
    spot_stage_backward(pl->stage, (int)(i % f->n_slot),
                        is_last ? NULL : (const float *)(const void *)gradient->data,
                        is_first ? NULL : f->back);
    free(gradient);
    if (spot_stage_status(pl->stage, err))
        return -1;
    spot_mesh_progress(pl->mesh);
    return is_first ? 0
                    : spot_mesh_send(pl->mesh, member_at(pl, pl->d, pl->p - 1), SPOT_MSG_BACKWARD,
                                     spot_tag_microbatch(f->step, f->begin + i), f->back,
                                     f->boundary_byte, err);
}

/* Warm-up forwards until the pipeline below is filled, then one forward, one backward. */
static int run_1f1b(struct flow *f, struct spot_err *err)
{
    int64_t done = 0;

    for (int64_t i = 0; i < f->n; i++) {
        if (i - done == f->n_slot && backward(f, done++, err))
            return -1;
        if (forward(f, i, err))
            return -1;
    }
    while (done < f->n)
        if (backward(f, done++, err))
            return -1;
    return 0;
}

static int compute(const struct spot_pipeline *pl, int64_t step, const uint32_t *token,
                   double *loss, struct spot_err *err)
{
    struct flow f = { .pl = pl, .step = step, .token = token, .loss = loss };
    const size_t n_elem = spot_stage_boundary_elem(pl->stage);
    int64_t end;
    int rc;

    spot_form_microbatches(pl->form, pl->n_microbatch, pl->d, &f.begin, &end);
    f.n = end - f.begin;
    f.n_slot = spot_pipeline_slots(pl->form, pl->p, pl->n_microbatch);
    f.boundary_byte = n_elem * sizeof(float);
    f.kept = spot_xcalloc((size_t)f.n_slot, sizeof(struct spot_frame *));
    f.out = spot_xcalloc(n_elem, sizeof(float));
    f.back = spot_xcalloc(n_elem, sizeof(float));
    rc = run_1f1b(&f, err);
    for (int i = 0; i < f.n_slot; i++)
        free(f.kept[i]);
    free(f.kept);
    free(f.out);
    free(f.back);
    return rc;
}

/* --- the sum over replicas ----------------------------------------------- */

/* Share r of D of a bundle's sums. */
struct share {
    int64_t *sum;
    size_t n;
};

static struct share share_of(const struct spot_pipeline *pl, uint32_t bundle, uint32_t r)
{
    const size_t n = pl->bundle_elem[bundle], D = pl->form->D;
    const size_t begin = n / D * r + n % D * r / D, end = n / D * (r + 1) + n % D * (r + 1) / D;

    return (struct share){ spot_stage_sum(pl->stage, (int)bundle) + begin, end - begin };
}

/* Share r of every bundle to the replica `to`. */
static int send_shares(const struct spot_pipeline *pl, uint32_t to, uint32_t r, uint32_t type,
                       int64_t step, struct spot_err *err)
{
    for (uint32_t b = pl->form->stage[pl->p]; b < pl->form->stage[pl->p + 1]; b++) {
        const struct share share = share_of(pl, b, r);

        if (spot_mesh_send(pl->mesh, member_at(pl, to, pl->p), type, spot_tag_microbatch(step, b),
                           share.sum, share.n * sizeof(*share.sum), err))
            return -1;
    }
    return 0;
}

/* The sums of bundle b from a member, of exactly n_elem. NULL with *err. */
static struct spot_frame *take_sums(struct spot_mesh *mesh, uint32_t id, uint32_t type,
                                    int64_t step, uint32_t b, size_t n_elem, struct spot_err *err)
{
    struct spot_frame *frame = spot_mesh_recv(mesh, id, type, spot_tag_microbatch(step, b), err);

    if (!frame || frame->n_byte == n_elem * sizeof(int64_t))
        return frame;
    spot_err_set(err, SPOT_ESYS, "member %u sent %zu bytes of sums, expected %zu", (unsigned)id,
                 frame->n_byte, n_elem * sizeof(int64_t));
    free(frame);
    return NULL;
}

static void add_sums(int64_t *sum, const int64_t *more, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] = (int64_t)((uint64_t)sum[i] + (uint64_t)more[i]);
}

/* Share r of every bundle from the replica `from`: added to what is here, or instead of it. */
static int take_shares(const struct spot_pipeline *pl, uint32_t from, uint32_t r, uint32_t type,
                       int64_t step, struct spot_err *err)
{
    for (uint32_t b = pl->form->stage[pl->p]; b < pl->form->stage[pl->p + 1]; b++) {
        const struct share share = share_of(pl, b, r);
        struct spot_frame *frame =
            take_sums(pl->mesh, member_at(pl, from, pl->p), type, step, b, share.n, err);

        if (!frame)
            return -1;
        if (type == SPOT_MSG_SCATTER)
            add_sums(share.sum, (const int64_t *)(const void *)frame->data, share.n);
        else
            memcpy(share.sum, frame->data, frame->n_byte);
        free(frame);
    }
    return 0;
}

/* Everyone sends each replica its share, adds up its own and sends the result to all: integer
 * sums, so the order of arrival does not matter. */
static int sum_replicas(const struct spot_pipeline *pl, int64_t step, struct spot_err *err)
{
    const uint32_t D = pl->form->D, me = pl->d;

    for (uint32_t k = 1; k < D; k++)
        if (send_shares(pl, (me + k) % D, (me + k) % D, SPOT_MSG_SCATTER, step, err))
            return -1;
    for (uint32_t k = 1; k < D; k++)
        if (take_shares(pl, (me + D - k) % D, me, SPOT_MSG_SCATTER, step, err))
            return -1;
    for (uint32_t k = 1; k < D; k++)
        if (send_shares(pl, (me + k) % D, me, SPOT_MSG_GATHER, step, err))
            return -1;
    for (uint32_t k = 1; k < D; k++)
        if (take_shares(pl, (me + D - k) % D, (me + D - k) % D, SPOT_MSG_GATHER, step, err))
            return -1;
    return 0;
}

/* --- the buddy ------------------------------------------------------------ */

/* Whoever has the sums of a step can make its update: the buddy stays at the same step. */
static int send_mirror(const struct spot_pipeline *pl, int64_t step, struct spot_err *err)
{
    for (uint32_t b = pl->form->stage[pl->p]; b < pl->form->stage[pl->p + 1]; b++)
        if (spot_mesh_send(pl->mesh, pl->form->buddy[pl->p], SPOT_MSG_MIRROR,
                           spot_tag_microbatch(step, b), spot_stage_sum(pl->stage, (int)b),
                           pl->bundle_elem[b] * sizeof(int64_t), err))
            return -1;
    return 0;
}

int spot_pipeline_mirror(struct spot_mesh *mesh, const struct spot_form *form, uint32_t p,
                         struct spot_stage *mirror, const size_t *bundle_elem, int64_t step,
                         struct spot_err *err)
{
    for (uint32_t b = form->stage[p]; b < form->stage[p + 1]; b++) {
        struct spot_frame *frame =
            take_sums(mesh, form->member[p], SPOT_MSG_MIRROR, step, b, bundle_elem[b], err);

        if (!frame)
            return -1;
        memcpy(spot_stage_sum(mirror, (int)b), frame->data, frame->n_byte);
        free(frame);
    }
    spot_mesh_progress(mesh);
    return 0;
}

/* --- the step ------------------------------------------------------------- */

int spot_pipeline_step(const struct spot_pipeline *pl, int64_t step, const uint32_t *token,
                       double *loss, struct spot_err *err)
{
    spot_stage_begin(pl->stage);
    if (compute(pl, step, token, loss, err))
        return -1;
    if (pl->form->D > 1 && sum_replicas(pl, step, err))
        return -1;
    return pl->d == 0 && pl->form->buddy[pl->p] ? send_mirror(pl, step, err) : 0;
}
