/* SPDX-License-Identifier: MIT */
/* Commits that one rank makes for all, and those of files that a script saves by itself: nodes
 * offer them to the coordinator, which orders one node or all of them to store theirs, so that
 * nodes do not store different files under the name of one commit. */
#include <math.h>
#include <stdio.h>

#include "common/clock.h"
#include "host/exec_agent_state.h"

static const double pause_first_s = 1, pause_max_s = 60; /* pause after a refused offer */
/* limit on the wait for a file that is being written, since others wait too */
static const double busy_max_s = 60;
static const double end_s = 5; /* time to take what was saved just before the ranks ended */

void spot_exec_offer_begin(struct spot_exec_agent *e)
{
    spot_buf_release(&e->offer.dirs);
    e->offer = (struct spot_exec_offer){ 0 };
    if (e->options->files)
        spot_rank_files_begin(e->options->files, e->form.env.has_state, !e->form.env.group_rank);
}

void spot_exec_offer_again(struct spot_exec_agent *e)
{
    e->offer.is_out = false;
    for (size_t i = 0; i < e->commit.n; i++)
        e->commit.say[i].is_offered = false;
}

static int offer(struct spot_exec_agent *e, uint64_t step, struct spot_err *err)
{
    struct spot_buf out = { 0 }, dirs = { 0 };

    if (e->options->files)
        spot_rank_files_list(e->options->files, &dirs);
    spot_put_u8(&out, e->options->files ? SPOT_EXEC_OF_FILES : SPOT_EXEC_OF_ONE);
    spot_put_u64(&out, step);
    spot_put_u32(&out, (uint32_t)dirs.n);
    spot_buf_add(&out, dirs.data, dirs.n);
    spot_buf_release(&dirs);
    return spot_agent_send(&e->agent, SPOT_MSG_EXEC_OFFER, 0, &out, err);
}

/* One offer at a time, also for commits announced by ranks; the others follow when it is decided.
 */
static int offer_said(struct spot_exec_agent *e, struct spot_err *err)
{
    struct spot_exec_say *least = NULL;

    for (size_t i = 0; i < e->commit.n; i++) {
        struct spot_exec_say *const say = &e->commit.say[i];

        if (say->is_alone && !say->is_agreed && (!least || say->step < least->step))
            least = say;
    }
    if (!least || least->is_offered)
        return 0;
    least->is_offered = true;
    return offer(e, least->step, err);
}

/* True if the script's files are watched. With a ledger of samples a commit must name its step, so
 * the script must commit itself. */
static bool watches(const struct spot_exec_agent *e)
{
    return e->options->files && !spot_ledger_plan(e->ledger.ledger);
}

static int offer_files(struct spot_exec_agent *e, struct spot_err *err)
{
    if (!watches(e) || e->offer.is_out || spot_clock_s() < e->offer.not_before_s ||
        spot_rank_files_look(e->options->files) != SPOT_FILES_READY)
        return 0;
    e->offer.is_out = true;
    return offer(e, UINT64_MAX, err);
}

/* Carry out the order to store. Waits for a file that is being written, but not for ever, since
 * others wait. */
static void carry_out(struct spot_exec_agent *e)
{
    struct spot_exec_offer *const o = &e->offer;
    struct spot_exec_commit *const c = &e->commit;
    struct spot_exec_taken *const t = spot_exec_commit_add(e, o->id.step, SPOT_EXEC_OF_FILES);

    spot_exec_commit_take(e, t);
    if (t->is_early && spot_clock_s() - o->since_s < busy_max_s) {
        c->n_taken--;
        return;
    }
    if (t->is_early)
        snprintf(t->why, sizeof(t->why), "'%.200s' has been written to for %g s",
                 spot_rank_files_busy(e->options->files), busy_max_s);
    else if (!t->n_byte && !*t->why && o->is_out) /* it would replace a commit that has files */
        snprintf(t->why, sizeof(t->why), "the checkpoint is gone again");
    o->is_due = false;
}

int spot_exec_offer_tick(struct spot_exec_agent *e, struct spot_err *err)
{
    if (!e->has_ranks || e->is_stopping)
        return 0;
    if (e->offer.is_due && !e->commit.n_taken)
        carry_out(e);
    if (e->offer.is_due || e->commit.n_taken)
        return 0;
    return offer_said(e, err) || offer_files(e, err) ? -1 : 0;
}

int spot_exec_offer_take(struct spot_exec_agent *e, const struct spot_frame *frame,
                         struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_exec_offer *const o = &e->offer;
    const uint8_t *dirs;
    struct spot_state_id id;
    uint8_t scope;
    uint32_t n;

    spot_state_id_get(&in, &id);
    scope = spot_get_u8(&in);
    (void)spot_get_u64(&in);
    n = spot_get_count(&in, 1);
    dirs = spot_get_bytes(&in, n);
    if (!spot_wire_in_done(&in) || scope == SPOT_EXEC_OF_ALL || scope >= SPOT_EXEC_SCOPES ||
        (scope == SPOT_EXEC_OF_FILES) != !!e->options->files)
        return spot_err_set(err, SPOT_ESYS, "the coordinator sent a malformed TAKE");
    if (id.key != e->held.key || e->commit.n_taken == SPOT_EXEC_TAKEN_MAX || !e->has_ranks ||
        e->is_stopping || (e->commit.has_floor && id.step <= e->commit.floor))
        return 0;
    if (scope == SPOT_EXEC_OF_ONE) {
        const bool is_next = !e->commit.n_taken;

        spot_exec_commit_take(e, spot_exec_commit_add(e, id.step, SPOT_EXEC_OF_ONE));
        return is_next ? spot_exec_commit_tell(e, err) : 0;
    }
    o->is_due = true;
    o->id = id;
    o->since_s = spot_clock_s();
    o->dirs.n = 0;
    spot_buf_add(&o->dirs, dirs, n);
    return 0;
}

void spot_exec_offer_answered(struct spot_exec_agent *e, uint64_t step, const char *why)
{
    struct spot_exec_offer *const o = &e->offer;

    spot_exec_offer_again(e);
    if (o->is_due && o->id.step <= step)
        o->is_due = false;
    if (!*why) {
        o->pause_s = 0;
        return;
    }
    if (e->options->files)
        spot_rank_files_again(e->options->files);
    o->pause_s = o->pause_s > 0 ? fmin(2 * o->pause_s, pause_max_s) : pause_first_s;
    o->not_before_s = spot_clock_s() + o->pause_s;
}

bool spot_exec_offer_pends(struct spot_exec_agent *e)
{
    struct spot_exec_offer *const o = &e->offer;

    if (!watches(e))
        return false;
    if (o->done_s <= 0) {
        o->done_s = spot_clock_s();
        spot_rank_files_hurry(e->options->files);
    }
    return spot_clock_s() - o->done_s < end_s &&
           (o->is_out || o->is_due || e->commit.n_taken ||
            spot_rank_files_look(e->options->files) != SPOT_FILES_SAME);
}
