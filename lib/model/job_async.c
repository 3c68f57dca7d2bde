/* SPDX-License-Identifier: MIT */
#include "model/job_async.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

#define ASYNC(member) offsetof(struct spot_job_async, member)
const struct spot_field spot_job_async_field[] = {
    { "param_byte", SPOT_F_REAL, ASYNC(param_byte), "byte", 1, 1e15, true },
    { "worker_byte_per_s", SPOT_F_REAL, ASYNC(worker_byte_per_s), "byte/s", 1, 1e15, true },
    { "server_byte_per_s", SPOT_F_REAL, ASYNC(server_byte_per_s), "byte/s", 1, 1e15, true },
    { "pcie_byte_per_s", SPOT_F_REAL, ASYNC(pcie_byte_per_s), "byte/s", 1, 1e15, false },
    { "alpha", SPOT_F_REAL, ASYNC(alpha), "1", -1e6, 1e6, true },
    { "beta", SPOT_F_REAL, ASYNC(beta), "1", -1e6, 1e6, true },
    { "gamma1", SPOT_F_REAL, ASYNC(gamma1), "1", -1e12, 1e12, true },
    { "gamma2", SPOT_F_REAL, ASYNC(gamma2), "1", -1e12, 1e12, true },
    { "gamma3", SPOT_F_REAL, ASYNC(gamma3), "1", -1e12, 1e12, true },
    { "gamma4", SPOT_F_REAL, ASYNC(gamma4), "1", 0, 1e12, false },
    { "gamma5", SPOT_F_REAL, ASYNC(gamma5), "1", -1e12, 1e12, true },
    { 0 },
};

#define TYPE(member) offsetof(struct spot_job_async_type, member)
const struct spot_field spot_job_async_type_field[] = {
    { "instance_type", SPOT_F_STR, TYPE(instance_type), NULL, 0, 0, true },
    { "gpus", SPOT_F_INT, TYPE(gpus), "1", 1, 1024, true },
    { "batch_per_gpu", SPOT_F_REAL, TYPE(batch_per_gpu), "1", 1e-6, 1e9, true },
    { "iter_s", SPOT_F_REAL, TYPE(iter_s), "s", 1e-9, 1e6, true },
    { "comp_s", SPOT_F_REAL, TYPE(comp_s), "s", 0, 1e6, false },
    { 0 },
};

static int read_types(struct spot_job_async *a, const struct spot_json_value *part,
                      struct spot_err *err)
{
    char at[48];

    if (spot_json_rows(&a->json, part, "/async", "types",
                       &(struct spot_doc_part){ .field = spot_job_async_type_field,
                                                .required = true,
                                                .n_max = SPOT_JOB_ASYNC_TYPES_MAX },
                       NULL, sizeof(*a->type), (void **)&a->type, &a->n_type, err))
        return -1;
    for (size_t i = 0; i < a->n_type; i++)
        for (size_t k = 0; k < i; k++)
            if (!strcmp(a->type[k].instance_type, a->type[i].instance_type)) {
                snprintf(at, sizeof(at), "/async/types/%zu", i);
                return spot_json_fail(&a->json, at, err, "'%.64s' is named twice",
                                      a->type[i].instance_type);
            }
    return a->n_type ? 0 : spot_json_fail(&a->json, "/async/types", err, "has none");
}

int spot_job_async_load(struct spot_job_async *async, const char *path, struct spot_err *err)
{
    const struct spot_json_value *part;
    const char *kind;
    int rc = 0;

    memset(async, 0, sizeof(*async));
    if (spot_json_load_path(&async->json, path, err))
        return -1;
    if (spot_json_expect_schema(&async->json, "spot.job", 1, err) ||
        spot_json_object(&async->json, async->json.root, "", "async", false, &part, err))
        rc = -1;
    kind = spot_json_text(spot_json_get(async->json.root, "kind"));
    async->name = spot_json_text(spot_json_get(async->json.root, "name"));
    if (!rc && (!kind || strcmp(kind, "train") != 0))
        rc = spot_json_fail(&async->json, "/kind", err, "expected 'train'");
    if (!rc && part)
        rc =
            spot_json_read_fields(&async->json, part, "/async", spot_job_async_field, async, err) ||
                    read_types(async, part, err)
                ? -1
                : 0;
    if (rc)
        spot_job_async_release(async);
    return rc;
}

void spot_job_async_release(struct spot_job_async *async)
{
    free(async->type);
    spot_json_release(&async->json);
    memset(async, 0, sizeof(*async));
}
