/* SPDX-License-Identifier: MIT */
/* The decision of a fleet of replicas. What may run when a launch of now answers is a set of slots
 * (zone, how many are there), each of which is still there then as the forecast has it. Slots of a
 * zone fall together, the highest first; zones of a region fall by its shock, regions apart. Of all
 * fleets that answer now as well as what runs allows, the one with the least price + worth * P(not
 * served then) is taken. The worth of a tick rises with each that is missed and falls else, so that
 * as many are missed as the aim allows, however wrong the forecast is; what was missed until it had
 * risen is made up for. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/decision.h"
#include "trace/region.h"

enum {
    SPARES_MAX = 16, /* replicas more than are wanted that are looked at */
    PAST_MAX = 32,   /* ticks of a cold start that are remembered */
    TICKS_MAX = 64,  /* that one decision stands for at most */
};
/* Gain and start: the first half of avail-1-node-aws-02-15-2023, 1 to 3 replicas, aims of .998 to
 * .9995 (gains of 3e-4 to 2e-3, starts of .2 and .5). */
static const double worth_gain = 2e-3, worth_first = 0.5, worth_least = 1.25, worth_most = 1e5;
/* Of the factor on the load: hand-set in 2025, not tuned on the traces of the results. */
static const double factor_first = 1.2, factor_most = 4, factor_gain = 0.1;

/* State kept from the previous decision. */
struct past {
    double time_s, worth; /* worth of a served tick, in ticks of the cheapest spot; 0: not begun */
    double owed;          /* ticks whose allowance was used in advance; < 0: allowance left */
    double factor;        /* on the load */
    int is_short;         /* fewer answered than were due */
    int n, wanted[PAST_MAX]; /* the newest first */
};

struct slot {
    size_t zone;
    int level;       /* of its zone */
    bool is_there;   /* it runs */
    bool is_kept;    /* it answers now and is needed */
    bool is_refused; /* a request for it would be, more likely than not */
    double last;     /* P(there when a launch of now is ready) */
};

struct spot_decider {
    struct spot_hold_rule rule;
    struct spot_hold_now now;
    const struct spot_forecast *forecast;
    double time_s;
    struct past past;
    double cheapest;   /* usd per h */
    struct slot *slot; /* [n_slot], the ones to take first in front */
    size_t n_slot, n_kept, cap_slot;
    int taken[SPOT_HOLD_ZONES_MAX];
    int region[SPOT_HOLD_ZONES_MAX];        /* of the forecast; -1: none */
    double sum[SPOT_HOLD_REPLICAS_MAX + 1]; /* P(that many survive), the last: or more */
};

static struct spot_decider *hold_open(const struct spot_rule *rule)
{
    struct spot_decider *d = spot_xcalloc(1, sizeof(*d));

    d->rule = *rule->fleet;
    return d;
}

static void hold_close(struct spot_decider *d)
{
    free(d->slot);
    free(d);
}

/* The region whose zones are lost together that has a series; -1: none. */
static int region_of(const struct spot_forecast *f, const struct spot_forecast_series *s)
{
    for (size_t r = 0; r < f->n_region; r++)
        if (f->region[r].shock_prob > 0 && f->region[r].shock_prob < 1 &&
            !strcmp(f->region[r].instance_type, s->instance_type) &&
            strlen(f->region[r].region) == spot_region_length(s->zone) &&
            !strncmp(f->region[r].region, s->zone, spot_region_length(s->zone)))
            return (int)r;
    return -1;
}

static int hold_observe(struct spot_decider *d, const struct spot_seen *seen, struct spot_err *err)
{
    const struct spot_forecast *f = seen->forecast;

    if (!f || !f->n_series || f->n_series > SPOT_HOLD_ZONES_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "a fleet needs a forecast of 1 to %d series",
                            SPOT_HOLD_ZONES_MAX);
    d->forecast = f;
    d->now = *seen->fleet;
    d->time_s = seen->time_s;
    d->cheapest = d->now.usd_per_h[0];
    for (size_t z = 0; z < f->n_series; z++) {
        d->cheapest = fmin(d->cheapest, d->now.usd_per_h[z]);
        d->region[z] = region_of(f, &f->series[z]);
    }
    return 0;
}

