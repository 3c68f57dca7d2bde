/* SPDX-License-Identifier: MIT */
/* cluster_doc.h - the document spot.cluster/1: the available nodes and the links between them. */
#ifndef SPOT_MODEL_CLUSTER_DOC_H
#define SPOT_MODEL_CLUSTER_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_CLUSTER_NODE_MAX = 16384, SPOT_CLUSTER_EGRESS_MAX = 4096 };

struct spot_cluster_node {
    const char *name, *zone; /* zone "" if not given */
    double out_byte_per_s, in_byte_per_s;
    int64_t slots;     /* positions it can take */
    bool is_leaving;   /* it may send state, but gets no position */
    double deadline_s; /* seconds until it leaves; INFINITY if it stays */
};

/* Price of a byte from zone to zone; pairs that are not listed are free. */
struct spot_cluster_egress {
    const char *from, *to;
    double usd_per_gb;
};

/* docs/schema/cluster.json is made from this. */
extern const struct spot_doc_part spot_cluster_part[];

struct spot_cluster {
    struct spot_json_doc json;
    struct spot_cluster_node *node; /* [n_node], in the order of the document */
    size_t n_node;
    struct spot_cluster_egress *egress; /* [n_egress] */
    size_t n_egress;
    double prefill_tokens_per_s; /* to recompute a lost cache; 0: unknown */
    double rollback_s;           /* work since the last durable checkpoint; 0: unknown */
    double restore_byte_per_s;   /* from durable storage; 0: unknown */
    /* "spread" or NULL: each rank may take any slot; "whole": the ranks of a tensor group share a
     * node, as many as its slots hold. */
    const char *tensor_groups;
    /* "duplex" or NULL: a link sends and receives at the same time; "shared": one or the other. */
    const char *links;
};

/* Returns 0, or -1 with *err (SPOT_EDATA naming the place): a node listed twice, a link rate that
 * is not positive, an unknown word. */
int spot_cluster_load(struct spot_cluster *cluster, const char *path, struct spot_err *err);
int spot_cluster_parse(struct spot_cluster *cluster, const char *text, size_t n_byte,
                       const char *source, struct spot_err *err);
void spot_cluster_release(struct spot_cluster *cluster);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_CLUSTER_DOC_H */
