/* SPDX-License-Identifier: MIT */
/* Which member holds which state, and what follows from that: which commit is complete, which is
 * safe, which member sends it and which member should get a copy. */
#include <stdio.h>
#include <string.h>

#include "comm/endpoint.h"
#include "common/xalloc.h"
#include "host/exec_job_state.h"

/* --- holdings ----------------------------------------------------------------------------- */

struct spot_exec_member *spot_exec_member_at(const struct spot_exec_job *job, size_t i)
{
    struct spot_peer *const peer =
        spot_group_find(job->group, spot_view_machine(job->view)->member[i].id);
    struct spot_exec_member *const member = spot_peer_is_aside(peer) ? NULL : spot_peer_data(peer);

    if (member)
        member->id = spot_peer_id(peer);
    return member;
}

static const struct spot_exec_holding *find(const struct spot_exec_member *m,
                                            const struct spot_state_id *id, uint32_t place)
{
    for (size_t i = 0; i < m->has.n; i++)
        if (m->has.of[i].place == place && !spot_state_id_compare(&m->has.of[i].id, id))
            return &m->has.of[i];
    return NULL;
}

bool spot_exec_holds(const struct spot_exec_member *m, const struct spot_state_id *id,
                     uint32_t place)
{
    return find(m, id, place) != NULL;
}

void spot_exec_add_holding(struct spot_exec_job *job, struct spot_exec_member *m,
                           const struct spot_state_id *id, uint32_t place, uint32_t world)
{
    struct spot_exec_holding h = { .id = *id, .place = place, .world = world };

    if (find(m, id, place))
        return;
    memcpy(h.run_id, job->run_id, sizeof(h.run_id));
    m->has.of = spot_xgrow(m->has.of, &m->has.cap, m->has.n + 1, sizeof(h));
    m->has.of[m->has.n++] = h;
}

void spot_exec_drop_holding(struct spot_exec_member *m, const struct spot_state_id *id,
                            uint32_t place)
{
    for (size_t i = m->has.n; i-- > 0;)
        if (m->has.of[i].place == place && !spot_state_id_compare(&m->has.of[i].id, id))
            m->has.of[i] = m->has.of[--m->has.n];
}

/* --- completeness --- */

static bool is_held(const struct spot_exec_job *job, const struct spot_exec_point *point,
                    uint32_t place)
{
    const struct spot_machine *const m = spot_view_machine(job->view);

    for (size_t i = 0; i < m->n_member; i++) {
        const struct spot_exec_member *const x = spot_exec_member_at(job, i);
        const struct spot_exec_holding *const h = x ? find(x, &point->id, place) : NULL;

        if (h && h->world == point->world && (!*h->run_id || !strcmp(h->run_id, job->run_id)))
            return true;
    }
    return spot_exec_disk_holds(job, point, place);
}

static bool is_whole(const struct spot_exec_job *job, const struct spot_exec_point *point)
{
    if (!point->is_set)
        return false;
    for (uint32_t p = 0; p < point->world; p++)
        if (!is_held(job, point, p))
            return false;
    return true;
}

/* --- safety ----------------------------------------------------------------------------- */

static void host_of(const struct spot_peer *peer, char host[SPOT_ADDRESS_MAX + 8])
{
    char *end;

    spot_peer_address(peer, peer, host);
    end = strrchr(host, ':');
    if (!strncmp(host, "unix:", 5))
        *host = '\0';
    else if (end)
        *end = '\0';
}

/* How much must fail to lose both copies: 0 one failure domain, 1 one machine, 2 more than that. A
 * member without a domain counts as a domain of its own. */
static int distance(const struct spot_peer *a, const struct spot_peer *b)
{
    const char *const x = spot_peer_domain(a), *const y = spot_peer_domain(b);
    char host_a[SPOT_ADDRESS_MAX + 8], host_b[SPOT_ADDRESS_MAX + 8];

    if (*x && *y)
        return strcmp(x, y) ? 2 : 0;
    host_of(a, host_a);
    host_of(b, host_b);
    return strcmp(host_a, host_b) ? 2 : 1;
}

/* The member if it is expected to stay, else NULL. */
static struct spot_peer *stayer(const struct spot_exec_job *job, size_t i)
{
    const struct spot_member *const m = &spot_view_machine(job->view)->member[i];

