/* SPDX-License-Identifier: MIT */
/* Goal: the pipeline simulator reproduces every published run of Varuna's, dead-locks included,
 * and its corrected mode is a correct schedule. Oracles: the published runs and schedules (where
 * they are there), closed forms. */
#include <jansson.h>

#include "common/csv_reader.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "peers/pipe_sim.h"
#include "suite.h"

#include <string.h>

#define GOLDEN "../shared/data/golden/varuna/"

static enum spot_pipe_policy policy_of(const char *name)
{
    return strstr(name, "1F1B") || strstr(name, "1f1b")       ? SPOT_PIPE_1F1B
           : !strcmp(name, "GPIPE") || !strcmp(name, "gpipe") ? SPOT_PIPE_GPIPE
                                                              : SPOT_PIPE_VARUNA;
}

/* "f/b", or "f/b;f/b;..." for every stage. */
static void read_times(const char *text, int p, int64_t *forward, int64_t *backward)
{
    char *at = NULL;

    for (int k = 0; k < p; k++) {
        if (!k || *at == ';') {
            forward[k] = strtoll(k ? at + 1 : text, &at, 10);
            backward[k] = strtoll(at + 1, &at, 10);
        } else {
            forward[k] = forward[0];
            backward[k] = backward[0];
        }
    }
}

struct count {
    int row, dead;
};

static int on_run(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    int64_t forward[64], backward[64], us = 0;
    struct count *count = user;
    struct spot_pipe_sim sim = { .policy = policy_of(row->field[0]),
                                 .p = atoi(row->field[1]),
                                 .m = atoi(row->field[2]),
                                 .forward_us = forward,
                                 .backward_us = backward,
                                 .send_us = atoll(row->field[4]),
                                 .send_far_us = atoll(row->field[5]),
                                 .allreduce_us = atoll(row->field[6]),
                                 .per_machine = atoi(row->field[7]),
                                 .is_released = true };
    struct spot_err why = { 0 };
    int rc;

    (void)err;
    ck_assert_int_le(sim.p, 64);
    read_times(row->field[3], sim.p, forward, backward);
    rc = spot_pipe_sim_run(&sim, &us, &why);
    count->row++;
    if (!strcmp(row->field[8], "ERR")) {
        ck_assert_int_eq(rc, -1);
        ck_assert_int_eq(why.code, SPOT_EINFEASIBLE);
        count->dead++;
        sim.is_released = false; /* corrected: it runs */
        ck_assert(!spot_pipe_sim_run(&sim, &us, &why));
        return 0;
    }
    ck_assert_msg(!rc && us == atoll(row->field[8]), "%s:%lu: %lld us, published %s", row->source,
                  row->line, (long long)us, row->field[8]);
    return 0;
}

START_TEST(reproduces_every_published_run)
{
    static const char *const want[] = { "policy",       "P",           "M",
                                        "fwd_bwd_us",   "send_us",     "send_long_us",
                                        "allreduce_us", "gpus_per_vm", "nojitter_us" };
    FILE *in = fopen(GOLDEN "simulate_varuna.csv", "re");
    struct spot_err err = { 0 };
    struct count count = { 0 };

    if (!in)
        return;
    ck_assert(!spot_csv_read(in, "simulate_varuna.csv", want, 9, on_run, &count, NULL, &err));
    fclose(in);
    ck_assert_int_eq(count.row, 40);
    ck_assert_int_eq(count.dead, 7);
}
END_TEST

START_TEST(reproduces_every_published_schedule)
{
    json_error_t why;
    json_t *all = json_load_file(GOLDEN "static_schedules.json", 0, &why), *one;
    size_t i;

    if (!all)
        return;
    json_array_foreach(all, i, one)
    {
        const int p = (int)json_integer_value(json_object_get(one, "P"));
        const int m = (int)json_integer_value(json_object_get(one, "M"));
        struct spot_pipe_task *task;
        int n_task[64];

        spot_pipe_schedule(policy_of(json_string_value(json_object_get(one, "policy"))), p, m,
                           &task, n_task);
        for (int k = 0; k < p; k++) {
            const char *want =
                json_string_value(json_array_get(json_object_get(one, "stages"), (size_t)k));

            for (int t = 0; t < n_task[k]; t++) {
                char text[16];

                snprintf(text, sizeof(text), "%c%d", task[k * 3 * m + t].kind,
                         task[k * 3 * m + t].micro);
                ck_assert_msg(!strncmp(want, text, strlen(text)), "P %d M %d stage %d: %s, not %s",
                              p, m, k, text, want);
                want += strlen(text);
                want += *want == ' ';
            }
            ck_assert_str_eq(want, "");
        }
        free(task);
    }
    json_decref(all);
}
END_TEST

/* Transfers free: 1F1B and GPipe have closed forms, and Varuna lies between its own bounds. */
START_TEST(the_corrected_mode_meets_the_closed_forms)
{
    struct spot_rng rng;
    int64_t forward[16], backward[16];

    spot_rng_init(&rng, 5, 0);
    for (int round = 0; round < 200; round++) {
        const int64_t f = 1 + (int64_t)spot_rng_below(&rng, 1000);
        const int64_t b = f + (int64_t)spot_rng_below(&rng, 2000);
        const int p = 1 + (int)spot_rng_below(&rng, 16), m = 1 + (int)spot_rng_below(&rng, 40);
        struct spot_pipe_sim sim = { .p = p,
                                     .m = m,
                                     .forward_us = forward,
                                     .backward_us = backward,
                                     .allreduce_us = 7,
                                     .per_machine = 1 };
        struct spot_err err = { 0 };
        int64_t us;

        for (int k = 0; k < p; k++) {
            forward[k] = f;
            backward[k] = b;
        }
        sim.policy = SPOT_PIPE_1F1B;
        ck_assert(!spot_pipe_sim_run(&sim, &us, &err));
        ck_assert_int_eq(us, (m + p - 1) * (f + b) + 7);
        sim.policy = SPOT_PIPE_GPIPE;
        ck_assert(!spot_pipe_sim_run(&sim, &us, &err));
        ck_assert_int_eq(us, m * (2 * f + b) + (p - 1) * (f + b) + 7);
        sim.policy = SPOT_PIPE_VARUNA; /* the first stage recomputes all but may wait in between */
        ck_assert(!spot_pipe_sim_run(&sim, &us, &err));
        ck_assert_int_ge(us, m * (f + b) + (p - 1) * f + 7);
        ck_assert_int_le(us, (m + 1) * (2 * f + b) + (p - 1) * (2 * f + b) + 7);
    }
}
END_TEST

START_TEST(refuses_sizes_out_of_range)
{
    int64_t one = 1, us;
    struct spot_pipe_sim sim = { .p = 0, .m = 1, .forward_us = &one, .backward_us = &one };
    struct spot_err err = { 0 };

    sim.per_machine = 1;
    ck_assert_int_eq(spot_pipe_sim_run(&sim, &us, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    sim.p = 1;
    sim.m = SPOT_PIPE_TASKS_MAX + 1;
    ck_assert_int_eq(spot_pipe_sim_run(&sim, &us, &err), -1);
    sim.m = 1;
    sim.per_machine = 0;
    ck_assert_int_eq(spot_pipe_sim_run(&sim, &us, &err), -1);
}
END_TEST

int main(void)
{
    return run_suite("pipe_sim", add_tests(tcase_create("core")));
}
