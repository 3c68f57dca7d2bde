/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* SA_RESTART */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/state_command.h"
#include "cli/rows.h"
#include "cli/tool.h"
#include "cluster/agent.h"
#include "cluster/private_dir.h"
#include "cluster/protocol.h"
#include "cluster/restart.h"
#include "comm/endpoint.h"
#include "comm/http_client.h"
#include "common/utf8.h"
#include "engine/backend.h"
#include "engine/stage.h"
#include "run.h"
#include "serve/engine_preset.h"
#include "serve/engine_replica.h"
#include "serve/replica.h"
#include "train/worker.h"

static void on_notice(int number)
{
    (void)number;
    spot_worker_notice();
}

static void catch_notice(void)
{
    struct sigaction action = { .sa_handler = on_notice, .sa_flags = SA_RESTART };

    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaddset(&action.sa_mask, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &action.sa_mask, NULL); /* a parent may have blocked it */
}

/* The coordinator refuses other names as well. */
static int check_text(const char *option, const char *text, struct spot_err *err)
{
    if (text && (!*text || strlen(text) >= SPOT_NAME_MAX))
        return spot_err_set(err, SPOT_EUSAGE, "%s must be 1 to %d bytes", option,
                            SPOT_NAME_MAX - 1);
    if (text && !spot_utf8_is_plain(text))
        return spot_err_set(err, SPOT_EUSAGE, "%s must be UTF-8 text without control characters",
                            option);
    return 0;
}

static struct spot_worker_options o = { .join_timeout_s = 30 };
static uint64_t threads = 1;
static const char *recompute = "none", *device = "auto";
static const char *engine, *engine_url, *engine_kind, *machine;
static struct device_option chosen;
static bool is_quiet;

static struct leave_on_notice leave;

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "options" },
    SPOT_ROW_JOIN(&o.join),
    SPOT_ROW_KEY_FILE(&o.key_file),
    SPOT_ROW_NAME(&o.name),
    SPOT_ROW_DOMAIN(&o.domain),
    SPOT_TEXT("machine", &machine, "type[/market]",
              "what the plan of a server calls this machine: A100/spot"),
    SPOT_ROW_THREADS(&threads),
    SPOT_ROW_RECOMPUTE(&recompute),
    SPOT_ROW_DEVICE(&device),
    SPOT_TEXT("engine", &engine, "command",
              "program at $PORT that computes (serve --dtype engine)"),
    SPOT_TEXT("engine-url", &engine_url, "url", "one that runs: http://127.0.0.1:PORT"),
    SPOT_TEXT("engine-kind", &engine_kind, "name",
              "vllm, llama-server, sglang, tgi, ... (default: as found)"),
    SPOT_ROW_STATE_COMMAND(&o.state_command),
    SPOT_ROW_REACH(&o.join_timeout_s),
    SPOT_ROW_NOTICE(&leave.watched.from),
    SPOT_ROW_REBALANCE(&leave.on_rebalance),
    { SPOT_OPT_FLAG, 'q', "quiet", &is_quiet, NULL,
      "print nothing on preemption or when the coordinator is gone", 0, 0 },
    { .type = SPOT_OPT_END },
};

static void prepare_worker(void)
{
    catch_notice(); /* a notice may arrive at once */
    o.private_dir = getenv(SPOT_PRIVATE_DIR_ENV);
    spot_last_words_take();
}

/* The job is a server: join again as a replica. */
static int serve_there(struct spot_agent *agent, struct spot_err *err)
{
    const struct spot_replica_options r = { .agent = { .join = o.join,
                                                       .key_file = o.key_file,
                                                       .name = o.name,
                                                       .domain = o.domain,
                                                       .machine = machine,
                                                       .is_private = o.private_dir != NULL,
                                                       .join_timeout_s = o.join_timeout_s,
                                                       .warn = o.warn },
                                            .private_dir = o.private_dir,
                                            .n_thread = o.n_thread };

    return spot_replica_run(&r, agent, err);
}

/* True if the worker was preempted or has lost its coordinator: the exit status reports that. */
static bool is_for_the_status(const struct spot_agent *agent, const struct spot_err *err)
{
    const bool has_joined = spot_worker_has_joined() || agent->has_joined;
    const bool was_dismissed = spot_worker_was_dismissed() || agent->was_dismissed;

    return err->code == SPOT_EPREEMPTED || (err->code == SPOT_ESYS && has_joined && !was_dismissed);
}

/* Serve with an engine that is a separate program. */
static int serve_with_engine(struct spot_agent *agent, struct spot_err *err)
{
    const struct spot_engine_replica_options r = {
        .agent = { .join = o.join,
                   .key_file = o.key_file,
                   .name = o.name,
                   .domain = o.domain,
                   .machine = machine,
                   .join_timeout_s = o.join_timeout_s,
                   .warn = o.warn },
        .command = engine,
        .url = engine_url,
        .kind = engine_kind,
        .start_s = derived("SPOT_TEST_ENGINE_START_S", engine ? 1800 : o.join_timeout_s),
        .silent_s = derived("SPOT_TEST_ENGINE_SILENT_S", 10),
        .room_byte = derived("SPOT_TEST_ENGINE_ROOM", 512e6),
        .note = o.warn,
    };

    return spot_engine_replica_run(&r, agent, err);
}

