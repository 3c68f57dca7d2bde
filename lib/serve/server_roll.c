/* SPDX-License-Identifier: MIT */
/* Rolls out another version of the model, replica by replica. A request ends on the version on
 * which it began. One replica at a time is stopped: its choices move to others of its version, as
 * from a leaving replica, and it is formed again. The last replica of the old version continues
 * until it has no requests left; new requests begin on the new version as soon as a replica has it,
 * or if no other replica is left. After a loss, the version of a new replica follows from the
 * remaining ones. */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "serve/serve_protocol.h"
#include "serve/server_state.h"
#include "serve/tool_call.h"

struct spot_model_version *spot_server_version(const struct spot_server *s, uint64_t hash)
{
    if (s->target->model.hash == hash)
        return s->target;
    if (s->old && s->old->model.hash == hash)
        return s->old;
    for (size_t i = 0; i < s->n_ended; i++)
        if (s->ended[i]->model.hash == hash)
            return s->ended[i];
    return NULL;
}

struct spot_model_wanted spot_server_wanted(const struct spot_server *s)
{
    return (struct spot_model_wanted){ .chat = s->options->chat_template,
                                       .adapters = s->options->adapters,
                                       .P = s->options->is_foreign ? 0 : s->grid.P,
                                       .M = s->grid.M };
}

void spot_server_put_model(const struct spot_model_version *v, struct spot_buf *out)
{
    spot_put_text(out, v->model.dir);
    spot_put_text(out, v->model.adapters);
    spot_put_u64(out, v->model.hash);
    spot_put_u32(out, (uint32_t)v->model.shape.n_shard);
}

void spot_server_set_current(struct spot_server *s, struct spot_model_version *v)
{
    s->current = v;
    s->front_options.vocabulary = &v->model.vocabulary;
    s->front_options.n_context = v->model.shape.seq;
    s->front_options.n_vocabulary = v->model.shape.vocab;
    s->front_options.pool = v->model.pool;
    s->front_options.n_state = s->options->kind ? 0 : v->model.shape.width;
    s->front_options.chat = v->model.chat;
    s->front_options.chat_why = v->model.chat_why;
    s->front_options.tool_form = s->options->tool_format
                                     ? spot_tool_form_find(s->options->tool_format)
                                     : spot_openai_tool_form(v->model.chat);
    if (s->front)
        spot_front_set_model(s->front, &s->front_options);
}

/* --- which replica has which version ------------------------------------------------- */

static bool has_open(const struct spot_server *s, const struct spot_model_version *v)
{
    for (size_t i = 0; i < s->n_sequence; i++)
        if (s->sequence[i]->work->version == v)
            return true;
    return false;
}

static bool is_formed(const struct spot_replica *p)
{
    const enum spot_phase phase = p->view ? spot_view_machine(p->view)->phase : SPOT_PHASE_WAIT;

    return phase == SPOT_PHASE_FORM || phase == SPOT_PHASE_MIGRATE;
}

/* Number of replicas of the version that compute, or are about to. */
static uint32_t n_replica(const struct spot_server *s, const struct spot_model_version *v,
                          const struct spot_replica *but)
{
    uint32_t n = 0;

    for (size_t i = 0; i < s->n_place; i++) {
        const struct spot_replica *const p = s->place[i];

        n += p != but && p->version == v && (is_formed(p) || spot_replica_may_take(p));
    }
    return n;
}

static struct spot_model_version *version_with_requests(const struct spot_server *s)
{
    if (s->old && has_open(s, s->old))
        return s->old;
    for (size_t i = 0; i < s->n_ended; i++)
        if (has_open(s, s->ended[i]))
            return s->ended[i];
    return NULL;
}

struct spot_model_version *spot_server_version_for(const struct spot_server *s,
                                                   const struct spot_replica *place)
{
    struct spot_model_version *const old = version_with_requests(s);

    return old && !n_replica(s, old, place) ? old : s->target;
}

/* --- one after the other ---------------------------------------------------------------- */

