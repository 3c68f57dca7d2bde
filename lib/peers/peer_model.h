/* SPDX-License-Identifier: MIT */
/* peer_model.h - waits and moves of other systems at a change, in addition to the job's own costs.
 *
 * One price list for every policy: rendezvous, groups, process and build of a grid, and transfers
 * of state, all from the job (migrate_cost.h). A peer adds its own waits and leaves out the parts
 * that its mechanism overlaps with training. There are three models of each:
 *
 * published: the mechanism as in its paper or documentation, default constants;
 * generous: the best that its authors or operators could achieve with the mechanism;
 * as-measured: the released code as read and run, including its waits and serial checkpoints.
 *
 * Every constant of a model has a name, by which a copy of the model is changed, to see how much a
 * result depends on it.
 */
#ifndef SPOT_PEERS_PEER_MODEL_H
#define SPOT_PEERS_PEER_MODEL_H

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
    SPOT_PEER_TORCHFT,
    SPOT_PEER_SYSTEMS,
};

/* Links used in parallel by a checkpoint. */
enum spot_peer_links {
    SPOT_PEER_ONE_LINK,    /* the whole state through one */
    SPOT_PEER_STAGE_LINKS, /* each stage through one */
    SPOT_PEER_SHARD_LINKS, /* each replica of a stage sends a part of it */
};

struct spot_peer_price {
    double loss_wait_s; /* to detect a loss, or to wait after it */
    double gain_wait_s; /* before newcomers are admitted */
    double kill_s;      /* to end what runs */
    enum spot_peer_links links;
    /* Factors on the job's figures; 1 in every model. */
    double restart;      /* rendezvous, groups, process and build */
    double transfer;     /* copies of state; saving and loading a checkpoint */
    double period;       /* Young's and Daly's time between checkpoints */
    bool joins;          /* admits newcomers while it runs */
    bool build_apart;    /* newcomers meet and build while the others train */
    bool transfer_apart; /* and copy the state meanwhile */
    const char *source;
};

/* Bamboo's, for its event simulator. */
struct spot_bamboo_price {
    double redundant; /* extra work per unit of work */
    double stages;    /* factor on the minimum number */
    double boot_s, local_s, global_s;
    enum spot_peer_links links; /* one, or one for each stage */
    double transfer, period;    /* as above */
    const char *source;
};

struct spot_peer_prices {
    struct spot_peer_price system[SPOT_PEER_SYSTEMS];
    struct spot_bamboo_price bamboo;
};

const struct spot_peer_prices *spot_peer_prices_of(enum spot_peer_model model);

/* published, generous or as-measured. Returns 0, or -1 with *err. */
int spot_peer_model_parse(const char *name, enum spot_peer_model *model, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PEERS_PEER_MODEL_H */
