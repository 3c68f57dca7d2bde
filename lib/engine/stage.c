/* SPDX-License-Identifier: MIT */
/* Implements stage.h by calling the stage's backend. */
#include "engine/stage.h"

#include <string.h>

#include "engine/backend.h"

static const struct spot_backend *backend_of(const struct spot_stage *stage)
{
    return *(const struct spot_backend *const *)(const void *)stage;
}

size_t spot_stage_memory(const struct spot_stage_config *config)
{
    return config->kernel->backend->memory(config);
}

int spot_stage_check(const struct spot_stage_config *config, size_t limit_byte,
                     struct spot_err *err)
{
    return config->kernel->backend->check(config, limit_byte, err);
}

struct spot_stage *spot_stage_new(const struct spot_stage_config *config,
                                  struct spot_bundle *const *bundle, struct spot_err *err)
{
    return config->kernel->backend->new_stage(config, bundle, err);
}

void spot_stage_free(struct spot_stage *stage)
{
    if (stage)
        backend_of(stage)->free_stage(stage);
}

size_t spot_stage_boundary_elem(const struct spot_stage *stage)
{
    return backend_of(stage)->boundary_elem(stage);
}

void spot_stage_begin(struct spot_stage *stage)
{
    backend_of(stage)->begin(stage);
}

void spot_stage_forward(struct spot_stage *stage, int slot, const uint32_t *token,
                        const float *act_in, float *act_out, double *loss)
{
    backend_of(stage)->forward(stage, slot, token, act_in, act_out, loss);
}

const double *spot_stage_row_loss(const struct spot_stage *stage)
{
    const struct spot_backend *const backend = backend_of(stage);

    return backend->row_loss ? backend->row_loss(stage) : NULL;
}

void spot_stage_backward(struct spot_stage *stage, int slot, const float *dact_out, float *dact_in)
{
    backend_of(stage)->backward(stage, slot, dact_out, dact_in);
}

void spot_stage_watch(struct spot_stage *stage, void (*done)(void *user, int bundle), void *user)
{
    if (backend_of(stage)->watch)
        backend_of(stage)->watch(stage, done, user);
}

int64_t *spot_stage_sum(struct spot_stage *stage, int bundle)
{
    return backend_of(stage)->sum(stage, bundle);
}

struct spot_stage_times spot_stage_times(const struct spot_stage *stage, int bundle)
{
    const struct spot_backend *const backend = backend_of(stage);

    return backend->times ? backend->times(stage, bundle) : (struct spot_stage_times){ 0 };
}

struct spot_stage_fault spot_stage_fault(struct spot_stage *stage, int bundle)
{
    return backend_of(stage)->fault(stage, bundle);
}

double spot_stage_norm2(struct spot_stage *stage, int bundle)
{
    return backend_of(stage)->norm2(stage, bundle);
}

void spot_stage_update(struct spot_stage *stage, int bundle, const struct spot_adamw *adamw,
                       double scale)
{
    backend_of(stage)->update(stage, bundle, adamw, scale);
}

void spot_stage_back_off(struct spot_stage *stage, int bundle, uint32_t overflow)
{
    backend_of(stage)->back_off(stage, bundle, overflow);
}

bool spot_stage_can_renew(const struct spot_stage *stage)
{
    return backend_of(stage)->renew;
}

int spot_stage_renew(struct spot_stage *stage, struct spot_bundle *const *bundle,
                     struct spot_err *err)
{
    return backend_of(stage)->renew(stage, bundle, err);
}

void spot_stage_forget(struct spot_stage *stage, int bundle)
{
    if (backend_of(stage)->forget)
        backend_of(stage)->forget(stage, bundle);
}

int spot_stage_sync(struct spot_stage *stage, int bundle, struct spot_err *err)
{
    return backend_of(stage)->sync(stage, bundle, err);
}

int spot_stage_status(const struct spot_stage *stage, struct spot_err *err)
{
    return backend_of(stage)->status(stage, err);
}

void *spot_stage_device_buffer(struct spot_stage *stage, enum spot_stage_buffer which, int i)
{
    return backend_of(stage)->device->buffer(stage, which, i);
}

size_t spot_stage_boundary_byte(const struct spot_stage *stage)
{
    return backend_of(stage)->device->boundary_byte(stage);
}

void *spot_stage_stream(const struct spot_stage *stage)
{
    return backend_of(stage)->device->stream(stage);
}

void spot_stage_wait(struct spot_stage *stage)
{
    if (backend_of(stage)->device)
        backend_of(stage)->device->wait(stage);
}

size_t spot_stage_rough_elem(const struct spot_stage *stage)
{
    return backend_of(stage)->device->rough_elem(stage);
}

float *spot_stage_rough(struct spot_stage *stage, int bundle, size_t begin, size_t n)
{
    return backend_of(stage)->device->rough(stage, bundle, begin, n);
}

void spot_stage_unrough(struct spot_stage *stage, int bundle, size_t begin, size_t n)
{
    backend_of(stage)->device->unrough(stage, bundle, begin, n);
}

void spot_stage_join_sums(struct spot_stage *stage, int bundle, size_t begin, int64_t *other,
                          size_t n)
{
    backend_of(stage)->device->join_sums(stage, bundle, begin, other, n);
}
