/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/engine_client.c" /* NOLINT(bugprone-suspicious-include): its lines of a stream */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: nothing that an engine answers crashes a worker or has it tell what a server must not get.
 * The first byte is the kind of engine and whether it gives text; the second, what was asked. */

enum { VOCABULARY = 1000, MOST_MAX = 64, PART = 37 };

static void about(const struct spot_engine_preset *preset, const char *text, size_t n)
{
    struct spot_engine_about a, again;
    struct spot_err err;

    if (spot_engine_about_read(preset, NULL, text, n, &a, &err))
        return;
    if (!*a.model || !memchr(a.model, '\0', sizeof(a.model)) || a.n_context < 0)
        abort();
    if (strlen(a.model) + 1 < sizeof(a.model) && /* else it was cut */
        spot_engine_about_read(preset, a.model, text, n, &again, &err))
        abort();
}

/* Nothing behind the end, no hole, no more than was asked for, no token that the model lacks. */
static void check(const struct spot_engine_client *c, const struct stream *s)
{
    int64_t n_counted = 0;
    bool has_ended = false;

    if (c->n_failure > 1 || c->n_told != s->n || s->n_got > s->n_most)
        abort();
    for (size_t i = 0; i < c->n_told; i++) {
        const struct spot_token *const t = &c->told[i].token.token;

        if (has_ended || c->told[i].token.position != i || t->n_top > SPOT_REQUEST_LOGPROBS_MAX ||
            (!c->config.is_text && t->id >= VOCABULARY && t->id != SPOT_PIECE_LENGTH))
            abort();
        n_counted += !c->config.is_text || spot_piece_counts(t->id);
        has_ended = c->config.is_text && (t->id == c->config.end || t->id == SPOT_PIECE_LENGTH);
    }
    if (n_counted != s->n_counted || n_counted > s->request.n_token_max + 1)
        abort();
}

static void stream(struct spot_engine_client *c, uint8_t asked, const char *text, size_t n)
{
    struct stream s = { .client = c,
                        .request = { .n_token_max = 1 + asked % MOST_MAX,
                                     .n_logprob = asked & 64 ? 3 : -1,
                                     .ignores_end = asked & 128 } };

    plan_answer(&s);
    for (size_t i = 0; i < n && !s.must_ask; i += PART)
        (void)on_part(&s, text + i, n - i < PART ? n - i : PART);
    on_done(&s, &(struct spot_http_reply){ .status = 200 });
    if (!s.is_over && !s.must_ask)
        abort();
    check(c, &s);
    spot_buf_release(&s.line);
    free(s.token);
}

static void status(struct spot_engine_client *c, const char *text, size_t n)
{
    struct stream s = { .client = c, .request = { .n_token_max = 1 } };

    on_done(&s, &(struct spot_http_reply){ .status = 500, .body = text, .n_byte = n });
    if (c->n_failure != 1 || c->n_told)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct spot_engine_preset *const preset =
        size > 2 ? spot_engine_preset_at(data[0] % 6) : NULL;
    struct spot_engine_client c = { .config = { .preset = preset,
                                                .n_vocabulary = VOCABULARY,
                                                .is_text = size && data[0] & 128,
                                                .end = 256 } };
    char *text;

    if (!preset || size > 1 << 15)
        return 0;
    text = malloc(size - 1); /* as libcurl's and the client's: a NUL behind */
    memcpy(text, data + 2, size - 2);
    text[size - 2] = '\0';
    if (data[0] >> 5 & 1)
        about(preset, text, size - 2);
    else if (data[0] >> 6 & 1)
        status(&c, text, size - 2);
    else
        stream(&c, data[1], text, size - 2);
    spot_engine_event_release(&c.event);
    free(c.told);
    free(c.failure);
    free(text);
    return 0;
}
