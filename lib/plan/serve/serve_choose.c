/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/serve_plan.h"

/* Would the rule rather have a than b? Equals: no. */
static bool is_better(const struct spot_serve_choice *a, const struct spot_serve_choice *b)
{
    if (a->keeps_up != b->keeps_up)
        return a->keeps_up;
    return a->keeps_up ? a->time.request_s < b->time.request_s
                       : a->request_per_s > b->request_per_s;
}

static bool has_degree(const struct spot_job_serve *s, int64_t M)
{
    for (size_t i = 0; i < s->n_cell; i++)
        if (s->cell[i].M == M)
            return true;
    return false;
}

/* May a pipeline have P stages of M ranks? */
static bool is_allowed(const struct spot_job_serve *s, int64_t M, int64_t P)
{
    return P * M >= s->gpus_min && s->stage_layers % P == 0;
}

typedef void see_fn(const struct spot_serve_choice *choice, void *user);

/* Every configuration in the artifact's order. */
static void each(const struct spot_job_serve *s, int64_t gpus, double rate_per_s, see_fn *see,
                 void *user)
{
    struct spot_serve_choice c;
    struct spot_serve_shape *const g = &c.shape;

    for (g->M = 1; g->M <= gpus; g->M *= 2) {
        if (!has_degree(s, g->M))
            continue;
        for (g->B = 1; g->B <= s->max_batch; g->B *= 2)
            for (g->prefill_parts = 1; g->prefill_parts <= g->B; g->prefill_parts *= 2)
                for (g->decode_parts = 1; g->decode_parts <= g->B; g->decode_parts *= 2)
                    for (g->P = 1; g->P <= s->stage_layers && g->P * g->M <= gpus; g->P++) {
                        if (!is_allowed(s, g->M, g->P) || spot_serve_time(s, g, &c.time))
                            continue;
                        c.D = gpus / (g->P * g->M);
                        c.request_per_s = (double)(c.D * g->B) / c.time.request_s;
                        c.keeps_up = c.request_per_s >= rate_per_s;
                        see(&c, user);
                    }
    }
}

struct best {
    struct spot_serve_choice *choice;
    bool has;
};

static void keep_best(const struct spot_serve_choice *c, void *user)
{
    struct best *b = user;

    if (!b->has || is_better(c, b->choice))
        *b->choice = *c;
    b->has = true;
}

int spot_serve_choose(const struct spot_job_serve *serve, int64_t gpus, double rate_per_s,
                      struct spot_serve_choice *choice)
{
    struct best b = { .choice = choice };

    each(serve, gpus, rate_per_s, keep_best, &b);
    return b.has ? 0 : -1;
}

struct list {
    struct spot_serve_choice *choice;
    size_t n, cap;
};

static void keep_each(const struct spot_serve_choice *c, void *user)
{
    struct list *l = user;

    for (size_t i = 0; i < l->n; i++)
        if (l->choice[i].shape.M == c->shape.M && l->choice[i].shape.P == c->shape.P) {
            if (is_better(c, &l->choice[i]))
                l->choice[i] = *c;
            return;
        }
    l->choice = spot_xgrow(l->choice, &l->cap, l->n + 1, sizeof(*l->choice));
    l->choice[l->n++] = *c;
}

static int by_rule(const void *a, const void *b)
{
    const struct spot_serve_choice *x = a, *y = b;

    if (is_better(x, y) || is_better(y, x))
        return is_better(x, y) ? -1 : 1;
    if (x->shape.M != y->shape.M)
        return x->shape.M < y->shape.M ? -1 : 1;
    return x->shape.P < y->shape.P ? -1 : x->shape.P > y->shape.P;
}

struct spot_serve_choice *spot_serve_choices(const struct spot_job_serve *serve, int64_t gpus,
                                             double rate_per_s, size_t *n)
{
    struct list l = { 0 };

    each(serve, gpus, rate_per_s, keep_each, &l);
    *n = l.n;
    if (!l.choice)
        l.choice = spot_xcalloc(1, sizeof(*l.choice));
    qsort(l.choice, l.n, sizeof(*l.choice), by_rule);
    return l.choice;
}

int64_t spot_serve_least_gpus(const struct spot_job_serve *s)
{
    int64_t least = 0;

    for (size_t i = 0; i < s->n_cell; i++)
        for (int64_t P = 1; P <= s->stage_layers; P++)
            if (is_allowed(s, s->cell[i].M, P) && (!least || P * s->cell[i].M < least))
                least = P * s->cell[i].M;
    return least;
}
