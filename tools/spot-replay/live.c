/* SPDX-License-Identifier: MIT */
/* spot-replay live - starts and stops processes as a trace says. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/clock.h"
#include "common/outlet.h"
#include "model/event.h"
#include "replay.h"
#include "sim/live_play.h"
#include "sim/processes.h"
#include "trace/trace.h"

enum { ROOM = 1 << 23 }; /* bytes of events queued for a slow reader */

static struct {
    const char *trace, *events;
    double from_s, to_s, speedup, grace_s, no_notice;
    uint64_t scale, max;
    struct spot_tool_common common;
} opt = { .from_s = -1,
          .to_s = -1,
          .speedup = 60,
          .grace_s = 2,
          .scale = 1,
          .max = 64,
          .common = SPOT_TOOL_COMMON_DEFAULT };

static int log_begin(const struct spot_live *l, struct spot_err *err)
{
    struct spot_prov prov = { .tool = "spot-replay live", .seed = opt.common.seed };
    struct spot_jw jw;

    spot_prov_add(&prov, opt.trace, l->trace->xxh3);
    spot_event_begin(&jw, l->supervisor.log, &prov, "begin", l->supervisor.from_s);
    spot_prov_release(&prov);
    spot_jw_real(&jw, "real_s", 0);
    spot_jw_real(&jw, "speedup", opt.speedup);
    spot_jw_real(&jw, "grace_s", opt.grace_s);
    spot_jw_real(&jw, "no_notice", opt.no_notice);
    spot_jw_int(&jw, "scale", (int64_t)opt.scale);
    spot_jw_int(&jw, "max", (int64_t)opt.max);
    return spot_event_end(&jw, err);
}

static int log_end(const struct spot_live *l, struct spot_err *err)
{
    const struct spot_supervisor *supervisor = &l->supervisor;
    const double now_s = spot_supervisor_now_s(supervisor);
    struct spot_jw jw;

    spot_event_begin(&jw, supervisor->log, NULL, "end", spot_supervisor_trace_s(supervisor, now_s));
    spot_event_seconds(&jw, "real_s", now_s);
    spot_jw_str(&jw, "why", l->signal_got ? "signal" : "end");
    spot_jw_int(&jw, "starts", supervisor->total.start);
    spot_jw_int(&jw, "notices", supervisor->total.notice);
    spot_jw_int(&jw, "kills", supervisor->total.kill);
    spot_jw_int(&jw, "exits", supervisor->total.exit);
    return spot_event_end(&jw, err);
}

static int load(struct spot_trace *t, struct spot_err *err)
{
    if (spot_trace_load_path(t, opt.trace, err))
        return -1;
    if (spot_trace_cut(t, opt.from_s < 0 ? t->start_s : opt.from_s,
                       opt.to_s < 0 ? t->end_s : opt.to_s, err)) {
        spot_trace_release(t);
        return -1;
    }
    spot_trace_scale(t, (int32_t)opt.scale);
    return 0;
}

static int play(struct spot_live *l, struct spot_processes *processes, char **command,
                struct spot_err *err)
{
    int rc;

    l->supervisor.host = &spot_processes_host;
    l->supervisor.self = processes;
    if (spot_processes_init(processes, command, l->supervisor.n_running_max, err))
        return -1;
    l->supervisor.origin_s = spot_clock_s();
    rc = log_begin(l, err);
    if (!rc)
        rc = spot_live_play(l, err);
    spot_processes_release(processes);
    return rc ? rc : log_end(l, err);
}

/* A pipe gets an outlet, since its reader may be slow and machines must come and go on time. */
static int open_log(struct spot_live *l, struct spot_outlet **outlet, struct spot_err *err)
{
    FILE *log = stdout, *stream;

    if (opt.events && strcmp(opt.events, "-") != 0 && !(log = fopen(opt.events, "we")))
        return spot_err_sys(err, "cannot write '%s'", opt.events);
    l->supervisor.log = log;
    if (!spot_outlet_is_needed(fileno(log)))
        return 0;
    *outlet = spot_outlet_new(fileno(log), ROOM, false, err);
    stream = *outlet ? spot_outlet_stream(*outlet, err) : NULL;
    if (!stream)
        return -1;
    if (log != stdout)
        fclose(log);
    l->supervisor.log = stream;
    return 0;
}

static int close_log(const struct spot_live *l, struct spot_outlet *outlet, int rc,
                     struct spot_err *err)
{
    const bool was_lost = outlet && spot_outlet_lost(outlet);

