/* SPDX-License-Identifier: MIT */
/* A lower bound of the cost of a fleet, by Lagrangian duality. With a price for every unserved
 * request, and a price pi for every machine of a type that answers in a tick, the program
 * separates. Each tick routes its requests by itself: a request of bucket b costs min(price, min_g
 * pi_g / per_s_bg). Each place of an offer (its first machine, its second, ...) runs when that
 * pays: a dynamic program over one machine, for any cold start. So
 *
 * sum_t sum_b load_bt min(price, min_g pi_gt / per_s_bg) - sum_places most (pi ready - usd held) -
 * price * left
 *
 * is at most the cost of every fleet that leaves `left` requests unserved, for any price and pi,
 * and its maximum is the optimum of the linear program. Price and pi are raised together towards a
 * level slightly above the best so far (Brannlund 1995), along the subgradient plus a part of the
 * earlier directions (Camerini, Fratta and Maffioli 1975): one value of `left` after another, each
 * starting from the result of the one before. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "sim/fleet_mixed.h"

enum { ROUNDS = 4000, STALE = 80 };
static const double remembered = 0.95; /* part of the earlier direction that is kept */
static const double first_above = 0.1; /* the first level, above the best, as a part of it */
static const double last_above = 2e-5; /* the last level */
static const double price_first = 20, price_most = 2e3; /* in units of the cheapest request */

/* Consecutive ticks in which places of an offer exist; the same for `copies` places. */
struct spell {
    size_t offer, from, until;
    double copies;
};

struct cut {
    double price_usd, usd; /* price of an unserved request; total cost, including those */
};

struct spot_mixed_bound {
    const struct spot_mixed_play *play;
    const struct spot_mixed_dist *dist; /* NULL: the load is known */
    size_t n_load;                      /* number of loads that may occur in a tick */
    struct spell *spell;
    size_t n_spell, cap_spell;
    struct cut *cut;
    size_t n_cut, cap_cut;
    size_t n_pi;
    double unit, price_most; /* unit of the price */
    double least_usd;        /* order of magnitude of the total cost */
    double *at; /* [n_pi + 1] pi [n_load][n_type][n_tick] in usd, then the price in units */
    double *best, *slope, *way; /* same layout */
    /* [n_type][n_tick] pi summed over loads; machines that then answer */
    double *worth, *answer;
    double *idle;     /* [n_tick + 1] best value of a spell up to this tick, if it is idle then */
    uint8_t *on_from; /* [n_tick] whether the run that answers here began at this tick */
    uint8_t *off;     /* [n_tick] whether a run that ends here is the best so far */
};

/* --- places --- */

/* Add a spell of the next place. last[n_tick]: index + 1 of the spell of earlier places that began
 * there. Later places exist only where earlier ones do. */
static void add_spell(struct spot_mixed_bound *d, struct spell spell, size_t *last)
{
    struct spell *before = last[spell.from] ? &d->spell[last[spell.from] - 1] : NULL;

    if (spell.until - spell.from <= d->play->cold)
        return;
    if (before && before->until == spell.until) {
        before->copies++;
        return;
    }
    d->spell = spot_xgrow(d->spell, &d->cap_spell, d->n_spell + 1, sizeof(*d->spell));
    d->spell[d->n_spell++] = spell;
    last[spell.from] = d->n_spell;
}

/* The largest useful number of machines of a type: enough for all sizes that it can serve, in every
 * tick. */
static double most_of(const struct spot_mixed_bound *d, size_t type)
{
    const struct spot_mixed_play *play = d->play;
    const double *load = d->dist ? d->dist->per_s : play->load_per_s;
    double most = 0;

    for (size_t i = 0; i < play->n_tick * d->n_load; i++, load += play->n_bucket) {
        double need = 0;

        for (size_t b = 0; b < play->n_bucket; b++)
            if (play->per_s[b * play->n_type + type] > 0)
                need += load[b] / play->per_s[b * play->n_type + type];
        most = fmax(most, need);
    }
    return ceil(most);
}

/* Add the places of an offer. Places beyond the largest useful number help no fleet. */
static void add_spot(struct spot_mixed_bound *d, size_t offer)
{
    const struct spot_mixed_play *play = d->play;
    const double most =
        fmin(spot_mixed_most_there(play, offer), most_of(d, play->offer[offer].type));
    size_t *last = spot_xcalloc(play->n_tick, sizeof(*last));

    for (int32_t place = 0; place < most; place++) {
        size_t from = 0; /* index + 1; 0: the place does not exist */

        for (size_t t = 0; t <= play->n_tick; t++) {
            const bool is_there = t < play->n_tick && play->count[t * play->n_spot + offer] > place;

            if (is_there && !from)
                from = t + 1;
            else if (!is_there && from) {
                add_spell(d, (struct spell){ offer, from - 1, t, 1 }, last);
                from = 0;
            }
        }
    }
    free(last);
}

