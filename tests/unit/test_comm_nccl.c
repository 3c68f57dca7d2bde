/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/rng.h"
#include "engine/backend.h"
#include "suite.h"

/* Goal: the NCCL communicator, over a library that keeps NCCL's promises and no more (the twin of
 * tests/twin/nccl.h, in 2 to 6 processes): pieces arrive, sums are right, and whatever a member or
 * the library does, every wait ends with an error that says whose fault it is. */

enum { RANKS_MAX = 6, SUMS = 3 };

/* What the processes of a test share. */
static struct shared {
    uint8_t id[2][SPOT_NCCL_ID_BYTE];
    atomic_int is_over;  /* the epoch is revoked */
    atomic_int n_inside; /* who is connected */
    int64_t sum[RANKS_MAX][SUMS];
    float rough[RANKS_MAX][SUMS];
} * shared;

static const uint32_t member[RANKS_MAX] = { 11, 7, 23, 5, 42, 1 };

/* The twin gives "device" memory that is the host's: no test here needs more. */
static const struct spot_nccl *nccl;

static int check_epoch(void *user, struct spot_err *err)
{
    (void)user;
    return shared->is_over ? spot_err_set(err, SPOT_EPREEMPTED, "over") : 0;
}

static struct spot_comm *open_rank(int rank, int n, double timeout_s, struct spot_err *err)
{
    const struct spot_nccl_open how = {
        .place = { member[rank], member, (size_t)n, member, (size_t)n },
        .member_id = shared->id[0],
        .replica_id = shared->id[1],
        .check = check_epoch,
        .timeout_s = timeout_s,
        .call_limit_s = 2,
    };
    struct spot_comm *const comm = nccl->open(&how, err);

    shared->n_inside += comm != NULL;
    return comm;
}

static void fresh_ids(void)
{
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(nccl->new_id(shared->id[i], NULL), 0);
    shared->is_over = shared->n_inside = 0;
}

/* Run f(rank, n) in n processes that return 0; kill the first `n_kill` once all are connected, and
 * then revoke the epoch. Fails if one of the others does not come back in 60 s. */
static void run_ranks(int n, int (*f)(int rank, int n), int n_kill)
{
    const double until_s = spot_clock_s() + 60;
    pid_t pid[RANKS_MAX];

    for (int r = 0; r < n; r++) {
        pid[r] = fork();
        if (!pid[r])
            leave(f(r, n));
    }
    if (n_kill) {
        while (shared->n_inside < n && spot_clock_s() < until_s)
            spot_clock_sleep(1e-3);
        for (int r = 0; r < n_kill; r++)
            kill(pid[r], SIGKILL);
        spot_clock_sleep(0.05);
        shared->is_over = 1;
    }
    for (int r = 0; r < n; r++) {
        int status = -1;
        pid_t got;

        while (!(got = waitpid(pid[r], &status, WNOHANG)) && spot_clock_s() < until_s)
            spot_clock_sleep(1e-3);
        if (!got)
            kill(pid[r], SIGKILL);
        ck_assert_msg(got == pid[r], "rank %d hangs", r);
        if (r >= n_kill)
            ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "rank %d: status %d", r,
                          WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
}

/* --- what works ------------------------------------------------------------ */

static uint8_t byte_of(int from, int to, size_t piece, size_t i)
{
    return (uint8_t)((size_t)from * 31 + (size_t)to * 17 + piece * 7 + i * 13 + (i >> 8));
}

static const size_t sizes[] = { 1, 70001, 3 << 20 };
enum { PIECES = sizeof(sizes) / sizeof(sizes[0]) };

/* Everyone sends everyone all sizes, all at once. */
static int all_to_all(int rank, int n)
{
    struct spot_comm_piece piece[2 * RANKS_MAX * PIECES];
    struct spot_comm *const comm = open_rank(rank, n, 20, NULL);
    size_t n_piece = 0;

    if (!comm)
        return 1;
    for (int r = 0; r < n; r++)
        for (size_t k = 0; r != rank && k < 2 * PIECES; k++) {
            struct spot_comm_piece *const p = &piece[n_piece++];

            *p = (struct spot_comm_piece){ .is_send = k % 2,
                                           .peer = member[r],
                                           .tag = k / 2,
                                           .data = malloc(sizes[k / 2]),
                                           .n_byte = sizes[k / 2] };
            for (size_t i = 0; p->is_send && i < p->n_byte; i++)
                ((uint8_t *)p->data)[i] = byte_of(rank, r, k / 2, i);
        }
    if (comm->kind->exchange(comm, piece, n_piece, NULL, NULL))
        return 2;
    for (size_t j = 0; j < n_piece; j++)
        for (size_t i = 0; !piece[j].is_send && i < piece[j].n_byte; i++) {
            int from = 0;

            while (member[from] != piece[j].peer)
                from++;
            if (((uint8_t *)piece[j].data)[i] != byte_of(from, rank, piece[j].tag, i))
                return 3;
        }
    comm->kind->close(comm);
    return 0;
}

START_TEST(pieces_of_every_size_arrive_in_one_exchange)
{
    static const int n[] = { 2, 3, 6 };

    fresh_ids();
    run_ranks(n[_i], all_to_all, 0);
}
END_TEST

static int64_t number(int rank, int i)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 9, (uint64_t)(rank * SUMS + i));
    return (int64_t)(spot_rng_next(&rng) >> 3) - (INT64_C(1) << 59);
}

