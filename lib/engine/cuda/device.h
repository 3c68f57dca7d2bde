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

/* A device as it shows in the bits: its generation (90 for 9.0), and its multiprocessors, by whose
 * number cuBLASLt chooses. */
struct spot_device_kind {
    int sm, n_sm;
    int driver; /* that compiles what the module has no code for, 0 where it has */
};

/* What is missing to compute here: driver, device, its generation. Returns 0 with the kind of the
 * current device, or -1 with *err (SPOT_EGPU). */
int spot_device_probe(struct spot_device_kind *kind, struct spot_err *err);

/* Computes on a device from then on, in this thread: "auto" takes the first that no other worker of
 * this host has, a number that one whoever has it, NULL the first one. Returns 0, or -1 with *err
 * (SPOT_EGPU). Where there is none, the probe tells. */
int spot_device_choose(const char *device, struct spot_err *err);
/* PCI address of the device that was chosen, "" before. */
const char *spot_device_bus(void);

/* Version of the library of products; its bits may change with it. Returns 0, or -1 with *err
 * (SPOT_EGPU): it is not here, or lacks something. */
int spot_device_blas(size_t *version, struct spot_err *err);

/* Bytes free on the current device, but for what the libraries take beside a plan; SIZE_MAX when it
 * does not say. */
size_t spot_device_available(void);
/* Bytes that a device object takes besides its `memory`. */
size_t spot_device_overhead(void);

/* Bytes that a plan leaves behind each piece, and who is told of them: none but on the twin. */
size_t spot_device_guard_byte(void);
void spot_device_guard(void *at, size_t n_byte);

/* `memory_byte` zeroed bytes on the device, at *memory. NULL with *err (SPOT_EGPU). */
struct spot_device *spot_device_open(size_t memory_byte, void **memory, struct spot_err *err);
void spot_device_close(struct spot_device *dev);

spot_stream spot_device_stream(const struct spot_device *dev);
/* Looks for errors of launches as well. Returns 0, or -1 with *err (SPOT_EGPU). */
int spot_device_status(struct spot_device *dev, struct spot_err *err);

/* Page-locked host memory, NULL after an error. */
void *spot_device_host_new(struct spot_device *dev, size_t n_byte);
void spot_device_host_free(void *memory);

/* Page-locks memory of the host; false where it cannot be, which is no error. */
bool spot_device_host_lock(void *memory, size_t n_byte);
void spot_device_host_unlock(void *memory);

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
