/* SPDX-License-Identifier: MIT */
#include "host/exec_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/protocol.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "host/exec_job_state.h"

/* --- members ------------------------------------------------------------------------ */

static int check_command(const struct spot_exec_job *job, uint64_t hash, uint32_t n_rank, char *why,
                         size_t n)
{
    if (n_rank != job->options->n_rank) {
        snprintf(why, n, "it has %lu ranks on a node, the job %lu (--nproc-per-node)",
                 (unsigned long)n_rank, (unsigned long)job->options->n_rank);
        return 1;
    }
    if (hash != job->options->hash) {
        snprintf(why, n,
                 "its COMMAND is not the one of the job, or --checkpoint or --rdzv-id is not "
                 "(hashes %016llx and %016llx)",
                 (unsigned long long)hash, (unsigned long long)job->options->hash);
        return 1;
    }
    return 0;
}

static int accept_agent(void *exec, struct spot_peer *peer, bool was_ours,
                        struct spot_wire_in *hello, char *why, size_t n)
{
    const struct spot_exec_job *const job = exec;
    struct spot_exec_member *member;
    struct spot_exec_holdings has;
    struct spot_exec_held held;
    char name[16];
    uint64_t hash;
    uint32_t n_rank;

    (void)was_ours;
    spot_get_text(hello, name, sizeof(name));
    if (strcmp(name, SPOT_EXEC_NAME) != 0)
        return 2;
    hash = spot_get_u64(hello);
    n_rank = spot_get_u32(hello);
    spot_exec_get_held(hello, &held);
    spot_exec_get_holdings(hello, &has);
    if (!spot_wire_in_done(hello)) {
        spot_exec_holdings_release(&has);
        snprintf(why, n, "malformed HELLO");
        return 1;
    }
    if (check_command(job, hash, n_rank, why, n)) {
        spot_exec_holdings_release(&has);
        return 1;
    }
    member = spot_xcalloc(1, sizeof(*member));
    member->held = held;
    member->has = has;
    member->joined_s = spot_clock_s();
    spot_peer_set_data(peer, member);
    return 0;
}
static int report(void *exec, struct spot_peer *peer, struct spot_wire_in *in)
{
    struct spot_exec_member *const member = spot_peer_data(peer);

    (void)exec;
    spot_exec_get_held(in, &member->held);
    spot_exec_holdings_release(&member->has);
    spot_exec_get_holdings(in, &member->has);
    return in->bad;
}

static void forget(void *exec, struct spot_peer *peer)
{
    struct spot_exec_member *const member = spot_peer_data(peer);

    spot_exec_news_gone(exec, peer);
    spot_exec_forgive(exec, member);
    spot_exec_forget_orders(exec, spot_peer_id(peer));
    spot_exec_disk_forget(exec, spot_peer_id(peer));
    spot_exec_holdings_release(&member->has);
    spot_exec_forget_pace(member);
    free(member);
}

/* --- rounds ------------------------------------------------------------------------- */

/* Forget reset requests of other epochs. */
static void forget_laid(struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);

    for (size_t i = 0; i < m->n_member; i++) {
        struct spot_exec_member *const x = spot_exec_member_at(job, i);

        if (x && x->laid == SPOT_EXEC_LAID_ASKED)
            x->laid = SPOT_EXEC_LAID_NOT;
    }
}

static int begin(void *exec, struct spot_view *view, struct spot_err *err)
{
    struct spot_exec_job *const job = exec;

    (void)err;
    if (!job->is_kept) {
        job->n_started = job->restart_count + 1;
        spot_exec_adopt_found_point(job);
    }
    job->states.has_begun = true;
    if (!job->is_kept || job->round_s <= 0)
        job->round_s = spot_clock_s();
    job->states.is_stale = job->states.has_news = true;
    forget_laid(job);
    spot_view_send_active(view, SPOT_MSG_ROUND, (uint64_t)spot_view_machine(view)->round, NULL, 0);
    (void)spot_exec_check_done(job); /* only nodes whose ranks had ended were lost */
    return 0;
}

/* The ranks of all nodes have stayed up: the round counts. */
static int commit(void *exec, struct spot_view *view, enum spot_verdict *verdict,
                  struct spot_err *err)
{
    struct spot_exec_job *const job = exec;

