/* SPDX-License-Identifier: MIT */
/* evaluate.h - the loss of a model on a corpus: forward passes only.
 *
 * The corpus is cut into windows of up to T tokens, `stride` apart. A position of a window predicts
 * the token after it from the tokens before it in the window. Each token is predicted once, by the
 * first window that can, so that with a stride below T it has at least T - stride tokens of
 * context: the measure of Hugging Face's guide "Perplexity of fixed-length models". The first token
 * of a window has no context there; with stride = T it is not predicted, unless `across` is set:
 * then the last position of a window predicts the token after the window, as in training, and only
 * the very first token is left out.
 */
#ifndef SPOT_TRAIN_EVALUATE_H
#define SPOT_TRAIN_EVALUATE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/kernel.h"
#include "shard/bundle.h"
#include "text/corpus.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_windows {
    int64_t n_token;     /* of the corpus */
    int64_t seq, stride; /* T and 1..T */
    bool across;
};

/* Positions [first, n_row) of a window count; position r, token begin + r, predicts token begin + r
 * + 1. */
struct spot_window {
    int64_t begin, n_row, first;
};

int64_t spot_windows_count(const struct spot_windows *windows);
struct spot_window spot_windows_at(const struct spot_windows *windows, int64_t k);

struct spot_evaluation {
    const struct spot_shape *shape;    /* its seq is T */
    struct spot_bundle *const *bundle; /* [L + 2]; only their master planes are read */
    /* its backend must provide losses by row; only the CPU's does */
    const struct spot_kernel *kernel;
    const struct spot_corpus *corpus;
    int64_t stride; /* 1..T */
    bool across;
    int batch, n_thread;                                    /* do not affect the result */
    void (*progress)(void *user, int64_t done, int64_t of); /* windows; may be NULL */
    /* Called for each predicted token, in order, with its position in the corpus and its loss; may
     * be NULL. */
    void (*row)(void *user, int64_t at, uint32_t token, double loss);
    void *user;
};

struct spot_loss {
    double sum; /* sum of the cross-entropies in nats; may be non-finite */
    int64_t n_predicted, n_window;
};

/* Mean loss in nats per predicted token. */
double spot_loss_mean(const struct spot_loss *loss);
/* Bits per byte of a text of n_byte bytes and n_token tokens, if every token had the mean loss. */
double spot_loss_bits_per_byte(const struct spot_loss *loss, int64_t n_token, int64_t n_byte);

/* Returns 0, or -1 with *err: SPOT_EDATA for a corpus in which nothing is predicted, SPOT_ESYS. */
int spot_evaluate(const struct spot_evaluation *evaluation, struct spot_loss *loss,
                  struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_EVALUATE_H */
