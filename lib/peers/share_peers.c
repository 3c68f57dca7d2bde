/* SPDX-License-Identifier: MIT */
#include "peers/share_peers.h"

#include <stdio.h>
#include <string.h>

#include "peers/allox.h"
#include "peers/gavel.h"
#include "peers/hadar.h"
#include "peers/srtf.h"

const struct spot_share_player *spot_share_player_at(size_t i)
{
    const struct spot_share_player *const table[] = { spot_share_players, spot_gavel_players,
                                                      spot_hadar_players, spot_srtf_players,
                                                      spot_allox_players, NULL };

    for (size_t k = 0; table[k]; k++)
        for (const struct spot_share_player *p = table[k]; p->name; p++)
            if (!i--)
                return p;
    return NULL;
}

const struct spot_share_player *spot_share_player_find(const char *name, struct spot_err *err)
{
    const struct spot_share_player *p;
    char known[512] = "";

    for (size_t i = 0; (p = spot_share_player_at(i)); i++) {
        if (!strcmp(p->name, name))
            return p;
        snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", *known ? ", " : "",
                 p->name);
    }
    spot_err_set(err, SPOT_EUSAGE, "unknown policy '%.32s'; there are %s", name, known);
    return NULL;
}
