/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#include "comm/endpoint.h"
#include "suite.h"

/* Goal: only addresses that no stranger can reach are taken; a Unix socket has mode 0600 from its
 * birth; what a dead process left is replaced, what answers or is no socket is not. */

static char dir[] = "/tmp/spot-endpoint-XXXXXX";

static struct spot_endpoint at(const char *name)
{
    struct spot_endpoint e;
    char text[SPOT_ADDRESS_MAX];

    snprintf(text, sizeof(text), "unix:%s/%s", dir, name);
    ck_assert_int_eq(spot_endpoint_parse(text, &e, NULL), 0);
    return e;
}

START_TEST(addresses_off_loopback_and_nonsense_are_refused)
{
    static const char *const wrong[] = {
        "0.0.0.0:1",
        "127.0.0.2:1",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "127.0.0.1:1x",
        "127.0.0.1: 1",
        "[::]:1",
        "[::1]",
        "::1:1",
        "10.1.2.3:1",
        "localhost",
        "localhost.example.org:1",
        "example.org:1",
        "unix:",
        "unix",
        "",
        ":1",
        "1",
    };
    char text[300] = "unix:";
    struct spot_endpoint e;
    struct spot_err err;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ck_assert_msg(spot_endpoint_parse(wrong[i], &e, &err) == -1, "'%s'", wrong[i]);
        ck_assert_int_eq(err.code, SPOT_EUSAGE);
    }
    memset(text + 5, 'x', 107);
    ck_assert_int_eq(spot_endpoint_parse(text, &e, NULL), 0);
    text[5 + 107] = 'x';
    ck_assert_int_eq(spot_endpoint_parse(text, &e, NULL), -1);
}
END_TEST

START_TEST(with_a_key_any_address_is_taken_and_nonsense_still_is_not)
{
    static const char *const right[] = { "0.0.0.0:1", "127.0.0.2:1", "10.1.2.3:65535", "[::]:1",
                                         "[fd00::1:2]:7" };
    static const char *const wrong[] = { "10.1.2.3",   "10.1.2.3:",       "10.1.2.3:65536",
                                         "10.1.2:x",   "::1:1",           "[::1]",
                                         "[::1:1",     "example.org:1",   ":1",
                                         "[]:1",       "10.1.2.3.4:1",    "",
                                         "[10.1.2.]:", "10.1.2.3:0000x1 " };
    char text[SPOT_ADDRESS_MAX + 8];
    struct spot_endpoint e;
    struct spot_err err;

    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        ck_assert_int_eq(spot_endpoint_parse_reach(right[i], SPOT_REACH_NUMERIC, &e, NULL), 0);
        ck_assert(!spot_endpoint_is_private(&e));
        spot_endpoint_print(&e, text);
        ck_assert_str_eq(text, right[i]);
        ck_assert_int_eq(spot_endpoint_parse(right[i], &e, &err), -1);
        ck_assert_ptr_nonnull(strstr(err.msg, "--key-file"));
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ck_assert_msg(spot_endpoint_parse_reach(wrong[i], SPOT_REACH_NUMERIC, &e, &err) == -1,
                      "'%s'", wrong[i]);
        ck_assert_int_eq(err.code, SPOT_EUSAGE);
    }
    ck_assert_int_eq(spot_endpoint_parse_reach("localhost:1", SPOT_REACH_NAMES, &e, NULL), 0);
    ck_assert(spot_endpoint_is_private(&e) && !spot_endpoint_is_any(&e));
    ck_assert_int_eq(spot_endpoint_parse_reach("[::]:1", SPOT_REACH_NUMERIC, &e, NULL), 0);
    ck_assert(spot_endpoint_is_any(&e));
}
END_TEST

START_TEST(printing_gives_back_what_was_parsed)
{
    static const char *const right[] = { "unix:/a b/c", "127.0.0.1:0", "127.0.0.1:65535",
                                         "[::1]:4000" };
    char text[SPOT_ADDRESS_MAX + 8];
    struct spot_endpoint e;

    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        ck_assert_int_eq(spot_endpoint_parse(right[i], &e, NULL), 0);
        spot_endpoint_print(&e, text);
        ck_assert_str_eq(text, right[i]);
    }
    ck_assert_int_eq(spot_endpoint_parse("localhost:7", &e, NULL), 0);
    spot_endpoint_print(&e, text);
    ck_assert_str_eq(text, "127.0.0.1:7");
}
END_TEST

START_TEST(a_unix_socket_is_private_whatever_the_umask)
{
    struct spot_endpoint e = at("private");
    const mode_t old = umask(0);
    const int fd = spot_endpoint_listen(&e, NULL);
    struct stat st;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(lstat(e.path, &st), 0);
    ck_assert(S_ISSOCK(st.st_mode));
    ck_assert_uint_eq(st.st_mode & 07777, 0600);
    ck_assert_uint_eq(umask(old), 0); /* put back */
    close(fd);
    unlink(e.path);
}
END_TEST

static atomic_bool has_ended;

