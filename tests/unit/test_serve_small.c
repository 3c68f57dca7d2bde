/* SPDX-License-Identifier: MIT */
/* Goal: every small system of serving, up to 4 replicas and 6 requests. Oracle: a clock that ticks
 * and looks at all requests and replicas anew each time, with neither queue nor events. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/serve_queue.h"
#include "suite.h"

enum { N_MAX = 6, C_MAX = 4, TICKS = 200, FIRST = 2 };

enum act { NOTHING, LOSE, PAUSE, ADD, DRAIN, ACTS };

/* A system. `act` happens to replica 0 at act_t, and is undone 3 ticks later where it can be. */
struct tiny {
    int n, c, batch;
    int at[N_MAX], tokens[N_MAX];
    enum act act;
    int act_t;
    bool is_power_of_two;
};

/* What became of it, in ticks; -1: never. */
struct fate {
    int first[N_MAX], end[N_MAX], repeats[N_MAX];
    int busy, in_system;
};

/* --- the oracle --- */

enum where { TO_COME = -2, WAITS = -1 }; /* 0..: at that replica */

struct world {
    const struct tiny *s;
    int where[N_MAX + 1];    /* the request's replica */
    int key[N_MAX];          /* who waits is taken in this order, then by number */
    int progress[C_MAX + 1]; /* ticks that the replica's batch was computed */
    bool there[C_MAX + 1], still[C_MAX + 1], drains[C_MAX + 1];
    struct fate *fate;
};

static int n_at(const struct world *w, int replica)
{
    int n = 0;

    for (int i = 0; i < w->s->n; i++)
        n += w->where[i] == replica;
    return n;
}

/* The ticks that the batch of a replica takes: 2 + n to the first tokens, one for each other. */
static int length(const struct world *w, int replica)
{
    int most = 0;

    for (int i = 0; i < w->s->n; i++)
        if (w->where[i] == replica && w->s->tokens[i] > most)
            most = w->s->tokens[i];
    return FIRST + n_at(w, replica) + most - 1;
}

static int next_in_line(const struct world *w)
{
    int best = -1;

    for (int i = 0; i < w->s->n; i++)
        if (w->where[i] == WAITS && (best < 0 || w->key[i] < w->key[best]))
            best = i;
    return best;
}

static void take(struct world *w)
{
    for (int r = 0; r <= C_MAX; r++) {
        int room = n_at(w, WAITS) < w->s->batch ? n_at(w, WAITS) : w->s->batch;

        if (!w->there[r] || w->still[r] || w->drains[r] || n_at(w, r))
            continue;
        if (w->s->is_power_of_two)
            room = room >= 4 ? 4 : room >= 2 ? 2 : room;
        w->progress[r] = 0;
        while (room-- > 0)
            w->where[next_in_line(w)] = r;
    }
}

static void end_batches(struct world *w, int t)
{
    for (int r = 0; r <= C_MAX; r++) {
        const bool ends = n_at(w, r) && !w->still[r] && w->progress[r] == length(w, r);
        const bool has_first = n_at(w, r) && w->progress[r] == FIRST + n_at(w, r);

        for (int i = 0; i < w->s->n; i++) {
            if (w->where[i] != r)
                continue;
            if (has_first && !w->still[r] && w->fate->first[i] < 0)
                w->fate->first[i] = t;
            if (ends)
                w->fate->end[i] = t;
        }
        for (int i = 0; i < w->s->n && ends; i++)
            if (w->where[i] == r)
                w->where[i] = C_MAX + 1; /* answered */
        take(w);
    }
}

/* What replica 0 was answering waits again. */
static void give_back(struct world *w, bool is_lost)
{
    for (int i = 0; i < w->s->n; i++) {
        if (w->where[i] != 0)
            continue;
        w->where[i] = WAITS;
        w->fate->repeats[i] += is_lost;
        w->key[i] = -1;
    }
}

static void act(struct world *w, int t)
{
    const bool on = t == w->s->act_t;

    if (!on && t != w->s->act_t + 3)
        return;
    switch (w->s->act) {
    case LOSE:
        if (on)
            give_back(w, true);
        w->there[0] = w->there[0] && !on;
        break;
    case PAUSE:
        w->still[0] = on;
        if (on && n_at(w, 0) && w->progress[0] < FIRST + n_at(w, 0))
            give_back(w, false);
        break;
    case DRAIN:
        w->drains[0] = on;
        break;
    case ADD:
        w->there[w->s->c] = true;
        break;
    default:
        break;
    }
    take(w);
}

static void tick_all(const struct tiny *s, struct fate *fate)
{
    struct world w = { .s = s, .fate = fate };

    memset(fate, 0, sizeof(*fate));
    for (int i = 0; i < s->n; i++) {
        w.where[i] = TO_COME;
        w.key[i] = s->at[i] * 10;
        fate->first[i] = fate->end[i] = -1;
    }
    for (int r = 0; r < s->c; r++)
        w.there[r] = true;
    for (int t = 0; t < TICKS; t++) {
        end_batches(&w, t);
        for (int i = 0; i < s->n; i++)
            if (s->at[i] == t) {
                w.where[i] = WAITS;
                take(&w);
            }
        act(&w, t);
        for (int i = 0; i < s->n; i++)
            fate->in_system += w.where[i] != TO_COME && w.where[i] <= C_MAX;
        for (int r = 0; r <= C_MAX; r++)
            if (n_at(&w, r) && !w.still[r]) {
                w.progress[r]++;
                fate->busy++;
            }
    }
}