/* P(more than `level` are there in every tick until a launch of now answers), at most. */
static double lasts(const struct spot_decider *d, size_t zone, int level)
{
    const struct spot_forecast_series *s = &d->forecast->series[zone];
    const int cold = d->now.cold ? d->now.cold[zone] : d->rule.cold;
    const int64_t until = cold < 1 ? 1 : cold < d->forecast->horizon ? cold : d->forecast->horizon;
    double least = 1;

    for (int64_t h = 1; h <= until; h++) {
        const double *prob = spot_forecast_at(s, h);
        double fewer = 0;

        for (int n = 0; n <= level && n <= s->cap; n++)
            fewer += prob[n];
        least = fmin(least, fmax(0, 1 - fewer));
    }
    return least;
}

/* That a request for one more of a zone is granted. */
static double granted(const struct spot_decider *d, size_t zone)
{
    const struct spot_forecast_start *start = d->forecast->series[zone].start;

    return start ? start->granted : 1;
}

static void add_slots(struct spot_decider *d, size_t zone, int limit)
{
    const int64_t now = d->forecast->series[zone].now;
    const int room = now < limit ? (int)now : limit;

    d->slot = spot_xgrow(d->slot, &d->cap_slot, d->n_slot + (size_t)room + 1, sizeof(*d->slot));
    for (int level = 0; level < room; level++) {
        const bool is_there = level < d->now.spot[zone];

        d->slot[d->n_slot++] =
            (struct slot){ .zone = zone,
                           .level = level,
                           .is_there = is_there,
                           .is_refused = !is_there && granted(d, zone) < 0.5,
                           .last = lasts(d, zone, level) * (is_there ? 1 : granted(d, zone)) };
    }
}

/* Longest expected lifetime first; among equals running ones. */
static int by_last(const struct slot *x, const struct slot *y)
{
    if (x->last != y->last)
        return x->last > y->last ? -1 : 1;
    if (x->is_there != y->is_there)
        return x->is_there ? -1 : 1;
    return x->zone != y->zone ? (x->zone < y->zone ? -1 : 1)
                              : (x->level > y->level) - (x->level < y->level);
}

/* Order of slots: those that answer now first, then the best of each zone before the second of any,
 * since slots of a zone are lost together. Zones that refused a request come last. */
static int by_use(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;

    if (x->is_kept != y->is_kept)
        return x->is_kept ? -1 : 1;
    if (x->is_refused != y->is_refused)
        return x->is_refused ? 1 : -1;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    return by_last(x, y);
}

static int keep_first(const void *a, const void *b)
{
    return by_last(a, b);
}

static void list_slots(struct spot_decider *d)
{
    d->n_slot = d->n_kept = 0;
    for (size_t z = 0; z < d->forecast->n_series; z++)
        add_slots(d, z, 2 * d->now.wanted > d->now.spot[z] ? 2 * d->now.wanted : d->now.spot[z]);
    if (d->n_slot)
        qsort(d->slot, d->n_slot, sizeof(*d->slot), keep_first);
    for (size_t i = 0; i < d->n_slot && (int)d->n_kept < d->now.wanted; i++)
        if (d->slot[i].level < d->now.spot_ready[d->slot[i].zone]) {
            d->slot[i].is_kept = true;
            d->n_kept++;
        }
    if (d->n_slot)
        qsort(d->slot, d->n_slot, sizeof(*d->slot), by_use);
}

/* next [wanted + 1] += share * sum, with how many of `taken` of a zone survive if a loss is `lift`
 * times as likely. */
static void add_taken(const struct spot_decider *d, size_t zone, int taken, double lift,
                      double share, const double *sum, double *next)
{
    const int wanted = d->now.wanted;
    double from = share;

    for (int k = 0; k <= taken; k++) {
        const double to =
            k < taken ? fmin(from, share * fmax(0, 1 - lift * (1 - lasts(d, zone, k)))) : 0;

        for (int i = 0; i <= wanted; i++)
            next[i + k < wanted ? i + k : wanted] += sum[i] * (from - to);
        from = to;
    }
}

/* sum[] becomes that of what is taken of a zone, too: of all, or of what runs if the request for
 * the rest is refused. */
static void add_zone(const struct spot_decider *d, size_t zone, double lift, double *sum)
{
    const int taken = d->taken[zone], runs = d->now.spot[zone];
    const double all = taken > runs ? granted(d, zone) : 1;
    double next[SPOT_HOLD_REPLICAS_MAX + 1] = { 0 };

    add_taken(d, zone, taken, lift, all, sum, next);
    if (all < 1)
        add_taken(d, zone, runs, lift, 1 - all, sum, next);
    memcpy(sum, next, ((size_t)d->now.wanted + 1) * sizeof(double));
}

