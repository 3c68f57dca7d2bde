/* SPDX-License-Identifier: MIT */
/* adapt.h - chooses the codec of the next chunk from the measured cost of coding and sending.
 *
 * With codec z at c_z raw bytes a second, ratio r_z and a link of b bytes a second, a raw byte
 * takes max(1 / c_z, 1 / (r_z b)) when coding and sending overlap. The smallest wins; a change must
 * gain at least a tenth; one chunk in 64 tries the other codec, so that old measurements are
 * renewed.
 */
#ifndef SPOT_SHARD_ADAPT_H
#define SPOT_SHARD_ADAPT_H

#include <stddef.h>
#include <stdint.h>

#include "shard/chunk.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_ADAPT_PROBE = 64 };

/* Zero it before use: nothing measured yet. For one stream of chunks, one thread. */
struct spot_adapt {
    struct {
        enum spot_codec chosen;
        uint64_t n;
        struct {
            double s_per_byte, ratio; /* 0: not measured */
        } codec[SPOT_CODECS];
    } of[SPOT_DTYPES];
    double link_s_per_byte; /* 0: not measured */
};

/* The codec for the next chunk of this type. */
enum spot_codec spot_adapt_choose(struct spot_adapt *adapt, enum spot_dtype dtype);

/* Record that a chunk was coded in `coding_s` seconds to stored_byte bytes. */
void spot_adapt_coded(struct spot_adapt *adapt, enum spot_dtype dtype, enum spot_codec codec,
                      size_t raw_byte, size_t stored_byte, double coding_s);

/* Record that sending n_byte took busy_s seconds of waiting for the link. */
void spot_adapt_sent(struct spot_adapt *adapt, size_t n_byte, double busy_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_ADAPT_H */
