/* SPDX-License-Identifier: MIT */
/* Commits: a step is committed when every place of the round has reported that it stored it. Each
 * node reports one step at a time, and none twice. */
#include <stdio.h>

#include "cluster/protocol.h"
#include "common/clock.h"
#include "host/exec_job_state.h"

enum { LATE_S = 5 };

/* --- events --- */

int spot_exec_log_step(struct spot_exec_job *job, const char *event, uint64_t step,
                       void (*more)(const struct spot_exec_job *job, struct spot_jw *jw),
                       struct spot_err *err)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_journal *const journal = spot_group_journal(job->group);
    struct spot_jw *const jw = spot_journal_begin(journal, event, m->epoch, (int64_t)step);

    if (jw)
        more(job, jw);
    return spot_journal_end(journal, err);
}

static void put_committed(const struct spot_exec_job *job, struct spot_jw *jw)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    uint64_t n_byte = 0;

    for (size_t i = 0; i < m->n_member; i++) {
        const struct spot_exec_member *const x = spot_exec_member_at(job, i);

        n_byte += x && x->has_took ? x->took_byte : 0;
    }
    spot_jw_int(jw, "restart", job->restart_count);
    spot_jw_int(jw, "nodes", job->states.newest.world);
    spot_jw_int(jw, "byte", (int64_t)n_byte);
}

static void put_rolled_back(const struct spot_exec_job *job, struct spot_jw *jw)
{
    spot_jw_int(jw, "from", (int64_t)job->states.standing);
    spot_jw_int(jw, "to", (int64_t)job->states.newest.id.step);
}

static void put_restored(const struct spot_exec_job *job, struct spot_jw *jw)
{
    const struct spot_exec_states *const s = &job->states;

    if (s->has_standing)
        spot_jw_int(jw, "from", (int64_t)s->standing);
    spot_jw_int(jw, "restart", job->restart_count);
    spot_jw_int(jw, "nodes", s->newest.world);
}

/* Log the commit from which a round begins, after a rollback. */
int spot_exec_log_restored(struct spot_exec_job *job, struct spot_err *err)
{
    struct spot_exec_states *const s = &job->states;
    const uint64_t step = s->newest.is_set ? s->newest.id.step : 0;

    if (!s->newest.is_set && !s->has_standing)
        return 0;
    if (s->has_standing && s->standing > step) {
        if (spot_exec_log_step(job, "rolled_back", step, put_rolled_back, err))
            return -1;
        s->standing = step;
    }
    if (s->newest.is_set && spot_exec_log_step(job, "restored", step, put_restored, err))
        return -1;
    s->has_standing = true;
    s->standing = step;
    return 0;
}

/* --- answers --- */

static void put_answer(const struct spot_exec_job *job, uint64_t step, const char *why,
                       struct spot_buf *out)
{
    const struct spot_state_id id = { job->restart_count, job->states.key, step };

    spot_state_id_put(out, &id);
    spot_put_text(out, why);
    spot_state_saved_put(out, &job->states.newest.saved);
    spot_put_u32(out, job->states.writer);
}

/* Find the only node whose commit contains files, if there is just one, and the time at which the
 * files were written. */
static void note_writer(struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_exec_states *const s = &job->states;
    size_t n = 0;

    for (size_t i = 0; i < m->n_member; i++) {
        const struct spot_exec_member *const x = spot_exec_member_at(job, i);

        if (!x || !x->has_took || !x->took_byte)
            continue;
        s->writer = n++ ? UINT32_MAX : x->group_rank;
        if (x->took_saved.at_ns > s->newest.saved.at_ns)
            s->newest.saved = x->took_saved;
    }
    if (!n)
        s->writer = UINT32_MAX;
}

static void answer_all(struct spot_exec_job *job, uint64_t step, const char *why)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_exec_states *const s = &job->states;
    struct spot_buf out = { 0 };

    put_answer(job, step, why, &out);
    spot_view_send_active(job->view, SPOT_MSG_EXEC_ANSWER, 0, out.data, out.n);
    spot_buf_release(&out);
    s->has_floor = true;
    s->floor = step;
    s->has_asked = s->has_asked && s->asked > step;
    for (size_t i = 0; i < m->n_member; i++) {
        struct spot_exec_member *const x = spot_exec_member_at(job, i);

        if (x)
            x->has_took = false;
    }
}

