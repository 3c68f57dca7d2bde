/* SPDX-License-Identifier: MIT */
#include "plan/serve/serve_losses.h"

#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"

/* batch[k], 1..most: adds the expected number of shocks, out of `shocks`, that take k of n
 * instances. reach: the probability that a shock takes one instance. */
static void add_shocks(double *batch, int64_t most, double shocks, int64_t n, double reach)
{
    double log_prob = (double)n * log1p(-reach); /* log of the probability that none is taken */

    for (int64_t k = 1; k <= most && k <= n; k++) {
        log_prob += log(reach * (double)(n - k + 1) / ((1 - reach) * (double)k));
        batch[k] += shocks * exp(log_prob);
    }
}

/* Add a place with n instances. If n is not whole, the result is a mixture of the two nearest whole
 * numbers. */
static double add_place(const struct spot_serve_place *p, double n, double level_s, double *batch,
                        int64_t most)
{
    const int64_t below = (int64_t)floor(n);
    const double part = n - (double)below, reach = fmin(fmax(p->reach, 1e-9), 1 - 1e-9);
    double none;

    if (most > 0)
        batch[1] += p->own * level_s * n;
    add_shocks(batch, most, p->shock * level_s * (1 - part), below, reach);
    add_shocks(batch, most, p->shock * level_s * part, below + 1, reach);
    none = pow(1 - reach, (double)below) * (1 - part * reach);
    return level_s * (p->own * n + p->shock * (1 - none));
}

/* The factor from the loss rates of the places to the losses expected while an instance is being
 * replaced. */
static double level_of(const struct spot_serve_ask *ask, double *there)
{
    double rate = 0;

    *there = 0;
    for (size_t i = 0; i < ask->n_place; i++) {
        const struct spot_serve_place *p = &ask->place[i];

        *there += p->there;
        rate += p->there * (p->own + p->shock * p->reach);
    }
    return *there > 0 && rate > 0 ? ask->loss_per_s * ask->repair_s * *there / rate : 0;
}

double spot_serve_share_beyond(const struct spot_serve_ask *ask, int64_t used, int64_t spares)
{
    const double n = (double)(used + spares);
    double *batch = spot_xcalloc((size_t)spares + 1, sizeof(double)), /* expected, by size */
        *away = spot_xcalloc((size_t)spares + 1, sizeof(double));
    double there, level_s = level_of(ask, &there), all = 0, within;

    for (size_t i = 0; i < ask->n_place && level_s > 0; i++)
        all += add_place(&ask->place[i], n * ask->place[i].there / there, level_s, batch, spares);
    if (!(level_s > 0)) { /* instances are lost one by one */
        all = ask->loss_per_s * ask->repair_s * n;
        if (spares > 0)
            batch[1] = all;
    }
    within = away[0] = exp(-all);
    for (int64_t k = 1; k <= spares; k++) {
        for (int64_t j = 1; j <= k; j++)
            away[k] += (double)j / (double)k * batch[j] * away[k - j];
        within += away[k];
    }
    free(batch);
    free(away);
    return fmax(1 - within, 0);
}

/* The share falls with the number of spares, although more spares also mean more losses: one more
 * spare never adds more than one loss. */
int64_t spot_serve_spares(const struct spot_serve_ask *ask, int64_t used, double share)
{
    int64_t few = -1, enough = 1;
    const int64_t most = ask->instances - used;

    if (most <= 0 || spot_serve_share_beyond(ask, used, 0) <= share)
        return 0;
    if (ask->n_place && spot_serve_share_beyond(ask, used, most) > share) {
        struct spot_serve_ask alone = *ask;

        alone.n_place = 0;
        return spot_serve_spares(&alone, used, share);
    }
    while (enough < most && spot_serve_share_beyond(ask, used, enough) > share) {
        few = enough;
        enough = 2 * enough < most ? 2 * enough : most;
    }
    few = few < 0 ? 0 : few;
    while (enough - few > 1) {
        const int64_t middle = few + (enough - few) / 2;

        if (spot_serve_share_beyond(ask, used, middle) > share)
            few = middle;
        else
            enough = middle;
    }
    return enough;
}
