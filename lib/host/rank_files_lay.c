/* SPDX-License-Identifier: MIT */
/* Puts a file of a commit into its place, completely or not at all. */
#define _GNU_SOURCE /* O_TMPFILE. NOLINT(bugprone-reserved-identifier) */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/pio.h"
#include "common/random.h"
#include "common/safe_dir.h"
#include "host/rank_files_state.h"

struct laid {
    const struct spot_state_record *record;
    const struct spot_state_file *file;
};

/* Restore the modification time, by which scripts find the newest file. */
static void set_time(int fd, uint64_t at_ns)
{
    const struct timespec at = { .tv_sec = (time_t)(at_ns / 1000000000),
                                 .tv_nsec = (long)(at_ns % 1000000000) };

    if (at_ns)
        (void)futimens(fd, (const struct timespec[]){ at, at });
}

/* --- marks of our files, for the next agent in this directory --- */

#define MARK "user.spot.laid"
enum { MARK_MAX = 128 };

static void print_mark(const struct stat *st, const char *run, const char *path, char *text)
{
    snprintf(text, MARK_MAX, "%.40s %llu %lld.%09ld %lld %016llx", run,
             (unsigned long long)st->st_ino, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
             (long long)st->st_size, (unsigned long long)spot_hash64(path, strlen(path)));
}

static void set_mark(const struct laid *p, int fd)
{
    char text[MARK_MAX];
    struct stat st;

    if (fstat(fd, &st))
        return;
    print_mark(&st, p->record->run_id, p->file->path, text);
    (void)fsetxattr(fd, MARK, text, strlen(text), 0);
}

bool spot_rank_files_was_laid(const struct spot_rank_files *f, const struct spot_rank_file *file)
{
    char text[MARK_MAX] = "", want[MARK_MAX];
    const int fd = *f->run ? spot_safe_open_file(f->fd, file->path, NULL) : -1;
    ssize_t n;

    if (fd < 0)
        return false;
    n = fgetxattr(fd, MARK, text, sizeof(text) - 1);
    close(fd);
    print_mark(&file->st, f->run, file->path, want);
    return n > 0 && !strcmp(text, want);
}

static int fill(struct spot_state_store *store, const struct laid *p, int fd, void *room,
                struct spot_err *err)
{
    if (fchmod(fd, p->file->mode))
        return spot_err_sys(err, "cannot restore '%.200s'", p->file->path);
    for (size_t i = 0; i < spot_state_file_chunks(p->file); i++) {
        const struct spot_state_piece piece = { p->record->chunk[p->file->first_chunk + i],
                                                spot_state_file_chunk_byte(p->file, i) };

        if (spot_state_store_get(store, &piece, room, err))
            return -1;
        if (spot_write_at(fd, (uint64_t)i * SPOT_STATE_CHUNK_BYTE, room, piece.n_byte))
            return spot_err_sys(err, "cannot restore '%.200s'", p->file->path);
    }
    set_time(fd, p->file->at_ns);
    set_mark(p, fd);
    return 0;
}

static int make_link(struct spot_state_store *store, const struct laid *p, int dir_fd,
                     const char *name, void *room, struct spot_err *err)
{
    const struct spot_state_piece piece = { p->record->chunk[p->file->first_chunk],
                                            spot_state_file_chunk_byte(p->file, 0) };
    char to[SPOT_STATE_PATH_MAX];

    if (spot_state_store_get(store, &piece, room, err))
        return -1;
    snprintf(to, sizeof(to), "%.*s", (int)piece.n_byte, (const char *)room);
    if (!spot_state_path_is_below(to))
        return spot_err_set(err, SPOT_EDATA, "'%.200s' is a link that leads elsewhere",
                            p->file->path);
    return symlinkat(to, dir_fd, name) ? spot_err_sys(err, "cannot restore '%.200s'", p->file->path)
                                       : 0;
}

/* Write a file without a name, which disappears if this process is killed; or one named `fresh`. */
static int put_file(struct spot_state_store *store, const struct laid *p, int dir_fd,
                    const char *fresh, void *room, struct spot_err *err)
{
    int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), rc;
    const bool is_named = fd < 0;
    char at[32];

    if (is_named)
        fd = spot_safe_create(dir_fd, fresh, 0600);
    if (fd < 0)
        return spot_err_sys(err, "cannot restore '%.200s'", p->file->path);
    rc = fill(store, p, fd, room, err);
    snprintf(at, sizeof(at), "/proc/self/fd/%d", fd);
    if (!rc && !is_named && linkat(AT_FDCWD, at, dir_fd, fresh, AT_SYMLINK_FOLLOW))
        rc = spot_err_sys(err, "cannot restore '%.200s'", p->file->path);
    close(fd);
    return rc;
}

/* The file is first written under another name, so that a script, or another node with this
 * directory, sees all of it or nothing. That name is random, since processes in two containers may
 * have the same id. */
int spot_rank_files_lay(struct spot_state_store *store, const struct spot_state_record *record,
                        size_t i, int dir_fd, const char *name, void *room, struct spot_err *err)
{
    const struct laid laid = { record, &record->file[i] }, *const p = &laid;
    char fresh[64];
    uint64_t drawn;
    int rc;

    if (spot_random_bytes(&drawn, sizeof(drawn), err))
        return -1;
    snprintf(fresh, sizeof(fresh), SPOT_FILES_NEW "%016llx", (unsigned long long)drawn);
    rc = p->file->mode == SPOT_STATE_LINK ? make_link(store, p, dir_fd, fresh, room, err)
                                          : put_file(store, p, dir_fd, fresh, room, err);
    if (!rc && renameat(dir_fd, fresh, dir_fd, name))
        rc = spot_err_sys(err, "cannot restore '%.200s'", p->file->path);
    if (rc)
        (void)unlinkat(dir_fd, fresh, 0);
    return rc;
}
