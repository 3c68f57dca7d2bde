/* SPDX-License-Identifier: MIT */
#include "plan/decision.h"

#include <stdio.h>
#include <string.h>

#include "plan/share_round.h"

static const struct spot_policy *const policies[] = {
    &spot_policy_train,
    &spot_policy_deadline,
    &spot_policy_fleet,
    &spot_policy_serve,
    &spot_policy_share[SPOT_SHARE_AIM_COMPLETION],
    &spot_policy_share[SPOT_SHARE_AIM_MAX_MIN],
    &spot_policy_share[SPOT_SHARE_AIM_MAKESPAN],
    &spot_policy_share[SPOT_SHARE_AIM_COST],
};

const struct spot_policy *spot_policy_find(const char *kind, const char *name, struct spot_err *err)
{
    char known[256] = "";

    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        const struct spot_policy *p = policies[i];

        if (strcmp(p->kind, kind) != 0)
            continue;
        if (!strcmp(p->name, name))
            return p;
        snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", *known ? ", " : "",
                 p->name);
    }
    spot_err_set(err, SPOT_EUSAGE, "unknown policy '%.32s'; there are %s", name, known);
    return NULL;
}
