/* SPDX-License-Identifier: MIT */
/* prov.h - the head of every JSON document: its schema, and its provenance (tool and inputs). */
#ifndef SPOT_COMMON_PROV_H
#define SPOT_COMMON_PROV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/json_writer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_prov_input {
    const char *name; /* borrowed */
    uint64_t xxh3;
};

struct spot_prov {
    const char *tool;
    uint64_t seed;
    bool is_off;                   /* --no-provenance */
    struct spot_prov_input *input; /* [n_input] */
    size_t n_input, cap_input;
};

void spot_prov_add(struct spot_prov *prov, const char *name, uint64_t xxh3);
void spot_prov_release(struct spot_prov *prov);

/* Open the root object and write "schema":"NAME/MAJOR" and, unless prov is NULL
 * or off, "made_by". */
void spot_jw_begin_doc(struct spot_jw *jw, const char *name, int major,
                       const struct spot_prov *prov);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_PROV_H */
