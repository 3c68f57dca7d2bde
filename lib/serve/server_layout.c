/* SPDX-License-Identifier: MIT */
/* Assigns members to replicas: a view has the P x M members of one replica. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "serve/relay.h"
#include "serve/server_state.h"

static uint32_t size_of_replica(const struct spot_server *s)
{
    return (uint32_t)(s->grid.P * s->grid.M);
}

/* The replica of a view; created if missing. */
static struct spot_replica *replica_of(struct spot_server *s, uint32_t view_index)
{
    while (s->n_place <= view_index) {
        s->place =
            spot_xgrow(s->place, &s->cap_place, s->n_place + 1, sizeof(struct spot_replica *));
        s->place[s->n_place++] = spot_xcalloc(1, sizeof(struct spot_replica));
    }
    return s->place[view_index];
}

/* --- choosing a replica -------------------------------------------------------------- */

static bool is_leaving(const struct spot_seat *seat)
{
    const struct spot_view *const view = seat->replica->view;
    const struct spot_member *const m =
        view ? spot_machine_find(spot_view_machine(view), spot_peer_id(seat->peer)) : NULL;

    return m && m->is_leaving;
}

/* A member that leaves a replica with several members needs a replacement; a single one continues
 * until another replica has taken over. */
static uint32_t members_of(const struct spot_server *s, const struct spot_replica *p)
{
    const bool counts_leaving = size_of_replica(s) == 1;
    uint32_t n = 0;

    for (size_t i = 0; i < s->n_seat; i++)
        n += s->seat[i]->replica == p && (counts_leaving || !is_leaving(s->seat[i]));
    return n;
}

uint32_t spot_server_view_of(void *server, const struct spot_peer *peer)
{
    struct spot_server *const s = server;
    struct spot_seat *const seat = spot_peer_data(peer);
    uint32_t index = 0;

    while (members_of(s, replica_of(s, index)) >= size_of_replica(s))
        index++;
    seat->replica = s->place[index];
    return index;
}

/* --- those that wait -------------------------------------------------------------------- */

/* Number of members that have not yet reported which others they can reach, and may soon get a
 * place. */
static size_t n_arriving(const struct spot_server *s, const struct spot_replica *p)
{
    const struct spot_machine *const m = spot_view_machine(p->view);
    size_t n = 0;

    for (size_t i = 0; i < m->n_member; i++)
        n += !m->member[i].is_leaving && !spot_view_may_place(p->view, &m->member[i]) &&
             !spot_peer_is_aside(spot_group_find(s->group, m->member[i].id));
    return n;
}

/* True if the replica waits for members. One that is about to be complete neither gives nor takes
 * members. */
static bool waits(const struct spot_server *s, const struct spot_replica *p)
{
    return p->view && spot_view_machine(p->view)->phase == SPOT_PHASE_WAIT &&
           spot_view_placeable(p->view) + n_arriving(s, p) < size_of_replica(s);
}

/* The waiting replica, other than `other`, that has the most or the fewest members, at least one;
 * NULL: there is none. */
static struct spot_replica *find_waiting(const struct spot_server *s,
                                         const struct spot_replica *other, bool wants_most)
{
    struct spot_replica *best = NULL;

    for (size_t i = 0; i < s->n_place; i++) {
        struct spot_replica *const p = s->place[i];
        const size_t n = p != other && waits(s, p) ? spot_view_placeable(p->view) : 0;

        if (n && (!best || (wants_most ? n > spot_view_placeable(best->view)
                                       : n < spot_view_placeable(best->view))))
            best = p;
    }
    return best;
}

static size_t count_waiting(const struct spot_server *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_place; i++)
        n += waits(s, s->place[i]) ? spot_view_placeable(s->place[i]->view) : 0;
    return n;
}

static void move_one(struct spot_server *s, const struct spot_replica *from,
                     struct spot_replica *to)
{
    const struct spot_machine *const m = spot_view_machine(from->view);
    size_t i = 0;
    struct spot_peer *peer;

    while (!spot_view_may_place(from->view, &m->member[i]))
        i++;
    peer = spot_group_find(s->group, m->member[i].id);
    ((struct spot_seat *)spot_peer_data(peer))->replica = to;
    spot_peer_move(peer, to->view);
}

void spot_server_gather(struct spot_server *s)
{
    struct spot_replica *to;

    if (size_of_replica(s) == 1 || count_waiting(s) < size_of_replica(s))
        return;
    to = find_waiting(s, NULL, true);
    while (waits(s, to))
        move_one(s, find_waiting(s, to, false), to);
}

/* --- plans --------------------------------------------------------------------------------- */

/* True for the first D complete replicas. */
static bool is_wanted(const struct spot_server *s, uint32_t index)
{
    int64_t n = 0;

    for (uint32_t i = 0; i < index && i < s->n_place; i++)
        n += s->place[i]->view && spot_view_placeable(s->place[i]->view) >= size_of_replica(s);
    return !s->grid.D || n < s->grid.D;
}

