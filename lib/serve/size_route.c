/* SPDX-License-Identifier: MIT */
#include "serve/size_route.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

static void release_bucket(struct spot_size_bucket *b)
{
    for (size_t i = 0; i < b->n_way; i++) {
        free(b->way[i].type);
        free(b->way[i].zone);
        free(b->way[i].market);
    }
    free(b->way);
    free(b->name);
}

void spot_size_route_release(struct spot_size_route *r)
{
    for (size_t i = 0; i < r->n_bucket; i++)
        release_bucket(&r->bucket[i]);
    free(r->bucket);
    *r = (struct spot_size_route){ 0 };
}

static struct spot_size_bucket *find_name(const struct spot_size_route *r, const char *name)
{
    for (size_t i = 0; i < r->n_bucket; i++)
        if (!strcmp(r->bucket[i].name, name))
            return &r->bucket[i];
    return NULL;
}

static const struct spot_size_way *find_way(const struct spot_size_bucket *b,
                                            const struct spot_size_way *like)
{
    for (size_t i = 0; b && i < b->n_way; i++)
        if (!strcmp(b->way[i].type, like->type) && !strcmp(b->way[i].zone, like->zone) &&
            !strcmp(b->way[i].market, like->market))
            return &b->way[i];
    return NULL;
}

static struct spot_size_bucket *add_bucket(struct spot_size_route *r,
                                           const struct spot_plan_route *row)
{
    struct spot_size_bucket *b;

    r->bucket = spot_xgrow(r->bucket, &r->cap_bucket, r->n_bucket + 1, sizeof(*r->bucket));
    b = &r->bucket[r->n_bucket++];
    *b = (struct spot_size_bucket){ .name = spot_xstrdup(row->bucket),
                                    .prompt_token = row->prompt_token,
                                    .output_token = row->output_token,
                                    .first_s = row->first_s };
    return b;
}

static void add_way(struct spot_size_bucket *b, const struct spot_size_bucket *before,
                    const struct spot_plan_route *row)
{
    struct spot_size_way way = { .type = spot_xstrdup(row->type),
                                 .zone = spot_xstrdup(row->zone ? row->zone : ""),
                                 .market = spot_xstrdup(row->market),
                                 .share = row->share };
    const struct spot_size_way *const was = find_way(before, &way);

    if (was) {
        way.credit = was->credit;
        way.n_taken = was->n_taken;
    }
    b->way = spot_xgrow(b->way, &b->cap_way, b->n_way + 1, sizeof(*b->way));
    b->way[b->n_way++] = way;
}

/* Reject a bucket of any size, which would match the requests of all others. */
static int check(const struct spot_size_route *r, struct spot_err *err)
{
    for (size_t i = 0; r->n_bucket > 1 && i < r->n_bucket; i++)
        if (r->bucket[i].prompt_token <= 0 && r->bucket[i].output_token <= 0)
            return spot_err_set(err, SPOT_EINFEASIBLE,
                                "the plan's route has %zu buckets, and '%.64s' has no "
                                "prompt_tokens and output_tokens",
                                r->n_bucket, r->bucket[i].name);
    return 0;
}

int spot_size_route_take(struct spot_size_route *r, const struct spot_plan_doc *plan,
                         struct spot_err *err)
{
    struct spot_size_route next = { 0 };

    for (size_t i = 0; i < plan->n_route; i++) {
        const struct spot_plan_route *const row = &plan->route[i];
        struct spot_size_bucket *b = find_name(&next, row->bucket);

        if (!b)
            b = add_bucket(&next, row);
        if (row->share > 0)
            add_way(b, find_name(r, row->bucket), row);
    }
    if (check(&next, err)) {
        spot_size_route_release(&next);
        return -1;
    }
    spot_size_route_release(r);
    *r = next;
    return 0;
}

static double far(double x, double token)
{
    return token > 0 ? log(fmax(x, 1) / token) : 0;
}

struct spot_size_bucket *spot_size_route_find(const struct spot_size_route *r, double prompt_token,
                                              double output_token)
{
    struct spot_size_bucket *best = NULL;
    double least = HUGE_VAL;

    for (size_t i = 0; i < r->n_bucket; i++) {
        struct spot_size_bucket *const b = &r->bucket[i];
        const double x = far(prompt_token, b->prompt_token), y = far(output_token, b->output_token);

        if (x * x + y * y < least) {
            least = x * x + y * y;
            best = b;
        }
    }
    return best;
}

bool spot_size_way_is_of(const struct spot_size_way *way, const char *type, const char *zone,
                         const char *market)
{
    return !strcmp(way->type, type) && (!*way->zone || !strcmp(way->zone, zone)) &&
           (!*market || !strcmp(way->market, market));
}

static double open_share(const struct spot_size_bucket *b)
{
    double sum = 0;

    for (size_t i = 0; i < b->n_way; i++)
        sum += b->way[i].is_open ? b->way[i].share : 0;
    return sum;
}

struct spot_size_way *spot_size_bucket_choose(const struct spot_size_bucket *b)
{
    const double sum = open_share(b);
    struct spot_size_way *best = NULL;
    double most = 0;

    for (size_t i = 0; i < b->n_way; i++) {
        struct spot_size_way *const w = &b->way[i];
        const double has = w->credit + w->share / sum;

        if (w->is_open && (!best || has > most)) {
            best = w;
            most = has;
        }
    }
    return best;
}

void spot_size_bucket_take(struct spot_size_bucket *b, struct spot_size_way *way)
{
    const double sum = open_share(b);

    for (size_t i = 0; i < b->n_way; i++)
        if (b->way[i].is_open)
            b->way[i].credit += b->way[i].share / sum;
    way->credit--;
    way->n_taken++;
}
