/* SPDX-License-Identifier: MIT */
#include "serve/batch_loop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "engine/sample.h"
#include "serve/grammar.h"

enum { TOKENS_AT_ONCE = 128 }; /* of a pass: long enough for the products, short for those beside */

struct strand {
    uint64_t number;
    struct spot_request request;
    uint32_t choice;
    uint32_t *token; /* [n_token], the prompt first */
    size_t n_token, cap_token;
    size_t n_begin; /* tokens of the prompt that are not computed like an answer */
    size_t n_echo;  /* and those that are, though they are known */
    int place;      /* in the engine's cache; -1: none */
    uint32_t *n_prompt, *n_generated; /* [V] or NULL: nothing hangs on them */
    struct spot_grammar *grammar;     /* or NULL */
    struct spot_grammar_state *state;
};

struct spot_batch_loop {
    const struct spot_served_model *model;
    struct spot_infer *infer;
    int n_page, n_most;
    int64_t vocab;
    struct strand **strand; /* [n], oldest first */
    size_t n, cap;
    struct spot_infer_item *item; /* [n_most] of a pass, and whose they are */
    struct strand **whose;
    float *logit; /* [n_most * vocab] */
    struct spot_sample_work *work;
};

/* --- sequences -------------------------------------------------------------- */

static size_t n_generated(const struct strand *s)
{
    return s->n_token - s->n_begin;
}

static void set_back(struct spot_batch_loop *l, struct strand *s)
{
    if (s->place >= 0)
        spot_infer_close(l->infer, s->place);
    s->place = -1;
}

static void strand_free(struct spot_batch_loop *l, struct strand *s)
{
    set_back(l, s);
    if (s->state)
        spot_grammar_end(s->state);
    if (s->grammar)
        spot_grammar_free(s->grammar);
    spot_request_release(&s->request);
    free(s->token);
    free(s->n_prompt);
    free(s->n_generated);
    free(s);
}

static void remove_at(struct spot_batch_loop *l, size_t i)
{
    strand_free(l, l->strand[i]);
    memmove(l->strand + i, l->strand + i + 1, (--l->n - i) * sizeof(struct strand *));
}

static bool has_penalties(const struct spot_sample *s)
{
    return s->repetition != 1 || s->presence != 0 || s->frequency != 0;
}

/* Returns 0, or -1 where the grammar forbids it. */
static int append(struct strand *s, uint32_t token)
{
    s->token = spot_xgrow(s->token, &s->cap_token, s->n_token + 1, sizeof(*s->token));
    s->token[s->n_token++] = token;
    if (s->n_generated && n_generated(s) > s->n_echo)
        s->n_generated[token]++;
    return s->state ? spot_grammar_push(s->state, token) : 0;
}

static int check_tokens(const struct spot_batch_loop *l, const uint32_t *token, size_t n,
                        struct spot_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (token[i] >= (uint64_t)l->vocab)
            return spot_err_set(err, SPOT_EDATA, "token %u of a model that has %lld",
                                (unsigned)token[i], (long long)l->vocab);
    return 0;
}

static int begin(struct spot_batch_loop *l, struct strand *s, const uint32_t *token, size_t n,
                 struct spot_err *err)
{
    const struct spot_request *const r = &s->request;

