/* SPDX-License-Identifier: MIT */
/* spot-replay live - play the cloud for real.
 *
 * One thread, one loop: apply what the trace says by now, start and kill what is
 * due, then sleep in sigtimedwait until the next of those moments or a signal.
 * Who leaves depends on the trace and the seed alone, never on timing.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "cli/tool.h"
#include "common/clock.h"
#include "common/json_writer.h"
#include "common/prov.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "instances.h"
#include "replay.h"
#include "trace/trace.h"

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

static const struct spot_cli cli = {
    .name = "spot-replay live",
    .reads = (const char *const[]){ "trace", NULL },
    .writes = (const char *const[]){ "events", NULL },
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
            { SPOT_OPT_STRING, 't', "trace", &opt.trace, "file", "availability trace, - for stdin",
              0, 0 },
            { SPOT_OPT_SECS, 0, "from", &opt.from_s, "time",
              "start at this time_s (default its start)", 0, SPOT_TRACE_TIME_MAX_S },
            { SPOT_OPT_SECS, 0, "to", &opt.to_s, "time", "end at this time_s (default its end)", 0,
              SPOT_TRACE_TIME_MAX_S },
            { SPOT_OPT_U64, 0, "scale", &opt.scale, "k",
              "machines per copy: floor(available/k) (default 1)", 1, SPOT_TRACE_COUNT_MAX },
            { SPOT_OPT_U64, 0, "max", &opt.max, "n", "never more copies than this (default 64)", 1,
              4096 },
            { SPOT_OPT_REAL, 0, "speedup", &opt.speedup, "x",
              "trace seconds per real second (default 60)", 1e-6, 1e9 },
            { SPOT_OPT_GROUP, .help = "leaving" },
            { SPOT_OPT_SECS, 0, "grace", &opt.grace_s, "time",
              "real time from SIGTERM to SIGKILL (default 2s)", 0, 86400 },
            { SPOT_OPT_REAL, 0, "no-notice", &opt.no_notice, "share",
              "share of the leaving that get SIGKILL at once (default 0)", 0, 1 },
            { SPOT_OPT_GROUP, .help = "common" },
            { SPOT_OPT_STRING, 0, "events", &opt.events, "file",
              "log events here, line by line (default stdout)", 0, 0 },
            { SPOT_OPT_U64, 0, "seed", &opt.common.seed, "n", "seed of who leaves (default 1)", 0,
              0 },
            { SPOT_OPT_FLAG, 'q', "quiet", &opt.common.quiet, NULL, "no warnings", 0, 0 },
            { SPOT_OPT_FLAG, 'v', "verbose", &opt.common.verbose, NULL, "say more on stderr", 0,
              0 },
            { SPOT_OPT_END },
        },
};

struct live {
    struct spot_trace trace;
    struct crew crew;
    struct spot_rng rng;
    size_t *next;     /* [n_series] next row, or next event where nodes have names */
    size_t *n_wanted; /* [n_series] copies that the trace offers; 0 where nodes have names */
    uint64_t n_named; /* machines named so far */
    sigset_t wait_for;
    int signal_got; /* the first signal to stop us, 0 if none */
    bool is_capped;
};

/* Nodes of an event trace keep their identity unless several make one copy. */
static bool is_by_name(const struct spot_trace_series *s)
{
    return s->event != NULL;
}

static size_t n_members(const struct live *l, size_t series)
{
    size_t n = 0;

    for (size_t i = 0; i < l->crew.n; i++)
        n += !l->crew.member[i].is_leaving &&
             (series == SIZE_MAX || l->crew.member[i].series == series);
    return n;
}

/* Take on one machine, `name` NULL for a new name; false where --max forbids it. */
static bool hire(struct live *l, size_t k, const char *name, double time_s)
{
    const struct spot_trace_series *s = &l->trace.series[k];
    char fresh[32];

    if (n_members(l, SIZE_MAX) >= opt.max) {
        if (!l->is_capped)
            spot_tool_warn("at %.15g s the trace offers more than --max %llu copies", time_s,
                           (unsigned long long)opt.max);
        l->is_capped = true;
        return false;
    }
    if (!name)
        snprintf(fresh, sizeof(fresh), "node%llu", (unsigned long long)++l->n_named);
    crew_add(&l->crew, name ? name : fresh, k, s->zone, s->instance_type, time_s);
    return true;
}

