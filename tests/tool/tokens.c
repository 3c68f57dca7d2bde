/* SPDX-License-Identifier: MIT */
/* tokens - what a tokenizer makes of texts, for tests that compare it with another one:
 *
 *   tokens TOKENIZER [named [time]]
 *
 * Lines of hex digits on stdin are texts; "named": names of added tokens stand for those. For each
 * come the ids, and behind a bar the text of the ids, decoded one by one, in hex. "time": nothing
 * but the seconds that all took to be encoded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/line.h"
#include "text/bpe.h"
#include "text/detok.h"

static size_t bytes_of(char *hex, size_t n)
{
    for (size_t i = 0; i + 1 < n; i += 2) {
        const char pair[3] = { hex[i], hex[i + 1], '\0' };

        hex[i / 2] = (char)strtoul(pair, NULL, 16);
    }
    return n / 2;
}

static void answer(struct spot_bpe *bpe, const char *text, size_t n, int is_named)
{
    struct spot_detokenizer d;
    struct spot_tokens ids = { 0 };
    struct spot_buf out = { 0 };

    if (is_named)
        spot_bpe_encode_named(bpe, text, n, &ids);
    else
        spot_bpe_encode(bpe, text, n, true, &ids);
    spot_detok_init(&d, bpe, false, false);
    for (size_t i = 0; i < ids.n; i++) {
        printf("%u ", (unsigned)ids.id[i]);
        if (spot_detok_push(&d, ids.id[i], &out))
            abort();
    }
    spot_detok_end(&d, &out);
    putchar('|');
    for (size_t i = 0; i < out.n; i++)
        printf("%02x", out.data[i]);
    putchar('\n');
    spot_detok_release(&d);
    spot_buf_release(&out);
    free(ids.id);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds_of(struct spot_bpe *bpe, const char *text, size_t n)
{
    const double began = now();
    struct spot_tokens ids = { 0 };

    spot_bpe_encode_named(bpe, text, n, &ids);
    free(ids.id);
    return now() - began;
}

int main(int argc, char **argv)
{
    double seconds = 0;
    struct spot_line line = { 0 };
    struct spot_err err = { 0 };
    struct spot_bpe *const bpe = argc > 1 ? spot_bpe_open(argv[1], &err) : NULL;

    if (!bpe) {
        fprintf(stderr, "%s\n", err.msg);
        return 3;
    }
    while (spot_line_read(&line, stdin, 1 << 26, "stdin", &err) > 0) {
        const size_t n = bytes_of(line.text, line.n);

        if (argc > 3)
            seconds += seconds_of(bpe, line.text, n);
        else
            answer(bpe, line.text, n, argc > 2);
    }
    if (argc > 3)
        printf("%f\n", seconds);
    spot_line_release(&line);
    spot_bpe_free(bpe);
    return 0;
}
