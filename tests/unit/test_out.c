/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/out.h"
#include "suite.h"

/* Goal: a file appears whole or not at all, and no link that somebody laid where its unfinished
 * form will lie leads the writer to another file. */

static char dir[64], path[96], temporary[128], victim[96];

static void setup(void)
{
    snprintf(dir, sizeof(dir), "%s", "/tmp/spot-test-out-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/file", dir);
    snprintf(victim, sizeof(victim), "%s/victim", dir);
    snprintf(temporary, sizeof(temporary), "%s.tmp.%ld", path, (long)getpid());
}

static void teardown(void)
{
    unlink(path);
    unlink(victim);
    unlink(temporary);
    rmdir(dir);
}

static void put(const char *name, const char *text)
{
    FILE *out = fopen(name, "w");

    fputs(text, out);
    fclose(out);
}

static const char *text_of(const char *name)
{
    static char text[64];
    FILE *in = fopen(name, "r");
    size_t n;

    ck_assert_ptr_nonnull(in);
    n = fread(text, 1, sizeof(text) - 1, in);
    text[n] = '\0';
    fclose(in);
    return text;
}

static void write_new(void)
{
    struct spot_err err = { 0 };
    struct spot_out out;

    ck_assert_int_eq(spot_out_open(&out, path, &err), 0);
    fputs("new", out.file);
    ck_assert_int_eq(spot_out_commit(&out, &err), 0);
}

START_TEST(a_file_is_replaced_at_commit_and_not_before)
{
    struct spot_out out;

    put(path, "old");
    ck_assert_int_eq(spot_out_open(&out, path, NULL), 0);
    fputs("half", out.file);
    fflush(out.file);
    ck_assert_str_eq(text_of(path), "old");
    spot_out_discard(&out);
    ck_assert_str_eq(text_of(path), "old");
    ck_assert_int_ne(access(temporary, F_OK), 0);
    write_new();
    ck_assert_str_eq(text_of(path), "new");
}
END_TEST

START_TEST(a_link_where_the_unfinished_file_will_lie_leads_nowhere)
{
    struct stat st;

    put(victim, "precious");
    ck_assert_int_eq(symlink(victim, temporary), 0);
    write_new();
    ck_assert_str_eq(text_of(victim), "precious");
    ck_assert_str_eq(text_of(path), "new");
    ck_assert_int_eq(lstat(path, &st), 0);
    ck_assert(S_ISREG(st.st_mode));
}
END_TEST

/* What the path is now, and what is in the file that it leads to. */
static void expect_link(const char *to, const char *text)
{
    struct stat st;

    ck_assert_int_eq(lstat(path, &st), 0);
    ck_assert(S_ISLNK(st.st_mode));
    ck_assert_str_eq(text_of(to), text);
}

START_TEST(a_link_that_the_user_names_is_written_through_by_a_file_beside_its_target)
{
    char below[128], hop[128];
    struct spot_out out;

    snprintf(below, sizeof(below), "%s/below", dir);
    snprintf(hop, sizeof(hop), "%s/below/hop", dir);
    ck_assert_int_eq(mkdir(below, 0700), 0);
    ck_assert_int_eq(symlink("below/hop", path), 0);
    ck_assert_int_eq(symlink("../victim", hop), 0);
    write_new(); /* there is nothing yet */
    expect_link(victim, "new");
    put(victim, "old");
    ck_assert_int_eq(spot_out_open(&out, path, NULL), 0);
    ck_assert_ptr_nonnull(strstr(out.temporary, "/below/../victim.tmp."));
    fputs("half", out.file);
    fflush(out.file);
    expect_link(victim, "old");
    ck_assert_int_eq(spot_out_commit(&out, NULL), 0);
    expect_link(victim, "half");
    unlink(path);
    ck_assert_int_eq(symlink(victim, path), 0); /* absolute */
    write_new();
    expect_link(victim, "new");
    unlink(path);
    ck_assert_int_eq(symlink("/dev/null", path), 0);
    write_new(); /* in place */
    unlink(hop);
    rmdir(below);
}
END_TEST

