/* SPDX-License-Identifier: MIT */
/* import_json.h - shared by the importers of JSON documents. */
#ifndef SPOT_TRACE_IMPORT_JSON_H
#define SPOT_TRACE_IMPORT_JSON_H

#include <stdbool.h>

#include "common/json.h"
#include "trace/import.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Call `read` for each element of the array root/key; `pointer` names the element. */
typedef int spot_import_item_fn(struct spot_import *imp, const struct spot_json_doc *doc,
                                const struct spot_json_value *item, const char *pointer,
                                struct spot_err *err);
int spot_import_items(struct spot_import *imp, const struct spot_json_doc *doc, const char *key,
                      spot_import_item_fn *read, struct spot_err *err);

/* at = pointer/key. Returns `at`. */
const char *spot_import_at(char at[SPOT_JSON_POINTER_MAX], const char *pointer, const char *key);

/* The text of a member, "" if there is none. */
const char *spot_import_member(const struct spot_json_value *object, const char *key);

/* The timestamp `text`, found at pointer/key, as unix time. */
int spot_import_stamp(const struct spot_json_doc *doc, const char *pointer, const char *key,
                      const char *text, double *time_s, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_IMPORT_JSON_H */
