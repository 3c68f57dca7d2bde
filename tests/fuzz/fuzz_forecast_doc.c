/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <math.h>
#include <stdint.h>

#include "model/forecast_doc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no input crashes the reader, and what it accepts is a set of distributions. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_json_doc doc;
    struct spot_forecast f;
    struct spot_err err;

    if (spot_json_parse(&doc, (const char *)data, size, "fuzz", &err))
        return 0;
    if (!spot_forecast_read(&doc, &f, &err)) {
        for (size_t i = 0; i < f.n_series; i++)
            for (int64_t step = 1; step <= f.horizon; step++) {
                const double *p = spot_forecast_at(&f.series[i], step);
                double sum = 0;

                for (int64_t k = 0; k <= f.series[i].cap; k++)
                    sum += p[k];
                assert(fabs(sum - 1) < 1e-5);
            }
        spot_forecast_release(&f);
    }
    spot_json_release(&doc);
    return 0;
}
