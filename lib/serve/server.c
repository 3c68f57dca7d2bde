/* SPDX-License-Identifier: MIT */
#include "serve/server.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "serve/adapter_list.h"
#include "serve/relay.h"
#include "serve/serve_protocol.h"
#include "serve/server_state.h"
#include "serve/server_verify.h"

static const double tell_s = 1; /* limit for telling waiting clients why no answer follows */

/* --- members ------------------------------------------------------------------------ */

/* TYPE, TYPE/spot or TYPE/on-demand. */
static void take_machine(struct spot_seat *seat, const char *machine)
{
    const char *const slash = strrchr(machine, '/');
    const bool has_market =
        slash && (!strcmp(slash + 1, "spot") || !strcmp(slash + 1, "on-demand"));

    snprintf(seat->type, sizeof(seat->type), "%.*s",
             has_market ? (int)(slash - machine) : SPOT_NAME_MAX - 1, machine);
    if (has_market)
        snprintf(seat->market, sizeof(seat->market), "%s", slash + 1);
}

static int accept_member(void *job, struct spot_peer *peer, bool was_ours,
                         struct spot_wire_in *hello, char *why, size_t n)
{
    struct spot_server *const s = job;
    struct spot_seat *seat;
    char name[32], machine[SPOT_NAME_MAX];

    (void)was_ours;
    spot_get_text(hello, name, sizeof(name));
    if (strcmp(name, s->options->is_foreign ? SPOT_SERVE_ENGINES_NAME : SPOT_SERVE_NAME) != 0)
        return 2;
    spot_get_plain(hello, machine, sizeof(machine));
    if (s->options->is_foreign && spot_server_accept_engine(s, hello, why, n))
        return 1;
    if (!spot_wire_in_done(hello)) {
        snprintf(why, n, "malformed HELLO");
        return 1;
    }
    seat = spot_xcalloc(1, sizeof(*seat));
    seat->peer = peer;
    seat->position = -1;
    take_machine(seat, machine);
    s->seat = spot_xgrow(s->seat, &s->cap_seat, s->n_seat + 1, sizeof(struct spot_seat *));
    s->seat[s->n_seat++] = seat;
    spot_peer_set_data(peer, seat);
    return 0;
}

static void welcome(void *job, struct spot_peer *peer, struct spot_buf *out)
{
    const struct spot_server *const s = job;

    (void)peer;
    if (s->options->is_foreign) {
        spot_server_welcome_engine(s, out);
        return;
    }
    spot_server_put_model(s->target, out);
    spot_put_u32(out, s->options->type);
    spot_put_text(out, s->options->kind ? s->options->kind : "");
    spot_put_u32(out, (uint32_t)s->options->n_sequence);
    spot_put_u64(out, s->options->kv_byte);
    spot_put_u64(out, s->options->kept_byte);
    spot_put_u32(out, (uint32_t)s->grid.P);
    spot_put_u32(out, (uint32_t)s->grid.M);
    spot_put_u32(out, s->options->is_nccl);
}

static void forget(void *job, struct spot_peer *peer)
{
    struct spot_server *const s = job;
    struct spot_seat *const seat = spot_peer_data(peer);
    struct spot_replica *const p = seat->replica;

    if (p)
        s->n_lost++;
    if (p && p->peer == peer) {
        spot_server_take_back(s, p, true);
        p->is_running = false;
        p->peer = NULL;
    }
    for (size_t i = 0; i < s->n_seat; i++)
        if (s->seat[i] == seat)
            s->seat[i] = s->seat[--s->n_seat];
    free(seat);
}

static struct spot_replica *place_in(const struct spot_server *s, const struct spot_view *view)
{
    const uint32_t index = spot_view_index(view);

    return index < s->n_place && s->place[index]->peer ? s->place[index] : NULL;
}

/* --- epochs ------------------------------------------------------------------------- */

static bool would_change(void *job, struct spot_view *view)
{
    (void)job;
    (void)view;
    return false;
}

static int begin(void *job, struct spot_view *view, struct spot_err *err)
{
    struct spot_server *const s = job;
    struct spot_replica *const p = place_in(s, view);

    if (p) {
        p->is_running = true;
        p->n_done = p->n_asked = 0;
        s->served_s = spot_clock_s();
        spot_server_name_buddies(s);
        spot_server_dispatch(s);
        return spot_server_log_formed(s, p, err);
    }
    return 0;
}

static void quiesced(void *job, struct spot_view *view)
{
    struct spot_server *const s = job;
    struct spot_replica *const p = place_in(s, view);

    if (!p)
        return;
    spot_server_take_back(s, p, !spot_replica_is_leaving(p));
    p->is_running = false;
    p->leaving_s = 0;
}

