/* SPDX-License-Identifier: MIT */
/* spawn.h - what a command of the user begins with. */
#ifndef SPOT_COMMON_SPAWN_H
#define SPOT_COMMON_SPAWN_H

#include <spawn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In that process group, 0 for one of its own, and with signals as in a new program. */
void spot_spawn_afresh(posix_spawnattr_t *attribute, pid_t group);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_SPAWN_H */