    (void)view;
    (void)err;
    job->n_futile = 0;
    *verdict = SPOT_VERDICT_COMMIT;
    return 0;
}

/* A member whose ranks compute owes no message. */
static bool owes(void *exec, const struct spot_peer *peer, bool as_machine)
{
    const struct spot_exec_job *const job = exec;

    (void)peer;
    return as_machine && spot_view_machine(job->view)->phase != SPOT_PHASE_RUN;
}

static bool is_saved(void *exec)
{
    const struct spot_exec_job *const job = exec;

    return job->is_saved || spot_view_machine(job->view)->phase != SPOT_PHASE_RUN;
}

/* --- status --------------------------------------------------------------------------- */

/* Seconds of work since the newest commit, or since the round began. */
static double at_risk_s(const struct spot_exec_job *job)
{
    const struct spot_exec_point *const newest = &job->states.newest;
    const bool is_of_round = newest->is_set && newest->id.key == job->states.key;

    return spot_clock_s() - (is_of_round && newest->agreed_s > 0 ? newest->agreed_s : job->round_s);
}

/* Write the steps of the newest commit and of the newest safe one. */
static void put_states(const struct spot_exec_states *s, struct spot_jw *jw)
{
    if (s->newest.is_set)
        spot_jw_int(jw, "committed", (int64_t)s->newest.id.step);
    if (s->safe.is_set)
        spot_jw_int(jw, "durable", (int64_t)s->safe.id.step);
    spot_jw_int(jw, "moves", (int64_t)s->n_order);
    spot_jw_int(jw, "mirrored_byte", (int64_t)s->moved_byte);
}

static void status(void *exec, struct spot_jw *jw)
{
    const struct spot_exec_job *const job = exec;
    const struct spot_machine *const m = spot_view_machine(job->view);
    int64_t n_done = 0, n_warm = 0;

    for (uint32_t g = 0; g < job->group_world; g++)
        n_done += job->is_done[g];
    for (size_t i = 0; i < m->n_member; i++)
        n_warm += ((const struct spot_exec_member *)spot_peer_data(
                       spot_group_find(job->group, m->member[i].id)))
                      ->warmth == SPOT_EXEC_WARM;
    spot_jw_object(jw, "exec");
    spot_jw_str(jw, "run_id", job->run_id);
    spot_jw_int(jw, "nodes", job->group_world);
    spot_jw_int(jw, "world", (int64_t)job->group_world * job->options->n_rank);
    spot_jw_int(jw, "started", job->n_started);
    spot_jw_int(jw, "done", n_done);
    spot_jw_int(jw, "warm", n_warm);
    spot_jw_int(jw, "failures", job->n_failed);
    if (m->phase == SPOT_PHASE_RUN)
        spot_jw_real(jw, "seconds_lost_if_killed_now", at_risk_s(job));
    put_states(&job->states, jw);
    spot_jw_end(jw);
    spot_exec_put_ranks(job, jw);
}

/* --- the job --- */

static const char *const frequent_events[] = { "committed", NULL };

const struct spot_workload spot_exec_workload = {
    .name = SPOT_EXEC_NAME,
    .rounds = SPOT_ROUNDS_KEPT, /* ranks may save before a round ends: tick_run */
    .frequent_events = frequent_events,
    .accept = accept_agent,
    .report = report,
    .forget = forget,
    .may_begin = spot_exec_may_begin,
    .layout = spot_exec_layout,
    .would_change = spot_exec_would_change,
    .begin = begin,
    .commit = commit,
    .message = spot_exec_message,
    .owes = owes,
    .tick = spot_exec_tick,
    .is_saved = is_saved,
    .status = status,
};

/* Report why the job failed: members must not wait for another coordinator. */
static void say_over(struct spot_exec_job *job, const char *why)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_buf out = { 0 };

    spot_put_text(&out, why);
    for (size_t i = 0; i < m->n_member; i++)
        spot_peer_send(spot_group_find(job->group, m->member[i].id), SPOT_MSG_EXEC_OVER, 0,
                       out.data, out.n);
    spot_buf_release(&out);
}

static int log_end(struct spot_exec_job *job, const char *event, struct spot_err *err)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_journal *const journal = spot_group_journal(job->group);
    struct spot_jw *const jw = spot_journal_begin(journal, event, m->epoch, m->round);

    if (jw) {
        spot_jw_int(jw, "started", job->n_started);
        spot_jw_int(jw, "failures", job->n_failed);
    }
    return spot_journal_end(journal, err);
}

