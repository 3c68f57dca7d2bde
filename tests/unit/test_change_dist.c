/* SPDX-License-Identifier: MIT */
/* Goal: zones add up exactly. Oracle: every combination of the zones' outcomes, one by one. */
#include "plan/change_dist.h"

#include <math.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "model/forecast_doc.h"
#include "suite.h"

enum { ZONES = 3, STEPS = 2, CAP = 5, CHANGES = 4 };

/* A forecast of ZONES zones with random distributions. */
struct rig {
    struct spot_forecast forecast;
    struct spot_forecast_series series[ZONES];
    double prob[ZONES][STEPS * (CAP + 1)];
    struct spot_forecast_change change[ZONES][CHANGES];
};

static void make(struct rig *r, uint64_t seed)
{
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 0);
    memset(r, 0, sizeof(*r));
    r->forecast = (struct spot_forecast){
        .interval_s = 60, .horizon = STEPS, .series = r->series, .n_series = ZONES
    };
    for (int z = 0; z < ZONES; z++) {
        double sum = 0;

        for (int h = 0; h < STEPS; h++) {
            double all = 0;

            for (int n = 0; n <= CAP; n++)
                all += r->prob[z][h * (CAP + 1) + n] = spot_rng_unit(&rng);
            for (int n = 0; n <= CAP; n++)
                r->prob[z][h * (CAP + 1) + n] /= all;
        }
        for (int k = 0; k < CHANGES; k++) {
            r->change[z][k].lost = k % 2 ? k : 0;
            r->change[z][k].gained = k % 2 ? 0 : k;
            sum += r->change[z][k].prob = 0.1 + spot_rng_unit(&rng);
        }
        for (int k = 0; k < CHANGES; k++)
            r->change[z][k].prob /= sum;
        r->series[z] = (struct spot_forecast_series){ .zone = "",
                                                      .instance_type = "",
                                                      .now = 3,
                                                      .cap = CAP,
                                                      .prob = r->prob[z],
                                                      .change = r->change[z],
                                                      .n_change = CHANGES };
    }
}

static double prob_of(const struct spot_change_dist *dist, int lost, int gained)
{
    for (size_t i = 0; i < dist->n_change; i++)
        if (dist->change[i].lost == lost && dist->change[i].gained == gained)
            return dist->change[i].prob;
    return 0;
}

START_TEST(zones_add_up_as_all_their_combinations)
{
    struct spot_change_dist dist;
    struct spot_err err = { 0 };
    double cell[16][16] = { { 0 } }, count[STEPS][ZONES * CAP + 1] = { { 0 } };
    struct rig r;

    make(&r, (uint64_t)_i);
    ck_assert_msg(!spot_change_dist_init(&dist, &r.forecast, -1, &err), "%s", err.msg);
    ck_assert_int_eq(dist.now, 9);
    ck_assert_int_eq(dist.cap, ZONES * CAP);
    for (int a = 0; a < CHANGES; a++)
        for (int b = 0; b < CHANGES; b++)
            for (int c = 0; c < CHANGES; c++) {
                const struct spot_forecast_change *x = &r.change[0][a], *y = &r.change[1][b],
                                                  *z = &r.change[2][c];

                cell[x->lost + y->lost + z->lost][x->gained + y->gained + z->gained] +=
                    x->prob * y->prob * z->prob;
            }
    for (int lost = 0; lost < 16; lost++)
        for (int gained = 0; gained < 16; gained++)
            ck_assert_double_le(fabs(prob_of(&dist, lost, gained) - cell[lost][gained]), 1e-9);
    for (int h = 0; h < STEPS; h++)
        for (int a = 0; a <= CAP; a++)
            for (int b = 0; b <= CAP; b++)
                for (int c = 0; c <= CAP; c++)
                    count[h][a + b + c] += r.prob[0][h * (CAP + 1) + a] *
                                           r.prob[1][h * (CAP + 1) + b] *
                                           r.prob[2][h * (CAP + 1) + c];
    for (int h = 0; h < STEPS; h++)
        for (int n = 0; n <= ZONES * CAP; n++)
            ck_assert_double_le(fabs(dist.count[h * (ZONES * CAP + 1) + n] - count[h][n]), 1e-12);
    spot_change_dist_release(&dist);
}
END_TEST

/* Zones 0 and 1 share a region; zone 2 is elsewhere. */
static void join_two(struct rig *r, struct spot_forecast_region *region, double prob, double lift)
{
    *region = (struct spot_forecast_region){ .region = "eu-1",
                                             .instance_type = "g",
                                             .zones = 2,
                                             .shock_prob = prob,
                                             .loss_lift = lift,
                                             .calm_lift = (1 - prob * lift) / (1 - prob) };
    for (int z = 0; z < ZONES; z++) {
        r->series[z].zone = z == 0 ? "eu-1a" : z == 1 ? "eu-1b" : "us-1a";
        r->series[z].instance_type = "g";
    }
    r->forecast.region = region;
    r->forecast.n_region = 1;
}

static double loss_of(const struct rig *r, int zone)
{
    double sum = 0;

    for (int k = 0; k < CHANGES; k++)
        sum += r->change[zone][k].lost ? r->change[zone][k].prob : 0;
    return sum;
}

/* A cell of a zone with or without a shock; no loss is likelier than sure. */
static double given(const struct rig *r, int zone, int k, bool is_shock)
{
    const struct spot_forecast_region *g = r->forecast.region;
    const double loss = loss_of(r, zone);
    const double shocked = fmin(1, g->loss_lift * loss);
    const double calm = (loss - g->shock_prob * shocked) / (1 - g->shock_prob);
    const double now = zone == 2 ? loss : is_shock ? shocked : calm;

    return r->change[zone][k].prob *
           (r->change[zone][k].lost ? now / loss : (1 - now) / (1 - loss));
}

