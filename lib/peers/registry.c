/* SPDX-License-Identifier: MIT */
#include "peers/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "peers/evolved.h"
#include "peers/gavel.h"
#include "peers/hadar.h"
#include "peers/serve_peers.h"
#include "peers/share_peers.h"
#include "peers/skynomad.h"
#include "peers/spothedge.h"
#include "peers/train_peers.h"
#include "peers/uniform_progress.h"
#include "sim/fleet_play.h"

/* Rows up to one without a name. */
static const struct table {
    const char *kind;
    const void *row;
    size_t size;
} tables[] = {
    { "train", spot_sim_policies, sizeof(struct spot_sim_policy) },
    { "train", spot_peer_policies, sizeof(struct spot_sim_policy) },
    { "share", spot_share_players, sizeof(struct spot_share_player) },
    { "share", spot_gavel_players, sizeof(struct spot_share_player) },
    { "share", spot_hadar_players, sizeof(struct spot_share_player) },
    { "share", spot_srtf_players, sizeof(struct spot_share_player) },
    { "share", spot_allox_players, sizeof(struct spot_share_player) },
    { "share", spot_pollux_players, sizeof(struct spot_share_player) },
    { "share", spot_gfs_players, sizeof(struct spot_share_player) },
    { "fleet", spot_fleet_players, sizeof(struct spot_fleet_player) },
    { "fleet", spot_fleet_peers, sizeof(struct spot_fleet_player) },
    { "deadline", spot_deadline_policies, sizeof(struct spot_deadline_policy) },
    { "deadline", spot_uniform_progress, sizeof(struct spot_deadline_policy) },
    { "deadline", spot_skynomad, sizeof(struct spot_deadline_policy) },
    { "deadline", spot_evolved, sizeof(struct spot_deadline_policy) },
    { "serve", spot_serve_row, sizeof(struct spot_serve_row) },
};

const void *spot_registry_at(const char *kind, size_t i)
{
    for (size_t k = 0; k < sizeof(tables) / sizeof(tables[0]); k++) {
        const char *at = tables[k].row;

        if (strcmp(tables[k].kind, kind) != 0)
            continue;
        for (; ((const struct spot_registered *)(const void *)at)->name; at += tables[k].size)
            if (!i--)
                return at;
    }
    return NULL;
}

const void *spot_registry_find(const char *kind, const char *name, struct spot_err *err)
{
    const struct spot_registered *p;
    char known[512] = "";

    for (size_t i = 0; (p = spot_registry_at(kind, i)); i++) {
        if (!strcmp(p->name, name))
            return p;
        snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", *known ? ", " : "",
                 p->name);
    }
    spot_err_set(err, SPOT_EUSAGE, "unknown policy '%.32s'; there are %s", name, known);
    return NULL;
}

int spot_registry_read(const char *kind, const char *text, size_t most, const void **row, size_t *n,
                       struct spot_err *err)
{
    const bool is_all = !strcmp(text, "all");
    char *copy = spot_xstrdup(text), *rest = copy, *name = NULL;
    const void *p;
    int rc = 0;

    *n = 0;
    while (!rc && (is_all ? (p = spot_registry_at(kind, *n)) != NULL
                          : (name = strtok_r(rest, ",", &rest)) != NULL)) {
        if (name && !(p = spot_registry_find(kind, name, err)))
            rc = -1;
        else if (*n == most)
            rc = spot_err_set(err, SPOT_EUSAGE, "--policy: more than %zu", most);
        else
            row[(*n)++] = p;
    }
    if (!rc && !*n)
        rc = spot_err_set(err, SPOT_EUSAGE, "--policy names none");
    free(copy);
    return rc;
}
