/* SPDX-License-Identifier: MIT */
#include "train/form.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "train/model_wire.h"
#include "train/train_protocol.h"

void spot_form_put(struct spot_buf *out, const struct spot_form *f)
{
    spot_put_i64(out, f->step);
    spot_put_u64(out, f->manifest);
    spot_put_u32(out, f->D);
    spot_put_u32(out, f->P);
    spot_put_u32(out, f->M);
    for (uint32_t p = 0; p <= f->P; p++)
        spot_put_u32(out, f->stage[p]);
    for (uint32_t d = 0; d <= f->D; d++)
        spot_put_u32(out, f->share[d]);
    for (uint32_t i = 0; i < spot_form_size(f); i++)
        spot_put_u32(out, f->member[i]);
    for (uint32_t p = 0; p < f->P; p++)
        spot_put_u32(out, f->buddy[p]);
    spot_put_u32(out, (uint32_t)f->n_peer);
    for (size_t i = 0; i < f->n_peer; i++) {
        spot_put_u32(out, f->peer[i].id);
        spot_put_text(out, f->peer[i].address);
    }
    spot_put_u32(out, (uint32_t)f->n_transfer);
    for (size_t i = 0; i < f->n_transfer; i++) {
        spot_put_u32(out, f->transfer[i].bundle);
        spot_put_u32(out, f->transfer[i].origin);
        spot_put_u32(out, f->transfer[i].from);
        spot_put_u32(out, f->transfer[i].to);
    }
    spot_put_u32(out, (uint32_t)f->n_precopied);
    spot_put_u32(out, (uint32_t)f->n_precopy);
    for (size_t i = 0; i < f->n_precopy; i++) {
        spot_put_u32(out, f->precopy[i].bundle);
        spot_put_u32(out, f->precopy[i].to);
    }
}

/* Read n + 1 ascending boundaries, the first of which is 0 and the last `end`. */
static uint32_t *get_cuts(struct spot_wire_in *in, uint32_t n, int64_t end)
{
    uint32_t *cut = spot_xcalloc(n + 1, sizeof(*cut));

    for (uint32_t i = 0; i <= n; i++) {
        cut[i] = spot_get_u32(in);
        in->bad |= i ? cut[i] <= cut[i - 1] : cut[i] != 0;
    }
    in->bad |= cut[n] != end;
    return cut;
}

static bool is_grid(const struct spot_form *f, const struct spot_form_bounds *bounds)
{
    return f->step >= 0 && f->D && f->P && f->M && f->D <= SPOT_MEMBERS_MAX &&
           f->P <= SPOT_MEMBERS_MAX && f->M <= SPOT_MEMBERS_MAX && f->P <= bounds->n_bundle &&
           bounds->n_shard % f->M == 0 && spot_form_size(f) <= SPOT_MEMBERS_MAX;
}

static void get_grid(struct spot_form *f, struct spot_wire_in *in,
                     const struct spot_form_bounds *bounds)
{
    f->step = spot_get_i64(in);
    f->manifest = spot_get_u64(in);
    f->D = spot_get_u32(in);
    f->P = spot_get_u32(in);
    f->M = spot_get_u32(in);
    in->bad |= !is_grid(f, bounds);
    if (in->bad)
        return;
    f->stage = get_cuts(in, f->P, bounds->n_bundle);
    f->share = get_cuts(in, f->D, bounds->n_microbatch);
    f->member = spot_xcalloc(spot_form_size(f), sizeof(*f->member));
    for (uint32_t i = 0; i < spot_form_size(f); i++)
        f->member[i] = spot_get_u32(in);
    f->buddy = spot_xcalloc(f->P, sizeof(*f->buddy));
    for (uint32_t p = 0; p < f->P; p++)
        f->buddy[p] = spot_get_u32(in);
}

static void get_lists(struct spot_form *f, struct spot_wire_in *in, uint32_t n_bundle)
{
    f->n_peer = spot_get_count(in, 8);
    if (f->n_peer > SPOT_MEMBERS_MAX)
        in->bad = true;
    if (in->bad)
        return;
    f->peer = spot_xcalloc(f->n_peer, sizeof(*f->peer));
    for (size_t i = 0; i < f->n_peer; i++) {
        f->peer[i].id = spot_get_u32(in);
        spot_get_text(in, f->peer[i].address, sizeof(f->peer[i].address));
        in->bad |= !f->peer[i].id;
    }
    f->n_transfer = spot_get_count(in, 16);
    if (in->bad)
        return;
    f->transfer = spot_xcalloc(f->n_transfer, sizeof(*f->transfer));
    for (size_t i = 0; i < f->n_transfer; i++) {
        f->transfer[i].bundle = spot_get_bundle(in, n_bundle);
        f->transfer[i].origin = spot_get_u32(in);
        f->transfer[i].from = spot_get_u32(in);
        f->transfer[i].to = spot_get_u32(in);
        in->bad |= f->transfer[i].origin > SPOT_FROM_WEIGHTS;
    }
}

