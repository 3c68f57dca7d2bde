/* SPDX-License-Identifier: MIT */
/* output_guess.h - estimates the number of tokens of an answer: for each power of two of
 * max_tokens, the mean share of max_tokens that earlier answers used. */
#ifndef SPOT_SERVE_OUTPUT_GUESS_H
#define SPOT_SERVE_OUTPUT_GUESS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_OUTPUT_CLASSES = 64 };

struct spot_output_guess {
    double used[SPOT_OUTPUT_CLASSES]; /* 0..1 */
    uint32_t n[SPOT_OUTPUT_CLASSES];  /* answers seen, up to a limit: older ones count less */
};

/* Record that an answer with max_tokens n_most ended after n tokens. */
void spot_output_guess_note(struct spot_output_guess *g, int64_t n_most, int64_t n);
/* Expected further tokens after n of at most n_most. Half of n_most before any answer was seen;
 * beyond the expected length, an eighth of the rest. */
double spot_output_guess_left(const struct spot_output_guess *g, int64_t n_most, int64_t n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_OUTPUT_GUESS_H */
