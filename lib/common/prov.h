/* SPDX-License-Identifier: MIT */
/* prov.h - the head of every JSON document: its schema and who made it from what. */
#ifndef SPOT_COMMON_PROV_H
#define SPOT_COMMON_PROV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/json_writer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_PROV_INPUTS_MAX = 64 };

struct spot_prov {
    const char *tool;
    uint64_t seed;
    bool is_off; /* --no-provenance */
    size_t n_input;
    struct {
        const char *name; /* borrowed */
        uint64_t xxh3;
    } input[SPOT_PROV_INPUTS_MAX];
};

/* Note an input; beyond SPOT_PROV_INPUTS_MAX they are left out. */
void spot_prov_add(struct spot_prov *prov, const char *name, uint64_t xxh3);

/* Open the root object and write "schema":"NAME/MAJOR" and, unless prov is NULL
 * or off, "made_by". */
void spot_jw_begin_doc(struct spot_jw *jw, const char *name, int major,
                       const struct spot_prov *prov);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_PROV_H */