static void refuse(struct spot_exec_job *job, uint64_t step, const char *why)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_exec_states *const s = &job->states;
    char text[SPOT_WHY_MAX];

    for (size_t i = 0; i < m->n_member; i++) { /* refused for every node that reported it */
        struct spot_exec_member *const x = spot_exec_member_at(job, i);

        if (x && x->has_took) {
            const struct spot_state_id id = { job->restart_count, s->key, x->took };

            spot_exec_drop_holding(x, &id, x->scope == SPOT_EXEC_OF_ONE ? 0 : x->group_rank);
            step = x->took > step ? x->took : step;
        }
    }
    snprintf(text, sizeof(text), "%s", why);
    snprintf(s->refused, sizeof(s->refused), "%s", text);
    job->options->group.warn("step %llu is not committed: %s", (unsigned long long)step, text);
    answer_all(job, step, text);
}

static int agree(struct spot_exec_job *job, uint64_t step, uint32_t world, struct spot_err *err)
{
    struct spot_exec_states *const s = &job->states;

    spot_exec_check_anew(job, step);
    s->newest = (struct spot_exec_point){ .is_set = true,
                                          .id = { job->restart_count, s->key, step },
                                          .world = world,
                                          .agreed_s = spot_clock_s() };
    note_writer(job);
    s->has_standing = true;
    s->standing = step;
    if (spot_exec_log_step(job, "committed", step, put_committed, err))
        return -1;
    answer_all(job, step, "");
    s->has_news = s->is_stale = true;
    return spot_exec_make_safe(job, err);
}

/* --- have all places reported? --- */

static const struct spot_exec_member *at_place(const struct spot_exec_job *job, uint32_t place)
{
    const struct spot_machine *const m = spot_view_machine(job->view);

    for (size_t i = 0; i < m->n_member; i++) {
        const struct spot_exec_member *const x = spot_exec_member_at(job, i);

        if (x && x->epoch == m->epoch && x->group_rank == place)
            return x;
    }
    return NULL;
}

static int consider(struct spot_exec_job *job, bool waits_for_done, struct spot_err *err)
{
    uint64_t least = UINT64_MAX, most = 0;
    char why[SPOT_WHY_MAX];

    for (uint32_t g = 0; g < job->group_world && !waits_for_done; g++)
        if (job->is_done[g]) {
            const struct spot_machine *const m = spot_view_machine(job->view);

            for (size_t i = 0; i < m->n_member; i++) {
                const struct spot_exec_member *const x = spot_exec_member_at(job, i);

                most = x && x->has_took && x->took > most ? x->took : most;
            }
            snprintf(why, sizeof(why), "the ranks of node %lu have ended", (unsigned long)g);
            refuse(job, most, why);
            return 0;
        }
    for (uint32_t g = 0; g < job->group_world; g++) {
        const struct spot_exec_member *const x = at_place(job, g);

        if (!x || !x->has_took)
            return 0;
        least = x->took < least ? x->took : least;
        most = x->took > most ? x->took : most;
    }
    if (least == most)
        return agree(job, most, job->group_world, err);
    snprintf(why, sizeof(why), "nodes commit steps %llu and %llu", (unsigned long long)least,
             (unsigned long long)most);
    refuse(job, most, why);
    return 0;
}

/* True if the commit was decided before, possibly by another coordinator that did not tell
 * everybody; or if, without a coordinator, all have taken a newer one of the round, which includes
 * it. Sends the answer then. */
