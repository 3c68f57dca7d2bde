/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* SA_RESTART */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "become_worker.h"
#include "checkpoint/state_command.h"
#include "cli/opt.h"
#include "cli/tool.h"
#include "cluster/group.h"
#include "common/out.h"
#include "dry_run.h"
#include "engine/backend.h"
#include "job_options.h"
#include "model/grid.h"
#include "resume.h"
#include "run.h"
#include "train/coordinator.h"
#include "tuning.h"

struct options {
    struct job_options job;
    const char *grid, *plan, *listen, *store, *key_file, *state, *state_command, *events, *save,
        *load, *shares, *comm, *metrics, *metrics_file, *metrics_tls_cert, *metrics_tls_key,
        *metrics_key_file, *reduce, *resume; /* "": from state */
    uint64_t steps, workers;
    double price_usd_per_h, budget_usd, precopy_byte, durable_every_s, max_loss_s, grace_s, lease_s,
        stall_s, state_timeout_s, store_lease_s;
    bool buddies, quiet, verbose, is_dry;
    struct dry_run dry;
};

/* Until the job has begun there is nothing to put in order, and its data may be long in coming. */
static void on_signal(int number)
{
    static const char said[] = "spot-run train: stopped before the job began\n";
    struct pollfd set = { .fd = STDERR_FILENO, .events = POLLOUT };

    if (number == SIGHUP) {
        spot_group_reload();
    } else if (spot_group_has_begun()) {
        spot_group_stop();
    } else {
        if (poll(&set, 1, 0) > 0)
            (void)!write(STDERR_FILENO, said, sizeof(said) - 1);
        _exit(spot_err_exit_status(&(struct spot_err){ .code = SPOT_EPREEMPTED }));
    }
}

/* A wish to stop also ends a wait for the data; one to read the plan does not. */
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

/* "2x3" is D = 2 pipelines of P = 3 stages, "2x3x4" with M = 4 workers for each. */
static int parse_grid(const char *text, struct spot_coordinator_options *o, struct spot_err *err)
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
    o->grid = grid;
    return 0;
}

/* One line, drawn over; NULL clears it. */
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

static struct spot_coordinator_options coordinator_options(const struct options *o)
{
    struct spot_coordinator_options c = {
        .load = o->load,
        .listen = o->listen,
        .key_file = o->key_file,
        .store = o->store,
        .store_lease_s = o->store_lease_s,
        .n_local = o->workers || o->listen ? o->workers : 1,
        .plan = o->plan,
        .state = o->state,
        .state_command = o->state_command,
        .state_timeout_s = o->state_timeout_s,
        .events = o->events               ? o->events
                  : isatty(STDOUT_FILENO) ? NULL
                                          : "-",
        .metrics = o->metrics,
        .metrics_file = o->metrics_file,
        .metrics_tls_cert = o->metrics_tls_cert,
        .metrics_tls_key = o->metrics_tls_key,
        .metrics_key_file = o->metrics_key_file,
        .save = o->save,
        .price_usd_per_h = o->price_usd_per_h,
        .budget_usd = o->budget_usd,
        .resume = o->resume != NULL,
        .no_buddies = !o->buddies,
        .precopy_byte = o->precopy_byte,
        .grace_s = o->grace_s,
        .durable_every_s = o->durable_every_s,
        .max_loss_s = o->max_loss_s,
        .lease_s = o->lease_s,
        .stall_s = o->stall_s,
        .settle_s = 0.2,
        .warn = spot_tool_warn,
        .note = spot_tool_note,
        .progress = isatty(STDERR_FILENO) && !o->quiet ? draw_progress : NULL,
        .become_worker = become_worker,
        .name = "spot-run",
        .old_plan_hint = "spot-run replan --force gives it all the same",
    };

