/* SPDX-License-Identifier: MIT */
/* Which members of an epoch exchange frames. */
#include "comm/sum_route.h"
#include "train/form.h"

static uint32_t distance(uint32_t a, uint32_t b)
{
    return a > b ? a - b : b - a;
}

/* By position: adjacent stages of a pipeline and its two ends, which may be tied; the tensor group;
 * the replicas that sum; the first two, which measure messages. With NCCL, the first of all and of
 * each stage send its id to the others. */
static bool are_linked(const struct spot_form *f, uint32_t i, uint32_t k, bool is_nccl)
{
    const struct spot_form_place a = spot_form_place(f, i), b = spot_form_place(f, k);
    const struct spot_sum_route route = spot_sum_route(spot_form_replicas(f));
    const uint32_t apart = distance(a.p, b.p);

    if (i + k == 1 || (is_nccl && (!i || !k || (!apart && (!(a.d + a.m) || !(b.d + b.m))))))
        return true;
    if (a.d == b.d && a.m == b.m && (apart == 1 || apart == f->P - 1))
        return true;
    return !apart && (a.d == b.d || spot_sum_is_pair(&route, a.d * f->M + a.m, b.d * f->M + b.m));
}

static void link_to(struct spot_form *f, uint32_t id)
{
    for (size_t i = 0; i < f->n_peer; i++)
        if (f->peer[i].id == id)
            f->peer[i].on_demand = false;
}

static void link_if(struct spot_form *f, uint32_t me, uint32_t a, uint32_t b)
{
    if (a == me)
        link_to(f, b);
    else if (b == me)
        link_to(f, a);
}

void spot_form_mark_on_demand(struct spot_form *f, uint32_t me, bool is_nccl)
{
    const int64_t position = spot_form_position(f, me);

    for (size_t i = 0; i < f->n_peer; i++)
        f->peer[i].on_demand = true;
    for (uint32_t k = 0; k < spot_form_size(f); k++)
        if (position >= 0 && k != position && are_linked(f, (uint32_t)position, k, is_nccl))
            link_to(f, f->member[k]);
    for (uint32_t p = 0; p < f->P; p++)
        if (f->buddy[p])
            link_if(f, me, spot_form_replica(f, p, 0), f->buddy[p]);
    for (size_t i = 0; i < f->n_precopy; i++)
        link_if(f, me, spot_form_sender(f, f->precopy[i].bundle), f->precopy[i].to);
    for (size_t i = 0; i < f->n_transfer; i++)
        if (f->transfer[i].origin == SPOT_FROM_MEMBER)
            link_if(f, me, f->transfer[i].from, f->transfer[i].to);
    for (size_t i = 0; is_nccl && i < f->n_peer; i++)
        if (spot_form_is_active(f, f->peer[i].id))
            link_if(f, me, f->member[0], f->peer[i].id);
}
