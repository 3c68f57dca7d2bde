/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* SA_RESTART */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/opt.h"
#include "cli/rows.h"
#include "cli/tool.h"
#include "cluster/group.h"
#include "device_option.h"
#include "engine/backend.h"
#include "engine/kernel.h"
#include "model/grid.h"
#include "run.h"
#include "serve/adapter_list.h"
#include "serve/server.h"
#include "serve/tool_call.h"
#include "template_time.h"

static struct {
    const char *chat_template, *template_time, *model, *http, *dtype, *device, *comm, *listen,
        *key_file, *grid, *plan, *state, *events, *batch, *output, *api_key_file, *tls_cert,
        *tls_key, *names, *lora, *cors, *tool_format;
    uint64_t workers, threads, max_batch, queue;
    double kv_byte, kept_byte, linger_s, lease_s, stall_s, grace_s;
    bool resume, does_sync, is_quiet, has_buddies;
} o = { .dtype = "fp32",
        .device = "cpu",
        .comm = "sockets",
        .threads = 1,
        .max_batch = 16,
        .queue = 256,
        .kept_byte = -1,
        .linger_s = 10,
        .lease_s = 2,
        .stall_s = 30 };

static struct device_option chosen;

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "model" },
    { SPOT_OPT_STRING, 0, "model", &o.model, "dir", "config.json, weights and tokenizer", 0, 0 },
    { SPOT_OPT_STRING, 0, "served-model-name", &o.names, "list",
      "names of the model for clients (default: its directory's)", 0, 0 },
    { SPOT_OPT_STRING, 0, "chat-template", &o.chat_template, "file|name",
      "template of chats, or which of several the model has", 0, 0 },
    { SPOT_OPT_STRING, 0, "template-time", &o.template_time, "time",
      "the present for templates that write it (default: the clock)", 0, 0 },
    { SPOT_OPT_STRING, 0, "dtype", &o.dtype, "type",
      "type of weights: fp32, bf16 or q8 (default: fp32)", 0, 0 },
    { SPOT_OPT_STRING, 0, "device", &o.device, "x",
      "cpu, cuda, cuda:N, or a full name of a CUDA kind (default: cpu)", 0, 0 },
    { SPOT_OPT_GROUP, .help = "requests" },
    { SPOT_OPT_STRING, 0, "http", &o.http, "addr", "answer at 127.0.0.1:PORT or unix:PATH", 0, 0 },
    { SPOT_OPT_STRING, 0, "api-key-file", &o.api_key_file, "file",
      "keys that clients may use, one per line", 0, 0 },
    { SPOT_OPT_STRING, 0, "tls-cert", &o.tls_cert, "file", "certificate, PEM", 0, 0 },
    { SPOT_OPT_STRING, 0, "tls-key", &o.tls_key, "file", "private key of the certificate, PEM", 0,
      0 },
    { SPOT_OPT_U64, 0, "queue", &o.queue, "n", "length of the queue, in choices (default: 256)", 1,
      1 << 20 },
    { SPOT_OPT_SECS, 0, "linger", &o.linger_s, "time",
      "keep a stream this long for its client to return (default: 10s)", 0, 86400 },
    { SPOT_OPT_STRING, 0, "batch", &o.batch, "file", "JSON Lines of requests; - for stdin", 0, 0 },
    { SPOT_OPT_STRING, 'o', "output", &o.output, "file", "answers of --batch (default: stdout)", 0,
      0 },
    { SPOT_OPT_GROUP, .help = "workers" },
    SPOT_ROW_WORKERS(&o.workers),
    SPOT_ROW_LISTEN(&o.listen),
    SPOT_ROW_KEY_FILE(&o.key_file),
    { SPOT_OPT_STRING, 0, "grid", &o.grid, "DxPxM",
      "replica: P stages of M workers; D follows the members (default: 1x1x1)", 0, 0 },
    { SPOT_OPT_STRING, 0, "comm", &o.comm, "name",
      "members of a stage meet over sockets or nccl (default: sockets)", 0, 0 },
    { SPOT_OPT_STRING, 0, "plan", &o.plan, "file", "spot.plan/1, read again when it changes", 0,
      0 },
    { SPOT_OPT_U64, 0, "max-batch", &o.max_batch, "n",
      "choices per batch of a worker (default: 16)", 1, 4096 },
    { SPOT_OPT_SIZE, 0, "kv-byte", &o.kv_byte, "size",
      "key/value cache per worker (default: --max-batch full contexts)", 0, 1e15 },
    { SPOT_OPT_SIZE, 0, "prefix-cache", &o.kept_byte, "size",
      "of it, kept for later requests; 0: none (default: --kv-byte, or 1G)", 0, 1e15 },
    { SPOT_OPT_FLAG, 0, "kv-buddies", &o.has_buddies, NULL,
      "replicas keep copies of each other's caches", 0, 0 },
    { SPOT_OPT_GROUP, .help = "output" },
    { SPOT_OPT_STRING, 0, "state", &o.state, "dir", "journal of requests and tokens", 0, 0 },
    { SPOT_OPT_FLAG, 0, "resume", &o.resume, NULL, "continue from --state", 0, 0 },
    SPOT_ROW_EVENTS(&o.events),
    { SPOT_OPT_FLAG, 'q', "quiet", &o.is_quiet, NULL, "no warnings", 0, 0 },
    { SPOT_OPT_MORE, .help = "more" },
    { SPOT_OPT_STRING, 0, "lora", &o.lora, "list",
      "adapters of the model in peft's format, NAME=DIR,...", 0, 0 },
    { SPOT_OPT_STRING, 0, "cors-origin", &o.cors, "list",
      "origins of web pages that may ask, or * for all", 0, 0 },
    { SPOT_OPT_STRING, 0, "tool-format", &o.tool_format, "name",
      "calls of tools: hermes, mistral[-args], function, phi, llama3, json", 0, 0 },
    { SPOT_OPT_FLAG, 0, "journal-sync", &o.does_sync, NULL,
      "sync each token to disk, so that it survives a power loss", 0, 0 },
    SPOT_ROW_THREADS(&o.threads),
    SPOT_ROW_GRACE(&o.grace_s),
    SPOT_ROW_LEASE(&o.lease_s),
    SPOT_ROW_STALL(&o.stall_s),
    { .type = SPOT_OPT_END },
};

