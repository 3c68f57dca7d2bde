/* SPDX-License-Identifier: MIT */
#include "plan/deadline/market_many.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

enum {
    STEPS = 240, /* time steps of a job, about */
    UNITS = 2    /* levels of work per step */
};

/* Priors and rates of change; docs/results/market.md says on which traces they were tuned. */
static const double PRIOR_SHARE = 0.5, /* part of the time in which the cheapest place has spot */
    PRIOR_ALIKE = 0.7,                 /* j places count as j to this power independent ones */
    PRIOR_H = 8,                       /* weight of the shares above, in hours of observation */
    PRIOR_RUN_H = 2.5,                 /* mean length of the one run assumed before any was seen */
    PRIOR_HAZARD = 0.4,                /* factor on the hazard of the pooled runs of run_dist.c */
    /* weight of the mean of all places at an age, in ended runs */
    PRIOR_ENDS = 4,
                    /* mean time until a better place turns up, if there is one */
    BETTER_H = 6;

void market_seen_add(struct market_seen *seen, const bool *has_spot, size_t n_place)
{
    uint32_t there = 0;

    for (size_t k = 0; k < n_place; k++)
        there |= (uint32_t)has_spot[k] << k;
    seen->there = spot_xgrow(seen->there, &seen->cap, seen->n + 1, sizeof(*seen->there));
    seen->there[seen->n++] = there;
}

/* --- learning --- */

static double ratio(const struct spot_market *m, size_t k)
{
    return m->place[k].spot_usd_per_h / m->place[k].speed;
}

/* Stable sort: of places with equal prices the earlier comes first. */
static void rank_places(struct market_many *t, const struct spot_market *m)
{
    t->n = m->n_place;
    for (size_t k = 0; k < t->n; k++) {
        size_t j = k;

        for (; j && ratio(m, t->place[j - 1]) > ratio(m, k); j--)
            t->place[j] = t->place[j - 1];
        t->place[j] = k;
    }
    for (size_t j = 0; j < t->n; j++)
        t->rank[t->place[j]] = j;
}

/* From the history and the prior, in which j places are partly correlated. */
static void share_ranks(struct market_many *t, const struct spot_market *m,
                        const struct market_seen *seen)
{
    const double weight = PRIOR_H * 3600 / m->tick_s;
    double before = 0, up[SPOT_MARKET_PLACES_MAX] = { 0 };

    for (size_t i = 0; i < seen->n; i++)
        for (size_t j = 0; j < t->n; j++)
            if (seen->there[i] >> t->place[j] & 1) {
                up[j]++;
                break;
            }
    for (size_t j = 0; j < t->n; j++) {
        const double prior = 1 - pow(1 - PRIOR_SHARE, pow((double)j + 1, PRIOR_ALIKE)),
                     last = j ? 1 - pow(1 - PRIOR_SHARE, pow((double)j, PRIOR_ALIKE)) : 0;

        t->share[j] = (weight * (prior - last) + up[j]) / (weight + (double)seen->n);
        before += t->share[j];
    }
    t->share[t->n] = fmax(0, 1 - before);
}

static void share_of_law(struct market_many *t, const struct spot_run_dist *law)
{
    double none = 1;

    for (size_t j = 0; j < t->n; j++) {
        const double begins = spot_run_dist_mean_end(&law[t->place[j]], false),
                     ends = spot_run_dist_mean_end(&law[t->place[j]], true);

        t->share[j] = none * begins / fmax(begins + ends, 1e-12);
        none -= t->share[j];
    }
    t->share[t->n] = none;
}

/* The mean cost, over places, of moving to another one, where the job may run anywhere. */
static void cost_launch(struct market_many *t, const struct spot_market *m)
{
    double wait_s = 0, pairs = 0, move_s = 0, usd = 0, step_s;
    const size_t refuge = spot_market_refuge(m);

    t->late_usd = spot_market_late_usd(m);
    for (size_t i = 0; i < m->n_restart; i++)
        wait_s += m->restart_prob[i] * m->restart_s[i];
    for (size_t k = 0; k < t->n; k++)
        for (size_t to = 0; to < t->n; to++) {
            const struct spot_market_now now = { .place = k };

            pairs += to != k;
            usd += spot_market_move_usd(m, &now, to);
            move_s += spot_market_move_s(m, &now, to);
        }
    wait_s += move_s / fmax(1, pairs);
    t->step_ticks = (int64_t)fmax(
        1, fmax(ceil(wait_s / m->tick_s - 1e-9), round(m->deadline_s / m->tick_s / STEPS)));
    step_s = (double)t->step_ticks * m->tick_s;
    t->wait = wait_s / step_s;
    t->launch_usd = usd / fmax(1, pairs);
    if (t->late_usd > 0)
        return;
    t->worst = spot_market_longest(m, refuge) / step_s;
    t->usd[t->n] = m->place[refuge].on_demand_usd_per_h * step_s / 3600;
    t->speed[t->n] = m->place[refuge].speed;
}

