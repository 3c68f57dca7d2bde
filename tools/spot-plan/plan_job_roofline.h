/* SPDX-License-Identifier: MIT */
/* plan_job_roofline.h - spot-plan job --roofline: a profile of serving from a model's config and a
 * row of a catalogue. */
#ifndef SPOT_PLAN_JOB_ROOFLINE_H
#define SPOT_PLAN_JOB_ROOFLINE_H

#include <stdint.h>

#include "common/err.h"
#include "common/prov.h"

struct plan_job_roofline {
    const char *model; /* config.json, or the directory that it lies in */
    const char *catalogue, *type, *dtype;
    uint64_t prompt_token, output_token, context; /* context 0: prompt and answer */
    uint64_t max_batch;
};

/* Write the job to `output` under `name`; prices come from the catalogue. */
int plan_job_roofline(const struct plan_job_roofline *options, const char *name,
                      struct spot_prov *prov, const char *output, struct spot_err *err);

#endif /* SPOT_PLAN_JOB_ROOFLINE_H */
