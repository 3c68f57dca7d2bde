/* SPDX-License-Identifier: MIT */
/* fleet_watch.h - the page of a fleet, /metrics, /status.json and /history.json. */
#ifndef SPOT_RUN_FLEET_WATCH_H
#define SPOT_RUN_FLEET_WATCH_H

#include <stdbool.h>

#include "common/err.h"
#include "fleet/controller.h"

struct fleet_watch;

/* What a page tells of a turn. */
struct fleet_watch_turn {
    const struct spot_fleet *fleet;
    const char *name;
    double max_usd_per_h;  /* INFINITY: no bound */
    int64_t wanted;        /* replicas; -1: as the plan says */
    int dir_fd;            /* plan.json and forecast.json are there, if they are */
    double took_s, plan_s; /* plan_s: when the newest plan was made; 0: never */
    const char *failure;   /* NULL: it succeeded */
};

/* Starts listening. NULL with *err. */
struct fleet_watch *fleet_watch_new(const char *address, struct spot_err *err);
void fleet_watch_free(struct fleet_watch *page); /* may be NULL, and so may `page` below */
const char *fleet_watch_url(const struct fleet_watch *page);

/* What happened, and why: of machine `node`, which may be NULL, or n of `what`. */
void fleet_watch_note(struct fleet_watch *page, double time_s, const char *event, const char *node,
                      const char *why);
void fleet_watch_action(struct fleet_watch *page, double time_s,
                        const struct spot_fleet_action *action);
/* A turn ended. */
void fleet_watch_show(struct fleet_watch *page, const struct fleet_watch_turn *turn);
/* Between turns: what could not be published yet, is. */
void fleet_watch_rest(struct fleet_watch *page);

#endif /* SPOT_RUN_FLEET_WATCH_H */
