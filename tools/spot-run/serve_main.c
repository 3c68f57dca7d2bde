/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* SA_RESTART */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "cluster/group.h"
#include "engine/backend.h"
#include "engine/kernel.h"
#include "model/grid.h"
#include "run.h"
#include "serve/adapter_list.h"
#include "serve/server.h"
#include "serve/tool_call.h"

/* Options given as text, or shared by several commands; the others are in the server's own struct.
 */
static struct {
    const char *template_time, *dtype, *device, *comm, *grid, *follow;
    uint64_t threads;
    double kv_byte, kept_byte;
    bool is_quiet;
} o = { .dtype = "fp32", .device = "auto", .comm = "sockets", .threads = 1, .kept_byte = -1 };

static struct spot_server_options server = {
    .group = { .name = "spot-run", .lease_s = 2, .stall_s = 30, .warn = spot_tool_warn },
    .n_sequence = 16,
    .n_queue = 256,
    .linger_s = 10,
    .verify = -1,
};

static struct device_option chosen;

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "model" },
    SPOT_TEXT("model", &server.model, "dir", "config.json, weights and tokenizer"),
    SPOT_TEXT("served-model-name", &server.names, "list",
              "names of the model for clients (default: its directory's)"),
    SPOT_TEXT("chat-template", &server.chat_template, "file|name",
              "template of chats, or which of several the model has"),
    SPOT_TEXT("template-time", &o.template_time, "time",
              "the present for templates that write it (default: the clock)"),
    SPOT_TEXT("dtype", &o.dtype, "type", "fp32, bf16, q8, or engine: the workers' (default: fp32)"),
    SPOT_ROW_DEVICE(&o.device),
    { SPOT_OPT_GROUP, .help = "requests" },
    SPOT_TEXT("http", &server.http, "addr", "answer at 127.0.0.1:PORT or unix:PATH"),
    SPOT_TEXT("api-key-file", &server.api_key_file, "file",
              "keys that clients may use, one per line"),
    SPOT_TEXT("tls-cert", &server.tls_cert, "file", "certificate, PEM"),
    SPOT_TEXT("tls-key", &server.tls_key, "file", "private key of the certificate, PEM"),
    SPOT_U64("queue", &server.n_queue, "n", "length of the queue, in choices (default: 256)", 1,
             1 << 20),
    SPOT_SECS("linger", &server.linger_s, "time",
              "keep a stream this long for its client to return (default: 10s)", 0, 86400),
    SPOT_TEXT("batch", &server.batch, "file", "JSON Lines of requests; - for stdin"),
    { SPOT_OPT_STRING, 'o', "output", &server.batch_out, "file",
      "answers of --batch (default: stdout)", 0, 0 },
    { SPOT_OPT_GROUP, .help = "workers" },
    SPOT_ROW_WORKERS(&server.group.n_local),
    SPOT_ROW_LISTEN(&server.group.listen),
    SPOT_ROW_KEY_FILE(&server.group.key_file),
    SPOT_TEXT("grid", &o.grid, "DxPxM",
              "replica: P stages of M workers; D follows the members (default: 1x1x1)"),
    SPOT_TEXT("comm", &o.comm, "name",
              "members of a stage meet over sockets or nccl (default: sockets)"),
    SPOT_TEXT("plan", &server.group.plan, "file", "spot.plan/1, read again when it changes"),
    SPOT_U64("max-batch", &server.n_sequence, "n", "choices per batch of a worker (default: 16)", 1,
             4096),
    SPOT_SIZE("kv-byte", &o.kv_byte, "size",
              "key/value cache per worker (default: --max-batch full contexts)", 0, 1e15),
    SPOT_SIZE("prefix-cache", &o.kept_byte, "size",
              "of it, kept for later requests; 0: none (default: --kv-byte, or 1G)", 0, 1e15),
    SPOT_FLAG("kv-buddies", &server.has_buddies, "replicas keep copies of each other's caches"),
    { SPOT_OPT_GROUP, .help = "output" },
    SPOT_ROW_STATE(&server.state),
    SPOT_ROW_RESUME(&server.group.resume),
    SPOT_ROW_EVENTS(&server.group.events),
    { SPOT_OPT_FLAG, 'q', "quiet", &o.is_quiet, NULL, "no warnings", 0, 0 },
    { SPOT_OPT_MORE, .help = "more" },
    SPOT_TEXT("follow", &o.follow, "addr[,n]",
              "take the weights of this training job, every N commits (default: 1)"),
    SPOT_TEXT("lora", &server.adapters, "list", "adapters as peft saves them, NAME=DIR,..."),
    SPOT_TEXT("cors-origin", &server.cors, "list",
              "origins of web pages that may ask, or * for all"),
    SPOT_TEXT("tool-format", &server.tool_format, "name",
              "calls of tools: hermes, mistral[-args], function, phi, llama3, json"),
    SPOT_REAL("verify", &server.verify, "share",
              "share of answers that another replica computes again (default: none)", 0, 1),
    SPOT_FLAG("journal-sync", &server.does_sync,
              "sync each token to disk, so that it survives a power loss"),
    SPOT_ROW_THREADS(&o.threads),
    SPOT_ROW_GRACE(&server.group.grace_s),
    SPOT_ROW_LEASE(&server.group.lease_s),
    SPOT_ROW_STALL(&server.group.stall_s),
    { .type = SPOT_OPT_END },
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
    /* each client needs a descriptor: raise the limit as far as possible */
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

