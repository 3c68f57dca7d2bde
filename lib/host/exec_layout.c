/* SPDX-License-Identifier: MIT */
/* Which node has which ranks, and whether those that run may stay. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/protocol.h"
#include "comm/endpoint.h"
#include "common/clock.h"
#include "common/random.h"
#include "common/xalloc.h"
#include "host/exec_job_state.h"

enum { PORT_USUAL = 29500 }; /* where an agent could reserve none */

static bool is_of_run(const struct spot_exec_job *job, const struct spot_exec_member *m)
{
    return *m->held.run_id && !strcmp(m->held.run_id, job->run_id);
}

/* Those of a coordinator before this one tell which run it is, and how far. */
static int settle_run(struct spot_exec_job *job, struct spot_exec_member *const *member, size_t n,
                      struct spot_err *err)
{
    uint64_t drawn;

    for (size_t i = 0; i < n && !*job->run_id; i++)
        snprintf(job->run_id, sizeof(job->run_id), "%s", member[i]->held.run_id);
    if (!*job->run_id) {
        if (spot_random_bytes(&drawn, sizeof(drawn), err))
            return -1;
        snprintf(job->run_id, sizeof(job->run_id), "%016llx", (unsigned long long)drawn);
    }
    for (size_t i = 0; i < n; i++) {
        const struct spot_exec_held *const h = &member[i]->held;

        if (!is_of_run(job, member[i]))
            continue;
        if (h->restart_count >= job->n_started)
            job->n_started = h->restart_count + 1;
        if (h->n_failed > job->n_failed && !job->charged_epoch)
            job->n_failed = h->n_failed;
    }
    return 0;
}

/* --- may those that run stay? ------------------------------------------------------- */

static bool runs(const struct spot_exec_member *m)
{
    return m->held.state == SPOT_EXEC_RUNNING || m->held.state == SPOT_EXEC_DONE;
}

/* Of the newest round, whose size is *world: how many are here, each at its own rank? 0: not so. */
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
    /* who is missing had nothing more to do */
    for (uint32_t g = 0; is_whole && g < *world; g++)
        if (!seen[g] && !(job->group_world == *world && job->restart_count + 1 == job->n_started &&
                          job->is_done[g]))
            is_whole = false;
    free(seen);
    return is_whole ? found : 0;
}

/* Nobody would gain a place. */
static bool may_keep(const struct spot_exec_job *job, struct spot_exec_member *const *member,
                     size_t n, uint32_t *world)
{
    const size_t found = of_round(job, member, n, world);

    return found && *world >= job->options->n_min && *world <= job->options->n_max &&
           (found == n || *world == job->options->n_max);
}

/* --- places -------------------------------------------------------------------------- */

/* Survivors of the newest round as they were, then the others as they came. */
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

/* "10.0.0.7:1234" and "[::1]:1234" without what follows the address. */
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

static void send_form(struct spot_exec_job *job, struct spot_exec_member *const *member, size_t n,
                      size_t to)
{
    const uint32_t n_rank = job->options->n_rank;
    struct spot_rank_env env = { .group_rank = member[to]->group_rank,
                                 .group_world = job->group_world,
                                 .first_rank = member[to]->group_rank * n_rank,
                                 .world = job->group_world * n_rank,
                                 .local_world = n_rank,
                                 .restart_count = job->restart_count,
                                 .max_restarts = job->options->max_restarts };
    struct spot_buf out = { 0 };

    (void)n;
    env.master_port = member[0]->held.port ? member[0]->held.port : PORT_USUAL;
    host_of(job, member[0], member[to], env.master_address);
    snprintf(env.run_id, sizeof(env.run_id), "%s", job->run_id);
    spot_put_u8(&out, job->is_kept);
    spot_put_u32(&out, job->n_failed);
    spot_exec_put_env(&out, &env);
    spot_peer_send(spot_group_find(job->group, member[to]->id), SPOT_MSG_FORM, 0, out.data, out.n);
    spot_buf_release(&out);
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

/* --- an epoch ------------------------------------------------------------------------ */

/* Who may have a place; newcomers that are not warm only where there are too few without them. */
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

static void take_round(struct spot_exec_job *job, uint32_t world, bool is_kept)
{
    if (!is_kept || job->group_world != world || job->restart_count + 1 != job->n_started) {
        free(job->is_done);
        job->is_done = spot_xcalloc(world, sizeof(*job->is_done));
    }
    job->is_kept = is_kept;
    job->group_world = world;
    job->restart_count = is_kept ? job->n_started - 1 : job->n_started;
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
    if (log_formed(job, member, n, err))
        return -1;
    for (size_t i = 0; i < n; i++)
        send_form(job, member, n, i);
    spot_view_form(view, m->round);
    halt_others(job, view);
    return 0;
}

/* Those of the round that stays, at their ranks. */
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
    if (may_keep(job, member, n, &world)) {
        take_round(job, world, true);
        return place(job, view, member, keep(job, member, n), err);
    }
    if (n < job->options->n_min || spot_clock_s() < job->not_before_s || job->gives_up)
        return hold(job, view);
    order(job, member, n);
    if (n > job->options->n_max)
        n = job->options->n_max;
    take_round(job, (uint32_t)n, false);
    return place(job, view, member, n, err);
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

/* A newcomer counts where there is room for it. */
bool spot_exec_would_change(void *exec, struct spot_view *view)
{
    const struct spot_exec_job *const job = exec;
    const struct spot_machine *const m = spot_view_machine(view);
    size_t n_active = 0, n_leaving = 0, n;

    for (size_t i = 0; i < m->n_member; i++)
        if (m->member[i].role == SPOT_ROLE_ACTIVE) {
            n_active++;
            n_leaving += m->member[i].is_leaving;
        }
    free(placeable(job, view, &n));
    return n_leaving || (n > n_active - n_leaving && n_active < job->options->n_max);
}

/* A round of which some have come back: the others may be about to, for a lease. */
bool spot_exec_may_begin(void *exec, struct spot_view *view)
{
    const struct spot_exec_job *const job = exec;
    const struct spot_machine *const m = spot_view_machine(view);
    size_t n;
    uint32_t n_back = 0, world = 0;
    struct spot_exec_member **member;

    if (spot_view_placeable(view) < job->options->n_min || spot_clock_s() < job->not_before_s ||
        job->gives_up)
        return false;
    if (spot_clock_s() - job->began_s > job->options->group.lease_s || !m->n_member)
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
