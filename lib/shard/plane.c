/* SPDX-License-Identifier: MIT */
#include "shard/plane.h"

#include <pthread.h>
#include <string.h>

#include "common/le.h"
#include "common/simd.h"

static uint16_t get16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static void put16(uint8_t *p, uint16_t x)
{
    p[0] = (uint8_t)x;
    p[1] = (uint8_t)(x >> 8);
}

static uint16_t rotl16(uint16_t x, unsigned by)
{
    return (uint16_t)(x << by | x >> ((16 - by) & 15));
}

static uint16_t rotr16(uint16_t x, unsigned by)
{
    return (uint16_t)(x >> by | x << ((16 - by) & 15));
}

static void split2(const uint8_t *raw, size_t n, bool rotate, uint8_t *const plane[2])
{
    for (size_t i = 0; i < n; i++) {
        const uint16_t x = rotl16(get16(raw + 2 * i), rotate);

        plane[0][i] = (uint8_t)x;
        plane[1][i] = (uint8_t)(x >> 8);
    }
}

static void join2(const uint8_t *const plane[2], size_t n, bool rotate, uint8_t *raw)
{
    for (size_t i = 0; i < n; i++)
        put16(raw + 2 * i, rotr16((uint16_t)(plane[0][i] | plane[1][i] << 8), rotate));
}

static void split4(const uint8_t *raw, size_t n, bool rotate, uint8_t *const plane[4])
{
    for (size_t i = 0; i < n; i++) {
        uint32_t x = (uint32_t)spot_le_get(raw + 4 * i, 4);

        if (rotate)
            x = x << 1 | x >> 31;
        for (int b = 0; b < 4; b++)
            plane[b][i] = (uint8_t)(x >> 8 * b);
    }
}

static void join4(const uint8_t *const plane[4], size_t n, bool rotate, uint8_t *raw)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t x = 0;

        for (int b = 0; b < 4; b++)
            x |= (uint32_t)plane[b][i] << 8 * b;
        if (rotate)
            x = x >> 1 | x << 31;
        spot_le_put(raw + 4 * i, x, 4);
    }
}

const struct spot_plane_ops spot_plane_portable = { "portable", split2, join2, split4, join4 };

void spot_plane_split8(const uint8_t *raw, size_t n, bool rotate, uint8_t *const plane[8])
{
    for (size_t i = 0; i < n; i++) {
        uint64_t x = spot_le_get(raw + 8 * i, 8);

        if (rotate)
            x = x << 1 | x >> 63;
        for (size_t b = 0; b < 8; b++)
            plane[b][i] = (uint8_t)(x >> 8 * b);
    }
}

void spot_plane_join8(const uint8_t *const plane[8], size_t n, bool rotate, uint8_t *raw)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t x = 0;

        for (size_t b = 0; b < 8; b++)
            x |= (uint64_t)plane[b][i] << 8 * b;
        if (rotate)
            x = x >> 1 | x << 63;
        spot_le_put(raw + 8 * i, x, 8);
    }
}

/* Loops are used only after they have given the same bytes as the portable ones on this machine, so
 * that an unknown compiler or processor can cost speed, but not data. */
static bool is_equal(const struct spot_plane_ops *ops)
{
    enum { N = 133 };
    uint8_t raw[4 * N], out[2][4][N] = { { { 0 } } }, back[4 * N];

    for (size_t i = 0; i < sizeof(raw); i++)
        raw[i] = (uint8_t)(i * i * 7 + i / 9);
    for (int side = 0; side < 2; side++) {
        const struct spot_plane_ops *o = side ? ops : &spot_plane_portable;

        o->split4(raw, N, true,
                  (uint8_t *const[4]){ out[side][0], out[side][1], out[side][2], out[side][3] });
    }
    ops->join4((const uint8_t *const[4]){ out[1][0], out[1][1], out[1][2], out[1][3] }, N, true,
               back);
    if (memcmp(out[0], out[1], sizeof(out[0])) != 0 || memcmp(back, raw, 4 * (size_t)N) != 0)
        return false;
    for (int side = 0; side < 2; side++)
        (side ? ops : &spot_plane_portable)
            ->split2(raw, N, true, (uint8_t *const[2]){ out[side][0], out[side][1] });
    if (memcmp(out[0], out[1], sizeof(out[0])) != 0)
        return false;
    ops->join2((const uint8_t *const[2]){ out[1][0], out[1][1] }, N, true, back);
    return memcmp(back, raw, 2 * (size_t)N) == 0;
}

const struct spot_plane_ops *spot_plane_ops_named(const char *name)
{
    if (!strcmp(name, spot_plane_portable.name))
        return &spot_plane_portable;
#ifdef SPOT_PLANE_X86
    if (!strcmp(name, spot_plane_avx2.name) && spot_simd_has(SPOT_SIMD_AVX2))
        return &spot_plane_avx2;
#endif
    return NULL;
}

static const struct spot_plane_ops *chosen = &spot_plane_portable;

static void choose(void)
{
    const struct spot_plane_ops *const ops = spot_plane_ops_named("avx2");

    if (ops && is_equal(ops))
        chosen = ops;
}

const struct spot_plane_ops *spot_plane_ops(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, choose);
    return chosen;
}