    job_options_put(&o->job, &c);
    c.config.n_step = (int64_t)o->steps;
    c.config.comm = !strcmp(o->comm, "nccl") ? SPOT_COMM_NCCL : SPOT_COMM_SOCKETS;
    c.config.reduce = !strcmp(o->reduce, "fast") ? SPOT_REDUCE_FAST : SPOT_REDUCE_EXACT;
    return c;
}

/* Local workers would all find out; those of other machines tell for themselves. */
static int check_nccl(const struct spot_coordinator_options *c, struct spot_err *err)
{
    if (strncmp(c->config.kernel, "cuda", 4) != 0)
        return spot_err_set(err, SPOT_EUSAGE, "--comm nccl needs --backend cuda");
    return c->n_local && !spot_cuda_nccl(err) ? -1 : 0;
}

static int check_comm(const struct options *o, struct spot_err *err)
{
    if (strcmp(o->comm, "sockets") != 0 && strcmp(o->comm, "nccl") != 0)
        return spot_err_set(err, SPOT_EUSAGE, "--comm must be sockets or nccl, got '%s'", o->comm);
    if (strcmp(o->reduce, "exact") != 0 && strcmp(o->reduce, "fast") != 0)
        return spot_err_set(err, SPOT_EUSAGE, "--reduce must be exact or fast, got '%s'",
                            o->reduce);
    if (!strcmp(o->reduce, "fast") && strcmp(o->comm, "nccl") != 0)
        return spot_err_set(err, SPOT_EUSAGE, "--reduce fast needs --comm nccl");
    return 0;
}

/* Between two generations all of --durable-every is at risk. */
static int check_loss(const struct options *o, struct spot_err *err)
{
    const bool is_said = o->durable_every_s > 0;
    const double every_s = is_said ? o->durable_every_s : SPOT_DURABLE_LEAST_S;

    if (o->max_loss_s <= 0 || o->max_loss_s >= every_s)
        return 0;
    return spot_err_set(err, SPOT_EUSAGE,
                        "--max-loss %g s cannot hold: %sa generation is begun every %g s%s",
                        o->max_loss_s, is_said ? "by --durable-every " : "", every_s,
                        is_said ? "" : " at most, unless --durable-every says more often");
}

/* What is asked for; the table below fills it. */
static struct options o = {
    .job = JOB_OPTIONS_DEFAULT,
    .shares = "even",
    .comm = "sockets",
    .reduce = "exact",
    .buddies = true,
    .precopy_byte = -1,
    .lease_s = 2,
    .stall_s = 30,
    .state_timeout_s = SPOT_STATE_COMMAND_LIMIT_S,
    .store_lease_s = 3,
};

