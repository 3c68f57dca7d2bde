/* SPDX-License-Identifier: MIT */
#include "job/sums.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "job/protocol.h"

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

/* Bundles travel from the last of a stage to the first; this is the i-th. */
static uint32_t bundle_at(const struct spot_form *form, uint32_t p, uint32_t i)
{
    return form->stage[p + 1] - 1 - i;
}

static uint32_t count(const struct spot_form *form, uint32_t p)
{
    return form->stage[p + 1] - form->stage[p];
}

/* --- to the buddy --------------------------------------------------------- */

/* Is this the replica of its stage that has to send? */
static bool sends(const struct spot_form *form, const struct spot_form_place *at)
{
    return at->d == 0 && at->m == 0 && form->buddy[at->p];
}

/* The i-th sum of stage p, of which `stage` is an object, to the buddy or from the first replica.
 */
static struct spot_comm_piece piece_of(const struct spot_comm *comm, const struct spot_form *form,
                                       uint32_t p, uint32_t i, struct spot_stage *stage,
                                       const size_t *bundle_elem, bool is_send, int64_t step)
{
    const uint32_t b = bundle_at(form, p, i);

    return (struct spot_comm_piece){
        .is_send = is_send,
        .peer = is_send ? form->buddy[p] : spot_form_replica(form, p, 0),
        .type = SPOT_MSG_MIRROR,
        .tag = spot_tag_microbatch(step, b),
        .data = sums_of(comm, stage, b),
        .n_byte = bundle_elem[b] * sizeof(int64_t),
        .is_lent = true,
    };
}

static int send_buddy(const struct spot_sums *s, uint32_t i, struct spot_err *err)
{
    const struct spot_comm_piece piece =
        piece_of(s->comm, s->form, s->at.p, i, s->stage, s->bundle_elem, true, s->step);

    return s->comm->kind->exchange(s->comm, &piece, 1, NULL, err);
}

/* One exchange for all: two members may be each other's buddies. */
int spot_sums_mirror(const struct spot_mirror *m, int64_t step, struct spot_err *err)
{
    const struct spot_form *const form = m->form;
    const struct spot_form_place at = spot_form_place(form, m->position < 0 ? 0 : m->position);
    struct spot_comm_piece *const piece = spot_xcalloc(form->stage[form->P] * 2, sizeof(*piece));
    size_t n = 0;
    int rc;

    if (m->comm->kind->is_device && m->position >= 0 && sends(form, &at))
        for (uint32_t i = 0; i < count(form, at.p); i++)
            piece[n++] = piece_of(m->comm, form, at.p, i, m->stage, m->bundle_elem, true, step);
    for (uint32_t p = 0; p < form->P; p++)
        for (uint32_t i = 0; m->mirror[p] && i < count(form, p); i++)
            piece[n++] = piece_of(m->comm, form, p, i, m->mirror[p], m->bundle_elem, false, step);
    rc = n ? m->comm->kind->exchange(m->comm, piece, n, stream_of(m->comm, m->stage), err) : 0;
    free(piece);
    return rc;
}

/* --- over the replicas ---------------------------------------------------- */

static struct spot_comm_sum sum_of(const struct spot_sums *s, uint32_t i)
{
    const uint32_t b = bundle_at(s->form, s->at.p, i);

    return (struct spot_comm_sum){ .tag = spot_tag_microbatch(s->step, b),
                                   .data = sums_of(s->comm, s->stage, b),
                                   .n = s->bundle_elem[b],
                                   .is_started = i < s->n_gone };
}

static int add_exactly(const struct spot_sums *s, struct spot_err *err)
{
    const uint32_t n = count(s->form, s->at.p);
    struct spot_comm_sum *const sum = spot_xcalloc(n, sizeof(*sum));
    int rc;

    for (uint32_t i = 0; i < n; i++)
        sum[i] = sum_of(s, i);
    rc = s->comm->kind->sum(s->comm, SPOT_COMM_I64, sum, n, stream_of(s->comm, s->stage), err);
    free(sum);
    return rc;
}

/* Half the bytes: each replica's sums are rounded to 24 bits, and added up in the order that the
 * library has for this number of replicas. */
static int add_roughly(const struct spot_sums *s, uint32_t bundle, struct spot_err *err)
{
    const size_t most = spot_stage_rough_elem(s->stage), n_elem = s->bundle_elem[bundle];

    for (size_t at = 0, n; at < n_elem; at += n) {
        struct spot_comm_sum sum = { .tag = spot_tag_microbatch(s->step, bundle) };

        n = n_elem - at < most ? n_elem - at : most;
        sum.data = spot_stage_rough(s->stage, (int)bundle, at, n);
        sum.n = n;
        if (s->comm->kind->sum(s->comm, SPOT_COMM_F32, &sum, 1, spot_stage_stream(s->stage), err))
            return -1;
        spot_stage_unrough(s->stage, (int)bundle, at, n);
    }
    return 0;
}

static int add_replicas(const struct spot_sums *s, struct spot_err *err)
{
    if (!s->is_fast)
        return add_exactly(s, err);
    for (uint32_t i = 0; i < count(s->form, s->at.p); i++)
        if (add_roughly(s, bundle_at(s->form, s->at.p, i), err))
            return -1;
    return 0;
}

/* --- a tied head ------------------------------------------------------------- */

static bool has_tied(const struct spot_sums *s, uint32_t bundle)
{
    return s->shape->is_tied && (bundle == 0 || (int)bundle + 1 == spot_shape_bundles(s->shape));
}

