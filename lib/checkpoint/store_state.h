/* SPDX-License-Identifier: MIT */
/* store_state.h - a store, for the files that it is made of: store.c opens, reads and tells,
 * store_collect.c puts a generation together, store_thread.c writes it and watches the directory.
 */
#ifndef SPOT_CHECKPOINT_STORE_STATE_H
#define SPOT_CHECKPOINT_STORE_STATE_H

#include <pthread.h>

#include "checkpoint/generation.h"
#include "checkpoint/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A bundle of a generation: how it was written, or that its bytes are with the thread. */
struct spot_piece {
    struct spot_written written;
    bool is_queued;
};

/* Bytes that the thread writes as they come, so that they are in memory for as short as can be. */
struct spot_queued {
    struct spot_queued *next;
    uint64_t serial, nonce; /* of its generation */
    int64_t step;
    int bundle;
    uint8_t *data;
    size_t n_byte;
};

/* What the thread has of the generation that it writes; its own. */
struct spot_spool {
    uint64_t serial;
    struct spot_written *written; /* [n_bundle] */
    struct spot_err err, note;    /* why it cannot be written; what is to be told beside it */
};

struct spot_store {
    struct spot_generations disk;
    int lock_fd; /* of the directory: one process at a time */
    bool is_private;
    char place[PATH_MAX + 2]; /* for people */
    int64_t newest;
    void (*tick)(void *user);
    void *user;

    int64_t collecting;       /* step of the generation being put together, -1 */
    uint64_t nonce;           /* of its directory, if holders write to it; 0: they do not */
    struct spot_piece *piece; /* [n_bundle] */
    int n_piece;
    uint64_t n_begun; /* generations */

    pthread_t thread;
    bool has_thread;
    int news[2]; /* a byte per finished generation */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop, has_work, has_result;
    uint64_t serial; /* of the generation being put together, 0: none */
    struct spot_queued *first, **end;
    size_t queued_byte;
    struct spot_spool spool;
    double drop_again_s;    /* no old generation is deleted before */
    int64_t committed_step; /* of the newest that this process wrote, and hash of its manifest: the
                               thread's */
    uint64_t committed;
    int64_t work_step;
    uint64_t work_nonce, work_serial;
    struct spot_piece *work; /* [n_bundle], the thread's while has_work */
    int result;
    struct spot_err result_err; /* of a result of 1: what is to be told beside it, code 0 nothing */
    int64_t watched;            /* newest, as the thread knows it */
    bool is_gone;               /* the thread has not found it */
};

void spot_store_free_queue(struct spot_store *s);

/* Lock what the path names now, in the place of what it named before. */
int spot_store_lock(struct spot_store *s, struct spot_err *err);

/* Remove generations whose writer died. */
void spot_store_drop_unfinished(const struct spot_store *s);

/* Start the thread, which no signal reaches. */
int spot_store_start(struct spot_store *s, struct spot_err *err);

/* A whole generation goes to the thread, or waits here until the thread is free. */
void spot_store_hand_over(struct spot_store *s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CHECKPOINT_STORE_STATE_H */
