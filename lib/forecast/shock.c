/* SPDX-License-Identifier: MIT */
#include "forecast/shock.h"

/* weight of the prior, in expected joint losses */
static const double PRIOR_LIFT = 3.2, PRIOR_PAIRS = 2;
static const double CALM = 0.5;

struct spot_shock spot_shock_fit(double together, double expected)
{
    const double pair = (together + PRIOR_LIFT * PRIOR_PAIRS) / (expected + PRIOR_PAIRS);
    const double lift = 2 * pair - 1;

    if (pair <= 1.01)
        return (struct spot_shock){ 0, 1, 1 };
    return (struct spot_shock){ (1 - CALM) / (lift - CALM), lift, CALM };
}
