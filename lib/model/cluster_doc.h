/* SPDX-License-Identifier: MIT */
/* cluster_doc.h - the document spot.cluster/1: the nodes there are and the links between them. */
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
    const char *name, *zone; /* zone "" if none is named */
    double out_byte_per_s, in_byte_per_s;
    int64_t slots;     /* positions it can take */
    bool is_leaving;   /* it sends, and takes no position */
    double deadline_s; /* when it is gone, from now; INFINITY if it stays */
};

/* Money for a byte from a zone to a zone; pairs that are not named are free. */
struct spot_cluster_egress {
    const char *from, *to;
    double usd_per_gb;
};

/* What docs/schema/cluster.json is made from. */
extern const struct spot_doc_part spot_cluster_part[];

struct spot_cluster {
    struct spot_json_doc json;
    struct spot_cluster_node *node; /* [n_node], in the order of the document */
    size_t n_node;
    struct spot_cluster_egress *egress; /* [n_egress] */
    size_t n_egress;
    double prefill_tokens_per_s; /* to compute a lost cache again; 0: unknown */
    double rollback_s;           /* work since the last durable checkpoint; 0: unknown */
    double restore_byte_per_s;   /* from durable storage; 0: unknown */
    /* "spread" or NULL: each rank takes any slot; "whole": those of a tensor group share a node, as
     * many as its slots hold. */
    const char *tensor_groups;
    /* "duplex" or NULL: a link sends while it receives; "shared": it does one or the other. */
    const char *links;
};

/* Returns 0, or -1 with *err (SPOT_EDATA naming the place): a node named twice, a link that is not
 * positive, a word that means nothing. */
int spot_cluster_load(struct spot_cluster *cluster, const char *path, struct spot_err *err);
int spot_cluster_parse(struct spot_cluster *cluster, const char *text, size_t n_byte,
                       const char *source, struct spot_err *err);
void spot_cluster_release(struct spot_cluster *cluster);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_MODEL_CLUSTER_DOC_H */
