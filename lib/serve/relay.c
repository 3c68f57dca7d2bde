/* SPDX-License-Identifier: MIT */
/* Members of a relay, and the leader's side of passes. */
#include "serve/relay.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "serve/relay_state.h"

/* --- places ------------------------------------------------------------- */

void spot_relay_form_put(struct spot_buf *out, const struct spot_relay_form *f)
{
    spot_put_u32(out, f->P);
    spot_put_u32(out, f->M);
    spot_put_u32(out, f->position);
    for (uint32_t i = 0; i < f->P * f->M; i++) {
        spot_put_u32(out, f->member[i].id);
        spot_put_text(out, f->member[i].address);
    }
}

int spot_relay_form_get(struct spot_wire_in *in, struct spot_relay_form *f)
{
    memset(f, 0, sizeof(*f));
    f->P = spot_get_u32(in);
    f->M = spot_get_u32(in);
    f->position = spot_get_u32(in);
    if (in->bad || !f->P || !f->M || f->P > SPOT_RELAY_MEMBERS_MAX ||
        f->M > SPOT_RELAY_MEMBERS_MAX / f->P || f->position >= f->P * f->M)
        return -1;
    for (uint32_t i = 0; i < f->P * f->M; i++) {
        f->member[i].id = spot_get_u32(in);
        spot_get_text(in, f->member[i].address, sizeof(f->member[i].address));
    }
    return spot_wire_in_done(in) ? 0 : -1;
}

/* Members have subtrees of the tree of shards (engine/tree.h), so that sums are added in its
 * order. */
int spot_relay_check(const struct spot_shape *shape, int64_t P, int64_t M, struct spot_err *err)
{
    if (P < 1 || P > shape->n_layer)
        return spot_err_set(err, SPOT_EINFEASIBLE, "%lld stages of a model of %lld layers",
                            (long long)P, (long long)shape->n_layer);
    if (M > 1 && shape->kind.qk_norm == SPOT_QK_WHOLE)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "M %lld: this model norms queries and keys over all heads, which takes "
                            "M 1",
                            (long long)M);
    if (M < 1 || (M & (M - 1)) || shape->n_shard % M)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "a tensor group of %lld: must be a power of two that divides the "
                            "model's %lld shards",
                            (long long)M, (long long)shape->n_shard);
    if (P * M > SPOT_RELAY_MEMBERS_MAX)
        return spot_err_set(err, SPOT_EINFEASIBLE, "replicas of more than %d workers",
                            SPOT_RELAY_MEMBERS_MAX);
    return 0;
}

struct spot_stage_span spot_relay_layers(const struct spot_shape *shape, uint32_t P, uint32_t p)
{
    return spot_stage_split((int)shape->n_layer, (int)P, (int)p);
}

void spot_relay_bundles(const struct spot_shape *shape, const struct spot_relay_form *f, int *begin,
                        int *end)
{
    const uint32_t p = f->position / f->M;
    const struct spot_stage_span span = spot_relay_layers(shape, f->P, p);

    *begin = p ? span.first + 1 : 0;
    *end = p + 1 < f->P ? span.end + 1 : spot_shape_bundles(shape);
}

uint32_t spot_relay_stage(const struct spot_relay *r)
{
    return r->config.position / r->config.M;
}

uint32_t spot_relay_member(const struct spot_relay *r, uint32_t p, uint32_t m)
{
    return r->form.member[p * r->config.M + m].id;
}

bool spot_relay_is_last(const struct spot_relay *r)
{
    return spot_relay_stage(r) + 1 == r->config.P;
}

/* --- one frame ------------------------------------------------------------------------ */

int spot_relay_send(struct spot_relay *r, uint32_t to, uint32_t type, uint64_t tag, const float *x,
                    size_t n, struct spot_err *err)
{
    return spot_mesh_send(r->mesh, to, type, tag, x, n * sizeof(*x), err);
}

/* n floats of a member, in a frame to be freed. */
struct spot_frame *spot_relay_recv(struct spot_relay *r, uint32_t from, uint32_t type, uint64_t tag,
                                   size_t n, struct spot_err *err)
{
    struct spot_frame *const frame = spot_mesh_recv(r->mesh, from, type, tag, err);

    if (!frame || frame->n_byte == n * sizeof(float))
        return frame;
    spot_err_set(err, SPOT_ESYS, "member %u sent %zu bytes where %zu numbers belong",
                 (unsigned)from, frame->n_byte, n);
    free(frame);
    return NULL;
}

