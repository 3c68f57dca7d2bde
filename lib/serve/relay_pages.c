/* SPDX-License-Identifier: MIT */
/* Moves pages between replicas. */
#include <stdlib.h>

#include "serve/relay_state.h"

/* A frame for each layer of the member: u32 tokens, then the pages of its shards. */
enum { LAYER_BITS = 12 };

static uint64_t layer_tag(uint64_t number, int layer)
{
    return number << LAYER_BITS | (uint64_t)layer;
}

uint64_t spot_relay_token_byte(const struct spot_shape *s)
{
    return 2 * sizeof(float) * (uint64_t)(s->n_layer * spot_shape_kv_heads(s)) *
           (uint64_t)spot_shape_head_dim(s);
}

struct spot_relay_part spot_relay_part(const struct spot_relay *r)
{
    const int n_shard = (int)(r->config.shape->n_shard / r->config.M);
    const int m = (int)(r->config.position % r->config.M);

    return (struct spot_relay_part){ .layer = spot_relay_layers(r->config.shape, r->config.P,
                                                                spot_relay_stage(r)),
                                     .shard_begin = m * n_shard,
                                     .shard_end = (m + 1) * n_shard,
                                     .page_byte = spot_infer_page_byte(r->infer) };
}

static int give_layer(struct spot_relay *r, int own, int64_t n_token, int layer, uint64_t number,
                      const struct spot_mesh_peer *to, uint32_t epoch, struct spot_err *err)
{
    const struct spot_relay_part part = spot_relay_part(r);
    struct spot_buf out = { 0 };
    int rc;

    spot_put_u32(&out, (uint32_t)n_token);
    for (int64_t page = 0; page < spot_relay_page_count(n_token); page++)
        for (int s = part.shard_begin; s < part.shard_end; s++, out.n += part.page_byte)
            spot_infer_export(r->infer, own, page, layer, s, spot_buf_more(&out, part.page_byte));
    rc = spot_mesh_send_abroad(r->mesh, to, epoch, SPOT_MSG_PAGES, layer_tag(number, layer),
                               out.data, out.n, err);
    spot_buf_release(&out);
    return rc;
}

/* Send this member's part to the member in the same position. A member that cannot be reached
 * recomputes them. */
void spot_relay_give_own(struct spot_relay *r, int own, uint64_t number,
                         const struct spot_relay_form *to, uint32_t epoch)
{
    const struct spot_stage_span layer = spot_relay_part(r).layer;
    const int64_t n_token = own < 0 ? 0 : spot_infer_length(r->infer, own);
    struct spot_err ignored = { 0 };

    for (int i = layer.first; i < layer.end; i++)
        if (give_layer(r, own, n_token, i, number, &to->member[r->config.position], epoch,
                       &ignored))
            return;
}

int spot_relay_give_pages(struct spot_relay *r, int sequence, uint64_t number,
                          const struct spot_relay_form *to, uint32_t epoch, struct spot_err *err)
{
    if (r->config.P * r->config.M > 1) {
        struct spot_buf out = spot_relay_begin_to_tell(r, SPOT_TOLD_GIVE);

        spot_put_u32(&out, (uint32_t)(sequence + 1));
        spot_put_u64(&out, number);
        spot_put_u32(&out, epoch);
        spot_relay_form_put(&out, to);
        if (spot_relay_tell(r, &out, err))
            return -1;
    }
    spot_relay_give_own(r, sequence, number, to, epoch);
    return 0;
}

/* True if all frames have arrived; they arrive in the order of sending. */
bool spot_relay_pages_came(struct spot_relay *r, uint64_t number, const uint32_t *source,
                           double limit_s)
{
    const int last = spot_relay_part(r).layer.end - 1;

    return r->mesh &&
           spot_mesh_wait(r->mesh, source[0], SPOT_MSG_PAGES, layer_tag(number, last), limit_s);
}

/* The frames of a sequence, by layer of this member. */
struct came {
    struct spot_frame *layer[1 << LAYER_BITS];
    int n_layer;
    int64_t n_token;
};

