/* SPDX-License-Identifier: MIT */
/* Assigns choices to replicas. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "serve/serve_protocol.h"
#include "serve/server_state.h"
#include "serve/server_verify.h"

static const double handover_s = 10; /* if the grace period of the leaving replica is not known */
static const double silent_s = 0.3;  /* plus silent_steps without tokens: it may hang */
static const double silent_steps = 10;
static const double foreign_silent_s =
    10; /* longer for engines, which may compute other prompts first */
static const double default_byte_per_s = 1e9; /* rate of pages, until it is measured */
static const double spare_s = 0.2;            /* allowance for late pages */

struct spot_sequence *spot_server_find(const struct spot_server *s, uint64_t number)
{
    size_t low = 0, high = s->n_sequence;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (s->sequence[mid]->number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low < s->n_sequence && s->sequence[low]->number == number ? s->sequence[low] : NULL;
}

struct spot_replica *spot_server_place(const struct spot_server *s, uint32_t id)
{
    struct spot_peer *const peer = id ? spot_group_find(s->group, id) : NULL;
    const struct spot_seat *const seat = peer ? spot_peer_data(peer) : NULL;

    return seat && seat->replica && seat->replica->peer == peer ? seat->replica : NULL;
}

bool spot_replica_is_leaving(const struct spot_replica *p)
{
    const struct spot_machine *const m = p->view ? spot_view_machine(p->view) : NULL;

    if (p->is_retiring)
        return true;
    for (size_t i = 0; m && i < m->n_member; i++)
        if (m->member[i].role == SPOT_ROLE_ACTIVE && m->member[i].is_leaving)
            return true;
    return false;
}

bool spot_replica_is_silent(const struct spot_replica *p)
{
    const double quiet_s = spot_clock_s() - p->told_s;
    const bool is_foreign = p->version && p->version->model.is_foreign;

    return p->load && quiet_s > (is_foreign ? foreign_silent_s : silent_s) &&
           quiet_s > (is_foreign ? 2 : 1) * silent_steps * p->step_s;
}

bool spot_replica_may_take(const struct spot_replica *p)
{
    return p->is_running && !spot_replica_is_silent(p) && !spot_replica_is_leaving(p) &&
           !spot_peer_is_aside(p->peer);
}

/* --- giving ---------------------------------------------------------------------- */

/* True if a member must be assigned: no member computes the choice, or only one that leaves or may
 * hang. In the latter case two members compute it, and the first token of either commits. */
static bool needs_place(const struct spot_server *s, const struct spot_sequence *q)
{
    const int k = q->place[0] ? 0 : 1;
    const struct spot_replica *only;

    if ((q->place[0] && q->place[1]) || spot_clock_s() < q->due_s)
        return false;
    only = spot_server_place(s, q->place[k]);
    if (only &&
        s->options
            ->is_foreign) /* engines may give different tokens, so only before the first one */
        return spot_replica_is_leaving(only) ? spot_server_must_move(s, q, only)
                                             : !q->has_told[k] && spot_replica_is_silent(only);
    return !only || spot_replica_is_leaving(only) || spot_replica_is_silent(only);
}

bool spot_sequence_has_copies(const struct spot_sequence *q, const struct spot_replica *p)
{
    return q->copies == p && p->view && spot_view_machine(p->view)->epoch == q->copies_epoch;
}

static double time_left_s(const struct spot_server *s, const struct spot_replica *p)
{
    const struct spot_machine *const m = spot_view_machine(p->view);
    double least_s = INFINITY;

    for (size_t i = 0; i < m->n_member; i++)
        least_s = fmin(least_s, spot_peer_time_left_s(spot_group_find(s->group, m->member[i].id)));
    return least_s;
}

/* The leaving replica that has its pages and can send them while it continues. */
static struct spot_replica *find_source(const struct spot_server *s, const struct spot_sequence *q)
{
    struct spot_replica *const only = spot_server_place(s, q->place[0] ? q->place[0] : q->place[1]);

