/* SPDX-License-Identifier: MIT */
/* Restores a commit into the directory of the script, and moves other entries aside. */
#define _GNU_SOURCE /* renameat2. NOLINT(bugprone-reserved-identifier) */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/pio.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"
#include "host/rank_files_state.h"

/* A file of the commit: the i-th of a record. */
struct part {
    const struct spot_state_record *record;
    size_t i, place;
};

static const struct spot_state_file *file_of(const struct part *p)
{
    return &p->record->file[p->i];
}

static int by_path(const void *a, const void *b)
{
    const struct part *const x = a, *const y = b;
    const int order = strcmp(file_of(x)->path, file_of(y)->path);

    return order ? order : (x->place > y->place) - (x->place < y->place);
}

struct spot_hash128 spot_rank_files_digest(const struct spot_state_record *record, size_t i)
{
    const struct spot_state_file *const file = &record->file[i];

    return spot_hash128(record->chunk + file->first_chunk,
                        spot_state_file_chunks(file) * sizeof(*record->chunk));
}

static struct part *list_parts(const struct spot_state_record *const *record, size_t n,
                               size_t *n_part)
{
    struct part *part = NULL;
    size_t cap = 0, n_left = 0;

    *n_part = 0;
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < record[r]->n_file; i++) {
            part = spot_xgrow(part, &cap, *n_part + 1, sizeof(*part));
            part[(*n_part)++] = (struct part){ record[r], i, r };
        }
    if (*n_part)
        qsort(part, *n_part, sizeof(*part), by_path);
    for (size_t i = 0; i < *n_part; i++)
        if (!n_left || strcmp(file_of(&part[n_left - 1])->path, file_of(&part[i])->path) != 0)
            part[n_left++] = part[i];
    *n_part = n_left;
    return part;
}

static bool has_part(const struct part *part, size_t n, const char *path)
{
    const struct spot_state_file file = { .path = (char *)(uintptr_t)path };
    const struct spot_state_record record = { .file = (struct spot_state_file *)(uintptr_t)&file };
    const struct part key = { &record, 0, 0 };
    size_t low = 0, high = n;

    while (low < high) { /* binary search for any place of that name */
        const size_t mid = (low + high) / 2;
        const int order = strcmp(file_of(&part[mid])->path, file_of(&key)->path);

        if (!order)
            return true;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return false;
}

/* --- moving aside --- */

/* Open the directory of a path, with those above it; also returns the last component. */
static int open_above(int dir_fd, const char *path, const char **name)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), below;
    char part[SPOT_STATE_PATH_MAX];
    const char *slash;

    while (fd >= 0 && (slash = strchr(path, '/'))) {
        snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
        below = spot_safe_make_dir(fd, part);
        close(fd);
        fd = below;
        path = slash + 1;
    }
    *name = path;
    return fd;
}

/* Remove directories of the script that became empty when a file was moved. */
static void remove_empty(int dir_fd, const char *path)
{
    char above[SPOT_STATE_PATH_MAX];
    char *slash;

    snprintf(above, sizeof(above), "%s", path);
    while ((slash = strrchr(above, '/'))) {
        const char *name;
        int fd;

        *slash = '\0';
        fd = open_above(dir_fd, above, &name);
        if (fd < 0 || unlinkat(fd, name, AT_REMOVEDIR)) {
            spot_close(fd);
            return;
        }
        close(fd);
    }
}

/* One message for all of a laying out: a script that keeps its last checkpoints leaves some on each
 * node that was away. */
static void tell_asides(const struct spot_rank_files *f)
{
    if (f->n_aside && f->warn)
        f->warn("moved '%.60s'%s to '%.60s/" SPOT_FILES_ASIDE "', which may be deleted: %zu that "
                "%s not of the commit that the ranks go on from, %.1f MB",
                f->aside[0].unit, f->n_aside > 1 ? " and others" : "", f->base, f->n_aside,
                f->n_aside > 1 ? "are" : "is", (double)f->aside_byte / 1e6);
}

static void forget_asides(struct spot_rank_files *f)
{
    f->aside_byte = 0;
    while (f->n_aside)
        free(f->aside[--f->n_aside].unit);
    free(f->aside);
    f->aside = NULL;
    f->cap_aside = 0;
}

/* "step-3" itself or, with a number, "step-3.1". */
static void name_aside(const struct spot_rank_aside *aside, const char *rest, char *path, size_t n)
{
    if (aside->number)
        snprintf(path, n, "%s.%u%s", aside->unit, aside->number, rest);
    else
        snprintf(path, n, "%s%s", aside->unit, rest);
}

