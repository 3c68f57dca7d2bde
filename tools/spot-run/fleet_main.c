/* SPDX-License-Identifier: MIT */
/* spot-run fleet: keeps a fleet as planned, through commands of the user. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/clock.h"
#include "common/dir_lock.h"
#include "common/random.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"
#include "fleet/tick.h"
#include "fleet_parts.h"
#include "run.h"

enum { STATE_MAX = 64 << 20, IDS_MAX = 32 << 20, LOOK_MS = 100 };

static const char state_name[] = "fleet.csv";

static struct options {
    struct spot_tool_common common;
    const char *launch, *terminate, *drain, *list, *state, *name, *metrics;
    struct fleet_plan_options plan;
    uint64_t n;
    double max_usd_per_h, every_s, limit_s, grace_s;
    bool is_sure, is_once;
} o = { .name = "fleet",
        .max_usd_per_h = INFINITY,
        .every_s = 30,
        .limit_s = 300,
        .n = 1,
        .plan = { .availability = 0.9995, .cold_s = -1 } };

/* State of the running command. */
struct session {
    struct spot_fleet *fleet;
    struct fleet_runner *runner;
    struct fleet_plan *plan;
    struct fleet_watch *page; /* NULL: not wanted */
    double plan_s;            /* time of the newest plan */
    struct fleet_log *log;    /* NULL: a dry run */
    struct fleet_list list;
    int dir_fd;
    bool has_plan;
};

/* --name without the identity */
static char name[SPOT_FLEET_NAME_MAX + 1];

static volatile sig_atomic_t signal_got;

static void on_signal(int signal)
{
    signal_got = signal;
}

/* --- inputs and outputs of a turn --- */

static double now_s(void *user)
{
    (void)user;
    return spot_clock_s();
}

static int save(void *user, const char *text, size_t n, struct spot_err *err)
{
    const struct session *s = user;

    if (spot_safe_replace(s->dir_fd, state_name, text, n, true))
        return spot_err_sys(err, "cannot write %s/%s", o.state, state_name);
    return 0;
}

static int list(void *user, const struct spot_fleet_listed **listed, size_t *n,
                struct spot_err *err)
{
    struct session *s = user;
    struct fleet_command c = { .script = o.list, .out_max = FLEET_OUTPUT_MAX };
    int rc;

    fleet_command_set(&c, "SPOT_FLEET", name);
    rc = fleet_run_one(s->runner, &c, "--list", err);
    if (!rc)
        rc = fleet_read_list(&s->list, &c.out, err);
    fleet_command_release(&c);
    *listed = s->list.listed;
    *n = s->list.n;
    return rc;
}

/* Update the target and the prices; if a plan or a price is not available, the old one is kept. */
static int plan(void *user, struct spot_fleet *fleet, struct spot_err *err)
{
    struct session *s = user;
    struct spot_err why = { 0 };
    const char *stays = "the last plan stays";
    int rc = fleet_plan_make(s->plan, s->runner, fleet, &why);

    if (!rc)
        s->plan_s = spot_clock_s();
    if (!rc && o.plan.catalogue) {
        stays = "prices that were not read anew stay";
        rc = fleet_read_prices(fleet, o.plan.catalogue, &why);
    }
    if (rc && !s->has_plan) {
        *err = why;
        return -1;
    }
    if (rc)
        spot_tool_warn("%s in force: %s", stays, why.msg);
    s->has_plan = true;
    return 0;
}

static void set_up(const struct spot_fleet_action *a, struct fleet_command *c)
{
    char count[24];

    snprintf(count, sizeof(count), "%lld", (long long)a->count);
    *c = (struct fleet_command){ .out_max = IDS_MAX };
    c->script = a->verb == SPOT_FLEET_LAUNCHES ? o.launch
                : a->verb == SPOT_FLEET_DRAINS ? o.drain
                                               : o.terminate;
    fleet_command_set(c, "SPOT_TOKEN", a->token);
    fleet_command_set(c, "SPOT_ZONE", a->zone);
    fleet_command_set(c, "SPOT_TYPE", a->type);
    fleet_command_set(c, "SPOT_MARKET", fleet_market_name(a->is_on_demand));
    if (a->id)
        fleet_command_set(c, "SPOT_ID", a->id);
    else
        fleet_command_set(c, "SPOT_N", count);
}

