/* SPDX-License-Identifier: MIT */
/* Metrics of a group, for Prometheus. */
#include <stdio.h>

#include "cluster/group_state.h"
#include "common/metric.h"
#include "common/version.h"

const struct spot_group_counts *spot_group_counts(const struct spot_group *g)
{
    return &g->counts;
}

/* Writes all roles, including those without members. */
static void put_roles(const struct spot_group_census *census, struct spot_buf *out)
{
    struct spot_metric metric[SPOT_GROUP_ROLES];
    char label[SPOT_GROUP_ROLES][24];

    for (int role = 0; role < SPOT_GROUP_ROLES; role++) {
        snprintf(label[role], sizeof(label[role]), "role=\"%s\"",
                 spot_group_role_name((enum spot_group_role)role));
        metric[role] = (struct spot_metric){ "spot_members",
                                             SPOT_GAUGE,
                                             "Members by role, as spot.status/1 names it.",
                                             label[role],
                                             (double)census->n[role],
                                             NULL };
    }
    spot_metric_put(metric, SPOT_GROUP_ROLES, out);
}

void spot_group_metrics(const struct spot_group *g, const struct spot_group_census *census,
                        struct spot_buf *out)
{
    static const char preempted[] = "Workers that were taken away, by how.";
    const struct spot_group_counts *const n = &g->counts;
    char version[SPOT_VERSION_MAX + 16];
    const struct spot_metric metric[] = {
        { "spot_members_leaving", SPOT_GAUGE, "Members that have a notice.", NULL,
          (double)census->n_leaving, NULL },
        { "spot_joins_total", SPOT_COUNTER, "Workers that joined.", NULL, (double)n->n_joined,
          NULL },
        { "spot_preemptions_total", SPOT_COUNTER, preempted, "kind=\"notice\"",
          (double)n->n_noticed, NULL },
        { "spot_preemptions_total", SPOT_COUNTER, preempted, "kind=\"kill\"", (double)n->n_killed,
          NULL },
        { "spot_epoch", SPOT_GAUGE, "The newest epoch.", NULL, (double)g->last_epoch, NULL },
        { "spot_suspended", SPOT_GAUGE, "1 while a plan says to stop and keep the state.", NULL,
          g->is_suspended, NULL },
        { "spot_build_info", SPOT_GAUGE, "Always 1; the version of the coordinator.", version, 1,
          NULL },
    };

    snprintf(version, sizeof(version), "version=\"%s\"", spot_version());
    put_roles(census, out);
    spot_metric_put(metric, sizeof(metric) / sizeof(*metric), out);
}