    s->n_echo = spot_request_n_echo(r);
    s->n_begin = r->n_prompt - s->n_echo;
    if (!r->n_prompt || (int64_t)(s->n_begin + n) > spot_infer_shape(l->infer)->seq)
        return spot_err_set(err, SPOT_EDATA, "a sequence of %zu tokens, the context has %lld",
                            s->n_begin + n, (long long)spot_infer_shape(l->infer)->seq);
    if (check_tokens(l, r->prompt, r->n_prompt, err) || check_tokens(l, token, n, err))
        return -1;
    s->token = spot_xgrow(NULL, &s->cap_token, s->n_begin + n, sizeof(*s->token));
    memcpy(s->token, r->prompt, s->n_begin * sizeof(*s->token));
    s->n_token = s->n_begin;
    if (has_penalties(&r->sample)) {
        s->n_prompt = spot_xcalloc((size_t)l->vocab, sizeof(*s->n_prompt));
        s->n_generated = spot_xcalloc((size_t)l->vocab, sizeof(*s->n_generated));
        for (size_t i = 0; i < r->n_prompt; i++)
            s->n_prompt[r->prompt[i]]++;
    }
    if (r->schema) {
        s->grammar = spot_grammar_new(r->schema, strlen(r->schema), l->model->bpe, err);
        if (!s->grammar)
            return -1;
        s->state = spot_grammar_begin(s->grammar);
    }
    for (size_t i = 0; i < n; i++)
        if (append(s, token[i]))
            return spot_err_set(err, SPOT_EDATA, "token %zu is not what the schema allows", i);
    return 0;
}

int spot_batch_loop_add(struct spot_batch_loop *l, uint64_t number,
                        struct spot_request *request_take, uint32_t choice, const uint32_t *token,
                        size_t n, struct spot_err *err)
{
    struct strand *const s = spot_xcalloc(1, sizeof(*s));

    *s = (struct strand){
        .number = number, .request = *request_take, .choice = choice, .place = -1
    };
    memset(request_take, 0, sizeof(*request_take));
    if (begin(l, s, token, n, err)) {
        strand_free(l, s);
        return -1;
    }
    spot_batch_loop_drop(l, number);
    l->strand = spot_xgrow(l->strand, &l->cap, l->n + 1, sizeof(struct strand *));
    l->strand[l->n++] = s;
    return 0;
}

void spot_batch_loop_drop(struct spot_batch_loop *l, uint64_t number)
{
    for (size_t i = l->n; i-- > 0;)
        if (l->strand[i]->number == number)
            remove_at(l, i);
}

void spot_batch_loop_clear(struct spot_batch_loop *l)
{
    while (l->n)
        remove_at(l, l->n - 1);
}

size_t spot_batch_loop_count(const struct spot_batch_loop *l)
{
    return l->n;
}

void spot_batch_loop_pages(const struct spot_batch_loop *l, uint32_t *used, uint32_t *all)
{
    *all = (uint32_t)l->n_page;
    *used = *all - (uint32_t)spot_infer_free_pages(l->infer);
}

/* --- which tokens a pass computes -------------------------------------------- */

static int64_t pages(int64_t n_token)
{
    return (n_token + SPOT_INFER_PAGE - 1) / SPOT_INFER_PAGE;
}

/* So many pages, taken from the newest if need be, but from none older than strand i. */
static bool make_room(struct spot_batch_loop *l, size_t i, int64_t n_page, int64_t n_taken)
{
    for (size_t k = l->n; k-- > i + 1 && spot_infer_free_pages(l->infer) - n_taken < n_page;)
        set_back(l, l->strand[k]);
    return spot_infer_free_pages(l->infer) - n_taken >= n_page;
}

static bool open_place(struct spot_batch_loop *l, size_t i)
{
    struct strand *const s = l->strand[i];

    for (size_t k = l->n; s->place < 0;) {
        s->place = spot_infer_open(l->infer, NULL);
        if (s->place >= 0)
            break;
        while (k > i + 1 && l->strand[k - 1]->place < 0)
            k--;
        if (k <= i + 1)
            return false;
        set_back(l, l->strand[--k]); /* it came back before an older one, which waited for pages */
    }
    return true;
}

/* It lacks one token alone. */
static bool decodes(const struct spot_batch_loop *l, const struct strand *s)
{
    return s->place >= 0 && spot_infer_length(l->infer, s->place) + 1 == (int64_t)s->n_token;
}

/* Tokens for prompts: what those that decode leave. */
static int64_t prompt_tokens(const struct spot_batch_loop *l)
{
    int64_t left = TOKENS_AT_ONCE;

    for (size_t i = 0; i < l->n; i++)
        left -= decodes(l, l->strand[i]);
    return left > 1 ? left : 1;
}

