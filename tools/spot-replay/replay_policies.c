/* SPDX-License-Identifier: MIT */
/* --policy: the policies that a kind of replay plays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "peers/registry.h"
#include "plan/decision.h"
#include "replay.h"
#include "sim/share_play.h"

bool replay_lists(const char *kind, const char *text)
{
    const struct spot_registered *p;

    if (strcmp(text, "list") != 0)
        return false;
    for (size_t i = 0; (p = spot_registry_at(kind, i)); i++) {
        const bool is_share = !strcmp(kind, "share");
        const struct spot_share_player *player = is_share ? (const void *)p : NULL;

        printf("%-22s %s\n", p->name,
               player && player->policy ? player->policy->summary : p->about);
    }
    return true;
}

int replay_policies(const char *kind, const char *text, size_t most, void *played, size_t size,
                    size_t *n, struct spot_err *err)
{
    const void **row = spot_xcalloc(most, sizeof(const void *));
    const int rc = spot_registry_read(kind, text, most, row, n, err);

    for (size_t i = 0; !rc && i < *n; i++)
        memcpy((char *)played + i * size, &row[i], sizeof(row[i]));
    free(row);
    return rc;
}