/* If one member cannot compute a sequence, no other can. */
static void on_cannot(struct spot_server *s, struct spot_replica *p, const struct spot_frame *frame)
{
    struct spot_sequence *const q = spot_server_find(s, frame->tag);
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    struct spot_completion *c;
    char why[SPOT_WHY_MAX];

    if (!q) {
        spot_server_fail_check(s, frame->tag);
        return;
    }
    spot_get_plain(&in, why, sizeof(why));
    c = q->work->completion;
    s->options->group.warn("request %s ends: worker %s reports: %s", c->request.id,
                           spot_peer_name(p->peer), why);
    if (!c->why)
        c->why = spot_xstrdup(why);
    spot_server_cancel(s, q->work);
    if (s->front)
        spot_front_progress(s->front, c);
}

static int on_no_model(struct spot_server *s, struct spot_replica *p, struct spot_peer *peer,
                       const struct spot_frame *frame, struct spot_err *err)
{
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    char why[SPOT_WHY_MAX];

    spot_get_plain(&in, why, sizeof(why));
    return spot_server_cannot_read(s, p, peer, why, err);
}

static int message(void *job, struct spot_peer *peer, const struct spot_frame *frame,
                   struct spot_err *err)
{
    struct spot_server *const s = job;
    struct spot_replica *const p = ((struct spot_seat *)spot_peer_data(peer))->replica;

    if (frame->type == SPOT_MSG_FAILED && frame->tag == SPOT_SERVE_NO_MODEL)
        return on_no_model(s, p, peer, frame, err);
    if (p->peer != peer)
        return 0; /* of an epoch in which it led */
    if (frame->type == SPOT_MSG_TOKENS) {
        const int rc = spot_server_tokens(s, p, frame, err);

        if (s->front)
            spot_front_run(s->front); /* clients then see what has been committed */
        return rc;
    }
    if (frame->type == SPOT_MSG_STATE)
        spot_server_state(s, p, frame);
    else if (frame->type == SPOT_MSG_FAILED)
        on_cannot(job, p, frame);
    else if (frame->type == SPOT_MSG_GIVEN_UP && s->options->is_foreign)
        spot_server_given_up(s, p, frame);
    else
        spot_peer_drop(peer, "a message");
    return 0;
}

/* A round of a replica means that choices have ended. Rounds are requested regularly, so that the
 * group sees progress, but not from a leaving replica, whose epoch would end before all is handed
 * over. */
static void ask_rounds(struct spot_server *s)
{
    for (size_t i = 0; i < s->n_place; i++) {
        struct spot_replica *const p = s->place[i];

        if (!p->is_running || p->n_done == p->n_asked || spot_replica_is_leaving(p))
            continue;
        p->n_asked = p->n_done;
        spot_view_send_active(p->view, SPOT_MSG_ROUND, (uint64_t)spot_view_machine(p->view)->round,
                              NULL, 0);
    }
}

static bool owes(void *job, const struct spot_peer *peer, bool as_machine)
{
    const struct spot_replica *const p = ((struct spot_seat *)spot_peer_data(peer))->replica;

    (void)job;
    return p->is_running ? p->peer == peer && p->load > 0 : as_machine;
}

/* --- the loop ------------------------------------------------------------------------- */

static int tick(void *job, struct spot_err *err)
{
    struct spot_server *const s = job;
    bool is_done = false;

    if (s->failure.code)
        return spot_err_set(err, s->failure.code, "%s", s->failure.msg);
    if (spot_group_is_stopping(s->group) && !s->is_draining) {
        s->is_draining = true;
        if (s->front)
            spot_front_drain(s->front);
    }
    if (s->is_draining && !s->n_sequence && s->drained_s <= 0)
        s->drained_s = spot_clock_s();
    if (spot_server_health(s) == SPOT_ADMIT)
        s->served_s = spot_clock_s();
    if (spot_server_log_ended(s, err) || spot_server_expire(s, err) ||
        spot_server_tend_checks(s, err))
        return -1;
    if (spot_server_regroup(s, err) || spot_server_roll(s, err))
        return -1;
    spot_server_gather(s);
    spot_server_name_buddies(s);
    spot_server_dispatch(s);
    ask_rounds(s);
    spot_server_measure(s);
    if (spot_server_log_interval(s, false, err))
        return -1;
    if (s->front)
        spot_front_run(s->front);
    if (s->batch && spot_batch_go_on(s->batch, &is_done, err))
        return -1;
    s->checks.is_ending = is_done;
    if (is_done && !s->checks.n)
        spot_group_end(s->group);
    return spot_server_release_leavers(s, err);
}

static int fd(void *job)
{
    const struct spot_server *const s = job;

    return s->front ? spot_front_fd(s->front) : -1;
}

static int readable(void *job, struct spot_err *err)
{
    struct spot_server *const s = job;

    (void)err;
    spot_front_run(s->front);
    return 0;
}

