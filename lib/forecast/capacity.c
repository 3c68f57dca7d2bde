/* SPDX-License-Identifier: MIT */
#include "forecast/capacity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

enum { S = SPOT_CAPACITY_STATES, EACH_MIN = 8, EACH_MAX = 4096, FIRM_LEAST = -1, FIRM_MOST = 8 };
static const double RATE_MIN = 1e-4 / 3600, RATE_MAX = 120.0 / 3600;
/* Weights of start values: those of the noise in answers, those of the rates in events. */
static const double NOISE_FIRM = 100, RATE_FIRM = 1, SCORE_SPREAD = 0.5, ADVICE_MEAN = 0.5;

struct matrix {
    double at[S][S];
};

/* A matrix and its derivative in one direction. */
struct dual {
    struct matrix value, slope;
};

static struct matrix times(const struct matrix *a, const struct matrix *b)
{
    struct matrix c = { 0 };

    for (int i = 0; i < S; i++)
        for (int k = 0; k < S; k++)
            for (int j = 0; j < S; j++)
                c.at[i][j] += a->at[i][k] * b->at[k][j];
    return c;
}

static struct matrix plus(const struct matrix *a, const struct matrix *b, double factor)
{
    struct matrix c;

    for (int i = 0; i < S; i++)
        for (int j = 0; j < S; j++)
            c.at[i][j] = a->at[i][j] + factor * b->at[i][j];
    return c;
}

static struct dual dual_times(const struct dual *a, const struct dual *b)
{
    const struct matrix left = times(&a->value, &b->slope), right = times(&a->slope, &b->value);

    return (struct dual){ times(&a->value, &b->value), plus(&left, &right, 1) };
}

/* exp of a generator times the time, by scaling and squaring. The derivative is the integral over
 * the time of exp(u) direction exp(time - u). */
static struct dual exponential(struct dual x)
{
    static const int TERMS = 8;
    static const struct matrix zero;
    struct dual sum = { { { { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } } }, { { { 0 } } } }, term = sum;
    double most = 0;
    int halvings = 0;

    for (int i = 0; i < S; i++)
        most = fmax(most, -x.value.at[i][i]);
    while (most > 0.125) {
        most /= 2;
        halvings++;
    }
    x.value = plus(&zero, &x.value, ldexp(1, -halvings));
    x.slope = plus(&zero, &x.slope, ldexp(1, -halvings));
    for (int k = 1; k <= TERMS; k++) {
        term = dual_times(&term, &x);
        term.value = plus(&zero, &term.value, 1.0 / k);
        term.slope = plus(&zero, &term.slope, 1.0 / k);
        sum.value = plus(&sum.value, &term.value, 1);
        sum.slope = plus(&sum.slope, &term.slope, 1);
    }
    while (halvings--)
        sum = dual_times(&sum, &sum);
    return sum;
}

/* The generator of a place's chain while its score has this value. */
static struct matrix generator(const struct spot_capacity *m,
                               const struct spot_capacity_place *place, double score)
{
    const double gain = m->gain_per_s * place->gain_level * exp(m->by_score * score);
    struct matrix q = { 0 };

    for (int s = SPOT_CAPACITY_SHORT; s < S; s++) {
        const double loss = m->loss_per_s[s] * place->loss_level * exp(-m->by_score * score);

        q.at[0][s] = gain * (s == SPOT_CAPACITY_LASTING ? m->lasting : 1 - m->lasting);
        q.at[s][0] = loss;
        q.at[s][s] = -loss;
    }
    q.at[0][0] = -gain;
    return q;
}

/* The distribution over states if nothing is known. */
static void stationary(const struct spot_capacity *m, const struct spot_capacity_place *place,
                       double score, double *p)
{
    const struct matrix q = generator(m, place, score);
    double sum = 1;

    p[0] = 1;
    for (int s = 1; s < S; s++)
        sum += p[s] = q.at[0][s] / q.at[s][0];
    for (int s = 0; s < S; s++)
        p[s] /= sum;
}

static double chance(const struct spot_capacity *m, int state, bool is_granted)
{
    const double yes = state == SPOT_CAPACITY_NONE ? m->false_yes : 1 - m->missed;

    return is_granted ? yes : 1 - yes;
}

/* Update the distribution with an answer; returns the probability of that answer. */
static double hear(const struct spot_capacity *m, bool is_granted, double *p)
{
    double sum = 0;

    for (int s = 0; s < S; s++)
        sum += p[s] *= chance(m, s, is_granted);
    for (int s = 0; s < S; s++)
        p[s] /= sum;
    return sum;
}

