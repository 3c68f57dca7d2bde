/* SPDX-License-Identifier: MIT */
/* Goal: the published strategies cost what they did; ours never pays for a move that does not pay.
 * Oracles: the published means on the published history (shared reference data where it is there);
 * bills written by hand. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "peers/price_sim.h"
#include "suite.h"

#define EVENTS "../shared/data/golden/dispa/aws_spot_events.csv"
#define COSTS  "../shared/data/golden/dispa/single_job_costs_4day.csv"

enum { OFFERS = 64, CHANGES = 8000 };

static struct {
    char zone[OFFERS][32];
    struct spot_price_offer offer[OFFERS];
    struct spot_price_change change[CHANGES];
    struct spot_price_history history;
} g;

static const struct {
    const char *name;
    int64_t gpus;
} types[] = { { "p2.xlarge", 1 },  { "p2.8xlarge", 8 }, { "p2.16xlarge", 16 },
              { "p3.2xlarge", 1 }, { "p3.8xlarge", 4 }, { "p3.16xlarge", 8 } };

/* Seconds from 2019-12-20 on; the history ends in March 2020. */
static double seconds(const char *stamp)
{
    static const int before[] = { 0, 31, 60, 91 }; /* days of 2020 before a month */
    int year, month, day, hour, minute, second;

    ck_assert_int_eq(
        sscanf(stamp, "%d-%d-%dT%d:%d:%d", &year, &month, &day, &hour, &minute, &second), 6);
    day += year == 2019 ? -20 : 11 + before[month - 1];
    return ((day * 24.0 + hour) * 60 + minute) * 60 + second;
}

static int on_event(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    size_t k = 0, rank = 0;
    double usd_per_h;

    (void)user;
    ck_assert(!spot_csv_real(row, 4, 0, 1e3, &usd_per_h, err));
    if (strcmp(row->field[0], "us-east-1") != 0)
        return 0; /* the notebook has one region */
    while (strcmp(types[rank].name, row->field[2]) != 0)
        rank++;
    while (k < g.history.n_offer &&
           (strcmp(g.zone[k], row->field[1]) != 0 || g.offer[k].rank != rank))
        k++;
    if (k == g.history.n_offer) {
        ck_assert(++g.history.n_offer <= OFFERS);
        snprintf(g.zone[k], sizeof(g.zone[k]), "%s", row->field[1]);
        g.offer[k] =
            (struct spot_price_offer){ g.zone[k], types[rank].name, rank, types[rank].gpus, 1, 0 };
    }
    ck_assert(g.history.n_change < CHANGES);
    g.change[g.history.n_change++] =
        (struct spot_price_change){ seconds(row->field[3]), usd_per_h, k };
    return 0;
}

