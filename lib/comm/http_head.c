/* SPDX-License-Identifier: MIT */
#include "comm/http_head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/xalloc.h"

enum { LINE_MAX_BYTE = 1024, TRAILERS_MAX = 8 << 10, SIZE_DIGITS = 15, LENGTH_DIGITS = 18 };

static const char digits[] = "0123456789";
static const char alnum[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

static bool is_in(char c, const char *set)
{
    return c && strchr(set, c);
}

static bool is_token_char(char c)
{
    return is_in(c, alnum) || is_in(c, "!#$%&'*+-.^_`|~");
}

static bool is_token(const char *text)
{
    const char *at = text;

    while (is_token_char(*at))
        at++;
    return at > text && !*at;
}

/* Characters of a field value: no control characters except tab. */
static bool is_value_char(char c)
{
    return c == '\t' || ((unsigned char)c >= ' ' && c != 0x7f);
}

static int hex_of(char c)
{
    static const char hex[] = "0123456789abcdef";
    const char low = c >= 'A' && c <= 'F' ? (char)(c | 0x20) : c;
    const char *const at = c ? strchr(hex, low) : NULL;

    return at ? (int)(at - hex) : -1;
}

size_t spot_http_head_size(const char *data, size_t n, size_t *n_seen)
{
    const char *at;

    while (*n_seen < n && (at = memchr(data + *n_seen, '\n', n - *n_seen))) {
        const size_t i = (size_t)(at - data);

        if (!i || data[i - 1] != '\r')
            return SIZE_MAX;
        *n_seen = i + 1;
        if (i >= 3 && data[i - 2] == '\n')
            return i + 1;
    }
    *n_seen = n;
    return 0;
}

/* --- the target ------------------------------------------------------------------ */

/* Decodes "%2F" and the like in place; false: not two hex digits, or a NUL. */
static bool decode(char *text)
{
    char *to = text;

    for (const char *at = text; *at; at++) {
        if (*at != '%') {
            *to++ = *at;
            continue;
        }
        if (hex_of(at[1]) < 0 || hex_of(at[2]) < 0 || (at[1] == '0' && at[2] == '0'))
            return false;
        *to++ = (char)(hex_of(at[1]) << 4 | hex_of(at[2]));
        at += 2;
    }
    *to = '\0';
    return true;
}

/* True for host, host:port, [address]:port, or an empty text. */
static bool is_host(const char *text)
{
    const bool is_address = *text == '[';
    const char *at = text;

    if (is_address) {
        at += 1 + strspn(text + 1, "0123456789abcdefABCDEF:.%");
        if (*at++ != ']')
            return false;
    } else {
        while (is_in(*at, alnum) || is_in(*at, "-._~%!$&'()*+,;="))
            at++;
    }
    if (*at == ':')
        at += 1 + strspn(at + 1, digits);
    return !*at;
}

/* Splits http://host/path: moves the host to the front and returns the start of the path; NULL:
 * malformed. */
static char *cut_absolute(struct spot_http_head *h, char *target)
{
    const size_t n_scheme = !strncasecmp(target, "http://", 7)    ? 7
                            : !strncasecmp(target, "https://", 8) ? 8
                                                                  : 0;
    char *const host = target + n_scheme, *const path = host + strcspn(host, "/?");

    if (!n_scheme || path == host)
        return NULL;
    memmove(target, host, (size_t)(path - host));
    target[path - host] = '\0';
    h->host = target;
    return is_host(target) ? path : NULL;
}

static bool read_target(struct spot_http_head *h, char *target)
{
    char *path = target;

    for (const char *at = target; *at; at++)
        if ((unsigned char)*at <= ' ' || (unsigned char)*at >= 0x7f || *at == '#')
            return false;
    if (strcmp(target, "*") != 0 && *target != '/')
        path = cut_absolute(h, target);
    if (!path)
        return false;
    h->path = *path == '/' || *path == '*' ? path : "/";
    path[strcspn(path, "?")] = '\0';
    return decode(path);
}

/* --- lines ------------------------------------------------------------------------- */

static int refuse(int status, const char *text, const char **why)
{
    *why = text;
    return status;
}

static int read_request_line(struct spot_http_head *h, char *line, const char **why)
{
    char *const target = strchr(line, ' '), *const version =
                                                target ? strchr(target + 1, ' ') : NULL;

    if (!version)
        return refuse(400, "The first line must be METHOD TARGET HTTP/1.1.", why);
    *target = *version = '\0';
    h->method = line;
    if (!is_token(line) || strlen(version + 1) != 8 || strncmp(version + 1, "HTTP/", 5) != 0 ||
        !is_in(version[6], digits) || version[7] != '.' || !is_in(version[8], digits))
        return refuse(400, "The first line must be METHOD TARGET HTTP/1.1.", why);
    if (version[6] != '1')
        return refuse(505, "This server speaks HTTP/1.1.", why);
    h->is_1_0 = version[8] == '0';
    return read_target(h, target + 1) ? 0 : refuse(400, "The target is malformed.", why);
}

static char *trim(char *text)
{
    size_t n;

    text += strspn(text, " \t");
    n = strlen(text);
    while (n && is_in(text[n - 1], " \t"))
        n--;
    text[n] = '\0';
    return text;
}

static int read_field(struct spot_http_head *h, char *line, const char **why)
{
    char *const colon = strchr(line, ':');

    if (*line == ' ' || *line == '\t')
        return refuse(400, "A header field is folded.", why);
    if (colon)
        *colon = '\0';
    if (!colon || !is_token(line))
        return refuse(400, "A header field must be NAME: VALUE.", why);
    for (const char *at = colon + 1; *at; at++)
        if (!is_value_char(*at))
            return refuse(400, "A header field has a control character.", why);
    if (h->n_field == SPOT_HTTP_FIELDS_MAX)
        return refuse(431, "There are too many header fields.", why);
    h->field[h->n_field].name = line;
    h->field[h->n_field++].value = trim(colon + 1);
    return 0;
}

static int read_lines(struct spot_http_head *h, char *text, size_t n, const char **why)
{
    char *line = text, *end = memchr(text, '\r', n);
    int status;

    if (memchr(text, '\0', n))
        return refuse(400, "The head contains a NUL byte.", why);
    *end = '\0';
    status = read_request_line(h, line, why);
    while (!status && end[1] == '\n' && end[2] != '\r') {
        line = end + 2;
        end = strchr(line, '\r');
        *end = '\0';
        status = read_field(h, line, why);
    }
    if (status)
        return status;
    return end + 4 == text + n ? 0 : refuse(400, "A line must end in CRLF.", why);
}

/* --- fields -------------------------------------------------------------- */

const char *spot_http_head_field(const struct spot_http_head *h, const char *name)
{
    for (size_t i = 0; i < h->n_field; i++)
        if (!strcasecmp(h->field[i].name, name))
            return h->field[i].value;
    return NULL;
}

static size_t count(const struct spot_http_head *h, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < h->n_field; i++)
        n += !strcasecmp(h->field[i].name, name);
    return n;
}