void spot_capacity_hear(const struct spot_capacity *market, bool is_granted, double *p)
{
    hear(market, is_granted, p);
}

static struct matrix passage(const struct spot_capacity *m, const struct spot_capacity_place *place,
                             double score, double time_s)
{
    const struct matrix q = generator(m, place, score);
    struct dual x = { { { { 0 } } }, { { { 0 } } } };

    x.value = plus(&x.slope, &q, time_s);
    return exponential(x).value;
}

static void move(const struct matrix *passage_of, double *p)
{
    double next[S] = { 0 };

    for (int i = 0; i < S; i++)
        for (int j = 0; j < S; j++)
            next[j] += p[i] * passage_of->at[i][j];
    memcpy(p, next, sizeof(next));
}

double spot_capacity_filter(const struct spot_capacity *market,
                            const struct spot_capacity_place *place, double now_s, double *p)
{
    double likelihood = 0;

    stationary(market, place, place->n ? place->seen[0].score : place->score, p);
    for (size_t i = 0; i < place->n; i++) {
        const bool is_last = i + 1 == place->n;
        const double until_s = is_last ? now_s : place->seen[i + 1].time_s;
        const struct matrix to =
            passage(market, place, is_last ? place->score : place->seen[i].score,
                    until_s - place->seen[i].time_s);

        likelihood += log(hear(market, place->seen[i].is_granted, p));
        move(&to, p);
    }
    return likelihood;
}

double spot_capacity_granted(const struct spot_capacity *market, const double *p)
{
    return (1 - market->missed) * (p[SPOT_CAPACITY_SHORT] + p[SPOT_CAPACITY_LASTING]);
}

double spot_capacity_stays(const struct spot_capacity *market,
                           const struct spot_capacity_place *place, const double *p, double after_s)
{
    const double on = p[SPOT_CAPACITY_SHORT] + p[SPOT_CAPACITY_LASTING];
    const struct matrix q = generator(market, place, place->score);
    double sum = 0;

    for (int s = SPOT_CAPACITY_SHORT; s < S; s++)
        sum += p[s] * exp(-q.at[s][0] * after_s);
    return on > 0 ? sum / on : 0;
}

/* --- learning --- */

/* Expected losses, gains and times between two answers, given the state before and the likelihood
 * of later answers. */
static void expect_between(const struct spot_capacity *m, const struct spot_capacity_place *place,
                           const struct spot_capacity_seen *seen, double time_s,
                           const double *before, const double *after, struct spot_capacity_stats *t)
{
    const struct matrix q = generator(m, place, seen->score);
    const double up = exp(m->by_score * seen->score);
    struct dual x = { { { { 0 } } }, { { { 0 } } } };
    double whole = 0, lost = 0, gained = 0, risk_loss = 0, risk_gain = 0;

    x.value = plus(&x.slope, &q, time_s);
    for (int i = 0; i < S; i++)
        for (int j = 0; j < S; j++)
            x.slope.at[i][j] = after[i] * before[j] * time_s;
    x = exponential(x);
    for (int i = 0; i < S; i++)
        for (int j = 0; j < S; j++)
            whole += before[i] * x.value.at[i][j] * after[j];
    for (int s = SPOT_CAPACITY_SHORT; s < S; s++) {
        const double n_loss = q.at[s][0] * x.slope.at[0][s] / whole;
        const double n_gain = q.at[0][s] * x.slope.at[s][0] / whole;
        const double on_s = x.slope.at[s][s] / whole;

        t->n_loss[s] += n_loss;
        t->n_gain[s] += n_gain;
        t->time_s[s] += on_s / up;
        lost += n_loss;
        gained += n_gain;
        risk_loss += q.at[s][0] * on_s;
    }
    t->time_s[0] += x.slope.at[0][0] / whole * up;
    risk_gain = -q.at[0][0] * x.slope.at[0][0] / whole;
    t->slope += seen->score * (gained - risk_gain - lost + risk_loss);
    t->bend += seen->score * seen->score * (risk_gain + risk_loss);
}

