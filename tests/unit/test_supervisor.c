/* SPDX-License-Identifier: MIT */
/* Goal: what is started, told and killed, and when, is what a trace, a grace and a pause say that
 * were worked out by hand. The host is one of paper: its clock moves when it is waited for. */
#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/live_play.h"
#include "suite.h"

enum { PROCESSES_MAX = 256, TEXT_MAX = 4096, WAITS_MAX = 100000 };

struct process {
    const char *name;
    double end_s; /* INFINITY: not yet known; NaN: it is reaped */
};

static struct paper {
    double now_s, late_s;   /* each wait is late by that */
    double life_s, obeys_s; /* after a start, after SIGTERM; INFINITY: never */
    double signal_s[2];     /* SIGTERM for us */
    struct process process[PROCESSES_MAX];
    int n, n_wait, n_signal, n_warning;
    bool cannot_spawn;
    char name[PROCESSES_MAX][32];
    char told[TEXT_MAX], left[TEXT_MAX]; /* everything with its time; names under notice */
} paper;

static void tell(char what, const char *name)
{
    const size_t n = strlen(paper.told), k = strlen(paper.left);

    snprintf(paper.told + n, TEXT_MAX - n, "%s%c%s@%g", n ? " " : "", what, name, paper.now_s);
    if (what == '-')
        snprintf(paper.left + k, TEXT_MAX - k, "%s ", name);
}

static double now_s(void *self)
{
    (void)self;
    return paper.now_s;
}

static pid_t spawn(void *self, const struct spot_instance *m, struct spot_err *err)
{
    (void)self;
    if (paper.cannot_spawn)
        return spot_err_set(err, SPOT_ESYS, "cannot run");
    ck_assert_int_lt(paper.n, PROCESSES_MAX);
    snprintf(paper.name[paper.n], sizeof(paper.name[0]), "%s", m->name);
    paper.process[paper.n] = (struct process){ paper.name[paper.n], paper.now_s + paper.life_s };
    tell('+', m->name);
    return ++paper.n;
}

static void send(void *self, pid_t group, int number)
{
    struct process *p = &paper.process[group - 1];

    (void)self;
    tell(number == SIGTERM ? '-' : 'x', p->name);
    p->end_s = fmin(p->end_s, paper.now_s + (number == SIGTERM ? paper.obeys_s : 0));
}

static pid_t reap(void *self, int *status)
{
    (void)self;
    for (int i = 0; i < paper.n; i++)
        if (paper.process[i].end_s <= paper.now_s) {
            paper.process[i].end_s = NAN;
            *status = 0;
            return i + 1;
        }
    return 0;
}

static int wait_for(void *self, double left_s)
{
    double next_s = INFINITY;

    (void)self;
    ck_assert_int_lt(paper.n_wait++, WAITS_MAX);
    for (int i = 0; i < paper.n; i++)
        next_s = fmin(next_s, paper.process[i].end_s);
    if (paper.n_signal < 2 && paper.signal_s[paper.n_signal] > 0 &&
        paper.signal_s[paper.n_signal] <= fmin(next_s, paper.now_s + left_s)) {
        paper.now_s = paper.signal_s[paper.n_signal++];
        return SIGTERM;
    }
    if (next_s <= paper.now_s + left_s) {
        paper.now_s = fmax(paper.now_s, next_s);
        return SIGCHLD;
    }
    ck_assert_msg(isfinite(left_s), "nothing would ever end this wait");
    paper.now_s += fmax(left_s, 0) + paper.late_s;
    return 0;
}

static void warn(const char *fmt, ...)
{
    paper.n_warning += fmt != NULL;
}

static const struct spot_host host = { now_s, spawn, send, reap, wait_for };

static struct paper quiet(void)
{
    return (struct paper){ .life_s = INFINITY, .obeys_s = INFINITY };
}

/* Ten trace seconds a second, a grace of two. */
static int play(const char *rows, struct spot_live *l, struct spot_err *err)
{
    struct spot_trace trace;
    FILE *in = fmemopen((void *)(uintptr_t)rows, strlen(rows), "r"),
         *log = fopen("/dev/null", "we");
    int rc;

    ck_assert_msg(!spot_trace_load(&trace, in, "rows", err), "%s", err->msg);
    fclose(in);
    l->supervisor = (struct spot_supervisor){
        .host = &host, .n_running_max = 128, .grace_s = 2, .speedup = 10, .log = log
    };
    l->max = l->max ? l->max : 64;
    l->warn = warn;
    spot_live_init(l, &trace, 1);
    rc = spot_live_play(l, err);
    fclose(log);
    spot_live_release(l);
    spot_trace_release(&trace);
    return rc;
}

#define ONE_AND_ONE "time_s,available\n0,1\n100,0\n200,1\n300,1\n"

