/* SPDX-License-Identifier: MIT */
/* The listening address of a coordinator: the requested one, or a private one. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/group_state.h"
#include "cluster/private_dir.h"

enum {
    PATH_LENGTH_MAX = 99
}; /* of 107; the rest is for the workers' suffix, a dot and a process id */

/* Takes the address of --listen, checking that workers can create their own sockets beside it. */
static int take_address(struct spot_group *g, struct spot_err *err)
{
    const char *listen = g->options->listen;

    if (!strncmp(listen, "unix:", 5) && strlen(listen + 5) > PATH_LENGTH_MAX)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--listen '%s': the path is longer than %d bytes; workers create "
                            "sockets beside it with longer names",
                            listen, PATH_LENGTH_MAX);
    if (spot_endpoint_parse_reach(listen, g->tls ? SPOT_REACH_NUMERIC : SPOT_REACH_HERE,
                                  &g->endpoint, err))
        return -1;
    spot_endpoint_make_absolute(&g->endpoint); /* as workers announce theirs */
    if (g->options->n_local && spot_endpoint_is_any(&g->endpoint))
        return spot_err_set(
            err, SPOT_EUSAGE,
            "with local workers, --listen must be one address that others reach, not '%s'", listen);
    return 0;
}

/* Create a private directory, for the sockets of the job and of its local workers. If its name is
 * too long for a socket address it is reached by its descriptor: the workers are our children, for
 * whom /proc/OURS/fd is accessible. */
static int take_private(struct spot_group *g, struct spot_err *err)
{
    const char *dir = g->private_dir = spot_private_dir_new(g->options->name, err);

    if (!dir)
        return -1;
    g->endpoint.kind = SPOT_ENDPOINT_UNIX;
    if (strlen(dir) + strlen("/job") <= PATH_LENGTH_MAX) {
        snprintf(g->endpoint.path, sizeof(g->endpoint.path), "%s/job", dir);
        return 0;
    }
    g->private_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (g->private_fd < 0)
        return spot_err_sys(err, "cannot open '%s'", dir);
    snprintf(g->endpoint.path, sizeof(g->endpoint.path), "/proc/%ld/fd/%d/job", (long)getpid(),
             g->private_fd);
    return 0;
}

/* Reports the address to the user, who needs it for workers on other machines, and warns if all
 * users of this machine can connect. */
static void report_address(const struct spot_group *g)
{
    char address[SPOT_ADDRESS_MAX + 8];

    if (!g->options->listen || !g->options->listening)
        return;
    if (g->endpoint.kind != SPOT_ENDPOINT_UNIX && !g->tls)
        g->options->warn("without --key-file every user of this machine can join, stop or change "
                         "this job; --listen unix:PATH prevents it");
    spot_endpoint_print(&g->endpoint, address);
    if (g->endpoint.kind == SPOT_ENDPOINT_UNIX)
        snprintf(address, sizeof(address), "%s", g->options->listen);
    g->options->listening(g->options->user, address);
}

int spot_group_listen(struct spot_group *g, struct spot_err *err)
{
    if (g->options->listen ? take_address(g, err) : take_private(g, err))
        return -1;
    g->listener = spot_endpoint_listen(&g->endpoint, err);
    if (g->listener < 0)
        return -1;
    report_address(g);
    return 0;
}

void spot_group_unlisten(struct spot_group *g)
{
    if (g->listener < 0)
        return;
    spot_endpoint_unlisten(&g->endpoint, g->listener);
    spot_endpoint_sweep(&g->endpoint, 0);
}

void spot_group_drop_private(struct spot_group *g)
{
    if (g->private_fd >= 0)
        close(g->private_fd);
    if (g->private_dir)
        rmdir(g->private_dir);
    free(g->private_dir);
}
