/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <unistd.h>

#include "dispatch_rig.h"

/* Goal: with members that are made up, one thing at a time: the least loaded computes what comes,
 * by weight and version; what fails goes to another; who leaves goes when nothing is left; words
 * that do not fit commit nothing. */

/* --- one thing at a time ----------------------------------------------------------------- */

START_TEST(the_least_loaded_computes_and_the_rest_waits)
{
    struct spot_completion *c;

    join(&peer[0]);
    join(&peer[1]);
    ck_assert_ptr_nonnull(c = submit(3, 5));
    spot_completion_unref(c);
    ck_assert_uint_eq(peer[0].replica.load + peer[1].replica.load, 3);
    ck_assert_uint_ge(peer[0].replica.load, 1);
    ck_assert_uint_ge(peer[1].replica.load, 1);
    ck_assert_int_eq(peer[0].n_asked, 1); /* to stay alive while it has work, not again and again */
    ck_assert_ptr_nonnull(c = submit(QUEUE, 5));
    spot_completion_unref(c);
    ck_assert_uint_eq(peer[0].replica.load, BATCH);
    ck_assert_uint_eq(peer[1].replica.load, BATCH);
    ck_assert_uint_eq(spot_server_waiting(&server), QUEUE + 3 - 2 * BATCH);
    ck_assert_ptr_null(submit(QUEUE, 5));
    ck_assert_uint_eq(server.sequence[0]->place[0] != 0, 1); /* the oldest first */
}
END_TEST

/* Of n choices each has its share to less than one choice: weights are whole numbers here, so in
 * exact fractions. */
START_TEST(load_is_shared_by_weight)
{
    struct spot_route route[] = { { "", "far", 3 }, { "", "", 2 } };
    static const unsigned weight[] = { 1, 2, 3 };

    for (int i = 0; i < 3; i++)
        join(&peer[i]);
    snprintf(route[1].node, sizeof(route[1].node), "%s", peer[1].name);
    server.routes.node = route;
    server.routes.n_node = 2;
    server.n_at_once = 100;
    for (unsigned n = 1; n <= QUEUE; n++) {
        struct spot_completion *const c = submit(1, 5);

        ck_assert_ptr_nonnull(c);
        spot_completion_unref(c);
        for (int i = 0; i < 3; i++) {
            const unsigned six_times = 6 * peer[i].replica.load, wanted = n * weight[i];

            ck_assert_uint_lt(six_times, wanted + 6);
            ck_assert_uint_gt(six_times + 6, wanted);
        }
    }
    server.routes.node = NULL;
}
END_TEST

/* Who computes a prompt of n tokens that begin at `first`. */
static const struct spot_peer *whose_prompt(uint32_t first, size_t n)
{
    struct spot_request r = { .n_prompt = n, .n_choice = 1, .n_token_max = 40, .n_logprob = -1 };
    struct spot_completion *c = NULL;

    snprintf(r.id, sizeof(r.id), "cmpl-%u", (unsigned)++n_drawn);
    r.prompt = spot_xcalloc(n, sizeof(*r.prompt));
    for (size_t i = 0; i < n; i++)
        r.prompt[i] = (first + (uint32_t)i * 5) % 256;
    ck_assert_int_eq(spot_server_submit(&server, &r, &c), SPOT_ADMIT);
    spot_completion_unref(c);
    return whose(server.sequence[server.n_sequence - 1], 0);
}

/* In tokens, of which a quarter counts for each of a prompt that is not held, and half of the most
 * that may come. */