static int add_up(int rank, int n)
{
    struct spot_comm *const comm = open_rank(rank, n, 20, NULL);
    int64_t *const x = shared->sum[rank];
    struct spot_comm_sum sum[] = { { 0, x, 1, false }, { 1, x + 1, SUMS - 1, false } };

    for (int i = 0; i < SUMS; i++) {
        x[i] = number(rank, i);
        shared->rough[rank][i] = (float)x[i];
    }
    if (!comm || comm->kind->sum(comm, SPOT_COMM_I64, sum, 2, NULL, NULL))
        return 1;
    sum[0] = (struct spot_comm_sum){ 2, shared->rough[rank], SUMS, false };
    if (comm->kind->sum(comm, SPOT_COMM_F32, sum, 1, NULL, NULL))
        return 2;
    comm->kind->close(comm);
    return 0;
}

START_TEST(sums_are_exact_in_integers_and_near_in_floats_and_the_same_everywhere)
{
    const int n = _i;

    fresh_ids();
    run_ranks(n, add_up, 0);
    for (int i = 0; i < SUMS; i++) {
        int64_t want = 0;

        for (int r = 0; r < n; r++)
            want += number(r, i);
        for (int r = 0; r < n; r++) {
            ck_assert_int_eq(shared->sum[r][i], want);
            ck_assert_mem_eq(&shared->rough[r][i], &shared->rough[0][i], sizeof(float));
            ck_assert_double_eq_tol(shared->rough[r][i], (double)want, ldexp(n, 62 - 24));
        }
    }
}
END_TEST

/* --- what ends -------------------------------------------------------------- */

static struct spot_comm_piece one(bool is_send, int peer, void *data, size_t n_byte)
{
    return (struct spot_comm_piece){
        .is_send = is_send, .peer = member[peer], .data = data, .n_byte = n_byte
    };
}

/* Everyone sends to the next and only then takes from the one before: a circle of waits. If the
 * twin let that pass, no test of a job would find one. */
static int circle(int rank, int n)
{
    struct spot_comm *const comm = open_rank(rank, n, 20, NULL);
    struct spot_comm_piece piece;
    struct spot_err err = { 0 };
    char byte = 0;

    if (!comm)
        return 1;
    piece = one(true, (rank + 1) % n, &byte, 1);
    if (!comm->kind->exchange(comm, &piece, 1, NULL, &err) || err.code != SPOT_EPREEMPTED)
        return 2;
    piece = one(false, (rank + n - 1) % n, &byte, 1);
    if (!comm->kind->exchange(comm, &piece, 1, NULL, &err) || err.code != SPOT_ESYS)
        return 3; /* it has ended */
    comm->kind->close(comm);
    return 0;
}

static void *end_epoch(void *unused)
{
    (void)unused;
    spot_clock_sleep(0.3);
    shared->is_over = 1;
    return NULL;
}

START_TEST(sends_in_a_circle_wait_until_the_epoch_ends)
{
    pthread_t thread;

    fresh_ids();
    pthread_create(&thread, NULL, end_epoch, NULL);
    run_ranks(2 + _i, circle, 0);
    pthread_join(thread, NULL);
}
END_TEST

