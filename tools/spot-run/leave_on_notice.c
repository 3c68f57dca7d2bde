/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* pthread_kill */
#include "run.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/tool.h"
#include "cluster/agent.h"

/* As on SIGTERM, and in the thread that handles it, so that the agent is never closed while the
 * handler uses it. */
static void on_notice(void *user, const struct spot_notice *n)
{
    const struct leave_on_notice *const l = user;
    const bool leaves = n->kind == SPOT_NOTICE_REBALANCE ? l->on_rebalance : n->is_memory_lost;

    if (!leaves || n->state == SPOT_NOTICE_GONE)
        return;
    if (!l->is_quiet && n->state == SPOT_NOTICE_NEW)
        spot_tool_note("leaving: notice of %s (%s, %s)", n->source, spot_notice_kind_name(n->kind),
                       n->action);
    spot_agent_expect(n->left_s);
    /* SIGTERM has a handler. NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread) */
    pthread_kill(l->thread, SIGTERM);
}

void notice_split(struct spot_notice_options *o)
{
    static char name[64];
    const char *const at =
        o->from && strncmp(o->from, "cmd:", 4) != 0 ? strchr(o->from, '@') : NULL;

    if (!at)
        return;
    snprintf(name, sizeof(name), "%.*s", (int)(at - o->from), o->from);
    o->from = name;
    o->endpoint = at + 1;
}

int leave_on_notice_start(struct leave_on_notice *l, struct spot_err *err)
{
    if (!l->watched.from)
        return 0;
    notice_split(&l->watched);
    l->thread = pthread_self();
    l->watched.noticed = on_notice;
    l->watched.user = l;
    l->watched.warn = l->is_quiet ? NULL : spot_tool_warn;
    l->watch = spot_notice_new(&l->watched, err);
    return l->watch && !spot_notice_start(l->watch, err) ? 0 : -1;
}

void leave_on_notice_stop(struct leave_on_notice *l)
{
    spot_notice_free(l->watch);
    l->watch = NULL;
}