static void *create_files(void *n_wrong)
{
    char path[SPOT_ADDRESS_MAX];
    struct stat st;

    snprintf(path, sizeof(path), "%s", at("beside").path);
    while (!atomic_load(&has_ended)) {
        const int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0666);

        if (!fstat(fd, &st) && (st.st_mode & 0777) != 0666)
            ++*(int *)n_wrong;
        close(fd);
        unlink(path);
    }
    return NULL;
}

START_TEST(listening_does_not_change_the_mode_of_files_that_other_threads_create)
{
    const mode_t old = umask(0);
    pthread_t thread;
    int n_wrong = 0;

    ck_assert_int_eq(pthread_create(&thread, NULL, create_files, &n_wrong), 0);
    for (int i = 0; i < 2000; i++) {
        struct spot_endpoint e = at("listener");

        close(spot_endpoint_listen(&e, NULL));
        unlink(e.path);
    }
    atomic_store(&has_ended, true);
    pthread_join(thread, NULL);
    umask(old);
    ck_assert_int_eq(n_wrong, 0);
}
END_TEST

START_TEST(a_stale_socket_is_replaced_a_live_one_and_a_file_are_not)
{
    struct spot_endpoint e = at("stale");
    struct spot_err err;
    FILE *file;
    int fd = spot_endpoint_listen(&e, NULL), other;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(spot_endpoint_listen(&e, &err), -1); /* alive */
    ck_assert_int_eq(err.code, SPOT_ESYS);
    other = spot_endpoint_connect(&e, NULL);
    ck_assert_int_ge(other, 0); /* and unharmed */
    close(other);
    close(fd);
    ck_assert_int_eq(spot_endpoint_connect(&e, &err), -1);
    fd = spot_endpoint_listen(&e, NULL);
    ck_assert_int_ge(fd, 0);
    close(fd);
    unlink(e.path);
    file = fopen(e.path, "w");
    fputs("precious", file);
    fclose(file);
    ck_assert_int_eq(spot_endpoint_listen(&e, &err), -1);
    ck_assert_int_eq(access(e.path, F_OK), 0);
    unlink(e.path);
}
END_TEST

static bool exists(const struct spot_endpoint *e)
{
    return !access(e->path, F_OK);
}

START_TEST(a_sweep_takes_the_sockets_of_the_dead_of_that_age_and_nothing_else)
{
    const struct utimbuf a_minute_ago = { time(NULL) - 60, time(NULL) - 60 };
    const struct spot_endpoint job = at("job");
    struct spot_endpoint old = at("job.1"), new = at("job.2"), live = at("job.3"),
                         other = at("jobs.4"), file = at("job.5");
    const struct spot_endpoint *const aged[] = { &old, &live, &other, &file };
    FILE *out = fopen(file.path, "we");
    int live_fd;

    ck_assert_ptr_nonnull(out);
    fclose(out);
    close(spot_endpoint_listen(&old, NULL));
    close(spot_endpoint_listen(&new, NULL));
    close(spot_endpoint_listen(&other, NULL));
    live_fd = spot_endpoint_listen(&live, NULL);
    for (size_t i = 0; i < sizeof(aged) / sizeof(aged[0]); i++)
        ck_assert_int_eq(utime(aged[i]->path, &a_minute_ago), 0);
    spot_endpoint_sweep(&job, 30);
    ck_assert(!exists(&old) && exists(&new) && exists(&live) && exists(&other) && exists(&file));
    spot_endpoint_sweep(&job, 0);
    ck_assert(!exists(&new) && exists(&live) && exists(&other) && exists(&file));
    close(live_fd);
    unlink(live.path);
    unlink(other.path);
    unlink(file.path);
}
END_TEST

/* As of a process that was stopped: its queue fills up and is never emptied. */
START_TEST(a_listener_that_takes_nobody_in_is_an_error_and_not_a_wait)
{
    struct spot_endpoint e = at("full");
    struct spot_err err;
    int waiting[2], listener = spot_endpoint_listen(&e, NULL);

    ck_assert_int_ge(listener, 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_ge(waiting[i] = spot_endpoint_connect(&e, NULL), 0);
    ck_assert_int_eq(spot_endpoint_connect(&e, &err), -1);
    ck_assert_int_eq(err.sys_errno, ETIMEDOUT);
    ck_assert_int_eq(spot_endpoint_listen(&e, &err), -1); /* it is no dead one's */
    ck_assert_int_eq(err.sys_errno, EADDRINUSE);
    for (int i = 0; i < 2; i++)
        close(waiting[i]);
    close(listener);
    unlink(e.path);
}
END_TEST

START_TEST(loopback_takes_a_free_port_and_connections_are_not_blocking)
{
    struct spot_endpoint e, bound;
    int fd, there, here;
    char byte;

    ck_assert_int_eq(spot_endpoint_parse("127.0.0.1:0", &e, NULL), 0);
    fd = spot_endpoint_listen(&e, NULL);
    ck_assert_int_ge(fd, 0);
    ck_assert_uint_ne(e.port, 0);
    ck_assert_int_eq(spot_endpoint_bound(fd, &bound, NULL), 0);
    ck_assert_mem_eq(&bound, &e, sizeof(e));
    ck_assert_int_eq(spot_endpoint_local(fd, &bound, NULL), 0);
    ck_assert_uint_eq(bound.port, 0);
    ck_assert_int_eq(spot_endpoint_accept(fd), -1);
    there = spot_endpoint_connect(&e, NULL);
    ck_assert_int_ge(there, 0);
    ck_assert_int_eq(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 60000), 1);
    here = spot_endpoint_accept(fd);
    ck_assert_int_ge(here, 0);
    ck_assert_int_eq(recv(here, &byte, 1, 0), -1); /* would block, returns */
    ck_assert_int_eq(recv(there, &byte, 1, 0), -1);
    close(here);
    close(there);
    close(fd);
}
END_TEST

