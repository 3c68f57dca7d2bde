/* SPDX-License-Identifier: MIT */
/* catalogue.h - reads a catalogue of instance types: offers, and their hardware.
 *
 * CSV, one row per type, or one for each zone and market: instance_type, and where known zone,
 * spot_usd_per_h, on_demand_usd_per_h, quota, speed, egress_usd_per_gb, egress_byte_per_s (of state
 * that leaves its region), notice_s (before spot is lost), gpus, gpu_mem_byte, gpu_flop_per_s,
 * gpu_mem_byte_per_s, gpu_link_byte_per_s, nic_byte_per_s. Other columns are ignored, empty fields
 * are unknown.
 */
#ifndef SPOT_MODEL_CATALOGUE_H
#define SPOT_MODEL_CATALOGUE_H

#include <stdint.h>
#include <stdio.h>

#include "common/csv_reader.h"
#include "common/err.h"
#include "common/prov.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The columns of offers, as spot_csv_fail numbers them. */
enum spot_catalogue_column {
    SPOT_CATALOGUE_TYPE,
    SPOT_CATALOGUE_ON_DEMAND_USD,
    SPOT_CATALOGUE_SPOT_USD,
    SPOT_CATALOGUE_ZONE,
    SPOT_CATALOGUE_QUOTA,
    SPOT_CATALOGUE_GPUS,
    SPOT_CATALOGUE_SPEED,
    SPOT_CATALOGUE_EGRESS_USD,
    SPOT_CATALOGUE_EGRESS_RATE,
    SPOT_CATALOGUE_NOTICE,
    SPOT_CATALOGUE_COLUMNS
};

/* A row; its strings are valid until the callback returns. */
struct spot_catalogue_row {
    const char *type, *zone; /* type is never empty; zone is "" if the row has none */
    double usd_per_h[2];     /* prices on demand and on spot; -1: not offered */
    int64_t quota;           /* of instances; -1: not given */
    int64_t gpus;            /* 1 if not given */
    double speed;            /* 1 if not given */
    double egress_usd_per_gb, egress_byte_per_s; /* 0 if not given: free, no time */
    double notice_s; /* notice before a spot instance is lost; 0 if not given */
    const struct spot_csv_row *csv;
};
typedef int spot_catalogue_fn(const struct spot_catalogue_row *row, void *user,
                              struct spot_err *err);

/* Read every row of the file; NULL and "-" are standard input. The path and its hash are added to
 * prov (may be NULL). Returns 0, or -1 with *err: SPOT_EDATA with its place for an invalid row, for
 * one that repeats the offer of an earlier row (a type in a zone, on one market), or if there are
 * no rows. */
int spot_catalogue_read(const char *path, spot_catalogue_fn *on_row, void *user,
                        struct spot_prov *prov, struct spot_err *err);

/* Returns 0, or -1 with *err if the row's file has no price column. */
int spot_catalogue_need_price(const struct spot_catalogue_row *row, struct spot_err *err);

/* The hardware of one instance; unknown values are -1, gpus 1. */
struct spot_catalogue_type {
    int64_t gpus;
    double gpu_mem_byte;
    double gpu_flop_per_s;      /* peak, in the precision used for computing */
    double gpu_mem_byte_per_s;  /* peak */
    double gpu_link_byte_per_s; /* each way, between two GPUs of the instance */
    double nic_byte_per_s;      /* each way, of the instance */
    double spot_usd_per_h, on_demand_usd_per_h;
};

/* The first row of `name`. xxh3 (may be NULL) gets the hash of all that was read. Returns 0, or -1
 * with *err: SPOT_EDATA with its place for an invalid field, or one of hardware that a later row of
 * that name contradicts; or if no row has that name. */
int spot_catalogue_find(struct spot_catalogue_type *type, const char *name, FILE *in,
                        const char *source, uint64_t *xxh3, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_CATALOGUE_H */
