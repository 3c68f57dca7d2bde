/* SPDX-License-Identifier: MIT */
/* store_answer.h - parses the answers of etcd's JSON gateway.
 *
 * Keys and values are base64, 64-bit integers are strings, and zero values are left out.
 */
#ifndef SPOT_CLUSTER_STORE_ANSWER_H
#define SPOT_CLUSTER_STORE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_ETCD_VALUE_MAX = 4096, /* bytes of a value */
    SPOT_ETCD_ENTRIES_MAX = 2,  /* entries of an answer */
    SPOT_ETCD_TOKEN_MAX = 1024, /* with the NUL; a JWT has a few hundred bytes */
};

/* A key; `created` 0: it does not exist. */
struct spot_etcd_entry {
    int64_t created, changed; /* revisions */
    int64_t lease;            /* 0: none */
    size_t n_byte;
    char value[SPOT_ETCD_VALUE_MAX + 1]; /* with a NUL */
};

struct spot_etcd_answer {
    int64_t revision; /* revision of the store */
    bool is_done;     /* the comparisons of the transaction were true */
    int64_t lease;
    int64_t ttl_s;                   /* 0: the lease has expired */
    char token[SPOT_ETCD_TOKEN_MAX]; /* after authentication by password, else "" */
    size_t n_entry;                  /* ranges in the answer */
    struct spot_etcd_entry entry[SPOT_ETCD_ENTRIES_MAX]; /* at most one key of each */
};

/* Read the answer to a grant, a keepalive, a range, a transaction or an authentication. Returns 0,
 * or -1 with *err (SPOT_EDATA): an error of etcd's in its own words, or not a valid answer. */
int spot_etcd_answer_read(const char *text, size_t n, struct spot_etcd_answer *answer,
                          struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_STORE_ANSWER_H */
