/* SPDX-License-Identifier: MIT */
/* The coordinator's side of the toy. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/group.h"
#include "comm/endpoint.h"
#include "comm/wire.h"
#include "common/xalloc.h"
#include "toy.h"

struct view {
    int64_t round; /* committed are those below; as in the file */
    uint64_t value;
    bool is_done;
};

struct toy {
    const struct toy_options *options;
    struct spot_group *group;
    FILE *commits;
    struct view view[TOY_VIEWS_MAX];
};

struct held {
    int64_t known, at; /* the member has the values of these rounds */
};

/* --- members ---------------------------------------------------------------- */

static int report(void *job, struct spot_peer *peer, struct spot_wire_in *in)
{
    struct held *const held = spot_peer_data(peer);

    (void)job;
    held->known = spot_get_i64(in);
    held->at = spot_get_i64(in);
    return in->bad || held->known < 0 || held->at < held->known;
}

static int accept_member(void *job, struct spot_peer *peer, bool was_ours,
                         struct spot_wire_in *hello, char *why, size_t n)
{
    (void)was_ours;
    spot_peer_set_data(peer, spot_xcalloc(1, sizeof(struct held)));
    if (!report(job, peer, hello) && spot_wire_in_done(hello))
        return 0;
    snprintf(why, n, "this is a toy");
    return 1;
}

static void welcome(void *job, struct spot_peer *peer, struct spot_buf *out)
{
    const struct toy *const t = job;

    (void)peer;
    spot_put_u32(out, t->options->way);
    spot_put_i64(out, t->options->n_round);
    spot_put_u32(out, t->options->pause_ms);
}

static void forget(void *job, struct spot_peer *peer)
{
    (void)job;
    free(spot_peer_data(peer));
}

/* r2.b is of replica 2, view 1. */
static uint32_t view_of(void *job, const struct spot_peer *peer)
{
    const struct toy *const t = job;
    const char *const name = spot_peer_name(peer);
    const unsigned long k = *name == 'r' ? strtoul(name + 1, NULL, 10) : 1;

    return k >= 1 && k <= t->options->n_view ? (uint32_t)k - 1 : 0;
}

/* --- a new epoch ------------------------------------------------------------ */

static bool has(const struct toy *t, uint32_t id, int64_t round)
{
    const struct held *const held = spot_peer_data(spot_group_find(t->group, id));

    return held->known <= round && round <= held->at;
}

static void put_peer(const struct toy *t, struct spot_buf *out, uint32_t id, uint32_t to)
{
    char address[SPOT_ADDRESS_MAX + 8];

    spot_peer_address(spot_group_find(t->group, id), spot_group_find(t->group, to), address);
    spot_put_u32(out, id);
    spot_put_text(out, address);
}

/* Who lacks the counter exchanges frames with the giver, and with nobody else. */
static void send_form(struct toy *t, const struct spot_machine *m, const struct view *v, size_t to,
                      uint32_t giver)
{
    const uint32_t id = m->member[to].id;
    struct spot_buf list = { 0 }, out = { 0 };
    uint32_t n = 0;

    for (size_t i = 0; giver && i < m->n_member; i++) {
        const uint32_t other = m->member[i].id;

        if (m->member[i].role == SPOT_ROLE_SPARE || other == id)
            continue;
        if (id == giver ? !has(t, other, v->round) : other == giver && !has(t, id, v->round)) {
            put_peer(t, &list, other, id);
            n++;
        }
    }
    spot_put_i64(&out, v->round);
    spot_put_u32(&out, giver);
    spot_put_u64(&out, giver ? 0 : v->value);
    spot_put_u32(&out, n);
    spot_buf_add(&out, list.data, list.n);
    spot_peer_send(spot_group_find(t->group, id), SPOT_MSG_FORM, 0, out.data, out.n);
    spot_buf_release(&list);
    spot_buf_release(&out);
}

/* All that may have a place get one. One that leaves can still be the source. */
static int layout(void *job, struct spot_view *view, struct spot_err *err)
{
    struct toy *const t = job;
    const struct view *const v = &t->view[spot_view_index(view)];
    const struct spot_machine *const m = spot_view_machine(view);
    const size_t n_least = t->options->n_least ? t->options->n_least : 1;
    uint32_t giver = 0;

    (void)err;
    if (spot_view_placeable(view) < n_least) {
        spot_view_hold(view);
        return 0;
    }
    for (size_t i = 0; i < m->n_member && !giver; i++)
        if (has(t, m->member[i].id, v->round))
            giver = m->member[i].id;
    for (size_t i = 0; i < m->n_member; i++) {
        const uint32_t id = m->member[i].id;

        if (spot_view_may_place(view, &m->member[i]))
            spot_view_set_role(view, id, SPOT_ROLE_ACTIVE);
        else
            spot_view_set_role(view, id, id == giver ? SPOT_ROLE_SOURCE : SPOT_ROLE_SPARE);
    }
    for (size_t i = 0; i < m->n_member; i++)
        if (m->member[i].role != SPOT_ROLE_SPARE)
            send_form(t, m, v, i, giver);
    spot_view_form(view, v->round);
    return 0;
}

