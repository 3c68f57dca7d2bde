/* SPDX-License-Identifier: MIT */
/* peer_model.h - what other systems wait for and move at a change, beside the job's own prices.
 *
 * One price list for every policy: rendezvous, groups, process and build of a grid, and transfers
 * of state, all from the job (migrate_cost.h). A peer adds waits of its own and leaves out the
 * parts that its mechanism overlaps with training. Three models of each:
 *
 * published: the mechanism as its paper or documentation has it, default constants;
 * generous: the best that its authors or operators could make of the mechanism;
 * as-measured: the released code as it was read and run, its waits and serial checkpoints included.
 *
 * Every constant of a model has a name, by which a copy of the model is changed: to see how much a
 * result hangs on it.
 */
#ifndef SPOT_SIM_PEER_MODEL_H
#define SPOT_SIM_PEER_MODEL_H

#include <stdbool.h>
#include <stddef.h>

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

/* Links that a checkpoint goes through at once. */
enum spot_peer_links {
    SPOT_PEER_ONE_LINK,    /* the whole state through one */
    SPOT_PEER_STAGE_LINKS, /* each stage through one */
    SPOT_PEER_SHARD_LINKS, /* each replica of a stage a part of it */
};

struct spot_peer_price {
    double loss_wait_s; /* to notice a loss, or to wait after it */
    double gain_wait_s; /* before newcomers are taken in */
    double kill_s;      /* to end what runs */
    enum spot_peer_links links;
    /* Times what the job says; 1 in every model. */
    double restart;      /* rendezvous, groups, process and build */
    double transfer;     /* copies of state; saving and loading a checkpoint */
    double period;       /* Young's and Daly's time between checkpoints */
    bool joins;          /* takes newcomers in while it runs */
    bool build_apart;    /* newcomers meet and build while the others train */
    bool transfer_apart; /* and copy the state */
    const char *source;
};

/* Bamboo's, for its event simulator. */
struct spot_bamboo_price {
    double redundant; /* work beside each unit of work */
    double stages;    /* times the least number */
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

/* A constant that can be set, "varuna.loss-wait": seconds where unit is "s", else a number. */
struct spot_peer_constant {
    const char *name, *unit;
    size_t offset;      /* of a double in struct spot_peer_prices */
    double least, most; /* both allowed */
};

/* All of them, ends with a NULL name. */
extern const struct spot_peer_constant spot_peer_constants[];
double spot_peer_constant_value(const struct spot_peer_constant *constant,
                                const struct spot_peer_prices *prices);

/* NAME=VALUE, or NAME=Kx for K times what *prices says. Returns 0, or -1 with *err (SPOT_EUSAGE)
 * and *prices as it was. */
int spot_peer_constant_set(struct spot_peer_prices *prices, const char *text, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SIM_PEER_MODEL_H */
