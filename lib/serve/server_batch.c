/* SPDX-License-Identifier: MIT */
/* Processes OpenAI's batches: reads lines {"custom_id", "url", "body"} and writes answers when they
 * are ready. A line whose answer is already in the output is skipped, so the same command resumes a
 * stopped batch; an answer counts when its line is complete. This runs in the group's loop, so
 * input is never waited for.
 */
#define _XOPEN_SOURCE 700 /* getline, ftruncate */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/json.h"
#include "common/line.h"
#include "common/outlet.h"
#include "common/xalloc.h"
#include "serve/openai_state.h"
#include "serve/server_state.h"

static const double turn_s = 0.02; /* time limit for reading available lines */
enum {
    UNREAD_MOST = 1 << 20, /* bytes of unread answers above which no lines are read */
    UNREAD_ROOM = 1 << 30, /* limit for answers of lines already read */
};

struct asked {
    char *id;
    struct spot_completion *completion;
};

/* A custom_id that was requested, or already has its answer. */
struct known {
    char *id;           /* NULL: an empty slot */
    unsigned long line; /* line of the input; 0: none so far */
};

struct spot_batch {
    struct spot_server *server;
    int in;
    FILE *out;
    struct spot_outlet *outlet; /* for a pipe or a terminal, whose reader may block; NULL: a file */
    struct known *known;        /* [known_mask + 1], by hash */
    size_t n_known, known_mask;
    struct asked *asked;
    size_t n_asked, cap_asked;
    struct spot_buf text;  /* text of the input, unprocessed from `at` on */
    size_t at, n_searched; /* no end of a line is in text[at, at + n_searched) */
    unsigned long line;    /* the number of the line at `at` */
    bool is_read, is_at_end;
};

/* --- ids ------------------------------------------------------------------------------ */

static struct known *find_id(const struct spot_batch *b, const char *id)
{
    size_t at = (size_t)spot_hash64(id, strlen(id)) & b->known_mask;

    while (b->known[at].id && strcmp(b->known[at].id, id) != 0)
        at = (at + 1) & b->known_mask;
    return &b->known[at];
}

static void resize(struct spot_batch *b, size_t size)
{
    struct known *const old = b->known;
    const size_t n = old ? b->known_mask + 1 : 0;

    b->known = spot_xcalloc(size, sizeof(*b->known));
    b->known_mask = size - 1;
    for (size_t i = 0; i < n; i++)
        if (old[i].id)
            *find_id(b, old[i].id) = old[i];
    free(old);
}

static void note_id(struct spot_batch *b, const char *id, unsigned long line)
{
    struct known *k = find_id(b, id);

    if (!k->id) {
        if (2 * ++b->n_known > b->known_mask) {
            resize(b, 2 * (b->known_mask + 1));
            k = find_id(b, id);
        }
        k->id = spot_xstrdup(id);
    }
    k->line = line;
}

/* --- what is there already ---------------------------------------------------------- */

/* An answer may contain a NUL, which our texts cannot represent; only the id of the line is
 * read. */
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

    if (spot_line_is_blank(text, n))
        return 0;
    hide_nul(text, n);
    if (spot_json_parse_line(&doc, text, n, b->server->options->batch_out, line, err))
        return -1;
    id = spot_json_text(spot_json_get(doc.root, "custom_id"));
    if (id)
        note_id(b, id, 0);
    spot_json_release(&doc);
    return 0;
}

/* Read the existing output. An incomplete last line is truncated. */
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

/* An output that is not a regular file cannot be read for resuming; it may be endless, or have no
 * writer. */
static int check_out(const struct spot_batch *b, const struct stat *out, const char *path,
                     struct spot_err *err)
{
    struct stat in;

    if (!fstat(b->in, &in) && S_ISREG(in.st_mode) && in.st_dev == out->st_dev &&
        in.st_ino == out->st_ino)
        return spot_err_set(err, SPOT_EUSAGE, "the answers would be appended to the requests, %s",
                            b->server->options->batch);
    if (path && !S_ISREG(out->st_mode))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--output must be a regular file, which %s is not; - is stdout", path);
    return 0;
}

static void open_stream(struct spot_batch *b, int fd, const char *mode, struct spot_err *err)
{
    if (spot_outlet_is_needed(fd)) {
        b->outlet = spot_outlet_new(fd, UNREAD_ROOM, false, err);
        b->out = b->outlet ? spot_outlet_stream(b->outlet, err) : NULL;
    } else if (!(b->out = fdopen(fd, mode))) {
        (void)spot_err_sys(err, "cannot write the answers");
    }
}

