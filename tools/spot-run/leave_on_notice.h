/* SPDX-License-Identifier: MIT */
/* leave_on_notice.h - what tells a worker, or a node of exec, that its machine will be taken away:
 * beside SIGTERM, and as SIGTERM does. */
#ifndef SPOT_RUN_LEAVE_ON_NOTICE_H
#define SPOT_RUN_LEAVE_ON_NOTICE_H

#include <pthread.h>
#include <stdbool.h>

#include "cluster/notice.h"
#include "common/err.h"

struct leave_on_notice {
    struct spot_notice_options watched; /* as the options say; `from` NULL: nobody is asked */
    bool on_rebalance, is_quiet;
    pthread_t thread; /* that takes SIGTERM */
    struct spot_notice_watch *watch;
};

/* Where `from` is "aws@http://ADDRESS[:PORT]", that address is asked instead of the cloud's. Once.
 */
void notice_split(struct spot_notice_options *o);

/* From the thread that takes SIGTERM, which has a handler. Returns 0, or -1 with *err. Stopped
 * either way, and while `leave` stays. */
int leave_on_notice_start(struct leave_on_notice *leave, struct spot_err *err);
void leave_on_notice_stop(struct leave_on_notice *leave);

#endif /* SPOT_RUN_LEAVE_ON_NOTICE_H */
