/* SPDX-License-Identifier: MIT */
/* Price history, placement scores and the interruption advisor of AWS. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "trace/import_json.h"
#include "trace/region.h"

struct aws_price {
    const char *zone, *zone_id, *type, *product, *price, *stamp;
};

static int read_aws_price(struct spot_import *imp, const struct spot_json_doc *doc,
                          const struct spot_json_value *item, const char *pointer,
                          struct spot_err *err)
{
    static const struct spot_field field[] = {
        { "AvailabilityZone", SPOT_F_STR, offsetof(struct aws_price, zone), NULL, 0, 0, false },
        { "AvailabilityZoneId", SPOT_F_STR, offsetof(struct aws_price, zone_id), NULL, 0, 0,
          false },
        { "InstanceType", SPOT_F_STR, offsetof(struct aws_price, type), NULL, 0, 0, true },
        { "ProductDescription", SPOT_F_STR, offsetof(struct aws_price, product), NULL, 0, 0, true },
        { "SpotPrice", SPOT_F_STR, offsetof(struct aws_price, price), NULL, 0, 0, true },
        { "Timestamp", SPOT_F_STR, offsetof(struct aws_price, stamp), NULL, 0, 0, true },
        { 0 },
    };
    struct aws_price p = { 0 };
    char at[SPOT_JSON_POINTER_MAX];
    double time_s, usd;

    if (spot_json_read_fields(doc, item, pointer, field, &p, err) ||
        spot_import_stamp(doc, pointer, "Timestamp", p.stamp, &time_s, err))
        return -1;
    spot_import_at(at, pointer, "SpotPrice");
    if (spot_num_parse(p.price, &usd) || usd < 0 || usd > 1e9)
        return spot_json_fail(doc, at, err, "expected a price, got '%.40s'", p.price);
    if (!p.zone && !p.zone_id)
        return spot_json_fail(doc, pointer, err, "lacks the key 'AvailabilityZone'");
    /* Zone names are aliases within one account; the id, if given, is not. */
    if (!strcmp(p.product, "Linux/UNIX"))
        spot_import_add(imp, time_s, p.zone_id ? p.zone_id : p.zone, p.type, "spot")->value[0] =
            usd;
    return 0;
}

/* The region of a query; "" if the row does not say it. */
static void region_of(const struct spot_json_value *item, char *region, size_t n_byte)
{
    const char *zone = spot_import_member(item, "AvailabilityZone");
    const char *id = spot_import_member(item, "AvailabilityZoneId"); /* use1-az4 */
    const size_t n = *zone ? spot_region_length(zone) : strcspn(id, "-");

    snprintf(region, n_byte, "%.*s", (int)(n < n_byte ? n : n_byte - 1), *zone ? zone : id);
}

int spot_import_aws_price(struct spot_import *imp, const struct spot_json_doc *doc,
                          struct spot_err *err)
{
    const bool is_last = !*spot_import_member(doc->root, "NextToken");
    const struct spot_json_value *items = spot_json_get(doc->root, "SpotPriceHistory");
    char region[64] = "";

    region_of(spot_json_entry(items, 0), region, sizeof(region));
    if (*region || is_last) /* an empty page that announces more pages lacks nothing */
        spot_import_page(imp, region, is_last);
    return spot_import_items(imp, doc, "SpotPriceHistory", read_aws_price, err);
}

struct aws_score {
    const char *region, *zone_id;
    int64_t score;
};

static int read_aws_score(struct spot_import *imp, const struct spot_json_doc *doc,
                          const struct spot_json_value *item, const char *pointer,
                          struct spot_err *err)
{
    static const struct spot_field field[] = {
        { "Region", SPOT_F_STR, offsetof(struct aws_score, region), NULL, 0, 0, true },
        { "AvailabilityZoneId", SPOT_F_STR, offsetof(struct aws_score, zone_id), NULL, 0, 0,
          false },
        { "Score", SPOT_F_INT, offsetof(struct aws_score, score), "1", 1, 10, true },
        { 0 },
    };
    struct aws_score s = { 0 };
    struct spot_probe p = { .time_s = imp->ask.time_s, .usd_per_h = NAN };

    if (spot_json_read_fields(doc, item, pointer, field, &s, err))
        return -1;
    p.score = (double)s.score;
    imp->n_region += !s.zone_id;
    spot_import_probe(imp, s.zone_id ? s.zone_id : s.region,
                      imp->ask.instance_type ? imp->ask.instance_type : "", &p);
    return 0;
}

