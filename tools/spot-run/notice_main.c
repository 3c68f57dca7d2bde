/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* SA_RESTART */
#include <signal.h>
#include <stdio.h>

#include "cli/tool.h"
#include "cluster/notice.h"
#include "run.h"

static struct spot_notice_options o = { .from = "auto" };
static bool is_quiet;

/* Global, since the signal handler must reach it. */
static struct spot_notice_watch *watch;
static struct spot_err write_err;
static size_t n_told;

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "options" },
    SPOT_TEXT("from", &o.from, "source[@url]",
              "aws, gcp, azure, auto, sigterm or cmd:COMMAND (default: auto)"),
    SPOT_TEXT("exec", &o.hook, "command", "run this for each notice, with SPOT_NOTICE_* variables"),
    SPOT_FLAG("once", &o.is_once, "ask once; exit 0 if there is a notice, else 1"),
    SPOT_FLAG("ack", &o.is_acknowledged,
              "Azure: acknowledge the event once the command has succeeded"),
    SPOT_SECS("interval", &o.interval_s, "time", "time between queries (default: 1s)", 0.01, 3600),
    SPOT_SECS("lead", &o.lead_s, "time",
              "time left after a notice without a deadline (default for GCP: 30s)", 0.001, 86400),
    { SPOT_OPT_FLAG, 'q', "quiet", &is_quiet, NULL, "no warnings", 0, 0 },
    { .type = SPOT_OPT_END },
};

static void told(void *user, const struct spot_notice *notice)
{
    (void)user;
    n_told += notice->state != SPOT_NOTICE_GONE;
    if (!write_err.code && spot_notice_write(notice, stdout, &write_err))
        spot_notice_stop(watch);
}

static void on_signal(int number)
{
    if (number == SIGTERM)
        spot_notice_terminate(watch);
    else
        spot_notice_stop(watch);
}

static void catch_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN); /* a reader that leaves must cause a write error */
    sigaddset(&action.sa_mask, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &action.sa_mask, NULL); /* a parent may have blocked it */
}

static int run_notice(struct spot_err *err)
{
    int rc;

    notice_split(&o);
    o.noticed = told;
    o.warn = is_quiet ? NULL : spot_tool_warn;
    spot_tool_never_wait();
    watch = spot_notice_new(&o, err);
    if (!watch)
        return -1;
    catch_signals();
    rc = spot_notice_run(watch, err);
    if (write_err.code) {
        *err = write_err;
        rc = -1;
    }
    if (!rc && o.is_once && !n_told) {
        err->code = SPOT_EINFEASIBLE; /* the exit status reports it */
        err->msg[0] = '\0';
        rc = -1;
    }
    spot_notice_free(watch);
    return rc;
}

const struct spot_cli run_notice_command = {
    .name = "spot-run notice",
    .brief = "report when this machine will be taken away",
    .synopsis = "[--from SOURCE] [--exec COMMAND] [options]",
    .summary = "Report when this machine will be taken away: a JSON line for each notice.",
    .examples = "  spot-run notice --exec 'systemctl stop trainer'\n"
                "  spot-run notice --once --from aws || echo no notice\n",
    .option = option,
    .run_alone = run_notice,
};
