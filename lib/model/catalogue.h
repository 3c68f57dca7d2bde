/* SPDX-License-Identifier: MIT */
/* catalogue.h - what a catalogue says of the hardware of one instance type.
 *
 * CSV, one row for a type (or one for each zone and market, then the first counts): instance_type,
 * and where they are known gpus, gpu_mem_byte, gpu_flop_per_s, gpu_mem_byte_per_s,
 * gpu_link_byte_per_s, nic_byte_per_s, spot_usd_per_h, on_demand_usd_per_h. Other columns are
 * passed over, empty fields are not known.
 */
#ifndef SPOT_MODEL_CATALOGUE_H
#define SPOT_MODEL_CATALOGUE_H

#include <stdint.h>
#include <stdio.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of one instance; what is not known is -1, and gpus 1. */
struct spot_catalogue_type {
    int64_t gpus;
    double gpu_mem_byte;
    double gpu_flop_per_s;      /* peak, in the precision that is computed in */
    double gpu_mem_byte_per_s;  /* peak */
    double gpu_link_byte_per_s; /* each way, of a GPU to another of the instance */
    double nic_byte_per_s;      /* each way, of the instance */
    double spot_usd_per_h, on_demand_usd_per_h;
};

/* The row of `name`. xxh3 (may be NULL) gets the hash of all that was read. Returns 0, or -1 with
 * *err: SPOT_EDATA for a wrong field, with its place, or where no row has that name. */
int spot_catalogue_find(struct spot_catalogue_type *type, const char *name, FILE *in,
                        const char *source, uint64_t *xxh3, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_CATALOGUE_H */
