/* SPDX-License-Identifier: MIT */
/* Goal: hazards by age are those of the lives, whatever is cut off. Oracles: survival estimates
 * made elsewhere (R 4.2.2 survival::survfit and lifelines agree in all digits), sums over every
 * second of every life, and lives drawn from a known distribution. */
#include "trace/lifetimes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "suite.h"

/* Watched from the first age, to the second; lost or not. */
static const struct spot_life seen[] = {
    { 0, 45, true },    { 0, 60, true },      { 0, 200, true },   { 0, 200, true },
    { 0, 700, false },  { 0, 900, true },     { 0, 1500, true },  { 0, 86400, false },
    { 30, 4000, true }, { 300, 3600, true },  { 100, 190, true }, { 0, 50, false },
    { 0, 7200, true },  { 2000, 9000, true }, { 0, 7200, true },  { 500, 20000, false },
};
enum { SEEN = sizeof(seen) / sizeof(*seen) };

/* Surv(enter, leave, lost) ~ 1 at the start of each class of two to a doubling. */
static const struct {
    double age_s, alive;
} survfit[] = {
    { 60, 0.825 },      { 120, 0.825 },    { 240, 0.5775 },    { 960, 0.5053125 },
    { 1920, 0.433125 }, { 3840, 0.37125 }, { 7680, 0.185625 }, { 15360, 0.12375 },
};

START_TEST(survival_is_that_of_survfit)
{
    struct spot_age_class c[SPOT_AGE_CLASSES_MAX];
    const size_t n = spot_age_classes(seen, SEEN, 1, c);
    size_t found = 0;

    ck_assert_uint_gt(n, 4);
    ck_assert_double_eq(c[0].alive, 1);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < sizeof(survfit) / sizeof(*survfit); i++)
            if (fabs(c[k].age_s - survfit[i].age_s) < 1e-9) {
                ck_assert_double_eq_tol(c[k].alive, survfit[i].alive, 1e-15);
                found++;
            }
    ck_assert_uint_ge(found, 3);
}
END_TEST

START_TEST(classes_are_sums_over_every_second)
{
    struct spot_age_class c[SPOT_AGE_CLASSES_MAX];
    const size_t n = spot_age_classes(seen, SEEN, (size_t)_i, c);
    size_t all = 0;

    for (size_t k = 0; k < n; k++) {
        const double end_s = k + 1 < n ? c[k + 1].age_s : INFINITY;
        double lived_s = 0;
        size_t lost = 0;

        for (size_t i = 0; i < SEEN; i++) {
            for (double s = seen[i].enter_s; s < seen[i].leave_s; s++) {
                const double here = fmin(s + 1, end_s) - fmax(s, c[k].age_s);

                lived_s += here > 0 ? here : 0;
            }
            lost += seen[i].is_lost && seen[i].leave_s > c[k].age_s && seen[i].leave_s <= end_s;
        }
        ck_assert_double_eq_tol(c[k].lived_s, lived_s, 1e-6);
        ck_assert_uint_eq(c[k].lost, lost);
        ck_assert_double_eq_tol(c[k].per_s, (double)lost / lived_s, 1e-12);
        ck_assert(c[k].low_s < c[k].per_s && c[k].per_s < c[k].high_s);
        ck_assert(lost >= (size_t)_i || n == 1);
        all += lost;
    }
    ck_assert_uint_eq(all, 12);
}
END_TEST

/* A bathtub, .9 an hour to an hour of age, then .05, from ten hours on .5; cut off at random ages,
 * watched from random ages. The true hazard of a class is the mean over the time lived in it. */
