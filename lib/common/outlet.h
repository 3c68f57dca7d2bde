/* SPDX-License-Identifier: MIT */
/* outlet.h - output to a terminal, pipe or socket whose reader may be blocked: stopped with ^S, a
 * pager that shows its first page, a collector that hangs. A separate thread writes the texts in
 * order, so the caller never waits. The descriptor is not made non-blocking, since other processes
 * share it. A text that does not fit into the buffer is dropped as a whole, and counted. A text of
 * up to 4096 bytes is one write, which is atomic in a pipe, so lines of several processes do not
 * mix.
 */
#ifndef SPOT_COMMON_OUTLET_H
#define SPOT_COMMON_OUTLET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_outlet;

/* `fd` is duplicated. `counts_lost`: in place of dropped texts the reader gets "[N lines left
 * out]". NULL with *err (SPOT_ESYS). */
struct spot_outlet *spot_outlet_new(int fd, size_t room_byte, bool counts_lost,
                                    struct spot_err *err);

/* Never waits. Returns 0, also for a dropped text; -1 with errno once a write has failed, after
 * which nothing more is written. Any thread may call this and spot_outlet_wait. */
int spot_outlet_put(struct spot_outlet *outlet, const char *text, size_t n_byte);

/* Wait until at most `most_byte` are left to write, or no byte was written for `limit_s`. After
 * such a timeout it does not wait again until everything was written. Returns true if at most
 * `most_byte` are left; false also when a write failed. */
bool spot_outlet_wait(struct spot_outlet *outlet, size_t most_byte, double limit_s);

/* Number of dropped texts so far. */
uint64_t spot_outlet_lost(struct spot_outlet *outlet);

/* Waits like spot_outlet_wait for 0 bytes, even after a timeout; the rest is dropped. A thread that
 * is blocked in write() is left running; it ends with the reader or with this process. Returns the
 * number of bytes dropped. May be NULL. */
size_t spot_outlet_free(struct spot_outlet *outlet, double limit_s);

/* True if a write to fd may block for long, that is unless it is a file. */
bool spot_outlet_is_needed(int fd);

/* A stream for documents of one line each. A flush puts whole lines and waits briefly, so that they
 * are written before their effects unless the reader is blocked. A failed write is an error of the
 * stream. Close it before the outlet is freed; NULL with *err. */
FILE *spot_outlet_stream(struct spot_outlet *outlet, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_OUTLET_H */
