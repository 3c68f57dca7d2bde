/* SPDX-License-Identifier: MIT */
#include "forecast/recal.h"

#include <math.h>
#include <string.h>

/* Start values of the coefficients for the odds of a change, on (1, age, restlessness), and of the
 * tails; and the precisions of their normal priors. All were chosen on the tuning series of
 * docs/results/forecast.md. */
static const double START[SPOT_RECAL_TERMS] = { -0.12, -0.10, -0.12 }, FIRM = 400;
static const double TAIL = 0.15, TAIL_FIRM = 100;
static const double FIFTH = 0.2; /* largest probability of a tail */

static const uint64_t RECENT = ((uint64_t)1 << SPOT_RECAL_RECENT) - 1;

enum { LEARN_ALL = 2048 };

static double clamp(double x, double most)
{
    return x > most ? most : x < -most ? -most : x;
}

/* The probability whose odds are those of p times exp(by). */
static double tilt(double p, double by)
{
    const double up = p * exp(by);

    return up / (1 - p + up);
}

/* Tails of the forecast are too light far ahead and about right at the next step. */
static double tail_start(int h)
{
    return TAIL * (1 - 1.0 / h);
}

/* --- learning --- */

/* One filter step for the coefficients on x. With the covariance C = I / FIRM - known the precision
 * grows by v x x', so `known` grows by C x x'C v / (1 + v x'C x), and the coefficients move by the
 * new C times x times the error (Sherman and Morrison 1950). */
static void learn_change(struct spot_recal_step *s, const double *x, double p, bool came,
                         double weight)
{
    const double v = weight * p * (1 - p);
    double gain[SPOT_RECAL_TERMS], along = 0;

    for (int i = 0; i < SPOT_RECAL_TERMS; i++) {
        gain[i] = x[i] / FIRM;
        for (int j = 0; j < SPOT_RECAL_TERMS; j++)
            gain[i] -= s->known[i][j] * x[j];
        along += x[i] * gain[i];
    }
    for (int i = 0; i < SPOT_RECAL_TERMS; i++) {
        for (int j = 0; j < SPOT_RECAL_TERMS; j++)
            s->known[i][j] += v * gain[i] * gain[j] / (1 + v * along);
        s->shift[i] += weight * (came - p) * gain[i] / (1 + v * along);
    }
}

static void learn_tail(struct spot_recal_step *s, int side, double p, bool came, double weight)
{
    s->sure[side] += weight * p * (1 - p);
    s->tail[side] += weight * (came - p) / (TAIL_FIRM + s->sure[side]);
}

static double change_by(const struct spot_recal_step *s, const double *x,
                        const struct spot_daily_time *time)
{
    double by = spot_daily_by(&s->daily, time);

    for (int i = 0; i < SPOT_RECAL_TERMS; i++)
        by += (START[i] + s->shift[i]) * x[i];
    return clamp(by, 3);
}

static double tail_by(const struct spot_recal_step *s, int side, int h)
{
    return clamp(tail_start(h) + s->tail[side], 3);
}

static void learn(struct spot_recal *recal, const struct spot_recal_moment *m, int h, int y)
{
    const struct spot_recal_event *e = &m->event[h - 1];
    struct spot_recal_step *s = &recal->step[h - 1];
    const double weight = m->weight / h;
    const double change = tilt(e->change, change_by(s, m->x, &m->time));
    const bool in_tail[2] = { y <= e->low, y >= e->high };

    learn_change(s, m->x, change, y != m->now, weight);
    spot_daily_learn(&s->daily, &m->time, change, y != m->now, weight);
    for (int side = 0; side < 2; side++)
        if (e->tail[side] > 0)
            learn_tail(s, side, tilt(e->tail[side], tail_by(s, side, h)), in_tail[side], weight);
}

void spot_recal_observe(struct spot_recal *recal, int y)
{
    const bool changed = recal->n && y != recal->newest;

    recal->n_change += changed;
    recal->age = changed ? 0 : recal->age;
    recal->changes = (recal->changes << 1 | changed) & RECENT;
    recal->newest = y;
    recal->age++;
    recal->n++;
    for (int h = 1; h <= SPOT_RECAL_STEPS && (uint64_t)h < recal->n; h++) {
        const uint64_t at = recal->n - (uint64_t)h;
        const struct spot_recal_moment *m = &recal->moment[at % SPOT_RECAL_STEPS];

        if (m->at == at)
            learn(recal, m, h, y);
    }
}

/* Values between two distributions that are learned from: doubles with every doubling of n. */
static uint64_t stride(const struct spot_recal *recal)
{
    uint64_t every = 1;

    while (recal->n / every >= (uint64_t)2 * LEARN_ALL)
        every *= 2;
    return every;
}

