/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* O_PATH, syscall. NOLINT(bugprone-reserved-identifier) */
#include "common/safe_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/pio.h"
#include "common/xalloc.h"

enum { DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

static int fail(int fd, int why)
{
    spot_close(fd);
    errno = why;
    return -1;
}

/* --- opening ------------------------------------------------------------------------------- */

static bool is_below(const char *path)
{
    do {
        const size_t n = strcspn(path, "/");

        if (!n || (n == 2 && !strncmp(path, "..", 2)))
            return false;
        path += n;
    } while (*path++);
    return true;
}

/* Compares devices of directories: files of an overlay may have the devices of its layers. */
static bool is_mount(int dir_fd, int below)
{
    struct stat dir, st;

    return fstat(dir_fd, &dir) || fstat(below, &st) ||
           (S_ISDIR(st.st_mode) && st.st_dev != dir.st_dev);
}

/* Opens name by name, if the kernel has no openat2 or a sandbox forbids it. A mount of the same
 * file system is not detected. */
static int walk(int dir_fd, const char *path, int flags, mode_t mode)
{
    char name[NAME_MAX + 1];
    int at = dir_fd;

    for (;;) {
        const size_t n = strcspn(path, "/");
        const bool is_last = !path[n];
        int next;

        if (n > NAME_MAX)
            return fail(at == dir_fd ? -1 : at, ENAMETOOLONG);
        memcpy(name, path, n);
        name[n] = '\0';
        next = openat(at, name, is_last ? flags : DIR_FLAGS | O_PATH, mode);
        if (at != dir_fd) {
            const int why = errno;

            close(at);
            errno = why;
        }
        if (next < 0)
            return -1;
        if (is_mount(dir_fd, next))
            return fail(next, EXDEV);
        if (is_last)
            return next;
        at = next;
        path += n + 1;
    }
}

int spot_safe_open(int dir_fd, const char *path, int flags, mode_t mode)
{
    const int with = flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    const struct open_how how = {
        .flags = (unsigned)(flags & O_PATH ? flags | O_NOFOLLOW | O_CLOEXEC : with),
        .mode = flags & O_CREAT ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV
    };
    int fd;

    if (!is_below(path))
        return fail(-1, EXDEV);
    fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
    return fd < 0 && (errno == ENOSYS || errno == EPERM) ? walk(dir_fd, path, (int)how.flags, mode)
                                                         : fd;
}

int spot_safe_open_file(int dir_fd, const char *path, struct stat *st)
{
    const int fd = spot_safe_open(dir_fd, path, O_RDONLY, 0);
    struct stat here;

    if (fd < 0)
        return -1;
    if (fstat(fd, st ? st : &here))
        return fail(fd, errno);
    return S_ISREG((st ? st : &here)->st_mode) ? fd : fail(fd, EINVAL);
}

int spot_safe_make_dir(int dir_fd, const char *name)
{
    if (mkdirat(dir_fd, name, 0700) && errno != EEXIST)
        return -1;
    return spot_safe_open(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
}

int spot_safe_create(int dir_fd, const char *path, mode_t mode)
{
    char name[NAME_MAX + 1];
    int at = dir_fd, fd;

    for (size_t n; path[n = strcspn(path, "/")]; path += n + 1) {
        int next;

        if (n > NAME_MAX)
            return fail(at == dir_fd ? -1 : at, ENAMETOOLONG);
        memcpy(name, path, n);
        name[n] = '\0';
        next = spot_safe_make_dir(at, name);
        if (next < 0)
            return fail(at == dir_fd ? -1 : at, errno);
        if (at != dir_fd)
            close(at);
        at = next;
    }
    fd = spot_safe_open(at, path, O_WRONLY | O_CREAT | O_EXCL, mode);
    if (at == dir_fd)
        return fd;
    if (fd < 0)
        return fail(at, errno);
    close(at);
    return fd;
}

static int name_beside(const char *name, char beside[NAME_MAX + 1])
{
    return (size_t)snprintf(beside, NAME_MAX + 1, "%s.new", name) > NAME_MAX
               ? fail(-1, ENAMETOOLONG)
               : 0;
}

static FILE *begin(int dir_fd, const char *name)
{
    char beside[NAME_MAX + 1];
    FILE *out;
    int fd;

    if (name_beside(name, beside))
        return NULL;
    (void)unlinkat(dir_fd, beside, 0); /* left by a killed process */
    fd = spot_safe_open(dir_fd, beside, O_WRONLY | O_CREAT | O_EXCL, 0600);
    out = fd < 0 ? NULL : fdopen(fd, "w");
    if (fd >= 0 && !out)
        (void)fail(fd, errno);
    return out;
}

static int end(FILE *out_take, int dir_fd, const char *name, bool does_sync, int rc)
{
    char beside[NAME_MAX + 1];
    int why;

    (void)name_beside(name, beside); /* makes the same name as above */
    if (!rc)
        rc = fflush(out_take) || ferror(out_take) || (does_sync && fsync(fileno(out_take)));
    why = errno;
    if (fclose(out_take) && !rc) {
        rc = -1;
        why = errno;
    }
    if (!rc && !renameat(dir_fd, beside, dir_fd, name))
        return 0;
    if (!rc)
        why = errno;
    (void)unlinkat(dir_fd, beside, 0);
    return fail(-1, why);
}

int spot_safe_replace(int dir_fd, const char *name, const void *data, size_t n_byte, bool does_sync)
{
    FILE *const out = begin(dir_fd, name);

    if (!out)
        return -1;
    return end(out, dir_fd, name, does_sync, spot_write_at(fileno(out), 0, data, n_byte));
}

bool spot_safe_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool spot_safe_is_at(int dir_fd, const char *name, int fd)
{
    struct stat named, ours;

    return !fstatat(dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) && !fstat(fd, &ours) &&
           spot_safe_is_same(&named, &ours);
}

/* --- removing ----------------------------------------------------------------------------- */

/* Nested directories are not descended into: they are moved up into the directory being emptied,
 * under temporary names, so that depth needs no descriptors, stack or long paths. */
struct removal {
    int top_fd;
    unsigned long n_moved;
    size_t n_gone; /* number of entries removed in this pass */
    char name[NAME_MAX + 1];
    int why; /* errno of the first remaining entry; 0: none */
};

static void note_failure(struct removal *r, const char *name)
{
    if (r->why)
        return;
    r->why = errno;
    snprintf(r->name, sizeof(r->name), "%s", name);
}

/* Opens a directory to be emptied, changing its mode if its owner has no access; -1 with errno. */
static int open_full(int dir_fd, const char *name)
{
    char link[32];
    struct stat st;
    int fd = spot_safe_open(dir_fd, name, O_PATH | O_DIRECTORY, 0), there;

    if (fd < 0)
        return -1;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (!fstat(fd, &st) && (st.st_mode & S_IRWXU) != S_IRWXU)
        (void)chmod(link, S_IRWXU);
    there = openat(fd, ".", DIR_FLAGS);
    return there < 0 ? fail(fd, errno) : (close(fd), there);
}

static void empty_one(struct removal *r, int fd_take, bool is_top);

/* Moves a directory up, where the next pass finds it. */
static int move_up(struct removal *r, int dir_fd, const char *name)
{
    const int fd = open_full(dir_fd, name); /* moving a directory writes its ".." */
    char beside[48];

    if (fd < 0)
        return -1;
    close(fd);
    do
        snprintf(beside, sizeof(beside), ".removed.%lu", ++r->n_moved);
    while (!faccessat(r->top_fd, beside, F_OK, AT_SYMLINK_NOFOLLOW));
    return renameat(dir_fd, name, r->top_fd, beside);
}

static int remove_full(struct removal *r, int dir_fd, const char *name)
{
    const int fd = open_full(dir_fd, name);

    if (fd < 0)
        return -1;
    empty_one(r, fd, false);
    return unlinkat(dir_fd, name, AT_REMOVEDIR);
}

/* A non-empty directory is ENOTEMPTY, a mount EBUSY. */
static int remove_plain(int dir_fd, const char *name)
{
    int why;

    if (!unlinkat(dir_fd, name, 0))
        return 0;
    why = errno;
    if ((why != EISDIR && why != EPERM) || !unlinkat(dir_fd, name, AT_REMOVEDIR))
        return why == EISDIR || why == EPERM || why == ENOENT ? 0 : fail(-1, why);
    return fail(-1, errno == ENOTDIR ? why : errno == EEXIST ? ENOTEMPTY : errno);
}

static void remove_one(struct removal *r, int dir_fd, const char *name, bool is_top)
{
    int rc = remove_plain(dir_fd, name);

    if (rc && errno == ENOTEMPTY)
        rc = (is_top ? remove_full : move_up)(r, dir_fd, name);
    if (!rc)
        r->n_gone++;
    else
        note_failure(r, name);
}

static void empty_one(struct removal *r, int fd_take, bool is_top)
{
    DIR *const dir = fdopendir(fd_take);
    const struct dirent *entry;

    if (!dir) {
        note_failure(r, ".");
        close(fd_take);
        return;
    }
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove_one(r, dirfd(dir), entry->d_name, is_top);
    closedir(dir);
}

/* Reopens a directory, changing its mode if its owner has no access. */
static int open_anew(int dir_fd)
{
    struct stat st;

    if (!fstat(dir_fd, &st) && (st.st_mode & S_IRWXU) != S_IRWXU)
        (void)fchmod(dir_fd, S_IRWXU);
    return openat(dir_fd, ".", DIR_FLAGS);
}

int spot_safe_empty(int dir_fd, struct spot_err *err)
{
    struct removal r = { .top_fd = dir_fd };

    do {
        const int fd = open_anew(dir_fd);

        r.n_gone = 0;
        r.why = 0;
        if (fd < 0)
            return spot_err_sys(err, "cannot read a directory to be emptied");
        empty_one(&r, fd, true);
    } while (r.n_gone);
    errno = r.why;
    return r.why ? spot_err_sys(err, "cannot remove '%.200s'", r.name) : 0;
}

int spot_safe_remove(int dir_fd, const char *name, struct spot_err *err)
{
    int fd, rc;

    if (!remove_plain(dir_fd, name))
        return 0;
    fd = errno == ENOTEMPTY ? open_full(dir_fd, name) : -1;
    if (fd < 0)
        return spot_err_sys(err, "cannot remove '%.200s'", name);
    rc = spot_safe_empty(fd, err);
    if (!rc && unlinkat(dir_fd, name, AT_REMOVEDIR))
        rc = spot_err_sys(err, "cannot remove '%.200s'", name);
    close(fd);
    return rc;
}

int spot_safe_remove_path(const char *path, struct spot_err *err)
{
    const char *const slash = strrchr(path, '/');
    char *const dir = spot_xstrdup(slash ? path : ".");
    int fd, rc;

    if (slash)
        dir[slash == path ? 1 : slash - path] = '\0';
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc = fd < 0 ? spot_err_sys(err, "cannot open '%.200s'", dir)
                : spot_safe_remove(fd, slash ? slash + 1 : path, err);
    spot_close(fd);
    free(dir);
    return rc;
}
