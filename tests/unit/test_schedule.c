/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "suite.h"
#include "train/config.h"

/* Goal: the rate of every step is the closed form in long double by libm, and what Python gives; a
 * change holds above its step and nowhere else; who computed another trajectory is known for as far
 * as it was the same. */

static struct spot_tuning tuning_of(uint32_t kind)
{
    return (struct spot_tuning){ .lr = 3e-4,
                                 .weight_decay = 0.1,
                                 .schedule = { kind, 10, kind ? 100 : 0, kind ? 3e-5 : 0 } };
}

static long double closed_form(const struct spot_tuning *t, int64_t step)
{
    const struct spot_schedule *const s = &t->schedule;
    const long double lr = (long double)t->lr, low = (long double)s->min_lr;
    long double at;

    if (step < s->warmup_steps)
        return lr * (long double)step / (long double)s->warmup_steps;
    if (s->kind == SPOT_LR_CONSTANT)
        return lr;
    at = (long double)(step - s->warmup_steps) / (long double)(s->decay_steps - s->warmup_steps);
    at = fminl(at, 1);
    return low + (lr - low) * (s->kind == SPOT_LR_LINEAR ? 1 - at : (1 + cosl(acosl(-1) * at)) / 2);
}

START_TEST(every_step_has_the_rate_of_the_closed_form)
{
    static const int64_t warmup[] = { 0, 1, 10, 999 }, decay[] = { 1000, 1001, 65536 };

    for (uint32_t kind = SPOT_LR_CONSTANT; kind <= SPOT_LR_LINEAR; kind++)
        for (size_t w = 0; w < 4; w++)
            for (size_t d = 0; d < 3; d++) {
                struct spot_tuning t = tuning_of(kind);
                double before = INFINITY;

                t.schedule.warmup_steps = warmup[w];
                t.schedule.decay_steps = kind ? decay[d] : 0;
                ck_assert_int_eq(spot_tuning_check(&t, NULL), 0);
                for (int64_t s = 1; s <= 2000; s++) {
                    const double got = spot_tuning_lr(&t, s);

                    ck_assert_msg(fabsl((long double)got - closed_form(&t, s)) <= 4e-16L * 3e-4L,
                                  "kind %u, step %lld: %.17g", kind, (long long)s, got);
                    ck_assert(s <= warmup[w] || got <= before); /* it never goes up again */
                    before = got;
                }
                ck_assert_double_eq(spot_tuning_lr(&t, INT64_MAX), kind ? 3e-5 : 3e-4);
            }
}
END_TEST

/* for s in ...: t = (s - 10) / 90; 3e-5 + 2.7e-4 * (1 + math.cos(math.pi * t)) / 2, and * (1 - t)
 */
START_TEST(the_rates_are_those_that_python_gives)
{
    static const struct {
        int64_t step;
        double cosine, linear;
    } want[] = {
        { 1, 2.9999999999999997e-05, 2.9999999999999997e-05 },
        { 3, 8.999999999999999e-05, 8.999999999999999e-05 },
        { 10, 0.0003, 0.0003 },
        { 11, 0.00029991776164757793, 0.000297 },
        { 37, 0.00024435100905948387, 0.00021899999999999996 },
        { 55, 0.00016499999999999997, 0.00016499999999999997 },
        { 99, 3.0082238352422073e-05, 3.299999999999999e-05 },
        { 100, 3e-05, 3e-05 },
        { 101, 3e-05, 3e-05 },
    };

    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        const struct spot_tuning c = tuning_of(SPOT_LR_COSINE), l = tuning_of(SPOT_LR_LINEAR);

        ck_assert_double_eq_tol(spot_tuning_lr(&c, want[i].step), want[i].cosine, 1e-19);
        ck_assert_double_eq_tol(spot_tuning_lr(&l, want[i].step), want[i].linear, 1e-19);
    }
}
END_TEST

START_TEST(a_schedule_of_no_sense_is_refused)
{
    for (int k = 0; k < 12; k++) {
        struct spot_tuning t = tuning_of(k < 10 ? SPOT_LR_COSINE : SPOT_LR_CONSTANT);

        t.lr = k == 0 ? -1 : k == 1 ? NAN : k == 2 ? INFINITY : t.lr;
        t.weight_decay = k == 3 ? -1 : 0;
        t.schedule.warmup_steps = k == 4 ? -1 : k == 5 ? 100 : 10;
        t.schedule.min_lr = k == 6 ? 1 : k == 7 ? -1 : k == 10 ? 1e-5 : t.schedule.min_lr;
        t.schedule.kind = k == 8 ? 3 : t.schedule.kind;
        t.schedule.decay_steps = k == 9 ? 0 : k == 11 ? 5 : t.schedule.decay_steps;
        ck_assert_msg(spot_tuning_check(&t, NULL) == -1, "case %d", k);
    }
}
END_TEST