/* --- creation ------------------------------------------------------------------------ */

int64_t spot_relay_page_count(int64_t n_token)
{
    return (n_token + SPOT_INFER_PAGE - 1) / SPOT_INFER_PAGE;
}

/* Bytes of a page of the member with the most layers; all members have as many pages as that
 * one. */
static uint64_t page_byte(const struct spot_shape *s, uint32_t P, uint32_t M)
{
    int n_layer = 0;

    for (uint32_t p = 0; p < P; p++) {
        const struct spot_stage_span span = spot_relay_layers(s, P, p);

        if (span.end - span.first > n_layer)
            n_layer = span.end - span.first;
    }
    return 2 * sizeof(float) * SPOT_INFER_PAGE * (uint64_t)n_layer *
           (uint64_t)(spot_shape_kv_heads(s) * spot_shape_head_dim(s)) / M;
}

int spot_relay_check_cache(const struct spot_shape *shape, uint32_t P, uint32_t M, uint64_t kv_byte,
                           struct spot_err *err)
{
    const uint64_t least = (uint64_t)spot_relay_page_count(shape->seq) * page_byte(shape, P, M);

    if (!kv_byte || kv_byte >= least)
        return 0;
    return spot_err_set(err, SPOT_EINFEASIBLE,
                        "a worker's cache of %llu bytes does not hold the model's context of %lld "
                        "tokens: at P = %u and M = %u it needs at least %llu bytes",
                        (unsigned long long)kv_byte, (long long)shape->seq, (unsigned)P,
                        (unsigned)M, (unsigned long long)least);
}

static int count_pages(const struct spot_relay_config *c, int *n_page, int *n_kept,
                       struct spot_err *err)
{
    const uint64_t most = (uint64_t)c->n_sequence * (uint64_t)spot_relay_page_count(c->shape->seq);
    const uint64_t n = c->kv_byte ? c->kv_byte / page_byte(c->shape, c->P, c->M) : most;

    const uint64_t kept = c->kept_byte / page_byte(c->shape, c->P, c->M);

    *n_page = (int)(n < most ? n : most);
    *n_kept = (int)(kept < (uint64_t)*n_page ? kept : (uint64_t)*n_page);
    return spot_relay_check_cache(c->shape, c->P, c->M, c->kv_byte, err);
}

static void take_memory(struct spot_relay *r)
{
    const struct spot_relay_config *const c = &r->config;
    const size_t n = (size_t)c->n_sequence, V = (size_t)c->shape->vocab;

    r->rows = spot_xcalloc(c->P, sizeof(*r->rows));
    r->own = spot_xcalloc(n, sizeof(*r->own));
    r->item = spot_xcalloc(n, sizeof(*r->item));
    r->token = spot_xcalloc((size_t)c->token_max, sizeof(*r->token));
    if (c->P > 1)
        r->hidden = spot_xcalloc((size_t)c->token_max * (size_t)c->shape->width, sizeof(float));
    if (spot_relay_is_last(r) || !c->position) {
        r->logit = spot_xcalloc(n * V, sizeof(*r->logit));
        r->state = spot_xcalloc(n * (size_t)c->shape->width, sizeof(*r->state));
    }
}

struct spot_relay *spot_relay_new(const struct spot_relay_config *c, struct spot_err *err)
{
    struct spot_relay *const r = spot_xcalloc(1, sizeof(*r));
    const int n_shard = (int)(c->shape->n_shard / c->M), m = (int)(c->position % c->M);
    struct spot_infer_config config = { .image = c->image,
                                        .image_byte = c->image_byte,
                                        .lora = c->lora,
                                        .n_lora = c->n_lora,
                                        .backend = c->backend,
                                        .shard_begin = m * n_shard,
                                        .shard_end = (m + 1) * n_shard,
                                        .n_thread = c->n_thread,
                                        .n_sequence = c->n_sequence,
                                        .token_max = (int)c->token_max,
                                        .exchange =
                                            c->M > 1 && !c->is_nccl ? spot_relay_exchange : NULL,
                                        .swap = c->M > 1 && c->is_nccl ? spot_relay_swap : NULL,
                                        .user = r };