/* The i-th member of a series that is not leaving. */
static size_t find_member(const struct live *l, size_t series, size_t i)
{
    for (size_t m = 0; m < l->crew.n; m++)
        if (!l->crew.member[m].is_leaving && l->crew.member[m].series == series && !i--)
            return m;
    assert(!"fewer members than counted");
    return 0;
}

static int dismiss(struct live *l, size_t member, double time_s, struct spot_err *err)
{
    const bool has_notice = spot_rng_unit(&l->rng) >= opt.no_notice;

    return crew_leave(&l->crew, member, time_s, has_notice, "trace", err);
}

/* Count form: draw who leaves, then fill up every series as far as --max allows. */
static int apply_row(struct live *l, size_t k, double time_s, struct spot_err *err)
{
    for (size_t n = n_members(l, k); n > l->n_wanted[k]; n--)
        if (dismiss(l, find_member(l, k, (size_t)spot_rng_below(&l->rng, n)), time_s, err))
            return -1;
    for (size_t i = 0; i < l->trace.n_series; i++)
        for (size_t n = n_members(l, i); n < l->n_wanted[i]; n++)
            if (!hire(l, i, NULL, time_s))
                return 0;
    return 0;
}

static int apply_event(struct live *l, size_t k, const struct spot_trace_event *e,
                       struct spot_err *err)
{
    const char *name = l->trace.node_name[e->node];

    if (e->kind == SPOT_TRACE_ADD) {
        hire(l, k, name, e->time_s);
        return 0;
    }
    for (size_t i = 0; i < l->crew.n; i++) {
        const struct crew_member *m = &l->crew.member[i];

        if (m->is_leaving || m->series != k || strcmp(m->name, name) != 0)
            continue;
        if (e->kind == SPOT_TRACE_NOTICE)
            return crew_leave(&l->crew, i, e->time_s, true, "trace", err);
        return dismiss(l, i, e->time_s, err);
    }
    return 0; /* beyond --max, or it left at its notice */
}

/* Time of the next change of series k, infinity at its end. */
static double next_change_s(const struct live *l, size_t k)
{
    const struct spot_trace_series *s = &l->trace.series[k];

    if (is_by_name(s))
        return l->next[k] < s->n_event ? s->event[l->next[k]].time_s : INFINITY;
    return l->next[k] < s->n ? s->time_s[l->next[k]] : INFINITY;
}

static double first_change_s(const struct live *l, size_t *series)
{
    double first_s = INFINITY;

    for (size_t k = 0; k < l->trace.n_series; k++)
        if (next_change_s(l, k) < first_s) {
            first_s = next_change_s(l, k);
            *series = k;
        }
    return first_s;
}

static int apply_changes(struct live *l, double until_s, struct spot_err *err)
{
    size_t k = 0;
    double time_s;

    while ((time_s = first_change_s(l, &k)) <= until_s) {
        const struct spot_trace_series *s = &l->trace.series[k];
        const size_t i = l->next[k]++;

        if (!is_by_name(s))
            l->n_wanted[k] = (size_t)s->available[i];
        if (is_by_name(s) ? apply_event(l, k, &s->event[i], err) : apply_row(l, k, time_s, err))
            return -1;
        /* Even when we are late, everybody the trace wanted for a while is started:
         * the log must not depend on how fast this machine is. */
        if (first_change_s(l, &k) > time_s && crew_start_due(&l->crew, err))
            return -1;
    }
    return 0;
}

