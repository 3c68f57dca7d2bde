/* SPDX-License-Identifier: MIT */
/* resume.h - a job out of its state directory, where no option says otherwise. */
#ifndef SPOT_RUN_RESUME_H
#define SPOT_RUN_RESUME_H

#include "cli/opt.h"
#include "train/job_note.h"

/* Each option of the table that is a key of the note in `dir`, and was not said, gets the job's
 * value; texts are the note's, which the caller releases. A directory without a note is left to
 * what was said. Returns 0, or -1 with *err (SPOT_EDATA, SPOT_ESYS). */
int resume_options(const char *dir, const struct spot_opt *option, const bool *given,
                   struct spot_job_note *note, struct spot_err *err);

#endif /* SPOT_RUN_RESUME_H */