/* True if all requests have ended, or no workers are left to compute them and the journal has
 * them. */
static bool is_saved(void *job)
{
    const struct spot_server *const s = job;

    if (!s->is_draining)
        return false;
    for (size_t i = 0; i < s->n_place; i++)
        if (s->place[i]->is_running)
            return spot_server_is_idle(s);
    return true;
}

static const char *const frequent_events[] = { "request", "token", NULL };

static const struct spot_workload workload = {
    .name = SPOT_SERVE_NAME,
    .rounds = SPOT_ROUNDS_ANNOUNCED,
    .frequent_events = frequent_events,
    .does_wait = true,
    .accept = accept_member,
    .welcome = welcome,
    .forget = forget,
    .view_of = spot_server_view_of,
    .may_begin = spot_server_may_begin,
    .layout = spot_server_layout,
    .would_change = would_change,
    .begin = begin,
    .quiesced = quiesced,
    .message = message,
    .client = spot_server_client,
    .plan = spot_server_plan,
    .owes = owes,
    .tick = tick,
    .fd = fd,
    .readable = readable,
    .is_saved = is_saved,
    .status = spot_server_status,
    .status_member = spot_server_status_member,
};

/* --- the server ------------------------------------------------------------------------- */

static const char *worker_name(void *server, uint32_t worker)
{
    const struct spot_server *const s = server;
    const struct spot_peer *const peer = spot_group_find(s->group, worker);

    return peer ? spot_peer_name(peer) : NULL;
}

/* A batch retries where a client would be told to retry. */
static enum spot_admission submit(void *server, struct spot_request *request_take,
                                  struct spot_completion **completion)
{
    struct spot_server *const s = server;
    const enum spot_admission how = spot_server_submit(s, request_take, completion);

    s->n_refused += how != SPOT_ADMIT;
    return how;
}

static const struct spot_front_server front_table = { .submit = submit,
                                                      .abandon = spot_server_abandon,
                                                      .cancel = spot_server_end,
                                                      .rejoin = spot_server_rejoin,
                                                      .proof = spot_server_proof,
                                                      .retry_after_s = spot_server_retry_after_s,
                                                      .health = spot_server_health,
                                                      .metrics = spot_server_metrics,
                                                      .status = spot_server_status_page,
                                                      .worker_name = worker_name };

/* The first name of a comma-separated list, to be freed. */
static char *first_name(const char *names)
{
    char *const name = spot_xstrdup(names);

    name[strcspn(name, ",")] = '\0';
    return name;
}

/* True if the name is the model's own. */
static bool is_taken(const struct spot_front_options *options, const struct spot_adapter *adapter)
{
    struct spot_front_options model = *options;
    char name[SPOT_ADAPTERS_BYTE];

    model.adapters = NULL;
    snprintf(name, sizeof(name), "%.*s", (int)adapter->n_name, adapter->name);
    return spot_front_has_model(&model, name, NULL);
}

static int open_front(struct spot_server *s, struct spot_err *err)
{
    const struct spot_server_options *const o = s->options;
    struct spot_adapter adapter;

    s->model_id = o->names                                  ? first_name(o->names)
                  : s->current->model.vocabulary.has_pieces ? spot_xstrdup(o->model)
                                                            : spot_served_model_id(o->model);
    s->front_options =
        (struct spot_front_options){ .address = o->http,
                                     .tls_cert = o->tls_cert,
                                     .tls_key = o->tls_key,
                                     .api_key_file = o->api_key_file,
                                     .model = s->model_id,
                                     .aliases = o->names ? strchr(o->names, ',') : NULL,
                                     .adapters = o->adapters,
                                     .cors = o->cors,
                                     .n_choice_max = o->n_queue,
                                     .may_verify = o->verify >= 0,
                                     .body_max_byte = 8 << 20,
                                     .n_connection_max = 16384,
                                     .idle_s = 60 };
    if (s->front_options.aliases)
        s->front_options.aliases++; /* behind the comma */
    for (const char *at = o->adapters; (at = spot_adapter_next(at, &adapter));)
        if (is_taken(&s->front_options, &adapter))
            return spot_err_set(err, SPOT_EUSAGE,
                                "--lora has the name '%.*s', which is that of the model",
                                (int)adapter.n_name, adapter.name);
    spot_server_set_current(s, s->current);
    if (!o->http)
        return 0;
    s->front = spot_front_new(&s->front_options, &front_table, s, err);
    if (s->front && o->http_listening)
        o->http_listening(o->group.user, spot_front_url(s->front));
    return s->front ? 0 : -1;
}

