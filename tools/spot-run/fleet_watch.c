/* SPDX-License-Identifier: MIT */
#include "fleet_parts.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/monitor.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/metric.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"
#include "fleet/fleet_history.h"
#include "fleet/fleet_page.h"
#include "model/forecast_doc.h"

enum { EVENTS = 100, KINDS = 32, FILE_MAX = 16 << 20, LABEL_MAX = 2400, PLAN_WHY = 24 };

struct event {
    double time_s;
    char what[24], node[96], why[256];
};

struct kind {
    char name[24];
    double n;
};

struct fleet_watch {
    struct spot_monitor *monitor;
    struct spot_fleet_history *history;
    struct event event[EVENTS]; /* ring buffer */
    size_t n_event;
    struct kind kind[KINDS]; /* number of events of each kind */
    size_t n_kind;
    double turn[2]; /* turns that succeeded, and that failed */
    struct spot_buf doc[SPOT_MONITOR_DOCS];
    bool is_due;
    double made_s;
};

struct fleet_watch *fleet_watch_new(const char *address, struct spot_err *err)
{
    const struct spot_monitor_options options = { .address = address,
                                                  .page = spot_fleet_page_html,
                                                  .page_byte = spot_fleet_page_html_byte };
    struct fleet_watch *p = spot_xcalloc(1, sizeof(*p));

    p->monitor = spot_monitor_new(&options, err);
    p->history = spot_fleet_history_new();
    if (p->monitor)
        return p;
    fleet_watch_free(p);
    return NULL;
}

void fleet_watch_free(struct fleet_watch *p)
{
    if (!p)
        return;
    spot_monitor_free(p->monitor);
    spot_fleet_history_free(p->history);
    for (int i = 0; i < SPOT_MONITOR_DOCS; i++)
        spot_buf_release(&p->doc[i]);
    free(p);
}

const char *fleet_watch_url(const struct fleet_watch *p)
{
    return spot_monitor_url(p->monitor);
}

/* --- events --- */

static void count(struct fleet_watch *p, const char *what)
{
    size_t i = 0;

    while (i < p->n_kind && strcmp(p->kind[i].name, what) != 0)
        i++;
    if (i == KINDS)
        return;
    if (i == p->n_kind)
        snprintf(p->kind[p->n_kind++].name, sizeof(p->kind[i].name), "%s", what);
    p->kind[i].n++;
}

void fleet_watch_note(struct fleet_watch *p, double time_s, const char *event, const char *node,
                      const char *why)
{
    struct event *e;

    if (!p)
        return;
    count(p, event);
    e = &p->event[p->n_event++ % EVENTS];
    e->time_s = time_s;
    snprintf(e->what, sizeof(e->what), "%s", event);
    snprintf(e->node, sizeof(e->node), "%s", node ? node : "");
    snprintf(e->why, sizeof(e->why), "%s", why);
}

void fleet_watch_action(struct fleet_watch *p, double time_s, const struct spot_fleet_action *a)
{
    char what[96];

    snprintf(what, sizeof(what), "%lld %.40s in %.30s", (long long)a->count, a->type,
             *a->zone ? a->zone : "any zone");
    fleet_watch_note(p, time_s, fleet_verb_name(a->verb), a->id ? a->id : what, a->why);
}

/* --- metrics --- */

static void put(struct spot_buf *out, const char *name, const char *help, double value)
{
    const size_t n = strlen(name);
    const struct spot_metric m = { .name = name,
                                   .type = n > 6 && !strcmp(name + n - 6, "_total") ? SPOT_COUNTER
                                                                                    : SPOT_GAUGE,
                                   .help = help,
                                   .value = value };

    spot_metric_put(&m, 1, out);
}

