/* SPDX-License-Identifier: MIT */
/* fleet_log.h - what a fleet did and saw: events.jsonl and trace.csv in its directory. */
#ifndef SPOT_RUN_FLEET_LOG_H
#define SPOT_RUN_FLEET_LOG_H

#include "common/err.h"
#include "fleet/controller.h"

struct fleet_log;

/* Both are appended to; a last line that a crash cut is dropped. NULL with *err. */
struct fleet_log *fleet_log_new(int dir_fd, struct spot_err *err);
/* Returns 0, or -1 with *err if something could not be written. */
int fleet_log_free(struct fleet_log *log, struct spot_err *err);

/* Why the log could not be written for the first time; NULL: it could, or that was asked before. */
const char *fleet_log_failure(struct fleet_log *log);

/* A turn begins at this time of the fleet's life; a note of the last turn is not written again. */
void fleet_log_turn(struct fleet_log *log, double time_s);
/* An event; returns whether it is news. machine, why may be NULL. */
bool fleet_log_note(struct fleet_log *log, const char *event, const char *machine, const char *why);
void fleet_log_action(struct fleet_log *log, const struct spot_fleet_action *action);
/* The counts of spot markets, where they changed. */
void fleet_log_counts(struct fleet_log *log, const struct spot_fleet *fleet);

const char *fleet_verb_name(enum spot_fleet_verb verb);
const char *fleet_market_name(bool is_on_demand);

#endif /* SPOT_RUN_FLEET_LOG_H */
