/* SPDX-License-Identifier: MIT */
/* safetensors.h - the header of a safetensors file: read strictly, written canonically.
 *
 * A file is  u64 N | N bytes of JSON | data.  The reader verifies everything: names are unique,
 * sizes are dtype times shape without overflow, the tensors cover the data buffer exactly, in any
 * order of the text. Memory is a small multiple of the header text, whatever the sizes it claims.
 * Source: https://github.com/huggingface/safetensors, section "Format".
 */
#ifndef SPOT_SHARD_SAFETENSORS_H
#define SPOT_SHARD_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_ST_PREFIX_BYTE = 8,
    SPOT_ST_HEADER_MAX = 100000000, /* bytes of JSON: the limit of the format's own reader */
    SPOT_ST_TENSORS_MAX = 1 << 20,  /* so that a table stays below 200 MB; real files have 10^5 */
    SPOT_ST_DIMS_MAX = 16,
    SPOT_ST_NAME_MAX = 4096, /* bytes */
};

enum spot_dtype {
    SPOT_DT_BOOL,
    SPOT_DT_U8,
    SPOT_DT_I8,
    SPOT_DT_F8_E4M3,
    SPOT_DT_F8_E5M2,
    SPOT_DT_U16,
    SPOT_DT_I16,
    SPOT_DT_F16,
    SPOT_DT_BF16,
    SPOT_DT_U32,
    SPOT_DT_I32,
    SPOT_DT_F32,
    SPOT_DT_U64,
    SPOT_DT_I64,
    SPOT_DT_F64,
    SPOT_DT_C64,     /* two F32 */
    SPOT_DT_F8_E8M0, /* scales */
    SPOT_DT_F8_E4M3FNUZ,
    SPOT_DT_F8_E5M2FNUZ,
    SPOT_DT_F6_E2M3, /* packed: elements span bytes, a tensor has whole bytes */
    SPOT_DT_F6_E3M2,
    SPOT_DT_F4,
    SPOT_DTYPES,
};

const char *spot_dtype_name(enum spot_dtype dtype); /* "BF16" */

/* Bytes of one element: 1, 2, 4 or 8; 1 if several elements share bytes. */
size_t spot_dtype_byte(enum spot_dtype dtype);

struct spot_st_tensor {
    char *name;
    enum spot_dtype dtype;
    int n_dim;
    uint64_t dim[SPOT_ST_DIMS_MAX];
    uint64_t begin, end; /* bytes from the start of the data buffer */
};

struct spot_st {
    struct spot_st_tensor *tensor; /* [n_tensor], ordered by offset in the data buffer */
    size_t n_tensor;
    uint64_t data_byte;
};

/* Parse the header length in the first 8 bytes of a file. Returns 0, or -1 with *err (SPOT_EDATA)
 * if it is outside 2..SPOT_ST_HEADER_MAX. `source` names the file in messages. */
int spot_st_prefix(const void *prefix, const char *source, uint64_t *n_byte, struct spot_err *err);

/* Parse the JSON text after the prefix. Returns 0, or -1 with *err (SPOT_EDATA) naming the tensor
 * and the problem; *st is then zeroed. */
int spot_st_parse(struct spot_st *st, const char *text, size_t n_byte, const char *source,
                  struct spot_err *err);
void spot_st_release(struct spot_st *st);

/* Index of a tensor by name, -1 if there is none. */
ptrdiff_t spot_st_find(const struct spot_st *st, const char *name);

/* Append prefix and JSON, padded with spaces to a multiple of 8. `begin` and `end` are ignored: the
 * tensors follow each other in the order given, each of whole bytes. Names are UTF-8. Returns the
 * bytes of data that must follow. */
uint64_t spot_st_write(const struct spot_st_tensor *tensor, size_t n_tensor, struct spot_buf *out);

/* One entry of __metadata__: text to text, both UTF-8. */
struct spot_st_note {
    const char *key, *text;
};

/* The same with an object __metadata__ before the tensors, in the order given; none if n_note is
 * 0. */
uint64_t spot_st_write_noted(const struct spot_st_note *note, size_t n_note,
                             const struct spot_st_tensor *tensor, size_t n_tensor,
                             struct spot_buf *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SHARD_SAFETENSORS_H */
