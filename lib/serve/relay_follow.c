/* SPDX-License-Identifier: MIT */
/* Members other than the leader carry out its orders. */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "serve/relay_state.h"

static int malformed(struct spot_err *err)
{
    return spot_err_set(err, SPOT_ESYS, "a malformed pass");
}

static int read_closed(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err)
{
    const uint32_t n = spot_get_count(in, 4);

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t sequence = spot_get_u32(in);

        if (in->bad || sequence >= (uint32_t)r->config.n_sequence)
            return malformed(err);
        if (r->own[sequence] >= 0) /* otherwise no pass has included the sequence */
            spot_infer_close(r->infer, r->own[sequence]);
        r->own[sequence] = -1;
    }
    return 0;
}

static int read_opened(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err)
{
    const uint32_t n = spot_get_count(in, 8);

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t sequence = spot_get_u32(in), adapter = spot_get_u32(in);

        if (in->bad || sequence >= (uint32_t)r->config.n_sequence || r->own[sequence] >= 0 ||
            adapter > (uint32_t)r->config.n_lora)
            return malformed(err);
        if (spot_relay_own(r, sequence, err) < 0)
            return -1;
        spot_infer_adopt(r->infer, r->own[sequence], (int)adapter);
    }
    return 0;
}

/* Reads the items of an order. Returns their number, or -1. */
static int read_items(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err)
{
    const uint32_t n = spot_get_count(in, 17);
    int64_t n_all = 0;

    if (n > (uint32_t)r->config.n_sequence)
        return malformed(err);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t sequence = spot_get_u32(in);
        const int64_t first = (int64_t)spot_get_u64(in);
        const uint8_t pool = spot_get_u8(in);
        const uint32_t n_token = spot_get_count(in, 4);

        if (in->bad || sequence >= (uint32_t)r->config.n_sequence || pool > SPOT_POOL_MEAN ||
            n_token > r->config.token_max - n_all)
            return malformed(err);
        if (spot_relay_own(r, sequence, err) < 0)
            return -1;
        r->item[i] = (struct spot_infer_item){ .sequence = r->own[sequence],
                                               .first = first,
                                               .n_token = n_token,
                                               .token = r->token + n_all,
                                               .pool = (enum spot_pool)pool };
        for (uint32_t k = 0; k < n_token; k++)
            r->token[n_all++] = spot_get_u32(in);
    }
    return spot_wire_in_done(in) ? (int)n : malformed(err);
}

static int give_logits(struct spot_relay *r, uint64_t pass, int n_item, struct spot_err *err)
{
    const struct spot_relay_rows rows = spot_relay_rows(r->item, n_item);
    const uint32_t m = r->config.position % r->config.M;
    const int64_t V = r->config.shape->vocab;
    const int64_t n_state = m ? 0 : rows.n_state * r->config.shape->width;
    int64_t first;
    const int64_t n = spot_relay_words(r, m, &first), n_all = rows.n_logit * n + n_state;
    float *const row = spot_xcalloc((size_t)n_all, sizeof(*row));
    int rc;

    for (int64_t i = 0; n && i < rows.n_logit; i++)
        memcpy(row + i * n, r->logit + i * V + first, (size_t)n * sizeof(*row));
    if (n_state)
        memcpy(row + rows.n_logit * n, r->state, (size_t)n_state * sizeof(*row));
    rc = spot_relay_send(r, r->form.member[0].id, SPOT_MSG_LOGIT, pass, row, (size_t)n_all, err);
    free(row);
    return rc;
}

static int do_part(struct spot_relay *r, uint64_t pass, int n_item, struct spot_err *err)
{
    const uint32_t p = spot_relay_stage(r), m = r->config.position % r->config.M;
    const size_t n = (size_t)(spot_relay_tokens(r->item, n_item) * r->config.shape->width);
    struct spot_frame *in = NULL;
    int rc;

    if (p &&
        !(in = spot_relay_recv(r, spot_relay_member(r, p - 1, m), SPOT_MSG_HIDDEN, pass, n, err)))
        return -1;
    rc = spot_relay_run(r, pass, r->item, n_item, NULL,
                        in ? (const float *)(const void *)in->data : NULL, err);
    free(in);
    return !rc && spot_relay_is_last(r) ? give_logits(r, pass, n_item, err) : rc;
}

