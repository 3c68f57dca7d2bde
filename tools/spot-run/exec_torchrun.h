/* SPDX-License-Identifier: MIT */
/* exec_torchrun.h - command lines of torchrun, as spot-run exec understands them. */
#ifndef SPOT_RUN_EXEC_TORCHRUN_H
#define SPOT_RUN_EXEC_TORCHRUN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct exec_torchrun {
    const char *nproc, *endpoint, *master_addr, *id; /* as given; NULL */
    uint64_t master_port, node_rank;                 /* UINT64_MAX: not given */
    bool is_module, no_python;
};

/* "4", "cpu", "gpu" or "auto": so many ranks on this node. 0, or -1 with *err. */
int exec_torchrun_ranks(const struct exec_torchrun *t, uint64_t *n, struct spot_err *err);
/* Python in front of a script or a module. Allocated once. */
char **exec_torchrun_command(const struct exec_torchrun *t, char **operand, size_t n);

enum exec_torchrun_part {
    EXEC_ALONE, /* no endpoint is named */
    EXEC_LEADS, /* it is of this host, and free: where nodes join */
    EXEC_JOINS, /* another process has it, or another host */
};
/* *endpoint gets "HOST:PORT", allocated. The part, or -1 with *err. */
int exec_torchrun_meet(const struct exec_torchrun *t, char **endpoint, struct spot_err *err);
/* Whether it is free now. */
bool exec_torchrun_is_free(const char *endpoint);

#endif /* SPOT_RUN_EXEC_TORCHRUN_H */
