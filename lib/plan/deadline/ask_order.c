/* SPDX-License-Identifier: MIT */
#include "plan/ask_order.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

static bool is_asked(const struct spot_ask_question *q, size_t place)
{
    return q->granted[place] > 0 && q->granted[place] < 1;
}

/* Fill in ask[] in the order of asking; returns their number. */
static size_t sort(const struct spot_ask_question *q, struct spot_ask *ask)
{
    double step_usd[SPOT_MARKET_PLACES_MAX][3];
    bool has_spot[SPOT_MARKET_PLACES_MAX];
    size_t n = 0;

    for (size_t k = 0; k < q->n_place; k++)
        has_spot[k] = q->granted[k] > 0;
    for (;;) {
        struct spot_ask best = { q->n_place, 0, INFINITY };

        q->weigh(q->market, has_spot, step_usd);
        for (size_t k = 0; k < q->n_place; k++) {
            const double usd = step_usd[k][SPOT_DEADLINE_SPOT] + q->ask_usd / q->granted[k];

            if (is_asked(q, k) && has_spot[k] &&
                (usd < best.usd || (usd <= best.usd && q->granted[k] > best.granted)))
                best = (struct spot_ask){ k, q->granted[k], usd };
        }
        if (isinf(best.usd))
            return n;
        ask[n++] = best;
        has_spot[best.place] = false;
    }
}

/* Every answer of the places that can be asked: bit i of a set is a grant of ask[i]. */
struct answers {
    struct spot_ask ask[SPOT_MARKET_PLACES_MAX];
    size_t n;
    double *prob;                             /* [2^n] */
    double (*usd)[SPOT_MARKET_PLACES_MAX][3]; /* [2^n] cost of each step then */
};

static void take_answers(const struct spot_ask_question *q, struct answers *x)
{
    const size_t n_set = (size_t)1 << x->n;

    x->prob = spot_xcalloc(n_set, sizeof(*x->prob));
    x->usd = spot_xcalloc(n_set, sizeof(*x->usd));
    for (size_t set = 0; set < n_set; set++) {
        bool has_spot[SPOT_MARKET_PLACES_MAX];

        for (size_t k = 0; k < q->n_place; k++)
            has_spot[k] = q->granted[k] >= 1;
        x->prob[set] = 1;
        for (size_t i = 0; i < x->n; i++) {
            has_spot[x->ask[i].place] = set >> i & 1;
            x->prob[set] *= set >> i & 1 ? x->ask[i].granted : 1 - x->ask[i].granted;
        }
        q->weigh(q->market, has_spot, x->usd[set]);
    }
}

/* Places to ask, as indices of answers.ask, in order. */
struct list {
    size_t at[SPOT_MARKET_PLACES_MAX], n;
};

/* Costs times probabilities, and probabilities: of a grant by each of a list, of its refusal. */
struct sums {
    double grant_usd[SPOT_MARKET_PLACES_MAX], grant[SPOT_MARKET_PLACES_MAX];
    double step_usd[SPOT_MARKET_PLACES_MAX][3], refuse;
    struct spot_market_step least; /* of the steps without a request */
};

static void add_refusal(const struct spot_ask_question *q, double prob, double (*usd)[3],
                        struct sums *sums)
{
    sums->refuse += prob;
    for (size_t k = 0; k < q->n_place; k++)
        for (int mode = 0; mode < 3; mode++)
            sums->step_usd[k][mode] +=
                mode != SPOT_DEADLINE_SPOT || q->granted[k] >= 1 ? prob * usd[k][mode] : INFINITY;
}

