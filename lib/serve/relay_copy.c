/* SPDX-License-Identifier: MIT */
/* Copies of pages at another replica, in case this one is lost. They are kept there as frames of
 * the mesh, and cost the buddy only memory until they are needed. */
#include <stdlib.h>
#include <string.h>

#include "serve/relay_state.h"

enum { PAGE_BITS = 16 };

static uint64_t page_tag(uint64_t number, int64_t page)
{
    return number << PAGE_BITS | (uint64_t)page;
}

static bool is_alone(const struct spot_relay *r)
{
    return r->config.P * r->config.M == 1;
}

static int malformed(struct spot_err *err)
{
    return spot_err_set(err, SPOT_ESYS, "malformed order from the leader");
}

/* --- sending --------------------------------------------------------------------------- */

int spot_relay_set_buddy(struct spot_relay *r, const struct spot_relay_form *buddy, uint32_t epoch,
                         struct spot_err *err)
{
    struct spot_buf out;

    r->buddy = *buddy;
    r->buddy_epoch = epoch;
    if (is_alone(r) || !buddy->P)
        return 0;
    out = spot_relay_begin_to_tell(r, SPOT_TOLD_BUDDY);
    spot_put_u32(&out, epoch);
    spot_relay_form_put(&out, buddy);
    return spot_relay_tell(r, &out, err);
}

int spot_relay_hear_buddy(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err)
{
    r->buddy_epoch = spot_get_u32(in);
    return spot_relay_form_get(in, &r->buddy) || r->buddy.P != r->config.P ||
                   r->buddy.M != r->config.M
               ? malformed(err)
               : 0;
}

static int copy_page(struct spot_relay *r, int own, uint64_t number, int64_t page)
{
    const struct spot_relay_part part = spot_relay_part(r);
    struct spot_err ignored = { 0 };
    struct spot_buf out = { 0 };
    int rc;

    for (int i = part.layer.first; i < part.layer.end; i++)
        for (int s = part.shard_begin; s < part.shard_end; s++, out.n += part.page_byte)
            spot_infer_export(r->infer, own, page, i, s, spot_buf_more(&out, part.page_byte));
    rc = spot_mesh_send_abroad(r->mesh, &r->buddy.member[r->config.position], r->buddy_epoch,
                               SPOT_MSG_COPY, page_tag(number, page), out.data, out.n, &ignored);
    spot_buf_release(&out);
    return rc;
}

/* A buddy that cannot be reached has no copies; the coordinator then chooses another one. */
static void copy_own(struct spot_relay *r, int own, uint64_t number, int64_t first, int64_t end)
{
    for (int64_t page = first; r->buddy.P && own >= 0 && page < end; page++)
        if (copy_page(r, own, number, page))
            r->buddy.P = 0;
}

int spot_relay_copy_pages(struct spot_relay *r, int sequence, uint64_t number, int64_t first,
                          int64_t end, struct spot_err *err)
{
    if (!is_alone(r)) {
        struct spot_buf out = spot_relay_begin_to_tell(r, SPOT_TOLD_COPY);

        spot_put_u32(&out, (uint32_t)sequence);
        spot_put_u64(&out, number);
        spot_put_u32(&out, (uint32_t)first);
        spot_put_u32(&out, (uint32_t)end);
        if (spot_relay_tell(r, &out, err))
            return -1;
    }
    copy_own(r, sequence, number, first, end);
    return 0;
}

int spot_relay_hear_copy(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err)
{
    const uint32_t sequence = spot_get_u32(in);
    const uint64_t number = spot_get_u64(in);
    const int64_t first = spot_get_u32(in), end = spot_get_u32(in);

    if (!spot_wire_in_done(in) || sequence >= (uint32_t)r->config.n_sequence || first > end ||
        (r->own[sequence] >= 0 &&
         end * SPOT_INFER_PAGE > spot_infer_length(r->infer, r->own[sequence])))
        return malformed(err);
    copy_own(r, r->own[sequence], number, first, end);
    return 0;
}

size_t spot_relay_copies_queued(const struct spot_relay *r)
{
    return r->buddy.P ? spot_mesh_queued(r->mesh, r->buddy.member[r->config.position].id) : 0;
}

/* --- receiving --------------------------------------------------------------------------- */

/* Number of consecutive pages, from the first on, that this member has of the lost member in the
 * same position. */
static uint32_t count_own(struct spot_relay *r, uint64_t number, uint32_t source)
{
    uint32_t n = 0;

    while (n < 1 << PAGE_BITS && spot_mesh_has(r->mesh, source, SPOT_MSG_COPY, page_tag(number, n)))
        n++;
    return n;
}

static int put_page(struct spot_relay *r, int own, uint64_t number, int64_t page, uint32_t source,
                    struct spot_err *err)
{
    const struct spot_relay_part part = spot_relay_part(r);
    struct spot_frame *const frame =
        spot_mesh_recv(r->mesh, source, SPOT_MSG_COPY, page_tag(number, page), err);
    const uint8_t *byte = frame ? frame->data : NULL;
    const size_t n_byte = (size_t)(part.layer.end - part.layer.first) *
                          (size_t)(part.shard_end - part.shard_begin) * part.page_byte;

