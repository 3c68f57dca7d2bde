/* SPDX-License-Identifier: MIT */
/* job_field.h - the keys of spot.job/1, shared by its reader and its writer only. */
#ifndef SPOT_MODEL_JOB_FIELD_H
#define SPOT_MODEL_JOB_FIELD_H

#include "model/job_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct spot_field spot_job_head_field[];
extern const struct spot_field spot_job_model_field[];
extern const struct spot_field spot_job_layer_field[];
extern const struct spot_field spot_job_profile_field[];
extern const struct spot_field spot_job_memory_field[];
extern const struct spot_field spot_job_cost_field[];
extern const struct spot_field spot_job_p2p_field[];
extern const struct spot_field spot_job_build_field[];
extern const struct spot_field spot_job_regroup_field[];

/* The defaults of absent keys. */
extern const struct spot_job_memory spot_job_memory_absent;
extern const struct spot_job_cost spot_job_cost_absent;

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_JOB_FIELD_H */