/* Choose the first free number, so that entries moved aside earlier are kept. */
static void number_aside(struct spot_rank_aside *aside, int aside_fd)
{
    char name[SPOT_STATE_PATH_MAX + 16];
    struct stat st;

    for (; aside->number < UINT_MAX; aside->number++) {
        name_aside(aside, "", name, sizeof(name));
        if (fstatat(aside_fd, name, &st, AT_SYMLINK_NOFOLLOW))
            return;
    }
}

static struct spot_rank_aside *aside_of(struct spot_rank_files *f, const char *path, int aside_fd)
{
    const size_t n = spot_rank_files_unit(path);
    struct spot_rank_aside *aside;

    for (size_t i = 0; i < f->n_aside; i++)
        if (!strncmp(f->aside[i].unit, path, n) && !f->aside[i].unit[n])
            return &f->aside[i];
    f->aside = spot_xgrow(f->aside, &f->cap_aside, f->n_aside + 1, sizeof(*f->aside));
    aside = &f->aside[f->n_aside++];
    *aside = (struct spot_rank_aside){ .unit = spot_xcalloc(n + 1, 1) };
    memcpy(aside->unit, path, n);
    number_aside(aside, aside_fd);
    return aside;
}

/* Rename without replacing; some file systems cannot do that in one step. */
static int rename_to_new(int from_fd, const char *from, int to_fd, const char *to)
{
    struct stat st;

    if (!renameat2(from_fd, from, to_fd, to, RENAME_NOREPLACE) || errno == ENOENT)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (!fstatat(to_fd, to, &st, AT_SYMLINK_NOFOLLOW)) {
        errno = EEXIST;
        return -1;
    }
    return renameat(from_fd, from, to_fd, to) && errno != ENOENT ? -1 : 0;
}

/* Another node on this machine may have moved it already, or may take the new name meanwhile. */
static int rename_aside(struct spot_rank_files *f, const char *path, int aside_fd)
{
    struct spot_rank_aside *const aside = aside_of(f, path, aside_fd);
    char at[SPOT_STATE_PATH_MAX + 16];
    int rc;

    do {
        const char *from, *to;
        const int from_fd = open_above(f->fd, path, &from);
        int to_fd;

        name_aside(aside, path + strlen(aside->unit), at, sizeof(at));
        to_fd = open_above(aside_fd, at, &to);
        rc = from_fd < 0 || to_fd < 0 ? -1 : rename_to_new(from_fd, from, to_fd, to);
        if (rc && errno == EEXIST && to_fd >= 0 && from_fd >= 0) {
            aside->number++;
            rc = 1;
        }
        spot_close(from_fd);
        spot_close(to_fd);
    } while (rc > 0 && aside->number < UINT_MAX);
    return rc;
}

static int move_aside(struct spot_rank_files *f, const char *path, struct spot_err *err)
{
    const struct spot_rank_file *const file = spot_rank_files_find(f, path);
    const int aside_fd = spot_safe_make_dir(f->fd, SPOT_FILES_ASIDE);
    const int rc = aside_fd < 0 ? -1 : rename_aside(f, path, aside_fd);

    if (rc)
        spot_err_sys(err, "cannot move '%.60s/%.200s' to " SPOT_FILES_ASIDE, f->base, path);
    else if (file)
        f->aside_byte += (uint64_t)file->st.st_size;
    spot_close(aside_fd);
    return rc ? -1 : 0;
}

static int clear(struct spot_rank_files *f, const struct spot_rank_file *file, struct spot_err *err)
{
    const char *name;
    int fd, rc;

    if (!file->is_laid && !spot_rank_files_was_laid(f, file)) {
        rc = move_aside(f, file->path, err);
    } else {
        fd = open_above(f->fd, file->path, &name);
        rc = fd < 0 || (unlinkat(fd, name, 0) && errno != ENOENT)
                 ? spot_err_sys(err, "cannot remove '%.60s/%.200s'", f->base, file->path)
                 : 0;
        spot_close(fd);
    }
    if (!rc)
        remove_empty(f->fd, file->path);
    return rc;
}

static int clear_others(struct spot_rank_files *f, const struct part *part, size_t n, bool has_any,
                        struct spot_err *err)
{
    for (size_t i = 0; i < f->n; i++)
        if ((has_any ? !has_part(part, n, f->file[i].path) : f->file[i].is_broken) &&
            clear(f, &f->file[i], err))
            return -1;
    return 0;
}

/* Like clear_others, after the last round: entries in no commit are kept, since they may be
 * results. */