static const struct story {
    const char *rows, *told;
    double life_s, obeys_s, no_notice;
    double signal_s[2];
    uint64_t max;
    int n_warning;
} stories[] = {
    /* each leaves a second after its notice */
    { ONE_AND_ONE, "+node1@0 -node1@10 +node2@20 -node2@30", INFINITY, 1, 0, { 0 }, 0, 0 },
    /* none does: killed when the grace is over */
    { ONE_AND_ONE,
      "+node1@0 -node1@10 xnode1@12 +node2@20 -node2@30 xnode2@32",
      INFINITY,
      INFINITY,
      0,
      { 0 },
      0,
      0 },
    /* nobody is told, but at the end */
    { ONE_AND_ONE,
      "+node1@0 xnode1@10 +node2@20 -node2@30 xnode2@32",
      INFINITY,
      INFINITY,
      1,
      { 0 },
      0,
      0 },
    /* it ends at once: pauses of 0.1 s, 0.2 s, 0.4 s, 0.8 s; the end comes before the next start */
    { "time_s,available\n0,1\n20,1\n",
      "+node1@0 +node1@0.1 +node1@0.3 +node1@0.7 +node1@1.5",
      0,
      0,
      0,
      { 0 },
      0,
      0 },
    /* it lives for 12 s, longer than the longest pause: the pause stays the shortest */
    { "time_s,available\n0,1\n300,1\n",
      "+node1@0 +node1@12.1 +node1@24.2 -node1@30 xnode1@32",
      12,
      INFINITY,
      0,
      { 0 },
      0,
      0 },
    /* a signal is the end; at the second one nobody is waited for */
    { ONE_AND_ONE, "+node1@0 -node1@5 xnode1@7", INFINITY, INFINITY, 0, { 5 }, 0, 0 },
    { ONE_AND_ONE, "+node1@0 -node1@5", INFINITY, INFINITY, 0, { 5, 6 }, 0, 0 },
    /* no more than two, and one word about that; who leaves first is the draw of seed 1 */
    { "time_s,available\n0,5\n10,1\n20,1\n",
      "+node1@0 +node2@0 -node1@1 -node2@2",
      INFINITY,
      0.5,
      0,
      { 0 },
      2,
      1 },
};

START_TEST(what_is_done_and_when_is_what_was_worked_out)
{
    const struct story *s = &stories[_i];
    struct spot_live l = { .no_notice = s->no_notice, .max = s->max };
    struct spot_err err = { 0 };

    paper = quiet();
    paper.life_s = s->life_s;
    paper.obeys_s = s->obeys_s;
    memcpy(paper.signal_s, s->signal_s, sizeof(s->signal_s));
    ck_assert_msg(!play(s->rows, &l, &err), "%s", err.msg);
    ck_assert_str_eq(paper.told, s->told);
    ck_assert_int_eq(paper.n_warning, s->n_warning);
    ck_assert_int_eq(l.signal_got, s->signal_s[0] > 0 ? SIGTERM : 0);
    ck_assert_int_eq(l.supervisor.total.start, paper.n);
}
END_TEST

START_TEST(who_leaves_does_not_depend_on_how_late_we_are)
{
    static const char rows[] = "time_s,available\n0,6\n100,2\n200,7\n300,1\n310,4\n400,3\n";
    char left[TEXT_MAX];

    for (int late = 0; late < 2; late++) {
        struct spot_live l = { 0 };
        struct spot_err err = { 0 };

        paper = quiet();
        paper.obeys_s = 0.5;
        paper.late_s = 17 * late;
        ck_assert(!play(rows, &l, &err));
        if (late)
            ck_assert_str_eq(paper.left, left);
        strcpy(left, paper.left);
        ck_assert_int_eq(l.supervisor.total.start, 6 + 5 + 3);
        ck_assert_int_eq(l.supervisor.total.notice, 6 + 5 + 3);
        ck_assert_int_eq(l.supervisor.total.exit, 6 + 5 + 3);
    }
}
END_TEST

START_TEST(nodes_with_names_leave_at_their_notice)
{
    struct spot_live l = { 0 };
    struct spot_err err = { 0 };

    paper = quiet();
    paper.obeys_s = 0.5;
    ck_assert_msg(!play("time_s,event,node\n0,add,a\n0,add,b\n50,notice,b\n60,remove,b\n"
                        "100,add,b\n200,remove,a\n",
                        &l, &err),
                  "%s", err.msg);
    ck_assert_str_eq(paper.told, "+a@0 +b@0 -b@5 +b@10 -a@20 -b@20");
}
END_TEST

START_TEST(a_command_that_cannot_run_is_an_error)
{
    struct spot_live l = { 0 };
    struct spot_err err = { 0 };

    paper = quiet();
    paper.cannot_spawn = true;
    ck_assert_int_eq(play(ONE_AND_ONE, &l, &err), -1);
    ck_assert_str_eq(err.msg, "cannot run");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, what_is_done_and_when_is_what_was_worked_out, 0,
                        sizeof(stories) / sizeof(stories[0]));
    add_tests(tc);
    return run_suite("supervisor", tc);
}
