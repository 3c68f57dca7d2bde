/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "checkpoint/bundle_io.h"
#include "checkpoint/generation.h"
#include "cluster/client.h"
#include "common/clock.h"
#include "job_rig.h"
#include "train/saved_model.h"
#include "train/train_protocol.h"

/* Goal: the weights of a job are had from its directory and, bit for bit the same, from the job
 * while it runs; what is damaged is passed over and said, what is not there is named. */

static int n_warning;
static char warning[512];

static void warn(const char *fmt, ...) SPOT_PRINTF(1, 2);
static void warn(const char *fmt, ...)
{
    va_list args;

    n_warning++;
    va_start(args, fmt);
    vsnprintf(warning, sizeof(warning), fmt, args);
    va_end(args);
}

static const struct spot_saved_place *at_dir(const char *path)
{
    static struct spot_saved_place place;

    place = (struct spot_saved_place){ .dir = path };
    return &place;
}

static void shell(const char *command)
{
    char text[256];

    snprintf(text, sizeof(text), "cd '%s' && %s", dir, command);
    ck_assert_int_eq(system(text), 0);
}

/* A job that has ended after n_step steps; what it was left in. */
static const char *ended_job(const char *name, int64_t n_step)
{
    struct spot_trainer_options o = job(1, 1, 1, 1);
    const char *const state = in_dir("", name);
    struct outcome got;

    o.state = state;
    o.config.n_step = n_step;
    got = run_job(&o);
    ck_assert_msg(!got.rc, "%s", got.err.msg);
    return state;
}

/* The state of step `from` once more, as that of step `to`. */
static void copy_generation(const char *state, int64_t from, int64_t to)
{
    const struct spot_shape shape = job(1, 1, 1, 1).config.shape;
    struct spot_generations g = { .job = 1, .n_bundle = spot_shape_bundles(&shape) };
    const struct spot_generations any = { .n_bundle = g.n_bundle };
    struct spot_written written[8];
    struct spot_generations in = any;
    const int fd = open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct spot_err err;

    ck_assert_int_le(g.n_bundle, 8);
    snprintf(g.dir, sizeof(g.dir), "%s", state);
    g.dir_fd = &fd;
    snprintf(in.dir, sizeof(in.dir), "%s", state);
    ck_assert_msg(!spot_generation_begin(&g, to, &err), "%s", err.msg);
    for (int b = 0; b < g.n_bundle; b++) {
        size_t n;
        uint8_t *packed = spot_generation_read(&in, from, b, &n, &err);
        struct spot_bundle *bundle;

        ck_assert_msg(packed, "%s", err.msg);
        bundle = spot_bundle_unpack(&shape, b, from, packed, n, &err);
        ck_assert_msg(bundle, "%s", err.msg);
        free(packed);
        bundle->step = to;
        packed = spot_bundle_pack(bundle, &n, &err);
        ck_assert_ptr_nonnull(packed);
        ck_assert_msg(!spot_generation_put(&g, to, 0, b, packed, n, &written[b], &err), "%s",
                      err.msg);
        spot_bundle_free(bundle);
        free(packed);
    }
    ck_assert_msg(!spot_generation_commit(&g, to, 0, written, &err), "%s", err.msg);
    close(fd);
}

static void expect_same(const struct spot_saved_model *a, const struct spot_saved_model *b)
{
    ck_assert_int_eq(a->step, b->step);
    ck_assert_int_eq(a->n_bundle, b->n_bundle);
    ck_assert_int_eq(a->shape.seq, b->shape.seq);
    ck_assert_str_eq(a->tokens, b->tokens);
    ck_assert_str_eq(a->tokenizer, b->tokenizer);
    for (int k = 0; k < a->n_bundle; k++) {
        const struct spot_bundle *const x = a->bundle[k], *const y = b->bundle[k];

        ck_assert_int_eq(x->arena.n_elem, y->arena.n_elem);
        ck_assert_mem_eq(x->plane[SPOT_PLANE_MASTER], y->plane[SPOT_PLANE_MASTER],
                         (size_t)x->arena.n_elem * sizeof(float));
        for (int p = 0; p < SPOT_PLANES; p++)
            ck_assert(p == SPOT_PLANE_MASTER || (!x->plane[p] && !y->plane[p]));
    }
}