static bool is_any_under_way(const struct spot_server *s)
{
    for (size_t i = 0; i < s->n_place; i++)
        if (is_formed(s->place[i]) || s->place[i]->is_retiring)
            return true;
    return false;
}

/* True if the replica has no choices, or all of them can move to another replica of its version. */
static bool is_spared(const struct spot_server *s, const struct spot_replica *p)
{
    return !has_open(s, p->version) || n_replica(s, p->version, p);
}

/* The least loaded replica whose version is not `wanted`. */
static struct spot_replica *choose(const struct spot_server *s,
                                   const struct spot_model_version *wanted)
{
    struct spot_replica *best = NULL;

    for (size_t i = 0; i < s->n_place; i++) {
        struct spot_replica *const p = s->place[i];

        if (spot_replica_may_take(p) && p->version != wanted && (!best || p->load < best->load))
            best = p;
    }
    return best;
}

/* Stop a replica for requests that no replica can continue; else the next that can be spared. */
static void retire_next(struct spot_server *s)
{
    struct spot_model_version *const left = version_with_requests(s);
    struct spot_replica *p;

    if (left && !n_replica(s, left, NULL)) {
        p = choose(s, left);
    } else {
        p = choose(s, s->target);
        p = p && is_spared(s, p) ? p : NULL;
    }
    if (p)
        p->is_retiring = true;
}

static void go_on_with_unspared(struct spot_server *s)
{
    for (size_t i = 0; i < s->n_place; i++) {
        struct spot_replica *const p = s->place[i];

        if (p->is_retiring && p->version != s->target && !is_spared(s, p)) {
            p->is_retiring = false;
            p->leaving_s = 0;
        }
    }
}

/* True if a replica computes with the new version and none with the old. */
static bool is_done(const struct spot_server *s)
{
    bool has_new = false;

    for (size_t i = 0; i < s->n_place; i++)
        if (s->place[i]->version == s->old && (s->place[i]->is_running || is_formed(s->place[i])))
            return false;
    for (size_t i = 0; i < s->n_place; i++)
        has_new |= s->place[i]->version == s->target && s->place[i]->is_running;
    return has_new && !has_open(s, s->old);
}

/* Keep a version while its ended requests may still be read. */
void spot_server_keep_version(struct spot_server *s, struct spot_model_version *version_take)
{
    s->ended =
        spot_xgrow(s->ended, &s->cap_ended, s->n_ended + 1, sizeof(struct spot_model_version *));
    s->ended[s->n_ended++] = version_take;
}

static int end_roll(struct spot_server *s, struct spot_err *err)
{
    spot_server_keep_version(s, s->old);
    s->old = NULL;
    if (s->rolled.state == SPOT_ROLL_ROLLING)
        s->rolled.state = SPOT_ROLL_DONE;
    return s->log ? spot_server_write_anew(s, err) : 0;
}

/* True if requests of the version are kept or being read, or a replica computes with it. */
static bool is_in_use(const struct spot_server *s, const struct spot_model_version *v)
{
    for (size_t i = 0; i < s->n_place; i++)
        if (s->place[i]->version == v && (s->place[i]->is_running || is_formed(s->place[i])))
            return true;
    return v->n_work > 0 || (s->front && spot_front_is_reading(s->front, &v->model.vocabulary));
}

static void free_ended(struct spot_server *s)
{
    for (size_t i = s->n_ended; i-- > 0;) {
        struct spot_model_version *const v = s->ended[i];

        if (is_in_use(s, v))
            continue;
        for (size_t k = 0; k < s->n_place; k++)
            if (s->place[k]->version == v)
                s->place[k]->version = NULL;
        spot_server_free_version(s, v);
        s->ended[i] = s->ended[--s->n_ended];
    }
}

static int begin_roll(struct spot_server *s, struct spot_model_version *from,
                      struct spot_model_version *to, struct spot_err *err)
{
    s->old = from;
    s->target = to;
    return s->log ? spot_server_write_anew(s, err) : 0;
}

