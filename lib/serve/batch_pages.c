/* SPDX-License-Identifier: MIT */
/* Pages of sequences received from, and sent to, other replicas. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "serve/batch_loop_state.h"

enum {
    COPY_PAGES = 32,      /* pages sent to the buddy after a pass, */
    COPY_BYTES = 8 << 20, /* while fewer bytes wait */
};

static struct spot_strand *find(const struct spot_batch_loop *l, uint64_t number)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->strand[i]->number == number)
            return l->strand[i];
    return NULL;
}

void spot_batch_loop_expect(struct spot_batch_loop *l, uint64_t number, const uint32_t *source,
                            double wait_s)
{
    struct spot_strand *const s = find(l, number);

    if (!s || s->request.pool == SPOT_POOL_MEAN) /* a mean needs every token to be computed here */
        return;
    s->source = spot_xcalloc(SPOT_RELAY_MEMBERS_MAX, sizeof(*source));
    memcpy(s->source, source, spot_relay_members(l->relay) * sizeof(*source));
    s->asked_s = spot_clock_s();
    s->until_s = s->asked_s + wait_s;
    s->has_copies = wait_s <= 0;
}

int spot_batch_loop_set_buddy(struct spot_batch_loop *l, const struct spot_relay_form *buddy,
                              uint32_t epoch, struct spot_err *err)
{
    for (size_t i = 0; i < l->n; i++)
        l->strand[i]->n_copied = 0;
    l->has_buddy = buddy->P > 0;
    return spot_relay_set_buddy(l->relay, buddy, epoch, err);
}

/* Send full pages to the buddy, a few at a time, unless earlier ones are still queued. */
int spot_batch_copy_pages(struct spot_batch_loop *l, struct spot_err *err)
{
    int64_t left = spot_relay_copies_queued(l->relay) < COPY_BYTES ? COPY_PAGES : 0;

    for (size_t i = 0; l->has_buddy && left > 0 && i < l->n; i++) {
        struct spot_strand *const s = l->strand[i];
        int64_t end = s->place < 0 || s->request.pool
                          ? 0
                          : spot_relay_length(l->relay, s->place) / SPOT_INFER_PAGE;

        if (end > s->n_copied + left)
            end = s->n_copied + left;
        if (end <= s->n_copied)
            continue;
        if (spot_relay_copy_pages(l->relay, s->place, s->number, s->n_copied, end, err))
            return -1;
        left -= end - s->n_copied;
        s->n_copied = end;
    }
    return 0;
}

int spot_batch_loop_give(struct spot_batch_loop *l, uint64_t number,
                         const struct spot_relay_form *to, uint32_t epoch, struct spot_err *err)
{
    const struct spot_strand *const s = find(l, number);

    return spot_relay_give_pages(l->relay, s ? s->place : -1, number, to, epoch, err);
}

void spot_batch_note_rate(double *rate, double value)
{
    *rate = *rate > 0 ? 0.8 * *rate + 0.2 * value : value;
}

/* The last known token is always computed here, to get its logits. */
static int take_pages(struct spot_batch_loop *l, struct spot_strand *s, struct spot_err *err)
{
    const int64_t n_most = (int64_t)s->n_token - 1;
    int64_t n;

    if (s->has_copies ? spot_relay_take_copies(l->relay, s->place, s->number, s->source, s->token,
                                               n_most, &n, err)
                      : spot_relay_take_pages(l->relay, s->place, s->number, s->source, s->token,
                                              n_most, &n, err))
        return -1;
    l->rates.n_token_paged += (uint64_t)n;
    if (n && !s->has_copies)
        spot_batch_note_rate(&l->rates.page_byte_per_s,
                             (double)n * (double)spot_relay_token_byte(&l->model->shape) /
                                 (spot_clock_s() - s->asked_s));
    return 0;
}

bool spot_batch_all_wait(const struct spot_batch_loop *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (!l->strand[i]->source)
            return false;
    return true;
}

/* Put received pages into the cache, as far as older sequences leave free pages. With nothing else
 * to do, wait briefly for them. */
int spot_batch_look_for_pages(struct spot_batch_loop *l, struct spot_err *err)
{
    static const double little_s = 2e-3;
    const double limit_s = spot_batch_all_wait(l) && !spot_relay_under_way(l->relay) ? little_s : 0;

    for (size_t i = 0; i < l->n; i++) {
        struct spot_strand *const s = l->strand[i];
        bool came;

        if (!s->source)
            continue;
        came = s->has_copies || spot_relay_pages_came(l->relay, s->number, s->source, limit_s);
        if (!came && spot_clock_s() < s->until_s)
            continue;
        if (came && spot_batch_open_place(l, i) &&
            spot_batch_make_room(l, i, spot_relay_page_count((int64_t)s->n_token), 0) &&
            take_pages(l, s, err))
            return -1;
        free(s->source);
        s->source = NULL;
    }
    return 0;
}
