/* SPDX-License-Identifier: MIT */
/* Chooses the replica of a choice, and the next choice; work is counted in tokens. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "serve/server_state.h"

/* Cost of a prompt token relative to an answer token: low, since many are computed in one pass. */
static const double prompt_counts = 0.25;
static const double retry_most_s = 600;
static const double near_every_s = 1;
static const double first_holds_s =
    60; /* time after which a replica that was passed over is considered again */
static const double byte_per_token = 4;

/* --- work ------------------------------------------------------------------------ */

double spot_server_left(const struct spot_server *s, const struct spot_sequence *q)
{
    const struct spot_completion *const c = q->work->completion;
    const struct spot_request *const r = &c->request;
    const int64_t n = (int64_t)c->choice[q->choice].n_counted;

    return r->pool          ? 0
           : r->ignores_end ? (double)(r->n_token_max - n)
                            : spot_output_guess_left(&s->guess, r->n_token_max, n);
}

static double prompt_of(const struct spot_sequence *q)
{
    const struct spot_completion *const c = q->work->completion;
    uint32_t k;
    const struct spot_request part = spot_request_part(&c->request, q->choice, &k);

    return prompt_counts * (double)(part.n_prompt + c->choice[q->choice].n_token);
}

double spot_server_prompt_work(const struct spot_server *s, const struct spot_replica *p,
                               struct spot_sequence *q)
{
    return prompt_of(q) * (1 - spot_server_held(s, p, q));
}

void spot_server_count_work(struct spot_server *s)
{
    const double now_s = spot_clock_s();

    for (size_t i = 0; i < s->n_place; i++) {
        struct spot_replica *const p = s->place[i];

        p->work = p->unread = 0;
        if (p->peer && now_s - p->near_at_s >= near_every_s) {
            p->near_s = spot_peer_round_trip_s(p->peer);
            p->near_at_s = now_s;
        }
    }
    for (size_t i = 0; i < s->n_sequence; i++)
        for (int k = 0; k < SPOT_SEQUENCE_PLACES; k++) {
            struct spot_sequence *const q = s->sequence[i];
            struct spot_replica *const p = spot_server_place(s, q->place[k]);

            if (!p)
                continue;
            p->work += spot_server_left(s, q) + (q->has_told[k] ? 0 : q->prompt_work[k]);
            p->unread += q->has_told[k] ? 0 : q->prompt_work[k];
        }
}

void spot_server_note_output(struct spot_server *s, const struct spot_sequence *q)
{
    const struct spot_completion *const c = q->work->completion;
    const int64_t n = (int64_t)c->choice[q->choice].n_counted;

    if (c->request.pool || (c->choice[q->choice].finish != SPOT_FINISH_STOP &&
                            c->choice[q->choice].finish != SPOT_FINISH_LENGTH))
        return;
    spot_output_guess_note(&s->guess, c->request.n_token_max, n);
    s->mean_output += ((double)n - s->mean_output) / (s->mean_output > 0 ? 32 : 1);
}

/* --- choosing a replica ---------------------------------------------------------- */

static bool has(const struct spot_sequence *q, const struct spot_replica *p)
{
    const uint32_t id = spot_peer_id(p->peer);

    return q->place[0] == id || q->place[1] == id;
}

static bool fits(const char *wanted, const char *is)
{
    return !*wanted || !strcmp(wanted, is);
}

static double weight_of(const struct spot_server *s, const struct spot_replica *p)
{
    for (size_t i = 0; i < s->routes.n_node; i++)
        if (fits(s->routes.node[i].node, spot_peer_name(p->peer)) &&
            fits(s->routes.node[i].zone, spot_peer_domain(p->peer)))
            return s->routes.node[i].weight;
    return 1;
}

static bool has_room(const struct spot_server *s, const struct spot_replica *p)
{
    return spot_replica_may_take(p) && p->load < s->n_at_once;
}

bool spot_server_has_room(const struct spot_server *s)
{
    for (size_t i = 0; i < s->n_place; i++)
        if (has_room(s, s->place[i]))
            return true;
    return false;
}

