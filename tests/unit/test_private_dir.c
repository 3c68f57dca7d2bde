/* SPDX-License-Identifier: MIT */
/* Goal: what killed jobs left in $TMPDIR is removed, and nothing else is, whatever has such a name.
 */
#define _XOPEN_SOURCE 700
#include <sys/stat.h>

#include "cluster/private_dir.h"
#include "comm/endpoint.h"
#include "state_rig.h"

static void set_up(void)
{
    make_root();
    setenv("TMPDIR", root, 1);
    shell("mkdir decoy && echo precious >decoy/file");
}

static void tear_down(void)
{
    shell("rm -rf \"$PWD\"");
}

/* At root/NAME/job, as a killed coordinator leaves it. */
static void leave_socket(const char *name)
{
    struct spot_endpoint e = { .kind = SPOT_ENDPOINT_UNIX };
    struct spot_err err;
    int fd;

    snprintf(e.path, sizeof(e.path), "%s/%s/job", root, name);
    fd = spot_endpoint_listen(&e, &err);
    ck_assert_msg(fd >= 0, "%s", err.msg);
    close(fd);
}

START_TEST(what_killed_jobs_left_goes_and_what_is_anothers_stays)
{
    struct spot_err err;
    char *dir;

    shell("mkdir spot-run-empty1 spot-run-stale1 spot-run-young1 spot-run-files1 spot-run-files2 "
          "spot-run-too-long");
    leave_socket("spot-run-stale1");
    leave_socket("spot-run-files1");
    shell("echo precious >spot-run-files1/mine && echo precious >spot-run-files2/job && "
          "ln -s decoy spot-run-linked && mkfifo spot-run-a-pipe");
    shell("ln -s $PWD/decoy spot-run-files2/job.2 && touch -h -d '2 hours ago' spot-run-[!y]*");
    dir = spot_private_dir_new("spot-run", &err);
    ck_assert_ptr_nonnull(dir);
    shell("[ ! -e spot-run-empty1 ] && [ ! -e spot-run-stale1 ] && [ -d spot-run-young1 ] && "
          "[ \"$(ls spot-run-files1)\" = mine ] && [ -L spot-run-linked ] && "
          "[ -p spot-run-a-pipe ] && [ -d spot-run-too-long ]");
    shell("[ \"$(cat spot-run-files1/mine spot-run-files2/job decoy/file | uniq)\" = precious ] && "
          "[ -L spot-run-files2/job.2 ] && [ \"$(ls -A decoy)\" = file ]");
    spot_private_dir_clear(in_root("spot-run-linked")); /* also where it is told to */
    shell("[ -L spot-run-linked ] && [ \"$(ls -A decoy)\" = file ]");
    spot_private_dir_clear(dir);
    ck_assert(access(dir, F_OK) != 0);
    free(dir);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("private_dir");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, what_killed_jobs_left_goes_and_what_is_anothers_stays);
    return run_suite("private_dir", tc);
}
