/* SPDX-License-Identifier: MIT */
/* demand_doc.h - spot.demand/1: requests in buckets of similar size, and how many of each an
 * instance type serves per second. */
#ifndef SPOT_MODEL_DEMAND_DOC_H
#define SPOT_MODEL_DEMAND_DOC_H

#include <stddef.h>

#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_DEMAND_BUCKETS_MAX = 4096 };

struct spot_demand_bucket {
    const char *name; /* NULL: none; borrowed */
    double rate_per_s;
    double prompt_token, output_token; /* representative sizes; 0: any */
    double first_s;                    /* to the first token, at most; 0: any */
    const struct spot_json_value *per_s;
};

struct spot_demand_doc {
    struct spot_demand_bucket *bucket; /* [n_bucket], n_bucket >= 1 */
    size_t n_bucket;
};

/* What docs/schema/demand.json is made from. */
extern const struct spot_doc_part spot_demand_part[];

/* Fill *out from a loaded document, which must outlive it. Returns 0, or -1 with *err (SPOT_EDATA
 * with the place of the error). Release it either way. */
int spot_demand_read(const struct spot_json_doc *doc, struct spot_demand_doc *out,
                     struct spot_err *err);
void spot_demand_release(struct spot_demand_doc *doc);

/* Requests/s of a bucket that one instance of the type serves; 0: none, or not listed. */
double spot_demand_per_s(const struct spot_demand_bucket *bucket, const char *instance_type);

/* The bucket whose sizes are nearest in logarithms; buckets without sizes match any. */
size_t spot_demand_nearest(const struct spot_demand_doc *doc, double prompt, double output);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_DEMAND_DOC_H */
