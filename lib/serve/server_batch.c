/* SPDX-License-Identifier: MIT */
/* Lines of OpenAI's batches: {"custom_id", "url", "body"} in, answers out, as they are ready.
 *
 * A line whose answer is in the output already is left out, so the same command goes on with what
 * was stopped; an answer counts when its line is whole.
 */
#define _XOPEN_SOURCE 700 /* getline, ftruncate */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "common/line.h"
#include "common/xalloc.h"
#include "serve/openai_state.h"
#include "serve/server_state.h"

struct asked {
    char *id;
    struct spot_completion *completion;
};

struct spot_batch {
    struct spot_server *server;
    FILE *in, *out;
    char **done; /* [n_done] custom ids that have an answer */
    size_t n_done, cap_done;
    struct asked *asked;
    size_t n_asked, cap_asked;
    unsigned long line;
    bool is_at_end;
    char *held; /* a line that found the queue full */
    size_t n_held;
};

/* --- what is there already ---------------------------------------------------------- */

/* An answer may have a NUL, which no text of ours can hold: only the id of the line is read. */
static void hide_nul(char *text, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++) {
        if (text[i] != '\\')
            continue;
        if (n - i >= 6 && !memcmp(text + i + 1, "u0000", 5))
            text[i + 5] = '1';
        i++;
    }
}

static int note_line(struct spot_batch *b, char *text, size_t n, unsigned long line,
                     struct spot_err *err)
{
    struct spot_json_doc doc;
    const char *id;

    hide_nul(text, n);
    if (spot_json_parse_line(&doc, text, n, b->server->options->batch_out, line, err))
        return -1;
    id = spot_json_text(spot_json_get(doc.root, "custom_id"));
    if (id) {
        b->done = spot_xgrow(b->done, &b->cap_done, b->n_done + 1, sizeof(*b->done));
        b->done[b->n_done++] = spot_xstrdup(id);
    }
    spot_json_release(&doc);
    return 0;
}

/* A last line without its end was being written: it is cut off. */
static int read_done(struct spot_batch *b, struct spot_err *err)
{
    char *text = NULL;
    size_t cap = 0;
    ssize_t n;
    long whole = 0;
    int rc = 0;

    for (unsigned long line = 1; !rc && (n = getline(&text, &cap, b->out)) > 0; line++) {
        if (text[n - 1] != '\n')
            break;
        rc = note_line(b, text, (size_t)n, line, err);
        whole = ftell(b->out);
    }
    free(text);
    if (!rc && (ftruncate(fileno(b->out), whole) || fseek(b->out, whole, SEEK_SET)))
        rc = spot_err_sys(err, "cannot continue %s", b->server->options->batch_out);
    return rc;
}

static int open_out(struct spot_batch *b, struct spot_err *err)
{
    const char *const path = b->server->options->batch_out;

    if (!path || !strcmp(path, "-")) {
        b->out = fdopen(dup(STDOUT_FILENO), "w");
        return b->out ? 0 : spot_err_sys(err, "cannot write the answers");
    }
    b->out = fopen(path, "a+");
    if (!b->out)
        return spot_err_sys(err, "cannot open %s", path);
    rewind(b->out);
    return read_done(b, err);
}

struct spot_batch *spot_batch_open(struct spot_server *s, struct spot_err *err)
{
    struct spot_batch *const b = spot_xcalloc(1, sizeof(*b));
    const char *const path = s->options->batch;

    b->server = s;
    b->in = strcmp(path, "-") != 0 ? fopen(path, "r") : stdin;
    if (!b->in)
        spot_err_sys(err, "cannot open %s", path);
    if (b->in && !open_out(b, err))
        return b;
    spot_batch_close(b);
    return NULL;
}

void spot_batch_close(struct spot_batch *b)
{
    if (!b)
        return;
    if (b->in && b->in != stdin)
        fclose(b->in);
    if (b->out)
        fclose(b->out);
    for (size_t i = 0; i < b->n_done; i++)
        free(b->done[i]);
    for (size_t i = 0; i < b->n_asked; i++) {
        free(b->asked[i].id);
        spot_completion_unref(b->asked[i].completion);
    }
    free(b->done);
    free(b->asked);
    free(b->held);
    free(b);
}

/* --- answers ------------------------------------------------------------------------- */

/* `body` is JSON. */
static int put_answer(struct spot_batch *b, const char *id, int status, const struct spot_buf *body,
                      struct spot_err *err)
{
    char *text = spot_xcalloc(body->n + 1, 1);
    size_t n = body->n;
    struct spot_jw jw;

    while (n && body->data[n - 1] == '\n')
        n--; /* an answer is one line */
    memcpy(text, body->data, n);
    spot_jw_init(&jw, b->out, false);
    spot_jw_object(&jw, NULL);
    spot_jw_str(&jw, "custom_id", id);
    spot_jw_object(&jw, "response");
    spot_jw_int(&jw, "status_code", status);
    spot_jw_raw(&jw, "body", text);
    spot_jw_end(&jw);
    spot_jw_null(&jw, "error");
    spot_jw_end(&jw);
    free(text);
    return spot_jw_close(&jw, err);
}

/* Returns its status. */
static int answer_of(const struct spot_batch *b, const struct spot_completion *c,
                     struct spot_buf *body)
{
    if (spot_completion_is_given_up(c))
        return spot_openai_given_up(c, body);
    spot_openai_answer(&b->server->front_options, c, body);
    return 200;
}

