/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* flock, mkdtemp, statx. NOLINT(bugprone-reserved-identifier) */
#include "host/state_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/protocol.h"
#include "common/pio.h"
#include "common/safe_dir.h"
#include "common/temp.h"
#include "common/xalloc.h"

#define NAME "spot-state"
static const char memory_dir[] = "/dev/shm";
enum { SOCKET_PATH_MAX = 108 }; /* size of sun_path in sockaddr_un, with the terminating zero */

/* Open and lock a directory. -1 if another process has locked it, or if it does not exist and must
 * not be created. */
static int lock_as(int root_fd, const char *name, int flags)
{
    const int fd = spot_safe_open(root_fd, name, O_RDWR | flags, 0600);
    struct stat st;

    if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode) || flock(fd, LOCK_EX | LOCK_NB))) {
        close(fd);
        return -1;
    }
    return fd;
}

static int lock(int root_fd, int flags)
{
    return lock_as(root_fd, "lock", flags);
}

/* Create a directory that others do not see before it is locked. */
static int lock_new(int root_fd)
{
    const int fd = lock_as(root_fd, "lock.new", O_CREAT | O_EXCL);

    if (fd >= 0 && renameat(root_fd, "lock.new", root_fd, "lock")) {
        close(fd);
        return -1;
    }
    return fd;
}

/* --- identity of ROOT/live ----------------------------------------------------------- */

/* Creation time in ns, because the inode number of a removed directory may be reused. 0: not
 * known. */
static uintmax_t born_ns(int dir_fd, const char *name)
{
    struct statx x;

    if (statx(dir_fd, name, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &x) || !(x.stx_mask & STATX_BTIME))
        return 0;
    return (uintmax_t)x.stx_btime.tv_sec * 1000000000 + x.stx_btime.tv_nsec;
}

/* Record ROOT/live in `lock`, with the inode number of ROOT, so that the record is not valid for a
 * copy elsewhere. */
static void note_live(const struct spot_state_dir *d)
{
    struct stat root, live;
    char text[96];

    if (fstat(d->root_fd, &root) || fstat(d->live_fd, &live) || ftruncate(d->lock_fd, 0))
        return;
    snprintf(text, sizeof(text), "%ju %ju %ju\n", (uintmax_t)root.st_ino, (uintmax_t)live.st_ino,
             born_ns(d->root_fd, "live"));
    (void)spot_write_at(d->lock_fd, 0, text, strlen(text));
}

