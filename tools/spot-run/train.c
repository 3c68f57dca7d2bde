/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* SA_RESTART */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/state_command.h"
#include "cli/rows.h"
#include "cli/tool.h"
#include "cluster/group.h"
#include "common/out.h"
#include "engine/backend.h"
#include "job_options.h"
#include "model/grid.h"
#include "run.h"
#include "train/trainer.h"
#include "train/verify.h"

struct options {
    struct job_options job;
    const char *grid, *shares, *comm, *verify, *resume; /* "": taken from the state */
    bool quiet, verbose, is_dry;
};

/* Before the job has begun there is nothing to clean up, and its data may take long to load. */
static void on_signal(int number)
{
    static const char given[] = "spot-run train: stopped before the job began\n";
    struct pollfd set = { .fd = STDERR_FILENO, .events = POLLOUT };

    if (number == SIGHUP) {
        spot_group_reload();
    } else if (spot_group_has_begun()) {
        spot_group_stop();
    } else {
        if (poll(&set, 1, 0) > 0)
            (void)!write(STDERR_FILENO, given, sizeof(given) - 1);
        _exit(spot_err_exit_status(&(struct spot_err){ .code = SPOT_EPREEMPTED }));
    }
}

/* A signal to stop also ends a wait for the data; one to read the plan does not. */
static void catch_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal };

    sigfillset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    action.sa_flags = SA_RESTART;
    sigaction(SIGHUP, &action, NULL);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGHUP);
    sigprocmask(SIG_UNBLOCK, &action.sa_mask, NULL); /* a parent may have blocked them */
}

/* The options; the table below fills them. */
static struct options o = {
    .job = JOB_OPTIONS_DEFAULT,
    .shares = "even",
    .comm = "sockets",
    .verify = "off",
};
#define JOB    o.job.c
#define CONFIG o.job.c.config

