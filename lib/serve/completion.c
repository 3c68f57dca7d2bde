/* SPDX-License-Identifier: MIT */
#include "serve/completion.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

/* --- where texts begin, in characters ------------------------------------------ */

static bool has_offsets(const struct spot_request *r)
{
    return r->n_logprob >= 0 && !r->is_chat;
}

static void count_characters(struct spot_choice *h, const uint8_t *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h->n_character += (text[i] & 0xC0) != 0x80;
}

void spot_completion_echo(const struct spot_vocabulary *v, const struct spot_request *part,
                          size_t i, struct spot_detokenizer *d, struct spot_buf *out)
{
    size_t n_begin = 0;

    while (n_begin < v->n_begin && n_begin < part->n_prompt &&
           part->prompt[n_begin] == v->begin[n_begin])
        n_begin++;
    if (i >= n_begin)
        (void)spot_detok_push(d, part->prompt[i], out);
    if (i + 1 == part->n_prompt)
        spot_detok_end(d, out);
}

/* Counts the characters of token i of the echoed prompt. */
static void count_prompt(const struct spot_completion *c, struct spot_choice *h, size_t i)
{
    uint32_t k;
    const struct spot_request part = spot_request_part(&c->request, (uint32_t)(h - c->choice), &k);
    struct spot_buf text = { 0 };

    spot_completion_echo(c->vocabulary, &part, i, &h->echo, &text);
    count_characters(h, text.data, text.n);
    spot_buf_release(&text);
}

/* Records the offset of the newest token, which has no text yet. Each byte is counted once. */
static void note_offset(const struct spot_completion *c, struct spot_choice *h)
{
    const size_t i = h->n_token - 1;

    if (!has_offsets(&c->request))
        return;
    if (i > h->n_echo) {
        const size_t begin = i > 1 ? h->text_end[i - 2] : 0;

        if (h->text_end[i - 1] > begin)
            count_characters(h, h->text.data + begin, h->text_end[i - 1] - begin);
    } else if (c->request.does_echo) {
        count_prompt(c, h, i);
    }
    h->offset[i] = h->n_character;
}

/* --- stop texts ------------------------------------------------------------- */

/* Stop texts are searched in time proportional to the text (Knuth, Morris and Pratt, SIAM Journal
 * on Computing 6, 1977): the choice keeps the number of bytes of the stop text that match the end
 * of its text; fallback[m] is that number when m bytes matched but the next does not. Matching
 * bytes at the end are held back. */

static uint16_t *fallbacks(const char *stop)
{
    uint16_t *const to = spot_xcalloc(strlen(stop), sizeof(*to)); /* to[0] and to[1] are 0 */

    for (size_t i = 1, m = 0; stop[i] && stop[i + 1]; i++) {
        while (m && stop[i] != stop[m])
            m = to[m];
        m += stop[i] == stop[m];
        to[i + 1] = (uint16_t)m;
    }
    return to;
}

/* Position of the first stop text i that ends after `known` bytes; text.n if there is none. */
static size_t find(const struct spot_completion *c, struct spot_choice *h, size_t i, size_t known)
{
    const char *const stop = c->request.stop[i];
    const size_t length = strlen(stop);
    size_t m = h->matched[i];

    for (size_t at = known; at < h->text.n; at++) {
        const char byte = (char)h->text.data[at];

        while (m && byte != stop[m])
            m = c->fallback[i][m];
        m += byte == stop[m];
        if (m == length)
            return at + 1 - length;
    }
    h->matched[i] = (uint16_t)m;
    return h->text.n;
}

/* Position and index of the first stop text that ends after `known` bytes; text.n if there is
 * none. */
static size_t first_stop(const struct spot_completion *c, struct spot_choice *h, size_t known,
                         size_t *stop)
{
    size_t first = h->text.n;

    *stop = 0;

    for (size_t i = 0; i < c->request.n_stop; i++) {
        const size_t at = find(c, h, i, known);

        if (at < first) {
            first = at;
            *stop = i;
        }
    }
    return first;
}

