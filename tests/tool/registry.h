/* SPDX-License-Identifier: MIT */
/* registry.h - every JSON document of the project. `make schemas` writes docs/schema and the lists
 * in docs/formats.md and docs/man/spot-formats.5 from it; the checks of readers and writers against
 * schemas, and a fuzz target, go through it. No tool reads it, so that it is not in the library. */
#ifndef SPOT_TOOL_REGISTRY_H
#define SPOT_TOOL_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/json_field.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_document {
    const char *kind; /* as in docs/schema/KIND.json, and "spot.KIND/MAJOR" in the document */
    int major;
    const char *form, *says;              /* what it is, in one sentence */
    const char *writers, *readers, *page; /* page: in docs/formats */
    const struct spot_doc_part *part;     /* its fields; NULL: only a tool writes it */
    /* Read one, or one line. Returns 0, or -1 with *err. NULL: no program of ours reads it */
    int (*check)(const char *text, size_t n_byte, struct spot_err *err);
    const char *unread; /* pattern of the keys that are there for people; NULL: none */
    bool has_made_by;   /* where it comes from, as spot_jw_begin_doc writes it */
};

/* In the order of the index; ends with {0}. */
extern const struct spot_document spot_registry[];

/* NULL: there is none. */
const struct spot_document *spot_registry_find(const char *kind);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TOOL_REGISTRY_H */
