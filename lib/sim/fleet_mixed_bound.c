/* SPDX-License-Identifier: MIT */
/* A price of every unserved request, and one pi of every machine of a type that answers in a tick,
 * take the program apart. Each tick routes its requests by itself: one of bucket b costs
 * min(price, min_g pi_g / per_s_bg). Each place of an offer (its first machine, its second, ...)
 * runs when that pays: a dynamic program over one machine, whatever the cold start. So
 *   sum_t sum_b load_bt min(price, min_g pi_gt / per_s_bg) - sum_places most (pi ready - usd held)
 *   - price * left
 * is below the cost of every fleet that leaves `left`, whatever pi is, and its most is the least of
 * the linear program. pi goes up by subgradients towards a level a little above the best so far
 * (Brannlund 1995), for each price of a ladder from where it was for the last. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "sim/fleet_mixed.h"

enum { PRICES = 64, ROUNDS = 2000, STALE = 40 };
static const double rung = 1.13; /* of the ladder of prices */

struct dual {
    const struct spot_mixed_play *play;
    double *pi;       /* [n_type][n_tick] usd */
    double *slope;    /* the same */
    double *idle;     /* [n_tick + 1] the most of a place that is idle after so many ticks */
    uint8_t *on_from; /* [n_tick] whether a run that answers here began to at this tick */
    uint8_t *off;     /* [n_tick] whether a run that ends here is the best so far */
};

static bool is_there(const struct spot_mixed_play *play, size_t offer, size_t level, size_t t)
{
    return offer >= play->n_spot || play->count[t * play->n_spot + offer] > (int32_t)level;
}

/* Mark the ticks in which the best of the place answers. */
static void mark(struct dual *d, double *slope, double copies)
{
    for (size_t t = d->play->n_tick; t-- > 0;) {
        if (!d->off[t])
            continue;
        for (;; t--) {
            slope[t] -= copies;
            if (d->on_from[t])
                break;
        }
        t -= d->play->cold; /* its cold start */
    }
}

/* What a place earns at most, `copies` times. */
static double place(struct dual *d, size_t offer, size_t level, double copies)
{
    const struct spot_mixed_play *play = d->play;
    const size_t n = play->n_tick, type = play->offer[offer].type;
    const double usd = play->offer[offer].usd_per_h * play->tick_s / 3600;
    const double *pi = d->pi + type * n;
    double answers = -HUGE_VAL;
    size_t there = 0; /* ticks in a row */

    d->idle[0] = 0;
    for (size_t t = 0; t < n; t++) {
        double begins = -HUGE_VAL;

        there = is_there(play, offer, level, t) ? there + 1 : 0;
        if (!there)
            answers = -HUGE_VAL;
        if (there > play->cold)
            begins = d->idle[t - play->cold] - (double)play->cold * usd;
        d->on_from[t] = begins > answers;
        answers = fmax(answers, begins) + pi[t] - usd;
        d->off[t] = answers > d->idle[t];
        d->idle[t + 1] = fmax(answers, d->idle[t]);
    }
    if (d->idle[n] > 0)
        mark(d, d->slope + type * n, copies);
    return d->idle[n] * copies;
}

/* Machines of one type that would do for every size it can answer, at most. */
static double most_of(const struct spot_mixed_play *play, size_t type)
{
    double most = 0;

    for (size_t t = 0; t < play->n_tick; t++) {
        double need = 0;

        for (size_t b = 0; b < play->n_bucket; b++)
            if (play->per_s[b * play->n_type + type] > 0)
                need +=
                    play->load_per_s[t * play->n_bucket + b] / play->per_s[b * play->n_type + type];
        most = fmax(most, need);
    }
    return ceil(most);
}

static double route(struct dual *d, double price)
{
    const struct spot_mixed_play *play = d->play;
    double sum = 0;

    for (size_t t = 0; t < play->n_tick; t++)
        for (size_t b = 0; b < play->n_bucket; b++) {
            const double load = play->load_per_s[t * play->n_bucket + b];
            double least = price * play->tick_s;
            size_t by = play->n_type;

            for (size_t g = 0; g < play->n_type; g++) {
                const double per_s = play->per_s[b * play->n_type + g];

                if (per_s > 0 && d->pi[g * play->n_tick + t] < least * per_s) {
                    least = d->pi[g * play->n_tick + t] / per_s;
                    by = g;
                }
            }
            sum += load * least;
            if (by < play->n_type)
                d->slope[by * play->n_tick + t] += load / play->per_s[b * play->n_type + by];
        }
    return sum;
}

