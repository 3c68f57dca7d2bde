/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* openat, dirfd */
#include "host/state_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/pio.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"

enum { NAME_MAX_BYTE = 80, RECORD_BYTE_MAX = 256 << 20 };

struct spot_state_store {
    int chunk_fd, held_fd; /* open directories */
    uint64_t limit_byte, used_byte;
    bool is_durable;
    size_t n_damaged;
    struct spot_state_record *held; /* [n_held] */
    size_t n_held, cap_held;
    const struct spot_state_record *coming;
    char (*wanted)[SPOT_HASH_HEX]; /* [n_wanted] sorted, during a sweep */
    size_t n_wanted;
};

/* --- files ----------------------------------------------------------------------------- */

static int sync_dir(const struct spot_state_store *s, int fd)
{
    return s->is_durable && fsync(fd) ? -1 : 0;
}

static int open_below(int dir_fd, const char *dir, const char *name, struct spot_err *err)
{
    const int fd = spot_safe_make_dir(dir_fd, name);

    return fd < 0 ? spot_err_sys(err, "cannot open '%.400s/%s'", dir, name) : fd;
}

/* Call on_name for each name, until a call returns nonzero. */
static int each_name(int dir_fd, int (*on_name)(struct spot_state_store *s, const char *name),
                     struct spot_state_store *s)
{
    const int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    int rc = 0;

    if (!dir && fd >= 0)
        close(fd);
    while (dir && !rc && (entry = readdir(dir)))
        if (*entry->d_name != '.')
            rc = on_name(s, entry->d_name);
    if (dir)
        closedir(dir);
    return dir ? rc : -1;
}

/* --- chunks ---------------------------------------------------------------------------- */

bool spot_state_store_has(const struct spot_state_store *s, struct spot_hash128 hash)
{
    char hex[SPOT_HASH_HEX];

    spot_hash128_hex(hash, hex);
    return !faccessat(s->chunk_fd, hex, F_OK, 0);
}

static bool is_piece(const struct spot_state_piece *piece, const void *data)
{
    return spot_hash128_equal(spot_hash128(data, piece->n_byte), piece->hash);
}

/* Store a chunk; `data` has the hash of the piece. */
static int keep(struct spot_state_store *s, const struct spot_state_piece *piece, const void *data,
                struct spot_err *err)
{
    char hex[SPOT_HASH_HEX];

    if (spot_state_store_has(s, piece->hash))
        return 0;
    if (piece->n_byte > s->limit_byte || s->used_byte > s->limit_byte - piece->n_byte)
        return spot_err_set(err, SPOT_ESYS, "committed states would need more than %llu bytes",
                            (unsigned long long)s->limit_byte);
    spot_hash128_hex(piece->hash, hex);
    if (spot_safe_replace(s->chunk_fd, hex, data, piece->n_byte, s->is_durable))
        return spot_err_sys(err, "cannot keep a chunk of a state");
    s->used_byte += piece->n_byte;
    return 0;
}

int spot_state_store_keep(struct spot_state_store *s, const void *data, size_t n_byte,
                          struct spot_hash128 *hash, struct spot_err *err)
{
    *hash = spot_hash128(data, n_byte);
    return keep(s, &(struct spot_state_piece){ *hash, n_byte }, data, err);
}

int spot_state_store_put(struct spot_state_store *s, const struct spot_state_piece *piece,
                         const void *data, struct spot_err *err)
{
    char hex[SPOT_HASH_HEX];

    if (is_piece(piece, data))
        return keep(s, piece, data, err);
    spot_hash128_hex(piece->hash, hex);
    return spot_err_set(err, SPOT_EDATA, "chunk %s of a state does not match its hash", hex);
}

static void remove_chunk(struct spot_state_store *s, const char *name)
{
    struct stat st;

    if (!fstatat(s->chunk_fd, name, &st, AT_SYMLINK_NOFOLLOW) && !unlinkat(s->chunk_fd, name, 0))
        s->used_byte -= (uint64_t)st.st_size < s->used_byte ? (uint64_t)st.st_size : s->used_byte;
}

static bool has_chunk(const struct spot_state_record *record, struct spot_hash128 hash)
{
    for (size_t i = 0; i < record->n_chunk; i++)
        if (spot_hash128_equal(record->chunk[i], hash))
            return true;
    return false;
}

static bool read_piece(const struct spot_state_store *s, const char *name,
                       const struct spot_state_piece *piece, void *data)
{
    const int fd = spot_safe_open_file(s->chunk_fd, name, NULL);
    const bool is_read =
        fd >= 0 && spot_read_at(fd, 0, data, piece->n_byte) == (ssize_t)piece->n_byte;

    spot_close(fd);
    return is_read && is_piece(piece, data);
}