static const struct spot_opt option_table[] = {
    { SPOT_OPT_GROUP, .help = "data and model" },
    JOB_MODEL_OPTIONS(o.job),
    { SPOT_OPT_LIST, 0, "val-data", &o.job.val_data, "file",
      "validation data: their loss is reported", 0, 0 },
    SPOT_ROW_WEIGHTS(&JOB.load),
    { SPOT_OPT_GROUP, .help = "training" },
    SPOT_U64("steps", &CONFIG.n_step, "n", "steps to train", 1, 1e12),
    JOB_BATCH_OPTIONS(o.job),
    SPOT_REAL("lr", &CONFIG.adamw.lr, "X", "learning rate (default: 1e-3)", 0, 1e3),
    SPOT_TEXT("lr-schedule", &o.job.lr_schedule, "kind[:...]",
              "constant (default), cosine or linear, :warmup=N,decay=N,min=X"),
    SPOT_U64("seed", &CONFIG.seed, "n", "seed of weights and sample order (default: 1)", 0, 0),
    { SPOT_OPT_GROUP, .help = "workers" },
    SPOT_ROW_WORKERS(&JOB.n_local),
    SPOT_ROW_LISTEN(&JOB.listen),
    SPOT_ROW_KEY_FILE(&JOB.key_file),
    SPOT_TEXT("grid", &o.grid, "DxP", "replicas x stages, or DxPxM with M workers per stage"),
    SPOT_TEXT("plan", &JOB.plan, "file", "spot.plan/1, read again when it changes"),
    { SPOT_OPT_GROUP, .help = "output" },
    SPOT_ROW_STATE(&JOB.state),
    { SPOT_OPT_MAYBE, 0, "resume", &o.resume, "dir", "continue from --state, or from dir", 0, 0 },
    SPOT_ROW_EVENTS(&JOB.events),
    SPOT_ROW_METRICS(&JOB.metrics),
    SPOT_TEXT("save", &JOB.save, "file|dir", "final weights"),
    { SPOT_OPT_FLAG, 'q', "quiet", &o.quiet, NULL, "no warnings, no progress", 0, 0 },
    { SPOT_OPT_FLAG, 'v', "verbose", &o.verbose, NULL, "say more on stderr", 0, 0 },
    { SPOT_OPT_FLAG, 'n', "dry-run", &o.is_dry, NULL,
      "print memory, times and moves of the job; start nothing", 0, 0 },
    { SPOT_OPT_MORE, .help = "more about data and model" },
    JOB_MORE_OPTIONS(o.job),
    SPOT_TEXT("weights-of-samples", &JOB.weights_of_samples, "file",
              "factors of the losses: a number for each token of the data"),
    SPOT_U64("val-every", &JOB.val_every, "n", "steps between validations (default: 100)", 1, 1e12),
    SPOT_U64("val-batches", &JOB.val_batches, "n", "global batches per validation (default: 4)", 1,
             1 << 20),
    { SPOT_OPT_MORE, .help = "optimizer" },
    SPOT_REAL("clip", &CONFIG.clip_norm, "X",
              "clip the gradient to this norm; 0: no limit (default: 1)", 0, 1e9),
    SPOT_REAL("beta1", &CONFIG.adamw.beta1, "X", "AdamW beta1 (default: 0.9)", 0, 0.999999),
    SPOT_REAL("beta2", &CONFIG.adamw.beta2, "X", "AdamW beta2 (default: 0.95)", 0, 0.999999),
    SPOT_REAL("weight-decay", &CONFIG.adamw.weight_decay, "X", "AdamW weight decay (default: 0.1)",
              0, 10),
    { SPOT_OPT_MORE, .help = "more about workers" },
    JOB_WORKER_OPTIONS(o.job),
    SPOT_TEXT("comm", &o.comm, "name",
              "sockets, nccl, or nccl-fast: float sums (default: sockets)"),
    SPOT_TEXT("shares", &o.shares, "how",
              "microbatches per replica: even, measured, or 1,4,... (default: even)"),
    SPOT_ROW_GRACE(&JOB.grace_s),
    SPOT_ROW_LEASE(&JOB.lease_s),
    SPOT_TEXT("verify", &o.verify, "share",
              "share of microbatches that another recomputes, or auto (default: off)"),
    { SPOT_OPT_MORE, .help = "state beyond this host" },
    SPOT_TEXT("store", &JOB.store, "url",
              "etcd://HOST:PORT,.../PREFIX: one of several coordinators leads"),
    SPOT_ROW_STATE_COMMAND(&JOB.state_command),
    SPOT_SECS("durable-every", &JOB.durable_every_s, "time",
              "time between generations (default: 3s; 1s without replicas)", 0.01, 86400),
    { .type = SPOT_OPT_END },
};
static bool given[sizeof(option_table) / sizeof(option_table[0])];
static struct spot_job_note note; /* of a resumed job */
static struct spot_tuning change; /* declared when it is resumed */
static bool is_changed;

/* Parses "2x3", D = 2 pipelines of P = 3 stages, and "2x3x4", with M = 4 workers for each stage. */
static int parse_grid(const char *text, struct spot_grid *wanted, struct spot_err *err)
{
    struct spot_grid grid;

    if (!text)
        return 0;
    if (spot_grid_parse(text, &grid) || !spot_grid_size(&grid))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--grid must be DxP or DxPxM such as 2x3 or 2x3x2, got '%s'", text);
    if (spot_grid_size(&grid) > SPOT_MEMBERS_MAX)
        return spot_err_set(err, SPOT_EUSAGE, "--grid %s needs %lld workers, a job has at most %d",
                            text, (long long)spot_grid_size(&grid), (int)SPOT_MEMBERS_MAX);
    *wanted = grid;
    return 0;
}

