/* SPDX-License-Identifier: MIT */
/* memory_plan.h - one block of memory, cut by a plan that is walked twice: to count, then to cut.
 */
#ifndef SPOT_ENGINE_MEMORY_PLAN_H
#define SPOT_ENGINE_MEMORY_PLAN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_memory_plan {
    char *base;   /* NULL: only count */
    size_t used;  /* sticks at SIZE_MAX when it does not fit */
    size_t align; /* of each piece, a power of two */
    /* Behind each piece lie so many bytes that nobody writes, a multiple of `align`; `guard`, if it
     * is there, is told of them when the block is cut. */
    size_t guard_byte;
    void (*guard)(void *at, size_t n_byte);
};

/* Room for n * size bytes. */
static inline void *spot_memory_take(struct spot_memory_plan *plan, size_t n, size_t size)
{
    const size_t at = plan->used, align = plan->align;
    size_t byte;

    if (__builtin_mul_overflow(n, size, &byte) || byte > SIZE_MAX - (align - 1) ||
        __builtin_add_overflow(at, (byte + align - 1) / align * align, &plan->used) ||
        __builtin_add_overflow(plan->used, plan->guard_byte, &plan->used)) {
        plan->used = SIZE_MAX;
        return NULL;
    }
    if (plan->base && plan->guard)
        plan->guard(plan->base + plan->used - plan->guard_byte, plan->guard_byte);
    return plan->base ? plan->base + at : NULL;
}

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_MEMORY_PLAN_H */