    r->config = *c;
    if (count_pages(c, &config.n_page, &config.n_kept, err) ||
        !(r->infer = spot_infer_new(&config, err))) {
        spot_relay_free(r);
        return NULL;
    }
    r->n_page = config.n_page;
    r->config.shape = spot_infer_shape(r->infer);
    take_memory(r);
    for (int i = 0; i < c->n_sequence; i++)
        r->own[i] = -1;
    return r;
}

void spot_relay_free(struct spot_relay *r)
{
    if (!r)
        return;
    spot_relay_disconnect(r);
    spot_infer_free(r->infer);
    free(r->rows);
    free(r->closed);
    free(r->opened);
    free(r->own);
    free(r->item);
    free(r->hidden);
    free(r->logit);
    free(r->state);
    free(r->token);
    free(r);
}

void spot_relay_enter(struct spot_relay *r, const struct spot_relay_form *form,
                      struct spot_mesh *mesh)
{
    r->form = *form;
    r->mesh = mesh;
    r->n_told = r->n_begun = r->n_done = r->n_sum = 0;
    r->n_closed = r->n_opened = 0;
    r->buddy.P = 0;
    for (int i = 0; i < r->config.n_sequence; i++) {
        if (r->own[i] >= 0)
            spot_infer_close(r->infer, r->own[i]);
        r->own[i] = -1;
    }
    if (form->P * form->M > 1)
        spot_infer_forget(r->infer);
}

/* --- the leader: sequences -------------------------------------------------------------- */

int spot_relay_open(struct spot_relay *r, int adapter)
{
    const int sequence = spot_infer_open(r->infer, NULL);

    if (sequence < 0)
        return -1;
    r->own[sequence] = sequence;
    if (!adapter)
        return sequence;
    spot_infer_adopt(r->infer, sequence, adapter);
    r->opened = spot_xgrow(r->opened, &r->cap_opened, r->n_opened + 1, sizeof(*r->opened));
    r->opened[r->n_opened++] = (struct spot_relay_opened){ (uint32_t)sequence, (uint32_t)adapter };
    return sequence;
}

void spot_relay_close(struct spot_relay *r, int sequence)
{
    spot_infer_close(r->infer, sequence);
    r->own[sequence] = -1;
    for (size_t i = 0; i < r->n_opened; i++)
        if (r->opened[i].sequence == (uint32_t)sequence)
            r->opened[i--] = r->opened[--r->n_opened];
    if (r->config.P * r->config.M == 1)
        return;
    r->closed = spot_xgrow(r->closed, &r->cap_closed, r->n_closed + 1, sizeof(*r->closed));
    r->closed[r->n_closed++] = (uint32_t)sequence;
}

int64_t spot_relay_length(const struct spot_relay *r, int sequence)
{
    return spot_infer_length(r->infer, sequence);
}

/* All members do the same operations in the same order, so they have the same pages, and each finds
 * what the leader found. */
int spot_relay_reuse(struct spot_relay *r, int sequence, const uint32_t *token, int64_t n_token,
                     int64_t n_page, int64_t *n_more, struct spot_err *err)
{
    const int64_t n = spot_infer_find(r->infer, sequence, token, n_token, n_page);

    *n_more = n - spot_infer_length(r->infer, sequence);
    if (!*n_more)
        return 0;
    if (r->config.P * r->config.M > 1) {
        struct spot_buf out = spot_relay_begin_to_tell(r, SPOT_TOLD_REUSE);

        spot_put_u32(&out, (uint32_t)sequence);
        spot_put_u64(&out, (uint64_t)n);
        spot_relay_put_tokens(&out, token, spot_relay_page_count(n) * SPOT_INFER_PAGE);
        if (spot_relay_tell(r, &out, err))
            return -1;
    }
    return spot_infer_reuse(r->infer, sequence, token, n, err);
}

int spot_relay_free_pages(const struct spot_relay *r)
{
    return spot_infer_free_pages(r->infer);
}

int spot_relay_kept_pages(const struct spot_relay *r)
{
    return spot_infer_kept(r->infer);
}