/* The zones of a region, with its shock and without. */
static void add_region(struct spot_decider *d, int region)
{
    const struct spot_forecast_region *r = &d->forecast->region[region];
    double calm[SPOT_HOLD_REPLICAS_MAX + 1], shock[SPOT_HOLD_REPLICAS_MAX + 1];

    memcpy(calm, d->sum, sizeof(calm));
    memcpy(shock, d->sum, sizeof(shock));
    for (size_t z = 0; z < d->forecast->n_series; z++)
        if (d->region[z] == region && d->taken[z]) {
            add_zone(d, z, r->calm_lift, calm);
            add_zone(d, z, r->loss_lift, shock);
        }
    for (int i = 0; i <= d->now.wanted; i++)
        d->sum[i] = r->shock_prob * shock[i] + (1 - r->shock_prob) * calm[i];
}

/* sum[] of the first n slots. */
static void survive(struct spot_decider *d, size_t n)
{
    memset(d->taken, 0, sizeof(d->taken));
    memset(d->sum, 0, sizeof(d->sum));
    d->sum[0] = 1;
    for (size_t i = 0; i < n; i++)
        d->taken[d->slot[i].zone]++;
    for (size_t z = 0; z < d->forecast->n_series; z++)
        if (d->taken[z] && d->region[z] < 0)
            add_zone(d, z, 1, d->sum);
    for (size_t r = 0; r < d->forecast->n_region; r++)
        add_region(d, (int)r);
}

/* How many slots, and how much on demand to count on. What on demand answers now is paid either
 * way: were it counted on for nothing, spot would never take its place. */
static size_t choose(struct spot_decider *d, struct spot_hold_step *step)
{
    const int wanted = d->now.wanted;
    const size_t most =
        d->n_slot < (size_t)wanted + SPARES_MAX ? d->n_slot : (size_t)wanted + SPARES_MAX;
    double best = HUGE_VAL, price = 0;
    size_t choice = d->n_kept;

    for (size_t n = 0; n <= most; n++) {
        double miss = 1;

        price += n ? d->now.usd_per_h[d->slot[n - 1].zone] / d->cheapest : 0;
        if (n < d->n_kept)
            continue;
        survive(d, n);
        for (int k = 0; k <= wanted; k++) {
            const double demand = k * d->rule.on_demand_usd_per_h / d->cheapest;

            miss -= d->sum[wanted - k]; /* now P(fewer than wanted - k) */
            if (price + demand + d->past.worth * fmax(0, miss) < best) {
                best = price + demand + d->past.worth * fmax(0, miss);
                choice = n;
                step->on_demand = k;
                step->miss = fmax(0, miss);
            }
        }
    }
    return choice;
}

/* --- what the last decision came to --- */

/* Time went on: a tick that was missed makes the next ones worth more, any other less, and a load
 * beyond what was held for it raises the factor. A second look at one time changes nothing.
 *
 * ln(worth) adds up what is missed beyond the aim, so that alone it would leave for good what had
 * to be missed for the worth to rise. What is owed, but for a miss, is paid back by a second sum:
 * critically damped where e times the worth misses the aim less, and over no less time than the aim
 * allows a miss in. A miss at most is saved up, so that no calm year pays for a bad day. */
static void learn(struct spot_decider *d)
{
    struct past *p = &d->past;
    const double aim = 1 - d->rule.availability;
    const double ticks = fmin(TICKS_MAX, (d->time_s - p->time_s) / d->forecast->interval_s);
    const double back = fmin(worth_gain / 2, aim), beyond = ticks * (p->is_short / aim - 1);
    const int launched = d->rule.cold < p->n ? d->rule.cold : p->n - 1;

    if (!(ticks > 0))
        return;
    p->owed = fmax(-1 / aim, p->owed + beyond);
    p->worth *= exp(worth_gain * beyond + back * back * ticks * fmax(0, p->owed - 1 / aim));
    p->worth = fmin(worth_most, p->worth);
    if (d->now.load_most >= 0)
        p->factor *= exp(factor_gain * ticks * ((d->now.load > p->wanted[launched]) - aim));
    p->factor = fmin(factor_most, fmax(1, p->factor));
}

/* How many are wanted now. */
static void want(struct spot_decider *d)
{
    if (d->now.load_most >= 0)
        d->now.wanted =
            (int)fmin(SPOT_HOLD_REPLICAS_MAX, fmax(1, ceil(d->past.factor * d->now.load_most)));
}

