/* SPDX-License-Identifier: MIT */
#include "forecast/gate.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Chosen on the tuning series of docs/results/forecast.md and on generated ones. RATE_CAP:
 * differences of CRPS grow with the cap, so the rate falls with it. */
static const double FIRST[SPOT_GATE_EXPERTS] = { 0.97, 0.02, 0.01 };
static const double RATE = 0.12, RATE_CAP = 16, FORGET = 0.9995, MOST = 7;

size_t spot_fc_gate_byte(int cap)
{
    return sizeof(struct spot_fc_gate) +
           (size_t)SPOT_GATE_STEPS * SPOT_GATE_STEPS * ((size_t)cap + 1) * sizeof(float);
}

static float *kept(struct spot_fc_gate *gate, int cap, uint64_t at, int h)
{
    return gate->dist +
           ((size_t)(at % SPOT_GATE_STEPS) * SPOT_GATE_STEPS + (size_t)(h - 1)) * ((size_t)cap + 1);
}

/* Counts of the newest intervals up to some time. */
struct usual {
    size_t end, n; /* the intervals are past->y[end - n .. end - 1] */
    int of[SPOT_FC_CAP_FINE + 1];
};

/* [n][i]: the share of i of n intervals, added up one by one. */
static double share[SPOT_GATE_USUAL + 1][SPOT_GATE_USUAL + 1];
static pthread_once_t share_once = PTHREAD_ONCE_INIT;

static void fill_share(void)
{
    for (int n = 1; n <= SPOT_GATE_USUAL; n++)
        for (int i = 1; i <= n; i++)
            share[n][i] = share[n][i - 1] + 1 / (double)n;
}

/* Counted in lanes, since the next of equal counts would wait for the one before. */
static struct usual usual_until(const struct spot_fc_past *past, int cap, size_t end)
{
    enum { LANES = 4 };
    struct usual usual = { .end = end, .n = end < SPOT_GATE_USUAL ? end : SPOT_GATE_USUAL };
    uint8_t of[LANES][SPOT_FC_CAP_FINE + 1] = { 0 };

    pthread_once(&share_once, fill_share);
    for (size_t i = end - usual.n; i < end; i++)
        of[i % LANES][past->y[i]]++;
    for (int k = 0; k <= cap; k++)
        usual.of[k] = of[0][k] + of[1][k] + of[2][k] + of[3][k];
    return usual;
}

/* The same, one interval earlier; n > 1. */
static void usual_back(struct usual *usual, const struct spot_fc_past *past)
{
    usual->of[past->y[--usual->end]]--;
    if (usual->end < usual->n)
        usual->n--;
    else
        usual->of[past->y[usual->end - usual->n]]++;
}

/* The frequency of each count; sums to 1. */
static void usual_dist(const struct usual *usual, int cap, double *dist)
{
    for (int k = 0; k <= cap; k++)
        dist[k] = share[usual->n][usual->of[k]];
}

/* `forget`: factor on the earlier losses. */
static void learn(struct spot_fc_gate *gate, int cap, int h, const struct spot_fc_past *past,
                  const struct usual *usual, double forget)
{
    typedef double two
        __attribute__((vector_size(16))); /* of the forecast and of the usual level */
    const int y = past->y[past->n - 1], was = past->y[past->n - 1 - (size_t)h];
    const uint64_t at = gate->n - (uint64_t)h;
    const float *dist = kept(gate, cap, at, h);
    const double *const of_level = share[usual->n];
    const double rate =
        RATE * fmin(1, RATE_CAP / fmax(cap, 1)) * gate->weight[at % SPOT_GATE_STEPS] / h;
    double *loss = gate->loss[h - 1], least = INFINITY, crps[SPOT_GATE_EXPERTS];
    two below = { 0 }, sum = { 0 };

    for (int k = 0; k < cap; k++) {
        two miss;

        below += (two){ (double)dist[k], of_level[usual->of[k]] };
        miss = below - (k >= y);
        sum += miss * miss;
    }
    crps[SPOT_GATE_FORECAST] = sum[0];
    crps[SPOT_GATE_LEVEL] = sum[1];
    crps[SPOT_GATE_LAST] = abs(y - was);
    for (int i = 0; i < SPOT_GATE_EXPERTS; i++) {
        loss[i] = forget * loss[i] + rate * crps[i];
        least = fmin(least, loss[i] - log(FIRST[i]));
    }
    for (int i = 0; i < SPOT_GATE_EXPERTS; i++) /* limit the distance to the best */
        loss[i] = fmin(loss[i] - least, MOST + log(FIRST[i]));
}

void spot_fc_gate_observe(struct spot_fc_gate *gate, int cap, int horizon,
                          const struct spot_fc_past *past)
{
    struct usual usual = usual_until(past, cap, past->n);
    /* forget follows from weight and is slow to compute, so it is kept */
    double weight = 0, forget = 1;

    gate->n++;
    for (int h = 1; h <= horizon && (size_t)h < past->n && (uint64_t)h < gate->n; h++) {
        const uint64_t at = gate->n - (uint64_t)h;

        usual_back(&usual, past);
        if (gate->at[at % SPOT_GATE_STEPS] != at)
            continue;
        if (gate->weight[at % SPOT_GATE_STEPS] != weight)
            forget = pow(FORGET, weight = gate->weight[at % SPOT_GATE_STEPS]);
        learn(gate, cap, h, past, &usual, forget);
    }
}

void spot_fc_gate_keep(struct spot_fc_gate *gate, int cap, int horizon, double weight,
                       const double *prob)
{
    const size_t n = (size_t)horizon * ((size_t)cap + 1);
    float *dist = kept(gate, cap, gate->n, 1);

    for (size_t k = 0; k < n; k++)
        dist[k] = (float)prob[k];
    gate->at[gate->n % SPOT_GATE_STEPS] = gate->n;
    gate->weight[gate->n % SPOT_GATE_STEPS] = weight;
}

void spot_fc_gate_apply(const struct spot_fc_gate *gate, int cap, int horizon,
                        const struct spot_fc_past *past, double *prob)
{
    const struct usual usual = usual_until(past, cap, past->n);
    double level[SPOT_FC_CAP_FINE + 1];

    usual_dist(&usual, cap, level);
    for (int h = 1; h <= horizon; h++) {
        const double *loss = gate->loss[(h < SPOT_GATE_STEPS ? h : SPOT_GATE_STEPS) - 1];
        double *p = prob + (size_t)(h - 1) * ((size_t)cap + 1), w[SPOT_GATE_EXPERTS], sum = 0;

        for (int i = 0; i < SPOT_GATE_EXPERTS; i++)
            sum += w[i] = FIRST[i] * exp(-loss[i]);
        for (int k = 0; k <= cap; k++)
            p[k] = (w[SPOT_GATE_FORECAST] * p[k] + w[SPOT_GATE_LEVEL] * level[k]) / sum;
        p[past->y[past->n - 1]] += w[SPOT_GATE_LAST] / sum;
    }
}

bool spot_fc_gate_is_sound(const struct spot_fc_gate *gate)
{
    for (int h = 0; h < SPOT_GATE_STEPS; h++) {
        if (!(gate->weight[h] >= 0 && gate->weight[h] < 1e18))
            return false;
        for (int i = 0; i < SPOT_GATE_EXPERTS; i++)
            if (!(fabs(gate->loss[h][i]) <= 2 * MOST))
                return false;
    }
    return true;
}
