/* SPDX-License-Identifier: MIT */
/* watch.h - many descriptors, of which few have something to tell: epoll, level-triggered.
 *
 * Who owns a descriptor keeps what is watched of it, 0 before it was first set, and may close it at
 * any time: it is then not told of any more. An owner is found by the descriptor as long as no
 * other has taken that number over.
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

enum { SPOT_WATCH_EVENTS = 128 }; /* that one wait tells */

/* No event is waited for, but an end is told. */
#define SPOT_WATCH_NONE ((uint32_t)EPOLLHUP)

struct spot_watch {
    int epoll;    /* -1: not open */
    void **owner; /* [cap] by descriptor; NULL: none */
    size_t cap;
    struct epoll_event event[SPOT_WATCH_EVENTS]; /* [spot_watch_wait] */
};

/* Returns 0, or -1 with *err (SPOT_ESYS). */
int spot_watch_open(struct spot_watch *w, struct spot_err *err);
void spot_watch_close(struct spot_watch *w); /* also one whose epoll is -1 */

/* What is to be told of fd from now on: EPOLLIN, EPOLLOUT, or SPOT_WATCH_NONE. */
void spot_watch_set(const struct spot_watch *w, int fd, uint32_t events, uint32_t *watched);

void spot_watch_own(struct spot_watch *w, int fd, void *owner);
/* Before the owner goes; fd may have been closed long since. */
void spot_watch_disown(struct spot_watch *w, int fd, const void *owner);
void *spot_watch_owner(const struct spot_watch *w, int fd); /* NULL: none */

/* Wait for up to wait_ms. Returns how many events w->event has, each with its descriptor in
 * data.fd; 0 also after a signal. */
int spot_watch_wait(struct spot_watch *w, int wait_ms);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_WATCH_H */