static void get_precopies(struct spot_form *f, struct spot_wire_in *in, uint32_t n_bundle)
{
    f->n_precopied = spot_get_u32(in);
    f->n_precopy = spot_get_count(in, 8);
    in->bad |= f->n_precopied > f->n_precopy;
    if (in->bad)
        return;
    f->precopy = spot_xcalloc(f->n_precopy, sizeof(*f->precopy));
    for (size_t i = 0; i < f->n_precopy; i++) {
        f->precopy[i].bundle = spot_get_bundle(in, n_bundle);
        f->precopy[i].to = spot_get_u32(in);
        in->bad |= !f->precopy[i].to;
    }
}

int spot_form_get(struct spot_form *form, const void *data, size_t n_byte,
                  const struct spot_form_bounds *bounds, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(data, n_byte);

    memset(form, 0, sizeof(*form));
    get_grid(form, &in, bounds);
    if (!in.bad)
        get_lists(form, &in, bounds->n_bundle);
    if (!in.bad)
        get_precopies(form, &in, bounds->n_bundle);
    if (spot_wire_in_done(&in))
        return 0;
    spot_form_release(form);
    return spot_err_set(err, SPOT_EDATA, "malformed epoch from the coordinator");
}

void spot_form_release(struct spot_form *form)
{
    free(form->stage);
    free(form->share);
    free(form->member);
    free(form->buddy);
    free(form->peer);
    free(form->transfer);
    free(form->precopy);
    memset(form, 0, sizeof(*form));
}

struct spot_grid spot_form_grid(const struct spot_form *form)
{
    return (struct spot_grid){ form->D, form->P, form->M };
}

uint32_t spot_form_size(const struct spot_form *form)
{
    return form->D * form->P * form->M;
}

struct spot_form_place spot_form_place(const struct spot_form *form, int64_t position)
{
    const uint32_t at = (uint32_t)position;

    return (struct spot_form_place){ at / form->M / form->P, at / form->M % form->P, at % form->M };
}

uint32_t spot_form_member(const struct spot_form *form, uint32_t d, uint32_t p, uint32_t m)
{
    return form->member[(d * form->P + p) * form->M + m];
}

uint32_t spot_form_replicas(const struct spot_form *form)
{
    return form->D * form->M;
}

uint32_t spot_form_replica(const struct spot_form *form, uint32_t p, uint32_t i)
{
    return spot_form_member(form, i / form->M, p, i % form->M);
}

int64_t spot_form_position(const struct spot_form *form, uint32_t id)
{
    for (uint32_t i = 0; i < spot_form_size(form); i++)
        if (form->member[i] == id)
            return i;
    return -1;
}

/* The stage of a bundle; P if there is no grid. */
static uint32_t stage_of(const struct spot_form *form, uint32_t bundle)
{
    uint32_t p = 0;

    while (p < form->P && bundle >= form->stage[p + 1])
        p++;
    return p;
}

uint32_t spot_form_sender(const struct spot_form *form, uint32_t bundle)
{
    return spot_form_replica(form, stage_of(form, bundle), 0);
}

bool spot_form_computes(const struct spot_form *form, int64_t position, uint32_t bundle)
{
    uint32_t p;

    if (position < 0)
        return false;
    p = spot_form_place(form, position).p;
    return bundle >= form->stage[p] && bundle < form->stage[p + 1];
}

bool spot_form_keeps(const struct spot_form *form, uint32_t id, uint32_t bundle)
{
    const uint32_t p = stage_of(form, bundle);

    for (size_t i = 0; i < form->n_precopied; i++)
        if (form->precopy[i].bundle == bundle && form->precopy[i].to == id)
            return true;
    return p < form->P &&
           (form->buddy[p] == id || spot_form_computes(form, spot_form_position(form, id), bundle));
}

bool spot_form_is_active(const struct spot_form *form, uint32_t id)
{
    for (uint32_t p = 0; p < form->P; p++)
        if (form->buddy[p] == id)
            return true;
    for (size_t i = 0; i < form->n_precopy; i++)
        if (form->precopy[i].to == id)
            return true;
    return spot_form_position(form, id) >= 0;
}

void spot_form_microbatches(const struct spot_form *form, uint32_t d, int64_t *begin, int64_t *end)
{
    *begin = form->share[d];
    *end = form->share[d + 1];
}

void spot_form_losses(const struct spot_form *form, int64_t position, int64_t *begin, int64_t *end)
{
    struct spot_form_place at;

    *begin = *end = 0;
    if (position < 0)
        return;
    at = spot_form_place(form, position);
    if (at.p + 1 == form->P && at.m == 0)
        spot_form_microbatches(form, at.d, begin, end);
}
