/* SPDX-License-Identifier: MIT */
#include "serve/completion.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

static void open_choice(struct spot_completion *c, uint32_t choice)
{
    struct spot_choice *const h = &c->choice[choice];
    uint32_t k;
    const struct spot_request part = spot_request_part(&c->request, choice, &k);

    spot_detok_init(&h->detok, c->vocabulary->bpe, false, false);
    h->n_echo = spot_request_n_echo(&part);
    if (!part.n_token_max && !h->n_echo) { /* nothing is asked for behind the prompt */
        h->finish = SPOT_FINISH_LENGTH;
        c->n_open--;
    }
}

struct spot_completion *spot_completion_new(struct spot_request *request_take,
                                            const struct spot_vocabulary *vocabulary)
{
    struct spot_completion *const c = spot_xcalloc(1, sizeof(*c));

    c->request = *request_take;
    *request_take = (struct spot_request){ 0 };
    c->vocabulary = vocabulary;
    c->n_open = c->request.n_choice;
    c->n_reference = 1;
    c->choice = spot_xcalloc(c->n_open, sizeof(*c->choice));
    for (uint32_t i = 0; i < c->request.n_choice; i++)
        open_choice(c, i);
    return c;
}

struct spot_completion *spot_completion_ref(struct spot_completion *c)
{
    c->n_reference++;
    return c;
}

void spot_completion_unref(struct spot_completion *c)
{
    if (!c || --c->n_reference)
        return;
    for (uint32_t i = 0; i < c->request.n_choice; i++) {
        free(c->choice[i].token);
        free(c->choice[i].text_end);
        spot_detok_release(&c->choice[i].detok);
        spot_buf_release(&c->choice[i].text);
    }
    free(c->choice);
    spot_request_release(&c->request);
    free(c);
}

/* --- stop texts ------------------------------------------------------------- */

/* Where text[n] first has `stop`, at `from` or later; n: nowhere. */
static size_t find(const unsigned char *text, size_t n, size_t from, const char *stop)
{
    const size_t length = strlen(stop);

    for (size_t at = from; at + length <= n; at++)
        if (!memcmp(text + at, stop, length))
            return at;
    return n;
}

/* The first stop text that ends beyond `known` bytes and did not end before; text.n: none. */
static size_t first_stop(const struct spot_request *r, const struct spot_choice *h, size_t known)
{
    size_t first = h->text.n;

    for (size_t i = 0; i < r->n_stop; i++) {
        const size_t length = strlen(r->stop[i]);
        const size_t at =
            find(h->text.data, h->text.n, known >= length ? known - length + 1 : 0, r->stop[i]);

        first = at < first ? at : first;
    }
    return first;
}

/* Bytes at the end of the text that may be the start of a stop text. */
static size_t held_back(const struct spot_request *r, const struct spot_choice *h)
{
    size_t most = 0;

    for (size_t i = 0; i < r->n_stop; i++) {
        size_t n = strlen(r->stop[i]) - 1;

        n = n < h->text.n ? n : h->text.n;
        while (n > most && memcmp(h->text.data + h->text.n - n, r->stop[i], n) != 0)
            n--;
        most = n > most ? n : most;
    }
    return most;
}

/* --- an end ----------------------------------------------------------------- */

static void close_choice(struct spot_completion *c, struct spot_choice *h, enum spot_finish finish)
{
    h->finish = finish;
    c->n_open--;
    if (h->n_token)
        h->text_end[h->n_token - 1] = h->text.n;
}

/* The text from `known` on is new: is there a stop text in it? */
static bool stops(struct spot_completion *c, struct spot_choice *h, size_t known)
{
    const size_t at = first_stop(&c->request, h, known);

    if (at == h->text.n)
        return false;
    h->text.n = at;
    close_choice(c, h, SPOT_FINISH_STOP);
    return true;
}

static void end_choice(struct spot_completion *c, struct spot_choice *h, enum spot_finish finish)
{
    const size_t known = h->text.n;

    spot_detok_end(&h->detok, &h->text);
    if (!stops(c, h, known))
        close_choice(c, h, finish);
}

