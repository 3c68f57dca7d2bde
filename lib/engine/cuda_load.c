/* SPDX-License-Identifier: MIT */
/* Loads spot_cuda.so when a device is requested, and reports what is missing if that fails. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/version.h"
#include "engine/backend.h"

#ifndef SPOT_MODULE_PATH
#define SPOT_MODULE_PATH "spot_cuda.so"
#endif

typedef const struct spot_cuda_module *module_fn(void);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct spot_cuda_module *loaded;
static struct spot_err why; /* the reason if loaded == NULL */
static const char *wanted;  /* device */

void spot_cuda_choose(const char *device)
{
    wanted = device;
}

int spot_cuda_check_device(const char *device, struct spot_err *err)
{
    if (!strcmp(device, "auto") ||
        (*device && strlen(device) < 4 && !device[strspn(device, "0123456789")]))
        return 0;
    return spot_err_set(err, SPOT_EUSAGE,
                        "--device cuda:N must have a number after its colon, got '%s'", device);
}

const char *spot_cuda_device(void)
{
    return loaded ? loaded->device() : "";
}

static const struct spot_cuda_module *open_module(const char *path, struct spot_err *err)
{
    void *const so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *const symbol = so ? dlsym(so, SPOT_CUDA_MODULE_SYMBOL) : NULL;
    module_fn *entry;

    if (!symbol) {
        spot_err_set(err, SPOT_EGPU, "no CUDA module: %.300s; try --device cpu", dlerror());
        return NULL;
    }
    memcpy(&entry, &symbol, sizeof(entry)); /* ISO C has no such cast */
    return entry();
}

static void load(void)
{
    const char *const named = getenv("SPOT_CUDA_MODULE");
    const struct spot_cuda_module *const module =
        open_module(named && *named ? named : SPOT_MODULE_PATH, &why);

    if (!module)
        return;
    if (strcmp(module->version, spot_version()) != 0) {
        spot_err_set(&why, SPOT_EGPU,
                     "the CUDA module is of version %.60s, this program of %s; try --device cpu",
                     module->version, spot_version());
        return;
    }
    if (!module->probe(wanted, &why))
        loaded = module;
}

const struct spot_backend *spot_cuda_backend(struct spot_err *err)
{
    pthread_once(&once, load);
    if (!loaded && err)
        *err = why;
    return loaded ? loaded->backend : NULL;
}

const struct spot_nccl *spot_cuda_nccl(struct spot_err *err)
{
    if (!spot_cuda_backend(err) || loaded->nccl->probe(err))
        return NULL;
    return loaded->nccl;
}

bool spot_cuda_is_held(void)
{
    return loaded && loaded->nccl->is_held();
}

int spot_cuda_check_held(struct spot_err *err)
{
    return spot_cuda_is_held()
               ? spot_err_set(err, SPOT_EGPU, "NCCL did not return, the device may stay blocked")
               : 0;
}

bool spot_cuda_may_be_here(void)
{
    const char *const named = getenv("SPOT_CUDA_MODULE");

    return (named && *named) || dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
}
