/* SPDX-License-Identifier: MIT */
/* Azure's Retail Prices API. */
#include <stdlib.h>
#include <string.h>

#include "trace/import_json.h"

struct azure_price {
    const char *currency, *region, *stamp, *product, *sku, *type, *size, *unit;
    double usd;
};

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);

    return n >= m && !strcmp(text + n - m, end);
}

static int read_azure_item(struct spot_import *imp, const struct spot_json_doc *doc,
                           const struct spot_json_value *item, const char *pointer,
                           struct spot_err *err)
{
    static const struct spot_field field[] = {
        { "currencyCode", SPOT_F_STR, offsetof(struct azure_price, currency), NULL, 0, 0, true },
        { "armRegionName", SPOT_F_STR, offsetof(struct azure_price, region), NULL, 0, 0, true },
        { "effectiveStartDate", SPOT_F_STR, offsetof(struct azure_price, stamp), NULL, 0, 0, true },
        { "productName", SPOT_F_STR, offsetof(struct azure_price, product), NULL, 0, 0, true },
        { "skuName", SPOT_F_STR, offsetof(struct azure_price, sku), NULL, 0, 0, true },
        { "type", SPOT_F_STR, offsetof(struct azure_price, type), NULL, 0, 0, true },
        { "armSkuName", SPOT_F_STR, offsetof(struct azure_price, size), NULL, 0, 0, true },
        { "unitOfMeasure", SPOT_F_STR, offsetof(struct azure_price, unit), NULL, 0, 0, true },
        { "retailPrice", SPOT_F_REAL, offsetof(struct azure_price, usd), "usd", 0, 1e9, true },
        { 0 },
    };
    struct azure_price p = { 0 };
    char at[SPOT_JSON_POINTER_MAX];
    double time_s;

    if (spot_json_read_fields(doc, item, pointer, field, &p, err) ||
        spot_import_stamp(doc, pointer, "effectiveStartDate", p.stamp, &time_s, err))
        return -1;
    spot_import_at(at, pointer, "currencyCode");
    if (strcmp(p.currency, "USD") != 0)
        return spot_json_fail(doc, at, err, "expected USD, got '%.40s'", p.currency);
    if (strcmp(p.type, "Consumption") != 0 || strcmp(p.unit, "1 Hour") != 0 ||
        ends_with(p.product, "Windows") || strstr(p.sku, "Low Priority") || !*p.size)
        return 0;
    spot_import_add(imp, time_s, p.region, p.size, ends_with(p.sku, " Spot") ? "spot" : "on_demand")
        ->value[0] = p.usd;
    return 0;
}

int spot_import_azure_price(struct spot_import *imp, const struct spot_json_doc *doc,
                            struct spot_err *err)
{
    spot_import_page(imp, "", !*spot_import_member(doc->root, "NextPageLink"));
    return spot_import_items(imp, doc, "Items", read_azure_item, err);
}
