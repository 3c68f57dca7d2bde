/* SPDX-License-Identifier: MIT */
/* Orders members to send and receive states: before a round those that its nodes lack, during a
 * round those that make the newest commit safe. */
#include <stdlib.h>

#include "cluster/protocol.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "host/exec_job_state.h"

static const double retry_s = 1; /* pause after a failed transfer */

/* --- the list of orders --- */

/* The order has not been sent to anyone yet. */
static const struct spot_exec_order *add_order(struct spot_exec_job *job,
                                               const struct spot_state_id *id, uint32_t place,
                                               uint32_t from, uint32_t to, bool is_due)
{
    struct spot_exec_states *const s = &job->states;

    s->order = spot_xgrow(s->order, &s->cap_order, s->n_order + 1, sizeof(*s->order));
    s->order[s->n_order] =
        (struct spot_exec_order){ { ++s->last_serial, *id, place, from, to }, is_due };
    return &s->order[s->n_order++];
}

void spot_exec_drop_orders(struct spot_exec_job *job)
{
    job->states.n_order = 0;
}

static void drop(struct spot_exec_states *s, size_t i)
{
    s->order[i] = s->order[--s->n_order];
}

static void cancel(struct spot_exec_job *job, const struct spot_exec_order *order, uint32_t at)
{
    struct spot_peer *const peer = spot_group_find(job->group, at);

    if (peer)
        spot_peer_send(peer, SPOT_MSG_EXEC_CANCEL, order->move.serial, NULL, 0);
}

void spot_exec_forget_orders(struct spot_exec_job *job, uint32_t id)
{
    struct spot_exec_states *const s = &job->states;

    s->is_stale = true;
    for (size_t i = s->n_order; i-- > 0;) {
        const struct spot_exec_move *const move = &s->order[i].move;

        if (move->from != id && move->to != id)
            continue;
        cancel(job, &s->order[i], move->from == id ? move->to : move->from);
        drop(s, i);
    }
}

static bool is_ordered(const struct spot_exec_states *s, const struct spot_state_id *id,
                       uint32_t place)
{
    for (size_t i = 0; i < s->n_order; i++)
        if (s->order[i].move.place == place && !spot_state_id_compare(&s->order[i].move.id, id))
            return true;
    return false;
}

/* --- before a round --- */

/* True if the number of nodes differs from that at the commit, so that a program with parts of the
 * state needs all of them. */
bool spot_exec_restores_all(const struct spot_exec_job *job)
{
    return job->options->places_all ||
           (job->states.newest.world != job->group_world && job->states.newest.world > 1);
}

static void want(struct spot_exec_job *job, const struct spot_exec_member *member, uint32_t place)
{
    const struct spot_exec_point *const point = &job->states.newest;
    const struct spot_exec_member *giver;

    if (spot_exec_holds(member, &point->id, place))
        return;
    giver = spot_exec_find_giver(job, point, place);
    (void)add_order(job, &point->id, place, giver ? giver->id : 0, member->id, true);
}

void spot_exec_plan_restore(struct spot_exec_job *job, struct spot_exec_member *const *member,
                            size_t n)
{
    const struct spot_exec_point *const point = &job->states.newest;

    spot_exec_drop_orders(job);
    for (size_t i = 0; point->is_set && i < n; i++) {
        if (!spot_exec_restores_all(job)) {
            want(job, member[i], member[i]->group_rank % point->world);
            continue;
        }
        for (uint32_t p = 0; p < point->world; p++)
            want(job, member[i], p);
    }
}

/* --- during a round --- */

static void order_move(struct spot_exec_job *job, const struct spot_exec_point *point,
                       uint32_t place, const struct spot_exec_member *to)
{
    const struct spot_exec_member *const from = to ? spot_exec_find_giver(job, point, place) : NULL;
    const uint32_t epoch = spot_view_machine(job->view)->epoch;
    struct spot_buf out = { 0 };
    const struct spot_exec_order *order;

    if (!from || from->entered != epoch)
        return;
    order = add_order(job, &point->id, place, from->id, to->id, false);
    spot_put_f64(&out, job->options->mirror_byte_per_s);
    spot_exec_put_move(&out, &order->move);
    spot_peer_send(spot_group_find(job->group, from->id), SPOT_MSG_EXEC_MOVE, 0, out.data, out.n);
    spot_peer_send(spot_group_find(job->group, to->id), SPOT_MSG_EXEC_MOVE, 0, out.data, out.n);
    spot_buf_release(&out);
}

static void order_copy(struct spot_exec_job *job, uint32_t place)
{
    const struct spot_exec_point *const point = &job->states.target;

    order_move(job, point, place, spot_exec_find_buddy(job, point, place));
}

