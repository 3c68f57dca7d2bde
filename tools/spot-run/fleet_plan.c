/* SPDX-License-Identifier: MIT */
#include "fleet_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/safe_dir.h"
#include "common/xalloc.h"
#include "fleet/arrivals.h"
#include "model/plan_buy.h"
#include "model/status_doc.h"
#include "run.h"

enum { PLAN_MAX = 16 << 20, STATUS_MAX = 16 << 20, STEPS = 12 };
/* window of the request rate; without requests for the rest time nothing is wanted */
static const double window_s = 60, usual_rest_s = 600;

struct fleet_plan {
    struct fleet_plan_options o;
    char *path; /* PATH with our own tools first */
    struct spot_fleet_arrivals arrivals;
    bool has_plan; /* plan.json was written by this process */
};

/* The commands: offers, forecast, plan. The forecast file is kept for people who inspect the fleet.
 * Probes help, but no plan waits for them: if the command fails, that is reported and probes are
 * left out. */
#define FORECAST                                                                       \
    "if [ -n \"$SPOT_PROBES\" ]; then probes=$(sh -c \"$SPOT_PROBES\") || { "          \
    "echo 'spot-run fleet: --probes failed: planned without' >&2; probes=; }; fi; "    \
    "{ if [ \"$probes\" ]; then printf '%s\\n' \"$probes\" | "                         \
    "{ exec 3<&0; sh -c \"$SPOT_OFFERS\" </dev/null | forecast - /dev/fd/3; }; "       \
    "else sh -c \"$SPOT_OFFERS\" | forecast; fi; } | "                                 \
    "{ if [ \"$SPOT_DIR\" ]; then tee \"$SPOT_DIR/forecast.json\"; else cat; fi; } | " \
    "spot-plan fleet -q --catalogue \"$SPOT_CATALOGUE\" --forecast - --cold-start \"$SPOT_COLD\" "
#define FUNCTION                                                                 \
    "probes=; forecast() { spot-predict -q --interval \"$SPOT_TICK\" --horizon " \
    "\"$SPOT_STEPS\" \"$@\"; }; "
static const char replicas[] = FUNCTION FORECAST
    "--kind replicas --n \"$SPOT_N\" --availability \"$SPOT_AVAILABILITY\" --current "
    "\"$SPOT_CURRENT\" ${SPOT_DIR:+--state \"$SPOT_DIR/plan.state\"}";
static const char serve[] =
    FUNCTION "held=; [ -z \"$SPOT_DIR\" ] || [ ! -s \"$SPOT_DIR/plan.json\" ] || held=1; " FORECAST
             "--kind serve --load \"$SPOT_LOAD\" ${held:+--current \"$SPOT_DIR/plan.json\"} "
             "${SPOT_TIME:+--requests \"$SPOT_DIR/load.csv\" --time \"$SPOT_TIME\"}";

struct fleet_plan *fleet_plan_new(const struct fleet_plan_options *options)
{
    struct fleet_plan *p = spot_xcalloc(1, sizeof(*p));
    const char *const path = getenv("PATH");
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    size_t n_byte;
    FILE *out = spot_xmemory_open(&p->path, &n_byte);

    self[n > 0 ? n : 0] = '\0';
    if (strrchr(self, '/'))
        *strrchr(self, '/') = '\0';
    fprintf(out, "%s%s%s", self, *self && path ? ":" : "", path ? path : "");
    spot_xmemory_close(out);
    p->o = *options;
    p->arrivals.kept_s = derived("SPOT_TEST_FLEET_REST_S", usual_rest_s);
    return p;
}

void fleet_plan_free(struct fleet_plan *p)
{
    if (p)
        free(p->path);
    free(p);
}

/* --- the current fleet --- */

/* ZONE/TYPE=N+M for spot, and on-demand=N+M: N are running, M are starting. */
static char *current(const struct spot_fleet *fleet)
{
    struct spot_fleet_market_view v;
    int64_t running = 0, starting = 0;
    char *text;
    size_t n;
    FILE *out = spot_xmemory_open(&text, &n);

    for (size_t i = 0; i < spot_fleet_n_market(fleet); i++) {
        spot_fleet_view(fleet, i, &v);
        if (v.is_on_demand) {
            running += v.running;
            starting += v.starting;
        } else if (v.running || v.starting) {
            fprintf(out, "%s/%s=%lld+%lld,", v.zone, v.type, (long long)v.running,
                    (long long)v.starting);
        }
    }
    fprintf(out, "on-demand=%lld+%lld", (long long)running, (long long)starting);
    spot_xmemory_close(out);
    return text;
}

/* --- the load --- */

static int write_load(const struct fleet_plan *p, struct spot_err *err)
{
    char *text;
    size_t n;
    FILE *out = spot_xmemory_open(&text, &n);
    int rc;

    spot_fleet_arrivals_write(&p->arrivals, out);
    spot_xmemory_close(out);
    rc = spot_safe_replace(p->o.dir_fd, "load.csv", text, n, false);
    free(text);
    return rc ? spot_err_sys(err, "cannot write %s/load.csv", p->o.dir) : 0;
}

static void set_front(const struct fleet_plan *p, struct fleet_command *c)
{
    fleet_command_set(c, "SPOT_JOIN", p->o.join);
    fleet_command_set(c, "SPOT_KEY_FILE", p->o.key_file ? p->o.key_file : "");
}