static void take_routes(struct spot_server *s, const struct spot_plan_doc *plan)
{
    free(s->routes.node);
    s->routes.n_node = plan->n_weight;
    s->routes.node = spot_xcalloc(plan->n_weight, sizeof(*s->routes.node));
    for (size_t i = 0; i < plan->n_weight; i++) {
        const struct spot_plan_weight *const w = &plan->weight[i];
        struct spot_route *const node = &s->routes.node[i];

        snprintf(node->node, sizeof(node->node), "%s", w->node ? w->node : "");
        snprintf(node->zone, sizeof(node->zone), "%s", w->zone ? w->zone : "");
        node->weight = w->weight;
    }
}

static int check_shape(const struct spot_server *s, const struct spot_model_version *version,
                       const struct spot_grid *want, struct spot_err *err)
{
    const struct spot_shape *const shape = &version->model.shape;

    if (s->options->is_foreign)
        return want->P == 1 && want->M == 1
                   ? 0
                   : spot_err_set(err, SPOT_EINFEASIBLE,
                                  "an engine is a whole replica: P and M must be 1");
    return spot_relay_check(shape, want->P, want->M, err) ||
                   spot_relay_check_cache(shape, (uint32_t)want->P, (uint32_t)want->M,
                                          s->options->kv_byte, err)
               ? -1
               : 0;
}

/* Check the grid with all versions with which a replica may be formed. */
static int check_grid(const struct spot_server *s, const struct spot_grid *want,
                      struct spot_err *err)
{
    if (check_shape(s, s->target, want, err) || (s->old && check_shape(s, s->old, want, err)))
        return -1;
    for (size_t i = 0; i < s->n_ended; i++)
        if (check_shape(s, s->ended[i], want, err))
            return -1;
    return 0;
}

int spot_server_plan(void *server, const struct spot_plan_doc *plan, bool *changed,
                     struct spot_err *err)
{
    struct spot_server *const s = server;
    struct spot_grid want = plan->next;
    const uint32_t n_at_once =
        plan->micro_batch > 0 && (uint64_t)plan->micro_batch < s->options->n_sequence
            ? (uint32_t)plan->micro_batch
            : (uint32_t)s->options->n_sequence;

    if (plan->kind == SPOT_PLAN_FLEET) {
        if (spot_size_route_take(&s->routes.size, plan, err))
            return -1;
        s->routes.is_of_fleet = true;
        return 0;
    }
    if (plan->kind != SPOT_PLAN_SERVE)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "the plan is not for serving, but this job serves");
    want.M += !want.M;
    if (spot_plan_doc_is_suspend(plan)) {
        s->is_regrouping = true;
        return 0;
    }
    if (check_grid(s, &want, err) || spot_size_route_take(&s->routes.size, plan, err))
        return -1;
    take_routes(s, plan);
    s->routes.is_of_fleet = false;
    *changed = !spot_grid_equal(&s->grid, &want) || s->n_at_once != n_at_once;
    s->is_regrouping |= want.P != s->grid.P || want.M != s->grid.M;
    s->grid = want;
    s->n_at_once = n_at_once;
    return 0;
}

/* True if all replicas are in phase WAIT. */
static bool all_wait(const struct spot_server *s)
{
    for (size_t i = 0; i < s->n_place; i++) {
        const struct spot_view *const view = s->place[i]->view;

        if (view && spot_view_machine(view)->phase != SPOT_PHASE_WAIT)
            return false;
    }
    return true;
}

/* The next view after `index` that lacks members; an empty view is created if there is none. */
static struct spot_replica *room_behind(struct spot_server *s, uint32_t index)
{
    struct spot_replica *p;

    do {
        p = replica_of(s, ++index);
        p->view = spot_group_view(s->group, index);
    } while (spot_view_placeable(p->view) >= size_of_replica(s));
    return p;
}

/* Replicas with more members than they now need give them to later ones; incomplete replicas are
 * merged afterwards. */
static void spread(struct spot_server *s)
{
    for (uint32_t i = 0; i < s->n_place; i++)
        while (s->place[i]->view && spot_view_placeable(s->place[i]->view) > size_of_replica(s))
            move_one(s, s->place[i], room_behind(s, i));
}

static bool must_stop(const struct spot_server *s, uint32_t index)
{
    const struct spot_view *const view = s->place[index]->view;
    const enum spot_phase phase = view ? spot_view_machine(view)->phase : SPOT_PHASE_WAIT;

    return (phase == SPOT_PHASE_RUN || phase == SPOT_PHASE_MIGRATE) &&
           (s->is_regrouping || !is_wanted(s, index));
}

