/* SPDX-License-Identifier: MIT */
/* spot-plan fleet with a current fleet: rates as they arrive, and the fleet of --current is kept
 * until a delay is over. The resulting plan contains everything that the next call needs. */
#include <stdlib.h>
#include <string.h>

#include "plan_fleet.h"
#include "trace/load_trace.h"

int plan_fleet_read_requests(struct plan_fleet *s, struct spot_err *err)
{
    struct spot_load load = { 0 };
    bool has_sizes = false;
    double sum = 0, from_s;
    size_t n = 0;

    if (spot_load_read_path(&load, s->o->requests, 0, err))
        return -1;
    spot_prov_add(&s->prov, s->o->requests, load.xxh3);
    s->time_s = s->o->time_s >= 0 ? s->o->time_s : load.time_s[load.n - 1];
    from_s = s->time_s - s->o->window_s;
    for (size_t b = 0; b < s->demand.n_bucket; b++) {
        has_sizes |= s->doc.bucket[b].prompt_token > 0 || s->doc.bucket[b].output_token > 0;
        sum += s->rate_per_s[b];
        if (has_sizes)
            s->rate_per_s[b] = 0;
    }
    for (size_t b = 0; has_sizes && b < s->demand.n_bucket; b++)
        s->rate_per_s[b] = 0;
    for (size_t i = 0; i < load.n; i++) {
        if (load.time_s[i] <= from_s || load.time_s[i] > s->time_s)
            continue;
        n++;
        if (has_sizes)
            s->rate_per_s[spot_demand_nearest(&s->doc, load.prompt_token[i],
                                              load.output_token[i])] += 1 / s->o->window_s;
    }
    for (size_t b = 0; !has_sizes && sum > 0 && b < s->demand.n_bucket; b++)
        s->rate_per_s[b] *= (double)n / s->o->window_s / sum;
    spot_load_release(&load);
    if (n)
        return 0;
    return spot_err_set(err, SPOT_EINFEASIBLE,
                        "no request came from %g to %g s: nothing to plan for", from_s, s->time_s);
}

static int read_clock(struct plan_fleet *s, struct spot_err *err)
{
    const struct spot_json_value *scale = spot_json_get(s->current.root, "autoscale");
    const struct spot_json_value *since = spot_json_get(scale, "since_s");
    const char *side = spot_json_text(spot_json_get(scale, "side"));

    if (!scale)
        return 0;
    for (int i = 0; side && i < 3; i++)
        if (!strcmp(side, spot_fleet_side_name[i]) && spot_json_is_number(since)) {
            s->scale =
                (struct spot_fleet_scale){ (enum spot_fleet_side)i, spot_json_number(since) };
            return 0;
        }
    return spot_json_fail(&s->current, "/autoscale", err,
                          "expected side (same, up or down) and since_s");
}

int plan_fleet_scale(struct plan_fleet *s, struct spot_err *err)
{
    if (spot_json_load_path(&s->current, s->o->current, err) ||
        spot_plan_buy_read(&s->current, &s->held, &s->n_held, err))
        return -1;
    spot_prov_add(&s->prov, s->current.source, s->current.hash);
    s->is_scaled = true;
    return read_clock(s, err);
}
