/* SPDX-License-Identifier: MIT */
#include "plan_commands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/tool.h"
#include "common/json.h"
#include "common/out.h"
#include "common/xalloc.h"
#include "model/catalogue.h"
#include "model/job_doc.h"
#include "model/job_field.h"
#include "model/serve_roofline.h"
#include "weights/hf_config.h"

/* The parts of the peaks that are reached, and the part of a GPU's memory for weights and cache. */
static const double flop_share = 0.5, byte_share = 0.75, memory_share = 0.9;

static int read_model(const char *path, struct spot_shape *shape, struct spot_prov *prov,
                      struct spot_err *err)
{
    const size_t n = strlen(path) + sizeof("/config.json");
    char *file = spot_xcalloc(n, 1);
    struct spot_json_doc json;
    struct stat st;
    int rc;

    snprintf(file, n, !stat(path, &st) && S_ISDIR(st.st_mode) ? "%s/config.json" : "%s", path);
    rc = spot_json_load_path(&json, file, err);
    if (!rc) {
        rc = spot_hf_config_read(&json, shape, err);
        spot_prov_add(prov, path, json.hash); /* spot_prov_add keeps a pointer to the text */
        spot_json_release(&json);
    }
    free(file);
    return rc;
}

static int read_type(const struct plan_job_roofline *o, struct spot_catalogue_type *type,
                     struct spot_prov *prov, struct spot_err *err)
{
    const char *source, *lacks;
    FILE *in = spot_tool_open(o->catalogue, &source, err);
    uint64_t xxh3;
    int rc;

    if (!in)
        return -1;
    rc = spot_catalogue_find(type, o->type, in, source, &xxh3, err);
    if (in != stdin)
        fclose(in);
    if (rc)
        return rc;
    spot_prov_add(prov, source, xxh3);
    lacks = type->gpu_mem_byte < 0         ? "gpu_mem_byte"
            : type->gpu_flop_per_s < 0     ? "gpu_flop_per_s"
            : type->gpu_mem_byte_per_s < 0 ? "gpu_mem_byte_per_s"
                                           : NULL;
    return lacks ? spot_err_set(err, SPOT_EDATA, "%s: '%.64s' has no %s, which a roofline needs",
                                source, o->type, lacks)
                 : 0;
}

/* With 8 bits only the weights are affected. */
static void set_bytes(struct spot_roofline *r, const char *dtype)
{
    r->weight_byte = !strcmp(dtype, "fp32") ? 4 : !strcmp(dtype, "bf16") ? 2 : 1;
    r->value_byte = !strcmp(dtype, "fp32") ? 4 : 2;
}

static int64_t power_within(int64_t n)
{
    int64_t x = 1;

    while (2 * x <= n)
        x *= 2;
    return x;
}

static void settle(const struct plan_job_roofline *o, const struct spot_catalogue_type *t,
                   const struct spot_shape *shape, struct spot_roofline *r)
{
    const double nic = t->nic_byte_per_s > 0 ? t->nic_byte_per_s : INFINITY;
    const int64_t ranks = t->gpus < shape->n_head ? t->gpus : shape->n_head;

    *r = (struct spot_roofline){
        .gpus = t->gpus,
        .gpu_byte = t->gpu_mem_byte * memory_share,
        .flop_per_s = t->gpu_flop_per_s * flop_share,
        .mem_byte_per_s = t->gpu_mem_byte_per_s * byte_share,
        .link_byte_per_s = t->gpu_link_byte_per_s > 0 ? t->gpu_link_byte_per_s : nic,
        .nic_byte_per_s = nic,
        .max_M = power_within(ranks),
        .max_batch = (int64_t)o->max_batch,
        .prompt_token = (int64_t)o->prompt_token,
        .output_token = (int64_t)o->output_token,
        .context = o->context ? (int64_t)o->context : (int64_t)(o->prompt_token + o->output_token),
    };
    set_bytes(r, o->dtype);
}

static int write_job(const struct plan_job_roofline *o, const struct spot_catalogue_type *t,
                     const struct spot_job_serve *serve, const char *name,
                     const struct spot_prov *prov, FILE *out, struct spot_err *err)
{
    char source[160];
    struct spot_job_doc job = {
        .name = name,
        .kind = SPOT_JOB_SERVE,
        .source = source,
        .instance_type = o->type,
        .memory = spot_job_memory_absent,
        .cost = spot_job_cost_absent,
        .serve = *serve,
    };

    snprintf(source, sizeof(source),
             "roofline, not measured: %g of peak arithmetic, %g of peak memory bandwidth, %s",
             flop_share, byte_share, o->dtype);
    job.memory.node_byte = t->gpu_mem_byte * (double)t->gpus;
    job.cost.is_given = t->spot_usd_per_h >= 0 || t->on_demand_usd_per_h >= 0;
    job.cost.usd_per_h = t->spot_usd_per_h;
    job.cost.on_demand_usd_per_h = t->on_demand_usd_per_h;
    return spot_job_doc_write(&job, prov, out, err);
}

int plan_job_roofline(const struct plan_job_roofline *o, const char *name, struct spot_prov *prov,
                      const char *output, struct spot_err *err)
{
    struct spot_job_serve serve = { 0 };
    struct spot_catalogue_type type = { 0 };
    struct spot_roofline roofline;
    struct spot_shape shape;
    struct spot_out out;
    int rc = -1;

    if (read_model(o->model, &shape, prov, err) || read_type(o, &type, prov, err))
        return -1;
    settle(o, &type, &shape, &roofline);
    if (!spot_serve_roofline(&serve, &shape, &roofline, err) && !spot_out_open(&out, output, err))
        rc = spot_out_finish(&out, write_job(o, &type, &serve, name, prov, out.file, err), err);
    spot_job_serve_release(&serve);
    return rc;
}