static char *name_market(const struct spot_fleet_market_view *v, const char *state)
{
    char label[LABEL_MAX], zone[2 * SPOT_FLEET_TEXT_MAX + 1], type[2 * SPOT_FLEET_TEXT_MAX + 1];

    spot_metric_escape(v->zone, zone);
    spot_metric_escape(v->type, type);
    snprintf(label, LABEL_MAX, "zone=\"%s\",instance_type=\"%s\",market=\"%s\"%s%s%s", zone, type,
             fleet_market_name(v->is_on_demand), state ? ",state=\"" : "", state ? state : "",
             state ? "\"" : "");
    return spot_xstrdup(label);
}

/* True if none of it is wanted or running. */
static bool is_idle(const struct spot_fleet_market_view *v)
{
    return !v->target && !v->running && !v->starting && !v->leaving && !(v->pause_s > 0);
}

static void put_markets(const struct spot_fleet *fleet, struct spot_buf *out)
{
    static const char *const state[] = { "wanted", "running", "starting", "leaving" };
    const size_t n = spot_fleet_n_market(fleet);
    struct spot_metric *m = spot_xcalloc(5 * n + 1, sizeof(*m));
    char **label = spot_xcalloc(5 * n + 1, sizeof(*label));
    size_t k = 0, n_count;

    for (size_t i = 0; i < n; i++) {
        struct spot_fleet_market_view v;

        spot_fleet_view(fleet, i, &v);
        for (int s = 0; s < 4 && !is_idle(&v); s++, k++) {
            const int64_t value[] = { v.target, v.running, v.starting, v.leaving };

            label[k] = name_market(&v, state[s]);
            m[k] = (struct spot_metric){ "spot_fleet_machines", SPOT_GAUGE,
                                         "Machines by state.",  label[k],
                                         (double)value[s],      NULL };
        }
    }
    n_count = k;
    for (size_t i = 0; i < n; i++) {
        struct spot_fleet_market_view v;

        spot_fleet_view(fleet, i, &v);
        if (is_idle(&v))
            continue;
        label[k] = name_market(&v, NULL);
        m[k] = (struct spot_metric){ "spot_fleet_pause_seconds",
                                     SPOT_GAUGE,
                                     "Until a market that refused is asked again.",
                                     label[k],
                                     v.pause_s,
                                     NULL };
        k++;
    }
    spot_metric_put(m, n_count, out);
    spot_metric_put(m + n_count, k - n_count, out);
    while (k > 0)
        free(label[--k]);
    free(label);
    free(m);
}

static void put_kinds(const struct fleet_watch *p, struct spot_buf *out)
{
    struct spot_metric m[KINDS];
    char label[KINDS][48];

    for (size_t i = 0; i < p->n_kind; i++) {
        snprintf(label[i], sizeof(label[i]), "event=\"%s\"", p->kind[i].name);
        m[i] = (struct spot_metric){ "spot_fleet_events_total",
                                     SPOT_COUNTER,
                                     "What was done and seen.",
                                     label[i],
                                     p->kind[i].n,
                                     NULL };
    }
    spot_metric_put(m, p->n_kind, out);
}

static void put_metrics(struct fleet_watch *p, const struct fleet_watch_turn *t,
                        struct spot_buf *out)
{
    const struct spot_fleet_total total = spot_fleet_total(t->fleet);
    const struct spot_fleet_sums sum = spot_fleet_history_sums(p->history);
    const struct spot_metric turn[] = {
        { "spot_fleet_turns_total", SPOT_COUNTER, "Turns.", "result=\"done\"", p->turn[0], NULL },
        { "spot_fleet_turns_total", SPOT_COUNTER, "Turns.", "result=\"failed\"", p->turn[1], NULL },
    };

