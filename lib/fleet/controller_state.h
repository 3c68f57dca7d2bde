/* SPDX-License-Identifier: MIT */
/* controller_state.h - shared by the parts of the controller. */
#ifndef SPOT_FLEET_CONTROLLER_STATE_H
#define SPOT_FLEET_CONTROLLER_STATE_H

#include "fleet/controller.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fleet_market {
    char *zone, *type;
    bool is_on_demand;
    int64_t target;   /* number of machines in the plan */
    double usd_per_h; /* NAN: unknown */
    int refusals;     /* number of refusals since it last had all its machines */
    bool is_refused;  /* on-demand machines stand in for it */
    double retry_s;
    /* results of the last decision */
    int64_t want, running, starting, leaving;
    bool is_asked; /* a launch is in progress */
};

/* A launch whose result is not known. */
struct spot_fleet_intent {
    char *token;
    size_t market;
    int64_t count, seen; /* seen: number of machines with its token */
    double asked_s, retry_s;
    int tries;  /* failed tries; 0: its command may not have run */
    int missed; /* number of lists since the last try */
};

enum spot_fleet_phase {
    SPOT_FLEET_STAYS,
    SPOT_FLEET_UNTOLD, /* drain requested, but not confirmed */
    SPOT_FLEET_DRAINING,
    SPOT_FLEET_ENDING
};

struct spot_fleet_machine {
    char *id, *token;
    size_t market; /* as listed, or as requested while it is not listed */
    size_t home;   /* the market that counts it */
    enum spot_fleet_phase phase;
    enum spot_fleet_life life;
    bool is_listed,
        was_asked; /* was_asked: `market` is the requested one, not yet confirmed by a list */
    bool is_wrong, is_foreign; /* is_foreign: its launch reported it, but the list has the token of
                                  another fleet */
    int missed;
    double life_s;  /* when it was first listed, or while never listed, when it was first known */
    double phase_s; /* start of its phase */
    double retry_s; /* earliest time of the next try to drain or terminate it */
    int tries;      /* failed tries in its phase */
};

struct spot_fleet {
    struct spot_fleet_setting set;
    uint64_t id, n_token;            /* n_token: the number of the last token */
    double now_s, first_s, before_s; /* before_s: time of earlier processes */
    double missing_usd;              /* price per hour of machines that the money limit prevented */
    struct spot_fleet_market *market;
    size_t n_market, cap_market;
    struct spot_fleet_machine *machine; /* by id */
    size_t n_machine, cap_machine;
    struct spot_fleet_intent *intent;
    size_t n_intent, cap_intent;
};

/* Parse sixteen hexadecimal digits at the beginning of the text. */
bool spot_fleet_read_id(const char *text, uint64_t *id);
/* Index of a market, which is added if new; SIZE_MAX with *err. */
size_t spot_fleet_market_of(struct spot_fleet *fleet, const char *zone, const char *type,
                            bool is_on_demand, struct spot_err *err);
/* Set the current time; an earlier time is ignored. */
void spot_fleet_tell_time(struct spot_fleet *fleet, double now_s);
struct spot_fleet_machine *spot_fleet_add_machine(struct spot_fleet *fleet, const char *id,
                                                  const char *token, size_t market);
struct spot_fleet_machine *spot_fleet_find(const struct spot_fleet *fleet, const char *id);
void spot_fleet_sort(struct spot_fleet *fleet);
/* Count the machines of each market that are running, starting and leaving. */
void spot_fleet_count(struct spot_fleet *fleet);
struct spot_fleet_intent *spot_fleet_add_intent(struct spot_fleet *fleet, const char *token,
                                                size_t market, int64_t count);
void spot_fleet_drop_intent(struct spot_fleet *fleet, struct spot_fleet_intent *intent);
/* Price of a market, or of its type in any zone; NAN: unknown. */
double spot_fleet_usd(const struct spot_fleet *fleet, const struct spot_fleet_market *market);
/* The same, with the highest known price if there is none; for the money limit. */
double spot_fleet_usd_at_most(const struct spot_fleet *fleet,
                              const struct spot_fleet_market *market);
/* The market refused: pause it for longer than the last time. */
void spot_fleet_refused(struct spot_fleet *fleet, struct spot_fleet_market *market);
void spot_fleet_note(const struct spot_fleet *fleet, const char *event, const char *machine,
                     const char *fmt, ...) SPOT_PRINTF(4, 5);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FLEET_CONTROLLER_STATE_H */