    return spot_exec_member_at(job, i) && !m->is_leaving ? spot_group_find(job->group, m->id)
                                                         : NULL;
}

/* The staying members that hold the place. */
struct holders {
    struct spot_peer *peer[SPOT_MEMBERS_MAX];
    size_t n;
};

static void find_holders(const struct spot_exec_job *job, const struct spot_exec_point *point,
                         uint32_t place, struct holders *h)
{
    const struct spot_machine *const m = spot_view_machine(job->view);

    h->n = 0;
    for (size_t i = 0; i < m->n_member && h->n < SPOT_MEMBERS_MAX; i++) {
        struct spot_peer *const peer = stayer(job, i);

        if (peer && spot_exec_holds(spot_peer_data(peer), &point->id, place))
            h->peer[h->n++] = peer;
    }
}

/* The largest distance from another holder to `peer`; -1: there is no other. */
static int farthest(const struct holders *h, const struct spot_peer *peer)
{
    int best = -1;

    for (size_t i = 0; i < h->n && best < 2; i++) {
        const int d = h->peer[i] == peer ? -1 : distance(h->peer[i], peer);

        best = d > best ? d : best;
    }
    return best;
}

/* The best distance between two copies: among existing copies, and among those that could exist. */
static void best_copies(const struct spot_exec_job *job, const struct holders *h, int *have,
                        int *could)
{
    const struct spot_machine *const m = spot_view_machine(job->view);

    *have = *could = -1;
    for (size_t i = 0; i < h->n && *have < 2; i++) {
        const int d = farthest(h, h->peer[i]);

        *have = d > *have ? d : *have;
    }
    *could = *have;
    for (size_t i = 0; i < m->n_member && *could < 2; i++) {
        const struct spot_peer *const peer = stayer(job, i);
        const int d = peer ? farthest(h, peer) : -1;

        *could = d > *could ? d : *could;
    }
}

bool spot_exec_is_safe(const struct spot_exec_job *job, const struct spot_exec_point *point)
{
    struct holders h;

    for (uint32_t p = 0; point->is_set && p < point->world; p++) {
        int have, could;

        find_holders(job, point, p, &h);
        best_copies(job, &h, &have, &could);
        if (have < 0 || have < could)
            return false;
    }
    return point->is_set;
}

/* --- what a round would start from --- */

static bool is_doubted(const struct spot_exec_states *s, const struct spot_state_id *id)
{
    for (size_t i = 0; i < s->n_doubted; i++)
        if (!spot_state_id_compare(&s->doubted[i], id))
            return true;
    return false;
}

static void consider_newest(struct spot_exec_job *job, const struct spot_exec_point *point)
{
    struct spot_exec_point *const newest = &job->states.newest;

    if (!is_doubted(&job->states, &point->id) &&
        (!newest->is_set || spot_state_id_compare(&point->id, &newest->id) > 0) &&
        is_whole(job, point))
        *newest = *point;
}

/* Keep the newest file time of all places. */
static void keep_saved(struct spot_exec_point *newest, const struct spot_exec_point *part)
{
    if (!spot_state_id_compare(&newest->id, &part->id) && part->saved.at_ns > newest->saved.at_ns)
        newest->saved = part->saved;
}

/* Find the newest commit of which the disk has a complete copy. */
static void find_on_disk(struct spot_exec_job *job)
{
    const size_t n = job->disk.store ? spot_state_store_count(job->disk.store) : 0;

    job->disk.newest = (struct spot_exec_point){ 0 };
    for (size_t i = 0; i < n; i++) {
        const struct spot_state_record *const r = spot_state_store_at(job->disk.store, i);
        const struct spot_exec_point point = {
            .is_set = true, .id = r->id, .world = r->world, .saved = spot_state_record_saved(r)
        };
        bool is_there = true;

        consider_newest(job, &point);
        keep_saved(&job->states.newest, &point);
        for (uint32_t p = 0; is_there && p < point.world; p++)
            is_there = spot_exec_disk_holds(job, &point, p);
        if (is_there)
            job->disk.newest = point;
    }
}

