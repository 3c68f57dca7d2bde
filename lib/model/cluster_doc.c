/* SPDX-License-Identifier: MIT */
#include "model/cluster_doc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

#define NODE(member) offsetof(struct spot_cluster_node, member)
static const struct spot_field node_field[] = {
    { "node", SPOT_F_STR, NODE(name), NULL, 0, 0, true },
    { "zone", SPOT_F_STR, NODE(zone), NULL, 0, 0, false },
    { "out_byte_per_s", SPOT_F_REAL, NODE(out_byte_per_s), "byte", 1, 1e15, false },
    { "in_byte_per_s", SPOT_F_REAL, NODE(in_byte_per_s), "byte", 1, 1e15, false },
    { "slots", SPOT_F_INT, NODE(slots), "1", 0, 1024, false },
    { "leaving", SPOT_F_BOOL, NODE(is_leaving), NULL, 0, 0, false },
    { "deadline_s", SPOT_F_REAL, NODE(deadline_s), "s", 0, 1e9, false },
    { 0 },
};

static const struct spot_field egress_field[] = {
    { "from", SPOT_F_STR, offsetof(struct spot_cluster_egress, from), NULL, 0, 0, true },
    { "to", SPOT_F_STR, offsetof(struct spot_cluster_egress, to), NULL, 0, 0, true },
    { "usd_per_gb", SPOT_F_REAL, offsetof(struct spot_cluster_egress, usd_per_gb), "usd", 0, 1e6,
      true },
    { 0 },
};

#define HEAD(member) offsetof(struct spot_cluster, member)
static const struct spot_field head_field[] = {
    { "prefill_tokens_per_s", SPOT_F_REAL, HEAD(prefill_tokens_per_s), "1/s", 0, 1e12, false },
    { "rollback_s", SPOT_F_REAL, HEAD(rollback_s), "s", 0, 1e12, false },
    { "restore_byte_per_s", SPOT_F_REAL, HEAD(restore_byte_per_s), "byte", 0, 1e15, false },
    { "tensor_groups", SPOT_F_STR, HEAD(tensor_groups), NULL, 0, 0, false },
    { "links", SPOT_F_STR, HEAD(links), NULL, 0, 0, false },
    { 0 },
};

const struct spot_doc_part spot_cluster_part[] = {
    { "", head_field, true, 0, NULL },
    { "nodes[]", node_field, true, SPOT_CLUSTER_NODE_MAX, NULL },
    { "egress[]", egress_field, false, SPOT_CLUSTER_EGRESS_MAX, NULL },
    { 0 },
};

struct named {
    const char *name;
    size_t index;
};

static int by_name(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    const int order = strcmp(x->name, y->name);

    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static int check_names(const struct spot_cluster *cluster, struct spot_err *err)
{
    struct named *named = spot_xcalloc(cluster->n_node, sizeof *named);
    char at[64];
    int rc = 0;

    for (size_t i = 0; i < cluster->n_node; i++)
        named[i] = (struct named){ cluster->node[i].name, i };
    qsort(named, cluster->n_node, sizeof *named, by_name);
    for (size_t i = 1; i < cluster->n_node && !rc; i++)
        if (!strcmp(named[i - 1].name, named[i].name)) {
            snprintf(at, sizeof at, "/nodes/%zu/node", named[i].index);
            rc = spot_json_fail(&cluster->json, at, err, "'%s' is named twice", named[i].name);
        }
    free(named);
    return rc;
}

static int read_nodes(struct spot_cluster *cluster, struct spot_err *err)
{
    static const struct spot_cluster_node standard = { "", "", 0, 0, 1, false, INFINITY };
    char at[64];

    if (spot_json_rows(&cluster->json, cluster->json.root, "", "nodes",
                       &(struct spot_doc_part){
                           .field = node_field, .required = true, .n_max = SPOT_CLUSTER_NODE_MAX },
                       &standard, sizeof standard, (void **)&cluster->node, &cluster->n_node, err))
        return -1;
    for (size_t i = 0; i < cluster->n_node; i++) {
        struct spot_cluster_node *node = &cluster->node[i];

        snprintf(at, sizeof at, "/nodes/%zu", i);
        if (!*node->name)
            return spot_json_fail(&cluster->json, at, err, "a node without a name");
        if (node->out_byte_per_s <= 0)
            node->out_byte_per_s = node->in_byte_per_s;
        if (node->in_byte_per_s <= 0)
            node->in_byte_per_s = node->out_byte_per_s;
        if (node->in_byte_per_s <= 0)
            return spot_json_fail(&cluster->json, at, err,
                                  "lacks the key 'out_byte_per_s' or 'in_byte_per_s'");
    }
    return check_names(cluster, err);
}

/* A rate must be unknown, or lead to times that can be represented. */
static int check_rate(const struct spot_cluster *cluster, const char *at, double rate,
                      struct spot_err *err)
{
    return rate > 0 && rate < 1e-3
               ? spot_json_fail(&cluster->json, at, err,
                                "%g is neither 0, unknown, nor 0.001 or more", rate)
               : 0;
}

static int check_word(const struct spot_cluster *cluster, const char *at, const char *word,
                      const char *standard, const char *other, struct spot_err *err)
{
    if (!word || !strcmp(word, standard) || !strcmp(word, other))
        return 0;
    return spot_json_fail(&cluster->json, at, err, "expected \"%s\" or \"%s\", got '%.64s'",
                          standard, other, word);
}

static int read_cluster(struct spot_cluster *cluster, struct spot_err *err)
{
    if (spot_json_expect_schema(&cluster->json, "spot.cluster", 1, err) ||
        spot_json_read_fields(&cluster->json, cluster->json.root, "", head_field, cluster, err) ||
        check_rate(cluster, "/prefill_tokens_per_s", cluster->prefill_tokens_per_s, err) ||
        check_rate(cluster, "/restore_byte_per_s", cluster->restore_byte_per_s, err) ||
        check_word(cluster, "/tensor_groups", cluster->tensor_groups, "spread", "whole", err) ||
        check_word(cluster, "/links", cluster->links, "duplex", "shared", err) ||
        read_nodes(cluster, err) ||
        spot_json_rows(
            &cluster->json, cluster->json.root, "", "egress",
            &(struct spot_doc_part){
                .field = egress_field, .required = false, .n_max = SPOT_CLUSTER_EGRESS_MAX },
            NULL, sizeof *cluster->egress, (void **)&cluster->egress, &cluster->n_egress, err)) {
        spot_cluster_release(cluster);
        return -1;
    }
    return 0;
}

int spot_cluster_load(struct spot_cluster *cluster, const char *path, struct spot_err *err)
{
    memset(cluster, 0, sizeof *cluster);
    return spot_json_load_path(&cluster->json, path, err) ? -1 : read_cluster(cluster, err);
}

int spot_cluster_parse(struct spot_cluster *cluster, const char *text, size_t n_byte,
                       const char *source, struct spot_err *err)
{
    memset(cluster, 0, sizeof *cluster);
    return spot_json_parse(&cluster->json, text, n_byte, source, err) ? -1
                                                                      : read_cluster(cluster, err);
}

void spot_cluster_release(struct spot_cluster *cluster)
{
    spot_json_release(&cluster->json);
    free(cluster->node);
    free(cluster->egress);
    memset(cluster, 0, sizeof *cluster);
}