static const struct spot_opt option_table[] = {
    { SPOT_OPT_GROUP, .help = "data and model" },
    { SPOT_OPT_LIST, 0, "data", &o.job.data, "file", "training data, in order; - for stdin", 0, 0 },
    { SPOT_OPT_LIST, 0, "val-data", &o.job.val_data, "file",
      "validation data: their loss is reported", 0, 0 },
    { SPOT_OPT_STRING, 0, "tokenizer", &o.job.tokenizer, "dir|file",
      "the data are text for this GPT-2-style tokenizer", 0, 0 },
    { SPOT_OPT_STRING, 0, "load", &o.load, "file|dir", "weights to start from", 0, 0 },
    { SPOT_OPT_STRING, 0, "arch", &o.job.arch, "x", "gpt2 or llama (default: gpt2)", 0, 0 },
    { SPOT_OPT_U64, 0, "layers", &o.job.layers, "n", "layers (default: 4)", 1, 4096 },
    { SPOT_OPT_U64, 0, "width", &o.job.width, "C", "width of the model (default: 128)", 1, 65536 },
    { SPOT_OPT_U64, 0, "heads", &o.job.heads, "n", "attention heads; must divide C (default: 4)", 1,
      1024 },
    { SPOT_OPT_U64, 0, "seq", &o.job.seq, "T", "tokens per sequence (default: 64)", 1, 1 << 20 },
    { SPOT_OPT_GROUP, .help = "training" },
    { SPOT_OPT_U64, 0, "steps", &o.steps, "n", "steps to train", 1, 1e12 },
    { SPOT_OPT_U64, 0, "micro-batch", &o.job.micro_batch, "b",
      "sequences computed at once (default: 1)", 1, 4096 },
    { SPOT_OPT_U64, 0, "global-batch", &o.job.global_batch, "G", "sequences per step (default: 16)",
      1, 1 << 24 },
    { SPOT_OPT_REAL, 0, "lr", &o.job.lr, "X", "learning rate (default: 1e-3)", 0, 1e3 },
    { SPOT_OPT_STRING, 0, "lr-schedule", &o.job.lr_schedule, "x",
      "constant, cosine or linear (default: constant)", 0, 0 },
    { SPOT_OPT_U64, 0, "seed", &o.job.seed, "n", "seed of weights and sample order (default: 1)", 0,
      0 },
    { SPOT_OPT_GROUP, .help = "workers" },
    { SPOT_OPT_U64, 0, "workers", &o.workers, "n", "local workers (default: 1; 0 with --listen)", 0,
      512 },
    { SPOT_OPT_STRING, 0, "listen", &o.listen, "addr", "where workers join: unix:PATH or HOST:PORT",
      0, 0 },
    { SPOT_OPT_STRING, 0, "key-file", &o.key_file, "file",
      "32-byte key for TLS; required beyond this host", 0, 0 },
    { SPOT_OPT_STRING, 0, "grid", &o.grid, "DxP",
      "replicas x stages, or DxPxM with M workers per stage", 0, 0 },
    { SPOT_OPT_STRING, 0, "plan", &o.plan, "file", "spot.plan/1, read again when it changes", 0,
      0 },
    { SPOT_OPT_GROUP, .help = "output" },
    { SPOT_OPT_STRING, 0, "state", &o.state, "dir", "durable state of the job", 0, 0 },
    { SPOT_OPT_MAYBE, 0, "resume", &o.resume, "dir", "continue from --state, or from dir", 0, 0 },
    { SPOT_OPT_STRING, 0, "events", &o.events, "file", "spot.event/1 (default: stdout in a pipe)",
      0, 0 },
    { SPOT_OPT_STRING, 0, "metrics", &o.metrics, "addr",
      "a page, /metrics, /status.json: 127.0.0.1:PORT or unix:PATH", 0, 0 },
    { SPOT_OPT_STRING, 0, "save", &o.save, "file|dir", "final weights", 0, 0 },
    { SPOT_OPT_FLAG, 'q', "quiet", &o.quiet, NULL, "no warnings, no progress", 0, 0 },
    { SPOT_OPT_FLAG, 'v', "verbose", &o.verbose, NULL, "say more on stderr", 0, 0 },
    { SPOT_OPT_FLAG, 'n', "dry-run", &o.is_dry, NULL,
      "print memory, times and moves of the job; start nothing", 0, 0 },
    { SPOT_OPT_MORE, .help = "more about data and model" },
    { SPOT_OPT_STRING, 0, "tokens", &o.job.tokens, "x",
      "encoding of the data: bytes, u16, u32 (default: bytes)", 0, 0 },
    { SPOT_OPT_U64, 0, "vocab", &o.job.vocab, "n",
      "size of the vocabulary (default for bytes: 256)", 2, 1 << 20 },
    { SPOT_OPT_FLAG, 0, "tied", &o.job.is_tied, NULL, "the head is the embedding", 0, 0 },
    { SPOT_OPT_U64, 0, "kv-heads", &o.job.kv_heads, "Hk",
      "llama: key/value heads (default: as many as --heads)", 1, 1024 },
    { SPOT_OPT_U64, 0, "ffn", &o.job.ffn, "X", "llama: MLP width (default: 8/3 C)", 1, 1 << 18 },
    { SPOT_OPT_REAL, 0, "rope-theta", &o.job.rope_theta, "X",
      "llama: base of the angles (default: 1e4)", 1, 1e9 },
    { SPOT_OPT_REAL, 0, "norm-eps", &o.job.norm_eps, "X", "epsilon of the norms (default: 1e-5)",
      1e-12, 1e-2 },
    { SPOT_OPT_U64, 0, "shards", &o.job.shards, "S",
      "canonical shards; must divide the heads (default: the largest up to 4)", 1, 256 },
    { SPOT_OPT_U64, 0, "val-every", &o.job.val_every, "n",
      "steps between validations (default: 100)", 1, 1e12 },
    { SPOT_OPT_U64, 0, "val-batches", &o.job.val_batches, "n",
      "global batches per validation (default: 4)", 1, 1 << 20 },
    { SPOT_OPT_MORE, .help = "optimizer and kernels" },
    { SPOT_OPT_REAL, 0, "clip", &o.job.clip, "X",
      "clip the gradient to this norm; 0: no limit (default: 1)", 0, 1e9 },
    { SPOT_OPT_REAL, 0, "beta1", &o.job.beta1, "X", "AdamW beta1 (default: 0.9)", 0, 0.999999 },
    { SPOT_OPT_REAL, 0, "beta2", &o.job.beta2, "X", "AdamW beta2 (default: 0.95)", 0, 0.999999 },
    { SPOT_OPT_REAL, 0, "weight-decay", &o.job.weight_decay, "X",
      "AdamW weight decay (default: 0.1)", 0, 10 },
    { SPOT_OPT_REAL, 0, "min-lr", &o.job.min_lr, "X", "learning rate after the decay (default: 0)",
      0, 1e3 },
    { SPOT_OPT_U64, 0, "warmup-steps", &o.job.warmup_steps, "n",
      "steps of linear warm-up (default: 0)", 0, 1e12 },
    { SPOT_OPT_U64, 0, "decay-steps", &o.job.decay_steps, "n",
      "step at which the decay ends (default: --steps)", 1, 1e12 },
    { SPOT_OPT_STRING, 0, "kernel", &o.job.kernel, "k",
      "auto, portable, fma, cuda-bf16, cuda-fp32, ... (default: auto)", 0, 0 },
    { SPOT_OPT_STRING, 0, "backend", &o.job.backend, "name", "cpu, cuda or auto (default: auto)", 0,
      0 },
    { SPOT_OPT_STRING, 0, "device", &o.job.device, "n|auto",
      "CUDA device of local workers; auto: one each (default: auto)", 0, 0 },
    { SPOT_OPT_STRING, 0, "comm", &o.comm, "name", "sockets or nccl (default: sockets)", 0, 0 },
    { SPOT_OPT_STRING, 0, "reduce", &o.reduce, "name", "sums exact or fast (default: exact)", 0,
      0 },
    { SPOT_OPT_STRING, 0, "recompute", &o.job.recompute, "x",
      "activations to recompute: none, mlp or layer (default: none)", 0, 0 },
    { SPOT_OPT_MORE, .help = "more about workers" },
    { SPOT_OPT_U64, 0, "threads", &o.job.threads, "n", "threads of each local worker (default: 1)",
      1, 256 },
    { SPOT_OPT_STRING, 0, "shares", &o.shares, "how",
      "microbatches per replica: even, measured, or 1,4,... (default: even)", 0, 0 },
    { SPOT_OPT_SECS, 0, "grace", &o.grace_s, "time", "time between a worker's notice and its end",
      0, 86400 },
    { SPOT_OPT_SECS, 0, "lease", &o.lease_s, "time",
      "drop a worker that is silent for longer (default: 2s)", 0.5, 3600 },
    { SPOT_OPT_SECS, 0, "stall", &o.stall_s, "time",
      "drop a worker that makes no progress for this long (default: 30s)", 1, 86400 },
    { SPOT_OPT_STRING, 0, "store", &o.store, "url",
      "etcd://HOST:PORT,.../PREFIX: one of several coordinators leads", 0, 0 },
    { SPOT_OPT_SECS, 0, "store-lease", &o.store_lease_s, "time",
      "a coordinator silent for longer stops leading (default: 3s)", 1, 3600 },
    { SPOT_OPT_FLAG, 0, "buddies", &o.buddies, NULL,
      "mirror stages that one failure domain could take (default: yes)", 0, 0 },
    { SPOT_OPT_SIZE, 0, "ahead", &o.precopy_byte, "size",
      "pre-copy moves larger than this while the old grid works", 0, 1e15 },
    { SPOT_OPT_MORE, .help = "a dry run" },
    { SPOT_OPT_STRING, 0, "profile", &o.dry.profile, "job.json",
      "spot.job/1 with measured step and link times", 0, 0 },
    { SPOT_OPT_STRING, 0, "format", &o.dry.format, "name", "text or json (default: text)", 0, 0 },
    { SPOT_OPT_MORE, .help = "state and money" },
    { SPOT_OPT_STRING, 0, "state-command", &o.state_command, "cmd",
      "command that stores generations: put, get, list, delete", 0, 0 },
    { SPOT_OPT_SECS, 0, "state-timeout", &o.state_timeout_s, "time",
      "end a state command through which no byte moves (default: 60s)", 0.01, 86400 },
    { SPOT_OPT_SECS, 0, "durable-every", &o.durable_every_s, "time",
      "time between generations (default: 3s; 1s without replicas)", 0.01, 86400 },
    { SPOT_OPT_SECS, 0, "max-loss", &o.max_loss_s, "time",
      "warn when durable state is this far behind", 0, 1e9 },
    { SPOT_OPT_STRING, 0, "metrics-tls-cert", &o.metrics_tls_cert, "file",
      "certificate of --metrics beyond this host, PEM", 0, 0 },
    { SPOT_OPT_STRING, 0, "metrics-tls-key", &o.metrics_tls_key, "file",
      "private key of the certificate, PEM", 0, 0 },
    { SPOT_OPT_STRING, 0, "metrics-key-file", &o.metrics_key_file, "file",
      "keys that clients may use, one per line", 0, 0 },
    { SPOT_OPT_STRING, 0, "metrics-file", &o.metrics_file, "file",
      "write metrics for node_exporter to this file", 0, 0 },
    { SPOT_OPT_REAL, 0, "price-usd-per-h", &o.price_usd_per_h, "X",
      "price of one worker, for status", 0, 1e9 },
    { SPOT_OPT_REAL, 0, "budget-usd", &o.budget_usd, "X", "stop once this much is spent", 0, 1e12 },
    { .type = SPOT_OPT_END },
};
static bool said[sizeof(option_table) / sizeof(option_table[0])];
static struct spot_job_note note; /* of a job that is resumed */
static struct spot_tuning change; /* declared with that */
static bool is_changed;