struct spot_capacity_stats spot_capacity_expect(const struct spot_capacity *market,
                                                const struct spot_capacity_place *place)
{
    const size_t n = place->n;
    double(*p)[S] = spot_xcalloc(n + 1, sizeof(*p)), after[S] = { 1, 1, 1 };
    struct spot_capacity_stats t = { 0 };

    stationary(market, place, n ? place->seen[0].score : 0, p[0]);
    for (size_t i = 0; i < n; i++) {
        t.likelihood += log(hear(market, place->seen[i].is_granted, p[i]));
        memcpy(p[i + 1], p[i], sizeof(*p));
        if (i + 1 < n) {
            const struct matrix to = passage(market, place, place->seen[i].score,
                                             place->seen[i + 1].time_s - place->seen[i].time_s);

            move(&to, p[i + 1]);
        }
    }
    for (size_t i = n; i-- > 0;) {
        const bool is_granted = place->seen[i].is_granted;
        double sum = 0, on;

        if (i + 1 < n) {
            const double time_s = place->seen[i + 1].time_s - place->seen[i].time_s;
            const struct matrix to = passage(market, place, place->seen[i].score, time_s);
            double back[S] = { 0 };

            expect_between(market, place, &place->seen[i], time_s, p[i], after, &t);
            for (int a = 0; a < S; a++)
                for (int b = 0; b < S; b++)
                    back[a] += to.at[a][b] * after[b];
            memcpy(after, back, sizeof(after));
        }
        for (int s = 0; s < S; s++)
            sum += p[i][s] * after[s];
        on = 1 - p[i][0] * after[0] / sum;
        t.on += on;
        t.on_refused += is_granted ? 0 : on;
        t.off += 1 - on;
        t.off_granted += is_granted ? 1 - on : 0;
        for (int s = 0; s < S; s++) /* rescaled, or a long past would underflow */
            after[s] *= chance(market, s, is_granted) / sum;
    }
    free(p);
    return t;
}

void spot_capacity_start(struct spot_capacity *market)
{
    /* Fitted to the nine zones of a public trace of 2023 (docs/design/32-probes.md). */
    *market = (struct spot_capacity){ .loss_per_s = { 0, 3.0 / 3600, 0.15 / 3600 },
                                      .gain_per_s = 0.6 / 3600,
                                      .lasting = 0.4,
                                      .missed = 0.02,
                                      .false_yes = 0.01,
                                      /* a guess: with the rates above a request is granted
                                       * with .87 at a score of 10, .62 at 5.5, .27 at 1 */
                                      .by_score = 0.5,
                                      .by_advice = 0.5,
                                      .loss_firm = 4,
                                      .gain_firm = 4 };
}

static double within(double x, double least, double most)
{
    return fmin(fmax(x, least), most);
}

/* The weight of the gamma prior that makes `seen` events, with `expected` ones, most likely. */
static double firm_of(const double *seen, const double *expected, const double *mean, size_t n)
{
    double best = 4, most = -INFINITY;

    for (int k = FIRM_LEAST; k <= FIRM_MOST; k++) {
        const double a = ldexp(1, k);
        double sum = 0;

        for (size_t i = 0; i < n; i++)
            sum += lgamma(a * mean[i] + seen[i]) - lgamma(a * mean[i]) +
                   a * mean[i] * log(a / (a + expected[i])) -
                   (seen[i] > 0 ? seen[i] * log1p(a / expected[i]) : 0);
        if (sum > most + 1e-9) {
            most = sum;
            best = a;
        }
    }
    return best;
}

/* By place: observed events, and those predicted from the common rates. */
struct events {
    double *lost, *risk_loss, *gained, *risk_gain, *mean, *one;
};

static void take_levels(struct spot_capacity *m, struct spot_capacity_place *place, size_t n,
                        const struct events *e, bool is_firm_due)
{
    if (is_firm_due && n > 1) {
        m->loss_firm = firm_of(e->lost, e->risk_loss, e->mean, n);
        m->gain_firm = firm_of(e->gained, e->risk_gain, e->one, n);
    }
    for (size_t i = 0; i < n; i++) {
        place[i].loss_level =
            (m->loss_firm * e->mean[i] + e->lost[i]) / (m->loss_firm + e->risk_loss[i]);
        place[i].gain_level = (m->gain_firm + e->gained[i]) / (m->gain_firm + e->risk_gain[i]);
    }
}

