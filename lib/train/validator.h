/* SPDX-License-Identifier: MIT */
/* validator.h - the loss on validation data, computed at regular intervals of steps.
 *
 * It is computed by the grid that computes the steps, forward only, between two of them: a round
 * that is voted for and then repeated as a step. Which sequences are read is a function of the
 * options only, losses are summed in the order of the microbatches, and nothing of a step is
 * affected: the same bits on every grid. An epoch that ends meanwhile drops what was computed, and
 * the next one starts again with the same weights.
 */
#ifndef SPOT_TRAIN_VALIDATOR_H
#define SPOT_TRAIN_VALIDATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "text/corpus.h"
#include "train/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_validator {
    struct spot_corpus corpus; /* without a source: there are no validation data */
    struct spot_sampler sampler;
    int64_t every, n_batch; /* steps between validations, global batches of one */
    int64_t batch_size;     /* sequences of a global batch */
    int64_t step;           /* newest weights with a known loss, -1 */
    float loss;
    int64_t batch; /* being computed, -1: none */
    double sum;    /* sum of the losses of earlier microbatches */
    double began_s;
};

/* Check that the opened corpus has enough sequences. Returns 0, or -1 with *err. */
int spot_validator_init(struct spot_validator *v, int64_t seq, struct spot_err *err);

int64_t spot_validator_sequences(const struct spot_validator *v); /* in one validation */
bool spot_validator_is_due(const struct spot_validator *v, int64_t step, bool is_last);
/* The state is rolled back to a step: results of later ones are void. */
void spot_validator_void(struct spot_validator *v, int64_t step);

/* Begin the next batch; read the tokens of its sequence i; take its losses loss[n]: returns 1 after
 * the last batch of the weights of `step`, with *took_s since the first, 0 after any other, -1 with
 * *err if a loss is not finite. */
void spot_validator_begin(struct spot_validator *v);
int spot_validator_read(const struct spot_validator *v, int64_t i, uint32_t *token,
                        struct spot_err *err);
int spot_validator_add(struct spot_validator *v, const double *loss, int64_t n, int64_t step,
                       double *took_s, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_VALIDATOR_H */
