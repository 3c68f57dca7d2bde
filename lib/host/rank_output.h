/* SPDX-License-Identifier: MIT */
/* rank_output.h - the output of ranks: read by a thread as long as this process lives, written to
 * files unchanged, and to the terminal line by line, prefixed with the rank.
 *
 * A terminal that is not read holds up no rank: after a second in which it accepts nothing, lines
 * are left out there, with a note (common/outlet.h). Beginning a round never waits for it.
 */
#ifndef SPOT_HOST_RANK_OUTPUT_H
#define SPOT_HOST_RANK_OUTPUT_H

#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_rank_output_options {
    uint32_t n;          /* ranks; the pipe pair at index n is the node's */
    const char *log_dir; /* NULL: no files */
    int out_fd, err_fd;  /* -1: none */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2); /* called from the thread; NULL */
};

struct spot_rank_output;

/* Create the directory of logs, and those above it. Returns 0, or -1 with *err (SPOT_ESYS) if that
 * fails or nothing can be written there. */
int spot_rank_output_make_dir(const char *log_dir, struct spot_err *err);

/* pipe[n + 1]: read ends of standard output and error, non-blocking; taken over, also on failure.
 * NULL with *err. */
struct spot_rank_output *spot_rank_output_new(const struct spot_rank_output_options *options,
                                              int (*pipe)[2], struct spot_err *err);

/* Begin a new round, before its ranks start and after those of the last one have ended: the
 * remaining output of these is written first. */
void spot_rank_output_round(struct spot_rank_output *output, uint32_t round, uint32_t first_rank);

/* Writes the remaining output, and ends the thread. May be NULL. */
void spot_rank_output_free(struct spot_rank_output *output);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANK_OUTPUT_H */