/* How strongly the level follows the provider's advice: one Newton step on a Poisson likelihood. */
static void take_advice(struct spot_capacity *m, const struct spot_capacity_place *place, size_t n,
                        const struct events *e)
{
    double slope = (ADVICE_MEAN - m->by_advice) * 4, bend = 4;

    for (size_t i = 0; i < n; i++) {
        slope += place[i].advice * (e->lost[i] - e->mean[i] * e->risk_loss[i]);
        bend += place[i].advice * place[i].advice * e->mean[i] * e->risk_loss[i];
    }
    m->by_advice = within(m->by_advice + slope / bend, 0, 2);
}

/* The next rates from the events expected under the current ones. */
static void step(struct spot_capacity *m, const struct spot_capacity *start,
                 struct spot_capacity_place *place, size_t n, struct events *e, bool is_firm_due)
{
    struct spot_capacity_stats all = { 0 };
    double slope, bend;

    m->likelihood = 0;
    for (size_t i = 0; i < n; i++) {
        const struct spot_capacity_stats t = spot_capacity_expect(m, &place[i]);

        m->likelihood += t.likelihood;
        e->lost[i] = t.n_loss[1] + t.n_loss[2];
        e->gained[i] = t.n_gain[1] + t.n_gain[2];
        e->risk_loss[i] = 1e-9 + m->loss_per_s[1] * t.time_s[1] + m->loss_per_s[2] * t.time_s[2];
        e->risk_gain[i] = 1e-9 + m->gain_per_s * t.time_s[0];
        e->mean[i] = exp(m->by_advice * place[i].advice);
        e->one[i] = 1;
        for (int s = 0; s < S; s++) {
            all.n_loss[s] += t.n_loss[s];
            all.n_gain[s] += t.n_gain[s];
            all.time_s[s] += t.time_s[s] * (s ? place[i].loss_level : place[i].gain_level);
        }
        all.on += t.on, all.on_refused += t.on_refused;
        all.off += t.off, all.off_granted += t.off_granted;
        all.slope += t.slope, all.bend += t.bend;
    }
    slope = all.slope + (start->by_score - m->by_score) / (SCORE_SPREAD * SCORE_SPREAD);
    bend = all.bend + 1 / (SCORE_SPREAD * SCORE_SPREAD);
    take_advice(m, place, n, e);
    take_levels(m, place, n, e, is_firm_due);
    for (int s = 1; s < S; s++)
        m->loss_per_s[s] =
            within((all.n_loss[s] + RATE_FIRM) / (all.time_s[s] + RATE_FIRM / start->loss_per_s[s]),
                   RATE_MIN, RATE_MAX);
    m->gain_per_s = within((all.n_gain[1] + all.n_gain[2] + RATE_FIRM) /
                               (all.time_s[0] + RATE_FIRM / start->gain_per_s),
                           RATE_MIN, RATE_MAX);
    m->lasting = (all.n_gain[2] + start->lasting) / (all.n_gain[1] + all.n_gain[2] + 1);
    m->missed = (all.on_refused + NOISE_FIRM * start->missed) / (all.on + NOISE_FIRM);
    m->false_yes = (all.off_granted + NOISE_FIRM * start->false_yes) / (all.off + NOISE_FIRM);
    m->by_score = within(m->by_score + slope / bend, -2, 2);
}

static struct events events_new(size_t n)
{
    double *all = spot_xcalloc(n, 6 * sizeof(double));

    return (struct events){ all, all + n, all + 2 * n, all + 3 * n, all + 4 * n, all + 5 * n };
}

void spot_capacity_fit(struct spot_capacity *market, struct spot_capacity_place *place, size_t n)
{
    const size_t share = n ? SPOT_CAPACITY_ANSWERS_MAX / n : 0;
    const size_t each = share < EACH_MIN ? EACH_MIN : share > EACH_MAX ? EACH_MAX : share;
    struct spot_capacity start;
    struct events e = events_new(n + 1);
    double before = -INFINITY;

    spot_capacity_start(&start);
    *market = start;
    for (size_t i = 0; i < n; i++) {
        if (place[i].n > each) {
            place[i].seen += place[i].n - each;
            place[i].n = each;
        }
        place[i].loss_level = exp(market->by_advice * place[i].advice);
        place[i].gain_level = 1;
    }
    for (int turn = 0; turn < SPOT_CAPACITY_TURNS_MAX; turn++) {
        step(market, &start, place, n, &e, turn % 4 == 3);
        if (turn % 4 == 0 && fabs(market->likelihood - before) < 1e-4 * (1 + fabs(before)))
            break;
        before = turn % 4 == 0 ? market->likelihood : before;
    }
    free(e.lost);
}