START_TEST(a_link_that_others_may_have_laid_is_refused)
{
    struct spot_err err = { 0 };
    struct spot_out out;

    put(victim, "precious");
    ck_assert_int_eq(symlink("victim", path), 0);
    ck_assert_int_eq(chmod(dir, 0777), 0); /* without a sticky bit anyone moves what is ours */
    ck_assert_int_eq(spot_out_open(&out, path, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_ptr_nonnull(strstr(err.msg, "another user may have created"));
    ck_assert_int_eq(chmod(dir, 01777), 0);
    write_new(); /* it is our own */
    expect_link(victim, "new");
    if (!geteuid()) {
        put(victim, "precious");
        ck_assert_int_eq(lchown(path, 12345, 12345), 0);
        ck_assert_int_eq(spot_out_open(&out, path, &err), -1);
        ck_assert_int_eq(chmod(dir, 0755), 0);
        ck_assert_int_eq(chown(dir, 12345, 12345), 0); /* whose it is writes there */
        ck_assert_int_eq(spot_out_open(&out, path, &err), -1);
        ck_assert_str_eq(text_of(victim), "precious");
        ck_assert_int_eq(chown(dir, 0, 0), 0);
    }
    ck_assert_int_eq(chmod(dir, 0700), 0);
    unlink(path);
    ck_assert_int_eq(symlink("file", path), 0);
    ck_assert_int_eq(spot_out_open(&out, path, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "too many symbolic links"));
}
END_TEST

START_TEST(a_link_in_the_place_of_a_file_of_ours_is_replaced)
{
    struct spot_out out;
    struct stat st;

    put(victim, "precious");
    ck_assert_int_eq(symlink("victim", path), 0);
    ck_assert_int_eq(spot_out_open_own(&out, path, NULL), 0);
    fputs("new", out.file);
    ck_assert_int_eq(spot_out_commit(&out, NULL), 0);
    ck_assert_int_eq(lstat(path, &st), 0);
    ck_assert(S_ISREG(st.st_mode));
    ck_assert_str_eq(text_of(victim), "precious");
}
END_TEST

START_TEST(what_a_process_of_our_number_left_is_replaced)
{
    put(temporary, "left behind, and longer");
    write_new();
    ck_assert_str_eq(text_of(path), "new");
}
END_TEST

START_TEST(a_path_that_cannot_be_written_is_named)
{
    struct spot_err err = { 0 };
    struct spot_out out;
    char none[128];

    snprintf(none, sizeof(none), "%s/none/file", dir);
    ck_assert_int_eq(spot_out_open(&out, none, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, none));
    ck_assert_int_eq(spot_out_open(&out, "", &err), -1);
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    ck_assert_int_eq(spot_sync_directory(path, &err), 0);
    ck_assert_int_eq(spot_sync_directory(none, &err), -1);
}
END_TEST

START_TEST(what_the_dead_left_is_swept_and_what_the_living_write_is_not)
{
    const pid_t dead = fork();
    char name[4][128];

    if (!dead)
        _exit(0);
    ck_assert_int_eq(waitpid(dead, NULL, 0), dead);
    snprintf(name[0], sizeof(name[0]), "%s.tmp.%ld", path, (long)dead);
    snprintf(name[1], sizeof(name[1]), "%s.tmp.%ld", path, (long)getpid());
    snprintf(name[2], sizeof(name[2]), "%ss.tmp.%ld", path, (long)dead);
    snprintf(name[3], sizeof(name[3]), "%s.tmp.%ldx", path, (long)dead);
    for (int i = 0; i < 4; i++)
        fclose(fopen(name[i], "w"));
    spot_out_sweep(path);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(access(name[i], F_OK), i ? 0 : -1);
        unlink(name[i]);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, setup, teardown);
    add_tests(tc);
    return run_suite("out", tc);
}
