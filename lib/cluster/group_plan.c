/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* st_mtim */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cluster/group_state.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "model/plan_doc.h"

/* Refuses a plan that is out of date by its epoch or its time. */
static int check_age(const struct spot_group *g, const struct spot_plan_doc *plan, double newest_s,
                     enum spot_plan_way way, struct spot_err *err)
{
    const char *const hint = g->options->old_plan_hint;

    if (plan->epoch >= 0 && plan->epoch < (int64_t)g->last_epoch)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "the plan is for epoch %lld, the job is at epoch %u",
                            (long long)plan->epoch, (unsigned)g->last_epoch);
    if (plan->time_s < newest_s && way != SPOT_PLAN_FORCED)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "the plan is of %g s, older than the previous plan of %g s%s%s",
                            plan->time_s, newest_s, hint ? "; " : "", hint ? hint : "");
    return 0;
}

/* Accept a plan. *changed: a new layout may be needed. */
int spot_group_plan_text(struct spot_group *g, const char *text, size_t n_byte, const char *source,
                         enum spot_plan_way way, bool *changed, struct spot_err *err)
{
    double *const newest_s = &g->plan_time_s[way == SPOT_PLAN_FILE ? way : SPOT_PLAN_PUSHED];
    struct spot_plan_doc plan;
    int rc;

    *changed = false;
    if (spot_plan_doc_parse(&plan, text, n_byte, source, err))
        return -1;
    rc = check_age(g, &plan, *newest_s, way, err);
    if (!rc && g->workload->plan)
        rc = g->workload->plan(g->job, &plan, changed, err);
    if (!rc) {
        if (plan.time_s > *newest_s) /* the newest time is kept after a forced plan */
            *newest_s = plan.time_s;
        g->has_plan = true;
        g->force_time_s = plan.time_s;
        *changed |= g->is_suspended != spot_plan_doc_is_suspend(&plan);
        g->is_suspended = spot_plan_doc_is_suspend(&plan);
    }
    spot_plan_doc_release(&plan);
    return rc;
}

static bool is_stdin(const char *path)
{
    return !strcmp(path, "-");
}

/* Standard input is read once, when the job begins; it may be a pipe. */
static FILE *open_plan(const char *path, struct spot_err *err)
{
    struct stat st;
    FILE *in;

    if (is_stdin(path))
        return stdin;
    if (!stat(path, &st) && !S_ISREG(st.st_mode)) { /* reading a pipe would block the job */
        spot_err_set(err, SPOT_EUSAGE, "--plan must be a file, '%s' is not", path);
        return NULL;
    }
    in = fopen(path, "re");
    if (!in)
        spot_err_sys(err, "cannot open '%s'", path);
    return in;
}

static int read_plan(struct spot_group *g, bool *changed, struct spot_err *err)
{
    const char *const path = g->options->plan, *const source = is_stdin(path) ? "<stdin>" : path;
    FILE *const in = open_plan(path, err);
    char *text;
    size_t n;
    int rc;

    if (!in)
        return -1;
    text = spot_xcalloc(1, SPOT_PLAN_MAX + 1);
    n = fread(text, 1, SPOT_PLAN_MAX + 1, in);
    if (in != stdin)
        fclose(in);
    rc = n > SPOT_PLAN_MAX
             ? spot_err_set(err, SPOT_EDATA, "%s: larger than %d bytes", source, SPOT_PLAN_MAX)
             : spot_group_plan_text(g, text, n, source, SPOT_PLAN_FILE, changed, err);
    free(text);
    return rc;
}

/* Inode, size and time of the plan file in one number, to detect a replacement. 0: no file. */
static uint64_t stamp_of(const char *path)
{
    struct stat st;

    if (is_stdin(path) || stat(path, &st))
        return 0;
    return ((uint64_t)st.st_ino * 31 + (uint64_t)st.st_size +
            (uint64_t)st.st_mtim.tv_sec * UINT64_C(1000000007) + (uint64_t)st.st_mtim.tv_nsec) |
           1;
}

/* A plan file that is bad now leaves the plan in force; a warning says why. */
void spot_group_plan_check(struct spot_group *g, bool force, bool *changed)
{
    struct spot_err err = { 0 };
    uint64_t stamp;

    *changed = false;
    if (!g->options->plan || (!force && spot_clock_s() - g->plan_check_s < 0.1))
        return;
    g->plan_check_s = spot_clock_s();
    stamp = stamp_of(g->options->plan);
    if (!stamp || (stamp == g->plan_stamp && !force))
        return;
    g->plan_stamp = stamp;
    if (read_plan(g, changed, &err))
        g->options->warn("%s; the plan in force stays", err.msg);
}

int spot_group_read_plan(struct spot_group *g, struct spot_err *err)
{
    bool changed;

    if (!g->options->plan)
        return 0;
    g->plan_stamp = stamp_of(g->options->plan);
    return read_plan(g, &changed, err);
}
