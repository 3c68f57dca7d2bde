/* SPDX-License-Identifier: MIT */
/* pipe.h - the twin's sends and receives between the ranks of a communicator. */
#ifndef SPOT_TWIN_PIPE_H
#define SPOT_TWIN_PIPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "nccl.h"

enum { TWIN_RANKS_MAX = 64, TWIN_CREDITS_MAX = 1024 };

struct twin_op {
    bool is_send;
    int peer;
    unsigned char *data;
    size_t n_byte;
};

struct twin_record {
    uint64_t is_data, n_byte; /* else: a receive of n_byte is posted */
};

/* One connection. */
struct twin_peer {
    int fd;
    uint64_t credit[TWIN_CREDITS_MAX]; /* receives it has posted, not yet sent to */
    size_t n_credit;
    struct twin_record in;
    size_t in_at;           /* bytes read of `in` and of what follows it */
    struct twin_record out; /* being written */
    const unsigned char *out_data;
    size_t out_at, out_end;        /* bytes of `out` and what follows it */
    size_t posted, sent, received; /* operations of this batch that are announced, sent, here */
};

struct twin_pipe {
    int n, rank;
    uint64_t key; /* of the communicator */
    int listener;
    struct twin_peer *peer; /* [n] */
    atomic_bool stop;
};

/* Connect to all. ncclInProgress when stopped. */
ncclResult_t twin_pipe_connect(struct twin_pipe *pipe);
void twin_pipe_close(struct twin_pipe *pipe);

/* Do all of these at once. ncclInProgress when stopped. */
ncclResult_t twin_pipe_run(struct twin_pipe *pipe, const struct twin_op *op, size_t n);

long twin_setting(const char *name, long otherwise);

#endif /* SPOT_TWIN_PIPE_H */