int spot_relay_pages(const struct spot_relay *r)
{
    return r->n_page;
}

size_t spot_relay_members(const struct spot_relay *r)
{
    return (size_t)r->config.P * r->config.M;
}

int spot_relay_depth(const struct spot_relay *r)
{
    return (int)r->config.P;
}

int spot_relay_under_way(const struct spot_relay *r)
{
    return (int)(r->n_begun - r->n_done);
}

/* --- passes ------------------------------------------------------------------------------- */

void spot_relay_put_sources(const struct spot_relay *r, const uint32_t *source,
                            struct spot_buf *out)
{
    for (uint32_t i = 0; i < r->config.P * r->config.M; i++)
        spot_put_u32(out, source[i]);
}

uint32_t spot_relay_get_source(const struct spot_relay *r, struct spot_wire_in *in)
{
    uint32_t own = 0;

    for (uint32_t i = 0; i < r->config.P * r->config.M; i++) {
        const uint32_t id = spot_get_u32(in);

        own = i == r->config.position ? id : own;
    }
    return own;
}

int spot_relay_own(struct spot_relay *r, uint32_t sequence, struct spot_err *err)
{
    if (r->own[sequence] < 0)
        r->own[sequence] = spot_infer_open(r->infer, err);
    return r->own[sequence];
}

/* A message of the leader to the others begins with the sequences that were closed, u32 n, u32
 * each, and those that were opened with an adapter, u32 n, u32 sequence and u32 adapter each. */
struct spot_buf spot_relay_begin_to_tell(struct spot_relay *r, enum spot_relay_told what)
{
    struct spot_buf out = { 0 };

    spot_put_u32(&out, (uint32_t)r->n_closed);
    for (size_t i = 0; i < r->n_closed; i++)
        spot_put_u32(&out, r->closed[i]);
    spot_put_u32(&out, (uint32_t)r->n_opened);
    for (size_t i = 0; i < r->n_opened; i++) {
        spot_put_u32(&out, r->opened[i].sequence);
        spot_put_u32(&out, r->opened[i].adapter);
    }
    r->n_closed = r->n_opened = 0;
    spot_put_u32(&out, what);
    return out;
}

int spot_relay_tell(struct spot_relay *r, struct spot_buf *out_take, struct spot_err *err)
{
    int rc = 0;

    for (uint32_t i = 1; !rc && i < r->config.P * r->config.M; i++)
        rc = spot_mesh_send(r->mesh, r->form.member[i].id, SPOT_MSG_PASS, r->n_told, out_take->data,
                            out_take->n, err);
    r->n_told++;
    spot_buf_release(out_take);
    return rc;
}

void spot_relay_put_tokens(struct spot_buf *out, const uint32_t *token, int64_t n)
{
    spot_put_u32(out, (uint32_t)n);
    for (int64_t i = 0; i < n; i++)
        spot_put_u32(out, token[i]);
}

/* u32 n, then for each item: u32 sequence, u64 first, u8 pool, u32 n, and each token as u32. */
static int tell_pass(struct spot_relay *r, const struct spot_infer_item *item, int n_item,
                     struct spot_err *err)
{
    struct spot_buf out = spot_relay_begin_to_tell(r, SPOT_TOLD_PASS);

    spot_put_u32(&out, (uint32_t)n_item);
    for (int i = 0; i < n_item; i++) {
        spot_put_u32(&out, (uint32_t)item[i].sequence);
        spot_put_u64(&out, (uint64_t)item[i].first);
        spot_put_u8(&out, (uint8_t)item[i].pool);
        spot_relay_put_tokens(&out, item[i].token, item[i].n_token);
    }
    return spot_relay_tell(r, &out, err);
}

int64_t spot_relay_tokens(const struct spot_infer_item *item, int n_item)
{
    int64_t n = 0;

    for (int i = 0; i < n_item; i++)
        n += item[i].n_token;
    return n;
}

struct spot_relay_rows spot_relay_rows(const struct spot_infer_item *item, int n_item)
{
    struct spot_relay_rows rows = { 0, 0 };

    for (int i = 0; i < n_item; i++)
        ++*(item[i].pool ? &rows.n_state : &rows.n_logit);
    return rows;
}

