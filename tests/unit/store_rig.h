/* SPDX-License-Identifier: MIT */
/* store_rig.h - a directory with a store in it, whose bundles say which step they are of. */
#ifndef SPOT_TESTS_STORE_RIG_H
#define SPOT_TESTS_STORE_RIG_H

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/store.h"
#include "suite.h"

enum { BUNDLES = 3, BYTES = 300 };

static char dir[64];

static inline void make_dir(void)
{
    strcpy(dir, "/tmp/spot-store-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static inline void drop_dir(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static inline struct spot_store *open_store(const char *at, uint64_t job, struct spot_err *err)
{
    return spot_store_open_behind(at, NULL, 0, NULL, job, BUNDLES, err);
}

static inline uint8_t byte_of(int64_t step, int bundle, size_t i)
{
    const int64_t head = i < 8 ? step : bundle;

    return (uint8_t)(i < 16 ? head >> 8 * (i % 8) : step * 31 + bundle * 7 + (int64_t)i);
}

static inline void put(struct spot_store *s, int64_t step, int bundle)
{
    uint8_t *data = malloc(BYTES);

    for (size_t i = 0; i < BYTES; i++)
        data[i] = byte_of(step, bundle, i);
    spot_store_put(s, step, bundle, data, BYTES);
}

/* Wait for the thread: 1, or -1 with *err. */
static inline int result(struct spot_store *s, int64_t *step, struct spot_err *err)
{
    int rc;

    while (!(rc = spot_store_result(s, step, err)))
        poll(&(struct pollfd){ .fd = spot_store_fd(s), .events = POLLIN }, 1, 1000);
    return rc;
}

static inline void save(struct spot_store *s, int64_t step)
{
    int64_t got = -1;

    spot_store_begin(s, step, "");
    for (int b = BUNDLES; b-- > 0;)
        put(s, step, b);
    ck_assert_int_eq(result(s, &got, NULL), 1);
    ck_assert_int_eq(got, step);
    ck_assert_int_eq(spot_store_newest(s), step);
    ck_assert(!spot_store_is_busy(s));
}

static inline void check_step(struct spot_store *s, int64_t step)
{
    for (int b = 0; b < BUNDLES; b++) {
        size_t n;
        uint8_t *data = spot_store_read(s, step, b, &n, NULL);

        ck_assert_ptr_nonnull(data);
        ck_assert_uint_eq(n, BYTES);
        for (size_t i = 0; i < n; i++)
            ck_assert_uint_eq(data[i], byte_of(step, b, i));
        free(data);
    }
}

static inline void check_content(struct spot_store *s, int64_t step)
{
    ck_assert_int_eq(spot_store_newest(s), step);
    check_step(s, step);
}

static inline int count(const char *pattern)
{
    char command[128];
    int n = -1;
    FILE *in;

    snprintf(command, sizeof(command), "ls '%s' | grep -c '%s'", dir, pattern);
    in = popen(command, "r");
    ck_assert_int_eq(fscanf(in, "%d", &n), 1);
    pclose(in);
    return n;
}

#endif /* SPOT_TESTS_STORE_RIG_H */
