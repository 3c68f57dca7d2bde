/* SPDX-License-Identifier: MIT */
/* job_note.h - the description of a job, kept in its state directory as DIR/job.json
 * (spot.training/1): a job can be resumed from it alone, and a mismatch with another job can be
 * explained.
 *
 * Keys are the long names of the options that make a job, with _ for -, or values derived from one.
 */
#ifndef SPOT_TRAIN_JOB_NOTE_H
#define SPOT_TRAIN_JOB_NOTE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/json.h"
#include "train/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_JOB_NOTE_KEY_MAX = 32 };

/* Text is borrowed, "" if absent. */
struct spot_job_note {
    int64_t layers, width, heads, seq, vocab, shards, kv_heads, ffn, micro_batch, global_batch;
    int64_t steps;
    int64_t warmup_steps, decay_steps, val_every, val_batches;
    double rope_theta, norm_eps, lr, beta1, beta2, weight_decay, clip, min_lr;
    bool tied;
    const char *config; /* config.json of a model without a name for --arch; NULL otherwise */
    const char *arch, *kernel, *reduce, *tokens, *tokenizer, *load, *lr_schedule;
    const char *seed;                  /* decimal, since JSON numbers do not have 64 bits */
    const char *data_xxh3, *load_xxh3; /* 16 hex digits; zeros: not loaded */
    const char *weights_of_samples, *weights_of_samples_xxh3; /* NULL: there are none */
    struct spot_json_doc doc;                                 /* owns the text */
    const struct spot_json_value *data, *val_data; /* paths; val_data may be NULL: none */
    struct spot_tuning change[SPOT_TUNINGS_MAX];   /* [n_change], declared since it began */
    size_t n_change;
};

extern const struct spot_field spot_job_note_field[]; /* all except data and changes */
extern const struct spot_doc_part spot_job_note_part[];

/* Returns 1, 0 if there is none, -1 with *err (SPOT_EDATA, SPOT_ESYS). */
int spot_job_note_load(struct spot_job_note *note, const char *dir, struct spot_err *err);
/* Parse the description's text; `source` names it in messages. Returns 0, or -1 with *err
 * (SPOT_EDATA). */
int spot_job_note_parse(struct spot_job_note *note, const char *text, size_t n_byte,
                        const char *source, struct spot_err *err);
void spot_job_note_release(struct spot_job_note *note);

/* Create or remove the empty file DIR/behind-command, which marks that generations are stored
 * behind a command. Without it DIR, which has no generations itself, would look like that of a new
 * job. Returns 0, or -1 with *err. */
int spot_job_note_mark_behind(const char *dir, bool is_behind, struct spot_err *err);
bool spot_job_note_is_behind(const char *dir);

/* Shape and configuration of the described job; `dir` is named in messages. Return 0, or -1 with
 * *err (SPOT_EDATA). */
int spot_job_note_shape(const struct spot_job_note *note, const char *dir, struct spot_shape *shape,
                        struct spot_err *err);
int spot_job_note_config(const struct spot_job_note *note, const char *dir,
                         struct spot_job_config *config, struct spot_err *err);

/* The final configuration: config with hashes and the full name of the kernel; paths of `options`,
 * made absolute. Written only if something changed. */
int spot_job_note_write(const char *dir, const struct spot_job_config *config,
                        const struct spot_trainer_options *options, struct spot_err *err);

/* The same as text, freed by the caller; NULL with *err. */
char *spot_job_note_text(const struct spot_job_config *config,
                         const struct spot_trainer_options *options, struct spot_err *err);

/* "--lr 0.5, there 0.001; other --data" in text[n]: how this job differs from that of `dir`; "" if
 * not known. */
void spot_job_note_differences(const char *dir, const struct spot_job_config *config, char *text,
                               size_t n);

/* The option, without dashes, for a key of the note, in `name`: "micro-batch" for "micro_batch",
 * "device" for "kernel", "comm" for "reduce". */
const char *spot_job_note_option(const char *key, char name[SPOT_JOB_NOTE_KEY_MAX]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_JOB_NOTE_H */
