/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "host/ledger_plan.h"
#include "suite.h"

/* Goal: what steps and ranks read, against lists that are written out: every epoch is shuffled into
 * an array, arrays are joined, cut into steps, and dealt to ranks one after the other. */

enum { EPOCHS = 4 };

struct list {
    int64_t *sample; /* [n] */
    int64_t *begin;  /* [n_step + 1] of each step */
    int64_t n, n_step;
};

/* By its definition, in the words of the header. */
static struct list written_out(const struct spot_ledger_plan *p)
{
    struct list l = { 0 };

    l.sample = calloc((size_t)(EPOCHS * p->n_sample), sizeof(int64_t));
    l.begin = calloc((size_t)(EPOCHS * p->n_sample) + 1, sizeof(int64_t));
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        for (int64_t at = 0; at < p->n_sample; at++) {
            const int64_t left = p->n_sample - at;
            const bool is_full = p->rest == SPOT_LEDGER_WRAP || at % p->batch || left >= p->batch;

            if (!is_full && p->rest == SPOT_LEDGER_DROP)
                break;
            if ((p->rest == SPOT_LEDGER_WRAP ? l.n : at) % p->batch == 0)
                l.begin[l.n_step++] = l.n;
            l.sample[l.n++] = spot_ledger_plan_sample(p, epoch, at);
        }
    }
    l.begin[l.n_step] = l.n;
    if (p->rest == SPOT_LEDGER_WRAP && l.n % p->batch)
        l.n_step--; /* it needs the epoch after the last one */
    return l;
}

static void release(struct list *l)
{
    free(l->sample);
    free(l->begin);
}

static void check_step(const struct spot_ledger_plan *p, const struct list *l, int64_t step,
                       int64_t world)
{
    int64_t at = l->begin[step], least = INT64_MAX, largest = 0;

    for (int64_t rank = 0; rank < world; rank++) {
        struct spot_ledger_share share;
        int64_t n = 0;

        ck_assert_int_eq(spot_ledger_plan_share(p, step, rank, world, &share, NULL), 0);
        ck_assert_int_eq(share.step, step);
        ck_assert_int_eq(share.n_total, l->begin[step + 1] - l->begin[step]);
        for (int i = 0; i < share.n_range; i++) {
            const struct spot_ledger_range *const r = &share.range[i];

            ck_assert(r->from >= 0 && r->from < r->to && r->to <= p->n_sample);
            for (int64_t x = r->from; x < r->to; x++, n++)
                ck_assert_int_eq(spot_ledger_plan_sample(p, r->epoch, x), l->sample[at++]);
        }
        ck_assert_int_eq(share.n, n);
        least = n < least ? n : least;
        largest = n > largest ? n : largest;
    }
    ck_assert_int_eq(at, l->begin[step + 1]);
    ck_assert_int_le(largest - least, 1);
}

START_TEST(steps_and_ranks_read_what_a_list_says)
{
    for (int64_t n = 1; n <= (is_long() ? 60 : 23); n++)
        for (int64_t batch = 1; batch <= n; batch++)
            for (int rest = 0; rest < SPOT_LEDGER_RESTS; rest++) {
                const struct spot_ledger_plan p = { .n_sample = n,
                                                    .batch = batch,
                                                    .seed = n * 7 + batch,
                                                    .rest = (enum spot_ledger_rest)rest,
                                                    .is_sequential = (n + batch) % 5 == 0 };
                struct list l = written_out(&p);

                ck_assert_int_eq(spot_ledger_plan_check(&p, NULL), 0);
                for (int64_t step = 0; step < l.n_step; step++)
                    for (int64_t world = 1; world <= 5; world++)
                        check_step(&p, &l, step, world);
                release(&l);
            }
}
END_TEST

START_TEST(each_epoch_has_every_sample_once_in_an_order_of_its_own)
{
    const struct spot_ledger_plan p = { .n_sample = 500, .batch = 7, .seed = 3 };
    int n_same = 0;

    for (int64_t epoch = 0; epoch < 5; epoch++) {
        int8_t seen[500] = { 0 };

        for (int64_t at = 0; at < 500; at++) {
            ck_assert_int_eq(seen[spot_ledger_plan_sample(&p, epoch, at)]++, 0);
            n_same += epoch && spot_ledger_plan_sample(&p, epoch, at) ==
                                   spot_ledger_plan_sample(&p, epoch - 1, at);
        }
    }
    ck_assert_int_le(n_same, 20); /* 4 on average */
}
END_TEST