/* --- requests for a rollout ---------------------------------------------- */

static void say(struct spot_server *s, enum spot_roll_state state, const char *why)
{
    s->rolled.state = state;
    snprintf(s->rolled.why, sizeof(s->rolled.why), "%s", why);
}

/* Let all replicas change to a version. Takes ownership of it. */
static int give_all(struct spot_server *s, struct spot_model_version *v, struct spot_err *err)
{
    struct spot_err why = { 0 };

    if (v->model.hash == s->target->model.hash) {
        spot_model_version_free(v);
        say(s, SPOT_ROLL_DONE, "it is the model already served");
        return 0;
    }
    if (spot_relay_check(&v->model.shape, s->grid.P, s->grid.M,
                         &why)) { /* a plan has changed the grid meanwhile */
        spot_model_version_free(v);
        say(s, SPOT_ROLL_REFUSED, why.msg);
        return 0;
    }
    say(s, SPOT_ROLL_ROLLING, "");
    return begin_roll(s, s->target, v, err);
}

static int take_read(struct spot_server *s, struct spot_err *err)
{
    struct spot_err why = { 0 };
    struct spot_model_version *const v = spot_model_reading_end(s->reading, &why);

    s->reading = NULL;
    if (v)
        return give_all(s, v, err);
    say(s, SPOT_ROLL_REFUSED, why.msg);
    return 0;
}

/* Take newer weights of a followed job, when no rollout is in progress. */
static int take_followed(struct spot_server *s, struct spot_err *err)
{
    struct spot_model_version *const v =
        s->reading || s->old || s->is_draining ? NULL : spot_server_followed(s);

    if (!v)
        return 0;
    snprintf(s->rolled.dir, sizeof(s->rolled.dir), "%s", v->model.dir);
    return give_all(s, v, err);
}

int spot_server_client(void *server, const struct spot_frame *frame, struct spot_buf *answer,
                       uint64_t *status, struct spot_err *err)
{
    struct spot_server *const s = server;
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_model_wanted wanted;
    char dir[sizeof(s->rolled.dir)];

    (void)answer;
    (void)status;
    if (frame->type != SPOT_MSG_ROLL)
        return spot_err_set(err, SPOT_EUSAGE, "unknown request to this job");
    spot_get_text(&in, dir, sizeof(dir));
    if (!spot_wire_in_done(&in) || !*dir)
        return spot_err_set(err, SPOT_EUSAGE, "the directory of a model is missing or too long");
    if (s->options->is_foreign)
        return spot_err_set(
            err, SPOT_EINFEASIBLE,
            "the model is in the workers' engines: start new engines with a new server");
    if (s->reading || s->old || s->is_draining)
        return spot_err_set(err, SPOT_EINFEASIBLE, "%s %s",
                            s->is_draining ? "the server is shutting down and does not accept"
                            : s->reading   ? "already being read:"
                                           : "still being rolled out:",
                            s->is_draining ? dir : s->rolled.dir);
    wanted = spot_server_wanted(s);
    s->reading = spot_model_reading_start(dir, &wanted, err);
    if (!s->reading)
        return -1;
    memcpy(s->rolled.dir, dir, sizeof(dir));
    say(s, SPOT_ROLL_READING, "");
    return 0;
}

/* End the requests of a version that no replica has and that can no longer be read. */
static void give_up(struct spot_server *s, const struct spot_model_version *v)
{
    for (size_t i = 0; i < s->n_work; i++) {
        struct spot_work *const w = s->work[i];

        if (w->version != v || !w->completion->n_open)
            continue;
        s->options->group.warn("request %s ends: its version of the model cannot be read",
                               w->completion->request.id);
        spot_server_cancel(s, w);
        if (s->front)
            spot_front_progress(s->front, w->completion);
    }
}

/* A member cannot read a version. If it is being rolled out, undo that. If it has only left-over
 * requests, give it up. If it is the current one, drop the member. */
