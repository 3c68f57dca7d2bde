/* SPDX-License-Identifier: MIT */
/* Requests, from their start until they are dropped. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "serve/server_state.h"
#include "serve/server_verify.h"

static const double nobody_s = 5;
enum { LOG_SLACK = 1 << 20 };

size_t spot_server_waiting(const struct spot_server *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_sequence; i++)
        n += !s->sequence[i]->place[0] && !s->sequence[i]->place[1];
    return n;
}

bool spot_server_is_idle(const struct spot_server *s)
{
    if (s->n_sequence || s->checks.n)
        return false;
    return !s->front || spot_front_is_idle(s->front) ||
           (s->drained_s > 0 && spot_clock_s() - s->drained_s > s->options->linger_s);
}

/* --- taking ---------------------------------------------------------------------- */

static struct spot_work *add_work(struct spot_server *s, uint64_t number,
                                  struct spot_model_version *version,
                                  struct spot_request *request_take)
{
    struct spot_work *const w = spot_xcalloc(1, sizeof(*w));

    w->number = number;
    w->taken_s = spot_clock_s();
    w->version = version;
    version->n_work++;
    w->completion = spot_completion_new(request_take, &version->model.vocabulary);
    w->completion->core = w;
    s->work = spot_xgrow(s->work, &s->cap_work, s->n_work + 1, sizeof(struct spot_work *));
    s->work[s->n_work++] = w;
    s->last_number = number;
    return w;
}

/* By number. */
static struct spot_sequence *add_sequence(struct spot_server *s, struct spot_work *w,
                                          uint32_t choice)
{
    struct spot_sequence *const q = spot_xcalloc(1, sizeof(*q));
    size_t at = s->n_sequence;

    q->number = w->number * SPOT_REQUEST_CHOICES_MAX + choice;
    q->work = w;
    q->choice = choice;
    s->sequence = spot_xgrow(s->sequence, &s->cap_sequence, s->n_sequence + 1,
                             sizeof(struct spot_sequence *));
    for (; at && s->sequence[at - 1]->number > q->number; at--)
        s->sequence[at] = s->sequence[at - 1];
    s->sequence[at] = q;
    s->n_sequence++;
    return q;
}

/* A sequence for each choice that has not ended. */
static void add_sequences(struct spot_server *s, struct spot_work *w)
{
    for (uint32_t i = 0; i < w->completion->request.n_choice; i++) {
        struct spot_sequence *q;

        if (w->completion->choice[i].finish != SPOT_FINISH_NONE)
            continue;
        q = add_sequence(s, w, i);
        q->is_given = w->is_resumed;
        if (!q->is_given)
            spot_server_queue(s, q);
    }
}

void spot_server_restart(struct spot_server *s, struct spot_work *w, uint32_t choice)
{
    struct spot_sequence *q = spot_server_find(s, w->number * SPOT_REQUEST_CHOICES_MAX + choice);

    spot_completion_restart(w->completion, choice);
    w->ended_s = 0;
    if (q)
        spot_server_end_sequence(s, q);
    q = add_sequence(s, w, choice);
    q->is_given = true; /* withdrawn choices come before new ones */
}

enum spot_admission spot_server_health(void *server)
{
    struct spot_server *const s = server;

    if (s->is_draining)
        return SPOT_ADMIT_DRAINING;
    for (size_t i = 0; i < s->n_place; i++)
        if (spot_replica_may_take(s->place[i]))
            return SPOT_ADMIT;
    return s->routes.is_of_fleet ? SPOT_ADMIT : SPOT_ADMIT_NOBODY;
}

static enum spot_admission admission(struct spot_server *s, const struct spot_request *r)
{
    if (s->is_draining || s->failure.code)
        return SPOT_ADMIT_DRAINING;
    if (spot_server_health(s) != SPOT_ADMIT && spot_clock_s() - s->served_s > nobody_s)
        return SPOT_ADMIT_NOBODY;
    return spot_server_has_queue_for(s, r) ? SPOT_ADMIT : SPOT_ADMIT_FULL;
}

enum spot_admission spot_server_submit(void *server, struct spot_request *request_take,
                                       struct spot_completion **completion)
{
    struct spot_server *const s = server;
    const enum spot_admission how = admission(s, request_take);
    struct spot_work *w;

