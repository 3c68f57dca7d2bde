/* SPDX-License-Identifier: MIT */
#include "common/late_library.h"

#include <dlfcn.h>
#include <string.h>

int spot_late_library(const char *library, const char *const *name, size_t n, void *api,
                      struct spot_err *err)
{
    void *const so = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    char *field = api;

    if (!so)
        return spot_err_set(err, SPOT_ESYS, "%.300s", dlerror());
    for (size_t i = 0; i < n; i++, field += sizeof(void *)) {
        void *const symbol = dlsym(so, name[i]);

        if (!symbol)
            return spot_err_set(err, SPOT_ESYS, "%.200s lacks %s", library, name[i]);
        memcpy(field, &symbol, sizeof(symbol)); /* ISO C has no such cast */
    }
    return 0;
}
