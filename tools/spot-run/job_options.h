/* SPDX-License-Identifier: MIT */
/* job_options.h - what a training job is, as said on a command line. */
#ifndef SPOT_RUN_JOB_OPTIONS_H
#define SPOT_RUN_JOB_OPTIONS_H

#include <stdint.h>

#include "cli/opt.h"
#include "common/err.h"
#include "text/bpe.h"
#include "train/coordinator.h"

struct job_options {
    struct spot_opt_list data, val_data;
    uint64_t val_every, val_batches;
    const char *tokens, *tokenizer, *arch, *kernel, *backend, *device, *recompute, *lr_schedule;
    uint64_t layers, width, heads, seq, vocab, shards, micro_batch, global_batch, threads, seed;
    uint64_t kv_heads, ffn; /* as rope_theta of a Llama; 0, as NULL for arch: chosen here */
    double norm_eps;        /* 0: 1e-5 */
    uint64_t warmup_steps, decay_steps; /* of the schedule of lr; see tuning.h */
    double min_lr;
    double rope_theta, lr, beta1, beta2, weight_decay, clip;
    struct spot_bpe *bpe; /* set by settle; the caller frees it */
    int token_byte;
    bool is_tied;
};

#define JOB_OPTIONS_DEFAULT                                                              \
    {                                                                                    \
        .tokens = "bytes", .recompute = "none", .kernel = "auto", .backend = "auto",     \
        .device = "auto", .micro_batch = 1, .global_batch = 16, .threads = 1, .seed = 1, \
        .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.1, .clip = 1,         \
        .lr_schedule = "constant", .val_every = 100, .val_batches = 4                    \
    }

/* First of all: the shape as the config.json beside the weights at `load`, or else their metadata,
 * says it (NULL, or there is none: the usual small one), where no option does. Returns 0, or -1
 * with *err, also where an option says otherwise. */
int job_options_shape(struct job_options *o, const char *load, struct spot_err *err);

/* What is missing or contradicts itself. Returns 0, or -1 with *err (SPOT_EUSAGE). */
int job_options_check(const struct job_options *o, struct spot_err *err);

/* Open the tokenizer, fill in what was left to be chosen, and refuse what does not divide. Returns
 * 0, or -1 with *err. */
int job_options_settle(struct job_options *o, struct spot_err *err);

/* Config without its number of steps, data, threads. */
void job_options_put(const struct job_options *o, struct spot_coordinator_options *c);

#endif /* SPOT_RUN_JOB_OPTIONS_H */
