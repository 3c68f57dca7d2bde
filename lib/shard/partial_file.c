/* SPDX-License-Identifier: MIT */
#include "shard/partial_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/le.h"
#include "common/out.h"
#include "common/pio.h"
#include "common/xalloc.h"
#include "shard/part_journal.h"

/* State of a chunk. WRITING: a thread is writing it; a second copy is dropped. */
enum { MISSING, WRITING, HERE };

struct spot_partial {
    char *path, *part, *journal;
    int fd, journal_fd;
    uint64_t stream_id, n_header;
    struct spot_st st;
    struct spot_chunk_map map;
    struct spot_partial_options options;

    /* One thread writes at a time: the kernel lets no two write to a file, and a thread that waits
     * there spins on a processor which a sender on this machine could use. */
    pthread_mutex_t write_lock;
    pthread_mutex_t lock; /* guards everything below */
    uint8_t *state;       /* [chunks] */
    uint64_t *hash;       /* [chunks], of received ones */
    uint64_t n_missing, have_byte;
    struct spot_part_journal_entry *unsynced;
    size_t n_unsynced, cap_unsynced;
    uint64_t unsynced_byte, journal_byte;
    double synced_s;
};

static char *with_suffix(const char *path, const char *suffix)
{
    const size_t n = strlen(path) + strlen(suffix) + 1;
    char *text = spot_xcalloc(n, 1);

    snprintf(text, n, "%s%s", path, suffix);
    return text;
}

static int write_at(int fd, const void *data, size_t n, uint64_t at, const char *path,
                    struct spot_err *err)
{
    return spot_write_at(fd, at, data, n) ? spot_err_sys(err, "cannot write '%s'", path) : 0;
}

/* Why an existing file is not a regular file of this user with one name; NULL: it is. */
static const char *why_not_ours(int fd)
{
    struct stat st;

    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        return "is not a regular file";
    if (st.st_uid != geteuid())
        return "belongs to another user";
    return st.st_nlink > 1 ? "is another file too (a hard link)" : NULL;
}

/* Opens a file of our own beside the target: no link, pipe, or file created by another user. */
static int open_beside(const char *path, struct spot_err *err)
{
    enum { HOW = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };
    int fd = open(path, HOW | O_CREAT | O_EXCL, 0666);
    const char *why;

    if (fd >= 0 || errno != EEXIST)
        return fd < 0 ? spot_err_sys(err, "cannot open '%s'", path) : fd;
    fd = open(path, HOW | O_CREAT, 0666); /* it may have been removed meanwhile */
    if (fd < 0)
        return errno == ELOOP
                   ? spot_err_set(err, SPOT_ESYS, "'%s' is a symbolic link: remove it", path)
                   : spot_err_sys(err, "cannot open '%s'", path);
    why = why_not_ours(fd);
    if (!why)
        return fd;
    close(fd);
    return spot_err_set(err, SPOT_ESYS, "'%s' %s: remove it", path, why);
}

/* True if fd is still the file of that name: another process, such as the previous holder of the
 * lock, may have removed or replaced it. */
static bool is_current(int fd, const char *path)
{
    struct stat ours, named;

    return !fstat(fd, &ours) && !lstat(path, &named) && ours.st_dev == named.st_dev &&
           ours.st_ino == named.st_ino;
}

/* Opens `path` with an exclusive lock; -1 with *err. */
static int open_locked(const char *path, struct spot_err *err)
{
    for (;;) {
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
        const int fd = open_beside(path, err);

        if (fd < 0)
            return -1;
        if (fcntl(fd, F_SETLK, &lock)) {
            spot_err_sys(err, "'%s' is in use by another process", path);
            close(fd);
            return -1;
        }
        if (is_current(fd, path))
            return fd;
        close(fd);
    }
}

/* One receiver per file. The part has its own lock, so that a process that removed the journal of a
 * running receiver can create another journal, but cannot lock the part. */
