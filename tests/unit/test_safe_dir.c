/* SPDX-License-Identifier: MIT */
/* Goal: below a directory that others may change nothing is reached but what is there: no link is
 * followed, no mount entered and nothing waited for, with openat2 and without; and what is removed
 * is in that directory, however deep it is and whoever closed it. "decoy" is elsewhere, and stays.
 */
#define _GNU_SOURCE /* unshare. NOLINT(bugprone-reserved-identifier) */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/safe_dir.h"
#include "state_rig.h"

static struct spot_err err;
static int dir;

static void set_up(void)
{
    make_root();
    shell(
        "mkdir dir decoy decoy/sub && echo precious >decoy/file && echo precious >decoy/sub/file");
    dir = dir_in_root("dir");
}

static void tear_down(void)
{
    shell("chmod -R u+rwx . && rm -rf \"$PWD\"");
}

static void ck_decoy(void)
{
    shell("[ \"$(find decoy | sort | tr '\\n' ' ')\" = "
          "'decoy decoy/file decoy/sub decoy/sub/file ' ] && "
          "[ \"$(cat decoy/file decoy/sub/file)\" = 'precious\nprecious' ]");
}

/* --- to open ------------------------------------------------------------------------------ */

static const int without[] = { 0, ENOSYS, EPERM }; /* what openat2 is answered with */

/* For the rest of this process, which ends with its test. */
static void forbid_openat2(int why)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)why),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

    if (!why)
        return;
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void ck_closed(const char *path)
{
    const int fd = spot_safe_open(dir, path, O_RDONLY, 0);

    ck_assert_msg(fd < 0, "%s was opened", path);
}

static void ck_opened(const char *path)
{
    const int fd = spot_safe_open_file(dir, path, NULL);

    ck_assert_msg(fd >= 0, "%s was not opened", path);
    close(fd);
}

START_TEST(what_leads_elsewhere_is_not_opened)
{
    static const char *const elsewhere[] = {
        "link",
        "to-dir",
        "to-dir/file",
        "a/up/decoy/file",
        "..",
        "../decoy/file",
        "a/../../decoy",
        "a/../file",
        "/etc",
        "",
        "a//b",
        "a/",
        "hanging",
        "chain",
        "chain/file",
    };

    shell(
        "cd dir && mkdir -p a/b && echo x >a/b/file && echo x >file && ln -s ../decoy/file link && "
        "ln -s ../decoy to-dir && ln -s ../.. a/up && ln -s nowhere hanging && ln -s to-dir chain");
    forbid_openat2(without[_i]);
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
        ck_closed(elsewhere[i]);
    ck_opened("file");
    ck_opened("a/b/file");
}
END_TEST

START_TEST(what_is_no_file_is_not_waited_for)
{
    static const char *const odd[] = { "pipe", "socket", "a", "null" };

    shell("cd dir && mkdir a && mkfifo pipe && { mknod null c 1 3 || mkfifo null; } 2>/dev/null && "
          "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'");
    forbid_openat2(without[_i]);
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        ck_assert_msg(spot_safe_open_file(dir, odd[i], NULL) < 0, "%s was opened", odd[i]);
}
END_TEST