/* Reject here, once, a cache that every worker would reject. A plan has its own grid. */
static int check_cache(const struct spot_server *s, struct spot_err *err)
{
    const struct spot_server_options *const o = s->options;

    return o->group.plan || o->is_foreign
               ? 0
               : spot_relay_check_cache(&s->target->model.shape, o->P, o->M, o->kv_byte, err);
}

static int open_all(struct spot_server *s, struct spot_err *err)
{
    const struct spot_model_wanted wanted = spot_server_wanted(s);
    int64_t round;

    s->target = s->current = spot_model_version_open(s->options->model, &wanted, err);
    if (!s->target || check_cache(s, err))
        return -1;
    if (!s->target->model.chat)
        s->options->group.warn("no chats: %s", s->target->model.chat_why);
    s->given_hash = s->target->model.hash;
    s->foreign = workload;
    s->foreign.name = SPOT_SERVE_ENGINES_NAME;
    s->group = spot_group_new(&s->options->group, s->options->is_foreign ? &s->foreign : &workload,
                              s, err);
    if (!s->group)
        return -1;
    spot_group_begin();
    s->served_s = s->rate_s = spot_clock_s();
    if (spot_server_open_log(s, err) || spot_group_open(s->group, &round, err) ||
        spot_server_log_serving(s, err) || open_front(s, err))
        return -1;
    if (spot_server_follow(s, err))
        return -1;
    if (s->options->batch && !(s->batch = spot_batch_open(s, err)))
        return -1;
    return spot_group_read_plan(s->group, err);
}

static void release(struct spot_server *s)
{
    spot_front_free(s->front);
    free(s->model_id);
    spot_batch_close(s->batch);
    spot_group_free(s->group);
    for (size_t i = 0; i < s->n_sequence; i++) {
        free(s->sequence[i]->prefix);
        spot_server_drop_grammar(s->sequence[i]);
        free(s->sequence[i]);
    }
    spot_server_drop_checks(s, NULL);
    free(s->checks.all);
    for (size_t i = 0; i < s->n_work; i++) {
        s->work[i]->completion->core = NULL;
        spot_completion_unref(s->work[i]->completion);
        free(s->work[i]);
    }
    free(s->sequence);
    free(s->queued);
    spot_fair_queue_release(&s->fair);
    free(s->work);
    for (size_t i = 0; i < s->n_place; i++) {
        spot_server_hold_nothing(s->place[i]);
        free(s->place[i]);
    }
    free(s->place);
    free(s->routes.node);
    spot_size_route_release(&s->routes.size);
    free(s->seat);
    spot_token_log_close(s->log);
    spot_server_release_versions(s);
}

/* Tell waiting clients that no answer follows, without waiting for slow ones.
 */
static void tell_clients(struct spot_server *s)
{
    const double until_s = spot_clock_s() + tell_s;
    struct pollfd fd = { .events = POLLIN };

    if (!s->front || spot_front_is_idle(s->front))
        return;
    spot_front_fail(s->front,
                    s->log ? "The server stopped before the end of this request. The rest may "
                             "come later: GET /v1/streams/ID."
                           : "The server stopped before the end of this request.");
    for (size_t i = 0; i < s->n_work; i++)
        spot_front_progress(s->front, s->work[i]->completion);
    fd.fd = spot_front_fd(s->front);
    do {
        spot_front_run(s->front);
        (void)poll(&fd, 1, 10);
    } while (!spot_front_is_idle(s->front) && spot_clock_s() < until_s);
}

static int conclude(struct spot_server *s, struct spot_err *err)
{
    const size_t n = s->n_sequence;

    if (spot_group_is_over(s->group))
        return 0;
    if (n || (s->batch && !spot_group_is_over(s->group)))
        return spot_err_set(err, SPOT_EPREEMPTED, "stopped with %zu unfinished choices%s", n,
                            s->log ? "; --resume continues them" : "");
    return 0;
}

int spot_server_run(const struct spot_server_options *options, struct spot_err *err)
{
    struct spot_server *const s = spot_xcalloc(1, sizeof(*s));
    int rc;

    s->options = options;
    s->grid = (struct spot_grid){ .D = 0, .P = options->P, .M = options->M };
    s->n_at_once = (uint32_t)options->n_sequence;
    rc = open_all(s, err);
    if (!rc)
        rc = spot_group_run(s->group, err);
    spot_server_log_end(s);
    if (!rc)
        rc = conclude(s, err);
    if (rc)
        tell_clients(s);
    if (s->group) {
        spot_group_report_end(s->group, !rc, rc ? spot_err_exit_status(err) : 0,
                              rc ? err->msg : "all requests have ended");
        if (!rc)
            spot_group_end(s->group);
        spot_group_dismiss(s->group);
        if (spot_group_close_journal(s->group, rc ? NULL : err))
            rc = -1;
    }
    release(s);
    free(s);
    return rc;
}
