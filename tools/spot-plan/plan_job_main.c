/* SPDX-License-Identifier: MIT */
/* spot-plan job - a planner profile from a user's own measurements, or from a roofline. */
#include <stdlib.h>
#include <string.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/num.h"
#include "common/out.h"
#include "common/prov.h"
#include "common/xalloc.h"
#include "model/job_doc.h"
#include "plan_commands.h"
#include "trace/load_trace.h"

enum { POINTS_MAX = 256, WORKERS = 64 };

static struct {
    struct spot_tool_common common;
    const char *ddp, *name;
    uint64_t global_batch, worker_batch, max_workers;
    double params, price[2], restart_s; /* price: of spot, on demand */
    struct plan_job_roofline roofline;
} opt = { .common = SPOT_TOOL_COMMON_DEFAULT,
          .name = "job",
          .price = { -1, -1 },
          .roofline = {
              .dtype = "bf16", .prompt_token = 512, .output_token = 128, .max_batch = 8 } };

static int wants(const char *got, struct spot_err *err)
{
    return spot_err_set(err, SPOT_EUSAGE,
                        "--ddp must be workers:time of a step,... such as 1:0.178,2:234ms; got "
                        "'%.48s'",
                        got);
}

/* Parses "1:0.178,2:234ms"; each number of workers may occur once. */
static int read_points(struct spot_job_doc *job, struct spot_err *err)
{
    char *list = spot_xstrdup(opt.ddp), *rest = list, *one;
    int rc = 0;

    while (!rc && (one = strtok_r(rest, ",", &rest))) {
        char *colon = strchr(one, ':'), *end;
        const long workers = strtol(one, &end, 10);
        double step_s;

        if (!colon || end != colon || *one < '1' || *one > '9' || workers > SPOT_GRID_MAX ||
            spot_num_parse_secs(colon + 1, &step_s) || !(step_s > 0)) {
            rc = wants(one, err);
            break;
        }
        if (job->n_profile == POINTS_MAX)
            rc = spot_err_set(err, SPOT_EUSAGE, "--ddp: more than %d", POINTS_MAX);
        for (size_t i = 0; i < job->n_profile && !rc; i++)
            if (job->profile[i].grid.D == workers)
                rc = spot_err_set(err, SPOT_EUSAGE, "--ddp: %ld workers come twice", workers);
        if (!rc)
            job->profile[job->n_profile++] = (struct spot_job_profile){
                .grid = { workers, 1, 1 }, .micro_batch = job->micro_batch, .step_s = step_s
            };
    }
    if (!rc && !job->n_profile)
        rc = wants(opt.ddp, err);
    free(list);
    return rc;
}

static int64_t most_workers(const struct spot_job_doc *job)
{
    int64_t most = 0;

    for (size_t i = 0; i < job->n_profile; i++)
        most = job->profile[i].grid.D > most ? job->profile[i].grid.D : most;
    return most;
}

/* The workers share a fixed global batch. */
static int share_batch(struct spot_job_doc *job, struct spot_err *err)
{
    const int64_t most = most_workers(job);

    job->global_batch = (int64_t)opt.global_batch;
    if (most > job->global_batch)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--global-batch %lld: fewer samples than the %lld workers of --ddp",
                            (long long)job->global_batch, (long long)most);
    return 0;
}

/* Each worker has its own batch, so a measured step has D batches. The document's global batch is
 * for the largest number of workers, and throughput is in samples. */
static int own_batch(struct spot_job_doc *job, struct spot_err *err)
{
    const int64_t most = most_workers(job), batch = (int64_t)opt.worker_batch;
    const int64_t workers = opt.max_workers  ? (int64_t)opt.max_workers
                            : most > WORKERS ? most
                                             : (int64_t)WORKERS;

    if (most > workers)
        return spot_err_set(err, SPOT_EUSAGE, "--max-workers %lld: --ddp has %lld",
                            (long long)workers, (long long)most);
    job->global_batch = batch * workers;
    job->micro_batch = batch;
    for (size_t i = 0; i < job->n_profile; i++) {
        struct spot_job_profile *p = &job->profile[i];

        p->micro_batch = batch;
        p->samples_per_s = (double)(p->grid.D * batch) / p->step_s;
        p->step_s = (double)job->global_batch / p->samples_per_s;
    }
    return 0;
}

static int write_job(const struct spot_job_doc *job, struct spot_err *err)
{
    const struct spot_prov prov = { .tool = "spot-plan",
                                    .seed = opt.common.seed,
                                    .is_off = !opt.common.provenance };
    struct spot_out out;

    if (spot_out_open(&out, opt.common.output, err))
        return -1;
    return spot_out_finish(&out, spot_job_doc_write(job, &prov, out.file, err), err);
}

