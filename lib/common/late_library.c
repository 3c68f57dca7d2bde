/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* realpath */
#include "common/late_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
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

/* --- where CUDA's libraries lie --------------------------------------------------- */

#define PACKAGES "/lib/python3*/*-packages/nvidia/*/lib"

/* The folder that holds bin/python3 for the first python3 on PATH, links followed; "" if none. */
static void find_python(char root[PATH_MAX])
{
    const char *path = getenv("PATH");
    char name[PATH_MAX];
    size_t n;

    root[0] = '\0';
    for (; path && *path && !*root; path += n + (path[n] == ':')) {
        n = strcspn(path, ":");
        if (snprintf(name, sizeof(name), "%.*s/python3", (int)n, path) < (int)sizeof(name) &&
            !realpath(name, root))
            root[0] = '\0';
    }
    for (int i = 0; i < 2 && *root; i++)
        *strrchr(root, '/') = '\0';
}

static int first_of(const char *root, const char *folder, const char *file,
                    char path[SPOT_LATE_PATH])
{
    glob_t found;
    int rc = 1;

    if (!root || *root != '/' ||
        snprintf(path, SPOT_LATE_PATH, "%s%s/%s", root, folder, file) >= SPOT_LATE_PATH)
        return 1;
    if (!glob(path, 0, NULL, &found)) {
        rc = snprintf(path, SPOT_LATE_PATH, "%s", found.gl_pathv[0]) >= SPOT_LATE_PATH;
        globfree(&found);
    }
    return rc;
}

const char *spot_late_find_cuda(const char *variable, const char *file, char path[SPOT_LATE_PATH])
{
    const char *const named = getenv(variable), *const home = getenv("HOME");
    char python[PATH_MAX];

    if (named && *named)
        return named;
    if (dlopen(file, RTLD_LAZY | RTLD_LOCAL))
        return file;
    find_python(python);
    return !first_of(getenv("CUDA_HOME"), "/lib64", file, path) ||
                   !first_of("/usr/local", "/cuda*/lib64", file, path) ||
                   !first_of(getenv("VIRTUAL_ENV"), PACKAGES, file, path) ||
                   !first_of(getenv("CONDA_PREFIX"), PACKAGES, file, path) ||
                   !first_of(python, PACKAGES, file, path) ||
                   !first_of(home, "/.local" PACKAGES, file, path) ||
                   !first_of("/usr/local", PACKAGES, file, path) ||
                   !first_of("/opt", "/*" PACKAGES, file, path) ||
                   !first_of("/opt", "/*/.venv" PACKAGES, file, path)
               ? path
               : file;
}

const char *spot_late_cuda_places(void)
{
    return "the system's places, lib64 of $CUDA_HOME and /usr/local/cuda*, nvidia/*/lib among the "
           "packages of $VIRTUAL_ENV, $CONDA_PREFIX, python3, ~/.local, /usr/local, /opt";
}