START_TEST(a_prompt_goes_to_who_has_computed_what_it_begins_with)
{
    join(&peer[0]);
    join(&peer[1]);
    options.kept_byte = 1;
    server.n_at_once = 100;
    ck_assert_ptr_eq(whose_prompt(0, 640), &peer[0]);
    ck_assert_ptr_eq(whose_prompt(1, 640), &peer[1]);
    ck_assert_ptr_eq(whose_prompt(0, 720), &peer[0]);
    ck_assert_ptr_eq(whose_prompt(0, 700), &peer[0]); /* with twice the choices */
    ck_assert_ptr_eq(whose_prompt(2, 640), &peer[1]); /* nobody has it */
    ck_assert_ptr_eq(whose_prompt(3, 10), &peer[0]);  /* less than a page */
    ck_assert_ptr_eq(whose_prompt(4, 640), &peer[0]);
    ck_assert_ptr_eq(whose_prompt(2, 2000), &peer[1]); /* a third of it */
    server.n_at_once = peer[0].replica.load;
    ck_assert_ptr_eq(whose_prompt(0, 640), &peer[1]); /* no room */
    server.n_at_once = 100;
    spot_server_hold_nothing(&peer[1].replica);
    ck_assert_double_gt(peer[1].replica.work, peer[0].replica.work);
    ck_assert_ptr_eq(whose_prompt(2, 640), &peer[0]);
    options.kept_byte = 0;
    ck_assert_ptr_eq(whose_prompt(2, 64), &peer[0]);
}
END_TEST

/* Two long answers are more work than three short ones, and a choice that has told most of its own
 * is nearly done. */
START_TEST(work_is_counted_in_tokens)
{
    struct spot_completion *c[5];

    join(&peer[0]);
    c[0] = submit(1, 400);
    ck_assert_ptr_eq(whose(server.sequence[0], 0), &peer[0]);
    join(&peer[1]);
    for (int i = 1; i < 4; i++) {
        c[i] = submit(1, 40);
        ck_assert_ptr_eq(whose(server.sequence[i], 0), &peer[1]);
    }
    for (int i = 0; i < 390; i++)
        tell(&peer[0], 1, false);
    c[4] = submit(1, 40);
    ck_assert_ptr_eq(whose(server.sequence[4], 0), &peer[0]);
    for (int i = 0; i < 5; i++)
        spot_completion_unref(c[i]);
}
END_TEST

/* Goal: of those that wait whoever has priority is next, and payers by their shares; a payer that
 * fills the queue does not keep others out of it; who is refused hears when there is room. */
static enum spot_admission ask(uint32_t payer, float share, int priority, uint32_t n_choice)
{
    struct spot_request r = { .n_prompt = 1,
                              .n_choice = n_choice,
                              .n_token_max = 40,
                              .n_logprob = -1,
                              .payer = payer,
                              .share = share,
                              .priority = priority };
    struct spot_completion *c = NULL;
    enum spot_admission how;

    snprintf(r.id, sizeof(r.id), "cmpl-%u", (unsigned)++n_drawn);
    r.prompt = spot_xcalloc(1, sizeof(*r.prompt));
    how = spot_server_submit(&server, &r, &c);
    spot_completion_unref(c);
    return how;
}

START_TEST(who_waits_begins_by_priority_and_share)
{
    unsigned n[4] = { 0 };

    server.served_s = spot_clock_s(); /* somebody was there a moment ago */
    for (int i = 0; i < 9; i++)
        ck_assert_int_eq(ask(1, 1, 0, 1), SPOT_ADMIT);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(ask(2, 3, 0, 1), SPOT_ADMIT);
    ck_assert_int_eq(ask(3, 1, 1, 1), SPOT_ADMIT);
    join(&peer[0]);
    spot_server_dispatch(&server);
    for (size_t i = 0; i < server.n_sequence; i++)
        if (server.sequence[i]->place[0])
            n[server.sequence[i]->work->completion->request.payer]++;
    ck_assert_uint_eq(n[3], 1);
    ck_assert_uint_eq(n[1] + n[2], BATCH - 1);
    ck_assert_uint_ge(n[2], n[1]);
    ck_assert_uint_ge(n[1], 1);
    ck_assert_uint_eq(server.n_queued, 14 - BATCH);
}
END_TEST