/* --- the simulator --- */

static struct spot_batch_time of_batch(void *user, const size_t *request, size_t n)
{
    (void)user;
    (void)request;
    return (struct spot_batch_time){ .first_s = FIRST + (double)n, .each_s = 1 };
}

static void do_act(struct spot_serve_queue *q, const struct tiny *s,
                   const struct spot_replica_law *law)
{
    spot_serve_queue_run(q, s->act_t);
    if (s->act == LOSE)
        spot_serve_queue_lose(q, 0);
    else if (s->act == PAUSE)
        spot_serve_queue_pause(q, 0);
    else if (s->act == DRAIN)
        spot_serve_queue_drain(q, 0, true);
    else
        spot_serve_queue_add(q, law);
    spot_serve_queue_run(q, s->act_t + 3);
    if (s->act == PAUSE)
        spot_serve_queue_resume(q, 0, NULL);
    else if (s->act == DRAIN)
        spot_serve_queue_drain(q, 0, false);
}

static void check(const struct tiny *s)
{
    const struct spot_serve_queue_rule rule = { .batching = SPOT_BATCH_SHARED,
                                                .is_power_of_two = s->is_power_of_two };
    const struct spot_replica_law law = { of_batch, NULL, (size_t)s->batch };
    struct spot_load load = { 0 };
    struct spot_serve_queue *q;
    const struct spot_served *served;
    struct spot_serve_totals t;
    struct fate fate;

    for (int i = 0; i < s->n; i++)
        spot_load_add(&load, s->at[i], 1, s->tokens[i], NULL);
    q = spot_serve_queue_new(&load, &rule);
    for (int i = 0; i < s->c; i++)
        spot_serve_queue_add(q, &law);
    if (s->act != NOTHING)
        do_act(q, s, &law);
    spot_serve_queue_run(q, TICKS);
    served = spot_serve_queue_finish(q, &t);
    tick_all(s, &fate);
    for (int i = 0; i < s->n; i++) {
        const double end = fate.end[i] < 0 ? -1 : served[i].end_s;
        const double first = fate.first[i] < 0 ? -1 : served[i].first_token_s;

        ck_assert_int_eq(isnan(served[i].end_s), fate.end[i] < 0);
        ck_assert_double_eq(end, fate.end[i]);
        ck_assert_int_eq(isnan(served[i].first_token_s), fate.first[i] < 0);
        ck_assert_double_eq(first, fate.first[i]);
        ck_assert_int_eq(served[i].repeats, fate.repeats[i]);
    }
    ck_assert_double_eq(t.busy_s, fate.busy);
    ck_assert_double_eq(t.in_system_s, fate.in_system);
    spot_serve_queue_free(q);
    spot_load_release(&load);
}

/* --- all of them --- */

/* The next digit of a number in mixed bases. */
static int digit(unsigned long *code, unsigned base)
{
    const int d = (int)(*code % base);

    *code /= base;
    return d;
}

/* System number `code`; false: it is one of those that are counted already. */
static bool system_of(unsigned long code, struct tiny *s)
{
    static const int gap[] = { 0, 1, 4 };

    *s = (struct tiny){ .n = N_MAX };
    s->c = 1 + digit(&code, C_MAX);
    s->batch = 1 + digit(&code, 4);
    s->act = (enum act)digit(&code, ACTS);
    s->act_t = 1 + digit(&code, 9);
    s->is_power_of_two = digit(&code, 2);
    for (int i = 0; i < s->n; i++) {
        s->at[i] = i ? s->at[i - 1] + gap[digit(&code, 3)] : 0;
        s->tokens[i] = 1 + 2 * digit(&code, 2);
    }
    return (s->act || s->act_t == 1) && (s->batch > 2 || !s->is_power_of_two);
}

START_TEST(small_systems_go_as_a_clock_that_looks_at_all_says)
{
    const unsigned long all = 4UL * 4 * ACTS * 9 * 2 * 64 * 243;
    const unsigned long stride = is_long() ? 13 : 997; /* 997 and 13 divide none of the bases */
    unsigned long n = 0;
    struct tiny s;

    for (unsigned long code = 0; code < all; code += stride)
        if (system_of(code, &s)) {
            check(&s);
            n++;
        }
    ck_assert_uint_gt(n, 5000);
}
END_TEST

/* Fewer requests than 6, in all ways, or each seventh of them: 7 divides none of the bases. */
START_TEST(the_smallest_go_so_too)
{
    for (int n = 1; n <= 3; n++)
        for (int c = 1; c <= C_MAX; c++)
            for (unsigned long code = 0; code < 2UL * ACTS * 9 * 8 * 27;
                 code += is_long() ? 1 : 7) {
                unsigned long rest = code;
                struct tiny s = { .n = n, .c = c };

                s.batch = 1 + digit(&rest, 2);
                s.act = (enum act)digit(&rest, ACTS);
                s.act_t = 1 + digit(&rest, 9);
                for (int i = 0; i < n; i++) {
                    s.tokens[i] = 1 + digit(&rest, 2);
                    s.at[i] = (i ? s.at[i - 1] : 0) + 2 * digit(&rest, 3);
                }
                if (!rest)
                    check(&s);
            }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("serve_small");

    tcase_add_test(tc, small_systems_go_as_a_clock_that_looks_at_all_says);
    tcase_add_test(tc, the_smallest_go_so_too);
    return run_suite("serve_small", tc);
}
