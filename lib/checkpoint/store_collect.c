/* SPDX-License-Identifier: MIT */
/* store_collect.c - a generation is put together from bytes that come and files that holders
 * write. */
#define _DEFAULT_SOURCE /* realpath */
#include "checkpoint/store_state.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/random.h"

enum { PATH_SIZE = SPOT_GENERATION_PATH };

static void drop_collected(struct spot_store *s)
{
    spot_store_free_pieces(s->piece, s->disk.n_bundle);
    s->n_piece = 0;
    s->collecting = -1;
    s->nonce = 0;
}

void spot_store_cancel(struct spot_store *s)
{
    if (s->n_piece < s->disk.n_bundle)
        drop_collected(s);
}

void spot_store_begin(struct spot_store *s, int64_t step)
{
    drop_collected(s);
    s->collecting = step;
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
           !s->piece[bundle].data && !s->piece[bundle].written.n_byte;
}

void spot_store_put(struct spot_store *s, int64_t step, int bundle, uint8_t *data_take,
                    size_t n_byte)
{
    if (!is_missing(s, step, bundle)) {
        free(data_take); /* of a generation that was given up */
        return;
    }
    s->piece[bundle] = (struct spot_piece){ .data = data_take, .n_byte = n_byte };
    s->n_piece++;
    spot_store_hand_over(s);
}

bool spot_store_share(struct spot_store *s, char dir[SPOT_STORE_PATH], uint64_t *nonce)
{
    char path[PATH_SIZE];

    spot_generation_path(&s->disk, s->collecting, "", path);
    if (s->is_private || s->collecting < 0 || s->n_piece || !access(path, F_OK) ||
        spot_random_bytes(nonce, sizeof(*nonce), NULL))
        return false;
    *nonce |= 1;
    if (!thread_has_work(s))
        spot_store_drop_unfinished(s); /* whose writers went away */
    if (spot_generation_share(&s->disk, s->collecting, *nonce, NULL))
        return false;
    s->nonce = *nonce;
    spot_generation_tmp(&s->disk, s->collecting, *nonce, path);
    if (!realpath(path, dir))
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