static void came_release(struct came *came)
{
    for (int i = 0; i < came->n_layer; i++)
        free(came->layer[i]);
    came->n_layer = 0;
}

/* Returns 0, or -1 with *err if they are incomplete. */
static int wait_for_own(struct spot_relay *r, uint64_t number, uint32_t source, struct came *came,
                        struct spot_err *err)
{
    const struct spot_relay_part part = spot_relay_part(r);
    const size_t n_shard = (size_t)(part.shard_end - part.shard_begin);

    came->n_layer = 0;
    came->n_token = 0;
    for (int i = part.layer.first; i < part.layer.end; i++) {
        struct spot_frame *const frame =
            spot_mesh_recv(r->mesh, source, SPOT_MSG_PAGES, layer_tag(number, i), err);
        struct spot_wire_in in;

        if (!frame) {
            came_release(came);
            return -1;
        }
        came->layer[came->n_layer++] = frame;
        in = spot_wire_in(frame->data, frame->n_byte);
        came->n_token = spot_get_u32(&in);
        if (in.bad || frame->n_byte != 4 + (size_t)spot_relay_page_count(came->n_token) * n_shard *
                                               part.page_byte) {
            came_release(came);
            return spot_err_set(err, SPOT_ESYS, "member %u sent pages of %zu bytes",
                                (unsigned)source, frame->n_byte);
        }
    }
    return 0;
}

/* Releases the received frames. */
static int put_own(struct spot_relay *r, int own, struct came *came, const uint32_t *token,
                   int64_t n_most, struct spot_err *err)
{
    const struct spot_relay_part part = spot_relay_part(r);
    const int64_t n_token = came->n_token < n_most ? came->n_token : n_most;
    const int rc = spot_infer_reserve(r->infer, own, n_token, err);

    for (int i = 0; !rc && i < came->n_layer; i++) {
        const uint8_t *byte = came->layer[i]->data + 4;

        for (int64_t page = 0; page < spot_relay_page_count(n_token); page++)
            for (int s = part.shard_begin; s < part.shard_end; s++, byte += part.page_byte)
                spot_infer_import(r->infer, own, page, part.layer.first + i, s, byte);
    }
    spot_infer_import_end(r->infer);
    if (!rc)
        spot_infer_tell(r->infer, own, token);
    came_release(came);
    return rc;
}

int spot_relay_take_own(struct spot_relay *r, int own, uint64_t number, uint32_t source,
                        const uint32_t *token, int64_t n_most, struct spot_err *err)
{
    struct came came;

    return wait_for_own(r, number, source, &came, err) ? -1
                                                       : put_own(r, own, &came, token, n_most, err);
}

int spot_relay_take_pages(struct spot_relay *r, int sequence, uint64_t number,
                          const uint32_t *source, const uint32_t *token, int64_t n_most,
                          int64_t *n_token, struct spot_err *err)
{
    struct came came;
    struct spot_err why = { 0 };

    *n_token = 0;
    if (wait_for_own(r, number, source[0], &came, &why))
        return why.code == SPOT_EPREEMPTED ? spot_err_set(err, why.code, "%s", why.msg) : 0;
    if (!came.n_token) {
        came_release(&came);
        return 0;
    }
    *n_token = came.n_token < n_most ? came.n_token : n_most;
    if (r->config.P * r->config.M > 1) {
        struct spot_buf out = spot_relay_begin_to_tell(r, SPOT_TOLD_TAKE);

        spot_put_u32(&out, (uint32_t)sequence);
        spot_put_u64(&out, number);
        spot_put_u64(&out, (uint64_t)n_most);
        spot_relay_put_tokens(&out, token, n_most);
        spot_relay_put_sources(r, source, &out);
        if (spot_relay_tell(r, &out, err)) {
            came_release(&came);
            return -1;
        }
    }
    return put_own(r, sequence, &came, token, n_most, err);
}
