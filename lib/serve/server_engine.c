/* SPDX-License-Identifier: MIT */
/* Workers whose model is in an engine. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/backoff.h"
#include "common/clock.h"
#include "common/xalloc.h"
#include "serve/grammar.h"
#include "serve/server_state.h"

static const double pause_least_s = 0.1, pause_most_s = 2; /* between two tries of a choice */
static const double leaves_s = 10, spare_s = 1;
enum { FAILED_MAX = 6 };

/* All engines must have the first one's model, since another would continue with different
 * tokens. */
static bool has_other_model(struct spot_server *s, const char *model)
{
    if (!*s->engine_model)
        snprintf(s->engine_model, sizeof(s->engine_model), "%s", model);
    return strcmp(s->engine_model, model) != 0;
}

/* Requests must fit the smallest context; the number of tokens of a text is not known. */
static void take_context(struct spot_server *s, uint64_t n_context)
{
    if (s->target->model.vocabulary.has_pieces || !n_context ||
        n_context >= (uint64_t)s->target->model.shape.seq)
        return;
    s->target->model.shape.seq = (int64_t)n_context;
    if (s->current == s->target)
        spot_server_set_current(s, s->current);
}

int spot_server_accept_engine(struct spot_server *s, struct spot_wire_in *hello, char *why,
                              size_t n)
{
    const bool has_pieces = s->target->model.vocabulary.has_pieces;
    char kind[32], model[sizeof(s->engine_model)];
    uint64_t n_context;
    bool takes_ids;

    spot_get_plain(hello, kind, sizeof(kind));
    takes_ids = spot_get_u8(hello);
    spot_get_plain(hello, model, sizeof(model));
    n_context = spot_get_u64(hello);
    if (!spot_wire_in_done(hello))
        snprintf(why, n, "malformed HELLO");
    else if (!takes_ids && !has_pieces)
        snprintf(why, n, "%s takes text, not tokens: the server's --model is to be a name", kind);
    else if (has_pieces && strcmp(model, s->options->model) != 0)
        snprintf(why, n, "the engine's model is '%s', the server's '%s'", model, s->options->model);
    else if (has_other_model(s, model))
        snprintf(why, n, "the engine's model is '%s', that of the others '%s'", model,
                 s->engine_model);
    else
        return take_context(s, n_context), 0;
    return 1;
}

void spot_server_welcome_engine(const struct spot_server *s, struct spot_buf *out)
{
    const struct spot_served_model *const m = &s->target->model;

    spot_put_u8(out, m->vocabulary.has_pieces);
    spot_put_u32(out, (uint32_t)m->shape.vocab);
    spot_put_u32(out, m->end[0]);
}

bool spot_server_is_stale(const struct spot_sequence *q, int k, uint32_t assignment)
{
    return q->assignment[k] != assignment;
}

void spot_server_given_up(struct spot_server *s, struct spot_replica *p,
                          const struct spot_frame *frame)
{
    struct spot_sequence *const q = spot_server_find(s, frame->tag);
    struct spot_wire_in in = spot_wire_in(frame->data, frame->n_byte);
    const uint32_t assignment = spot_get_u32(&in), id = spot_peer_id(p->peer);
    const bool is_anew = spot_get_u8(&in);
    const int k = q && q->place[1] == id;
    char why[SPOT_WHY_MAX];

    spot_get_plain(&in, why, sizeof(why));
    if (!spot_wire_in_done(&in) || !q || q->place[k] != id ||
        spot_server_is_stale(q, k, assignment))
        return;
    if (is_anew)
        spot_server_release_place(s, q, k);
    else
        spot_server_fail_sequence(s, p, q, why);
}

/* End a request with a choice that no engine can compute. */
static void end_request(struct spot_server *s, struct spot_completion *c, const char *why)
{
    if (!c->why)
        c->why = spot_xstrdup(why);
    spot_server_cancel(s, c->core);
    if (s->front)
        spot_front_progress(s->front, c);
}

void spot_server_fail_sequence(struct spot_server *s, struct spot_replica *p,
                               struct spot_sequence *q, const char *why)
{
    struct spot_completion *const c = q->work->completion;
    const int k = q->place[1] == spot_peer_id(p->peer);

