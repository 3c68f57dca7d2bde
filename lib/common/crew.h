/* SPDX-License-Identifier: MIT */
/* crew.h - threads that come and go, all of them joined.
 *
 * A detached thread may still be in its destructors (OpenSSL has some) when the process exits.
 */
#ifndef SPOT_COMMON_CREW_H
#define SPOT_COMMON_CREW_H

#include <pthread.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_crew_member;

/* Used by one thread; {NULL} is an empty one. */
struct spot_crew {
    struct spot_crew_member *first;
};

/* Run work(arg) in a thread of its own; members that have finished are joined first, so that any
 * number may come over time. Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_crew_start(struct spot_crew *crew, void (*work)(void *arg), void *arg,
                    struct spot_err *err);

/* Wait for all; the crew is empty then. */
void spot_crew_join(struct spot_crew *crew);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_CREW_H */
