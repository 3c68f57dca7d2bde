/* SPDX-License-Identifier: MIT */
#include "train/grid_choice.h"

#include <assert.h>
#include <stdlib.h>

#include "common/xalloc.h"

static int64_t at_most(int64_t x, int64_t limit)
{
    return x > limit ? limit : x;
}

/* The largest divisor of n_shard up to `limit`. */
static int64_t divisor(int64_t n_shard, int64_t limit)
{
    while (n_shard % limit)
        limit--;
    return limit;
}

struct spot_grid spot_grid_choose(uint32_t n, const struct spot_grid *want, int64_t n_microbatch,
                                  int n_bundle, int64_t n_shard)
{
    struct spot_grid grid = { n, 1, 1 };

    assert(n > 0);
    if (spot_grid_size(want))
        grid = *want;
    grid.M = divisor(n_shard, at_most(grid.M, n));
    grid.P = at_most(at_most(grid.P, n_bundle), n / grid.M);
    grid.D = at_most(at_most(grid.D, n / (grid.P * grid.M)), n_microbatch);
    return grid;
}

double spot_grid_cost(const struct spot_shape *shape, uint32_t begin, uint32_t end)
{
    double sum = 0;

    for (uint32_t b = begin; b < end; b++)
        sum += (double)spot_shape_cost(shape, b);
    return sum;
}

double spot_grid_work(const struct spot_shape *shape, const struct spot_grid *grid,
                      int64_t n_microbatch)
{
    const int64_t m = (n_microbatch + grid->D - 1) / grid->D;
    uint32_t *const stage = spot_xcalloc((size_t)grid->P + 1, sizeof(*stage));
    double most = 0, all = 0;

    spot_grid_stages(shape, (uint32_t)grid->P, stage);
    for (int64_t p = 0; p < grid->P; p++) {
        const double cost = spot_grid_cost(shape, stage[p], stage[p + 1]);

        most = cost > most ? cost : most;
        all += cost;
    }
    free(stage);
    return ((double)m * most + all - most) / (double)grid->M;
}

void spot_grid_stages(const struct spot_shape *shape, uint32_t P, uint32_t *stage)
{
    const uint32_t n = (uint32_t)spot_shape_bundles(shape);
    int64_t *sum = spot_xcalloc(n + 1, sizeof(*sum));
    int64_t *best = spot_xcalloc((size_t)(P + 1) * (n + 1), sizeof(*best));
    uint32_t *cut = spot_xcalloc((size_t)(P + 1) * (n + 1), sizeof(*cut));

    assert(P >= 1 && P <= n);
    for (uint32_t b = 0; b < n; b++)
        sum[b + 1] = sum[b] + spot_shape_cost(shape, b);
    /* best[p][e]: least possible maximum when bundles [0, e) make p stages */
    for (uint32_t e = 1; e <= n; e++)
        best[(n + 1) + e] = sum[e];
    for (uint32_t p = 2; p <= P; p++)
        for (uint32_t e = p; e <= n; e++) {
            int64_t *at = &best[(size_t)p * (n + 1) + e];

            *at = INT64_MAX;
            for (uint32_t k = p - 1; k < e; k++) {
                const int64_t before = best[(size_t)(p - 1) * (n + 1) + k], last = sum[e] - sum[k];
                const int64_t worst = before > last ? before : last;

                if (worst < *at) {
                    *at = worst;
                    cut[(size_t)p * (n + 1) + e] = k;
                }
            }
        }
    stage[P] = n;
    for (uint32_t p = P; p > 0; p--)
        stage[p - 1] = p > 1 ? cut[(size_t)p * (n + 1) + stage[p]] : 0;
    free(sum);
    free(best);
    free(cut);
}
