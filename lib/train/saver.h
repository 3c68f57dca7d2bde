/* SPDX-License-Identifier: MIT */
/* saver.h - collects durable generations: the store, the bundles that members still owe for the
 * current one, the delay of the disk, and failures. Members that write their bundles to the
 * directory work on copies, so a generation can be completed after the end of its epoch, but not
 * after the loss of one of those members. A bundle that is sent has been queued when an epoch ends,
 * or is not sent at all.
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
    int64_t sent_byte;   /* bytes of the newest generation that members sent instead of writing */
    int64_t export_step; /* a client waits for a durable step at least this new; 0: none */
    struct spot_durable_lag lag;
    uint32_t n_failed;    /* successive failed attempts */
    int64_t doubted_step; /* a generation of this step is discarded when complete; -1: none */
    double reported_s;    /* time of the last report of a failure */
    struct spot_err why;  /* reason of the newest failure */
    struct spot_err last; /* why the final generation could not be written */
};

/* The store is opened by the caller; released here. */
void spot_saver_init(struct spot_saver *saver, int n_bundle);
void spot_saver_release(struct spot_saver *saver);

/* A member is asked for a bundle; whether it still owes one. `pulled` is the bundle that the result
 * awaits, -1 for none; it is owed whatever the store has. */
void spot_saver_ask(struct spot_saver *saver, int bundle, uint32_t id);
bool spot_saver_is_asked(const struct spot_saver *saver, int bundle);
bool spot_saver_owes(const struct spot_saver *saver, uint32_t id, int pulled);
/* A member is lost: give up a generation for which it still owes a bundle. */
void spot_saver_lost(struct spot_saver *saver, uint32_t id, int pulled);
void spot_saver_give_up(struct spot_saver *saver);
/* True if members for which `is_here` is true can still complete the generation of this step. */
bool spot_saver_awaits(const struct spot_saver *saver, int64_t step, int pulled,
                       bool (*is_here)(const void *user, uint32_t id), const void *user);

/* True if a client waits for a generation that is not durable yet. */
bool spot_saver_export_is_due(const struct spot_saver *saver);

/* A generation of `step` is durable: write the fields of its event. A generation could not be
 * written: true if that is to be reported, at first and then once a minute, with more[48] about
 * earlier attempts. */
void spot_saver_put(const struct spot_saver *saver, struct spot_jw *jw);
bool spot_saver_failed(struct spot_saver *saver, const struct spot_err *why, char more[48]);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_SAVER_H */
