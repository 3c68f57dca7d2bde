/* SPDX-License-Identifier: MIT */
/* ask_order.h - in which order to ask places for an instance, and when to ask no more.
 *
 * A place grants a request with a probability, and is then worth a cost in all; a request that is
 * refused costs ask_usd and nothing else. Answers are independent. The order of least expected cost
 * is by usd + ask_usd / granted, up to what not asking any more costs (Weitzman 1979, Optimal
 * search for the best alternative); who is granted asks no further, as no place behind is worth it.
 */
#ifndef SPOT_PLAN_ASK_ORDER_H
#define SPOT_PLAN_ASK_ORDER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_ask {
    size_t place;
    double granted; /* probability, above 0 */
    double usd;     /* expected cost of all, once it is granted */
};

/* Sort ask [n] into the order. Returns how many are worth asking, those of the front; *usd: what is
 * then expected, else_usd being the cost if all refuse. Stable where two are alike. */
size_t spot_ask_order(struct spot_ask *ask, size_t n, double ask_usd, double else_usd, double *usd);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_ASK_ORDER_H */