static void take(const struct session *s, const struct spot_fleet_action *a,
                 const struct fleet_command *c, struct spot_fleet_outcome *result)
{
    const char *const what = fleet_verb_name(a->verb);

    result->is_done = c->is_ok;
    if (!c->is_ok) {
        if (fleet_log_note(s->log, "command_failed", a->id ? a->id : a->token, c->why))
            spot_tool_warn("--%s for %s: %s", what, a->id ? a->id : a->token, c->why);
    } else if (!a->id && fleet_read_ids(&c->out, &result->id, &result->n_id)) {
        result->is_done = false;
        spot_tool_warn("--%s for %s: expected an id on each line of its output", what, a->token);
    }
}

static int run_all(void *user, const struct spot_fleet_action *action, size_t n,
                   struct spot_fleet_outcome *result, struct spot_err *err)
{
    const struct session *s = user;
    struct fleet_command *c = spot_xcalloc(n, sizeof(*c));

    (void)err;
    for (size_t i = 0; i < n; i++) {
        const struct spot_fleet_action *a = &action[i];

        set_up(a, &c[i]);
        fleet_log_action(s->log, a);
        fleet_watch_action(s->page, spot_fleet_elapsed_s(s->fleet), a);
        if (a->id)
            spot_tool_note("%s %s: %s", fleet_verb_name(a->verb), a->id, a->why);
        else
            spot_tool_note("launch %lld %s in %s, %s: %s", (long long)a->count, a->type,
                           *a->zone ? a->zone : "any zone", fleet_market_name(a->is_on_demand),
                           a->why);
    }
    fleet_run(s->runner, c, n);
    for (size_t i = 0; i < n; i++) {
        take(s, &action[i], &c[i], &result[i]);
        fleet_command_release(&c[i]);
    }
    free(c);
    return 0;
}

static void note(void *user, const char *event, const char *machine, const char *why)
{
    const struct session *s = user;
    static const char *const routine[] = { "launched", "appeared", NULL };
    bool is_routine = false;

    if (s->log && !fleet_log_note(s->log, event, machine, why))
        return;
    fleet_watch_note(s->page, spot_fleet_elapsed_s(s->fleet), event, machine, why);
    for (int i = 0; routine[i]; i++)
        is_routine |= !strcmp(event, routine[i]);
    (is_routine ? spot_tool_info : spot_tool_note)("%s%s%s: %s", event, machine ? " " : "",
                                                   machine ? machine : "", why);
}

/* --- a turn --- */

static int turn(struct session *s, struct spot_err *err)
{
    static const struct spot_fleet_world world = { now_s, save, list, plan, run_all, NULL };
    struct spot_fleet_world here = world;

    here.user = s;
    fleet_log_turn(s->log, spot_fleet_elapsed_s(s->fleet));
    if (spot_fleet_tick(s->fleet, &here, NULL, err))
        return -1;
    fleet_log_counts(s->log, s->fleet);
    return 0;
}

static void wait_until(const struct session *s, double until_s)
{
    double left_s;

    while (!signal_got && (left_s = until_s - spot_clock_s()) > 0) {
        (void)poll(NULL, 0, (int)ceil(fmin(1e3 * left_s, LOOK_MS)));
        fleet_watch_rest(s->page);
    }
}

static void show(const struct session *s, double begin_s, const char *failure)
{
    const struct fleet_watch_turn turn = {
        .fleet = s->fleet,
        .name = name,
        .max_usd_per_h = o.max_usd_per_h,
        .wanted = o.plan.offers && !o.plan.load ? (int64_t)o.n : -1,
        .dir_fd = s->dir_fd,
        .took_s = spot_clock_s() - begin_s,
        .plan_s = s->plan_s,
        .failure = failure,
    };

    fleet_watch_show(s->page, &turn);
}

