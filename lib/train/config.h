/* SPDX-License-Identifier: MIT */
/* config.h - the configuration of a training job; equal configurations and data give equal bits. */
#ifndef SPOT_TRAIN_CONFIG_H
#define SPOT_TRAIN_CONFIG_H

#include <stdint.h>

#include "comm/wire.h"
#include "common/err.h"
#include "engine/stage.h"
#include "shard/arena.h"
#include "train/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_KERNEL_NAME_MAX = 64, SPOT_MICROBATCHES_MAX = 4096, SPOT_TUNINGS_MAX = 64 };

enum spot_job_comm { SPOT_COMM_SOCKETS, SPOT_COMM_NCCL };
enum spot_job_reduce { SPOT_REDUCE_EXACT, SPOT_REDUCE_FAST };

struct spot_job_config {
    struct spot_shape shape;
    int64_t micro_batch;  /* b, sequences computed at once */
    int64_t global_batch; /* sequences of a step; a multiple of b */
    int64_t n_step;
    uint64_t seed;           /* seed of the initial weights and the sample order */
    uint64_t data_xxh3;      /* of the corpus */
    uint64_t weight_xxh3;    /* hash of the token weights; 0: there are none */
    uint64_t init_xxh3;      /* of the initial weights; 0: drawn from the seed */
    struct spot_adamw adamw; /* as at the start of the job */
    struct spot_schedule schedule;
    struct spot_tuning change[SPOT_TUNINGS_MAX]; /* [n_change], changes declared since, in ascending
                                                    order of `after` */
    uint32_t n_change;
    double clip_norm; /* limit of the norm of the global gradient; 0: none */
    uint32_t comm;    /* enum spot_job_comm: how members exchange; does not affect the bits */
    uint32_t reduce;  /* enum spot_job_reduce: how replicas sum */
    char kernel[SPOT_KERNEL_NAME_MAX]; /* see engine/kernel.h */
};

/* Microbatches of a step, G. */
int64_t spot_job_microbatches(const struct spot_job_config *config);

/* 32-bit words of a sequence, see spot_stage_words. */
int64_t spot_job_words(const struct spot_job_config *config);

/* Reject invalid configurations. Returns 0, or -1 with *err (SPOT_EUSAGE or SPOT_EDATA). */
int spot_job_config_check(const struct spot_job_config *config, struct spot_err *err);

/* The tuning in effect in a step >= 1, and the update of that step. */
struct spot_tuning spot_job_tuning(const struct spot_job_config *config, int64_t step);
struct spot_adamw spot_job_adamw(const struct spot_job_config *config, int64_t step);
/* The factor by which a gradient of this norm is scaled so that it does not exceed clip_norm. */
double spot_job_scale(const struct spot_job_config *config, double norm2);

/* Declare a change from step `change->after` + 1 on, replacing one that no step has used. Returns
 * 1, 0 if nothing changes, or -1 with *err (SPOT_EUSAGE). */
int spot_job_change(struct spot_job_config *config, const struct spot_tuning *change,
                    struct spot_err *err);

/* A number that identifies the trajectory: a hash of everything except the number of steps and the
 * transport. The first function leaves out changes declared since the start, and is stored in the
 * durable state; the second includes them. */
uint64_t spot_job_id(const struct spot_job_config *config);
uint64_t spot_job_path_id(const struct spot_job_config *config);

/* The step up to which the given trajectory, with changes, agrees with this job; INT64_MAX if it is
 * the same, -1 if it is of another job. */
int64_t spot_job_shared_steps(const struct spot_job_config *config, uint64_t path_id);

void spot_job_config_put(struct spot_buf *out, const struct spot_job_config *config);
void spot_job_config_get(struct spot_wire_in *in, struct spot_job_config *config);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_CONFIG_H */
