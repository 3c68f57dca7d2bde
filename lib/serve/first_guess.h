/* SPDX-License-Identifier: MIT */
/* first_guess.h - estimates a replica's time to first token: a least-squares line through its past
 * times over the prompt tokens it had to compute until then, including those ahead in the queue.
 * Newer observations count more. */
#ifndef SPOT_SERVE_FIRST_GUESS_H
#define SPOT_SERVE_FIRST_GUESS_H

#ifdef __cplusplus
extern "C" {
#endif

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

#endif /* SPOT_SERVE_FIRST_GUESS_H */