    put_markets(t->fleet, out);
    put(out, "spot_fleet_wanted", "Machines that serve the load.",
        (double)(t->wanted < 0 ? total.target : t->wanted));
    put(out, "spot_fleet_usd_per_h", "What is held and asked for costs.", total.usd_per_h);
    put(out, "spot_fleet_on_demand_usd_per_h", "The same on demand.", total.on_demand_usd_per_h);
    put(out, "spot_fleet_max_usd_per_h", "The bound of money.",
        isinf(t->max_usd_per_h) ? NAN : t->max_usd_per_h);
    put(out, "spot_fleet_watched_seconds_total", "Time of this process.", sum.watched_s);
    put(out, "spot_fleet_served_seconds_total", "Of it, with as many running as are wanted.",
        sum.served_s);
    put(out, "spot_fleet_usd_total", "Paid in that time, at the prices of then.", sum.usd);
    put(out, "spot_fleet_on_demand_usd_total", "The same on demand.", sum.on_demand_usd);
    put(out, "spot_fleet_turn_seconds", "Length of the last turn.", t->took_s);
    put(out, "spot_fleet_plan_age_seconds", "Since a plan was made.",
        t->plan_s > 0 ? spot_clock_s() - t->plan_s : NAN);
    spot_metric_put(turn, 2, out);
    put_kinds(p, out);
}

/* --- documents of the directory --- */

/* False if the document is missing or incomplete. */
static bool load(int dir_fd, const char *name, struct spot_json_doc *doc)
{
    const int fd = dir_fd < 0 ? -1 : spot_safe_open(dir_fd, name, O_RDONLY | O_CLOEXEC, 0);
    struct spot_err err = { 0 };
    struct stat st;
    char *text;
    ssize_t n;
    bool is;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX) {
        close(fd);
        return false;
    }
    text = spot_xcalloc((size_t)st.st_size + 1, 1);
    n = pread(fd, text, (size_t)st.st_size, 0);
    close(fd);
    is = n > 0 && !spot_json_parse(doc, text, (size_t)n, name, &err);
    free(text);
    return is;
}

/* Read the forecast if there is a new one, and what the plan says about itself. */
static void take_turn(struct fleet_watch *p, struct fleet_watch_turn *t,
                      const struct spot_json_doc *plan)
{
    const struct spot_json_value *wanted =
        plan ? spot_json_get(spot_json_get(plan->root, "expected"), "wanted") : NULL;
    struct spot_forecast forecast = { 0 };
    struct spot_json_doc doc;
    struct spot_err err = { 0 };
    bool has_doc, has_forecast;

    if (spot_json_is_integer(wanted))
        t->wanted = spot_json_integer(wanted);
    has_doc = load(t->dir_fd, "forecast.json", &doc);
    has_forecast = has_doc && !spot_forecast_read(&doc, &forecast, &err);
    spot_fleet_history_add(p->history, t->fleet, t->wanted, has_forecast ? &forecast : NULL);
    if (has_forecast)
        spot_forecast_release(&forecast);
    if (has_doc)
        spot_json_release(&doc);
}

/* --- status --- */

static void put_market(struct spot_jw *jw, const struct spot_fleet_market_view *v)
{
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "zone", v->zone);
    spot_jw_str(jw, "instance_type", v->type);
    spot_jw_str(jw, "market", fleet_market_name(v->is_on_demand));
    spot_jw_int(jw, "target", v->target);
    spot_jw_int(jw, "running", v->running);
    spot_jw_int(jw, "starting", v->starting);
    spot_jw_int(jw, "leaving", v->leaving);
    spot_jw_known(jw, "usd_per_h", v->usd_per_h);
    spot_jw_real(jw, "pause_s", v->pause_s);
    spot_jw_end(jw);
}