static int turns(struct session *s, struct spot_err *err)
{
    double next_s = spot_clock_s();

    while (!signal_got) {
        const double begin_s = spot_clock_s();
        const int rc = turn(s, err);
        const char *failure;

        show(s, begin_s, rc ? err->msg : NULL);
        if (rc) {
            if (o.is_once)
                return -1;
            spot_tool_warn("%s", err->msg);
            *err = (struct spot_err){ 0 };
        }
        if (o.is_once)
            break;
        if ((failure = fleet_log_failure(s->log)))
            spot_tool_warn("the log has a gap from here on: %s", failure);
        next_s = spot_fleet_next_turn(next_s, o.every_s, spot_clock_s());
        wait_until(s, next_s);
    }
    return 0;
}

/* --- output without --yes --- */

static double price_of(const struct spot_fleet *fleet, const struct spot_fleet_action *a)
{
    struct spot_fleet_market_view v;

    for (size_t i = 0; i < spot_fleet_n_market(fleet); i++) {
        spot_fleet_view(fleet, i, &v);
        if (v.is_on_demand == a->is_on_demand && !strcmp(v.zone, a->zone) &&
            !strcmp(v.type, a->type))
            return v.usd_per_h;
    }
    return NAN;
}

static int print_actions(const struct spot_fleet *fleet, const struct spot_fleet_action *action,
                         size_t n, struct spot_err *err)
{
    enum spot_format format;
    struct spot_table table;

    if (spot_format_parse(o.common.format, &format, err))
        return -1;
    spot_table_init(&table, "action,count#,zone,instance_type,market,node,usd_per_h#,why");
    for (size_t i = 0; i < n; i++) {
        const struct spot_fleet_action *a = &action[i];
        const double usd = price_of(fleet, a);

        spot_table_add(&table, "%s %lld %s %s %s %s", fleet_verb_name(a->verb),
                       (long long)(a->id ? 1 : a->count), a->zone, a->type,
                       fleet_market_name(a->is_on_demand), a->id ? a->id : "");
        if (isnan(usd))
            spot_table_add(&table, "%s", "");
        else
            spot_table_add(&table, "%g", (a->id ? 1 : (double)a->count) * usd);
        spot_table_add(&table, "%s", a->why);
    }
    spot_table_print(&table, stdout, spot_format_settle(format, NULL, SPOT_FORMAT_JSONL));
    spot_table_release(&table);
    return fflush(stdout) ? spot_err_sys(err, "cannot write the table") : 0;
}

static int dry_turn(struct session *s, struct spot_err *err)
{
    const struct spot_fleet_listed *listed;
    struct spot_fleet_action *action = NULL;
    struct spot_fleet_total total;
    size_t n, n_foreign;
    int rc;

    if (list(s, &listed, &n, err) ||
        spot_fleet_observe(s->fleet, spot_clock_s(), listed, n, &n_foreign, err) ||
        plan(s, s->fleet, err))
        return -1;
    n = spot_fleet_decide(s->fleet, spot_clock_s(), &action);
    total = spot_fleet_total(s->fleet);
    rc = print_actions(s->fleet, action, n, err);
    spot_tool_note(
        "%lld of %lld wanted machines run; with this %g usd/h, on demand %g; %zu machines "
        "of others; nothing was done, --yes does it",
        (long long)total.running, (long long)total.target, total.usd_per_h,
        total.on_demand_usd_per_h, n_foreign);
    free(action);
    return rc;
}

/* --- begin and end --- */

