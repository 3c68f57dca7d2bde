/* SPDX-License-Identifier: MIT */
/* The policy spot for several machine types. It first chooses the fleet for the tick in which a
 * machine launched now will answer: of all fleets possible then, the one with the least cost +
 * price * expected unserved requests, over the possible loads (fleet_season.h) and the possible
 * losses of spot (seen.h). Machines that run are charged like new ones, otherwise nothing would
 * ever replace a machine on demand. Then it keeps those other running machines that the ticks until
 * then need. Only losses of one offer at a time are considered; the probability of several in one
 * tick is distributed over the rest.
 *
 * The price of a request is that of a machine divided by the probability that the fleet's last
 * machine is needed, at the unserved share that is aimed at (the newsvendor rule), averaged over
 * past decisions. It rises while more requests stay unserved than that, and falls otherwise. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/fleet_route.h"
#include "sim/fleet_mixed.h"
#include "sim/fleet_season.h"
#include "sim/seen.h"

enum { HORIZON_MAX = 16, PER_OFFER_MAX = SPOT_MIXED_PER_OFFER_MAX, REFINE = 4 };
static const double price_gain = 5e-3, price_most = 100, price_keep = 0.98;
static const double over_most = 3;    /* limits the price to a factor of 20 */
static const double launch_lasts = 8; /* ticks over which the cost of a cold start is spread */

struct ahead { /* a future tick that the choice affects */
    double load[SPOT_FLEET_LOADS * SPOT_MIXED_BUCKETS_MAX], weight[SPOT_FLEET_LOADS];
    size_t n_load;
    double *lasts; /* [n_spot][PER_OFFER_MAX] P(at least this many machines exist) */
    int32_t ready[SPOT_MIXED_OFFERS_MAX]; /* machines running now that will answer by then */
};

struct mixed {
    const struct spot_mixed_play *play;
    struct spot_mixed_run *run;
    size_t t, n_ahead;
    size_t *born[SPOT_MIXED_OFFERS_MAX]; /* [n[k]] tick of launch, rising */
    int32_t n[SPOT_MIXED_OFFERS_MAX], most[SPOT_MIXED_OFFERS_MAX];
    struct spot_trace trace; /* trace of the counts */
    struct spot_seen_trace *seen;
    const struct spot_forecast *forecast; /* the current forecast; NULL: there is no spot */
    struct spot_fleet_season *season;
    struct spot_fleet_route *route;
    struct ahead ahead[HORIZON_MAX];
    /* per request: current, least, and that of a machine on demand */
    double price, price_least, price_sure;
    double chance,
        /* logarithm of the probability that the last machine is needed, discounted sum; its weight
         */
        chances;
    /* requests so far; log of the factor on the price due to unserved requests */
    double came, over;
};

/* In zones with less room than machines, the newest machines are lost. */
static void preempt(struct mixed *m)
{
    const int32_t *room = m->play->count + m->t * m->play->n_spot;

    for (size_t k = 0; k < m->play->n_spot; k++)
        if (m->n[k] > room[k]) {
            m->run->preempted += (size_t)(m->n[k] - room[k]);
            m->n[k] = room[k];
        }
}

/* P(at least this many machines of an offer exist) by the forecast, never higher than at the tick
 * before. */
static void fill_lasts(const struct mixed *m, size_t k, size_t h, double *lasts)
{
    const struct spot_forecast_series *s = &m->forecast->series[k];
    const double *prob = h ? spot_forecast_at(s, (int64_t)h) : NULL;
    double left = 1;

    for (int32_t level = 0; level < m->most[k]; level++) {
        if (prob)
            left = level <= s->cap ? fmax(0, left - prob[level]) : 0;
        lasts[level] = left;
    }
}

/* Forecast load and spot in each of the ticks ahead. */
static void look_ahead(struct mixed *m)
{
    const struct spot_mixed_play *play = m->play;

    for (size_t h = 0; h < m->n_ahead; h++) {
        struct ahead *a = &m->ahead[h];

        if (m->t) {
            a->n_load = spot_fleet_season_next(m->season, h + 1, a->load, a->weight);
        } else { /* the load of the first tick is known, as it is to an autoscaler */
            memcpy(a->load, play->load_per_s, play->n_bucket * sizeof(double));
            a->weight[0] = 1;
            a->n_load = 1;
        }
        for (size_t k = 0; k < play->n_offer; k++) {
            a->ready[k] = 0;
            while (a->ready[k] < m->n[k] && m->born[k][a->ready[k]] + play->cold <= m->t + h)
                a->ready[k]++;
        }
        for (size_t k = 0; k < play->n_spot; k++)
            fill_lasts(m, k, h, a->lasts + k * PER_OFFER_MAX);
    }
}