/* Losses per tick of spot in one place, including a prior run. */
static double mean_hazard(const struct spot_market *m, const struct spot_run_count *count)
{
    double ended = 1, seen = PRIOR_RUN_H * 3600 / m->tick_s;

    for (size_t i = 0; i < SPOT_RUN_STAGES; i++) {
        ended += count->ended[1][i];
        seen += count->seen[1][i];
    }
    return ended / seen;
}

/* Hazards by age: all places together with the pooled prior; the result is the prior of each place.
 */
static void learn_hazards(struct market_many *t, const struct spot_market *m,
                          const struct spot_run_count *count)
{
    struct spot_run_count all = { 0 };
    struct spot_run_dist dist;

    for (size_t k = 0; k < t->n; k++)
        for (size_t i = 0; i < SPOT_RUN_STAGES; i++) {
            all.ended[1][i] += count[k].ended[1][i];
            all.seen[1][i] += count[k].seen[1][i];
        }
    spot_run_dist_learn_zone(&dist, &all, m->tick_s);
    for (size_t k = 0; k < t->n; k++)
        for (size_t i = 0; i < SPOT_RUN_STAGES; i++)
            t->hazard[k][i] =
                (PRIOR_ENDS + count[k].ended[1][i]) /
                (PRIOR_ENDS / (PRIOR_HAZARD * dist.end_prob[1][i]) + count[k].seen[1][i]);
}

void market_many_learn(struct market_many *t, const struct spot_market *m,
                       const struct market_seen *seen, const struct spot_run_count *count,
                       const struct spot_run_dist *law)
{
    double step_h;

    t->is_known = law;
    rank_places(t, m);
    cost_launch(t, m);
    if (law)
        share_of_law(t, law);
    else
        share_ranks(t, m, seen);
    step_h = (double)t->step_ticks * m->tick_s / 3600;
    learn_hazards(t, m, count);
    for (size_t j = 0; j < t->n; j++) {
        const size_t k = t->place[j];
        const double hazard =
            law ? spot_run_dist_mean_end(&law[k], true) : mean_hazard(m, &count[k]);

        for (size_t i = 0; law && i < SPOT_RUN_STAGES; i++)
            t->hazard[k][i] = law[k].end_prob[1][i];
        t->usd[j] = m->place[k].spot_usd_per_h * step_h;
        t->speed[j] = m->place[k].speed;
        t->end[j] = fmin(1 - 1e-6, 1 - pow(1 - fmin(0.5, hazard), (double)t->step_ticks));
    }
    t->better = 1 - exp(-step_h / BETTER_H);
}

/* --- the dynamic program --- */

/* Index of where the job runs: 0 nowhere, 1 + rank on spot, n + 1 on demand. */
static double *at(const struct market_many *t, double *table, size_t runs, size_t cheapest)
{
    return table + (runs * (t->n + 1) + cheapest) * (size_t)t->n_level;
}

static double level(const double *x, double l)
{
    const int64_t below = (int64_t)l;
    const double part = l - (double)below;

    return l <= 0 ? 0 : part > 0 ? (1 - part) * x[below] + part * x[below + 1] : x[below];
}

/* sum[l]: the expected value if the best place available has rank 0 to `rank`, by their shares;
 * `rank` itself has the rest of the probability. */
static void draw(const struct market_many *t, double *value, size_t runs, size_t rank, double *sum)
{
    double tail = 1;

    memset(sum, 0, (size_t)t->n_level * sizeof(*sum));
    for (size_t j = 0; j <= rank; j++) {
        const double *x = at(t, value, runs, j), weight = j < rank ? t->share[j] : tail;

        tail -= t->share[j];
        for (int64_t l = 0; l < t->n_level; l++)
            sum[l] += weight * x[l];
    }
}

/* The value after a loss; if the law is known, no less than without it. A loss draws the cheapest
 * place anew, which is no reason to hope for one. Learned shares are played better with the hope:
 * 29.16 usd on the first row of docs/results/market.md, 30.49 without. */
static double no_less(const struct market_many *t, double drawn, double still)
{
    return t->is_known ? fmax(drawn, still) : drawn;
}

