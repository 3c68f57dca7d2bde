/* SPDX-License-Identifier: MIT */
/* plane.h - splits elements into byte planes and joins them: the inner loops of the codecs.
 *
 * Rotating an element left by one moves the sign to the low end, so that the top byte of a bf16 or
 * fp32 is exactly its exponent: 2.6 bits of information in a trained model, while the other bytes
 * are noise. All implementations give the same bytes as the portable one.
 * Source: Hershcovitch et al., ZipNN, arXiv 2411.05239, section 3 (byte grouping, exponent first).
 */
#ifndef SPOT_SHARD_PLANE_H
#define SPOT_SHARD_PLANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_plane_ops {
    const char *name; /* "portable", "avx2" */

    /* n elements of 2 or 4 bytes, little endian, rotated left by one if `rotate`, to planes
     * [n] each, least significant first; join is the inverse. No alignment is needed. */
    void (*split2)(const uint8_t *raw, size_t n, bool rotate, uint8_t *const plane[2]);
    void (*join2)(const uint8_t *const plane[2], size_t n, bool rotate, uint8_t *raw);
    void (*split4)(const uint8_t *raw, size_t n, bool rotate, uint8_t *const plane[4]);
    void (*join4)(const uint8_t *const plane[4], size_t n, bool rotate, uint8_t *raw);
};

/* The fastest that this processor runs, chosen once. Thread-safe. */
const struct spot_plane_ops *spot_plane_ops(void);

/* An implementation by name; NULL if this build or this processor lacks it. */
const struct spot_plane_ops *spot_plane_ops_named(const char *name);

extern const struct spot_plane_ops spot_plane_portable;
#if defined(__x86_64__) && defined(__GNUC__)
#define SPOT_PLANE_X86 1
extern const struct spot_plane_ops spot_plane_avx2;
#endif

/* Elements of 8 bytes, portable only. */
void spot_plane_split8(const uint8_t *raw, size_t n, bool rotate, uint8_t *const plane[8]);
void spot_plane_join8(const uint8_t *const plane[8], size_t n, bool rotate, uint8_t *raw);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_PLANE_H */
