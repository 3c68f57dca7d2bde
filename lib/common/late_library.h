/* SPDX-License-Identifier: MIT */
/* late_library.h - loads functions of a shared library when they are first needed.
 *
 * For libraries that few processes use: libcurl and libmicrohttpd bring thirty libraries with them,
 * which took two thirds of a worker's start-up time; NCCL and cuBLASLt may not be installed. The
 * caller lists the functions that it calls, once:
 *
 *     #define EACH_FUNCTION(x) x(curl_easy_init) x(curl_easy_cleanup)
 *     static struct { EACH_FUNCTION(SPOT_LATE_FIELD) } api;
 *     #define ROW(name) SPOT_LATE_ROW(api, name)
 *     static const struct spot_late_function functions[] = { EACH_FUNCTION(ROW) };
 *
 * and calls api.curl_easy_init(), with the type from the library's header.
 */
#ifndef SPOT_COMMON_LATE_LIBRARY_H
#define SPOT_COMMON_LATE_LIBRARY_H

#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_late_function {
    const char *name;
    void *field; /* a pointer to such a function */
};

#define SPOT_LATE_FIELD(function)      __typeof__(&(function)) function;
#define SPOT_LATE_ROW(table, function) { #function, &(table).function },

/* Open `library`, a soname or a path, and fill the fields of function[n]. It stays open. Returns 0,
 * or -1 with *err (SPOT_ESYS) if it cannot be opened or lacks one of the functions. */
int spot_late_library(const char *library, const struct spot_late_function *function, size_t n,
                      struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_LATE_LIBRARY_H */