    return only && !s->options->is_foreign && only->is_running && !spot_replica_is_silent(only) &&
                   !spot_replica_is_convicted(s, only)
               ? only
               : NULL;
}

/* Seconds to send the pages of n tokens. */
static double move_s(const struct spot_replica *to, uint64_t n)
{
    const double rate = to->page_byte_per_s > 0 ? to->page_byte_per_s : default_byte_per_s;

    return (double)(n * spot_relay_token_byte(&to->version->model.shape)) / rate;
}

/* True if moving pages takes less time than recomputing them, and they arrive in time. */
static bool is_worth_moving(const struct spot_server *s, const struct spot_replica *from,
                            const struct spot_replica *to, uint64_t n)
{
    const double moves_s = move_s(to, n);
    const double prompt_token_s =
        to->prompt_token_s > 0 ? to->prompt_token_s : from->prompt_token_s;

    return n >= SPOT_INFER_PAGE && moves_s + spare_s < time_left_s(s, from) &&
           (prompt_token_s <= 0 || moves_s < (double)n * prompt_token_s);
}

static void ask_for_pages(struct spot_server *s, const struct spot_sequence *q,
                          const struct spot_replica *from, const struct spot_replica *to)
{
    struct spot_relay_form form;
    struct spot_buf out = { 0 };

    spot_server_form(s, to, from->peer, &form);
    spot_put_u32(&out, spot_view_machine(to->view)->epoch);
    spot_relay_form_put(&out, &form);
    spot_peer_send(from->peer, SPOT_MSG_MOVE, q->number, out.data, out.n);
    spot_buf_release(&out);
}

static void put_source(struct spot_server *s, const struct spot_replica *from,
                       const struct spot_replica *to, uint64_t n, struct spot_buf *out)
{
    struct spot_relay_form form;

    spot_put_u32(out, from ? (uint32_t)(s->grid.P * s->grid.M) : 0);
    if (from) {
        spot_server_form(s, from, to->peer, &form);
        for (uint32_t i = 0; i < form.P * form.M; i++)
            spot_put_u32(out, form.member[i].id);
    }
    spot_put_f64(out, from ? spare_s + 4 * move_s(to, n) : 0);
}

static void put_copied(const struct spot_server *s, const struct spot_sequence *q,
                       struct spot_buf *out)
{
    const uint32_t n = (uint32_t)(s->grid.P * s->grid.M);