static bool can(const struct spot_server *s, const struct spot_sequence *q,
                const struct spot_replica *p)
{
    return has_room(s, p) && p->version == q->work->version && !has(q, p);
}

static bool just_failed(const struct spot_sequence *q, const struct spot_replica *p)
{
    return !strcmp(spot_peer_name(p->peer), q->failed);
}

/* The request's bucket in the plan's route. If the tokens of a text are not known, they are
 * estimated from its bytes. */
static struct spot_size_bucket *bucket_of(const struct spot_server *s,
                                          const struct spot_sequence *q)
{
    const struct spot_request *const r = &q->work->completion->request;
    const double output = r->ignores_end ? (double)r->n_token_max
                                         : spot_output_guess_left(&s->guess, r->n_token_max, 0);
    const double per_token = q->work->version->model.vocabulary.has_pieces ? byte_per_token : 1;

    return r->pool ? NULL
                   : spot_size_route_find(&s->routes.size, (double)r->n_prompt / per_token, output);
}

static bool is_of(const struct spot_size_way *way, const struct spot_replica *p)
{
    const struct spot_seat *const seat = spot_peer_data(p->peer);

    return spot_size_way_is_of(way, seat->type, spot_peer_domain(p->peer), seat->market);
}

double spot_server_first_s(const struct spot_server *s, const struct spot_replica *p,
                           struct spot_sequence *q)
{
    return spot_clock_s() - p->first_at_s > first_holds_s
               ? 0
               : spot_first_guess_s(&p->first, p->unread + spot_server_prompt_work(s, p, q));
}

/* True if the replica can meet a bucket's time limit, which counts from the client's request. */
static bool keeps(const struct spot_server *s, const struct spot_replica *p,
                  struct spot_sequence *q, double limit_s)
{
    return isinf(limit_s) ||
           spot_clock_s() - q->work->taken_s + spot_server_first_s(s, p, q) <= limit_s;
}

/* Chooses the next open way (size_route.h) of the bucket. A way is open if one of its machines has
 * free capacity, has not just failed the request, and can meet the time limit. Requests that were
 * planned for full or absent machines are sent to others at once. */
static struct spot_size_way *choose_way(const struct spot_server *s, struct spot_sequence *q,
                                        const struct spot_size_bucket *b, double limit_s)
{
    for (size_t k = 0; k < b->n_way; k++) {
        struct spot_size_way *const way = &b->way[k];

        way->is_open = false;
        for (size_t i = 0; i < s->n_place && !way->is_open; i++)
            way->is_open = can(s, q, s->place[i]) && !just_failed(q, s->place[i]) &&
                           is_of(way, s->place[i]) && keeps(s, s->place[i], q, limit_s);
    }
    return spot_size_bucket_choose(b);
}

/* Tokens that a replica has generated but not yet delivered, counted as work. */
static double way_work(const struct spot_replica *p)
{
    return p->step_s > 0 ? p->near_s / p->step_s : 0;
}

/* The replica that would be the first to finish its work and this request; a replica that just
 * failed the request comes last. way NULL: among all replicas; limit_s INFINITY: no limit. */
static struct spot_replica *least_work(const struct spot_server *s, struct spot_sequence *q,
                                       const struct spot_size_way *way, double limit_s)
{
    struct spot_replica *best = NULL;
    bool best_failed = false;
    double best_load = 0;

    for (size_t i = 0; i < s->n_place; i++) {
        struct spot_replica *const p = s->place[i];
        bool failed;
        double load;

        if (!can(s, q, p) || (way && !is_of(way, p)) || !keeps(s, p, q, limit_s))
            continue;
        failed = just_failed(q, p);
        load = (p->work + spot_server_prompt_work(s, p, q) + spot_server_left(s, q) + way_work(p)) /
               weight_of(s, p);
        if (!best || (best_failed && !failed) || (best_failed == failed && load < best_load)) {
            best = p;
            best_failed = failed;
            best_load = load;
        }
    }
    return best;
}

/* Chooses, in this order: a replica of the bucket's next way that can meet the time limit; one of
 * another way that can; any that can; one of the next way although it will be late; any. */
