/* SPDX-License-Identifier: MIT */
/* spot-replay describe --hazard - how likely a node is lost, by its age. */
#include "describe_hazard.h"

#include <stdlib.h>

#include "cli/tool.h"
#include "common/out.h"
#include "trace/lifetimes.h"

static const struct spot_column column[] = {
    { "age_s", true },  { "hazard_per_h", true }, { "low_per_h", true }, { "high_per_h", true },
    { "losses", true }, { "machine_h", true },    { "alive", true },
};

/* People read few digits, programs all. */
static void put(struct spot_table *table, enum spot_format format, double x, int digits)
{
    if (format == SPOT_FORMAT_TABLE || format == SPOT_FORMAT_MD)
        spot_table_fixed(table, x, digits);
    else
        spot_table_real(table, x);
}

static void fill(struct spot_table *table, const struct spot_age_class *c, size_t n,
                 enum spot_format format)
{
    for (size_t k = 0; k < n; k++) {
        put(table, format, c[k].age_s, 0);
        put(table, format, c[k].per_s * 3600, 4);
        put(table, format, c[k].low_s * 3600, 4);
        put(table, format, c[k].high_s * 3600, 4);
        spot_table_int(table, (long long)c[k].lost);
        put(table, format, c[k].lived_s / 3600, 2);
        put(table, format, c[k].alive, 4);
    }
}

int describe_hazard(const struct spot_trace *trace, const char *source, double from_s, double to_s,
                    size_t least, const char *output, enum spot_format format, struct spot_err *err)
{
    struct spot_age_class class[SPOT_AGE_CLASSES_MAX];
    size_t n_life, n, lost = 0;
    double lived_s = 0;
    struct spot_life *life = spot_lives(trace, source, from_s, to_s, &n_life, err);
    struct spot_table table;
    struct spot_out out;

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
    if (spot_out_open(&out, output, err))
        return -1;
    format = spot_format_settle(format, output, SPOT_FORMAT_CSV);
    spot_table_init(&table, column, sizeof(column) / sizeof(column[0]));
    fill(&table, class, n, format);
    spot_table_print(&table, out.file, format);
    spot_table_release(&table);
    return spot_out_finish(&out, 0, err);
}