START_TEST(a_payer_that_fills_the_queue_keeps_nobody_out)
{
    double first_s, second_s;

    server.served_s = spot_clock_s();
    ck_assert_int_eq(ask(1, 1, 0, QUEUE), SPOT_ADMIT);
    ck_assert_int_eq(ask(1, 1, 0, 1), SPOT_ADMIT_FULL);
    server.rate = 10;
    server.mean_output = 40;
    first_s = spot_server_retry_after_s(&server);
    second_s = spot_server_retry_after_s(&server);
    ck_assert_double_eq_tol(first_s, 4, 0.1);
    ck_assert_double_eq_tol(second_s, 8, 0.2);
    ck_assert_int_eq(ask(2, 1, 0, QUEUE / 2), SPOT_ADMIT); /* of two the half */
    ck_assert_int_eq(ask(2, 1, 0, 1), SPOT_ADMIT_FULL);
    ck_assert_int_eq(ask(3, 2, 0, QUEUE / 2), SPOT_ADMIT);
    ck_assert_int_eq(ask(4, 100, 0, 1), SPOT_ADMIT_FULL); /* twice the queue is the end */
}
END_TEST

/* The next turn of a chat begins with prompt and answer. */
START_TEST(an_answer_is_held_where_it_was_computed)
{
    struct spot_completion *c;
    uint32_t prompt[48];

    join(&peer[0]);
    join(&peer[1]);
    options.kept_byte = 1;
    server.n_at_once = 100;
    ck_assert_ptr_nonnull(c = submit(1, 47));
    ck_assert_ptr_eq(whose(server.sequence[0], 0), &peer[0]);
    prompt[0] = c->request.prompt[0];
    while (c->n_open)
        tell(&peer[0], 1, false);
    for (int i = 0; i < 47; i++)
        prompt[i + 1] = c->choice[0].token[i].id;
    for (int i = 0; i < 2; i++) {
        struct spot_request r = {
            .id = "cmpl-next", .n_prompt = 48, .n_choice = 1, .n_token_max = 4, .n_logprob = -1
        };
        struct spot_completion *next = NULL;

        r.prompt = spot_xcalloc(48, sizeof(*r.prompt));
        memcpy(r.prompt, prompt, sizeof(prompt));
        r.prompt[0] += (uint32_t)i;
        ck_assert_int_eq(spot_server_submit(&server, &r, &next), SPOT_ADMIT);
        spot_completion_unref(next);
        ck_assert_ptr_eq(whose(server.sequence[(size_t)i], 0), &peer[i]);
    }
    spot_completion_unref(c);
}
END_TEST

START_TEST(a_request_goes_to_its_own_version_alone)
{
    static struct spot_model_version next;
    struct spot_completion *c;

    next.model = version.model;
    join(&peer[0]);
    join(&peer[1]);
    peer[1].replica.version = &next;
    ck_assert_ptr_nonnull(c = submit(3, 5));
    spot_completion_unref(c);
    ck_assert_uint_eq(peer[0].replica.load, 3);
    ck_assert_uint_eq(peer[1].replica.load, 0);
    server.current = &next;
    ck_assert_ptr_nonnull(c = submit(1, 5));
    spot_completion_unref(c);
    ck_assert_uint_eq(peer[1].replica.load, 1);
    ck_assert_uint_eq(version.n_work, 1);
    ck_assert_uint_eq(next.n_work, 1);
    peer[0].replica.is_retiring = true; /* nobody else has its version: it goes on */
    spot_server_dispatch(&server);
    ck_assert_uint_eq(peer[0].replica.load, 3);
    ck_assert_uint_eq(peer[1].replica.load, 1);
    peer[1].replica.version = &version;
    spot_server_dispatch(&server);
    ck_assert_uint_eq(peer[1].replica.load, 4);
}
END_TEST

enum { LEAVES, ASIDE, SILENT, STOPPED, WAYS };

START_TEST(who_may_not_take_gets_nothing_new)
{
    struct spot_completion *c;

    join(&peer[0]);
    join(&peer[1]);
    peer[0].member.is_leaving = _i == LEAVES;
    peer[0].is_aside = _i == ASIDE;
    peer[0].replica.is_running = _i != STOPPED;
    if (_i == SILENT) {
        peer[0].replica.load = 1;
        stand_still(&peer[0]);
    }
    ck_assert_ptr_nonnull(c = submit(2, 5));
    spot_completion_unref(c);
    ck_assert_uint_eq(peer[0].n, 0);
    ck_assert_uint_eq(peer[1].n, 2);
}
END_TEST

