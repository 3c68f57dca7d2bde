/* SPDX-License-Identifier: MIT */
/* Goal: what a script has written completely is taken and comes back, on its node and on others;
 * what it was writing, or had not finished when its ranks were killed, never is; nothing of the
 * user's is removed, and nothing is touched outside the directory.
 */
#define _XOPEN_SOURCE 700
#include <sys/stat.h>
#include <sys/xattr.h>

#include "common/clock.h"
#include "host/rank_files.h"
#include "state_rig.h"

static struct spot_err err;
static struct spot_state_store *store;
static struct spot_rank_files *files;
static uint64_t step;

static void open_files(const char *pattern)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", root, pattern);
    files = spot_rank_files_new(path, NULL, &err);
    ck_assert_msg(files != NULL, "%s", err.msg);
    spot_rank_files_begin(files, false, true);
}

static void set_up(void)
{
    make_root();
    step = 0;
    shell("mkdir store out");
    store = spot_state_store_open(dir_in_root("store"), root, 1 << 24, false, &err);
    ck_assert_msg(store != NULL, "%s", err.msg);
}

static void tear_down(void)
{
    spot_rank_files_free(files);
    files = NULL;
    spot_state_store_free(store);
    shell("rm -rf store out elsewhere");
    ck_assert_int_eq(rmdir(root), 0);
}

static void until_state(enum spot_rank_files_state state)
{
    for (int i = 0; i < 6000 && spot_rank_files_look(files) != state; i++)
        spot_clock_sleep(0.01);
    ck_assert_int_eq(spot_rank_files_look(files), state);
}

/* As the node of `place` does it, 0 is that of the first rank, when `offers` has offered. Returns
 * what taking returned. */
static int take(uint32_t place, uint32_t world, const struct spot_rank_files *offers)
{
    struct spot_state_record r = {
        .id = { 1, 5, ++step }, .place = place, .world = world, .run_id = "run"
    };
    struct spot_buf dirs = { 0 };
    int rc;

    spot_rank_files_list(offers, &dirs);
    rc = spot_rank_files_take(files, store, dirs.data, dirs.n, place == 0, &r, &err);
    spot_buf_release(&dirs);
    if (rc)
        spot_state_record_release(&r);
    else
        ck_assert_int_eq(spot_state_store_add(store, &r, &err), 0);
    return rc;
}

static const struct spot_state_record *taken(uint64_t at, uint32_t place)
{
    return spot_state_store_find(store, &(struct spot_state_id){ 1, 5, at }, place);
}

static void put(uint64_t at)
{
    const struct spot_state_record *const r = taken(at, 0);

    ck_assert_ptr_nonnull(r);
    ck_assert_msg(!spot_rank_files_put(files, store, &r, 1, &err), "%s", err.msg);
}

START_TEST(what_was_saved_comes_back_and_what_is_not_of_it_goes_aside)
{
    open_files("out/ckpt*");
    shell("echo one >out/ckpt.1 && echo mine >out/other");
    until_state(SPOT_FILES_READY);
    ck_assert_int_eq(take(0, 1, files), 0);
    until_state(SPOT_FILES_SAME);
    shell("echo two >out/ckpt.2 && echo three >out/ckpt.1");
    put(1);
    shell("[ \"$(cat out/ckpt.1)\" = one ] && [ \"$(cat out/.spot-aside/ckpt.1)\" = three ] && "
          "[ \"$(cat out/.spot-aside/ckpt.2)\" = two ] && [ ! -e out/ckpt.2 ] && [ -e out/other ]");
    shell("echo four >out/ckpt.1"); /* what went aside stays */
    put(1);
    shell("[ \"$(cat out/ckpt.1)\" = one ] && [ \"$(cat out/.spot-aside/ckpt.1)\" = three ] && "
          "[ \"$(cat out/.spot-aside/ckpt.1.1)\" = four ]");
}
END_TEST

