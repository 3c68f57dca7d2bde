/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/json_writer.h"
#include "common/xalloc.h"
#include "serve/openai_body.h"
#include "serve/openai_state.h"

static void put_text(struct spot_jw *jw, const char *key, const char *text)
{
    if (text)
        spot_jw_str(jw, key, text);
    else
        spot_jw_null(jw, key);
}

int spot_openai_error(int status, const char *type, const char *param, const char *code,
                      struct spot_buf *out, const char *fmt, ...)
{
    char message[1024], *text = NULL;
    size_t n = 0;
    FILE *const f = spot_xmemory_open(&text, &n);
    struct spot_jw jw;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    spot_jw_init(&jw, f, false);
    spot_jw_object(&jw, NULL);
    spot_jw_object(&jw, "error");
    spot_jw_str(&jw, "message", message);
    spot_jw_str(&jw, "type", type);
    put_text(&jw, "param", param);
    put_text(&jw, "code", code);
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    spot_jw_close(&jw, NULL);
    spot_xmemory_close(f);
    spot_buf_add(out, text, n);
    free(text);
    return status;
}

int spot_openai_given_up(const struct spot_completion *c, struct spot_buf *out)
{
    return spot_openai_error(500, "server_error", NULL, NULL, out,
                             "The server aborted this request%s%s.", c->why ? ": " : "",
                             c->why ? c->why : "");
}

void spot_body_refuse(struct spot_body *b, int status, const char *param, const char *code,
                      const char *fmt, ...)
{
    char message[768];
    va_list ap;

    if (b->status)
        return;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    b->status =
        spot_openai_error(status, "invalid_request_error", param, code, b->error, "%s", message);
}
