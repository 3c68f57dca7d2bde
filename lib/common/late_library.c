/* SPDX-License-Identifier: MIT */
#include "common/late_library.h"

#include <dlfcn.h>
#include <string.h>

int spot_late_library(const char *library, const struct spot_late_function *function, size_t n,
                      struct spot_err *err)
{
    void *const so = dlopen(library, RTLD_NOW | RTLD_LOCAL);

    if (!so)
        return spot_err_set(err, SPOT_ESYS, "%.300s", dlerror());
    for (size_t i = 0; i < n; i++) {
        void *const symbol = dlsym(so, function[i].name);

        if (!symbol)
            return spot_err_set(err, SPOT_ESYS, "%.200s lacks %s", library, function[i].name);
        memcpy(function[i].field, &symbol, sizeof(symbol)); /* ISO C has no such cast */
    }
    return 0;
}
