/* SPDX-License-Identifier: MIT */
/* How rounds of an exec job end: everything is done, a rank failed, or another round is wanted. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cluster/protocol.h"
#include "common/clock.h"
#include "host/exec_job_state.h"

static const double pause_first_s = 0.5, pause_max_s = 30;
static const double save_usual_s = 10;
/* part of a leaving node's time; the rest is for its last messages */
static const double left_share = 0.8;

static struct spot_exec_member *member_at(const struct spot_exec_job *job, size_t i)
{
    return spot_peer_data(spot_group_find(job->group, spot_view_machine(job->view)->member[i].id));
}

bool spot_exec_check_done(struct spot_exec_job *job)
{
    for (uint32_t g = 0; g < job->group_world; g++)
        if (!job->is_done[g])
            return false;
    if (!job->group_world)
        return false;
    if (!job->is_finishing)
        spot_exec_disk_hurry(job);
    job->is_finishing = true;
    if (!spot_exec_disk_is_behind(job) && spot_exec_hand_out(job))
        spot_group_end(job->group);
    return true;
}

/* --- failures ------------------------------------------------------------------------ */

static void put_how(const struct spot_peer *peer, uint32_t rank, int status, char *text, size_t n)
{
    if (WIFSIGNALED(status))
        snprintf(text, n, "rank %lu on %s ended by signal %d", (unsigned long)rank,
                 spot_peer_name(peer), WTERMSIG(status));
    else
        snprintf(text, n, "rank %lu on %s exited with status %d", (unsigned long)rank,
                 spot_peer_name(peer), WEXITSTATUS(status));
}

static int log_failed(struct spot_exec_job *job, const struct spot_peer *peer, uint32_t rank,
                      int status, struct spot_err *err)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_journal *const journal = spot_group_journal(job->group);
    struct spot_jw *const jw = spot_journal_begin(journal, "failed", m->epoch, m->round);

    spot_journal_about(journal, spot_peer_name(peer));
    if (jw) {
        spot_jw_str(jw, "name", spot_peer_name(peer));
        spot_jw_int(jw, "rank", rank);
        spot_jw_int(jw, WIFSIGNALED(status) ? "signal" : "status",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        spot_jw_int(jw, "failures", job->n_failed);
    }
    return spot_journal_end(journal, err);
}

/* Charge a failure. The first failure of an epoch ends it; later ones of that epoch are its
 * consequences. The next round begins at once the first time, then after pauses that double until a
 * round stays up. */
static void charge(struct spot_exec_job *job, uint32_t epoch)
{
    const double now_s = spot_clock_s();

    spot_exec_doubt(job);
    job->n_failed++;
    job->charged_epoch = epoch;
    job->charged_s = now_s;
    job->gives_up = job->n_failed > job->options->max_restarts;
    if (job->n_futile)
        job->not_before_s =
            now_s + fmin(pause_max_s, pause_first_s * pow(2, fmin(job->n_futile - 1, 16)));
    job->n_futile++;
}

/* Forgive failures caused by a lost node: its ranks' connections broke, and other ranks failed
 * before the loss was known. */
void spot_exec_forgive(struct spot_exec_job *job, const struct spot_exec_member *member)
{
    if (!job->charged_epoch || member->epoch != job->charged_epoch ||
        spot_clock_s() - job->charged_s > job->options->group.lease_s)
        return;
    job->n_failed--;
    job->n_futile -= job->n_futile > 0;
    job->states.n_tried -= job->states.n_tried > 0;
    job->charged_epoch = 0;
    job->not_before_s = 0;
    job->gives_up = false;
}

/* Write the reason why the job gives up. */
static void put_why(struct spot_exec_job *job, const char *how)
{
    const struct spot_exec_states *const s = &job->states;
    char from[SPOT_STATE_DESCRIBED];
    size_t n;

    snprintf(job->why, sizeof(job->why), "%.200s; %lu failures were tolerated before", how,
             (unsigned long)job->options->max_restarts);
    if (!s->n_tried)
        return;
    n = strlen(job->why);
    spot_exec_describe_newest(job, from);
    snprintf(job->why + n, sizeof(job->why) - n,
             "; nothing was saved since the ranks began from %s: if they cannot load it, move it "
             "away",
             from);
}

static int on_ended(struct spot_exec_job *job, struct spot_peer *peer,
                    const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const uint32_t rank = spot_get_u32(&in);
    const int status = (int)spot_get_u32(&in);
    char how[SPOT_WHY_MAX / 2], said[SPOT_WHY_MAX / 2];
    size_t n;

    spot_get_plain(&in, said, sizeof(said));
    if (!spot_wire_in_done(&in)) {
        spot_peer_drop(peer, "the end of a rank");
        return 0;
    }
    if (status) { /* otherwise it left after the order to save */
        put_how(peer, rank, status, how, sizeof(how));
        n = strlen(how);
        if (*said)
            snprintf(how + n, sizeof(how) - n, ": %.*s", (int)(sizeof(how) - n - 3), said);
        charge(job, frame->epoch);
        put_why(job, how);
        job->options->group.warn("%s (failure %lu, at most %lu are tolerated)", how,
                                 (unsigned long)job->n_failed,
                                 (unsigned long)job->options->max_restarts);
        if (log_failed(job, peer, rank, status, err))
            return -1;
    }
    return spot_view_break(job->view, frame->epoch, err);
}