/* --- a job that runs --- */

/* With its workers, which would wait for a job that was killed; it may have ended. */
static void stop_job(pid_t pid, const char *join)
{
    struct spot_buf answer = { 0 };
    struct spot_err err;
    int status;

    (void)spot_client_ask(join, NULL, 0, SPOT_MSG_STOP, NULL, 0, &answer, &err);
    spot_buf_release(&answer);
    waitpid(pid, &status, 0);
}

START_TEST(what_a_running_job_gives_is_what_it_would_have_left_at_that_step)
{
    struct spot_trainer_options o = job(2, 1, 2, 1);
    struct spot_saved_model fetched, saved;
    struct spot_err err;
    char join[160];
    int end[2];
    pid_t pid;

    snprintf(join, sizeof(join), "unix:%s/fetch.socket", dir);
    o.listen = join;
    o.state = in_dir("", "fetch");
    o.durable_every_s = 0.2;
    o.config.n_step = 5000;
    ck_assert_int_eq(pipe(end), 0);
    pid = start_job(&o, end[1]);
    ck_assert_msg(!spot_saved_model_fetch(&fetched, join, NULL, 20, 60, &err), "%s", err.msg);
    stop_job(pid, join);
    ck_assert_int_gt(fetched.step, 0);
    ck_assert_msg(!spot_saved_model_read(&saved, at_dir(ended_job("again", fetched.step)),
                                         SPOT_NEWEST_STEP, warn, &err),
                  "%s", err.msg);
    expect_same(&fetched, &saved);
    ck_assert_str_eq(saved.tokens, "bytes");
    ck_assert_int_eq(n_warning, 0);
    spot_saved_model_release(&fetched);
    spot_saved_model_release(&saved);
}
END_TEST

/* It waits for workers: it has no step, and will have none. */
START_TEST(a_job_that_makes_nothing_durable_is_not_waited_for_without_end)
{
    struct spot_trainer_options o = job(0, 1, 1, 1);
    struct spot_saved_model m;
    struct spot_err err = { 0 };
    char join[160];
    int end[2], status;
    pid_t pid;

    snprintf(join, sizeof(join), "unix:%s/idle.socket", dir);
    o.listen = join;
    ck_assert_int_eq(pipe(end), 0);
    pid = start_job(&o, end[1]);
    ck_assert_int_eq(spot_saved_model_fetch(&m, join, NULL, 20, 0.2, &err), -1);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
    ck_assert_ptr_nonnull(strstr(err.msg, "step 1 of the job did not become durable within 0.2 s"));
    spot_saved_model_release(&m);
}
END_TEST

START_TEST(where_no_job_listens_nothing_is_fetched)
{
    struct spot_saved_model m;
    struct spot_err err = { 0 };
    char join[160];

    snprintf(join, sizeof(join), "unix:%s/nobody.socket", dir);
    ck_assert_int_eq(spot_saved_model_fetch(&m, join, NULL, 0, 0.2, &err), -1);
    ck_assert_int_ne(err.code, 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "nobody.socket"));
    ck_assert_ptr_null(m.bundle);
    spot_saved_model_release(&m);
}
END_TEST

/* --- a job that is followed --- */

static pid_t followed_job(const char *join, const char *state)
{
    struct spot_trainer_options o = job(2, 1, 2, 1);
    int end[2];

    o.listen = join;
    o.state = state;
    o.config.n_step = 1000000;
    ck_assert_int_eq(pipe(end), 0);
    return start_job(&o, end[1]);
}

