/* SPDX-License-Identifier: MIT */
/* config.h - what a training job is; equal configs and data give equal bits. */
#ifndef SPOT_TRAIN_CONFIG_H
#define SPOT_TRAIN_CONFIG_H

#include <stdint.h>

#include "comm/wire.h"
#include "common/err.h"
#include "engine/stage.h"
#include "shard/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_KERNEL_NAME_MAX = 64, SPOT_MICROBATCHES_MAX = 4096 };

enum spot_job_comm { SPOT_COMM_SOCKETS, SPOT_COMM_NCCL };
enum spot_job_reduce { SPOT_REDUCE_EXACT, SPOT_REDUCE_FAST };

struct spot_job_config {
    struct spot_shape shape;
    int64_t micro_batch;  /* b, sequences computed at once */
    int64_t global_batch; /* sequences of a step; a multiple of b */
    int64_t n_step;
    uint64_t seed;      /* of the initial weights and the sample order */
    uint64_t data_xxh3; /* of the corpus */
    uint64_t init_xxh3; /* of the weights that it starts from; 0: drawn under the seed */
    struct spot_adamw adamw;
    double clip_norm; /* of the global gradient; 0: none */
    uint32_t comm;    /* enum spot_job_comm: how members exchange; changes no bit */
    uint32_t reduce;  /* enum spot_job_reduce: how replicas add up */
    char kernel[SPOT_KERNEL_NAME_MAX]; /* see engine/kernel.h */
};

/* Microbatches of a step, G. */
int64_t spot_job_microbatches(const struct spot_job_config *config);

/* Refuse what cannot run. Returns 0, or -1 with *err (SPOT_EUSAGE or SPOT_EDATA). */
int spot_job_config_check(const struct spot_job_config *config, struct spot_err *err);

/* Names the trajectory: everything but the number of steps and the transport. */
uint64_t spot_job_id(const struct spot_job_config *config);

void spot_job_config_put(struct spot_buf *out, const struct spot_job_config *config);
void spot_job_config_get(struct spot_wire_in *in, struct spot_job_config *config);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_CONFIG_H */
