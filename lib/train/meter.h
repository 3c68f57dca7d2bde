/* SPDX-License-Identifier: MIT */
/* meter.h - counts what a training job does, its steps, pauses and moves, and publishes them with
 * its status over HTTP (comm/monitor.h). */
#ifndef SPOT_TRAIN_METER_H
#define SPOT_TRAIN_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/group.h"
#include "common/buf.h"
#include "common/err.h"
#include "train/history.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_meter;

/* Listens at an address of this host. NULL with *err: SPOT_EUSAGE, SPOT_ESYS. */
struct spot_meter *spot_meter_new(const char *address, struct spot_err *err);
void spot_meter_free(struct spot_meter *meter); /* may be NULL */
const char *spot_meter_url(const struct spot_meter *meter);

/* The functions below do nothing where `meter` is NULL. A step has committed in this epoch, `at`
 * with the time since the previous one: the first step of an epoch ends a pause, of what it took
 * longer than a usual one. */
void spot_meter_step(struct spot_meter *meter, uint32_t epoch,
                     const struct spot_group_counts *counts, const struct spot_history_point *at);
/* State went to a member from another one, or from the store. */
void spot_meter_moved(struct spot_meter *meter, bool from_store, double byte);
void spot_meter_rolled_back(struct spot_meter *meter, int64_t n_step);

/* Is it time to make documents, or the last time? Then fill both, which are empty; put the counts,
 * of `token` tokens a step, into the metrics; and publish them. made_s: the clock when making them
 * began. */
bool spot_meter_begin(struct spot_meter *meter, bool is_last, struct spot_buf **status,
                      struct spot_buf **metrics);
void spot_meter_put(const struct spot_meter *meter, double token, struct spot_buf *out);
void spot_meter_publish(struct spot_meter *meter, double made_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_METER_H */
