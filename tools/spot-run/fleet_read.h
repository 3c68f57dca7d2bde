/* SPDX-License-Identifier: MIT */
/* fleet_read.h - what the commands of a fleet print, and its catalogue. */
#ifndef SPOT_RUN_FLEET_READ_H
#define SPOT_RUN_FLEET_READ_H

#include "common/buf.h"
#include "fleet/controller.h"

/* A list; zeroed at first. */
struct fleet_list {
    const struct spot_fleet *fleet; /* what others' machines are like is not looked at */
    struct spot_fleet_listed *listed;
    size_t n, cap;
};

/* CSV: id, token, zone, instance_type, market, state. Returns 0, or -1 with *err: then the list is
 * as before. */
int fleet_read_list(struct fleet_list *list, const struct spot_buf *text, struct spot_err *err);
void fleet_list_release(struct fleet_list *list);

/* The ids that a launch printed, a line each. Returns 0, or -1: it is rubbish. */
int fleet_read_ids(const struct spot_buf *text, char ***id, size_t *n);

/* Prices of a catalogue. */
int fleet_read_prices(struct spot_fleet *fleet, const char *path, struct spot_err *err);

#endif /* SPOT_RUN_FLEET_READ_H */
