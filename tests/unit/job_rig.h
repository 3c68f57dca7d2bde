/* SPDX-License-Identifier: MIT */
/* job_rig.h - a whole job on processes of this program: a small config, local workers that are
 * forked, and what came of it. */
#ifndef SPOT_TESTS_JOB_RIG_H
#define SPOT_TESTS_JOB_RIG_H

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster/private_dir.h"
#include "suite.h"
#include "train/trainer.h"
#include "train/worker.h"

enum { STEPS = 12 };

#define STATE_COMMAND_ENV "SPOT_TEST_STATE_COMMAND" /* of workers that are started; or unset */

static char dir[] = "/tmp/spot-job-XXXXXX";

/* --- processes --- */

static inline void on_notice(int number)
{
    (void)number;
    spot_worker_notice();
}

struct outcome {
    int rc;
    struct spot_trainer_result result;
    struct spot_err err;
    int n_progress, n_note;
    char warned[4096]; /* a line for each warning, as far as there is room */
};

static struct outcome told;

static inline void quiet(const char *fmt, ...) SPOT_PRINTF(1, 2);
static inline void quiet(const char *fmt, ...)
{
    (void)fmt;
}

static inline void remember(const char *fmt, ...) SPOT_PRINTF(1, 2);
static inline void remember(const char *fmt, ...)
{
    const size_t n = strlen(told.warned);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(told.warned + n, sizeof(told.warned) - n, fmt, ap);
    va_end(ap);
    strncat(told.warned, "\n", sizeof(told.warned) - strlen(told.warned) - 1);
}

/* A new program, as in earnest: in what is forked beside a thread an allocator's lock may be held
 * for ever. */
static inline void become_worker(const struct spot_trainer_options *o, uint64_t index,
                                 const char *address, const char *backend)
{
    char number[24], recompute[24];

    snprintf(number, sizeof(number), "%llu", (unsigned long long)index);
    snprintf(recompute, sizeof(recompute), "%d", o->recompute);
    execl("/proc/self/exe", "test-worker", address, number, backend, recompute, o->key_file,
          (char *)NULL);
}

/* Called first by main: does not return where this program is a worker. */
static inline void be_worker(int argc, char **argv)
{
    struct sigaction action = { .sa_handler = on_notice, .sa_flags = SA_RESTART };
    struct spot_worker_options w = { .n_thread = 1, .join_timeout_s = 60, .warn = quiet };
    struct spot_err err = { 0 };
    char name[32];

    if (argc < 5 || strcmp(argv[0], "test-worker") != 0)
        return;
    snprintf(name, sizeof(name), "local-%s", argv[2]);
    w.join = argv[1];
    w.name = name;
    w.domain = strtol(argv[2], NULL, 10) % 2 ? "odd" : "even";
    w.backend = argv[3];
    w.recompute = (int)strtol(argv[4], NULL, 10);
    w.key_file = argc > 5 ? argv[5] : NULL;
    w.private_dir = getenv(SPOT_PRIVATE_DIR_ENV);
    w.state_command = getenv(STATE_COMMAND_ENV);
    w.state_timeout_s = 10;
    sigaction(SIGTERM, &action, NULL);
    leave(spot_worker_run(&w, &err) ? spot_err_exit_status(&err) : 0);
}

static inline pid_t start_job(const struct spot_trainer_options *o, int to)
{
    const pid_t pid = fork();

    if (pid)
        return pid;
    signal(SIGTERM, SIG_DFL);
    told.rc = spot_trainer_run(o, &told.result, &told.err);
    leave(write(to, &told, sizeof(told)) != (ssize_t)sizeof(told));
}

static inline struct outcome end_job(pid_t pid, const int end[2])
{
    struct outcome got = { .rc = -2 };
    int status;

    close(end[1]); /* the read ends with the process at the latest */
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(!status, "the coordinator ended with %x", (unsigned)status);
    ck_assert_int_eq(read(end[0], &got, sizeof(got)), sizeof(got));
    close(end[0]);
    return got;
}

static inline struct outcome run_job(const struct spot_trainer_options *o)
{
    int end[2];

    ck_assert_int_eq(pipe(end), 0);
    return end_job(start_job(o, end[1]), end);
}

/* --- jobs --- */

static inline const char *in_dir(const char *prefix, const char *name)
{
    static char text[16][160];
    static int at;
    char *const here = text[at++ % 16];

    snprintf(here, sizeof(text[0]), "%s%s/%s", prefix, dir, name);
    return here;
}

static const char *data[1];

static inline struct spot_trainer_options job(uint64_t n_local, uint32_t D, uint32_t P, uint32_t M)
{
    return (struct spot_trainer_options){
        .config = { .shape = { 2, 16, 2, 8, 256, 2 },
                    .micro_batch = 1,
                    .global_batch = 4,
                    .n_step = STEPS,
                    .seed = 1,
                    .adamw = { 1e-3, 0.9, 0.95, 1e-8, 0.1 },
                    .clip_norm = 1,
                    .kernel = "portable" },
        .data = data,
        .n_data = 1,
        .token_byte = 1,
        .n_local = n_local,
        .n_thread = 1,
        .grid = { D, P, M },
        .durable_every_s = 0.02,
        .precopy_byte = -1,
        .lease_s = 30,
        .stall_s = 60,
        .settle_s = 0.1,
        .warn = remember,
        .become_worker = become_worker,
    };
}

static inline void expect_state(const struct spot_trainer_options *o, const char *hex)
{
    const struct outcome got = run_job(o);

    ck_assert_msg(!got.rc, "%s", got.err.msg);
    ck_assert_int_eq(got.result.step, o->config.n_step);
    ck_assert_str_eq(got.result.state_hex, hex);
    ck_assert(got.result.knows_loss);
    ck_assert(got.result.loss > 0 && got.result.loss < 6); /* ln 256 = 5.55 at the start */
}

/* A directory with a corpus, and none. */
static inline void make_dir(void)
{
    FILE *corpus;

    if (!mkdtemp(dir))
        exit(77);
    data[0] = strdup(in_dir("", "corpus"));
    corpus = fopen(data[0], "w");
    for (int i = 0; i < 1000; i++)
        fprintf(corpus, "%d ", i * i);
    fclose(corpus);
}

/* And take the directory away. */
static inline int run_job_suite(const char *name, TCase *tc)
{
    const int rc = run_suite(name, tc);
    char command[64];

    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    free((char *)(uintptr_t)data[0]);
    return system(command) ? EXIT_FAILURE : rc;
}

#endif /* SPOT_TESTS_JOB_RIG_H */