START_TEST(a_new_file_is_made_below_and_nowhere_else)
{
    int fd;

    shell("cd dir && ln -s ../decoy to-dir && ln -s ../decoy/new hanging && : >taken");
    forbid_openat2(without[_i]);
    fd = spot_safe_create(dir, "x/y/z", 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
    fd = spot_safe_create(dir, "plain", 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_lt(spot_safe_create(dir, "to-dir/new", 0600), 0);
    ck_assert_int_lt(spot_safe_create(dir, "hanging", 0600), 0);
    ck_assert_int_lt(spot_safe_create(dir, "taken", 0600), 0);
    ck_assert_int_eq(errno, EEXIST);
    ck_assert_int_lt(spot_safe_make_dir(dir, "to-dir"), 0);
    shell("[ -f dir/x/y/z ] && [ $(stat -c %a dir/x) = 700 ]");
    ck_decoy();
}
END_TEST

START_TEST(a_file_is_replaced_and_not_written_through)
{
    shell("ln decoy/file dir/hard && ln decoy/file dir/b.new && ln -s ../decoy/file dir/c.new && "
          "ln -s ../decoy/file dir/soft && mkdir -p dir/full/x dir/d.new");
    ck_assert_int_eq(spot_safe_replace(dir, "hard", "1", 1, true), 0);
    ck_assert_int_eq(spot_safe_replace(dir, "soft", "1", 1, false), 0);
    ck_assert_int_eq(spot_safe_replace(dir, "b", "1", 1, false), 0);
    ck_assert_int_eq(spot_safe_replace(dir, "c", "1", 1, false), 0);
    ck_assert_int_eq(spot_safe_replace(dir, "full", "1", 1, false), -1);
    ck_assert_int_eq(spot_safe_replace(dir, "d", "1", 1, false), -1);
    shell("cd dir && for f in hard soft b c; do [ \"$(cat $f)\" = 1 ] && [ ! -L $f ] && "
          "[ $(stat -c %a%h $f) = 6001 ] || exit 1; done; [ ! -e full.new ] && [ -d full/x ]");
    ck_decoy();
}
END_TEST

START_TEST(a_directory_that_is_no_longer_at_its_name_is_told)
{
    const int fd = dir_in_root("dir"), up = dir_in_root("");

    ck_assert(spot_safe_is_at(up, "dir", fd));
    shell("mv dir away && mkdir dir");
    ck_assert(!spot_safe_is_at(up, "dir", fd));
    shell("rmdir dir && ln -s away dir");
    ck_assert(!spot_safe_is_at(up, "dir", fd));
    shell("rm dir && mv away dir");
    ck_assert(spot_safe_is_at(up, "dir", fd));
}
END_TEST

/* --- to remove ---------------------------------------------------------------------------- */

static void ck_emptied(void)
{
    ck_assert_msg(!spot_safe_empty(dir, &err), "%s", err.msg);
    shell("[ -z \"$(ls -A dir)\" ]");
    ck_decoy();
}

START_TEST(links_are_removed_and_what_they_lead_to_stays)
{
    shell("cd dir && mkdir -p a/b/c && ln -s ../decoy l && ln -s $PWD/../decoy a/b/c/l && "
          "ln -s ../../../decoy/file a/b/f && ln ../decoy/file hard && mkfifo a/b/pipe && "
          "ln -s l chain && python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'");
    ck_emptied();
}
END_TEST

START_TEST(no_depth_is_too_deep_and_no_width_too_wide)
{
    int at = dup(dir);

    shell("mkdir dir/w && cd dir/w && seq -f %g/d 1000 | xargs mkdir -p && seq -f %g/d/f 1000 | "
          "xargs touch");
    for (int i = 0; i < 5000; i++) {
        int next;

        ck_assert_int_eq(mkdirat(at, i % 7 ? "d" : ".removed.1", 0700), 0);
        next = openat(at, i % 7 ? "d" : ".removed.1", O_RDONLY | O_DIRECTORY);
        close(at);
        at = next;
    }
    ck_assert_int_eq(symlinkat(in_root("decoy"), at, "link"), 0);
    close(at);
    ck_emptied();
}
END_TEST

/* As one who is not root, for whom a mode says something. Returns the exit status of `run`. */
static int as_nobody(int (*run)(void))
{
    enum { NOBODY = 65534 };
    const pid_t child = fork();
    int status;

    if (!child) {
        if (!geteuid() && (chown(root, NOBODY, NOBODY) || setgid(NOBODY) || setuid(NOBODY)))
            leave(77);
        leave(run());
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int empty_closed(void)
{
    char text[256];

    snprintf(text, sizeof(text),
             "cd %s && mkdir -p mine/a/b/c/d && echo x >mine/a/b/f && chmod 0 mine/a/b/c "
             "mine/a/b && chmod 500 mine/a mine",
             root);
    dir = system(text) ? -1 : dir_in_root("mine");
    return spot_safe_empty(dir, &err) || !access(in_root("mine/a"), F_OK);
}

START_TEST(what_its_owner_closed_to_himself_is_removed_too)
{
    ck_assert_int_eq(as_nobody(empty_closed), 0);
}
END_TEST

static int empty_foreign(void)
{
    return spot_safe_empty(dir, &err) && strstr(err.msg, "cannot remove") &&
                   !access(in_root("dir/a/b/theirs"), F_OK)
               ? 0
               : 1;
}

START_TEST(what_another_owns_stays_and_is_said)
{
    if (geteuid())
        return;
    shell("chmod 777 dir && mkdir -p dir/a/b && : >dir/a/b/theirs && chmod 755 dir/a dir/a/b");
    ck_assert_int_eq(as_nobody(empty_foreign), 0);
    ck_decoy();
}
END_TEST

START_TEST(one_that_is_immutable_stays_with_what_is_above_it)
{
    shell("mkdir -p dir/a/b && : >dir/a/b/fixed && : >dir/plain && "
          "{ chattr +i dir/a/b/fixed 2>/dev/null || :; }");
    if (!unlink(in_root("dir/a/b/fixed")))
        return; /* not root, or not a file system that has it */
    ck_assert_int_eq(spot_safe_empty(dir, &err), -1);
    ck_assert_msg(strstr(err.msg, "fixed") != NULL, "%s", err.msg);
    shell("chattr -i $(find dir -name fixed) && [ ! -e dir/plain ]");
    ck_emptied();
}
END_TEST

/* Returns 0; 77: no mounts here. */
static int empty_mount(void)
{
    char from[256];

    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return 77;
    snprintf(from, sizeof(from), "%s", in_root("decoy"));
    if (mount(from, in_root("dir/a/mount"), NULL, MS_BIND, NULL))
        return 77;
    dir = dir_in_root("dir"); /* as it is seen from here */
    return spot_safe_empty(dir, &err) && strstr(err.msg, "'mount'") &&
                   spot_safe_open(dir, "a/mount/file", O_RDONLY, 0) < 0 && errno == EXDEV
               ? 0
               : 1;
}

START_TEST(a_mount_is_not_entered)
{
    pid_t child;
    int status;

    shell("mkdir -p dir/a/mount");
    child = fork();
    if (!child)
        leave(empty_mount());
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77),
                  "%x", (unsigned)status);
    ck_decoy();
}
END_TEST

static void ck_removed(const char *name)
{
    ck_assert_msg(!spot_safe_remove(dir, name, &err), "%s", err.msg);
    ck_assert(faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0);
}

START_TEST(one_name_is_removed_with_all_below_it)
{
    shell("cd dir && mkdir -p tree/a/b/c empty && ln -s ../decoy link && ln ../decoy/file hard && "
          "ln -s ../../decoy tree/a/l");
    ck_removed("tree");
    ck_removed("empty");
    ck_removed("link");
    ck_removed("hard");
    ck_removed("absent");
    ck_decoy();
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("safe_dir");
    enum { WAYS = sizeof(without) / sizeof(without[0]) };

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_file_is_replaced_and_not_written_through);
    tcase_add_test(tc, a_directory_that_is_no_longer_at_its_name_is_told);
    tcase_add_test(tc, links_are_removed_and_what_they_lead_to_stays);
    tcase_add_test(tc, no_depth_is_too_deep_and_no_width_too_wide);
    tcase_add_test(tc, what_its_owner_closed_to_himself_is_removed_too);
    tcase_add_test(tc, what_another_owns_stays_and_is_said);
    tcase_add_test(tc, one_that_is_immutable_stays_with_what_is_above_it);
    tcase_add_test(tc, a_mount_is_not_entered);
    tcase_add_test(tc, one_name_is_removed_with_all_below_it);
    /* last: where tests are not forked, what is forbidden stays so */
    tcase_add_loop_test(tc, what_leads_elsewhere_is_not_opened, 0, WAYS);
    tcase_add_loop_test(tc, what_is_no_file_is_not_waited_for, 0, WAYS);
    tcase_add_loop_test(tc, a_new_file_is_made_below_and_nowhere_else, 0, WAYS);
    return run_suite("safe_dir", tc);
}
