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

/* --- runs user commands, several at once, each with limits on time and output --- */

enum {
    FLEET_COMMANDS_AT_ONCE = 16,
    FLEET_COMMAND_ENV = 14,
    FLEET_OUTPUT_MAX = 64 << 20, /* bytes of standard output */
};

struct fleet_command {
    const char *script;           /* sh -c SCRIPT; its standard error is ours */
    char *env[FLEET_COMMAND_ENV]; /* NAME=VALUE, up to a NULL; freed by fleet_command_release */
    size_t out_max;               /* a command with more output is killed */
    struct spot_buf out;          /* its standard output */
    bool is_ok;                   /* exited with 0, within its limits on time and output */
    char why[96];                 /* reason if not */
};

struct fleet_runner;

/* A command that runs for more than limit_s is killed with its process group, and so are all if
 * this process dies. NULL with *err. */
struct fleet_runner *fleet_runner_new(double limit_s, struct spot_err *err);
void fleet_runner_free(struct fleet_runner *runner);
/* Returns when all commands have ended. */
void fleet_run(struct fleet_runner *runner, struct fleet_command *command, size_t n);
/* Run one command, which must succeed. Returns 0, or -1 with *err that begins with `what`. */
int fleet_run_one(struct fleet_runner *runner, struct fleet_command *command, const char *what,
                  struct spot_err *err);

/* Add NAME=VALUE. */
void fleet_command_set(struct fleet_command *command, const char *name, const char *value);
void fleet_command_release(struct fleet_command *command);

/* --- output of the commands of a fleet, and its catalogue --- */

/* A list of machines; zeroed at first. */
struct fleet_list {
    const struct spot_fleet *fleet; /* machines of other owners are not checked */
    struct spot_fleet_listed *listed;
    size_t n, cap;
};

/* CSV: id, token, zone, instance_type, market, state. Returns 0, or -1 with *err and the list
 * unchanged. */
int fleet_read_list(struct fleet_list *list, const struct spot_buf *text, struct spot_err *err);
void fleet_list_release(struct fleet_list *list);

/* The ids printed by a launch, one per line. Returns 0, or -1 if the output is not valid. */
int fleet_read_ids(const struct spot_buf *text, char ***id, size_t *n);

/* Prices of a catalogue. */
int fleet_read_prices(struct spot_fleet *fleet, const char *path, struct spot_err *err);

/* --- the history of a fleet: events.jsonl and trace.csv in its directory --- */

struct fleet_log;

/* Both files are appended to; an incomplete last line left by a crash is removed. NULL with *err.
 */
struct fleet_log *fleet_log_new(int dir_fd, struct spot_err *err);
/* Returns 0, or -1 with *err if something could not be written. */
int fleet_log_free(struct fleet_log *log, struct spot_err *err);

/* Returns once why the log could not be written, for the first failure; NULL: no failure, or
 * reported before. */
const char *fleet_log_failure(struct fleet_log *log);

/* Begin a turn at this time since the fleet began; a note that repeats one of the last turn is not
 * written again. */
void fleet_log_turn(struct fleet_log *log, double time_s);
/* Log an event; returns whether it is new. machine and why may be NULL. */
bool fleet_log_note(struct fleet_log *log, const char *event, const char *machine, const char *why);
void fleet_log_action(struct fleet_log *log, const struct spot_fleet_action *action);
/* Log the counts of spot markets that changed. */
void fleet_log_counts(struct fleet_log *log, const struct spot_fleet *fleet);

const char *fleet_verb_name(enum spot_fleet_verb verb);
const char *fleet_market_name(bool is_on_demand);

/* --- obtains the plan of a turn: from --plan-command, or from our own tools, which forecast the
 * offers and plan for a load --- */

struct fleet_plan_options {
    const char *command;          /* NULL: our own tools, with the options below */
    const char *offers;           /* prints the trace of offers so far */
    const char *probes;           /* prints the probes and their answers so far; NULL: none */
    const char *catalogue, *load; /* load: spot.demand/1; NULL: a fixed number of replicas */
    /* the front, whose request rate is used; NULL: the rate of `load` */
    const char *join;
    const char *key_file; /* key of the front; NULL: none */
    double n, availability, cold_s, tick_s;
    const char *dir; /* directory of plan.json and of the state of plans; NULL: nothing is stored */
    int dir_fd;
};

struct fleet_plan;

struct fleet_plan *fleet_plan_new(const struct fleet_plan_options *options);
void fleet_plan_free(struct fleet_plan *plan);

/* Make the current plan the target of the fleet. Returns 0, or -1 with *err and the target
 * unchanged. */
int fleet_plan_make(struct fleet_plan *plan, struct fleet_runner *runner, struct spot_fleet *fleet,
                    struct spot_err *err);

/* --- the page of a fleet, /metrics, /status.json and /history.json --- */

struct fleet_watch;

/* What the page shows of a turn. */
struct fleet_watch_turn {
    const struct spot_fleet *fleet;
    const char *name;
    double max_usd_per_h;  /* INFINITY: no limit */
    int64_t wanted;        /* number of replicas; -1: from the plan */
    int dir_fd;            /* directory that may contain plan.json and forecast.json */
    double took_s, plan_s; /* plan_s: time of the newest plan; 0: none */
    const char *failure;   /* NULL: the turn succeeded */
};

/* Starts listening. NULL with *err. */
struct fleet_watch *fleet_watch_new(const char *address, struct spot_err *err);
void fleet_watch_free(struct fleet_watch *page); /* may be NULL, like `page` below */
const char *fleet_watch_url(const struct fleet_watch *page);

/* Record an event and its reason: of machine `node` (may be NULL), or of n machines of `what`. */
void fleet_watch_note(struct fleet_watch *page, double time_s, const char *event, const char *node,
                      const char *why);
void fleet_watch_action(struct fleet_watch *page, double time_s,
                        const struct spot_fleet_action *action);
/* Publish a turn that has ended. */
void fleet_watch_show(struct fleet_watch *page, const struct fleet_watch_turn *turn);
/* Between turns: publish a page that could not be published before. */
void fleet_watch_rest(struct fleet_watch *page);

#endif /* SPOT_RUN_FLEET_PARTS_H */