/* A round begins from the found checkpoint: it becomes the first commit of the job. Checkpoints
 * found by other nodes are kept until there is another commit, since this one may not be
 * loadable. */
void spot_exec_adopt_found_point(struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_exec_states *const s = &job->states;
    const bool is_it =
        s->newest.is_set && s->found.is_set && !spot_state_id_compare(&s->newest.id, &s->found.id);

    for (size_t i = 0; i < m->n_member; i++) {
        struct spot_exec_member *const x = spot_exec_member_at(job, i);

        for (size_t k = x ? x->has.n : 0; k-- > 0;) {
            struct spot_exec_holding *const h = &x->has.of[k];

            if (is_it && !spot_state_id_compare(&h->id, &s->found.id))
                memcpy(h->run_id, job->run_id, sizeof(h->run_id));
            else if (!*h->run_id && !s->newest.is_set)
                *h = x->has.of[--x->has.n];
        }
    }
    if (is_it)
        s->found_round = job->restart_count;
    s->found.is_set = s->found.is_set && is_it;
}

/* Choose among the checkpoints that nodes found in their scripts' directories when they began. They
 * are used for the first round if there is no commit, or only an older one and no node of the job
 * is left; afterwards only if commits are doubted. */
static void find_found(struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_exec_states *const s = &job->states;
    const bool counts = !s->has_begun || (s->n_doubted && !s->found.is_set);
    bool is_left = false;

    for (size_t i = 0; i < m->n_member; i++) {
        const struct spot_exec_member *const x = spot_exec_member_at(job, i);

        is_left = is_left ||
                  (!s->has_begun && x && *x->held.run_id && !strcmp(x->held.run_id, job->run_id));
        for (size_t k = 0; x && counts && k < x->has.n; k++) {
            const struct spot_exec_holding *const h = &x->has.of[k];

            if (*h->run_id || is_doubted(s, &h->id) ||
                (s->found.is_set && h->saved.at_ns <= s->found.saved.at_ns))
                continue;
            s->found = (struct spot_exec_point){
                .is_set = true, .id = h->id, .world = h->world, .saved = h->saved
            };
            snprintf(s->found_by, sizeof(s->found_by), "%s",
                     spot_peer_name(spot_group_find(job->group, x->id)));
        }
    }
    if (is_whole(job, &s->found) &&
        (!s->newest.is_set || (s->has_begun && s->newest.id.round < s->found_round) ||
         (counts && !is_left && s->newest.saved.at_ns &&
          s->found.saved.at_ns > s->newest.saved.at_ns)))
        s->newest = s->found;
}

static void find_points(struct spot_exec_job *job)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_exec_states *const s = &job->states;

    s->newest = s->safe = s->target = (struct spot_exec_point){ 0 };
    if (!s->has_begun || is_doubted(s, &s->found.id)) {
        s->found.is_set = false; /* or the node that found it may be gone */
        s->found_round = 0;
    }
    find_on_disk(job);
    for (size_t i = 0; i < m->n_member; i++) {
        const struct spot_exec_member *const x = spot_exec_member_at(job, i);

        for (size_t k = 0; x && k < x->has.n; k++) {
            const struct spot_exec_holding *const h = &x->has.of[k];
            const struct spot_exec_point point = {
                .is_set = true, .id = h->id, .world = h->world, .saved = h->saved
            };

            if (strcmp(h->run_id, job->run_id) != 0 || is_doubted(s, &h->id))
                continue;
            consider_newest(job, &point);
            keep_saved(&s->newest, &point);
            if ((!s->safe.is_set || spot_state_id_compare(&h->id, &s->safe.id) > 0) &&
                spot_exec_is_safe(job, &point))
                s->safe = point;
        }
    }
    find_found(job);
}

/* --- commits that cannot be loaded --- */

enum { TRIES = 3 };

/* Number of tries for a commit: the last restart that is allowed is one from an older commit. */
static uint32_t n_tries(const struct spot_exec_job *job)
{
    return job->options->max_restarts < TRIES ? (uint32_t)job->options->max_restarts : TRIES;
}

