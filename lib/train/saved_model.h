/* SPDX-License-Identifier: MIT */
/* saved_model.h - the weights of a job, out of its state directory or from the job while it runs.
 */
#ifndef SPOT_TRAIN_SAVED_MODEL_H
#define SPOT_TRAIN_SAVED_MODEL_H

#include <stdint.h>

#include "common/err.h"
#include "shard/bundle.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_NEWEST_STEP = -1 };

/* bundle[L + 2] have the plane of the weights alone. Text is owned. */
struct spot_saved_model {
    struct spot_shape shape;
    int64_t step;
    int n_bundle;
    struct spot_bundle **bundle;
    char *tokens;    /* what the job learns from: "bytes", "u16", "u32" */
    char *tokenizer; /* where the tokenizer of its text lay; "": its data are tokens */
};

/* Where the state of a job is: in `dir`, or behind a command of the user (state_command.h). Then
 * `dir` may be NULL: what the job is, is there, too. */
struct spot_saved_place {
    const char *dir, *command;
    double timeout_s;
};

/* For people: the directory, or that it is behind the command. */
const char *spot_saved_place_name(const struct spot_saved_place *place);

/* Of a step of which there is a generation, or of the newest that is sound: then `warn` (may be
 * NULL) is told what is wrong with a newer one. Nothing is changed or locked there: the job may
 * run. Returns 0, or -1 with *err: SPOT_EUSAGE when there is no such directory or step, SPOT_EDATA
 * when nothing sound is there, SPOT_ESYS. Release it in both cases. */
int spot_saved_model_read(struct spot_saved_model *model, const struct spot_saved_place *place,
                          int64_t step, void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2),
                          struct spot_err *err);

/* Of the step that a running job has come to: it is made durable there first, as any other
 * generation, which takes up to patience_s. key_file and wait_s as for spot_client_ask. Returns 0,
 * or -1 with *err as spot_client_ask; SPOT_EINFEASIBLE also for a job that speaks another protocol.
 * Release it in both cases. */
int spot_saved_model_fetch(struct spot_saved_model *model, const char *join, const char *key_file,
                           double wait_s, double patience_s, struct spot_err *err);

void spot_saved_model_release(struct spot_saved_model *model);

/* GPT-2's position table ends at `seq`, which is not more than the shape's, and so does the shape.
 * Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_saved_model_shorten(struct spot_saved_model *model, int64_t seq, struct spot_err *err);

/* Keep the weights of a bundle and give back the rest. */
void spot_weights_only(struct spot_bundle *bundle);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_SAVED_MODEL_H */
