/* SPDX-License-Identifier: MIT */
#include "plan/assign/row_scan.h"

#include <stdlib.h>
#include <string.h>

/* Four columns at once: one AVX2 register; the compiler cuts it up for lesser targets. */
typedef int64_t lanes __attribute__((vector_size(32)));
typedef int64_t loose __attribute__((vector_size(32), aligned(8))); /* at any address */
enum { LANES = 4, GROUP_LANES = SPOT_SCAN_GROUPS / LANES };

#define INLINE static inline __attribute__((always_inline))

INLINE int64_t least_lane(const lanes *v)
{
    int64_t best = (*v)[0];

    for (int l = 1; l < LANES; l++)
        best = (*v)[l] < best ? (*v)[l] : best;
    return best;
}

INLINE void put_two(struct spot_two_least *out, int64_t value, int64_t at)
{
    if (value < out->least || (value == out->least && at < out->least_at)) {
        out->second = out->least;
        out->second_at = out->least_at;
        out->least = value;
        out->least_at = at;
    } else if (value < out->second || (value == out->second && at < out->second_at)) {
        out->second = value;
        out->second_at = at;
    }
}

INLINE void two_least_body(const int64_t *cost, const int64_t *price, int64_t n,
                           struct spot_two_least *out)
{
    const loose *c = (const void *)cost;
    const lanes *p = (const void *)price;
    const lanes none = (lanes){ 0 } + INT64_MAX, first = { 0, 1, 2, 3 };
    lanes least = none, second = none, least_at = none, second_at = none, at = first;

    for (int64_t k = 0; k < n / LANES; k++) {
        const lanes x = c[k] - p[k];
        const lanes is_least = x < least, is_second = x < second;
        const lanes lesser = (is_second & x) | (~is_second & second);
        const lanes lesser_at = (is_second & at) | (~is_second & second_at);

        second = (is_least & least) | (~is_least & lesser);
        second_at = (is_least & least_at) | (~is_least & lesser_at);
        least = (is_least & x) | (~is_least & least);
        least_at = (is_least & at) | (~is_least & least_at);
        at += LANES;
    }
    *out = (struct spot_two_least){ INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX };
    for (int l = 0; l < LANES; l++) {
        put_two(out, least[l], least_at[l]);
        put_two(out, second[l], second_at[l]);
    }
}

INLINE int64_t relax_body(const int64_t *cost, const int64_t *price, int64_t shift, int64_t row,
                          int64_t *distance, int64_t *from, int64_t n)
{
    const loose *c = (const void *)cost;
    const lanes *p = (const void *)price;
    lanes *d = (void *)distance, *f = (void *)from;
    lanes best = (lanes){ 0 } + INT64_MAX;

    for (int64_t k = 0; k < n / LANES; k++) {
        const lanes x = c[k] - p[k] + shift, old = d[k];
        const lanes is_less = x < old, now = (is_less & x) | (~is_less & old);
        const lanes is_best = now < best;

        d[k] = now;
        f[k] = (is_less & ((lanes){ 0 } + row)) | (~is_less & f[k]);
        best = (is_best & now) | (~is_best & best);
    }
    return least_lane(&best);
}

INLINE void column_min_body(const int64_t *cost, int64_t row, int64_t *least, int64_t *at,
                            int64_t n)
{
    const loose *c = (const void *)cost;
    lanes *m = (void *)least, *f = (void *)at;

    for (int64_t k = 0; k < n / LANES; k++) {
        const lanes is_less = c[k] < m[k];

        m[k] = (is_less & c[k]) | (~is_less & m[k]);
        f[k] = (is_less & ((lanes){ 0 } + row)) | (~is_less & f[k]);
    }
}

INLINE int64_t find_body(const int64_t *value, int64_t wanted, int64_t begin, int64_t n)
{
    const lanes *v = (const void *)value;
    int64_t j = begin;

    for (; j < n && j % (4 * LANES); j++)
        if (value[j] == wanted)
            return j;
    for (; j + 4 * LANES <= n; j += 4 * LANES) {
        const lanes *w = v + j / LANES;
        const lanes hit = (w[0] == wanted) | (w[1] == wanted) | (w[2] == wanted) | (w[3] == wanted);

        if (hit[0] | hit[1] | hit[2] | hit[3])
            break;
    }
    while (j < n && value[j] != wanted)
        j++;
    return j;
}

