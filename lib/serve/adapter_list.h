/* SPDX-License-Identifier: MIT */
/* adapter_list.h - adapters of a model and their names for clients: "NAME=DIR,NAME=DIR". */
#ifndef SPOT_SERVE_ADAPTER_LIST_H
#define SPOT_SERVE_ADAPTER_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_ADAPTERS_MAX = 256, SPOT_ADAPTERS_BYTE = 1 << 14 /* of a list, its end included */ };

/* One adapter; its strings point into the list. */
struct spot_adapter {
    const char *name, *dir;
    size_t n_name, n_dir;
};

/* The next adapter of a list, which is NULL or "" at its end; returns the rest of the list, NULL:
 * no more. */
const char *spot_adapter_next(const char *list, struct spot_adapter *adapter);

/* Number `number` of the list, counted from 1; false: there is none. */
bool spot_adapter_at(const char *list, uint32_t number, struct spot_adapter *adapter);

/* The number of the adapter with this name; 0: there is none. */
uint32_t spot_adapter_find(const char *list, const char *name, size_t n);

/* Check that it is a list of distinct names and directories. Returns 0, or -1 with *err
 * (SPOT_EUSAGE). */
int spot_adapter_check(const char *list, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_ADAPTER_LIST_H */
