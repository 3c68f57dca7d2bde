/* SPDX-License-Identifier: MIT */
/* device.h - one device, its stream, cuBLASLt's products; the first error persists.
 *
 * Calls are queued on one stream and return at once; those that transfer to the host wait for
 * completion. After an error every call does nothing: spot_device_status reports the error.
 */
#ifndef SPOT_ENGINE_CUDA_DEVICE_H
#define SPOT_ENGINE_CUDA_DEVICE_H

#include "common/err.h"
#include "engine/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_device;

/* The properties of a device that affect the bits: its compute capability (90 for 9.0), and its
 * number of multiprocessors, which determines cuBLASLt's choices. */
struct spot_device_kind {
    int sm, n_sm;
    int driver; /* version of the driver, if it compiles code that the module lacks; else 0 */
};

/* Check driver, device and compute capability. Returns 0 with the kind of the current device, or -1
 * with *err (SPOT_EGPU). */
int spot_device_probe(struct spot_device_kind *kind, struct spot_err *err);

/* Select the device for this thread: "auto" takes the first that no other worker of this host uses,
 * a number that device even if it is in use. NULL: the first one, for queries only, without a
 * context. Returns 0, or -1 with *err (SPOT_EGPU). Succeeds if there is no device at all, which the
 * probe reports. */
int spot_device_choose(const char *device, struct spot_err *err);
/* PCI address of the selected device, "" before. */
const char *spot_device_bus(void);

/* Version of cuBLASLt; the bits of products may change with it. Returns 0, or -1 with *err
 * (SPOT_EGPU): not installed, or incomplete. */
int spot_device_blas(size_t *version, struct spot_err *err);

/* Bytes free on the current device, minus the needs of the libraries; SIZE_MAX if not known. */
size_t spot_device_available(void);
/* Bytes that a device object takes besides its `memory`. */
size_t spot_device_overhead(void);

/* Guard bytes that a plan leaves after each piece, and the function to register them: none except
 * on the twin. */
size_t spot_device_guard_byte(void);
void spot_device_guard(void *at, size_t n_byte);

/* `memory_byte` zeroed bytes on the device, at *memory. NULL with *err (SPOT_EGPU). */
struct spot_device *spot_device_open(size_t memory_byte, void **memory, struct spot_err *err);
void spot_device_close(struct spot_device *dev);

spot_stream spot_device_stream(const struct spot_device *dev);
/* Also checks for launch errors. Returns 0, or -1 with *err (SPOT_EGPU). */
int spot_device_status(struct spot_device *dev, struct spot_err *err);

/* Page-locked host memory, NULL after an error. */
void *spot_device_host_new(struct spot_device *dev, size_t n_byte);
void spot_device_host_free(void *memory);

/* Page-locks host memory; false if impossible, which is not an error. */
bool spot_device_host_lock(void *memory, size_t n_byte);
void spot_device_host_unlock(void *memory);

/* Queued; `from` may be changed or freed only after a wait. */
void spot_device_upload(struct spot_device *dev, void *to, const void *from, size_t n_byte);
void spot_device_zero(struct spot_device *dev, void *to, size_t n_byte);
/* Queued; within the device. */
void spot_device_copy(struct spot_device *dev, void *to, const void *from, size_t n_byte);
/* Queued; `to` holds it after a wait. */
void spot_device_fetch(struct spot_device *dev, void *to, const void *from, size_t n_byte);
/* Waits for completion. */
void spot_device_download(struct spot_device *dev, void *to, const void *from, size_t n_byte);
void spot_device_wait(struct spot_device *dev);

/* --- a graph: work that is queued by one call again and again. Kernels get the arguments of the
 * recording; a copy reads the host's memory, which must be page-locked, whenever the graph runs.
 * --- */

struct spot_device_graph;

/* From now on what this thread queues is recorded, not done; until the end it must neither wait nor
 * take or free memory of a device. False: refused, and nothing has changed. */
bool spot_device_record(struct spot_device *dev);
/* The graph; NULL if anything could not be recorded: then nothing of it was done. */
struct spot_device_graph *spot_device_recorded(struct spot_device *dev);
void spot_device_replay(struct spot_device *dev, struct spot_device_graph *graph); /* queued */
size_t spot_device_graph_nodes(const struct spot_device_graph *graph); /* launches and copies */
void spot_device_graph_free(struct spot_device_graph *graph);          /* may be NULL */

/* Bytes fetched from the device so far, except by graphs. */
uint64_t spot_device_fetched(const struct spot_device *dev);

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
    bool is_a_transposed; /* a is stored as [k][m] */
    bool is_b_transposed; /* b is stored as [n][k] */
    void *c;
    bool is_c_float; /* else of `real` */
    enum spot_epilogue epilogue;
    const void *bias; /* [n] */
    void *aux;        /* [m][n] */
    /* Distance between rows of a as stored, and of c and aux; 0: contiguous. */
    int64_t a_stride, c_stride;
    bool is_part; /* a, b and c are parts of larger arrays, and may begin at any element of them */
};
void spot_device_product(struct spot_device *dev, const struct spot_product *product);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CUDA_DEVICE_H */