static int work(struct spot_err *err)
{
    struct spot_agent agent = { .id = 0 };

    if (engine || engine_url) {
        if (!serve_with_engine(&agent, err))
            return 0;
    } else if (!spot_worker_run(&o, err) ||
               (spot_worker_is_for_serving() && !serve_there(&agent, err)))
        return 0;
    spot_last_words_report(err);
    if (is_quiet && is_for_the_status(&agent, err))
        err->msg[0] = '\0';
    return -1;
}

static int settle_device(struct spot_err *err)
{
    if (device_option_parse(device, &chosen, err))
        return -1;
    o.backend = chosen.kind;
    o.device = chosen.number;
    if (!strcmp(o.backend, "cpu") || !strcmp(o.backend, "cuda") || !strcmp(o.backend, "auto") ||
        (strncmp(o.backend, "cuda", 4) != 0 && spot_kernel_find(o.backend, NULL)))
        return 0;
    return spot_err_set(err, SPOT_EUSAGE,
                        "--device of a worker is cpu, cuda, cuda:N, auto or a kernel that this CPU "
                        "can run, not '%s'",
                        device);
}

static int settle_engine(struct spot_err *err)
{
    const size_t n = engine_url ? strlen(engine_url) : 0;
    struct spot_endpoint at;

    if (engine && engine_url)
        return spot_err_set(err, SPOT_EUSAGE, "--engine and --engine-url exclude each other");
    if (engine_kind && !engine && !engine_url)
        return spot_err_set(err, SPOT_EUSAGE, "--engine-kind needs --engine or --engine-url");
    if (engine_kind && !spot_engine_preset_find(engine_kind))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--engine-kind must be llama-server, vllm, sglang, tgi, ollama or "
                            "transformers, got '%s'",
                            engine_kind);
    if (engine && !strstr(engine, "$PORT") && !strstr(engine, "${PORT}"))
        return spot_err_set(err, SPOT_EUSAGE, "--engine must listen at $PORT, got '%s'", engine);
    if (!engine_url)
        return 0;
    if (engine_url[n - !!n] == '/')
        return spot_err_set(err, SPOT_EUSAGE, "--engine-url must end with its port, got '%s'",
                            engine_url);
    if (spot_http_url_check(engine_url, err) ||
        spot_endpoint_parse_reach(engine_url + strlen("http://"), SPOT_REACH_NUMERIC, &at, err))
        return -1;
    return spot_endpoint_is_private(&at) ? 0
                                         : spot_err_set(err, SPOT_EUSAGE,
                                                        "--engine-url must be on this machine, "
                                                        "such as http://127.0.0.1:8000, got '%s'",
                                                        engine_url);
}

static int run_worker(struct spot_err *err)
{
    int rc;

    o.n_thread = (int)threads;
    o.recompute = spot_recompute_find(recompute);
    o.state_timeout_s = derived("SPOT_TEST_STATE_TIMEOUT_S", SPOT_STATE_COMMAND_LIMIT_S);
    o.warn = is_quiet ? NULL : spot_tool_warn;
    if (settle_engine(err) || settle_device(err) || check_text("--name", o.name, err) ||
        check_text("--domain", o.domain, err) || check_text("--machine", machine, err))
        return -1;
    leave.is_quiet = is_quiet;
    spot_tool_never_wait();
    rc = leave_on_notice_start(&leave, err) ? -1 : work(err);
    leave_on_notice_stop(&leave);
    if (rc && spot_cuda_is_held()) { /* otherwise the driver would wait at the end of the process */
        spot_tool_warn("%s", err->msg);
        spot_tool_part();
        _exit(spot_err_exit_status(err));
    }
    return rc;
}

const struct spot_cli run_worker_command = {
    .name = "spot-run worker",
    .brief = "be one instance of a job",
    .required =
        (const struct spot_opt_required[]){ { "join", "the address of the job" }, { NULL, NULL } },
    .choice = (const struct spot_opt_choice[]){ { "recompute", "none|mlp|layer" }, { NULL, NULL } },
    .need = (const struct spot_opt_need[]){ { "notice-rebalance", "notice" }, { NULL, NULL } },
    .synopsis = "--join ADDR [options]",
    .summary = "Run one member of a job. SIGTERM is the notice: hand over and leave (75).",
    .examples = "  spot-run worker --join unix:/tmp/job --name node-7\n",
    .option = option,
    .prepare = prepare_worker,
    .run_alone = run_worker,
};