START_TEST(what_is_dropped_differs_from_epoch_to_epoch)
{
    const struct spot_ledger_plan p = {
        .n_sample = 10, .batch = 8, .seed = 1, .rest = SPOT_LEDGER_DROP
    };
    int64_t dropped_ever[10] = { 0 };
    int n_dropped = 0;

    for (int64_t step = 0; step < 40; step++) { /* one step is one epoch */
        struct spot_ledger_share share;
        int64_t seen[10] = { 0 };

        ck_assert_int_eq(spot_ledger_plan_share(&p, step, 0, 1, &share, NULL), 0);
        ck_assert_int_eq(share.epoch, step);
        for (int64_t at = share.range[0].from; at < share.range[0].to; at++)
            seen[spot_ledger_plan_sample(&p, step, at)]++;
        for (int i = 0; i < 10; i++)
            dropped_ever[i] += !seen[i];
    }
    for (int i = 0; i < 10; i++)
        n_dropped += dropped_ever[i] > 0;
    ck_assert_int_eq(n_dropped, 10);
}
END_TEST

START_TEST(numbers_at_their_ends_are_counted_right_or_refused)
{
    const int64_t most = SPOT_LEDGER_SAMPLES_MAX;
    struct spot_ledger_plan p = { .n_sample = most, .batch = most, .seed = most };
    struct spot_ledger_share share;
    struct spot_err err;

    ck_assert_int_eq(spot_ledger_plan_check(&p, NULL), 0);
    ck_assert_int_eq(spot_ledger_plan_share(&p, 1021, 2, 3, &share, NULL), 0);
    ck_assert_int_eq(share.range[0].epoch, 1021);
    ck_assert_int_eq(share.range[0].to, most);
    ck_assert_int_eq(share.n, most / 3);
    ck_assert_int_eq(spot_ledger_plan_share(&p, 1022, 0, 1, &share, &err), -1);
    ck_assert_str_eq(err.msg, "step: expected 0 to 1021, got 1022");
    p.batch = 1;
    ck_assert_int_eq(spot_ledger_plan_share(&p, most, 0, 1, &share, NULL), 0);
    ck_assert_int_eq(share.epoch, 1);
    ck_assert_int_eq(spot_ledger_plan_share(&p, most + 1, 0, 1, &share, &err), -1);
    ck_assert_int_eq(spot_ledger_plan_share(&p, INT64_MAX, 0, 1, &share, NULL), -1);
    ck_assert_int_eq(spot_ledger_plan_share(&p, -1, 0, 1, &share, NULL), -1);
    ck_assert_int_eq(spot_ledger_plan_share(&p, 0, 1, 1, &share, &err), -1);
    ck_assert_str_eq(err.msg, "rank: expected 0 to 0, got 1");
    ck_assert_int_eq(spot_ledger_plan_share(&p, 0, 0, 0, &share, NULL), -1);
    ck_assert_int_eq(spot_ledger_plan_share(&p, 0, 0, SPOT_LEDGER_WORLD_MAX + 1, &share, NULL), -1);
}
END_TEST

START_TEST(more_ranks_than_samples_leave_some_without)
{
    const struct spot_ledger_plan p = {
        .n_sample = 7, .batch = 4, .is_sequential = true, .rest = SPOT_LEDGER_SHORT
    };
    struct spot_ledger_share share;

    for (int64_t rank = 0; rank < 6; rank++) {
        ck_assert_int_eq(spot_ledger_plan_share(&p, 1, rank, 6, &share, NULL), 0);
        ck_assert_int_eq(share.n_total, 3);
        ck_assert_int_eq(share.n, rank < 3);
        ck_assert_int_eq(share.n_range, rank < 3);
    }
}
END_TEST

START_TEST(a_wrong_plan_is_refused_by_name)
{
    static const struct {
        struct spot_ledger_plan plan;
        const char *msg;
    } wrong[] = {
        { { .n_sample = 0, .batch = 1 }, "dataset_size: expected 1 to 2^53 samples, got 0" },
        { { .n_sample = INT64_MAX, .batch = 1 },
          "dataset_size: expected 1 to 2^53 samples, got 9223372036854775807" },
        { { .n_sample = 4, .batch = 5 },
          "global_batch: expected 1 to 4, the samples of the set, got 5" },
        { { .n_sample = 4, .batch = 0 },
          "global_batch: expected 1 to 4, the samples of the set, got 0" },
        { { .n_sample = 4, .batch = 1, .seed = -2 }, "seed: expected 0 to 2^53, got -2" },
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct spot_err err;

        ck_assert_int_eq(spot_ledger_plan_check(&wrong[i].plan, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_str_eq(err.msg, wrong[i].msg);
    }
}
END_TEST

START_TEST(names_of_rests_are_read_back)
{
    for (int i = 0; i < SPOT_LEDGER_RESTS; i++)
        ck_assert_int_eq(spot_ledger_rest_parse(spot_ledger_rest_name((enum spot_ledger_rest)i)),
                         i);
    ck_assert_int_eq(spot_ledger_rest_parse("wrapped"), SPOT_LEDGER_RESTS);
}
END_TEST

int main(void)
{
    return run_suite("ledger_plan", add_tests(tcase_create("ledger_plan")));
}