/* One line, overwritten each time; NULL clears it. */
static void draw_progress(const struct spot_progress *p)
{
    char line[1024] = "", grid[SPOT_GRID_TEXT];
    size_t n = 0;

    if (p)
        n = (size_t)snprintf(line, sizeof(line), "step %lld/%lld", (long long)p->step,
                             (long long)p->n_step);
    if (p && !p->n_member) {
        snprintf(line + n, sizeof(line) - n, "  waiting for workers at %s", p->address);
    } else if (p) {
        if (p->knows_loss)
            n += (size_t)snprintf(line + n, sizeof(line) - n, "  loss %.4f", (double)p->loss);
        if (p->knows_val_loss)
            n += (size_t)snprintf(line + n, sizeof(line) - n, "  val %.4f", (double)p->val_loss);
        snprintf(line + n, sizeof(line) - n, "  grid %s  members %zu  %.0f ms/step",
                 spot_grid_text(&p->grid, grid), p->n_member, 1e3 * p->step_s);
    }
    spot_tool_draw(line);
}

/* Set options that were not given, and those that follow from others. */
static void settle_rest(struct spot_trainer_options *c)
{
    c->n_local = c->n_local || c->listen ? c->n_local : 1;
    if (!c->events && !isatty(STDOUT_FILENO))
        c->events = "-";
    c->resume = o.resume != NULL;
    c->no_buddies = !derived("SPOT_TEST_BUDDIES", 1);
    c->precopy_byte = derived("SPOT_TEST_PRECOPY_BYTE", -1);
    c->stall_s = derived("SPOT_TEST_STALL_S", 30);
    c->store_lease_s = derived("SPOT_TEST_STORE_LEASE_S", 3);
    c->state_timeout_s = derived("SPOT_TEST_STATE_TIMEOUT_S", SPOT_STATE_COMMAND_LIMIT_S);
    c->settle_s = 0.2;
    c->n_first = (uint64_t)derived("SPOT_TEST_FIRST", 0);
    c->warn = spot_tool_warn;
    c->note = spot_tool_note;
    c->progress = isatty(STDERR_FILENO) && !o.quiet ? draw_progress : NULL;
    c->become_worker = become_worker;
    c->name = "spot-run";
    c->old_plan_hint = "spot-run replan --force gives it all the same";
    memcpy(c->config.change, note.change, sizeof(note.change));
    c->config.n_change = (uint32_t)note.n_change;
    c->change = is_changed ? &change : NULL;
}

/* Local workers would all fail in the same way; those on other machines report it themselves. */
static int check_nccl(const struct spot_trainer_options *c, struct spot_err *err)
{
    if (strncmp(c->config.kernel, "cuda", 4) != 0)
        return spot_err_set(err, SPOT_EUSAGE, "--comm %s needs --device cuda", o.comm);
    return c->n_local && !spot_cuda_nccl(err) ? -1 : 0;
}

static int settle_comm(struct spot_trainer_options *c, struct spot_err *err)
{
    const bool is_fast = !strcmp(o.comm, "nccl-fast");

    if (!strcmp(o.comm, "sockets"))
        return 0;
    c->config.comm = SPOT_COMM_NCCL;
    c->config.reduce = is_fast ? SPOT_REDUCE_FAST : SPOT_REDUCE_EXACT;
    return check_nccl(c, err);
}

static int check_weights(const struct spot_trainer_options *c, struct spot_err *err)
{
    return c->weights_of_samples && !strncmp(c->config.kernel, "cuda", 4)
               ? spot_err_set(err, SPOT_EUSAGE,
                              "--weights-of-samples is for kernels of the CPU, not for --device %s",
                              c->config.kernel)
               : 0;
}

static int settle_verify(struct spot_trainer_options *c, struct spot_err *err)
{
    if (spot_verify_parse(o.verify, &c->verify, err))
        return -1;
    if (c->verify != 0 && !strncmp(c->config.kernel, "cuda", 4))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--verify is for kernels of the CPU: sums on a device are not hashed");
    return c->verify != 0 && c->grid.M > 1
               ? spot_err_set(err, SPOT_EUSAGE,
                              "--verify needs one worker for each stage: a fault in a tensor group "
                              "cannot be attributed")
               : 0;
}

static int settle_change(struct spot_err *err)
{
    const int rc =
        note.lr_schedule ? tuning_resume(&o.job, option_table, given, &note, &change, err) : 0;

    is_changed = rc > 0;
    return rc < 0 ? -1 : 0;
}

