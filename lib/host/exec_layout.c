/* SPDX-License-Identifier: MIT */
/* Which node has which ranks, and whether running ranks may stay. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/protocol.h"
#include "comm/endpoint.h"
#include "common/clock.h"
#include "common/random.h"
#include "common/xalloc.h"
#include "host/exec_job_state.h"

enum { PORT_USUAL = 29500 }; /* used if an agent could reserve no port */

static bool is_of_run(const struct spot_exec_job *job, const struct spot_exec_member *m)
{
    return *m->held.run_id && !strcmp(m->held.run_id, job->run_id);
}

/* Find the run if none of its agents is left, but states that they held or copies of these are. */
static void find_run(struct spot_exec_job *job, struct spot_exec_member *const *member, size_t n)
{
    if (!*job->run_id && job->disk.store && spot_state_store_count(job->disk.store))
        snprintf(job->run_id, sizeof(job->run_id), "%s",
                 spot_state_store_at(job->disk.store, 0)->run_id);
    for (size_t i = 0; i < n && !*job->run_id; i++)
        for (size_t k = 0; k < member[i]->has.n && !*job->run_id; k++)
            snprintf(job->run_id, sizeof(job->run_id), "%s", member[i]->has.of[k].run_id);
}

/* Continue the numbering of rounds after those that have committed something. */
static void count_rounds(struct spot_exec_job *job, const struct spot_exec_holdings *has)
{
    for (size_t i = 0; i < has->n; i++)
        if (!strcmp(has->of[i].run_id, job->run_id) && has->of[i].id.round >= job->n_started)
            job->n_started = has->of[i].id.round + 1;
}

/* Members of an earlier coordinator report the run id and the last round. */
static int settle_run(struct spot_exec_job *job, struct spot_exec_member *const *member, size_t n,
                      struct spot_err *err)
{
    uint64_t drawn;

    for (size_t i = 0; i < n && !*job->run_id; i++)
        snprintf(job->run_id, sizeof(job->run_id), "%s", member[i]->held.run_id);
    if (spot_group_resumes(job->group))
        find_run(job, member, n);
    if (!*job->run_id) {
        if (spot_random_bytes(&drawn, sizeof(drawn), err))
            return -1;
        snprintf(job->run_id, sizeof(job->run_id), "%016llx", (unsigned long long)drawn);
    }
    for (size_t i = 0; job->disk.store && i < spot_state_store_count(job->disk.store); i++) {
        const struct spot_state_record *const r = spot_state_store_at(job->disk.store, i);

        if (!strcmp(r->run_id, job->run_id) && r->id.round >= job->n_started)
            job->n_started = r->id.round + 1;
    }
    for (size_t i = 0; i < n; i++) {
        const struct spot_exec_held *const h = &member[i]->held;

        count_rounds(job, &member[i]->has);
        if (!is_of_run(job, member[i]))
            continue;
        if (h->restart_count >= job->n_started)
            job->n_started = h->restart_count + 1;
        if (h->n_failed > job->n_failed && !job->charged_epoch)
            job->n_failed = h->n_failed;
    }
    return 0;
}

/* --- may running ranks stay? --- */

static bool runs(const struct spot_exec_member *m)
{
    return m->held.state == SPOT_EXEC_RUNNING || m->held.state == SPOT_EXEC_DONE;
}

/* How many nodes of the newest round are here, each with its own rank; *world: the size of the
 * round. 0: not all of them are. */
static size_t of_round(const struct spot_exec_job *job, struct spot_exec_member *const *member,
                       size_t n, uint32_t *world)
{
    bool *const seen = spot_xcalloc(SPOT_MEMBERS_MAX, sizeof(*seen));
    size_t found = 0;
    bool is_whole = true;

    *world = 0;
    for (size_t i = 0; i < n; i++) {
        const struct spot_exec_held *const h = &member[i]->held;

        if (!is_of_run(job, member[i]) || h->restart_count + 1 != job->n_started)
            continue;
        if (!*world)
            *world = h->group_world;
        if (!runs(member[i]) || h->group_world != *world || h->group_world > SPOT_MEMBERS_MAX ||
            seen[h->group_rank])
            is_whole = false;
        else
            seen[h->group_rank] = true;
        found++;
    }
    /* a missing node is no problem if its ranks had finished */
    for (uint32_t g = 0; is_whole && g < *world; g++)
        if (!seen[g] && !(job->group_world == *world && job->restart_count + 1 == job->n_started &&
                          job->is_done[g]))
            is_whole = false;
    free(seen);
    return is_whole ? found : 0;
}