/* Log that a coordinator begins. */
static int log_begin(struct spot_exec_job *job, struct spot_err *err)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_journal *const journal = spot_group_journal(job->group);
    struct spot_jw *const jw = spot_journal_begin(journal, "exec", m->epoch, m->round);

    if (jw) {
        spot_jw_int(jw, "ranks", job->options->n_rank);
        spot_jw_int(jw, "nodes_min", job->options->n_min);
        spot_jw_int(jw, "nodes_max", job->options->n_max);
    }
    return spot_journal_end(journal, err);
}

/* Where there are several coordinators, wait until this one leads. Returns 0, 1 if the job is over,
 * or -1 with *err. */
static int lead(struct spot_exec_job *job, struct spot_err *err)
{
    const struct spot_journal_record *before;
    char identity[24];

    snprintf(identity, sizeof(identity), "exec-%016llx", (unsigned long long)job->options->hash);
    if (spot_group_lead(job->group, identity, &before, err))
        return -1;
    if (!before)
        return 0;
    if (!strcmp(before->end, SPOT_JOB_GIVEN_UP))
        return spot_err_set(err, SPOT_EINFEASIBLE, "the coordinator that led has given up");
    if (!strcmp(before->end, SPOT_JOB_STOPPED) && !job->options->group.resume)
        return spot_err_set(err, SPOT_EINFEASIBLE, "the job was stopped; --resume continues it");
    return !strcmp(before->end, SPOT_JOB_FINISHED);
}

/* Nobody else can have joined a job without an address: its nodes have ended with it. */
static int stopped(const struct spot_exec_job *job, struct spot_err *err)
{
    char what[SPOT_STATE_DESCRIBED];

    if (job->options->group.listen)
        return spot_err_set(err, SPOT_EPREEMPTED,
                            "stopped in round %lu: its nodes wait for a coordinator until their "
                            "--join-timeout",
                            (unsigned long)job->n_started);
    if (!job->options->hands_out || !job->states.newest.is_set)
        return spot_err_set(err, SPOT_EPREEMPTED, "stopped in round %lu",
                            (unsigned long)job->n_started);
    spot_exec_describe_newest(job, what);
    return spot_err_set(err, SPOT_EPREEMPTED,
                        "stopped; %s is saved: the same line continues from it", what);
}

static int run(struct spot_exec_job *job, struct spot_err *err)
{
    int64_t round;
    int rc;

    spot_group_begin();
    rc = lead(job, err);
    if (rc)
        return rc < 0 ? -1 : 0;
    if (spot_exec_disk_open(job, err) || spot_group_open(job->group, &round, err))
        return -1;
    job->view = spot_group_view(job->group, 0);
    job->began_s = spot_clock_s();
    if (log_begin(job, err))
        return -1;
    if (spot_group_run(job->group, err)) {
        if (err->code == SPOT_EINFEASIBLE) {
            (void)log_end(job, "given_up", NULL);
            say_over(job, err->msg);
        }
        return -1;
    }
    if (!spot_group_is_over(job->group))
        return stopped(job, err);
    return log_end(job, "finished", err);
}

int spot_exec_run(const struct spot_exec_options *options, struct spot_err *err)
{
    struct spot_exec_job job = { .options = options,
                                 .disk.lock_fd = -1,
                                 .states.writer = UINT32_MAX };
    int rc;

    job.group = spot_group_new(&options->group, &spot_exec_workload, &job, err);
    if (!job.group)
        return -1;
    rc = run(&job, err);
    spot_group_report_end(job.group, !rc,
                          rc && err->code != SPOT_EPREEMPTED ? spot_err_exit_status(err) : 0,
                          rc ? err->msg : "all ranks are done");
    if (!rc || err->code == SPOT_EINFEASIBLE)
        spot_group_dismiss(job.group);
    if (spot_group_close_journal(job.group, rc ? NULL : err))
        rc = -1;
    spot_exec_drop_orders(&job);
    spot_exec_disk_close(&job);
    spot_group_free(job.group);
    free(job.states.order);
    free(job.is_done);
    return rc;
}