/* Everybody gets the notice. */
static int dismiss_all(struct live *l, const char *why, struct spot_err *err)
{
    const double time_s = crew_trace_s(&l->crew, crew_now_s(&l->crew));

    for (size_t i = l->crew.n; i-- > 0;)
        if (!l->crew.member[i].is_leaving && crew_leave(&l->crew, i, time_s, true, why, err))
            return -1;
    return 0;
}

/* Sleep until the real time next_s or a signal; returns the signal, 0 if none. */
static int wait_until(const struct live *l, double next_s)
{
    const double left_s = fmin(fmax(next_s - crew_now_s(&l->crew), 0), 3600);
    const struct timespec limit = { .tv_sec = (time_t)left_s,
                                    .tv_nsec = (long)((left_s - floor(left_s)) * 1e9) };
    const int got = sigtimedwait(&l->wait_for, NULL, &limit);

    return got > 0 ? got : 0;
}

static int play(struct live *l, struct spot_err *err)
{
    struct crew *crew = &l->crew;
    bool is_over = false;
    size_t series;
    int got;

    do {
        const double time_s = crew_trace_s(crew, crew_now_s(crew));
        double next_s;

        if (crew_reap(crew, err))
            return -1;
        if (!is_over && apply_changes(l, fmin(time_s, l->trace.end_s), err))
            return -1;
        if (!is_over && (time_s >= l->trace.end_s || l->signal_got)) {
            is_over = true;
            if (dismiss_all(l, l->signal_got ? "signal" : "end", err))
                return -1;
        }
        if (crew_kill_due(crew, err) || crew_start_due(crew, err))
            return -1;
        if (is_over && !crew->n)
            return 0;
        next_s = crew_next_s(crew);
        if (!is_over)
            next_s =
                fmin(next_s, (fmin(first_change_s(l, &series), l->trace.end_s) - crew->from_s) /
                                 crew->speedup);
        got = wait_until(l, next_s);
        if (got && got != SIGCHLD && l->signal_got)
            return 0; /* asked twice: crew_release does not wait */
        if (got && got != SIGCHLD)
            l->signal_got = got;
    } while (true);
}