/* The expected value one step later. */
static void expect(const struct market_many *t, double *value, double *mean, double *lost,
                   double *scratch)
{
    const size_t n_level = (size_t)t->n_level;
    double *drawn = scratch, *better = scratch + n_level;

    draw(t, value, 0, t->n, lost);
    for (size_t runs = 0; runs <= t->n + 1; runs++) {
        const bool is_spot = runs && runs <= t->n;
        const size_t worst = is_spot ? runs - 1 : t->n;
        const double ends = is_spot ? t->end[worst] : 0;
        double tail = 1;

        draw(t, value, runs, worst, drawn);
        memset(better, 0, n_level * sizeof(*better));
        for (size_t j = 0; j <= worst; j++) {
            const double gone = j < t->n && j != worst ? t->end[j] : 0, share = t->share[j];
            const double *same = at(t, value, runs, j);
            const double keeps = 1 - t->better * (1 - tail);
            double *x = at(t, mean, runs, j);

            for (size_t l = 0; l < n_level; l++) {
                const double still = t->better * better[l] + keeps * same[l];
                const double then = gone * no_less(t, drawn[l], still) + (1 - gone) * still;

                x[l] = ends * no_less(t, lost[l], then) + (1 - ends) * then;
                better[l] += share * same[l];
            }
            tail -= share;
        }
    }
}

/* The values with `steps` steps left, from the expected values one step later. */
static void relax(const struct market_many *t, int64_t steps, double *mean, double *value)
{
    const double od_done = UNITS * t->speed[t->n], first = fmax(0, 1 - t->wait);
    const bool is_sure = t->late_usd <= 0;

    for (size_t runs = 0; runs <= t->n + 1; runs++) {
        const bool is_spot = runs && runs <= t->n, is_od = runs > t->n;
        const size_t worst = is_spot ? runs - 1 : t->n;

        for (size_t j = 0; j <= worst; j++) {
            const double *idle = at(t, mean, 0, j), *od = at(t, mean, t->n + 1, j),
                         *stay = at(t, mean, runs, j),
                         *go = j < t->n ? at(t, mean, j + 1, j) : NULL;
            double *x = at(t, value, runs, j);

            x[0] = 0;
            for (int64_t l = 1; l < t->n_level; l++) {
                const double left = (double)l;
                double v = idle[l];

                if (is_sure)
                    v = fmin(v, t->usd[t->n] + (is_od ? 0 : t->launch_usd) +
                                    level(od, left - od_done * (is_od ? 1 : first)));
                if (is_spot)
                    v = fmin(v, t->usd[worst] + level(stay, left - UNITS * t->speed[worst]));
                if (go && !(is_spot && j == worst))
                    v = fmin(v, t->usd[j] + t->launch_usd +
                                    level(go, left - UNITS * t->speed[j] * first));
                /* too late for anything but on demand */
                if (is_sure && left > ((double)steps - (is_od ? 0 : t->worst)) * od_done + 1e-9)
                    v = t->usd[t->n] * (left / od_done + (is_od ? 0 : t->wait));
                x[l] = v;
            }
        }
    }
}

void market_many_release(struct market_many *t)
{
    free(t->then);
    free(t->lost);
    t->then = t->lost = NULL;
}

/* The cost of the work that is left at the deadline. */
static double late(const struct market_many *t, int64_t l)
{
    if (t->late_usd > 0)
        return l ? t->late_usd * (1 + (double)l / (double)t->n_level) : 0;
    return (double)l / (UNITS * t->speed[t->n]) * t->usd[t->n];
}

void market_many_solve(struct market_many *t, const struct spot_market *m,
                       const struct spot_market_now *now, int64_t keep_ticks)
{
    const double step_s = (double)t->step_ticks * m->tick_s;
    size_t cells;
    double *value, *scratch;

    market_many_release(t);
    t->steps = spot_market_ticks(m, now) / t->step_ticks;
    t->steps = t->steps > 0 ? t->steps : spot_market_ticks(m, now) > 0; /* less than one step */
    t->n_keep = keep_ticks > 0 ? keep_ticks / t->step_ticks + 2 : t->steps;
    t->n_keep = t->n_keep < t->steps ? t->n_keep : t->steps;
    t->n_level = (int64_t)ceil(now->left_s / step_s * UNITS) + 2;
    if (t->n_keep < 1)
        return;
    cells = (t->n + 2) * (t->n + 1) * (size_t)t->n_level;
    value = spot_xcalloc(cells, sizeof(double));
    scratch = spot_xcalloc(2 * (size_t)t->n_level, sizeof(double));
    t->lost = spot_xcalloc((size_t)(t->n_keep * t->n_level), sizeof(double));
    t->then = spot_xcalloc((size_t)t->n_keep * cells, sizeof(double));
    for (size_t i = 0; i < cells; i++)
        value[i] = late(t, (int64_t)(i % (size_t)t->n_level));
    for (int64_t steps = 1; steps <= t->steps; steps++) {
        const int64_t row = t->steps - steps < t->n_keep ? t->steps - steps : 0;
        double *mean = t->then + (size_t)row * cells;

        expect(t, value, mean, t->lost + row * t->n_level, scratch);
        relax(t, steps, mean, value);
    }
    free(value);
    free(scratch);
}

