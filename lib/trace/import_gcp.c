/* SPDX-License-Identifier: MIT */
/* List prices of Google's Cloud Billing API. */
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "trace/import_json.h"

/* The price of one unit at the lowest tier, in USD. */
static int read_gcp_rate(const struct spot_json_doc *doc, const struct spot_json_value *expression,
                         const char *pointer, double *usd, struct spot_err *err)
{
    const struct spot_json_value *rates, *unit;
    double units;

    if (spot_json_array(doc, expression, pointer, "tieredRates", true, 1000, &rates, err))
        return -1;
    unit = spot_json_get(spot_json_entry(rates, 0), "unitPrice");
    if (!spot_json_is_object(unit) || spot_num_parse(spot_import_member(unit, "units"), &units) ||
        !spot_json_is_number(spot_json_get(unit, "nanos")) ||
        strcmp(spot_import_member(unit, "currencyCode"), "USD") != 0)
        return spot_json_fail(doc, pointer, err,
                              "expected tieredRates with a unitPrice in USD, units and nanos");
    *usd = units + spot_json_number(spot_json_get(unit, "nanos")) * 1e-9;
    return 0;
}

/* "Nvidia Tesla V100 GPU attached to Spot Preemptible VMs running in Americas" ->
 * "Nvidia Tesla V100 GPU": the region is a column of its own. */
static const char *short_description(struct spot_import *imp, const char *text)
{
    const char *cut = strstr(text, " attached to ");
    char copy[256];

    cut = cut ? cut : strstr(text, " running in ");
    snprintf(copy, sizeof(copy), "%.*s", cut ? (int)(cut - text) : (int)strlen(text), text);
    return spot_import_text(imp, copy);
}

static int read_gcp_sku(struct spot_import *imp, const struct spot_json_doc *doc,
                        const struct spot_json_value *sku, const char *pointer,
                        struct spot_err *err)
{
    const char *usage = spot_import_member(spot_json_get(sku, "category"), "usageType");
    const char *market = !strcmp(usage, "Preemptible") ? "spot"
                         : !strcmp(usage, "OnDemand")  ? "on_demand"
                                                       : NULL;
    const struct spot_json_value *pricing, *regions, *first, *expression;
    const char *type;
    char at[SPOT_JSON_POINTER_MAX], last[SPOT_JSON_POINTER_MAX], tail[64];
    double time_s, usd = 0;

    if (spot_json_array(doc, sku, pointer, "pricingInfo", true, 1000, &pricing, err) ||
        spot_json_array(doc, sku, pointer, "serviceRegions", true, 1000, &regions, err))
        return -1;
    first = spot_json_entry(pricing,
                            spot_json_array_size(pricing) ? spot_json_array_size(pricing) - 1 : 0);
    expression = spot_json_get(first, "pricingExpression");
    type = short_description(imp, spot_import_member(sku, "description"));
    if (!market || strcmp(spot_import_member(expression, "usageUnit"), "h") != 0)
        return 0;
    snprintf(tail, sizeof(tail), "pricingInfo/%zu", spot_json_array_size(pricing) - 1);
    spot_import_at(last, pointer, tail);
    if (spot_import_stamp(doc, last, "effectiveTime", spot_import_member(first, "effectiveTime"),
                          &time_s, err) ||
        read_gcp_rate(doc, expression, spot_import_at(at, last, "pricingExpression"), &usd, err))
        return -1;
    for (size_t i = 0; i < spot_json_array_size(regions); i++) {
        const char *region = spot_json_text(spot_json_entry(regions, i));

        if (region)
            spot_import_add(imp, time_s, region, type, market)->value[0] = usd;
    }
    return 0;
}

int spot_import_gcp_price(struct spot_import *imp, const struct spot_json_doc *doc,
                          struct spot_err *err)
{
    spot_import_page(imp, "", !*spot_import_member(doc->root, "nextPageToken"));
    return spot_import_items(imp, doc, "skus", read_gcp_sku, err);
}