void spot_completion_finish(struct spot_completion *c, uint32_t choice, enum spot_finish finish)
{
    if (c->choice[choice].finish == SPOT_FINISH_NONE)
        end_choice(c, &c->choice[choice], finish);
}

bool spot_completion_is_given_up(const struct spot_completion *c)
{
    for (uint32_t i = 0; i < c->request.n_choice; i++)
        if (c->choice[i].finish == SPOT_FINISH_CANCELLED)
            return true;
    return false;
}

/* --- a token ---------------------------------------------------------------- */

static bool is_end(const struct spot_vocabulary *v, uint32_t id)
{
    for (size_t i = 0; i < v->n_end; i++)
        if (v->end[i] == id)
            return true;
    return false;
}

/* Special tokens are not text, so a stop text that is the name of one is looked for here. */
static bool is_stop(const struct spot_completion *c, uint32_t id)
{
    const struct spot_request *const r = &c->request;
    size_t n = 0;
    const uint8_t *const name = r->n_stop ? spot_bpe_token(c->vocabulary->bpe, id, &n) : NULL;

    if (!name || !spot_bpe_is_special(c->vocabulary->bpe, id))
        return false;
    for (size_t i = 0; i < r->n_stop; i++)
        if (strlen(r->stop[i]) == n && !memcmp(r->stop[i], name, n))
            return true;
    return false;
}

/* The worker may differ, nothing else. */
static bool is_same(const struct spot_token *a, const struct spot_token *b)
{
    if (a->id != b->id || memcmp(&a->logprob, &b->logprob, sizeof(a->logprob)) != 0 ||
        a->n_top != b->n_top)
        return false;
    for (uint32_t i = 0; i < a->n_top; i++)
        if (a->top[i].id != b->top[i].id ||
            memcmp(&a->top[i].logprob, &b->top[i].logprob, sizeof(a->logprob)) != 0)
            return false;
    return true;
}

static void keep(struct spot_choice *h, const struct spot_token *token)
{
    size_t cap = h->token_cap;

    h->token = spot_xgrow(h->token, &h->token_cap, h->n_token + 1, sizeof(*h->token));
    if (cap != h->token_cap)
        h->text_end = spot_xrealloc(h->text_end, h->token_cap, sizeof(*h->text_end));
    h->token[h->n_token++] = *token;
}

enum spot_append spot_completion_append(struct spot_completion *c, uint32_t choice, size_t position,
                                        const struct spot_token *token)
{
    struct spot_choice *h;
    size_t known;

    if (choice >= c->request.n_choice)
        return SPOT_APPEND_GAP;
    h = &c->choice[choice];
    if (position < h->n_token)
        return is_same(&h->token[position], token) ? SPOT_APPEND_KNOWN : SPOT_APPEND_DIFFERS;
    if (h->finish != SPOT_FINISH_NONE)
        return SPOT_APPEND_KNOWN;
    if (position > h->n_token)
        return SPOT_APPEND_GAP;
    keep(h, token);
    known = h->text.n;
    if (position < h->n_echo) {
        h->text_end[position] = 0;
        if (position + 1 == h->n_echo && !c->request.n_token_max)
            end_choice(c, h, SPOT_FINISH_LENGTH);
        return SPOT_APPEND_NEW;
    }
    if ((is_end(c->vocabulary, token->id) && !c->request.ignores_end) || is_stop(c, token->id)) {
        end_choice(c, h, SPOT_FINISH_STOP);
        return SPOT_APPEND_NEW;
    }
    (void)spot_detok_push(&h->detok, token->id, &h->text); /* one without a text adds none */
    if (stops(c, h, known))
        return SPOT_APPEND_NEW;
    h->text_end[h->n_token - 1] = h->text.n - held_back(&c->request, h);
    if ((int64_t)(h->n_token - h->n_echo) >= c->request.n_token_max)
        end_choice(c, h, SPOT_FINISH_LENGTH);
    return SPOT_APPEND_NEW;
}
