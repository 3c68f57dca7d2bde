/* SPDX-License-Identifier: MIT */
/* state_command.h - storage behind a command of the user: object storage by whatever client there
 * is.
 *
 *   CMD put KEY      standard input becomes the object; it is stored whole, or the status is not 0
 *   CMD get KEY      the object goes to standard output
 *   CMD list PREFIX  a line "BYTES KEY" for each object whose key begins with PREFIX
 *   CMD delete KEY   it is gone then; one that is not there is fine
 *
 * CMD is given to sh, the verb and the key are its last arguments. Keys are of letters, digits,
 * '-', '.' and '/'. A run that fails is tried again; one through which no byte moves for a time is
 * killed with all that it started, and so is one when the process that runs it dies. What it says
 * on standard error is told with its failure.
 */
#ifndef SPOT_CHECKPOINT_STATE_COMMAND_H
#define SPOT_CHECKPOINT_STATE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_STATE_COMMAND_TRIES = 3, SPOT_STATE_COMMAND_LIMIT_S = 60 };

struct spot_state_command {
    const char *command;         /* borrowed */
    double limit_s;              /* without a byte, in or out, and from the last one to the end */
    bool (*goes_on)(void *user); /* asked several times a second; false gives up. May be NULL */
    void *user;
};

/* What goes in, or comes out, of one run. */
struct spot_command_io {
    /* Before each try: from the start. 0, or -1 with *err: it is not tried. May be NULL. */
    int (*rewind)(void *user, struct spot_err *err);
    /* Append the next piece to the buffer: 1 if more follow, 0 if it was the last, -1 with *err.
     * NULL: standard input is empty. */
    int (*next)(void *user, struct spot_buf *piece, struct spot_err *err);
    /* Bytes of standard output: 0, or -1 with *err. NULL: they are dropped. */
    int (*take)(void *user, const void *data, size_t n_byte, struct spot_err *err);
    void *user;
};

/* Run it until a try succeeds. Returns 0, or -1 with *err: SPOT_ESYS as the last try failed,
 * SPOT_EPREEMPTED where it does not go on, or what io said. The calling thread alone waits. */
int spot_state_command_run(const struct spot_state_command *command, const char *verb,
                           const char *key, const struct spot_command_io *io, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CHECKPOINT_STATE_COMMAND_H */
