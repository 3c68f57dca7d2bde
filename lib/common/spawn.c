/* SPDX-License-Identifier: MIT */
#include "common/spawn.h"

#include <signal.h>

void spot_spawn_afresh(posix_spawnattr_t *attribute, pid_t group)
{
    sigset_t none, standard;

    sigemptyset(&none);
    sigemptyset(&standard);
    sigaddset(&standard, SIGPIPE);
    sigaddset(&standard, SIGTERM);
    sigaddset(&standard, SIGINT);
    posix_spawnattr_setpgroup(attribute, group);
    posix_spawnattr_setsigmask(attribute, &none);
    posix_spawnattr_setsigdefault(attribute, &standard);
    posix_spawnattr_setflags(attribute, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                            POSIX_SPAWN_SETSIGDEF);
}