    if (l->supervisor.log && l->supervisor.log != stdout && fclose(l->supervisor.log) && !rc)
        rc = spot_err_sys(err, "cannot write '%s'", opt.events);
    if ((spot_outlet_free(outlet, l->signal_got ? 1 : 60) || was_lost) && !rc)
        rc = spot_err_set(err, SPOT_ESYS,
                          "the reader of the events was blocked: some events are missing");
    return rc;
}

static int run(char **command, int *signal_got, struct spot_err *err)
{
    struct spot_live l = { .supervisor = { .grace_s = opt.grace_s,
                                           .speedup = opt.speedup,
                                           /* and those that leave */
                                           .n_running_max = 2 * (size_t)opt.max },
                           .max = opt.max,
                           .no_notice = opt.no_notice,
                           .warn = spot_tool_warn };
    struct spot_processes processes;
    struct spot_outlet *outlet = NULL;
    struct spot_trace trace;
    int rc;

    *signal_got = 0;
    if (load(&trace, err))
        return -1;
    spot_live_init(&l, &trace, opt.common.seed);
    rc = open_log(&l, &outlet, err) ? -1 : play(&l, &processes, command, err);
    rc = close_log(&l, outlet, rc, err);
    *signal_got = l.signal_got;
    spot_live_release(&l);
    spot_trace_release(&trace);
    return rc;
}

/* End by the signal that interrupted the tool, now that nothing is left behind. */
static void pass_on(int signal_got)
{
    sigset_t set;

    signal(signal_got, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, signal_got);
    raise(signal_got);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int replay_live(char **operand, size_t n, struct spot_err *err)
{
    int rc, signal_got;

    if (!n)
        return spot_err_set(err, SPOT_EUSAGE, "COMMAND is missing");
    spot_tool_never_wait();
    rc = run(operand, &signal_got, err);
    if (rc && err->code == SPOT_ESYS && err->sys_errno == EPIPE)
        pass_on(SIGPIPE);
    if (!rc && signal_got && signal_got != SIGTERM)
        pass_on(signal_got);
    return rc;
}

const struct spot_cli replay_live_command = {
    .name = "spot-replay live",
    .brief = "run a trace for real: start and kill copies of a command",
    .reads = (const char *const[]){ "trace", NULL },
    .writes = (const char *const[]){ "events", NULL },
    .required = (const struct spot_opt_required[]){ { "trace", NULL }, { NULL, NULL } },
    .synopsis = "[options] --trace trace.csv [--] COMMAND [ARG...]",
    .summary = "Keep as many copies of COMMAND running as the trace offers machines, and take\n"
               "them away as it does: SIGTERM, then SIGKILL. Events go to stdout as JSON Lines.\n"
               "{node} and {zone} in an ARG are replaced; SPOT_NODE and SPOT_ZONE are set.",
    .runs_command = true,
    .examples =
        "  spot-replay live --trace examples/traces/calm.csv --to 10m --scale 8 -- sleep 1h\n",
    .option =
        (const struct spot_opt[]){
            { SPOT_OPT_GROUP, .help = "the trace" },
            SPOT_ROW_TRACE(&opt.trace),
            SPOT_ROW_FROM(&opt.from_s),
            SPOT_ROW_TO(&opt.to_s),
            SPOT_ROW_SCALE(&opt.scale),
            SPOT_U64("max", &opt.max, "n", "most copies at once (default: 64)", 1, 4096),
            SPOT_ROW_SPEEDUP(&opt.speedup),
            { SPOT_OPT_GROUP, .help = "leaving" },
            SPOT_ROW_GRACE(&opt.grace_s),
            SPOT_REAL("no-notice", &opt.no_notice, "share",
                      "share of departures without notice: SIGKILL at once (default: 0)", 0, 1),
            { SPOT_OPT_GROUP, .help = "common" },
            SPOT_ROW_EVENTS(&opt.events),
            SPOT_U64("seed", &opt.common.seed, "n",
                     "seed that draws which copy leaves (default: 1)", 0, 0),
            { SPOT_OPT_FLAG, 'q', "quiet", &opt.common.quiet, NULL, "no warnings", 0, 0 },
            { SPOT_OPT_FLAG, 'v', "verbose", &opt.common.verbose, NULL, "say more on stderr", 0,
              0 },
            { SPOT_OPT_END },
        },
    .common = &opt.common,
    .run = replay_live,
};
