/* SPDX-License-Identifier: MIT */
/* token_weights.h - a factor for the loss of each token of a corpus, written as numbers in text. */
#ifndef SPOT_TEXT_TOKEN_WEIGHTS_H
#define SPOT_TEXT_TOKEN_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Read `path`, n_token finite numbers with white space between them, into *weight [n_token], to be
 * freed; *xxh3 gets their hash as floats, never 0. Returns 0, or -1 with *err: SPOT_EDATA with line
 * and content, or for a wrong number of values; SPOT_ESYS. */
int spot_token_weights_read(const char *path, size_t n_token, float **weight, uint64_t *xxh3,
                            struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TEXT_TOKEN_WEIGHTS_H */
