/* SPDX-License-Identifier: MIT */
/* dry_run.h - train --dry-run: tell what a job will take, and start nothing. */
#ifndef SPOT_RUN_DRY_RUN_H
#define SPOT_RUN_DRY_RUN_H

#include <stdint.h>

#include "common/err.h"
#include "train/trainer.h"

/* Print it, as text on a terminal, else as spot.estimate/1, for n_worker workers; 0: as many as the
 * grid needs. Returns 0, or -1 with *err: SPOT_EINFEASIBLE, after printing, where it does not fit.
 */
int dry_run_print(const struct spot_trainer_options *c, int64_t n_worker, struct spot_err *err);

#endif /* SPOT_RUN_DRY_RUN_H */
