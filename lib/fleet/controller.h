/* SPDX-License-Identifier: MIT */
/* controller.h - keeps a fleet at its plan: which machines to launch, drain and terminate.
 *
 * A state machine without clock or input: its inputs are the target, the prices, the cloud's list
 * and the results of its commands; its outputs are the next actions. Times are seconds of one clock
 * that the caller reads; a time before the last one counts as the last one, and the cloud's clock
 * is not used. A run of the controller may be a single turn; waiting times continue over restarts.
 *
 * Promises, which tests/unit/test_controller.c holds through a death at every point (fleet/tick.h):
 *
 * - A launch has a token, which is saved before its command runs. While its result is unknown, it
 * counts as machines and as money, and is repeated only with that token, for which the cloud
 * launches once. So no machine is bought twice.
 * - A token is NAME-ID-number, where ID identifies the fleet's state and never changes. Each listed
 * machine with such a token belongs to the fleet, even if its launch is not recorded: it is
 * counted, or terminated. Other machines are never touched.
 * - A machine is gone when the list says so, or when two lists in a row lack it; one that was never
 * listed, only after settle_s as well.
 * - Held and requested machines cost at most max_usd_per_h at the latest prices. Machines that a
 * command launched beyond its count are terminated in the next tick.
 * - Machines beyond the target stay until as many run as the target has, except those whose money
 * is needed for others. A machine of another zone, type or market than requested is terminated at
 * once, and its market has a pause.
 * - A market that refuses has a pause, which is longer each time; meanwhile on-demand machines of
 * its zone and type stand in for spot ones if they have a price, until the spot ones run.
 */
#ifndef SPOT_FLEET_CONTROLLER_H
#define SPOT_FLEET_CONTROLLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "model/plan_buy.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_FLEET_NAME_MAX = 32,     /* bytes of a fleet's name */
    SPOT_FLEET_TOKEN_MAX = 72,    /* of a token with its NUL: NAME-ID-number */
    SPOT_FLEET_ID_MAX = 16,       /* hexadecimal digits of an identity */
    SPOT_FLEET_TEXT_MAX = 255,    /* bytes of an id, a zone, a type */
    SPOT_FLEET_MACHINES = 100000, /* of the fleet */
    SPOT_FLEET_MARKETS = 4096,
    SPOT_FLEET_LAUNCH = 1000, /* machines of one launch */
};

struct spot_fleet_setting {
    const char *name;     /* borrowed; see spot_fleet_read_name */
    bool has_id;          /* a state of another identity is refused */
    double max_usd_per_h; /* INFINITY: no bound */
    bool has_drain; /* machines are told to leave grace_s before they are terminated; repeated until
                       confirmed */
    double grace_s;
    double settle_s; /* time until machines of a command must be listed */
    double start_s;  /* time until a listed machine must run, or a leaving one be gone */
    double pause_s;  /* after a first refusal; doubles up to longest_s */
    double longest_s;
    /* Reports an event other than an action: launched, adopted, appeared, gone, wrong, twice,
     * stranger, unknown, refused, too_many, given_up, not_told, held. `machine` may be NULL, and so
     * may this.
     */
    void (*note)(void *user, const char *event, const char *machine, const char *why);
    void *user;
    /* Wall clock time at spot_fleet_new, in seconds; used only to continue the times of a saved
     * state. */
    double wall_s;
};

enum spot_fleet_life {
    SPOT_FLEET_STARTING,
    SPOT_FLEET_RUNNING,
    SPOT_FLEET_LEAVING,
    SPOT_FLEET_GONE
};

/* A machine in a list. */
struct spot_fleet_listed {
    const char *id, *token, *zone, *type;
    bool is_on_demand;
    enum spot_fleet_life life;
};

enum spot_fleet_verb { SPOT_FLEET_LAUNCHES, SPOT_FLEET_DRAINS, SPOT_FLEET_ENDS };

