/* SPDX-License-Identifier: MIT */
/* device.h - one device, its stream, cuBLASLt's products; the first error sticks.
 *
 * Calls are queued on one stream and come back at once; those that bring something to the host wait
 * for it. After an error every call does nothing: spot_device_status tells what went wrong.
 */
#ifndef SPOT_ENGINE_CUDA_DEVICE_H
#define SPOT_ENGINE_CUDA_DEVICE_H

#include "common/err.h"
#include "engine/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_device;

/* What is missing to compute here: driver, device, its generation. Returns 0 with the compute
 * capability (90 for 9.0) of the current device, or -1 with *err (SPOT_EGPU). */
int spot_device_probe(int *sm, struct spot_err *err);

/* Version of the library of products; its bits may change with it. */
size_t spot_device_blas_version(void);

/* Bytes free on the current device; SIZE_MAX when it does not say. */
size_t spot_device_available(void);
/* Bytes that a device object takes besides its `memory`. */
size_t spot_device_overhead(void);

/* `memory_byte` zeroed bytes on the device, at *memory. NULL with *err (SPOT_EGPU). */
struct spot_device *spot_device_open(size_t memory_byte, void **memory, struct spot_err *err);
void spot_device_close(struct spot_device *dev);

spot_stream spot_device_stream(const struct spot_device *dev);
/* Looks for errors of launches as well. Returns 0, or -1 with *err (SPOT_EGPU). */
int spot_device_status(struct spot_device *dev, struct spot_err *err);

/* Page-locked host memory, NULL after an error. */
void *spot_device_host_new(struct spot_device *dev, size_t n_byte);
void spot_device_host_free(void *memory);

/* Queued; `from` may be changed at once only if it is not page-locked. */
void spot_device_upload(struct spot_device *dev, void *to, const void *from, size_t n_byte);
void spot_device_zero(struct spot_device *dev, void *to, size_t n_byte);
/* Queued; within the device. */
void spot_device_copy(struct spot_device *dev, void *to, const void *from, size_t n_byte);
/* Waits. */
void spot_device_download(struct spot_device *dev, void *to, const void *from, size_t n_byte);
void spot_device_wait(struct spot_device *dev);

enum spot_epilogue {
    SPOT_PLAIN,
    SPOT_BIAS,      /* + bias [n] */
    SPOT_BIAS_GELU, /* aux = c + bias, c = gelu(aux) */
    SPOT_GELU_BACK, /* c * gelu'(aux) */
};

/* c [m][n] = a [m][k] b [k][n], row-major; fp32 accumulation, one algorithm per shape, whatever the
 * strides. */
struct spot_product {
    enum spot_real real; /* of a, b, bias, aux */
    int64_t m, n, k;
    const void *a, *b;
    bool is_a_transposed; /* a lies as [k][m] */
    bool is_b_transposed; /* b lies as [n][k] */
    void *c;
    bool is_c_float; /* else of `real` */
    enum spot_epilogue epilogue;
    const void *bias; /* [n] */
    void *aux;        /* [m][n] */
    /* From row to row of a as it lies, and of c and aux; 0: they are full. */
    int64_t a_stride, c_stride;
    bool is_part; /* a, b and c may begin anywhere in an array that is cut into such */
};
void spot_device_product(struct spot_device *dev, const struct spot_product *product);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CUDA_DEVICE_H */
