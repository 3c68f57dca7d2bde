/* SPDX-License-Identifier: MIT */
#include "common/prov.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/version.h"

void spot_prov_add(struct spot_prov *prov, const char *name, uint64_t xxh3)
{
    if (prov->n_input == SPOT_PROV_INPUTS_MAX)
        return;
    prov->input[prov->n_input].name = name;
    prov->input[prov->n_input++].xxh3 = xxh3;
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