size_t spot_exec_bring_newest(struct spot_exec_job *job, struct spot_exec_member *to)
{
    const struct spot_exec_states *const s = &job->states;
    size_t n = 0;

    for (uint32_t p = 0; p < s->newest.world; p++) {
        bool is_coming = false;

        if (spot_exec_holds(to, &s->newest.id, p))
            continue;
        n++;
        for (size_t i = 0; i < s->n_order; i++)
            is_coming =
                is_coming || (s->order[i].move.to == to->id && s->order[i].move.place == p &&
                              !spot_state_id_compare(&s->order[i].move.id, &s->newest.id));
        if (!is_coming && spot_clock_s() >= s->not_before_s)
            order_move(job, &s->newest, p, to);
    }
    return n;
}

/* The members of this epoch that are expected to stay and may hold a copy. */
static size_t count_stayers(const struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    size_t n = 0;

    for (size_t i = 0; i < m->n_member; i++)
        if (!m->member[i].is_leaving) {
            const struct spot_exec_member *const x = spot_exec_member_at(job, i);

            n += x && x->entered == m->epoch;
        }
    return n;
}

static void put_safe(const struct spot_exec_job *job, struct spot_jw *jw)
{
    const struct spot_exec_point *const safe = &job->states.safe;

    spot_jw_str(jw, "where", "memory");
    if (safe->agreed_s > 0)
        spot_jw_real(jw, "lag_s", spot_clock_s() - safe->agreed_s);
    spot_jw_int(jw, "moved_byte", (int64_t)safe->moved_byte);
}

static int target_is_safe(struct spot_exec_job *job, struct spot_err *err)
{
    struct spot_exec_states *const s = &job->states;
    const bool is_news = !s->safe.is_set || spot_state_id_compare(&s->safe.id, &s->target.id);

    s->safe = s->target;
    s->target.is_set = false;
    s->has_news = true;
    return is_news ? spot_exec_log_step(job, "durable", s->safe.id.step, put_safe, err) : 0;
}

static bool is_same(const struct spot_exec_point *a, const struct spot_exec_point *b)
{
    return a->is_set && b->is_set && !spot_state_id_compare(&a->id, &b->id);
}

/* The commits that members keep: the newest (first), the one being made safe, and the safe one.
 * Until a round has saved something all existing commits are kept, also those from which it did not
 * begin. */
struct kept {
    struct spot_state_id id[SPOT_EXEC_KEPT_MAX];
    size_t n;
};

static bool has_id(const struct kept *kept, const struct spot_state_id *id)
{
    for (size_t i = 0; i < kept->n; i++)
        if (!spot_state_id_compare(id, &kept->id[i]))
            return true;
    return false;
}

static void add_id(struct kept *kept, const struct spot_state_id *id)
{
    if (kept->n < SPOT_EXEC_KEPT_MAX && !has_id(kept, id))
        kept->id[kept->n++] = *id;
}

static struct kept list_kept(const struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    const struct spot_exec_states *const s = &job->states;
    enum { N = 4 };
    const struct spot_exec_point *const all[N] = { &s->newest, &s->safe, &s->target,
                                                   &job->disk.target };
    struct kept kept = { .n = 0 };

    for (size_t i = 0; i < N; i++)
        if (all[i]->is_set)
            add_id(&kept, &all[i]->id);
    for (size_t i = 0; s->newest.id.key != s->key && i < m->n_member; i++) {
        const struct spot_exec_member *const x = spot_exec_member_at(job, i);

        for (size_t k = 0; x && k < x->has.n; k++)
            add_id(&kept, &x->has.of[k].id);
    }
    return kept;
}

static void drop_others(const struct spot_exec_job *job, struct spot_exec_member *x,
                        const struct kept *kept)
{
    for (size_t k = x->has.n; k-- > 0;) {
        const struct spot_state_id *const id = &x->has.of[k].id;
        const bool is_taken = x->has_took && id->key == job->states.key && id->step == x->took;

        if (!is_taken && !has_id(kept, id))
            x->has.of[k] = x->has.of[--x->has.n];
    }
}

static enum spot_exec_safety safety_of(const struct spot_exec_job *job)
{
    const struct spot_exec_states *const s = &job->states;

    if (is_same(&s->safe, &s->newest) || is_same(spot_exec_durable(job), &s->newest))
        return SPOT_EXEC_SAFE;
    return s->is_alone && !job->disk.store ? SPOT_EXEC_ALONE : SPOT_EXEC_AT_RISK;
}

