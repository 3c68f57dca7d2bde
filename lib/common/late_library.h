/* SPDX-License-Identifier: MIT */
/* late_library.h - functions of a shared library that is opened when it is first needed.
 *
 * For what few processes use: libcurl and libmicrohttpd bring thirty libraries along, which took
 * two thirds of the time in which a worker starts; NCCL and cuBLASLt may not be there at all. The
 * caller lists what it calls, once:
 *
 *     #define EACH_FUNCTION(x) x(curl_easy_init) x(curl_easy_cleanup)
 *     static struct { EACH_FUNCTION(SPOT_LATE_FIELD) } api;
 *     #define ROW(name) SPOT_LATE_ROW(api, name)
 *     static const struct spot_late_function functions[] = { EACH_FUNCTION(ROW) };
 *
 * and calls api.curl_easy_init(), with the type that the library's header gives.
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
 * or -1 with *err (SPOT_ESYS) if it cannot be opened or lacks one of them. */
int spot_late_library(const char *library, const struct spot_late_function *function, size_t n,
                      struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_LATE_LIBRARY_H */