static int look(struct fleet_plan *p, struct fleet_runner *runner, double time_s,
                struct spot_err *err)
{
    struct fleet_command c = { .script = "spot-run status --join \"$SPOT_JOIN\" "
                                         "${SPOT_KEY_FILE:+--key-file \"$SPOT_KEY_FILE\"} "
                                         "--format json",
                               .out_max = STATUS_MAX };
    struct spot_status status;
    int rc;

    set_front(p, &c);
    fleet_command_set(&c, "PATH", p->path);
    rc = fleet_run_one(runner, &c, "--join", err);
    if (!rc)
        rc = spot_status_parse(&status, (const char *)c.out.data, c.out.n, "--join", err);
    fleet_command_release(&c);
    if (rc)
        return -1;
    spot_fleet_arrivals_add(
        &p->arrivals, &(struct spot_fleet_look){ time_s, status.requests, status.prompt_tokens,
                                                 status.tokens, status.running + status.queued });
    spot_status_release(&status);
    return write_load(p, err);
}

/* --- the plan --- */

/* Send the plan to the front, which routes by it and holds requests while no machine serves. It may
 * have been restarted since the last turn, so the plan is sent in every turn. */
static int push(const struct fleet_plan *p, struct fleet_runner *runner, struct spot_err *err)
{
    struct fleet_command c = { .script = "spot-run replan --join \"$SPOT_JOIN\" --force "
                                         "${SPOT_KEY_FILE:+--key-file \"$SPOT_KEY_FILE\"} "
                                         "\"$SPOT_DIR/plan.json\"",
                               .out_max = STATUS_MAX };
    int rc;

    set_front(p, &c);
    fleet_command_set(&c, "SPOT_DIR", p->o.dir);
    fleet_command_set(&c, "PATH", p->path);
    rc = fleet_run_one(runner, &c, "the plan for --join", err);
    fleet_command_release(&c);
    return rc;
}

static void set_number(struct fleet_command *c, const char *name, double x, const char *unit)
{
    char text[40];

    snprintf(text, sizeof(text), "%.9g%s", x, unit);
    fleet_command_set(c, name, text);
}

static void set_up(const struct fleet_plan *p, struct fleet_command *c, double time_s,
                   bool has_rate)
{
    const struct fleet_plan_options *const o = &p->o;

    fleet_command_set(c, "PATH", p->path);
    if (o->command) {
        c->script = o->command;
        return;
    }
    c->script = o->load ? serve : replicas;
    fleet_command_set(c, "SPOT_OFFERS", o->offers);
    fleet_command_set(c, "SPOT_PROBES", o->probes ? o->probes : "");
    fleet_command_set(c, "SPOT_CATALOGUE", o->catalogue);
    fleet_command_set(c, "SPOT_LOAD", o->load ? o->load : "");
    set_number(c, "SPOT_N", o->n, "");
    set_number(c, "SPOT_AVAILABILITY", o->availability, "");
    set_number(c, "SPOT_TICK", o->tick_s, "s");
    set_number(c, "SPOT_COLD", o->cold_s, "s");
    set_number(c, "SPOT_STEPS", fmax(STEPS, ceil(o->cold_s / o->tick_s)), "");
    if (has_rate)
        set_number(c, "SPOT_TIME", time_s, "");
    else
        fleet_command_set(c, "SPOT_TIME", "");
}

static int obey(struct fleet_plan *p, const struct fleet_command *c, struct spot_fleet *fleet,
                struct spot_err *err)
{
    struct spot_plan_buy *buy = NULL;
    struct spot_json_doc doc;
    size_t n;
    int rc;

    if (spot_json_parse(&doc, (const char *)c->out.data, c->out.n, "--plan-command", err))
        return -1;
    rc = spot_plan_buy_read(&doc, &buy, &n, err);
    if (!rc)
        rc = spot_fleet_set_target(fleet, buy, n, err);
    free(buy);
    spot_json_release(&doc);
    if (rc || !p->o.dir)
        return rc;
    if (spot_safe_replace(p->o.dir_fd, "plan.json", c->out.data, c->out.n, false))
        return spot_err_sys(err, "cannot write %s/plan.json", p->o.dir);
    p->has_plan = true;
    return 0;
}

int fleet_plan_make(struct fleet_plan *p, struct fleet_runner *runner, struct spot_fleet *fleet,
                    struct spot_err *err)
{
    struct fleet_command c = { .out_max = PLAN_MAX };
    const double time_s = spot_fleet_elapsed_s(fleet);
    bool has_rate = false;
    char *runs;
    int rc;

    if (p->o.join && p->o.dir) {
        if (look(p, runner, time_s, err))
            return -1;
        has_rate = spot_fleet_arrivals_came(&p->arrivals, window_s);
        if (p->o.load && spot_fleet_arrivals_is_at_rest(&p->arrivals))
            return spot_fleet_set_target(fleet, NULL, 0, err) ||
                           (p->has_plan && push(p, runner, err))
                       ? -1
                       : 0;
    }
    runs = current(fleet);
    set_up(p, &c, time_s, has_rate);
    fleet_command_set(&c, "SPOT_CURRENT", runs);
    fleet_command_set(&c, "SPOT_DIR", p->o.dir ? p->o.dir : "");
    free(runs);
    rc = fleet_run_one(runner, &c, "--plan-command", err);
    if (!rc)
        rc = obey(p, &c, fleet, err);
    fleet_command_release(&c);
    return !rc && p->o.join && p->o.dir ? push(p, runner, err) : rc;
}