static void tell_news(struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    const struct kept kept = list_kept(job);
    struct spot_buf out = { 0 };

    spot_put_u8(&out, safety_of(job));
    spot_put_u32(&out, (uint32_t)kept.n);
    for (size_t i = 0; i < kept.n; i++)
        spot_state_id_put(&out, &kept.id[i]);
    for (size_t i = 0; i < m->n_member; i++) {
        struct spot_exec_member *const x = spot_exec_member_at(job, i);

        if (!x || x->entered != m->epoch)
            continue;
        spot_peer_send(spot_group_find(job->group, x->id), SPOT_MSG_EXEC_HOLD, 0, out.data, out.n);
        drop_others(job, x, &kept);
    }
    spot_buf_release(&out);
    job->states.has_news = false;
}

static int look_at_target(struct spot_exec_job *job, struct spot_err *err)
{
    struct spot_exec_states *const s = &job->states;
    const bool was_safe = s->safe.is_set && !spot_state_id_compare(&s->safe.id, &s->target.id);

    if (spot_exec_is_safe(job, &s->target)) {
        if (!was_safe && target_is_safe(job, err))
            return -1;
        s->is_stale = s->is_stale || spot_state_id_compare(&s->newest.id, &s->target.id);
        s->target.is_set = false;
        return 0;
    }
    if (was_safe) { /* it was safe until a node left */
        s->safe.is_set = false;
        s->has_news = true;
    }
    for (uint32_t p = 0; p < s->target.world; p++)
        if (!is_ordered(s, &s->target.id, p))
            order_copy(job, p);
    return 0;
}

/* Make the newest commit safe, once the copy of the previous one has arrived. */
int spot_exec_make_safe(struct spot_exec_job *job, struct spot_err *err)
{
    struct spot_exec_states *const s = &job->states;
    const size_t n_stayer = count_stayers(job);

    if (!s->newest.is_set)
        return 0;
    s->has_news = s->has_news || s->is_alone != (n_stayer < 2);
    s->is_alone = n_stayer < 2;
    s->is_stale = s->is_stale || n_stayer != s->n_stayer;
    s->n_stayer = n_stayer;
    while (s->is_stale && spot_clock_s() >= s->not_before_s) {
        s->is_stale = false;
        if (!s->target.is_set)
            s->target = s->newest;
        if (look_at_target(job, err))
            return -1;
    }
    if (s->has_news)
        tell_news(job);
    return 0;
}

/* --- ends of transfers --- */

static int on_due(struct spot_exec_job *job, const char *why, struct spot_err *err)
{
    if (!*why)
        return 0;
    job->options->group.warn("the round cannot begin with its state: %s", why);
    job->not_before_s = spot_clock_s() + retry_s;
    return spot_view_break(job->view, spot_view_machine(job->view)->epoch, err);
}

static int ended(struct spot_exec_job *job, struct spot_exec_member *member, size_t i,
                 const char *why, uint64_t n_byte, struct spot_err *err)
{
    struct spot_exec_states *const s = &job->states;
    const struct spot_exec_order order = s->order[i];
    const bool is_target =
        s->target.is_set && !spot_state_id_compare(&s->target.id, &order.move.id);
    const bool is_newest =
        s->newest.is_set && !spot_state_id_compare(&s->newest.id, &order.move.id);
    const uint32_t world = is_target ? s->target.world : s->newest.world;

    drop(s, i);
    s->is_stale = true;
    if (*why) {
        cancel(job, &order, order.move.from == member->id ? order.move.to : order.move.from);
        if (order.move.from == member->id) /* possibly damaged; the next report will show it */
            spot_exec_drop_holding(member, &order.move.id, order.move.place);
    } else if (is_target || order.is_due || is_newest) {
        spot_exec_add_holding(job, member, &order.move.id, order.move.place, world);
    }
    if (order.is_due)
        return on_due(job, why, err);
    if (*why) {
        job->options->group.warn("a commit does not have two copies yet: %s", why);
        s->not_before_s = spot_clock_s() + retry_s;
    }
    s->moved_byte += n_byte;
    if (is_target)
        s->target.moved_byte += n_byte;
    return 0;
}

int spot_exec_on_moved(struct spot_exec_job *job, struct spot_peer *peer,
                       const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_exec_states *const s = &job->states;
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    char why[SPOT_WHY_MAX];
    uint64_t n_byte;

    spot_get_plain(&in, why, sizeof(why));
    n_byte = spot_get_u64(&in);
    if (!spot_wire_in_done(&in)) {
        spot_peer_drop(peer, "the end of a move");
        return 0;
    }
    if (!frame->tag && spot_view_machine(job->view)->phase == SPOT_PHASE_MIGRATE)
        return on_due(job, why, err);
    for (size_t i = 0; i < s->n_order; i++)
        if (s->order[i].move.serial == frame->tag &&
            (s->order[i].move.to == spot_peer_id(peer) ||
             (*why && s->order[i].move.from == spot_peer_id(peer))))
            return ended(job, spot_peer_data(peer), i, why, n_byte, err);
    return 0;
}
