/* SPDX-License-Identifier: MIT */
/* The tokens of a piece by the largest sum of their scores (Kudo, "Subword regularization", 2018,
 * section 3.2), by Viterbi's algorithm. A character without a token counts as the unknown token,
 * with the least score minus ten. Of equal sums the first found is kept. */
#include "common/utf8.h"
#include "common/xalloc.h"
#include "text/bpe_state.h"

#define NONE UINT32_MAX

/* The token that ends at a byte in the best tokenization of the text up to there. */
struct spot_bpe_best {
    double sum;
    uint32_t from, id; /* where the token begins; NONE: no token ends here */
};

static void offer(struct spot_bpe_best *best, double sum, size_t from, uint32_t id)
{
    if (best->from == NONE || sum > best->sum)
        *best = (struct spot_bpe_best){ sum, (uint32_t)from, id };
}

/* Offers every token that begins at a character. */
static void offer_tokens(struct spot_bpe *bpe, const char *text, size_t at, size_t n)
{
    struct spot_bpe_best *const best = bpe->best;
    uint32_t code;
    const size_t one = spot_utf8_char(text + at, n - at, &code);
    const size_t most = n - at < bpe->n_byte_max ? n - at : bpe->n_byte_max;
    bool has_one = false;

    for (size_t k = one; k <= most;
         k += at + k < n ? spot_utf8_char(text + at + k, n - at - k, &code) : 1) {
        const uint32_t id = spot_bpe_by_bytes(bpe, text + at, k);

        if (id == NONE || bpe->token[id].is_special) /* special tokens are not spelt in text */
            continue;
        offer(&best[at + k], best[at].sum + bpe->score[id], at, id);
        has_one = has_one || k == one;
    }
    if (!has_one)
        offer(&best[at + one], best[at].sum + (bpe->least_score - 10), at, bpe->unknown);
}

/* Appends text without a token: its bytes, or the unknown token. */
static void append_unknown(struct spot_bpe *bpe, const char *text, size_t n,
                           struct spot_tokens *out)
{
    bool has_bytes = true;

    for (size_t i = 0; i < n; i++)
        has_bytes = has_bytes && bpe->byte_id[(unsigned char)text[i]] != NONE;
    for (size_t i = 0; has_bytes && i < n; i++)
        spot_bpe_append(out, bpe->byte_id[(unsigned char)text[i]]);
    if (!has_bytes && bpe->unknown != NONE)
        spot_bpe_append(out, bpe->unknown);
    bpe->has_lost = bpe->has_lost || (!has_bytes && bpe->unknown == NONE);
}

/* Reverses the back pointers: from[i] becomes the end of the token that begins at i. */
static void turn(struct spot_bpe_best *best, size_t n)
{
    uint32_t end = (uint32_t)n, id = best[n].id, from = best[n].from;

    while (end) {
        const struct spot_bpe_best next = best[from];

        best[from].from = end;
        best[from].id = id;
        end = from;
        from = next.from;
        id = next.id;
    }
}

void spot_bpe_best_piece(struct spot_bpe *bpe, const char *text, size_t n, struct spot_tokens *out)
{
    struct spot_bpe_best *best;

    bpe->best = spot_xgrow(bpe->best, &bpe->best_cap, n + 1, sizeof(*bpe->best));
    best = bpe->best;
    for (size_t i = 0; i <= n; i++)
        best[i] = (struct spot_bpe_best){ 0, NONE, NONE };
    for (size_t at = 0; at < n;) {
        uint32_t code;

        offer_tokens(bpe, text, at, n);
        at += spot_utf8_char(text + at, n - at, &code);
    }
    turn(best, n);
    for (size_t at = 0, end; at < n; at = end) {
        end = best[at].from;
        if (best[at].id != bpe->unknown) {
            spot_bpe_append(out, best[at].id);
            continue;
        }
        while (bpe->fuses_unknown && end < n && best[end].id == bpe->unknown)
            end = best[end].from;
        append_unknown(bpe, text + at, end - at, out);
    }
}