/* The next weights; while the job begins nobody listens. */
static void await_shown(struct spot_saved_model *m, struct spot_followed *f)
{
    struct spot_err err;
    int rc = 0;

    for (int k = 0; rc <= 0 && k < 2400; k++) {
        if (k)
            spot_clock_sleep(0.05);
        rc = spot_saved_model_follow(m, f, &err);
        ck_assert(rc > 0 || !m->bundle);
    }
    ck_assert_int_eq(rc, 1);
    ck_assert_int_eq(m->step, f->step);
}

START_TEST(weights_that_are_followed_are_those_of_their_step)
{
    struct spot_saved_model first, second, saved;
    struct spot_err err;
    char join[160];
    struct spot_followed f = { .join = join, .every = 7, .step = -1 };
    pid_t pid;

    snprintf(join, sizeof(join), "unix:%s/follow.socket", dir);
    pid = followed_job(join, in_dir("", "followed"));
    await_shown(&first, &f);
    await_shown(&second, &f);
    stop_job(pid, join);
    ck_assert_int_ge(first.step, 1);
    ck_assert_int_ge(second.step, first.step + f.every);
    ck_assert_msg(!spot_saved_model_read(&saved, at_dir(ended_job("to", second.step)),
                                         SPOT_NEWEST_STEP, warn, &err),
                  "%s", err.msg);
    expect_same(&second, &saved);
    spot_saved_model_release(&first);
    spot_saved_model_release(&second);
    spot_saved_model_release(&saved);
}
END_TEST

/* It dies, and what was had stays known; one that has come less far is followed from there. */
START_TEST(a_job_that_is_followed_may_end_and_begin_anew)
{
    struct spot_saved_model m;
    struct spot_err err = { 0 };
    char join[160];
    struct spot_followed f = { .join = join, .every = 1, .step = -1 };
    pid_t pid;

    snprintf(join, sizeof(join), "unix:%s/anew.socket", dir);
    pid = followed_job(join, in_dir("", "before"));
    await_shown(&m, &f);
    spot_saved_model_release(&m);
    stop_job(pid, join);
    f.step = 900000; /* as if it had come that far */
    ck_assert_int_eq(spot_saved_model_follow(&m, &f, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "anew.socket"));
    ck_assert_ptr_null(m.bundle);
    ck_assert_int_eq(f.step, 900000);
    pid = followed_job(join, in_dir("", "after"));
    await_shown(&m, &f);
    ck_assert_int_lt(f.step, 900000);
    stop_job(pid, join);
    spot_saved_model_release(&m);
}
END_TEST

/* What a job says to a question about weights that it does not have. */
static void expect_no_look(const char *join, int64_t step, uint32_t bundle)
{
    struct spot_buf question = { 0 }, answer = { 0 };
    struct spot_err err = { 0 };

    spot_put_i64(&question, step);
    spot_put_u32(&question, bundle);
    ck_assert_int_gt(spot_client_ask(join, NULL, 20, (enum spot_message)SPOT_MSG_LOOK,
                                     question.data, question.n, &answer, &err),
                     0);
    spot_buf_release(&question);
    spot_buf_release(&answer);
}

START_TEST(weights_that_are_not_shown_are_refused)
{
    struct spot_saved_model m;
    char join[160];
    struct spot_followed f = { .join = join, .every = 1, .step = -1 };
    pid_t pid;

    snprintf(join, sizeof(join), "unix:%s/look.socket", dir);
    pid = followed_job(join, in_dir("", "looked"));
    expect_no_look(join, 0, 0); /* nobody has asked for any */
    await_shown(&m, &f);
    expect_no_look(join, m.step, 99);
    expect_no_look(join, m.step + 1000000, 0);
    expect_no_look(join, -1, 0);
    stop_job(pid, join);
    spot_saved_model_release(&m);
}
END_TEST

/* --- a directory --- */

