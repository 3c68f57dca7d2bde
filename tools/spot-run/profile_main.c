/* SPDX-License-Identifier: MIT */
/* spot-run profile - measure a job's grids on this host. */
#define _XOPEN_SOURCE 700 /* SA_RESTART */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "cluster/group.h"
#include "common/out.h"
#include "common/xalloc.h"
#include "model/job_serve.h"
#include "profile.h"
#include "run.h"
#include "text/corpus.h"

static struct profile p = {
    .job = JOB_OPTIONS_DEFAULT,
    .max_workers = 4,
    .steps = 10,
};
static struct spot_tool_common common = SPOT_TOOL_COMMON_DEFAULT;
static const char *grids, *micro_batches, *name = "profile";
static struct profile_serve serving = { .max_batch = 1 };

static void on_signal(int number)
{
    (void)number;
    spot_group_stop();
}

static void catch_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    sigfillset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN); /* when a reader leaves, workers must not be left behind */
}

/* --- the sequence --- */

static int settle(struct spot_prov *prov, struct spot_err *err)
{
    const struct spot_trainer_options *const c = &p.job.c;
    struct spot_corpus corpus = { 0 };
    int rc;

    if (job_options_shape(&p.job, err) || job_options_check(&p.job, err))
        return -1;
    for (size_t i = 0; i < p.job.data.n; i++)
        if (!strcmp(p.job.data.item[i], "-"))
            return spot_err_set(err, SPOT_EUSAGE,
                                "--data must be a file: it is read several times");
    p.job.c.config.seed = common.seed;
    p.job.c.config.n_step = 1;
    if (job_options_settle(&p.job, err))
        return -1;
    if (spot_job_config_check(&c->config, err))
        return -1;
    rc = spot_corpus_open_all(&corpus, c->data, c->n_data, c->bpe, c->token_byte,
                              c->config.shape.vocab, err);
    spot_prov_add(prov, c->n_data == 1 ? c->data[0] : "--data", corpus.xxh3);
    spot_corpus_release(&corpus);
    p.n_bundle = spot_shape_bundles(&c->config.shape);
    p.n_microbatch = spot_job_microbatches(&c->config);
    p.measured.workers = (int64_t)p.max_workers;
    p.warm_up = (uint64_t)derived("SPOT_TEST_WARM_UP", 3);
    p.measured.warm_up = (int64_t)p.warm_up;
    p.layer = spot_xcalloc((size_t)p.n_bundle, sizeof(*p.layer));
    return rc ? rc : profile_choose_grids(&p, grids, micro_batches, err);
}

/* True if this part of the profile is named in --skip. */
static bool skips(const char *part)
{
    const char *const at = p.skip ? strstr(p.skip, part) : NULL;

    return at && (at == p.skip || at[-1] == ',');
}

/* Check that every word of --skip is a part. */
static int check_skip(struct spot_err *err)
{
    for (const char *at = p.skip; at && *at;) {
        const size_t n = strcspn(at, ",");

        if (!(n == 5 && !strncmp(at, "links", n)) && !(n == 6 && !strncmp(at, "stalls", n)) &&
            !(n == 7 && !strncmp(at, "changes", n)))
            return spot_err_set(err, SPOT_EUSAGE, "--skip takes links, stalls, changes, got '%.*s'",
                                (int)n, at);
        at += n + (at[n] == ',');
    }
    return 0;
}

static int measure(struct spot_err *err)
{
    const bool has_two = p.max_workers > 1;
    int rc = profile_cells(&p, err);

    if (!rc && !skips("links") && has_two)
        rc = profile_links(&p, err);
    if (!rc && !skips("stalls"))
        rc = profile_stalls(&p, err);
    if (!rc && !skips("changes") && has_two)
        rc = profile_changes(&p, err);
    if (p.shows_progress)
        spot_tool_draw("");
    return rc;
}

static int run(struct spot_err *err)
{
    struct spot_prov prov = { .tool = "spot-run",
                              .seed = common.seed,
                              .is_off = !common.provenance };
    enum spot_format format;
    struct spot_out out;
    int rc;

    if (spot_format_parse(common.format, &format, err))
        return -1;
    format = spot_format_settle(format, common.output, SPOT_FORMAT_JSON);
    if (check_skip(err) || settle(&prov, err) || spot_out_open(&out, common.output, err))
        return -1;
    rc = measure(err);
    if (!rc)
        rc = profile_write(&p, name, &prov, format == SPOT_FORMAT_JSON ? out.file : NULL, err);
    if (!rc && format == SPOT_FORMAT_TABLE)
        profile_table(&p, out.file);
    spot_prov_release(&prov);
    return spot_out_finish(&out, rc, err);
}

