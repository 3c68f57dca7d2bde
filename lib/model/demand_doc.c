/* SPDX-License-Identifier: MIT */
#include "model/demand_doc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/xalloc.h"

#define BUCKET(member) offsetof(struct spot_demand_bucket, member)
static const struct spot_field bucket_field[] = {
    { "name", SPOT_F_STR, BUCKET(name), NULL, 0, 0, false },
    { "prompt_tokens", SPOT_F_REAL, BUCKET(prompt_token), "1", 0, INFINITY, false },
    { "output_tokens", SPOT_F_REAL, BUCKET(output_token), "1", 0, INFINITY, false },
    { "ttft_s", SPOT_F_REAL, BUCKET(first_s), "s", 0, 1e6, false },
    { "rate_per_s", SPOT_F_REAL, BUCKET(rate_per_s), "1/s", 0, 1e9, true },
    { 0 },
};

const struct spot_doc_part spot_demand_part[] = {
    { "buckets[]", bucket_field, .required = true, .n_max = SPOT_DEMAND_BUCKETS_MAX },
    { 0 },
};

static int check_speeds(const struct spot_json_doc *doc, const struct spot_json_value *per_s,
                        const char *at, struct spot_err *err)
{
    const struct spot_json_value *value;
    char pointer[192];
    const char *type;

    spot_json_object_foreach(per_s, type, value)
    {
        const double x = spot_json_number(value);

        snprintf(pointer, sizeof(pointer), "%s/per_s/%.100s", at, type);
        if (!spot_json_is_number(value) || !(x >= 0 && x <= 1e9))
            return spot_json_fail(doc, pointer, err,
                                  "expected requests per second, 0 for a type that cannot");
    }
    return 0;
}

static int read_bucket(const struct spot_json_doc *doc, const struct spot_json_value *row, size_t b,
                       struct spot_demand_bucket *bucket, struct spot_err *err)
{
    char at[64];

    snprintf(at, sizeof(at), "/buckets/%zu", b);
    if (spot_json_read_fields(doc, row, at, bucket_field, bucket, err) ||
        spot_json_object(doc, row, at, "per_s", true, &bucket->per_s, err))
        return -1;
    return check_speeds(doc, bucket->per_s, at, err);
}

int spot_demand_read(const struct spot_json_doc *doc, struct spot_demand_doc *out,
                     struct spot_err *err)
{
    const struct spot_json_value *list;

    *out = (struct spot_demand_doc){ 0 };
    if (spot_json_expect_schema(doc, "spot.demand", 1, err) ||
        spot_json_array(doc, doc->root, "", "buckets", true, SPOT_DEMAND_BUCKETS_MAX, &list, err))
        return -1;
    if (!spot_json_array_size(list))
        return spot_json_fail(doc, "/buckets", err, "has none");
    out->n_bucket = spot_json_array_size(list);
    out->bucket = spot_xcalloc(out->n_bucket, sizeof(*out->bucket));
    for (size_t b = 0; b < out->n_bucket; b++)
        if (read_bucket(doc, spot_json_entry(list, b), b, &out->bucket[b], err))
            return -1;
    return 0;
}

void spot_demand_release(struct spot_demand_doc *doc)
{
    free(doc->bucket);
    *doc = (struct spot_demand_doc){ 0 };
}

double spot_demand_per_s(const struct spot_demand_bucket *bucket, const char *instance_type)
{
    const struct spot_json_value *value = spot_json_get(bucket->per_s, instance_type);

    return value ? spot_json_number(value) : 0;
}

size_t spot_demand_nearest(const struct spot_demand_doc *doc, double prompt, double output)
{
    double least = HUGE_VAL;
    size_t best = 0;

    for (size_t b = 0; b < doc->n_bucket; b++) {
        const struct spot_demand_bucket *bucket = &doc->bucket[b];
        const double x = bucket->prompt_token > 0 ? log(prompt / bucket->prompt_token) : 0;
        const double y = bucket->output_token > 0 ? log(output / bucket->output_token) : 0;

        if (x * x + y * y < least) {
            least = x * x + y * y;
            best = b;
        }
    }
    return best;
}
