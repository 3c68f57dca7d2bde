/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "plan/deadline.h"

#define SLACK_TICKS 1e-9 /* sums of seconds are not exact */

static double ticks_up(const struct spot_market *m, double time_s)
{
    return ceil(time_s / m->tick_s - SLACK_TICKS);
}

int64_t spot_market_ticks(const struct spot_market *m, const struct spot_market_now *now)
{
    return (int64_t)floor((m->deadline_s - now->elapsed_s) / m->tick_s + SLACK_TICKS);
}

static bool is_far(const struct spot_market *m, size_t from, size_t to)
{
    return m->place[from].region != m->place[to].region;
}

double spot_market_longest(const struct spot_market *m, size_t place)
{
    double move_s = 0;

    for (size_t k = 0; k < m->n_place; k++)
        if (is_far(m, k, place))
            move_s = fmax(move_s, m->place[k].leave_s);
    return m->restart_s[m->n_restart - 1] + move_s;
}

double spot_market_move_usd(const struct spot_market *m, const struct spot_market_now *now,
                            size_t place)
{
    return !now->is_new && is_far(m, now->place, place)
               ? m->egress_usd + m->place[now->place].leave_usd
               : 0;
}

double spot_market_move_s(const struct spot_market *m, const struct spot_market_now *now,
                          size_t place)
{
    return !now->is_new && is_far(m, now->place, place) ? m->place[now->place].leave_s : 0;
}

size_t spot_market_refuge(const struct spot_market *m)
{
    size_t best = m->n_place;

    for (size_t k = 0; k < m->n_place; k++) {
        const struct spot_market_place *p = &m->place[k], *b = &m->place[best];

        if (isinf(p->on_demand_usd_per_h))
            continue;
        if (best == m->n_place || p->speed > b->speed ||
            (p->speed == b->speed && p->on_demand_usd_per_h < b->on_demand_usd_per_h))
            best = k;
    }
    return best;
}

double spot_market_late_usd(const struct spot_market *m)
{
    double usd = 1e-3;

    if (spot_market_refuge(m) < m->n_place)
        return 0;
    for (size_t k = 0; k < m->n_place; k++)
        usd = fmax(usd, m->place[k].spot_usd_per_h / m->place[k].speed);
    return 10 * usd * m->work_s / 3600;
}

/* Ticks to the end of the job on demand, continuing where it runs or launched at the refuge. */
static double ticks_to_end(const struct spot_market *m, const struct spot_market_now *now)
{
    const size_t refuge = spot_market_refuge(m);
    double ticks;

    if (now->left_s <= SLACK_TICKS * m->tick_s || refuge == m->n_place)
        return 0;
    ticks = ticks_up(m, now->left_s / m->place[refuge].speed + spot_market_longest(m, refuge));
    if (now->mode == SPOT_DEADLINE_ON_DEMAND) {
        const double left_s =
            now->pending
                ? fmax(0, spot_market_longest(m, now->place) - (double)now->pending * m->tick_s)
                : 0;

        ticks = fmin(ticks, ticks_up(m, now->left_s / m->place[now->place].speed + left_s));
    }
    return ticks;
}

static int check_restarts(const struct spot_market *m, struct spot_err *err)
{
    double sum = 0;

    for (size_t i = 0; i < m->n_restart; i++) {
        sum += m->restart_prob[i];
        if (!(m->restart_s[i] >= 0) || (i && m->restart_s[i] <= m->restart_s[i - 1]) ||
            !(m->restart_prob[i] > 0))
            return spot_err_set(err, SPOT_EUSAGE,
                                "restart times have to ascend from 0 or above, each with a "
                                "probability above 0");
    }
    if (!m->n_restart || fabs(sum - 1) > 1e-6)
        return spot_err_set(err, SPOT_EUSAGE, "the probabilities of restart times sum to %g, not 1",
                            sum);
    return 0;
}

/* Check that the job can end in time: on demand in any case; if it may not use on demand, on spot
 * in the best case. */
static int check_deadline(const struct spot_market *m, const struct spot_market_now *now,
                          struct spot_err *err)
{
    const size_t refuge = spot_market_refuge(m);
    const bool is_sure = refuge < m->n_place;
    double need = ticks_to_end(m, now), longest_s = 0, fastest = 0;

    for (size_t k = 0; k < m->n_place; k++) {
        longest_s = fmax(longest_s, spot_market_longest(m, k));
        fastest = fmax(fastest, m->place[k].speed);
    }
    if (is_sure)
        longest_s = spot_market_longest(m, refuge);
    else
        need = ticks_up(m, now->left_s / fastest +
                               (now->mode == SPOT_DEADLINE_IDLE ? m->restart_s[0] : 0));
    if (longest_s >= SPOT_DEADLINE_RESTART_TICKS_MAX * m->tick_s ||
        !((m->deadline_s - now->elapsed_s) / m->tick_s <= SPOT_DEADLINE_TICKS_MAX))
        return spot_err_set(err, SPOT_EUSAGE,
                            "a restart takes fewer than %d ticks of %g s, and the deadline is at "
                            "most %d away",
                            SPOT_DEADLINE_RESTART_TICKS_MAX, m->tick_s, SPOT_DEADLINE_TICKS_MAX);
    if (now->elapsed_s > m->deadline_s)
        return spot_err_set(err, SPOT_EINFEASIBLE, "the deadline was %g h ago: %g h, %g h elapsed",
                            (now->elapsed_s - m->deadline_s) / 3600, m->deadline_s / 3600,
                            now->elapsed_s / 3600);
    if (need > (double)spot_market_ticks(m, now))
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "%g h of work and a restart of up to %g min take %g h on %s: a "
                            "deadline of %g h would do, it is %g h",
                            now->left_s / 3600, longest_s / 60, need * m->tick_s / 3600,
                            is_sure ? "demand" : "spot that stays",
                            (now->elapsed_s + need * m->tick_s) / 3600, m->deadline_s / 3600);
    return 0;
}

