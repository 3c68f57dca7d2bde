/* SPDX-License-Identifier: MIT */
/* Goal: a node has a state directory of its own: in memory it goes with the node, and what killed
 * ones left is removed by the next; below a name it stays, and each node has the first that no
 * other one holds; a socket's path fits wherever the directory is.
 */
#define _GNU_SOURCE /* flock. NOLINT(bugprone-reserved-identifier) */
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "host/state_dir.h"
#include "state_rig.h"

static struct spot_err err;

static void set_up(void)
{
    make_root();
    setenv("TMPDIR", root, 1);
}

static void tear_down(void)
{
    shell("chmod -R u+w . && rm -rf \"$PWD\"");
}

static struct spot_state_dir open_dir(const char *name)
{
    struct spot_state_dir d;

    ck_assert_msg(!spot_state_dir_open(&d, name, &err), "%s", err.msg);
    return d;
}

/* A file below it, as a commit leaves. */
static void leave_file(const char *base)
{
    char path[512];
    int fd;

    snprintf(path, sizeof(path), "%s/file", base);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static bool is_there(const char *path)
{
    return !access(path, F_OK);
}

START_TEST(one_in_memory_is_held_by_its_node_and_goes_with_it)
{
    struct spot_state_dir d = open_dir(NULL), other = open_dir(NULL);
    char *const was = strdup(d.root), *const lock = malloc(strlen(d.root) + 8);
    struct stat st;
    int fd;

    ck_assert_str_ne(d.root, other.root);
    ck_assert(is_there(other.live) && is_there(d.live)); /* the second removed no living one */
    ck_assert(!stat(d.root, &st) && (st.st_mode & 0777) == 0700);
    ck_assert(!strncmp(d.socket, d.root, strlen(d.root)) && !is_there(d.socket));
    sprintf(lock, "%s/lock", d.root);
    fd = open(lock, O_RDWR | O_CLOEXEC);
    ck_assert(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0);
    close(fd);
    leave_file(d.live);
    spot_state_dir_release(&d);
    ck_assert(!is_there(was));
    spot_state_dir_release(&d); /* nothing is left to release */
    spot_state_dir_release(&other);
    free(lock);
    free(was);
}
END_TEST

START_TEST(what_a_killed_node_left_is_removed_by_the_next)
{
    char path[256] = "";
    int pipe_fd[2];
    struct spot_state_dir d;
    pid_t child;

    ck_assert_int_eq(pipe(pipe_fd), 0);
    child = fork();
    if (!child) {
        d = open_dir(NULL);
        leave_file(d.live);
        if (write(pipe_fd[1], d.root, strlen(d.root) + 1) < 0)
            leave(1);
        for (;;)
            pause();
    }
    ck_assert_int_gt(read(pipe_fd[0], path, sizeof(path)), 0);
    ck_assert(is_there(path));
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    d = open_dir(NULL);
    ck_assert(!is_there(path));
    spot_state_dir_release(&d);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
}
END_TEST

START_TEST(one_with_a_name_stays_and_nodes_have_the_first_that_is_free)
{
    struct spot_state_dir d = open_dir(in_root("kept")), other = open_dir(in_root("kept"));

    ck_assert_str_eq(d.root, in_root("kept/0"));
    ck_assert_str_eq(other.root, in_root("kept/1"));
    ck_assert_str_eq(d.live, in_root("kept/0/live"));
    ck_assert_str_eq(d.socket, in_root("kept/0/socket"));
    leave_file(d.live);
    spot_state_dir_release(&d);
    ck_assert(is_there(in_root("kept/0/live/file")));
    d = open_dir(in_root("kept"));
    ck_assert_str_eq(d.root, in_root("kept/0"));
    spot_state_dir_release(&other);
    spot_state_dir_release(&d);
}
END_TEST

START_TEST(a_relative_name_is_known_from_everywhere)
{
    struct spot_state_dir d;

    ck_assert_int_eq(chdir(root), 0);
    d = open_dir("here");
    ck_assert_str_eq(d.root, in_root("here/0"));
    spot_state_dir_release(&d);
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

/* A socket's name has 107 bytes. */
static struct spot_state_dir open_long(const char *socket_dir)
{
    struct spot_state_dir d;
    char name[160];

    memset(name, 'x', sizeof(name));
    name[120] = '\0';
    d = open_dir(in_root(name));
    ck_assert_uint_lt(strlen(d.socket), 108);
    ck_assert_msg(!strncmp(d.socket, socket_dir, strlen(socket_dir)), "%s", d.socket);
    ck_assert(is_there(d.aside));
    return d;
}

START_TEST(a_socket_is_elsewhere_where_its_path_would_be_too_long)
{
    struct spot_state_dir d = open_long(root);
    char *aside = strdup(d.aside), text[128];

    spot_state_dir_release(&d);
    ck_assert(!is_there(aside));
    free(aside);
    memset(text, 'y', sizeof(text)); /* and $TMPDIR itself is long */
    text[110] = '\0';
    ck_assert_int_eq(mkdir(in_root(text), 0700), 0);
    setenv("TMPDIR", in_root(text), 1);
    d = open_long("/tmp/");
    aside = strdup(d.aside);
    spot_state_dir_release(&d);
    ck_assert(!is_there(aside));
    free(aside);
}
END_TEST

static void ck_refused(const char *name, const char *why)
{
    struct spot_state_dir d;

    ck_assert_int_eq(spot_state_dir_open(&d, name, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_msg(strstr(err.msg, why), "%s", err.msg);
    spot_state_dir_release(&d);
}

START_TEST(what_cannot_be_a_directory_is_said)
{
    shell(": >file");
    ck_refused(in_root("file/x"), "cannot make the directory");
    ck_refused(in_root("file"), "cannot make the directory");
    shell("ln -s nowhere hanging");
    ck_refused(in_root("hanging"), "cannot find");
    shell("mkdir full && cd full && seq 0 511 | xargs touch"); /* none of them can be locked */
    ck_refused(in_root("full"), "other agents have all of");
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("state_dir");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, one_in_memory_is_held_by_its_node_and_goes_with_it);
    tcase_add_test(tc, what_a_killed_node_left_is_removed_by_the_next);
    tcase_add_test(tc, one_with_a_name_stays_and_nodes_have_the_first_that_is_free);
    tcase_add_test(tc, a_relative_name_is_known_from_everywhere);
    tcase_add_test(tc, a_socket_is_elsewhere_where_its_path_would_be_too_long);
    tcase_add_test(tc, what_cannot_be_a_directory_is_said);
    return run_suite("state_dir", tc);
}