/* Rank 0 never answers; how the others learn of its death is up to `check`. */
static int wait_for_rank_0(int rank, int n)
{
    struct spot_comm *comm = open_rank(rank, n, 20, NULL);
    struct spot_err err = { 0 };
    int64_t x = 1;
    const struct spot_comm_sum sum = { 0, &x, 1, false };
    struct spot_comm_piece piece = one(true, 0, &x, sizeof(x));
    int rc;

    if (!comm)
        return 1;
    if (!rank)
        for (;;)
            pause();
    rc = rank % 2 ? comm->kind->sum(comm, SPOT_COMM_I64, &sum, 1, NULL, &err)
                  : comm->kind->exchange(comm, &piece, 1, NULL, &err);
    comm->kind->close(comm);
    return rc && (err.code == SPOT_EPREEMPTED || err.code == SPOT_ESYS) ? 0 : 2;
}

START_TEST(a_killed_member_ends_every_wait_and_the_rest_forms_anew)
{
    fresh_ids();
    if (_i)
        setenv("SPOT_TWIN_NCCL_SEES", "1", 1); /* NCCL itself may notice first */
    run_ranks(4, wait_for_rank_0, 1);
    unsetenv("SPOT_TWIN_NCCL_SEES");
    fresh_ids();
    run_ranks(3, add_up, 0);
    ck_assert_int_eq(shared->sum[0][0], number(0, 0) + number(1, 0) + number(2, 0));
}
END_TEST

/* Of three only two come. */
static int connect_short(int rank, int n)
{
    struct spot_err err = { 0 };

    return open_rank(rank, n + 1, shared->n_inside ? 0.2 : 20, &err) ? 1 : (int)err.code;
}

static int connect_revoked(int rank, int n)
{
    return connect_short(rank, n) == SPOT_EPREEMPTED ? 0 : 1;
}

static int connect_late(int rank, int n)
{
    return connect_short(rank, n) == SPOT_ESYS ? 0 : 1;
}

START_TEST(who_does_not_come_ends_the_start_by_the_epoch_or_by_the_limit)
{
    pthread_t thread;

    fresh_ids();
    pthread_create(&thread, NULL, end_epoch, NULL);
    run_ranks(2, connect_revoked, 0);
    pthread_join(thread, NULL);
    fresh_ids();
    shared->n_inside = 1;
    run_ranks(2, connect_late, 0);
}
END_TEST

/* The first group of this process fails inside the library: this machine is not fit. */
static int fail_inside(int rank, int n)
{
    struct spot_err err = { 0 };
    struct spot_comm *const comm = open_rank(rank, n, 20, NULL);
    int64_t x = 1;
    const struct spot_comm_sum sum = { 0, &x, 1, false };

    if (!comm || !comm->kind->sum(comm, SPOT_COMM_I64, &sum, 1, NULL, &err))
        return 1;
    comm->kind->close(comm);
    return err.code == SPOT_EGPU && strstr(err.msg, "NCCL: ") && strstr(err.msg, "internal error")
               ? 0
               : 2;
}

START_TEST(an_error_of_the_library_itself_is_an_error_of_the_device)
{
    fresh_ids();
    setenv("SPOT_TWIN_NCCL_FAIL_AT", "1", 1);
    run_ranks(2, fail_inside, 0);
    unsetenv("SPOT_TWIN_NCCL_FAIL_AT");
}
END_TEST

/* Sizes that differ are found and not awaited. */
static int mismatch(int rank, int n)
{
    struct spot_err err = { 0 };
    struct spot_comm *const comm = open_rank(rank, n, 20, NULL);
    char byte[8] = { 0 };
    const struct spot_comm_piece piece = one(!rank, !rank, byte, rank ? 8 : 4);

    if (!comm)
        return 1;
    if (comm->kind->exchange(comm, &piece, 1, NULL, &err) && err.code == SPOT_EGPU)
        shared->is_over = 1; /* tells the other */
    comm->kind->close(comm);
    return err.code == SPOT_EGPU || err.code == SPOT_EPREEMPTED ? 0 : 2;
}

START_TEST(members_that_disagree_on_a_size_are_told)
{
    fresh_ids();
    run_ranks(2, mismatch, 0);
}
END_TEST