START_TEST(a_damaged_generation_is_passed_over_and_named)
{
    const char *const state = ended_job("damaged", 3);
    struct spot_saved_model whole, m;
    struct spot_err err;

    ck_assert_int_eq(spot_saved_model_read(&whole, at_dir(state), 3, warn, &err), 0);
    copy_generation(state, 3, 4);
    ck_assert_int_eq(spot_saved_model_read(&m, at_dir(state), SPOT_NEWEST_STEP, warn, &err), 0);
    ck_assert_int_eq(m.step, 4);
    m.step = 3;
    expect_same(&m, &whole);
    spot_saved_model_release(&m);
    ck_assert_int_eq(n_warning, 0);

    shell("truncate -s -1 damaged/gen-000000000004/bundle-*");
    ck_assert_int_eq(spot_saved_model_read(&m, at_dir(state), SPOT_NEWEST_STEP, warn, &err), 0);
    expect_same(&m, &whole);
    ck_assert_int_eq(n_warning, 1);
    ck_assert_ptr_nonnull(strstr(warning, "gen-000000000004"));
    ck_assert_ptr_nonnull(strstr(warning, "; using the state of step 3"));
    spot_saved_model_release(&m);
    ck_assert_int_eq(spot_saved_model_read(&m, at_dir(state), SPOT_NEWEST_STEP, NULL, &err), 0);
    spot_saved_model_release(&m);

    ck_assert_int_eq(spot_saved_model_read(&m, at_dir(state), 4, warn, &err), -1); /* no other */
    ck_assert_int_eq(err.code, SPOT_EDATA);
    spot_saved_model_release(&m);

    shell("truncate -s -1 damaged/gen-*/bundle-*");
    ck_assert_int_eq(spot_saved_model_read(&m, at_dir(state), SPOT_NEWEST_STEP, warn, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "no valid generation is left"));
    spot_saved_model_release(&m);
    spot_saved_model_release(&whole);
}
END_TEST

static void expect_refused(const char *state, int64_t step, int code, const char *what)
{
    struct spot_saved_model m;
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_saved_model_read(&m, at_dir(state), step, warn, &err), -1);
    ck_assert_int_eq(err.code, code);
    ck_assert_msg(strstr(err.msg, what), "'%s' is not in: %s", what, err.msg);
    spot_saved_model_release(&m);
}

START_TEST(what_is_not_a_jobs_directory_or_step_is_refused)
{
    const char *const state = ended_job("refused", 2);

    copy_generation(state, 2, 5);
    expect_refused(state, 3, SPOT_EUSAGE, "has no state of step 3; it has 5, 2");
    expect_refused(in_dir("", "nowhere"), SPOT_NEWEST_STEP, SPOT_EUSAGE, "there is no '");
    shell("mkdir empty");
    expect_refused(in_dir("", "empty"), SPOT_NEWEST_STEP, SPOT_EDATA, "has no job.json");
    shell("sed 's/\"gpt2\"/\"rnn\"/' refused/job.json >empty/job.json");
    expect_refused(in_dir("", "empty"), SPOT_NEWEST_STEP, SPOT_EDATA,
                   "/arch: expected gpt2 or llama, got 'rnn'");
    shell("sed 's/\"heads\": *2/\"heads\": 3/' refused/job.json >empty/job.json");
    expect_refused(in_dir("", "empty"), SPOT_NEWEST_STEP, SPOT_EDATA, "empty/job.json: ");
    shell("cp refused/job.json empty/job.json");
    expect_refused(in_dir("", "empty"), SPOT_NEWEST_STEP, SPOT_EDATA, "holds no state");
    expect_refused(in_dir("", "empty"), 7, SPOT_EUSAGE, "it has none");
}
END_TEST

