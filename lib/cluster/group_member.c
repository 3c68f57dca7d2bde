/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/group_state.h"
#include "common/clock.h"
#include "common/utf8.h"
#include "common/version.h"

static int by_id(const void *key, const void *item)
{
    const uint32_t a = *(const uint32_t *)key, b = (*(struct spot_peer *const *)item)->id;

    return (a > b) - (a < b);
}

struct spot_peer *spot_group_find(const struct spot_group *g, uint32_t id)
{
    struct spot_peer *const *hit = NULL;

    if (g->n_named)
        hit = bsearch(&id, g->peer, g->n_named, sizeof(struct spot_peer *), by_id);
    return hit ? *hit : NULL;
}

struct spot_peer *spot_group_find_name(const struct spot_group *g, const char *name)
{
    for (size_t i = 0; i < g->n_peer; i++)
        if (g->peer[i]->id && !strcmp(g->peer[i]->name, name))
            return g->peer[i];
    return NULL;
}

size_t spot_group_members(const struct spot_group *g)
{
    size_t n = 0;

    for (size_t i = 0; i < g->n_view; i++)
        n += g->view[i]->machine.n_member;
    return n;
}

/* --- accessors for the workload ------------------------------------------ */

uint32_t spot_peer_id(const struct spot_peer *peer)
{
    return peer->id;
}

const char *spot_peer_name(const struct spot_peer *peer)
{
    return peer->name;
}

const char *spot_peer_domain(const struct spot_peer *peer)
{
    return peer->domain;
}

double spot_peer_time_left_s(const struct spot_peer *peer)
{
    return peer->leaves_s > 0 ? fmax(peer->leaves_s - spot_clock_s(), 0) : INFINITY;
}

double spot_peer_round_trip_s(const struct spot_peer *peer)
{
    return spot_link_round_trip_s(&peer->link);
}

void *spot_peer_data(const struct spot_peer *peer)
{
    return peer->data;
}

void spot_peer_set_data(struct spot_peer *peer, void *data)
{
    peer->data = data;
}

void spot_peer_send(struct spot_peer *peer, uint32_t type, uint64_t tag, const void *data,
                    size_t n_byte)
{
    const uint32_t epoch = peer->view ? peer->view->machine.epoch : peer->group->last_epoch;

    if (spot_link_send(&peer->link, type, epoch, tag, data, n_byte, NULL))
        spot_link_shutdown(&peer->link);
}

void spot_peer_submit(struct spot_peer *peer, uint32_t type, uint64_t tag,
                      struct spot_buf *data_take)
{
    const uint32_t epoch = peer->view ? peer->view->machine.epoch : peer->group->last_epoch;

    if (spot_link_submit(&peer->link, type, epoch, tag, data_take, NULL))
        spot_link_shutdown(&peer->link);
}

void spot_peer_ask(struct spot_peer *peer)
{
    peer->progress_s = spot_clock_s();
}

size_t spot_group_queued_byte(const struct spot_group *g)
{
    size_t n = 0;

    for (size_t i = 0; i < g->n_peer; i++)
        n += spot_link_queued(&g->peer[i]->link);
    return n;
}

/* --- joining ------------------------------------------------ */

static int refuse_as(struct spot_peer *peer, uint64_t tag, const char *why)
{
    struct spot_buf out = { 0 };

    spot_put_text(&out, why);
    spot_peer_send(peer, SPOT_MSG_REFUSED, tag, out.data, out.n);
    spot_buf_release(&out);
    peer->is_closing = true;
    return 0;
}

static int refuse(struct spot_peer *peer, const char *why)
{
    return refuse_as(peer, 0, why);
}

/* Makes names unique, because plans and logs use them: a second w5 becomes w5.2. It is not refused,
 * since it may be the first one, returning before its old connection has timed out. */
