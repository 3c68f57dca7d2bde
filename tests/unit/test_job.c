/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <stdlib.h>
#include <sys/stat.h>

#include "job_rig.h"
#include "model/event.h"

/* Goal: whole jobs on processes of this program. The state after step N is a function of the
 * config, the data and N: so whatever the grid, the shares, the transport and what happens on the
 * way, the result is that of one worker that nobody disturbs. */

static void on_progress(const struct spot_progress *progress)
{
    told.n_progress += progress && progress->n_step == STEPS; /* NULL clears the line */
}

static void on_note(const char *fmt, ...) SPOT_PRINTF(1, 2);
static void on_note(const char *fmt, ...)
{
    (void)fmt;
    told.n_note++;
}

static void write_file(const char *path, const char *text, size_t n)
{
    FILE *out = fopen(path, "w");

    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(text, 1, n, out), n);
    ck_assert_int_eq(fclose(out), 0);
}

static char alone[40]; /* of one worker */

static void run_alone(void)
{
    const struct spot_trainer_options o = job(1, 1, 1, 1);
    const struct outcome got = run_job(&o);

    ck_assert_msg(!got.rc, "%s", got.err.msg);
    memcpy(alone, got.result.state_hex, sizeof(alone));
}

static const struct {
    uint64_t n_local;
    uint32_t D, P, M;
    const char *shares;
    bool has_tls, no_buddies, is_tcp;
    double precopy_byte;
} way[] = {
    { 4, 2, 2, 1, "even", false, false, false, -1 },
    { 4, 2, 2, 1, "1,3", false, true, false, 0 },
    { 2, 1, 1, 2, "even", false, false, false, -1 },
    { 4, 1, 2, 2, "even", true, false, true, 0 },
    { 3, 3, 1, 1, "measured", false, false, true, -1 },
    { 4, 0, 0, 0, "even", true, false, false, 0 },
    { 4, 1, 4, 1, "even", false, false, false, -1 },
};

START_TEST(the_way_it_is_computed_changes_no_bit)
{
    static const char key[32] = "0123456789abcdef0123456789abcde";
    struct spot_trainer_options o = job(way[_i].n_local, way[_i].D, way[_i].P, way[_i].M);

    ck_assert_int_eq(spot_split_parse(way[_i].shares, &o.shares, NULL), 0);
    o.no_buddies = way[_i].no_buddies;
    o.precopy_byte = way[_i].precopy_byte;
    o.recompute = _i % 3;
    o.grace_s = 30;
    o.note = on_note;
    o.progress = on_progress;
    if (way[_i].is_tcp)
        o.listen = "127.0.0.1:0";
    if (way[_i].has_tls) {
        o.key_file = in_dir("", "key");
        write_file(o.key_file, key, sizeof(key));
        ck_assert_int_eq(chmod(o.key_file, 0600), 0);
    }
    expect_state(&o, alone);
}
END_TEST

static const struct {
    const char *label;
    struct spot_shape shape;
} model[] = {
    { "tied",
      { .n_layer = 2,
        .width = 16,
        .n_head = 2,
        .seq = 8,
        .vocab = 256,
        .n_shard = 2,
        .is_tied = true } },
    { "llama",
      { .n_layer = 2,
        .width = 16,
        .n_head = 4,
        .seq = 8,
        .vocab = 256,
        .n_shard = 2,
        .kind = SPOT_DECODER_LLAMA,
        .n_kv_head = 2,
        .ffn = 32,
        .rope_theta = 1e4,
        .norm_eps = 1e-5 } },
};

START_TEST(any_model_is_the_same_on_any_grid)
{
    static const uint32_t grid[][4] = { { 4, 2, 2, 1 }, { 2, 1, 1, 2 } };
    struct spot_trainer_options o = job(1, 1, 1, 1);
    struct outcome got;

    o.config.shape = model[_i].shape;
    got = run_job(&o);
    ck_assert_msg(!got.rc, "%s: %s", model[_i].label, got.err.msg);
    ck_assert_str_ne(got.result.state_hex, alone);
    for (size_t k = 0; k < 2; k++) {
        o = job(grid[k][0], grid[k][1], grid[k][2], grid[k][3]);
        o.config.shape = model[_i].shape;
        expect_state(&o, got.result.state_hex);
    }
}
END_TEST

/* --- durable state --- */

