/* SPDX-License-Identifier: MIT */
/* --policy list: what a kind plays. */
#include <stdio.h>
#include <string.h>

#include "peers/registry.h"
#include "plan/decision.h"
#include "replay.h"
#include "sim/share_play.h"

void replay_list(const char *kind)
{
    const struct spot_registered *p;

    for (size_t i = 0; (p = spot_registry_at(kind, i)); i++) {
        const bool is_share = !strcmp(kind, "share");
        const struct spot_share_player *player = is_share ? (const void *)p : NULL;

        printf("%-22s %s\n", p->name,
               player && player->policy ? player->policy->summary : p->about);
    }
}
