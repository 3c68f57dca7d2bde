/* SPDX-License-Identifier: MIT */
#include "model/count_chain.h"

#include <math.h>
#include <string.h>

/* Weights, in intervals. PRIOR: of the prior (no change in 80 % of intervals, else a loss or a
 * gain) on the distribution over all contexts. POOL: of that distribution on each context, since a
 * trace of some hundred intervals cannot tell twelve contexts apart. SIZE_PRIOR: of the prior on
 * sizes (each half as likely as the one below). */
static const double PRIOR = 10, POOL = 200, SIZE_PRIOR = 4;

void spot_count_chain_init(struct spot_count_chain *c, int cap)
{
    memset(c, 0, sizeof(*c));
    c->cap = cap;
    c->context = c->recent = SPOT_CHAIN_AGE_MAX - 1; /* the context long after a loss */
    c->size_max = SPOT_CHAIN_SIZE_MAX;
    for (int k = 1; k <= SPOT_CHAIN_SMALL_MAX; k++)
        c->size[0][k] = c->size[1][k] = SIZE_PRIOR * pow(0.5, k < SPOT_CHAIN_SMALL_MAX ? k : k - 1);
}

int spot_count_chain_after(int context, int change)
{
    if (change < 0)
        return 0;
    if (change > 0)
        return SPOT_CHAIN_AGE_MAX;
    if (context >= SPOT_CHAIN_RECENT)
        return context;
    return context % SPOT_CHAIN_AGE_MAX == SPOT_CHAIN_AGE_MAX - 1 ? context : context + 1;
}

/* The number of calm contexts (RECENT and later) for so many intervals without a change. */
static int calms_of(int still)
{
    int n = 0;

    while (n < SPOT_CHAIN_CALMS && still >= SPOT_CHAIN_CALM_MIN << n)
        n++;
    return n;
}

void spot_count_chain_observe(struct spot_count_chain *c, int before, int now)
{
    const int change = now > before ? now - before : before - now;
    const int k = change < c->size_max ? change : c->size_max;
    const int way = now < before ? 1 : now > before ? 2 : 0;

    if (now > c->cap)
        c->cap = now;
    c->seen[c->recent][way]++;
    for (int i = 0; i < calms_of(c->calm); i++)
        c->seen[SPOT_CHAIN_RECENT + i][way]++;
    if (change)
        c->size[way == 2][k]++;
    c->recent = spot_count_chain_after(c->recent, now - before);
    c->calm = change ? 0 : c->calm + 1;
    c->context = calms_of(c->calm) ? SPOT_CHAIN_RECENT + calms_of(c->calm) - 1 : c->recent;
}

/* Mix POOL intervals distributed like prob[3] with those seen. */
static void draw_on(double prob[3], const double seen[3])
{
    const double n = POOL + seen[0] + seen[1] + seen[2];

    for (int i = 0; i < 3; i++)
        prob[i] = (POOL * prob[i] + seen[i]) / n;
}

/* prob[3]: no change, a loss, a gain in a context. */
static void direction(const struct spot_count_chain *c, int context, double prob[3])
{
    static const double prior[3] = { 0.8, 0.1, 0.1 };
    double all[3], total = PRIOR;

    if (c->law) {
        prob[1] = c->law->loss[context];
        prob[2] = c->law->gain[context];
        prob[0] = 1 - prob[1] - prob[2];
        return;
    }
    for (int i = 0; i < 3; i++) {
        all[i] = PRIOR * prior[i];
        for (int x = 0; x < SPOT_CHAIN_RECENT; x++) {
            all[i] += c->seen[x][i];
            total += c->seen[x][i];
        }
    }
    for (int i = 0; i < 3; i++)
        prob[i] = all[i] / total;
    for (int x = context < SPOT_CHAIN_RECENT ? context : SPOT_CHAIN_RECENT; x <= context; x++)
        draw_on(prob, c->seen[x]);
}

void spot_count_chain_step(const struct spot_count_chain *c, int n, int context,
                           struct spot_count_step *step)
{
    double prob[3], size[2] = { 0 };

    memset(step, 0, sizeof(*step));
    direction(c, context, prob);
    for (int k = 1; k <= c->size_max; k++) {
        size[0] += c->size[0][k];
        size[1] += c->size[1][k];
    }
    step->still = prob[0];
    for (int k = 1; k <= c->size_max; k++) {
        const int lost = k < n ? k : n, gained = n + k < c->cap ? k : c->cap - n;

        *(lost > 0 ? &step->lost[lost] : &step->still) += prob[1] * c->size[0][k] / size[0];
        *(gained > 0 ? &step->gained[gained] : &step->still) += prob[2] * c->size[1][k] / size[1];
    }
}

void spot_count_chain_fix(struct spot_count_chain *c, const struct spot_count_step *dist)
{
    const double WEIGHT = 1e9; /* large enough that the prior does not matter */
    double sum[2] = { 0 };

    c->size_max = SPOT_CHAIN_SIZE_MAX;
    for (int k = 1; k <= c->size_max; k++) {
        c->size[0][k] = WEIGHT * dist->lost[k];
        c->size[1][k] = WEIGHT * dist->gained[k];
        sum[0] += dist->lost[k];
        sum[1] += dist->gained[k];
    }
    for (int i = 0; i < 2; i++)
        if (sum[i] <= 0)
            c->size[i][1] = 1; /* never used, since its direction has no weight */
    for (int x = 0; x < SPOT_CHAIN_CONTEXTS; x++) {
        c->seen[x][0] = WEIGHT * dist->still;
        c->seen[x][1] = WEIGHT * sum[0];
        c->seen[x][2] = WEIGHT * sum[1];
    }
}

void spot_count_chain_law(const struct spot_count_chain *c, struct spot_count_law *law)
{
    double size[2] = { 0 };

    memset(law, 0, sizeof(*law));
    law->context = c->context;
    for (int x = 0; x < SPOT_CHAIN_CONTEXTS; x++) {
        double prob[3];

        direction(c, x, prob);
        law->loss[x] = prob[1];
        law->gain[x] = prob[2];
    }
    for (int k = 1; k <= c->size_max; k++) {
        size[0] += c->size[0][k];
        size[1] += c->size[1][k];
    }
    for (int k = 1; k <= c->size_max; k++) {
        law->lost[k] = c->size[0][k] / size[0];
        law->gained[k] = c->size[1][k] / size[1];
    }
}

void spot_count_chain_follow(struct spot_count_chain *c, const struct spot_count_law *law, int cap)
{
    memset(c, 0, sizeof(*c));
    c->law = law;
    c->cap = cap;
    c->context = c->recent = law->context;
    c->size_max = SPOT_CHAIN_SIZE_MAX;
    memcpy(c->size[0], law->lost, sizeof(c->size[0]));
    memcpy(c->size[1], law->gained, sizeof(c->size[1]));
}