static const struct spot_cli cli = {
    .name = "spot-run serve",
    .required = (const struct spot_opt_required[]){ { "model", "the directory of the model" },
                                                    { NULL, NULL } },
    .need = (const struct spot_opt_need[]){ { "resume", "state" },
                                            { "journal-sync", "state" },
                                            { "output", "batch" },
                                            { "tls-cert", "tls-key" },
                                            { "tls-key", "tls-cert" },
                                            { NULL, NULL } },
    .choice = (const struct spot_opt_choice[]){ { "dtype", "fp32|bf16|q8" }, { NULL, NULL } },
    .reads = (const char *const[]){ "plan", "key-file", "batch", "api-key-file", "tls-cert",
                                    "tls-key", NULL },
    .writes = (const char *const[]){ "events", "output", NULL },
    .synopsis = "--model DIR --http ADDR [options]",
    .summary = "Serve a model on workers that come and go: the same tokens, whatever dies.",
    .examples = "  spot-run serve --model model --http 127.0.0.1:8000 --workers 2\n",
    .option = option,
};

static void on_signal(int number)
{
    if (number == SIGHUP)
        spot_group_reload();
    else if (spot_group_has_begun())
        spot_group_stop();
    else
        _exit(spot_err_exit_status(&(struct spot_err){ .code = SPOT_EPREEMPTED }));
}

static void prepare_serve(void)
{
    struct sigaction action = { .sa_handler = on_signal };
    struct rlimit files;

    sigfillset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    action.sa_flags = SA_RESTART;
    sigaction(SIGHUP, &action, NULL);
    sigprocmask(SIG_UNBLOCK, &action.sa_mask, NULL); /* a parent may have blocked them */
    signal(SIGPIPE, SIG_IGN);
    if (!getrlimit(RLIMIT_NOFILE, &files)) { /* a client is a descriptor: as many as may be */
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

/* This very program, also when another has been installed in its place meanwhile. */
static void become_replica(void *user, uint64_t index, const char *address)
{
    char name[32], threads[24], device[16];

    (void)user;
    snprintf(device, sizeof(device), "auto:%s", chosen.number);
    snprintf(name, sizeof(name), "local-%llu", (unsigned long long)index);
    snprintf(threads, sizeof(threads), "%llu", (unsigned long long)o.threads);
    execl("/proc/self/exe", "spot-run", "worker", "--quiet", "--join", address, "--name", name,
          "--threads", threads, "--device", device, "--join-timeout", "5s",
          o.key_file ? "--key-file" : (char *)NULL, o.key_file, (char *)NULL);
}

/* How many replicas there are is the members' affair. */
static int read_grid(struct spot_server_options *s, struct spot_err *err)
{
    struct spot_grid grid = { 1, 1, 1 };

    if (o.grid && (spot_grid_parse(o.grid, &grid) || !spot_grid_size(&grid)))
        return spot_err_set(err, SPOT_EUSAGE, "--grid must be DxP or DxPxM, got '%s'", o.grid);
    s->P = (uint32_t)grid.P;
    s->M = (uint32_t)grid.M;
    return 0;
}

static void tell_listening(void *user, const char *address)
{
    (void)user;
    spot_tool_note("workers join at %s", address);
}

static void tell_http(void *user, const char *url)
{
    (void)user;
    if (strncmp(url, "unix:", 5) != 0)
        spot_tool_note("%s", url);
}

/* The kind that all workers compute with; it need not be here if none of them is. */
static int read_backend(struct spot_server_options *s, struct spot_err *err)
{
    static char real[32];
    const struct spot_kernel *kernel;

    if (device_option_parse(o.device, &chosen, err))
        return -1;
    if (!strcmp(chosen.kind, "cpu"))
        return 0;
    if (o.lora)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--lora is not for --device %s: adapters are computed "
                            "on CPUs only",
                            o.device);
    if (s->type == SPOT_INFER_Q8)
        return spot_err_set(err, SPOT_EUSAGE, "--dtype q8 is not for --device cuda: bf16 or fp32");
    if (spot_kernel_is_whole_cuda(chosen.kind) && !s->group.n_local) {
        s->kind = chosen.kind;
        return 0;
    }
    if (strcmp(chosen.kind, "cuda") != 0 && !spot_kernel_is_whole_cuda(chosen.kind))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--device must be cpu, cuda or a kind of cuda in full, got '%s'",
                            chosen.kind);
    snprintf(real, sizeof(real), "cuda-%s", spot_infer_type_name((int)s->type));
    kernel = spot_kernel_find(!strcmp(chosen.kind, "cuda") ? real : chosen.kind, err);
    s->kind = kernel ? spot_kernel_name(kernel) : NULL;
    return kernel ? 0 : -1;
}

