/* SPDX-License-Identifier: MIT */
/* spot-replay train: policies that are left out, and messages about long runs. */
#define _XOPEN_SOURCE 700 /* setitimer. NOLINT(bugprone-reserved-identifier) */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli/tool.h"
#include "common/xalloc.h"
#include "replay_train.h"

enum { PATIENCE_S = 5 }; /* seconds of processor time in which most replays end */

void replay_train_leave_out(struct replay_train *s)
{
    int n = 0;

    for (int k = 0; k < s->n_policy; k++)
        if (!s->policy[k]->is_on_demand)
            s->policy[n++] = s->policy[k];
    s->n_policy = n;
    spot_tool_warn("on-demand is left out: job '%.64s' has no /cost/on_demand_usd_per_h",
                   s->job.name);
}

/* True if the policy has trained on a grid whose speed is not in the throughput table. */
static bool is_beyond(const struct replay_train *s, const struct spot_sim_row *row)
{
    for (size_t i = 0; i < s->n; i++)
        if (row[i].d > 0 && row[i].class_s[SPOT_SIM_EFFECTIVE] > 0 &&
            spot_throughput_at(&s->throughput, row[i].d, row[i].p) == 0)
            return true;
    return false;
}

/* --- long runs --- */

static const char *volatile playing = "";

/* Signal handler. Of the functions allowed in one only write is useful here; the message is one
 * write. */
static void on_patience(int number)
{
    char text[320] = "spot-replay train: warning: ";
    size_t n = strlen(text);
    const char *const part[] = { playing,
                                 " takes its time: a longer --interval, a smaller --scale or "
                                 "--horizon, less of the trace (--from, --to), or --policy "
                                 "without it makes this shorter\n" };

    (void)number;
    for (size_t i = 0; i < 2; i++)
        for (const char *c = part[i]; *c && n < sizeof(text); c++)
            text[n++] = *c;
    if (write(STDERR_FILENO, text, n) < 0)
        return; /* stderr is not read */
}

void replay_train_watch(bool is_quiet)
{
    const struct sigaction action = { .sa_handler = on_patience, .sa_flags = SA_RESTART };
    const struct itimerval patience = { .it_value.tv_sec = PATIENCE_S };

    if (!is_quiet && !sigaction(SIGVTALRM, &action, NULL))
        setitimer(ITIMER_VIRTUAL, &patience, NULL);
}

int replay_train_play(struct replay_train *s, int k, struct spot_sim_row *row, struct spot_err *err)
{
    struct spot_err why = { 0 };

    playing = s->policy[k]->name;
    if (spot_sim_train_run(&s->sim, s->policy[k], row, &why)) {
        if (why.code == SPOT_EINFEASIBLE && s->n_policy > 1) {
            if (!s->is_left_out[k])
                spot_tool_warn("left out: %s", why.msg);
            s->is_left_out[k] = true;
            return 1;
        }
        *err = why;
        return -1;
    }
    s->is_beyond[k] = s->is_beyond[k] || is_beyond(s, row);
    return 0;
}

void replay_train_warn(const struct replay_train *s)
{
    char names[512] = "";

    for (int k = 0; k < s->n_policy; k++)
        if (s->is_beyond[k])
            snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
                     *names ? ", " : "", s->policy[k]->name);
    if (*names)
        spot_tool_warn("%s ran grids whose speed the other policies and ideal do not know, at the "
                       "fitted curve's speed: their share of ideal is meaningless%s",
                       names,
                       s->source == SPOT_THROUGHPUT_TABLE
                           ? "; --throughput both lets all policies choose by the curve"
                           : "");
}

void replay_train_release(struct replay_train *s)
{
    spot_trace_release(&s->trace);
    if (s->is_ready) {
        spot_cost_table_release(&s->table);
        spot_throughput_release(&s->throughput);
    }
    free(s->available);
    spot_job_doc_release(&s->job);
}

