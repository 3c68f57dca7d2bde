/* SPDX-License-Identifier: MIT */
#include "peers/price_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

const struct spot_price_row spot_price_row[] = {
    { "dispa-baseline", "the cheapest zone of the fastest type of one GPU, for good (DISPA 2020)" },
    { "dispa-gpu-type", "the cheapest type of one GPU for its speed, for good" },
    { "dispa-packed", "the same, a share of larger instances too" },
    { "dispa-dynamic", "the same, chosen anew each day" },
    { "stay", "what is cheapest for its speed now, for good" },
    { "chase", "what is cheapest for its speed each day, whatever a move costs" },
    { "spot", "another offer only where the rest of the work pays for the move" },
    { 0 },
};

enum { DAY_S = 86400, HOURS = 24 };

struct market {
    const struct spot_price_history *h;
    const struct spot_price_job *job;
    size_t baseline; /* rank of its type */
    double *now;     /* [n_offer] usd/h of an instance at `until_s`, NaN before the first */
    size_t next;     /* change that is not yet in now */
};

/* The fastest type of one GPU, the first of equals. */
static size_t baseline_rank(const struct spot_price_history *h)
{
    size_t rank = SIZE_MAX;
    double speed = 0;

    for (size_t k = 0; k < h->n_offer; k++) {
        const struct spot_price_offer *o = &h->offer[k];

        if (o->gpus == 1 && (o->speed > speed || (o->speed == speed && o->rank < rank))) {
            rank = o->rank;
            speed = o->speed;
        }
    }
    return rank;
}

static int64_t day_of(const struct spot_price_change *c)
{
    return (int64_t)floor(c->time_s / DAY_S);
}

size_t spot_price_days(const struct spot_price_history *h, int64_t *day, size_t room)
{
    const size_t rank = baseline_rank(h);
    int64_t last = -1;
    size_t n = 0;

    for (size_t i = 0; i < h->n_change; i++) {
        if (h->offer[h->change[i].offer].rank != rank || day_of(&h->change[i]) == last)
            continue;
        last = day_of(&h->change[i]);
        if (day && n < room)
            day[n] = last;
        n++;
    }
    return n;
}

/* --- as published --- */

/* Changes [first, end) are of that day. */
static void find_day(const struct spot_price_history *h, int64_t day, size_t *first, size_t *end)
{
    size_t low = 0, high = h->n_change;

    while (low < high) {
        const size_t mid = (low + high) / 2;

        if (day_of(&h->change[mid]) < day)
            low = mid + 1;
        else
            high = mid;
    }
    *first = *end = low;
    while (*end < h->n_change && day_of(&h->change[*end]) == day)
        ++*end;
}

static bool may_take(const struct market *m, enum spot_price_policy policy,
                     const struct spot_price_offer *o)
{
    return policy == SPOT_PRICE_BASELINE   ? o->rank == m->baseline
           : policy == SPOT_PRICE_GPU_TYPE ? o->gpus == 1
                                           : true;
}

/* The best of the day's changes, the types in order, the newest change first. NULL: none. */
static const struct spot_price_change *choose(const struct market *m, enum spot_price_policy policy,
                                              int64_t day)
{
    const struct spot_price_change *best = NULL;
    double most = 0;
    size_t first, end;

    find_day(m->h, day, &first, &end);
    for (size_t i = end; i-- > first;) {
        const struct spot_price_change *c = &m->h->change[i];
        const struct spot_price_offer *o = &m->h->offer[c->offer];
        const double worth = o->speed * (double)o->gpus / c->usd_per_h;
        const size_t rank = best ? m->h->offer[best->offer].rank : 0;

        if (!may_take(m, policy, o) ||
            (best && !(worth > most) && !(worth == most && o->rank < rank)))
            continue;
        best = c;
        most = worth;
    }
    return best;
}

/* The newest price of the offer that day, else `usd_per_h`. */
static double price_of_day(const struct market *m, size_t offer, int64_t day, double usd_per_h)
{
    size_t first, end;

    find_day(m->h, day, &first, &end);
    while (end-- > first)
        if (m->h->change[end].offer == offer)
            return m->h->change[end].usd_per_h;
    return usd_per_h;
}

static void note(const struct spot_price_job *job, int64_t day, size_t offer)
{
    if (job->taken && day - job->start_day < (int64_t)job->n_taken)
        job->taken[day - job->start_day] = offer;
}

static double slowed(const struct spot_price_job *job)
{
    return 1 + job->loss_per_h * job->restart_h;
}

static int play_published(struct market *m, enum spot_price_policy policy,
                          struct spot_price_result *r, struct spot_err *err)
{
    const struct spot_price_job *job = m->job;
    const size_t n_day = spot_price_days(m->h, NULL, 0);
    int64_t *days = spot_xcalloc(n_day + 1, sizeof(*days)), day = job->start_day, last;
    const struct spot_price_change *at = choose(m, policy, day);
    double left_h = job->work_h, usd_per_h, pending_h = job->restart_h;
    size_t offer;