/* True if the directory at ROOT/live is not the one that was created by an agent. */
static bool is_foreign(int root_fd, int lock_fd)
{
    char text[96] = "", *end;
    uintmax_t root_ino, live_ino, noted_ns, live_ns;
    struct stat root, live;

    if (fstatat(root_fd, "live", &live, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(live.st_mode) ||
        fstat(root_fd, &root))
        return false;
    if (live.st_dev != root.st_dev)
        return true;
    if (spot_read_at(lock_fd, 0, text, sizeof(text) - 1) <= 0)
        return false;
    root_ino = strtoumax(text, &end, 10);
    live_ino = strtoumax(end, &end, 10);
    noted_ns = strtoumax(end, &end, 10);
    live_ns = born_ns(root_fd, "live");
    return root_ino && live_ino && root_ino == root.st_ino &&
           (live_ino != live.st_ino || (noted_ns && live_ns && noted_ns != live_ns));
}

static int say_replaced(const struct spot_state_dir *d, struct spot_err *err)
{
    char target[256] = "";
    struct stat st;
    const char *what = "is no directory any more";

    if (fstatat(d->root_fd, "live", &st, AT_SYMLINK_NOFOLLOW))
        what = "is gone";
    else if (S_ISDIR(st.st_mode))
        what = "is another directory now, or a mount";
    else if (readlinkat(d->root_fd, "live", target, sizeof(target) - 1) > 0)
        what = "is a symbolic link now, to ";
    return spot_err_set(err, SPOT_ESYS,
                        SPOT_STATE_DIR_ENV
                        " (%.200s) %s%s: nothing there was touched. A program "
                        "may empty that directory, but not replace it (for more room give "
                        "--state-dir)",
                        d->live, what, target);
}

int spot_state_dir_check(const struct spot_state_dir *d, struct spot_err *err)
{
    return spot_safe_is_at(d->root_fd, "live", d->live_fd) ? 0 : say_replaced(d, err);
}

static void remove_root(int base_fd, const char *name, int root_fd, int lock_fd)
{
    if (spot_safe_is_at(base_fd, name, root_fd) && !is_foreign(root_fd, lock_fd) &&
        !spot_safe_empty(root_fd, NULL))
        (void)unlinkat(base_fd, name, AT_REMOVEDIR);
}

static const char *base_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* --- in memory --------------------------------------------------------------------------- */

static void sweep_one(int base_fd, const char *name)
{
    const int root_fd = spot_safe_open(base_fd, name, O_RDONLY | O_DIRECTORY, 0);
    struct stat st;
    int fd = -1;

    if (root_fd < 0)
        return;
    if (!fstat(root_fd, &st) && st.st_uid == geteuid())
        fd = lock(root_fd, 0);
    if (fd >= 0) {
        remove_root(base_fd, name, root_fd, fd);
        close(fd);
    }
    close(root_fd);
}

/* Remove the directories of agents that were killed. One that is being created has no lock yet and
 * is left alone. */
static void sweep(const char *base)
{
    DIR *const dir = opendir(base);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        if (!strncmp(entry->d_name, NAME "-", sizeof(NAME)))
            sweep_one(dirfd(dir), entry->d_name);
    if (dir)
        closedir(dir);
}

static int open_made(struct spot_state_dir *d, struct spot_err *err)
{
    char *const base = spot_xstrdup(d->root);

    base[base_name(base) - base - 1] = '\0';
    d->base_fd = open(*base ? base : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(base);
    if (d->base_fd >= 0)
        d->root_fd = spot_safe_open(d->base_fd, base_name(d->root), O_RDONLY | O_DIRECTORY, 0);
    if (d->root_fd >= 0)
        d->lock_fd = lock_new(d->root_fd);
    return d->lock_fd < 0 ? spot_err_sys(err, "cannot lock '%.200s'", d->root) : 0;
}

static int make_private(struct spot_state_dir *d, struct spot_err *err)
{
    struct stat st;
    const bool has_memory =
        !stat(memory_dir, &st) && S_ISDIR(st.st_mode) && !access(memory_dir, W_OK | X_OK);

    d->root = has_memory ? spot_xpath(memory_dir, NAME "-XXXXXX") : spot_temp_template(NAME);
    if (has_memory)
        sweep(memory_dir);
    if (mkdtemp(d->root))
        return open_made(d, err);
    spot_err_sys(err, "cannot make a directory '%.200s'", d->root);
    free(d->root);
    d->root = NULL;
    return -1;
}

/* --- with a name --------------------------------------------------------------------------- */

static int open_base(struct spot_state_dir *d, const char *name, char base[PATH_MAX],
                     struct spot_err *err)
{
    if (mkdir(name, 0700) && errno != EEXIST)
        return spot_err_sys(err, "cannot make the directory '%.200s'", name);
    if (!realpath(name, base))
        return spot_err_sys(err, "cannot find '%.200s'", name);
    d->base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return d->base_fd < 0 ? spot_err_sys(err, "cannot make the directory '%.200s'", name) : 0;
}

/* Try to lock one directory. Returns 0 also if it belongs to someone else: d is then without a
 * lock. */
static int try_one(struct spot_state_dir *d, const char *number, struct spot_err *err)
{
    if (mkdirat(d->base_fd, number, 0700) && errno != EEXIST)
        return spot_err_sys(err, "cannot make the directory '%.200s'", d->root);
    d->root_fd = spot_safe_open(d->base_fd, number, O_RDONLY | O_DIRECTORY, 0);
    if (d->root_fd < 0)
        return 0;
    d->lock_fd = lock(d->root_fd, O_CREAT);
    if (d->lock_fd >= 0)
        return 0;
    close(d->root_fd);
    d->root_fd = -1;
    return 0;
}

/* Take the first free directory. Its path is absolute, since ranks may change their working
 * directory. */
static int take_first_free(struct spot_state_dir *d, const char *name, struct spot_err *err)
{
    char base[PATH_MAX], number[16];

    d->is_kept = true;
    if (open_base(d, name, base, err))
        return -1;
    for (int i = 0; i < SPOT_MEMBERS_MAX && d->lock_fd < 0; i++) {
        snprintf(number, sizeof(number), "%d", i);
        free(d->root);
        d->root = spot_xpath(base, number);
        if (try_one(d, number, err))
            return -1;
    }
    return d->lock_fd < 0 ? spot_err_set(err, SPOT_ESYS, "other agents have all of '%.200s'", name)
                          : 0;
}

/* --- a path for a socket ------------------------------------------------------------------- */

static int choose_socket(struct spot_state_dir *d, struct spot_err *err)
{
    d->socket = spot_xpath(d->root, "socket");
    if (strlen(d->socket) < SOCKET_PATH_MAX)
        return 0;
    free(d->socket);
    d->socket = NULL;
    d->aside = spot_temp_template(NAME);
    if (strlen(d->aside) + sizeof("/socket") > SOCKET_PATH_MAX) {
        free(d->aside);
        d->aside = spot_xpath("/tmp", NAME "-XXXXXX");
    }
    if (!mkdtemp(d->aside)) {
        spot_err_sys(err, "cannot make a directory '%.200s'", d->aside);
        free(d->aside);
        d->aside = NULL;
        return -1;
    }
    d->socket = spot_xpath(d->aside, "socket");
    d->aside_fd = open(d->aside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return d->aside_fd < 0 ? spot_err_sys(err, "cannot open '%.200s'", d->aside) : 0;
}

static void drop_socket(struct spot_state_dir *d)
{
    const int fd = d->aside ? d->aside_fd : d->root_fd;

    if (d->socket && fd >= 0)
        (void)unlinkat(fd, "socket", 0);
    if (d->aside)
        (void)rmdir(d->aside); /* fails for a directory of another process, unless it is empty */
    free(d->socket);
    free(d->aside);
}

/* --- create and free ----------------------------------------------------------------------- */

static const struct spot_state_dir closed = {
    .base_fd = -1, .root_fd = -1, .live_fd = -1, .aside_fd = -1, .lock_fd = -1
};

static int open_live(struct spot_state_dir *d, struct spot_err *err)
{
    d->live = spot_xpath(d->root, "live");
    if (is_foreign(d->root_fd, d->lock_fd))
        return say_replaced(d, err);
    d->live_fd = spot_safe_make_dir(d->root_fd, "live");
    if (d->live_fd < 0)
        return errno == ELOOP || errno == ENOTDIR || errno == EXDEV
                   ? say_replaced(d, err)
                   : spot_err_sys(err, "cannot make the directory '%.200s'", d->live);
    note_live(d);
    return 0;
}

int spot_state_dir_open(struct spot_state_dir *d, const char *name, struct spot_err *err)
{
    *d = closed;
    if (name ? take_first_free(d, name, err) : make_private(d, err))
        return -1;
    return open_live(d, err) || choose_socket(d, err) ? -1 : 0;
}

void spot_state_dir_release(struct spot_state_dir *d)
{
    const int fd[] = { d->base_fd, d->root_fd, d->live_fd, d->aside_fd, d->lock_fd };

    drop_socket(d);
    if (d->lock_fd >= 0 && !d->is_kept)
        remove_root(d->base_fd, base_name(d->root), d->root_fd, d->lock_fd);
    for (size_t i = 0; i < sizeof(fd) / sizeof(fd[0]); i++)
        spot_close(fd[i]);
    free(d->root);
    free(d->live);
    *d = closed;
}