/* Signals are taken in sigtimedwait alone; those a parent made us ignore stay so. */
static void hold_signals(struct live *l)
{
    static const int stop[] = { SIGINT, SIGTERM, SIGHUP };

    sigemptyset(&l->wait_for);
    sigaddset(&l->wait_for, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    for (size_t i = 0; i < sizeof(stop) / sizeof(stop[0]); i++) {
        struct sigaction was;

        if (!sigaction(stop[i], NULL, &was) && was.sa_handler != SIG_IGN)
            sigaddset(&l->wait_for, stop[i]);
    }
    sigprocmask(SIG_BLOCK, &l->wait_for, &l->crew.child_mask);
    signal(SIGPIPE, SIG_IGN); /* a closed log must not leave copies behind */
}

static int log_begin(const struct live *l, struct spot_err *err)
{
    struct spot_prov prov = { .tool = "spot-replay live", .seed = opt.common.seed };
    struct spot_jw jw;

    spot_prov_add(&prov, opt.trace, l->trace.xxh3);
    spot_jw_init(&jw, l->crew.log, false);
    spot_jw_begin_doc(&jw, "spot.event", 1, &prov);
    spot_prov_release(&prov);
    spot_jw_str(&jw, "event", "begin");
    spot_jw_real(&jw, "time_s", l->crew.from_s);
    spot_jw_real(&jw, "real_s", 0);
    spot_jw_real(&jw, "speedup", opt.speedup);
    spot_jw_real(&jw, "grace_s", opt.grace_s);
    spot_jw_real(&jw, "no_notice", opt.no_notice);
    spot_jw_int(&jw, "scale", (int64_t)opt.scale);
    spot_jw_int(&jw, "max", (int64_t)opt.max);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

static int log_end(const struct live *l, struct spot_err *err)
{
    const struct crew *crew = &l->crew;
    const double now_s = crew_now_s(crew);
    struct spot_jw jw;

    spot_jw_init(&jw, crew->log, false);
    spot_jw_object(&jw, NULL);
    spot_jw_str(&jw, "schema", "spot.event/1");
    spot_jw_str(&jw, "event", "end");
    spot_jw_real(&jw, "time_s", rint(crew_trace_s(crew, now_s) * 1e6) / 1e6);
    spot_jw_real(&jw, "real_s", rint(now_s * 1e6) / 1e6);
    spot_jw_str(&jw, "why", l->signal_got ? "signal" : "end");
    spot_jw_int(&jw, "starts", crew->total.start);
    spot_jw_int(&jw, "notices", crew->total.notice);
    spot_jw_int(&jw, "kills", crew->total.kill);
    spot_jw_int(&jw, "exits", crew->total.exit);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

static int load(struct live *l, struct spot_err *err)
{
    struct spot_trace *t = &l->trace;

    if (spot_trace_load_path(t, opt.trace, err))
        return -1;
    if (spot_trace_cut(t, opt.from_s < 0 ? t->start_s : opt.from_s,
                       opt.to_s < 0 ? t->end_s : opt.to_s, err))
        return -1;
    spot_trace_scale(t, (int32_t)opt.scale);
    l->next = spot_xcalloc(t->n_series, sizeof(*l->next));
    l->n_wanted = spot_xcalloc(t->n_series, sizeof(*l->n_wanted));
    return 0;
}

static int run_crew(struct live *l, char **command, struct spot_err *err)
{
    struct crew *crew = &l->crew;
    siginfo_t info;
    int rc;

    crew->command = command;
    crew->grace_s = opt.grace_s;
    crew->speedup = opt.speedup;
    crew->from_s = l->trace.start_s;
    crew->n_running_max = 2 * (size_t)opt.max; /* those leaving run on for their grace */
    hold_signals(l);
    crew->has_foreign = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (guard_start(&crew->guard, crew->n_running_max, err))
        return -1;
    crew->origin_s = spot_clock_s();
    rc = log_begin(l, err);
    if (!rc)
        rc = play(l, err);
    crew_release(crew);
    return rc ? rc : log_end(l, err);
}

static int run(char **command, int *signal_got, struct spot_err *err)
{
    struct live l = { .crew.log = stdout };
    int rc = -1;

    *signal_got = 0;
    spot_rng_init(&l.rng, opt.common.seed, 0);
    if (load(&l, err))
        goto out;
    if (opt.events && strcmp(opt.events, "-") != 0) {
        l.crew.log = fopen(opt.events, "we");
        if (!l.crew.log) {
            rc = spot_err_sys(err, "cannot write '%s'", opt.events);
            goto out;
        }
    }
    rc = run_crew(&l, command, err);
    if (l.crew.log != stdout && fclose(l.crew.log) && !rc)
        rc = spot_err_sys(err, "cannot write '%s'", opt.events);
    *signal_got = l.signal_got;
out:
    free(l.next);
    free(l.n_wanted);
    spot_trace_release(&l.trace);
    return rc;
}

/* Die as a tool dies that was interrupted, now that nothing is left behind. */
static void pass_on(int signal_got)
{
    sigset_t set;

    signal(signal_got, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, signal_got);
    raise(signal_got);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int replay_live_main(int argc, char **argv)
{
    struct spot_err err = { 0 };
    int first, rc, signal_got, status;

    if (!spot_tool_parse(&cli, argc, argv, &first, &status))
        return status;
    spot_tool_talk(&opt.common);
    if (!opt.trace)
        return spot_tool_finish(spot_err_set(&err, SPOT_EUSAGE, "live needs a --trace"), &err);
    if (first == argc)
        return spot_tool_finish(spot_err_set(&err, SPOT_EUSAGE, "live needs a command to run"),
                                &err);
    rc = run(argv + first, &signal_got, &err);
    if (rc && err.code == SPOT_ESYS && err.sys_errno == EPIPE)
        pass_on(SIGPIPE);
    if (!rc && signal_got && signal_got != SIGTERM)
        pass_on(signal_got);
    return spot_tool_finish(rc, &err);
}
