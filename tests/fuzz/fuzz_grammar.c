/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <string.h>

#include "serve/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: no schema crashes its reader, and none that is taken leads to a place from where nothing
 * follows. The input is a schema, a NUL, and what chooses among the tokens that are allowed. */

static struct spot_grammar_words *words(void)
{
    /* Printable bytes alone, each a token: enough of a vocabulary for any schema's signs. */
    static struct spot_grammar_words *all;
    struct spot_bpe *bpe;
    char vocab[4096];
    size_t n = 0;

    if (all)
        return all;
    vocab[n++] = '{';
    for (int b = 0, more = 0; b < 256; b++) {
        const int is_plain = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        const int code = is_plain ? b : 256 + more++;

        if (n > 1)
            vocab[n++] = ',';
        vocab[n++] = '"';
        if (code == '"' || code == '\\')
            vocab[n++] = '\\';
        if (code < 0x80) {
            vocab[n++] = (char)code;
        } else {
            vocab[n++] = (char)(0xC0 | (code >> 6));
            vocab[n++] = (char)(0x80 | (code & 0x3F));
        }
        vocab[n++] = '"';
        vocab[n++] = ':';
        if (b >= 100)
            vocab[n++] = (char)('0' + b / 100);
        if (b >= 10)
            vocab[n++] = (char)('0' + b / 10 % 10);
        vocab[n++] = (char)('0' + b % 10);
    }
    vocab[n++] = '}';
    bpe = spot_bpe_of_vocab(vocab, n, "v", "", 0, "m", NULL);
    all = spot_grammar_words_new(bpe);
    spot_bpe_free(bpe);
    return all;
}

static void follow(struct spot_grammar_state *s, const uint8_t *choice, size_t n)
{
    for (size_t i = 0; i < n && i < 200 && !spot_grammar_must_end(s); i++) {
        float logit[256] = { 0 };
        uint32_t at = choice[i], tried = 0;

        if (spot_grammar_mask(s, NULL, 0, logit, 256))
            return; /* too much to find */
        while (logit[at] != 0 && tried++ < 256)
            at = (at + 1) % 256;
        if (logit[at] != 0 || spot_grammar_push(s, at))
            __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *const end = memchr(data, 0, size);
    const size_t n = end ? (size_t)(end - data) : size;
    struct spot_grammar *const g = spot_grammar_new((const char *)data, n, words(), NULL);
    struct spot_grammar_state *s;

    if (!g)
        return 0;
    s = spot_grammar_begin(g);
    if (end)
        follow(s, end + 1, size - n - 1);
    spot_grammar_end(s);
    spot_grammar_free(g);
    return 0;
}