START_TEST(two_compute_what_a_leaver_or_a_silent_one_has_until_the_other_has_caught_up)
{
    struct spot_completion *c;
    struct spot_sequence *q;

    join(&peer[0]);
    ck_assert_ptr_nonnull(c = submit(1, 9));
    q = server.sequence[0];
    tell(&peer[0], 1, false);
    tell(&peer[0], 1, false);
    join(&peer[1]);
    if (_i)
        stand_still(&peer[0]);
    else
        peer[0].member.is_leaving = true;
    spot_server_dispatch(&server);
    ck_assert_ptr_eq(whose(q, 0), &peer[0]);
    ck_assert_ptr_eq(whose(q, 1), &peer[1]);
    ck_assert_uint_eq(peer[1].has[0].next, 2); /* what is committed goes along */
    if (!_i)
        tell(&peer[0], 1, false); /* it goes on meanwhile */
    ck_assert_int_eq(peer[0].n_forgotten, 0);
    tell(&peer[1], 1, false); /* the second of the two to say so, where the leaver goes on */
    ck_assert_int_eq(peer[0].n_forgotten, 1);
    ck_assert_ptr_null(whose(q, 0));
    ck_assert_uint_eq(peer[0].replica.load, 0);
    ck_assert_uint_eq(c->choice[0].n_token, 3);
    ck_assert(!peer[1].was_dropped);
    spot_completion_unref(c);
}
END_TEST

START_TEST(what_failed_is_given_to_another_and_to_the_same_if_there_is_no_other)
{
    struct spot_completion *c;
    struct spot_sequence *q;

    join(&peer[0]);
    ck_assert_ptr_nonnull(c = submit(1, 9));
    spot_completion_unref(c);
    q = server.sequence[0];
    die(&peer[0]);
    ck_assert_uint_eq(q->place[0], 0);
    join(&peer[0]); /* of the same name */
    join(&peer[1]);
    ck_assert_ptr_nonnull(c = submit(2, 9)); /* the other has more to do */
    spot_completion_unref(c);
    spot_server_dispatch(&server);
    ck_assert_ptr_eq(whose(q, 0), &peer[1]);
    die(&peer[1]);
    die(&peer[0]);
    join(&peer[1]);
    spot_server_dispatch(&server);
    ck_assert_ptr_eq(whose(q, 0), &peer[1]);
}
END_TEST

START_TEST(another_token_than_is_committed_drops_who_told_it)
{
    struct spot_completion *c;

    join(&peer[0]);
    ck_assert_ptr_nonnull(c = submit(1, 9));
    tell(&peer[0], 1, false);
    join(&peer[1]);
    peer[0].member.is_leaving = true;
    spot_server_dispatch(&server);
    tell(&peer[0], 1, false);
    tell(&peer[1], 1, true);
    ck_assert(peer[1].was_dropped);
    ck_assert(!peer[0].was_dropped);
    ck_assert_uint_eq(c->choice[0].n_token, 2);
    spot_completion_unref(c);
}
END_TEST

/* The member tells what it computed at `position`, which may be before it heard of the rest. */
static void tell_at(struct spot_peer *p, const struct computed *c, uint32_t position)
{
    p->has[0] = *c;
    p->has[0].next = position;
    p->n = 1;
    tell(p, 1, false);
}

START_TEST(what_was_told_before_a_choice_came_back_is_no_gap)
{
    struct computed had;
    struct spot_completion *c;

    join(&peer[0]);
    ck_assert_ptr_nonnull(c = submit(1, 20));
    tell(&peer[0], 1, false);
    had = peer[0].has[0];
    join(&peer[1]);
    stand_still(&peer[0]);
    spot_server_dispatch(&server);
    tell(&peer[1], 1, false);
    ck_assert_int_eq(peer[0].n_forgotten, 1);
    tell_at(&peer[0], &had, 2); /* while it is not to */
    ck_assert_uint_eq(c->choice[0].n_token, 2);
    stand_still(&peer[1]);
    spot_server_dispatch(&server);
    ck_assert_uint_eq(peer[0].has[0].next, 2); /* it has it again */
    tell_at(&peer[0], &had, 3);                /* of before */
    tell_at(&peer[0], &had, 4);
    ck_assert(!peer[0].was_dropped);
    ck_assert_uint_eq(c->choice[0].n_token, 2);
    tell_at(&peer[0], &had, 2); /* of now */
    ck_assert_uint_eq(c->choice[0].n_token, 3);
    ck_assert(!peer[0].was_dropped);
    tell_at(&peer[0], &had, 5);
    ck_assert(peer[0].was_dropped);
    ck_assert_uint_eq(c->choice[0].n_token, 3);
    spot_completion_unref(c);
}
END_TEST