/* GPT-2's positions: one row each, unsharded; every other tensor of the bundle is as it was. */
START_TEST(a_shorter_model_has_the_first_positions)
{
    const char *const state = ended_job("shorter", 2);
    struct spot_saved_model was, m;
    struct spot_err err;
    int n_cut = 0;

    ck_assert_int_eq(spot_saved_model_read(&was, at_dir(state), 2, warn, &err), 0);
    ck_assert_int_eq(spot_saved_model_read(&m, at_dir(state), 2, warn, &err), 0);
    ck_assert_int_eq(spot_saved_model_shorten(&m, 5, &err), 0);
    ck_assert_int_eq(m.shape.seq, 5);
    for (int t = 0; t < m.bundle[0]->arena.n_tensor; t++) {
        const struct spot_arena *const a = &m.bundle[0]->arena, *const b = &was.bundle[0]->arena;
        const struct spot_tensor *const now = &a->tensor[t], *const then = &b->tensor[t];

        n_cut += now->rows == 5 && then->rows == 8;
        ck_assert(now->rows == then->rows || (now->rows == 5 && then->rows == 8));
        for (int s = 0; s < (now->is_sharded ? a->n_shard : 1); s++)
            ck_assert_mem_eq(m.bundle[0]->plane[SPOT_PLANE_MASTER] + spot_arena_offset(a, t, s),
                             was.bundle[0]->plane[SPOT_PLANE_MASTER] + spot_arena_offset(b, t, s),
                             (size_t)(now->rows * now->cols) * sizeof(float));
    }
    ck_assert_int_eq(n_cut, 1);
    for (int p = 0; p < SPOT_PLANES; p++)
        ck_assert(p == SPOT_PLANE_MASTER || !m.bundle[0]->plane[p]);
    spot_saved_model_release(&was);
    spot_saved_model_release(&m);
}
END_TEST

static bool always(void *user)
{
    (void)user;
    return true;
}

START_TEST(a_bundle_is_written_to_a_file_of_its_own_whatever_has_the_name)
{
    static const char *const there[] = { "ln -s ../decoy own/bundle-0000",
                                         "ln -f decoy own/bundle-0000", "rm -r own; ln -s . own" };
    const struct spot_shape shape = job(1, 1, 1, 1).config.shape;
    struct spot_generations g = { .n_bundle = spot_shape_bundles(&shape) };
    struct spot_bundle *bundle;
    struct spot_written written;
    struct spot_err err = { 0 };
    uint8_t *packed;
    char own[256];
    size_t n;

    snprintf(g.dir, sizeof(g.dir), "%s", ended_job("bundled", 2));
    packed = spot_generation_read(&g, 2, 0, &n, &err);
    ck_assert_msg(packed, "%s", err.msg);
    bundle = spot_bundle_unpack(&shape, 0, 2, packed, n, &err);
    snprintf(own, sizeof(own), "%s", in_dir("", "own"));
    shell("mkdir own && echo precious >decoy");
    for (size_t i = 0; i < sizeof(there) / sizeof(there[0]); i++) {
        shell(there[i]);
        ck_assert_int_eq(spot_bundle_file_write(own, bundle, always, NULL, &written, &err),
                         i < 2 ? 0 : -1); /* the directory is a link */
        shell("[ \"$(cat decoy)\" = precious ]");
    }
    spot_bundle_free(bundle);
    free(packed);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tc = tcase_create("saved_model");

    be_worker(argc, argv);
    make_dir();
    tcase_add_test(tc, what_a_running_job_gives_is_what_it_would_have_left_at_that_step);
    tcase_add_test(tc, a_job_that_makes_nothing_durable_is_not_waited_for_without_end);
    tcase_add_test(tc, where_no_job_listens_nothing_is_fetched);
    tcase_add_test(tc, weights_that_are_followed_are_those_of_their_step);
    tcase_add_test(tc, a_job_that_is_followed_may_end_and_begin_anew);
    tcase_add_test(tc, weights_that_are_not_shown_are_refused);
    tcase_add_test(tc, a_damaged_generation_is_passed_over_and_named);
    tcase_add_test(tc, what_is_not_a_jobs_directory_or_step_is_refused);
    tcase_add_test(tc, a_bundle_is_written_to_a_file_of_its_own_whatever_has_the_name);
    tcase_add_test(tc, a_shorter_model_has_the_first_positions);
    return run_job_suite("saved_model", tc);
}