/* The table of the first or the last bundle: all of its shards. */
struct table {
    int bundle;
    size_t begin, n; /* within the bundle's sums */
    int64_t *sum;    /* [n], where the communicator reaches them */
};

static struct table table_of(const struct spot_sums *s, uint32_t bundle)
{
    struct spot_arena arena;

    spot_arena_of(s->shape, (int)bundle, &arena);
    return (struct table){ (int)bundle, arena.replicated_elem, arena.n_elem - arena.replicated_elem,
                           (int64_t *)sums_of(s->comm, s->stage, bundle) + arena.replicated_elem };
}

static void add(int64_t *sum, const int64_t *more, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] = (int64_t)((uint64_t)sum[i] + (uint64_t)more[i]);
}

static void tie_here(const struct spot_sums *s, uint32_t last)
{
    const struct table first = table_of(s, 0), head = table_of(s, last);

    if (s->comm->kind->is_device) {
        spot_stage_join_sums(s->stage, first.bundle, first.begin, head.sum, first.n);
        return;
    }
    add(first.sum, head.sum, first.n);
    memcpy(head.sum, first.sum, head.n * sizeof(*head.sum));
}

/* n sums of the own table out, as many of the one of stage p in. */
static int swap(const struct spot_sums *s, uint32_t p, int64_t *own, int64_t *other, size_t n,
                struct spot_err *err)
{
    struct spot_comm_piece piece[2];

    piece[0] = (struct spot_comm_piece){ .is_send = true,
                                         .peer = spot_form_member(s->form, s->at.d, p, s->at.m),
                                         .type = SPOT_MSG_TIE,
                                         .tag = (uint64_t)s->step,
                                         .data = own,
                                         .n_byte = n * sizeof(*own) };
    piece[1] = piece[0];
    piece[1].is_send = false;
    piece[1].data = other;
    return s->comm->kind->exchange(s->comm, piece, 2, stream_of(s->comm, s->stage), err);
}

/* What comes in lies in the stage's spare room, part by part. */
static int tie_on_device(const struct spot_sums *s, uint32_t p, const struct table *own,
                         struct spot_err *err)
{
    int64_t *const other = spot_stage_port(s->stage, SPOT_PORT_SPARE, 0);
    const size_t most = spot_stage_rough_elem(s->stage) / 2; /* 8 bytes each, not 4 */

    for (size_t at = 0, n; at < own->n; at += n) {
        n = own->n - at < most ? own->n - at : most;
        if (swap(s, p, own->sum + at, other, n, err))
            return -1;
        spot_stage_join_sums(s->stage, own->bundle, own->begin + at, other, n);
    }
    return 0;
}

static int tie_with(const struct spot_sums *s, uint32_t p, uint32_t bundle, struct spot_err *err)
{
    const struct table own = table_of(s, bundle);
    int64_t *other;
    int rc;

    if (s->comm->kind->is_device)
        return tie_on_device(s, p, &own, err);
    other = malloc(own.n * sizeof(*other));
    if (!other)
        return spot_err_set(err, SPOT_ESYS, "no memory for %zu sums of a tied head", own.n);
    rc = swap(s, p, own.sum, other, own.n, err);
    if (!rc)
        add(own.sum, other, own.n);
    free(other);
    return rc;
}

static int tie(const struct spot_sums *s, struct spot_err *err)
{
    const uint32_t P = s->form->P, last = (uint32_t)spot_shape_bundles(s->shape) - 1;

    if (!s->shape->is_tied)
        return 0;
    if (P == 1)
        tie_here(s, last);
    else if (s->at.p == 0)
        return tie_with(s, P - 1, 0, err);
    else if (s->at.p == P - 1)
        return tie_with(s, 0, last, err);
    return 0;
}

/* --- as soon as they are complete ------------------------------------------ */

static bool has_replicas(const struct spot_sums *s)
{
    return spot_form_replicas(s->form) > 1;
}

static void let_go(void *user, int bundle)
{
    struct spot_sums *const s = user;

    if (s->rc || bundle != (int)bundle_at(s->form, s->at.p, s->n_gone) ||
        has_tied(s, (uint32_t)bundle))
        return;
    if (has_replicas(s)) {
        const struct spot_comm_sum sum = sum_of(s, s->n_gone);

        s->rc = s->comm->kind->start(s->comm, &sum, &s->err);
    } else if (sends(s->form, &s->at)) {
        s->rc = send_buddy(s, s->n_gone, &s->err);
    }
    s->n_gone++;
}

void spot_sums_watch(struct spot_sums *s)
{
    if (s->comm->kind->start)
        spot_stage_watch(s->stage, let_go, s);
}

void spot_sums_unwatch(struct spot_sums *s)
{
    spot_stage_watch(s->stage, NULL, NULL);
}

int spot_sums_finish(struct spot_sums *s, struct spot_err *err)
{
    if (s->rc) {
        *err = s->err;
        return -1;
    }
    if (tie(s, err)) /* before anything is lent to the replicas */
        return -1;
    if (has_replicas(s)) {
        if (add_replicas(s, err))
            return -1;
        s->n_gone = 0; /* to the buddy goes what was added up */
    }
    if (s->comm->kind->is_device || !sends(s->form, &s->at))
        return 0;
    for (uint32_t i = s->n_gone; i < count(s->form, s->at.p); i++)
        if (send_buddy(s, i, err))
            return -1;
    return 0;
}
