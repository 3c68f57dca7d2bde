/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "serve/shared_image.h"
#include "suite.h"

/* Goal: the bytes are made once while any process maps them, whoever comes when; what killed
 * processes left is removed; where nothing can be shared, or a stranger was there first, each has
 * its own. */

enum { BYTES = 100000 };

static char dir[64];
static int n_made, n_waited;
static bool fails;

static int make(void *user, void *byte, struct spot_err *err)
{
    (void)user;
    n_made++;
    if (fails)
        return spot_err_set(err, SPOT_EDATA, "cannot");
    memset(byte, 7, BYTES);
    return 0;
}

static void wait_for_it(void *user)
{
    (void)user;
    n_waited++;
}

static const struct spot_shared_image_maker maker = { BYTES, make, wait_for_it, NULL };

static void set_up(void)
{
    n_made = n_waited = 0;
    fails = false;
    snprintf(dir, sizeof(dir), "/tmp/spot-image.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void tear_down(void)
{
    ck_assert_int_eq(rmdir(dir), 0); /* nothing is left in it */
}

static struct spot_shared_image open_one(const char *name)
{
    struct spot_shared_image image;
    struct spot_err err;

    ck_assert_int_eq(spot_shared_image_open(&image, dir, name, &maker, &err), 0);
    ck_assert_uint_eq(image.n_byte, BYTES);
    ck_assert_uint_eq((uintptr_t)image.byte % 64, 0);
    ck_assert_int_eq(((const char *)image.byte)[0], 7);
    ck_assert_int_eq(((const char *)image.byte)[BYTES - 1], 7);
    return image;
}

START_TEST(the_second_maps_what_the_first_made_and_the_last_removes_it)
{
    struct spot_shared_image a = open_one("x"), b = open_one("x"), c = open_one("y"), d;

    ck_assert(a.is_shared && b.is_shared && c.is_shared);
    ck_assert_int_eq(n_made, 2);
    spot_shared_image_close(&a);
    d = open_one("x");
    ck_assert_int_eq(n_made, 2);
    spot_shared_image_close(&b);
    spot_shared_image_close(&d);
    a = open_one("x"); /* all had left */
    ck_assert_int_eq(n_made, 3);
    spot_shared_image_close(&a);
    spot_shared_image_close(&c);
    spot_shared_image_close(&c); /* no effect */
}
END_TEST

static pid_t in_child(void (*does)(int), int to)
{
    const pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (!pid) {
        does(to);
        _exit(0);
    }
    return pid;
}

static void hold(int to)
{
    (void)open_one("x");
    ck_assert_int_eq(write(to, &n_made, sizeof(n_made)), sizeof(n_made));
    pause();
}

START_TEST(what_a_killed_process_left_is_swept_by_the_next)
{
    struct spot_shared_image y, x;
    int made, to[2];
    pid_t pid;

    ck_assert_int_eq(pipe(to), 0);
    pid = in_child(hold, to[1]);
    ck_assert_int_eq(read(to[0], &made, sizeof(made)), sizeof(made));
    y = open_one("y"); /* x is in use: it stays */
    x = open_one("x");
    ck_assert_int_eq(n_made, 1);
    spot_shared_image_close(&x);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    spot_shared_image_close(&y);
    y = open_one("y"); /* x is swept here */
    spot_shared_image_close(&y);
    close(to[0]);
    close(to[1]);
}
END_TEST

static int all_have_come[2];

static void come(int to)
{
    struct spot_shared_image image = open_one("x");
    char byte;

    ck_assert_int_eq(write(to, &n_made, sizeof(n_made)), sizeof(n_made));
    ck_assert_int_eq(read(all_have_come[0], &byte, 1), 1);
    spot_shared_image_close(&image);
}

START_TEST(of_many_that_come_at_once_one_makes_it)
{
    int to[2], all = 0, made;
    pid_t pid[8];

    ck_assert_int_eq(pipe(to), 0);
    ck_assert_int_eq(pipe(all_have_come), 0);
    for (int i = 0; i < 8; i++)
        pid[i] = in_child(come, to[1]);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(read(to[0], &made, sizeof(made)), sizeof(made));
        all += made;
    }
    ck_assert_int_eq(write(all_have_come[1], "12345678", 8), 8);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(waitpid(pid[i], NULL, 0), pid[i]);
    ck_assert_int_eq(all, 1);
    for (int i = 0; i < 2; i++) {
        close(to[i]);
        close(all_have_come[i]);
    }
}
END_TEST

START_TEST(one_that_was_not_made_to_its_end_is_made_again)
{
    struct spot_shared_image image;
    struct spot_err err = { 0 };

    fails = true;
    ck_assert_int_eq(spot_shared_image_open(&image, dir, "x", &maker, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    fails = false;
    image = open_one("x");
    ck_assert_int_eq(n_made, 2);
    spot_shared_image_close(&image);
}
END_TEST

START_TEST(where_nothing_can_be_shared_each_has_its_own)
{
    char path[200];
    struct spot_shared_image image;
    struct spot_err err;
    FILE *f;
    int fd;

    ck_assert_int_eq(spot_shared_image_open(&image, "/nowhere", "x", &maker, &err), 0);
    ck_assert(!image.is_shared);
    spot_shared_image_close(&image);
    /* a file that others can write was there before */
    snprintf(path, sizeof(path), "%s/spot-%u-image-x", dir, (unsigned)geteuid());
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fclose(f);
    ck_assert_int_eq(chmod(path, 0666), 0);
    fd = open(path, O_RDWR | O_CLOEXEC); /* and is locked by them, for good */
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    image = open_one("x");
    ck_assert(!image.is_shared);
    spot_shared_image_close(&image);
    close(fd);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

START_TEST(another_file_by_a_hard_link_is_neither_filled_nor_swept)
{
    char path[200], swept[200], decoy[200], text[16] = "";
    struct spot_shared_image image;
    FILE *f;

    snprintf(path, sizeof(path), "%s/spot-%u-image-x", dir, (unsigned)geteuid());
    snprintf(swept, sizeof(swept), "%s/spot-%u-image-y", dir, (unsigned)geteuid());
    snprintf(decoy, sizeof(decoy), "%s/decoy", dir);
    f = fopen(decoy, "w");
    fputs("precious", f);
    fclose(f);
    ck_assert_int_eq(chmod(decoy, 0600), 0);
    ck_assert(!link(decoy, path) && !link(decoy, swept));
    image = open_one("x");
    ck_assert(!image.is_shared);
    spot_shared_image_close(&image);
    f = fopen(decoy, "r");
    ck_assert_ptr_nonnull(fgets(text, sizeof(text), f));
    fclose(f);
    ck_assert_str_eq(text, "precious");
    ck_assert(!unlink(path) && !unlink(swept) && !symlink("decoy", path));
    image = open_one("x"); /* a link is not followed either */
    ck_assert(!image.is_shared);
    spot_shared_image_close(&image);
    ck_assert(!unlink(path) && !unlink(decoy));
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("core");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    add_tests(tc);
    return run_suite("shared_image", tc);
}