    if (!frame)
        return -1;
    if (frame->n_byte != n_byte) {
        spot_err_set(err, SPOT_ESYS, "member %u sent a page of %zu bytes, not %zu",
                     (unsigned)source, frame->n_byte, n_byte);
        free(frame);
        return -1;
    }
    for (int i = part.layer.first; i < part.layer.end; i++)
        for (int s = part.shard_begin; s < part.shard_end; s++, byte += part.page_byte)
            spot_infer_import(r->infer, own, page, i, s, byte);
    spot_infer_import_end(r->infer);
    free(frame);
    return 0;
}

static void discard_own(struct spot_relay *r, uint64_t number)
{
    spot_mesh_discard(r->mesh, SPOT_MSG_COPY, page_tag(number, 0), page_tag(number + 1, 0));
}

static int restore_own(struct spot_relay *r, int own, uint64_t number, uint32_t source,
                       const uint32_t *token, int64_t n_token, struct spot_err *err)
{
    int rc = spot_infer_reserve(r->infer, own, n_token, err);

    for (int64_t page = 0; !rc && page < spot_relay_page_count(n_token); page++)
        rc = put_page(r, own, number, page, source, err);
    if (!rc)
        spot_infer_tell(r->infer, own, token);
    discard_own(r, number);
    return rc;
}

/* *n gets the number of pages that all members have. */
static int count_all(struct spot_relay *r, uint64_t number, const uint32_t *source, uint32_t *n,
                     struct spot_err *err)
{
    const uint64_t tag = r->n_told;
    struct spot_buf out;

    *n = count_own(r, number, source[0]);
    if (is_alone(r) || !*n)
        return 0;
    out = spot_relay_begin_to_tell(r, SPOT_TOLD_COUNT);
    spot_put_u64(&out, number);
    spot_relay_put_sources(r, source, &out);
    if (spot_relay_tell(r, &out, err))
        return -1;
    for (uint32_t i = 1; i < r->config.P * r->config.M; i++) {
        struct spot_frame *const frame =
            spot_mesh_recv(r->mesh, r->form.member[i].id, SPOT_MSG_COPIES, tag, err);
        struct spot_wire_in in;
        uint32_t of_member;

        if (!frame)
            return -1;
        in = spot_wire_in(frame->data, frame->n_byte);
        of_member = spot_get_u32(&in);
        free(frame);
        *n = of_member < *n ? of_member : *n;
    }
    return 0;
}

int spot_relay_hear_count(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err)
{
    const uint64_t number = spot_get_u64(in);
    const uint32_t source = spot_relay_get_source(r, in);
    struct spot_buf out = { 0 };
    int rc;

    if (!spot_wire_in_done(in))
        return malformed(err);
    spot_put_u32(&out, count_own(r, number, source));
    rc = spot_mesh_send(r->mesh, r->form.member[0].id, SPOT_MSG_COPIES, r->n_told - 1, out.data,
                        out.n, err);
    spot_buf_release(&out);
    return rc;
}

int spot_relay_take_copies(struct spot_relay *r, int sequence, uint64_t number,
                           const uint32_t *source, const uint32_t *token, int64_t n_most,
                           int64_t *n_token, struct spot_err *err)
{
    uint32_t n_page;

    *n_token = 0;
    if (!r->mesh || count_all(r, number, source, &n_page, err))
        return r->mesh ? -1 : 0;
    *n_token = (int64_t)n_page * SPOT_INFER_PAGE;
    if (*n_token > n_most)
        *n_token = n_most;
    if (!n_page)
        return 0;
    if (!is_alone(r)) {
        struct spot_buf out = spot_relay_begin_to_tell(r, SPOT_TOLD_RESTORE);

        spot_put_u32(&out, (uint32_t)sequence);
        spot_put_u64(&out, number);
        spot_put_u64(&out, (uint64_t)*n_token);
        spot_relay_put_tokens(&out, token, *n_token);
        spot_relay_put_sources(r, source, &out);
        if (spot_relay_tell(r, &out, err))
            return -1;
    }
    return restore_own(r, sequence, number, source[0], token, *n_token, err);
}

int spot_relay_hear_tokens(struct spot_relay *r, struct spot_wire_in *in, spot_relay_act *act,
                           struct spot_err *err)
{
    const uint32_t sequence = spot_get_u32(in);
    const uint64_t number = spot_get_u64(in);
    const int64_t n_token = (int64_t)spot_get_u64(in);
    uint32_t *const token = spot_relay_get_tokens(in, n_token);
    const uint32_t source = spot_relay_get_source(r, in);
    int own, rc;

    if (!token || !spot_wire_in_done(in) || sequence >= (uint32_t)r->config.n_sequence)
        rc = malformed(err);
    else if ((own = spot_relay_own(r, sequence, err)) < 0)
        rc = -1;
    else
        rc = act(r, own, number, source, token, n_token, err);
    free(token);
    return rc;
}

int spot_relay_hear_restore(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err)
{
    return spot_relay_hear_tokens(r, in, restore_own, err);
}

/* --- deletion ------------------------------------------------------------------------- */

int spot_relay_discard(struct spot_relay *r, uint64_t number, struct spot_err *err)
{
    struct spot_buf out;

    if (!r->mesh)
        return 0;
    discard_own(r, number);
    if (is_alone(r))
        return 0;
    out = spot_relay_begin_to_tell(r, SPOT_TOLD_DISCARD);
    spot_put_u64(&out, number);
    return spot_relay_tell(r, &out, err);
}

int spot_relay_hear_discard(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err)
{
    const uint64_t number = spot_get_u64(in);

    if (!spot_wire_in_done(in))
        return malformed(err);
    discard_own(r, number);
    return 0;
}
