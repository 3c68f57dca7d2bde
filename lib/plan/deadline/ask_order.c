/* SPDX-License-Identifier: MIT */
#include "plan/ask_order.h"

/* The index of a place whose request costs ask_usd: the cost of the alternative at which a request
 * breaks even. */
static double index_of(const struct spot_ask *ask, double ask_usd)
{
    return ask->usd + ask_usd / ask->granted;
}

size_t spot_ask_order(struct spot_ask *ask, size_t n, double ask_usd, double else_usd, double *usd)
{
    size_t worth = 0;

    for (size_t i = 1; i < n; i++) {
        const struct spot_ask moved = ask[i];
        size_t j = i;

        for (; j && index_of(&ask[j - 1], ask_usd) > index_of(&moved, ask_usd); j--)
            ask[j] = ask[j - 1];
        ask[j] = moved;
    }
    while (worth < n && index_of(&ask[worth], ask_usd) < else_usd)
        worth++;
    *usd = else_usd;
    for (size_t i = worth; i-- > 0;)
        *usd = ask_usd + ask[i].granted * ask[i].usd + (1 - ask[i].granted) * *usd;
    return worth;
}