/* True if the running ranks may stay: no further member would get a place. */
static bool may_keep(const struct spot_exec_job *job, struct spot_exec_member *const *member,
                     size_t n, uint32_t *world)
{
    const size_t found = of_round(job, member, n, world);

    return found && *world >= job->options->n_min && *world <= job->options->n_max &&
           (found == n || *world == job->options->n_max);
}

/* --- places -------------------------------------------------------------------------- */

/* Order: survivors of the newest round in their old order, then the others in order of joining. */
static int by_place(const void *a, const void *b)
{
    const struct spot_exec_member *const x = *(struct spot_exec_member *const *)a,
                                         *const y = *(struct spot_exec_member *const *)b;

    if (x->group_rank != y->group_rank)
        return x->group_rank < y->group_rank ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void order(const struct spot_exec_job *job, struct spot_exec_member **member, size_t n)
{
    for (size_t i = 0; i < n; i++)
        member[i]->group_rank =
            is_of_run(job, member[i]) && member[i]->held.restart_count + 1 == job->n_started
                ? member[i]->held.group_rank
                : UINT32_MAX;
    qsort(member, n, sizeof(struct spot_exec_member *), by_place);
    for (size_t i = 0; i < n; i++)
        member[i]->group_rank = (uint32_t)i;
}

/* The host part of an address such as "10.0.0.7:1234" or "[::1]:1234". */
static void host_of(const struct spot_exec_job *job, const struct spot_exec_member *master,
                    const struct spot_exec_member *to, char host[SPOT_MASTER_MAX])
{
    char text[SPOT_ADDRESS_MAX + 8];
    char *end;

    spot_peer_address(spot_group_find(job->group, master->id), spot_group_find(job->group, to->id),
                      text);
    end = strrchr(text, ':');
    if (!strncmp(text, "unix:", 5) || !end) {
        snprintf(host, SPOT_MASTER_MAX, "127.0.0.1");
        return;
    }
    *end = '\0';
    if (*text == '[' && end[-1] == ']') {
        end[-1] = '\0';
        snprintf(host, SPOT_MASTER_MAX, "%s", text + 1);
    } else {
        snprintf(host, SPOT_MASTER_MAX, "%s", text);
    }
}

/* True for a member that takes part in the epoch, with a place or without: it must be reachable. */
static bool may_enter(const struct spot_exec_job *job, size_t i)
{
    const struct spot_member *const m = &spot_view_machine(job->view)->member[i];

    return m->is_leaving ? spot_exec_member_at(job, i) != NULL : spot_view_may_place(job->view, m);
}

/* The peers with the addresses at which `to` can reach them. */
static struct spot_mesh_peer *list_peers(const struct spot_exec_job *job,
                                         const struct spot_exec_member *to, size_t *n)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_mesh_peer *const peer = spot_xcalloc(m->n_member, sizeof(*peer));

    *n = 0;
    for (size_t i = 0; i < m->n_member; i++) {
        if (!may_enter(job, i))
            continue;
        peer[*n].id = m->member[i].id;
        spot_peer_address(spot_group_find(job->group, m->member[i].id),
                          spot_group_find(job->group, to->id), peer[*n].address);
        ++*n;
    }
    return peer;
}

static void add_moves(const struct spot_exec_job *job, uint32_t id, struct spot_exec_form *form)
{
    const struct spot_exec_states *const s = &job->states;

    form->move = spot_xcalloc(s->n_order, sizeof(*form->move));
    for (size_t i = 0; i < s->n_order; i++)
        if (s->order[i].move.from == id || s->order[i].move.to == id)
            form->move[form->n_move++] = s->order[i].move;
}