START_TEST(a_job_in_two_parts_is_one_job)
{
    struct spot_trainer_options o = job(2, 1, 2, 1);
    struct outcome got;

    o.state = in_dir("", "parts");
    o.events = in_dir("", "parts.log");
    o.config.n_step = STEPS / 2;
    got = run_job(&o);
    ck_assert_msg(!got.rc, "%s", got.err.msg);
    ck_assert_str_ne(got.result.state_hex, alone);
    o.config.n_step = STEPS;
    got = run_job(&o); /* a state that is there is not overwritten unasked */
    ck_assert_int_eq(got.rc, -1);
    ck_assert_msg(strstr(got.err.msg, "resume") != NULL, "%s", got.err.msg);
    o.resume = true;
    o.grid = (struct spot_grid){ 2, 1, 1 };
    o.save = in_dir("", "parts.safetensors");
    expect_state(&o, alone);
    expect_state(&o, alone); /* nothing is left to do */
    o.config.seed = 2;
    got = run_job(&o);
    ck_assert_int_eq(got.rc, -1);
    ck_assert_msg(strstr(got.err.msg, "seed") != NULL, "%s", got.err.msg);
}
END_TEST

static int log_steps(const char *path, char hex[40])
{
    struct spot_event_log log = { .in = fopen(path, "r"), .source = path };
    struct spot_event event;
    struct spot_err err = { 0 };
    int n = 0;

    ck_assert_ptr_nonnull(log.in);
    while (spot_event_next(&log, &event, &err) == 1) {
        n += !strcmp(event.name, "committed");
        if (!strcmp(event.name, "done"))
            snprintf(hex, 40, "%s", event.state_hex);
    }
    ck_assert_int_eq(err.code, 0);
    fclose(log.in);
    spot_event_log_release(&log);
    return n;
}

START_TEST(what_is_saved_is_where_another_job_starts)
{
    static const char *const to[] = { "first.safetensors", "model" };
    struct spot_trainer_options o = job(2, 1, 2, 1);
    char hex[40] = "", second[40] = "";
    struct outcome got;

    for (int k = 0; k < 2; k++) {
        o = job(2, 1, 2, 1);
        o.save = in_dir("", to[k]);
        o.events = in_dir("", "save.log");
        unlink(o.events);
        expect_state(&o, alone);
        ck_assert_int_eq(log_steps(o.events, hex), STEPS);
        ck_assert_str_eq(hex, alone);
        o = job(2, 2, 1, 1);
        o.load = in_dir("", to[k]);
        got = run_job(&o);
        ck_assert_msg(!got.rc, "%s", got.err.msg);
        ck_assert_str_ne(got.result.state_hex, alone);
        if (k) /* one model in two forms */
            ck_assert_str_eq(got.result.state_hex, second);
        memcpy(second, got.result.state_hex, sizeof(second));
    }
}
END_TEST

/* --- what is refused --- */

START_TEST(a_job_that_cannot_be_is_refused)
{
    struct spot_trainer_options o[16];
    const char *want[16], *none = in_dir("", "none"), *tiny = in_dir("", "tiny");
    int n = 0;

    for (int k = 0; k < 16; k++)
        o[k] = job(1, 1, 1, 1);
    write_file(tiny, "abc", 3);
    o[n].data = &none, want[n++] = "none";
    o[n].data = &tiny, want[n++] = "tiny";
    o[n].config.shape.n_head = 3, want[n++] = "3";
    o[n].config.global_batch = 0, want[n++] = "batch";
    o[n].config.micro_batch = 3, want[n++] = "3";
    o[n].config.n_step = 0, want[n++] = "step";
    strcpy(o[n].config.kernel, "abacus"), want[n++] = "abacus";
    o[n].grid = (struct spot_grid){ 5, 1, 1 }, want[n++] = "5";
    o[n].grid = (struct spot_grid){ 1, 9, 1 }, want[n++] = "9";
    o[n].grid = (struct spot_grid){ 1, 1, 3 }, want[n++] = "3";
    o[n].load = none, want[n++] = "none";
    o[n].plan = none, want[n++] = "none";
    o[n].key_file = none, want[n++] = "none";
    o[n].listen = "unix:/nowhere/j", want[n++] = "/nowhere/j";
    o[n].events = "/nowhere/log", want[n++] = "/nowhere/log";
    o[n].save = "/nowhere/x.safetensors", want[n++] = "/nowhere";
    for (int k = 0; k < n; k++) {
        const struct outcome got = run_job(&o[k]);

        ck_assert_msg(got.rc == -1, "case %d runs", k);
        ck_assert_msg(strstr(got.err.msg, want[k]) != NULL, "case %d: %s", k, got.err.msg);
    }
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tc = tcase_create("core");

    be_worker(argc, argv);
    make_dir();
    tcase_add_unchecked_fixture(tc, run_alone, NULL);
    tcase_add_loop_test(tc, the_way_it_is_computed_changes_no_bit, 0, sizeof(way) / sizeof(way[0]));
    tcase_add_loop_test(tc, any_model_is_the_same_on_any_grid, 0, sizeof(model) / sizeof(model[0]));
    tcase_add_test(tc, a_job_in_two_parts_is_one_job);
    tcase_add_test(tc, what_is_saved_is_where_another_job_starts);
    tcase_add_test(tc, a_job_that_cannot_be_is_refused);
    return run_job_suite("job", tc);
}
