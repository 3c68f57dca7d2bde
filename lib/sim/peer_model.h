/* SPDX-License-Identifier: MIT */
/* peer_model.h - what other systems wait for and move at a change, beside the job's own prices.
 *
 * One price list for every policy: rendezvous, groups, process and build of a grid, and transfers
 * of state, all from the job (migrate_cost.h). A peer adds waits of its own and leaves out the
 * parts that its mechanism overlaps with training. Three models of each: published    the mechanism
 * as its paper or documentation has it, default constants generous     the best that its authors or
 * operators could make of the mechanism as-measured  the released code as it was read and run, its
 * waits and serial checkpoints included
 */
#ifndef SPOT_SIM_PEER_MODEL_H
#define SPOT_SIM_PEER_MODEL_H

#include <stdbool.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_peer_model { SPOT_PEER_PUBLISHED, SPOT_PEER_GENEROUS, SPOT_PEER_AS_MEASURED };

enum spot_peer_system {
    SPOT_PEER_TORCHRUN,
    SPOT_PEER_VARUNA,
    SPOT_PEER_OOBLECK,
    SPOT_PEER_TORCHFT
};

/* Links that a checkpoint goes through at once. */
enum spot_peer_links {
    SPOT_PEER_ONE_LINK,    /* the whole state through one */
    SPOT_PEER_STAGE_LINKS, /* each stage through one */
    SPOT_PEER_SHARD_LINKS, /* each replica of a stage a part of it */
};

struct spot_peer_price {
    enum spot_peer_system peer;
    enum spot_peer_model model;
    double loss_wait_s; /* to notice a loss, or to wait after it */
    double gain_wait_s; /* before newcomers are taken in */
    double kill_s;      /* to end what runs */
    enum spot_peer_links links;
    bool joins;          /* takes newcomers in while it runs */
    bool build_apart;    /* newcomers meet and build while the others train */
    bool transfer_apart; /* and copy the state */
    const char *source;
};

/* Bamboo's, for its event simulator. */
struct spot_bamboo_price {
    double redundant; /* work beside each unit of work */
    double stages;    /* times the least number */
    int boot_ms, local_ms, global_ms;
    const char *source;
};

const struct spot_peer_price *spot_peer_price_of(enum spot_peer_system peer,
                                                 enum spot_peer_model model);
const struct spot_bamboo_price *spot_bamboo_price_of(enum spot_peer_model model);

/* published, generous or as-measured. Returns 0, or -1 with *err. */
int spot_peer_model_parse(const char *name, enum spot_peer_model *model, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_PEER_MODEL_H */
