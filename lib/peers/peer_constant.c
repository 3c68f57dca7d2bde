/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/edit_distance.h"
#include "common/num.h"
#include "common/xalloc.h"
#include "peers/peer_model.h"

#define OF_SYSTEM(peer, field)                                                            \
    offsetof(struct spot_peer_prices, system) + (peer) * sizeof(struct spot_peer_price) + \
        offsetof(struct spot_peer_price, field)
#define OF_BAMBOO(field) \
    offsetof(struct spot_peer_prices, bamboo) + offsetof(struct spot_bamboo_price, field)

enum { DAY_S = 86400, FACTOR_MAX = 1000 };

/* What has no effect on a system is not in the list: torchft saves no checkpoints. */
const struct spot_peer_constant spot_peer_constants[] = {
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

double spot_peer_constant_value(const struct spot_peer_constant *constant,
                                const struct spot_peer_prices *prices)
{
    double value;

    memcpy(&value, (const char *)prices + constant->offset, sizeof(value));
    return value;
}

static const struct spot_peer_constant *find(const char *name, const char **nearest)
{
    size_t least = 4;

    *nearest = NULL;
    for (const struct spot_peer_constant *c = spot_peer_constants; c->name; c++) {
        const size_t distance = spot_edit_distance(name, c->name);

        if (!distance)
            return c;
        if (distance < least) {
            least = distance;
            *nearest = c->name;
        }
    }
    return NULL;
}

/* 12, or 2x: that many times what it is. */
static int parse_value(const char *text, double now, double *value)
{
    const size_t n = strlen(text);
    const bool is_factor = n > 1 && text[n - 1] == 'x';
    char *number = spot_xstrdup(text);
    int rc;

    if (is_factor)
        number[n - 1] = '\0';
    rc = spot_num_parse(number, value);
    free(number);
    if (!rc && is_factor)
        *value *= now;
    return rc;
}

static int set(struct spot_peer_prices *prices, const char *name, const char *text,
               struct spot_err *err)
{
    const char *nearest;
    const struct spot_peer_constant *c = find(name, &nearest);
    double value;

    if (!c && nearest)
        return spot_err_set(err, SPOT_EUSAGE, "unknown constant '%.32s'; did you mean '%s'?", name,
                            nearest);
    if (!c)
        return spot_err_set(err, SPOT_EUSAGE, "unknown constant '%.32s'; 'list' names all", name);
    if (parse_value(text, spot_peer_constant_value(c, prices), &value))
        return spot_err_set(err, SPOT_EUSAGE,
                            "%s: expected a number or a factor like 2x, got '%.32s'", c->name,
                            text);
    if (!(value >= c->least && value <= c->most))
        return spot_err_set(err, SPOT_EUSAGE, "%s: %g is not within %g to %g", c->name, value,
                            c->least, c->most);
    memcpy((char *)prices + c->offset, &value, sizeof(value));
    return 0;
}

int spot_peer_constant_set(struct spot_peer_prices *prices, const char *text, struct spot_err *err)
{
    const char *equals = strchr(text, '=');
    char *name;
    int rc;

    if (!equals || equals == text)
        return spot_err_set(err, SPOT_EUSAGE, "expected NAME=VALUE, got '%.64s'", text);
    name = spot_xstrdup(text);
    name[equals - text] = '\0';
    rc = set(prices, name, equals + 1, err);
    free(name);
    return rc;
}