static struct spot_rank_env env_of(const struct spot_exec_job *job,
                                   const struct spot_exec_member *master,
                                   const struct spot_exec_member *to)
{
    const uint32_t n_rank = job->options->n_rank;
    const struct spot_exec_point *const state = &job->states.newest;
    struct spot_rank_env env = { .group_rank = to->group_rank,
                                 .group_world = job->group_world,
                                 .first_rank = to->group_rank * n_rank,
                                 .world = job->group_world * n_rank,
                                 .local_world = n_rank,
                                 .restart_count = job->restart_count,
                                 .max_restarts = (uint32_t)job->options->max_restarts,
                                 .has_state = state->is_set,
                                 .state_step = state->id.step,
                                 .state_world = state->world };

    env.master_port = master->held.port ? master->held.port : PORT_USUAL;
    host_of(job, master, to, env.master_address);
    snprintf(env.run_id, sizeof(env.run_id), "%s", job->run_id);
    return env;
}

/* `master` has rank 0; NULL: `to` gets no place. */
static void send_form(struct spot_exec_job *job, const struct spot_exec_member *master,
                      struct spot_exec_member *to)
{
    struct spot_exec_form form = { .is_kept = job->is_kept,
                                   .has_place = master != NULL,
                                   .n_failed = job->n_failed,
                                   .key = job->states.key,
                                   .state = job->states.newest.id,
                                   .has_all = spot_exec_restores_all(job) };
    struct spot_buf out = { 0 };

    if (master)
        form.env = env_of(job, master, to);
    form.peer = list_peers(job, to, &form.n_peer);
    if (spot_view_machine(job->view)->phase != SPOT_PHASE_RUN)
        add_moves(job, to->id, &form);
    to->entered = spot_view_machine(job->view)->epoch;
    spot_exec_put_form(&out, &form);
    spot_peer_send(spot_group_find(job->group, to->id), SPOT_MSG_FORM, 0, out.data, out.n);
    spot_buf_release(&out);
    spot_exec_form_release(&form);
}

static bool is_late(const struct spot_exec_job *job, size_t i)
{
    const struct spot_machine *const m = spot_view_machine(job->view);

    return !m->member[i].is_leaving && may_enter(job, i) &&
           spot_exec_member_at(job, i)->entered != m->epoch;
}

void spot_exec_invite(struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    bool is_news = false;

    for (size_t i = 0; i < m->n_member; i++)
        is_news = is_news || is_late(job, i);
    if (!is_news || spot_view_wants_change(job->view))
        return;
    for (size_t i = 0; i < m->n_member; i++) {
        struct spot_exec_member *const x = spot_exec_member_at(job, i);
        struct spot_mesh_peer *peer;
        struct spot_buf out = { 0 };
        size_t n;

        if (!x || !may_enter(job, i))
            continue;
        if (x->entered != m->epoch) {
            send_form(job, NULL, x);
            continue;
        }
        peer = list_peers(job, x, &n);
        spot_exec_put_peers(&out, peer, n);
        spot_peer_send(spot_group_find(job->group, x->id), SPOT_MSG_EXEC_PEERS, 0, out.data, out.n);
        spot_buf_release(&out);
        free(peer);
    }
    job->states.is_stale = true;
}

static int log_formed(struct spot_exec_job *job, struct spot_exec_member *const *member, size_t n,
                      struct spot_err *err)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_journal *const journal = spot_group_journal(job->group);
    struct spot_jw *const jw = spot_journal_begin(journal, "formed", m->epoch, m->round);

    if (jw) {
        spot_jw_int(jw, "D", (int64_t)n);
        spot_jw_int(jw, "P", 1);
        spot_jw_int(jw, "members", (int64_t)spot_group_members(job->group));
        spot_jw_int(jw, "world", (int64_t)job->group_world * job->options->n_rank);
        spot_jw_int(jw, "restart", job->restart_count);
        spot_jw_bool(jw, "kept", job->is_kept);
        spot_jw_array(jw, "place");
        for (size_t i = 0; i < n; i++)
            spot_jw_str(jw, NULL, spot_peer_name(spot_group_find(job->group, member[i]->id)));
        spot_jw_end(jw);
    }
    return spot_journal_end(journal, err);
}

