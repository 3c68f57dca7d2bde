/* SPDX-License-Identifier: MIT */
/* Estimates which replica has a prompt in its cache: the coordinator records its assignments, but
 * is not told of evictions. A wrong guess only costs time.
 *
 * A prefix of whole pages is one hash, of the hash before it and the page's tokens. A replica has a
 * table of them, each in the slot that its low bits name: what is new takes the place of what is
 * old, and no table grows.
 */
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/xalloc.h"
#include "serve/server_state.h"

enum { SLOTS = 1 << 15, PAGE = SPOT_INFER_PAGE };

static uint64_t prefix_hash(uint64_t before, const uint32_t *token)
{
    struct {
        uint64_t before;
        uint32_t token[PAGE];
    } key = { .before = before };

    memcpy(key.token, token, sizeof(key.token));
    return spot_hash64(&key, sizeof(key)) | 1; /* never 0, which is an empty slot */
}

static struct spot_request part_of(const struct spot_sequence *q)
{
    uint32_t k;

    return spot_request_part(&q->work->completion->request, q->choice, &k);
}

static void find_prefixes(struct spot_sequence *q)
{
    const struct spot_request r = part_of(q);
    uint64_t before = r.adapter; /* pages are not shared between adapters */

    if (q->prefix)
        return;
    q->prefix = spot_xcalloc(r.n_prompt / PAGE + 1, sizeof(*q->prefix));
    for (; (q->n_prefix + 1) * PAGE <= r.n_prompt; before = q->prefix[q->n_prefix++])
        q->prefix[q->n_prefix] = prefix_hash(before, r.prompt + q->n_prefix * PAGE);
}

static uint64_t *slot_of(const struct spot_replica *p, uint64_t prefix)
{
    return &p->held[prefix / 2 % SLOTS];
}

static void hold(struct spot_replica *p, uint64_t prefix)
{
    if (!p->held)
        p->held = spot_xcalloc(SLOTS, sizeof(*p->held));
    *slot_of(p, prefix) = prefix;
}

double spot_server_held(const struct spot_server *s, const struct spot_replica *p,
                        struct spot_sequence *q)
{
    size_t n = 0;

    if (!s->options->kept_byte || !p->held)
        return 0;
    find_prefixes(q);
    while (n < q->n_prefix && *slot_of(p, q->prefix[n]) == q->prefix[n])
        n++;
    return (double)(n * PAGE) / (double)part_of(q).n_prompt;
}

void spot_server_hold_prompt(const struct spot_server *s, struct spot_replica *p,
                             struct spot_sequence *q)
{
    if (!s->options->kept_byte)
        return;
    find_prefixes(q);
    for (size_t i = 0; i < q->n_prefix; i++)
        hold(p, q->prefix[i]);
}

/* Token i of prompt and answer. */
static uint32_t token_at(const struct spot_request *r, const struct spot_choice *h, size_t i)
{
    return i < r->n_prompt ? r->prompt[i] : h->token[i - r->n_prompt + h->n_echo].id;
}

/* Record an answer, since the next turn of a chat begins with it. */
void spot_server_hold_answer(const struct spot_server *s, struct spot_replica *p,
                             struct spot_sequence *q)
{
    const struct spot_request r = part_of(q);
    const struct spot_choice *const h = &q->work->completion->choice[q->choice];
    const size_t n = r.n_prompt + (h->n_token > h->n_echo ? h->n_token - h->n_echo : 0);
    uint32_t token[PAGE];
    uint64_t before;

    if (!s->options->kept_byte)
        return;
    find_prefixes(q);
    before = q->n_prefix ? q->prefix[q->n_prefix - 1] : r.adapter;
    for (size_t at = q->n_prefix * PAGE; at + PAGE <= n; at += PAGE) {
        for (size_t i = 0; i < PAGE; i++)
            token[i] = token_at(&r, h, at + i);
        before = prefix_hash(before, token);
        hold(p, before);
    }
}

void spot_server_hold_nothing(struct spot_replica *p)
{
    free(p->held);
    p->held = NULL;
}
