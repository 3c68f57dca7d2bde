/* SPDX-License-Identifier: MIT */
/* registry.h - every JSON document of the project: schemas, the index in docs/formats.md, the
 * checks of readers against schemas and a fuzz target are made from it. No tool reads it, so that
 * it is not in the library. */
#ifndef SPOT_TOOL_REGISTRY_H
#define SPOT_TOOL_REGISTRY_H

#include <stddef.h>

#include "common/err.h"
#include "common/json_field.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_document {
    const char *kind; /* as in docs/schema/KIND.json, and "spot.KIND/MAJOR" in the document */
    int major;
    const char *form, *writers, *readers, *page; /* a row of the index */
    const struct spot_doc_part *part;            /* its fields; NULL: it has no reader */
    /* Read one, or one line. Returns 0, or -1 with *err. NULL: it is read with its files, or by you
     */
    int (*check)(const char *text, size_t n_byte, struct spot_err *err);
};

/* In the order of the index; ends with {0}. */
extern const struct spot_document spot_registry[];

/* NULL: there is none. */
const struct spot_document *spot_registry_find(const char *kind);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TOOL_REGISTRY_H */
