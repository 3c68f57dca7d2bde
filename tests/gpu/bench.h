/* SPDX-License-Identifier: MIT */
/* bench.h - what the programs here that time a device share. */
#ifndef SPOT_TESTS_GPU_BENCH_H
#define SPOT_TESTS_GPU_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "engine/initial_weights.h"
#include "shard/bundle.h"

static inline double bench_now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void bench_die_if(int rc, const struct spot_err *err)
{
    if (!rc)
        return;
    fprintf(stderr, "bench: %s\n", err->msg);
    exit(spot_err_exit_status(err));
}

/* The bundles of a fresh model, to the end of the program. */
static inline struct spot_bundle **bench_bundles(const struct spot_shape *shape, int *n)
{
    struct spot_err err;

    bench_die_if(spot_shape_check(shape, &err), &err);
    *n = spot_shape_bundles(shape);
    struct spot_bundle **const ptr = spot_xcalloc((size_t)*n, sizeof(struct spot_bundle *));
    for (int i = 0; i < *n; i++) {
        ptr[i] = spot_xcalloc(1, sizeof(*ptr[i]));
        bench_die_if(spot_bundle_init(ptr[i], shape, i, &err), &err);
        spot_bundle_start(ptr[i], shape, 1);
    }
    return ptr;
}

static inline uint32_t *bench_tokens(size_t n, int64_t vocab)
{
    uint32_t *const token = spot_xcalloc(n, sizeof(*token));
    struct spot_rng rng;

    spot_rng_init(&rng, 3, 0);
    for (size_t i = 0; i < n; i++)
        token[i] = (uint32_t)spot_rng_below(&rng, (uint64_t)vocab);
    return token;
}

#endif /* SPOT_TESTS_GPU_BENCH_H */
