/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* ftruncate */
#include "serve/token_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/wire.h"
#include "common/dir_lock.h"
#include "common/hash.h"
#include "common/pio.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"

/* The file begins with these, the hash of the model and the numerics; a record begins with its
 * length and hash. */
static const char name[] = "tokens.log", magic[8] = "SPOTTOK5";
enum { FILE_HEAD = 16 + SPOT_TOKEN_LOG_NUMERICS, RECORD_HEAD = 12 };
enum { ENTRY_REQUEST = 1, ENTRY_TOKEN, ENTRY_END, ENTRY_MODEL, ENTRY_OWNED /* a request */ };
enum { DIR_MAX_BYTE = 4096, SEARCH_BYTE = 1 << 30 };

struct spot_token_log {
    char *path;
    uint64_t model_hash;
    char numerics[SPOT_TOKEN_LOG_NUMERICS];
    bool does_sync;
    int dir_fd; /* holds the lock of the directory */
    int fd;
    uint64_t n_byte;
    struct spot_buf record; /* records not written yet, each with space for its head */
    size_t begin;           /* beginning of the record being built */
};

/* --- reading ------------------------------------------------------------------------ */

/* Entries that the reader does not accept are skipped: they depend on a lost one. */
static int read_entry(struct spot_wire_in *in, const struct spot_token_log_reader *reader)
{
    const uint8_t kind = spot_get_u8(in);
    const uint64_t number = spot_get_u64(in);
    struct spot_request request;
    struct spot_step_token t;
    char dir[DIR_MAX_BYTE];
    uint64_t hash, owner;
    uint32_t choice;

    if (in->bad)
        return -1;
    switch (kind) {
    case ENTRY_MODEL:
        spot_get_text(in, dir, sizeof(dir));
        if (!in->bad && *dir)
            reader->model(reader->user, number, dir);
        return in->bad ? -1 : 0;
    case ENTRY_REQUEST:
    case ENTRY_OWNED:
        memset(&request, 0, sizeof(request));
        hash = spot_get_u64(in);
        owner = kind == ENTRY_OWNED ? spot_get_u64(in) : 0;
        if (spot_request_get(&request, in))
            return -1;
        request.owner = owner;
        reader->request(reader->user, number, hash, &request);
        return 0;
    case ENTRY_TOKEN:
        choice = spot_get_u32(in);
        if (spot_step_token_get(in, &t))
            return -1;
        reader->token(reader->user, number, choice, &t);
        return 0;
    case ENTRY_END:
        reader->end(reader->user, number);
        return 0;
    default:
        return -1;
    }
}

static int read_record(const uint8_t *data, size_t n, const struct spot_token_log_reader *reader)
{
    struct spot_wire_in in = spot_wire_in(data, n);

    while (in.at < in.end)
        if (read_entry(&in, reader))
            return -1;
    return 0;
}

/* The length of the record at `at`; 0 if it does not fit. */
static uint32_t length_at(const uint8_t *data, size_t n, size_t at)
{
    struct spot_wire_in head;
    uint32_t length;

    if (at > n || n - at < RECORD_HEAD)
        return 0;
    head = spot_wire_in(data + at, RECORD_HEAD);
    length = spot_get_u32(&head);
    return length <= n - at - RECORD_HEAD ? length : 0;
}

static bool is_sound(const uint8_t *data, size_t n, size_t at)
{
    const uint32_t length = length_at(data, n, at);
    struct spot_wire_in hash;

    if (!length)
        return false;
    hash = spot_wire_in(data + at + RECORD_HEAD - sizeof(uint64_t), sizeof(uint64_t));
    return spot_hash64(data + at + RECORD_HEAD, length) == spot_get_u64(&hash);
}

/* Position of the first valid record after the damaged one at `at`; n if there is none. The damaged
 * record's length leads there if it is right; else it is searched for, hashing at most `*left`
 * bytes. */
static size_t find_sound(const uint8_t *data, size_t n, size_t at, size_t *left)
{
    const uint32_t told = length_at(data, n, at);

    if (told && is_sound(data, n, at + RECORD_HEAD + told))
        return at + RECORD_HEAD + told;
    for (size_t i = at + 1; i < n; i++) {
        const uint32_t length = length_at(data, n, i);

        if (!length || length > *left || data[i + RECORD_HEAD] < ENTRY_REQUEST ||
            data[i + RECORD_HEAD] > ENTRY_OWNED)
            continue;
        *left -= length;
        if (is_sound(data, n, i))
            return i;
    }
    return n;
}

/* Read the records; returns the end of the last valid one. */
static size_t read_records(const uint8_t *data, size_t n,
                           const struct spot_token_log_reader *reader,
                           struct spot_token_log_damage *damage)
{
    size_t at = FILE_HEAD, left = SEARCH_BYTE;

    while (at < n) {
        size_t next = n;

        if (is_sound(data, n, at)) {
            next = at + RECORD_HEAD + length_at(data, n, at);
            damage->n_bad +=
                read_record(data + at + RECORD_HEAD, next - at - RECORD_HEAD, reader) != 0;
        } else {
            next = find_sound(data, n, at, &left);
            if (next == n)
                break;
            damage->n_bad++;
            damage->n_bad_byte += next - at;
        }
        at = next;
    }
    damage->n_cut = n - at;
    return at;
}