/* Strings are borrowed from the controller until its next call. */
struct spot_fleet_action {
    enum spot_fleet_verb verb;
    const char *token, *id; /* id: NULL for a launch */
    const char *zone, *type;
    bool is_on_demand;
    int64_t count; /* number of machines of a launch */
    const char *why;
};

/* A market, for a table. */
struct spot_fleet_market_view {
    const char *zone, *type;
    bool is_on_demand, is_refused;
    int64_t target, running, starting, leaving; /* starting: launches in progress included */
    double usd_per_h;                           /* NAN: unknown */
    double pause_s;                             /* until the next try, 0: none */
};

struct spot_fleet_total {
    int64_t target, running, held; /* held: machines and launches under way */
    double usd_per_h;              /* of held machines */
    double on_demand_usd_per_h;    /* the same at on-demand prices, if known */
};

struct spot_fleet;

/* NAME, or NAME-ID. NAME: letters, digits and '_', at most SPOT_FLEET_NAME_MAX; ID: 16 hexadecimal
 * digits in lower case. *id is set if *has_id. */
bool spot_fleet_read_name(const char *text, char name[SPOT_FLEET_NAME_MAX + 1], bool *has_id,
                          uint64_t *id);

/* Create a controller. `id` is the fleet's identity, unless a saved state is read, which has
 * one. */
struct spot_fleet *spot_fleet_new(const struct spot_fleet_setting *setting, uint64_t id,
                                  double now_s);
void spot_fleet_free(struct spot_fleet *fleet);

/* A new target; rows of one market add up. Returns 0, or -1 with *err (SPOT_EDATA) and nothing
 * changed: too many markets, a text that is too long or not plain, too many machines. */
int spot_fleet_set_target(struct spot_fleet *fleet, const struct spot_plan_buy *buy, size_t n,
                          struct spot_err *err);
/* Zone "" prices all zones that have no price of their own. */
int spot_fleet_price(struct spot_fleet *fleet, const char *zone, const char *type,
                     bool is_on_demand, double usd_per_h, struct spot_err *err);

bool spot_fleet_is_own(const struct spot_fleet *fleet, const char *token);
/* A whole list. Machines of others are passed over and counted in *n_foreign (may be NULL). Returns
 * 0; or -1 with *err and no change: SPOT_EDATA for too many machines or markets. */
int spot_fleet_observe(struct spot_fleet *fleet, double now_s,
                       const struct spot_fleet_listed *listed, size_t n, size_t *n_foreign,
                       struct spot_err *err);

/* Decide the next actions; save the state before running them. The caller frees *action. Returns
 * their number. */
size_t spot_fleet_decide(struct spot_fleet *fleet, double now_s, struct spot_fleet_action **action);

/* Record the result of a launch. `is_known`: it reported its machines id[n]; fewer than requested
 * means that no more are available. Otherwise it is unknown whether it launched. */
void spot_fleet_launched(struct spot_fleet *fleet, double now_s, const char *token, bool is_known,
                         char *const *id, size_t n);
/* Record that draining or terminating a machine succeeded or failed. */
void spot_fleet_told(struct spot_fleet *fleet, double now_s, const struct spot_fleet_action *action,
                     bool is_done);

size_t spot_fleet_n_market(const struct spot_fleet *fleet);
void spot_fleet_view(const struct spot_fleet *fleet, size_t i, struct spot_fleet_market_view *view);
struct spot_fleet_total spot_fleet_total(const struct spot_fleet *fleet);
/* Seconds since the fleet was created, over all restarts. */
double spot_fleet_elapsed_s(const struct spot_fleet *fleet);

/* The state as text, to be freed; and a new controller's state from it. A text that was cut,
 * changed or is of another fleet is SPOT_EDATA. */
char *spot_fleet_write_state(const struct spot_fleet *fleet, size_t *n_byte);
int spot_fleet_read_state(struct spot_fleet *fleet, const char *text, size_t n_byte,
                          const char *source, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FLEET_CONTROLLER_H */
