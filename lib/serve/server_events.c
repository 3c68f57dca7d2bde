/* SPDX-License-Identifier: MIT */
/* The log of a server, spot.event/1: a line for each ended request and each epoch of a replica, and
 * one per second with totals; never one per token. */
#include <math.h>

#include "cluster/journal.h"
#include "comm/endpoint.h"
#include "common/clock.h"
#include "model/event.h"
#include "serve/openai_state.h"
#include "serve/server_state.h"
#include "serve/server_verify.h"

static const double interval_s = 1;

/* NULL: no log. */
static struct spot_jw *begin_line(struct spot_server *s, const char *event)
{
    return spot_journal_begin(spot_group_journal(s->group), event, spot_group_epoch(s->group),
                              (int64_t)s->n_token);
}

static int end_line(struct spot_server *s, struct spot_err *err)
{
    return spot_journal_end(spot_group_journal(s->group), err);
}

static bool is_heard(const struct spot_server *s)
{
    return s->group && spot_group_journal(s->group)->out;
}

int spot_server_log_serving(struct spot_server *s, struct spot_err *err)
{
    struct spot_jw *const jw = begin_line(s, "serving");

    s->logged.time_s = s->logged.looked_s = spot_clock_s();
    if (jw)
        spot_jw_str(jw, "model", s->target->model.dir);
    return end_line(s, err);
}

int spot_server_log_formed(struct spot_server *s, const struct spot_replica *p,
                           struct spot_err *err)
{
    const struct spot_machine *const m = spot_view_machine(p->view);
    struct spot_jw *const jw =
        spot_journal_begin(spot_group_journal(s->group), "formed", m->epoch, m->round);

    if (jw) {
        spot_view_put(p->view, jw);
        if (p->version)
            spot_jw_str(jw, "model", p->version->model.dir);
        spot_jw_int(jw, "D", 1);
        spot_jw_int(jw, "P", s->grid.P);
        spot_jw_int(jw, "M", s->grid.M);
        spot_jw_int(jw, "members", (int64_t)spot_group_members(s->group));
        spot_jw_array(jw, "place");
        for (int64_t i = 0; i < s->grid.P * s->grid.M; i++)
            spot_jw_str(jw, NULL, spot_peer_name(spot_group_find(s->group, p->member[i])));
        spot_jw_end(jw);
    }
    return end_line(s, err);
}

/* --- requests ---------------------------------------------------------------------- */

/* Write a time since the arrival; nothing if the event has not happened. */
static void put_since(struct spot_jw *jw, const char *key, const struct spot_work *w, double at_s)
{
    if (at_s > 0)
        spot_event_seconds(jw, key, fmax(0, at_s - w->taken_s));
}

static int64_t n_generated(const struct spot_completion *c)
{
    int64_t n = 0;

    for (uint32_t i = 0; i < c->request.n_choice; i++)
        n += (int64_t)c->choice[i].n_counted;
    return n;
}

static int log_request(struct spot_server *s, const struct spot_work *w, struct spot_err *err)
{
    const struct spot_completion *const c = w->completion;
    const double start_s = spot_group_journal(s->group)->start_s;
    struct spot_jw *const jw = begin_line(s, "request");

    if (jw) {
        spot_jw_str(jw, "id", c->request.id);
        spot_event_seconds(jw, "came_s", fmax(0, w->taken_s - start_s));
        put_since(jw, "queue_s", w, w->given_s);
        put_since(jw, "ttft_s", w, w->first_s);
        put_since(jw, "e2e_s", w, w->ended_s);
        spot_jw_int(jw, "prompt_tokens", (int64_t)c->request.n_prompt);
        spot_jw_int(jw, "output_tokens", n_generated(c));
        if (spot_openai_n_cached(c))
            spot_jw_int(jw, "cached_tokens", spot_openai_n_cached(c));
        spot_jw_int(jw, "choices", c->request.n_choice);
        if (c->request.n_part > 1)
            spot_jw_int(jw, "prompts", c->request.n_part);
        spot_jw_str(jw, "finish", spot_completion_is_given_up(c) ? "cancelled" : "done");
        if (w->is_resumed)
            spot_jw_bool(jw, "resumed", true);
    }
    return end_line(s, err);
}

int spot_server_log_ended(struct spot_server *s, struct spot_err *err)
{
    for (size_t i = 0; i < s->n_work; i++) {
        struct spot_work *const w = s->work[i];

        if (w->is_logged || !spot_completion_is_ready(w->completion))
            continue;
        w->is_logged = true;
        if (w->ended_s <= 0)
            w->ended_s = spot_clock_s();
        if (log_request(s, w, err))
            return -1;
    }
    return 0;
}

/* --- checks ---------------------------------------------------------------- */

static void put_place(struct spot_jw *jw, const struct spot_check *c, size_t position)
{
    spot_jw_str(jw, "request", c->work->completion->request.id);
    spot_jw_int(jw, "choice", c->choice);
    spot_jw_int(jw, "position", (int64_t)position);
    spot_jw_bool(jw, "told", !c->work->completion->n_held);
}

