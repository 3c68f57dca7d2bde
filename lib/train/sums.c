/* SPDX-License-Identifier: MIT */
#include "train/sums.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "train/train_protocol.h"

/* The sums of a bundle in memory that the communicator can access. */
static void *sums_of(const struct spot_comm *comm, struct spot_stage *stage, uint32_t bundle)
{
    return comm->kind->is_device ? spot_stage_device_buffer(stage, SPOT_BUFFER_SUM, (int)bundle)
                                 : spot_stage_sum(stage, (int)bundle);
}

static void *stream_of(const struct spot_comm *comm, const struct spot_stage *stage)
{
    return comm->kind->is_device && stage ? spot_stage_stream(stage) : NULL;
}

/* The i-th bundle to be sent: bundles are sent from the last of a stage to the first. */
static uint32_t bundle_at(const struct spot_form *form, uint32_t p, uint32_t i)
{
    return form->stage[p + 1] - 1 - i;
}

static uint32_t count(const struct spot_form *form, uint32_t p)
{
    return form->stage[p + 1] - form->stage[p];
}

/* --- to mirrors ---------------------------------------------------- */

/* True if this is the replica of its stage that sends to the buddy and the receivers. */
static bool sends(const struct spot_form_place *at)
{
    return at->d == 0 && at->m == 0;
}

/* Sums of bundle b, of which `stage` is an object, to or from a member. */
static struct spot_comm_piece piece_of(const struct spot_comm *comm, uint32_t b,
                                       struct spot_stage *stage, const size_t *bundle_elem,
                                       bool is_send, uint32_t peer, int64_t step)
{
    return (struct spot_comm_piece){
        .is_send = is_send,
        .peer = peer,
        .type = SPOT_MSG_MIRROR,
        .tag = spot_tag_microbatch(step, b),
        .data = sums_of(comm, stage, b),
        .n_byte = bundle_elem[b] * sizeof(int64_t),
        .is_lent = true,
    };
}

/* Bundle b of stage p to its buddy and its receivers: piece[] has room for 1 + n_precopied. */
static size_t put_sends(const struct spot_comm *comm, const struct spot_form *form, uint32_t p,
                        uint32_t b, struct spot_stage *stage, const size_t *bundle_elem,
                        int64_t step, struct spot_comm_piece *piece)
{
    size_t n = 0;

    if (form->buddy[p])
        piece[n++] = piece_of(comm, b, stage, bundle_elem, true, form->buddy[p], step);
    for (size_t i = 0; i < form->n_precopied; i++)
        if (form->precopy[i].bundle == b)
            piece[n++] = piece_of(comm, b, stage, bundle_elem, true, form->precopy[i].to, step);
    return n;
}

static int send_mirrors(const struct spot_sums *s, uint32_t i, struct spot_err *err)
{
    struct spot_comm_piece *const piece = spot_xcalloc(1 + s->form->n_precopied, sizeof(*piece));
    const size_t n = put_sends(s->comm, s->form, s->at.p, bundle_at(s->form, s->at.p, i), s->stage,
                               s->bundle_elem, s->step, piece);
    const int rc = n ? s->comm->kind->exchange(s->comm, piece, n, NULL, err) : 0;

    free(piece);
    return rc;
}

/* One exchange for all bundles, since two members may be each other's buddies. Between any two
 * members sums are exchanged in descending order of bundles. */
int spot_sums_mirror(const struct spot_mirror *m, int64_t step, struct spot_err *err)
{
    const struct spot_form *const form = m->form;
    const uint32_t n_bundle = form->stage[form->P];
    const struct spot_form_place at = spot_form_place(form, m->position < 0 ? 0 : m->position);
    struct spot_comm_piece *const piece =
        spot_xcalloc(2 * (size_t)n_bundle + form->n_precopied, sizeof(*piece));
    size_t n = 0;
    int rc;

    if (m->comm->kind->is_device && m->position >= 0 && sends(&at))
        for (uint32_t i = 0; i < count(form, at.p); i++)
            n += put_sends(m->comm, form, at.p, bundle_at(form, at.p, i), m->stage, m->bundle_elem,
                           step, piece + n);
    for (uint32_t b = n_bundle; b-- > 0;)
        if (m->mirror[b])
            piece[n++] = piece_of(m->comm, b, m->mirror[b], m->bundle_elem, false,
                                  spot_form_sender(form, b), step);
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

/* Halves the bytes: each replica's sums are rounded to 24 bits, and added in the library's order
 * for this number of replicas. */
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

/* The sums of the embedding table in the first or last bundle: all of its shards. */
struct table {
    int bundle;
    size_t begin, n; /* position within the bundle's sums */
    int64_t *sum;    /* [n], in memory that the communicator can access */
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

/* Send n sums of the own table, and receive n of the table of stage p. */
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

/* Received sums are stored in the stage's scratch memory, part by part. */
static int tie_on_device(const struct spot_sums *s, uint32_t p, const struct table *own,
                         struct spot_err *err)
{
    int64_t *const other = spot_stage_device_buffer(s->stage, SPOT_BUFFER_SPARE, 0);
    const size_t most = spot_stage_rough_elem(s->stage) / 2; /* elements of 8 bytes, not 4 */

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
    spot_prefer_huge_pages(other, own.n * sizeof(*other));
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

void spot_sums_tie_overflow(const struct spot_shape *shape, uint32_t *first, uint32_t *last)
{
    struct spot_arena embed, head;
    uint32_t wte_bit, head_bit;

    if (!shape->is_tied)
        return;
    spot_arena_of(shape, 0, &embed);
    spot_arena_of(shape, spot_shape_bundles(shape) - 1, &head);
    wte_bit = UINT32_C(1) << spot_arena_find(&embed, "wte");
    head_bit = UINT32_C(1) << spot_arena_find(&head, "head.w");
    if (*first & wte_bit || *last & head_bit) {
        *first |= wte_bit;
        *last |= head_bit;
    }
}

/* --- early sending ------------------------------------------ */

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
    } else if (sends(&s->at)) {
        s->rc = send_mirrors(s, s->n_gone, &s->err);
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
    if (tie(s, err)) /* before the sums are lent to the mesh */
        return -1;
    if (has_replicas(s)) {
        if (add_replicas(s, err))
            return -1;
        s->n_gone = 0; /* the mirrors get the combined sums */
    }
    if (s->comm->kind->is_device || !sends(&s->at))
        return 0;
    for (uint32_t i = s->n_gone; i < count(s->form, s->at.p); i++)
        if (send_mirrors(s, i, err))
            return -1;
    return 0;
}
