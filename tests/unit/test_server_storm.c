/* SPDX-License-Identifier: MIT */
#include "dispatch_rig.h"

/* Goal: with members that are made up, who come, leave, stand still, are set aside and die as
 * dice say: each choice has a member as soon as one can take it, never the same twice, the least
 * loaded, and not the one that just failed it; its tokens are committed once each, in order; what
 * is counted is what is there. */

enum { STEPS = 30000 };

static void check_counts(void)
{
    uint32_t load[MEMBERS] = { 0 };

    for (size_t i = 0; i < server.n_sequence; i++) {
        const struct spot_sequence *const q = server.sequence[i];

        ck_assert(!q->place[0] || q->place[0] != q->place[1]);
        ck_assert(!i || q->number > server.sequence[i - 1]->number);
        for (int k = 0; k < SPOT_SEQUENCE_PLACES; k++)
            if (q->place[k]) {
                ck_assert_ptr_nonnull(whose(q, k));
                load[whose(q, k) - peer]++;
            }
    }
    for (int i = 0; i < MEMBERS; i++)
        if (peer[i].id) {
            ck_assert_uint_eq(load[i], peer[i].replica.load);
            ck_assert_uint_le(load[i], BATCH);
        }
}

/* Nobody waits beside one who has room. */
static void check_nobody_waits(void)
{
    bool has_room = false;

    for (int i = 0; i < MEMBERS; i++)
        has_room |=
            peer[i].id && spot_replica_may_take(&peer[i].replica) && peer[i].replica.load < BATCH;
    ck_assert(!has_room || !spot_server_waiting(&server));
}

static void check_answer(const struct spot_completion *c)
{
    for (uint32_t i = 0; i < c->request.n_choice; i++) {
        const struct spot_choice *const h = &c->choice[i];

        ck_assert_int_eq(h->finish, SPOT_FINISH_LENGTH);
        ck_assert_int_eq((int64_t)h->n_token, c->request.n_token_max);
        for (uint32_t k = 0; k < h->n_token; k++)
            ck_assert_uint_eq(h->token[k].id, token_of(c->request.sample.seed, i, k));
    }
}

static void happen(struct spot_rng *rng)
{
    struct spot_peer *const p = &peer[spot_rng_below(rng, MEMBERS)];
    const uint64_t what = spot_rng_below(rng, 100);

    if (!p->id || p->was_dropped) {
        ck_assert(!p->was_dropped);
        if (what < 30)
            join(p);
    } else if (what < 70) {
        tell(p, 1 + spot_rng_below(rng, BATCH), false);
    } else if (what < 73) {
        die(p);
    } else if (what < 76) {
        p->member.is_leaving = true;
    } else if (what < 80 && p->n) {
        stand_still(p);
    } else if (what < 82) {
        p->is_aside = !p->is_aside;
    }
    if (p->id && p->view.broken) {
        spot_server_take_back(&server, &p->replica, false);
        die(p);
    }
}

enum { OPEN = 64 };

START_TEST(whatever_happens_each_choice_is_whole_and_once)
{
    struct spot_completion *open[OPEN] = { 0 };
    struct spot_rng rng;
    struct spot_err err = { 0 };
    size_t n_done = 0;

    spot_rng_init(&rng, (uint64_t)_i, 0);
    for (int step = 0; step < STEPS; step++) {
        struct spot_completion **const c = &open[spot_rng_below(&rng, OPEN)];

        if (!*c && spot_rng_below(&rng, 3) == 0)
            *c = submit(1 + (uint32_t)spot_rng_below(&rng, 3),
                        1 + (int64_t)spot_rng_below(&rng, 20));
        happen(&rng);
        spot_server_dispatch(&server);
        check_counts();
        check_nobody_waits();
        ck_assert_int_eq(spot_server_release_leavers(&server, &err), 0);
        for (int i = 0; i < OPEN; i++)
            if (open[i] && !open[i]->n_open) {
                check_answer(open[i]);
                spot_completion_unref(open[i]);
                open[i] = NULL;
                n_done++;
            }
        ck_assert_int_eq(spot_server_expire(&server, &err), 0);
    }
    ck_assert_uint_gt(n_done, STEPS / 100);
    for (int i = 0; i < OPEN; i++)
        spot_completion_unref(open[i]);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("server_storm");

    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, whatever_happens_each_choice_is_whole_and_once, 1, 4);
    return run_case("server_storm", c);
}