static int open_out(struct spot_batch *b, struct spot_err *err)
{
    const char *const given = b->server->options->batch_out;
    const char *const path = given && strcmp(given, "-") != 0 ? given : NULL;
    struct stat st;
    int fd;

    if (path && !stat(path, &st) && check_out(b, &st, path, err)) /* a device is not even opened */
        return -1;
    fd = path ? open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666)
              : dup(STDOUT_FILENO);
    if (fd < 0 || fstat(fd, &st)) {
        (void)spot_err_sys(err, path ? "cannot open %s" : "cannot write the answers", path);
    } else if (!check_out(b, &st, path, err)) {
        open_stream(b, fd, path ? "a+" : "w", err);
    }
    if (fd >= 0 && (!b->out || b->outlet))
        close(fd);
    return !b->out || (path && read_done(b, err)) ? -1 : 0;
}

struct spot_batch *spot_batch_open(struct spot_server *s, struct spot_err *err)
{
    struct spot_batch *const b = spot_xcalloc(1, sizeof(*b));
    const char *const path = s->options->batch;

    b->server = s;
    b->line = 1;
    resize(b, 64);
    b->in = strcmp(path, "-") != 0 ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (b->in < 0)
        spot_err_sys(err, "cannot open %s", path);
    else if (!open_out(b, err))
        return b;
    spot_batch_close(b);
    return NULL;
}