static void put_events(const struct fleet_watch *p, struct spot_jw *jw)
{
    spot_jw_array(jw, "events"); /* newest first */
    for (size_t i = 0; i < p->n_event && i < EVENTS; i++) {
        const struct event *e = &p->event[(p->n_event - 1 - i) % EVENTS];

        spot_jw_object(jw, NULL);
        spot_jw_real(jw, "time_s", e->time_s);
        spot_jw_str(jw, "event", e->what);
        spot_jw_str(jw, "node", e->node);
        spot_jw_str(jw, "why", e->why);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void put_why(const struct spot_json_doc *plan, struct spot_jw *jw)
{
    const struct spot_json_value *why = plan ? spot_json_get(plan->root, "why") : NULL;

    spot_jw_array(jw, "why");
    for (size_t i = 0; i < spot_json_array_size(why) && i < PLAN_WHY; i++)
        if (spot_json_text(spot_json_entry(why, i)))
            spot_jw_str(jw, NULL, spot_json_text(spot_json_entry(why, i)));
    spot_jw_end(jw);
}

static void put_status(const struct fleet_watch *p, const struct fleet_watch_turn *t,
                       const struct spot_json_doc *plan, struct spot_jw *jw)
{
    const struct spot_fleet_total total = spot_fleet_total(t->fleet);
    const struct spot_fleet_sums sum = spot_fleet_history_sums(p->history);

    spot_jw_str(jw, "name", t->name);
    spot_jw_real(jw, "time_s", spot_fleet_elapsed_s(t->fleet));
    spot_jw_int(jw, "wanted", t->wanted < 0 ? total.target : t->wanted);
    spot_jw_int(jw, "target", total.target);
    spot_jw_int(jw, "running", total.running);
    spot_jw_int(jw, "held", total.held);
    spot_jw_real(jw, "usd_per_h", total.usd_per_h);
    spot_jw_real(jw, "on_demand_usd_per_h", total.on_demand_usd_per_h);
    spot_jw_known(jw, "max_usd_per_h", isinf(t->max_usd_per_h) ? NAN : t->max_usd_per_h);
    spot_jw_real(jw, "watched_s", sum.watched_s);
    spot_jw_real(jw, "served_s", sum.served_s);
    spot_jw_real(jw, "usd", sum.usd);
    spot_jw_real(jw, "on_demand_usd", sum.on_demand_usd);
    if (t->failure)
        spot_jw_str(jw, "failure", t->failure);
    spot_jw_array(jw, "markets");
    for (size_t i = 0; i < spot_fleet_n_market(t->fleet); i++) {
        struct spot_fleet_market_view v;

        spot_fleet_view(t->fleet, i, &v);
        if (!is_idle(&v))
            put_market(jw, &v);
    }
    spot_jw_end(jw);
    put_events(p, jw);
    put_why(plan, jw);
}

/* --- a turn --- */

static FILE *begin_doc(struct spot_jw *jw, char **text, size_t *n)
{
    FILE *out = spot_xmemory_open(text, n);

    spot_jw_init(jw, out, false);
    spot_jw_object(jw, NULL);
    return out;
}

static void end_doc(struct spot_jw *jw, FILE *out, char *const *text, const size_t *n,
                    struct spot_buf *doc)
{
    spot_jw_end(jw);
    (void)spot_jw_close(jw, NULL);
    spot_xmemory_close(out);
    doc->n = 0;
    spot_buf_add(doc, *text, *n);
    free(*text);
}

void fleet_watch_show(struct fleet_watch *p, const struct fleet_watch_turn *turn)
{
    struct fleet_watch_turn t = *turn;
    struct spot_json_doc plan;
    struct spot_jw jw;
    bool has_plan;
    char *text;
    FILE *out;
    size_t n;

    if (!p)
        return;
    p->made_s = spot_clock_s();
    p->turn[t.failure != NULL]++;
    has_plan = load(t.dir_fd, "plan.json", &plan);
    take_turn(p, &t, has_plan ? &plan : NULL);
    p->doc[SPOT_MONITOR_METRICS].n = 0;
    put_metrics(p, &t, &p->doc[SPOT_MONITOR_METRICS]);
    out = begin_doc(&jw, &text, &n);
    put_status(p, &t, has_plan ? &plan : NULL, &jw);
    end_doc(&jw, out, &text, &n, &p->doc[SPOT_MONITOR_STATUS]);
    out = begin_doc(&jw, &text, &n);
    spot_fleet_history_write(p->history, &jw);
    end_doc(&jw, out, &text, &n, &p->doc[SPOT_MONITOR_HISTORY]);
    if (has_plan)
        spot_json_release(&plan);
    p->is_due = true;
    fleet_watch_rest(p);
}

void fleet_watch_rest(struct fleet_watch *p)
{
    if (p && p->is_due)
        p->is_due = !spot_monitor_publish(p->monitor, p->doc, p->made_s);
}
