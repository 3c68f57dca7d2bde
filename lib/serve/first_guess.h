/* SPDX-License-Identifier: MIT */
/* first_guess.h - how long a replica takes to a first token, from how long it took: a line through
 * what was seen, by least squares, over the prompts that it had to read until then, those that were
 * before it in the queue included. What is newer counts more. */
#ifndef SPOT_SERVE_FIRST_GUESS_H
#define SPOT_SERVE_FIRST_GUESS_H

#ifdef __cplusplus
extern "C" {
#endif

struct spot_first_guess {
    double n, x, y, xx, xy; /* sums, weighted: of 1, work, seconds, and products */
};

/* A first token came `s` seconds after its choice was given, with so much work before it, >= 0 in
 * any unit that is always the same. */
void spot_first_guess_note(struct spot_first_guess *guess, double work, double s);
/* Seconds, >= 0; 0: nothing was seen yet. Where all that was seen was of one length, or longer ones
 * came sooner, what is expected does not depend on the work. */
double spot_first_guess_s(const struct spot_first_guess *guess, double work);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_FIRST_GUESS_H */