START_TEST(a_known_distribution_is_found_again)
{
    enum { N = 20000 };
    struct spot_life *life = spot_xcalloc(N, sizeof(*life));
    struct spot_age_class c[SPOT_AGE_CLASSES_MAX];
    static const double edge[] = { 0, 3600, 36000, 1e12 },
                        per_s[] = { 0.9 / 3600, 0.05 / 3600, 0.5 / 3600 };
    struct spot_rng rng;
    size_t n = 0, out = 0, n_class;

    spot_rng_init(&rng, 5, 0);
    while (n < N) {
        double left = -log(1 - spot_rng_unit(&rng)), age_s = 0;
        const double end_s = 60000 * spot_rng_unit(&rng), enter_s = 3000 * spot_rng_unit(&rng);
        int i = 0;

        for (; left > per_s[i] * (edge[i + 1] - age_s); i++) {
            left -= per_s[i] * (edge[i + 1] - age_s);
            age_s = edge[i + 1];
        }
        age_s += left / per_s[i];
        if (fmin(age_s, end_s) > enter_s) /* else nobody ever saw it */
            life[n++] = (struct spot_life){ enter_s, fmin(age_s, end_s), age_s <= end_s };
    }
    n_class = spot_age_classes(life, N, 100, c);
    ck_assert_uint_gt(n_class, 6);
    for (size_t k = 0; k < n_class; k++) {
        const double end_s = k + 1 < n_class ? c[k + 1].age_s : 1e12;
        double expected = 0;

        for (size_t i = 0; i < N; i++)
            for (int j = 0; j < 3; j++) {
                const double from_s = fmax(fmax(c[k].age_s, edge[j]), life[i].enter_s);

                expected +=
                    fmax(0, fmin(fmin(end_s, edge[j + 1]), life[i].leave_s) - from_s) * per_s[j];
            }
        out += expected < c[k].low_s * c[k].lived_s || expected > c[k].high_s * c[k].lived_s;
    }
    ck_assert_uint_le(out, 1 + n_class / 10); /* 95 % limits */
    free(life);
}
END_TEST

static void load(struct spot_trace *trace, const char *text)
{
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_trace_load(trace, in, "t.csv", &err), "%s", err.msg);
    fclose(in);
}

static void expect(const struct spot_life *life, double enter_s, double leave_s, bool is_lost)
{
    ck_assert_double_eq(life->enter_s, enter_s);
    ck_assert_double_eq(life->leave_s, leave_s);
    ck_assert_int_eq(life->is_lost, is_lost);
}

static const char log_text[] = "time_s,event,node,zone\n0,add,a,z\n10,add,b,z\n40,remove,a,z\n"
                               "50,notice,b,z\n60,add,a,z\n100,add,a,y\n";

START_TEST(a_node_that_comes_back_has_a_new_life_and_zones_their_own)
{
    struct spot_err err = { 0 };
    struct spot_trace trace;
    struct spot_life *life;
    size_t n;

    load(&trace, log_text);
    life = spot_lives(&trace, "t.csv", 0, 100, &n, &err);
    ck_assert_uint_eq(n, 4);
    expect(&life[0], 0, 40, true);
    expect(&life[1], 0, 40, false); /* a again: from 60 to the end */
    expect(&life[2], 0, 90, false); /* b: a notice is no loss */
    expect(&life[3], 0, 0, false);
    free(life);
    life = spot_lives(&trace, "t.csv", 20, 39, &n, &err); /* ages are those of the whole */
    ck_assert_uint_eq(n, 2);
    expect(&life[0], 20, 39, false);
    expect(&life[1], 10, 29, false);
    free(life);
    spot_trace_release(&trace);
}
END_TEST

START_TEST(the_end_of_a_log_is_no_loss)
{
    struct spot_err err = { 0 };
    struct spot_age_class c[SPOT_AGE_CLASSES_MAX];
    struct spot_trace trace;
    struct spot_life *life;
    size_t n;

    load(&trace, "time_s,event,node\n0,add,a\n0,add,b\n50,remove,a\n90,remove,b\n");
    life = spot_lives(&trace, "t.csv", 0, 90, &n, &err);
    ck_assert_uint_eq(n, 2);
    expect(&life[0], 0, 50, true);
    expect(&life[1], 0, 90, false);
    ck_assert_uint_eq(spot_age_classes(life, n, 10, c), 1);
    ck_assert_double_eq_tol(c[0].per_s, 1.0 / 140, 1e-15);
    ck_assert_uint_eq(spot_age_classes(life + 1, 1, 10, c), 0); /* nobody lost */
    free(life);
    spot_trace_release(&trace);
}
END_TEST

START_TEST(a_trace_of_counts_is_refused)
{
    struct spot_err err = { 0 };
    struct spot_trace trace;
    size_t n;

    load(&trace, "time_s,available\n0,3\n60,2\n");
    ck_assert_ptr_null(spot_lives(&trace, "t.csv", 0, 60, &n, &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    spot_trace_release(&trace);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, classes_are_sums_over_every_second, 1, 14);
    add_tests(tc);
    return run_suite("lifetimes", tc);
}