void spot_batch_close(struct spot_batch *b)
{
    static const double unread_s = 1; /* limit for unread answers of a stopped server */
    size_t n_unread;

    if (!b)
        return;
    if (b->in > STDIN_FILENO)
        close(b->in);
    if (b->out)
        fclose(b->out);
    if (b->outlet && (n_unread = spot_outlet_free(b->outlet, unread_s)))
        b->server->options->group.warn("%zu bytes of answers were not read", n_unread);
    for (size_t i = 0; i <= b->known_mask; i++)
        free(b->known[i].id);
    for (size_t i = 0; i < b->n_asked; i++) {
        free(b->asked[i].id);
        spot_completion_unref(b->asked[i].completion);
    }
    free(b->known);
    free(b->asked);
    spot_buf_release(&b->text);
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

/* Writes an answer. Returns the HTTP status. */
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

        if (!spot_completion_is_ready(a->completion))
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

/* The text of a value. */
static void put_text(const struct spot_json_value *value, struct spot_buf *out)
{
    char *text = NULL;
    size_t n = 0;
    FILE *const memory = spot_xmemory_open(&text, &n);
    struct spot_jw jw;

    spot_jw_init(&jw, memory, false);
    spot_jw_tree(&jw, NULL, value);
    (void)spot_jw_close(&jw, NULL);
    spot_xmemory_close(memory);
    spot_buf_add(out, text, n);
    free(text);
}

/* Returns 0, or a status with an error that names the unsupported part. */
static int parse(const struct spot_batch *b, const struct spot_json_value *line,
                 struct spot_request *request, struct spot_buf *error)
{
    const char *const url = spot_json_text(spot_json_get(line, "url"));
    const struct spot_json_value *const method = spot_json_get(line, "method");
    static const char *const urls[] = { "/v1/completions", "/v1/chat/completions", "/v1/responses",
                                        "/v1/embeddings" }; /* by enum spot_api */
    struct spot_buf text = { 0 };
    int status, api = 0;

    if (!url)
        return spot_openai_error(400, "invalid_request_error", "url", NULL, error,
                                 "'url' must be a text, such as /v1/chat/completions.");
    while (api < SPOT_API_TOKENIZE && strcmp(url, urls[api]) != 0)
        api++;
    if (api == SPOT_API_TOKENIZE)
        return spot_openai_error(404, "invalid_request_error", "url", NULL, error,
                                 "The url '%.200s' is not supported by this server: expected "
                                 "/v1/completions, /v1/chat/completions, /v1/responses or "
                                 "/v1/embeddings.",
                                 url);
    if (method && !spot_json_is_null(method) &&
        (!spot_json_text(method) || strcmp(spot_json_text(method), "POST") != 0))
        return spot_openai_error(400, "invalid_request_error", "method", NULL, error,
                                 "'method' must be POST.");
    put_text(spot_json_get(line, "body"), &text);
    status = spot_openai_parse(&b->server->front_options, (enum spot_api)api,
                               (const char *)text.data, text.n, request, error);
    spot_buf_release(&text);
    return status;
}

/* Returns 0, 1 when the queue is full, -1 with *err. */
static int ask(struct spot_batch *b, const char *id, const struct spot_json_value *line,
               struct spot_err *err)
{
    struct spot_request request = { .n_choice = 0 };
    struct spot_completion *completion;
    struct spot_buf error = { 0 };
    const int status = parse(b, line, &request, &error);
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

/* Two lines with the same id are an error, since an answer could belong to either. */
static int take_request(struct spot_batch *b, const struct spot_json_doc *doc, struct spot_err *err)
{
    const char *const id = spot_json_text(spot_json_get(doc->root, "custom_id"));
    const struct spot_json_value *body;
    const struct known *k;
    int rc;

    if (!id)
        return spot_json_fail(doc, "/custom_id", err, "must be a text");
    if (spot_json_object(doc, doc->root, "", "body", true, &body, err))
        return -1;
    k = find_id(b, id);
    if (k->id && k->line)
        return spot_json_fail(doc, "/custom_id", err, "'%.200s' is already in line %lu", id,
                              k->line);
    rc = k->id ? 0 : ask(b, id, doc->root, err);
    if (!rc)
        note_id(b, id, b->line);
    return rc;
}

static int take_line(struct spot_batch *b, const char *text, size_t n, struct spot_err *err)
{
    struct spot_json_doc doc;
    int rc;

    if (spot_line_is_blank(text, n)) /* as editors leave at the end */
        return 0;
    if (spot_json_parse_line(&doc, text, n, b->server->options->batch, b->line, err))
        return -1;
    rc = take_request(b, &doc, err);
    spot_json_release(&doc);
    return rc;
}

/* Read available input. Returns 1, 0 if there is none, -1 with *err. */
static int fill(struct spot_batch *b, struct spot_err *err)
{
    enum { PART = 1 << 16, LINE_MAX = 16 << 20 };
    struct pollfd set = { .fd = b->in, .events = POLLIN };
    ssize_t n;

    if (b->text.n - b->at > LINE_MAX)
        return spot_err_at(err, b->server->options->batch, b->line, 0, NULL, "longer than %d MiB",
                           LINE_MAX >> 20);
    if (poll(&set, 1, 0) <= 0)
        return 0;
    if (b->at) {
        b->text.n -= b->at;
        memmove(b->text.data, b->text.data + b->at, b->text.n);
        b->at = 0;
    }
    n = read(b->in, spot_buf_more(&b->text, PART), PART);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN
                   ? 0
                   : spot_err_sys(err, "cannot read %s", b->server->options->batch);
    b->text.n += (size_t)n;
    b->is_read = n == 0;
    return 1;
}

/* The length of the next line with its end; 0 if it is incomplete, or there are no more; -1 with
 * *err. */
static ssize_t next_line(struct spot_batch *b, struct spot_err *err)
{
    int rc = 1;

    while (rc > 0) {
        const size_t n = b->text.n - b->at;
        const uint8_t *const begin = n ? b->text.data + b->at : NULL;
        const uint8_t *const end =
            n > b->n_searched ? memchr(begin + b->n_searched, '\n', n - b->n_searched) : NULL;

        b->n_searched = end ? (size_t)(end - begin) : n;
        if (end)
            return end + 1 - begin;
        if (b->is_read) {
            b->is_at_end = !n;
            return (ssize_t)n;
        }
        rc = fill(b, err);
    }
    return rc;
}

/* True if at most n_byte bytes of answers are unread. This loop never waits for their reader.
 */
static bool is_read(const struct spot_batch *b, size_t n_byte)
{
    return !b->outlet || spot_outlet_wait(b->outlet, n_byte, 0);
}

/* Process lines until the queue is full, no line is available, or the time limit is reached. */
static int take_lines(struct spot_batch *b, struct spot_err *err)
{
    const double until_s = spot_clock_s() + turn_s;

    while (!b->is_at_end && spot_server_waiting(b->server) < b->server->options->n_queue &&
           is_read(b, UNREAD_MOST) && spot_clock_s() < until_s) {
        const ssize_t n = next_line(b, err);
        char *text;
        int rc;

        if (n <= 0)
            return (int)n;
        text = spot_xcalloc((size_t)n + 1, 1); /* a NUL follows a line */
        memcpy(text, b->text.data + b->at, (size_t)n);
        rc = take_line(b, text, (size_t)n, err);
        free(text);
        if (rc)
            return rc < 0 ? -1 : 0;
        b->at += (size_t)n;
        b->n_searched = 0;
        b->line++;
    }
    return 0;
}

int spot_batch_go_on(struct spot_batch *b, bool *done, struct spot_err *err)
{
    if (put_ended(b, err))
        return -1;
    if (!b->server->is_draining && take_lines(b, err))
        return -1;
    if (b->outlet && spot_outlet_lost(b->outlet))
        return spot_err_set(err, SPOT_ESYS, "cannot write the answers: the reader is blocked");
    *done = b->is_at_end && !b->n_asked && is_read(b, 0);
    return 0;
}
