/* SPDX-License-Identifier: MIT */
#include "checkpoint/state_text.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

struct text {
    struct spot_buf buf;
    size_t most;
    const char *key;
};

static int rewind_text(void *user, struct spot_err *err)
{
    struct text *const t = user;

    (void)err;
    t->buf.n = 0;
    return 0;
}

static int take_text(void *user, const void *data, size_t n_byte, struct spot_err *err)
{
    struct text *const t = user;

    if (n_byte > t->most - t->buf.n)
        return spot_err_set(err, SPOT_EDATA, "state command: '%s' is of more than %zu bytes",
                            t->key, t->most);
    spot_buf_add(&t->buf, data, n_byte);
    return 0;
}

int spot_state_text_get(const struct spot_state_command *command, const char *verb, const char *key,
                        size_t most, struct spot_buf *text, struct spot_err *err)
{
    struct text t = { .most = most, .key = key };
    const struct spot_command_io io = { .rewind = rewind_text, .take = take_text, .user = &t };
    const int rc = spot_state_command_run(command, verb, key, &io, err);

    spot_buf_more(&t.buf, 1)[0] = '\0';
    *text = t.buf;
    if (rc)
        spot_buf_release(text);
    return rc;
}

static int next_text(void *user, struct spot_buf *piece, struct spot_err *err)
{
    const char *const text = user;

    (void)err;
    spot_buf_add(piece, text, strlen(text));
    return 0;
}

int spot_state_text_put(const struct spot_state_command *command, const char *key, const char *text,
                        struct spot_err *err)
{
    char *const copy = spot_xstrdup(text);
    const struct spot_command_io io = { .next = next_text, .user = copy };
    const int rc = spot_state_command_run(command, "put", key, &io, err);

    free(copy);
    return rc;
}
