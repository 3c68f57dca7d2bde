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

    row[0] = (struct spot_plan_route){ "x", "a", NULL, "spot", 0, 0, .5, 0 };
    row[1] = (struct spot_plan_route){ "x", "b", NULL, "spot", 0, 0, .5, 0 };
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
        { "short", "A", NULL, "spot", 1, 4, .75, 0 },
        { "short", "B", NULL, "on-demand", 1, 4, .25, 0 },
        { "long", "B", NULL, "on-demand", 1, 4000, .5, 0 },
        { "long", "C", "far", "spot", 1, 4000, .5, 0 }, /* there is none */
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

/* --- in time ------------------------------------------------------------------------ */

/* What each machine is told by the test, and holds by its own count: A is 0 and 1, the others are
 * of no way. Nothing was ever answered, so half of what may come is expected. */
struct held {
    double work, unread; /* tokens; a prompt counts a quarter of its own */
    double base, slope;  /* seconds to a first token: base + slope x unread */
    double near_s, step_s;
    int n;
};

enum { MOST = 100 };

static double late_s(const struct held *h, double prompt)
{
    return h->base + h->slope * (h->unread + prompt / 4);
}

/* Of those that `may`, the one that is done first; -1: none. */
static int first_done(const struct held *h, const bool *may, double prompt)
{
    double least = HUGE_VAL;
    int best = -1;

    for (int i = 0; i < MEMBERS; i++) {
        const double x = h[i].work + prompt / 4 + MOST / 2.0 + h[i].near_s / h[i].step_s;

        if (may[i] && x < least) {
            least = x;
            best = i;
        }
    }
    return best;
}

/* A in time, else anybody in time, else A, else anybody. *spills: in time, but not A's. */
static int who_should(const struct held *h, double prompt, double limit_s, bool *spills)
{
    *spills = false;
    for (int k = 0; k < 4; k++) {
        bool may[MEMBERS];
        int best;

        for (int i = 0; i < MEMBERS; i++)
            may[i] =
                h[i].n < BATCH && (k % 2 || i < 2) && (k > 1 || late_s(&h[i], prompt) < limit_s);
        *spills = k == 1 && (h[0].n < BATCH || h[1].n < BATCH);
        best = first_done(h, may, prompt);
        if (best >= 0)
            return best;
    }
    return -1;
}

static bool is_close(const struct held *h, double prompt, double limit_s)
{
    bool is = false;

    for (int i = 0; i < MEMBERS; i++)
        is |= fabs(late_s(&h[i], prompt) - limit_s) < 0.4;
    return is;
}

static void set_machine(int i, const struct held *h)
{
    struct spot_replica *const p = &peer[i].replica;

    p->first = (struct spot_first_guess){ 0 };
    spot_first_guess_note(&p->first, 0, h->base);
    spot_first_guess_note(&p->first, 100, h->base + 100 * h->slope);
    p->first_at_s = spot_clock_s();
    p->step_s = h->step_s;
    p->near_at_s = -1e6;
    p->told_s = spot_clock_s(); /* it does not hang */
    peer[i].round_trip_s = h->near_s;
}

static void ask(struct spot_rng *rng, uint32_t n_prompt)
{
    struct spot_request r = { .n_prompt = n_prompt, .n_choice = 1, .n_token_max = MOST };
    struct spot_completion *c = NULL;

    snprintf(r.id, sizeof(r.id), "cmpl-%u", (unsigned)++n_drawn);
    r.prompt = spot_xcalloc(n_prompt, sizeof(*r.prompt));
    for (uint32_t i = 0; i < n_prompt; i++)
        r.prompt[i] = (uint32_t)spot_rng_below(rng, 256);
    r.n_logprob = -1;
    ck_assert_int_eq(spot_server_submit(&server, &r, &c), SPOT_ADMIT);
    spot_completion_unref(c);
}

