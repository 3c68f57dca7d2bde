/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* SA_RESTART */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/opt.h"
#include "cli/tool.h"
#include "cluster/private_dir.h"
#include "cluster/protocol.h"
#include "common/utf8.h"
#include "engine/stage.h"
#include "run.h"
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

int run_worker(int argc, char **argv)
{
    struct spot_worker_options o = { .join_timeout_s = 30,
                                     .backend = "auto",
                                     .private_dir = getenv(SPOT_PRIVATE_DIR_ENV) };
    uint64_t threads = 1;
    const char *recompute = "none";
    bool quiet = false;
    const struct spot_opt option[] = {
        { SPOT_OPT_GROUP, .help = "options" },
        { SPOT_OPT_STRING, 0, "join", &o.join, "addr", "where the job listens", 0, 0 },
        { SPOT_OPT_STRING, 0, "key-file", &o.key_file, "file", "the job's key (TLS 1.3 PSK)", 0,
          0 },
        { SPOT_OPT_STRING, 0, "name", &o.name, "id", "of this instance (default its pid)", 0, 0 },
        { SPOT_OPT_STRING, 0, "domain", &o.domain, "id",
          "failure domain, such as the zone (default its own)", 0, 0 },
        { SPOT_OPT_U64, 0, "threads", &threads, "n", "to compute with (default 1)", 1, 256 },
        { SPOT_OPT_STRING, 0, "recompute", &recompute, "what",
          "instead of keeping it: none, mlp or layer (none)", 0, 0 },
        { SPOT_OPT_STRING, 0, "backend", &o.backend, "name",
          "compute with cpu, cuda, or auto: as the job says (auto)", 0, 0 },
        { SPOT_OPT_SECS, 0, "join-timeout", &o.join_timeout_s, "time",
          "wait so long for a job, first and again (30s)", 0, 1e7 },
        { SPOT_OPT_FLAG, 'q', "quiet", &quiet, NULL, "no message when preempted or not needed", 0,
          0 },
        { .type = SPOT_OPT_END },
    };
    const struct spot_cli cli = {
        .name = "spot-run worker",
        .synopsis = "--join ADDR [options]",
        .summary = "Be one instance of a job. SIGTERM is the notice: hand over and leave (75).",
        .examples = "  spot-run worker --join unix:/tmp/job --name node-7\n",
        .option = option,
    };
    struct spot_err err = { 0 };
    int first, rc, status;

    catch_notice(); /* first: a notice may come at once */
    if (!spot_tool_parse(&cli, argc, argv, &first, &status))
        return status;
    o.n_thread = (int)threads;
    o.recompute = spot_recompute_find(recompute);
    o.warn = quiet ? NULL : spot_tool_warn;
    if (argc > first)
        rc = spot_err_set(&err, SPOT_EUSAGE, "unexpected operand '%s'", argv[first]);
    else if (!o.join)
        rc = spot_err_set(&err, SPOT_EUSAGE, "--join is missing: the address of the job");
    else if (o.recompute < 0)
        rc = spot_err_set(&err, SPOT_EUSAGE, "--recompute must be none, mlp or layer, got '%s'",
                          recompute);
    else if (strcmp(o.backend, "cpu") != 0 && strcmp(o.backend, "cuda") != 0 &&
             strcmp(o.backend, "auto") != 0)
        rc = spot_err_set(&err, SPOT_EUSAGE, "--backend must be cpu, cuda or auto, got '%s'",
                          o.backend);
    else if (check_text("--name", o.name, &err) || check_text("--domain", o.domain, &err))
        rc = -1;
    else
        rc = spot_worker_run(&o, &err);
    if (rc && quiet &&
        (err.code == SPOT_EPREEMPTED ||
         (err.code == SPOT_ESYS && spot_worker_has_joined() && !spot_worker_was_dismissed())))
        return spot_err_exit_status(&err);
    return spot_tool_finish(rc, &err);
}