static int put_ended(struct spot_batch *b, struct spot_err *err)
{
    for (size_t i = b->n_asked; i-- > 0;) {
        struct asked *const a = &b->asked[i];
        struct spot_buf body = { 0 };
        int rc;

        if (a->completion->n_open)
            continue;
        rc = put_answer(b, a->id, answer_of(b, a->completion, &body), &body, err);
        spot_buf_release(&body);
        spot_completion_unref(a->completion);
        free(a->id);
        *a = b->asked[--b->n_asked];
        if (rc)
            return -1;
    }
    return 0;
}

/* --- requests ------------------------------------------------------------------------- */

static bool is_done(const struct spot_batch *b, const char *id)
{
    for (size_t i = 0; i < b->n_done; i++)
        if (!strcmp(b->done[i], id))
            return true;
    for (size_t i = 0; i < b->n_asked; i++)
        if (!strcmp(b->asked[i].id, id))
            return true;
    return false;
}

/* The text of a value. */
static void put_text(const struct spot_json_value *value, struct spot_buf *out)
{
    char *text = NULL;
    size_t n = 0;
    FILE *const memory = open_memstream(&text, &n);
    struct spot_jw jw;

    if (!memory)
        return;
    spot_jw_init(&jw, memory, false);
    spot_jw_tree(&jw, NULL, value);
    (void)spot_jw_close(&jw, NULL);
    fclose(memory);
    spot_buf_add(out, text, n);
    free(text);
}

/* Returns 0, or a status with an error that names what cannot be asked here. */
static int parse(const struct spot_batch *b, const char *url, const struct spot_json_value *body,
                 struct spot_request *request, struct spot_buf *error)
{
    const bool is_chat = url && !strcmp(url, "/v1/chat/completions");
    struct spot_buf text = { 0 };
    int status;

    if (!url)
        return spot_openai_error(400, "invalid_request_error", "url", NULL, error,
                                 "'url' must be a text: /v1/completions or /v1/chat/completions.");
    if (!is_chat && strcmp(url, "/v1/completions") != 0)
        return spot_openai_error(404, "invalid_request_error", "url", NULL, error,
                                 "The url '%.200s' is not supported by this server: expected "
                                 "/v1/completions or /v1/chat/completions.",
                                 url);
    put_text(body, &text);
    status = spot_openai_parse(&b->server->front_options, is_chat, (const char *)text.data, text.n,
                               request, error);
    spot_buf_release(&text);
    return status;
}

/* Returns 0, 1 when the queue is full, -1 with *err. */
static int ask(struct spot_batch *b, const char *id, const struct spot_json_value *body,
               const char *url, struct spot_err *err)
{
    struct spot_request request = { .n_choice = 0 };
    struct spot_completion *completion;
    struct spot_buf error = { 0 };
    const int status = parse(b, url, body, &request, &error);
    int rc;

    if (status) {
        rc = put_answer(b, id, status, &error, err);
        spot_buf_release(&error);
        return rc;
    }
    spot_buf_release(&error);
    request.does_stream = false;
    if (spot_server_submit(b->server, &request, &completion) != SPOT_ADMIT)
        return 1;
    b->asked = spot_xgrow(b->asked, &b->cap_asked, b->n_asked + 1, sizeof(*b->asked));
    b->asked[b->n_asked++] = (struct asked){ .id = spot_xstrdup(id), .completion = completion };
    return 0;
}

static int take_line(struct spot_batch *b, const char *text, size_t n, struct spot_err *err)
{
    struct spot_json_doc doc;
    const struct spot_json_value *body = NULL;
    const char *id;
    int rc;

    if (spot_line_is_blank(text, n)) /* as editors leave at the end */
        return 0;
    if (spot_json_parse_line(&doc, text, n, b->server->options->batch, b->line, err))
        return -1;
    id = spot_json_text(spot_json_get(doc.root, "custom_id"));
    if (!id)
        rc = spot_json_fail(&doc, "/custom_id", err, "must be a text");
    else
        rc = spot_json_object(&doc, doc.root, "", "body", true, &body, err);
    if (!rc && id && !is_done(b, id))
        rc = ask(b, id, body, spot_json_text(spot_json_get(doc.root, "url")), err);
    spot_json_release(&doc);
    return rc;
}

/* Lines until the queue is full. */
static int take_lines(struct spot_batch *b, struct spot_err *err)
{
    while (!b->is_at_end && spot_server_waiting(b->server) < b->server->options->n_queue) {
        size_t cap = b->n_held;
        ssize_t n = (ssize_t)b->n_held;
        int rc;

        if (!b->held) {
            n = getline(&b->held, &cap, b->in);
            b->line++;
        }
        if (n <= 0) {
            b->is_at_end = true;
            return ferror(b->in) ? spot_err_sys(err, "cannot read %s", b->server->options->batch)
                                 : 0;
        }
        rc = take_line(b, b->held, (size_t)n, err);
        b->n_held = (size_t)n;
        if (rc)
            return rc < 0 ? -1 : 0;
        free(b->held);
        b->held = NULL;
    }
    return 0;
}

int spot_batch_go_on(struct spot_batch *b, bool *done, struct spot_err *err)
{
    if (put_ended(b, err))
        return -1;
    if (!b->server->is_draining && take_lines(b, err))
        return -1;
    *done = b->is_at_end && !b->n_asked;
    return 0;
}