    if (how != SPOT_ADMIT) {
        spot_request_release(request_take);
        return how;
    }
    w = add_work(s, s->last_number + 1, s->current, request_take);
    if (s->log) {
        spot_token_log_put_request(s->log, w->number, w->version->model.hash,
                                   &w->completion->request);
        (void)spot_token_log_write(s->log, &s->failure); /* the periodic work reports the failure */
    }
    s->n_request++;
    add_sequences(s, w);
    spot_server_hold(s, w);
    *completion = spot_completion_ref(w->completion);
    spot_server_dispatch(s);
    return SPOT_ADMIT;
}

/* --- leaving ------------------------------------------------------------------------ */

void spot_server_cancel(struct spot_server *s, struct spot_work *w)
{
    spot_server_drop_checks(s, w);
    for (size_t i = s->n_sequence; i-- > 0;)
        if (s->sequence[i]->work == w)
            spot_server_end_sequence(s, s->sequence[i]);
    for (uint32_t i = 0; i < w->completion->request.n_choice; i++)
        if (w->completion->choice[i].finish == SPOT_FINISH_NONE)
            spot_completion_finish(w->completion, i, SPOT_FINISH_CANCELLED);
    w->ended_s = spot_clock_s();
}

void spot_server_abandon(void *server, struct spot_completion *c)
{
    struct spot_work *const w = c->core;

    if (!w)
        return;
    if (c->request.does_stream)
        w->abandoned_s = spot_clock_s();
    else
        spot_server_cancel(server, w);
}

void spot_server_end(void *server, struct spot_completion *c)
{
    if (c->core)
        spot_server_cancel(server, c->core);
}

struct spot_completion *spot_server_rejoin(void *server, const char *id, uint64_t owner)
{
    struct spot_server *const s = server;

    for (size_t i = 0; i < s->n_work; i++) {
        struct spot_work *const w = s->work[i];

        if (strcmp(w->completion->request.id, id) != 0 || !w->completion->request.does_stream ||
            w->completion->request.owner != owner)
            continue;
        w->abandoned_s = 0;
        return spot_completion_ref(w->completion);
    }
    return NULL;
}

static void forget_work(struct spot_server *s, size_t i)
{
    struct spot_work *const w = s->work[i];

    if (s->log)
        spot_token_log_put_end(s->log, w->number);
    w->completion->core = NULL;
    w->version->n_work--;
    spot_completion_unref(w->completion);
    free(w);
    memmove(s->work + i, s->work + i + 1, (--s->n_work - i) * sizeof(struct spot_work *));
}

/* --- the journal ---------------------------------------------------------------------- */

static void put_choice(struct spot_server *s, const struct spot_work *w, uint32_t i)
{
    const struct spot_choice *const choice = &w->completion->choice[i];

    for (size_t k = 0; k < choice->n_token; k++) {
        const struct spot_step_token t = { .position = (uint32_t)k,
                                           .is_end = k + 1 == choice->n_token &&
                                                     choice->finish == SPOT_FINISH_STOP,
                                           .token = choice->token[k] };

        spot_token_log_put_token(s->log, w->number, i, &t);
    }
}

static void put_models(struct spot_server *s)
{
    const struct spot_model_version *const version[] = { s->target, s->old };

    spot_token_log_set_model(s->log, s->target->model.hash);
    spot_token_log_put_model(s->log, s->given_hash, "");
    for (int i = 0; i < 2; i++)
        if (version[i])
            spot_token_log_put_model(s->log, version[i]->model.hash, version[i]->model.dir);
    for (size_t i = 0; i < s->n_ended; i++)
        spot_token_log_put_model(s->log, s->ended[i]->model.hash, s->ended[i]->model.dir);
}

int spot_server_write_anew(struct spot_server *s, struct spot_err *err)
{
    if (spot_token_log_write(s->log, err))
        return -1;
    put_models(s);
    for (size_t i = 0; i < s->n_work; i++) {
        const struct spot_work *const w = s->work[i];

        spot_token_log_next_record(s->log);
        spot_token_log_put_request(s->log, w->number, w->version->model.hash,
                                   &w->completion->request);
        for (uint32_t k = 0; k < w->completion->request.n_choice; k++)
            put_choice(s, w, k);
    }
    if (spot_token_log_replace(s->log, err))
        return -1;
    s->log_floor = spot_token_log_byte(s->log);
    return 0;
}

