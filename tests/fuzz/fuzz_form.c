/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/bundle_io.h"
#include "train/config.h"
#include "train/form.h"
#include "train/state_sources.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no epoch, config or bundle from the wire crashes a worker; a form that is taken makes
 * sense and is written as it was read. The first byte says which reader, and how many bundles. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct spot_shape shape = {
        .n_layer = 1, .width = 8, .n_head = 1, .seq = 4, .vocab = 8, .n_shard = 1
    };
    struct spot_form form;
    struct spot_form_bounds bounds;

    if (!size)
        return 0;
    if (data[0] % 4 == 0) {
        struct spot_job_config config;
        struct spot_wire_in in = spot_wire_in(data + 1, size - 1), more = in;
        struct spot_state_sources sources;

        spot_state_sources_get(&more, &sources);
        spot_state_sources_release(&sources);
        spot_job_config_get(&in, &config);
        if (spot_wire_in_done(&in))
            (void)spot_job_config_check(&config, NULL);
        return 0;
    }
    if (data[0] % 4 == 1) {
        spot_bundle_free(spot_bundle_unpack(&shape, 1, 0, data + 1, size - 1, NULL));
        return 0;
    }
    bounds = (struct spot_form_bounds){ 1 + data[0] / 4, 3 + data[0] % 4, 12 };
    if (!spot_form_get(&form, data + 1, size - 1, &bounds, NULL)) {
        struct spot_buf out = { 0 };

        spot_form_put(&out, &form);
        if (out.n != size - 1 || memcmp(out.data, data + 1, out.n) != 0)
            abort();
        for (uint32_t p = 0; p < form.P; p++)
            if (form.stage[p] >= form.stage[p + 1])
                abort();
        for (uint32_t d = 0; d < form.D; d++)
            if (form.share[d] >= form.share[d + 1])
                abort();
        spot_buf_release(&out);
        spot_form_release(&form);
    }
    return 0;
}
