/* SPDX-License-Identifier: MIT */
/* ask_order.h - the order in which to request an instance from several places, and when to stop. A
 * place grants a request with a probability; the total cost is then `usd`. A refused request costs
 * ask_usd. Answers are independent. The order of least expected cost is by usd + ask_usd / granted,
 * up to the cost of giving up (Weitzman 1979, Optimal search for the best alternative). After a
 * grant no further place is worth a request.
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
    double usd;     /* expected total cost once it is granted */
};

/* Sort ask [n] into that order, stably. Returns how many, from the front, are worth a request; *usd
 * gets the expected cost. else_usd: the cost if all refuse. */
size_t spot_ask_order(struct spot_ask *ask, size_t n, double ask_usd, double else_usd, double *usd);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_ASK_ORDER_H */
