/* SPDX-License-Identifier: MIT */
/* Copies files from the directory of a program into a store, and back. */
#define _GNU_SOURCE /* O_PATH. NOLINT(bugprone-reserved-identifier) */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/num.h"
#include "common/pio.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"
#include "host/state_store.h"

/* --- which files ------------------------------------------------------------------------- */

struct paths {
    char **path; /* [n] */
    size_t n, cap;
};

static void release_paths(struct paths *p)
{
    while (p->n)
        free(p->path[--p->n]);
    free(p->path);
}

static int add_path(struct paths *p, const char *path, struct spot_err *err)
{
    if (strlen(path) >= SPOT_STATE_PATH_MAX || p->n == SPOT_STATE_FILES_MAX)
        return spot_err_set(err, SPOT_EDATA, "a state has too many files, or too long a name");
    p->path = spot_xgrow(p->path, &p->cap, p->n + 1, sizeof(char *));
    p->path[p->n++] = spot_xstrdup(path);
    return 0;
}

static bool is_passed_over(const char *name, const char *prefix)
{
    return !strcmp(name, ".") || !strcmp(name, "..") ||
           (!*prefix && !strcmp(name, SPOT_STATE_PLACES));
}

static int list_dir(int fd_take, const char *prefix, int depth, struct paths *p,
                    struct spot_err *err);

static int list_entry(int dir_fd, const char *prefix, const char *name, int depth, struct paths *p,
                      struct spot_err *err)
{
    char path[SPOT_STATE_PATH_MAX + 256];
    struct stat st;
    int fd;

    snprintf(path, sizeof(path), "%s%s", prefix, name);
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
        return spot_err_sys(err, "cannot examine '%.200s'", path);
    if (S_ISREG(st.st_mode))
        return add_path(p, path, err);
    if (!S_ISDIR(st.st_mode))
        return spot_err_set(err, SPOT_EDATA, "'%.200s' is neither a file nor a directory", path);
    if (depth == SPOT_STATE_DEPTH_MAX || strlen(path) >= SPOT_STATE_PATH_MAX)
        return spot_err_set(err, SPOT_EDATA, "'%.200s' is too deep for a state", path);
    strcat(path, "/");
    fd = spot_safe_open(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
    return fd < 0 ? spot_err_sys(err, "cannot read '%.200s'", path)
                  : list_dir(fd, path, depth + 1, p, err);
}

static int list_dir(int fd_take, const char *prefix, int depth, struct paths *p,
                    struct spot_err *err)
{
    DIR *const dir = fdopendir(fd_take);
    const struct dirent *entry;
    int rc = 0;

    if (!dir) {
        close(fd_take);
        return spot_err_sys(err, "cannot read a state directory");
    }
    while (!rc && (entry = readdir(dir)))
        if (!is_passed_over(entry->d_name, prefix))
            rc = list_entry(fd_take, prefix, entry->d_name, depth, p, err);
    closedir(dir);
    return rc;
}

/* --- into the store ------------------------------------------------------------------------ */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return spot_safe_is_same(a, b) && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Nanoseconds since the epoch; 0 for earlier times, which no file of a script has. */
static uint64_t ns_of(const struct timespec *at)
{
    return at->tv_sec < 0 ? 0 : (uint64_t)at->tv_sec * 1000000000 + (uint64_t)at->tv_nsec;
}

static int take_open(struct spot_state_store *store, int fd, struct spot_state_record *record,
                     void *room, const struct stat *seen, struct spot_err *err)
{
    struct spot_state_file *const file = &record->file[record->n_file - 1];
    size_t n;

    file->mode = seen->st_mode & 0777;
    file->n_byte = (uint64_t)seen->st_size;
    file->at_ns = ns_of(&seen->st_mtim);
    n = spot_state_file_chunks(file);
    record->chunk = spot_xrealloc(record->chunk, record->n_chunk + n, sizeof(*record->chunk));
    for (size_t i = 0; i < n; i++) {
        const size_t n_byte = spot_state_file_chunk_byte(file, i);

        if (spot_read_at(fd, (uint64_t)i * SPOT_STATE_CHUNK_BYTE, room, n_byte) != (ssize_t)n_byte)
            return spot_err_set(err, SPOT_EDATA, "'%.200s' became shorter while it was committed",
                                file->path);
        if (spot_state_store_keep(store, room, n_byte, &record->chunk[record->n_chunk], err))
            return -1;
        record->n_chunk++;
    }
    return 0;
}

/* The target of a link is stored as the only chunk of a file. */
static int take_link(struct spot_state_store *store, int dir_fd, struct spot_state_record *record,
                     char *room, struct stat *seen, struct spot_err *err)
{
    struct spot_state_file *const file = &record->file[record->n_file - 1];
    const int fd = spot_safe_open(dir_fd, file->path, O_PATH | O_NOFOLLOW, 0);
    const ssize_t n =
        fd >= 0 && !fstat(fd, seen) ? readlinkat(fd, "", room, SPOT_STATE_PATH_MAX) : -1;

    spot_close(fd);
    if (n < 1 || n >= SPOT_STATE_PATH_MAX)
        return spot_err_set(err, SPOT_EDATA, "'%.200s' is not a link that can be taken",
                            file->path);
    file->mode = SPOT_STATE_LINK;
    file->n_byte = (uint64_t)n;
    record->chunk = spot_xrealloc(record->chunk, record->n_chunk + 1, sizeof(*record->chunk));
    return spot_state_store_keep(store, room, (size_t)n, &record->chunk[record->n_chunk++], err);
}

/* *seen: the status of the file before it was read. */
static int take_file(struct spot_state_store *store, int dir_fd, char *path_take, bool with_links,
                     struct spot_state_record *record, void *room, struct stat *seen,
                     struct spot_err *err)
{
    const int fd = spot_safe_open_file(dir_fd, path_take, seen);
    int rc;