/* The probability that a tick needs the last machine, when the expected unserved share is the one
 * aimed at; loads are in ascending order. */
static double chance_of_more(const struct mixed *m, const struct ahead *a)
{
    double sum[SPOT_FLEET_LOADS] = { 0 }, mean = 0, chance = 0, above = 0;

    for (size_t i = 0; i < a->n_load; i++) {
        for (size_t b = 0; b < m->play->n_bucket; b++)
            sum[i] += a->load[i * m->play->n_bucket + b];
        mean += a->weight[i] * sum[i];
    }
    for (size_t i = a->n_load; i-- > 0;) {
        chance += a->weight[i];
        above += a->weight[i] * sum[i];
        if (i && above - m->play->unserved * mean > chance * sum[i - 1])
            break;
    }
    return chance;
}

/* Expected requests per second that stay unserved with this capacity. */
static double left_at(const struct mixed *m, const struct ahead *a, const double *capacity)
{
    double left = 0;

    for (size_t i = 0; i < a->n_load; i++)
        left += a->weight[i] *
                spot_fleet_route_below(m->route, a->load + i * m->play->n_bucket, capacity);
    return left;
}

static int32_t answers(const struct mixed *m, size_t h, const int32_t *want, size_t k)
{
    const int32_t ready = m->ahead[h].ready[k];

    return h >= m->play->cold || want[k] < ready ? want[k] : ready;
}

/* The same, averaged over the possible losses of spot until then. */
static double left_ahead(const struct mixed *m, size_t h, const int32_t *want)
{
    const struct spot_mixed_play *play = m->play;
    const struct ahead *a = &m->ahead[h];
    double capacity[SPOT_MIXED_TYPES_MAX] = { 0 }, all = 1, sum, weight;

    for (size_t k = 0; k < play->n_offer; k++)
        capacity[play->offer[k].type] += answers(m, h, want, k);
    sum = left_at(m, a, capacity);
    for (size_t k = 0; k < play->n_spot && h; k++) {
        const int32_t n = answers(m, h, want, k);
        const double *lasts = a->lasts + k * PER_OFFER_MAX;

        if (!n || !(lasts[n - 1] > 0))
            continue;
        for (int32_t stay = 0; stay < n; stay++) {
            weight = ((stay ? lasts[stay - 1] : 1) - lasts[stay]) / lasts[n - 1];
            if (!(weight > 1e-9))
                continue;
            capacity[play->offer[k].type] -= n - stay;
            sum += weight * left_at(m, a, capacity);
            capacity[play->offer[k].type] += n - stay;
            all += weight;
        }
    }
    return sum / all;
}

static void set_price(struct mixed *m)
{
    m->chance = price_keep * m->chance + log(chance_of_more(m, &m->ahead[m->n_ahead - 1]));
    m->chances = price_keep * m->chances + 1;
    m->price = m->price_sure * exp(m->over - m->chance / m->chances);
    m->price = fmin(price_most * m->price_least, fmax(m->price_least, m->price));
}

/* What a choice is about: the fleet for the last future tick, or the machines to keep for earlier
 * ones. */
struct choice {
    size_t from, until; /* the future ticks that count */
    /* extra cost of a machine that does not run yet, as a part of its cost per tick */
    double launch;
    int32_t least[SPOT_MIXED_OFFERS_MAX], most[SPOT_MIXED_OFFERS_MAX];
};

static double cost_of(const struct mixed *m, const struct choice *c, const int32_t *want)
{
    double cost = 0;

    for (size_t k = 0; k < m->play->n_offer; k++) {
        const int32_t launched = want[k] > m->n[k] ? want[k] - m->n[k] : 0;

        cost += (want[k] + c->launch * launched) * m->play->offer[k].usd_per_h / 3600;
    }
    for (size_t h = c->from; h < c->until; h++)
        cost += m->price * left_ahead(m, h, want);
    return cost;
}

static bool may_change(const struct choice *c, const int32_t *want, size_t k, int by)
{
    return want[k] + by >= c->least[k] && want[k] + by <= c->most[k];
}