/* --- the decision --- */

/* Mean time without progress if this step is taken now. */
static double wait_of(const struct spot_market *m, const struct spot_market_now *now,
                      struct spot_market_step step)
{
    const bool goes_on = step.mode == now->mode && step.place == now->place;
    const double begun_s = goes_on ? (double)now->pending * m->tick_s : 0;
    double sum = 0, all = 0;

    if (goes_on && !now->pending)
        return 0;
    for (size_t i = 0; i < m->n_restart; i++)
        if (m->restart_s[i] > begun_s) {
            sum += m->restart_prob[i] * (m->restart_s[i] - begun_s);
            all += m->restart_prob[i];
        }
    return (all > 0 ? sum / all : 0) + (goes_on ? 0 : spot_market_move_s(m, now, step.place));
}

/* The probability that spot of this age is lost within a step. */
static double end_of(const struct market_many *t, size_t place, size_t age)
{
    double stays = 1;

    for (int64_t i = 0; i < t->step_ticks; i++)
        stays *= 1 - t->hazard[place][spot_run_stage(age + (size_t)i)];
    return 1 - stays;
}

static double weigh(const struct market_many *t, const struct spot_market *m,
                    const struct spot_market_now *now, struct spot_market_step step,
                    size_t cheapest)
{
    const int64_t ticks = spot_market_ticks(m, now);
    int64_t row = t->steps - ticks / t->step_ticks;
    const size_t runs = step.mode == SPOT_DEADLINE_IDLE        ? 0
                        : step.mode == SPOT_DEADLINE_ON_DEMAND ? t->n + 1
                                                               : t->rank[step.place] + 1;
    const double step_s = (double)t->step_ticks * m->tick_s, speed = m->place[step.place].speed;
    double left_s = now->left_s, need = (double)t->step_ticks, usd = 0;
    double *table, then;

    row = row < 0 ? 0 : row < t->n_keep ? row : t->n_keep - 1;
    table = t->then + (size_t)row * (t->n + 2) * (t->n + 1) * (size_t)t->n_level;
    if (runs) {
        const double wait_s = wait_of(m, now, step);

        left_s -= fmax(0, step_s - wait_s) * speed;
        need = fmin(need, ceil((now->left_s / speed + wait_s) / m->tick_s - 1e-9));
        usd += spot_market_usd_per_h(m, step, ticks);
        if (runs <= t->n && cheapest >= runs)
            cheapest = runs - 1;
    }
    usd *= need * m->tick_s / 3600;
    if (runs && !(step.mode == now->mode && step.place == now->place))
        usd += spot_market_move_usd(m, now, step.place);
    then = level(at(t, table, runs, cheapest), left_s / step_s * UNITS);
    if (step.mode == SPOT_DEADLINE_SPOT) { /* with the hazard at its age instead of the mean */
        const double lost = level(t->lost + row * t->n_level, left_s / step_s * UNITS);
        const double mean = t->end[runs - 1],
                     end = end_of(t, step.place,
                                  now->has_spot[step.place] ? now->age[step.place] : 1);

        if (!t->is_known || then - mean * lost < lost * (1 - mean))
            then = end * lost + (1 - end) * (then - mean * lost) / (1 - mean);
    }
    return usd + then;
}

struct spot_market_step market_many_ask(const struct market_many *t, const struct spot_market *m,
                                        const struct spot_market_now *now, double (*step_usd)[3])
{
    /* at the very end: continue what runs, or run on demand */
    struct spot_market_step best =
        spot_market_settle(m, now, (struct spot_market_step){ now->mode, now->place });
    double least = INFINITY;
    size_t cheapest = t->n;

    for (size_t j = t->n; j-- > 0;)
        cheapest = now->has_spot[t->place[j]] ? j : cheapest;
    for (size_t k = 0; k < t->n; k++)
        for (enum spot_deadline_mode mode = SPOT_DEADLINE_IDLE; mode <= SPOT_DEADLINE_ON_DEMAND;
             mode++) {
            const struct spot_market_step step = { mode, k };
            const bool is_there = mode != SPOT_DEADLINE_SPOT || now->has_spot[k];
            double usd = INFINITY;

            if (t->n_keep > 0 && (is_there || step_usd) &&
                !(mode == SPOT_DEADLINE_IDLE && k != now->place) &&
                spot_market_is_safe(m, now, step))
                usd = weigh(t, m, now, step, cheapest);
            if (step_usd)
                step_usd[k][mode] = usd;
            if (is_there && usd < least) {
                least = usd;
                best = step;
            }
        }
    return now->left_s > 0 ? best : (struct spot_market_step){ SPOT_DEADLINE_IDLE, now->place };
}