static int earlier(const void *a, const void *b)
{
    const struct spot_price_change *x = a, *y = b;

    if (x->time_s != y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    return strcmp(g.zone[y->offer],
                  g.zone[x->offer]); /* of a second's changes the first zone wins */
}

static int on_cost(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    static const char *const strategy[] = { "baseline", "gpu_type", "packed" };
    /* a K80 to a V100, by what A3C was billed for 0.27 usd/h; the others' is not in the bill */
    const double k80 = strcmp(row->field[0], "A3C") != 0 ? 0.14 : 25.92 / 55.7319;
    double mean, sum = 0;
    int64_t day[128];
    size_t n;

    ck_assert(!spot_csv_real(row, 2, 0, 1e4, &mean, err));
    for (int p = 0; p < 3; p++) {
        if (strcmp(row->field[1], strategy[p]) != 0)
            continue;
        ++*(int *)user;
        for (size_t k = 0; k < g.history.n_offer; k++)
            g.offer[k].speed = g.offer[k].type[1] == '2' ? k80 : 1;
        n = spot_price_days(&g.history, day, 128);
        ck_assert_uint_gt(n, 40);
        for (size_t i = n - 35; i < n - 5; i++) {
            const struct spot_price_job job = { .work_h = 96, .start_day = day[i] };
            struct spot_price_result r;

            ck_assert(!spot_price_play(&g.history, &job, (enum spot_price_policy)p, &r, err));
            sum += r.usd / 30;
        }
        ck_assert_msg(fabs(sum - mean) < 0.02, "%s %s: %.4f, published %.4f", row->field[0],
                      row->field[1], sum, mean);
    }
    return 0;
}

START_TEST(published_strategies_cost_what_they_did)
{
    static const char *const event[] = { "region", "zone", "instance_type", "timestamp", "usd_h" };
    static const char *const cost[] = { "model", "strategy", "mean_usd" };
    struct spot_err err;
    FILE *in = fopen(EVENTS, "r");
    int n = 0;

    if (!in)
        return;
    ck_assert_msg(!spot_csv_read(in, EVENTS, event, 5, on_event, NULL, NULL, &err), "%s", err.msg);
    fclose(in);
    qsort(g.change, g.history.n_change, sizeof(*g.change), earlier);
    g.history.offer = g.offer;
    g.history.change = g.change;
    in = fopen(COSTS, "r");
    ck_assert_ptr_nonnull(in);
    ck_assert_msg(!spot_csv_read(in, COSTS, cost, 3, on_cost, &n, NULL, &err), "%s", err.msg);
    fclose(in);
    ck_assert_int_eq(n, 12);
}
END_TEST

/* Two regions: a at 1 usd/h, b at 2 until the second day, then `later`. */
static struct spot_price_result play(enum spot_price_policy policy, double later,
                                     struct spot_price_job job)
{
    static const struct spot_price_offer offer[] = { { "a", "t", 0, 1, 1, 0 },
                                                     { "b", "t", 0, 1, 1, 1 } };
    const struct spot_price_change change[] = {
        { 0, 1, 0 }, { 0, 2, 1 }, { 86400, later, 1 }, { 86400, 1, 0 }, { 10 * 86400, 1, 0 }
    };
    const struct spot_price_history h = { offer, change, 2, 5 };
    struct spot_price_result r;
    struct spot_err err;

    ck_assert(!spot_price_play(&h, &job, policy, &r, &err));
    return r;
}

START_TEST(bills_by_hand)
{
    const struct spot_price_job plain = { .work_h = 48 };
    const struct spot_price_job priced = { .work_h = 48, .restart_h = 1, .egress_usd = 3 };
    const struct spot_price_job lossy = { .work_h = 48, .restart_h = 1, .loss_per_h = 0.1 };

    ck_assert_double_eq_tol(play(SPOT_PRICE_STAY, 0.5, plain).usd, 48, 1e-9);
    ck_assert_double_eq_tol(play(SPOT_PRICE_CHASE, 0.5, plain).usd, 24 + 12, 1e-9);
    ck_assert_double_eq_tol(play(SPOT_PRICE_DYNAMIC, 0.5, plain).usd, 24 + 12, 1e-9);
    ck_assert_int_eq(play(SPOT_PRICE_SPOT, 0.5, plain).moves, 1);
    /* an hour to start at 1, 23 h of work; then egress, an hour and 25 h of work at .5 */
    ck_assert_double_eq_tol(play(SPOT_PRICE_SPOT, 0.5, priced).usd, 24 + 3 + 26 * 0.5, 1e-9);
    ck_assert_double_eq_tol(play(SPOT_PRICE_CHASE, 0.9, priced).usd, 24 + 3 + 26 * 0.9, 1e-9);
    /* 25 h at 1 are less than that: the move does not pay */
    ck_assert_double_eq_tol(play(SPOT_PRICE_SPOT, 0.9, priced).usd, 49, 1e-9);
    ck_assert_int_eq(play(SPOT_PRICE_SPOT, 0.9, priced).moves, 0);
    /* each tenth of an hour of computing an hour is lost: 1.1 h an hour */
    ck_assert_double_eq_tol(play(SPOT_PRICE_STAY, 2, lossy).usd, 1 + 48 * 1.1, 1e-9);
}
END_TEST

int main(void)
{
    return run_suite("price_sim", add_tests(tcase_create("price_sim")));
}