START_TEST(zones_of_a_region_lose_together)
{
    static const double lift[] = { 1, 1.4, 9 };
    const double prob = 0.1;
    struct spot_forecast_region region;
    struct spot_change_dist dist;
    struct spot_err err = { 0 };
    double cell[16][16] = { { 0 } }, mean = 0, own = 0;
    struct rig r;

    make(&r, (uint64_t)_i);
    join_two(&r, &region, prob, lift[_i % 3]);
    ck_assert_msg(!spot_change_dist_init(&dist, &r.forecast, -1, &err), "%s", err.msg);
    for (int s = 0; s < 2; s++)
        for (int a = 0; a < CHANGES; a++)
            for (int b = 0; b < CHANGES; b++)
                for (int c = 0; c < CHANGES; c++)
                    cell[r.change[0][a].lost + r.change[1][b].lost + r.change[2][c].lost]
                        [r.change[0][a].gained + r.change[1][b].gained + r.change[2][c].gained] +=
                        (s ? prob : 1 - prob) * given(&r, 0, a, s) * given(&r, 1, b, s) *
                        given(&r, 2, c, s);
    for (int lost = 0; lost < 16; lost++)
        for (int gained = 0; gained < 16; gained++)
            ck_assert_double_le(fabs(prob_of(&dist, lost, gained) - cell[lost][gained]), 1e-8);
    for (int n = 0; n <= dist.cap; n++) { /* and so does the count after it */
        double sum = 0;

        for (int lost = 0; lost < 16; lost++)
            if (n - dist.now + lost >= 0 && n - dist.now + lost < 16)
                sum += cell[lost][n - dist.now + lost];
        ck_assert_double_le(fabs(dist.count[n] - sum), 1e-7);
    }
    for (size_t i = 0; i < dist.n_change; i++)
        mean += dist.change[i].prob * dist.change[i].lost;
    for (int z = 0; z < ZONES; z++)
        for (int k = 0; k < CHANGES; k++)
            own += r.change[z][k].prob * r.change[z][k].lost;
    ck_assert_double_le(fabs(mean - own),
                        1e-7); /* each zone loses what its own distribution says */
    spot_change_dist_release(&dist);
}
END_TEST

START_TEST(a_newer_count_moves_the_distribution_and_keeps_its_sum)
{
    for (int now = 0; now <= 30; now++) {
        struct spot_change_dist dist;
        struct spot_err err = { 0 };
        double sum = 0;
        struct rig r;

        make(&r, 5);
        ck_assert(!spot_change_dist_init(&dist, &r.forecast, now, &err));
        ck_assert_int_eq(dist.now, now);
        ck_assert_int_ge(dist.cap, now);
        for (size_t i = 0; i < dist.n_change; i++) {
            const struct spot_change *c = &dist.change[i];

            ck_assert(c->lost <= now && now - c->lost + c->gained <= dist.cap && c->prob > 0);
            if (i) /* sorted, each once */
                ck_assert(c->lost > c[-1].lost ||
                          (c->lost == c[-1].lost && c->gained > c[-1].gained));
            sum += c->prob;
        }
        ck_assert_double_le(fabs(sum - 1), 1e-12);
        for (int h = 0; h < STEPS; h++) {
            sum = 0;
            for (int n = 0; n <= dist.cap; n++)
                sum += dist.count[h * (dist.cap + 1) + n];
            ck_assert_double_le(fabs(sum - 1), 1e-12);
        }
        spot_change_dist_release(&dist);
    }
}
END_TEST

START_TEST(nothing_changes_without_a_forecast)
{
    struct spot_change_dist dist;

    spot_change_dist_still(&dist, 7, 60, 3);
    ck_assert_double_eq(prob_of(&dist, 0, 0), 1);
    ck_assert_uint_eq(dist.n_change, 1);
    for (int h = 0; h < 3; h++)
        ck_assert_double_eq(dist.count[h * 8 + 7], 1);
    spot_change_dist_release(&dist);
}
END_TEST

START_TEST(a_forecast_without_series_is_refused)
{
    struct spot_change_dist dist;
    struct spot_err err = { 0 };
    struct rig r;

    make(&r, 1);
    r.forecast.n_series = 0;
    ck_assert_int_eq(spot_change_dist_init(&dist, &r.forecast, -1, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
}
END_TEST

START_TEST(a_forecast_without_a_joint_distribution_is_refused)
{
    struct spot_change_dist dist;
    struct spot_err err = { 0 };
    struct rig r;

    make(&r, 1);
    r.series[1].n_change = 0;
    ck_assert_int_eq(spot_change_dist_init(&dist, &r.forecast, -1, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "change"));
}
END_TEST

START_TEST(more_instances_than_can_be_planned_are_refused)
{
    struct spot_change_dist dist;
    struct spot_err err = { 0 };
    struct rig r;

    make(&r, 1);
    r.series[2].cap = SPOT_CHANGE_COUNT_MAX;
    ck_assert_int_eq(spot_change_dist_init(&dist, &r.forecast, -1, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, zones_add_up_as_all_their_combinations, 0, 5);
    tcase_add_loop_test(tc, zones_of_a_region_lose_together, 0, 6);
    add_tests(tc);
    return run_suite("change_law", tc);
}