/* Remove what the previous coordinator was writing when it was killed. */
static void sweep_saved(void)
{
    char *const saved = JOB.save ? spot_out_target(JOB.save, NULL) : NULL;

    if (saved)
        spot_out_sweep(saved);
    free(saved);
}

static int settle_resume(struct spot_err *err)
{
    if (!o.resume)
        return 0;
    if (*o.resume && JOB.state && strcmp(o.resume, JOB.state) != 0)
        return spot_err_set(err, SPOT_EUSAGE, "--resume %s, but --state %s", o.resume, JOB.state);
    if (*o.resume)
        JOB.state = o.resume;
    if (!JOB.state)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--resume has no effect without --state, or a "
                            "directory to resume from");
    if (o.is_dry && !JOB.state_command && spot_trainer_check_resume(JOB.state, err))
        return -1;
    sweep_saved();
    if (resume_options(JOB.state, option_table, given, &note, err))
        return -1;
    CONFIG.shape.norm_eps = note.norm_eps;
    o.job.config = note.config;
    return settle_change(err);
}

static int settle(struct spot_err *err)
{
    if (settle_resume(err))
        return -1;
    spot_tool_warn_shared(JOB.state);
    if (job_options_shape(&o.job, err) || job_options_check(&o.job, err))
        return -1;
    if (!CONFIG.n_step)
        return spot_err_set(err, SPOT_EUSAGE, "--steps is missing");
    if (tuning_settle(&o.job, err) || parse_grid(o.grid, &JOB.grid, err) ||
        spot_split_parse(o.shares, &JOB.shares, err) || job_options_settle(&o.job, err))
        return -1;
    settle_rest(&JOB);
    return check_weights(&JOB, err) || settle_comm(&JOB, err) || settle_verify(&JOB, err) ? -1 : 0;
}

static int train(struct spot_err *err)
{
    const uint64_t n_asked = JOB.n_local;
    struct spot_trainer_result result;

    if (settle(err))
        return -1;
    if (o.is_dry)
        return dry_run_print(&JOB, (int64_t)n_asked, err);
    if (spot_trainer_run(&JOB, &result, err))
        return -1;
    if (!o.quiet && result.knows_loss)
        spot_tool_print("step %lld  loss %.6f  state %s", (long long)result.step,
                        (double)result.loss, result.state_hex);
    else if (!o.quiet)
        spot_tool_print("step %lld  state %s", (long long)result.step, result.state_hex);
    return 0;
}

static void prepare_train(void)
{
    catch_signals();          /* signals may arrive at once */
    signal(SIGPIPE, SIG_IGN); /* when a reader leaves, workers must not be left behind */
}

static int run_train(struct spot_err *err)
{
    int rc;

    spot_tool_set_verbosity(&(struct spot_tool_common){ .quiet = o.quiet, .verbose = o.verbose });
    spot_tool_never_wait();
    rc = train(err);
    spot_bpe_free(JOB.bpe);
    free(o.job.data.item);
    free(o.job.val_data.item);
    spot_job_note_release(&note);
    return rc;
}

const struct spot_cli run_train_command = {
    .name = "spot-run train",
    .brief = "coordinate a training job",
    .choice =
        (const struct spot_opt_choice[]){ { "comm", "sockets|nccl|nccl-fast" }, { NULL, NULL } },
    .need = (const struct spot_opt_need[]){ { "state-command", "state" },
                                            { "store", "listen" },
                                            { "val-every|val-batches", "val-data" },
                                            { NULL, NULL } },
    .reads = (const char *const[]){ "data", "tokenizer", "load", "plan", "key-file", "val-data",
                                    "weights-of-samples", NULL },
    .writes = (const char *const[]){ "events", "save", NULL },
    .given = given,
    .synopsis = "--data FILE... --steps N [options]",
    .summary = "Train a GPT-2 or Llama-style model on workers that come and go.",
    .examples =
        "  spot-run train --data README.md --steps 20 --workers 2 --save model.safetensors\n",
    .option = option_table,
    .prepare = prepare_train,
    .run_alone = run_train,
};
