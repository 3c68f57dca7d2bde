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
    shell("mkdir decoy && echo precious >decoy/file");
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

/* --- what ranks put in its place ----------------------------------------------------------- */

static void ck_decoy(void)
{
    shell("[ \"$(ls -A decoy)\" = file ] && [ \"$(cat decoy/file)\" = precious ]");
}

/* The shell knows its paths, also after its end. */
static void know(const struct spot_state_dir *d)
{
    setenv("LIVE", d->live, 1);
    setenv("ROOT", d->root, 1);
}

static void ck_replaced(const struct spot_state_dir *d, const char *what)
{
    ck_assert_int_eq(spot_state_dir_check(d, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_msg(strstr(err.msg, what) && strstr(err.msg, d->live), "%s", err.msg);
}

START_TEST(a_link_in_its_place_is_removed_and_not_followed)
{
    struct spot_state_dir d = open_dir(NULL);

    know(&d);
    ck_assert_int_eq(spot_state_dir_check(&d, &err), 0);
    shell("rmdir $LIVE && ln -s $PWD/decoy $LIVE");
    ck_replaced(&d, "is a symbolic link now, to ");
    shell("rm $LIVE && ln -s decoy hop && ln -s $PWD/hop $LIVE");
    ck_replaced(&d, "hop");
    shell("rm $LIVE && mkfifo $LIVE");
    ck_replaced(&d, "is no directory any more");
    shell("rm $LIVE");
    ck_replaced(&d, "is gone");
    shell("ln -s $PWD/decoy $LIVE && ln -s $PWD/decoy $ROOT/chunk");
    spot_state_dir_release(&d);
    shell("[ ! -e $ROOT ]");
    ck_decoy();
}
END_TEST

START_TEST(another_directory_in_its_place_stays_for_good)
{
    struct spot_state_dir d = open_dir(NULL);

    know(&d);
    leave_file(d.live);
    shell("mv $LIVE $LIVE.mine && cp -r decoy $LIVE");
    ck_replaced(&d, "is another directory now");
    spot_state_dir_release(&d);
    d = open_dir(NULL); /* it sweeps */
    shell("cmp decoy/file $LIVE/file && [ -e $LIVE.mine/file ] && rm -r $LIVE");
    spot_state_dir_release(&d);
    d = open_dir(NULL); /* there is nothing of another's in it any more */
    spot_state_dir_release(&d);
    shell("[ ! -e $ROOT ]");
}
END_TEST

START_TEST(one_that_was_moved_away_is_not_removed_from_where_it_is)
{
    struct spot_state_dir d = open_dir(NULL);

    know(&d);
    leave_file(d.live);
    shell("mv $ROOT $ROOT.kept && ln -s $PWD/decoy $ROOT");
    spot_state_dir_release(&d);
    shell("[ -e $ROOT.kept/live/file ] && [ -L $ROOT ] && rm -r $ROOT.kept $ROOT");
    ck_decoy();
}
END_TEST

/* A node, with that done to its directory. */
static void kill_with(const char *text)
{
    int status;
    const pid_t child = fork();

    if (!child) {
        const struct spot_state_dir d = open_dir(NULL);

        know(&d);
        shell(text);
        shell("echo $ROOT >was");
        leave(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

START_TEST(what_killed_nodes_had_in_its_place_is_not_emptied)
{
    struct spot_state_dir d;

    kill_with("rmdir $LIVE && ln -s $PWD/decoy $LIVE");
    d = open_dir(NULL);
    spot_state_dir_release(&d);
    shell("[ ! -e $(cat was) ]");
    kill_with("mv $LIVE $LIVE.mine && cp -r decoy $LIVE");
    d = open_dir(NULL);
    spot_state_dir_release(&d);
    shell("cmp decoy/file $(cat was)/live/file && rm -r $(cat was)");
    ck_decoy();
}
END_TEST

START_TEST(what_is_not_a_node_s_in_memory_is_not_swept)
{
    struct spot_state_dir d;

    if (!is_there("/dev/shm"))
        return;
    shell("a=$(mktemp -d /dev/shm/spot-state-XXXXXX) && : >$a/file && echo $a >odd");
    shell("b=$(mktemp -d /dev/shm/spot-state-XXXXXX) && mkfifo $b/lock && : >$b/file && "
          "echo $b >>odd");
    shell("c=$(mktemp -d /dev/shm/spot-state-XXXXXX) && : >$c/l && ln -s l $c/lock && "
          "echo $c >>odd");
    shell(": >decoy/lock && e=$(mktemp -u /dev/shm/spot-state-XXXXXX) && ln -s $PWD/decoy $e && "
          "echo $e >>odd");
    if (!geteuid())
        shell("f=$(mktemp -d /dev/shm/spot-state-XXXXXX) && : >$f/lock && chown -R 65534 $f && "
              "echo $f >>odd");
    d = open_dir(NULL);
    spot_state_dir_release(&d);
    shell("for i in $(cat odd); do [ -e $i ] && [ -e $i/ ] || exit 1; done && "
          "[ -e $(sed -n 2p odd)/lock ] && rm decoy/lock && rm -r $(cat odd)");
    ck_decoy();
}
END_TEST

START_TEST(one_with_a_name_is_refused_when_another_is_in_its_place)
{
    struct spot_state_dir d = open_dir(in_root("kept"));

    spot_state_dir_release(&d);
    shell("rmdir kept/0/live && ln -s ../../decoy kept/0/live");
    ck_refused(in_root("kept"), "is a symbolic link now");
    shell("rm kept/0/live && cp -r decoy kept/0/live"); /* it may have the number of the first */
    ck_refused(in_root("kept"), "is another directory now");
    shell("cp -r kept copy"); /* which is its owner's to make */
    d = open_dir(in_root("copy"));
    spot_state_dir_release(&d);
    shell("mv kept/0 kept/away && ln -s away kept/0");
    d = open_dir(in_root("kept")); /* the first that is no link */
    ck_assert_str_eq(d.root, in_root("kept/1"));
    spot_state_dir_release(&d);
    shell("cmp decoy/file kept/away/live/file");
    ck_decoy();
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("state_dir");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    add_tests(tc);
    return run_suite("state_dir", tc);
}
