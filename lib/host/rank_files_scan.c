/* SPDX-License-Identifier: MIT */
/* Scans the directory of the script. */
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"
#include "host/rank_files_state.h"

struct found {
    struct spot_rank_file *file; /* [n] */
    size_t n, cap;
};

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct spot_rank_file *)a)->path,
                  ((const struct spot_rank_file *)b)->path);
}

bool spot_rank_files_match(const struct spot_rank_files *f, const char *name)
{
    return strcmp(name, ".") && strcmp(name, "..") && strcmp(name, SPOT_FILES_ASIDE) &&
           strcmp(name, SPOT_FILES_RUNNING) && strcmp(name, SPOT_FILES_LOCK) &&
           strncmp(name, SPOT_FILES_NEW, strlen(SPOT_FILES_NEW)) && !fnmatch(f->glob, name, 0);
}

static int list_dir(struct spot_rank_files *f, int fd_take, const char *prefix, int depth,
                    struct found *all, struct spot_err *err);

/* Ignore entries that have disappeared, or are neither file, link nor directory. */
static int list_entry(struct spot_rank_files *f, int dir_fd, const char *prefix, const char *name,
                      int depth, struct found *all, struct spot_err *err)
{
    char path[SPOT_STATE_PATH_MAX + 256];
    struct stat st;
    int fd;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
        return 0;
    snprintf(path, sizeof(path), "%s%s", prefix, name);
    if (strlen(path) + 1 >= SPOT_STATE_PATH_MAX || depth > SPOT_STATE_DEPTH_MAX ||
        all->n == SPOT_STATE_FILES_MAX)
        return spot_err_set(err, SPOT_EDATA,
                            "'%.60s/%.200s': a checkpoint has at most %d files, %d directories "
                            "deep, with names of %d bytes",
                            f->base, path, SPOT_STATE_FILES_MAX, SPOT_STATE_DEPTH_MAX,
                            SPOT_STATE_PATH_MAX - 2);
    if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) {
        all->file = spot_xgrow(all->file, &all->cap, all->n + 1, sizeof(*all->file));
        all->file[all->n++] = (struct spot_rank_file){ .path = spot_xstrdup(path), .st = st };
        return 0;
    }
    if (!S_ISDIR(st.st_mode))
        return 0;
    strcat(path, "/");
    fd = spot_safe_open(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
    return fd < 0 ? 0 : list_dir(f, fd, path, depth + 1, all, err);
}

static int list_dir(struct spot_rank_files *f, int fd_take, const char *prefix, int depth,
                    struct found *all, struct spot_err *err)
{
    DIR *const dir = fdopendir(fd_take);
    const struct dirent *entry;
    int rc = 0;

    if (!dir) {
        close(fd_take);
        return 0;
    }
    while (!rc && (entry = readdir(dir)))
        if (*prefix ? strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") &&
                          strncmp(entry->d_name, SPOT_FILES_NEW, strlen(SPOT_FILES_NEW))
                    : spot_rank_files_match(f, entry->d_name))
            rc = list_entry(f, fd_take, prefix, entry->d_name, depth, all, err);
    closedir(dir);
    return rc;
}

bool spot_rank_files_open(struct spot_rank_files *f)
{
    struct stat at, is;

    if (f->fd >= 0 && (stat(f->base, &at) || fstat(f->fd, &is) || !spot_safe_is_same(&at, &is))) {
        close(f->fd); /* the script has recreated the directory */
        f->fd = -1;
    }
    if (f->fd >= 0 || lstat(f->base, &at))
        return f->fd >= 0;
    f->fd = open(f->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->fd >= 0 && !fstat(f->fd, &is) && S_ISLNK(at.st_mode) && f->has_first &&
        !spot_safe_is_same(&is, &f->first)) {
        close(f->fd); /* a link created later may lead anywhere: ignore its contents */
        f->fd = -1;
    } else if (f->fd >= 0 && !f->has_first) {
        f->has_first = true;
        f->first = is;
    }
    return f->fd >= 0;
}

struct spot_rank_file *spot_rank_files_find(const struct spot_rank_files *f, const char *path)
{
    const struct spot_rank_file key = { .path = (char *)(uintptr_t)path };

    return f->n ? bsearch(&key, f->file, f->n, sizeof(key), by_path) : NULL;
}

bool spot_rank_files_is_as_before(const struct stat *a, const struct stat *b)
{
    return spot_safe_is_same(a, b) && a->st_size == b->st_size && a->st_mode == b->st_mode &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

void spot_rank_files_release(struct spot_rank_file *file, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(file[i].path);
    free(file);
}

/* A directory that loses files, such as its marker, is being removed: the files left in it count as
 * just changed. */
static void notice_removals(const struct spot_rank_files *f, struct found *all)
{
    for (size_t i = 0; i < f->n; i++) {
        const size_t n = spot_rank_files_unit(f->file[i].path) + 1;
        const bool is_gone =
            f->file[i].path[n - 1] == '/' &&
            !(all->n && bsearch(&f->file[i], all->file, all->n, sizeof(*all->file), by_path));

        for (size_t k = 0; is_gone && k < all->n; k++)
            if (!strncmp(all->file[k].path, f->file[i].path, n)) {
                all->file[k].since_s = spot_clock_s();
                all->file[k].is_base = false;
            }
    }
}

int spot_rank_files_scan(struct spot_rank_files *f, struct spot_err *err)
{
    struct found all = { 0 };
    const int fd =
        spot_rank_files_open(f) ? openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    const int rc = fd < 0 ? 0 : list_dir(f, fd, "", 0, &all, err);

    if (all.n)
        qsort(all.file, all.n, sizeof(*all.file), by_path);
    for (size_t i = 0; i < all.n; i++) {
        const struct spot_rank_file *const was = spot_rank_files_find(f, all.file[i].path);
        char *const path = all.file[i].path;

        if (was && spot_rank_files_is_as_before(&was->st, &all.file[i].st))
            all.file[i] = *was;
        else
            all.file[i].since_s = f->changed_s = spot_clock_s();
        all.file[i].path = path;
    }
    notice_removals(f, &all);
    spot_rank_files_release(f->file, f->n);
    f->file = all.file;
    f->n = all.n;
    return rc;
}
