/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* mkostemp, pread */
#include "text/corpus.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/le.h"
#include "common/pio.h"
#include "common/temp.h"
#include "common/xalloc.h"

enum { BLOCK = 1 << 18, HEADER = 1024, HEADER_MAGIC = 20240520 };

int spot_corpus_kind(const char *name, int *token_byte, struct spot_err *err)
{
    static const struct {
        const char *name;
        int byte;
    } kind[] = { { "bytes", 1 }, { "u16", 2 }, { "u32", 4 } };

    for (size_t i = 0; i < sizeof(kind) / sizeof(kind[0]); i++)
        if (!strcmp(name, kind[i].name)) {
            *token_byte = kind[i].byte;
            return 0;
        }
    return spot_err_set(err, SPOT_EUSAGE, "--tokens must be bytes, u16 or u32, got '%s'", name);
}

/* --- reading --------------------------------------------------------------- */

/* Reads bytes [at, at + n); an earlier end of the file is an error. */
static int read_at(const struct spot_corpus *c, size_t at, size_t n, uint8_t *data,
                   struct spot_err *err)
{
    ssize_t got;

    if (c->fd < 0) {
        memcpy(data, c->memory + at, n);
        return 0;
    }
    got = spot_read_at(c->fd, at, data, n);
    if (got < 0)
        return spot_err_sys(err, "cannot read '%s'", c->source);
    if ((size_t)got < n)
        return spot_err_set(err, SPOT_EDATA, "%s: was truncated: it ends at byte %zu", c->source,
                            at + (size_t)got);
    return 0;
}

static int too_long(const char *source, struct spot_err *err)
{
    return spot_err_set(err, SPOT_EDATA,
                        "%s: more than %d MiB; input that is not a regular file is kept in memory; "
                        "put it into a file",
                        source, SPOT_CORPUS_MEMORY_MAX >> 20);
}

/* Room for one more block. Out of memory is an error here, not an abort: reading an endless device
 * under a limit is reported. */
static int make_room(struct spot_corpus *c, size_t n_byte, size_t *cap, struct spot_err *err)
{
    uint8_t *more;

    if (n_byte > SPOT_CORPUS_MEMORY_MAX)
        return too_long(c->source, err);
    if (n_byte + BLOCK <= *cap)
        return 0;
    *cap = 2 * (n_byte + BLOCK);
    more = realloc(c->memory, *cap);
    if (!more)
        return spot_err_sys(err, "cannot keep %s in memory after %zu MiB", c->source, n_byte >> 20);
    c->memory = more;
    return 0;
}

/* Reads an input that cannot be read again into memory. */
static int read_all(struct spot_corpus *c, size_t *n_byte, struct spot_err *err)
{
    size_t cap = 0;
    ssize_t got;

    *n_byte = 0;
    do {
        if (make_room(c, *n_byte, &cap, err))
            return -1;
        got = read(c->fd, c->memory + *n_byte, BLOCK);
        if (got > 0)
            *n_byte += (size_t)got;
    } while (got > 0 || (got < 0 && errno == EINTR));
    if (got < 0)
        return spot_err_sys(err, "cannot read '%s'", c->source);
    return 0;
}

/* The part that contains token *at; *at becomes the index within it. */
static const struct spot_corpus *part_at(const struct spot_corpus *c, size_t *at)
{
    const struct spot_corpus *part = c->part;

    if (!part)
        return c;
    while (*at >= part->n_token && part + 1 < c->part + c->n_part)
        *at -= part++->n_token;
    return part;
}

static int read_part(const struct spot_corpus *c, size_t at, size_t n, uint32_t *token,
                     struct spot_err *err)
{
    const size_t byte = (size_t)c->token_byte;
    /* reads the packed tokens to the end of the output, so that unpacking in place never overwrites
     * unread ones */
    uint8_t *const raw = (uint8_t *)token + n * (sizeof(*token) - byte);

    if (read_at(c, c->begin + at * byte, n * byte, raw, err))
        return -1;
    for (size_t i = 0; i < n; i++)
        token[i] = (uint32_t)spot_le_get(raw + i * byte, c->token_byte);
    return 0;
}

int spot_corpus_read(const struct spot_corpus *c, size_t at, size_t n, uint32_t *token,
                     struct spot_err *err)
{
    assert(at <= c->n_token && n <= c->n_token - at);
    for (size_t done = 0; done < n;) {
        size_t from = at + done;
        const struct spot_corpus *const part = part_at(c, &from);
        const size_t left = part->n_token - from, take = n - done < left ? n - done : left;

        if (read_part(part, from, take, token + done, err))
            return -1;
        done += take;
    }
    return 0;
}