static int count(const char *path)
{
    DIR *const dir = opendir(path);
    int n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

/* A thread may still be on its way out. */
static bool is_left(int fds, int threads)
{
    for (int i = 0;
         i < 6000 && (count("/proc/self/fd") > fds || count("/proc/self/task") > threads); i++)
        spot_clock_sleep(0.01);
    return count("/proc/self/fd") > fds || count("/proc/self/task") > threads;
}

/* Whoever connects to one that never comes and is told to stop, again and again, keeps nothing. */
static int connect_in_vain(int rank, int n)
{
    int fds = 0, threads = 0;

    for (int i = 0; i < 30; i++) {
        if (connect_short(rank, n) != SPOT_ESYS)
            return 1;
        if (i == 1) { /* by then all is loaded */
            fds = count("/proc/self/fd");
            threads = count("/proc/self/task");
        }
    }
    return is_left(fds, threads) ? 2 : 0;
}

START_TEST(starts_that_are_given_up_leave_no_descriptor_and_no_thread)
{
    fresh_ids();
    shared->n_inside = 1;
    run_ranks(1, connect_in_vain, 0);
}
END_TEST

static int start_hangs(int rank, int n)
{
    struct spot_err err = { 0 };
    const double begin_s = spot_clock_s();

    if (open_rank(rank, n, 20, &err) || err.code != SPOT_EGPU || !nccl->is_held())
        return 1;
    return spot_clock_s() - begin_s < 15 ? 0 : 2;
}

START_TEST(a_start_that_does_not_come_back_is_not_waited_for)
{
    fresh_ids();
    setenv("SPOT_TWIN_NCCL_STUCK", "2", 1);
    run_ranks(2, start_hangs, 0);
    unsetenv("SPOT_TWIN_NCCL_STUCK");
}
END_TEST

static int abort_hangs(int rank, int n)
{
    struct spot_err err = { 0 };
    struct spot_comm *const comm = open_rank(rank, n, 20, NULL);

    if (!comm)
        return 1;
    comm->kind->close(comm);
    return !open_rank(rank, n, 20, &err) && err.code == SPOT_EGPU ? 0 : 2;
}

START_TEST(an_abort_that_does_not_come_back_is_not_waited_for)
{
    fresh_ids();
    setenv("SPOT_TWIN_NCCL_STUCK", "1", 1);
    run_ranks(2, abort_hangs, 0);
    unsetenv("SPOT_TWIN_NCCL_STUCK");
}
END_TEST

static void open_module(const char *program)
{
    const char *const end = strrchr(program, '/');
    const int n = end ? (int)(end - program) : 1;
    struct spot_err err;
    char path[4096];

    snprintf(path, sizeof(path), "%.*s/spot_cuda_twin.so", n, end ? program : ".");
    setenv("SPOT_CUDA_MODULE", path, 1);
    snprintf(path, sizeof(path), "%.*s/nccl_twin.so", n, end ? program : ".");
    setenv("SPOT_NCCL_LIBRARY", path, 1);
    nccl = spot_cuda_nccl(&err);
    if (!nccl) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    TCase *tc = tcase_create("core");

#ifdef __SANITIZE_THREAD__
    puts("1..0 # SKIP processes are forked from a program with threads");
    return EXIT_SUCCESS;
#endif
    open_module(argc > 0 ? argv[0] : "./");
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return EXIT_FAILURE;
    tcase_add_loop_test(tc, pieces_of_every_size_arrive_in_one_exchange, 0, 3);
    tcase_add_loop_test(tc, sums_are_exact_in_integers_and_near_in_floats_and_the_same_everywhere,
                        2, RANKS_MAX + 1);
    tcase_add_loop_test(tc, sends_in_a_circle_wait_until_the_epoch_ends, 0, 2);
    tcase_add_loop_test(tc, a_killed_member_ends_every_wait_and_the_rest_forms_anew, 0, 2);
    tcase_add_test(tc, who_does_not_come_ends_the_start_by_the_epoch_or_by_the_limit);
    tcase_add_test(tc, an_error_of_the_library_itself_is_an_error_of_the_device);
    tcase_add_test(tc, members_that_disagree_on_a_size_are_told);
    tcase_add_test(tc, an_abort_that_does_not_come_back_is_not_waited_for);
    tcase_add_test(tc, a_start_that_does_not_come_back_is_not_waited_for);
    tcase_add_test(tc, starts_that_are_given_up_leave_no_descriptor_and_no_thread);
    return run_suite("comm_nccl", tc);
}
