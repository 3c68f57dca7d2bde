/* SPDX-License-Identifier: MIT */
#include "cluster/find_leader.h"

#include <stdio.h>
#include <string.h>

#include "cluster/store_etcd.h"

static const double patience_s = 3; /* limit per member of the store */

bool spot_leader_is_stored(const char *join)
{
    return !strncmp(join, "etcd://", 7);
}

static int ask(const char *join, struct spot_etcd_entry *leader, struct spot_err *err)
{
    struct spot_etcd_where where;
    struct spot_etcd *store;
    int rc;

    if (spot_etcd_where_parse(join, &where, err))
        return -1;
    store = spot_etcd_open(&where, patience_s * (double)where.n_url, err);
    if (!store)
        return -1;
    rc = spot_etcd_leader(store, leader, err);
    spot_etcd_close(store);
    return rc;
}

const char *spot_leader_find(const char *join, char text[SPOT_ADDRESS_MAX + 8],
                             struct spot_err *err)
{
    struct spot_etcd_entry leader;
    int rc;

    if (!spot_leader_is_stored(join))
        return join;
    rc = ask(join, &leader, err);
    if (rc < 0)
        return NULL;
    if (!rc || leader.n_byte >= SPOT_ADDRESS_MAX + 8) {
        spot_err_set(err, SPOT_ESYS, "no coordinator leads the job at %.200s", join);
        return NULL;
    }
    memcpy(text, leader.value, leader.n_byte + 1);
    return text;
}
