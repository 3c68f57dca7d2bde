/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE /* flock, mkdtemp */
#include "host/state_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/protocol.h"
#include "common/temp.h"
#include "common/xalloc.h"
#include "host/state_store.h"

#define NAME "spot-state"
static const char memory_dir[] = "/dev/shm";
enum { SOCKET_PATH_MAX = 108 }; /* as sockaddr_un has it, with its end */

static char *join(const char *dir, const char *name)
{
    const size_t n = strlen(dir) + strlen(name) + 2;
    char *const path = spot_xcalloc(n, 1);

    snprintf(path, n, "%s/%s", dir, name);
    return path;
}

/* -1 if another process has it, or if it does not exist and is not to be created. */
static int lock_as(const char *root, const char *name, int flags)
{
    char *const path = join(root, name);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
        close(fd);
        fd = -1;
    }
    free(path);
    return fd;
}

static int lock(const char *root, int flags)
{
    return lock_as(root, "lock", flags);
}

/* Invisible to others until it is locked. */
static int lock_new(const char *root)
{
    char *const before = join(root, "lock.new"), *const path = join(root, "lock");
    int fd = lock_as(root, "lock.new", O_CREAT | O_EXCL);

    if (fd >= 0 && rename(before, path)) {
        close(fd);
        fd = -1;
    }
    free(before);
    free(path);
    return fd;
}

static void remove_root(const char *root)
{
    if (!spot_state_lay_out(NULL, root, NULL, NULL))
        (void)rmdir(root);
}

/* --- in memory --------------------------------------------------------------------------- */

/* Of agents that were killed. One that is being made has no lock yet, and is left alone. */
static void sweep(const char *base)
{
    DIR *const dir = opendir(base);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        char *root;
        struct stat st;
        int fd;

        if (strncmp(entry->d_name, NAME "-", sizeof(NAME)) != 0)
            continue;
        root = join(base, entry->d_name);
        fd =
            !lstat(root, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() ? lock(root, 0) : -1;
        if (fd >= 0) {
            remove_root(root);
            close(fd);
        }
        free(root);
    }
    if (dir)
        closedir(dir);
}

static int make_private(struct spot_state_dir *d, struct spot_err *err)
{
    struct stat st;
    const bool has_memory =
        !stat(memory_dir, &st) && S_ISDIR(st.st_mode) && !access(memory_dir, W_OK | X_OK);

    d->root = has_memory ? join(memory_dir, NAME "-XXXXXX") : spot_temp_template(NAME);
    if (has_memory)
        sweep(memory_dir);
    if (!mkdtemp(d->root)) {
        spot_err_sys(err, "cannot make a directory '%.200s'", d->root);
        free(d->root);
        d->root = NULL;
        return -1;
    }
    d->lock_fd = lock_new(d->root);
    return d->lock_fd < 0 ? spot_err_sys(err, "cannot lock '%.200s'", d->root) : 0;
}

/* --- with a name --------------------------------------------------------------------------- */

static int make_dir(const char *path, struct spot_err *err)
{
    return mkdir(path, 0700) && errno != EEXIST
               ? spot_err_sys(err, "cannot make the directory '%.200s'", path)
               : 0;
}

/* As it is known from everywhere: a rank may go elsewhere. */
static int take_first_free(struct spot_state_dir *d, const char *name, struct spot_err *err)
{
    char base[PATH_MAX], number[16];

    d->is_kept = true;
    if (make_dir(name, err))
        return -1;
    if (!realpath(name, base))
        return spot_err_sys(err, "cannot find '%.200s'", name);
    for (int i = 0; i < SPOT_MEMBERS_MAX && d->lock_fd < 0; i++) {
        snprintf(number, sizeof(number), "%d", i);
        free(d->root);
        d->root = join(base, number);
        if (make_dir(d->root, err))
            return -1;
        d->lock_fd = lock(d->root, O_CREAT);
    }
    return d->lock_fd < 0 ? spot_err_set(err, SPOT_ESYS, "other agents have all of '%.200s'", name)
                          : 0;
}

/* --- a path for a socket ------------------------------------------------------------------- */

static int choose_socket(struct spot_state_dir *d, struct spot_err *err)
{
    d->socket = join(d->root, "socket");
    if (strlen(d->socket) < SOCKET_PATH_MAX)
        return 0;
    free(d->socket);
    d->socket = NULL;
    d->aside = spot_temp_template(NAME);
    if (strlen(d->aside) + sizeof("/socket") > SOCKET_PATH_MAX) {
        free(d->aside);
        d->aside = join("/tmp", NAME "-XXXXXX");
    }
    if (!mkdtemp(d->aside)) {
        spot_err_sys(err, "cannot make a directory '%.200s'", d->aside);
        free(d->aside);
        d->aside = NULL;
        return -1;
    }
    d->socket = join(d->aside, "socket");
    return 0;
}

static void drop_socket(struct spot_state_dir *d)
{
    if (d->socket)
        (void)unlink(d->socket);
    if (d->aside)
        (void)rmdir(d->aside);
    free(d->socket);
    free(d->aside);
}

/* --- the whole ------------------------------------------------------------------------------ */

int spot_state_dir_open(struct spot_state_dir *d, const char *name, struct spot_err *err)
{
    *d = (struct spot_state_dir){ .lock_fd = -1 };
    if (name ? take_first_free(d, name, err) : make_private(d, err))
        return -1;
    d->live = join(d->root, "live");
    return make_dir(d->live, err) || choose_socket(d, err) ? -1 : 0;
}

void spot_state_dir_release(struct spot_state_dir *d)
{
    drop_socket(d);
    if (d->root && d->lock_fd >= 0 && !d->is_kept)
        remove_root(d->root);
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    free(d->root);
    free(d->live);
    *d = (struct spot_state_dir){ .lock_fd = -1 };
}
