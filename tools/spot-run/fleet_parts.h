/* SPDX-License-Identifier: MIT */
/* fleet_parts.h - the parts of spot-run fleet. */
#ifndef SPOT_RUN_FLEET_PARTS_H
#define SPOT_RUN_FLEET_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "fleet/controller.h"

/* --- runs commands of the user, several at once, each bounded in time and output --- */

enum {
    FLEET_COMMANDS_AT_ONCE = 16,
    FLEET_COMMAND_ENV = 14,
    FLEET_OUTPUT_MAX = 64 << 20, /* bytes of standard output */
};

struct fleet_command {
    const char *script;           /* sh -c SCRIPT; its standard error is ours */
    char *env[FLEET_COMMAND_ENV]; /* NAME=VALUE, up to a NULL; freed by fleet_command_release */
    size_t out_max;               /* more output ends it */
    struct spot_buf out;          /* its standard output */
    bool is_ok;                   /* it exited with 0, in time, within its output */
    char why[96];                 /* if not */
};

struct fleet_runner;

/* Commands of more than limit_s are killed with all of their process group, and so are all if this
 * process dies. NULL with *err. */
struct fleet_runner *fleet_runner_new(double limit_s, struct spot_err *err);
void fleet_runner_free(struct fleet_runner *runner);
/* Returns when all have ended. */
void fleet_run(struct fleet_runner *runner, struct fleet_command *command, size_t n);
/* One, which must succeed: 0, or -1 with *err that begins with `what`. */
int fleet_run_one(struct fleet_runner *runner, struct fleet_command *command, const char *what,
                  struct spot_err *err);

/* Add NAME=VALUE. */
void fleet_command_set(struct fleet_command *command, const char *name, const char *value);
void fleet_command_release(struct fleet_command *command);

/* --- what the commands of a fleet print, and its catalogue --- */

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

/* --- what a fleet did and saw: events.jsonl and trace.csv in its directory --- */

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

/* --- asks for the plan of a turn: by --plan-command, or by the tools of our own that forecast
 * what is on offer and plan for a load --- */

struct fleet_plan_options {
    const char *command;          /* NULL: ours, with the rest */
    const char *offers;           /* prints the trace of what was on offer so far */
    const char *probes;           /* prints what was asked and granted so far; NULL: nothing was */
    const char *catalogue, *load; /* load: spot.demand/1; NULL: n replicas */
    const char *join;             /* the front, whose requests are the rate; NULL: that of load */
    const char *key_file;         /* of the front; NULL: none */
    double n, availability, cold_s, tick_s;
    const char *dir; /* where plan.json and what plans remember lie; NULL: nothing is kept */
    int dir_fd;
};

struct fleet_plan;

struct fleet_plan *fleet_plan_new(const struct fleet_plan_options *options);
void fleet_plan_free(struct fleet_plan *plan);

/* The plan of now is the fleet's target. Returns 0, or -1 with *err: then it is as before. */
int fleet_plan_make(struct fleet_plan *plan, struct fleet_runner *runner, struct spot_fleet *fleet,
                    struct spot_err *err);

/* --- the page of a fleet, /metrics, /status.json and /history.json --- */

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

#endif /* SPOT_RUN_FLEET_PARTS_H */
