/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "forecast/models/models.h"

/* Past h-step changes, applied to the newest value. Half an observation of "no change" is added, so
 * that an empty window gives a distribution too. Counts outside 0..cap are moved to the bound. */
void spot_empirical_predict(const struct spot_fc_spec *spec, void *state,
                            const struct spot_fc_past *past, double *prob)
{
    const struct spot_fc_past w = spot_fc_tail(spec, past);
    const int now = w.y[w.n - 1], cap = spec->cap;

    (void)state;
    memset(prob, 0, (size_t)spec->horizon * ((size_t)cap + 1) * sizeof(*prob));
    for (int h = 1; h <= spec->horizon; h++) {
        double *p = prob + (size_t)(h - 1) * ((size_t)cap + 1);
        const size_t n_change = w.n > (size_t)h ? w.n - (size_t)h : 0;
        const double weight = 1 / ((double)n_change + 0.5);

        p[now] = 0.5 * weight;
        for (size_t i = 0; i < n_change; i++) {
            const int k = now + w.y[i + (size_t)h] - w.y[i];

            p[k < 0 ? 0 : k > cap ? cap : k] += weight;
        }
    }
}
