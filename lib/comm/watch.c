/* SPDX-License-Identifier: MIT */
#include "comm/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/xalloc.h"

int spot_watch_open(struct spot_watch *w, struct spot_err *err)
{
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    return w->epoll < 0 ? spot_err_sys(err, "cannot wait for events") : 0;
}

void spot_watch_close(struct spot_watch *w)
{
    if (w->epoll >= 0)
        close(w->epoll);
    w->epoll = -1;
    free(w->owner);
    w->owner = NULL;
    w->cap = 0;
}

void spot_watch_set(const struct spot_watch *w, int fd, uint32_t events, uint32_t *watched)
{
    struct epoll_event e = { .events = events, .data = { .fd = fd } };

    if (*watched == events)
        return;
    if (epoll_ctl(w->epoll, *watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e) && errno == EEXIST)
        /* it is still registered from an earlier use by its owner */
        (void)epoll_ctl(w->epoll, EPOLL_CTL_MOD, fd, &e);
    *watched = events;
}

void spot_watch_own(struct spot_watch *w, int fd, void *owner)
{
    const size_t before = w->cap;

    w->owner = spot_xgrow(w->owner, &w->cap, (size_t)fd + 1, sizeof(void *));
    for (size_t i = before; i < w->cap; i++)
        w->owner[i] = NULL;
    w->owner[fd] = owner;
}

void spot_watch_disown(struct spot_watch *w, int fd, const void *owner)
{
    if (spot_watch_owner(w, fd) == owner)
        w->owner[fd] = NULL;
}

void *spot_watch_owner(const struct spot_watch *w, int fd)
{
    return fd >= 0 && (size_t)fd < w->cap ? w->owner[fd] : NULL;
}

int spot_watch_wait(struct spot_watch *w, int wait_ms)
{
    const int n = epoll_wait(w->epoll, w->event, SPOT_WATCH_EVENTS, wait_ms);

    return n < 0 ? 0 : n;
}
