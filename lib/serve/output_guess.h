/* SPDX-License-Identifier: MIT */
/* output_guess.h - how many tokens an answer will have, from those of answers that may have had as
 * many: of each power of two of max_tokens the mean share that was used. */
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

/* An answer that may have had n_most tokens ended after n. */
void spot_output_guess_note(struct spot_output_guess *g, int64_t n_most, int64_t n);
/* Tokens still to come behind n of at most n_most. Half of n_most before any answer was seen; one
 * that is beyond what was expected has an eighth of the rest to go. */
double spot_output_guess_left(const struct spot_output_guess *g, int64_t n_most, int64_t n);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_OUTPUT_GUESS_H */