/* True if a request can be dropped: its clients have read it or disconnected, and had time to
 * return. While one reads, its version of the model is needed too. */
static bool is_due(const struct spot_server *s, const struct spot_work *w, double now_s)
{
    return w->ended_s > 0 && w->completion->n_reference == 1 &&
           (!w->completion->request.does_stream || now_s - w->ended_s > s->options->linger_s);
}

int spot_server_expire(struct spot_server *s, struct spot_err *err)
{
    const double now_s = spot_clock_s();

    for (size_t i = s->n_work; i-- > 0;) {
        struct spot_work *const w = s->work[i];

        if (!w->completion->n_open && w->ended_s <= 0)
            w->ended_s = now_s;
        if (w->abandoned_s > 0 && now_s - w->abandoned_s > s->options->linger_s &&
            !spot_completion_is_ready(w->completion))
            spot_server_cancel(s, w);
        if (is_due(s, w, now_s))
            forget_work(s, i);
    }
    if (!s->log || spot_token_log_write(s->log, err))
        return s->log ? -1 : 0;
    return spot_token_log_byte(s->log) > 2 * s->log_floor + LOG_SLACK
               ? spot_server_write_anew(s, err)
               : 0;
}

/* --- a journal that is there ------------------------------------------------------------ */

struct reading {
    struct spot_server *server;
    uint64_t *lost; /* [n_lost] unknown requests to which tokens belong */
    size_t n_lost, cap_lost;
    size_t n_again; /* number of tokens after a gap */
};

static struct spot_work *find_work(const struct spot_server *s, uint64_t number)
{
    for (size_t i = s->n_work; i-- > 0;)
        if (s->work[i]->number == number)
            return s->work[i];
    return NULL;
}

/* A model on which requests began. */
static void on_model(void *user, uint64_t hash, const char *dir)
{
    struct spot_server *const s = ((struct reading *)user)->server;
    const struct spot_model_wanted wanted = spot_server_wanted(s);
    struct spot_model_version *v;

    if (s->failure.code || spot_server_version(s, hash))
        return;
    v = spot_model_version_open(dir, &wanted, &s->failure);
    if (v && v->model.hash != hash)
        (void)spot_err_set(&s->failure, SPOT_EDATA,
                           "%s is not the model any more that the journal's requests began on",
                           dir);
    if (v)
        spot_server_keep_version(s, v);
}

static void on_request(void *user, uint64_t number, uint64_t hash,
                       struct spot_request *request_take)
{
    struct spot_server *const s = ((struct reading *)user)->server;
    struct spot_model_version *const version = spot_server_version(s, hash);

    if (!version || number <= s->last_number || !request_take->n_choice ||
        request_take->n_choice > SPOT_REQUEST_CHOICES_MAX)
        spot_request_release(request_take);
    else
        add_work(s, number, version, request_take);
}

static void note_lost(struct reading *r, uint64_t number)
{
    for (size_t i = 0; i < r->n_lost; i++)
        if (r->lost[i] == number)
            return;
    r->lost = spot_xgrow(r->lost, &r->cap_lost, r->n_lost + 1, sizeof(*r->lost));
    r->lost[r->n_lost++] = number;
    if (number > r->server->last_number)
        r->server->last_number = number; /* so that no new request gets its tokens */
}

static void on_token(void *user, uint64_t number, uint32_t choice, const struct spot_step_token *t)
{
    struct reading *const r = user;
    struct spot_work *const w = find_work(r->server, number);

    if (!w)
        note_lost(r, number);
    else if (choice >= w->completion->request.n_choice ||
             spot_completion_append(w->completion, choice, t->position, &t->token) < 0)
        r->n_again++;
    else if (t->is_end && w->completion->choice[choice].finish == SPOT_FINISH_NONE)
        spot_completion_finish(w->completion, choice, SPOT_FINISH_STOP);
}