static int read_host(struct spot_http_head *h, const char **why)
{
    const char *const host = spot_http_head_field(h, "Host");

    if (count(h, "Host") > 1 || (!host && !h->is_1_0))
        return refuse(400, "There must be exactly one Host header.", why);
    if (host && !is_host(host))
        return refuse(400, "Host is malformed.", why);
    if (!h->host)
        h->host = host;
    return 0;
}

static int read_length(struct spot_http_head *h, const char **why)
{
    const char *const length = spot_http_head_field(h, "Content-Length");
    const char *const coding = spot_http_head_field(h, "Transfer-Encoding");

    if (count(h, "Content-Length") + count(h, "Transfer-Encoding") > 1 ||
        (coding && (h->is_1_0 || strcasecmp(coding, "chunked") != 0)) ||
        (length && (!*length || length[strspn(length, digits)])))
        return refuse(400, "Invalid Content-Length or Transfer-Encoding.", why);
    if (length && strlen(length + strspn(length, "0")) > LENGTH_DIGITS)
        return refuse(413, "The body is too large.", why);
    h->n_body = coding ? SPOT_HTTP_CHUNKED : length ? strtoll(length, NULL, 10) : 0;
    return 0;
}

/* True if `word` is in the comma-separated lists of all fields of this name. */
static bool has_word(const struct spot_http_head *h, const char *name, const char *word)
{
    const size_t n_word = strlen(word);

    for (size_t i = 0; i < h->n_field; i++) {
        const char *at = h->field[i].value;

        while (!strcasecmp(h->field[i].name, name) && *(at += strspn(at, ", \t"))) {
            const size_t n = strcspn(at, ", \t");

            if (n == n_word && !strncasecmp(at, word, n))
                return true;
            at += n;
        }
    }
    return false;
}