    spot_put_u32(out, n);
    for (uint32_t i = 0; i < n; i++)
        spot_put_u32(out, q->copied[i]);
    spot_put_f64(out, 0);
}

/* Release a leaving engine, since the next one may produce different tokens. */
static void release_leaver(struct spot_server *s, struct spot_sequence *q)
{
    for (int k = 0; k < SPOT_SEQUENCE_PLACES; k++) {
        const struct spot_replica *const p = spot_server_place(s, q->place[k]);

        if (p && spot_replica_is_leaving(p))
            spot_server_release_place(s, q, k);
    }
}

void spot_replica_take(struct spot_replica *p)
{
    if (p->load++)
        return;
    spot_peer_ask(p->peer);
    p->told_s = spot_clock_s();
}

static void give(struct spot_server *s, struct spot_sequence *q, struct spot_replica *p)
{
    const struct spot_completion *const c = q->work->completion;
    const struct spot_choice *const choice = &c->choice[q->choice];
    uint32_t k;
    const struct spot_request request = spot_server_part(s, q->work, q->choice, &k);
    const uint64_t n = request.n_prompt - spot_request_n_echo(&request) + choice->n_token;
    const struct spot_replica *from = choice->n_token ? find_source(s, q) : NULL;
    struct spot_buf out = { 0 };
    int at;

    if (from && !is_worth_moving(s, from, p, n))
        from = NULL;
    if (s->options->is_foreign)
        release_leaver(s, q);
    at = q->place[0] ? 1 : 0;
    q->place[at] = spot_peer_id(p->peer);
    q->assignment[at] = ++q->n_assignment;
    q->given_s = spot_clock_s();
    q->n_given = choice->n_token;
    q->has_told[at] = false;
    q->prompt_work[at] = spot_server_prompt_work(s, p, q);
    p->work += q->prompt_work[at] + spot_server_left(s, q);
    q->unread[at] = p->unread += q->prompt_work[at];
    spot_server_unqueue(s, q, true);
    spot_server_hold_prompt(s, p, q);
    if (q->work->given_s <= 0) {
        q->work->given_s = spot_clock_s();
        spot_histogram_add(&s->queue, q->work->given_s - q->work->taken_s);
    }
    s->n_again_token += q->is_given ? n : 0;
    q->is_given = true;
    spot_put_u32(&out, k);
    spot_put_u32(&out, (uint32_t)choice->n_token);
    for (size_t i = 0; i < choice->n_token; i++)
        spot_put_u32(&out, choice->token[i].id);
    spot_request_put(&request, &out);
    if (s->options->is_foreign)
        spot_server_put_for_engine(q, q->assignment[at], &out);
    else if (spot_sequence_has_copies(q, p) && !from)
        put_copied(s, q, &out);
    else
        put_source(s, from, p, n, &out);
    spot_replica_take(p);
    spot_peer_send(p->peer, SPOT_MSG_CONTINUE, q->number, out.data, out.n);
    spot_buf_release(&out);
    if (from)
        ask_for_pages(s, q, from, p);
    s->n_moved += choice->n_token > 0;
    s->n_paged += from != NULL;
}

static void offer(struct spot_server *s, struct spot_sequence *q, bool *is_counted)
{
    struct spot_replica *p;

    if (!*is_counted)
        spot_server_count_work(s);
    *is_counted = true;
    p = spot_server_choose(s, q);
    if (p)
        give(s, q, p);
}

/* Assign sequences: withdrawn ones come before new ones, and older requests first. */
void spot_server_dispatch(struct spot_server *s)
{
    bool is_counted = false;

    spot_server_give_checks(s);
    for (size_t i = 0; i < s->n_sequence; i++) {
        struct spot_sequence *const q = s->sequence[i];

        if (!q->is_queued && needs_place(s, q))
            offer(s, q, &is_counted);
    }
    for (size_t i = 0; i < s->n_queued && spot_server_has_room(s);) {
        struct spot_sequence *const q = s->queued[i];

        if (needs_place(s, q))
            offer(s, q, &is_counted);
        i += q->is_queued;
    }
}

/* --- taking back -------------------------------------------------------------------- */

static void leave_place(struct spot_server *s, struct spot_sequence *q, int k)
{
    struct spot_replica *const p = spot_server_place(s, q->place[k]);

    if (p && p->load)
        p->load--;
    q->place[k] = 0;
}

void spot_server_release_place(struct spot_server *s, struct spot_sequence *q, int k)
{
    struct spot_replica *const p = spot_server_place(s, q->place[k]);

    if (p)
        spot_peer_send(p->peer, SPOT_MSG_FORGET, q->number, NULL, 0);
    leave_place(s, q, k);
}

void spot_server_take_back(struct spot_server *s, struct spot_replica *p, bool has_failed)
{
    const uint32_t id = spot_peer_id(p->peer);

    for (size_t i = 0; id && i < s->n_sequence; i++) {
        struct spot_sequence *const q = s->sequence[i];

        for (int k = 0; k < SPOT_SEQUENCE_PLACES; k++)
            if (q->place[k] == id) {
                q->place[k] = 0;
                if (has_failed)
                    memcpy(q->failed, spot_peer_name(p->peer), strlen(spot_peer_name(p->peer)) + 1);
                q->copies = spot_replica_is_convicted(s, p) ? NULL : p->buddy;
                q->copies_epoch = p->buddy_epoch;
                memcpy(q->copied, p->member, sizeof(q->copied));
            }
    }
    spot_server_return_checks(s, p);
    p->load = 0;
}

static void discard(const struct spot_replica *buddy, uint32_t epoch, uint64_t number)
{
    if (buddy && buddy->peer && spot_view_machine(buddy->view)->epoch == epoch)
        spot_peer_send(buddy->peer, SPOT_MSG_DISCARD, number, NULL, 0);
}

void spot_server_end_sequence(struct spot_server *s, struct spot_sequence *q)
{
    size_t i = 0;

    for (int k = 0; k < SPOT_SEQUENCE_PLACES; k++) {
        struct spot_replica *const p = spot_server_place(s, q->place[k]);

        if (!p)
            continue;
        p->n_done++;
        spot_server_hold_answer(s, p, q);
        discard(p->buddy, p->buddy_epoch, q->number);
        spot_server_release_place(s, q, k);
    }
    while (s->sequence[i] != q)
        i++;
    spot_server_unqueue(s, q, false);
    spot_server_note_output(s, q);
    memmove(s->sequence + i, s->sequence + i + 1,
            (--s->n_sequence - i) * sizeof(struct spot_sequence *));
    free(q->prefix);
    spot_server_drop_grammar(q);
    free(q);
}

/* --- buddies ------------------------------------------------------------------------- */

/* The next possible replica in the ring, in another failure domain if there is one. */
static struct spot_replica *choose_buddy(const struct spot_server *s, size_t i)
{
    const struct spot_replica *const p = s->place[i];
    struct spot_replica *any = NULL;