/* Mark the ticks in which the best schedule of the spell answers. */
static void mark(struct spot_mixed_bound *d, const struct spell *spell, double *answer)
{
    for (size_t t = spell->until; t-- > spell->from;) {
        if (!d->off[t])
            continue;
        for (;; t--) {
            answer[t] += spell->copies;
            if (d->on_from[t])
                break;
        }
        t -= d->play->cold; /* skip its cold start */
    }
}

/* Maximum earnings of a spell, for all copies. */
static double earn(struct spot_mixed_bound *d, const struct spell *spell)
{
    const struct spot_mixed_play *play = d->play;
    const size_t first = play->offer[spell->offer].type * play->n_tick, cold = play->cold;
    const double usd = play->offer[spell->offer].usd_per_h * play->tick_s / 3600;
    const double *pi = d->worth + first;
    double answers = -HUGE_VAL;

    d->idle[spell->from] = 0;
    for (size_t t = spell->from; t < spell->until; t++) {
        double begins = -HUGE_VAL;

        if (t - spell->from >= cold)
            begins = d->idle[t - cold] - (double)cold * usd;
        d->on_from[t] = begins > answers;
        answers = (d->on_from[t] ? begins : answers) + pi[t] - usd;
        d->off[t] = answers > d->idle[t];
        d->idle[t + 1] = d->off[t] ? answers : d->idle[t];
    }
    if (d->idle[spell->until] > 0)
        mark(d, spell, d->answer + first);
    return d->idle[spell->until] * spell->copies;
}

/* --- the dual function --- */

/* The cost of the requests of load `i` in each tick; adds the unserved ones to `unserved`. */
static double route(struct spot_mixed_bound *d, size_t i, double price, double *unserved)
{
    const struct spot_mixed_play *play = d->play;
    const size_t n = play->n_tick, n_bucket = play->n_bucket;
    const double *load = d->dist ? d->dist->per_s + i * n_bucket : play->load_per_s;
    const double *pi = d->at + i * play->n_type * n;
    double *slope = d->slope + i * play->n_type * n, sum = 0;

    for (size_t t = 0; t < n; t++, load += d->n_load * n_bucket) {
        const double weight = d->dist ? d->dist->weight[t * d->n_load + i] : 1;

        for (size_t b = 0; b < n_bucket; b++) {
            double least = weight * price * play->tick_s;
            size_t by = play->n_type;

            for (size_t g = 0; g < play->n_type; g++) {
                const double per_s = play->per_s[b * play->n_type + g];

                if (per_s > 0 && pi[g * n + t] < least * per_s) {
                    least = pi[g * n + t] / per_s;
                    by = g;
                }
            }
            sum += load[b] * least;
            if (by < play->n_type)
                slope[by * n + t] += load[b] / play->per_s[b * play->n_type + by];
            else
                *unserved += weight * load[b] * play->tick_s;
        }
    }
    return sum;
}

/* The dual function and its subgradient: a machine that answers does so for every load. */
static double value(struct spot_mixed_bound *d, double left)
{
    const size_t n = d->play->n_type * d->play->n_tick;
    const double price = d->unit * d->at[d->n_pi];
    double unserved = 0, sum = 0;

    memset(d->slope, 0, d->n_pi * sizeof(double));
    memset(d->worth, 0, 2 * n * sizeof(double));
    for (size_t i = 0; i < d->n_load; i++) {
        sum += route(d, i, price, &unserved);
        for (size_t j = 0; j < n; j++)
            d->worth[j] += d->at[i * n + j];
    }
    for (size_t i = 0; i < d->n_spell; i++)
        sum -= earn(d, &d->spell[i]);
    for (size_t i = 0; i < d->n_load; i++)
        for (size_t j = 0; j < n; j++)
            d->slope[i * n + j] -= d->answer[j];
    d->slope[d->n_pi] = d->unit * (unserved - left);
    return sum - price * left;
}

/* A step that would raise the value by `up` if the slope stayed the same; false if the slope is 0.
 */
static bool step(struct spot_mixed_bound *d, double up)
{
    double norm = 0;

    for (size_t i = 0; i <= d->n_pi; i++) {
        d->way[i] = d->slope[i] + remembered * d->way[i];
        if (d->way[i] < 0 && !(d->at[i] > 0))
            d->way[i] = 0;
        norm += d->way[i] * d->way[i];
    }
    if (!(norm > 0))
        return false;
    for (size_t i = 0; i <= d->n_pi; i++)
        d->at[i] = fmax(0, d->at[i] + up / norm * d->way[i]);
    d->at[d->n_pi] = fmin(d->at[d->n_pi], d->price_most / d->unit);
    return true;
}

