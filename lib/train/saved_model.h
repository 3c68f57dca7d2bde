/* SPDX-License-Identifier: MIT */
/* saved_model.h - reads the weights of a job from its state directory, or from the running job. */
#ifndef SPOT_TRAIN_SAVED_MODEL_H
#define SPOT_TRAIN_SAVED_MODEL_H

#include <stdint.h>

#include "common/err.h"
#include "shard/bundle.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_NEWEST_STEP = -1 };

struct spot_frame;

/* bundle[L + 2] have only the plane of weights. Strings are owned. */
struct spot_saved_model {
    struct spot_shape shape;
    int64_t step;
    int n_bundle;
    struct spot_bundle **bundle;
    /* of a followed model: [n_bundle] verified hashes of the planes; the messages that contain the
     * planes, aligned for float */
    uint64_t *hash;
    struct spot_frame **frame;
    char *tokens;    /* the job's kind of data: "bytes", "u16", "u32" */
    char *tokenizer; /* path of the tokenizer of its text; "": its data are tokens */
};

/* Location of a job's state: in `dir`, or behind a user's command (state_command.h). Then `dir` may
 * be NULL: the description of the job is there, too. */
struct spot_saved_place {
    const char *dir, *command;
    double timeout_s;
};

/* The name of the place in messages: the directory, or words for the command. */
const char *spot_saved_place_name(const struct spot_saved_place *place);

/* Read a step that has a generation, or the newest valid one; then `warn` (may be NULL) is called
 * with the defect of each newer one. Nothing is changed or locked, so the job may be running.
 * Returns 0, or -1 with *err: SPOT_EUSAGE when there is no such directory or step, SPOT_EDATA when
 * there is no valid generation, SPOT_ESYS. Release it in both cases. */
int spot_saved_model_read(struct spot_saved_model *model, const struct spot_saved_place *place,
                          int64_t step, void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2),
                          struct spot_err *err);

/* Fetch the current step of a running job: the job first makes it durable, like any other
 * generation, which takes up to patience_s. key_file and wait_s as for spot_client_ask. Returns 0,
 * or -1 with *err as spot_client_ask; SPOT_EINFEASIBLE also for a job with another protocol.
 * Release it in both cases. */
int spot_saved_model_fetch(struct spot_saved_model *model, const char *join, const char *key_file,
                           double wait_s, double patience_s, struct spot_err *err);

/* A running job that is followed: weights come from the memory of its workers; nothing becomes
 * durable. */
struct spot_followed {
    const char *join, *key_file;
    int64_t every,
        step; /* minimum number of steps between two versions; newest step received, -1: none */
};

/* Poll for the weights of a step at least `every` after the last one. If the job was rolled back,
 * or is another job, start over. Returns 1 with *model, to be released; 0 if there are none yet; -1
 * with *err as spot_client_ask. */
int spot_saved_model_follow(struct spot_saved_model *model, struct spot_followed *followed,
                            struct spot_err *err);

void spot_saved_model_release(struct spot_saved_model *model);

/* Shorten GPT-2's position table to `seq`, which is not more than the shape's, and the shape with
 * it. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_saved_model_shorten(struct spot_saved_model *model, int64_t seq, struct spot_err *err);

/* Keep the weights of a bundle and free the rest. */
void spot_weights_only(struct spot_bundle *bundle);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_SAVED_MODEL_H */
