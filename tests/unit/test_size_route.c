/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <math.h>

#include "dispatch_rig.h"

/* Goal: of the requests of a size each kind of machine gets the share that the plan says, to a
 * request at each moment, whoever is there; a plan that is told anew begins nothing anew. The
 * oracle is a sum: of each request at which a way was open, its share among those that were. */

enum { WAYS = 5, REQUESTS = 3000 };

static struct spot_plan_route row[2 * WAYS];

static const char *const type[WAYS] = { "a", "b", "c", "d", "e" };

static struct spot_plan_doc plan_of(size_t n)
{
    return (struct spot_plan_doc){ .kind = SPOT_PLAN_FLEET, .route = row, .n_route = n };
}

static void draw(struct spot_rng *rng, const char *bucket, size_t at, double prompt, double output)
{
    for (size_t i = 0; i < WAYS; i++)
        row[at + i] = (struct spot_plan_route){ .bucket = bucket,
                                                .type = type[i],
                                                .market = "spot",
                                                .prompt_token = prompt,
                                                .output_token = output,
                                                .share = 0.01 + spot_rng_unit(rng) / 2 };
}

/* told: the plan is told anew before each request. */
static void play(uint64_t seed, double open_part, bool is_told)
{
    struct spot_size_route r = { 0 };
    double want[WAYS] = { 0 };
    struct spot_err err = { 0 };
    struct spot_rng rng;
    const struct spot_plan_doc plan = plan_of(WAYS);

    spot_rng_init(&rng, seed, 0);
    draw(&rng, "all", 0, 0, 0);
    ck_assert(!spot_size_route_take(&r, &plan, &err));
    for (int k = 0; k < REQUESTS; k++) {
        struct spot_size_bucket *b;
        struct spot_size_way *w;
        double sum = 0;

        if (is_told)
            ck_assert(!spot_size_route_take(&r, &plan, &err));
        b = spot_size_route_find(&r, 10, 10);
        for (size_t i = 0; i < WAYS; i++) {
            b->way[i].is_open = spot_rng_unit(&rng) < open_part;
            sum += b->way[i].is_open ? row[i].share : 0;
        }
        w = spot_size_bucket_choose(b);
        ck_assert_int_eq(w != NULL, sum > 0);
        if (!w)
            continue;
        ck_assert(w->is_open);
        spot_size_bucket_take(b, w);
        for (size_t i = 0; i < WAYS; i++) {
            want[i] += b->way[i].is_open ? row[i].share / sum : 0;
            ck_assert_double_lt(fabs((double)b->way[i].n_taken - want[i]), WAYS);
            if (open_part >= 1)
                ck_assert_double_lt((double)b->way[i].n_taken, want[i] + 1);
        }
    }
    spot_size_route_release(&r);
}

START_TEST(each_way_has_its_share_at_each_moment)
{
    for (uint64_t seed = 0; seed < 8; seed++)
        play(seed, 1, seed % 2);
}
END_TEST

START_TEST(ways_that_come_and_go_have_their_share_of_what_they_were_there_for)
{
    for (uint64_t seed = 0; seed < 8; seed++)
        play(seed, 0.1 + 0.1 * (double)seed, seed % 2);
}
END_TEST

/* Who was away for long gets its share from then on, and no more: nobody is starved for it. */
START_TEST(who_was_away_does_not_catch_up)
{
    struct spot_size_route r = { 0 };
    struct spot_err err = { 0 };
    const struct spot_plan_doc plan = plan_of(2);
    struct spot_size_bucket *b;

    row[0] = (struct spot_plan_route){ "x", "a", NULL, "spot", 0, 0, .5 };
    row[1] = (struct spot_plan_route){ "x", "b", NULL, "spot", 0, 0, .5 };
    ck_assert(!spot_size_route_take(&r, &plan, &err));
    b = spot_size_route_find(&r, 1, 1);
    b->way[0].is_open = true;
    for (int i = 0; i < 1000; i++)
        spot_size_bucket_take(b, spot_size_bucket_choose(b));
    b->way[1].is_open = true;
    for (int i = 0; i < 10; i++)
        spot_size_bucket_take(b, spot_size_bucket_choose(b));
    ck_assert_uint_eq(b->way[0].n_taken, 1005);
    ck_assert_uint_eq(b->way[1].n_taken, 5);
    spot_size_route_release(&r);
}
END_TEST