static void add_cut(struct spot_mixed_bound *d, double best, double left)
{
    const double price = d->unit * d->at[d->n_pi];

    d->cut = spot_xgrow(d->cut, &d->cap_cut, d->n_cut + 1, sizeof(*d->cut));
    d->cut[d->n_cut++] = (struct cut){ price, best + price * left };
}

void spot_mixed_bound_climb(struct spot_mixed_bound *d, double left)
{
    const size_t byte = (d->n_pi + 1) * sizeof(double);
    double best = -HUGE_VAL, above = 0;
    int stale = 0;

    memset(d->way, 0, byte);
    for (int round = 0; round < ROUNDS; round++) {
        const double now = value(d, left);

        if (!round)
            above = first_above * fmax(fabs(now), d->least_usd);
        if (now > best + 1e-3 * above) {
            stale = 0;
        } else if (++stale == STALE) {
            above /= 2;
            stale = 0;
            memcpy(d->at, d->best, byte);
            memset(d->way, 0, byte);
            if (above < last_above * fabs(best))
                break;
            continue;
        }
        if (now > best) {
            best = now;
            memcpy(d->best, d->at, byte);
        }
        if (!step(d, best + above - now))
            break;
    }
    memcpy(d->at, d->best, byte);
    add_cut(d, best, left);
}

double spot_mixed_bound_at(const struct spot_mixed_bound *d, double left)
{
    double most = 0;

    for (size_t i = 0; i < d->n_cut; i++)
        most = fmax(most, d->cut[i].usd - d->cut[i].price_usd * left);
    return most;
}

/* --- beginning and end --- */

/* Set the units: of money, what all requests would cost on machines that always answer; of the
 * price, how many of the easiest requests a machine serves in a tick. */
static void weigh(struct spot_mixed_bound *d)
{
    const struct spot_mixed_play *play = d->play;
    double cheapest = HUGE_VAL, most_per_s = 1e-300;

    for (size_t b = 0; b < play->n_bucket; b++) {
        const double least = spot_mixed_request_usd(play, b, 0);

        cheapest = fmin(cheapest, least);
        for (size_t t = 0; isfinite(least) && t < play->n_tick; t++)
            d->least_usd += least * play->load_per_s[t * play->n_bucket + b] * play->tick_s;
        for (size_t g = 0; g < play->n_type; g++)
            most_per_s = fmax(most_per_s, play->per_s[b * play->n_type + g]);
    }
    if (!isfinite(cheapest))
        cheapest = 1;
    d->least_usd = fmax(d->least_usd, 1e-9);
    d->unit = 1 / (most_per_s * play->tick_s);
    d->price_most = price_most * cheapest;
    d->at[d->n_pi] = price_first * cheapest / d->unit;
}

struct spot_mixed_bound *spot_mixed_bound_new(const struct spot_mixed_play *play,
                                              const struct spot_mixed_dist *dist)
{
    struct spot_mixed_bound *d = spot_xcalloc(1, sizeof(*d));

    d->play = play;
    d->dist = dist;
    d->n_load = dist ? dist->n : 1;
    d->n_pi = d->n_load * play->n_type * play->n_tick;
    d->at = spot_xcalloc(4 * (d->n_pi + 1), sizeof(double));
    d->best = d->at + d->n_pi + 1;
    d->slope = d->best + d->n_pi + 1;
    d->way = d->slope + d->n_pi + 1;
    d->worth = spot_xcalloc(2 * play->n_type * play->n_tick, sizeof(double));
    d->answer = d->worth + play->n_type * play->n_tick;
    d->idle = spot_xcalloc(play->n_tick + 1, sizeof(double));
    d->on_from = spot_xcalloc(2 * play->n_tick, sizeof(*d->on_from));
    d->off = d->on_from + play->n_tick;
    for (size_t k = 0; k < play->n_spot; k++)
        add_spot(d, k);
    for (size_t k = play->n_spot; k < play->n_offer; k++) {
        d->spell = spot_xgrow(d->spell, &d->cap_spell, d->n_spell + 1, sizeof(*d->spell));
        d->spell[d->n_spell++] =
            (struct spell){ k, 0, play->n_tick, most_of(d, play->offer[k].type) };
    }
    weigh(d);
    return d;
}

void spot_mixed_bound_free(struct spot_mixed_bound *d)
{
    if (!d)
        return;
    free(d->spell);
    free(d->cut);
    free(d->at);
    free(d->worth);
    free(d->idle);
    free(d->on_from);
    free(d);
}
