/* SPDX-License-Identifier: MIT */
#include "text/detok.h"

#include <stdio.h>
#include <string.h>

#include "common/utf8.h"
#include "text/bpe_state.h"

static const char replacement[] = "\xEF\xBF\xBD";

void spot_detok_init(struct spot_detokenizer *d, const struct spot_bpe *bpe, bool keeps_special,
                     bool keeps_bytes)
{
    *d = (struct spot_detokenizer){ .bpe = bpe,
                                    .keeps_special = keeps_special,
                                    .keeps_bytes = keeps_bytes,
                                    .drops_space = bpe->drops == SPOT_BPE_DROPS_SPACE };
}

void spot_detok_release(struct spot_detokenizer *d)
{
    spot_buf_release(&d->held);
}

/* Drops the first space if the tokenizer added it. */
static void emit(struct spot_detokenizer *d, const void *text, size_t n, struct spot_buf *out)
{
    const char *at = text;

    if (n && !d->has_begun) {
        d->has_begun = true;
        if (d->drops_space && *at == ' ') {
            at++;
            n--;
        }
    }
    spot_buf_add(out, at, n);
}

/* Length of the valid start of a character in text[n], at least 1; *is_open: more bytes could
 * complete it. */
static size_t start_of(const unsigned char *p, size_t n, bool *is_open)
{
    const size_t need = spot_utf8_length(p[0]);
    const unsigned low = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
    const unsigned high = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
    size_t k = 1;

    while (k < need && k < n && p[k] >= (k == 1 ? low : 0x80) && p[k] <= (k == 1 ? high : 0xBF))
        k++;
    *is_open = k < need && k == n;
    return k;
}

/* Writes the complete characters of the held bytes. */
static void put_characters(struct spot_detokenizer *d, bool is_end, struct spot_buf *out)
{
    size_t at = 0;

    while (at < d->held.n) {
        const unsigned char *const p = d->held.data + at;
        bool is_open;
        uint32_t code;
        size_t length = spot_utf8_char((const char *)p, d->held.n - at, &code);

        if (code != UINT32_MAX) {
            emit(d, p, length, out);
        } else {
            length = start_of(p, d->held.n - at, &is_open);
            if (is_open && !is_end)
                break;
            emit(d, replacement, 3, out);
        }
        at += length;
    }
    if (at)
        memmove(d->held.data, d->held.data + at, d->held.n - at);
    d->held.n -= at;
}

/* At the end of a run of single-byte tokens: writes them as text if valid, otherwise each as
 * U+FFFD. */
static void put_run(struct spot_detokenizer *d, struct spot_buf *out)
{
    bool is_text = true;

    for (size_t at = 0; at < d->held.n && is_text;) {
        uint32_t code;

        at += spot_utf8_char((const char *)d->held.data + at, d->held.n - at, &code);
        is_text = code != UINT32_MAX;
    }
    if (is_text || d->keeps_bytes)
        emit(d, d->held.data, d->held.n, out);
    else
        for (size_t i = 0; i < d->held.n; i++)
            emit(d, replacement, 3, out);
    d->held.n = 0;
}

/* "<0x0A>" */
static bool byte_of(const uint8_t *name, size_t n, uint8_t *byte)
{
    static const char digit[] = "0123456789ABCDEF";
    const char *high, *low;

    if (n != 6 || memcmp(name, "<0x", 3) != 0 || name[5] != '>' || !name[3] || !name[4])
        return false;
    high = strchr(digit, name[3]);
    low = strchr(digit, name[4]);
    if (!high || !low)
        return false;
    *byte = (uint8_t)(16 * (high - digit) + (low - digit));
    return true;
}

/* Writes a token in which U+2581 stands for a space. */
static void put_spaced(struct spot_detokenizer *d, const uint8_t *name, size_t n,
                       struct spot_buf *out)
{
    uint8_t byte;
    bool drops;

    if (d->bpe->falls_back && byte_of(name, n, &byte)) {
        spot_buf_add(&d->held, &byte, 1);
        return;
    }
    put_run(d, out);
    drops = !d->has_begun && d->bpe->drops == SPOT_BPE_DROPS_MARKS;
    for (size_t at = 0; at < n;) {
        const bool is_space =
            d->bpe->has_marks && n - at >= 3 && !memcmp(name + at, "\xE2\x96\x81", 3);

        if (!is_space || !drops)
            emit(d, is_space ? (const void *)" " : name + at, 1, out);
        at += is_space ? 3 : 1;
    }
    d->has_begun = true;
}

bool spot_detok_bytes(const struct spot_bpe *bpe, uint32_t id, struct spot_buf *out)
{
    size_t n;
    const uint8_t *const name = spot_bpe_token(bpe, id, &n);
    struct spot_detokenizer inside = { .bpe = bpe, .keeps_bytes = true, .has_begun = true };

    if (!name || spot_bpe_is_special(bpe, id))
        return false;
    if (bpe->is_bytes) {
        spot_buf_add(out, name, n);
        return true;
    }
    put_spaced(&inside, name, n, out);
    put_run(&inside, out);
    spot_buf_release(&inside.held);
    return true;
}

int spot_detok_push(struct spot_detokenizer *d, uint32_t id, struct spot_buf *out)
{
    size_t n;
    const uint8_t *const bytes = spot_bpe_token(d->bpe, id, &n);

    if (!bytes)
        return -1;
    if (!d->keeps_special && spot_bpe_is_special(d->bpe, id))
        return 0;
    if (!d->bpe->is_bytes) {
        put_spaced(d, bytes, n, out);
    } else if (d->keeps_bytes) {
        emit(d, bytes, n, out);
    } else {
        spot_buf_add(&d->held, bytes, n);
        put_characters(d, false, out);
    }
    return 0;
}

void spot_detok_end(struct spot_detokenizer *d, struct spot_buf *out)
{
    if (!d->bpe->is_bytes)
        put_run(d, out);
    else
        put_characters(d, true, out);
    d->has_begun = false;
}