static void play_in_time(struct spot_rng *rng, uint64_t *n_spilled, int *n_late)
{
    static struct spot_plan_route one[] = { { "x", "A", NULL, "spot", 0, 0, 1, 3 } };
    const struct spot_plan_doc plan = { .kind = SPOT_PLAN_FLEET, .route = one, .n_route = 1 };
    struct held held[MEMBERS] = { 0 };
    struct spot_err err = { 0 };

    for (int i = 0; i < MEMBERS; i++) {
        join(&peer[i]);
        snprintf(peer[i].seat.type, SPOT_NAME_MAX, "%s", i < 2 ? "A" : "B");
    }
    ck_assert(!spot_size_route_take(&server.routes.size, &plan, &err));
    for (int k = 0; k < MEMBERS * BATCH; k++) {
        const uint32_t n_prompt = 1 + (uint32_t)spot_rng_below(rng, 200);
        bool spills;
        int who;

        do
            for (int i = 0; i < MEMBERS; i++) {
                held[i].base = 4 * spot_rng_unit(rng);
                held[i].slope = 0.02 * spot_rng_unit(rng);
                held[i].near_s = 0.2 * spot_rng_unit(rng);
                held[i].step_s = 0.001 + 0.01 * spot_rng_unit(rng);
            }
        while (is_close(held, n_prompt, 3));
        for (int i = 0; i < MEMBERS; i++)
            set_machine(i, &held[i]);
        who = who_should(held, n_prompt, 3, &spills);
        *n_spilled += spills;
        *n_late += who >= 0 && late_s(&held[who], n_prompt) > 3;
        ask(rng, n_prompt);
        ck_assert_uint_eq(peer[who].replica.load, (uint32_t)++held[who].n);
        ck_assert_uint_eq(server.n_spilled, *n_spilled);
        held[who].work += n_prompt / 4.0 + MOST / 2.0;
        held[who].unread += n_prompt / 4.0;
    }
    ck_assert_double_gt(spot_server_first_s(&server, &peer[5].replica, server.sequence[0]), 0);
    peer[5].replica.first_at_s -= 61; /* that is too long ago to go by */
    ck_assert_double_eq(spot_server_first_s(&server, &peer[5].replica, server.sequence[0]), 0);
    for (int i = 0; i < MEMBERS; i++) { /* who has told a token has read its prompt */
        const double before = peer[i].replica.first.n;

        tell(&peer[i], BATCH, false);
        ck_assert_double_gt(peer[i].replica.first.n, before);
    }
    spot_server_count_work(&server);
    for (int i = 0; i < MEMBERS; i++)
        ck_assert_double_eq(peer[i].replica.unread, 0);
    spot_size_route_release(&server.routes.size);
}

START_TEST(what_would_begin_late_goes_to_whom_it_is_in_time_with)
{
    struct spot_rng rng;
    uint64_t n_spilled = 0;
    int n_late = 0;

    spot_rng_init(&rng, 11, 0);
    for (int i = 0; i < 40; i++) {
        play_in_time(&rng, &n_spilled, &n_late);
        tear_down();
        set_up();
        server.n_spilled = n_spilled;
    }
    ck_assert_uint_gt(n_spilled, 100);
    ck_assert_int_gt(n_late, 10);
}
END_TEST

/* The line of least squares over all that was seen, each counting .95 of the one behind it, from
 * its definition. */
START_TEST(the_time_to_a_first_token_is_a_line_through_what_was_seen)
{
    enum { N = 60 };
    struct spot_first_guess g = { 0 };
    double x[N], y[N];
    struct spot_rng rng;

    spot_rng_init(&rng, 5, 0);
    ck_assert_double_eq(spot_first_guess_s(&g, 100), 0);
    for (int k = 0; k < N; k++) {
        double n = 0, mx = 0, my = 0, above = 0, below = 0;

        x[k] = 10 + 1000 * spot_rng_unit(&rng);
        y[k] = (k < 30 ? 0.2 + 0.003 * x[k] : 2 - 0.001 * x[k]) + 0.1 * spot_rng_unit(&rng);
        spot_first_guess_note(&g, x[k], y[k]);
        for (int i = 0; i <= k; i++) {
            n += pow(0.95, k - i);
            mx += pow(0.95, k - i) * x[i];
            my += pow(0.95, k - i) * y[i];
        }
        for (int i = 0; i <= k; i++) {
            above += pow(0.95, k - i) * (x[i] - mx / n) * (y[i] - my / n);
            below += pow(0.95, k - i) * (x[i] - mx / n) * (x[i] - mx / n);
        }
        for (double at = 0; at < 3000; at += 700)
            ck_assert_double_eq_tol(
                spot_first_guess_s(&g, at),
                fmax(0, my / n + (k && above > 0 ? above / below : 0) * (at - mx / n)), 1e-6);
    }
    g = (struct spot_first_guess){ 0 };
    for (int k = 0; k < 5; k++)
        spot_first_guess_note(&g, 64, 0.25);
    ck_assert_double_eq_tol(spot_first_guess_s(&g, 5000), 0.25, 1e-12); /* of one length alone */
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    add_tests(tc);
    return run_suite("size_route", tc);
}