static int settle_change(struct spot_err *err)
{
    const int rc = note.lr_schedule
                       ? tuning_resume(&o.job, o.steps, option_table, said, &note, &change, err)
                       : 0;

    is_changed = rc > 0;
    return rc < 0 ? -1 : 0;
}

/* What the coordinator before this one was writing when it was killed. */
static void sweep_saved(void)
{
    char *const saved = o.save ? spot_out_target(o.save, NULL) : NULL;

    if (saved)
        spot_out_sweep(saved);
    free(saved);
}

static int settle_resume(struct spot_err *err)
{
    if (!o.resume)
        return 0;
    if (*o.resume && o.state && strcmp(o.resume, o.state) != 0)
        return spot_err_set(err, SPOT_EUSAGE, "--resume %s, but --state %s", o.resume, o.state);
    if (*o.resume)
        o.state = o.resume;
    if (!o.state)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--resume has no meaning without --state, or a "
                            "directory to resume from");
    if (o.is_dry && !o.state_command && spot_coordinator_check_resume(o.state, err))
        return -1;
    sweep_saved();
    return resume_options(o.state, option_table, said, &note, err) || settle_change(err) ? -1 : 0;
}

static void put_changes(struct spot_coordinator_options *c)
{
    memcpy(c->config.change, note.change, sizeof(note.change));
    c->config.n_change = (uint32_t)note.n_change;
    c->change = is_changed ? &change : NULL;
}