int spot_http_head_read(struct spot_http_head *h, const char *data, size_t n, const char **why)
{
    const char *expected;
    int status;

    *h = (struct spot_http_head){ .text = spot_xcalloc(n + 1, 1) };
    memcpy(h->text, data, n);
    status = read_lines(h, h->text, n, why);
    if (!status)
        status = read_host(h, why);
    if (!status)
        status = read_length(h, why);
    if (status)
        return status;
    h->keeps_alive = !has_word(h, "Connection", "close") &&
                     (!h->is_1_0 || has_word(h, "Connection", "keep-alive"));
    expected = h->is_1_0 ? NULL : spot_http_head_field(h, "Expect");
    h->expects_continue = expected != NULL;
    return expected && strcasecmp(expected, "100-continue") != 0
               ? refuse(417, "Expect may be 100-continue.", why)
               : 0;
}

void spot_http_head_release(struct spot_http_head *h)
{
    free(h->text);
    h->text = NULL;
}

/* --- a body in chunks ---------------------------------------------------------------- */

enum chunk_state {
    CHUNK_SIZE,      /* digits */
    CHUNK_EXTENSION, /* the rest of the line after the size */
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILER, /* at the start of a line after the last chunk */
    CHUNK_TRAILER_NAME,
    CHUNK_TRAILER_VALUE,
    CHUNK_TRAILER_LF,
    CHUNK_END_LF,
};

/* Reads a byte of the size line. Returns the next state, or -1. */
static int read_size(struct spot_http_chunks *c, char ch)
{
    if (hex_of(ch) >= 0) {
        c->left = c->left << 4 | (unsigned)hex_of(ch);
        return c->n_line++ < SIZE_DIGITS ? CHUNK_SIZE : -1;
    }
    if (!c->n_line)
        return -1;
    return ch == '\r' ? CHUNK_SIZE_LF : ch == ';' ? CHUNK_EXTENSION : -1;
}

static int read_trailer(struct spot_http_chunks *c, char ch)
{
    if (c->n_line++ >= TRAILERS_MAX)
        return -1;
    switch (c->state) {
    case CHUNK_TRAILER:
        return ch == '\r' ? CHUNK_END_LF : is_token_char(ch) ? CHUNK_TRAILER_NAME : -1;
    case CHUNK_TRAILER_NAME:
        return ch == ':' ? CHUNK_TRAILER_VALUE : is_token_char(ch) ? CHUNK_TRAILER_NAME : -1;
    case CHUNK_TRAILER_VALUE:
        return ch == '\r' ? CHUNK_TRAILER_LF : is_value_char(ch) ? CHUNK_TRAILER_VALUE : -1;
    default:
        return ch == '\n' ? CHUNK_TRAILER : -1;
    }
}

/* The state after a byte that is not data. */
static int next_state(struct spot_http_chunks *c, char ch)
{
    switch (c->state) {
    case CHUNK_SIZE:
        return read_size(c, ch);
    case CHUNK_EXTENSION:
        if (ch == '\r')
            return CHUNK_SIZE_LF;
        return is_value_char(ch) && c->n_line++ < LINE_MAX_BYTE ? CHUNK_EXTENSION : -1;
    case CHUNK_SIZE_LF:
        c->n_line = 0;
        return ch != '\n' ? -1 : c->left ? CHUNK_DATA : CHUNK_TRAILER;
    case CHUNK_DATA_CR:
        return ch == '\r' ? CHUNK_DATA_LF : -1;
    case CHUNK_DATA_LF:
        return ch == '\n' ? CHUNK_SIZE : -1;
    default:
        return read_trailer(c, ch);
    }
}

int spot_http_chunks_read(struct spot_http_chunks *c, const char *data, size_t *n,
                          const char **part, size_t *n_part)
{
    const size_t n_there = *n;

    *n_part = 0;
    for (*n = 0; *n < n_there && c->state != CHUNK_DATA; ++*n) {
        if (c->state == CHUNK_END_LF) {
            if (data[*n] != '\n')
                return -1;
            ++*n;
            return 1;
        }
        c->state = next_state(c, data[*n]);
        if (c->state < 0)
            return -1;
    }
    if (c->state != CHUNK_DATA || *n == n_there)
        return 0;
    *part = data + *n;
    *n_part = n_there - *n < c->left ? n_there - *n : (size_t)c->left;
    *n += *n_part;
    c->left -= *n_part;
    c->state = c->left ? CHUNK_DATA : CHUNK_DATA_CR;
    return 0;
}
