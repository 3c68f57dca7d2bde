/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* flock, O_NOFOLLOW. NOLINT(bugprone-reserved-identifier) */
#include "serve/shared_image.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/xalloc.h"

enum { HEAD_BYTE = 4096, PREFIX_MAX = 32 };

static const double look_s = 0.02;
static const char whole[8] = "spotimg1"; /* first bytes of a complete file */

static void put_prefix(char prefix[PREFIX_MAX])
{
    snprintf(prefix, PREFIX_MAX, "spot-%u-image-", (unsigned)geteuid());
}

/* True for a file of this user that other users cannot open, without other hard links. */
static bool is_ours(int fd, struct stat *s)
{
    return !fstat(fd, s) && S_ISREG(s->st_mode) && s->st_uid == geteuid() && !(s->st_mode & 077) &&
           s->st_nlink <= 1;
}

static bool is_at(const char *path, const struct stat *of)
{
    struct stat s;

    return !lstat(path, &s) && s.st_ino == of->st_ino && s.st_dev == of->st_dev;
}

/* --- unused files ---------------------------------------------------------------------- */

/* Remove a file that no process maps, which is shown by acquiring its lock. */
static void remove_unused(const char *path, int fd)
{
    struct stat s;

    if (!flock(fd, LOCK_EX | LOCK_NB) && is_ours(fd, &s) && is_at(path, &s))
        unlink(path);
}

static void sweep(const char *dir, const char *own_path)
{
    char prefix[PREFIX_MAX], path[512];
    DIR *const d = opendir(dir);
    const struct dirent *e;

    put_prefix(prefix);
    while (d && (e = readdir(d))) {
        int fd;

        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        fd = strcmp(path, own_path) != 0 ? open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                                         : -1;
        if (fd < 0)
            continue;
        remove_unused(path, fd);
        close(fd);
    }
    if (d)
        closedir(d);
}

/* --- one file ------------------------------------------------------------------------------ */

/* Lock the file, exclusively or with others that map it. -1 if it is not ours: a stranger's lock
 * might never end.
 */
static int lock_file(int fd, const struct spot_shared_image_maker *maker, struct stat *s)
{
    if (!is_ours(fd, s))
        return -1;
    while (flock(fd, LOCK_EX | LOCK_NB)) {
        if (is_ours(fd, s) && s->st_size && !flock(fd, LOCK_SH | LOCK_NB))
            break;
        maker->wait(maker->user);
        spot_clock_sleep(look_s);
    }
    return is_ours(fd, s) ? 0 : -1;
}

/* The file, locked; -1 if impossible. The last process to leave may have removed it meanwhile. */
static int open_locked(const char *path, const struct spot_shared_image_maker *maker)
{
    enum { HOW = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };

    for (;;) {
        const int fd = open(path, HOW, 0600);
        struct stat s;

        if (fd < 0)
            return -1;
        if (lock_file(fd, maker, &s)) {
            close(fd);
            return -1;
        }
        if (is_at(path, &s))
            return fd;
        close(fd);
    }
}

static bool is_whole(const struct spot_shared_image *i)
{
    return !memcmp(i->map, whole, sizeof(whole));
}

/* Map the existing file, or allocate it. */
static int map_file(struct spot_shared_image *i, size_t n_byte)
{
    struct stat s;

    i->map_byte = HEAD_BYTE + n_byte;
    if (fstat(i->fd, &s))
        return -1;
    if ((size_t)s.st_size != i->map_byte &&
        (ftruncate(i->fd, 0) || posix_fallocate(i->fd, 0, (off_t)i->map_byte)))
        return -1;
    i->map = mmap(NULL, i->map_byte, PROT_READ | PROT_WRITE, MAP_SHARED, i->fd, 0);
    if (i->map == MAP_FAILED)
        i->map = NULL;
    return i->map ? 0 : -1;
}

static void unmap(struct spot_shared_image *i)
{
    if (i->map)
        munmap(i->map, i->map_byte);
    if (i->fd >= 0) {
        remove_unused(i->path, i->fd);
        close(i->fd);
    }
    memset(i, 0, sizeof(*i));
    i->fd = -1;
}

/* Returns 0; 1 if it cannot be shared; -1 with *err if it could not be made. */
static int open_shared(struct spot_shared_image *i, const struct spot_shared_image_maker *maker,
                       struct spot_err *err)
{
    i->fd = open_locked(i->path, maker);
    if (i->fd < 0 || map_file(i, maker->n_byte))
        return 1;
    if (!is_whole(i)) {
        if (maker->make(maker->user, (char *)i->map + HEAD_BYTE, err))
            return -1;
        memcpy(i->map, whole, sizeof(whole));
    }
    mprotect(i->map, i->map_byte, PROT_READ);
    flock(i->fd, LOCK_SH);
    i->byte = (char *)i->map + HEAD_BYTE;
    i->is_shared = true;
    return 0;
}

static int open_own(struct spot_shared_image *i, const struct spot_shared_image_maker *maker,
                    struct spot_err *err)
{
    i->own = spot_alloc_aligned(maker->n_byte, 1);
    if (!i->own)
        return spot_err_set(err, SPOT_ESYS, "no memory for weights of %zu bytes", maker->n_byte);
    if (maker->make(maker->user, i->own, err)) {
        spot_free_aligned(i->own);
        i->own = NULL;
        return -1;
    }
    i->byte = i->own;
    return 0;
}

int spot_shared_image_open(struct spot_shared_image *i, const char *dir, const char *name,
                           const struct spot_shared_image_maker *maker, struct spot_err *err)
{
    char prefix[PREFIX_MAX];
    int rc;

    memset(i, 0, sizeof(*i));
    i->fd = -1;
    dir = dir ? dir : "/dev/shm";
    put_prefix(prefix);
    snprintf(i->path, sizeof(i->path), "%s/%s%.80s", dir, prefix, name);
    sweep(dir, i->path);
    rc = open_shared(i, maker, err);
    if (rc) {
        unmap(i);
        rc = rc < 0 ? -1 : open_own(i, maker, err);
    }
    i->n_byte = rc ? 0 : maker->n_byte;
    return rc;
}

void spot_shared_image_close(struct spot_shared_image *i)
{
    spot_free_aligned(i->own);
    if (i->is_shared)
        unmap(i);
    memset(i, 0, sizeof(*i));
}
