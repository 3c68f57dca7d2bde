/* SPDX-License-Identifier: MIT */
/* state_text.h - small objects behind a state command, as text. */
#ifndef SPOT_CHECKPOINT_STATE_TEXT_H
#define SPOT_CHECKPOINT_STATE_TEXT_H

#include "checkpoint/state_command.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The output of "list" or "get" of a key, at most `most` bytes, followed by a NUL. Returns 0, or -1
 * with *err as spot_state_command_run, SPOT_EDATA if it is longer. */
int spot_state_text_get(const struct spot_state_command *command, const char *verb, const char *key,
                        size_t most, struct spot_buf *text, struct spot_err *err);

int spot_state_text_put(const struct spot_state_command *command, const char *key, const char *text,
                        struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CHECKPOINT_STATE_TEXT_H */
