/* SPDX-License-Identifier: MIT */
/* pins.h - the places that a plan gives to members by name (place[] of spot.plan/1). They apply
 * only to the grid that the plan asks for. */
#ifndef SPOT_TRAIN_PINS_H
#define SPOT_TRAIN_PINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/protocol.h"
#include "model/grid.h"
#include "model/plan_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_pin {
    char name[SPOT_NAME_MAX];
    int64_t d, p, m;
    bool is_reported; /* it was reported that the place cannot be given */
};

struct spot_pins {
    struct spot_pin *pin; /* [n] */
    size_t n;
};

/* Adopt the places of a plan; true if they differ from before. */
bool spot_pins_take(struct spot_pins *pins, const struct spot_plan_doc *plan);
void spot_pins_release(struct spot_pins *pins);

/* The position of the pinned place in the grid. */
size_t spot_pin_position(const struct spot_grid *grid, const struct spot_pin *pin);

/* Put `node` at a position of node_of_position[n]; the node that was there gets its old place, if
 * it had one. False if it was already there. */
bool spot_pin_put(int *node_of_position, size_t n, size_t position, int node);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_PINS_H */
