/* SPDX-License-Identifier: MIT */
/* ask_order.h - the order in which to request spot from several places, and when to stop. A place
 * grants a request with a probability; answers are independent. Each request costs ask_usd.
 *
 * The total cost of a step depends on what is available: that a rare place grants is good news of
 * the market, whatever is held then. So places are compared under the same knowledge. The next
 * place to ask is the one that would be the best if all that are left granted, with ask_usd /
 * granted added (Weitzman 1979, Optimal search for the best alternative: exact if the cost of
 * holding a place does not depend on the others). Places are left out of that order as long as the
 * expected cost becomes less, summed over all answers. After a grant no further place is asked.
 */
#ifndef SPOT_PLAN_ASK_ORDER_H
#define SPOT_PLAN_ASK_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "plan/deadline.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_ask_question {
    size_t n_place;
    const double *granted; /* [n_place] probability of spot now; 0 and 1 need no request */
    double ask_usd;
    /* step_usd [n_place], as of spot_deadline_weigh */
    void (*weigh)(const void *market, const bool *has_spot, double (*step_usd)[3]);
    const void *market;
};

struct spot_ask {
    size_t place;
    double granted; /* probability, above 0 and below 1 */
    double usd;     /* expected total cost if those before it refuse and it grants */
};

struct spot_ask_answer {
    struct spot_ask ask[SPOT_MARKET_PLACES_MAX];
    size_t n;
    struct spot_market_step otherwise; /* the step if they refuse */
    double usd;                        /* expected total cost, including requests */
    /* the same of each step if all of ask[] refuse; of a place on request if it grants: if those
     * before it refuse, or if it is not in ask[] all of them */
    double step_usd[SPOT_MARKET_PLACES_MAX][3];
    /* the same before any answer, if this place alone is asked */
    double first_usd[SPOT_MARKET_PLACES_MAX][3];
};

/* Cost: 2^n calls of weigh, where n places need a request, and n^2 passes over their results. */
void spot_ask_order(const struct spot_ask_question *question, struct spot_ask_answer *answer);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_ASK_ORDER_H */
