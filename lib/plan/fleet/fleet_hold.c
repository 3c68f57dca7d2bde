/* SPDX-License-Identifier: MIT */
/* The decision of a fleet of replicas.
 *
 * A fleet launched now answers after a cold start. The replicas that it may have then are slots:
 * (zone, number of the replica in the zone). The forecast gives the probability that each slot
 * still exists then. Slots of one zone are lost together, the highest number first; zones of a
 * region are lost together in a shock; regions are independent. Among the fleets that keep what
 * answers now as well as possible, the one with the least price + worth * P(not served then) is
 * chosen. The worth of a served tick rises with each missed tick and falls with each served one, so
 * that the share of missed ticks meets the availability that was asked for, however wrong the
 * forecast is. Ticks missed while the worth was still rising are made up for later. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/decision.h"
#include "trace/region.h"

enum {
    SPARES_MAX = 16, /* spare replicas that are considered, at most */
    PAST_MAX = 32,   /* past ticks that are remembered, for cold starts */
    TICKS_MAX = 64,  /* ticks that one decision counts for, at most */
};
/* worth_gain and worth_first were tuned on the first half of avail-1-node-aws-02-15-2023, with 1 to
 * 3 replicas and availabilities of .998 to .9995 (gains of 3e-4 to 2e-3, starts of .2 and .5). */
static const double worth_gain = 2e-3, worth_first = 0.5, worth_least = 1.25, worth_most = 1e5;
/* The factor on the load: set by hand in 2025, not tuned on the traces of the results. */
static const double factor_first = 1.2, factor_most = 4, factor_gain = 0.1;

/* State kept from the previous decision. */
struct past {
    /* worth of a served tick, in ticks of the cheapest spot; 0: no decision yet */
    double time_s, worth;
    double owed;             /* ticks whose allowance was used in advance; < 0: allowance left */
    double factor;           /* factor on the load */
    int is_short;            /* fewer replicas answered than were due */
    int n, wanted[PAST_MAX]; /* replicas wanted in past ticks, newest first */
};

struct slot {
    size_t zone;
    int level;       /* number within its zone, from 0 */
    bool is_there;   /* an instance runs there */
    bool is_kept;    /* it answers now and is needed */
    bool is_refused; /* a request for it would probably be refused */
    double last;     /* P(available when an instance launched now is ready) */
};

struct spot_decider {
    struct spot_hold_rule rule;
    struct spot_hold_now now;
    const struct spot_forecast *forecast;
    double time_s;
    struct past past;
    double cheapest;   /* cheapest spot, usd per h */
    struct slot *slot; /* [n_slot], in the order in which slots are taken */
    size_t n_slot, n_kept, cap_slot;
    int taken[SPOT_HOLD_ZONES_MAX];
    int region[SPOT_HOLD_ZONES_MAX]; /* index in the forecast's regions; -1: none */
    /* P(this many survive), by number; last entry: this many or more */
    double sum[SPOT_HOLD_REPLICAS_MAX + 1];
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

/* The region of a series if its zones are lost together, else -1. */
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

/* P(more than `level` are available in every tick until an instance launched now answers), an upper
 * bound. */
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

/* The probability that a request for one more in the zone is granted. */
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

/* The most likely to last first; among equals those that run. */
static int by_last(const struct slot *x, const struct slot *y)
{
    if (x->last != y->last)
        return x->last > y->last ? -1 : 1;
    if (x->is_there != y->is_there)
        return x->is_there ? -1 : 1;
    return x->zone != y->zone ? (x->zone < y->zone ? -1 : 1)
                              : (x->level > y->level) - (x->level < y->level);
}

/* Order of use: slots that answer now first, then the best of each zone before the second of any,
 * since slots of a zone are lost together. Zones that would probably refuse a request come last. */
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

/* next[wanted + 1] += share * (sum[] with the survivors among `taken` slots of a zone added), if a
 * loss is `lift` times as likely. */
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

/* Add the survivors of a zone to the distribution sum[]: of all slots taken, or only of those that
 * run if the request for the rest is refused. */
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

/* Add the zones of a region: the mixture of the cases with and without a shock. */
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

/* Choose how many slots to take and how many on-demand replicas to count on. On demand that runs
 * now is charged too: if it were free, spot would never replace it. */
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

/* --- feedback from the last decision --- */

/* Update the worth and the factor for the time that passed: a missed tick raises the worth of later
 * ones, a served one lowers it; a load above what was planned for raises the factor. A second call
 * at the same time changes nothing.
 *
 * ln(worth) integrates what is missed beyond the allowance. Alone it would never make up for the
 * ticks that had to be missed before the worth rose. So what is owed beyond one miss is paid back
 * by a second integral, critically damped under the assumption that e times the worth misses one
 * allowance less, and over at least the time in which the allowance permits one miss. At most one
 * miss is saved up, so that a calm year does not pay for a bad day. */
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

/* Set how many replicas are wanted now. */
static void want(struct spot_decider *d)
{
    if (d->now.load_most >= 0)
        d->now.wanted =
            (int)fmin(SPOT_HOLD_REPLICAS_MAX, fmax(1, ceil(d->past.factor * d->now.load_most)));
}

/* Replicas that were wanted only recently cannot be ready yet and do not count as missing. */
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

/* Raise the worth to its least value: below it, no replica at all would be cheaper than enough of
 * them. */
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

/* --- saved state --- */

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