static int train(struct spot_err *err)
{
    struct spot_coordinator_options c;
    struct spot_coordinator_result result;

    if (settle_resume(err))
        return -1;
    spot_tool_warn_shared(o.state);
    if (job_options_shape(&o.job, o.load, err) || job_options_check(&o.job, err))
        return -1;
    if (!o.steps)
        return spot_err_set(err, SPOT_EUSAGE, "--steps is missing");
    if (tuning_settle(&o.job, o.steps, err) || check_comm(&o, err) || check_loss(&o, err) ||
        job_options_settle(&o.job, err))
        return -1;
    c = coordinator_options(&o);
    put_changes(&c);
    if (c.config.comm == SPOT_COMM_NCCL && check_nccl(&c, err))
        return -1;
    if (parse_grid(o.grid, &c, err) || spot_split_parse(o.shares, &c.shares, err))
        return -1;
    o.dry.n_worker = (int64_t)o.workers;
    if (o.is_dry)
        return dry_run_print(&o.dry, &c, err);
    if (spot_coordinator_run(&c, &result, err))
        return -1;
    if (!o.quiet && result.knows_loss)
        spot_tool_print("step %lld  loss %.6f  state %s", (long long)result.step,
                        (double)result.loss, result.state_hex);
    else if (!o.quiet)
        spot_tool_print("step %lld  state %s", (long long)result.step, result.state_hex);
    return 0;
}

