/* SPDX-License-Identifier: MIT */
/* peer_constant.h - the constants of other systems by name, to change one at a time. */
#ifndef SPOT_TESTS_PEER_CONSTANT_H
#define SPOT_TESTS_PEER_CONSTANT_H

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "peers/peer_model.h"

struct peer_constant {
    const char *name, *unit; /* seconds if unit is "s", else a number */
    size_t offset;           /* of a double in struct spot_peer_prices */
    double least, most;      /* both inclusive */
};

#define OF_SYSTEM(peer, field)                                                            \
    offsetof(struct spot_peer_prices, system) + (peer) * sizeof(struct spot_peer_price) + \
        offsetof(struct spot_peer_price, field)
#define OF_BAMBOO(field) \
    offsetof(struct spot_peer_prices, bamboo) + offsetof(struct spot_bamboo_price, field)

enum { DAY_S = 86400, FACTOR_MAX = 1000 };

/* What has no effect on a system is not in the list: torchft saves no checkpoints. */
static const struct peer_constant peer_constants[] = {
    { "torchrun.loss-wait", "s", OF_SYSTEM(SPOT_PEER_TORCHRUN, loss_wait_s), 0, DAY_S },
    { "torchrun.gain-wait", "s", OF_SYSTEM(SPOT_PEER_TORCHRUN, gain_wait_s), 0, DAY_S },
    { "torchrun.restart", "times", OF_SYSTEM(SPOT_PEER_TORCHRUN, restart), 0, FACTOR_MAX },
    { "torchrun.transfer", "times", OF_SYSTEM(SPOT_PEER_TORCHRUN, transfer), 0, FACTOR_MAX },
    { "torchrun.period", "times", OF_SYSTEM(SPOT_PEER_TORCHRUN, period), 0.01, FACTOR_MAX },
    { "varuna.loss-wait", "s", OF_SYSTEM(SPOT_PEER_VARUNA, loss_wait_s), 0, DAY_S },
    { "varuna.kill", "s", OF_SYSTEM(SPOT_PEER_VARUNA, kill_s), 0, DAY_S },
    { "varuna.restart", "times", OF_SYSTEM(SPOT_PEER_VARUNA, restart), 0, FACTOR_MAX },
    { "varuna.transfer", "times", OF_SYSTEM(SPOT_PEER_VARUNA, transfer), 0, FACTOR_MAX },
    { "varuna.period", "times", OF_SYSTEM(SPOT_PEER_VARUNA, period), 0.01, FACTOR_MAX },
    { "bamboo.redundant", "share", OF_BAMBOO(redundant), 0, 10 },
    { "bamboo.stages", "times", OF_BAMBOO(stages), 1, 64 },
    { "bamboo.boot", "s", OF_BAMBOO(boot_s), 0, DAY_S },
    { "bamboo.local", "s", OF_BAMBOO(local_s), 0, DAY_S },
    { "bamboo.global", "s", OF_BAMBOO(global_s), 0, DAY_S },
    { "bamboo.transfer", "times", OF_BAMBOO(transfer), 0, FACTOR_MAX },
    { "bamboo.period", "times", OF_BAMBOO(period), 0.01, FACTOR_MAX },
    { "oobleck.loss-wait", "s", OF_SYSTEM(SPOT_PEER_OOBLECK, loss_wait_s), 0, DAY_S },
    { "oobleck.gain-wait", "s", OF_SYSTEM(SPOT_PEER_OOBLECK, gain_wait_s), 0, DAY_S },
    { "oobleck.restart", "times", OF_SYSTEM(SPOT_PEER_OOBLECK, restart), 0, FACTOR_MAX },
    { "oobleck.transfer", "times", OF_SYSTEM(SPOT_PEER_OOBLECK, transfer), 0, FACTOR_MAX },
    { "torchft.loss-wait", "s", OF_SYSTEM(SPOT_PEER_TORCHFT, loss_wait_s), 0, DAY_S },
    { "torchft.restart", "times", OF_SYSTEM(SPOT_PEER_TORCHFT, restart), 0, FACTOR_MAX },
    { "torchft.transfer", "times", OF_SYSTEM(SPOT_PEER_TORCHFT, transfer), 0, FACTOR_MAX },
    { NULL, NULL, 0, 0, 0 },
};

static inline double peer_constant_value(const struct peer_constant *c,
                                         const struct spot_peer_prices *prices)
{
    double value;

    memcpy(&value, (const char *)prices + c->offset, sizeof(value));
    return value;
}

/* NAME=VALUE, or NAME=Kx for K times the value in *prices. Returns 0; -1 for another name or a
 * value out of range: *prices is unchanged. */
static inline int peer_constant_set(struct spot_peer_prices *prices, const char *text)
{
    const size_t n = strcspn(text, "=");
    const struct peer_constant *c = peer_constants;
    double value;
    char *end;

    while (c->name && (strlen(c->name) != n || strncmp(c->name, text, n) != 0))
        c++;
    if (!c->name || !text[n])
        return -1;
    value = strtod(text + n + 1, &end);
    if (*end == 'x')
        value *= peer_constant_value(c, prices);
    if (end == text + n + 1 || end[*end == 'x'] || !(value >= c->least && value <= c->most))
        return -1;
    memcpy((char *)prices + c->offset, &value, sizeof(value));
    return 0;
}

#endif /* SPOT_TESTS_PEER_CONSTANT_H */