/* The expected cost of asking these. */
static double cost_of(const struct spot_ask_question *q, const struct answers *x,
                      const struct list *list, struct sums *sums)
{
    struct spot_market_step *least = &sums->least;
    double usd = 0;

    memset(sums, 0, sizeof(*sums));
    for (size_t set = 0; set >> x->n == 0; set++) {
        const double prob = x->prob[set];
        size_t i = 0;

        while (i < list->n && !(set >> list->at[i] & 1))
            i++;
        usd += prob * q->ask_usd * (double)(i < list->n ? i + 1 : i);
        if (i == list->n) {
            add_refusal(q, prob, x->usd[set], sums);
            continue;
        }
        sums->grant[i] += prob;
        sums->grant_usd[i] += prob * x->usd[set][x->ask[list->at[i]].place][SPOT_DEADLINE_SPOT];
    }
    for (size_t i = 0; i < list->n; i++)
        usd += sums->grant_usd[i];
    for (size_t k = 0; k < q->n_place; k++)
        for (enum spot_deadline_mode mode = SPOT_DEADLINE_IDLE; mode <= SPOT_DEADLINE_ON_DEMAND;
             mode++)
            if (sums->step_usd[k][mode] < sums->step_usd[least->place][least->mode])
                *least = (struct spot_market_step){ mode, k };
    return usd + sums->step_usd[least->place][least->mode];
}

/* Leave out of the list what costs more than it is worth, the worst first. */
static double shorten(const struct spot_ask_question *q, const struct answers *x, struct list *list)
{
    struct sums sums;
    double usd = cost_of(q, x, list, &sums);

    for (;;) {
        struct list best = { .n = SIZE_MAX };

        for (size_t i = 0; i < list->n; i++) {
            struct list less = { .n = list->n - 1 };
            double then;

            for (size_t j = 0; j < less.n; j++)
                less.at[j] = list->at[j + (j >= i)];
            then = cost_of(q, x, &less, &sums);
            if (then < usd) {
                usd = then;
                best = less;
            }
        }
        if (best.n == SIZE_MAX)
            return usd;
        *list = best;
    }
}

/* The cost of a place if it grants when all of the list have refused. */
static double granted_last(const struct answers *x, const struct list *list, size_t at)
{
    double usd = 0, all = 0;
    size_t asked = 0;

    for (size_t i = 0; i < list->n; i++)
        asked |= (size_t)1 << list->at[i];
    for (size_t set = 0; set >> x->n == 0; set++)
        if (!(set & asked) && set >> at & 1) {
            usd += x->prob[set] * x->usd[set][x->ask[at].place][SPOT_DEADLINE_SPOT];
            all += x->prob[set];
        }
    return usd / all;
}

static void fill(const struct spot_ask_question *q, const struct answers *x,
                 const struct list *list, struct spot_ask_answer *answer)
{
    struct sums sums;

    cost_of(q, x, &(struct list){ .n = 0 }, &sums);
    memcpy(answer->first_usd, sums.step_usd, sizeof(sums.step_usd));
    for (size_t i = 0; i < x->n; i++)
        answer->first_usd[x->ask[i].place][SPOT_DEADLINE_SPOT] =
            cost_of(q, x, &(struct list){ { i }, 1 }, &sums);
    cost_of(q, x, list, &sums);
    answer->otherwise = sums.least;
    for (size_t k = 0; k < q->n_place; k++)
        for (int mode = 0; mode < 3; mode++)
            answer->step_usd[k][mode] = sums.step_usd[k][mode] / sums.refuse;
    for (size_t i = 0; i < x->n; i++)
        answer->step_usd[x->ask[i].place][SPOT_DEADLINE_SPOT] = granted_last(x, list, i);
    answer->n = list->n;
    for (size_t i = 0; i < list->n; i++) {
        answer->ask[i] = x->ask[list->at[i]];
        answer->ask[i].usd = sums.grant_usd[i] / sums.grant[i];
        answer->step_usd[answer->ask[i].place][SPOT_DEADLINE_SPOT] = answer->ask[i].usd;
    }
}

void spot_ask_order(const struct spot_ask_question *q, struct spot_ask_answer *answer)
{
    struct answers x = { .n = 0 };
    struct list list;

    memset(answer, 0, sizeof(*answer));
    list.n = x.n = sort(q, x.ask);
    for (size_t i = 0; i < x.n; i++)
        list.at[i] = i;
    take_answers(q, &x);
    answer->usd = shorten(q, &x, &list);
    fill(q, &x, &list, answer);
    free(x.prob);
    free(x.usd);
}
