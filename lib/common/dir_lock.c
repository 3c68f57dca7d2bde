/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE /* flock */
#include "common/dir_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/out.h"

int spot_dir_make(const char *dir, struct spot_err *err)
{
    struct stat st;

    if (!*dir)
        return spot_err_set(err, SPOT_EUSAGE, "expected the path of a directory, got ''");
    if (!mkdir(dir, 0700)) {
        if (spot_sync_directory(dir, err))
            return -1;
    } else if (errno != EEXIST) {
        return spot_err_sys(err, "cannot make '%s'", dir);
    }
    if (!stat(dir, &st) && !S_ISDIR(st.st_mode))
        errno = ENOTDIR;
    else if (!access(dir, R_OK | W_OK | X_OK))
        return 0;
    return spot_err_sys(err, "cannot use '%s'", dir);
}

int spot_dir_lock(const char *dir, struct spot_err *err)
{
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return spot_err_sys(err, "cannot use '%s'", dir);
    if (!flock(fd, LOCK_EX | LOCK_NB))
        return fd;
    if (errno == EWOULDBLOCK)
        spot_err_set(err, SPOT_ESYS, "'%s' is in use by another job", dir);
    else
        spot_err_sys(err, "cannot lock '%s'", dir);
    close(fd);
    return -1;
}