    for (size_t k = 1; k < s->n_place; k++) {
        struct spot_replica *const other = s->place[(i + k) % s->n_place];

        if (!spot_replica_may_take(other) || other->version != p->version)
            continue;
        if (strcmp(spot_peer_domain(other->peer), spot_peer_domain(p->peer)) != 0)
            return other;
        any = any ? any : other;
    }
    return any;
}

/* True if the replica has a buddy that may stay its buddy. */
static bool has_buddy(const struct spot_replica *p)
{
    return p->buddy && p->buddy->is_running && !spot_replica_is_leaving(p->buddy) &&
           p->buddy->version == p->version &&
           spot_view_machine(p->buddy->view)->epoch == p->buddy_epoch;
}

static void tell_buddy(struct spot_server *s, struct spot_replica *p)
{
    struct spot_relay_form form;
    struct spot_buf out = { 0 };

    p->buddy_epoch = spot_view_machine(p->buddy->view)->epoch;
    spot_server_form(s, p->buddy, p->peer, &form);
    spot_put_u32(&out, p->buddy_epoch);
    spot_relay_form_put(&out, &form);
    spot_peer_send(p->peer, SPOT_MSG_BUDDY, 0, out.data, out.n);
    spot_buf_release(&out);
}

void spot_server_name_buddies(struct spot_server *s)
{
    for (size_t i = 0; s->options->has_buddies && i < s->n_place; i++) {
        struct spot_replica *const p = s->place[i];

        if (!p->is_running || has_buddy(p))
            continue;
        p->buddy = choose_buddy(s, i);
        if (p->buddy)
            tell_buddy(s, p);
    }
}

/* --- notices ------------------------------------------------------------------------- */

static bool has_successor(const struct spot_server *s, const struct spot_replica *p)
{
    for (size_t i = 0; i < s->n_place; i++)
        if (spot_replica_may_take(s->place[i]) && s->place[i]->version == p->version)
            return true;
    return false;
}

/* True if sequences of a leaving replica must be moved now. Without another replica it continues
 * for a while, since one may join. A member that replaces the leaving one in the same replica has
 * to recompute. */
static bool is_due(const struct spot_server *s, struct spot_replica *p)
{
    const double now_s = spot_clock_s();

    if (p->leaving_s <= 0)
        p->leaving_s = now_s;
    return !p->load || now_s - p->leaving_s > handover_s || time_left_s(s, p) < 0.5 ||
           (spot_server_can_replace(s, p) && !has_successor(s, p));
}

int spot_server_release_leavers(struct spot_server *s, struct spot_err *err)
{
    for (size_t i = 0; i < s->n_place; i++) {
        struct spot_replica *const p = s->place[i];

        if (p->is_running && spot_replica_is_leaving(p) && is_due(s, p))
            return spot_view_break(p->view, spot_view_machine(p->view)->epoch, err);
    }
    return 0;
}