static void age(const char *path, time_t by_s)
{
    const struct timespec to[2] = { { .tv_sec = time(NULL) + by_s },
                                    { .tv_sec = time(NULL) + by_s } };

    ck_assert_int_eq(utimensat(AT_FDCWD, path, to, AT_SYMLINK_NOFOLLOW), 0);
}

START_TEST(a_calendar_that_leaps_keeps_nobody_from_an_address)
{
    struct spot_endpoint e;
    int fd;

    e = at("leaping");
    fd = spot_endpoint_listen(&e, NULL);
    ck_assert_int_ge(fd, 0);
    close(fd); /* it died, in a year to come */
    age(e.path, 400 * 86400);
    spot_endpoint_drop_stale(&e, 3600); /* as old as if it were made now */
    ck_assert_int_eq(access(e.path, F_OK), 0);
    age(e.path, -4000);
    spot_endpoint_drop_stale(&e, 3600);
    ck_assert_int_ne(access(e.path, F_OK), 0);
    close(spot_endpoint_listen(&e, NULL));
    age(e.path, 400 * 86400);
    fd = spot_endpoint_listen(&e, NULL);
    ck_assert_int_ge(fd, 0);
    close(fd);
    unlink(e.path);
}
END_TEST

START_TEST(an_absolute_path_is_the_same_from_every_folder)
{
    struct spot_endpoint e, same;
    char here[4096], want[8192];

    ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
    ck_assert_int_eq(spot_endpoint_parse("unix:./sock", &e, NULL), 0);
    spot_endpoint_make_absolute(&e);
    snprintf(want, sizeof(want), "%s/sock", here);
    ck_assert_str_eq(e.path, strlen(want) < 108 ? want : "./sock");
    same = e;
    spot_endpoint_make_absolute(&same);
    ck_assert_str_eq(same.path, e.path);
    ck_assert_int_eq(spot_endpoint_parse("unix:/no/such/folder/sock", &e, NULL), 0);
    spot_endpoint_make_absolute(&e);
    ck_assert_str_eq(e.path, "/no/such/folder/sock");
    ck_assert_int_eq(spot_endpoint_parse("unix:/tmp/../sock", &e, NULL), 0);
    spot_endpoint_make_absolute(&e);
    ck_assert_str_eq(e.path, "/sock");
}
END_TEST

/* Closed here, and open in a process that was forked meanwhile. */
static void first_is_kept_by_a_child(const struct spot_endpoint *e, int listener)
{
    int wait[2];
    char byte;
    pid_t child;

    ck_assert_int_eq(pipe(wait), 0);
    child = fork();
    if (!child) {
        close(wait[1]);
        leave(read(wait[0], &byte, 1) != 0);
    }
    spot_endpoint_unlisten(e, listener);
    close(wait[0]);
    close(wait[1]);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

START_TEST(one_that_ends_takes_its_own_name_away_and_no_other)
{
    struct spot_endpoint e = at("ends");
    const int first = spot_endpoint_listen(&e, NULL);
    int second, c;
    FILE *f;

    ck_assert_int_ge(first, 0);
    unlink(e.path); /* and another server begins there */
    second = spot_endpoint_listen(&e, NULL);
    ck_assert_int_ge(second, 0);
    spot_endpoint_unlisten(&e, first);
    c = spot_endpoint_connect(&e, NULL);
    ck_assert_int_ge(c, 0);
    close(c);
    first_is_kept_by_a_child(&e, second);
    ck_assert_int_ne(access(e.path, F_OK), 0);
    second = spot_endpoint_listen(&e, NULL);
    unlink(e.path); /* and somebody's file, and a link to it */
    f = fopen(e.path, "w");
    fputs("precious", f);
    fclose(f);
    spot_endpoint_unlisten(&e, second);
    ck_assert_int_eq(access(e.path, F_OK), 0);
    spot_endpoint_drop_stale(&e, 0);
    ck_assert_int_eq(access(e.path, F_OK), 0);
    unlink(e.path);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");
    int status;

    if (!mkdtemp(dir))
        return 77;
    add_tests(tc);
    status = run_suite("endpoint", tc);
    rmdir(dir);
    return status;
}