static struct spot_job_config config_of(void)
{
    return (struct spot_job_config){ .shape = { 2, 16, 2, 8, 256, 2 },
                                     .micro_batch = 1,
                                     .global_batch = 4,
                                     .n_step = 10,
                                     .seed = 3,
                                     .data_xxh3 = 4,
                                     .adamw = { 1e-3, 0.9, 0.95, 1e-8, 0.1 },
                                     .clip_norm = 1,
                                     .kernel = "portable" };
}

START_TEST(a_change_holds_above_its_step_and_travels_with_the_job)
{
    struct spot_job_config c = config_of(), got;
    struct spot_tuning low = { .after = 20, .lr = 1e-4, .weight_decay = 0.2 }, lower = low;
    struct spot_buf out = { 0 };
    struct spot_wire_in in;

    ck_assert_int_eq(spot_job_change(&c, &low, NULL), 1);
    lower.after = 30;
    ck_assert_int_eq(spot_job_change(&c, &lower, NULL), 0); /* as it is */
    lower.lr = 1e-5;
    ck_assert_int_eq(spot_job_change(&c, &lower, NULL), 1);
    ck_assert_uint_eq(c.n_change, 2);
    spot_job_config_put(&out, &c);
    in = spot_wire_in(out.data, out.n);
    memset(&got, 0x55, sizeof(got));
    spot_job_config_get(&in, &got);
    ck_assert(spot_wire_in_done(&in));
    ck_assert_uint_eq(spot_job_path_id(&got), spot_job_path_id(&c));
    for (int64_t s = 1; s <= 40; s++) {
        const struct spot_adamw a = spot_job_adamw(&got, s);

        ck_assert_double_eq(a.lr, s <= 20 ? 1e-3 : s <= 30 ? 1e-4 : 1e-5);
        ck_assert_double_eq(a.weight_decay, s <= 20 ? 0.1 : 0.2);
        ck_assert_double_eq(a.beta2, 0.95);
    }
    low.after = 25; /* goes on from there: what was declared beyond is void */
    low.lr = 5e-4;
    ck_assert_int_eq(spot_job_change(&got, &low, NULL), 1);
    ck_assert_uint_eq(got.n_change, 2);
    ck_assert_double_eq(spot_job_adamw(&got, 40).lr, 5e-4);
    spot_buf_release(&out);
}
END_TEST

START_TEST(a_trajectory_is_shared_up_to_the_next_change)
{
    struct spot_job_config c = config_of(), other;
    const uint64_t id = spot_job_id(&c);
    struct spot_tuning t = { .after = 20, .lr = 1e-4, .weight_decay = 0.1 };
    uint64_t once;

    ck_assert_uint_eq(spot_job_path_id(&c), id);
    ck_assert_int_eq(spot_job_shared_steps(&c, id), INT64_MAX);
    spot_job_change(&c, &t, NULL);
    once = spot_job_path_id(&c);
    t.after = 30;
    t.lr = 1e-5;
    spot_job_change(&c, &t, NULL);
    ck_assert_uint_eq(spot_job_id(&c), id); /* its durable state stays its own */
    ck_assert_int_eq(spot_job_shared_steps(&c, id), 20);
    ck_assert_int_eq(spot_job_shared_steps(&c, once), 30);
    ck_assert_int_eq(spot_job_shared_steps(&c, spot_job_path_id(&c)), INT64_MAX);
    other = c;
    other.change[1].lr = 2e-5;
    ck_assert_int_eq(spot_job_shared_steps(&c, spot_job_path_id(&other)), -1);
    for (int k = 0; k < 4; k++) {
        other = config_of();
        other.schedule = (struct spot_schedule){ SPOT_LR_COSINE, 1, 10, 1e-5 };
        ck_assert_uint_ne(spot_job_id(&other), id);
        c = other;
        other.schedule.kind += k == 0;
        other.schedule.warmup_steps += k == 1;
        other.schedule.decay_steps += k == 2;
        other.schedule.min_lr += k == 3 ? 1e-6 : 0;
        ck_assert_uint_ne(spot_job_id(&other), spot_job_id(&c));
    }
}
END_TEST

START_TEST(more_changes_than_there_is_room_for_are_refused)
{
    struct spot_job_config c = config_of();
    struct spot_tuning t = { .weight_decay = 0.1 };

    for (int64_t i = 0; i < SPOT_TUNINGS_MAX; i++) {
        t.after = i;
        t.lr = (double)(i + 2);
        ck_assert_int_eq(spot_job_change(&c, &t, NULL), 1);
    }
    ck_assert_int_eq(spot_job_config_check(&c, NULL), 0);
    t.after = SPOT_TUNINGS_MAX;
    t.lr = 1;
    ck_assert_int_eq(spot_job_change(&c, &t, NULL), -1);
}
END_TEST

int main(void)
{
    return run_suite("schedule", add_tests(tcase_create("schedule")));
}