/* Executes the program that is running, even if another was installed in its place meanwhile. */
static void become_replica(void *user, uint64_t index, const char *address)
{
    char name[32], threads[24], device[16];

    (void)user;
    snprintf(device, sizeof(device), "auto:%s", chosen.number);
    snprintf(name, sizeof(name), "local-%llu", (unsigned long long)index);
    snprintf(threads, sizeof(threads), "%llu", (unsigned long long)o.threads);
    execl("/proc/self/exe", "spot-run", "worker", "--quiet", "--join", address, "--name", name,
          "--threads", threads, "--device", device, "--join-timeout", "5s",
          server.group.key_file ? "--key-file" : (char *)NULL, server.group.key_file, (char *)NULL);
}

/* Only the shape is read; the number of replicas follows from the members. */
static int read_grid(struct spot_server_options *s, struct spot_err *err)
{
    struct spot_grid grid = { 1, 1, 1 };

    if (o.grid && (spot_grid_parse(o.grid, &grid) || !spot_grid_size(&grid)))
        return spot_err_set(err, SPOT_EUSAGE, "--grid must be DxP or DxPxM, got '%s'", o.grid);
    s->P = (uint32_t)grid.P;
    s->M = (uint32_t)grid.M;
    return 0;
}

static bool is_foreign(void)
{
    return !strcmp(o.dtype, "engine");
}