static int open_files(struct spot_partial *p, struct spot_err *err)
{
    p->journal_fd = open_locked(p->journal, err);
    if (p->journal_fd < 0)
        return -1;
    p->fd = open_locked(p->part, err);
    return p->fd < 0 ? -1 : 0;
}

/* Refuses files that would fill the disk. */
static int check_room(const struct spot_partial *p, struct spot_err *err)
{
    const uint64_t need = p->n_header + p->st.data_byte;
    struct statvfs fs;
    struct stat st;
    uint64_t room;

    if (fstatvfs(p->fd, &fs) || fstat(p->fd, &st))
        return spot_err_sys(err, "cannot read '%s'", p->part);
    room = (uint64_t)fs.f_bavail * fs.f_frsize + (uint64_t)st.st_blocks * 512;
    if (room >= need)
        return 0;
    errno = ENOSPC;
    return spot_err_sys(err, "'%s' needs %llu bytes, the disk has %llu", p->path,
                        (unsigned long long)need, (unsigned long long)room);
}

static void mark(struct spot_partial *p, uint32_t seq, uint64_t hash, uint32_t raw_byte)
{
    assert(p->state[seq] != HERE);
    p->state[seq] = HERE;
    p->hash[seq] = hash;
    p->n_missing--;
    p->have_byte += raw_byte;
}

/* Accepts an entry of an old journal only if its hash matches the bytes of the part. */
static void recheck(struct spot_partial *p, const struct spot_part_journal_entry *entry,
                    size_t n_entry)
{
    unsigned char *raw = malloc(p->map.chunk_byte);

    for (size_t i = 0; i < n_entry && raw; i++) {
        struct spot_chunk chunk;

        if (p->state[entry[i].seq] == HERE)
            continue;
        if (p->options.at_work)
            p->options.at_work(p->options.user);
        spot_chunk_map_get(&p->map, entry[i].seq, &chunk);
        if (spot_read_at(p->fd, p->n_header + chunk.raw_off, raw, chunk.raw_byte) ==
                (ssize_t)chunk.raw_byte &&
            spot_hash64(raw, chunk.raw_byte) == entry[i].hash)
            mark(p, entry[i].seq, entry[i].hash, chunk.raw_byte);
    }
    free(raw);
}

static int start_journal(struct spot_partial *p, struct spot_err *err)
{
    unsigned char head[SPOT_PART_JOURNAL_HEAD];

    spot_part_journal_head(p->stream_id, spot_chunk_map_count(&p->map), head);
    p->journal_byte = sizeof(head);
    if (ftruncate(p->journal_fd, 0))
        return spot_err_sys(err, "cannot write '%s'", p->journal);
    return write_at(p->journal_fd, head, sizeof(head), 0, p->journal, err);
}

/* Resumes an earlier attempt; a journal of another stream is discarded. */
static int replay(struct spot_partial *p, struct spot_err *err)
{
    const uint64_t n_chunk = spot_chunk_map_count(&p->map);
    const uint64_t limit = SPOT_PART_JOURNAL_HEAD + 2 * (n_chunk + 16) * SPOT_PART_JOURNAL_RECORD;
    struct spot_part_journal_entry *entry = NULL;
    unsigned char *bytes = NULL;
    size_t n_entry = 0, n_good = 0;
    struct stat st;

    if (fstat(p->journal_fd, &st))
        return spot_err_sys(err, "cannot read '%s'", p->journal);
    if (st.st_size > 0 && (uint64_t)st.st_size <= limit) {
        bytes = spot_xcalloc((size_t)st.st_size, 1);
        entry = spot_xcalloc((size_t)st.st_size / SPOT_PART_JOURNAL_RECORD + 1, sizeof(*entry));
        if (spot_read_at(p->journal_fd, 0, bytes, (size_t)st.st_size) == (ssize_t)st.st_size)
            n_good = spot_part_journal_replay(bytes, (size_t)st.st_size, p->stream_id, n_chunk,
                                              entry, &n_entry);
        recheck(p, entry, n_entry);
    }
    free(bytes);
    free(entry);
    if (!n_good)
        return start_journal(p, err);
    p->journal_byte = n_good;
    if (ftruncate(p->journal_fd, (off_t)n_good))
        return spot_err_sys(err, "cannot write '%s'", p->journal);
    return 0;
}