/* Apply the best change of one machine: add, remove or exchange one. False: no change helps. */
static bool improve(const struct mixed *m, const struct choice *c, int32_t *want, double *cost)
{
    const size_t n = m->play->n_offer;
    size_t best_up = n, best_down = n;
    double best = *cost * (1 - 1e-9);

    for (size_t up = 0; up <= n; up++) {
        if (up < n && !may_change(c, want, up, 1))
            continue;
        for (size_t down = 0; down <= n; down++) {
            double now;

            if (up == down || (down < n && !may_change(c, want, down, -1)))
                continue;
            want[up] += 1; /* index n stands for no offer */
            want[down] -= 1;
            now = cost_of(m, c, want);
            want[up] -= 1;
            want[down] += 1;
            if (now < best) {
                best = now;
                best_up = up;
                best_down = down;
            }
        }
    }
    if (best_up == n && best_down == n)
        return false;
    want[best_up] += 1;
    want[best_down] -= 1;
    *cost = best;
    return true;
}

/* Add cuts for the loads at the fleet chosen last to the pool of fleet_route. */
static void learn_prices(struct mixed *m, const int32_t *want)
{
    double capacity[SPOT_MIXED_TYPES_MAX] = { 0 };
    const struct ahead *a = &m->ahead[m->n_ahead - 1];

    for (size_t k = 0; k < m->play->n_offer; k++)
        capacity[m->play->offer[k].type] += want[k];
    for (size_t i = 0; i < a->n_load; i++)
        spot_fleet_route_left(m->route, a->load + i * m->play->n_bucket, capacity);
}

/* Machines of an offer that are available in this tick. */
static int32_t room_of(const struct mixed *m, size_t k)
{
    return k < m->play->n_spot ? m->play->count[m->t * m->play->n_spot + k] : INT32_MAX;
}

/* Choose the fleet for the last future tick. */
static void choose(struct mixed *m, int32_t *want)
{
    const struct spot_mixed_play *play = m->play;
    struct choice c = { .from = m->n_ahead - 1,
                        .until = m->n_ahead,
                        .launch = (double)play->cold / launch_lasts };
    double cost;

    for (size_t k = 0; k < play->n_offer; k++)
        c.most[k] = room_of(m, k) < m->most[k] ? room_of(m, k) : m->most[k];
    for (int i = 0; i < REFINE; i++) {
        learn_prices(m, want);
        cost = cost_of(m, &c, want);
        if (!improve(m, &c, want, &cost))
            break;
        while (improve(m, &c, want, &cost))
            continue;
    }
}

/* Keep running machines that earlier ticks need. */
static void keep(struct mixed *m, int32_t *want)
{
    struct choice c = { .until = m->n_ahead - 1 };
    double cost;

    for (size_t k = 0; k < m->play->n_offer; k++) {
        c.least[k] = want[k];
        c.most[k] = want[k] > m->n[k] ? want[k] : m->n[k];
        want[k] = c.most[k];
    }
    cost = cost_of(m, &c, want);
    while (improve(m, &c, want, &cost))
        continue;
}

static void take(struct mixed *m, const int32_t *want)
{
    const struct spot_mixed_play *play = m->play;

    for (size_t k = 0; k < play->n_offer; k++) {
        while (m->n[k] < want[k])
            m->born[k][m->n[k]++] = m->t;
        m->n[k] = want[k];
        m->run->held[m->t * play->n_offer + k] = m->n[k];
        for (int32_t i = 0; i < m->n[k]; i++)
            m->run->ready[m->t * play->n_type + play->offer[k].type] +=
                m->born[k][i] + play->cold <= m->t;
    }
}

/* If the fleet reaches the limit of an offer it may not be what the policy would choose: an error.
 */
static int check_bound(const struct mixed *m, const int32_t *want, struct spot_err *err)
{
    for (size_t k = 0; k < m->play->n_offer; k++) {
        const struct spot_mixed_offer *offer = &m->play->offer[k];

        if (want[k] >= PER_OFFER_MAX && room_of(m, k) > PER_OFFER_MAX)
            return spot_err_set(err, SPOT_EINFEASIBLE,
                                "the load of %.15g s needs %d machines or more of '%.40s' %s%.40s, "
                                "more than spot weighs: play a part of the load",
                                (double)m->t * m->play->tick_s, PER_OFFER_MAX,
                                m->play->type[offer->type], offer->zone ? "in " : "on demand",
                                offer->zone ? offer->zone : "");
    }
    return 0;
}

