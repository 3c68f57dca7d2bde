/* SPDX-License-Identifier: MIT */
/* device_state.h - shared by device.c and product.c. */
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
    struct spot_err err; /* code SPOT_OK: none */
};

static inline bool spot_device_is_ok(const struct spot_device *dev)
{
    return dev->err.code == SPOT_OK;
}

/* product.c */
void spot_device_open_products(struct spot_device *dev);
void spot_device_close_products(struct spot_device *dev);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CUDA_DEVICE_STATE_H */
