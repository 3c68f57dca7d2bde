/* SPDX-License-Identifier: MIT */
/* job_async.h - the part `async` of spot.job/1: training through a parameter server, by the
 * equations of spotDNN (Shang et al., IWQoS 2023), and what was measured of each instance type.
 * docs/formats/job.md names every key. */
#ifndef SPOT_MODEL_JOB_ASYNC_H
#define SPOT_MODEL_JOB_ASYNC_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_JOB_ASYNC_TYPES_MAX = 256 };

struct spot_job_async_type {
    const char *instance_type;
    int64_t gpus;
    double batch_per_gpu; /* samples */
    double iter_s;        /* one iteration of one worker alone, measured */
    double comp_s;        /* of that, without communication, as in spotDNN's code; 0: not given */
};

struct spot_job_async {
    double param_byte;        /* gradients of an iteration, one way */
    double worker_byte_per_s; /* bandwidth that one worker alone uses of the server */
    double server_byte_per_s, pcie_byte_per_s;
    double alpha, beta; /* contention of the server: alpha sqrt(n) + beta */
    double gamma1, gamma2, gamma3, gamma4, gamma5;
    const char *name;                 /* name of the job */
    struct spot_job_async_type *type; /* [n_type] */
    size_t n_type;
    struct spot_json_doc json;
};

/* docs/schema/job.json is made from this and job_doc.h's. */
extern const struct spot_field spot_job_async_field[], spot_job_async_type_field[];

/* Read it from a path ("-" is stdin). Returns 0, also if the job has no such part (n_type is then
 * 0); or -1 with *err (SPOT_EDATA, SPOT_ESYS). Release it except after a failure. */
int spot_job_async_load(struct spot_job_async *async, const char *path, struct spot_err *err);
void spot_job_async_release(struct spot_job_async *async);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_JOB_ASYNC_H */