START_TEST(a_request_is_of_the_nearest_size)
{
    struct spot_size_route r = { 0 };
    struct spot_err err = { 0 };
    struct spot_plan_doc plan = plan_of(2 * (size_t)WAYS);
    struct spot_rng rng;

    spot_rng_init(&rng, 3, 0);
    draw(&rng, "short", 0, 100, 10);
    draw(&rng, "long", WAYS, 10000, 1000);
    ck_assert(!spot_size_route_take(&r, &plan, &err));
    ck_assert_uint_eq(r.n_bucket, 2);
    ck_assert_str_eq(spot_size_route_find(&r, 990, 99)->name, "short");
    ck_assert_str_eq(spot_size_route_find(&r, 1010, 101)->name, "long");
    ck_assert_str_eq(spot_size_route_find(&r, 0, 1)->name, "short");
    row[0].prompt_token = row[0].output_token = 0;
    for (size_t i = 0; i < WAYS; i++)
        row[i].prompt_token = row[i].output_token = 0;
    ck_assert_int_eq(spot_size_route_take(&r, &plan, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
    ck_assert_str_eq(spot_size_route_find(&r, 5, 5)->name, "short"); /* as before */
    plan.n_route = 0;
    ck_assert(!spot_size_route_take(&r, &plan, &err));
    ck_assert_ptr_null(spot_size_route_find(&r, 5, 5));
    spot_size_route_release(&r);
}
END_TEST

START_TEST(a_machine_is_of_a_way_by_type_zone_and_market)
{
    char a[] = "a", z[] = "z", none[] = "", spot[] = "spot";
    const struct spot_size_way in_z = { .type = a, .zone = z, .market = spot };
    const struct spot_size_way anywhere = { .type = a, .zone = none, .market = spot };

    ck_assert(spot_size_way_is_of(&in_z, "a", "z", "spot"));
    ck_assert(spot_size_way_is_of(&in_z, "a", "z", ""));
    ck_assert(!spot_size_way_is_of(&in_z, "a", "z", "on-demand"));
    ck_assert(!spot_size_way_is_of(&in_z, "a", "y", "spot"));
    ck_assert(!spot_size_way_is_of(&in_z, "b", "z", "spot"));
    ck_assert(!spot_size_way_is_of(&in_z, "", "z", ""));
    ck_assert(spot_size_way_is_of(&anywhere, "a", "y", "spot"));
}
END_TEST

/* Who has got a choice of so many tokens, of those that were there. */
static int who_gets(int64_t n_token)
{
    uint32_t load[MEMBERS];
    struct spot_completion *c;
    int who = -1;

    for (int i = 0; i < MEMBERS; i++)
        load[i] = peer[i].replica.load;
    ck_assert_ptr_nonnull(c = submit(1, n_token));
    spot_completion_unref(c);
    for (int i = 0; i < MEMBERS; i++)
        who = peer[i].replica.load > load[i] ? i : who;
    return who;
}

/* Three of A on spot, two of B on demand: short ones are A's but for one in four, long ones B's. */
START_TEST(a_route_by_size_holds_among_those_that_are_there)
{
    static struct spot_plan_route rows[] = {
        { "short", "A", NULL, "spot", 1, 4, .75 },
        { "short", "B", NULL, "on-demand", 1, 4, .25 },
        { "long", "B", NULL, "on-demand", 1, 4000, .5 },
        { "long", "C", "far", "spot", 1, 4000, .5 }, /* there is none */
    };
    const struct spot_plan_doc plan = { .kind = SPOT_PLAN_FLEET, .route = rows, .n_route = 4 };
    struct spot_err err = { 0 };
    int n_of_a = 0, n_of_b = 0;

    for (int i = 0; i < 5; i++) {
        join(&peer[i]);
        snprintf(peer[i].seat.type, SPOT_NAME_MAX, "%s", i < 3 ? "A" : "B");
        snprintf(peer[i].seat.market, SPOT_NAME_MAX, "%s", i < 3 ? "spot" : "on-demand");
    }
    ck_assert(!spot_size_route_take(&server.routes.size, &plan, &err));
    for (int i = 0; i < 4; i++) {
        const int who = who_gets(3);

        n_of_a += who < 3;
        ck_assert_int_ge(who, 0);
    }
    ck_assert_int_eq(n_of_a, 3);
    ck_assert_uint_eq(peer[0].replica.load, 1); /* among those of a type the least loaded */
    ck_assert_uint_eq(peer[1].replica.load, 1);
    for (int i = 0; i < 7; i++)
        n_of_b += who_gets(8000) > 2;
    ck_assert_int_eq(n_of_b, 7);         /* all that B has room for */
    ck_assert_int_lt(who_gets(8000), 3); /* full: nobody waits while there is room */
    ck_assert_int_lt(who_gets(3), 3);
    die(&peer[3]);
    die(&peer[4]);
    spot_server_dispatch(&server);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(peer[i].replica.load, BATCH); /* a type that is gone leaves its to all */
    spot_size_route_release(&server.routes.size);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    add_tests(tc);
    return run_suite("size_route", tc);
}