START_TEST(another_node_gets_it_and_what_we_laid_there_is_removed_without_a_trace)
{
    open_files("out/");
    shell("mkdir -p out/step-1 && echo a >out/step-1/rank-0 && : >out/step-1/.metadata && "
          "ln -s step-1 out/latest");
    until_state(SPOT_FILES_READY);
    ck_assert_int_eq(take(0, 1, files), 0);
    shell("rm -r out/step-1 && mkdir out/step-2 && : >out/step-2/.metadata");
    until_state(SPOT_FILES_READY);
    ck_assert_int_eq(take(0, 1, files), 0);
    shell("rm -r out"); /* a machine that is new */
    put(1);
    shell("[ \"$(cat out/latest/rank-0)\" = a ] && [ ! -e out/step-2 ]");
    shell("mkdir -p out/step-3/shards"); /* and was killed */
    put(2);
    shell("[ ! -e out/step-1 ] && [ ! -e out/step-3 ] && [ -e out/step-2/.metadata ] && [ ! -e "
          "out/.spot-aside ]");
}
END_TEST

/* The next agent of a run removes what an earlier one laid out, but no copy of it, nothing written
 * since, and nothing of another run. */
START_TEST(what_an_earlier_agent_of_the_run_laid_out_is_removed_and_nothing_else)
{
    struct spot_state_record *other;

    open_files("out/ckpt*");
    shell("for i in a b c d; do echo $i >out/ckpt.$i; done");
    until_state(SPOT_FILES_READY);
    ck_assert_int_eq(take(0, 1, files), 0);
    shell("rm out/* && echo last >out/ckpt.z");
    until_state(SPOT_FILES_READY);
    ck_assert_int_eq(take(0, 1, files), 0);
    shell("rm out/*");
    put(1);
    if (setxattr(in_root("out/ckpt.a"), "user.spot.test", "", 0, 0))
        return; /* a file system without attributes */
    spot_rank_files_free(files);
    open_files("out/ckpt*");
    shell("cp -a out/ckpt.a out/ckpt.copy && mv out/ckpt.b out/ckpt.renamed && echo x >out/ckpt.c");
    put(2);
    shell("[ \"$(ls -A out/.spot-aside | tr '\\n' ' ')\" = 'ckpt.c ckpt.copy ckpt.renamed ' ] && "
          "[ \"$(ls out)\" = ckpt.z ] && rm -r out/.spot-aside");
    spot_rank_files_free(files);
    open_files("out/ckpt*");
    other = (struct spot_state_record *)(uintptr_t)taken(1, 0);
    snprintf(other->run_id, sizeof(other->run_id), "another");
    put(1);
    shell("[ -e out/.spot-aside/ckpt.z ] && [ -e out/ckpt.d ]");
}
END_TEST

static void hold(const char *job, int rc)
{
    ck_assert_int_eq(spot_rank_files_hold(files, job, &err), rc);
    ck_assert_int_eq(rc ? err.code : SPOT_ESYS, SPOT_ESYS);
}

START_TEST(a_directory_is_of_one_job_whose_nodes_share_it_until_the_last_of_them_ends)
{
    struct spot_rank_files *first, *second;

    open_files("out/ckpt*");
    hold("one", 0);
    first = files;
    open_files("out/ckpt*");
    hold("one", 0);
    second = files;
    open_files("out/other*");
    hold("two", -1);
    spot_rank_files_free(first);
    hold("two", -1);
    spot_rank_files_free(second);
    shell("[ ! -e out/.spot-lock ]");
    hold("two", 0);
    shell("rm -r out && mkdir out"); /* by the script: it is locked anew */
    hold("two", 0);
    shell("[ -s out/.spot-lock ]");
    spot_rank_files_free(files);
    shell("echo mine >out/.spot-lock"); /* not ours */
    open_files("out/ckpt*");
    hold("two", 0);
    spot_rank_files_free(files);
    files = NULL;
    shell("[ \"$(cat out/.spot-lock)\" = mine ]");
}
END_TEST

