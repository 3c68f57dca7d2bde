/* SPDX-License-Identifier: MIT */
/* saver.h - durable generations: the store, the bundles that members owe for the one that is being
 * collected, how far the disk is behind, and what failed.
 *
 * Members that write their bundles to the directory have copies, so a generation survives the end
 * of its epoch; it does not survive the loss of one of them. What is sent is on its way when an
 * epoch ends, or is not sent at all.
 */
#ifndef SPOT_TRAIN_SAVER_H
#define SPOT_TRAIN_SAVER_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/store.h"
#include "common/err.h"
#include "common/json_writer.h"
#include "train/durable_lag.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_saver {
    struct spot_store *store;
    uint32_t *asked; /* [n_bundle], member asked for it; 0: none */
    int n_bundle;
    int64_t sent_byte;   /* of the newest generation: bytes that members sent instead of writing */
    int64_t export_step; /* a client waits for a durable step at least this new; 0: none */
    struct spot_durable_lag lag;
    uint32_t n_failed;    /* successive failed attempts */
    int64_t doubted_step; /* a generation of it is set aside as soon as it is there; -1: none */
    double reported_s;    /* when that was last told */
    struct spot_err why;  /* reason of the newest failure */
    struct spot_err last; /* why the final generation could not be written */
};

/* The store is opened by the caller; released here. */
void spot_saver_init(struct spot_saver *saver, int n_bundle);
void spot_saver_release(struct spot_saver *saver);

/* A member is asked for a bundle; does it owe one still? `pulled` is the one that the result
 * awaits, -1: none: it is owed whatever the store has. */
void spot_saver_ask(struct spot_saver *saver, int bundle, uint32_t id);
bool spot_saver_is_asked(const struct spot_saver *saver, int bundle);
bool spot_saver_owes(const struct spot_saver *saver, uint32_t id, int pulled);
/* A member is gone: a generation that it owes a bundle of is given up. */
void spot_saver_lost(struct spot_saver *saver, uint32_t id, int pulled);
void spot_saver_give_up(struct spot_saver *saver);
/* Does the generation of this step still come from members of which `is_here` is true? */
bool spot_saver_awaits(const struct spot_saver *saver, int64_t step, int pulled,
                       bool (*is_here)(const void *user, uint32_t id), const void *user);

/* A client waits for a generation that is not there yet. */
bool spot_saver_export_is_due(const struct spot_saver *saver);

/* A generation of `step` is durable: what its event says of it. Or it could not be written: true
 * when that is to be told, with more[48] about earlier tries: at once, then once a minute. */
void spot_saver_put(const struct spot_saver *saver, struct spot_jw *jw);
bool spot_saver_failed(struct spot_saver *saver, const struct spot_err *why, char more[48]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_SAVER_H */