static void name_peer(const struct spot_group *g, struct spot_peer *peer, const char *name)
{
    for (unsigned k = 2; k < 1000 && spot_group_find_name(g, peer->name); k++)
        snprintf(peer->name, sizeof(peer->name), "%.*s.%u", (int)spot_utf8_cut(name, 56), name, k);
    if (strcmp(peer->name, name) != 0)
        g->options->warn("there is a worker %s already: the new one is %s", name, peer->name);
}

struct hello {
    uint32_t protocol;
    char version[SPOT_VERSION_MAX], name[SPOT_NAME_MAX], address[SPOT_ADDRESS_MAX + 8];
    char domain[SPOT_NAME_MAX];
    uint64_t key;
};

/* True if both versions have the same release line, such as "0.1" of "0.1.0+g1234567".
 */
static bool is_same_release(const char *a, const char *b)
{
    int dots = 0;

    for (; *a && *a == *b; a++, b++)
        if (*a == '.' && ++dots == 2)
            return true;
    return !*a && !*b;
}

/* Reported to the worker and here: either side may have to update its program. */
static int refuse_version(const struct spot_group *g, struct spot_peer *peer, struct hello *h)
{
    char why[SPOT_WHY_MAX];

    spot_utf8_make_plain(h->name);
    spot_utf8_make_plain(h->version);
    snprintf(why, sizeof(why),
             "worker %s is version %s (protocol %u), the job runs %s (protocol %d)", h->name,
             h->version, (unsigned)h->protocol, spot_version(), SPOT_PROTOCOL);
    g->options->warn("refused: %s", why);
    return refuse(peer, why);
}

/* True, with the reason in `why`, if the group must refuse this worker; the workload may refuse it
 * later. */
static bool is_unfit(const struct spot_group *g, const struct hello *h, char *why, size_t n)
{
    if (!*h->name || !spot_utf8_is_plain(h->name) || !spot_utf8_is_plain(h->domain)) {
        char name[SPOT_NAME_MAX];

        snprintf(name, sizeof(name), "%s", h->name);
        spot_utf8_make_plain(name);
        snprintf(why, n, "worker '%s': name and domain must be UTF-8", name);
        return true;
    }
    if (spot_group_members(g) >= SPOT_MEMBERS_MAX) {
        snprintf(why, n, "the job has %d members already", SPOT_MEMBERS_MAX);
        return true;
    }
    return false;
}

static void welcome(struct spot_group *g, struct spot_peer *peer)
{
    struct spot_buf out = { 0 };

    spot_put_u32(&out, peer->id);
    spot_put_u64(&out, g->key);
    spot_put_f64(&out, g->options->lease_s);
    if (g->workload->welcome)
        g->workload->welcome(g->job, peer, &out);
    spot_peer_send(peer, SPOT_MSG_WELCOME, 0, out.data, out.n);
    spot_buf_release(&out);
}

static int log_joined(struct spot_group *g, const struct spot_peer *peer, struct spot_err *err)
{
    const struct spot_machine *const m = &peer->view->machine;
    struct spot_jw *jw = spot_journal_begin(&g->journal, "joined", m->epoch, m->round);

    spot_journal_about(&g->journal, peer->name);
    if (jw) {
        spot_view_put(peer->view, jw);
        spot_jw_int(jw, "member", peer->id);
        spot_jw_str(jw, "name", peer->name);
        spot_jw_int(jw, "members", (int64_t)spot_group_members(g) + 1);
    }
    return spot_journal_end(&g->journal, err);
}

static void note_addresses(struct spot_peer *peer, const struct spot_endpoint *at)
{
    peer->at = *at;
    if (spot_endpoint_remote(peer->link.fd, &peer->seen_at, NULL))
        peer->seen_at = (struct spot_endpoint){ .kind = SPOT_ENDPOINT_UNIX };
    if (spot_endpoint_bound(peer->link.fd, &peer->ours_at, NULL))
        peer->ours_at = (struct spot_endpoint){ .kind = SPOT_ENDPOINT_UNIX };
}