START_TEST(an_empty_directory_of_the_user_is_set_aside_and_not_removed)
{
    shell("mkdir -p out/runs/more && touch -d '1 hour ago' out/runs/more out/runs");
    open_files("out/");
    shell("mkdir -p out/step-1 && echo a >out/step-1/rank-0 && : >out/step-1/.metadata");
    until_state(SPOT_FILES_READY);
    ck_assert_int_eq(take(0, 1, files), 0);
    put(1);
    shell("[ -d out/.spot-aside/runs/more ] && [ ! -e out/runs ] && [ -e out/step-1/rank-0 ]");
}
END_TEST

START_TEST(what_is_open_is_not_taken_and_never_once_its_rank_was_killed)
{
    FILE *out;

    open_files("out/ckpt*");
    out = fopen(in_root("out/ckpt"), "we");
    ck_assert_ptr_nonnull(out);
    ck_assert_int_gt(fputs("half", out), 0);
    ck_assert_int_eq(fflush(out), 0);
    until_state(SPOT_FILES_BUSY);
    ck_assert_str_eq(spot_rank_files_busy(files), "ckpt");
    ck_assert_int_eq(take(0, 1, files), 1);
    spot_rank_files_freeze(files);
    fclose(out);
    until_state(SPOT_FILES_SAME);
    ck_assert_int_eq(take(0, 1, files), 0); /* of nothing */
    ck_assert_uint_eq(taken(2, 0)->n_file, 0);
    ck_assert_int_eq(spot_rank_files_put(files, store, NULL, 0, &err), 0);
    shell("[ ! -e out/ckpt ] && [ \"$(cat out/.spot-aside/ckpt)\" = half ]");
}
END_TEST

/* Its rank was killed when the marker had been written, by another node: its file of the directory
 * was not whole there. */
START_TEST(a_directory_that_comes_back_whole_is_whole_where_it_was_not)
{
    const struct spot_state_record *record[2];
    struct spot_rank_files *first;

    shell("mkdir elsewhere");
    open_files("out/step-*");
    shell("mkdir out/step-1 && echo 0 >out/step-1/rank-0 && : >out/step-1/trainer_state.json");
    until_state(SPOT_FILES_READY);
    ck_assert_int_eq(take(0, 2, files), 0);
    first = files;
    open_files("elsewhere/step-*");
    spot_rank_files_begin(files, false, false);
    shell("mkdir elsewhere/step-1 && echo 1 >elsewhere/step-1/rank-1");
    while (take(1, 2, first))
        spot_clock_sleep(0.01);
    spot_rank_files_freeze(files);
    record[0] = taken(1, 0);
    record[1] = taken(step, 1);
    ck_assert_int_eq(spot_rank_files_put(files, store, record, 2, &err), 0);
    shell("[ \"$(cat elsewhere/step-1/rank-?)\" = \"$(seq 0 1)\" ]");
    spot_rank_files_begin(files, true, false);
    until_state(SPOT_FILES_SAME);
    ck_assert_str_eq(spot_rank_files_busy(files), "");
    spot_rank_files_free(first);
}
END_TEST

static size_t n_listed(void)
{
    struct spot_buf dirs = { 0 };
    size_t n = 0;

    spot_rank_files_list(files, &dirs);
    for (size_t i = 0; i < dirs.n; i++)
        n += !dirs.data[i];
    spot_buf_release(&dirs);
    return n;
}

/* Of old directories that only the first rank removes, on its node, the parts of others stay. */
START_TEST(a_part_is_no_checkpoint_however_long_it_lies_there_nor_is_one_that_is_being_removed)
{
    open_files("out/step-*");
    spot_rank_files_begin(files, false, false);
    shell(
        "mkdir out/step-1 && echo 1 >out/step-1/rank-1 && touch -d '1 hour ago' out/step-1/rank-1");
    until_state(SPOT_FILES_SAME);
    spot_clock_sleep(2.1); /* longer than a directory without a marker has to rest */
    ck_assert_int_eq(spot_rank_files_look(files), SPOT_FILES_SAME);
    ck_assert_uint_eq(n_listed(), 0);
    spot_rank_files_begin(files, false, true);
    shell(": >out/step-1/.metadata");
    until_state(SPOT_FILES_READY);
    ck_assert_uint_eq(n_listed(), 1);
    shell("rm out/step-1/.metadata");
    until_state(SPOT_FILES_BUSY);
    ck_assert_uint_eq(n_listed(), 0);
}
END_TEST