static int open_partial(struct spot_partial *p, const void *header, struct spot_err *err)
{
    if (open_files(p, err) || check_room(p, err))
        return -1;
    if (write_at(p->fd, header, p->n_header, 0, p->part, err))
        return -1;
    if (ftruncate(p->fd, (off_t)(p->n_header + p->st.data_byte)))
        return spot_err_sys(err, "cannot write '%s'", p->part);
    return replay(p, err);
}

static struct spot_partial *new_partial(const char *path, const struct spot_stream_info *info,
                                        size_t n_header, const struct spot_partial_options *options)
{
    struct spot_partial *p = spot_xcalloc(1, sizeof(*p));

    p->fd = p->journal_fd = -1;
    p->path = spot_xstrdup(path);
    p->part = with_suffix(path, ".part");
    p->journal = with_suffix(path, ".journal");
    p->stream_id = info->stream_id;
    p->n_header = n_header;
    p->options = *options;
    if (!p->options.sync_byte)
        p->options.sync_byte = 64 << 20;
    if (p->options.sync_s <= 0)
        p->options.sync_s = 0.2;
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->write_lock, NULL);
    return p;
}

/* Checks that files can be created in the directory. */
static int check_directory(const char *path, struct spot_err *err)
{
    const char *const slash = strrchr(path, '/');
    char *const dir = spot_xstrdup(slash ? path : ".");
    int rc = 0;

    if (slash)
        dir[slash == path ? 1 : slash - path] = '\0';
    if (access(dir, W_OK | X_OK))
        rc = spot_err_sys(err, "cannot write '%s'", path);
    free(dir);
    return rc;
}

int spot_partial_check(const char *path, struct spot_err *err)
{
    if (!*path)
        return spot_err_set(err, SPOT_EUSAGE, "the name of an output file is empty");
    if (!spot_out_is_special(path))
        return check_directory(path, err);
    return spot_err_set(err, SPOT_ESYS, "cannot replace '%s': not a regular file", path);
}

static int check_length(uint64_t n_json, size_t n_header, const char *path, struct spot_err *err)
{
    if (n_json == n_header - SPOT_ST_PREFIX_BYTE)
        return 0;
    return spot_err_set(err, SPOT_EDATA, "%s: safetensors header of %llu bytes in %zu", path,
                        (unsigned long long)n_json, n_header - SPOT_ST_PREFIX_BYTE);
}

struct spot_partial *spot_partial_open(const char *path, const struct spot_stream_info *info,
                                       const void *header, size_t n_header,
                                       const struct spot_partial_options *options,
                                       struct spot_err *err)
{
    struct spot_partial *p = new_partial(path, info, n_header, options);
    uint64_t n_json;

    assert(n_header >= SPOT_ST_PREFIX_BYTE);
    if (spot_partial_check(path, err) || spot_st_prefix(header, path, &n_json, err) ||
        check_length(n_json, n_header, path, err) ||
        spot_st_parse(&p->st, (const char *)header + SPOT_ST_PREFIX_BYTE,
                      n_header - SPOT_ST_PREFIX_BYTE, path, err) ||
        spot_chunk_map_init(&p->map, &p->st, info->chunk_byte, err)) {
        spot_partial_free(p);
        return NULL;
    }
    p->n_missing = spot_chunk_map_count(&p->map);
    p->state = spot_xcalloc((size_t)p->n_missing, sizeof(*p->state));
    p->hash = spot_xcalloc((size_t)p->n_missing, sizeof(*p->hash));
    p->synced_s = spot_clock_s();
    if (open_partial(p, header, err)) {
        spot_partial_free(p);
        return NULL;
    }
    return p;
}