/* --- engines, which may differ -------------------------------------------------------------- */

static int n_warned;
static uint32_t n_kept; /* sum of positions in a journal */

static void count_warning(const char *fmt, ...)
{
    (void)fmt;
    n_warned++;
}

static void of_engines(void)
{
    n_warned = 0;
    options.is_foreign = version.model.is_foreign = true;
    options.group.warn = count_warning;
}

/* The tokens of a journal, each behind the one before, are those of the choice. */
static void expect_next(void *user, uint64_t number, uint32_t choice,
                        const struct spot_step_token *t)
{
    const struct spot_choice **const next = user;

    (void)number, (void)choice;
    ck_assert_uint_lt(t->position, (*next)->n_token);
    ck_assert_uint_eq(t->token.id, (*next)->token[t->position].id);
    n_kept += t->position;
}

static struct spot_token_log *open_journal(const char *dir, bool resumes,
                                           const struct spot_choice **choice)
{
    const struct spot_token_log_reader reader = { .token = expect_next, .user = choice };
    struct spot_token_log_damage damage;
    struct spot_err err = { 0 };
    struct spot_token_log *const log =
        spot_token_log_open(dir, 1, "n", resumes, false, &reader, &damage, &err);

    ck_assert_ptr_nonnull(log);
    return log;
}

/* Of a frame in which the member tells a choice at these positions. */
static void tell_all(struct spot_peer *p, struct computed c, const uint32_t *position, size_t n)
{
    for (p->n = 0; p->n < n; p->n++) {
        p->has[p->n] = c;
        p->has[p->n].next = position[p->n];
    }
    tell(p, n, false);
}

START_TEST(of_two_engines_the_first_to_tell_goes_on_and_the_journal_has_what_is_committed)
{
    char dir[] = "/tmp/spot-dispatch-XXXXXX", path[64];
    const struct spot_choice *choice;
    struct spot_completion *c;
    struct spot_sequence *q;
    struct computed had;

    of_engines();
    join(&peer[0]);
    ck_assert_ptr_nonnull(c = submit(1, 9));
    q = server.sequence[0];
    choice = &c->choice[0];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    server.log = open_journal(dir, false, &choice);
    join(&peer[1]);
    stand_still(&peer[0]);
    spot_server_dispatch(&server);
    ck_assert_ptr_eq(whose(q, 1), &peer[1]);
    had = peer[1].has[0];
    peer[0].member.is_leaving = true;
    tell(&peer[0], 1, false);
    ck_assert_int_eq(peer[1].n_forgotten, 1);
    while (token_of(++had.seed, 0, 0) == choice->token[0].id)
        ;
    tell_all(&peer[1], had, (const uint32_t[]){ 0, 1, 2 }, 3); /* was under way */
    ck_assert_uint_eq(choice->n_token, 1);
    tell_all(&peer[0], peer[0].has[0], (const uint32_t[]){ 1, 3 }, 2);
    ck_assert_ptr_null(whose(q, 0));
    ck_assert_uint_eq(choice->n_token, 1);
    ck_assert_int_eq(n_warned, 1);
    q->due_s = 0;
    peer[1].n = 0;
    spot_server_dispatch(&server);
    ck_assert_uint_eq(peer[1].has[0].next, 1);
    tell(&peer[1], 1, false);
    tell(&peer[1], 1, false);
    ck_assert_uint_eq(choice->n_token, 3);
    spot_token_log_close(server.log);
    server.log = NULL;
    n_kept = 0;
    spot_token_log_close(open_journal(dir, true, &choice));
    ck_assert_uint_eq(n_kept, 0 + 1 + 2);
    snprintf(path, sizeof(path), "%s/tokens.log", dir);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(dir), 0);
    spot_completion_unref(c);
}
END_TEST