static void on_end(void *user, uint64_t number)
{
    struct reading *const r = user;
    struct spot_server *const s = r->server;

    for (size_t i = 0; i < s->n_work; i++)
        if (s->work[i]->number == number) {
            forget_work(s, i);
            return;
        }
    for (size_t i = 0; i < r->n_lost; i++)
        if (r->lost[i] == number) {
            r->lost[i] = r->lost[--r->n_lost];
            return;
        }
}

/* Serve the model that was rolled out before the restart, regardless of the command line. */
static void take_rolled(struct spot_server *s, uint64_t hash)
{
    struct spot_model_version *const rolled = spot_server_version(s, hash);

    if (!rolled)
        return;
    for (size_t i = 0; i < s->n_ended; i++)
        if (s->ended[i] == rolled)
            s->ended[i] = s->target;
    s->options->group.warn("%s was rolled out before and is served; its requests continue",
                           rolled->model.dir);
    s->target = rolled;
    spot_server_set_current(s, rolled);
}

/* The settings that, with the model, determine the bits of a token. */
static void put_numerics(const struct spot_server_options *o, char out[SPOT_TOKEN_LOG_NUMERICS])
{
    const char *const type = spot_infer_type_name(o->type);

    if (o->is_foreign)
        snprintf(out, SPOT_TOKEN_LOG_NUMERICS, "%s", "engines of others");
    else if (o->kind)
        snprintf(out, SPOT_TOKEN_LOG_NUMERICS, "%s weights on GPUs of kind %016" PRIx64, type,
                 spot_hash64(o->kind, strlen(o->kind)));
    else
        snprintf(out, SPOT_TOKEN_LOG_NUMERICS, "%s weights%s on CPUs", type,
                 o->type == SPOT_INFER_BF16 ? " and inputs" : "");
}

static void tell_damage(const struct spot_server *s, const struct spot_token_log_damage *d,
                        const struct reading *r)
{
    if (d->n_bad)
        s->options->group.warn("%llu records of the journal were damaged (%llu bytes%s): requests "
                               "accepted in them are lost (%zu of them had tokens in other "
                               "records); %zu or more later tokens are computed again",
                               (unsigned long long)d->n_bad, (unsigned long long)d->n_bad_byte,
                               d->is_kept ? ", kept as tokens.log.bad" : "", r->n_lost, r->n_again);
    if (d->n_cut)
        s->options->group.warn("the end of the journal was damaged: %llu bytes are cut off; their "
                               "tokens are computed again, their requests are lost",
                               (unsigned long long)d->n_cut);
}

static struct spot_token_log *read_log(struct spot_server *s, struct spot_err *err)
{
    struct reading reading = { .server = s };
    const struct spot_token_log_reader reader = {
        .model = on_model, .request = on_request, .token = on_token, .end = on_end, .user = &reading
    };
    char numerics[SPOT_TOKEN_LOG_NUMERICS];
    struct spot_token_log_damage damage;
    struct spot_token_log *log;

    put_numerics(s->options, numerics);
    log =
        spot_token_log_open(s->options->state, s->target->model.hash, numerics,
                            s->options->group.resume, s->options->does_sync, &reader, &damage, err);
    if (log)
        tell_damage(s, &damage, &reading);
    free(reading.lost);
    return log;
}

/* Streams wait for their clients; clients of other requests cannot return. */
int spot_server_open_log(struct spot_server *s, struct spot_err *err)
{
    struct spot_token_log *log;

    if (!s->options->state)
        return 0;
    log = read_log(s, err);
    if (!log)
        return -1;
    s->log = log;
    if (s->failure.code)
        return spot_err_set(err, s->failure.code, "cannot continue the journal's requests: %s",
                            s->failure.msg);
    if (spot_token_log_model(log) != s->target->model.hash)
        take_rolled(s, spot_token_log_model(log));
    for (size_t i = 0; i < s->n_work; i++) {
        struct spot_work *const w = s->work[i];

        w->is_resumed = true;
        w->is_logged = !w->completion->n_open; /* the earlier server has logged it */
        if (!w->completion->request.does_stream)
            spot_server_cancel(s, w);
        w->abandoned_s = spot_clock_s();
        add_sequences(s, w);
        spot_server_hold(s, w);
    }
    return spot_server_write_anew(s, err);
}