/* Syncs data first, then the records about it. */
static int sync_all(struct spot_partial *p, struct spot_err *err)
{
    const size_t n = p->n_unsynced * SPOT_PART_JOURNAL_RECORD;
    unsigned char *records;
    int rc;

    if (!p->n_unsynced)
        return 0;
    if (fdatasync(p->fd))
        return spot_err_sys(err, "cannot sync '%s'", p->part);
    records = spot_xcalloc(n, 1);
    for (size_t i = 0; i < p->n_unsynced; i++)
        spot_part_journal_record(p->stream_id, p->unsynced[i],
                                 records + i * SPOT_PART_JOURNAL_RECORD);
    rc = write_at(p->journal_fd, records, n, p->journal_byte, p->journal, err);
    free(records);
    if (rc)
        return -1;
    if (fdatasync(p->journal_fd))
        return spot_err_sys(err, "cannot sync '%s'", p->journal);
    p->journal_byte += n;
    p->n_unsynced = 0;
    p->unsynced_byte = 0;
    p->synced_s = spot_clock_s();
    return 0;
}

void spot_partial_free(struct spot_partial *p)
{
    if (!p)
        return;
    (void)sync_all(p, NULL); /* what is on disk need not be sent again */
    spot_close(p->fd);
    spot_close(p->journal_fd);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->write_lock);
    spot_chunk_map_release(&p->map);
    spot_st_release(&p->st);
    free(p->state);
    free(p->hash);
    free(p->unsynced);
    free(p->path);
    free(p->part);
    free(p->journal);
    free(p);
}

const struct spot_st *spot_partial_st(const struct spot_partial *p)
{
    return &p->st;
}

const struct spot_chunk_map *spot_partial_map(const struct spot_partial *p)
{
    return &p->map;
}

bool spot_partial_has(struct spot_partial *p, uint64_t seq)
{
    bool here;

    pthread_mutex_lock(&p->lock);
    here = p->state[seq] == HERE;
    pthread_mutex_unlock(&p->lock);
    return here;
}

uint64_t spot_partial_missing(struct spot_partial *p)
{
    uint64_t n;

    pthread_mutex_lock(&p->lock);
    n = p->n_missing;
    pthread_mutex_unlock(&p->lock);
    return n;
}

uint64_t spot_partial_have_byte(struct spot_partial *p)
{
    uint64_t n;

    pthread_mutex_lock(&p->lock);
    n = p->have_byte;
    pthread_mutex_unlock(&p->lock);
    return n;
}

/* Records a written chunk; makes batches of them durable. */
static int note(struct spot_partial *p, const struct spot_chunk *chunk, struct spot_err *err)
{
    mark(p, chunk->seq, chunk->hash, chunk->raw_byte);
    p->unsynced =
        spot_xgrow(p->unsynced, &p->cap_unsynced, p->n_unsynced + 1, sizeof(*p->unsynced));
    p->unsynced[p->n_unsynced++] = (struct spot_part_journal_entry){ chunk->seq, chunk->hash };
    p->unsynced_byte += chunk->raw_byte;
    if (p->unsynced_byte < p->options.sync_byte && spot_clock_s() - p->synced_s < p->options.sync_s)
        return 0;
    return sync_all(p, err);
}

/* Writers of one file take turns in the kernel as well, but spin there. */
static int write_spans(struct spot_partial *p, const struct spot_spans *spans, uint64_t at,
                       struct spot_err *err)
{
    int rc = 0;

    pthread_mutex_lock(&p->write_lock);
    for (size_t i = 0; i < spans->n && !rc; i++) {
        rc = write_at(p->fd, spans->span[i].at, spans->span[i].n, at, p->part, err);
        at += spans->span[i].n;
    }
    pthread_mutex_unlock(&p->write_lock);
    return rc;
}

int spot_partial_put(struct spot_partial *p, const struct spot_chunk *chunk, const void *raw,
                     struct spot_err *err)
{
    struct spot_span all = { raw, chunk->raw_byte };

    return spot_partial_put_spans(
        p, chunk, &(struct spot_spans){ .span = &all, .n = 1, .n_byte = all.n }, err);
}

