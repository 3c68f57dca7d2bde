/* SPDX-License-Identifier: MIT */
/* dry_run.h - train --dry-run: tell what a job will take, and start nothing. */
#ifndef SPOT_RUN_DRY_RUN_H
#define SPOT_RUN_DRY_RUN_H

#include <stdint.h>

#include "common/err.h"
#include "train/coordinator.h"

struct dry_run {
    const char *profile; /* spot.job/1 with measured times; NULL: a layer is computed here */
    const char *format;  /* text or json; NULL: text */
    int64_t n_worker;    /* as asked for; 0: as the grid needs */
};

/* Print it. Returns 0, or -1 with *err: SPOT_EINFEASIBLE, after printing, where it does not fit. */
int dry_run_print(const struct dry_run *how, const struct spot_coordinator_options *c,
                  struct spot_err *err);

#endif /* SPOT_RUN_DRY_RUN_H */
