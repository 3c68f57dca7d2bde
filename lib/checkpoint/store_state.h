/* SPDX-License-Identifier: MIT */
/* store_state.h - a store, shared by its source files: store.c opens, reads and reports,
 * store_collect.c assembles a generation, store_thread.c writes it and watches the directory.
 */
#ifndef SPOT_CHECKPOINT_STORE_STATE_H
#define SPOT_CHECKPOINT_STORE_STATE_H

#include <pthread.h>

#include "checkpoint/generation.h"
#include "checkpoint/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A bundle of a generation: the file written, or a mark that the thread has its bytes. */
struct spot_piece {
    struct spot_written written;
    bool is_queued;
};

/* Bytes that the thread writes as they arrive, to keep them in memory as briefly as possible. */
struct spot_queued {
    struct spot_queued *next;
    uint64_t serial, nonce; /* of the generation to which it belongs */
    int64_t step;
    int bundle;
    uint8_t *data;
    size_t n_byte;
};

/* The thread's own state of the generation that it writes. */
struct spot_spool {
    uint64_t serial;
    struct spot_written *written; /* [n_bundle] */
    struct spot_err err, note;    /* why it cannot be written; a warning */
};

struct spot_store {
    struct spot_generations disk;
    int lock_fd; /* of the directory: allows one process at a time */
    bool is_private;
    char place[PATH_MAX + 2]; /* for messages */
    int64_t newest;
    void (*tick)(void *user);
    void *user;
    bool (*gives_up)(void); /* NULL: never */

    char chain[SPOT_HASH_HEX], work_chain[SPOT_HASH_HEX]; /* of the generation being assembled; of
                                                             the one that the thread writes */
    int64_t collecting;       /* step of the generation being assembled, -1 */
    uint64_t nonce;           /* of its directory, if holders write to it; else 0 */
    struct spot_piece *piece; /* [n_bundle] */
    int n_piece;
    uint64_t n_begun; /* generations */

    pthread_t thread;
    bool has_thread;
    int news[2]; /* a byte for each finished generation */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop, has_work, has_result, has_ended;
    uint64_t serial; /* number of the generation being assembled, 0: none */
    struct spot_queued *first, **end;
    size_t queued_byte;
    struct spot_spool spool;
    double drop_again_s;    /* time before which old generations are not deleted */
    int64_t committed_step; /* the newest that this process wrote, and the hash of its manifest: the
                               thread's own */
    uint64_t committed;
    int64_t work_step;
    uint64_t work_nonce, work_serial;
    struct spot_piece *work; /* [n_bundle], the thread's while has_work */
    int result;
    struct spot_err result_err; /* if `result` is 1: a warning, or code 0 */
    int64_t watched;            /* the newest generation, as the thread knows it */
    bool is_gone;               /* the thread found that it is missing */
};

void spot_store_free_queue(struct spot_store *s);

/* Lock the directory that the path refers to now, and release the one locked before. */
int spot_store_lock(struct spot_store *s, struct spot_err *err);

/* Remove generations whose writer died. */
void spot_store_drop_unfinished(const struct spot_store *s);

int spot_store_start(struct spot_store *s, struct spot_err *err);
/* Wait for the thread to finish its current work. False: it hangs, and the store must stay
 * allocated until the process ends. */
bool spot_store_end(struct spot_store *s);

/* Pass a complete generation to the thread, or queue it until the thread is free. */
void spot_store_hand_over(struct spot_store *s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CHECKPOINT_STORE_STATE_H */
