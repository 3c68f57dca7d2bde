/* SPDX-License-Identifier: MIT */
#include "sim/supervisor.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/backoff.h"
#include "common/xalloc.h"
#include "model/event.h"

/* A copy that ends by itself is restarted after this pause, which doubles up to the maximum. After
 * running for the maximum, a copy starts with the shortest pause again. */
static const double BACKOFF_MIN_S = 0.1, BACKOFF_MAX_S = 10;

double spot_supervisor_now_s(const struct spot_supervisor *s)
{
    return s->host->now_s(s->self) - s->origin_s;
}

double spot_supervisor_trace_s(const struct spot_supervisor *s, double real_s)
{
    return s->from_s + s->speedup * real_s;
}

/* Open one line of the log; the caller adds to it and ends it. */
static void begin_line(struct spot_jw *jw, const struct spot_supervisor *s, const char *event,
                       const struct spot_instance *m, double time_s)
{
    spot_event_begin(jw, s->log, NULL, event, time_s);
    spot_event_seconds(jw, "real_s", spot_supervisor_now_s(s));
    spot_jw_str(jw, "node", m->name);
    spot_jw_str(jw, "zone", m->zone);
    spot_jw_str(jw, "instance_type", m->instance_type);
    spot_jw_int(jw, "pid", m->pid);
}

void spot_supervisor_add(struct spot_supervisor *s, const char *name, size_t series,
                         const char *zone, const char *instance_type, double time_s)
{
    s->member = spot_xgrow(s->member, &s->cap, s->n + 1, sizeof(*s->member));
    s->member[s->n++] = (struct spot_instance){ .name = spot_xstrdup(name),
                                                .series = series,
                                                .zone = zone,
                                                .instance_type = instance_type,
                                                .since_time_s = time_s };
}

static void drop(struct spot_supervisor *s, size_t i)
{
    free(s->member[i].name);
    s->n--;
    memmove(s->member + i, s->member + i + 1, (s->n - i) * sizeof(*s->member));
}

static int kill_member(struct spot_supervisor *s, struct spot_instance *m, double time_s,
                       const char *why, struct spot_err *err)
{
    struct spot_jw jw;

    s->host->signal(s->self, m->pid, SIGKILL);
    m->is_killed = true;
    m->due_s = INFINITY;
    s->total.kill++;
    begin_line(&jw, s, "kill", m, time_s);
    spot_jw_str(&jw, "why", why);
    return spot_event_end(&jw, err);
}

int spot_supervisor_leave(struct spot_supervisor *s, size_t i, double time_s, bool has_notice,
                          const char *why, struct spot_err *err)
{
    struct spot_instance *m = &s->member[i];
    struct spot_jw jw;

    if (!m->pid) {
        drop(s, i);
        return 0;
    }
    m->is_leaving = true;
    if (!has_notice)
        return kill_member(s, m, time_s, "no_notice", err);
    s->host->signal(s->self, m->pid, SIGTERM);
    m->due_s = spot_supervisor_now_s(s) + s->grace_s;
    s->total.notice++;
    begin_line(&jw, s, "notice", m, time_s);
    spot_jw_str(&jw, "why", why);
    spot_jw_real(&jw, "grace_s", s->grace_s);
    return spot_event_end(&jw, err);
}

static int start_member(struct spot_supervisor *s, struct spot_instance *m, double now_s,
                        struct spot_err *err)
{
    struct spot_jw jw;
    const pid_t pid = s->host->spawn(s->self, m, err);

    if (pid < 0)
        return -1;
    m->pid = pid;
    m->start_s = now_s;
    m->n_start++;
    s->n_running++;
    s->total.start++;
    begin_line(&jw, s, "start", m,
               m->n_start > 1 ? spot_supervisor_trace_s(s, now_s) : m->since_time_s);
    spot_jw_int(&jw, "attempt", (int64_t)m->n_start);
    return spot_event_end(&jw, err);
}

int spot_supervisor_start_due(struct spot_supervisor *s, struct spot_err *err)
{
    const double now_s = spot_supervisor_now_s(s);

    for (size_t i = 0; i < s->n && s->n_running < s->n_running_max; i++) {
        struct spot_instance *m = &s->member[i];

        if (!m->pid && m->due_s <= now_s && start_member(s, m, now_s, err))
            return -1;
    }
    return 0;
}

int spot_supervisor_kill_due(struct spot_supervisor *s, struct spot_err *err)
{
    const double now_s = spot_supervisor_now_s(s);

    for (size_t i = 0; i < s->n; i++) {
        struct spot_instance *m = &s->member[i];

        if (m->is_leaving && m->pid && m->due_s <= now_s &&
            kill_member(s, m, spot_supervisor_trace_s(s, now_s), "grace_over", err))
            return -1;
    }
    return 0;
}

static int note_exit(struct spot_supervisor *s, size_t i, int status, struct spot_err *err)
{
    struct spot_instance *m = &s->member[i];
    const double now_s = spot_supervisor_now_s(s), lived_s = now_s - m->start_s;
    struct spot_jw jw;

    s->n_running--;
    s->total.exit++;
    begin_line(&jw, s, "exit", m, spot_supervisor_trace_s(s, now_s));
    if (WIFSIGNALED(status))
        spot_jw_int(&jw, "signal", WTERMSIG(status));
    else
        spot_jw_int(&jw, "status", WEXITSTATUS(status));
    spot_event_seconds(&jw, "lived_s", lived_s);
    m->pid = 0;
    m->n_quick = lived_s < BACKOFF_MAX_S ? m->n_quick + 1 : 1;
    m->due_s = now_s + spot_backoff_s(m->n_quick, BACKOFF_MIN_S, BACKOFF_MAX_S);
    if (m->is_leaving)
        drop(s, i);
    return spot_event_end(&jw, err);
}

int spot_supervisor_reap(struct spot_supervisor *s, struct spot_err *err)
{
    pid_t pid;
    int rc = 0, status;

    while ((pid = s->host->reap(s->self, &status))) {
        size_t i = 0;

        while (i < s->n && s->member[i].pid != pid)
            i++;
        if (i < s->n && note_exit(s, i, status, err))
            rc = -1;
    }
    return rc;
}

double spot_supervisor_next_s(const struct spot_supervisor *s)
{
    const bool is_full = s->n_running >= s->n_running_max;
    double next_s = INFINITY;

    for (size_t i = 0; i < s->n; i++)
        if (s->member[i].pid ? s->member[i].is_leaving : !is_full)
            next_s = fmin(next_s, s->member[i].due_s);
    return next_s;
}

void spot_supervisor_release(struct spot_supervisor *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->member[i].name);
    free(s->member);
    s->member = NULL;
    s->n = s->n_running = 0;
}
