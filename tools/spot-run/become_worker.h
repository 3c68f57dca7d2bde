/* SPDX-License-Identifier: MIT */
/* become_worker.h - how a job of this program starts its local workers. */
#ifndef SPOT_RUN_BECOME_WORKER_H
#define SPOT_RUN_BECOME_WORKER_H

#include "train/trainer.h"

/* See become_worker of the options. */
void become_worker(const struct spot_trainer_options *options, uint64_t index, const char *address,
                   const char *backend);

#endif /* SPOT_RUN_BECOME_WORKER_H */
