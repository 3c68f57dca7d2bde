/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/utf8.h"
#include "common/version.h"
#include "common/xalloc.h"
#include "train/trainer_state.h"

struct spot_coord_peer *spot_coord_find(const struct spot_coord *c, uint32_t id)
{
    for (size_t i = 0; id && i < c->n_peer; i++)
        if (c->peer[i]->id == id)
            return c->peer[i];
    return NULL;
}

/* A send that fails is not an error here: the loop sees the dead connection and acts on it. */
void spot_coord_send(struct spot_coord *c, struct spot_coord_peer *peer, uint32_t type,
                     uint64_t tag, const void *data, size_t n_byte)
{
    if (spot_link_send(&peer->link, type, c->machine.epoch, tag, data, n_byte, NULL))
        spot_link_shutdown(&peer->link);
}

void spot_coord_ask(struct spot_coord_peer *peer)
{
    peer->progress_s = spot_clock_s();
}

void spot_coord_send_active(struct spot_coord *c, uint32_t type, uint64_t tag, const void *data,
                            size_t n_byte)
{
    for (size_t i = 0; i < c->machine.n_member; i++)
        if (c->machine.member[i].role == SPOT_ROLE_ACTIVE)
            spot_coord_send(c, spot_coord_find(c, c->machine.member[i].id), type, tag, data,
                            n_byte);
}

static int refuse(struct spot_coord *c, struct spot_coord_peer *peer, const char *why)
{
    struct spot_buf out = { 0 };

    spot_put_text(&out, why);
    spot_coord_send(c, peer, SPOT_MSG_REFUSED, 0, out.data, out.n);
    spot_buf_release(&out);
    peer->is_closing = true;
    return 0;
}

/* What a member holds: count, then bundle and step of each. */
int spot_coord_inventory(struct spot_coord *c, struct spot_coord_peer *peer,
                         struct spot_wire_in *in)
{
    const uint32_t n = spot_get_count(in, 12);

    for (int b = 0; b < c->n_bundle; b++)
        peer->held[b] = -1;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t bundle = spot_get_u32(in);
        const int64_t step = spot_get_i64(in);

        if (in->bad || bundle >= (uint32_t)c->n_bundle || step < 0)
            return -1;
        peer->held[bundle] = step;
    }
    return in->bad ? -1 : 0;
}

static bool is_taken(const struct spot_coord *c, const char *name)
{
    for (size_t i = 0; i < c->n_peer; i++)
        if (c->peer[i]->id && !strcmp(c->peer[i]->name, name))
            return true;
    return false;
}

/* Plans and logs know members by name: a second w5 is w5.2. It may be the first one that comes
 * back before its old connection is known to be dead, so it is not refused. */
static void name_peer(const struct spot_coord *c, struct spot_coord_peer *peer, const char *name)
{
    snprintf(peer->name, sizeof(peer->name), "%s", name);
    for (unsigned k = 2; k < 1000 && is_taken(c, peer->name); k++)
        snprintf(peer->name, sizeof(peer->name), "%.*s.%u", (int)spot_utf8_cut(name, 56), name, k);
    if (strcmp(peer->name, name) != 0)
        c->options->warn("there is a worker %s already: the new one is %s", name, peer->name);
}

struct hello {
    uint32_t protocol;
    char version[SPOT_VERSION_MAX], name[SPOT_NAME_MAX], address[SPOT_ADDRESS_MAX + 8];
    char domain[SPOT_NAME_MAX];
    char kernels[SPOT_KERNELS_MAX];
    uint64_t job, key;
};

/* Why this worker cannot be taken, in `why`; false if it can. */
static bool is_unfit(const struct spot_coord *c, const struct hello *h, char *why, size_t n)
{
    char kernel[SPOT_KERNEL_NAME_MAX + 3];

    if (!*h->name || !spot_utf8_is_plain(h->name) || !spot_utf8_is_plain(h->domain)) {
        char name[SPOT_NAME_MAX];

        snprintf(name, sizeof(name), "%s", h->name);
        spot_utf8_make_plain(name);
        snprintf(why, n, "worker '%s': its name and domain want to be UTF-8 text", name);
        return true;
    }
    snprintf(kernel, sizeof(kernel), ",%s,", c->config.kernel);
    if (strcmp(h->version, spot_version()) != 0) {
        snprintf(why, n, "worker %s is version %s, the job runs %s", h->name, h->version,
                 spot_version());
        return true;
    }
    if (!strstr(h->kernels, kernel)) {
        snprintf(why, n,
                 "worker %s cannot compute with the job's kernel '%s', it has %.200s; start "
                 "the job with --kernel portable to mix machines",
                 h->name, c->config.kernel, h->kernels);
        return true;
    }
    if (c->machine.n_member >= SPOT_MEMBERS_MAX) {
        snprintf(why, n, "the job has %d members already", SPOT_MEMBERS_MAX);
        return true;
    }
    return false;
}

