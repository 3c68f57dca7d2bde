/* SPDX-License-Identifier: MIT */
/* Data shared by the grammars of a model: its tokens in the order of their bytes, and idle
 * grammars.
 */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "serve/grammar.h"
#include "serve/grammar_state.h"
#include "text/detok.h"

/* --- the vocabulary ---------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
    const struct spot_grammar_word *const x = a, *const y = b;
    const int order = memcmp(x->byte, y->byte, x->n < y->n ? x->n : y->n);

    if (order)
        return order;
    return x->n != y->n ? (x->n > y->n) - (x->n < y->n) : (x->id > y->id) - (x->id < y->id);
}

static uint32_t common_bytes(const struct spot_grammar_word *a, const struct spot_grammar_word *b)
{
    uint32_t n = 0;

    while (n < a->n && n < b->n && a->byte[n] == b->byte[n])
        n++;
    return n;
}

static void put_special(const struct spot_bpe *bpe, uint32_t id, struct spot_buf *out)
{
    const uint8_t mark = SPOT_GRAMMAR_TOKEN;
    size_t n;
    const uint8_t *const name = spot_bpe_token(bpe, id, &n);

    if (!name || !n || !spot_bpe_is_special(bpe, id))
        return;
    spot_buf_add(out, &mark, 1);
    spot_buf_add(out, name, n);
}

struct spot_grammar_words *spot_grammar_words_new(const struct spot_bpe *bpe)
{
    struct spot_grammar_words *const w = spot_xcalloc(1, sizeof(*w));

    w->n_vocabulary = (size_t)spot_bpe_vocab(bpe);
    w->begin = spot_xcalloc(w->n_vocabulary + 1, sizeof(*w->begin));
    for (uint32_t id = 0; id < w->n_vocabulary; id++) {
        if (!spot_detok_bytes(bpe, id, &w->text))
            put_special(bpe, id, &w->text);
        w->begin[id + 1] = w->text.n;
    }
    w->word = spot_xcalloc(w->n_vocabulary, sizeof(*w->word));
    for (uint32_t id = 0; id < w->n_vocabulary; id++) {
        const size_t n = w->begin[id + 1] - w->begin[id];

        if (n)
            w->word[w->n_word++] =
                (struct spot_grammar_word){ .id = id, .byte = w->text.data + w->begin[id], .n = n };
        w->n_byte_max = n > w->n_byte_max ? n : w->n_byte_max;
    }
    qsort(w->word, w->n_word, sizeof(*w->word), by_bytes);
    for (size_t i = 1; i < w->n_word; i++)
        w->word[i].common = common_bytes(&w->word[i - 1], &w->word[i]);
    return w;
}

void spot_grammar_words_free(struct spot_grammar_words *w)
{
    if (!w)
        return;
    spot_buf_release(&w->text);
    free(w->begin);
    free(w->word);
    free(w);
}

/* --- grammars that are idle -------------------------------------------------- */

enum { IDLE_MAX = 8, IDLE_BYTE_MAX = 8 << 20 };

struct idle {
    char *schema;
    struct spot_grammar *g;
};

struct spot_grammar_pool {
    const struct spot_bpe *bpe;
    struct spot_grammar_words *words; /* NULL until there is a schema */
    struct idle idle[IDLE_MAX];       /* [n], the most recent last */
    size_t n;
};

struct spot_grammar_pool *spot_grammar_pool_new(const struct spot_bpe *bpe)
{
    struct spot_grammar_pool *const p = spot_xcalloc(1, sizeof(*p));

    p->bpe = bpe;
    return p;
}

static struct spot_grammar *take_out(struct spot_grammar_pool *p, size_t i)
{
    struct spot_grammar *const g = p->idle[i].g;

    free(p->idle[i].schema);
    memmove(p->idle + i, p->idle + i + 1, (--p->n - i) * sizeof(*p->idle));
    return g;
}

void spot_grammar_pool_free(struct spot_grammar_pool *p)
{
    if (!p)
        return;
    while (p->n)
        spot_grammar_free(take_out(p, p->n - 1));
    spot_grammar_words_free(p->words);
    free(p);
}

struct spot_grammar *spot_grammar_pool_take(struct spot_grammar_pool *p, const char *schema,
                                            struct spot_err *err)
{
    for (size_t i = p->n; i-- > 0;)
        if (!strcmp(p->idle[i].schema, schema))
            return take_out(p, i);
    if (!p->words)
        p->words = spot_grammar_words_new(p->bpe);
    return spot_grammar_new(schema, strlen(schema), p->words, err);
}

void spot_grammar_pool_give_back(struct spot_grammar_pool *p, const char *schema,
                                 struct spot_grammar *g)
{
    if (spot_grammar_byte(g) > IDLE_BYTE_MAX) {
        spot_grammar_free(g);
        return;
    }
    if (p->n == IDLE_MAX)
        spot_grammar_free(take_out(p, 0));
    p->idle[p->n++] = (struct idle){ spot_xstrdup(schema), g };
}