INLINE int64_t least_body(const int64_t *value, int64_t n)
{
    const lanes *v = (const void *)value;
    lanes even = (lanes){ 0 } + INT64_MAX, odd = even;

    for (int64_t k = 0; k < n / LANES; k += 2) {
        const lanes is_even = v[k] < even, is_odd = v[k + 1] < odd;

        even = (is_even & v[k]) | (~is_even & even);
        odd = (is_odd & v[k + 1]) | (~is_odd & odd);
    }
    even = ((even < odd) & even) | (~(even < odd) & odd);
    return least_lane(&even);
}

INLINE void group_least_body(const int64_t *cost, const int64_t *price, int64_t n, int64_t *least)
{
    const loose *c = (const void *)cost;
    const lanes *p = (const void *)price;
    lanes best[GROUP_LANES];
    int64_t j;

    for (int g = 0; g < GROUP_LANES; g++)
        best[g] = (lanes){ 0 } + INT64_MAX;
    for (int64_t k = 0; k + GROUP_LANES <= n / LANES; k += GROUP_LANES)
#pragma GCC unroll 16
        for (int g = 0; g < GROUP_LANES; g++) {
            const lanes x = c[k + g] - p[k + g], is_best = x < best[g];

            best[g] = (is_best & x) | (~is_best & best[g]);
        }
    memcpy(least, best, sizeof(best));
    for (j = n / SPOT_SCAN_GROUPS * SPOT_SCAN_GROUPS; j < n; j++)
        if (cost[j] - price[j] < least[j % SPOT_SCAN_GROUPS])
            least[j % SPOT_SCAN_GROUPS] = cost[j] - price[j];
}

INLINE int collect_body(const int64_t *cost, const int64_t *price, int64_t limit, int64_t n,
                        int most, int32_t *col, int64_t *value)
{
    const loose *c = (const void *)cost;
    const lanes *p = (const void *)price;
    int n_hit = 0;

    for (int64_t j = 0; j < n; j += 2 * LANES) {
        const int64_t k = j / LANES;
        const lanes hit = (c[k] - p[k] <= limit) | (c[k + 1] - p[k + 1] <= limit);

        if (!(hit[0] | hit[1] | hit[2] | hit[3]))
            continue;
        for (int64_t l = j; l < j + 2 * LANES; l++) {
            if (cost[l] - price[l] > limit)
                continue;
            if (n_hit == most)
                return most + 1;
            col[n_hit] = (int32_t)l;
            value[n_hit++] = cost[l];
        }
    }
    return n_hit;
}

/* Plain: the compiler makes lanes of it where it has any. */
INLINE void equal_body(const int64_t *cost, const int64_t *price, int64_t shift, int64_t n,
                       uint64_t *set)
{
    for (int64_t j = 0; j < n; j += 64) {
        const int64_t width = n - j < 64 ? n - j : 64;
        uint64_t bits = 0;

        for (int64_t k = 0; k < width; k++)
            bits |= (uint64_t)(cost[j + k] == shift + price[j + k]) << k;
        set[j / 64] = bits;
    }
}

/* --- the portable twins --- */

static void two_least_portable(const int64_t *cost, const int64_t *price, int64_t n,
                               struct spot_two_least *out)
{
    *out = (struct spot_two_least){ INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX };
    for (int64_t j = 0; j < n; j++)
        if (cost[j] - price[j] < out->second)
            put_two(out, cost[j] - price[j], j);
}

static int64_t relax_portable(const int64_t *cost, const int64_t *price, int64_t shift, int64_t row,
                              int64_t *distance, int64_t *from, int64_t n)
{
    int64_t best = INT64_MAX;

    for (int64_t j = 0; j < n; j++) {
        const int64_t x = cost[j] - price[j] + shift;

        if (x < distance[j])
            distance[j] = x, from[j] = row;
        best = distance[j] < best ? distance[j] : best;
    }
    return best;
}

static void column_min_portable(const int64_t *cost, int64_t row, int64_t *least, int64_t *at,
                                int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        if (cost[j] < least[j])
            least[j] = cost[j], at[j] = row;
}

static int64_t find_portable(const int64_t *value, int64_t wanted, int64_t begin, int64_t n)
{
    while (begin < n && value[begin] != wanted)
        begin++;
    return begin;
}

static int64_t least_portable(const int64_t *value, int64_t n)
{
    int64_t best = INT64_MAX;

    for (int64_t j = 0; j < n; j++)
        best = value[j] < best ? value[j] : best;
    return best;
}