START_TEST(a_script_that_saves_all_the_time_is_taken_between_two_saves_and_not_in_one)
{
    static const char begin[] = "begin\n", rest[] = "rest\n";
    int rc = 1;

    open_files("out/ckpt");
    for (int i = 0; i < 200 && rc; i++) {
        FILE *const out = fopen(in_root("out/ckpt"), "we");

        ck_assert_ptr_nonnull(out);
        fprintf(out, "%s%d\n", begin, i);
        fflush(out);
        ck_assert_int_eq(take(0, 1, files), 1); /* half */
        (void)spot_rank_files_look(files);
        fprintf(out, "%s", rest);
        fclose(out);
        spot_clock_sleep(0.06); /* less than a rest, more than between two looks */
        (void)spot_rank_files_look(files);
        rc = take(0, 1, files);
    }
    ck_assert_int_eq(rc, 0);
    shell("rm out/ckpt");
    put(step);
    shell("[ \"$(wc -l <out/ckpt)\" = 3 ] && [ \"$(tail -n 1 out/ckpt)\" = rest ]");
}
END_TEST

START_TEST(links_are_followed_inside_alone)
{
    open_files("out/");
    shell("mkdir -p elsewhere out/d && echo x >elsewhere/x && ln -s ../elsewhere/x out/up && "
          "ln -s \"$PWD/elsewhere/x\" out/root && ln -s ../../elsewhere out/d/dir && ln -s d "
          "out/good && "
          "echo y >out/d/y && : >out/d/.metadata");
    until_state(SPOT_FILES_READY);
    ck_assert_int_eq(take(0, 1, files), 0);
    ck_assert_uint_eq(taken(1, 0)->n_file, 3); /* d/.metadata d/y good */
    shell("rm -r out && ln -s elsewhere out");
    ck_assert_int_ne(spot_rank_files_put(files, store,
                                         (const struct spot_state_record *[]){ taken(1, 0) }, 1,
                                         &err),
                     0);
    shell("[ \"$(ls -A elsewhere)\" = x ]");
}
END_TEST

START_TEST(of_one_name_the_lowest_place_counts)
{
    const struct spot_state_record *record[2];

    for (uint32_t place = 0; place < 2; place++) {
        open_files("out/ckpt*");
        shell(place ? "echo 1 >out/ckpt && echo 1 >out/ckpt.rng1" : "echo 0 >out/ckpt");
        until_state(SPOT_FILES_READY);
        ck_assert_int_eq(take(place, 2, files), 0);
        record[place] = taken(step, place);
        spot_rank_files_free(files);
        files = NULL;
        shell("rm out/ckpt*");
    }
    record[0] = taken(1, 0);
    open_files("out/ckpt*");
    ck_assert_int_eq(spot_rank_files_put(files, store, record, 2, &err), 0);
    shell("[ \"$(cat out/ckpt)\" = 0 ] && [ \"$(cat out/ckpt.rng1)\" = 1 ]");
}
END_TEST

/* A node without the first rank does not know whether a directory without a marker is whole. */
START_TEST(what_was_never_taken_stays_at_the_end)
{
    const struct spot_state_record *r;

    open_files("out/*");
    shell("echo one >out/ckpt");
    until_state(SPOT_FILES_READY);
    ck_assert_int_eq(take(0, 1, files), 0);
    r = taken(step, 0);
    spot_rank_files_free(files);
    shell("rm out/ckpt");
    open_files("out/*");
    spot_rank_files_begin(files, false, false);
    shell("mkdir out/final && echo result >out/final/weights");
    until_state(SPOT_FILES_SAME);
    ck_assert_int_eq(spot_rank_files_put_last(files, store, &r, 1, &err), 0);
    shell("[ \"$(cat out/final/weights)\" = result ] && [ \"$(cat out/ckpt)\" = one ] && "
          "[ ! -e out/.spot-aside ]");
    shell("echo mine >out/ckpt");
    ck_assert_int_ne(spot_rank_files_put_last(files, store, &r, 1, &err), 0);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    shell("[ \"$(cat out/ckpt)\" = mine ] && [ ! -e out/.spot-aside ]");
}
END_TEST

