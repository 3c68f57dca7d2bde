/* SPDX-License-Identifier: MIT */
/* outlet.h - somebody's terminal, pipe or socket, which may not be read: stopped with ^S, a pager
 * that shows its first page, a collector that hangs.
 *
 * What is put here is written by a thread of its own, in order, so whoever puts it never waits. The
 * descriptor stays as it is: others share it, and O_NONBLOCK would be theirs as well. What does not
 * fit into the room is left out, whole, and counted. A text of up to 4096 bytes is one write, which
 * a pipe takes whole, so lines of several processes do not mix.
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

/* `fd` is duplicated. `counts_lost`: where texts were left out, the reader finds "[N lines left
 * out]". NULL with *err (SPOT_ESYS). */
struct spot_outlet *spot_outlet_new(int fd, size_t room_byte, bool counts_lost,
                                    struct spot_err *err);

/* Never waits. Returns 0, also for what is left out; -1 with errno once a write has failed, after
 * which nothing more is written. Any thread may call this and wait. */
int spot_outlet_put(struct spot_outlet *outlet, const char *text, size_t n_byte);

/* Until at most `most_byte` are left to write, or for `limit_s` in which not a byte was taken; not
 * at all after such a limit, until everything was taken. Returns whether at most so many are left;
 * false also when a write failed. */
bool spot_outlet_wait(struct spot_outlet *outlet, size_t most_byte, double limit_s);

/* How many puts were left out so far. */
uint64_t spot_outlet_lost(struct spot_outlet *outlet);

/* Waits as spot_outlet_wait does for 0 bytes, also after a limit; then what is left is dropped, and
 * the thread is left to its write, which ends with the reader or with this process. Returns how
 * many bytes were dropped. May be NULL. */
size_t spot_outlet_free(struct spot_outlet *outlet, double limit_s);

/* May a write there wait for somebody? Not to a file. */
bool spot_outlet_is_needed(int fd);

/* A stream of documents, each of them a line: what is flushed is put in whole lines, and waited for
 * a little, so that it was written before its effects, unless nobody reads. A write that failed is
 * an error of the stream. Close it before the outlet is freed; NULL with *err. */
FILE *spot_outlet_stream(struct spot_outlet *outlet, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_OUTLET_H */