int spot_import_aws_score(struct spot_import *imp, const struct spot_json_doc *doc,
                          struct spot_err *err)
{
    return spot_import_items(imp, doc, "SpotPlacementScores", read_aws_score, err);
}

enum { RANGES_MAX = 16 };

struct ranges {
    size_t n;
    double max[RANGES_MAX]; /* per cent a month; bucket k ends there */
};

static int read_ranges(const struct spot_json_doc *doc, struct ranges *ranges, struct spot_err *err)
{
    struct range {
        int64_t index;
        double max;
    };
    static const struct spot_field field[] = {
        { "index", SPOT_F_INT, offsetof(struct range, index), "1", 0, RANGES_MAX - 1, true },
        { "max", SPOT_F_REAL, offsetof(struct range, max), "1", 0, 100, true },
        { 0 },
    };
    const struct spot_json_value *list;

    if (spot_json_array(doc, doc->root, "", "ranges", true, RANGES_MAX, &list, err))
        return -1;
    ranges->n = spot_json_array_size(list);
    for (size_t i = 0; i < ranges->n; i++) {
        struct range r = { 0 };
        char at[SPOT_JSON_POINTER_MAX];

        snprintf(at, sizeof(at), "/ranges/%zu", i);
        if (spot_json_read_fields(doc, spot_json_entry(list, i), at, field, &r, err))
            return -1;
        if ((size_t)r.index != i || (i && r.max <= ranges->max[i - 1]))
            return spot_json_fail(doc, at, err, "expected ranges in rising order");
        ranges->max[i] = r.max;
    }
    return 0;
}

static int read_advice(struct spot_import *imp, const struct spot_json_doc *doc,
                       const struct ranges *ranges, const struct spot_json_value *types,
                       const char *region, const char *os, struct spot_err *err)
{
    struct advice {
        int64_t range, savings;
    };
    static const struct spot_field field[] = {
        { "r", SPOT_F_INT, offsetof(struct advice, range), "1", 0, RANGES_MAX - 1, true },
        { "s", SPOT_F_INT, offsetof(struct advice, savings), "1", -1000, 100, true },
        { 0 },
    };
    const char *type;
    const struct spot_json_value *value;

    spot_json_object_foreach(types, type, value)
    {
        struct spot_import_row *row;
        struct advice a = { 0 };
        char at[SPOT_JSON_POINTER_MAX];
        const size_t n_bad = imp->bad.n;
        int rc;

        snprintf(at, sizeof(at), "/spot_advisor/%s/%s/%s", region, os, type);
        rc = spot_json_read_fields(doc, value, at, field, &a, err);
        if (!rc && (size_t)a.range >= ranges->n)
            rc = spot_json_fail(doc, at, err, "there is no range %lld", (long long)a.range);
        if (spot_bad_rows_take(&imp->bad, rc, err))
            return -1;
        if (imp->bad.n > n_bad)
            continue;
        row = spot_import_add(imp, 0, region, type, os);
        row->value[0] = a.range ? ranges->max[a.range - 1] / 100 : 0;
        row->value[1] = ranges->max[a.range] / 100;
        row->value[2] = (double)a.savings / 100;
    }
    return 0;
}

int spot_import_aws_advisor(struct spot_import *imp, const struct spot_json_doc *doc,
                            struct spot_err *err)
{
    const char *want = "Linux";
    struct ranges ranges = { 0 };
    const struct spot_json_value *regions, *systems;
    const char *region;

    if (read_ranges(doc, &ranges, err) ||
        spot_json_object(doc, doc->root, "", "spot_advisor", true, &regions, err))
        return -1;
    spot_json_object_foreach(regions, region, systems)
    {
        const struct spot_json_value *types = spot_json_get(systems, want);
        char at[SPOT_JSON_POINTER_MAX];

        snprintf(at, sizeof(at), "/spot_advisor/%s", region);
        if (!spot_json_is_object(systems) || (types && !spot_json_is_object(types)))
            return spot_json_fail(doc, at, err, "expected objects by system and instance type");
        if (types && read_advice(imp, doc, &ranges, types, region, want, err))
            return -1;
    }
    return spot_bad_rows_end(&imp->bad, 1, doc->source, err);
}
