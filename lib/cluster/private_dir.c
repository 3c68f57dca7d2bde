/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "cluster/private_dir.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "common/temp.h"

static const time_t young_s =
    60; /* a younger directory may belong to a coordinator that is starting */

/* The directory is reached by its descriptor: its name may be too long for the address of a socket.
 */
void spot_private_dir_clear(const char *dir)
{
    struct spot_endpoint job = { .kind = SPOT_ENDPOINT_UNIX };
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return;
    snprintf(job.path, sizeof(job.path), "/proc/self/fd/%d/job", fd);
    spot_endpoint_drop_stale(&job, 0);
    if (lstat(job.path, &st)) { /* no socket, so no coordinator */
        spot_endpoint_sweep(&job, 0);
        (void)rmdir(dir);
    }
    close(fd);
}

/* Removes directories of jobs that were killed with all their workers. */
static void sweep(const char *name)
{
    char *pattern = spot_temp_template(name);
    glob_t found = { 0 };
    struct stat st;

    strcpy(pattern + strlen(pattern) - strlen("XXXXXX"), "??????");
    if (!glob(pattern, GLOB_NOSORT, NULL, &found))
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (!lstat(found.gl_pathv[i], &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
                time(NULL) - st.st_mtime >= young_s)
                spot_private_dir_clear(found.gl_pathv[i]);
    globfree(&found);
    free(pattern);
}

char *spot_private_dir_new(const char *name, struct spot_err *err)
{
    char *dir = spot_temp_template(name);

    sweep(name);
    if (mkdtemp(dir))
        return dir;
    spot_err_sys(err, "cannot make a directory for the socket, '%s'", dir);
    free(dir);
    return NULL;
}