int spot_partial_put_spans(struct spot_partial *p, const struct spot_chunk *chunk,
                           const struct spot_spans *raw, struct spot_err *err)
{
    uint8_t before;
    int rc;

    pthread_mutex_lock(&p->lock);
    before = p->state[chunk->seq];
    if (before == MISSING) {
        p->state[chunk->seq] = WRITING;
        p->hash[chunk->seq] = chunk->hash;
    }
    rc = p->hash[chunk->seq] == chunk->hash ? 0 : -1;
    pthread_mutex_unlock(&p->lock);
    if (rc)
        return spot_err_set(err, SPOT_EDATA,
                            "chunk %u differs from the one received before: the source has "
                            "changed; remove '%s' to start over",
                            chunk->seq, p->part);
    if (before != MISSING)
        return 0;
    rc = write_spans(p, raw, p->n_header + chunk->raw_off, err);
    pthread_mutex_lock(&p->lock);
    if (rc)
        p->state[chunk->seq] = MISSING;
    else
        rc = note(p, chunk, err);
    pthread_mutex_unlock(&p->lock);
    return rc;
}

/* The hash of a tensor is that of its chunks' hashes, as in the tail of a stream. */
static struct spot_hash128 tensor_hash(const struct spot_partial *p, size_t tensor)
{
    struct spot_hash_stream *stream = spot_hash_stream_new();
    struct spot_hash128 hash;

    for (uint64_t i = p->map.first[tensor]; i < p->map.first[tensor + 1]; i++) {
        unsigned char word[8];

        spot_le_put(word, p->hash[i], 8);
        spot_hash_stream_add(stream, word, 8);
    }
    hash = spot_hash_stream_128(stream);
    spot_hash_stream_free(stream);
    return hash;
}

/* Removes a file unless another receiver has replaced it. */
static void remove_ours(int fd, const char *path)
{
    if (is_current(fd, path))
        unlink(path);
}

bool spot_partial_agrees(struct spot_partial *p, const struct spot_hash128 *hash)
{
    bool same = true;

    pthread_mutex_lock(&p->lock);
    assert(!p->n_missing);
    for (size_t i = 0; i < p->st.n_tensor && same; i++)
        same = spot_hash128_equal(tensor_hash(p, i), hash[i]);
    if (!same) {
        p->n_unsynced = 0;
        remove_ours(p->journal_fd, p->journal);
        remove_ours(p->fd, p->part);
    }
    pthread_mutex_unlock(&p->lock);
    return same;
}

/* Detects another receiver where locks have no effect, as on some network disks: it would have
 * replaced our journal. */
static int check_current(const struct spot_partial *p, struct spot_err *err)
{
    const char *const lost = !is_current(p->fd, p->part)              ? p->part
                             : !is_current(p->journal_fd, p->journal) ? p->journal
                                                                      : NULL;

    return lost ? spot_err_set(err, SPOT_ESYS, "'%s' was removed or replaced while it was written",
                               lost)
                : 0;
}

/* Renames, and then checks the file in place, since the name could change between check and
 * rename. */
static int put_in_place(const struct spot_partial *p, struct spot_err *err)
{
    if (rename(p->part, p->path))
        return spot_err_sys(err, "cannot rename '%s' into place", p->path);
    if (!is_current(p->fd, p->path))
        return spot_err_set(err, SPOT_ESYS, "'%s' was removed or replaced while it was written",
                            p->path);
    return spot_sync_directory(p->path, err);
}

int spot_partial_commit(struct spot_partial *p, struct spot_err *err)
{
    int rc;

    pthread_mutex_lock(&p->lock);
    assert(!p->n_missing);
    rc = sync_all(p, err);
    if (!rc && fsync(p->fd))
        rc = spot_err_sys(err, "cannot sync '%s'", p->part);
    if (!rc)
        rc = check_current(p, err);
    if (!rc)
        rc = put_in_place(p, err);
    if (!rc)
        remove_ours(p->journal_fd, p->journal);
    pthread_mutex_unlock(&p->lock);
    return rc;
}
