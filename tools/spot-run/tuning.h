/* SPDX-License-Identifier: MIT */
/* tuning.h - the learning rate and its schedule, as said on a command line. */
#ifndef SPOT_RUN_TUNING_H
#define SPOT_RUN_TUNING_H

#include "cli/opt.h"
#include "common/err.h"
#include "job_options.h"
#include "train/job_note.h"

/* Fill in what was left to be chosen, and refuse what is out of range.
 * Returns 0, or -1 with *err (SPOT_EUSAGE). */
int tuning_settle(struct job_options *o, struct spot_err *err);

/* A job that is resumed begins as noted, and what was said that differs from what holds there now
 * is a change. Returns 1 with *change, 0 for none, or -1 with *err (SPOT_EUSAGE). */
int tuning_resume(struct job_options *o, const struct spot_opt *option, const bool *given,
                  const struct spot_job_note *note, struct spot_tuning *change,
                  struct spot_err *err);

#endif /* SPOT_RUN_TUNING_H */