static bool was_decided(struct spot_exec_job *job, struct spot_peer *peer,
                        const struct spot_state_id *id)
{
    const struct spot_exec_states *const s = &job->states;
    const bool is_agreed = s->newest.is_set && id->key == s->newest.id.key &&
                           spot_state_id_compare(id, &s->newest.id) <= 0;
    struct spot_buf out = { 0 };

    if (!is_agreed && !(s->has_floor && id->step <= s->floor))
        return false;
    put_answer(job, id->step,
               is_agreed     ? ""
               : *s->refused ? s->refused
                             : "it was refused before",
               &out);
    spot_peer_send(peer, SPOT_MSG_EXEC_ANSWER, 0, out.data, out.n);
    spot_buf_release(&out);
    return true;
}

int spot_exec_on_took(struct spot_exec_job *job, struct spot_peer *peer,
                      const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_exec_member *const member = spot_peer_data(peer);
    char why[SPOT_WHY_MAX], text[SPOT_WHY_MAX];
    struct spot_state_id id;
    struct spot_state_saved saved;
    uint64_t n_byte;
    uint8_t scope;
    bool is_alone;

    spot_state_id_get(&in, &id);
    n_byte = spot_get_u64(&in);
    spot_get_plain(&in, why, sizeof(why));
    scope = spot_get_u8(&in);
    spot_state_saved_get(&in, &saved);
    if (!spot_wire_in_done(&in) || scope >= SPOT_EXEC_SCOPES) {
        spot_peer_drop(peer, "a commit");
        return 0;
    }
    is_alone = scope == SPOT_EXEC_OF_ONE;
    if (id.key != job->states.key || id.round != job->restart_count)
        return 0;
    if (!*why)
        spot_exec_add_holding(job, member, &id, is_alone ? 0 : member->group_rank,
                              is_alone ? 1 : job->group_world);
    if (was_decided(job, peer, &id))
        return 0;
    member->has_took = true;
    member->took = id.step;
    member->took_byte = n_byte;
    member->took_saved = saved;
    member->took_s = spot_clock_s();
    member->scope = (enum spot_exec_scope)scope;
    if (!*why && is_alone)
        return agree(job, id.step, 1, err);
    if (scope == SPOT_EXEC_OF_FILES && !(job->states.has_asked && job->states.asked == id.step)) {
        refuse(job, id.step, "another coordinator had asked for it");
        return 0;
    }
    if (!*why)
        return consider(job, scope == SPOT_EXEC_OF_FILES, err);
    snprintf(text, sizeof(text), "%.60s: %.400s", spot_peer_name(peer), why);
    refuse(job, id.step, text);
    return 0;
}

int spot_exec_agree_without(struct spot_exec_job *job, struct spot_err *err)
{
    const struct spot_machine *const m = spot_view_machine(job->view);

    for (size_t i = 0; i < m->n_member; i++) {
        const struct spot_exec_member *const x = spot_exec_member_at(job, i);

        if (x && x->has_took)
            return consider(job, job->states.has_asked, err);
    }
    return 0;
}

/* --- one rank commits for all --- */

static void order_take(struct spot_exec_job *job, struct spot_peer *peer, const uint8_t *offer,
                       size_t n)
{
    const struct spot_state_id id = { job->restart_count, job->states.key, job->states.asked };
    struct spot_buf out = { 0 };

    spot_state_id_put(&out, &id);
    spot_buf_add(&out, offer, n);
    if (job->states.scope == SPOT_EXEC_OF_ONE)
        spot_peer_send(peer, SPOT_MSG_EXEC_TAKE, 0, out.data, out.n);
    else
        spot_view_send_active(job->view, SPOT_MSG_EXEC_TAKE, 0, out.data, out.n);
    spot_buf_release(&out);
}

/* The number after all steps that were decided or restored, for a script that does not count steps.
 */
static uint64_t next_step(const struct spot_exec_states *s)
{
    uint64_t step = s->newest.is_set ? s->newest.id.step : 0;

    if (s->has_standing && s->standing > step)
        step = s->standing;
    if (s->has_floor && s->floor > step)
        step = s->floor;
    return step + 1;
}