/* Read the state saved by the last run; without one the fleet is new. */
static int read_state(struct session *s, struct spot_err *err)
{
    const int fd = spot_safe_open(s->dir_fd, state_name, O_RDONLY | O_CLOEXEC, 0);
    char source[256];
    struct stat st;
    char *text;
    ssize_t n;
    int rc;

    snprintf(source, sizeof(source), "%s/%s", o.state, state_name);
    if (fd < 0)
        return errno == ENOENT ? 0 : spot_err_sys(err, "cannot read %s", source);
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > STATE_MAX) {
        close(fd);
        return spot_err_set(err, SPOT_EDATA, "%s: not a file, or longer than %d bytes", source,
                            STATE_MAX);
    }
    text = spot_xcalloc((size_t)st.st_size + 1, 1);
    n = pread(fd, text, (size_t)st.st_size, 0);
    close(fd);
    rc = n < 0 ? spot_err_sys(err, "cannot read %s", source)
               : spot_fleet_read_state(s->fleet, text, (size_t)n, source, err);
    free(text);
    return rc;
}

static int open_fleet(struct session *s, struct spot_err *err)
{
    struct spot_fleet_setting set = { .name = name,
                                      .max_usd_per_h = o.max_usd_per_h,
                                      .has_drain = o.drain != NULL,
                                      .grace_s = o.grace_s,
                                      .settle_s = 60,
                                      .start_s = 1800,
                                      .pause_s = 30,
                                      .longest_s = 900,
                                      .note = note,
                                      .user = s };
    struct timespec wall;
    uint64_t id;

    clock_gettime(CLOCK_REALTIME, &wall);
    set.wall_s = (double)wall.tv_sec + (double)wall.tv_nsec / 1e9;
    if (!spot_fleet_read_name(o.name, name, &set.has_id, &id))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--name must be of up to %d letters, digits and _, or that, - and %d "
                            "hexadecimal digits, got '%s'",
                            SPOT_FLEET_NAME_MAX, SPOT_FLEET_ID_MAX, o.name);
    if (!set.has_id && spot_random_bytes(&id, sizeof(id), err))
        return -1;
    s->list.fleet = s->fleet = spot_fleet_new(&set, id, spot_clock_s());
    s->runner = fleet_runner_new(o.limit_s, err);
    if (!s->runner)
        return -1;
    if (!o.is_sure) {
        s->dir_fd = open(o.state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (s->dir_fd < 0) /* without a directory the fleet is new */
            return errno == ENOENT ? 0 : spot_err_sys(err, "cannot open %s", o.state);
        return read_state(s, err);
    }
    if (spot_dir_make(o.state, err) || (s->dir_fd = spot_dir_lock(o.state, err)) < 0 ||
        read_state(s, err))
        return -1;
    spot_tool_warn_shared(o.state);
    s->log = fleet_log_new(s->dir_fd, err);
    if (!s->log)
        return -1;
    s->page = o.metrics ? fleet_watch_new(o.metrics, err) : NULL;
    if (s->page)
        spot_tool_note("page and metrics at %s", fleet_watch_url(s->page));
    return o.metrics && !s->page ? -1 : 0;
}

/* Without --yes nothing is stored. */
static struct fleet_plan *open_plan(const struct session *s)
{
    struct fleet_plan_options plan = o.plan;

    plan.n = (double)o.n;
    plan.tick_s = o.every_s;
    plan.cold_s = plan.cold_s < 0 ? o.every_s : plan.cold_s;
    plan.dir = o.is_sure ? o.state : NULL;
    plan.dir_fd = s->dir_fd;
    return fleet_plan_new(&plan);
}

/* The first signal ends the fleet after its current commands, a second one at once. */
static void hear_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

