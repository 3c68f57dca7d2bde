/* SPDX-License-Identifier: MIT */
/* state_command.h - storage behind a user's command: object storage through any client.
 *
 *   CMD put KEY      standard input becomes the object; it is stored whole, or the exit status is
 *                    not 0
 *   CMD get KEY      writes the object to standard output
 *   CMD list PREFIX  a line "BYTES KEY" for each object whose key begins with PREFIX
 *   CMD delete KEY   deletes the object; no error if it does not exist
 *
 * CMD is run by sh; the verb and the key are its last arguments. Keys consist of letters, digits,
 * '-', '.' and '/'. A run that fails is retried; a run that transfers no byte for a time is killed
 * with its children, and so is one whose parent process dies. Its standard error is included in the
 * error message.
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
    const char *command; /* borrowed */
    double limit_s; /* maximum time without a byte read or written, and from the last byte to the
                       exit */
    bool (*goes_on)(void *user); /* called several times a second; false aborts. May be NULL */
    void *user;
};

/* Input and output of one run. */
struct spot_command_io {
    /* Called before each try: start from the beginning. 0, or -1 with *err: no further try. May be
     * NULL. */
    int (*rewind)(void *user, struct spot_err *err);
    /* Append the next piece to the buffer: 1 if more follow, 0 if it was the last, -1 with *err.
     * NULL: standard input is empty. */
    int (*next)(void *user, struct spot_buf *piece, struct spot_err *err);
    /* Receives bytes of standard output: 0, or -1 with *err. NULL: they are dropped. */
    int (*take)(void *user, const void *data, size_t n_byte, struct spot_err *err);
    void *user;
};

/* Run the command until a try succeeds. Returns 0, or -1 with *err: SPOT_ESYS with the error of the
 * last try, SPOT_EPREEMPTED if goes_on was false, or the error of io. Blocks only the calling
 * thread. */
int spot_state_command_run(const struct spot_state_command *command, const char *verb,
                           const char *key, const struct spot_command_io *io, struct spot_err *err);

/* The output of "list" or "get" of a key, at most `most` bytes, followed by a NUL. Returns 0, or -1
 * with *err as above, SPOT_EDATA if it is longer. */
int spot_state_text_get(const struct spot_state_command *command, const char *verb, const char *key,
                        size_t most, struct spot_buf *text, struct spot_err *err);
int spot_state_text_put(const struct spot_state_command *command, const char *key, const char *text,
                        struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CHECKPOINT_STATE_COMMAND_H */