/* Bytes at the end of the text that may be the start of a stop text. */
static size_t held_back(const struct spot_request *r, const struct spot_choice *h)
{
    size_t most = 0;

    for (size_t i = 0; i < r->n_stop; i++)
        most = h->matched[i] > most ? h->matched[i] : most;
    return most;
}

static void open_choice(struct spot_completion *c, uint32_t choice)
{
    struct spot_choice *const h = &c->choice[choice];
    uint32_t k;
    const struct spot_request part = spot_request_part(&c->request, choice, &k);

    spot_detok_init(&h->detok, c->vocabulary->bpe, false, false);
    spot_detok_init(&h->echo, c->vocabulary->bpe, true, false);
    h->n_echo = spot_request_n_echo(&part);
    if (c->request.tool_form)
        spot_tool_scan_init(&h->calls, spot_tool_form(c->request.tool_form));
    if (!part.n_token_max && !h->n_echo) { /* no token after the prompt is requested */
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
    for (size_t i = 0; i < c->request.n_stop; i++)
        c->fallback[i] = fallbacks(c->request.stop[i]);
    for (uint32_t i = 0; i < c->request.n_choice; i++)
        open_choice(c, i);
    return c;
}

struct spot_completion *spot_completion_ref(struct spot_completion *c)
{
    c->n_reference++;
    return c;
}

static void release_choice(struct spot_choice *h)
{
    free(h->token);
    free(h->text_end);
    free(h->offset);
    free(h->piece_end);
    free(h->state);
    spot_tool_scan_release(&h->calls);
    spot_detok_release(&h->detok);
    spot_detok_release(&h->echo);
    spot_buf_release(&h->text);
}

void spot_completion_restart(struct spot_completion *c, uint32_t choice)
{
    c->n_open += c->choice[choice].finish != SPOT_FINISH_NONE;
    release_choice(&c->choice[choice]);
    c->choice[choice] = (struct spot_choice){ 0 };
    open_choice(c, choice);
}

void spot_completion_unref(struct spot_completion *c)
{
    if (!c || --c->n_reference)
        return;
    for (uint32_t i = 0; i < c->request.n_choice; i++)
        release_choice(&c->choice[i]);
    for (size_t i = 0; i < c->request.n_stop; i++)
        free(c->fallback[i]);
    free(c->choice);
    free(c->why);
    spot_request_release(&c->request);
    free(c);
}

/* --- calls of tools ----------------------------------------------------------- */

/* Call when the text that may be sent has grown, or has ended. */
static void note_calls(const struct spot_completion *c, struct spot_choice *h)
{
    const size_t i = h->n_token - 1;

    if (!c->request.tool_form || !h->n_token)
        return;
    spot_tool_scan_run(&h->calls, h->text.data, h->text_end[i], h->finish != SPOT_FINISH_NONE);
    h->piece_end[i] = h->calls.n;
}

/* The trigger of a call may be the name of a special token, which counts as text here. */
static bool is_of_call(const struct spot_completion *c, uint32_t id)
{
    const struct spot_tool_form *const form =
        c->request.tool_form ? spot_tool_form(c->request.tool_form) : NULL;
    size_t n = 0;
    const uint8_t *const name = form ? spot_bpe_token(c->vocabulary->bpe, id, &n) : NULL;

    if (!name || !n || !spot_bpe_is_special(c->vocabulary->bpe, id))
        return false;
    const char *const mark[] = { form->trigger, form->may_begin, form->tail,
                                 form->is_bare ? form->arguments : NULL };

    for (size_t i = 0; i < sizeof(mark) / sizeof(*mark); i++) {
        const char *const text = mark[i];

        if (text && strlen(text) == n && !memcmp(text, name, n))
            return true;
    }
    return false;
}

/* --- an end ----------------------------------------------------------------- */

static void close_choice(struct spot_completion *c, struct spot_choice *h, enum spot_finish finish)
{
    h->finish = finish;
    c->n_open--;
    if (h->n_token)
        h->text_end[h->n_token - 1] = h->text.n;
    note_calls(c, h);
}

/* True if the text, new from `known` on, contains a stop text. */
static bool stops(struct spot_completion *c, struct spot_choice *h, size_t known)
{
    size_t stop;
    const size_t at = first_stop(c, h, known, &stop);

    if (at == h->text.n || (int64_t)h->n_counted <= c->request.n_token_min)
        return false;
    h->text.n = at + (c->request.keeps_stop ? strlen(c->request.stop[stop]) : 0);
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

size_t spot_choice_piece_begin(const struct spot_completion *c, uint32_t choice, size_t position)
{
    const struct spot_choice *const h = &c->choice[choice];

    while (c->vocabulary->has_pieces && position && h->token[position].id < SPOT_PIECE_STOP &&
           h->token[position - 1].id < SPOT_PIECE_LAST)
        position--;
    return position;
}

size_t spot_choice_piece_last(const struct spot_completion *c, uint32_t choice, size_t position)
{
    const struct spot_choice *const h = &c->choice[choice];

    while (c->vocabulary->has_pieces && position + 1 < h->n_token &&
           h->token[position].id < SPOT_PIECE_LAST && h->token[position + 1].id < SPOT_PIECE_STOP)
        position++;
    return position;
}

/* --- a token ---------------------------------------------------------------- */

static bool is_end(const struct spot_vocabulary *v, uint32_t id)
{
    for (size_t i = 0; i < v->n_end; i++)
        if (v->end[i] == id)
            return true;
    return false;
}

/* True if a special token's name is a stop text: special tokens are not in the text. */
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

/* True if the token ends the choice. False for the first n_token_min tokens, among which workers
 * choose no end token. */
static bool ends(const struct spot_completion *c, const struct spot_choice *h, uint32_t id)
{
    if ((int64_t)h->n_counted <= c->request.n_token_min)
        return false;
    return (is_end(c->vocabulary, id) && !c->request.ignores_end) ||
           spot_request_stops_at(&c->request, id) || is_stop(c, id);
}

bool spot_token_is_same(const struct spot_token *a, const struct spot_token *b)
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

static void keep(const struct spot_completion *c, struct spot_choice *h,
                 const struct spot_token *token)
{
    const size_t cap = h->token_cap;

    h->token = spot_xgrow(h->token, &h->token_cap, h->n_token + 1, sizeof(*h->token));
    if (cap != h->token_cap) {
        h->text_end = spot_xrealloc(h->text_end, h->token_cap, sizeof(*h->text_end));
        if (has_offsets(&c->request))
            h->offset = spot_xrealloc(h->offset, h->token_cap, sizeof(*h->offset));
        if (c->request.tool_form)
            h->piece_end = spot_xrealloc(h->piece_end, h->token_cap, sizeof(*h->piece_end));
    }
    h->n_counted +=
        c->vocabulary->has_pieces ? spot_piece_counts(token->id) : h->n_token >= h->n_echo;
    h->token[h->n_token++] = *token;
}

/* The token to decode: a piece's byte without its mark SPOT_PIECE_LAST, or the token itself. */
static uint32_t text_of(const struct spot_completion *c, uint32_t id)
{
    return c->vocabulary->has_pieces ? id % SPOT_PIECE_LAST : id;
}

enum spot_append spot_completion_append(struct spot_completion *c, uint32_t choice, size_t position,
                                        const struct spot_token *token)
{
    struct spot_choice *h;
    size_t known;

    if (choice >= c->request.n_choice || c->request.pool)
        return SPOT_APPEND_GAP;
    h = &c->choice[choice];
    if (position < h->n_token)
        return spot_token_is_same(&h->token[position], token) ? SPOT_APPEND_KNOWN
                                                              : SPOT_APPEND_DIFFERS;
    if (h->finish != SPOT_FINISH_NONE)
        return SPOT_APPEND_KNOWN;
    if (position > h->n_token)
        return SPOT_APPEND_GAP;
    keep(c, h, token);
    note_offset(c, h);
    known = h->text.n;
    if (position < h->n_echo) {
        h->text_end[position] = 0;
        note_calls(c, h);
        if (position + 1 == h->n_echo && !c->request.n_token_max)
            end_choice(c, h, SPOT_FINISH_LENGTH);
        return SPOT_APPEND_NEW;
    }
    if (c->vocabulary->has_pieces && token->id == SPOT_PIECE_LENGTH) {
        end_choice(c, h, SPOT_FINISH_LENGTH);
        return SPOT_APPEND_NEW;
    }
    if (ends(c, h, token->id)) {
        if (c->request.keeps_stop && spot_request_stops_at(&c->request, token->id))
            (void)spot_detok_push(&h->detok, token->id, &h->text);
        end_choice(c, h, SPOT_FINISH_STOP);
        return SPOT_APPEND_NEW;
    }
    if (is_of_call(c, token->id)) {
        size_t n;
        const uint8_t *const name = spot_bpe_token(c->vocabulary->bpe, token->id, &n);

        spot_detok_end(&h->detok, &h->text);
        spot_buf_add(&h->text, name, n);
    } else {
        (void)spot_detok_push(&h->detok, text_of(c, token->id),
                              &h->text); /* an id without a text adds nothing */
    }
    if (stops(c, h, known))
        return SPOT_APPEND_NEW;
    h->text_end[h->n_token - 1] = h->text.n - held_back(&c->request, h);
    if ((int64_t)h->n_counted >= c->request.n_token_max)
        end_choice(c, h, SPOT_FINISH_LENGTH);
    else
        note_calls(c, h);
    return SPOT_APPEND_NEW;
}

/* --- a state ---------------------------------------------------------------- */

enum spot_append spot_completion_set_state(struct spot_completion *c, uint32_t choice,
                                           const float *state, size_t n, uint32_t n_cached)
{
    struct spot_choice *h;

    if (choice >= c->request.n_choice || !c->request.pool)
        return SPOT_APPEND_GAP;
    h = &c->choice[choice];
    if (h->state)
        return h->n_state == n && !memcmp(h->state, state, n * sizeof(*state))
                   ? SPOT_APPEND_KNOWN
                   : SPOT_APPEND_DIFFERS;
    if (h->finish != SPOT_FINISH_NONE)
        return SPOT_APPEND_KNOWN;
    h->state = spot_xcalloc(n, sizeof(*h->state));
    memcpy(h->state, state, n * sizeof(*state));
    h->n_state = n;
    h->n_state_cached = n_cached;
    close_choice(c, h, SPOT_FINISH_STOP);
    return SPOT_APPEND_NEW;
}

/* --- as bytes --- */

void spot_step_token_put(struct spot_buf *out, const struct spot_step_token *t)
{
    spot_put_u32(out, t->position);
    spot_put_u8(out, (uint8_t)(t->is_end | (t->token.n_cached > 0) << 1));
    if (t->token.n_cached)
        spot_put_u32(out, t->token.n_cached);
    spot_put_u32(out, t->token.id);
    spot_put_f64(out, t->token.logprob);
    spot_put_u32(out, t->token.worker);
    spot_put_u32(out, t->token.epoch);
    spot_put_u32(out, t->token.n_top);
    for (uint32_t k = 0; k < t->token.n_top; k++) {
        spot_put_u32(out, t->token.top[k].id);
        spot_put_f64(out, t->token.top[k].logprob);
    }
}

int spot_step_token_get(struct spot_wire_in *in, struct spot_step_token *t)
{
    uint8_t flags;

    memset(t, 0, sizeof(*t));
    t->position = spot_get_u32(in);
    flags = spot_get_u8(in);
    t->is_end = flags & 1;
    if (flags & 2)
        t->token.n_cached = spot_get_u32(in);
    t->token.id = spot_get_u32(in);
    t->token.logprob = spot_get_f64(in);
    t->token.worker = spot_get_u32(in);
    t->token.epoch = spot_get_u32(in);
    t->token.n_top = spot_get_count(in, 12);
    if (in->bad || t->token.n_top > SPOT_REQUEST_LOGPROBS_MAX)
        return -1;
    for (uint32_t k = 0; k < t->token.n_top; k++) {
        t->token.top[k].id = spot_get_u32(in);
        t->token.top[k].logprob = spot_get_f64(in);
    }
    return in->bad ? -1 : 0;
}
