/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "text/bpe.h"
#include "text/detok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A vocabulary with all bytes as `data` needs it to get far, with its own entries behind. */
static char *vocabulary(const char *more)
{
    char *const text = malloc(8192 + strlen(more));
    size_t n = 1;
    unsigned other = 256;

    strcpy(text, "{");
    for (unsigned b = 0; b < 256; b++) {
        const int is_itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        const unsigned c = is_itself ? b : other++;
        const char *escape = c == '"' || c == '\\' ? "\\" : "";
        char name[SPOT_UTF8_MAX];

        n += (size_t)sprintf(text + n, "\"%s%.*s\":%u,", escape, (int)spot_utf8_put(c, name), name,
                             b);
    }
    sprintf(text + n, "\"th\":256,\"the\":257,\"..\":258%s}", more);
    return text;
}

/* Goal: no tokenizer document crashes, and every text comes back from the ids of those of bytes. */
static void check(struct spot_bpe *bpe, const char *text, size_t n, int is_bytes)
{
    struct spot_detokenizer d;
    struct spot_buf whole = { 0 };
    struct spot_tokens ids = { 0 };
    size_t at = 0;

    if (!bpe)
        return;
    if (spot_bpe_encode(bpe, text, n, 1, &ids) != n)
        abort();
    for (size_t i = 0; i < ids.n; i++) {
        size_t n_byte = 0;
        const uint8_t *bytes = spot_bpe_token(bpe, ids.id[i], &n_byte);

        if (!bytes || (is_bytes && (at + n_byte > n || memcmp(bytes, text + at, n_byte) != 0)))
            abort();
        at += n_byte;
    }
    if (is_bytes && at != n)
        abort();
    spot_detok_init(&d, bpe, 1, is_bytes);
    for (size_t i = 0; i < ids.n; i++)
        if (spot_detok_push(&d, ids.id[i], &whole))
            abort();
    spot_detok_end(&d, &whole);
    if (is_bytes && (whole.n != n || (n && memcmp(whole.data, text, n) != 0)))
        abort();
    ids.n = 0;
    spot_bpe_encode_named(bpe, text, n, &ids);
    spot_detok_release(&d);
    spot_buf_release(&whole);
    free(ids.id);
    spot_bpe_free(bpe);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *const text = (const char *)data;
    const char *const cut = size ? memchr(data, 0, size) : NULL;
    const size_t n_merges = cut ? (size_t)(cut - text) : size;
    char *more = calloc(size + 1, 1), *vocab;

    check(spot_bpe_of_tokenizer(text, size, "fuzz", NULL), text, size, 0);
    /* merges, and behind a NUL entries of the vocabulary */
    memcpy(more, text + n_merges, size - n_merges);
    vocab = vocabulary(cut ? more + 1 : "");
    check(spot_bpe_of_vocab(vocab, strlen(vocab), "v", text, n_merges, "m", NULL), text, size, 1);
    free(vocab);
    free(more);
    return 0;
}