/* Oldest first; each that decodes goes on by its token however long the prompts before it are. */
static int choose_items(struct spot_batch_loop *l)
{
    int64_t left = prompt_tokens(l), n_taken = 0;
    int n = 0;

    for (size_t i = 0; i < l->n && n < l->n_most; i++) {
        struct strand *const s = l->strand[i];
        const bool is_next = decodes(l, s);
        int64_t length, n_token, more;

        if (!is_next && !left)
            continue;
        if (!open_place(l, i))
            break;
        length = spot_infer_length(l->infer, s->place);
        n_token = (int64_t)s->n_token - length;
        if (!is_next && n_token > left)
            n_token = left;
        more = pages(length + n_token) - pages(length);
        if (!make_room(l, i, more, n_taken)) {
            set_back(l, s);
            break;
        }
        n_taken += more;
        left -= is_next ? 0 : n_token;
        l->whose[n] = s;
        l->item[n++] = (struct spot_infer_item){
            .sequence = s->place, .first = length, .n_token = n_token, .token = s->token + length
        };
    }
    return n;
}

/* --- choosing a token ---------------------------------------------------------- */

/* The most probable, in order; of equal ones the lower token first. */
static void put_top(const float *logit, int64_t vocab, uint32_t n, struct spot_token *t)
{
    for (t->n_top = 0; t->n_top < n; t->n_top++) {
        int64_t best = -1;

        for (int64_t v = 0; v < vocab; v++) {
            bool is_there = !(logit[v] > -INFINITY);

            for (uint32_t k = 0; k < t->n_top && !is_there; k++)
                is_there = t->top[k].id == (uint32_t)v;
            if (!is_there && (best < 0 || logit[v] > logit[best]))
                best = v;
        }
        if (best < 0)
            return;
        t->top[t->n_top].id = (uint32_t)best;
        t->top[t->n_top].logprob = spot_sample_logprob(logit, vocab, (uint32_t)best);
    }
}

static bool is_end_token(const struct spot_served_model *m, uint32_t token)
{
    for (size_t i = 0; i < m->n_end; i++)
        if (m->end[i] == token)
            return true;
    return false;
}

/* A token of the prompt that is echoed: how probable it was. */
static void tell_echo(const struct spot_batch_loop *l, const struct strand *s, const float *logit,
                      struct spot_token *t)
{
    t->id = s->request.prompt[s->n_token];
    t->logprob = spot_sample_logprob(logit, l->vocab, t->id);
}

/* Returns whether the sequence has ended. */
static bool choose(struct spot_batch_loop *l, struct strand *s, float *logit,
                   struct spot_step_token *t)
{
    const struct spot_sample_past past = { .n_prompt = s->n_prompt, .n_generated = s->n_generated };
    const struct spot_request *const r = &s->request;
    bool ends;

    memset(t, 0, sizeof(*t));
    t->position = (uint32_t)n_generated(s);
    if (s->state)
        spot_grammar_mask(s->state, l->model->end, l->model->n_end, logit, (size_t)l->vocab);
    if (t->position < s->n_echo)
        tell_echo(l, s, logit, &t->token);
    else
        t->token.id = spot_sample_choose(&r->sample, logit, l->vocab, &past, s->choice,
                                         t->position - s->n_echo, l->work, &t->token.logprob);
    if (r->n_logprob > 0)
        put_top(logit, l->vocab, (uint32_t)r->n_logprob, &t->token);
    ends = !r->ignores_end && t->position >= s->n_echo && is_end_token(l->model, t->token.id);
    if (!ends && append(s, t->token.id))
        t->is_end = true; /* no token was allowed: a schema whose text this vocabulary cannot say */
    if (!ends && s->state && spot_grammar_must_end(s->state))
        t->is_end = true;
    return ends || t->is_end || (int64_t)n_generated(s) >= r->n_token_max + (int64_t)s->n_echo ||
           (int64_t)s->n_token >= spot_infer_shape(l->infer)->seq;
}

