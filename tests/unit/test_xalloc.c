/* SPDX-License-Identifier: MIT */
/* Goal: where there is no memory the program says so as it ends, whoever asked for it. */
#define _XOPEN_SOURCE 700
#include "common/xalloc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/hash.h"
#include "shard/zframe.h"
#include "suite.h"

static void take_bytes(void)
{
    (void)spot_xcalloc(1, 4096);
}

static void make_hash(void)
{
    (void)spot_hash_stream_new();
}

static void make_zstd(void)
{
    (void)spot_zstd_new();
}

static void open_text(void)
{
    static char *text[1 << 20];
    static size_t n[1 << 20], i;

    i = (i + 1) % (1 << 20);
    (void)spot_xmemory_open(&text[i], &n[i]);
}

static void write_text(void)
{
    static char *text, piece[4096];
    static size_t n;
    FILE *const memory = spot_xmemory_open(&text, &n);

    while (fwrite(piece, 1, sizeof(piece), memory) == sizeof(piece))
        ;
    spot_xmemory_close(memory);
}

static void (*const user[])(void) = { take_bytes, make_hash, make_zstd, open_text, write_text };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HAS_OWN_ALLOCATOR = 1 };
#else
enum { HAS_OWN_ALLOCATOR = 0 };
#endif

/* In a process that may have 64 MiB more. */
static void use_all(int i, int out)
{
    enum { MORE_BYTE = 64 << 20 };
    unsigned long n_page = 0;
    FILE *const in = fopen("/proc/self/statm", "r");
    struct rlimit limit;

    if (!in || fscanf(in, "%lu", &n_page) != 1)
        _exit(1);
    fclose(in);
    limit.rlim_cur = limit.rlim_max = n_page * (rlim_t)sysconf(_SC_PAGESIZE) + MORE_BYTE;
    dup2(out, STDERR_FILENO);
    if (setrlimit(RLIMIT_AS, &limit) ||
        setrlimit(RLIMIT_CORE, &(struct rlimit){ .rlim_cur = 0, .rlim_max = 0 }))
        _exit(1);
    signal(SIGABRT, SIG_DFL);
    for (;;)
        user[i]();
}

START_TEST(who_finds_no_memory_says_so)
{
    char said[200] = "";
    int end[2], status;
    pid_t pid;

    if (HAS_OWN_ALLOCATOR)
        return;
    ck_assert_int_eq(pipe(end), 0);
    pid = fork();
    if (!pid)
        use_all(_i, end[1]);
    close(end[1]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    ck_assert_int_gt(read(end[0], said, sizeof(said) - 1), 0);
    ck_assert_msg(!strncmp(said, "out of memory (", strlen("out of memory (")), "%s", said);
    close(end[0]);
}
END_TEST

START_TEST(a_text_is_whole_when_it_is_closed)
{
    char *text;
    size_t n;
    FILE *const memory = spot_xmemory_open(&text, &n);

    fputs("all of it", memory);
    spot_xmemory_close(memory);
    ck_assert_uint_eq(n, 9);
    ck_assert_str_eq(text, "all of it");
    free(text);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("xalloc");

    tcase_set_timeout(tc, SUITE_TIMEOUT_S);
    tcase_add_loop_test(tc, who_finds_no_memory_says_so, 0, sizeof(user) / sizeof(user[0]));
    tcase_add_test(tc, a_text_is_whole_when_it_is_closed);
    return run_suite("xalloc", tc);
}