static void give_up(struct spot_peer *p, const struct computed *c, bool is_anew)
{
    struct spot_buf out = { 0 };
    struct spot_frame *frame;

    spot_put_u32(&out, c->assignment);
    spot_put_u8(&out, is_anew);
    spot_put_text(&out, "why");
    frame = frame_of(p->id, out.data, out.n);
    frame->tag = c->sequence;
    spot_server_given_up(&server, &p->replica, frame);
    free(frame);
    spot_buf_release(&out);
}

START_TEST(what_an_engine_gives_up_waits_but_not_what_it_needs_anew)
{
    struct spot_completion *c;
    struct spot_sequence *q;

    of_engines();
    join(&peer[0]);
    ck_assert_ptr_nonnull(c = submit(1, 9));
    spot_completion_unref(c);
    q = server.sequence[0];
    tell(&peer[0], 1, false);
    for (int i = 0; i < 20; i++) { /* more often than faults are borne */
        give_up(&peer[0], &peer[0].has[0], true);
        ck_assert_uint_eq(q->place[0], 0);
        spot_server_dispatch(&server);
        ck_assert_ptr_eq(whose(q, 0), &peer[0]);
    }
    ck_assert_int_eq(n_warned, 0);
    give_up(&peer[0], &peer[0].has[0], false);
    spot_server_dispatch(&server);
    ck_assert_uint_eq(q->place[0], 0);
    ck_assert_int_eq(n_warned, 1);
    ck_assert_uint_eq(q->n_failed, 1);
}
END_TEST

START_TEST(who_leaves_goes_when_nothing_is_left_or_time_is_up)
{
    struct spot_completion *c;
    struct spot_err err;

    join(&peer[0]);
    ck_assert_ptr_nonnull(c = submit(1, 9));
    spot_completion_unref(c);
    peer[0].member.is_leaving = true;
    ck_assert_int_eq(spot_server_release_leavers(&server, &err), 0);
    ck_assert_uint_eq(peer[0].view.broken, 0); /* nobody has what it has */
    if (_i == 0)
        peer[0].left_s = 0.4;
    if (_i == 1)
        peer[0].replica.leaving_s -= 11;
    if (_i == 2) {
        join(&peer[1]);
        spot_server_dispatch(&server);
        tell(&peer[1], 1, false);
    }
    ck_assert_int_eq(spot_server_release_leavers(&server, &err), 0);
    ck_assert_uint_eq(peer[0].view.broken, peer[0].id);
}
END_TEST

START_TEST(words_of_another_epoch_or_malformed_ones_commit_nothing)
{
    struct spot_completion *c;
    struct spot_frame *frame;
    struct spot_err err;

    join(&peer[0]);
    ck_assert_ptr_nonnull(c = submit(1, 9));
    frame = frame_of(peer[0].id + 1, "123456789", 9);
    ck_assert_int_eq(spot_server_tokens(&server, &peer[0].replica, frame, &err), 0);
    ck_assert(!peer[0].was_dropped);
    frame->epoch = peer[0].id;
    ck_assert_int_eq(spot_server_tokens(&server, &peer[0].replica, frame, &err), 0);
    free(frame);
    ck_assert(peer[0].was_dropped);
    ck_assert_uint_eq(c->choice[0].n_token, 0);
    spot_completion_unref(c);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("server_dispatch");

    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, who_may_not_take_gets_nothing_new, 0, WAYS);
    tcase_add_loop_test(
        c, two_compute_what_a_leaver_or_a_silent_one_has_until_the_other_has_caught_up, 0, 2);
    tcase_add_loop_test(c, who_leaves_goes_when_nothing_is_left_or_time_is_up, 0, 3);
    add_tests(c);
    return run_case("server_dispatch", c);
}