/* Assigns an id, and keeps members first among the peers, sorted by id. */
static void send_id(struct spot_group *g, struct spot_peer *peer)
{
    size_t i = g->n_named;

    while (g->peer[i] != peer)
        i++;
    g->peer[i] = g->peer[g->n_named];
    g->peer[g->n_named++] = peer;
    peer->id = ++g->last_id;
}

/* True if all workers are here: no other can know a private address. */
static bool is_complete(const struct spot_group *g)
{
    return !g->options->listen && spot_group_members(g) >= g->options->n_local;
}

/* The worker becomes a member. */
static int take_in(struct spot_group *g, struct spot_peer *peer, struct spot_err *err)
{
    const struct spot_workload *const w = g->workload;
    struct spot_view *const view = spot_group_view(g, w->view_of ? w->view_of(g->job, peer) : 0);

    send_id(g, peer);
    peer->view = view;
    peer->link.payload_max = SPOT_PAYLOAD_MAX;
    g->counts.n_joined++;
    welcome(g, peer);
    if (g->options->note)
        g->options->note("worker %s joined: workers: %zu", peer->name, spot_group_members(g) + 1);
    if (log_joined(g, peer, err))
        return -1;
    spot_machine_join(&view->machine, peer->id);
    spot_group_meet(g, peer);
    if (view->machine.phase == SPOT_PHASE_WAIT)
        view->settle_until_s = spot_clock_s() + (is_complete(g) ? 0 : g->options->settle_s);
    return 0;
}

void spot_peer_move(struct spot_peer *peer, struct spot_view *to)
{
    struct spot_machine *const from = &peer->view->machine;
    const struct spot_member *const m = spot_machine_find(from, peer->id);
    const bool is_leaving = m->is_leaving;

    assert(from->phase == SPOT_PHASE_WAIT && to->machine.phase == SPOT_PHASE_WAIT);
    (void)spot_machine_lost(from, peer->id);
    spot_machine_join(&to->machine, peer->id);
    if (is_leaving)
        (void)spot_machine_notice(&to->machine, peer->id);
    peer->view = to;
}

int spot_group_hello(struct spot_group *g, struct spot_peer *peer, const struct spot_frame *frame,
                     struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_endpoint endpoint;
    struct hello h = { 0 };
    char why[512];
    int rc;

    h.protocol = spot_get_u32(&in);
    spot_get_text(&in, h.version, sizeof(h.version));
    spot_get_text(&in, h.name, sizeof(h.name));
    if (!in.bad && (h.protocol != SPOT_PROTOCOL || !is_same_release(h.version, spot_version())))
        return refuse_version(g, peer, &h);
    spot_get_text(&in, h.address, sizeof(h.address));
    spot_get_text(&in, h.domain, sizeof(h.domain));
    h.key = spot_get_u64(&in);
    if (in.bad || spot_endpoint_parse_reach(
                      h.address, g->tls ? SPOT_REACH_NUMERIC : SPOT_REACH_HERE, &endpoint, NULL))
        return refuse(peer, "malformed HELLO");
    if (is_unfit(g, &h, why, sizeof(why)))
        return refuse(peer, why);
    memcpy(peer->name, h.name, sizeof(peer->name));
    memcpy(peer->domain, h.domain, sizeof(peer->domain));
    rc = g->workload->accept(g->job, peer, h.key == g->key, &in, why, sizeof(why));
    if (rc)
        return rc > 1 ? refuse_as(peer, 1, g->workload->name) : refuse(peer, why);
    name_peer(g, peer, h.name);
    if (strcmp(h.version, spot_version()) != 0)
        g->options->warn("worker %s is version %s, the job runs %s", peer->name, h.version,
                         spot_version());
    note_addresses(peer, &endpoint);
    return take_in(g, peer, err);
}