/* --- opening ---------------------------------------------------------------- */

static int skip_header(struct spot_corpus *c, size_t n_byte, struct spot_err *err)
{
    uint8_t head[12];

    if (c->token_byte != 2 || n_byte < HEADER)
        return 0;
    if (read_at(c, 0, sizeof(head), head, err))
        return -1;
    if (spot_le_get(head, 4) != HEADER_MAGIC)
        return 0;
    if (spot_le_get(head + 4, 4) != 1)
        return spot_err_set(err, SPOT_EDATA, "%s: token file of version %llu, expected 1",
                            c->source, (unsigned long long)spot_le_get(head + 4, 4));
    if (spot_le_get(head + 8, 4) != (n_byte - HEADER) / 2)
        return spot_err_set(err, SPOT_EDATA, "%s: the header counts %llu tokens, there are %zu",
                            c->source, (unsigned long long)spot_le_get(head + 8, 4),
                            (n_byte - HEADER) / 2);
    c->begin = HEADER;
    return 0;
}

/* Index of the first of n tokens that is not in the vocabulary; n if all are. */
static size_t first_foreign(const uint32_t *token, size_t n, int64_t vocab)
{
    size_t i = 0;

    while (i < n && token[i] < vocab)
        i++;
    return i;
}

static int tell_foreign(const struct spot_corpus *c, size_t at, uint32_t token, int64_t vocab,
                        struct spot_err *err)
{
    const struct spot_corpus *const part = part_at(c, &at);

    return spot_err_set(err, SPOT_EDATA, "%s: token %zu (byte %zu) is %u, the vocabulary has %lld",
                        part->source, at, part->begin + at * (size_t)part->token_byte,
                        (unsigned)token, (long long)vocab);
}

/* The hash of all tokens; each must be below vocab. */
static int read_through(struct spot_corpus *c, int64_t vocab, struct spot_err *err)
{
    struct spot_hash_stream *hash = spot_hash_stream_new();
    uint32_t *const block = spot_xcalloc(BLOCK, sizeof(*block));
    int rc = 0;

    for (size_t at = 0; !rc && at < c->n_token; at += BLOCK) {
        const size_t n = c->n_token - at < BLOCK ? c->n_token - at : BLOCK;
        size_t i;

        rc = spot_corpus_read(c, at, n, block, err);
        i = rc ? n : first_foreign(block, n, vocab);
        if (i < n)
            rc = tell_foreign(c, at + i, block[i], vocab, err);
        for (i = 0; !rc && c->token_byte == 1 && i < n; i++)
            ((uint8_t *)block)[i] = (uint8_t)block[i];
        spot_hash_stream_add(hash, block, rc ? 0 : n * (c->token_byte == 1 ? 1 : sizeof(*block)));
    }
    c->xxh3 = spot_hash_stream_64(hash);
    spot_hash_stream_free(hash);
    free(block);
    return rc;
}

/* Checks whether the file can be read at any offset, and gets its size. */
static int look_at(struct spot_corpus *c, size_t *n_byte, struct spot_err *err)
{
    struct stat st;

    if (fstat(c->fd, &st))
        return spot_err_sys(err, "cannot read '%s'", c->source);
    if (S_ISREG(st.st_mode) && lseek(c->fd, 0, SEEK_CUR) == 0) {
        *n_byte = (size_t)st.st_size;
        return 0;
    }
    if (read_all(c, n_byte, err))
        return -1;
    if (c->fd != STDIN_FILENO)
        close(c->fd);
    c->fd = -1;
    return 0;
}

/* Opens a part without reading it. */
static int open_part(struct spot_corpus *c, const char *path, int token_byte, struct spot_err *err)
{
    const bool is_stdin = !strcmp(path, "-");
    size_t n_byte = 0;

    assert(token_byte == 1 || token_byte == 2 || token_byte == 4);
    *c = (struct spot_corpus){ .source = is_stdin ? "stdin" : path, .token_byte = token_byte };
    c->fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (c->fd < 0)
        return spot_err_sys(err, "cannot open '%s'", path);
    if (look_at(c, &n_byte, err) || skip_header(c, n_byte, err))
        return -1;
    if ((n_byte - c->begin) % (size_t)token_byte)
        return spot_err_set(err, SPOT_EDATA,
                            "%s: %zu bytes are not a whole number of %d byte tokens", c->source,
                            n_byte - c->begin, token_byte);
    c->n_token = (n_byte - c->begin) / (size_t)token_byte;
    return 0;
}

