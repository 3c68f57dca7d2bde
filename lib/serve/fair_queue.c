/* SPDX-License-Identifier: MIT */
#include "serve/fair_queue.h"

#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"

void spot_fair_queue_release(struct spot_fair_queue *q)
{
    free(q->payer);
    *q = (struct spot_fair_queue){ 0 };
}

static struct spot_fair_payer *find(const struct spot_fair_queue *q, uint32_t name)
{
    for (size_t i = 0; i < q->n; i++)
        if (q->payer[i].name == name)
            return &q->payer[i];
    return NULL;
}

double spot_fair_queue_add(struct spot_fair_queue *q, uint32_t name, double share, double cost)
{
    struct spot_fair_payer *p = find(q, name);
    double tag;

    if (!p) {
        q->payer = spot_xgrow(q->payer, &q->cap, q->n + 1, sizeof(*q->payer));
        p = &q->payer[q->n++];
        *p = (struct spot_fair_payer){ .name = name };
    }
    tag = fmax(q->time, p->end);
    p->share = share;
    p->end = tag + cost / share;
    p->n++;
    return tag;
}

void spot_fair_queue_begin(struct spot_fair_queue *q, uint32_t name, double tag)
{
    q->time = fmax(q->time, tag);
    spot_fair_queue_leave(q, name);
}

void spot_fair_queue_leave(struct spot_fair_queue *q, uint32_t name)
{
    struct spot_fair_payer *const p = find(q, name);

    if (p && p->n)
        p->n--;
}

size_t spot_fair_queue_n(const struct spot_fair_queue *q, uint32_t name)
{
    const struct spot_fair_payer *const p = find(q, name);

    return p ? p->n : 0;
}

double spot_fair_queue_part(const struct spot_fair_queue *q, uint32_t name, double share)
{
    double all = share;

    for (size_t i = 0; i < q->n; i++)
        if (q->payer[i].name != name && q->payer[i].n)
            all += q->payer[i].share;
    return share / all;
}
