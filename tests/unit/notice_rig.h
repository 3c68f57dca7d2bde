/* SPDX-License-Identifier: MIT */
/* notice_rig.h - a watch in this thread, and all that it told and warned of. */
#ifndef SPOT_TESTS_NOTICE_RIG_H
#define SPOT_TESTS_NOTICE_RIG_H

#include <math.h>
#include <stdarg.h>

#include "cluster/notice.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "suite.h"

enum { TOLD_MAX = 96, WARNED_MAX = 8 };

static struct watched {
    struct spot_notice_watch *watch;
    struct spot_notice told[TOLD_MAX];
    int n_told, n_warned;
    char warned[WARNED_MAX][400];
    /* What comes next: after each notice and warning; NULL */
    void (*next)(void);
} seen;

static inline void on_told(void *user, const struct spot_notice *n)
{
    ck_assert_ptr_eq(user, &seen);
    ck_assert_int_lt(seen.n_told, TOLD_MAX);
    seen.told[seen.n_told++] = *n;
    if (seen.next)
        seen.next();
}

static inline void on_warn(const char *fmt, ...) SPOT_PRINTF(1, 2);
static inline void on_warn(const char *fmt, ...)
{
    va_list ap;

    ck_assert_int_lt(seen.n_warned, WARNED_MAX);
    va_start(ap, fmt);
    vsnprintf(seen.warned[seen.n_warned++], sizeof(seen.warned[0]), fmt, ap);
    va_end(ap);
    if (seen.next)
        seen.next();
}

static inline void open_watch(struct spot_notice_options o, void (*next)(void))
{
    struct spot_err err = { 0 };

    seen = (struct watched){ .next = next };
    o.noticed = on_told;
    o.user = &seen;
    o.warn = on_warn;
    if (o.interval_s <= 0)
        o.interval_s = 0.005;
    seen.watch = spot_notice_new(&o, &err);
    ck_assert_msg(seen.watch != NULL, "%s", err.msg);
}

/* Until `next` stops it. */
static inline void watch(struct spot_notice_options o, void (*next)(void))
{
    struct spot_err err = { 0 };

    open_watch(o, next);
    ck_assert_msg(!spot_notice_run(seen.watch, &err), "%s", err.msg);
    spot_notice_free(seen.watch);
}

/* --- what was told --- */

static inline void expect_told(int i, enum spot_notice_kind kind, enum spot_notice_state state,
                               const char *id)
{
    ck_assert_int_lt(i, seen.n_told);
    ck_assert_str_eq(spot_notice_kind_name(seen.told[i].kind), spot_notice_kind_name(kind));
    ck_assert_str_eq(spot_notice_state_name(seen.told[i].state), spot_notice_state_name(state));
    ck_assert_str_eq(seen.told[i].id, id);
}

/* Time has passed since the deadline was chosen, but no minute. */
static inline void expect_left(int i, double left_s)
{
    ck_assert_int_lt(i, seen.n_told);
    ck_assert_msg(seen.told[i].left_s <= left_s + 1.5 && seen.told[i].left_s > left_s - 60,
                  "%g s left, not %g", seen.told[i].left_s, left_s);
}

static inline void expect_warned(int i, const char *text)
{
    ck_assert_int_lt(i, seen.n_warned);
    ck_assert_msg(strstr(seen.warned[i], text) != NULL, "no '%s' in '%s'", text, seen.warned[i]);
}

#endif /* SPOT_TESTS_NOTICE_RIG_H */