int spot_state_store_get(struct spot_state_store *s, const struct spot_state_piece *piece,
                         void *data, struct spot_err *err)
{
    char hex[SPOT_HASH_HEX];

    spot_hash128_hex(piece->hash, hex);
    if (read_piece(s, hex, piece, data))
        return 0;
    remove_chunk(s, hex);
    for (size_t i = s->n_held; i-- > 0;)
        if (has_chunk(&s->held[i], piece->hash))
            spot_state_store_drop(s, i);
    return spot_err_set(err, SPOT_EDATA, "chunk %s of a state is damaged here", hex);
}

int spot_state_store_read(const struct spot_state_store *s, const struct spot_state_piece *piece,
                          void *data, struct spot_err *err)
{
    char hex[SPOT_HASH_HEX];

    spot_hash128_hex(piece->hash, hex);
    return read_piece(s, hex, piece, data)
               ? 0
               : spot_err_set(err, SPOT_EDATA, "chunk %s of a state is damaged here", hex);
}

/* --- states ---------------------------------------------------------------------------- */

size_t spot_state_store_count(const struct spot_state_store *s)
{
    return s->n_held;
}

size_t spot_state_store_damaged(const struct spot_state_store *s)
{
    return s->n_damaged;
}

const struct spot_state_record *spot_state_store_at(const struct spot_state_store *s, size_t i)
{
    return &s->held[i];
}

const struct spot_state_record *spot_state_store_find(const struct spot_state_store *s,
                                                      const struct spot_state_id *id,
                                                      uint32_t place)
{
    for (size_t i = 0; i < s->n_held; i++)
        if (!spot_state_id_compare(&s->held[i].id, id) && s->held[i].place == place)
            return &s->held[i];
    return NULL;
}

static void name_of(const struct spot_state_record *record, char name[NAME_MAX_BYTE])
{
    snprintf(name, NAME_MAX_BYTE, "%lu-%llu-%016llx.%lu", (unsigned long)record->id.round,
             (unsigned long long)record->id.step, (unsigned long long)record->id.key,
             (unsigned long)record->place);
}

/* Remove a record from memory; its file stays. */
static void forget(struct spot_state_store *s, size_t i)
{
    spot_state_record_release(&s->held[i]);
    s->held[i] = s->held[--s->n_held];
}

void spot_state_store_drop(struct spot_state_store *s, size_t i)
{
    char name[NAME_MAX_BYTE];

    name_of(&s->held[i], name);
    (void)unlinkat(s->held_fd, name, 0);
    forget(s, i);
}

static int check_whole(const struct spot_state_store *s, const struct spot_state_record *record,
                       struct spot_err *err)
{
    for (size_t i = 0; i < record->n_chunk; i++)
        if (!spot_state_store_has(s, record->chunk[i]))
            return spot_err_set(err, SPOT_EDATA, "a state lacks chunks that its record names");
    return 0;
}

static void hold(struct spot_state_store *s, struct spot_state_record *record_take)
{
    s->held = spot_xgrow(s->held, &s->cap_held, s->n_held + 1, sizeof(*s->held));
    s->held[s->n_held++] = *record_take;
    *record_take = (struct spot_state_record){ 0 };
}

static int write_record(struct spot_state_store *s, const struct spot_state_record *record,
                        struct spot_err *err)
{
    struct spot_buf out = { 0 };
    char name[NAME_MAX_BYTE];
    int rc;

    name_of(record, name);
    spot_state_record_put(&out, record);
    spot_put_u64(&out, spot_hash64(out.data, out.n));
    rc = sync_dir(s, s->chunk_fd) ||
                 spot_safe_replace(s->held_fd, name, out.data, out.n, s->is_durable) ||
                 sync_dir(s, s->held_fd)
             ? spot_err_sys(err, "cannot keep the record of a state")
             : 0;
    spot_buf_release(&out);
    return rc;
}

int spot_state_store_add(struct spot_state_store *s, struct spot_state_record *record_take,
                         struct spot_err *err)
{
    const struct spot_state_record *before;

    if (check_whole(s, record_take, err) || write_record(s, record_take, err)) {
        spot_state_record_release(record_take);
        return -1;
    }
    before = spot_state_store_find(s, &record_take->id, record_take->place);
    if (before)
        forget(s, (size_t)(before - s->held));
    hold(s, record_take);
    return 0;
}