static void add_series(struct replay_figure *f, const char *label, enum spot_series_style style,
                       size_t n, double *x, double *y)
{
    f->memory[f->n_memory++] = x;
    f->memory[f->n_memory++] = y;
    f->series[f->n_series++] = (struct spot_series){
        .label = label, .style = style, .n = n, .x = x, .y = y, .width = 1.5
    };
}

/* Availability, by hours and counts: the first series of "grids". */
static void add_trace(struct replay_figure *f, const struct replay_train *s)
{
    double *x = spot_xcalloc(s->n, sizeof(*x)), *y = spot_xcalloc(s->n, sizeof(*y));

    for (size_t i = 0; i < s->n; i++) {
        x[i] = (double)i * s->interval_s / 3600;
        y[i] = s->available[i];
    }
    add_series(f, "available", SPOT_SERIES_STEP, s->n, x, y);
}

/* Of all policies, those that differ most are drawn: more curves could not be told apart. Policies
 * given by name are all drawn. */
static bool is_drawn(const struct replay_figure *f, const struct replay_train *s, const char *name)
{
    static const char *const drawn[] = { "ideal",       "on-demand", "optimal", "spot",
                                         "persistence", "varuna",    "bamboo",  "torchrun" };
    bool found = !s->is_all;

    for (size_t i = 0; i < sizeof(drawn) / sizeof(*drawn) && !found; i++)
        found = !strcmp(drawn[i], name);
    return found && f->n_series < (strcmp(f->picture, "grids") != 0 ? (size_t)SPOT_PLOT_SERIES_MAX
                                                                    : SPOT_PLOT_MULTIPLES_MAX);
}

void replay_figure_add(struct replay_figure *f, const struct replay_train *s,
                       const struct spot_sim_policy *policy, const struct spot_sim_row *row)
{
    const bool grids = !strcmp(f->picture, "grids"), cost = !strcmp(f->picture, "cost");
    const size_t used = strlen(f->left_out);
    double *x, *y, samples = 0, usd = 0;

    if (grids && !f->n_series)
        add_trace(f, s);
    if (!is_drawn(f, s, policy->name)) {
        snprintf(f->left_out + used, sizeof(f->left_out) - used, "%s%s", used ? ", " : "",
                 policy->name);
        return;
    }
    x = spot_xcalloc(s->n, sizeof(*x));
    y = spot_xcalloc(s->n, sizeof(*y));
    for (size_t i = 0; i < s->n; i++) {
        samples += row[i].samples;
        usd += row[i].usd;
        x[i] = cost ? usd : (double)i * s->interval_s / 3600;
        y[i] = grids ? row[i].d * row[i].p : samples;
    }
    add_series(f, policy->name, grids ? SPOT_SERIES_STEP : SPOT_SERIES_LINE, s->n, x, y);
}

int replay_figure_draw(struct replay_figure *f, const struct replay_train *s, const char *path,
                       struct spot_err *err)
{
    const bool grids = !strcmp(f->picture, "grids"), cost = !strcmp(f->picture, "cost");
    struct spot_figure figure = {
        .title = grids  ? "instances in the grid of each policy, and those there (grey)"
                 : cost ? "samples trained for the money"
                        : "samples trained",
        .x_label = cost ? "cost (usd)" : "time (h)",
        .y_label = grids ? "instances" : "samples",
        .series = f->series,
        .n_series = f->n_series,
        .is_count = grids,
    };

    if (*f->left_out)
        spot_tool_warn("not drawn: %s%s", f->left_out, s->is_all ? "; --policy names others" : "");
    if (!grids && !cost && strcmp(f->picture, "samples") != 0)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--picture: expected samples, grids or cost, got '%.32s'", f->picture);
    if (f->n_series < (grids ? 2 : 1))
        return spot_err_set(err, SPOT_EINFEASIBLE, "no policy is left to be drawn");
    return grids ? spot_plot_multiples(&figure, path, err) : spot_plot(&figure, path, err);
}

void replay_figure_release(struct replay_figure *f)
{
    for (size_t i = 0; i < f->n_memory; i++)
        free(f->memory[i]);
}
