/* SPDX-License-Identifier: MIT */
#include "sim/peer_model.h"

#include <string.h>

/* "code": read in the released source; "paper": from the publication; "doc": documented default. */
static const struct spot_peer_price price[] = {
    { SPOT_PEER_TORCHRUN, SPOT_PEER_PUBLISHED, 15, 30, 0, SPOT_PEER_STAGE_LINKS, .joins = true,
      .source = "doc: three keepalives of 5 s, last call 30 s" },
    { SPOT_PEER_TORCHRUN, SPOT_PEER_GENEROUS, 5, 0, 0, SPOT_PEER_SHARD_LINKS, .joins = true,
      .source = "one keep-alive, last call 0; sharded checkpoints" },
    { SPOT_PEER_TORCHRUN, SPOT_PEER_AS_MEASURED, 15, 30, 0, SPOT_PEER_ONE_LINK, .joins = true,
      .source = "doc; one rank saves and loads through one link" },

    { SPOT_PEER_VARUNA, SPOT_PEER_PUBLISHED, 120, 0, 5, SPOT_PEER_SHARD_LINKS, .joins = true,
      .source =
          "paper: checkpoints sharded over replicas; code: sleeps 120 s after one for a loss" },
    { SPOT_PEER_VARUNA, SPOT_PEER_GENEROUS, 0, 0, 0, SPOT_PEER_SHARD_LINKS, .joins = true,
      .source = "the same without its sleep and its kill" },
    { SPOT_PEER_VARUNA, SPOT_PEER_AS_MEASURED, 120, 0, 5, SPOT_PEER_ONE_LINK, .joins = true,
      .source = "code, and a checkpoint through one link as in Parcae's stand-in for it" },

    { SPOT_PEER_OOBLECK, SPOT_PEER_PUBLISHED, 1, 0, 0, SPOT_PEER_STAGE_LINKS, .joins = true,
      .source = "paper: templates for any number of nodes; code: TCP reset within 1 s" },
    { SPOT_PEER_OOBLECK, SPOT_PEER_GENEROUS, 0, 0, 0, SPOT_PEER_SHARD_LINKS, .joins = true,
      .build_apart = true, .source = "newcomers meet and build while the others train" },
    { SPOT_PEER_OOBLECK, SPOT_PEER_AS_MEASURED, 1, 0, 0, SPOT_PEER_ONE_LINK, .joins = false,
      .source = "code of September 2023: new nodes are not added" },

    { SPOT_PEER_TORCHFT, SPOT_PEER_PUBLISHED, 60, 0, 0, SPOT_PEER_STAGE_LINKS, .joins = true,
      .build_apart = true, .source = "doc: collective timeout 60 s; a joiner copies, others wait" },
    { SPOT_PEER_TORCHFT, SPOT_PEER_GENEROUS, 5.1, 0, 0, SPOT_PEER_SHARD_LINKS, .joins = true,
      .build_apart = true, .transfer_apart = true,
      .source = "abort by heartbeats (pull request 196); joiners contribute zeros meanwhile" },
    { SPOT_PEER_TORCHFT, SPOT_PEER_AS_MEASURED, 60, 0, 0, SPOT_PEER_ONE_LINK, .joins = true,
      .source = "doc; every change of the quorum meets and builds anew" },
};

static const struct spot_bamboo_price bamboo_price[] = {
    [SPOT_PEER_PUBLISHED] = { 1. / 3, 1.5, 45000, 20000, 30000,
                              "paper: 1.5 times the stages; code: times for GPT-2 and BERT; a "
                              "forward computed twice, none of it in a bubble" },
    [SPOT_PEER_GENEROUS] = { 0, 1.5, 45000, 5000, 5000,
                             "the second forward fits the bubble; rendezvous by its last call" },
    [SPOT_PEER_AS_MEASURED] = { 1. / 3, 1.5, 45000, 20000, 30000, "as published" },
};

const struct spot_peer_price *spot_peer_price_of(enum spot_peer_system peer,
                                                 enum spot_peer_model model)
{
    for (size_t i = 0; i < sizeof(price) / sizeof(*price); i++)
        if (price[i].peer == peer && price[i].model == model)
            return &price[i];
    return NULL;
}

const struct spot_bamboo_price *spot_bamboo_price_of(enum spot_peer_model model)
{
    return &bamboo_price[model];
}

int spot_peer_model_parse(const char *name, enum spot_peer_model *model, struct spot_err *err)
{
    static const char *const names[] = { [SPOT_PEER_PUBLISHED] = "published",
                                         [SPOT_PEER_GENEROUS] = "generous",
                                         [SPOT_PEER_AS_MEASURED] = "as-measured" };

    for (int i = 0; i < 3; i++)
        if (!strcmp(name, names[i])) {
            *model = (enum spot_peer_model)i;
            return 0;
        }
    return spot_err_set(err, SPOT_EUSAGE,
                        "--peer-model: expected published, generous or as-measured, got '%.32s'",
                        name);
}
