/* SPDX-License-Identifier: MIT */
/* guess.h - what a server expects of a request, from the requests that it has answered. */
#ifndef SPOT_SERVE_GUESS_H
#define SPOT_SERVE_GUESS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Estimates the number of tokens of an answer: for each power of two of max_tokens, the mean share
 * of max_tokens that earlier answers used. */

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

/* Estimates a replica's time to first token: a least-squares line through its past times over the
 * prompt tokens it had to compute until then, including those ahead in the queue. Newer
 * observations count more. */

struct spot_first_guess {
    double n, x, y, xx, xy; /* sums, weighted: of 1, work, seconds, and products */
};

/* Record that a first token came `s` seconds after its assignment with this much work ahead, >= 0
 * in any fixed unit. */
void spot_first_guess_note(struct spot_first_guess *guess, double work, double s);
/* The estimate in seconds, >= 0; 0: no observations. If all observations had one length, or longer
 * ones came sooner, it does not depend on the work. */
double spot_first_guess_s(const struct spot_first_guess *guess, double work);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_GUESS_H */
