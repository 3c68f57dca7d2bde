/* SPDX-License-Identifier: MIT */
/* serve_move.h - how long weights and caches take to move between instances when a grid changes:
 * the bytes of a layout over measured links, by the planner of spot-migrate plan.
 *
 * Ranks are placed in order on the first instances, a tensor-parallel group on as few as possible;
 * lost instances are spread evenly among those in use. Each replica's cache is that of a full batch
 * with complete answers. Results are cached, so each change is planned once. */
#ifndef SPOT_SIM_SERVE_MOVE_H
#define SPOT_SIM_SERVE_MOVE_H

#include <stddef.h>
#include <stdint.h>

#include "model/grid.h"
#include "model/job_serve.h"
#include "model/layout_doc.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_serve_change {
    struct spot_grid from, to;
    int64_t instances; /* instances of the old grid, including lost ones */
    int64_t lost, gained;
};

struct spot_serve_moved {
    struct spot_serve_change change;
    double time_s;
};

struct spot_serve_moves {
    const struct spot_layout *layout; /* the model and its components; borrowed */
    const struct spot_job_serve *serve;
    double byte_per_s; /* of an instance's link, each way */
    double other_s; /* used if nothing can be planned: more stages than layers, too little memory */
    struct spot_serve_moved *known; /* [n_known] */
    size_t n_known, known_cap;
};

double spot_serve_move_s(struct spot_serve_moves *moves, const struct spot_serve_change *change);
void spot_serve_moves_release(struct spot_serve_moves *moves);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_SERVE_MOVE_H */
