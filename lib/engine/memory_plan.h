/* SPDX-License-Identifier: MIT */
/* memory_plan.h - divides one block of memory by a function that runs twice: to measure, then to
 * assign. */
#ifndef SPOT_ENGINE_MEMORY_PLAN_H
#define SPOT_ENGINE_MEMORY_PLAN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_memory_plan {
    char *base;   /* NULL: measure only */
    size_t used;  /* SIZE_MAX once it overflows */
    size_t align; /* of each piece, a power of two */
    /* After each piece this many bytes stay unused, a multiple of `align`; `guard`, if set, is
     * called for them when the pieces are assigned. */
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