    snprintf(q->failed, sizeof(q->failed), "%s", spot_peer_name(p->peer));
    spot_server_release_place(s, q, k);
    q->due_s = spot_clock_s() + spot_backoff_s((int)++q->n_failed, pause_least_s, pause_most_s);
    if (q->n_failed < FAILED_MAX) {
        s->options->group.warn("request %s continues elsewhere: worker %s reports: %s",
                               c->request.id, spot_peer_name(p->peer), why);
        return;
    }
    s->options->group.warn("request %s ends: %d engines failed it, the last was %s: %s",
                           c->request.id, FAILED_MAX, spot_peer_name(p->peer), why);
    end_request(s, c, why);
}

/* --- forms ----------------------------------------------------------------------------- */

/* An engine gets the grammar of the rest of a text, and its output is checked. So a form is
 * enforced regardless of the engine's grammar support, and a request can continue in the middle of
 * a form. */

void spot_server_drop_grammar(struct spot_sequence *q)
{
    spot_grammar_end(q->stands);
    if (q->grammar)
        spot_grammar_pool_give_back(q->work->version->grammars, q->work->completion->request.form,
                                    q->grammar);
    q->stands = NULL;
    q->grammar = NULL;
}

static uint32_t word_of(const struct spot_sequence *q, uint32_t token)
{
    return q->work->version->model.vocabulary.has_pieces ? token % SPOT_PIECE_LAST : token;
}

static bool is_end(const struct spot_sequence *q, uint32_t token)
{
    const struct spot_vocabulary *const v = &q->work->version->model.vocabulary;

    for (size_t i = 0; i < v->n_end; i++)
        if (v->end[i] == token)
            return true;
    return v->has_pieces && token == SPOT_PIECE_LENGTH;
}

/* Returns 0, or -1 with *err (SPOT_EDATA). */
static int put_grammar(struct spot_sequence *q, const char *form, struct spot_buf *out,
                       struct spot_err *err)
{
    struct spot_model_version *const v = q->work->version;
    const struct spot_choice *const h = &q->work->completion->choice[q->choice];

    if (!v->grammars)
        v->grammars = spot_grammar_pool_new(v->model.bpe);
    q->grammar = spot_grammar_pool_take(v->grammars, form, err);
    if (!q->grammar)
        return -1;
    q->stands = spot_grammar_begin(q->grammar);
    for (size_t i = 0; i < h->n_token; i++)
        if (spot_grammar_push(q->stands, word_of(q, h->token[i].id)))
            return spot_err_set(err, SPOT_EDATA, "the text so far violates its constraint");
    return spot_grammar_put_rest(q->stands, out, err);
}

void spot_server_put_for_engine(struct spot_sequence *q, uint32_t assignment, struct spot_buf *out)
{
    const char *const form = q->work->completion->request.form;
    struct spot_buf grammar = { 0 };
    struct spot_err why = { 0 };

    spot_server_drop_grammar(q);
    if (form && put_grammar(q, form, &grammar, &why))
        grammar.n = 0;
    spot_put_u32(out, assignment);
    spot_put_text(out, why.msg);
    spot_put_u32(out, (uint32_t)grammar.n);
    spot_buf_add(out, grammar.data, grammar.n);
    spot_buf_release(&grammar);
}

bool spot_server_allows(struct spot_sequence *q, struct spot_step_token *t)
{
    if (!q->stands)
        return true;
    if (is_end(q, t->token.id))
        return t->token.id == SPOT_PIECE_LENGTH || spot_grammar_may_end(q->stands);
    if (spot_grammar_push(q->stands, word_of(q, t->token.id)))
        return false;
    t->is_end = spot_grammar_must_end(q->stands);
    return true;
}

/* Seconds until the deadline of the leaving replica. */
static double left_s(const struct spot_server *s, const struct spot_replica *p)
{
    const double told_s = spot_peer_time_left_s(spot_group_find(s->group, spot_peer_id(p->peer)));
    const double since_s = p->leaving_s > 0 ? spot_clock_s() - p->leaving_s : 0;

    return isinf(told_s) ? leaves_s - since_s : fmin(told_s, leaves_s - since_s);
}

/* False if, at the pace since its assignment, the sequence ends before the leaving replica's
 * deadline. */
bool spot_server_must_move(const struct spot_server *s, const struct spot_sequence *q,
                           const struct spot_replica *p)
{
    const struct spot_completion *const c = q->work->completion;
    const struct spot_choice *const h = &c->choice[q->choice];
    const double n = (double)(h->n_token - q->n_given);
    const double left = (double)(c->request.n_token_max - (int64_t)h->n_counted) *
                        (double)h->n_token / (double)(h->n_counted + 1);

    return n < 2 || left * (spot_clock_s() - q->given_s) / n > left_s(s, p) - spare_s;
}
