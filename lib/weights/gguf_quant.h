/* SPDX-License-Identifier: MIT */
/* gguf_quant.h - converts quantised blocks of GGUF to floats.
 *
 * Source of the layouts: ggml-common.h and dequantize_row_* of ggml-quants.c in
 * https://github.com/ggml-org/ggml; the results are bit-identical to ggml's.
 */
#ifndef SPOT_WEIGHTS_GGUF_QUANT_H
#define SPOT_WEIGHTS_GGUF_QUANT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_GGUF_BLOCK_MAX = 256, SPOT_GGUF_BLOCK_BYTE_MAX = 256 };

struct spot_gguf_kind {
    int type;
    const char *name;
    int n, n_byte; /* numbers and bytes of a block */
    void (*widen)(const uint8_t *block, float *x);
};

/* The conversion for a GGUF type; NULL: the type is not supported. */
const struct spot_gguf_kind *spot_gguf_kind(int type);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_GGUF_QUANT_H */