/* Replicas that are wanted only since now cannot be ready yet and are not counted as missing. */
static void note(struct spot_decider *d, int ready)
{
    struct past *p = &d->past;
    const bool is_new = !p->n || d->time_s > p->time_s;
    const size_t kept = (size_t)(p->n < PAST_MAX ? p->n : PAST_MAX - 1);
    int due;

    if (is_new) {
        memmove(p->wanted + 1, p->wanted, kept * sizeof(*p->wanted));
        p->n = (int)kept + 1;
    }
    p->wanted[0] = d->now.wanted;
    due = p->n > 1 && p->wanted[1] < d->now.wanted ? p->wanted[1] : d->now.wanted;
    p->is_short = ready < due;
    p->time_s = d->time_s;
    p->n = p->n < d->rule.cold + 2 ? p->n : d->rule.cold + 2;
}

static void begin(struct spot_decider *d)
{
    d->past.worth = fmin(worth_most, worth_first / (1 - d->rule.availability));
    d->past.factor = factor_first;
}

/* Below the least, no replica at all would be cheaper than enough of them. */
static void weigh(struct spot_decider *d)
{
    const double least = worth_least * d->now.wanted * d->rule.on_demand_usd_per_h / d->cheapest;

    d->past.worth = fmin(worth_most, fmax(least, d->past.worth));
}

static int hold_decide(struct spot_decider *d, struct spot_action *action,
                       const struct spot_told *told, struct spot_err *err)
{
    struct spot_hold_step *step = &action->fleet;
    int needed, ready;
    size_t n;

    (void)told;
    if (d->past.n && d->time_s < d->past.time_s)
        return spot_err_set(err, SPOT_EDATA, "a decision at %.6g s comes after one at %.6g s",
                            d->time_s, d->past.time_s);
    memset(step, 0, sizeof(*step));
    if (!d->past.n)
        begin(d);
    else
        learn(d);
    want(d);
    if (d->past.n)
        weigh(d);
    list_slots(d);
    needed = d->now.wanted - (int)d->n_kept;
    needed = needed < d->now.on_demand_ready ? needed : d->now.on_demand_ready;
    n = choose(d, step);
    for (size_t i = 0; i < n; i++)
        step->spot[d->slot[i].zone]++;
    step->on_demand = step->on_demand > needed ? step->on_demand : needed;
    step->wanted = d->now.wanted;
    ready = step->on_demand < d->now.on_demand_ready ? step->on_demand : d->now.on_demand_ready;
    note(d, (int)d->n_kept + ready);
    return 0;
}

/* --- the state: what of the decision before is remembered --- */

static void hold_save(const struct spot_decider *d, char *line)
{
    const struct past *p = &d->past;
    int at = snprintf(line, SPOT_DECISION_STATE_MAX, "fleet %.17g %.17g %.17g %.17g %d", p->time_s,
                      p->worth, p->owed, p->factor, p->is_short);

    for (int i = 0; i < p->n; i++)
        at += snprintf(line + at, (size_t)(SPOT_DECISION_STATE_MAX - at), " %d", p->wanted[i]);
    if (!p->n)
        *line = '\0';
}

static bool is_sound(const struct past *p)
{
    bool ok = p->n > 0 && isfinite(p->time_s) && p->worth > 0 && p->worth <= worth_most &&
              isfinite(p->owed) && p->factor >= 1 && p->factor <= factor_most &&
              (p->is_short & 1) == p->is_short;

    for (int i = 0; i < p->n; i++)
        ok = ok && p->wanted[i] >= 1 && p->wanted[i] <= SPOT_HOLD_REPLICAS_MAX;
    return ok;
}

static int hold_restore(struct spot_decider *d, const char *line, struct spot_err *err)
{
    struct past p = { 0 };
    int end = 0, more = 0;

    if (!*line)
        return 0;
    /* all are counted. NOLINTBEGIN(cert-err34-c) */
    if (sscanf(line, "fleet %lf %lf %lf %lf %9d%n", &p.time_s, &p.worth, &p.owed, &p.factor,
               &p.is_short, &end) == 5)
        while (p.n < PAST_MAX && sscanf(line + end, " %9d%n", &p.wanted[p.n], &more) == 1)
            p.n++, end += more;
    /* NOLINTEND(cert-err34-c) */
    if (line[end] || !is_sound(&p))
        return spot_err_set(err, SPOT_EDATA, "'%.64s' is not a state of a fleet", line);
    d->past = p;
    return 0;
}

const struct spot_policy spot_policy_fleet = {
    "fleet",   "spot",       "zones and spares by the forecast, on demand while spot is missing",
    hold_open, hold_observe, hold_decide,
    hold_save, hold_restore, hold_close,
};