int spot_corpus_open(struct spot_corpus *c, const char *path, int token_byte, int64_t vocab,
                     struct spot_err *err)
{
    return open_part(c, path, token_byte, err) ? -1 : read_through(c, vocab, err);
}

/* --- texts ------------------------------------------------------------------ */

/* The output of tokens. */
struct text {
    FILE *tokens;
    const char *source;
    size_t n;
};

static int keep(void *user, const uint32_t *id, size_t n, struct spot_err *err)
{
    struct text *const t = user;

    t->n += n;
    return fwrite(id, sizeof(*id), n, t->tokens) == n
               ? 0
               : spot_err_sys(err, "cannot keep the tokens of %s", t->source);
}

/* An unnamed temporary file; NULL with *err. */
static FILE *open_nameless(struct spot_err *err)
{
    char *const name = spot_temp_template("spot-tokens");
    const int fd = mkostemp(name, O_CLOEXEC);
    FILE *const file = fd < 0 ? NULL : fdopen(fd, "w+e");

    if (fd >= 0)
        unlink(name);
    if (!file) {
        spot_err_sys(err, "cannot make a file for tokens like '%s'", name);
        if (fd >= 0)
            close(fd);
    }
    free(name);
    return file;
}

static int open_text(struct spot_corpus *c, const char *path, struct spot_bpe *bpe,
                     struct spot_err *err)
{
    const bool is_stdin = !strcmp(path, "-");
    struct text text = { .source = is_stdin ? "stdin" : path };
    FILE *in;
    int rc;

    *c = (struct spot_corpus){ .source = text.source, .token_byte = 4, .fd = -1 };
    in = is_stdin ? stdin : fopen(path, "re");
    if (!in)
        return spot_err_sys(err, "cannot open '%s'", path);
    text.tokens = open_nameless(err);
    rc = text.tokens ? spot_bpe_stream(bpe, in, c->source, false, keep, &text, err) : -1;
    if (!rc && fflush(text.tokens))
        rc = spot_err_sys(err, "cannot keep the tokens of %s", text.source);
    if (!rc && (c->fd = fcntl(fileno(text.tokens), F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) < 0)
        rc = spot_err_sys(err, "cannot keep the tokens of %s", text.source);
    if (text.tokens)
        fclose(text.tokens);
    if (!is_stdin)
        fclose(in);
    c->n_token = text.n;
    return rc;
}

/* --- several files ---------------------------------------------------------------- */

static int open_any(struct spot_corpus *c, const char *path, struct spot_bpe *bpe, int token_byte,
                    struct spot_err *err)
{
    return bpe ? open_text(c, path, bpe, err) : open_part(c, path, token_byte, err);
}

static int check_stdin(const char *const *path, size_t n_path, struct spot_err *err)
{
    size_t n = 0;

    for (size_t i = 0; i < n_path; i++)
        n += !strcmp(path[i], "-");
    return n < 2 ? 0
                 : spot_err_set(err, SPOT_EUSAGE, "standard input can be read once, not %zu times",
                                n);
}

static int open_parts(struct spot_corpus *c, const char *const *path, size_t n_path,
                      struct spot_bpe *bpe, int token_byte, struct spot_err *err)
{
    const size_t n = strlen(path[0]) + 32;
    int rc = check_stdin(path, n_path, err);

    c->label = spot_xcalloc(n, 1);
    snprintf(c->label, n, "%s and %zu more", path[0], n_path - 1);
    c->source = c->label;
    c->part = spot_xcalloc(n_path, sizeof(*c->part));
    for (size_t i = 0; !rc && i < n_path; i++) {
        rc = open_any(&c->part[i], path[i], bpe, token_byte, err);
        c->n_token += c->part[i].n_token;
        c->n_part++;
    }
    return rc;
}

int spot_corpus_open_all(struct spot_corpus *c, const char *const *path, size_t n_path,
                         struct spot_bpe *bpe, int token_byte, int64_t vocab, struct spot_err *err)
{
    const int width = bpe ? 4 : token_byte;

    *c = (struct spot_corpus){ .fd = -1, .token_byte = width };
    if (n_path == 1 ? open_any(c, path[0], bpe, token_byte, err)
                    : open_parts(c, path, n_path, bpe, token_byte, err))
        return -1;
    return read_through(c, bpe ? spot_bpe_vocab(bpe) : vocab, err);
}

void spot_corpus_release(struct spot_corpus *c)
{
    for (size_t i = 0; i < c->n_part; i++)
        spot_corpus_release(&c->part[i]);
    free(c->part);
    if (c->fd > STDIN_FILENO)
        close(c->fd);
    free(c->memory);
    free(c->label);
    *c = (struct spot_corpus){ .fd = -1 };
}
