/* SPDX-License-Identifier: MIT */
/* The tokens that a pass gives its sequences, from rows of logits or chosen by the engine. Rows are
 * independent: the engine's threads share them, but for grammars, whose states are in one pool. */
#include <math.h>

#include "common/xalloc.h"
#include "serve/batch_loop_state.h"
#include "serve/grammar.h"

static bool is_end_token(const struct spot_served_model *m, uint32_t token)
{
    for (size_t i = 0; i < m->n_end; i++)
        if (m->end[i] == token)
            return true;
    return false;
}

static void add_biases(const struct spot_request *r, float *logit)
{
    for (size_t i = 0; i < r->n_bias; i++)
        logit[r->bias[i].token] += r->bias[i].bias;
}

/* Forbid tokens that would end a text before its minimum length. */
static void forbid_ends(const struct spot_batch_loop *l, const struct spot_request *r, float *logit)
{
    for (size_t i = 0; !r->ignores_end && i < l->model->n_end; i++)
        logit[l->model->end[i]] = -INFINITY;
    for (size_t i = 0; i < r->n_stop_id; i++)
        logit[r->stop_id[i]] = -INFINITY;
}

static bool ends_at(const struct spot_batch_loop *l, const struct spot_request *r, uint32_t token)
{
    return (!r->ignores_end && is_end_token(l->model, token)) || spot_request_stops_at(r, token);
}

/* Position in the answer; below 0: a token of the prompt, which is known. */
static int64_t position_of(const struct spot_strand *s)
{
    return (int64_t)spot_batch_n_generated(s) - (int64_t)s->n_echo;
}

/* --- what the engine may choose --- */

struct spot_infer_pick spot_batch_pick(const struct spot_strand *s)
{
    if (!s) /* nobody awaits the row: any token, so that no logits are copied */
        return (struct spot_infer_pick){ .is_wanted = true };
    const struct spot_request *const r = &s->request;
    const int64_t position = position_of(s);

    if (s->n_prompt || s->state || r->n_bias || r->n_logprob >= 0 || position < 0 ||
        position < r->n_token_min)
        return (struct spot_infer_pick){ 0 };
    return (struct spot_infer_pick){
        .is_wanted = true,
        .temperature = r->sample.temperature,
        .top_p = r->sample.top_p,
        .min_p = r->sample.min_p,
        .top_k = r->sample.top_k,
        .noise = spot_sample_noise(r->sample.seed, s->choice, (uint64_t)position),
    };
}

/* --- from logits --- */

/* Lists the n most probable tokens in order; ties to the lower token. */
static void put_top(const struct spot_shape *shape, const float *logit, uint32_t n,
                    struct spot_token *t)
{
    const double norm = spot_sample_norm(shape, logit);

    for (int64_t v = 0; v < shape->vocab; v++) {
        uint32_t k = t->n_top;

        if (!(logit[v] > -INFINITY) || (k == n && !(logit[v] > logit[t->top[k - 1].id])))
            continue;
        if (k == n)
            k--; /* the last one is dropped */
        else
            t->n_top++;
        for (; k > 0 && logit[v] > logit[t->top[k - 1].id]; k--)
            t->top[k] = t->top[k - 1];
        t->top[k].id = (uint32_t)v;
    }
    for (uint32_t k = 0; k < t->n_top; k++)
        t->top[k].logprob = (double)logit[t->top[k].id] - norm;
}

/* Applies the request and its grammar to the row. */
static void prepare(const struct spot_batch_loop *l, struct spot_batch_row *row)
{
    struct spot_strand *const s = row->strand;
    const int64_t position = position_of(s);

    if (row->pick->is_chosen)
        return;
    if (position >= 0)
        add_biases(&s->request, row->logit);
    if (position >= 0 && position < s->request.n_token_min)
        forbid_ends(l, &s->request, row->logit);
    if (s->state &&
        spot_grammar_mask(s->state, l->model->end, l->model->n_end, row->logit, (size_t)l->vocab))
        row->out->cannot =
            "the schema or expression of the text allows too many ways to go on here: its "
            "repetitions overlap";
}

/* Rows of a pass, on one of the engine's threads. */
static void choose_one(void *loop, int i, int thread)
{
    struct spot_batch_loop *const l = loop;
    const struct spot_batch_row *const row = &l->row[i];

    if (!row->logit || row->out->cannot)
        return;
    const struct spot_strand *const s = row->strand;
    const struct spot_sample_past past = { .n_prompt = s->n_prompt, .n_generated = s->n_generated };
    const struct spot_request *const r = &s->request;
    const int64_t position = position_of(s);
    struct spot_token *const t = &row->out->token.token;

    if (row->pick->is_chosen)
        t->id = row->pick->token;
    else if (position < 0)
        t->id = r->prompt[s->n_token];
    else
        t->id = spot_sample_choose(&r->sample, row->logit, l->vocab, &past, s->choice,
                                   (uint64_t)position, l->work + thread * l->vocab);
    if (r->n_logprob >= 0)
        t->logprob = spot_sample_logprob(&l->model->shape, row->logit, t->id);
    if (r->n_logprob > 0)
        put_top(&l->model->shape, row->logit, (uint32_t)r->n_logprob, t);
}

int spot_batch_append(struct spot_strand *s, uint32_t token)
{
    s->token = spot_xgrow(s->token, &s->cap_token, s->n_token + 1, sizeof(*s->token));
    s->token[s->n_token++] = token;
    if (s->n_generated && spot_batch_n_generated(s) > s->n_echo)
        s->n_generated[token]++;
    return s->state ? spot_grammar_push(s->state, token) : 0;
}

/* Returns true if the sequence has ended. */
static bool settle(struct spot_batch_loop *l, struct spot_strand *s, struct spot_step_token *t)
{
    const struct spot_request *const r = &s->request;
    const bool ends = position_of(s) >= 0 && ends_at(l, r, t->token.id);

    if (!ends && spot_batch_append(s, t->token.id))
        /* no token was allowed: the vocabulary cannot express a text of the schema */
        t->is_end = true;
    if (!ends && s->state && spot_grammar_must_end(s->state))
        t->is_end = true;
    return ends || t->is_end ||
           (int64_t)spot_batch_n_generated(s) >= r->n_token_max + (int64_t)s->n_echo ||
           (int64_t)s->n_token >= l->model->shape.seq;
}

void spot_batch_choose(struct spot_batch_loop *l, struct spot_batch_out *out, size_t n)
{
    int n_row = 0; /* of which the token is still to be chosen */

    for (size_t i = 0; i < n; i++) {
        struct spot_batch_row *const row = &l->row[i];
        const struct spot_strand *const s = row->strand;

        row->out = &out[i];
        if (!row->logit)
            continue;
        out[i].token.position = (uint32_t)spot_batch_n_generated(s);
        out[i].token.token.n_cached = out[i].token.position ? 0 : s->n_cached;
        prepare(l, row);
        n_row += !row->pick->is_chosen;
    }
    if (n_row > 1)
        spot_relay_each(l->relay, (int)n, choose_one, l);
    for (size_t i = 0; n_row < 2 && i < n; i++)
        choose_one(l, (int)i, 0);
    for (size_t i = 0; i < n; i++)
        if (!l->row[i].logit || out[i].cannot || settle(l, l->row[i].strand, &out[i].token))
            spot_batch_loop_drop(l, out[i].sequence);
}