void spot_exec_doubt(struct spot_exec_job *job)
{
    struct spot_exec_states *const s = &job->states;

    if (!s->newest.is_set || s->newest.id.key == s->key) {
        s->n_tried = 0;
        return;
    }
    if (spot_state_id_compare(&s->tried, &s->newest.id) != 0)
        s->n_tried = 0;
    s->tried = s->newest.id;
    s->n_tried++;
}

/* Use the next older commit; if there is none, try all of them again. */
static void find_older(struct spot_exec_job *job)
{
    struct spot_exec_states *const s = &job->states;
    char which[SPOT_STATE_DESCRIBED], older[SPOT_STATE_DESCRIBED];

    spot_exec_describe_newest(job, which);
    if (s->n_doubted == SPOT_EXEC_DOUBTED_MAX)
        s->n_doubted = 0;
    s->doubted[s->n_doubted++] = s->tried;
    find_points(job);
    if (!s->newest.is_set) {
        s->n_doubted = 0;
        find_points(job);
    }
    spot_exec_describe_newest(job, older);
    if (spot_state_id_compare(&s->newest.id, &s->tried) != 0)
        job->options->group.warn("%lu rounds that began from %s failed before saving anything: the "
                                 "next one begins from %s instead",
                                 (unsigned long)s->n_tried, which, older);
    s->n_tried = 0;
}

void spot_exec_find_points(struct spot_exec_job *job)
{
    struct spot_exec_states *const s = &job->states;

    find_points(job);
    if (s->n_tried && s->n_tried >= n_tries(job) && s->newest.is_set &&
        !spot_state_id_compare(&s->newest.id, &s->tried))
        find_older(job);
}

void spot_exec_check_anew(struct spot_exec_job *job, uint64_t step)
{
    struct spot_exec_states *const s = &job->states;

    if (!s->newest.is_set || s->newest.id.key == s->key || step >= s->newest.id.step ||
        s->has_warned_anew)
        return;
    s->has_warned_anew = true;
    job->options->group.warn("the ranks are at step %llu in a round that began from step %llu: "
                             "does the command load its checkpoint?",
                             (unsigned long long)step, (unsigned long long)s->newest.id.step);
}

/* --- senders and receivers --- */

static size_t n_orders(const struct spot_exec_job *job, uint32_t id)
{
    size_t n = 0;

    for (size_t i = 0; i < job->states.n_order; i++)
        n += job->states.order[i].move.from == id || job->states.order[i].move.to == id;
    return n;
}

static size_t n_held(const struct spot_exec_member *m, const struct spot_state_id *id)
{
    size_t n = 0;

    for (size_t i = 0; i < m->has.n; i++)
        n += !spot_state_id_compare(&m->has.of[i].id, id);
    return n;
}

struct spot_exec_member *spot_exec_find_giver(const struct spot_exec_job *job,
                                              const struct spot_exec_point *point, uint32_t place)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_exec_member *best = NULL;

    for (size_t i = 0; i < m->n_member; i++) {
        struct spot_exec_member *const x = spot_exec_member_at(job, i);

        if (x && spot_exec_holds(x, &point->id, place) &&
            (!best || n_orders(job, x->id) < n_orders(job, best->id)))
            best = x;
    }
    return best;
}

/* The member of this epoch that is farthest from a holder; of equals the one that holds least. */
struct spot_exec_member *spot_exec_find_buddy(const struct spot_exec_job *job,
                                              const struct spot_exec_point *point, uint32_t place)
{
    const struct spot_machine *const m = spot_view_machine(job->view);
    struct spot_exec_member *best = NULL;
    int best_distance, could;
    size_t best_load = 0;
    struct holders h;

    find_holders(job, point, place, &h);
    best_copies(job, &h, &best_distance, &could);
    for (size_t i = 0; i < m->n_member; i++) {
        const struct spot_peer *const peer = stayer(job, i);
        struct spot_exec_member *const x = peer ? spot_peer_data(peer) : NULL;
        const size_t load = x ? n_held(x, &point->id) + n_orders(job, x->id) : 0;
        int d;

        if (!x || x->entered != m->epoch || spot_exec_holds(x, &point->id, place))
            continue;
        d = farthest(&h, peer);
        if (d > best_distance || (best && d == best_distance && load < best_load)) {
            best = x;
            best_distance = d;
            best_load = load;
        }
    }
    return best;
}
