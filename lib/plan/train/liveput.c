/* SPDX-License-Identifier: MIT */
#include "plan/liveput.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

/* A polynomial in x, zero from x^n on. */
struct poly {
    double *c;
    int n;
};

/* out = a * b, truncated after x^v; out->c has v + 1 entries and must not alias a or b. */
static void product(const struct poly *a, const struct poly *b, int v, struct poly *out)
{
    out->n = a->n + b->n - 1 < v + 1 ? a->n + b->n - 1 : v + 1;
    memset(out->c, 0, (size_t)out->n * sizeof(*out->c));
    for (int i = 0; i < a->n && i <= v; i++) {
        const int n = b->n < v + 1 - i ? b->n : v + 1 - i;
        const double x = a->c[i];

        for (int j = 0; j < n; j++)
            out->c[i + j] += x * b->c[j];
    }
}

static void swap_poly(struct poly *a, struct poly *b)
{
    const struct poly t = *a;

    *a = *b;
    *b = t;
}

/* *result = base^n truncated after x^v, n >= 0, by repeated squaring. Overwrites base. All three
 * have v + 1 entries, and the calls may exchange them. */
static void raise(struct poly *base, int n, int v, struct poly *result, struct poly *other)
{
    result->c[0] = result->n = 1;
    while (n > 0) {
        if (n & 1) {
            product(result, base, v, other);
            swap_poly(result, other);
        }
        n >>= 1;
        if (n) {
            product(base, base, v, other);
            swap_poly(base, other);
        }
    }
}

/* f[a] = P[a of n vanish] for a in [low, high], else 0: a binomial with rate theta, truncated at v.
 * Built outwards from its mode and then normalised, so that no term underflows early. */
static void binomial(double *f, int v, int n, double theta, int low, int high)
{
    const int mode = (int)(theta * (n + 1)) < n ? (int)(theta * (n + 1)) : n;
    const double odds = theta < 1 ? theta / (1 - theta) : INFINITY;
    double sum = 1, term = 1;

    memset(f, 0, (size_t)(v + 1) * sizeof(*f));
    if (mode <= v && mode >= low && mode <= high)
        f[mode] = 1;
    for (int a = mode + 1; a <= n; a++) {
        term *= odds * (n - a + 1) / a;
        sum += term;
        if (a <= v && a >= low && a <= high)
            f[a] = term;
    }
    term = 1;
    for (int a = mode - 1; a >= 0; a--) {
        term *= (a + 1) / (odds * (n - a));
        sum += term;
        if (a <= v && a >= low && a <= high)
            f[a] = term;
    }
    for (int a = 0; a <= v; a++)
        f[a] /= sum;
}

static int total(const struct spot_liveput *g)
{
    assert(g->d >= 1 && g->p >= 1 && g->s >= 0 && g->v >= 0);
    assert(g->v <= g->d * g->p + g->s);
    return g->d * g->p + g->s;
}

/* chance[0..v] of each number of victims if each instance vanishes with probability theta, n_part
 * groups of `size` lose between low and high each, and `rest` others any number. */
static void chances(double theta, int v, int n_part, int size, int low, int high, int rest,
                    double *chance)
{
    enum { SPACES = 4 };
    double *memory = spot_xcalloc((size_t)SPACES * (size_t)(v + 1), sizeof(*memory));
    struct poly space[SPACES], out = { chance, 0 };

    for (int i = 0; i < SPACES; i++)
        space[i].c = memory + (size_t)i * (size_t)(v + 1);
    binomial(space[0].c, v, size, theta, low, high);
    space[0].n = high < v ? high + 1 : v + 1;
    raise(&space[0], n_part, v, &space[1], &space[2]);
    binomial(space[3].c, v, rest, theta, 0, rest);
    space[3].n = rest < v ? rest + 1 : v + 1;
    product(&space[1], &space[3], v, &out);
    memset(chance + out.n, 0, (size_t)(v + 1 - out.n) * sizeof(*chance));
    free(memory);
}

struct dist {
    int v;
    double theta, all; /* all = P[v of N] under independent loss */
};

static struct dist dist_of(const struct spot_liveput *g)
{
    const int n = total(g);
    struct dist dist = { .v = g->v, .theta = (double)g->v / n };
    double *f = spot_xcalloc((size_t)g->v + 1, sizeof(*f));

    binomial(f, g->v, n, dist.theta, 0, n);
    dist.all = f[g->v];
    free(f);
    return dist;
}

/* Probability that each of `n_part` groups of `size` loses between low and high, given v victims
 * among these and `rest` others. */
