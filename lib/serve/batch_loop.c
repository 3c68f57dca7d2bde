/* SPDX-License-Identifier: MIT */
#include "serve/batch_loop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "serve/batch_loop_state.h"
#include "serve/grammar.h"

enum {
    /* of a pass: enough for efficient products, few enough for the latency of others */
    TOKENS_AT_ONCE = 128,
    PROMPT_TOKENS = 32, /* a pass of this many tokens consists mostly of prompts */
};

/* --- sequences -------------------------------------------------------------- */

static void set_back(struct spot_batch_loop *l, struct spot_strand *s)
{
    if (s->place < 0)
        return;
    s->is_again |= spot_relay_length(l->relay, s->place) > s->n_cached;
    s->n_cached = s->is_again ? s->n_cached : 0;
    spot_relay_close(l->relay, s->place);
    s->place = -1;
}

static void await_nothing(struct spot_batch_loop *l, const struct spot_strand *s)
{
    for (int k = 0; k < spot_relay_under_way(l->relay); k++)
        for (int i = 0; i < l->pass[k].n_item; i++)
            if (l->pass[k].whose[i] == s)
                l->pass[k].whose[i] = NULL;
}

static void strand_free(struct spot_batch_loop *l, struct spot_strand *s)
{
    set_back(l, s);
    await_nothing(l, s);
    if (s->state)
        spot_grammar_end(s->state);
    if (s->grammar)
        spot_grammar_pool_give_back(l->grammars, s->request.form, s->grammar);
    spot_request_release(&s->request);
    free(s->source);
    free(s->token);
    free(s->n_prompt);
    free(s->n_generated);
    free(s);
}

static void remove_at(struct spot_batch_loop *l, size_t i)
{
    strand_free(l, l->strand[i]);
    memmove(l->strand + i, l->strand + i + 1, (--l->n - i) * sizeof(struct spot_strand *));
}