static int run(struct spot_err *err)
{
    struct session s = { .dir_fd = -1 };
    int rc;

    if (!o.plan.command && !o.plan.offers)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--plan-command or --offers is missing, the source of the plan");
    rc = open_fleet(&s, err);
    if (!rc)
        s.plan = open_plan(&s);
    if (!rc && o.is_sure)
        hear_signals();
    if (!rc)
        rc = o.is_sure ? turns(&s, err) : dry_turn(&s, err);
    if (fleet_log_free(s.log, rc ? NULL : err))
        rc = -1;
    fleet_watch_free(s.page);
    fleet_plan_free(s.plan);
    fleet_runner_free(s.runner);
    spot_fleet_free(s.fleet);
    fleet_list_release(&s.list);
    if (s.dir_fd >= 0)
        close(s.dir_fd);
    return rc;
}

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "plan" },
    SPOT_TEXT("plan-command", &o.plan.command, "cmd", "prints the plan: spot.plan/1 of kind fleet"),
    SPOT_TEXT("offers", &o.plan.offers, "cmd",
              "or, to plan by itself, prints the trace of what was on offer so far"),
    SPOT_TEXT("probes", &o.plan.probes, "cmd",
              "prints what was asked and granted so far, and scores"),
    SPOT_ROW_CATALOGUE(&o.plan.catalogue),
    SPOT_ROW_DEMAND(&o.plan.load),
    SPOT_ROW_JOIN(&o.plan.join),
    SPOT_ROW_KEY_FILE(&o.plan.key_file),
    SPOT_U64("n", &o.n, "n", "replicas wanted (default: 1)", 1, 256),
    SPOT_ROW_AVAILABILITY(&o.plan.availability),
    SPOT_ROW_COLD_START(&o.plan.cold_s),
    { SPOT_OPT_GROUP, .help = "machines" },
    SPOT_TEXT("launch", &o.launch, "cmd", "launches SPOT_N machines, once a SPOT_TOKEN (required)"),
    SPOT_TEXT("terminate", &o.terminate, "cmd", "ends machine SPOT_ID (required)"),
    SPOT_TEXT("list", &o.list, "cmd", "lists machines as CSV (required)"),
    SPOT_TEXT("drain", &o.drain, "cmd", "tells machine SPOT_ID to leave, --grace before its end"),
    SPOT_ROW_GRACE(&o.grace_s),
    SPOT_ROW_STATE(&o.state),
    SPOT_ROW_METRICS(&o.metrics),
    SPOT_TEXT("name", &o.name, "id",
              "name of the fleet, or NAME-ID of a lost one (default: fleet)"),
    SPOT_REAL("max-usd-per-h", &o.max_usd_per_h, "usd",
              "never hold or ask for machines that cost more", 0, 1e9),
    SPOT_SECS("every", &o.every_s, "time", "time from turn to turn (default: 30s)", 0.1, 86400),
    SPOT_SECS("limit", &o.limit_s, "time", "end a command that runs for longer (default: 5m)", 0.1,
              86400),
    SPOT_FLAG("once", &o.is_once, "one turn, no more"),
    SPOT_FLAG("yes", &o.is_sure, "do it; without, print what one turn would do"),
    { SPOT_OPT_GROUP, .help = "common" },
    SPOT_TEXT("format", &o.common.format, "name", "table on a terminal, else jsonl"),
    SPOT_TOOL_OPTIONS_VERBOSITY(&o.common),
    { .type = SPOT_OPT_END },
};

static const struct spot_opt_required required[] = {
    { "launch", "how machines come" },
    { "terminate", "how they go" },
    { "list", "which there are" },
    { "state", "the directory of the fleet" },
    { NULL, NULL },
};

static const struct spot_opt_need need[] = {
    { "once|metrics", "yes" },
    { "metrics", "!once" },
    { "format", "!yes" },
    { "grace", "drain" },
    { "max-usd-per-h", "catalogue" },
    { "offers", "!plan-command" },
    { "offers", "catalogue" },
    { "load|n|availability|cold-start|probes", "offers" },
    { "n|availability", "!load" },
    { "join", "load|plan-command" },
    { "key-file", "join" },
    { NULL, NULL },
};

const struct spot_cli run_fleet_command = {
    .name = "spot-run fleet",
    .brief = "hold a fleet of machines at what a plan says",
    .synopsis = "--plan-command CMD|--offers CMD --launch CMD --terminate CMD --list CMD --state "
                "DIR [options]",
    .summary = "Keep the machines of a plan: launch, replace, drain and terminate them.",
    .examples =
        "  spot-run fleet --state fleet --plan-command ./plan.sh --list './cloud list' \\\n"
        "    --launch './cloud launch' --terminate './cloud terminate' # what it would do\n",
    .option = option,
    .required = required,
    .need = need,
    .common = &o.common,
    .run_alone = run,
};
