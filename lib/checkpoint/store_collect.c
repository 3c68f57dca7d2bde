/* SPDX-License-Identifier: MIT */
/* store_collect.c - assembles a generation from received bytes and files that holders write. */
#define _DEFAULT_SOURCE /* realpath */
#include "checkpoint/store_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/random.h"
#include "common/xalloc.h"

enum { PATH_SIZE = SPOT_GENERATION_PATH };

static void set_serial(struct spot_store *s, uint64_t serial)
{
    pthread_mutex_lock(&s->lock);
    s->serial = serial;
    pthread_mutex_unlock(&s->lock);
}

/* Drop the generation being assembled; the thread drops its queued bundles. */
static void drop_collected(struct spot_store *s)
{
    memset(s->piece, 0, (size_t)s->disk.n_bundle * sizeof(*s->piece));
    s->n_piece = 0;
    s->collecting = -1;
    s->nonce = 0;
    set_serial(s, 0);
}

void spot_store_cancel(struct spot_store *s)
{
    if (s->n_piece < s->disk.n_bundle)
        drop_collected(s);
}

void spot_store_begin(struct spot_store *s, int64_t step, const char *chain)
{
    drop_collected(s);
    snprintf(s->chain, sizeof(s->chain), "%s", chain);
    s->collecting = step;
    set_serial(s, ++s->n_begun);
}

void spot_store_free_queue(struct spot_store *s)
{
    for (struct spot_queued *q = s->first, *next; q; q = next) {
        next = q->next;
        free(q->data);
        free(q);
    }
}

static void enqueue(struct spot_store *s, int64_t step, int bundle, uint8_t *data_take,
                    size_t n_byte)
{
    struct spot_queued *const q = spot_xcalloc(1, sizeof(*q));

    *q = (struct spot_queued){
        .nonce = s->nonce, .step = step, .bundle = bundle, .data = data_take, .n_byte = n_byte
    };
    pthread_mutex_lock(&s->lock);
    q->serial = s->serial;
    *s->end = q;
    s->end = &q->next;
    s->queued_byte += n_byte;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

size_t spot_store_queued_byte(const struct spot_store *s)
{
    struct spot_store *mutable = (struct spot_store *)(uintptr_t)s; /* only to lock it */
    size_t n_byte;

    pthread_mutex_lock(&mutable->lock);
    n_byte = s->queued_byte;
    pthread_mutex_unlock(&mutable->lock);
    return n_byte;
}

static bool thread_has_work(const struct spot_store *s)
{
    struct spot_store *mutable = (struct spot_store *)(uintptr_t)s; /* only to lock it */
    bool busy;

    pthread_mutex_lock(&mutable->lock);
    busy = s->has_work || s->has_result;
    pthread_mutex_unlock(&mutable->lock);
    return busy;
}

bool spot_store_is_busy(const struct spot_store *s)
{
    return s->collecting >= 0 || thread_has_work(s);
}

int64_t spot_store_writing(const struct spot_store *s)
{
    if (s->collecting >= 0 && s->n_piece == s->disk.n_bundle)
        return s->collecting;
    return thread_has_work(s) ? s->work_step : -1;
}

bool spot_store_has_all(const struct spot_store *s, int64_t step)
{
    return (s->collecting == step && s->n_piece == s->disk.n_bundle) ||
           (thread_has_work(s) && s->work_step == step);
}

void spot_store_keep(struct spot_store *s)
{
    s->is_private = false;
}

void spot_store_hand_over(struct spot_store *s)
{
    bool is_taken = false;

    if (s->collecting < 0 || s->n_piece < s->disk.n_bundle)
        return;
    pthread_mutex_lock(&s->lock);
    if (!s->has_work && !s->has_result) {
        struct spot_piece *swap = s->work;

        s->work = s->piece;
        s->piece = swap;
        s->work_step = s->collecting;
        s->work_nonce = s->nonce;
        s->work_serial = s->serial;
        memcpy(s->work_chain, s->chain, sizeof(s->chain));
        s->has_work = is_taken = true;
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    if (is_taken)
        drop_collected(s);
}

static bool is_missing(const struct spot_store *s, int64_t step, int bundle)
{
    return step == s->collecting && step >= 0 && bundle >= 0 && bundle < s->disk.n_bundle &&
           !s->piece[bundle].is_queued && !s->piece[bundle].written.n_byte;
}

void spot_store_put(struct spot_store *s, int64_t step, int bundle, uint8_t *data_take,
                    size_t n_byte)
{
    if (!is_missing(s, step, bundle)) {
        free(data_take); /* the generation was given up */
        return;
    }
    enqueue(s, step, bundle, data_take, n_byte);
    s->piece[bundle].is_queued = true;
    s->n_piece++;
    spot_store_hand_over(s);
}

bool spot_store_where(const struct spot_store *s, char dir[SPOT_STORE_PATH], uint64_t *nonce)
{
    char path[PATH_SIZE];

    *nonce = s->nonce;
    if (spot_store_is_behind(s)) {
        spot_store_source(s, dir);
        return s->nonce != 0;
    }
    spot_generation_tmp(&s->disk, s->collecting, s->nonce, path);
    return s->nonce && realpath(path, dir);
}

bool spot_store_share(struct spot_store *s, char dir[SPOT_STORE_PATH], uint64_t *nonce)
{
    char path[PATH_SIZE];

    spot_generation_path(&s->disk, s->collecting, "", path);
    if (s->collecting < 0 || s->n_piece || (!spot_store_is_behind(s) && !access(path, F_OK)) ||
        spot_random_bytes(nonce, sizeof(*nonce), NULL))
        return false;
    *nonce |= 1;
    if (!thread_has_work(s))
        spot_store_drop_unfinished(s); /* its writers have left */
    if (spot_generation_share(&s->disk, s->collecting, *nonce, NULL))
        return false;
    s->nonce = *nonce;
    if (!spot_store_where(s, dir, nonce))
        s->nonce = 0;
    return s->nonce != 0;
}

void spot_store_put_written(struct spot_store *s, int64_t step, uint64_t nonce, int bundle,
                            const struct spot_written *written)
{
    if (!nonce || nonce != s->nonce || !is_missing(s, step, bundle))
        return;
    s->piece[bundle] = (struct spot_piece){ .written = *written };
    s->n_piece++;
    spot_store_hand_over(s);
}

int64_t spot_store_collecting(const struct spot_store *s)
{
    return s->n_piece < s->disk.n_bundle ? s->collecting : -1;
}

bool spot_store_lacks(const struct spot_store *s, int bundle)
{
    return is_missing(s, s->collecting, bundle);
}

bool spot_store_is_shared(const struct spot_store *s)
{
    return s->nonce != 0;
}