static bool has_penalties(const struct spot_sample *s)
{
    return s->repetition != 1 || s->presence != 0 || s->frequency != 0;
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

static int begin(struct spot_batch_loop *l, struct spot_strand *s, const uint32_t *token, size_t n,
                 struct spot_err *err)
{
    const struct spot_request *const r = &s->request;

    s->n_echo = spot_request_n_echo(r);
    s->n_begin = r->n_prompt - s->n_echo;
    if (!r->n_prompt || (int64_t)(s->n_begin + n) > l->model->shape.seq)
        return spot_err_set(err, SPOT_EDATA, "a sequence of %zu tokens, the context has %lld",
                            s->n_begin + n, (long long)l->model->shape.seq);
    if (r->adapter > l->model->n_adapter)
        return spot_err_set(err, SPOT_EDATA, "adapter %u of a model that has %zu",
                            (unsigned)r->adapter, l->model->n_adapter);
    if (check_tokens(l, r->prompt, r->n_prompt, err) || check_tokens(l, token, n, err))
        return -1;
    for (size_t i = 0; i < r->n_bias; i++)
        if (check_tokens(l, &r->bias[i].token, 1, err))
            return -1;
    if (check_tokens(l, r->stop_id, r->n_stop_id, err))
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
    if (r->form) {
        s->grammar = spot_grammar_pool_take(l->grammars, r->form, err);
        if (!s->grammar)
            return -1;
        s->state = spot_grammar_begin(s->grammar);
    }
    for (size_t i = 0; i < n; i++)
        if (spot_batch_append(s, token[i]))
            return spot_err_set(err, SPOT_EDATA,
                                "token %zu is not allowed by the constraint of the text", i);
    return 0;
}

int spot_batch_loop_add(struct spot_batch_loop *l, uint64_t number,
                        struct spot_request *request_take, uint32_t choice, const uint32_t *token,
                        size_t n, struct spot_err *err)
{
    struct spot_strand *const s = spot_xcalloc(1, sizeof(*s));

    *s = (struct spot_strand){
        .number = number, .request = *request_take, .choice = choice, .place = -1
    };
    memset(request_take, 0, sizeof(*request_take));
    if (begin(l, s, token, n, err)) {
        strand_free(l, s);
        return -1;
    }
    spot_batch_loop_drop(l, number);
    l->strand = spot_xgrow(l->strand, &l->cap, l->n + 1, sizeof(struct spot_strand *));
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
    l->has_buddy = false;
}

struct spot_batch_rates spot_batch_loop_rates(const struct spot_batch_loop *l)
{
    return l->rates;
}

bool spot_batch_loop_is_idle(const struct spot_batch_loop *l)
{
    return !l->n && !spot_relay_under_way(l->relay);
}

struct spot_batch_pages spot_batch_loop_pages(const struct spot_batch_loop *l)
{
    const int all = spot_relay_pages(l->relay);

    return (struct spot_batch_pages){ .used = (uint32_t)(all - spot_relay_free_pages(l->relay)),
                                      .kept = (uint32_t)spot_relay_kept_pages(l->relay),
                                      .all = (uint32_t)all };
}

/* --- which tokens a pass computes -------------------------------------------- */

bool spot_batch_make_room(struct spot_batch_loop *l, size_t i, int64_t n_page, int64_t n_taken)
{
    for (size_t k = l->n; k-- > i + 1 && spot_relay_free_pages(l->relay) - n_taken < n_page;)
        set_back(l, l->strand[k]);
    return spot_relay_free_pages(l->relay) - n_taken >= n_page;
}

bool spot_batch_open_place(struct spot_batch_loop *l, size_t i)
{
    struct spot_strand *const s = l->strand[i];

    for (size_t k = l->n; s->place < 0;) {
        s->place = spot_relay_open(l->relay, (int)s->request.adapter);
        if (s->place >= 0)
            break;
        while (k > i + 1 && l->strand[k - 1]->place < 0)
            k--;
        if (k <= i + 1)
            return false;
        set_back(l,
                 l->strand[--k]); /* it was set back before an older one, which waits for pages */
    }
    return true;
}

/* --- passes -------------------------------------------------------------------- */

/* True if only one token of it is missing. */
static bool decodes(const struct spot_batch_loop *l, const struct spot_strand *s)
{
    return s->place >= 0 && spot_relay_length(l->relay, s->place) + 1 == (int64_t)s->n_token;
}

/* Tokens left for prompts by decoding sequences. */
static int64_t prompt_tokens(const struct spot_batch_loop *l)
{
    int64_t left = TOKENS_AT_ONCE;

    for (size_t i = 0; i < l->n; i++)
        left -= !l->strand[i]->is_awaited && decodes(l, l->strand[i]);
    return left > 1 ? left : 1;
}

/* Maximum sequences of a pass: they are divided among the passes that can run at the same time. */
static int pass_items(const struct spot_batch_loop *l)
{
    const int n = l->n < (size_t)l->n_most ? (int)l->n : l->n_most;
    const int depth = spot_relay_depth(l->relay);

    return (n + depth - 1) / depth;
}

static bool is_of_same_request(const struct spot_strand *a, const struct spot_strand *b)
{
    return a->number / SPOT_REQUEST_CHOICES_MAX == b->number / SPOT_REQUEST_CHOICES_MAX;
}

static bool has_same_prompt(const struct spot_strand *a, const struct spot_strand *b)
{
    return is_of_same_request(a, b) && a->n_begin == b->n_begin &&
           !memcmp(a->token, b->token, a->n_begin * sizeof(*a->token));
}

/* True if an older choice of its request computes the prompt, whose pages can be reused a pass
 * later. */
static bool awaits_prompt(const struct spot_batch_loop *l, size_t i)
{
    const struct spot_strand *const s = l->strand[i];

    for (size_t k = 0; k < i && !s->request.is_fresh; k++) {
        const struct spot_strand *const other = l->strand[k];

        if (other->place >= 0 && !other->source &&
            spot_relay_length(l->relay, other->place) / SPOT_INFER_PAGE <
                (int64_t)(s->n_begin - 1) / SPOT_INFER_PAGE &&
            has_same_prompt(s, other))
            return true;
    }
    return false;
}

static bool has_nothing(const struct spot_batch_loop *l, const struct spot_strand *s)
{
    return s->place < 0 || !spot_relay_length(l->relay, s->place);
}

/* Reuse cached pages of its tokens, as far as unreserved pages remain. */
static int reuse_pages(struct spot_batch_loop *l, struct spot_strand *s, int64_t n_taken,
                       struct spot_err *err)
{
    int64_t n;

    if (decodes(l, s) || s->request.is_fresh ||
        s->request.pool == SPOT_POOL_MEAN) /* pooling needs the state of each token */
        return 0;
    if (spot_relay_reuse(l->relay, s->place, s->token, (int64_t)s->n_token,
                         spot_relay_free_pages(l->relay) - n_taken, &n, err))
        return -1;
    if (!s->is_again && !spot_batch_n_generated(s))
        s->n_cached += (uint32_t)n;
    return 0;
}

/* Choose items, oldest first; each decoding sequence gets its token, however long earlier prompts
 * are. Returns their number, or -1 with *err. */
static int choose_items(struct spot_batch_loop *l, const struct spot_batch_pass *pass,
                        struct spot_err *err)
{
    const int n_most = pass_items(l);
    int64_t left = prompt_tokens(l), n_taken = 0;
    int n = 0;

    for (size_t i = 0; i < l->n && n < n_most; i++) {
        struct spot_strand *const s = l->strand[i];
        const bool is_next = decodes(l, s);
        int64_t length, n_token, more;

        if (s->source || s->is_awaited || (!is_next && !left) ||
            (has_nothing(l, s) && awaits_prompt(l, i)))
            continue;
        if (!spot_batch_open_place(l, i))
            break;
        if (reuse_pages(l, s, n_taken, err))
            return -1;
        length = spot_relay_length(l->relay, s->place);
        n_token = (int64_t)s->n_token - length;
        if (!is_next && n_token > left)
            n_token = left;
        more = spot_relay_page_count(length + n_token) - spot_relay_page_count(length);
        if (!spot_batch_make_room(l, i, more, n_taken)) {
            set_back(l, s);
            break;
        }
        n_taken += more;
        left -= is_next ? 0 : n_token;
        s->is_awaited = length + n_token == (int64_t)s->n_token;
        /* otherwise its prompt continues in the next pass */
        pass->whose[n] = s->is_awaited ? s : NULL;
        pass->is_pooled[n] = s->request.pool != SPOT_POOL_NONE;
        pass->pick[n] = spot_batch_pick(pass->whose[n]);
        l->item[n++] = (struct spot_infer_item){ .sequence = s->place,
                                                 .first = length,
                                                 .n_token = n_token,
                                                 .token = s->token + length,
                                                 .pool = s->request.pool };
    }
    return n;
}

/* --- passes begin and end --- */

static void give_state(const struct spot_batch_loop *l, const struct spot_strand *s,
                       const float *state, struct spot_batch_out *out)
{
    int64_t i = 0;

    while (i < l->model->shape.width && isfinite(state[i]))
        i++;
    if (i < l->model->shape.width) {
        out->cannot = "the state of the text has numbers that are not finite";
        return;
    }
    out->state = state;
    out->token.token.n_cached = s->n_cached;
}

/* Returns 0, or -1 with *err. If nothing can begin, no pass is added. */
static int begin_pass(struct spot_batch_loop *l, struct spot_err *err)
{
    struct spot_batch_pass *const pass = &l->pass[spot_relay_under_way(l->relay)];

    pass->n_item = choose_items(l, pass, err);
    if (pass->n_item < 0)
        return -1;
    pass->begun_s = spot_clock_s();
    pass->n_token = 0;
    for (int i = 0; i < pass->n_item; i++)
        pass->n_token += l->item[i].n_token;
    return pass->n_item ? spot_relay_begin(l->relay, l->item, pass->n_item, pass->pick, err) : 0;
}

static int begin_passes(struct spot_batch_loop *l, struct spot_err *err)
{
    int before;

    do {
        before = spot_relay_under_way(l->relay);
        if (before < spot_relay_depth(l->relay) && begin_pass(l, err))
            return -1;
    } while (spot_relay_under_way(l->relay) > before);
    return 0;
}

/* Remove and return the oldest pass. */
static struct spot_batch_pass take_pass(struct spot_batch_loop *l)
{
    const int n = spot_relay_under_way(l->relay);
    const struct spot_batch_pass oldest = l->pass[0];

    memmove(l->pass, l->pass + 1, (size_t)(n - 1) * sizeof(*l->pass));
    l->pass[n - 1] = (struct spot_batch_pass){ .whose = oldest.whose,
                                               .is_pooled = oldest.is_pooled,
                                               .pick = oldest.pick };
    return oldest;
}

static int end_pass(struct spot_batch_loop *l, struct spot_batch_out *out, size_t *n,
                    struct spot_err *err)
{
    const struct spot_batch_pass pass = take_pass(l);
    const size_t V = (size_t)l->vocab, C = (size_t)l->model->shape.width;
    float *logit;
    const float *state;

    if (spot_relay_finish(l->relay, &logit, &state, err))
        return -1;
    if (pass.n_token >= PROMPT_TOKENS)
        spot_batch_note_rate(&l->rates.prompt_token_s,
                             (spot_clock_s() - pass.begun_s) / (double)pass.n_token);
    for (int i = 0; i < pass.n_item; i++) {
        struct spot_strand *const s = pass.whose[i];

        if (s) {
            s->is_awaited = false;
            out[*n] = (struct spot_batch_out){ .sequence = s->number };
            if (pass.is_pooled[i])
                give_state(l, s, state, &out[*n]);
            l->row[*n] = (struct spot_batch_row){ .strand = s,
                                                  .logit = pass.is_pooled[i] ? NULL : logit,
                                                  .pick = &pass.pick[i] };
            ++*n;
        }
        if (pass.is_pooled[i])
            state += C;
        else
            logit += V;
    }
    spot_batch_choose(l, out, *n);
    return 0;
}

int spot_batch_loop_step(struct spot_batch_loop *l, struct spot_batch_out *out, size_t *n,
                         struct spot_err *err)
{
    *n = 0;
    if (spot_batch_look_for_pages(l, err) || begin_passes(l, err))
        return -1;
    if (spot_relay_under_way(l->relay))
        return end_pass(l, out, n, err) || spot_batch_copy_pages(l, err) ? -1 : 0;
    return l->n && !spot_batch_all_wait(l)
               ? spot_err_set(err, SPOT_EINFEASIBLE,
                              "a cache of %d pages is too small for one sequence",
                              spot_relay_pages(l->relay))
               : 0;
}

/* --- the loop ------------------------------------------------------------------- */

int64_t spot_batch_loop_tokens(int n_sequence)
{
    return TOKENS_AT_ONCE + n_sequence;
}

struct spot_batch_loop *spot_batch_loop_new(const struct spot_served_model *model,
                                            struct spot_relay *relay, int n_sequence)
{
    struct spot_batch_loop *const l = spot_xcalloc(1, sizeof(*l));
    const size_t depth = (size_t)spot_relay_depth(relay);

    l->model = model;
    l->relay = relay;
    l->n_most = n_sequence;
    l->vocab = model->shape.vocab;
    l->item = spot_xcalloc((size_t)n_sequence, sizeof(*l->item));
    l->pass = spot_xcalloc(depth, sizeof(*l->pass));
    for (size_t k = 0; k < depth; k++) {
        l->pass[k].whose = spot_xcalloc((size_t)n_sequence, sizeof(struct spot_strand *));
        l->pass[k].is_pooled = spot_xcalloc((size_t)n_sequence, sizeof(bool));
        l->pass[k].pick = spot_xcalloc((size_t)n_sequence, sizeof(*l->pass[k].pick));
    }
    l->row = spot_xcalloc((size_t)n_sequence, sizeof(*l->row));
    l->work = spot_xcalloc((size_t)spot_relay_threads(relay) * (size_t)l->vocab, sizeof(*l->work));
    l->grammars = spot_grammar_pool_new(model->bpe);
    return l;
}

void spot_batch_loop_free(struct spot_batch_loop *l)
{
    if (!l)
        return;
    spot_batch_loop_clear(l);
    for (int k = 0; k < spot_relay_depth(l->relay); k++) {
        free(l->pass[k].whose);
        free(l->pass[k].is_pooled);
        free(l->pass[k].pick);
    }
    free(l->row);
    free(l->strand);
    free(l->item);
    free(l->pass);
    free(l->work);
    spot_grammar_pool_free(l->grammars);
    free(l);
}
