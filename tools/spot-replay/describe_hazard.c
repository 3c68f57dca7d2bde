/* SPDX-License-Identifier: MIT */
/* spot-replay describe --hazard - how likely a node is lost, by its age. */
#include "replay.h"

#include <stdlib.h>

#include "cli/tool.h"
#include "trace/lifetimes.h"

static void fill(struct spot_table *table, const struct spot_age_class *c, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        spot_table_add(table, "%.0e %.4e %.4e %.4e %lld %.2e %.4e", c[k].age_s, c[k].per_s * 3600,
                       c[k].low_s * 3600, c[k].high_s * 3600, (long long)c[k].lost,
                       c[k].lived_s / 3600, c[k].alive);
    }
}

int describe_hazard(const struct spot_trace *trace, const char *source, double from_s, double to_s,
                    size_t least, const struct spot_tool_common *common, struct spot_err *err)
{
    struct spot_age_class class[SPOT_AGE_CLASSES_MAX];
    size_t n_life, n, lost = 0;
    double lived_s = 0;
    struct spot_life *life = spot_lives(trace, source, from_s, to_s, &n_life, err);
    struct spot_table table;

    if (!life)
        return -1;
    for (size_t i = 0; i < n_life; i++) {
        lived_s += life[i].leave_s - life[i].enter_s;
        lost += life[i].is_lost;
    }
    n = spot_age_classes(life, n_life, least, class);
    free(life);
    if (!n) /* the rule of three: what 95 % of such logs would have shown a loss of */
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "no node was lost in %.4g machine-hours: all that is known is a hazard "
                            "below %.3g per hour",
                            lived_s / 3600, lived_s > 0 ? 3 / (lived_s / 3600) : 3600);
    if (lost < least)
        spot_tool_warn("%zu loss%s: one hazard for all ages", lost, lost == 1 ? "" : "es");
    if (spot_tool_table(common, &table,
                        "age_s#,hazard_per_h#,low_per_h#,high_per_h#,losses#,machine_h#,alive#",
                        err))
        return -1;
    fill(&table, class, n);
    return spot_tool_table_write(common, &table, 0, err);
}