static const struct spot_cli cli = {
    .name = "spot-run train",
    .choice = (const struct spot_opt_choice[]){ { "format", "text|json" }, { NULL, NULL } },
    .need = (const struct spot_opt_need[]){ { "state-command", "state" },
                                            { "state-timeout", "state-command" },
                                            { "budget-usd", "price-usd-per-h" },
                                            { "metrics-tls-cert", "metrics-tls-key" },
                                            { "metrics-tls-key", "metrics-tls-cert" },
                                            { "metrics-tls-cert", "metrics" },
                                            { "metrics-key-file", "metrics" },
                                            { "store", "listen" },
                                            { "store-lease", "store" },
                                            { "profile", "dry-run" },
                                            { "format", "dry-run" },
                                            { "val-every", "val-data" },
                                            { "val-batches", "val-data" },
                                            { NULL, NULL } },
    .reads = (const char *const[]){ "data", "tokenizer", "load", "plan", "key-file", "val-data",
                                    "profile", "metrics-tls-cert", "metrics-tls-key",
                                    "metrics-key-file", NULL },
    .writes = (const char *const[]){ "events", "save", "metrics-file", NULL },
    .said = said,
    .synopsis = "--data FILE... --steps N [options]",
    .summary = "Train a GPT-2 or Llama-style model on workers that come and go.",
    .examples =
        "  spot-run train --data README.md --steps 20 --workers 2 --save model.safetensors\n",
    .option = option_table,
};

static void prepare_train(void)
{
    catch_signals();          /* they may come at once */
    signal(SIGPIPE, SIG_IGN); /* a reader that goes away must not leave workers behind */
}

static int run_train(char **operand, size_t n, struct spot_err *err)
{
    int rc;

    (void)operand;
    (void)n;
    spot_tool_set_verbosity(&(struct spot_tool_common){ .quiet = o.quiet, .verbose = o.verbose });
    spot_tool_never_wait();
    rc = train(err);
    spot_bpe_free(o.job.bpe);
    free(o.job.data.item);
    free(o.job.val_data.item);
    spot_job_note_release(&note);
    return rc;
}

const struct spot_command run_train_command = {
    .name = "train",
    .brief = "coordinate a training job",
    .cli = &cli,
    .prepare = prepare_train,
    .run = run_train,
};
