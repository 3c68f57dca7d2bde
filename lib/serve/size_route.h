/* SPDX-License-Identifier: MIT */
/* size_route.h - `route` of a plan: which machines take the requests of a size, and their shares.
 * Requests of a bucket are distributed by smooth weighted round robin (Nginx, 2012) over the open
 * routes ("ways"): each open way gets its share of a request as credit, and the one with the most
 * credit takes the request and pays for it. So at any time each way has had its share of the
 * requests during which it was open, to within less than one request for each other way. A way that
 * is not open earns no credit.
 */
#ifndef SPOT_SERVE_SIZE_ROUTE_H
#define SPOT_SERVE_SIZE_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/plan_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Machines that share a type, a zone and a market. */
struct spot_size_way {
    char *type, *zone, *market; /* zone "": any */
    double share, credit;       /* share of the bucket's requests; credit in requests */
    bool is_open;               /* set by the caller for the next request */
    uint64_t n_taken;           /* requests, since the way first was in a plan */
};

struct spot_size_bucket {
    char *name;
    double prompt_token, output_token; /* 0: any */
    double first_s;                    /* limit of the time to first token; 0: none */
    struct spot_size_way *way;         /* [n_way] */
    size_t n_way, cap_way;
};

struct spot_size_route {
    struct spot_size_bucket *bucket; /* [n_bucket]; 0: none is in force */
    size_t n_bucket, cap_bucket;
};

/* Follow the plan's route from now on. Ways that existed before keep their credit, so that
 * repeating a plan changes nothing. Returns 0, or -1 with *err (SPOT_EINFEASIBLE: several buckets,
 * and not all have a size) and *route as before. */
int spot_size_route_take(struct spot_size_route *route, const struct spot_plan_doc *plan,
                         struct spot_err *err);
void spot_size_route_release(struct spot_size_route *route);

/* The bucket that is nearest in logarithms of its sizes; NULL: none. */
struct spot_size_bucket *spot_size_route_find(const struct spot_size_route *route,
                                              double prompt_token, double output_token);

/* True if the way includes such machines. market "": not known. */
bool spot_size_way_is_of(const struct spot_size_way *way, const char *type, const char *zone,
                         const char *market);

/* The way of the next request; NULL: none is open. */
struct spot_size_way *spot_size_bucket_choose(const struct spot_size_bucket *bucket);
/* Record that the way took the request. */
void spot_size_bucket_take(struct spot_size_bucket *bucket, struct spot_size_way *way);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_SIZE_ROUTE_H */