static int run_ddp(struct spot_err *err)
{
    struct spot_job_layer layer = { .params = opt.params };
    struct spot_job_doc job = {
        .name = opt.name,
        .source = "measured by its owner: spot-plan job --ddp",
        .micro_batch = 1,
        .seq = 1,
        .layer = &layer,
        .n_layer = opt.params > 0,
        .lists_layers = opt.params > 0,
        .memory = { .p_min = 1, .p_max = 1, .d_min = 1, .state_byte_per_param = 16 },
        .cost = { .is_given = opt.price[0] >= 0 || opt.restart_s > 0,
                  .usd_per_h = opt.price[0],
                  .on_demand_usd_per_h = opt.price[1],
                  .interval_s = 60,
                  .look_ahead = 12,
                  .move_byte_per_param = 12,
                  .restart_s = opt.restart_s },
    };
    int rc;

    if (!opt.global_batch == !opt.worker_batch)
        return spot_err_set(err, SPOT_EUSAGE,
                            "one of --global-batch (of all workers, whatever their number) and "
                            "--worker-batch (of each) is required");
    job.profile = spot_xcalloc(POINTS_MAX, sizeof(*job.profile));
    rc = read_points(&job, err);
    if (!rc)
        rc = opt.global_batch ? share_batch(&job, err) : own_batch(&job, err);
    if (!rc)
        rc = write_job(&job, err);
    free(job.profile);
    return rc;
}

static int run_roofline(struct spot_err *err)
{
    struct spot_prov prov = { .tool = "spot-plan",
                              .seed = opt.common.seed,
                              .is_off = !opt.common.provenance };
    const int rc = plan_job_roofline(&opt.roofline, opt.name, &prov, opt.common.output, err);

    spot_prov_release(&prov);
    return rc;
}

static const struct spot_opt option_table[] = {
    { SPOT_OPT_GROUP, .help = "training: what was measured" },
    SPOT_TEXT("ddp", &opt.ddp, "n:time,...", "step time by number of workers"),
    SPOT_ROW_SAMPLES(&opt.global_batch),
    SPOT_U64("worker-batch", &opt.worker_batch, "b",
             "samples per step of each worker (weak scaling)", 1, 100000),
    SPOT_U64("max-workers", &opt.max_workers, "n", "most workers with --worker-batch (default: 64)",
             1, SPOT_GRID_MAX),
    SPOT_REAL("params", &opt.params, "n", "parameters of the model", 1, 1e15),
    SPOT_ROW_USD_PER_H(opt.price),
    SPOT_ROW_RESTART(&opt.restart_s),
    { SPOT_OPT_GROUP, .help = "serving: a roofline, nothing measured" },
    SPOT_TEXT("roofline", &opt.roofline.model, "dir|file",
              "the model: config.json of GPT-2's or Llama's kind"),
    SPOT_ROW_CATALOGUE(&opt.roofline.catalogue),
    SPOT_TEXT("type", &opt.roofline.type, "name", "the instance type"),
    SPOT_ROW_DTYPE(&opt.roofline.dtype),
    SPOT_U64("max-batch", &opt.roofline.max_batch, "B",
             "requests of a pipeline at once, a power of two (default: 8)", 1,
             SPOT_SERVE_BATCH_MAX),
    SPOT_U64("prompt-tokens", &opt.roofline.prompt_token, "n",
             "tokens of a typical prompt (default: 512)", 1, 1 << 24),
    SPOT_U64("output-tokens", &opt.roofline.output_token, "n",
             "tokens of a typical answer (default: 128)", 1, 1 << 24),
    SPOT_ROW_CONTEXT(&opt.roofline.context),
    { SPOT_OPT_GROUP, .help = "the job" },
    SPOT_ROW_JOB_NAME(&opt.name),
    SPOT_TOOL_OPTIONS_AS(&opt.common, "json"),
    { .type = SPOT_OPT_END },
};

static const struct spot_opt_need need[] = {
    { "global-batch|worker-batch|params|usd-per-h|restart", "ddp" },
    { "max-workers", "worker-batch" },
    { "roofline", "!ddp" },
    { "roofline", "catalogue" },
    { "roofline", "type" },
    { "catalogue|type|dtype|max-batch|prompt-tokens|output-tokens|context", "roofline" },
    { NULL, NULL },
};

static int plan_job(struct spot_err *err)
{
    if (!opt.ddp && !opt.roofline.model)
        return spot_err_set(err, SPOT_EUSAGE,
                            "neither --ddp, step times of training, nor --roofline, a model that "
                            "is to serve");
    return opt.ddp ? run_ddp(err) : run_roofline(err);
}

const struct spot_cli plan_job_command = {
    .name = "spot-plan job",
    .brief = "a job document from measured step times or a roofline",
    .need = need,
    .reads = (const char *const[]){ "roofline", "catalogue", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .choice = (const struct spot_opt_choice[]){ { "format", "json" },
                                                { "dtype", "fp32|bf16|q8" },
                                                { NULL, NULL } },
    .synopsis = "--ddp n:time,... --global-batch G | --roofline DIR --catalogue FILE --type T",
    .summary = "Make a job document from measured step times, or from the needs of a model.",
    .examples = "  spot-plan job --ddp 1:0.178,2:0.234 --worker-batch 32 -o job.json\n"
                "  spot-plan job --roofline examples/serve/llama-8b \\\n"
                "      --catalogue examples/serve/gpus.csv --type g6.12xlarge -o job.json\n",
    .option = option_table,
    .common = &opt.common,
    .run_alone = plan_job,
};