/* --- rounds ----------------------------------------------------------------- */

/* The job ends with the last view. */
static void finish(struct toy *t, struct view *v)
{
    v->is_done = true;
    for (uint32_t i = 0; i < t->options->n_view; i++)
        if (!t->view[i].is_done)
            return;
    spot_group_end(t->group);
}

static int begin(void *job, struct spot_view *view, struct spot_err *err)
{
    struct toy *const t = job;
    struct view *const v = &t->view[spot_view_index(view)];

    (void)err;
    if (v->round < t->options->n_round) {
        spot_view_send_active(view, SPOT_MSG_ROUND, (uint64_t)v->round, NULL, 0);
        return 0;
    }
    spot_view_rest(view);
    finish(t, v);
    return 0;
}

static int vote(void *job, struct spot_view *view, struct spot_peer *peer, int64_t round,
                struct spot_wire_in *in, struct spot_err *err)
{
    const struct toy *const t = job;
    const struct view *const v = &t->view[spot_view_index(view)];
    const uint64_t value = spot_get_u64(in);
    uint64_t want = v->value;

    if (!spot_wire_in_done(in) || round < v->round || round > v->round + 2 * TOY_AHEAD)
        return 1;
    for (int64_t r = v->round; r < round; r++)
        want = toy_next(want, r);
    if (value == want)
        return 0;
    return spot_err_set(err, SPOT_EDATA, "%s has %016llx in round %lld, it should be %016llx",
                        spot_peer_name(peer), (unsigned long long)value, (long long)round,
                        (unsigned long long)want);
}

static int commit(void *job, struct spot_view *view, enum spot_verdict *verdict,
                  struct spot_err *err)
{
    struct toy *const t = job;
    struct view *const v = &t->view[spot_view_index(view)];
    const int64_t from = v->round;

    *verdict = SPOT_VERDICT_COMMIT;
    for (v->round = from; v->round < spot_view_reached(view); v->round++)
        v->value = toy_next(v->value, v->round);
    fprintf(t->commits, "%u %lld %lld %016llx\n", (unsigned)spot_view_index(view), (long long)from,
            (long long)v->round, (unsigned long long)v->value);
    if (fflush(t->commits))
        return spot_err_set(err, SPOT_ESYS, "cannot write %s", t->options->commits);
    spot_view_send_active(view, SPOT_MSG_COMMIT, (uint64_t)v->round, NULL, 0);
    if (t->options->way == TOY_ANNOUNCED && v->round >= t->options->n_round)
        finish(t, v);
    return 0;
}

/* --- the whole -------------------------------------------------------------- */

/* Where an earlier coordinator stopped. */
static int open_commits(struct toy *t, struct spot_err *err)
{
    unsigned i;
    long long from, to;
    unsigned long long value;

    t->commits = fopen(t->options->commits, "a+");
    if (!t->commits)
        return spot_err_set(err, SPOT_ESYS, "cannot open %s", t->options->commits);
    while (fscanf(t->commits, "%u %lld %lld %llx", &i, &from, &to, &value) == 4)
        if (i < TOY_VIEWS_MAX) {
            t->view[i].round = to;
            t->view[i].value = value;
        }
    return 0;
}

static void warn(const char *fmt, ...) SPOT_PRINTF(1, 2);
static void warn(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

static int run(struct toy *t, struct spot_err *err)
{
    int64_t round;

    spot_group_begin();
    if (open_commits(t, err) || spot_group_open(t->group, &round, err))
        return -1;
    for (uint32_t i = 0; i < t->options->n_view; i++)
        if (!spot_group_add_view(t->group, t->view[i].round))
            return spot_err_set(err, SPOT_EUSAGE, "%u views are too many", (unsigned)i);
    return spot_group_run(t->group, err);
}

int toy_coordinate(const struct toy_options *options, struct spot_err *err)
{
    struct spot_workload workload = {
        .name = "toy",
        .rounds = options->way == TOY_ANNOUNCED ? SPOT_ROUNDS_ANNOUNCED : SPOT_ROUNDS_LOCKSTEP,
        .accept = accept_member,
        .welcome = welcome,
        .report = report,
        .forget = forget,
        .view_of = view_of,
        .layout = layout,
        .begin = begin,
        .vote = vote,
        .commit = commit,
    };
    const struct spot_group_options group = {
        .listen = options->address,
        .events = options->events,
        .resume = options->events != NULL,
        .lease_s = options->lease_s,
        .stall_s = 10 * options->lease_s,
        .settle_s = 0.1,
        .warn = warn,
    };
    struct toy t = { .options = options };
    int rc;

    t.group = spot_group_new(&group, &workload, &t, err);
    if (!t.group)
        return -1;
    rc = run(&t, err);
    spot_group_report_end(t.group, !rc, rc ? spot_err_exit_status(err) : 0, rc ? err->msg : "done");
    if (!rc)
        spot_group_dismiss(t.group);
    if (spot_group_close_journal(t.group, rc ? NULL : err))
        rc = -1;
    spot_group_free(t.group);
    if (t.commits)
        fclose(t.commits);
    return rc;
}