static struct spot_replica *by_size(struct spot_server *s, struct spot_sequence *q,
                                    struct spot_size_bucket *b)
{
    const double limit_s = b->first_s > 0 ? b->first_s : INFINITY;
    struct spot_size_way *way = choose_way(s, q, b, INFINITY);
    struct spot_replica *p = least_work(s, q, way, limit_s);

    if (!p) {
        way = choose_way(s, q, b, limit_s);
        p = least_work(s, q, way, limit_s);
        s->n_spilled += p != NULL;
    }
    if (!p) {
        way = choose_way(s, q, b, INFINITY);
        p = least_work(s, q, way, INFINITY);
    }
    if (way && p)
        spot_size_bucket_take(b, way);
    return p;
}

struct spot_replica *spot_server_choose(struct spot_server *s, struct spot_sequence *q)
{
    struct spot_size_bucket *const b = bucket_of(s, q);

    for (size_t i = 0; i < s->n_place; i++)
        if (can(s, q, s->place[i]) && spot_sequence_has_copies(q, s->place[i]))
            return s->place[i];
    return b ? by_size(s, q, b) : least_work(s, q, NULL, INFINITY);
}

/* --- choosing the next choice ----------------------------------------------------- */

static bool goes_before(const struct spot_sequence *a, const struct spot_sequence *b)
{
    const int pa = a->work->completion->request.priority,
              pb = b->work->completion->request.priority;

    return pa != pb ? pa > pb : a->tag != b->tag ? a->tag < b->tag : a->number < b->number;
}

static size_t place_in_queue(const struct spot_server *s, const struct spot_sequence *q)
{
    size_t low = 0, high = s->n_queued;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;

        if (goes_before(s->queued[mid], q))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void spot_server_queue(struct spot_server *s, struct spot_sequence *q)
{
    const struct spot_request *const r = &q->work->completion->request;
    size_t at;

    q->tag = spot_fair_queue_add(&s->fair, r->payer, r->share > 0 ? (double)r->share : 1,
                                 prompt_of(q) + spot_server_left(s, q));
    at = place_in_queue(s, q);
    s->queued =
        spot_xgrow(s->queued, &s->cap_queued, s->n_queued + 1, sizeof(struct spot_sequence *));
    memmove(s->queued + at + 1, s->queued + at,
            (s->n_queued++ - at) * sizeof(struct spot_sequence *));
    s->queued[at] = q;
    q->is_queued = true;
}

void spot_server_unqueue(struct spot_server *s, struct spot_sequence *q, bool begins)
{
    const uint32_t payer = q->work->completion->request.payer;
    size_t at;

    if (!q->is_queued)
        return;
    at = place_in_queue(s, q);
    memmove(s->queued + at, s->queued + at + 1,
            (--s->n_queued - at) * sizeof(struct spot_sequence *));
    q->is_queued = false;
    if (begins)
        spot_fair_queue_begin(&s->fair, payer, q->tag);
    else
        spot_fair_queue_leave(&s->fair, payer);
}

/* All clients share one queue. If others fill it, a client with a share has its part of the same
 * number of places again. */
bool spot_server_has_queue_for(const struct spot_server *s, const struct spot_request *r)
{
    const double most = (double)s->options->n_queue;
    const size_t n = spot_server_waiting(s) + r->n_choice;
    const size_t own = spot_fair_queue_n(&s->fair, r->payer) + r->n_choice;
    const double share = r->share > 0 ? (double)r->share : 1;

    if ((double)n <= most)
        return true;
    return own < n && (double)n <= 2 * most &&
           (double)own <= most * spot_fair_queue_part(&s->fair, r->payer, share);
}

/* Seconds until a place is free for the client that is told now, after those told before. */
double spot_server_retry_after_s(void *server)
{
    struct spot_server *const s = server;
    const double now_s = spot_clock_s();
    const double per_s = s->rate > 0 && s->mean_output > 0 ? s->rate / s->mean_output : 1;

    s->n_told = fmax(0, s->n_told - (now_s - s->told_s) * per_s) + 1;
    s->told_s = now_s;
    return fmin(s->n_told / per_s, retry_most_s);
}
