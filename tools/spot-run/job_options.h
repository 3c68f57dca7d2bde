/* SPDX-License-Identifier: MIT */
/* job_options.h - the options that describe a training job: rows of a table fill the library's own
 * struct and, beside it, texts that settle converts. */
#ifndef SPOT_RUN_JOB_OPTIONS_H
#define SPOT_RUN_JOB_OPTIONS_H

#include <stdint.h>

#include "cli/opt.h"
#include "cli/rows.h"
#include "common/err.h"
#include "text/bpe.h"
#include "train/job_note.h"
#include "train/trainer.h"

/* In c.config.shape 0 means "chosen here"; c.bpe is set by settle, and freed by the caller. */
struct job_options {
    struct spot_trainer_options c;
    struct spot_opt_list data, val_data;
    const char *tokens, *arch, *device, *recompute;
    const char *lr_schedule; /* NULL: unchanged, or constant */
    const char *config;      /* text of the note of a resumed job, or NULL */
    bool is_tied;
    bool has_kind; /* the kind of the shape is given by a file or a note */
};

#define JOB_OPTIONS_DEFAULT                                         \
    {                                                               \
        .c = { .config = { .micro_batch = 1,                        \
                           .global_batch = 16,                      \
                           .seed = 1,                               \
                           .adamw = { 1e-3, 0.9, 0.95, 1e-8, 0.1 }, \
                           .clip_norm = 1 },                        \
               .val_every = 100,                                    \
               .val_batches = 4,                                    \
               .n_thread = 1,                                       \
               .lease_s = 2 },                                      \
        .tokens = "bytes", .recompute = "none", .device = "auto",   \
    }

/* clang-format off */
/* Rows of a table, for a struct job_options j. */
#define JOB_MODEL_OPTIONS(j) \
    SPOT_ROW_DATA(&(j).data), \
    SPOT_ROW_TOKENIZER(&(j).c.tokenizer), \
    SPOT_TEXT("arch", &(j).arch, "x", "gpt2 or llama (default: gpt2)"), \
    { SPOT_OPT_U64, 0, "layers", &(j).c.config.shape.n_layer, "n", \
      "layers (default: 4)", 1, 4096 }, \
    { SPOT_OPT_U64, 0, "width", &(j).c.config.shape.width, "C", \
      "width of the model (default: 128)", 1, 65536 }, \
    { SPOT_OPT_U64, 0, "heads", &(j).c.config.shape.n_head, "n", \
      "attention heads; must divide C (default: 4)", 1, 1024 }, \
    { SPOT_OPT_U64, 0, "seq", &(j).c.config.shape.seq, "T", \
      "tokens per sequence (default: 64)", 1, 1 << 20 }

#define JOB_BATCH_OPTIONS(j) \
    { SPOT_OPT_U64, 0, "micro-batch", &(j).c.config.micro_batch, "b", \
      "sequences computed at once (default: 1)", 1, 4096 }, \
    SPOT_ROW_SAMPLES(&(j).c.config.global_batch)

#define JOB_MORE_OPTIONS(j) \
    SPOT_ROW_TOKENS(&(j).tokens), \
    { SPOT_OPT_U64, 0, "vocab", &(j).c.config.shape.vocab, "n", \
      "size of the vocabulary (default for bytes: 256)", 2, 1 << 20 }, \
    { SPOT_OPT_U64, 0, "shards", &(j).c.config.shape.n_shard, "S", \
      "canonical shards; must divide the heads (default: the largest up to 4)", 1, 256 }, \
    SPOT_FLAG("tied", &(j).is_tied, "the head is the embedding"), \
    { SPOT_OPT_U64, 0, "kv-heads", &(j).c.config.shape.n_kv_head, "Hk", \
      "llama: key/value heads (default: as many as --heads)", 1, 1024 }, \
    { SPOT_OPT_U64, 0, "ffn", &(j).c.config.shape.ffn, "X", \
      "llama: MLP width (default: 8/3 C)", 1, 1 << 18 }, \
    { SPOT_OPT_REAL, 0, "rope-theta", &(j).c.config.shape.rope_theta, "X", \
      "llama: base of the angles (default: 1e4)", 1, 1e9 }

#define JOB_WORKER_OPTIONS(j) \
    SPOT_ROW_DEVICE(&(j).device), \
    SPOT_ROW_RECOMPUTE(&(j).recompute), \
    SPOT_ROW_THREADS(&(j).c.n_thread)
/* clang-format on */

/* To be called first: set the shape, where no option does, from the config.json beside c.load, or
 * else from the metadata of the weights (without c.load or metadata: the usual small shape).
 * Returns 0, or -1 with *err, also if an option contradicts it. */
int job_options_shape(struct job_options *o, struct spot_err *err);

/* Check for missing and contradictory options. Returns 0, or -1 with *err (SPOT_EUSAGE). */
int job_options_check(struct job_options *o, struct spot_err *err);

/* Set everything else in o->c that describes the job. Returns 0, or -1 with *err. */
int job_options_settle(struct job_options *o, struct spot_err *err);

/* --- options of the learning rate and its schedule --- */

/* Fill in values that were not given, and reject those out of range. Returns 0, or -1 with *err
 * (SPOT_EUSAGE). */
int tuning_settle(struct job_options *o, struct spot_err *err);

/* A resumed job begins with the values of its note; options that differ from the values in force at
 * the resumed step are a change. Returns 1 with *change, 0 for none, or -1 with *err (SPOT_EUSAGE).
 */
int tuning_resume(struct job_options *o, const struct spot_opt *option, const bool *given,
                  const struct spot_job_note *note, struct spot_tuning *change,
                  struct spot_err *err);

/* --- options of a job from its state directory --- */

/* Set each option of the table that was not given and is a key of the note in `dir` to the job's
 * value; texts belong to the note, which the caller releases. Without a note options are unchanged.
 * Returns 0, or -1 with *err (SPOT_EDATA, SPOT_ESYS). */
int resume_options(const char *dir, const struct spot_opt *option, const bool *given,
                   struct spot_job_note *note, struct spot_err *err);

/* --- train --dry-run: report what a job will need, without starting it --- */

/* Print it for n_worker workers (0: as many as the grid needs): as text on a terminal, else as
 * spot.estimate/1. Returns 0, or -1 with *err: SPOT_EINFEASIBLE, after printing, if it does not
 * fit. */
int dry_run_print(const struct spot_trainer_options *c, int64_t n_worker, struct spot_err *err);

/* --- how a job of this program starts its local workers --- */

/* See become_worker in the options. */
void become_worker(const struct spot_trainer_options *options, uint64_t index, const char *address,
                   const char *backend);

#endif /* SPOT_RUN_JOB_OPTIONS_H */
