/* SPDX-License-Identifier: MIT */
/* store_answer.h - what etcd's JSON gateway says, read.
 *
 * Keys and values come in base64, integers of 64 bits as strings, and what is zero is left out.
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
    SPOT_ETCD_ENTRIES_MAX = 2,  /* of an answer */
    SPOT_ETCD_TOKEN_MAX = 1024, /* with the NUL; a JWT is some hundred bytes */
};

/* A key that is there; `created` 0: it is not. */
struct spot_etcd_entry {
    int64_t created, changed; /* revisions */
    int64_t lease;            /* 0: none */
    size_t n_byte;
    char value[SPOT_ETCD_VALUE_MAX + 1]; /* and a NUL */
};

struct spot_etcd_answer {
    int64_t revision; /* of the store */
    bool is_done;     /* a transaction whose comparisons held */
    int64_t lease;
    int64_t ttl_s;                                       /* 0: the lease is over */
    char token[SPOT_ETCD_TOKEN_MAX];                     /* of who has shown a password, else "" */
    size_t n_entry;                                      /* ranges that were answered */
    struct spot_etcd_entry entry[SPOT_ETCD_ENTRIES_MAX]; /* at most one key of each */
};

/* Of a grant, a keepalive, a range, a transaction or an authentication. Returns 0, or -1 with *err
 * (SPOT_EDATA): an error of etcd's in its own words, or an answer that is none. */
int spot_etcd_answer_read(const char *text, size_t n, struct spot_etcd_answer *answer,
                          struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLUSTER_STORE_ANSWER_H */
