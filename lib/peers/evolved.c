/* SPDX-License-Identifier: MIT */
#include "peers/evolved.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* State of a policy: the watched zone, and its observations of each zone. */
struct memory {
    size_t at;
    bool begun;
    double seen_s[SPOT_MARKET_PLACES_MAX]; /* time when each zone was last watched */
    bool had[SPOT_MARKET_PLACES_MAX];
    int yes[SPOT_MARKET_PLACES_MAX], no[SPOT_MARKET_PLACES_MAX];
    double mean[SPOT_MARKET_PLACES_MAX];
    int waited, moves;
    bool rests;
    double until_s, rest_s, stick_s;
};

static const double NEVER = -1e18;

static struct spot_market_step spot_at(size_t place)
{
    return (struct spot_market_step){ SPOT_DEADLINE_SPOT, place };
}

/* On demand in the zone of the running instance, else in the watched zone. */
static struct spot_market_step on_demand(const struct spot_market_now *now, const struct memory *w)
{
    return (struct spot_market_step){ SPOT_DEADLINE_ON_DEMAND,
                                      now->mode == SPOT_DEADLINE_ON_DEMAND ? now->place : w->at };
}

static struct spot_market_step idle(const struct spot_market_now *now)
{
    return (struct spot_market_step){ SPOT_DEADLINE_IDLE, now->place };
}

/* Work ahead of an even pace, seconds. */
static double ahead_s(const struct spot_market *m, const struct spot_market_now *now)
{
    return m->work_s - now->left_s - m->work_s * fmin(1, now->elapsed_s / m->deadline_s);
}

static double spare_s(const struct spot_market *m, const struct spot_market_now *now)
{
    return m->deadline_s - now->elapsed_s - now->left_s;
}

static double restart_of(const struct spot_market *m)
{
    return m->restart_s[m->n_restart - 1];
}

static struct spot_market_step levi(const struct spot_market *m, const struct spot_market_now *now,
                                    void *memory)
{
    struct memory *w = memory;
    const double left_s = m->deadline_s - now->elapsed_s;
    const bool is_last = left_s <= 1.05 * (now->left_s + restart_of(m));
    struct spot_market_step step = on_demand(now, w);

    if (now->has_spot[w->at])
        return spot_market_settle(m, now, spot_at(w->at));
    for (size_t k = 0; k < m->n_place && !is_last; k++)
        if (now->has_spot[k]) {
            w->at = k;
            return spot_market_settle(m, now, spot_at(k));
        }
    if (!is_last && ahead_s(m, now) >= 0 && spare_s(m, now) > fmax(3600, 0.05 * m->deadline_s)) {
        if (llround(now->elapsed_s / m->tick_s) % 10 == 0)
            w->at = (w->at + 1) % m->n_place;
        step = idle(now);
    }
    return spot_market_settle(m, now, step);
}

static struct spot_market_step openevolve(const struct spot_market *m,
                                          const struct spot_market_now *now, void *memory)
{
    struct memory *w = memory;
    const double slack_s = fmax(0, m->deadline_s - m->work_s), scan_s = 5.0 * (double)m->n_place;
    const double lag_s = fmin(fmax(0.2 * slack_s, scan_s), 0.4 * slack_s);
    double oldest_s = INFINITY;
    size_t next = w->at;

    for (size_t k = 0; k < m->n_place && !w->begun; k++)
        w->seen_s[k] = NEVER;
    w->begun = true;
    w->seen_s[w->at] = now->elapsed_s;
    if (now->has_spot[w->at])
        return spot_market_settle(m, now, spot_at(w->at));
    if (spare_s(m, now) < 15 + 0.01 * now->left_s || ahead_s(m, now) < -lag_s)
        return spot_market_settle(m, now, on_demand(now, w));
    for (size_t k = 0; k < m->n_place; k++)
        if (k != w->at && w->seen_s[k] < oldest_s) {
            oldest_s = w->seen_s[k];
            next = k;
        }
    if (now->elapsed_s - fmin(oldest_s, w->seen_s[w->at]) >= scan_s + 10)
        w->at = next;
    return spot_market_settle(m, now, idle(now));
}

static void note(struct memory *w, const struct spot_market_now *now, size_t k)
{
    w->had[k] = now->has_spot[k];
    w->seen_s[k] = now->elapsed_s;
    w->yes[k] += now->has_spot[k];
    w->no[k] += !now->has_spot[k];
}

/* True if zone a is asked before b: first zones that had spot when last seen, the latest first;
 * then zones never seen; then by how often they had spot. */
static bool is_before(const struct memory *w, size_t a, size_t b)
{
    const int class_a = w->had[a]          ? 0
                        : w->seen_s[a] < 0 ? 1
                                           : 2,
              class_b = w->had[b]          ? 0
                        : w->seen_s[b] < 0 ? 1
                                           : 2;
    const double often_a = (double)w->yes[a] / fmax(1, w->yes[a] + w->no[a]),
                 often_b = (double)w->yes[b] / fmax(1, w->yes[b] + w->no[b]);

    if (class_a != class_b)
        return class_a < class_b;
    if (!class_a)
        return w->seen_s[a] > w->seen_s[b];
    if (class_a == 1)
        return false;
    return often_a != often_b ? often_a > often_b : w->seen_s[a] < w->seen_s[b];
}

/* The first zone with spot in that order; the zones before it are asked on the way. n_place: none.
 */