/* Describes the items to the last stage, each with a place for its state. */
static const struct spot_infer_item *with_states(struct spot_relay *r,
                                                 const struct spot_infer_item *item, int n_item)
{
    float *state = r->state;

    for (int i = 0; i < n_item; i++) {
        r->item[i] = item[i];
        r->item[i].state = state;
        state += item[i].pool ? r->config.shape->width : 0;
    }
    return r->item;
}

/* Run this member's layers and send the result to the next stage. */
int spot_relay_run(struct spot_relay *r, uint64_t pass, const struct spot_infer_item *item,
                   int n_item, struct spot_infer_pick *pick, const float *in, struct spot_err *err)
{
    const uint32_t p = spot_relay_stage(r), m = r->config.position % r->config.M;
    const bool is_last = spot_relay_is_last(r);

    if (is_last)
        item = with_states(r, item, n_item);
    if (pick)
        return spot_infer_run_picks(r->infer, item, n_item, pick, in, NULL, r->logit, err);
    if (spot_infer_run(r->infer, item, n_item, in, is_last ? NULL : r->hidden,
                       is_last ? r->logit : NULL, err))
        return -1;
    return is_last ? 0
                   : spot_relay_send(
                         r, spot_relay_member(r, p + 1, m), SPOT_MSG_HIDDEN, pass, r->hidden,
                         (size_t)(spot_relay_tokens(item, n_item) * r->config.shape->width), err);
}

int spot_relay_begin(struct spot_relay *r, const struct spot_infer_item *item, int n_item,
                     struct spot_infer_pick *pick, struct spot_err *err)
{
    const bool is_alone = r->config.P * r->config.M == 1;

    if (!is_alone && tell_pass(r, item, n_item, err))
        return -1;
    r->rows[r->n_begun % r->config.P] = spot_relay_rows(item, n_item);
    return spot_relay_run(r, r->n_begun++, item, n_item, is_alone ? pick : NULL, NULL, err);
}

void spot_relay_each(struct spot_relay *r, int n, void (*fn)(void *user, int i, int thread),
                     void *user)
{
    spot_infer_each(r->infer, n, fn, user);
}

int spot_relay_threads(const struct spot_relay *r)
{
    return r->config.n_thread;
}

/* Words [*first, *first + n) of the vocabulary are member m's; returns n. */
int64_t spot_relay_words(const struct spot_relay *r, uint32_t m, int64_t *first)
{
    const struct spot_shape *const s = r->config.shape;
    const int64_t rows = spot_shape_vocab_rows(s) / r->config.M;
    const int64_t left = s->vocab - (int64_t)m * rows;

    *first = (int64_t)m * rows;
    return left < 0 ? 0 : (left < rows ? left : rows);
}

static int take_logits(struct spot_relay *r, uint32_t m, uint64_t pass, struct spot_err *err)
{
    const struct spot_relay_rows rows = r->rows[pass % r->config.P];
    const int64_t V = r->config.shape->vocab;
    const int64_t n_state = m ? 0 : rows.n_state * r->config.shape->width;
    int64_t first;
    const int64_t n = spot_relay_words(r, m, &first);
    struct spot_frame *const frame =
        spot_relay_recv(r, spot_relay_member(r, r->config.P - 1, m), SPOT_MSG_LOGIT, pass,
                        (size_t)(rows.n_logit * n + n_state), err);

    if (!frame)
        return -1;
    for (int64_t i = 0; n && i < rows.n_logit; i++)
        memcpy(r->logit + i * V + first, frame->data + (size_t)(i * n) * sizeof(float),
               (size_t)n * sizeof(float));
    if (n_state)
        memcpy(r->state, frame->data + (size_t)(rows.n_logit * n) * sizeof(float),
               (size_t)n_state * sizeof(float));
    free(frame);
    return 0;
}

int spot_relay_finish(struct spot_relay *r, float **logit, const float **state,
                      struct spot_err *err)
{
    const uint64_t pass = r->n_done++;

    for (uint32_t m = r->config.P == 1; m < r->config.M; m++)
        if (take_logits(r, m, pass, err))
            return -1;
    *logit = r->logit;
    *state = r->state;
    return 0;
}