static int clear_taken(struct spot_rank_files *f, const struct part *part, size_t n,
                       struct spot_err *err)
{
    bool has_warned = false;

    for (size_t i = 0; i < f->n; i++) {
        const struct spot_rank_file *const file = &f->file[i];

        if (has_part(part, n, file->path))
            continue;
        if (file->has_digest) {
            if (clear(f, file, err))
                return -1;
        } else if (f->warn && !has_warned) {
            f->warn("'%.60s/%.*s' was never committed: it stays beside the last commit, on this "
                    "node alone",
                    f->base, (int)spot_rank_files_unit(file->path), file->path);
            has_warned = true;
        }
    }
    return 0;
}

/* Remove directories that contain no files. */
static void remove_hollow(int dir_fd, const char *name, int depth)
{
    const int fd = spot_safe_open(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
    DIR *const dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (fd >= 0 && !dir)
        close(fd);
    while (dir && depth < SPOT_STATE_DEPTH_MAX && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            remove_hollow(fd, entry->d_name, depth + 1);
    if (dir)
        closedir(dir);
    (void)unlinkat(dir_fd, name, AT_REMOVEDIR);
}

static bool has_file_below(const struct spot_rank_files *f, const char *name)
{
    const size_t n = strlen(name);

    for (size_t i = 0; i < f->n; i++)
        if (!strncmp(f->file[i].path, name, n) && f->file[i].path[n] == '/')
            return true;
    return false;
}

/* Remove directories left by a rank that was killed after creating one and before writing to it: a
 * script would take an empty one for the newest checkpoint. A directory from before this node began
 * may be the user's and stays. */
static void clear_hollow(struct spot_rank_files *f, const char *name)
{
    struct spot_err why;
    struct stat st;

    if (fstatat(f->fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode))
        return;
    if (spot_rank_files_is_later(&st.st_mtim, &f->begun))
        remove_hollow(f->fd, name, 0);
    else if (move_aside(f, name, &why) && f->warn)
        f->warn("%s", why.msg);
}

static void clear_all_hollow(struct spot_rank_files *f)
{
    const int fd =
        spot_rank_files_open(f) ? openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *const dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    if (fd >= 0 && !dir)
        close(fd);
    while (dir && (entry = readdir(dir)))
        if (spot_rank_files_match(f, entry->d_name) && !has_file_below(f, entry->d_name))
            clear_hollow(f, entry->d_name);
    if (dir)
        closedir(dir);
}

/* --- putting files into place --- */

static bool is_link(const struct spot_state_file *file)
{
    return file->mode == SPOT_STATE_LINK;
}

/* True if the file is already there: it was taken here, or it is equal for another reason, for
 * instance on nodes that share the directory. */
static bool is_there(struct spot_rank_files *f, const struct part *p, void *room)
{
    const struct spot_state_file *const file = file_of(p);
    struct spot_rank_file *const now = spot_rank_files_find(f, file->path);
    bool is_same;
    int fd;

    if (!now || is_link(file) != S_ISLNK(now->st.st_mode))
        return false;
    if (now->has_digest)
        return spot_hash128_equal(now->digest, spot_rank_files_digest(p->record, p->i));
    if (is_link(file) || (uint64_t)now->st.st_size != file->n_byte)
        return false;
    fd = spot_safe_open_file(f->fd, file->path, NULL);
    is_same = fd >= 0;
    for (size_t i = 0; is_same && i < spot_state_file_chunks(file); i++) {
        const size_t n = spot_state_file_chunk_byte(file, i);

        is_same =
            spot_read_at(fd, (uint64_t)i * SPOT_STATE_CHUNK_BYTE, room, n) == (ssize_t)n &&
            spot_hash128_equal(spot_hash128(room, n), p->record->chunk[file->first_chunk + i]);
    }
    spot_close(fd);
    return is_same;
}

static int put_part(struct spot_rank_files *f, struct spot_state_store *store, const struct part *p,
                    void *room, bool *is_laid, struct spot_err *err)
{
    const struct spot_rank_file *const now = spot_rank_files_find(f, file_of(p)->path);
    const char *name;
    int fd, rc;

    if (is_there(f, p, room))
        return 0;
    if (now && !now->is_laid && !spot_rank_files_was_laid(f, now) && move_aside(f, now->path, err))
        return -1;
    fd = open_above(f->fd, file_of(p)->path, &name);
    if (fd < 0)
        return spot_err_sys(err, "cannot restore '%.60s/%.200s'", f->base, file_of(p)->path);
    rc = spot_rank_files_lay(store, p->record, p->i, fd, name, room, err);
    close(fd);
    *is_laid = !rc;
    return rc;
}

static void mark(struct spot_rank_files *f, const struct part *p, bool is_laid)
{
    struct spot_rank_file *const now = spot_rank_files_find(f, file_of(p)->path);

    if (!now)
        return;
    now->is_laid = now->is_laid || is_laid;
    /* a directory with its marker counts as complete, even if ranks were killed before they saw it
     */
    now->is_broken = false;
    now->has_digest = true;
    now->digest = spot_rank_files_digest(p->record, p->i);
}

static int put_all(struct spot_rank_files *f, struct spot_state_store *store,
                   const struct part *part, size_t n, struct spot_err *err)
{
    void *const room = spot_xcalloc(SPOT_STATE_CHUNK_BYTE, 1);
    bool *const is_laid = spot_xcalloc(n, sizeof(*is_laid));
    int rc = 0;

    for (size_t i = 0; !rc && i < n; i++)
        rc = put_part(f, store, &part[i], room, &is_laid[i], err);
    if (!rc)
        rc = spot_rank_files_scan(f, err);
    for (size_t i = 0; !rc && i < n; i++)
        mark(f, &part[i], is_laid[i]);
    free(is_laid);
    free(room);
    return rc;
}

/* Create the directory as it was in the commit, before its first file, with those above it. */
static int make_base(struct spot_rank_files *f, struct spot_err *err)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s", f->base);
    for (char *at = path + 1; *at; at++)
        if (*at == '/') {
            *at = '\0';
            (void)mkdir(path, 0777);
            *at = '/';
        }
    if ((mkdir(path, 0777) && errno != EEXIST) || !spot_rank_files_open(f))
        return spot_err_set(err, SPOT_ESYS,
                            "'%.200s' is no directory for the checkpoints, or a link that was not "
                            "there before",
                            f->base);
    return 0;
}

/* Check for a file of this round that is in no commit but has the name of one in the commit. */
static int check_untaken(struct spot_rank_files *f, const struct part *part, size_t n,
                         struct spot_err *err)
{
    void *const room = spot_xcalloc(SPOT_STATE_CHUNK_BYTE, 1);
    int rc = 0;

    for (size_t i = 0; !rc && i < n; i++) {
        const struct spot_rank_file *const now = spot_rank_files_find(f, file_of(&part[i])->path);

        if (now && !now->is_base && !now->has_digest && !is_there(f, &part[i], room))
            rc = spot_err_set(err, SPOT_EDATA,
                              "'%.60s/%.200s' could not be committed; it stays, and the last "
                              "commit is not laid out here",
                              f->base, now->path);
    }
    free(room);
    return rc;
}

static int put(struct spot_rank_files *f, struct spot_state_store *store, const struct part *part,
               size_t n_part, bool has_any, bool is_last, struct spot_err *err)
{
    if ((n_part && make_base(f, err)) || spot_rank_files_scan(f, err))
        return -1;
    for (size_t i = 0; i < f->n; i++)
        if (f->is_frozen && f->file[i].since_s > f->frozen_s)
            f->file[i].is_broken = true;
    if (is_last ? check_untaken(f, part, n_part, err) || clear_taken(f, part, n_part, err)
                : clear_others(f, part, n_part, has_any, err))
        return -1;
    if (!is_last && (has_any || f->is_frozen))
        clear_all_hollow(f);
    return spot_rank_files_scan(f, err) || put_all(f, store, part, n_part, err) ? -1 : 0;
}

static int put_parts(struct spot_rank_files *f, struct spot_state_store *store,
                     const struct spot_state_record *const *record, size_t n, bool is_last,
                     struct spot_err *err)
{
    size_t n_part;
    struct part *const part = list_parts(record, n, &n_part);
    int rc;

    snprintf(f->run, sizeof(f->run), "%s", n ? record[0]->run_id : "");
    rc = put(f, store, part, n_part, n > 0, is_last, err);
    tell_asides(f);
    forget_asides(f);
    free(part);
    return rc;
}

int spot_rank_files_put(struct spot_rank_files *f, struct spot_state_store *store,
                        const struct spot_state_record *const *record, size_t n,
                        struct spot_err *err)
{
    return put_parts(f, store, record, n, false, err);
}

int spot_rank_files_put_last(struct spot_rank_files *f, struct spot_state_store *store,
                             const struct spot_state_record *const *record, size_t n,
                             struct spot_err *err)
{
    return put_parts(f, store, record, n, true, err);
}
