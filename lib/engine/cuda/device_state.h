/* SPDX-License-Identifier: MIT */
/* device_state.h - shared by device.c, device_graph.c and product.c. */
#ifndef SPOT_ENGINE_CUDA_DEVICE_STATE_H
#define SPOT_ENGINE_CUDA_DEVICE_STATE_H

#include "engine/cuda/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_DEVICE_WORKSPACE_BYTE = 32 << 20 };

struct spot_product_plan;

struct spot_device {
    spot_stream stream;
    void *memory, *workspace;
    struct cublasLtContext *blas;
    struct spot_product_plan **plan; /* [n_plan], one per shape used so far */
    size_t n_plan, plan_room;
    uint64_t fetched_byte;
    struct spot_err err; /* code SPOT_OK: none */
};

static inline bool spot_device_is_ok(const struct spot_device *dev)
{
    return dev->err.code == SPOT_OK;
}

/* device.c: keeps the first error, a cudaError_t. */
void spot_device_note(struct spot_device *dev, const char *what, int status);

/* plain_product.cu: a product by one thread per element, for shapes that cuBLASLt refuses. */
void spot_device_plain_product(const struct spot_product *product, spot_stream stream);
/* Test i of spot_device_questions, which shows whether an algorithm adds every term of a contiguous
 * product: fill a, b, bias and, if it is read, aux; after the product *is_wrong becomes 1 if c is
 * wrong. */
int64_t spot_device_questions(const struct spot_product *product);
void spot_device_ask_product(const struct spot_product *product, int64_t i, spot_stream stream);
void spot_device_judge_product(const struct spot_product *product, int64_t i, uint32_t *is_wrong,
                               spot_stream stream);

/* product_question.c: true if `run`, which queues a product of this shape with fewer rows and
 * columns, adds every term of it. Also false if the product does not run, or if the device
 * fails. */
bool spot_device_adds_all(struct spot_device *dev, const struct spot_product *product,
                          bool (*run)(void *user, const struct spot_product *question), void *user);

/* product.c */
void spot_device_open_products(struct spot_device *dev);
void spot_device_close_products(struct spot_device *dev);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CUDA_DEVICE_STATE_H */