static size_t scan(struct memory *w, const struct spot_market *m, const struct spot_market_now *now)
{
    size_t order[SPOT_MARKET_PLACES_MAX], n = 0;

    for (size_t k = 0; k < m->n_place; k++) {
        size_t i = n;

        if (k == w->at)
            continue;
        for (; i && is_before(w, k, order[i - 1]); i--)
            order[i] = order[i - 1];
        order[i] = k;
        n++;
    }
    for (size_t i = 0; i < n; i++) {
        note(w, now, order[i]);
        if (now->has_spot[order[i]])
            return order[i];
    }
    return m->n_place;
}

static struct spot_market_step gepa(const struct spot_market *m, const struct spot_market_now *now,
                                    void *memory)
{
    struct memory *w = memory;
    const double restart_s = restart_of(m);
    const double slack_s =
        spare_s(m, now) -
        (now->pending ? fmax(0, restart_s - (double)now->pending * m->tick_s) : 0);
    const bool sticks = now->mode == SPOT_DEADLINE_ON_DEMAND && now->elapsed_s < w->stick_s &&
                        slack_s < 0.5 * restart_s;
    size_t found = w->at;

    for (size_t k = 0; k < m->n_place && !w->begun; k++)
        w->seen_s[k] = -1;
    w->begun = true;
    note(w, now, w->at);
    if (slack_s <= 0) {
        w->stick_s = fmax(w->stick_s, now->elapsed_s + restart_s);
        w->waited = 0;
        return spot_market_settle(m, now, on_demand(now, w));
    }
    if (!now->has_spot[w->at])
        found = scan(w, m, now);
    if (found < m->n_place && !sticks) {
        w->at = found;
        w->waited = 0;
        return spot_market_settle(m, now, spot_at(found));
    }
    if (now->mode != SPOT_DEADLINE_ON_DEMAND && slack_s > 2 * restart_s &&
        w->waited < fmin(5, floor(slack_s / fmax(restart_s, 1)))) {
        w->waited++;
        return spot_market_settle(m, now, idle(now));
    }
    if (now->mode != SPOT_DEADLINE_ON_DEMAND) {
        w->stick_s = fmax(w->stick_s, now->elapsed_s + 0.5 * restart_s);
        w->waited = 0;
    }
    return spot_market_settle(m, now, on_demand(now, w));
}

/* The zone that is best to watch next. */
static size_t best_zone(const struct memory *w, const struct spot_market *m,
                        const struct spot_market_now *now)
{
    const double fades = fmax(0, 1 - pow(now->elapsed_s / m->deadline_s, 4));
    size_t best = w->at;
    double most = -INFINITY;

    for (size_t k = 0; k < m->n_place; k++) {
        const double since_s = w->seen_s[k] < 0 ? 1000 : now->elapsed_s - w->seen_s[k];
        const double score = 60 * w->mean[k] + (k == w->at ? 0 : since_s * fades - 20);

        if (score > most) {
            most = score;
            best = k;
        }
    }
    return best;
}

static void wake(struct memory *w, bool has_spot)
{
    w->rests = false;
    if (!has_spot)
        w->mean[w->at] *= 0.8;
    w->rest_s = has_spot ? 2 : fmin(2 * w->rest_s, 32);
}

static bool is_behind(const struct memory *w, const struct spot_market *m,
                      const struct spot_market_now *now)
{
    const double left_s = m->deadline_s - now->elapsed_s, gone = now->elapsed_s / m->deadline_s;
    const double limit = fmin(0.99, 0.95 + 0.01 * w->moves + (w->rest_s > 2 ? 0.03 : 0));

    return left_s <= 0 || now->left_s > limit * left_s ||
           1 - now->left_s / m->work_s < gone - 0.25 * (1 - gone * gone * gone);
}

static struct spot_market_step shinka(const struct spot_market *m,
                                      const struct spot_market_now *now, void *memory)
{
    struct memory *w = memory;
    const int limit = m->n_place > 2 ? (int)m->n_place : 2;
    size_t next;

    for (size_t k = 0; k < m->n_place && !w->begun; k++) {
        w->mean[k] = 0.5;
        w->seen_s[k] = -300;
        w->rest_s = 2;
    }
    w->begun = true;
    if (w->rests && now->elapsed_s < w->until_s)
        return spot_market_settle(m, now, idle(now));
    if (w->rests)
        wake(w, now->has_spot[w->at]);
    w->mean[w->at] = 0.8 * w->mean[w->at] + 0.2 * now->has_spot[w->at];
    w->seen_s[w->at] = now->elapsed_s;
    if (now->has_spot[w->at]) {
        w->moves = 0;
        w->rest_s = 2;
        return spot_market_settle(m, now, spot_at(w->at));
    }
    if (is_behind(w, m, now))
        return spot_market_settle(m, now, on_demand(now, w));
    next = best_zone(w, m, now);
    if (next != w->at && ++w->moves >= limit) {
        w->rests = true;
        w->until_s = now->elapsed_s + w->rest_s;
        w->moves = 0;
    } else {
        w->at = next;
    }
    return spot_market_settle(m, now, idle(now));
}

const struct spot_deadline_policy spot_evolved[] = {
    { "levi", "evolved: the first zone with spot (ADRS, LEVI)", levi, sizeof(struct memory), false,
      false },
    { "openevolve", "evolved: the zone not watched for longest (ADRS, OpenEvolve)", openevolve,
      sizeof(struct memory), false, false },
    { "gepa", "evolved: zones by what was seen, short waits (ADRS, GEPA)", gepa,
      sizeof(struct memory), false, false },
    { "shinka", "evolved: zones by a mean and a bonus, with rests (ADRS, ShinkaEvolve)", shinka,
      sizeof(struct memory), false, false },
    { 0 },
};
