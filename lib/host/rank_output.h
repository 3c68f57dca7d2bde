/* SPDX-License-Identifier: MIT */
/* rank_output.h - what ranks write: emptied by a thread for as long as we live, into files as it
 * is, and onto the terminal line by line with the rank in front.
 *
 * Nobody waits for a terminal: what it does not take within a second is left out there, and said.
 */
#ifndef SPOT_HOST_RANK_OUTPUT_H
#define SPOT_HOST_RANK_OUTPUT_H

#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_rank_output_options {
    uint32_t n;                                           /* ranks; pipe pair n is the hook's */
    const char *log_dir;                                  /* NULL: no files */
    int out_fd, err_fd;                                   /* -1: nowhere */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2); /* from the thread; NULL */
};

struct spot_rank_output;

/* pipe[n + 1]: read ends of standard output and error, non-blocking; taken, also on failure. NULL
 * with *err. */
struct spot_rank_output *spot_rank_output_new(const struct spot_rank_output_options *options,
                                              int (*pipe)[2], struct spot_err *err);

/* A new round, before its ranks start and after those of the last one have ended: what these wrote
 * is put where it belongs. */
void spot_rank_output_round(struct spot_rank_output *output, uint32_t round, uint32_t first_rank);

/* Puts away what is there, and ends the thread. May be NULL. */
void spot_rank_output_free(struct spot_rank_output *output);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANK_OUTPUT_H */