/* True if the first record names the model. */
static bool names_model(const uint8_t *data, size_t n, uint64_t hash)
{
    struct spot_wire_in in = spot_wire_in(data + FILE_HEAD, n - FILE_HEAD);
    char dir[DIR_MAX_BYTE];

    (void)spot_get_u32(&in);
    (void)spot_get_u64(&in);
    while (spot_get_u8(&in) == ENTRY_MODEL && !in.bad) {
        const uint64_t of = spot_get_u64(&in);

        spot_get_text(&in, dir, sizeof(dir));
        if (!in.bad && of == hash)
            return true;
    }
    return false;
}

static int check_head(struct spot_token_log *log, const uint8_t *data, size_t n,
                      struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(data + sizeof(magic), 8);
    const uint64_t hash = spot_get_u64(&in);
    const char *const numerics = (const char *)data + 16;

    if (memcmp(data, magic, sizeof(magic)) != 0)
        return spot_err_set(err, SPOT_EDATA, "%s is not the journal of a server", log->path);
    if (hash != log->model_hash && !names_model(data, n, log->model_hash))
        return spot_err_set(err, SPOT_EDATA,
                            "%s is of another model: this one cannot continue its requests",
                            log->path);
    if (memcmp(numerics, log->numerics, SPOT_TOKEN_LOG_NUMERICS) != 0)
        return spot_err_set(
            err, SPOT_EDATA,
            "%s: its tokens were computed with %.*s, and cannot be continued with %s", log->path,
            SPOT_TOKEN_LOG_NUMERICS, numerics, log->numerics);
    log->model_hash = hash;
    return 0;
}

/* Keep the damaged file under another name; the journal is rewritten. */
static bool keep_aside(const struct spot_token_log *log)
{
    static const char bad[] = "tokens.log.bad";

    return (!unlinkat(log->dir_fd, bad, 0) || errno == ENOENT) &&
           !linkat(log->dir_fd, name, log->dir_fd, bad, 0);
}

static int read_file(struct spot_token_log *log, uint64_t size,
                     const struct spot_token_log_reader *reader,
                     struct spot_token_log_damage *damage, struct spot_err *err)
{
    uint8_t *const data = spot_xcalloc(size, 1);
    const ssize_t n = spot_read_at(log->fd, 0, data, size);
    int rc = -1;

    if (n < 0) {
        spot_err_sys(err, "cannot read %s", log->path);
    } else if (n < FILE_HEAD) {
        rc = spot_err_set(err, SPOT_EDATA, "%s is not the journal of a server: it has %zd bytes",
                          log->path, n);
    } else if (!check_head(log, data, (size_t)n, err)) {
        log->n_byte = read_records(data, (size_t)n, reader, damage);
        damage->is_kept = damage->n_bad && keep_aside(log);
        rc = damage->n_cut && ftruncate(log->fd, (off_t)log->n_byte)
                 ? spot_err_sys(err, "cannot truncate %s", log->path)
                 : 0;
    }
    free(data);
    return rc;
}

/* --- writing ------------------------------------------------------------------------ */

static void begin_record(struct spot_token_log *log)
{
    static const uint8_t head[RECORD_HEAD];

    log->begin = log->record.n;
    spot_buf_add(&log->record, head, sizeof(head));
}

static void begin_anew(struct spot_token_log *log)
{
    log->record.n = 0;
    begin_record(log);
}

static void put_entry(struct spot_token_log *log, uint8_t kind, uint64_t number)
{
    spot_put_u8(&log->record, kind);
    spot_put_u64(&log->record, number);
}

uint64_t spot_token_log_model(const struct spot_token_log *log)
{
    return log->model_hash;
}

void spot_token_log_set_model(struct spot_token_log *log, uint64_t hash)
{
    log->model_hash = hash;
}

void spot_token_log_put_model(struct spot_token_log *log, uint64_t hash, const char *dir)
{
    put_entry(log, ENTRY_MODEL, hash);
    spot_put_text(&log->record, dir);
}

void spot_token_log_put_request(struct spot_token_log *log, uint64_t number, uint64_t model_hash,
                                const struct spot_request *request)
{
    put_entry(log, request->owner ? ENTRY_OWNED : ENTRY_REQUEST, number);
    spot_put_u64(&log->record, model_hash);
    if (request->owner)
        spot_put_u64(&log->record, request->owner);
    spot_request_put(request, &log->record);
}

void spot_token_log_put_token(struct spot_token_log *log, uint64_t number, uint32_t choice,
                              const struct spot_step_token *t)
{
    put_entry(log, ENTRY_TOKEN, number);
    spot_put_u32(&log->record, choice);
    spot_step_token_put(&log->record, t);
}

void spot_token_log_put_end(struct spot_token_log *log, uint64_t number)
{
    put_entry(log, ENTRY_END, number);
}