int spot_server_regroup(struct spot_server *s, struct spot_err *err)
{
    for (uint32_t i = 0; i < s->n_place; i++) {
        struct spot_view *const view = s->place[i]->view;

        if (must_stop(s, i) && spot_view_break(view, spot_view_machine(view)->epoch, err))
            return -1;
    }
    if (s->is_regrouping && all_wait(s)) {
        spread(s);
        for (size_t i = 0; i < s->n_seat; i++)
            s->seat[i]->position = -1; /* the position belonged to another grid */
        s->is_regrouping = false;
    }
    return 0;
}

/* --- an epoch ----------------------------------------------------------------------------- */

bool spot_server_may_begin(void *server, struct spot_view *view)
{
    struct spot_server *const s = server;

    replica_of(s, spot_view_index(view))->view = view;
    return !s->is_regrouping && spot_view_placeable(view) >= size_of_replica(s) &&
           is_wanted(s, spot_view_index(view));
}

bool spot_server_can_replace(const struct spot_server *s, const struct spot_replica *p)
{
    return spot_view_placeable(p->view) >= size_of_replica(s);
}

/* A member keeps its position if possible, and with it the weights. Returns the number of placed
 * members. */
static uint32_t place(struct spot_server *s, struct spot_view *view, bool as_before,
                      struct spot_relay_form *form)
{
    const struct spot_machine *const m = spot_view_machine(view);
    uint32_t n = 0, next = 0;

    for (size_t i = 0; i < m->n_member; i++) {
        const uint32_t id = m->member[i].id;
        struct spot_seat *const seat = spot_peer_data(spot_group_find(s->group, id));
        const bool is_placed = m->member[i].role == SPOT_ROLE_ACTIVE;

        if (is_placed || !spot_view_may_place(view, &m->member[i]) ||
            (as_before && (seat->position < 0 || form->member[seat->position].id)))
            continue;
        while (!as_before && next < size_of_replica(s) && form->member[next].id)
            next++;
        if (!as_before && next == size_of_replica(s))
            break;
        if (!as_before)
            seat->position = (int)next;
        form->member[seat->position].id = id;
        spot_view_set_role(view, id, SPOT_ROLE_ACTIVE);
        n++;
    }
    return n;
}

/* Addresses depend on the member that uses them. */
static void put_addresses(const struct spot_server *s, const struct spot_peer *to,
                          struct spot_relay_form *form)
{
    for (uint32_t i = 0; i < form->P * form->M; i++)
        spot_peer_address(spot_group_find(s->group, form->member[i].id), to,
                          form->member[i].address);
}

void spot_server_form(const struct spot_server *s, const struct spot_replica *p,
                      const struct spot_peer *to, struct spot_relay_form *form)
{
    *form = (struct spot_relay_form){ .P = (uint32_t)s->grid.P, .M = (uint32_t)s->grid.M };
    for (uint32_t i = 0; i < size_of_replica(s); i++)
        form->member[i].id = p->member[i];
    put_addresses(s, to, form);
}

static void tell_form(struct spot_server *s, const struct spot_model_version *version,
                      struct spot_relay_form *form)
{
    for (uint32_t i = 0; i < form->P * form->M; i++) {
        struct spot_peer *const to = spot_group_find(s->group, form->member[i].id);
        struct spot_buf out = { 0 };

        form->position = i;
        put_addresses(s, to, form);
        spot_server_put_model(version, &out);
        spot_relay_form_put(&out, form);
        spot_peer_send(to, SPOT_MSG_FORM, 0, out.data, out.n);
        spot_buf_release(&out);
    }
}

int spot_server_layout(void *server, struct spot_view *view, struct spot_err *err)
{
    struct spot_server *const s = server;
    const struct spot_machine *const m = spot_view_machine(view);
    struct spot_replica *const p = replica_of(s, spot_view_index(view));
    struct spot_relay_form form = { .P = (uint32_t)s->grid.P, .M = (uint32_t)s->grid.M };

    (void)err;
    p->view = view;
    p->peer = NULL;
    if (s->is_regrouping || spot_group_is_suspended(s->group) ||
        !is_wanted(s, spot_view_index(view)) || spot_view_placeable(view) < size_of_replica(s)) {
        spot_view_hold(view);
        return 0;
    }
    for (size_t i = 0; i < m->n_member; i++)
        spot_view_set_role(view, m->member[i].id, SPOT_ROLE_SPARE);
    if (place(s, view, true, &form) < size_of_replica(s))
        (void)place(s, view, false, &form);
    p->peer = spot_group_find(s->group, form.member[0].id);
    p->buddy = NULL;
    p->n_token_paged = 0;
    spot_server_hold_nothing(p);
    for (uint32_t i = 0; i < size_of_replica(s); i++)
        p->member[i] = form.member[i].id;
    p->version = spot_server_version_for(s, p);
    p->is_retiring = false;
    tell_form(s, p->version, &form);
    spot_view_form(view, m->round);
    return 0;
}
