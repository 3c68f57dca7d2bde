/* SPDX-License-Identifier: MIT */
/* large_vocabulary.h - a tokenizer as large as Llama 3's: bytes, pairs and fours of letters,
 * 128,000 in all, and 256 added tokens. */
#ifndef SPOT_TESTS_LARGE_VOCABULARY_H
#define SPOT_TESTS_LARGE_VOCABULARY_H

#include <stdio.h>
#include <stdlib.h>

#include "common/utf8.h"
#include "text/bpe.h"

enum { LARGE_WORDS = 128000, LARGE_ADDED = 256 };

/* Of the pairs of letters, number i; fours are pairs of them. */
static inline void large_pair(char out[3], int i)
{
    out[0] = (char)('a' + i / 26);
    out[1] = (char)('a' + i % 26);
    out[2] = '\0';
}

/* The character that stands for a byte in a vocabulary of bytes. */
static inline void large_byte(FILE *f, int byte, int *other)
{
    const bool is_itself =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    char text[SPOT_UTF8_MAX + 1] = "";

    spot_utf8_put(is_itself ? (uint32_t)byte : (uint32_t)(256 + (*other)++), text);
    fprintf(f, "%s\"%s%s\":%d", byte ? "," : "", byte == '"' || byte == '\\' ? "\\" : "", text,
            byte);
}

/* Number k of the fours. */
static inline void large_four(char left[3], char right[3], int k)
{
    large_pair(left, k / 188);
    large_pair(right, k % 188 * 3);
}

static inline void large_vocabulary_write(FILE *f, int n_added)
{
    const int n_four = LARGE_WORDS - 256 - 26 * 26;
    char a[3], b[3];
    int other = 0;

    fputs("{\"model\":{\"type\":\"BPE\",\"vocab\":{", f);
    for (int i = 0; i < 256; i++)
        large_byte(f, i, &other);
    for (int i = 0; i < 26 * 26; i++) {
        large_pair(a, i);
        fprintf(f, ",\"%s\":%d", a, 256 + i);
    }
    for (int i = 0; i < n_four; i++) {
        large_four(a, b, i);
        fprintf(f, ",\"%s%s\":%d", a, b, 256 + 26 * 26 + i);
    }
    fputs("},\"merges\":[", f);
    for (int i = 0; i < 26 * 26; i++) {
        large_pair(a, i);
        fprintf(f, "%s\"%c %c\"", i ? "," : "", a[0], a[1]);
    }
    for (int i = 0; i < n_four; i++) {
        large_four(a, b, i);
        fprintf(f, ",\"%s %s\"", a, b);
    }
    fputs("]},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"added_"
          "tokens\":[",
          f);
    for (int i = 0; i < n_added; i++)
        fprintf(f, "%s{\"id\":%d,\"content\":\"<|reserved_special_token_%d|>\",\"special\":true}",
                i ? "," : "", LARGE_WORDS + i, i);
    fputs("]}\n", f);
}

/* NULL with *err. */
static inline struct spot_bpe *large_vocabulary(int n_added, struct spot_err *err)
{
    char *text = NULL;
    size_t n = 0;
    FILE *const f = open_memstream(&text, &n);
    struct spot_bpe *bpe;

    large_vocabulary_write(f, n_added);
    fclose(f);
    bpe = spot_bpe_of_tokenizer(text, n, "large", err);
    free(text);
    return bpe;
}

#endif
