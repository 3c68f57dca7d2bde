/* SPDX-License-Identifier: MIT */
#include "forecast/arima.h"
#include "forecast/models/models.h"
#include "forecast/pmf.h"

void spot_arima_predict(const struct spot_fc_spec *spec, void *state,
                        const struct spot_fc_past *past, double *prob)
{
    const struct spot_fc_past w = spot_fc_tail(spec, past);
    double y[SPOT_FC_PAST], mean[SPOT_FC_HORIZON_MAX], se[SPOT_FC_HORIZON_MAX];
    struct spot_arima fit;

    if (spec->ar < 0 ||
        (spec->ar == 1 && spec->diff == 1 && spec->ma == 0 && !spec->has_constant)) {
        spot_ar_predict(spec, state, past, prob);
        return;
    }
    for (size_t i = 0; i < w.n; i++)
        y[i] = w.y[i];
    spot_arima_fit(&fit, y, w.n, spec->ar, spec->diff, spec->ma, spec->has_constant);
    spot_arima_forecast(&fit, y, w.n, spec->horizon, mean, se);
    for (int h = 1; h <= spec->horizon; h++)
        spot_pmf_normal(spot_fc_row(spec, prob, h), spec->cap, mean[h - 1], se[h - 1]);
}