START_TEST(what_is_open_as_the_node_begins_is_named_until_it_is_closed)
{
    FILE *out;

    shell("mkdir out/step-1 && echo a >out/step-1/rank-0");
    open_files("out/step-*");
    out = fopen(in_root("out/step-1/rank-0"), "ae");
    ck_assert_ptr_nonnull(out);
    spot_rank_files_adopt(files);
    ck_assert_str_eq(spot_rank_files_busy(files), "step-1/rank-0");
    fclose(out);
    spot_rank_files_adopt(files);
    ck_assert_str_eq(spot_rank_files_busy(files), "");
    ck_assert_int_eq(take(0, 1, files), 0);
    ck_assert_uint_eq(taken(step, 0)->n_file, 1);
}
END_TEST

START_TEST(what_a_killed_node_leaves_counts_as_far_as_it_was_known_to_be_whole)
{
    open_files("out/ckpt*");
    shell("echo one >out/ckpt.1");
    until_state(SPOT_FILES_READY);
    shell("echo half >out/ckpt.2");
    spot_rank_files_free(files); /* killed */
    open_files("out/ckpt*");
    shell("[ -e out/.spot-running ]");
    spot_rank_files_free(files); /* a round that began with both, and ended */
    shell("echo half >out/ckpt.3");
    files = spot_rank_files_new(in_root("out/ckpt*"), NULL, &err);
    spot_rank_files_adopt(files);
    ck_assert_int_eq(take(0, 1, files), 0);
    ck_assert_uint_eq(taken(step, 0)->n_file, 2);
    ck_assert_int_eq(spot_rank_files_put(files, store, NULL, 0, &err), 0);
    shell("[ -e out/ckpt.2 ] && [ ! -e out/ckpt.3 ] && [ -e out/.spot-aside/ckpt.3 ]");
    spot_rank_files_begin(files, false, true);
    spot_rank_files_end(files);
    shell("[ ! -e out/.spot-running ] && echo new >out/ckpt.4");
    spot_rank_files_free(files);
    files = spot_rank_files_new(in_root("out/ckpt*"), NULL, &err);
    spot_rank_files_adopt(files);
    ck_assert_int_eq(take(0, 1, files), 0);
    ck_assert_uint_eq(taken(step, 0)->n_file, 3);
}
END_TEST

/* A lease is for the owner. */
START_TEST(where_nobody_can_say_whether_a_file_is_open_it_has_to_be_old)
{
    struct stat st;

    if (geteuid()) /* no file of another user */
        return;
    shell("chmod 755 . out && echo a >out/ckpt && chmod 644 out/ckpt");
    open_files("out/ckpt");
    ck_assert_int_eq(seteuid(65534), 0);
    if (stat(in_root("out/ckpt"), &st)) { /* what is above is private */
        ck_assert_int_eq(seteuid(0), 0);
        return;
    }
    spot_rank_files_adopt(files);
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert_str_eq(spot_rank_files_busy(files), "ckpt");
    shell("touch -d '1 minute ago' out/ckpt");
    ck_assert_int_eq(seteuid(65534), 0);
    spot_rank_files_adopt(files);
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert_str_eq(spot_rank_files_busy(files), "");
}
END_TEST

START_TEST(a_pattern_names_one_directory)
{
    ck_assert_ptr_null(spot_rank_files_new("", NULL, &err));
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    ck_assert_ptr_null(spot_rank_files_new("a*/b", NULL, &err));
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("rank_files");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    add_tests(tc);
    return run_suite("rank_files", tc);
}
