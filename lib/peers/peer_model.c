/* SPDX-License-Identifier: MIT */
#include "peers/peer_model.h"

#include <string.h>

/* How a property is known. "code": read in the released source; "paper": from the publication;
 * "doc": documented default. */
#define AS_THE_JOB .restart = 1, .transfer = 1, .period = 1

static const struct spot_peer_prices published = {
    .system = {
        [SPOT_PEER_TORCHRUN] = {
            15, 30, 0, SPOT_PEER_STAGE_LINKS, AS_THE_JOB, .joins = true,
            .source = "doc: three keepalives of 5 s, last call 30 s",
        },
        [SPOT_PEER_VARUNA] = {
            120, 0, 5, SPOT_PEER_SHARD_LINKS, AS_THE_JOB, .joins = true,
            .source = "paper: checkpoints sharded over replicas; "
                      "code: sleeps 120 s after one for a loss",
        },
        [SPOT_PEER_OOBLECK] = {
            1, 0, 0, SPOT_PEER_STAGE_LINKS, AS_THE_JOB, .joins = true,
            .source = "paper: templates for any number of nodes; code: TCP reset within 1 s",
        },
        [SPOT_PEER_TORCHFT] = {
            60, 0, 0, SPOT_PEER_STAGE_LINKS, AS_THE_JOB, .joins = true, .build_apart = true,
            .source = "doc: collective timeout 60 s; a joiner copies, others wait",
        },
    },
    .bamboo = {
        1. / 3, 1.5, 45, 20, 30, SPOT_PEER_STAGE_LINKS, 1, 1,
        "paper: 1.5 times the stages; code: times for GPT-2 and BERT; a forward "
        "computed twice, none of it in a bubble",
    },
};

static const struct spot_peer_prices generous = {
    .system = {
        [SPOT_PEER_TORCHRUN] = {
            5, 0, 0, SPOT_PEER_SHARD_LINKS, AS_THE_JOB, .joins = true,
            .source = "one keep-alive, last call 0; sharded checkpoints",
        },
        [SPOT_PEER_VARUNA] = {
            0, 0, 0, SPOT_PEER_SHARD_LINKS, AS_THE_JOB, .joins = true,
            .source = "the same without its sleep and its kill",
        },
        [SPOT_PEER_OOBLECK] = {
            0, 0, 0, SPOT_PEER_SHARD_LINKS, AS_THE_JOB, .joins = true, .build_apart = true,
            .source = "newcomers meet and build while the others train",
        },
        [SPOT_PEER_TORCHFT] = {
            5.1, 0, 0, SPOT_PEER_SHARD_LINKS,
            AS_THE_JOB, .joins = true, .build_apart = true, .transfer_apart = true,
            .source = "abort by heartbeats (pull request 196); joiners contribute zeros meanwhile",
        },
    },
    .bamboo = {
        0, 1.5, 45, 5, 5, SPOT_PEER_STAGE_LINKS, 1, 1,
        "the second forward fits the bubble; rendezvous by its last call",
    },
};

static const struct spot_peer_prices as_measured = {
    .system = {
        [SPOT_PEER_TORCHRUN] = {
            15, 30, 0, SPOT_PEER_ONE_LINK, AS_THE_JOB, .joins = true,
            .source = "doc; one rank saves and loads through one link",
        },
        [SPOT_PEER_VARUNA] = {
            120, 0, 5, SPOT_PEER_ONE_LINK, AS_THE_JOB, .joins = true,
            .source = "code, and a checkpoint through one link as in Parcae's stand-in for it",
        },
        [SPOT_PEER_OOBLECK] = {
            1, 0, 0, SPOT_PEER_ONE_LINK, AS_THE_JOB, .joins = false,
            .source = "code of September 2023: new nodes are not added",
        },
        [SPOT_PEER_TORCHFT] = {
            60, 0, 0, SPOT_PEER_ONE_LINK, AS_THE_JOB, .joins = true,
            .source = "doc; every change of the quorum meets and builds anew",
        },
    },
    .bamboo = {
        1. / 3, 1.5, 45, 20, 30, SPOT_PEER_ONE_LINK, 1, 1,
        "as published",
    },
};

const struct spot_peer_prices *spot_peer_prices_of(enum spot_peer_model model)
{
    switch (model) {
    case SPOT_PEER_PUBLISHED:
        return &published;
    case SPOT_PEER_GENEROUS:
        return &generous;
    case SPOT_PEER_AS_MEASURED:
        return &as_measured;
    }
    return NULL;
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
