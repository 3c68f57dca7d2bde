/* SPDX-License-Identifier: MIT */
/* controller_state.h - what the parts of the controller share. */
#ifndef SPOT_FLEET_CONTROLLER_STATE_H
#define SPOT_FLEET_CONTROLLER_STATE_H

#include "fleet/controller.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fleet_market {
    char *zone, *type;
    bool is_on_demand;
    int64_t target;   /* of the plan */
    double usd_per_h; /* NAN: unknown */
    int refusals;     /* since it last had what it should have */
    bool is_refused;  /* others stand in */
    double retry_s;
    /* of the last decision */
    int64_t want, running, starting, leaving;
    bool is_asked; /* a launch of it is under way */
};

/* A launch of which it is not known what it did. */
struct spot_fleet_intent {
    char *token;
    size_t market;
    int64_t count, seen; /* seen: machines with its token */
    double asked_s, retry_s;
    int tries;  /* that failed; 0: its command is not known to have run */
    int missed; /* lists since the last try */
};

enum spot_fleet_phase {
    SPOT_FLEET_STAYS,
    SPOT_FLEET_UNTOLD, /* to be drained, and not known to have been told */
    SPOT_FLEET_DRAINING,
    SPOT_FLEET_ENDING
};

struct spot_fleet_machine {
    char *id, *token;
    size_t market; /* as listed, or as asked for while it is not listed */
    size_t home;   /* the market that counts it */
    enum spot_fleet_phase phase;
    enum spot_fleet_life life;
    bool is_listed, was_asked; /* was_asked: `market` was asked for, and may prove wrong */
    bool is_wrong, is_foreign; /* is_foreign: its launch named it, the list has it as another's */
    int missed;
    double life_s;  /* in its life since; known since, while it was never listed */
    double phase_s; /* in its phase since */
    double retry_s; /* drained or ended again not before */
    int tries;      /* of its phase that failed */
};

struct spot_fleet {
    struct spot_fleet_setting set;
    uint64_t id, n_token;            /* n_token: the number of the last token */
    double now_s, first_s, before_s; /* before_s: of earlier lives */
    double missing_usd; /* what machines would cost that the bound of money kept back */
    struct spot_fleet_market *market;
    size_t n_market, cap_market;
    struct spot_fleet_machine *machine; /* by id */
    size_t n_machine, cap_machine;
    struct spot_fleet_intent *intent;
    size_t n_intent, cap_intent;
};

/* Sixteen hexadecimal digits at the begin of the text. */
bool spot_fleet_read_id(const char *text, uint64_t *id);
/* Its index, made if it is new; SIZE_MAX with *err. */
size_t spot_fleet_market_of(struct spot_fleet *fleet, const char *zone, const char *type,
                            bool is_on_demand, struct spot_err *err);
/* Time goes on, never back. */
void spot_fleet_tell_time(struct spot_fleet *fleet, double now_s);
struct spot_fleet_machine *spot_fleet_add_machine(struct spot_fleet *fleet, const char *id,
                                                  const char *token, size_t market);
struct spot_fleet_machine *spot_fleet_find(const struct spot_fleet *fleet, const char *id);
void spot_fleet_sort(struct spot_fleet *fleet);
/* How many of each market run, start and leave. */
void spot_fleet_count(struct spot_fleet *fleet);
struct spot_fleet_intent *spot_fleet_add_intent(struct spot_fleet *fleet, const char *token,
                                                size_t market, int64_t count);
void spot_fleet_drop_intent(struct spot_fleet *fleet, struct spot_fleet_intent *intent);
/* Its price, or that of its type in any zone; NAN. */
double spot_fleet_usd(const struct spot_fleet *fleet, const struct spot_fleet_market *market);
/* What counts against the bound where there is no price: the dearest that is known. */
double spot_fleet_usd_at_most(const struct spot_fleet *fleet,
                              const struct spot_fleet_market *market);
/* The market refused: leave it alone for longer than the last time. */
void spot_fleet_refused(struct spot_fleet *fleet, struct spot_fleet_market *market);
void spot_fleet_note(const struct spot_fleet *fleet, const char *event, const char *machine,
                     const char *fmt, ...) SPOT_PRINTF(4, 5);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FLEET_CONTROLLER_STATE_H */