static int read_comm(struct spot_server_options *s, struct spot_err *err)
{
    s->is_nccl = !strcmp(o.comm, "nccl");
    if (!s->is_nccl && strcmp(o.comm, "sockets") != 0)
        return spot_err_set(err, SPOT_EUSAGE, "--comm must be sockets or nccl, got '%s'", o.comm);
    if (s->is_nccl && !s->kind)
        return spot_err_set(err, SPOT_EUSAGE, "--comm nccl needs --device cuda");
    return s->is_nccl && s->group.n_local && !spot_cuda_nccl(err) ? -1 : 0;
}

/* A cache without a limit of its own takes memory as it is used, and is not to take all of it. */
static uint64_t kept_byte(void)
{
    static const double kept_most = 1 << 30;

    return (uint64_t)(o.kept_byte >= 0 ? o.kept_byte : o.kv_byte > 0 ? o.kv_byte : kept_most);
}

static int run_serve(char **operand, size_t n, struct spot_err *err)
{
    struct spot_server_options s = {
        .group = { .name = "spot-run",
                   .listen = o.listen,
                   .key_file = o.key_file,
                   .events = o.events,
                   .plan = o.plan,
                   .resume = o.resume,
                   .n_local = o.workers || o.listen ? o.workers : 1,
                   .become_worker = become_replica,
                   .lease_s = o.lease_s,
                   .grace_s = o.grace_s,
                   .stall_s = o.stall_s,
                   .warn = spot_tool_warn,
                   .listening = tell_listening },
        .model = o.model,
        .chat_template = o.chat_template,
        .adapters = o.lora,
        .type = (enum spot_infer_type)spot_infer_type_find(o.dtype),
        .n_sequence = (uint32_t)o.max_batch,
        .kv_byte = (uint64_t)o.kv_byte,
        .kept_byte = kept_byte(),
        .has_buddies = o.has_buddies,
        .n_queue = (uint32_t)o.queue,
        .linger_s = o.linger_s,
        .state = o.state,
        .does_sync = o.does_sync,
        .http = o.http,
        .tls_cert = o.tls_cert,
        .tls_key = o.tls_key,
        .api_key_file = o.api_key_file,
        .names = o.names,
        .cors = o.cors,
        .tool_format = o.tool_format,
        .http_listening = tell_http,
        .batch = o.batch,
        .batch_out = o.output,
    };

    (void)operand;
    (void)n;
    spot_tool_set_verbosity(&(struct spot_tool_common){ .quiet = o.is_quiet });
    if (!o.http && !o.batch)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--http or --batch is missing: where requests come "
                            "from");
    if (o.tool_format && !spot_tool_form_find(o.tool_format))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--tool-format must be hermes, mistral-args, function, mistral, phi, "
                            "llama3, json or none, "
                            "got '%s'",
                            o.tool_format);
    if (o.names && (!*o.names || *o.names == ','))
        return spot_err_set(err, SPOT_EUSAGE, "--served-model-name must be names, got '%s'",
                            o.names);
    if (o.state && !*o.state)
        return spot_err_set(err, SPOT_EUSAGE, "--state must be a directory, got ''");
    if (template_time_parse(o.template_time, err))
        return -1;
    if (spot_adapter_check(o.lora, err))
        return -1;
    if (read_grid(&s, err) || read_backend(&s, err) || read_comm(&s, err))
        return -1;
    spot_tool_warn_shared(o.state);
    spot_tool_never_wait();
    return spot_server_run(&s, err);
}

const struct spot_command run_serve_command = {
    .name = "serve",
    .brief = "answer requests with a model",
    .cli = &cli,
    .prepare = prepare_serve,
    .run = run_serve,
};