int spot_server_log_corrupt(struct spot_server *s, const struct spot_check *c, size_t voice,
                            size_t position, const char *what, size_t n_other, struct spot_err *err)
{
    const struct spot_voice *const v = &c->voice[voice];
    const struct spot_peer *const peer = spot_group_find(s->group, v->id);
    struct spot_jw *const jw = begin_line(s, "corrupt");
    char address[SPOT_ADDRESS_MAX + 8];

    if (jw) {
        spot_jw_int(jw, "member", v->id);
        spot_jw_str(jw, "name", v->name);
        if (peer) {
            spot_peer_address(peer, peer, address);
            spot_jw_str(jw, "host", *spot_peer_domain(peer) ? spot_peer_domain(peer) : address);
        }
        spot_jw_str(jw, "what", what);
        spot_jw_int(jw, "others", (int64_t)n_other);
        put_place(jw, c, position);
    }
    return end_line(s, err);
}

int spot_server_log_differs(struct spot_server *s, const struct spot_check *c, size_t position,
                            struct spot_err *err)
{
    struct spot_jw *const jw = begin_line(s, "differs");

    if (jw) {
        put_place(jw, c, position);
        spot_jw_array(jw, "between");
        for (size_t i = 0; i < c->n_voice; i++)
            if (c->voice[i].id)
                spot_jw_str(jw, NULL, c->voice[i].name);
        spot_jw_end(jw);
    }
    return end_line(s, err);
}

/* --- a second ------------------------------------------------------------------------ */

/* The current counts. */
static struct spot_server_logged counted(const struct spot_server *s)
{
    return (struct spot_server_logged){ .n_request = s->n_request,
                                        .n_refused = s->n_refused,
                                        .n_token = s->n_token,
                                        .n_moved = s->n_moved,
                                        .n_again_token = s->n_again_token,
                                        .n_token_paged = s->n_token_paged,
                                        .between = s->between };
}

static bool is_news(const struct spot_server_logged *a, const struct spot_server_logged *b)
{
    return a->n_request != b->n_request || a->n_refused != b->n_refused ||
           a->n_token != b->n_token || a->n_again_token != b->n_again_token ||
           a->n_token_paged != b->n_token_paged;
}

static void put_between(struct spot_jw *jw, const struct spot_histogram *now,
                        const struct spot_histogram *before)
{
    int64_t count[SPOT_HISTOGRAM_BUCKETS + 1];
    size_t n = 0;

    for (size_t i = 0; i <= SPOT_HISTOGRAM_BUCKETS; i++) {
        count[i] = (int64_t)(now->count[i] - before->count[i]);
        n = count[i] ? i + 1 : n;
    }
    spot_jw_ints(jw, "between", count, n);
}

/* Add the numbers of choices since the last call. */
static void look(struct spot_server *s, double now_s)
{
    struct spot_server_logged *const l = &s->logged;
    const size_t waiting = spot_server_waiting(s);

    l->running_s += (double)(s->n_sequence - waiting) * (now_s - l->looked_s);
    l->queued_s += (double)waiting * (now_s - l->looked_s);
    l->looked_s = now_s;
}

static void put_counts(struct spot_server *s, struct spot_jw *jw,
                       const struct spot_server_logged *now)
{
    const struct spot_server_logged *const was = &s->logged;
    const double length_s = fmax(now->time_s - was->time_s, 1e-6);

    spot_jw_int(jw, "requests", (int64_t)(now->n_request - was->n_request));
    spot_jw_int(jw, "refused", (int64_t)(now->n_refused - was->n_refused));
    spot_jw_int(jw, "output_tokens", (int64_t)(now->n_token - was->n_token));
    spot_event_seconds(jw, "interval_s", length_s);
    spot_event_seconds(jw, "running", was->running_s / length_s);
    spot_event_seconds(jw, "queued", was->queued_s / length_s);
    spot_jw_int(jw, "replicas", (int64_t)spot_server_running(s));
    spot_jw_int(jw, "moves", (int64_t)(now->n_moved - was->n_moved));
    spot_jw_int(jw, "again_tokens", (int64_t)(now->n_again_token - was->n_again_token));
    spot_jw_int(jw, "paged_tokens", (int64_t)(now->n_token_paged - was->n_token_paged));
    put_between(jw, &now->between, &was->between);
}

/* Write a line while there are requests, and once after them. */
int spot_server_log_interval(struct spot_server *s, bool is_last, struct spot_err *err)
{
    const double now_s = spot_clock_s();
    struct spot_server_logged now;
    struct spot_jw *jw;

    if (!is_heard(s))
        return 0;
    look(s, now_s);
    if (!is_last && now_s - s->logged.time_s < interval_s)
        return 0;
    now = counted(s);
    now.time_s = now.looked_s = now_s;
    now.is_busy = s->n_sequence > 0;
    if (now.is_busy || s->logged.is_busy || is_news(&now, &s->logged)) {
        jw = begin_line(s, "token");
        if (jw)
            put_counts(s, jw, &now);
        s->logged = now;
        return end_line(s, err);
    }
    s->logged = now;
    return 0;
}

void spot_server_log_end(struct spot_server *s)
{
    struct spot_err ignored = { 0 };

    if (!is_heard(s))
        return;
    (void)spot_server_log_ended(s, &ignored);
    (void)spot_server_log_interval(s, true, &ignored);
}