void spot_state_store_expect(struct spot_state_store *s, const struct spot_state_record *coming)
{
    s->coming = coming;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void want_chunks(struct spot_state_store *s, const struct spot_state_record *record)
{
    s->wanted = spot_xrealloc(s->wanted, s->n_wanted + record->n_chunk, sizeof(*s->wanted));
    for (size_t i = 0; i < record->n_chunk; i++)
        spot_hash128_hex(record->chunk[i], s->wanted[s->n_wanted++]);
}

/* True for names that this store makes; others belong to somebody else. */
static bool is_ours(const char *name, const char *letters, size_t n_least)
{
    const size_t n = strspn(name, letters);

    return n >= n_least && (!name[n] || !strcmp(name + n, ".new"));
}

static int sweep_one(struct spot_state_store *s, const char *name)
{
    if (!is_ours(name, "0123456789abcdef", SPOT_HASH_HEX - 1))
        return 0;
    if (!s->n_wanted || !bsearch(name, s->wanted, s->n_wanted, sizeof(*s->wanted), by_name))
        remove_chunk(s, name);
    return 0;
}

void spot_state_store_sweep(struct spot_state_store *s)
{
    for (size_t i = 0; i < s->n_held; i++)
        want_chunks(s, &s->held[i]);
    if (s->coming)
        want_chunks(s, s->coming);
    if (s->n_wanted)
        qsort(s->wanted, s->n_wanted, sizeof(*s->wanted), by_name);
    (void)each_name(s->chunk_fd, sweep_one, s);
    free(s->wanted);
    s->wanted = NULL;
    s->n_wanted = 0;
}

/* --- open ------------------------------------------------------------------------------ */

static int count_one(struct spot_state_store *s, const char *name)
{
    struct stat st;

    if (!fstatat(s->chunk_fd, name, &st, AT_SYMLINK_NOFOLLOW))
        s->used_byte += (uint64_t)st.st_size;
    return 0;
}

/* Read a file of records, which ends with its hash; n = 0: not valid. */
static struct spot_buf read_record(const struct spot_state_store *s, const char *name)
{
    struct spot_buf in = { 0 };
    struct stat st;
    const int fd = spot_safe_open_file(s->held_fd, name, &st);

    if (fd >= 0 && st.st_size > 8 && st.st_size <= RECORD_BYTE_MAX) {
        spot_buf_more(&in, (size_t)st.st_size);
        if (spot_read_at(fd, 0, in.data, (size_t)st.st_size) == st.st_size)
            in.n = (size_t)st.st_size;
    }
    spot_close(fd);
    return in;
}

static int load_one(struct spot_state_store *s, const char *name)
{
    struct spot_buf in = read_record(s, name);
    struct spot_state_record record = { 0 };
    bool is_good = false;

    if (in.n) {
        struct spot_wire_in tail = spot_wire_in(in.data + in.n - 8, 8);
        struct spot_wire_in body = spot_wire_in(in.data, in.n - 8);
        char right[NAME_MAX_BYTE];

        if (spot_get_u64(&tail) == spot_hash64(in.data, in.n - 8) &&
            !spot_state_record_get(&body, &record, NULL)) {
            name_of(&record, right);
            is_good = !strcmp(right, name) && !check_whole(s, &record, NULL);
        }
    }
    if (is_good)
        hold(s, &record);
    else if (is_ours(name, "0123456789abcdef-.", 20)) /* the shortest name that name_of makes */
        s->n_damaged += !unlinkat(s->held_fd, name, 0);
    spot_state_record_release(&record);
    spot_buf_release(&in);
    return 0;
}

struct spot_state_store *spot_state_store_open(int dir_fd, const char *dir, uint64_t limit_byte,
                                               bool is_durable, struct spot_err *err)
{
    struct spot_state_store *const s = spot_xcalloc(1, sizeof(*s));

    s->limit_byte = limit_byte;
    s->is_durable = is_durable;
    s->held_fd = -1;
    s->chunk_fd = open_below(dir_fd, dir, "chunk", err);
    if (s->chunk_fd >= 0)
        s->held_fd = open_below(dir_fd, dir, "held", err);
    if (s->held_fd < 0) {
        spot_state_store_free(s);
        return NULL;
    }
    (void)each_name(s->chunk_fd, count_one, s);
    (void)each_name(s->held_fd, load_one, s);
    return s;
}

void spot_state_store_free(struct spot_state_store *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_held; i++)
        spot_state_record_release(&s->held[i]);
    free(s->held);
    spot_close(s->chunk_fd);
    spot_close(s->held_fd);
    free(s);
}

uint64_t spot_state_store_used(const struct spot_state_store *s)
{
    return s->used_byte;
}
