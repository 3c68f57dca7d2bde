/* SPDX-License-Identifier: MIT */
/* twin.h - the CUDA module for tests of stages. */
#ifndef SPOT_TESTS_TWIN_H
#define SPOT_TESTS_TWIN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/kernel.h"

/* The sources of the CUDA module, compiled for the CPU, lie beside this program; a module
 * that the user names goes first. Its fibers are
 * more than ThreadSanitizer follows. */
static inline void find_twin(const char *program)
{
    struct spot_err err;
    char path[4096];
    const char *const end = strrchr(program, '/');

    snprintf(path, sizeof(path), "%.*s/spot_cuda_twin.so", end ? (int)(end - program) : 1,
             end ? program : ".");
#ifndef __SANITIZE_THREAD__
    setenv("SPOT_CUDA_MODULE", path, 0);
    if (!spot_kernel_find("cuda", &err)) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
#endif
}

#endif /* SPOT_TESTS_TWIN_H */