int spot_market_check(const struct spot_market *m, const struct spot_market_now *now,
                      struct spot_err *err)
{
    if (check_restarts(m, err))
        return -1;
    if (!m->n_place || m->n_place > SPOT_MARKET_PLACES_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "expected 1 to %d places, got %zu",
                            SPOT_MARKET_PLACES_MAX, m->n_place);
    for (size_t k = 0; k < m->n_place; k++)
        if (!(m->place[k].speed > 0) || !(m->place[k].spot_usd_per_h >= 0) ||
            !(m->place[k].on_demand_usd_per_h >= 0) || !(m->place[k].leave_usd >= 0) ||
            !(m->place[k].leave_s >= 0))
            return spot_err_set(err, SPOT_EUSAGE, "speeds have to be above 0, prices at least 0");
    if (!(m->tick_s > 0) || !(m->work_s > 0) || !(m->egress_usd >= 0))
        return spot_err_set(err, SPOT_EUSAGE, "work and tick have to be above 0, usd at least 0");
    return check_deadline(m, now, err);
}

double spot_market_usd_per_h(const struct spot_market *m, struct spot_market_step step,
                             int64_t ticks)
{
    const struct spot_market_place *p = &m->place[step.place];
    const bool is_spot = step.mode == SPOT_DEADLINE_SPOT;
    const double *path = p->path[!is_spot];
    int64_t at = m->path_ticks - ticks;

    if (step.mode == SPOT_DEADLINE_IDLE)
        return 0;
    if (!path || !m->n_path)
        return is_spot ? p->spot_usd_per_h : p->on_demand_usd_per_h;
    at = at < 0 ? 0 : at < (int64_t)m->n_path ? at : (int64_t)m->n_path - 1;
    return path[at];
}

double spot_market_take(const struct spot_market *m, struct spot_market_now *now,
                        struct spot_market_step step, double restart_s)
{
    const struct spot_market_place *p = &m->place[step.place];
    const bool goes_on = step.mode == now->mode && step.place == now->place;
    double done_s = m->tick_s, usd = spot_market_usd_per_h(m, step, spot_market_ticks(m, now));

    now->elapsed_s += m->tick_s;
    if (step.mode == SPOT_DEADLINE_IDLE) {
        now->mode = SPOT_DEADLINE_IDLE;
        now->pending = 0;
        return usd * m->tick_s / 3600;
    }
    if (!goes_on || now->pending) {
        const double begun_s = goes_on ? (double)now->pending * m->tick_s : 0;

        done_s = fmax(0, begun_s + m->tick_s - restart_s);
        now->pending =
            restart_s > begun_s + m->tick_s + SLACK_TICKS ? (goes_on ? now->pending : 0) + 1 : 0;
    }
    usd *= m->tick_s / 3600;
    if (!goes_on)
        usd += spot_market_move_usd(m, now, step.place);
    now->left_s = fmax(0, now->left_s - fmin(done_s, m->tick_s) * p->speed);
    now->mode = step.mode;
    now->place = step.place;
    now->is_new = false;
    return usd;
}

bool spot_market_is_safe(const struct spot_market *m, const struct spot_market_now *now,
                         struct spot_market_step step)
{
    struct spot_market_now then = *now;

    if (step.mode == SPOT_DEADLINE_ON_DEMAND && isinf(m->place[step.place].on_demand_usd_per_h))
        return false;
    spot_market_take(m, &then, step, spot_market_longest(m, step.place));
    return ticks_to_end(m, &then) <= (double)spot_market_ticks(m, &then);
}

struct spot_market_step spot_market_settle(const struct spot_market *m,
                                           const struct spot_market_now *now,
                                           struct spot_market_step step)
{
    const struct spot_market_step stay = { now->mode, now->place };

    if (spot_market_is_safe(m, now, step) &&
        (step.mode != SPOT_DEADLINE_SPOT || now->has_spot[step.place]))
        return step;
    if (now->mode != SPOT_DEADLINE_IDLE && spot_market_is_safe(m, now, stay))
        return stay;
    if (spot_market_refuge(m) == m->n_place)
        return (struct spot_market_step){ SPOT_DEADLINE_IDLE, now->place };
    return (struct spot_market_step){ SPOT_DEADLINE_ON_DEMAND, spot_market_refuge(m) };
}