int spot_server_cannot_read(struct spot_server *s, struct spot_replica *p, struct spot_peer *peer,
                            const char *why, struct spot_err *err)
{
    struct spot_model_version *const refused = p->version;
    char text[SPOT_WHY_MAX];

    s->options->group.warn("worker %s cannot read the model: %s", spot_peer_name(peer), why);
    if (!n_replica(s, refused, p))
        give_up(s, refused);
    if (refused != s->target)
        return spot_view_break(p->view, spot_view_machine(p->view)->epoch, err);
    if (!s->old) {
        spot_peer_drop(peer, "no model");
        return 0;
    }
    snprintf(text, sizeof(text), "worker %s: %.400s", spot_peer_name(peer), why);
    say(s, SPOT_ROLL_TAKEN_BACK, text);
    spot_server_set_current(s, s->old);
    if (begin_roll(s, refused, s->old, err))
        return -1;
    return spot_view_break(p->view, spot_view_machine(p->view)->epoch, err);
}

/* True if all replicas have their intended version. */
static bool is_settled(const struct spot_server *s)
{
    if (s->old || version_with_requests(s))
        return false;
    for (size_t i = 0; i < s->n_place; i++)
        if (s->place[i]->is_running && s->place[i]->version != s->target)
            return false;
    return true;
}

/* With a single replica, new requests wait until it has ended those of the old version. */
static bool is_current_due(const struct spot_server *s)
{
    for (size_t i = 0; i < s->n_place; i++)
        if (s->place[i]->version == s->target && spot_replica_may_take(s->place[i]))
            return true;
    return !is_any_under_way(s) && n_replica(s, s->current, NULL) < 2;
}

int spot_server_roll(struct spot_server *s, struct spot_err *err)
{
    if (s->reading && spot_model_reading_is_done(s->reading) && take_read(s, err))
        return -1;
    if (s->follower && take_followed(s, err))
        return -1;
    free_ended(s);
    if (s->old && is_done(s))
        return end_roll(s, err);
    if (is_settled(s))
        return 0;
    go_on_with_unspared(s);
    if (s->current != s->target && is_current_due(s))
        spot_server_set_current(s, s->target);
    if (!is_any_under_way(s) && !s->is_regrouping)
        retire_next(s);
    return 0;
}

void spot_server_release_versions(struct spot_server *s)
{
    struct spot_err why = { 0 };

    spot_server_stop_following(s);
    if (s->reading)
        spot_model_version_free(spot_model_reading_end(s->reading, &why));
    for (size_t i = 0; i < s->n_ended; i++)
        spot_model_version_free(s->ended[i]);
    free(s->ended);
    spot_model_version_free(s->old);
    spot_model_version_free(s->target);
}

/* --- status ------------------------------------------------------------------ */

/* Number of replicas of the new version, once new requests begin on it. */
static int64_t n_taking(const struct spot_server *s)
{
    int64_t n = 0;

    for (size_t i = 0; s->old && s->current == s->target && i < s->n_place; i++)
        n += s->place[i]->version == s->target && spot_replica_may_take(s->place[i]);
    return n;
}

void spot_server_roll_status(const struct spot_server *s, struct spot_jw *jw)
{
    static const char *const state[] = {
        "", "reading", "rolling", "done", "refused", "taken back"
    };
    int64_t n_request = 0;

    if (s->rolled.state == SPOT_ROLL_NONE)
        return;
    for (size_t i = 0; i < s->n_work; i++)
        n_request += s->old && s->work[i]->version == s->old && s->work[i]->completion->n_open;
    spot_jw_object(jw, "rollout");
    spot_jw_str(jw, "state", state[s->rolled.state]);
    spot_jw_str(jw, "model", s->rolled.dir);
    if (*s->rolled.why)
        spot_jw_str(jw, "why", s->rolled.why);
    spot_jw_int(jw, "replicas", n_taking(s));
    spot_jw_int(jw, "replicas_left", s->old ? (int64_t)n_replica(s, s->old, NULL) : 0);
    spot_jw_int(jw, "requests_left", n_request);
    spot_jw_end(jw);
}
