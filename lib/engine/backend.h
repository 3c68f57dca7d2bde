/* SPDX-License-Identifier: MIT */
/* backend.h - the backends that compute a stage: the CPU, or a module that is loaded when a device
 * is needed.
 *
 * stage.h documents each function. Pointers at this boundary are host pointers. No CUDA header is
 * included here: one spot-run serves hosts with and without a device.
 */
#ifndef SPOT_ENGINE_BACKEND_H
#define SPOT_ENGINE_BACKEND_H

#include "comm/comm_nccl.h"
#include "engine/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_backend;
struct spot_infer_backend;

/* A kind of arithmetic. A backend may append members of its own. */
struct spot_kernel {
    const char *kind;
    const struct spot_backend *backend;
};

/* Further functions of a backend whose memory is not the host's. */
struct spot_backend_device {
    void *(*buffer)(struct spot_stage *stage, enum spot_stage_buffer which, int i);
    size_t (*boundary_byte)(const struct spot_stage *stage);
    void *(*stream)(const struct spot_stage *stage);
    void (*wait)(struct spot_stage *stage);
    size_t (*rough_elem)(const struct spot_stage *stage);
    float *(*rough)(struct spot_stage *stage, int bundle, size_t begin, size_t n);
    void (*unrough)(struct spot_stage *stage, int bundle, size_t begin, size_t n);
    void (*join_sums)(struct spot_stage *stage, int bundle, size_t begin, int64_t *other, size_t n);
};

/* A stage object begins with a pointer to its backend. */
struct spot_backend {
    const char *name; /* "cpu", "cuda" */
    /* The i-th kind, NULL past the end; whether this machine can run it is returned separately. */
    const struct spot_kernel *(*kernel)(size_t i, bool *runs_here);
    size_t (*memory)(const struct spot_stage_config *config);
    int (*check)(const struct spot_stage_config *config, size_t limit_byte, struct spot_err *err);
    struct spot_stage *(*new_stage)(const struct spot_stage_config *config,
                                    struct spot_bundle *const *bundle, struct spot_err *err);
    void (*free_stage)(struct spot_stage *stage);
    size_t (*boundary_elem)(const struct spot_stage *stage);
    void (*begin)(struct spot_stage *stage);
    void (*forward)(struct spot_stage *stage, int slot, const uint32_t *token, const float *act_in,
                    float *act_out, double *loss);
    const double *(*row_loss)(const struct spot_stage *stage); /* may be NULL */
    void (*backward)(struct spot_stage *stage, int slot, const float *dact_out, float *dact_in);
    void (*watch)(struct spot_stage *stage, void (*done)(void *user, int bundle),
                  void *user); /* may be NULL */
    int64_t *(*sum)(struct spot_stage *stage, int bundle);
    struct spot_stage_fault (*fault)(struct spot_stage *stage, int bundle);
    double (*norm2)(struct spot_stage *stage, int bundle);
    void (*update)(struct spot_stage *stage, int bundle, const struct spot_adamw *adamw,
                   double scale);
    void (*back_off)(struct spot_stage *stage, int bundle, uint32_t overflow);
    struct spot_stage_times (*times)(const struct spot_stage *stage, int bundle); /* may be NULL */
    int (*renew)(struct spot_stage *stage, struct spot_bundle *const *bundle,
                 struct spot_err *err); /* may be NULL */
    void (*forget)(struct spot_stage *stage, int bundle);
    int (*sync)(struct spot_stage *stage, int bundle, struct spot_err *err);
    int (*status)(const struct spot_stage *stage, struct spot_err *err);
    const struct spot_backend_device *device; /* NULL: none */
    const struct spot_infer_backend *infer;   /* NULL: does not support serving */
};

extern const struct spot_backend spot_backend_cpu;

/* --- the module ------------------------------------------------------------- */

#define SPOT_CUDA_MODULE_SYMBOL "spot_cuda_module"

/* Exported by spot_cuda.so. */
struct spot_cuda_module {
    const char *version; /* must equal spot_version(); will always be the first member */
    const struct spot_backend *backend;
    /* Select a device, see spot_cuda_choose, and check that a stage can run on it. Returns 0, or -1
     * with *err (SPOT_EGPU), which names what is missing. */
    int (*probe)(const char *device, struct spot_err *err);
    const struct spot_nccl *nccl;
    const char *(*device)(void);
};

const struct spot_cuda_module *spot_cuda_module(void);

/* The CUDA backend: loaded and probed once, from the path in SPOT_CUDA_MODULE or its installed
 * location; it stays loaded until exit. NULL with *err (SPOT_EGPU) that says what is missing: the
 * module, a library that it needs, the right version, the driver, a device. */
const struct spot_backend *spot_cuda_backend(struct spot_err *err);

/* Which device the backend uses when it is first requested: "auto", one that no other worker of
 * this host uses; its number among the visible ones; NULL, the first. Borrowed. */
void spot_cuda_choose(const char *device);
/* Check that `device` is "auto" or a number below 1000. Returns 0, or -1 with *err
 * (SPOT_EUSAGE). */
int spot_cuda_check_device(const char *device, struct spot_err *err);
/* PCI address of the selected device, "" if none. */
const char *spot_cuda_device(void);

/* Collectives between devices. NULL with *err (SPOT_EGPU): as above, or NCCL is missing. */
const struct spot_nccl *spot_cuda_nccl(struct spot_err *err);

/* True if a device is blocked by a collective that does not end. The process must then end by
 * _exit, since the driver's exit handler would wait. */
bool spot_cuda_is_held(void);
/* Returns 0, or -1 with *err (SPOT_EGPU) if it is. */
int spot_cuda_check_held(struct spot_err *err);

/* False when there is certainly no device: neither a driver nor a module named by the user. Cheap,
 * whereas loading the module maps hundreds of megabytes. */
bool spot_cuda_may_be_here(void);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_BACKEND_H */