/* While an offer is open, others wait: their nodes repeat them once it is decided. */
int spot_exec_on_offer(struct spot_exec_job *job, struct spot_peer *peer,
                       const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_exec_states *const s = &job->states;
    const uint8_t scope = spot_get_u8(&in);
    uint64_t step = spot_get_u64(&in);
    const uint32_t n = spot_get_count(&in, 1);
    struct spot_state_id id = { job->restart_count, s->key, step };

    (void)err;
    (void)spot_get_bytes(&in, n);
    if (!spot_wire_in_done(&in) || scope == SPOT_EXEC_OF_ALL || scope >= SPOT_EXEC_SCOPES) {
        spot_peer_drop(peer, "an offer of a commit");
        return 0;
    }
    if (s->has_asked || (step != UINT64_MAX && was_decided(job, peer, &id)))
        return 0;
    s->has_asked = true;
    s->asked = step == UINT64_MAX ? next_step(s) : step;
    s->scope = (enum spot_exec_scope)scope;
    order_take(job, peer, frame->data, frame->n_byte);
    return 0;
}

/* --- warnings about long waits --- */

static const struct spot_exec_member *longest_wait(const struct spot_exec_job *job)
{
    const struct spot_exec_member *longest = NULL;

    for (uint32_t g = 0; g < job->group_world; g++) {
        const struct spot_exec_member *const x = at_place(job, g);

        if (x && x->has_took && (!longest || x->took_s < longest->took_s))
            longest = x;
    }
    return longest;
}

/* Writes a place, as in "ranks 2 to 3 on b". */
static void put_place(const struct spot_exec_job *job, const struct spot_exec_member *x, char *text,
                      size_t n)
{
    const unsigned long n_rank = job->options->n_rank, first = x->group_rank * n_rank;
    const char *const name = spot_peer_name(spot_group_find(job->group, x->id));

    if (n_rank > 1)
        snprintf(text, n, "ranks %lu to %lu on %s", first, first + n_rank - 1, name);
    else
        snprintf(text, n, "rank %lu on %s", first, name);
}

static void list_missing(const struct spot_exec_job *job, char *text, size_t n)
{
    enum { NAMED_MAX = 4 };
    size_t at = 0, n_missing = 0;

    *text = '\0';
    for (uint32_t g = 0; g < job->group_world && at < n; g++) {
        const struct spot_exec_member *const x = at_place(job, g);
        char whose[SPOT_NAME_MAX + 64];

        if (!x || x->has_took || ++n_missing > NAMED_MAX)
            continue;
        put_place(job, x, whose, sizeof(whose));
        at += (size_t)snprintf(text + at, n - at, "%s%s", at ? ", " : "", whose);
    }
    if (n_missing > NAMED_MAX && at < n)
        snprintf(text + at, n - at, " and %zu more nodes", n_missing - NAMED_MAX);
}

void spot_exec_warn_late(struct spot_exec_job *job)
{
    const struct spot_exec_member *const longest = longest_wait(job);
    struct spot_exec_states *const s = &job->states;
    char missing[SPOT_WHY_MAX], text[SPOT_ELAPSED_TEXT];

    if (!longest || spot_clock_s() - longest->took_s < s->late_s)
        return;
    list_missing(job, missing, sizeof(missing));
    job->options->group.warn("step %llu: %s has waited %s to commit it, for %s: every rank must "
                             "commit",
                             (unsigned long long)longest->took,
                             spot_peer_name(spot_group_find(job->group, longest->id)),
                             spot_elapsed_text(s->late_s, text), missing);
    s->late_s *= 2;
}

void spot_exec_begin_round(struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);

    job->states.late_s = job->options->late_s > 0 ? job->options->late_s : LATE_S;

    job->states.has_asked = false; /* nodes offer the commit again */
    if (!job->is_kept || !job->states.has_key) {
        job->states.has_floor = false;
        *job->states.refused = '\0';
    }
    for (size_t i = 0; i < m->n_member; i++) {
        struct spot_exec_member *const x = spot_exec_member_at(job, i);

        if (!x)
            continue;
        x->has_took = false;
        if (!job->is_kept)
            spot_exec_forget_pace(x);
    }
}
