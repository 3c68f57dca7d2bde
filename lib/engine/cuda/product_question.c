/* SPDX-License-Identifier: MIT */
/* Tests whether an algorithm adds up every term: some algorithms that split k have dropped the last
 * terms. */
#include <cuda_runtime_api.h>

#include "engine/cuda/device_state.h"

enum { PART = 256, ALIGN = 256 }; /* PART: maximum of rows and of columns, since only k matters */

static size_t take(size_t *used, size_t n_byte)
{
    const size_t at = *used;

    *used += (n_byte + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

/* Allocates the operands of a test; returns the address of its result. NULL: out of memory. */
static uint32_t *lay_out(struct spot_product *q, void **memory)
{
    const size_t real = q->real == SPOT_BF16 ? 2 : 4;
    const size_t c_byte = (size_t)(q->m * q->n) * sizeof(float);
    size_t used = 0;
    const size_t a = take(&used, (size_t)(q->m * q->k) * real),
                 b = take(&used, (size_t)(q->k * q->n) * real), c = take(&used, c_byte),
                 bias = take(&used, (size_t)q->n * real), aux = take(&used, c_byte),
                 answer = take(&used, sizeof(uint32_t));
    char *base;

    if (cudaMalloc(memory, used) != cudaSuccess)
        return NULL;
    base = *memory;
    q->a = base + a;
    q->b = base + b;
    q->c = base + c;
    q->bias = base + bias;
    q->aux = base + aux;
    return (uint32_t *)(void *)(base + answer);
}

bool spot_device_adds_all(struct spot_device *dev, const struct spot_product *product,
                          bool (*run)(void *user, const struct spot_product *question), void *user)
{
    struct spot_product q = *product;
    uint32_t *answer, is_wrong = 0;
    void *memory = NULL;
    bool has_run = true;

    q.m = q.m < PART ? q.m : PART;
    q.n = q.n < PART ? q.n : PART;
    answer = lay_out(&q, &memory);
    if (!answer) {
        (void)cudaGetLastError();
        spot_err_set(&dev->err, SPOT_EGPU,
                     "CUDA: no memory to check a product of %lld x %lld x %lld",
                     (long long)product->m, (long long)product->n, (long long)product->k);
        return false;
    }
    spot_device_zero(dev, answer, sizeof(*answer));
    for (int64_t i = 0; has_run && i < spot_device_questions(&q); i++) {
        spot_device_ask_product(&q, i, dev->stream);
        has_run = run(user, &q);
        if (has_run)
            spot_device_judge_product(&q, i, answer, dev->stream);
    }
    spot_device_download(dev, &is_wrong, answer, sizeof(is_wrong));
    cudaFree(memory);
    return has_run && !is_wrong && spot_device_is_ok(dev);
}