/* Observe the load and adjust the price. */
static void saw(struct mixed *m)
{
    const struct spot_mixed_play *play = m->play;
    const double *load = play->load_per_s + m->t * play->n_bucket;
    const double left = spot_fleet_route_left(m->route, load, m->run->ready + m->t * play->n_type);
    double mean;

    for (size_t b = 0; b < play->n_bucket; b++)
        m->came += load[b];
    mean = m->came / (double)(m->t + 1);
    if (mean > 0 && m->t >= play->cold)
        m->over += price_gain * (left / (play->unserved * mean) - 1);
    m->over = fmin(over_most, fmax(-over_most, m->over));
    spot_fleet_season_step(m->season, load);
}

/* The cost of the most expensive size of request on the offer that is cheapest for it; offers
 * before `first` do not count. */
static double dearest_request(const struct spot_mixed_play *play, size_t first)
{
    double most = 0;

    for (size_t b = 0; b < play->n_bucket; b++) {
        const double least = spot_mixed_request_usd(play, b, first);

        most = isfinite(least) ? fmax(most, least) : most;
    }
    return most;
}

static void open_mixed(struct mixed *m)
{
    const struct spot_mixed_play *play = m->play;
    const char *zone[SPOT_MIXED_OFFERS_MAX], *type[SPOT_MIXED_OFFERS_MAX];

    m->n_ahead = play->cold + 1 < HORIZON_MAX ? play->cold + 1 : HORIZON_MAX;
    for (size_t k = 0; k < play->n_offer; k++) {
        zone[k] = play->offer[k].zone;
        type[k] = play->type[play->offer[k].type];
        m->most[k] = k < play->n_spot ? spot_mixed_most_there(play, k) : PER_OFFER_MAX;
        if (m->most[k] > PER_OFFER_MAX)
            m->most[k] = PER_OFFER_MAX;
        m->born[k] = spot_xcalloc((size_t)m->most[k] + 1, sizeof(size_t));
    }
    for (size_t h = 0; h < m->n_ahead; h++)
        m->ahead[h].lasts = spot_xcalloc(play->n_spot * PER_OFFER_MAX + 1, sizeof(double));
    if (play->n_spot) {
        spot_seen_counts(play->count, zone, type, play->n_spot, play->n_tick, play->tick_s,
                         &m->trace);
        m->seen = spot_seen_new(&m->trace, play->tick_s, (int)m->n_ahead, NULL);
    }
    m->season = spot_fleet_season_new(play->n_bucket, m->n_ahead);
    m->route = spot_fleet_route_new(play->per_s, play->n_bucket, play->n_type);
    m->price_least = dearest_request(play, 0);
    m->price_sure = fmax(m->price_least, dearest_request(play, play->n_spot));
}

static void close_mixed(struct mixed *m)
{
    for (size_t k = 0; k < m->play->n_offer; k++)
        free(m->born[k]);
    for (size_t h = 0; h < m->n_ahead; h++)
        free(m->ahead[h].lasts);
    spot_seen_free(m->seen);
    spot_trace_release(&m->trace);
    spot_fleet_season_free(m->season);
    spot_fleet_route_free(m->route);
}

int spot_mixed_spot(const struct spot_mixed_play *play, struct spot_mixed_run *run,
                    struct spot_err *err)
{
    struct mixed *m = spot_xcalloc(1, sizeof(*m));
    int32_t want[SPOT_MIXED_OFFERS_MAX + 1];
    /* all offers have rows from the start, so each keeps its number */
    size_t of[SPOT_MIXED_OFFERS_MAX];
    int rc = 0;

    m->play = play;
    m->run = run;
    open_mixed(m);
    for (m->t = 0; !rc && m->t < play->n_tick; m->t++) {
        preempt(m);
        if (m->seen)
            m->forecast = spot_seen_at(m->seen, (double)m->t * play->tick_s, of);
        look_ahead(m);
        set_price(m);
        memcpy(want, m->n, sizeof(m->n));
        choose(m, want);
        keep(m, want);
        take(m, want);
        saw(m);
        rc = check_bound(m, want, err);
    }
    close_mixed(m);
    free(m);
    if (!rc)
        spot_mixed_account(play, run);
    return rc;
}
