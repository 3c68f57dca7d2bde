/* SPDX-License-Identifier: MIT */
/* late_library.h - loads functions of a shared library when they are first needed.
 *
 * For libraries that few processes use: libcurl brings thirty libraries with it, which slow the
 * start of a worker; NCCL and cuBLASLt may not be installed. The caller lists the functions that it
 * calls, once:
 *
 *     #define EACH_FUNCTION(x) x(curl_easy_init) x(curl_easy_cleanup)
 *     SPOT_LATE_TABLE(EACH_FUNCTION)
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

#define SPOT_LATE_FIELD(function) __typeof__(&(function)) function;
#define SPOT_LATE_NAME(function)  #function,

enum { SPOT_LATE_PATH = 4096 };

/* The functions, `api`, and their names in the same order, `api_name`. */
#define SPOT_LATE_TABLE(each) \
    static struct {           \
        each(SPOT_LATE_FIELD) \
    } api;                    \
    static const char *const api_name[] = { each(SPOT_LATE_NAME) };

/* Open `library`, a soname or a path, and fill api, a struct of pointers to the functions name[n].
 * It stays open. Returns 0, or -1 with *err (SPOT_ESYS) if it cannot be opened or lacks one. */
int spot_late_library(const char *library, const char *const *name, size_t n, void *api,
                      struct spot_err *err);

/* The name to open for `file`, a library of CUDA: the value of the environment variable `variable`;
 * `file` itself, if the dynamic linker finds it; or its path (written to `path`) in the places of
 * toolkits and PyTorch's wheels: lib64 of $CUDA_HOME and of /usr/local/cuda*, nvidia/NAME/lib among
 * the packages of $VIRTUAL_ENV, $CONDA_PREFIX, the python3 on PATH, $HOME/.local, /usr/local and
 * /opt; else `file`. */
const char *spot_late_find_cuda(const char *variable, const char *file, char path[SPOT_LATE_PATH]);
/* A list of those places, for a message. */
const char *spot_late_cuda_places(void);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_LATE_LIBRARY_H */
