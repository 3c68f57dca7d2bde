/* SPDX-License-Identifier: MIT */
/* job_note.h - what a job is, kept in its state directory as DIR/job.json (spot.training/1): a job
 * goes on from there alone, and one that is another can be told by what differs.
 *
 * Keys are the long names of the options that make a job, with _ for -.
 */
#ifndef SPOT_TRAIN_JOB_NOTE_H
#define SPOT_TRAIN_JOB_NOTE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/json.h"
#include "train/coordinator.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_JOB_NOTE_KEY_MAX = 32 };

/* Text is borrowed, "" where there is none. */
struct spot_job_note {
    int64_t layers, width, heads, seq, vocab, shards, kv_heads, ffn, micro_batch, global_batch;
    int64_t steps;
    int64_t warmup_steps, decay_steps, val_every, val_batches;
    double rope_theta, norm_eps, lr, beta1, beta2, weight_decay, clip, min_lr;
    bool tied;
    const char *arch, *kernel, *reduce, *tokens, *tokenizer, *load, *lr_schedule;
    const char *seed;                              /* decimal: JSON's numbers have no 64 bits */
    const char *data_xxh3, *load_xxh3;             /* 16 hex digits; zeros: not loaded */
    struct spot_json_doc doc;                      /* what holds the text */
    const struct spot_json_value *data, *val_data; /* paths; NULL for the second: none */
    struct spot_tuning change[SPOT_TUNINGS_MAX];   /* [n_change], declared since it began */
    size_t n_change;
};

extern const struct spot_field spot_job_note_field[]; /* all but data and changes */
extern const struct spot_doc_part spot_job_note_part[];

/* Returns 1, 0 where there is none, -1 with *err (SPOT_EDATA, SPOT_ESYS). */
int spot_job_note_load(struct spot_job_note *note, const char *dir, struct spot_err *err);
/* Of its text; `source` is for messages. Returns 0, or -1 with *err (SPOT_EDATA). */
int spot_job_note_parse(struct spot_job_note *note, const char *text, size_t n_byte,
                        const char *source, struct spot_err *err);
void spot_job_note_release(struct spot_job_note *note);

/* An empty file DIR/behind-command says that generations lie behind a command: DIR alone, which has
 * none, is then not a job that begins. Returns 0, or -1 with *err. */
int spot_job_note_mark_behind(const char *dir, bool is_behind, struct spot_err *err);
bool spot_job_note_is_behind(const char *dir);

/* The job as it was settled: config with hashes and the whole name of the kernel; paths of
 * `options`, which are made absolute. Written only where something is new. */
int spot_job_note_write(const char *dir, const struct spot_job_config *config,
                        const struct spot_coordinator_options *options, struct spot_err *err);

/* The same as text, freed by the caller; NULL with *err. */
char *spot_job_note_text(const struct spot_job_config *config,
                         const struct spot_coordinator_options *options, struct spot_err *err);

/* "--lr 0.5, there 0.001; other --data" in text[n]: how this job differs from that of `dir`; "" if
 * nobody can tell. */
void spot_job_note_differences(const char *dir, const struct spot_job_config *config, char *text,
                               size_t n);

/* "micro-batch" of "micro_batch" */
const char *spot_job_note_option(const char *key, char name[SPOT_JOB_NOTE_KEY_MAX]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_JOB_NOTE_H */