static void group_least_portable(const int64_t *cost, const int64_t *price, int64_t n,
                                 int64_t *least)
{
    for (int g = 0; g < SPOT_SCAN_GROUPS; g++)
        least[g] = INT64_MAX;
    for (int64_t j = 0; j < n; j++)
        if (cost[j] - price[j] < least[j % SPOT_SCAN_GROUPS])
            least[j % SPOT_SCAN_GROUPS] = cost[j] - price[j];
}

static int collect_portable(const int64_t *cost, const int64_t *price, int64_t limit, int64_t n,
                            int most, int32_t *col, int64_t *value)
{
    int n_hit = 0;

    for (int64_t j = 0; j < n; j++) {
        if (cost[j] - price[j] > limit)
            continue;
        if (n_hit == most)
            return most + 1;
        col[n_hit] = (int32_t)j;
        value[n_hit++] = cost[j];
    }
    return n_hit;
}

static void equal_portable(const int64_t *cost, const int64_t *price, int64_t shift, int64_t n,
                           uint64_t *set)
{
    equal_body(cost, price, shift, n, set);
}

static const struct spot_row_scan scan_portable = { two_least_portable,  relax_portable,
                                                    column_min_portable, find_portable,
                                                    least_portable,      group_least_portable,
                                                    collect_portable,    equal_portable };

/* --- one copy of the bodies above per instruction set --- */

#define VERSION(name, attribute)                                                                   \
    attribute static void two_least_##name(const int64_t *cost, const int64_t *price, int64_t n,   \
                                           struct spot_two_least *out)                             \
    {                                                                                              \
        two_least_body(cost, price, n, out);                                                       \
    }                                                                                              \
    attribute static int64_t relax_##name(const int64_t *cost, const int64_t *price,               \
                                          int64_t shift, int64_t row, int64_t *distance,           \
                                          int64_t *from, int64_t n)                                \
    {                                                                                              \
        return relax_body(cost, price, shift, row, distance, from, n);                             \
    }                                                                                              \
    attribute static void column_min_##name(const int64_t *cost, int64_t row, int64_t *least,      \
                                            int64_t *at, int64_t n)                                \
    {                                                                                              \
        column_min_body(cost, row, least, at, n);                                                  \
    }                                                                                              \
    attribute static int64_t find_##name(const int64_t *value, int64_t wanted, int64_t begin,      \
                                         int64_t n)                                                \
    {                                                                                              \
        return find_body(value, wanted, begin, n);                                                 \
    }                                                                                              \
    attribute static int64_t least_##name(const int64_t *value, int64_t n)                         \
    {                                                                                              \
        return least_body(value, n);                                                               \
    }                                                                                              \
    attribute static void group_least_##name(const int64_t *cost, const int64_t *price, int64_t n, \
                                             int64_t *least)                                       \
    {                                                                                              \
        group_least_body(cost, price, n, least);                                                   \
    }                                                                                              \
    attribute static int collect_##name(const int64_t *cost, const int64_t *price, int64_t limit,  \
                                        int64_t n, int most, int32_t *col, int64_t *value)         \
    {                                                                                              \
        return collect_body(cost, price, limit, n, most, col, value);                              \
    }                                                                                              \
    attribute static void equal_##name(const int64_t *cost, const int64_t *price, int64_t shift,   \
                                       int64_t n, uint64_t *set)                                   \
    {                                                                                              \
        equal_body(cost, price, shift, n, set);                                                    \
    }                                                                                              \
    static const struct spot_row_scan scan_##name = { two_least_##name,  relax_##name,             \
                                                      column_min_##name, find_##name,              \
                                                      least_##name,      group_least_##name,       \
                                                      collect_##name,    equal_##name };

#if defined(__x86_64__)
VERSION(avx2, __attribute__((target("avx2"))))
VERSION(avx512, __attribute__((target("avx512f,avx512vl,avx512dq"))))
#endif

const struct spot_row_scan *spot_row_scan(void)
{
#if defined(__x86_64__)
    const char *wish = getenv("SPOT_SIMD");
    const int most = !wish ? 2 : !strcmp(wish, "portable") ? 0 : !strcmp(wish, "avx2") ? 1 : 2;

    if (most >= 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        return &scan_avx512;
    if (most >= 1 && __builtin_cpu_supports("avx2"))
        return &scan_avx2;
#endif
    return &scan_portable;
}
