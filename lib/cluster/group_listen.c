/* SPDX-License-Identifier: MIT */
/* Where a coordinator listens: at the address that was asked for, or at a private one. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/temp.h"
#include "train/trainer_state.h"
#include "cluster/private_dir.h"

enum { PATH_LENGTH_MAX = 99 }; /* of 107, for what workers add: a dot and their process id */

/* Where --listen says, if workers can put their own sockets there too. */
static int take_address(struct spot_coord *c, struct spot_err *err)
{
    const char *listen = c->options->listen;

    if (!strncmp(listen, "unix:", 5) && strlen(listen + 5) > PATH_LENGTH_MAX)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--listen '%s': the path has more than %d bytes; workers put their "
                            "sockets beside it, under longer names",
                            listen, PATH_LENGTH_MAX);
    if (spot_endpoint_parse_reach(listen, c->tls ? SPOT_REACH_NUMERIC : SPOT_REACH_HERE,
                                  &c->endpoint, err))
        return -1;
    spot_endpoint_make_absolute(&c->endpoint); /* as workers tell theirs */
    if (c->options->n_local && spot_endpoint_is_any(&c->endpoint))
        return spot_err_set(err, SPOT_EUSAGE,
                            "with local workers --listen wants one address that others reach "
                            "them at, not '%s'",
                            listen);
    return 0;
}

/* A directory of our own, for the sockets of the job and of its local workers. One whose name is
 * too long for the address of a socket is reached by its descriptor: the workers are our children,
 * for whom /proc/OURS/fd is open. */
static int take_private(struct spot_coord *c, struct spot_err *err)
{
    const char *dir = c->private_dir = spot_private_dir_new(err);

    if (!dir)
        return -1;
    c->endpoint.kind = SPOT_ENDPOINT_UNIX;
    if (strlen(dir) + strlen("/job") <= PATH_LENGTH_MAX) {
        snprintf(c->endpoint.path, sizeof(c->endpoint.path), "%s/job", dir);
        return 0;
    }
    c->private_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->private_fd < 0)
        return spot_err_sys(err, "cannot open '%s'", dir);
    snprintf(c->endpoint.path, sizeof(c->endpoint.path), "/proc/%ld/fd/%d/job", (long)getpid(),
             c->private_fd);
    return 0;
}

/* What the user waits for, where workers come from elsewhere. */
static void tell_address(const struct spot_coord *c)
{
    char address[SPOT_ADDRESS_MAX + 8];

    if (!c->options->listen || !c->options->note)
        return;
    spot_endpoint_print(&c->endpoint, address);
    if (c->endpoint.kind == SPOT_ENDPOINT_UNIX)
        snprintf(address, sizeof(address), "%s", c->options->listen);
    if (spot_store_newest(c->store) < c->config.n_step)
        c->options->note("listening at %s", address);
    else
        c->options->note("listening at %s; all %lld steps are done, the job ends when a worker has "
                         "joined and shown the state",
                         address, (long long)c->config.n_step);
}

int spot_coord_listen(struct spot_coord *c, struct spot_err *err)
{
    if (c->options->listen ? take_address(c, err) : take_private(c, err))
        return -1;
    c->listener = spot_endpoint_listen(&c->endpoint, err);
    if (c->listener < 0)
        return -1;
    tell_address(c);
    return 0;
}

void spot_coord_unlisten(struct spot_coord *c)
{
    if (c->listener < 0)
        return;
    close(c->listener);
    if (c->endpoint.kind == SPOT_ENDPOINT_UNIX)
        unlink(c->endpoint.path);
    spot_endpoint_sweep(&c->endpoint, 0);
}

void spot_coord_drop_private(struct spot_coord *c)
{
    if (c->private_fd >= 0)
        close(c->private_fd);
    if (c->private_dir)
        rmdir(c->private_dir);
    free(c->private_dir);
}
