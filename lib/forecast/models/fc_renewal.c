/* SPDX-License-Identifier: MIT */
/* Runs of an unchanged count as renewals: the hazard of a change depends on how long the count has
 * been the same, separately for empty, full and between; the new count follows the transitions of a
 * chain, given a change. Age matters because changes are clustered: most runs are short, the rest
 * very long. Source: semi-Markov processes (Cox 1962). Hazards of age classes are shrunk towards
 * their neighbours', and follow the newest hundred or so exposures of a class. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "forecast/models/fc_chain.h"
#include "forecast/models/models.h"

enum {
    LEVELS = 3,   /* 0, between, cap */
    CLASSES = 40, /* classes of age: two for each doubling */
    LAGS = 64,    /* from this age on the hazard of a new run is constant */
};

/* factor on what a class has learned, per exposure */
static const double KEEP = 0.99;
static const double PRIOR_EVENTS = 0.5, PRIOR_N = 20; /* prior of a level */
static const double SHRINK = 2;                       /* weight of the neighbours, in events */

struct renewal {
    int64_t age;
    double events[LEVELS], exposures[LEVELS];
    double event[LEVELS][CLASSES], exposure[LEVELS][CLASSES];
};

static size_t align(size_t n_byte)
{
    return (n_byte + 15) / 16 * 16;
}

static void *chain_of(void *state)
{
    return (char *)state + align(sizeof(struct renewal));
}

size_t spot_renewal_state_byte(const struct spot_fc_spec *spec)
{
    return align(sizeof(struct renewal)) + spot_chain_state_byte(spec);
}

static int level_of(int y, int cap)
{
    return y == 0 ? 0 : y == cap ? 2 : 1;
}

static int class_of(int64_t age)
{
    const int class = (int)(2 * log2((double)age));

    return class < CLASSES ? class : CLASSES - 1;
}

void spot_renewal_observe(const struct spot_fc_spec *spec, void *state,
                          const struct spot_fc_past *past)
{
    struct renewal *c = state;

    spot_chain_observe(spec, chain_of(state), past);
    if (past->n > 1) {
        const int was = past->y[past->n - 2], level = level_of(was, spec->cap);
        const int class = class_of(c->age);
        const bool changed = past->y[past->n - 1] != was;

        c->event[level][class] = KEEP * c->event[level][class] + changed;
        c->exposure[level][class] = KEEP * c->exposure[level][class] + 1;
        c->events[level] += changed;
        c->exposures[level] += 1;
        c->age = changed ? 0 : c->age;
    }
    c->age++;
}

/* P(a change in the next interval, given that the count has been the same for `age` intervals at
 * this level). */
static double hazard(const struct renewal *c, int level, int64_t age)
{
    const int class = class_of(age);
    const double whole = (c->events[level] + PRIOR_EVENTS) / (c->exposures[level] + PRIOR_N);
    double near = SHRINK, near_n = SHRINK / whole;

    for (int i = class > 2 ? class - 2 : 0; i <= class + 2 && i < CLASSES; i++)
        if (i != class) {
            near += 0.5 * c->event[level][i];
            near_n += 0.5 * c->exposure[level][i];
        }
    return fmin(0.95, (c->event[level][class] + SHRINK) /
                          (c->exposure[level][class] + SHRINK * near_n / near));
}

/* A run that has just begun: the probabilities that it ends after i intervals, and that it lasts
 * for i. */
struct run {
    double ends[LAGS + 1], lasts[LAGS + 1];
    double late; /* hazard from age LAGS on */
};

static void fill_run(const struct renewal *c, int level, int horizon, struct run *run)
{
    run->late = 0;
    run->ends[0] = 0;
    run->lasts[0] = 1;
    for (int i = 1; i <= LAGS && i <= horizon; i++) {
        run->late = hazard(c, level, i);
        run->ends[i] = run->lasts[i - 1] * run->late;
        run->lasts[i] = run->lasts[i - 1] - run->ends[i];
    }
}

struct walk {
    const struct spot_fc_spec *spec;
    struct run run[LEVELS];
    const double *matrix;
    /* ring buffer by step: P(a run began there), by count */
    double begun[LAGS][SPOT_FC_CAP_FINE + 1];
    double old[SPOT_FC_CAP_FINE + 1]; /* P(in a run older than LAGS), by count */
};

/* The distribution of the next count given a change. */
static void spread(const struct walk *w, int from, double mass, double *to)
{
    const size_t width = (size_t)w->spec->cap + 1;
    const double *row = w->matrix + (size_t)from * width;
    const double change = 1 - row[from];

    if (mass <= 1e-15 || change <= 0)
        return;
    for (size_t k = 0; k < width; k++)
        to[k] += (int)k != from ? mass * row[k] / change : 0;
}

/* Step h: `ended` and `stood` are the probabilities for the current run, which is at count `now`.
 */
static void step(struct walk *w, int h, int now, double ended, double stood, double *p)
{
    const int cap = w->spec->cap;
    double *fresh = w->begun[h % LAGS], leaves[SPOT_FC_CAP_FINE + 1];

    for (int y = 0; y <= cap; y++) {
        const struct run *run = &w->run[level_of(y, cap)];

        leaves[y] = w->old[y] * run->late;
        w->old[y] -= leaves[y];
        if (h > LAGS) { /* the slot that this step reuses */
            leaves[y] += fresh[y] * run->ends[LAGS];
            w->old[y] += fresh[y] * run->lasts[LAGS];
        }
        p[y] = w->old[y];
        for (int i = 1; i < LAGS && i < h; i++) {
            const double began = w->begun[(h - i) % LAGS][y];

            leaves[y] += began * run->ends[i];
            p[y] += began * run->lasts[i];
        }
    }
    leaves[now] += ended;
    p[now] += stood;
    memset(fresh, 0, ((size_t)cap + 1) * sizeof(*fresh));
    for (int y = 0; y <= cap; y++)
        spread(w, y, leaves[y], fresh);
    for (int y = 0; y <= cap; y++)
        p[y] += fresh[y];
}

void spot_renewal_predict(const struct spot_fc_spec *spec, void *state,
                          const struct spot_fc_past *past, double *prob)
{
    const struct renewal *c = state;
    const int now = past->y[past->n - 1], level = level_of(now, spec->cap);
    struct walk w;
    double stood = 1;

    w.spec = spec;
    w.matrix = spot_chain_matrix(spec, chain_of(state));
    memset(w.old, 0, sizeof(w.old));
    for (int i = 0; i < LEVELS; i++)
        fill_run(c, i, spec->horizon, &w.run[i]);
    for (int h = 1; h <= spec->horizon; h++) {
        const double ended = stood * hazard(c, level, c->age + h - 1);

        stood -= ended;
        step(&w, h, now, ended, stood, spot_fc_row(spec, prob, h));
    }
    if (!spec->cap)
        for (int h = 1; h <= spec->horizon; h++)
            *spot_fc_row(spec, prob, h) = 1;
}

bool spot_renewal_is_sound(const struct spot_fc_spec *spec, const void *state)
{
    const struct renewal *c = state;

    (void)spec;
    return c->age >= 0 && c->age <= (int64_t)1 << 53;
}
