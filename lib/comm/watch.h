/* SPDX-License-Identifier: MIT */
/* watch.h - waits for many descriptors of which few are ready: epoll, level-triggered. The owner of
 * a descriptor stores which events are watched, 0 before they were first set, and may close it at
 * any time; no more events are then reported. The owner can be looked up by the descriptor until
 * another owner registers the same number.
 */
#ifndef SPOT_COMM_WATCH_H
#define SPOT_COMM_WATCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_WATCH_EVENTS = 128 }; /* maximum number of events of one wait */

/* Wait for no event, but report the end of the connection. */
#define SPOT_WATCH_NONE ((uint32_t)EPOLLHUP)

struct spot_watch {
    int epoll;    /* -1: not open */
    void **owner; /* [cap] by descriptor; NULL: none */
    size_t cap;
    struct epoll_event event[SPOT_WATCH_EVENTS]; /* [spot_watch_wait] */
};

/* Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_watch_open(struct spot_watch *w, struct spot_err *err);
void spot_watch_close(struct spot_watch *w); /* epoll may be -1 */

/* Set the watched events of fd: EPOLLIN, EPOLLOUT, or SPOT_WATCH_NONE. */
void spot_watch_set(const struct spot_watch *w, int fd, uint32_t events, uint32_t *watched);

void spot_watch_own(struct spot_watch *w, int fd, void *owner);
/* Call before the owner is freed; fd may already have been closed. */
void spot_watch_disown(struct spot_watch *w, int fd, const void *owner);
void *spot_watch_owner(const struct spot_watch *w, int fd); /* NULL: none */

/* Wait for up to wait_ms. Returns the number of events in w->event, each with its descriptor in
 * data.fd; 0 also after a signal. */
int spot_watch_wait(struct spot_watch *w, int wait_ms);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_WATCH_H */
