/* SPDX-License-Identifier: MIT */
#include "model/stage_split.h"

#include <assert.h>

/* The number of layers in stages 0..k-1. The stages P-1-r .. P-2 have one of the r remaining layers
 * each. */
static int before(int n_layer, int p, int k)
{
    const int chunk = (n_layer - 1) / p, rest = (n_layer - 1) % p, from = p - 1 - rest;
    const int extra = k - from > 0 ? (k - from < rest ? k - from : rest) : 0;

    return k * chunk + (k > 0) + extra;
}

struct spot_stage_span spot_stage_split(int n_layer, int p, int k)
{
    assert(p >= 1 && p <= n_layer && k >= 0 && k < p);
    return (struct spot_stage_span){ before(n_layer, p, k), before(n_layer, p, k + 1) };
}