static int run_serving(struct spot_err *err)
{
    struct spot_prov prov = { .tool = "spot-run",
                              .seed = common.seed,
                              .is_off = !common.provenance };
    int rc;

    if (serving.max_batch & (serving.max_batch - 1))
        return spot_err_set(err, SPOT_EUSAGE, "--max-batch must be a power of two, got %llu",
                            (unsigned long long)serving.max_batch);
    serving.name = name;
    rc = profile_serve(&serving, &prov, common.output, err);
    spot_prov_release(&prov);
    return rc;
}

static void release(void)
{
    for (size_t i = 0; i < p.measured.n_cell; i++)
        free(p.measured.cell[i].stage);
    free(p.measured.cell);
    free(p.measured.p2p.point);
    free(p.measured.sum.point);
    free(p.layer);
    spot_bpe_free(p.job.c.bpe);
}

static const struct spot_opt option_table[] = {
    { SPOT_OPT_GROUP, .help = "what is measured" },
    SPOT_TEXT("grids", &grids, "DxP,...",
              "DxP or DxPxM to measure (default: all up to --max-workers, M = 1)"),
    SPOT_TEXT("micro-batches", &micro_batches, "b,...",
              "measure each grid with these micro-batches as well"),
    SPOT_U64("max-workers", &p.max_workers, "n", "worker processes at once (default: 4)", 1,
             PROFILE_WORKERS_MAX),
    SPOT_U64("steps", &p.steps, "n", "steps to measure on each grid (default: 10)", 3, 100000),
    SPOT_ROW_JOB_NAME(&name),
    { SPOT_OPT_GROUP, .help = "a replica that serves, instead" },
    SPOT_TEXT("serve", &serving.log, "log", "event log of spot-run serve"),
    SPOT_U64("max-batch", &serving.max_batch, "n",
             "--max-batch of the server, a power of two (default: 1)", 1, SPOT_SERVE_BATCH_MAX),
    SPOT_U64("replicas", &serving.replicas, "n", "replicas of the server (default: as formed)", 1,
             4096),
    SPOT_FLAG("one-machine", &serving.shares_machine,
              "all replicas shared one machine: measure how they slow each other"),
    { SPOT_OPT_GROUP, .help = "the job, as for train" },
    JOB_MODEL_OPTIONS(p.job),
    JOB_BATCH_OPTIONS(p.job),
    { SPOT_OPT_MORE, .help = "more of what is measured" },
    SPOT_TEXT("skip", &p.skip, "a,b", "leave out: links, stalls (as Stash divides them), changes"),
    { SPOT_OPT_MORE, .help = "more of the job" },
    JOB_MORE_OPTIONS(p.job),
    JOB_WORKER_OPTIONS(p.job),
    SPOT_TOOL_OPTIONS(&common),
    { .type = SPOT_OPT_END },
};

static int run_profile(struct spot_err *err)
{
    int rc;

    p.info = spot_tool_info;
    p.warn = spot_tool_warn;
    p.shows_progress = isatty(STDERR_FILENO) && !common.quiet;
    spot_tool_never_wait();
    rc = serving.log ? run_serving(err) : run(err);
    release();
    return rc;
}

const struct spot_cli run_profile_command = {
    .name = "spot-run profile",
    .brief = "measure the grids of a job on this host",
    .need = (const struct spot_opt_need[]){ { "serve", "!data" },
                                            { "max-batch|replicas|one-machine", "serve" },
                                            { NULL, NULL } },
    .reads = (const char *const[]){ "data", "tokenizer", "serve", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .choice = (const struct spot_opt_choice[]){ { "format", "json|table" }, { NULL, NULL } },
    .synopsis = "--data FILE | --serve LOG [options]",
    .summary = "Measure what the grids of a job, and changes between them, cost on this host.",
    .examples = "  spot-run profile --data README.md --max-workers 2 -o job.json\n"
                "  spot-run profile --serve events.jsonl --max-batch 8 -o serve.json\n",
    .option = option_table,
    .common = &common,
    .prepare = catch_signals,
    .run_alone = run_profile,
};