int spot_exec_message(void *exec, struct spot_peer *peer, const struct spot_frame *frame,
                      struct spot_err *err)
{
    struct spot_exec_job *const job = exec;
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_exec_member *const member = spot_peer_data(peer);

    if (frame->type == SPOT_MSG_EXEC_WARM) {
        spot_exec_heard_warm(job, member, frame->tag);
        return 0;
    }
    if (frame->type == SPOT_MSG_EXEC_LEDGER)
        return spot_exec_heard_plan(job, peer, frame, err);
    if (frame->epoch != m->epoch)
        return 0;
    if (frame->type == SPOT_MSG_EXEC_MOVED)
        return spot_exec_on_moved(job, peer, frame, err);
    if (frame->type >= SPOT_MSG_EXEC_FETCH && frame->type <= SPOT_MSG_EXEC_PIECES)
        return spot_exec_disk_hear(job, peer, frame, err);
    if (frame->type == SPOT_MSG_EXEC_LAID) {
        spot_exec_heard_laid(job, peer, frame);
        return 0;
    }
    if (m->phase != SPOT_PHASE_RUN || member->epoch != m->epoch)
        return 0;
    if (frame->type == SPOT_MSG_EXEC_TOOK)
        return spot_exec_on_took(job, peer, frame, err);
    if (frame->type == SPOT_MSG_EXEC_PACE) {
        spot_exec_heard_pace(job, peer, frame);
        return 0;
    }
    if (frame->type == SPOT_MSG_EXEC_OFFER)
        return spot_exec_on_offer(job, peer, frame, err);
    if (frame->type == SPOT_MSG_EXEC_ENDED)
        return on_ended(job, peer, frame, err);
    if (frame->type == SPOT_MSG_EXEC_SAVED)
        member->has_saved = true;
    if (frame->type == SPOT_MSG_EXEC_DONE && member->group_rank < job->group_world) {
        job->is_done[member->group_rank] = true;
        return spot_exec_check_done(job) ? 0 : spot_exec_agree_without(job, err);
    }
    return 0;
}

/* --- a new round is wanted --------------------------------------------------------- */

/* Order all ranks to save, since only they know which of them writes a checkpoint. Wait at most
 * until the deadline of the first leaving node. */
static void begin_saving(struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    double left_s;

    job->saving_of_s = INFINITY;
    for (size_t i = 0; i < m->n_member; i++)
        if (m->member[i].role == SPOT_ROLE_ACTIVE && m->member[i].is_leaving)
            job->saving_of_s =
                fmin(job->saving_of_s,
                     spot_peer_time_left_s(spot_group_find(job->group, m->member[i].id)));
    left_s = left_share * job->saving_of_s;
    if (job->options->save_s >= 0 || isinf(left_s))
        left_s = fmin(job->options->save_s < 0 ? save_usual_s : job->options->save_s, left_s);
    left_s = fmax(left_s, 0);
    job->saving_epoch = m->epoch;
    job->saving_s = left_s;
    job->saving_until_s = spot_clock_s() + left_s;
    spot_view_send_active(job->view, SPOT_MSG_EXEC_SAVE, 0, NULL, 0);
}

/* Called once, when the epoch ends. */
static void warn_unsaved(const struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    char of[32] = "";

    if (isfinite(job->saving_of_s))
        snprintf(of, sizeof(of), " of %.1f", job->saving_of_s);

    for (size_t i = 0; i < m->n_member; i++)
        if (m->member[i].role == SPOT_ROLE_ACTIVE && !member_at(job, i)->has_saved)
            job->options->group.warn(
                "ranks on %s did not save within %.1f s%s: work since the last commit is repeated "
                "(--save-time, and .8 of the time of a notice)",
                spot_peer_name(spot_group_find(job->group, m->member[i].id)), job->saving_s, of);
}

static bool has_saved(const struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);

    if (spot_clock_s() >= job->saving_until_s) {
        warn_unsaved(job);
        return true;
    }
    for (size_t i = 0; i < m->n_member; i++)
        if (m->member[i].role == SPOT_ROLE_ACTIVE && !member_at(job, i)->has_saved)
            return false;
    return true;
}

static int tick_run(struct spot_exec_job *job, struct spot_err *err)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    const bool is_stopping = spot_group_is_stopping(job->group);

    if (m->phase != SPOT_PHASE_RUN ||
        (!is_stopping && (job->is_finishing || !spot_view_wants_change(job->view))))
        return 0;
    if (job->saving_epoch != m->epoch) {
        begin_saving(job);
        return 0;
    }
    if (!has_saved(job))
        return 0;
    job->is_saved = is_stopping;
    return is_stopping ? 0 : spot_view_break(job->view, m->epoch, err);
}

int spot_exec_tick(void *exec, struct spot_err *err)
{
    struct spot_exec_job *const job = exec;

    if (job->gives_up && spot_clock_s() - job->charged_s > job->options->group.lease_s)
        return spot_err_set(err, SPOT_EINFEASIBLE, "%.500s", job->why);
    spot_exec_news_wait(job);
    spot_exec_keep_warm(job);
    if (spot_exec_bucket_tick(job, err))
        return -1;
    if (spot_view_machine(job->view)->phase == SPOT_PHASE_RUN) {
        spot_exec_invite(job);
        spot_exec_warn_late(job);
        spot_exec_watch_pace(job);
        if (spot_exec_disk_tick(job, err) || spot_exec_make_safe(job, err))
            return -1;
        if (job->is_finishing)
            (void)spot_exec_check_done(job);
    }
    return tick_run(job, err);
}
