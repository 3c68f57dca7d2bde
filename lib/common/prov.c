/* SPDX-License-Identifier: MIT */
#include "common/prov.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/version.h"
#include "common/xalloc.h"

void spot_prov_add(struct spot_prov *prov, const char *name, uint64_t xxh3)
{
    prov->input =
        spot_xgrow(prov->input, &prov->cap_input, prov->n_input + 1, sizeof(*prov->input));
    prov->input[prov->n_input++] = (struct spot_prov_input){ name, xxh3 };
}

void spot_prov_release(struct spot_prov *prov)
{
    free(prov->input);
    prov->input = NULL;
    prov->n_input = prov->cap_input = 0;
}

void spot_jw_begin_doc(struct spot_jw *jw, const char *name, int major,
                       const struct spot_prov *prov)
{
    char schema[64], hex[20];

    snprintf(schema, sizeof(schema), "%s/%d", name, major);
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "schema", schema);
    if (!prov || prov->is_off)
        return;
    spot_jw_object(jw, "made_by");
    spot_jw_str(jw, "tool", prov->tool);
    spot_jw_str(jw, "version", spot_version());
    spot_jw_int(jw, "seed", (int64_t)prov->seed);
    spot_jw_array(jw, "inputs");
    for (size_t i = 0; i < prov->n_input; i++) {
        snprintf(hex, sizeof(hex), "%016" PRIx64, prov->input[i].xxh3);
        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "name", prov->input[i].name);
        spot_jw_str(jw, "xxh3", hex);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
    spot_jw_end(jw);
}