/* Check options that only apply to workers that compute here. */
static int check_foreign(struct spot_err *err)
{
    const char *const what = server.group.n_local             ? "--workers"
                             : o.grid                         ? "--grid"
                             : server.adapters                ? "--lora"
                             : o.follow                       ? "--follow"
                             : server.has_buddies             ? "--kv-buddies"
                             : server.verify >= 0             ? "--verify"
                             : o.kv_byte > 0                  ? "--kv-byte"
                             : o.kept_byte >= 0               ? "--prefix-cache"
                             : strcmp(o.device, "auto") != 0  ? "--device"
                             : strcmp(o.comm, "sockets") != 0 ? "--comm"
                                                              : NULL;

    if (what)
        return spot_err_set(err, SPOT_EUSAGE,
                            "%s is for workers that compute here, not for --dtype engine", what);
    return server.group.listen
               ? 0
               : spot_err_set(err, SPOT_EUSAGE,
                              "--dtype engine needs --listen, where workers with --engine "
                              "join");
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

/* The backend that all workers use; it need not exist here if no worker runs here. */
static int read_backend(struct spot_server_options *s, struct spot_err *err)
{
    static char real[32];
    const struct spot_kernel *kernel;

    if (device_option_parse(o.device, &chosen, err))
        return -1;
    if (!strcmp(chosen.kind, "cpu") || !strcmp(chosen.kind, "auto"))
        return 0;
    if (s->adapters)
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

/* Set options that were not given. A cache without its own limit grows as it is used, and must not
 * take all memory. */
static void settle(struct spot_server_options *s)
{
    static const double kept_most = 1 << 30;

    if (!s->group.listen && !s->group.n_local)
        s->group.n_local = 1;
    s->group.become_worker = become_replica;
    s->group.listening = tell_listening;
    s->http_listening = tell_http;
    s->group.note = spot_tool_note;
    s->is_foreign = is_foreign();
    s->type = is_foreign() ? SPOT_INFER_FP32 : (enum spot_infer_type)spot_infer_type_find(o.dtype);
    s->kv_byte = (uint64_t)o.kv_byte;
    s->kept_byte = (uint64_t)(o.kept_byte >= 0 ? o.kept_byte
                              : o.kv_byte > 0  ? o.kv_byte
                                               : kept_most);
}

/* A followed version lasts only as long as this process, so no journal may name it. */
static int run_server(struct spot_err *err)
{
    int rc;

    if (o.follow && server.state)
        return spot_err_set(err, SPOT_EUSAGE, "--follow cannot be combined with --state yet");
    if (o.follow && serve_follow_begin(o.follow, &server, err))
        return -1;
    rc = spot_server_run(&server, err);
    serve_follow_end();
    return rc;
}

static int run_serve(struct spot_err *err)
{
    spot_tool_set_verbosity(&(struct spot_tool_common){ .quiet = o.is_quiet });
    if (!server.http && !server.batch)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--http or --batch is missing, the source of requests");
    if (server.tool_format && !spot_tool_form_find(server.tool_format))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--tool-format must be hermes, mistral-args, function, mistral, phi, "
                            "llama3, json or none, "
                            "got '%s'",
                            server.tool_format);
    if (server.names && (!*server.names || *server.names == ','))
        return spot_err_set(err, SPOT_EUSAGE, "--served-model-name must be names, got '%s'",
                            server.names);
    if (server.state && !*server.state)
        return spot_err_set(err, SPOT_EUSAGE, "--state must be a directory, got ''");
    if (is_foreign() && check_foreign(err))
        return -1;
    if (template_time_parse(o.template_time, err))
        return -1;
    if (spot_adapter_check(server.adapters, err))
        return -1;
    settle(&server);
    if (read_grid(&server, err) || read_backend(&server, err) || read_comm(&server, err))
        return -1;
    spot_tool_warn_shared(server.state);
    spot_tool_never_wait();
    return run_server(err);
}

const struct spot_cli run_serve_command = {
    .name = "spot-run serve",
    .brief = "answer requests with a model",
    .required = (const struct spot_opt_required[]){ { "model", "the directory of the model" },
                                                    { NULL, NULL } },
    .need = (const struct spot_opt_need[]){ { "resume|journal-sync", "state" },
                                            { "output", "batch" },
                                            { "tls-cert", "tls-key" },
                                            { "tls-key", "tls-cert" },
                                            { NULL, NULL } },
    .choice =
        (const struct spot_opt_choice[]){ { "dtype", "fp32|bf16|q8|engine" }, { NULL, NULL } },
    .reads = (const char *const[]){ "plan", "key-file", "batch", "api-key-file", "tls-cert",
                                    "tls-key", NULL },
    .writes = (const char *const[]){ "events", "output", NULL },
    .synopsis = "--model DIR --http ADDR [options]",
    .summary = "Serve a model on workers that come and go: the same tokens, whatever dies.",
    .examples = "  spot-run serve --model model --http 127.0.0.1:8000 --workers 2\n",
    .option = option,
    .prepare = prepare_serve,
    .run_alone = run_serve,
};