/* --- starting an epoch --- */

/* The members that may get a place. Slow ones, and new ones that are not warm yet, count only if
 * there are too few others. */
static struct spot_exec_member **placeable(const struct spot_exec_job *job, struct spot_view *view,
                                           size_t *n)
{
    const struct spot_machine *const m = spot_view_machine(view);
    struct spot_exec_member **const member =
        spot_xcalloc(2 * m->n_member + 1, sizeof(struct spot_exec_member *));
    size_t n_late = 0;

    *n = 0;
    for (size_t i = 0; i < m->n_member; i++)
        if (spot_view_may_place(view, &m->member[i])) {
            struct spot_exec_member *const x =
                spot_peer_data(spot_group_find(job->group, m->member[i].id));

            x->id = m->member[i].id;
            if (spot_exec_is_ready(job, x))
                member[(*n)++] = x;
            else
                member[m->n_member + n_late++] = x;
        }
    if (*n < job->options->n_min)
        for (size_t i = 0; i < n_late; i++)
            member[(*n)++] = member[m->n_member + i];
    return member;
}

static void halt_others(struct spot_exec_job *job, struct spot_view *view)
{
    const struct spot_machine *const m = spot_view_machine(view);

    for (size_t i = 0; i < m->n_member; i++)
        if (m->member[i].role != SPOT_ROLE_ACTIVE)
            spot_peer_send(spot_group_find(job->group, m->member[i].id), SPOT_MSG_EXEC_HALT, 0,
                           NULL, 0);
}

static int hold(struct spot_exec_job *job, struct spot_view *view)
{
    spot_view_hold(view);
    halt_others(job, view);
    return 0;
}

/* Draw a key that no other round has, including rounds with the same number begun by another
 * coordinator. */
static int take_key(struct spot_exec_job *job, const struct spot_exec_member *kept,
                    struct spot_err *err)
{
    struct spot_exec_states *const s = &job->states;

    if (kept) {
        s->has_key = s->has_key && s->key == kept->held.key;
        s->key = kept->held.key;
    } else if (spot_random_bytes(&s->key, sizeof(s->key), err)) {
        return -1;
    }
    spot_exec_begin_round(job);
    s->has_key = true;
    return 0;
}

static void take_round(struct spot_exec_job *job, uint32_t world, bool is_kept)
{
    if (!is_kept || job->group_world != world || job->restart_count + 1 != job->n_started) {
        free(job->is_done);
        job->is_done = spot_xcalloc(world, sizeof(*job->is_done));
        job->is_finishing = false;
    }
    job->is_kept = is_kept;
    job->group_world = world;
    job->restart_count = is_kept ? job->n_started - 1 : job->n_started;
}

/* A member without a place still has work before the round if it sends a state. */
static void send_forms(struct spot_exec_job *job, struct spot_exec_member *const *member, size_t n)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    const struct spot_exec_states *const s = &job->states;

    for (size_t i = 0; i < m->n_member; i++) {
        struct spot_exec_member *const x = spot_exec_member_at(job, i);

        if (!x || m->member[i].role == SPOT_ROLE_ACTIVE || !may_enter(job, i))
            continue;
        for (size_t k = 0; k < s->n_order; k++)
            if (s->order[k].move.from == x->id)
                spot_view_set_role(job->view, x->id, SPOT_ROLE_SOURCE);
        send_form(job, NULL, x);
    }
    for (size_t i = 0; i < n; i++)
        send_form(job, member[0], member[i]);
}

static int place(struct spot_exec_job *job, struct spot_view *view,
                 struct spot_exec_member **member, size_t n, struct spot_err *err)
{
    const struct spot_machine *const m = spot_view_machine(view);