/* Returns true if the record has any entries. */
static bool seal_record(struct spot_token_log *log)
{
    uint8_t *const record = log->record.data + log->begin;
    const size_t n = log->record.n - log->begin - RECORD_HEAD;
    struct spot_buf head = { 0 };

    if (!n)
        return false;
    spot_put_u32(&head, (uint32_t)n);
    spot_put_u64(&head, spot_hash64(record + RECORD_HEAD, n));
    memcpy(record, head.data, RECORD_HEAD);
    spot_buf_release(&head);
    return true;
}

void spot_token_log_next_record(struct spot_token_log *log)
{
    if (seal_record(log))
        begin_record(log);
}

/* Seal all records; returns their bytes. */
static size_t seal_all(struct spot_token_log *log)
{
    return seal_record(log) ? log->record.n : log->begin;
}

static int sync_file(const struct spot_token_log *log, int fd, struct spot_err *err)
{
    return log->does_sync && fdatasync(fd) ? spot_err_sys(err, "cannot sync %s", log->path) : 0;
}

int spot_token_log_write(struct spot_token_log *log, struct spot_err *err)
{
    const size_t n = seal_all(log);

    if (!n)
        return 0;
    if (spot_write_at(log->fd, log->n_byte, log->record.data, n)) {
        spot_err_sys(err, "cannot write %s", log->path);
        (void)!ftruncate(log->fd, (off_t)log->n_byte);
        return -1;
    }
    if (sync_file(log, log->fd, err))
        return -1;
    log->n_byte += n;
    begin_anew(log);
    return 0;
}

uint64_t spot_token_log_byte(const struct spot_token_log *log)
{
    return log->n_byte;
}

static void put_head(const struct spot_token_log *log, struct spot_buf *out)
{
    spot_buf_add(out, magic, sizeof(magic));
    spot_put_u64(out, log->model_hash);
    spot_buf_add(out, log->numerics, sizeof(log->numerics));
}

/* Write a temporary file, then rename it. */
int spot_token_log_replace(struct spot_token_log *log, struct spot_err *err)
{
    struct spot_buf all = { 0 };
    int fd = -1;

    put_head(log, &all);
    spot_buf_add(&all, log->record.data, seal_all(log));
    if (!spot_safe_replace(log->dir_fd, name, all.data, all.n, true) && !fsync(log->dir_fd))
        fd = spot_safe_open(log->dir_fd, name, O_RDWR, 0);
    if (fd < 0) {
        spot_err_sys(err, "cannot write %s", log->path);
        spot_buf_release(&all);
        return -1;
    }
    spot_close(log->fd);
    log->fd = fd;
    log->n_byte = all.n;
    spot_buf_release(&all);
    begin_anew(log);
    return 0;
}

/* --- whole file ----------------------------------------------------------------------- */

static int open_file(struct spot_token_log *log, bool resumes,
                     const struct spot_token_log_reader *reader,
                     struct spot_token_log_damage *damage, struct spot_err *err)
{
    struct stat st;

    log->fd = spot_safe_open(log->dir_fd, name, O_RDWR, 0);
    if (log->fd < 0 && errno == ENOENT)
        return spot_token_log_replace(log, err);
    if (log->fd < 0 || fstat(log->fd, &st))
        return spot_err_sys(err, "cannot open %s", log->path);
    if (!S_ISREG(st.st_mode))
        return spot_err_set(err, SPOT_EDATA, "%s is not a regular file", log->path);
    if (st.st_mode & 077)
        (void)fchmod(log->fd, 0600); /* prompts are private */
    if (!resumes)
        return spot_err_set(err, SPOT_EUSAGE, "%s exists: --resume continues its requests",
                            log->path);
    return read_file(log, (uint64_t)st.st_size, reader, damage, err);
}

/* Lock the directory before reading anything, since a running server may be writing there. */
static int take_dir(struct spot_token_log *log, const char *dir, struct spot_err *err)
{
    if (spot_dir_make(dir, err))
        return -1;
    log->dir_fd = spot_dir_lock(dir, err);
    return log->dir_fd < 0 ? -1 : 0;
}

struct spot_token_log *spot_token_log_open(const char *dir, uint64_t model_hash,
                                           const char *numerics, bool resumes, bool does_sync,
                                           const struct spot_token_log_reader *reader,
                                           struct spot_token_log_damage *damage,
                                           struct spot_err *err)
{
    struct spot_token_log *const log = spot_xcalloc(1, sizeof(*log));

    *damage = (struct spot_token_log_damage){ .n_cut = 0 };
    log->path = spot_xpath(dir, name);
    log->model_hash = model_hash;
    snprintf(log->numerics, sizeof(log->numerics), "%s", numerics);
    log->does_sync = does_sync;
    log->fd = log->dir_fd = -1;
    begin_record(log);
    if (!take_dir(log, dir, err) && !open_file(log, resumes, reader, damage, err))
        return log;
    spot_token_log_close(log);
    return NULL;
}

void spot_token_log_close(struct spot_token_log *log)
{
    if (!log)
        return;
    spot_close(log->fd);
    spot_close(log->dir_fd);
    spot_buf_release(&log->record);
    free(log->path);
    free(log);
}