    spot_price_days(m->h, days, n_day);
    last = n_day ? days[n_day - 1] : 0;
    free(days);
    if (!at)
        return spot_err_set(err, SPOT_EINFEASIBLE, "no price of day %lld", (long long)day);
    offer = at->offer;
    usd_per_h = at->usd_per_h;
    for (; left_h > 0; day++) {
        const struct spot_price_offer *o = &m->h->offer[offer];
        const double speed = o->speed / slowed(job);
        const double need_h = left_h / speed + pending_h;
        const double here_h = need_h > HOURS && day < last ? HOURS : need_h;

        note(job, day, offer);
        r->is_cut = r->is_cut || day >= last;
        r->usd += here_h * usd_per_h / (double)o->gpus;
        r->hours += here_h;
        left_h -= here_h < need_h ? fmax(0, HOURS - pending_h) * speed : left_h;
        pending_h = fmax(0, pending_h - HOURS);
        usd_per_h = price_of_day(m, offer, day + 1, usd_per_h);
        at = policy == SPOT_PRICE_DYNAMIC && left_h > 0 ? choose(m, policy, day + 1) : NULL;
        if (!at)
            continue;
        if (at->offer != offer) {
            r->moves++;
            pending_h = job->restart_h;
            r->usd += m->h->offer[at->offer].region != o->region ? job->egress_usd : 0;
        }
        offer = at->offer;
        usd_per_h = at->usd_per_h;
    }
    return 0;
}

/* --- ours --- */

static void advance(struct market *m, double time_s)
{
    for (; m->next < m->h->n_change && m->h->change[m->next].time_s <= time_s; m->next++)
        m->now[m->h->change[m->next].offer] = m->h->change[m->next].usd_per_h;
}

/* Of an hour of one GPU. */
static double share_usd(const struct market *m, size_t k)
{
    return m->now[k] / (double)m->h->offer[k].gpus;
}

/* What the rest costs at the prices of now, if it goes on at k from `from` (n_offer: it begins). */
static double rest_usd(const struct market *m, enum spot_price_policy policy, size_t from, size_t k,
                       double left_h, double pending_h)
{
    const bool moves = from != k, is_first = from == m->h->n_offer;
    const double compute_h = left_h * slowed(m->job) / m->h->offer[k].speed;

    if (policy != SPOT_PRICE_SPOT)
        return compute_h * share_usd(m, k);
    return (compute_h + (moves ? m->job->restart_h : pending_h)) * share_usd(m, k) +
           (moves && !is_first && m->h->offer[from].region != m->h->offer[k].region
                ? m->job->egress_usd
                : 0);
}

static size_t cheapest(const struct market *m, enum spot_price_policy policy, size_t from,
                       double left_h, double pending_h)
{
    size_t best = from;
    double least =
        from < m->h->n_offer ? rest_usd(m, policy, from, from, left_h, pending_h) : INFINITY;

    for (size_t k = 0; k < m->h->n_offer; k++) {
        const double usd =
            isnan(m->now[k]) ? INFINITY : rest_usd(m, policy, from, k, left_h, pending_h);

        if (usd < least * (1 - 1e-12)) {
            least = usd;
            best = k;
        }
    }
    return best;
}

/* At `offer` until `end_s` or the work is done, at each price as it comes. */
static double stay(struct market *m, size_t offer, double time_s, double end_s, double *left_h,
                   double *pending_h, double *usd)
{
    const double speed = m->h->offer[offer].speed / slowed(m->job);

    while (*left_h > 0 && time_s < end_s) {
        const double until_s = m->next < m->h->n_change && m->h->change[m->next].time_s < end_s
                                   ? m->h->change[m->next].time_s
                                   : end_s;
        const double need_h = *left_h / speed + *pending_h;
        const double here_h = fmin(need_h, (until_s - time_s) / 3600);
        const double wait_h = fmin(*pending_h, here_h);

        *usd += here_h * share_usd(m, offer);
        *pending_h -= wait_h;
        *left_h = here_h < need_h ? *left_h - (here_h - wait_h) * speed : 0;
        time_s += here_h * 3600;
        if (*left_h > 0)
            advance(m, time_s = until_s);
    }
    return time_s;
}

static int play_ours(struct market *m, enum spot_price_policy policy, struct spot_price_result *r,
                     struct spot_err *err)
{
    const double start_s = (double)m->job->start_day * DAY_S;
    const double last_s = m->h->n_change ? m->h->change[m->h->n_change - 1].time_s : 0;
    double time_s = start_s, left_h = m->job->work_h, pending_h = 0;
    size_t offer = m->h->n_offer;

    while (left_h > 0) {
        size_t to = offer;

        advance(m, time_s);
        if (offer == m->h->n_offer || policy != SPOT_PRICE_STAY)
            to = cheapest(m, policy, offer, left_h, pending_h);
        if (to == m->h->n_offer)
            return spot_err_set(err, SPOT_EINFEASIBLE, "no price is known on day %lld",
                                (long long)m->job->start_day);
        if (to != offer) {
            pending_h = m->job->restart_h;
            if (offer < m->h->n_offer) {
                r->moves++;
                r->usd +=
                    m->h->offer[offer].region != m->h->offer[to].region ? m->job->egress_usd : 0;
            }
        }
        offer = to;
        note(m->job, (int64_t)(time_s / DAY_S), offer);
        r->is_cut = r->is_cut || time_s > last_s;
        time_s = stay(m, offer, time_s, time_s + DAY_S, &left_h, &pending_h, &r->usd);
    }
    r->hours = (time_s - start_s) / 3600;
    return 0;
}

int spot_price_play(const struct spot_price_history *history, const struct spot_price_job *job,
                    enum spot_price_policy policy, struct spot_price_result *result,
                    struct spot_err *err)
{
    struct market m = { .h = history, .job = job, .baseline = baseline_rank(history) };
    int rc;

    memset(result, 0, sizeof(*result));
    m.now = spot_xcalloc(history->n_offer + 1, sizeof(*m.now));
    for (size_t k = 0; k < history->n_offer; k++)
        m.now[k] = NAN;
    rc = (policy <= SPOT_PRICE_DYNAMIC ? play_published : play_ours)(&m, policy, result, err);
    free(m.now);
    return rc;
}