static int hear_pass(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err)
{
    const int n_item = read_items(r, in, err);

    return n_item < 0 ? -1 : do_part(r, r->n_done++, n_item, err);
}

static int hear_give(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err)
{
    const uint32_t sequence = spot_get_u32(in);
    const uint64_t number = spot_get_u64(in);
    const uint32_t epoch = spot_get_u32(in);
    struct spot_relay_form to;

    if (spot_relay_form_get(in, &to) || to.P != r->config.P || to.M != r->config.M ||
        sequence > (uint32_t)r->config.n_sequence)
        return malformed(err);
    spot_relay_give_own(r, sequence ? r->own[sequence - 1] : -1, number, &to, epoch);
    return 0;
}

uint32_t *spot_relay_get_tokens(struct spot_wire_in *in, int64_t least)
{
    const uint32_t n = spot_get_count(in, 4);
    uint32_t *const token = spot_xcalloc((size_t)n + 1, sizeof(*token));

    for (uint32_t i = 0; i < n; i++)
        token[i] = spot_get_u32(in);
    if (!in->bad && least >= 0 && least <= n)
        return token;
    free(token);
    return NULL;
}

static int hear_take(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err)
{
    return spot_relay_hear_tokens(r, in, spot_relay_take_own, err);
}

static int hear_reuse(struct spot_relay *r, struct spot_wire_in *in, struct spot_err *err)
{
    const uint32_t sequence = spot_get_u32(in);
    const int64_t n = (int64_t)spot_get_u64(in);
    uint32_t *const token =
        n > r->config.shape->seq
            ? NULL
            : spot_relay_get_tokens(in, spot_relay_page_count(n) * SPOT_INFER_PAGE);
    int own, rc;

    if (!token || !spot_wire_in_done(in) || sequence >= (uint32_t)r->config.n_sequence)
        rc = malformed(err);
    else if ((own = spot_relay_own(r, sequence, err)) < 0)
        rc = -1;
    else
        rc = spot_infer_reuse(r->infer, own, token, n, err);
    free(token);
    return rc;
}

int spot_relay_follow(struct spot_relay *r, double limit_s, bool *did, struct spot_err *err)
{
    static int (*const hear[])(struct spot_relay *, struct spot_wire_in *, struct spot_err *) = {
        [SPOT_TOLD_PASS] = hear_pass,
        [SPOT_TOLD_GIVE] = hear_give,
        [SPOT_TOLD_TAKE] = hear_take,
        [SPOT_TOLD_BUDDY] = spot_relay_hear_buddy,
        [SPOT_TOLD_COPY] = spot_relay_hear_copy,
        [SPOT_TOLD_COUNT] = spot_relay_hear_count,
        [SPOT_TOLD_RESTORE] = spot_relay_hear_restore,
        [SPOT_TOLD_DISCARD] = spot_relay_hear_discard,
        [SPOT_TOLD_REUSE] = hear_reuse,
    };
    const uint32_t leader = r->form.member[0].id;
    struct spot_frame *frame;
    struct spot_wire_in in;
    uint32_t what;
    int rc;

    *did = false;
    if (!spot_mesh_wait(r->mesh, leader, SPOT_MSG_PASS, r->n_told, limit_s))
        return 0;
    frame = spot_mesh_recv(r->mesh, leader, SPOT_MSG_PASS, r->n_told++, err);
    if (!frame)
        return -1;
    *did = true;
    in = spot_wire_in(frame->data, frame->n_byte);
    rc = read_closed(r, &in, err);
    if (!rc)
        rc = read_opened(r, &in, err);
    what = spot_get_u32(&in);
    if (!rc)
        rc = in.bad || what >= SPOT_TOLDS ? malformed(err) : hear[what](r, &in, err);
    free(frame);
    return rc;
}