static double coefficient(const struct dist *dist, int n_part, int size, int low, int high,
                          int rest)
{
    double *chance = spot_xcalloc((size_t)dist->v + 1, sizeof(*chance)), got;

    chances(dist->theta, dist->v, n_part, size, low, high, rest, chance);
    got = chance[dist->v];
    free(chance);
    return got / dist->all;
}

static double choose(int n, int k)
{
    double c = 1;

    for (int i = 1; i <= k; i++)
        c = c * (n - k + i) / i;
    return c;
}

static double clip(double prob)
{
    return prob < 0 ? 0 : prob > 1 ? 1 : prob;
}

double spot_liveput_hold(const struct spot_liveput *g, int keep)
{
    struct dist dist;
    double hold;

    if (keep <= g->d - g->v || keep <= 0) /* v victims cannot take more from one stage */
        return 1;
    if (keep > g->d)
        return 0;
    dist = dist_of(g);
    hold = coefficient(&dist, g->p, g->d, 0, g->d - keep, g->s);
    return clip(hold);
}

/* --- many numbers of victims at once ------------------------------------------------------- */

/* Log of the chance of v of n at rate theta. */
static double log_chance(int n, int v, double theta)
{
    return lgamma(n + 1.0) - lgamma(v + 1.0) - lgamma(n - v + 1.0) + v * log(theta) +
           (n - v) * log1p(-theta);
}

/* Compute hold for the victims[n_v] (ascending) with one rate, from the middle of their range: the
 * probabilities under it must not underflow. */
static void hold_block(const struct spot_liveput *g, int keep, const int *victims, int n_v,
                       double *hold)
{
    const int n = total(g), v = victims[n_v - 1];
    const double theta = ((double)victims[0] + v) / (2.0 * n);
    double *chance = spot_xcalloc(2 * ((size_t)v + 1), sizeof(*chance)), *all = chance + v + 1;

    chances(theta, v, g->p, g->d, 0, g->d - keep, g->s, chance);
    binomial(all, v, n, theta, 0, n);
    for (int i = 0; i < n_v; i++)
        hold[i] = clip(chance[victims[i]] / all[victims[i]]);
    free(chance);
}

/* Halve the range until one rate works for all of it. */
static void hold_range(const struct spot_liveput *g, int keep, const int *victims, int n_v,
                       double *hold)
{
    const double least = -700; /* DBL_MIN is e^-708 */
    const int n = total(g), low = victims[0], high = victims[n_v - 1];
    const double theta = ((double)low + high) / (2.0 * n);

    if (low == high || (log_chance(n, low, theta) > least && log_chance(n, high, theta) > least)) {
        hold_block(g, keep, victims, n_v, hold);
        return;
    }
    hold_range(g, keep, victims, n_v / 2, hold);
    hold_range(g, keep, victims + n_v / 2, n_v - n_v / 2, hold + n_v / 2);
}

void spot_liveput_hold_many(const struct spot_liveput *g, int keep, const int *victims, int n_v,
                            double *hold)
{
    const int n = total(g);
    int begin = 0, end = n_v;

    if (keep <= 0)
        begin = n_v;
    /* so few victims cannot take more from one stage */
    while (begin < n_v && victims[begin] <= g->d - keep)
        begin++;
    while (end > begin && victims[end - 1] > n - keep * g->p) /* too few instances are left */
        end--;
    for (int i = 0; i < n_v; i++)
        hold[i] = i < begin;
    if (keep <= g->d && begin < end)
        hold_range(g, keep, victims + begin, end - begin, hold + begin);
}

/* P[K = k] = C(D,k) (all of k pipelines survive) [x^v] (every other pipeline is hit)^(D-k)
 * (spares). */
void spot_liveput_intact(const struct spot_liveput *g, double *pmf)
{
    const struct dist dist = dist_of(g);

    for (int k = 0; k <= g->d; k++)
        pmf[k] = clip(choose(g->d, k) * pow(1 - dist.theta, (double)g->p * k) *
                      coefficient(&dist, g->d - k, g->p, 1, g->p, g->s));
}

void spot_liveput_spread(int n, int in, int lost, double *weight)
{
    double sum = 0, term = 1;
    const int low = lost > n - in ? lost - (n - in) : 0, high = lost < in ? lost : in;

    memset(weight, 0, (size_t)(lost + 1) * sizeof(*weight));
    for (int j = low; j <= high; j++) {
        weight[j] = term;
        sum += term;
        term *= (double)(in - j) / (j + 1) * (lost - j) / (n - in - lost + j + 1);
    }
    for (int j = low; j <= high; j++)
        weight[j] /= sum;
}
