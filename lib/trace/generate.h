/* SPDX-License-Identifier: MIT */
/* generate.h - a seeded model of spot availability over zones and regions.
 *
 * Each zone is a count 0..cap that losses push down and recoveries push up, both
 * in batches. Losses cluster in busy spells of heavy-tailed length, half of them
 * common to the region, and regional shocks hit several zones at once. The model
 * advances in steps of at most a minute whatever the interval that is looked at,
 * and no zone's random numbers depend on how many others there are.
 * docs/design/04-generate.md has the equations and their sources.
 */
#ifndef SPOT_TRACE_GENERATE_H
#define SPOT_TRACE_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/rng.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_GENERATE_ZONES_MAX = 1024, SPOT_GENERATE_CAP_MAX = 65536 };

/* Rates are per zone, averaged over busy and quiet time. A full zone has loss_per_h losses, an
 * empty one gain_per_h recoveries, others in proportion. In a busy spell losses are `burst` times
 * as frequent, and recoveries `burst` times as rare. */
struct spot_trace_model {
    double loss_per_h, loss_mean,
        loss_all; /* events; machines per event; share of events that take all */
    double gain_per_h, gain_mean, gain_all; /* the same; share of events that restore the cap */
    double burst;                           /* busy over quiet, >= 1 */
    double busy_share, busy_common; /* share of time, 0..0.9; the part of it common to a region */
    double busy_mean_s;             /* length of a busy spell */
    double outage_mean_s;           /* time without recoveries after all is lost */
    double tail;                    /* Pareto exponent of both lengths, > 1; heavier when smaller */
    /* shocks per hour of a region; share of its zones that are hit */
    double shock_per_h, shock_reach;
};

/* The model of a profile, calm, typical or stormy, for zones of `cap` machines.
 * Returns 0, or -1 with *err (SPOT_EUSAGE) if there is no such profile. */
int spot_trace_model_profile(const char *name, int32_t cap, struct spot_trace_model *model,
                             struct spot_err *err);

/* One of its parameters by name ("loss_per_h"); the list ends with NULL. */
struct spot_trace_model_field {
    const char *name, *meaning;
    size_t offset;
    double min, max;
};
extern const struct spot_trace_model_field spot_trace_model_field[];

/* Check every parameter. Returns 0, or -1 with *err (SPOT_EUSAGE). */
int spot_trace_model_check(const struct spot_trace_model *model, struct spot_err *err);

struct spot_spell { /* an alternating renewal process */
    double until_s;
    bool is_on;
};

struct spot_gen_zone {
    int32_t available;
    size_t region;
    struct spot_rng rng;
    struct spot_spell busy;
    double outage_until_s;
};

struct spot_gen_region {
    struct spot_rng rng;
    struct spot_spell busy;
    double severity; /* severity of this step's shock, 0 without one */
};

struct spot_generator {
    struct spot_trace_model model;
    int32_t cap;
    double time_s;
    size_t n_zone, n_region;
    struct spot_gen_zone *zone;     /* [n_zone] */
    struct spot_gen_region *region; /* [n_region] */
};

/* Zones are spread over the regions in order. The model has run for a day before
 * time 0, so a trace does not start from a full cloud. model must pass the check,
 * 1 <= n_region <= n_zone <= SPOT_GENERATE_ZONES_MAX, 1 <= cap <= SPOT_GENERATE_CAP_MAX. */
void spot_generator_init(struct spot_generator *gen, const struct spot_trace_model *model,
                         size_t n_zone, size_t n_region, int32_t cap, uint64_t seed);

/* Advance by interval_s, > 0 and at most a day; zone[i].available holds at the new time.
 *   net [n_zone]  machines lost and gained in the interval per zone; may be NULL */
struct spot_gen_net {
    int32_t lost, gained; /* both may be more than 0 in an interval above a minute */
};
void spot_generator_step(struct spot_generator *gen, double interval_s, struct spot_gen_net *net);

void spot_generator_release(struct spot_generator *gen);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_GENERATE_H */
