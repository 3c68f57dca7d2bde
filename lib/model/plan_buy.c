/* SPDX-License-Identifier: MIT */
#include "model/plan_buy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

static int read_row(const struct spot_json_doc *doc, const struct spot_json_value *value, size_t i,
                    struct spot_plan_buy *row, struct spot_err *err)
{
    const char *const zone = spot_json_text(spot_json_get(value, "zone"));
    const char *const market = spot_json_text(spot_json_get(value, "market"));
    const struct spot_json_value *const count = spot_json_get(value, "count");
    char at[64];

    *row = (struct spot_plan_buy){ .zone = zone ? zone : "",
                                   .type = spot_json_text(spot_json_get(value, "instance_type")),
                                   .is_on_demand = market && !strcmp(market, "on-demand") };
    snprintf(at, sizeof(at), "/buy/%zu", i);
    if (!row->type || !*row->type || !market ||
        (!row->is_on_demand && strcmp(market, "spot") != 0) || !spot_json_is_integer(count) ||
        spot_json_integer(count) < 0 || spot_json_integer(count) > SPOT_PLAN_BUY_MACHINES)
        return spot_json_fail(doc, at, err,
                              "expected instance_type, market (spot or on-demand) and count (0 to "
                              "%d)",
                              SPOT_PLAN_BUY_MACHINES);
    row->count = spot_json_integer(count);
    return 0;
}

static int read_rows(const struct spot_json_doc *doc, const struct spot_json_value *list,
                     struct spot_plan_buy *buy, size_t n, struct spot_err *err)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        if (read_row(doc, spot_json_entry(list, i), i, &buy[i], err))
            return -1;
        sum += buy[i].count;
    }
    return sum <= SPOT_PLAN_BUY_MACHINES
               ? 0
               : spot_json_fail(doc, "/buy", err, "%lld machines, more than %d", (long long)sum,
                                SPOT_PLAN_BUY_MACHINES);
}

int spot_plan_buy_read(const struct spot_json_doc *doc, struct spot_plan_buy **buy, size_t *n,
                       struct spot_err *err)
{
    const struct spot_json_value *list;
    const char *kind;

    *buy = NULL;
    *n = 0;
    if (spot_json_expect_schema(doc, "spot.plan", 1, err))
        return -1;
    kind = spot_json_text(spot_json_get(doc->root, "kind"));
    if (!kind || strcmp(kind, "fleet") != 0)
        return spot_json_fail(doc, "/kind", err, "expected fleet");
    if (spot_json_array(doc, doc->root, "", "buy", true, SPOT_PLAN_BUY_ROWS, &list, err))
        return -1;
    *n = spot_json_array_size(list);
    *buy = spot_xcalloc(*n + 1, sizeof(**buy));
    if (!read_rows(doc, list, *buy, *n, err))
        return 0;
    free(*buy);
    *buy = NULL;
    return -1;
}