int spot_batch_loop_step(struct spot_batch_loop *l, struct spot_batch_out *out, size_t *n,
                         struct spot_err *err)
{
    const int n_item = choose_items(l);

    *n = 0;
    if (!n_item && l->n)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "a cache of %d pages is too small for one sequence", l->n_page);
    if (n_item && spot_infer_run(l->infer, l->item, n_item, NULL, NULL, l->logit, err))
        return -1;
    for (int i = 0; i < n_item; i++) {
        struct strand *const s = l->whose[i];

        if (spot_infer_length(l->infer, s->place) < (int64_t)s->n_token)
            continue; /* its prompt goes on in the next pass */
        out[*n].sequence = s->number;
        if (choose(l, s, l->logit + (size_t)i * (size_t)l->vocab, &out[*n].token))
            spot_batch_loop_drop(l, s->number);
        ++*n;
    }
    return 0;
}

/* --- the whole ------------------------------------------------------------------- */

/* A probe of one page says how large a page is. */
static int count_pages(const struct spot_infer_config *config, uint64_t kv_byte, int *n_page,
                       struct spot_err *err)
{
    struct spot_infer_config small = *config;
    struct spot_infer *probe;
    const struct spot_shape *s;
    uint64_t page_byte, n, most;

    small.n_page = small.n_sequence = 1;
    probe = spot_infer_new(&small, err);
    if (!probe)
        return -1;
    s = spot_infer_shape(probe);
    page_byte = spot_infer_page_byte(probe) * (uint64_t)s->n_layer * (uint64_t)s->n_shard;
    most = (uint64_t)config->n_sequence * (uint64_t)pages(s->seq);
    n = kv_byte ? kv_byte / page_byte : most;
    if (n > most)
        n = most;
    *n_page = (int)n;
    if (n < (uint64_t)pages(s->seq))
        spot_err_set(err, SPOT_EINFEASIBLE,
                     "a cache of %llu bytes holds %llu tokens, the context has %lld",
                     (unsigned long long)kv_byte, (unsigned long long)(n * SPOT_INFER_PAGE),
                     (long long)s->seq);
    n = n < (uint64_t)pages(s->seq);
    spot_infer_free(probe);
    return n ? -1 : 0;
}

struct spot_batch_loop *spot_batch_loop_new(const struct spot_served_model *model,
                                            const void *image, size_t image_byte,
                                            const struct spot_batch_limits *limits,
                                            struct spot_err *err)
{
    struct spot_batch_loop *const l = spot_xcalloc(1, sizeof(*l));
    struct spot_infer_config config = { .image = image,
                                        .image_byte = image_byte,
                                        .n_thread = limits->n_thread,
                                        .n_sequence = limits->n_sequence,
                                        .token_max = TOKENS_AT_ONCE + limits->n_sequence };

    l->model = model;
    l->n_most = limits->n_sequence;
    l->vocab = model->shape.vocab;
    if (count_pages(&config, limits->kv_byte, &config.n_page, err) ||
        !(l->infer = spot_infer_new(&config, err))) {
        spot_batch_loop_free(l);
        return NULL;
    }
    l->n_page = config.n_page;
    l->item = spot_xcalloc((size_t)l->n_most, sizeof(*l->item));
    l->whose = spot_xcalloc((size_t)l->n_most, sizeof(struct strand *));
    l->logit = spot_xcalloc((size_t)l->n_most * (size_t)l->vocab, sizeof(*l->logit));
    l->work = spot_xcalloc((size_t)l->vocab, sizeof(*l->work));
    return l;
}

void spot_batch_loop_free(struct spot_batch_loop *l)
{
    if (!l)
        return;
    spot_batch_loop_clear(l);
    spot_infer_free(l->infer);
    free(l->strand);
    free(l->item);
    free(l->whose);
    free(l->logit);
    free(l->work);
    free(l);
}
