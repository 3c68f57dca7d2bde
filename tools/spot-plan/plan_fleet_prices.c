/* SPDX-License-Identifier: MIT */
/* Replaces the prices of the catalogue by forecast ones. */
#include <stdlib.h>

#include "common/xalloc.h"
#include "plan_fleet.h"

int plan_fleet_load_prices(struct plan_fleet *s, struct spot_err *err)
{
    if (spot_json_load_path(&s->price_json, s->o->prices, err) ||
        spot_price_read(&s->price_json, &s->price, err))
        return -1;
    s->is_priced = spot_xcalloc(s->price.n_series, sizeof(*s->is_priced));
    spot_prov_add(&s->prov, s->price_json.source, s->price_json.hash);
    return 0;
}

double plan_fleet_price(struct plan_fleet *s, const char *zone, const char *type, bool is_spot)
{
    const struct spot_price_entry *e =
        s->price.n_series ? spot_price_find(&s->price, zone, type, is_spot ? "spot" : "on_demand")
                          : NULL;

    if (!e)
        return -1;
    s->is_priced[e - s->price.series] = true;
    return e->mean_usd_per_h;
}

void plan_fleet_explain_prices(struct plan_fleet *s)
{
    size_t used = 0;

    if (!s->price.n_series)
        return;
    for (size_t i = 0; i < s->price.n_series; i++)
        used += s->is_priced[i];
    snprintf(plan_fleet_why(s), PLAN_FLEET_WHY,
             "%zu prices are forecast means over the next %g s; %zu of %zu forecast prices match "
             "no offer",
             used, (double)s->price.horizon * s->price.interval_s, s->price.n_series - used,
             s->price.n_series);
}

void plan_fleet_release_prices(struct plan_fleet *s)
{
    spot_price_release(&s->price);
    free(s->is_priced);
    spot_json_release(&s->price_json);
}
