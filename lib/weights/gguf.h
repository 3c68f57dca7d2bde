/* SPDX-License-Identifier: MIT */
/* gguf.h - the header of a GGUF file, version 2 or 3, and its tensors as floats.
 *
 * A file is  "GGUF" | u32 version | u64 tensors | u64 values | values | tensors | data, little
 * endian. Everything that the header claims is checked against the size of the file before memory
 * is taken for it. Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 */
#ifndef SPOT_WEIGHTS_GGUF_H
#define SPOT_WEIGHTS_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Text in the header, without a NUL. */
struct spot_gguf_text {
    const char *at;
    size_t n;
};

struct spot_gguf_tensor {
    struct spot_gguf_text name;
    int n_dim;
    uint64_t dim[4]; /* [0] is the length of a row of a matrix */
    int type;
    uint64_t begin; /* offset in the file */
};

struct spot_gguf_value;

struct spot_gguf {
    char *path;
    FILE *in;
    char *head; /* [n_head], texts point into it */
    size_t n_head;
    struct spot_gguf_value *value;
    size_t n_value, n_tensor;
    struct spot_gguf_tensor *tensor; /* [n_tensor] */
};

/* NULL with *err: SPOT_ESYS, or SPOT_EDATA naming the file. */
struct spot_gguf *spot_gguf_open(const char *path, struct spot_err *err);
void spot_gguf_close(struct spot_gguf *g); /* NULL: nothing */

/* --- values by key; false: no value of that kind --- */

bool spot_gguf_int(const struct spot_gguf *g, const char *key, int64_t *x); /* or a bool */
bool spot_gguf_real(const struct spot_gguf *g, const char *key, double *x);
bool spot_gguf_text(const struct spot_gguf *g, const char *key, struct spot_gguf_text *text);

/* Number of members of an array; 0: no such array. */
size_t spot_gguf_array(const struct spot_gguf *g, const char *key);
/* The members of an array of texts, or of numbers; to be freed. NULL: there is no such array. */
struct spot_gguf_text *spot_gguf_texts(const struct spot_gguf *g, const char *key);
double *spot_gguf_reals(const struct spot_gguf *g, const char *key);

/* --- tensors --- */

const struct spot_gguf_tensor *spot_gguf_find(const struct spot_gguf *g, const char *name);

/* Names of the types that are read. */
extern const char spot_gguf_types[];

/* Elements [first, first + n) of a tensor, both multiples of its block (256 at most). Returns 0, or
 * -1 with *err (SPOT_ESYS, SPOT_EDATA). */
int spot_gguf_read(const struct spot_gguf *g, const struct spot_gguf_tensor *tensor, uint64_t first,
                   size_t n, float *x, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_WEIGHTS_GGUF_H */