    record->file[record->n_file++] =
        (struct spot_state_file){ .path = path_take, .first_chunk = record->n_chunk };
    if (fd < 0 && errno == ELOOP && with_links)
        return take_link(store, dir_fd, record, room, seen, err);
    if (fd < 0 && (errno == EINVAL || errno == ELOOP || errno == ENOTDIR || errno == EXDEV))
        return spot_err_set(err, SPOT_EDATA, "'%.200s' is not a file of the state directory",
                            path_take);
    if (fd < 0)
        return spot_err_sys(err, "cannot read '%.200s'", path_take);
    rc = take_open(store, fd, record, room, seen, err);
    close(fd);
    return rc;
}

/* Check that all files are from one moment: none has changed between its read and the end of the
 * last read. */
static int check_unchanged(int dir_fd, const struct spot_state_record *record,
                           const struct stat *seen, struct spot_err *err)
{
    for (size_t i = 0; i < record->n_file; i++) {
        const char *const path = record->file[i].path;
        const int fd = spot_safe_open(dir_fd, path, O_PATH | O_NOFOLLOW, 0);
        struct stat now;
        const bool is_same = fd >= 0 && !fstat(fd, &now) && is_same_file(&seen[i], &now);

        spot_close(fd);
        if (!is_same)
            return spot_err_set(err, SPOT_EDATA, "'%.200s' changed while it was committed", path);
    }
    return 0;
}

static int take_all(struct spot_state_store *store, int dir_fd, struct paths *p, bool with_links,
                    struct spot_state_record *record, struct spot_err *err)
{
    void *const room = spot_xcalloc(SPOT_STATE_CHUNK_BYTE, 1);
    struct stat *const seen = spot_xcalloc(p->n, sizeof(*seen));
    int rc = 0;

    if (p->n)
        qsort(p->path, p->n, sizeof(char *), spot_compare_texts);
    record->file = spot_xcalloc(p->n, sizeof(*record->file));
    for (size_t i = 0; !rc && i < p->n; i++) {
        char *const path = p->path[i];

        p->path[i] = NULL;
        rc = take_file(store, dir_fd, path, with_links, record, room, &seen[i], err);
    }
    if (!rc)
        rc = check_unchanged(dir_fd, record, seen, err);
    free(seen);
    free(room);
    return rc;
}

int spot_state_take(struct spot_state_store *store, int dir_fd, const char *const *only,
                    size_t n_only, bool with_links, struct spot_state_record *record,
                    struct spot_err *err)
{
    struct paths p = { 0 };
    int rc = 0;

    for (size_t i = 0; only && !rc && i < n_only; i++)
        rc = add_path(&p, only[i], err);
    if (!only) {
        const int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        rc = fd < 0 ? spot_err_sys(err, "cannot read the state directory")
                    : list_dir(fd, "", 0, &p, err);
    }
    if (!rc)
        rc = take_all(store, dir_fd, &p, with_links, record, err);
    release_paths(&p);
    return rc;
}

/* --- and back ------------------------------------------------------------------------------- */

static int fill_file(struct spot_state_store *store, int fd, const struct spot_state_record *record,
                     const struct spot_state_file *file, void *room, struct spot_err *err)
{
    for (size_t i = 0; i < spot_state_file_chunks(file); i++) {
        const struct spot_state_piece piece = { record->chunk[file->first_chunk + i],
                                                spot_state_file_chunk_byte(file, i) };

        if (spot_state_store_get(store, &piece, room, err))
            return -1;
        if (spot_write_at(fd, (uint64_t)i * SPOT_STATE_CHUNK_BYTE, room, piece.n_byte))
            return spot_err_sys(err, "cannot restore '%.200s'", file->path);
    }
    return 0;
}

static int lay_out_file(struct spot_state_store *store, int dir_fd,
                        const struct spot_state_record *record, size_t f, void *room,
                        struct spot_err *err)
{
    const struct spot_state_file file = record->file[f];
    const int fd = file.mode == SPOT_STATE_LINK ? -1 : spot_safe_create(dir_fd, file.path, 0600);
    int rc;

    if (file.mode == SPOT_STATE_LINK)
        return spot_err_set(err, SPOT_EDATA, "'%.200s' is a link, which no state directory has",
                            file.path);
    if (fd < 0)
        return spot_err_sys(err, "cannot restore '%.200s'", file.path);
    rc = fchmod(fd, file.mode) ? spot_err_sys(err, "cannot restore '%.200s'", file.path)
                               : fill_file(store, fd, record, &file, room, err);
    close(fd);
    return rc;
}

int spot_state_lay_out(struct spot_state_store *store, int dir_fd,
                       const struct spot_state_record *record, struct spot_err *err)
{
    void *const room = spot_xcalloc(SPOT_STATE_CHUNK_BYTE, 1);
    const size_t n_file = record ? record->n_file : 0;
    struct spot_err why;
    int rc = 0;

    if (spot_safe_empty(dir_fd, &why))
        rc = spot_err_set(err, SPOT_ESYS, "cannot empty the state directory: %.400s", why.msg);
    for (size_t f = 0; !rc && f < n_file; f++)
        rc = lay_out_file(store, dir_fd, record, f, room, err);
    free(room);
    return rc;
}
