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

/* The functions below do nothing when `meter` is NULL. A step has committed in this epoch; `at` has
 * the time since the previous one. The first step of an epoch ends a pause, whose length is its
 * time beyond that of a usual step. */
void spot_meter_step(struct spot_meter *meter, uint32_t epoch,
                     const struct spot_group_counts *counts, const struct spot_history_point *at);
/* State was moved to a member, from another member or from the store. */
void spot_meter_moved(struct spot_meter *meter, bool from_store, double byte);
void spot_meter_rolled_back(struct spot_meter *meter, int64_t n_step);

/* begin: true if the documents are due or is_last; the caller then fills both, which are empty.
 * put: write the counts, with `token` tokens a step, to the metrics. publish: made_s is the time
 * when making the documents began. */
bool spot_meter_begin(struct spot_meter *meter, bool is_last, struct spot_buf **status,
                      struct spot_buf **metrics);
void spot_meter_put(const struct spot_meter *meter, double token, struct spot_buf *out);
void spot_meter_publish(struct spot_meter *meter, double made_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_METER_H */