/* The dual and its slope at pi. */
static double value(struct dual *d, double price, const double *copies, const int32_t *levels)
{
    const struct spot_mixed_play *play = d->play;
    double sum;

    memset(d->slope, 0, play->n_type * play->n_tick * sizeof(double));
    sum = route(d, price);
    for (size_t k = 0; k < play->n_offer; k++)
        for (int32_t level = 0; level < levels[k]; level++)
            sum -= place(d, k, (size_t)level, copies[k]);
    return sum;
}

/* Climb from pi, which is left at the best that was found. */
static double climb(struct dual *d, double price, const double *copies, const int32_t *levels)
{
    const size_t n = d->play->n_type * d->play->n_tick;
    double *best_pi = spot_xcalloc(n, sizeof(double));
    double best = -HUGE_VAL, above = 0;
    int stale = 0;

    for (int round = 0; round < ROUNDS; round++) {
        const double now = value(d, price, copies, levels);
        double norm = 0;

        if (now > best + 1e-4 * above) {
            stale = 0;
        } else if (++stale == STALE) {
            above /= 2;
            stale = 0;
            memcpy(d->pi, best_pi, n * sizeof(double));
            if (above < 1e-4 * best)
                break;
            continue;
        }
        if (now > best) {
            best = now;
            memcpy(best_pi, d->pi, n * sizeof(double));
        }
        if (!round)
            above = fmax(0.1 * fabs(best), 1e-9);
        for (size_t i = 0; i < n; i++)
            norm += d->slope[i] > 0 || d->pi[i] > 0 ? d->slope[i] * d->slope[i] : 0;
        if (!(norm > 0))
            break;
        for (size_t i = 0; i < n; i++)
            d->pi[i] = fmax(0, d->pi[i] + (best + above - now) / norm * d->slope[i]);
    }
    memcpy(d->pi, best_pi, n * sizeof(double));
    free(best_pi);
    return best;
}

/* Of any size. */
static double cheapest_request(const struct spot_mixed_play *play)
{
    double least = HUGE_VAL;

    for (size_t b = 0; b < play->n_bucket; b++)
        least = fmin(least, spot_mixed_request_usd(play, b, 0));
    return isfinite(least) ? least : 1;
}

void spot_mixed_bound_init(const struct spot_mixed_play *play, struct spot_mixed_bound *bound)
{
    struct dual d = { .play = play };
    double copies[SPOT_MIXED_OFFERS_MAX], price = cheapest_request(play);
    int32_t levels[SPOT_MIXED_OFFERS_MAX];

    d.pi = spot_xcalloc(2 * play->n_type * play->n_tick, sizeof(double));
    d.slope = d.pi + play->n_type * play->n_tick;
    d.idle = spot_xcalloc(play->n_tick + 1, sizeof(double));
    d.on_from = spot_xcalloc(2 * play->n_tick, sizeof(*d.on_from));
    d.off = d.on_from + play->n_tick;
    for (size_t k = 0; k < play->n_offer; k++) {
        copies[k] = k < play->n_spot ? 1 : most_of(play, play->offer[k].type);
        levels[k] = k < play->n_spot ? spot_mixed_most_there(play, k) : 1;
    }
    bound->n = PRICES;
    bound->price_usd = spot_xcalloc(2 * PRICES, sizeof(double));
    bound->usd = bound->price_usd + PRICES;
    for (size_t i = 0; i < PRICES; i++, price *= rung) {
        bound->price_usd[i] = price;
        bound->usd[i] = climb(&d, price, copies, levels);
    }
    free(d.pi);
    free(d.idle);
    free(d.on_from);
}

void spot_mixed_bound_release(struct spot_mixed_bound *bound)
{
    free(bound->price_usd);
    *bound = (struct spot_mixed_bound){ 0 };
}

double spot_mixed_bound_at(const struct spot_mixed_bound *bound, double left)
{
    double most = 0;

    for (size_t i = 0; i < bound->n; i++)
        most = fmax(most, bound->usd[i] - bound->price_usd[i] * left);
    return most;
}