bool spot_recal_is_due(const struct spot_recal *recal)
{
    return recal->n % stride(recal) == 0;
}

double spot_recal_weight(const struct spot_recal *recal)
{
    return (double)stride(recal);
}

/* --- correcting --- */

/* The terms: 1; and, in units of the mean run between changes, the age of the count; and the
 * changes in the newest intervals divided by the expected ones, with one added to both. */
static void find_terms(const struct spot_recal *recal, double x[SPOT_RECAL_TERMS])
{
    const double rate = ((double)recal->n_change + 1) / ((double)recal->n + 20);
    const double window = recal->n < SPOT_RECAL_RECENT ? (double)recal->n : SPOT_RECAL_RECENT;
    const double changes = __builtin_popcountll(recal->changes);

    x[0] = 1;
    x[1] = log2((double)recal->age * rate);
    x[2] = log2((changes + 1) / (window * rate + 1));
}

static void scale_range(double *p, int first, int end, double by)
{
    for (int k = first; k < end; k++)
        p[k] *= by;
}

/* `by`: added to the log odds of a change. */
static void correct_change(double by, int cap, int now, double *p, struct spot_recal_event *event)
{
    const double stay = p[now];
    double change = 0, wanted;

    for (int k = 0; k <= cap; k++)
        change += k != now ? p[k] : 0;
    event->change = change;
    if (change <= 0 || stay <= 0)
        return;
    wanted = tilt(change, by);
    scale_range(p, 0, now, wanted / change);
    p[now] = 1 - wanted;
    scale_range(p, now + 1, cap + 1, wanted / change);
}

/* Find the widest tails with a probability of at most a fifth. */
static void find_tails(const double *p, int cap, struct spot_recal_event *event)
{
    double sum = 0;

    event->low = -1;
    event->high = cap + 1;
    event->tail[0] = event->tail[1] = 0;
    for (int k = 0; k <= cap && sum + p[k] <= FIFTH; k++) {
        sum += p[k];
        event->tail[0] = sum;
        event->low = k;
    }
    sum = 0;
    for (int k = cap; k >= 0 && sum + p[k] <= FIFTH; k--) {
        sum += p[k];
        event->tail[1] = sum;
        event->high = k;
    }
}

static void correct_tails(const struct spot_recal_step *s, int h, int cap, double *p,
                          struct spot_recal_event *event)
{
    double wanted[2], middle = 1, sum = 0;

    find_tails(p, cap, event);
    for (int side = 0; side < 2; side++) {
        wanted[side] = tilt(event->tail[side], tail_by(s, side, h));
        middle -= wanted[side];
        sum += event->tail[side];
    }
    if (event->tail[0] > 0)
        scale_range(p, 0, event->low + 1, wanted[0] / event->tail[0]);
    scale_range(p, event->low + 1, event->high, middle / (1 - sum));
    if (event->tail[1] > 0)
        scale_range(p, event->high, cap + 1, wanted[1] / event->tail[1]);
}

void spot_recal_apply(struct spot_recal *recal, int cap, double day, int horizon, bool learn,
                      double *prob)
{
    const int now = (int)recal->newest;
    const struct spot_daily_time time =
        /* for counts above one the time of day does not help */
        spot_daily_time_at(recal->n, cap > 1 ? 0 : day, now > 0);
    struct spot_recal_moment *m = &recal->moment[recal->n % SPOT_RECAL_STEPS];
    double x[SPOT_RECAL_TERMS];

    find_terms(recal, x);
    if (learn) {
        memset(m, 0, sizeof(*m));
        m->at = recal->n;
        memcpy(m->x, x, sizeof(x));
        m->weight = (double)stride(recal);
        m->now = now;
        m->time = time;
    }
    for (int h = 1; h <= horizon; h++) {
        const int at = h < SPOT_RECAL_STEPS ? h : SPOT_RECAL_STEPS;
        const struct spot_recal_step *s = &recal->step[at - 1];
        double *p = prob + (size_t)(h - 1) * ((size_t)cap + 1);
        struct spot_recal_event event = { .low = -1, .high = cap + 1 };

        correct_change(change_by(s, x, &time), cap, now, p, &event);
        if (cap > 1) /* with two values the tail is the change */
            correct_tails(s, at, cap, p, &event);
        if (learn && h <= SPOT_RECAL_STEPS)
            m->event[h - 1] = event;
    }
}

bool spot_recal_is_sound(const struct spot_recal *recal, int cap)
{
    for (int i = 0; i < SPOT_RECAL_STEPS; i++)
        if (!spot_daily_time_is_sound(&recal->moment[i].time))
            return false;
    return recal->newest >= 0 && recal->newest <= cap && recal->age >= 0 &&
           recal->n <= (uint64_t)1 << 62;
}