/* What a worker holds is of this run, or of one that this run resumes. A fresh run begins anew even
 * where workers of an earlier one still wait with their memory. */
static bool counts(const struct spot_coord *c, const struct hello *h)
{
    return h->job == c->job && (h->key == c->key || c->options->resume);
}

static void welcome(struct spot_coord *c, struct spot_coord_peer *peer, bool keeps)
{
    struct spot_buf out = { 0 };

    spot_put_u32(&out, peer->id);
    spot_put_u64(&out, c->key);
    spot_put_f64(&out, c->options->lease_s);
    spot_put_u32(&out, keeps);
    spot_job_config_put(&out, &c->config);
    spot_coord_send(c, peer, SPOT_MSG_WELCOME, 0, out.data, out.n);
    spot_buf_release(&out);
}

static int log_joined(struct spot_coord *c, const struct spot_coord_peer *peer,
                      struct spot_err *err)
{
    struct spot_jw *jw =
        spot_journal_begin(&c->journal, "joined", c->machine.epoch, c->machine.round);

    spot_journal_about(&c->journal, peer->name);
    if (jw) {
        spot_jw_int(jw, "member", peer->id);
        spot_jw_str(jw, "name", peer->name);
        spot_jw_int(jw, "members", (int64_t)c->machine.n_member + 1);
    }
    return spot_journal_end(&c->journal, err);
}

static void note_addresses(struct spot_coord_peer *peer, const struct spot_endpoint *at)
{
    peer->at = *at;
    if (spot_endpoint_remote(peer->link.fd, &peer->seen_at, NULL))
        peer->seen_at = (struct spot_endpoint){ .kind = SPOT_ENDPOINT_UNIX };
    if (spot_endpoint_bound(peer->link.fd, &peer->ours_at, NULL))
        peer->ours_at = (struct spot_endpoint){ .kind = SPOT_ENDPOINT_UNIX };
}

int spot_coord_hello(struct spot_coord *c, struct spot_coord_peer *peer,
                     const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_endpoint endpoint;
    struct hello h = { 0 };
    char why[512];

    h.protocol = spot_get_u32(&in);
    if (!in.bad && h.protocol != SPOT_PROTOCOL) {
        snprintf(why, sizeof(why), "the worker speaks protocol %u, the job %d",
                 (unsigned)h.protocol, SPOT_PROTOCOL);
        return refuse(c, peer, why);
    }
    spot_get_text(&in, h.version, sizeof(h.version));
    spot_get_text(&in, h.name, sizeof(h.name));
    spot_get_text(&in, h.address, sizeof(h.address));
    spot_get_text(&in, h.domain, sizeof(h.domain));
    h.key = spot_get_u64(&in);
    spot_get_text(&in, h.kernels, sizeof(h.kernels));
    h.job = spot_get_u64(&in);
    peer->held = spot_xcalloc((size_t)c->n_bundle, sizeof(*peer->held));
    if (in.bad || spot_endpoint_parse_reach(
                      h.address, c->tls ? SPOT_REACH_NUMERIC : SPOT_REACH_HERE, &endpoint, NULL))
        return refuse(c, peer, "the hello makes no sense");
    if (is_unfit(c, &h, why, sizeof(why)))
        return refuse(c, peer, why);
    for (int b = 0; b < c->n_bundle; b++)
        peer->held[b] = -1;
    if (counts(c, &h) && spot_coord_inventory(c, peer, &in))
        return refuse(c, peer, "the inventory makes no sense");
    name_peer(c, peer, h.name);
    memcpy(peer->domain, h.domain, sizeof(peer->domain));
    note_addresses(peer, &endpoint);
    peer->id = ++c->last_id;
    peer->link.payload_max = SPOT_PAYLOAD_MAX;
    welcome(c, peer, counts(c, &h));
    if (log_joined(c, peer, err))
        return -1;
    spot_machine_join(&c->machine, peer->id);
    spot_coord_meet(c, peer);
    if (c->machine.phase == SPOT_PHASE_WAIT)
        c->settle_until_s = spot_clock_s() + c->options->settle_s;
    return 0;
}
