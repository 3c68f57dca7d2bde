/* SPDX-License-Identifier: MIT */
/* spawn.h - attributes of a user's command. */
#ifndef SPOT_COMMON_SPAWN_H
#define SPOT_COMMON_SPAWN_H

#include <spawn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Start it in this process group (0: its own), with default signals. */
void spot_spawn_afresh(posix_spawnattr_t *attribute, pid_t group);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_SPAWN_H */