    for (size_t i = 0; i < m->n_member; i++)
        spot_view_set_role(view, m->member[i].id, SPOT_ROLE_SPARE);
    for (size_t i = 0; i < n; i++) {
        spot_view_set_role(view, member[i]->id, SPOT_ROLE_ACTIVE);
        member[i]->epoch = m->epoch;
        member[i]->has_saved = false;
        if (job->is_kept && member[i]->held.state == SPOT_EXEC_DONE)
            job->is_done[member[i]->group_rank] = true;
    }
    if ((!job->is_kept && spot_exec_log_restored(job, err)) || log_formed(job, member, n, err))
        return -1;
    spot_exec_news_round(job, member, n);
    send_forms(job, member, n);
    spot_view_form(view, m->round);
    halt_others(job, view);
    return 0;
}

/* List the members of a round that continues, at their ranks. */
static size_t keep(struct spot_exec_job *job, struct spot_exec_member **member, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++)
        if (is_of_run(job, member[i]) && member[i]->held.restart_count + 1 == job->n_started) {
            member[i]->group_rank = member[i]->held.group_rank;
            member[kept++] = member[i];
        }
    return kept;
}

static int lay_out(struct spot_exec_job *job, struct spot_view *view,
                   struct spot_exec_member **member, size_t n, struct spot_err *err)
{
    uint32_t world;

    if (settle_run(job, member, n, err))
        return -1;
    spot_exec_drop_orders(job);
    spot_exec_disk_quiesced(job);
    spot_exec_find_points(job);
    if (may_keep(job, member, n, &world)) {
        take_round(job, world, true);
        n = keep(job, member, n);
        return take_key(job, member[0], err) ? -1 : place(job, view, member, n, err);
    }
    if (n < job->options->n_min || spot_clock_s() < job->not_before_s || job->gives_up)
        return hold(job, view);
    order(job, member, n);
    if (n > job->options->n_max)
        n = job->options->n_max;
    take_round(job, (uint32_t)n, false);
    spot_exec_plan_restore(job, member, n);
    return take_key(job, NULL, err) ? -1 : place(job, view, member, n, err);
}

int spot_exec_layout(void *exec, struct spot_view *view, struct spot_err *err)
{
    struct spot_exec_job *const job = exec;
    size_t n;
    struct spot_exec_member **const member = placeable(job, view, &n);
    const int rc = n ? lay_out(job, view, member, n, err) : hold(job, view);

    free(member);
    return rc;
}

/* A new member counts if there is room for it. */
bool spot_exec_would_change(void *exec, struct spot_view *view)
{
    const struct spot_exec_job *const job = exec;
    const struct spot_machine *const m = spot_view_machine(view);
    struct spot_exec_member **member;
    size_t n_active = 0, n_leaving = 0, n_slow = 0, n;

    for (size_t i = 0; i < m->n_member; i++)
        if (m->member[i].role == SPOT_ROLE_ACTIVE) {
            n_active++;
            n_leaving += m->member[i].is_leaving;
            n_slow += !m->member[i].is_leaving && spot_exec_member_at(job, i) &&
                      spot_exec_member_at(job, i)->is_slow;
        }
    member = placeable(job, view, &n);
    for (size_t i = 0; i < n && n_slow; i++)
        if (member[i]->is_slow)
            n_slow = 0; /* there are too few others */
    free(member);
    return n_leaving || n_slow || (n > n_active - n_leaving && n_active < job->options->n_max);
}

/* False while a round of another coordinator may be coming back: some of its members have, so the
 * others get the time of a lease. */
bool spot_exec_may_begin(void *exec, struct spot_view *view)
{
    const struct spot_exec_job *const job = exec;
    const struct spot_machine *const m = spot_view_machine(view);
    size_t n;
    uint32_t n_back = 0, world = 0;
    struct spot_exec_member **member;

    if (spot_exec_bucket_restores(job) || spot_view_placeable(view) < job->options->n_min ||
        spot_clock_s() < job->not_before_s || job->gives_up)
        return false;
    if (job->states.has_key || !m->n_member ||
        spot_clock_s() - job->began_s > job->options->group.lease_s)
        return true;
    member = placeable(job, view, &n);
    for (size_t i = 0; i < n; i++)
        if (runs(member[i])) {
            n_back++;
            world = member[i]->held.group_world;
        }
    free(member);
    return n_back >= world;
}
