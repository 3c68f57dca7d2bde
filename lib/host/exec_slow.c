/* SPDX-License-Identifier: MIT */
/* Ranks that take longer for a step than half of all ranks do: they are shown, warned about and, if
 * requested, set aside. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "host/exec_job_state.h"

enum { SHOWN_MAX = 16 };

static const double look_s = 1;
static const double warned_factor = 1.5, usual_after_s = 10;

struct rank {
    const struct spot_exec_member *member;
    uint32_t local;
    double one_s;
};

static int by_pace(const void *a, const void *b)
{
    const struct rank *const x = a, *const y = b;

    if (x->one_s > y->one_s || x->one_s < y->one_s)
        return x->one_s > y->one_s ? -1 : 1;
    return (x->member->group_rank > y->member->group_rank) -
           (x->member->group_rank < y->member->group_rank);
}

static bool is_active(const struct spot_exec_job *job, const struct spot_exec_member *x)
{
    return x && x->epoch == spot_view_machine(job->view)->epoch;
}

/* The ranks with a known pace, slowest first; freed by the caller. */
static struct rank *list_ranks(const struct spot_exec_job *job, size_t *n)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct rank *rank = NULL;
    size_t cap = 0;

    *n = 0;
    for (size_t i = 0; i < m->n_member; i++) {
        const struct spot_exec_member *const x = spot_exec_member_at(job, i);

        for (uint32_t k = 0; is_active(job, x) && x->pace && k < job->options->n_rank; k++) {
            if (!(x->pace[k].one_s > 0))
                continue;
            rank = spot_xgrow(rank, &cap, *n + 1, sizeof(*rank));
            rank[(*n)++] = (struct rank){ x, k, x->pace[k].one_s };
        }
    }
    if (*n)
        qsort(rank, *n, sizeof(*rank), by_pace);
    return rank;
}

/* Of an even number, the faster one of the two in the middle. */
static double median_of(const struct rank *rank, size_t n)
{
    return n ? rank[n / 2].one_s : 0;
}

static unsigned long number_of(const struct spot_exec_job *job, const struct rank *r)
{
    return (unsigned long)r->member->group_rank * job->options->n_rank + r->local;
}

void spot_exec_put_ranks(const struct spot_exec_job *job, struct spot_jw *jw)
{
    size_t n;
    struct rank *const rank = list_ranks(job, &n);
    const double median_s = median_of(rank, n);

    spot_jw_array(jw, "ranks");
    for (size_t i = 0; i < n && i < SHOWN_MAX; i++) {
        spot_jw_object(jw, NULL);
        spot_jw_int(jw, "rank", (int64_t)number_of(job, &rank[i]));
        spot_jw_str(jw, "name", spot_peer_name(spot_group_find(job->group, rank[i].member->id)));
        spot_jw_int(jw, "step", (int64_t)rank[i].member->pace[rank[i].local].step);
        spot_jw_real(jw, "step_s", rank[i].one_s);
        spot_jw_bool(jw, "slow", rank[i].one_s > warned_factor * median_s);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
    free(rank);
}

/* --- consequences --- */

static void warn_slow(const struct spot_exec_job *job, struct spot_exec_member *x,
                      const struct rank *r, double median_s)
{
    if (!x->was_told_slow)
        job->options->group.warn(
            "rank %lu on %s takes %.3g s for a step, half of all ranks at most %.3g s%s",
            number_of(job, r), spot_peer_name(spot_group_find(job->group, x->id)), r->one_s,
            median_s, x->is_slow ? ": it gets no place while there are enough other nodes" : "");
    x->was_told_slow = true;
}

/* True if the job could continue without the node. */
static bool is_dispensable(const struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    size_t n = 0;

    for (size_t i = 0; i < m->n_member; i++) {
        const struct spot_exec_member *const x = spot_exec_member_at(job, i);

        n += x && spot_view_may_place(job->view, &m->member[i]) && spot_exec_is_ready(job, x);
    }
    return n > job->options->n_min;
}

static void judge(struct spot_exec_job *job, struct spot_exec_member *x, const struct rank *slowest,
                  double median_s)
{
    const double asked = job->options->slow_factor, now_s = spot_clock_s();
    const double factor = asked > 0 ? asked : warned_factor;
    const double after_s =
        job->options->slow_after_s > 0 ? job->options->slow_after_s : usual_after_s;

    if (!slowest || slowest->one_s <= factor * median_s) {
        x->slow_s = 0;
        return;
    }
    if (x->slow_s <= 0)
        x->slow_s = now_s;
    if (now_s - x->slow_s < after_s)
        return;
    if (asked > 0 && !x->is_slow && is_dispensable(job)) {
        x->is_slow = true;
        x->was_told_slow = false;
        spot_view_want_change(job->view);
    }
    warn_slow(job, x, slowest, median_s);
}

void spot_exec_watch_pace(struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct rank *rank;
    size_t n;

    if (spot_clock_s() - job->watched_s < look_s || spot_view_wants_change(job->view))
        return;
    job->watched_s = spot_clock_s();
    rank = list_ranks(job, &n);
    for (size_t i = 0; i < m->n_member; i++) {
        struct spot_exec_member *const x = spot_exec_member_at(job, i);
        const struct rank *slowest = NULL;

        for (size_t k = n; k-- > 0;)
            if (rank[k].member == x)
                slowest = &rank[k];
        if (is_active(job, x))
            judge(job, x, slowest, median_of(rank, n));
    }
    free(rank);
}

/* --- reports of nodes --- */

void spot_exec_forget_pace(struct spot_exec_member *member)
{
    free(member->pace);
    member->pace = NULL;
    member->slow_s = 0;
    member->was_told_slow = false;
}

void spot_exec_heard_pace(struct spot_exec_job *job, struct spot_peer *peer,
                          const struct spot_frame *frame)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_exec_member *const x = spot_peer_data(peer);
    const uint32_t n = spot_get_count(&in, 16);
    struct spot_exec_rank_pace *const pace = spot_xcalloc(n + 1, sizeof(*pace));
    bool is_sound = n == job->options->n_rank;

    for (uint32_t i = 0; i < n; i++) {
        pace[i].step = spot_get_u64(&in);
        pace[i].one_s = spot_get_f64(&in);
        is_sound =
            is_sound && pace[i].one_s >= 0 && isfinite(pace[i].one_s) && pace[i].step <= INT64_MAX;
    }
    if (!is_sound || !spot_wire_in_done(&in)) {
        free(pace);
        spot_peer_drop(peer, "the pace of its ranks");
        return;
    }
    for (uint32_t i = 0; i < n && !x->pace; i++) /* the first report of this round */
        if (pace[i].step)
            spot_exec_check_anew(job, pace[i].step);
    free(x->pace);
    x->pace = pace;
}
