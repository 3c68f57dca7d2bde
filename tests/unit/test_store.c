/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store_rig.h"

/* Goal: what counts as durable is whole and verified. A generation cut or changed anywhere is set
 * aside and the one before is used; a full disk leaves what was; another job's state is refused,
 * so is a directory in use; two sound generations are kept, nothing half-written stays, whatever
 * lies in its place; what is deleted is noticed and no longer named. */

START_TEST(the_newest_two_generations_are_kept_and_read_back)
{
    struct spot_store *s;

    make_dir();
    s = open_store(dir, 1, NULL);
    ck_assert_int_eq(spot_store_newest(s), -1);
    for (int64_t step = 10; step <= 50; step += 10)
        save(s, step);
    spot_store_close(s);
    ck_assert_int_eq(count("^gen-"), 2);
    s = open_store(dir, 1, NULL);
    ck_assert_int_eq(spot_store_verify(s, NULL), 0);
    check_content(s, 50);
    check_step(s, 40);
    spot_store_close(s);
    drop_dir();
}
END_TEST

START_TEST(a_step_that_is_not_durable_cannot_be_read)
{
    struct spot_store *s;
    size_t n;

    make_dir();
    s = open_store(dir, 1, NULL);
    save(s, 10);
    for (int i = 0; i < 2; i++) {
        struct spot_err err = { 0 };

        ck_assert_ptr_null(spot_store_read(s, i ? 20 : -1, 0, &n, &err));
        ck_assert_int_ne(err.code, 0);
    }
    spot_store_close(s);
    drop_dir();
}
END_TEST

/* Damage one file of the newest generation in one way, and look. */
static void damage(const char *file, long cut_at, long flip_at)
{
    struct spot_err err = { 0 };
    struct spot_store *s;
    char path[160];

    make_dir();
    s = open_store(dir, 1, NULL);
    save(s, 10);
    save(s, 20);
    spot_store_close(s);
    snprintf(path, sizeof(path), "%s/gen-000000000020/%s", dir, file);
    if (cut_at < 0 && flip_at < 0) {
        ck_assert_int_eq(unlink(path), 0);
    } else if (cut_at >= 0) {
        ck_assert_int_eq(truncate(path, cut_at), 0);
    } else {
        FILE *f = fopen(path, "r+");
        int c;

        fseek(f, flip_at, SEEK_SET);
        c = fgetc(f);
        fseek(f, flip_at, SEEK_SET);
        fputc(c ^ 1, f);
        fclose(f);
    }
    s = open_store(dir, 1, &err);
    ck_assert_msg(s != NULL, "%s: %s", file, err.msg);
    ck_assert_int_eq(spot_store_verify(s, &err), 1);
    ck_assert_uint_gt(strlen(err.msg), 0);
    check_content(s, 10);
    ck_assert_int_eq(count("bad$"), 1);
    save(s, 20); /* and the same step can be written again */
    spot_store_close(s);
    s = open_store(dir, 1, NULL);
    ck_assert_int_eq(spot_store_verify(s, NULL), 0);
    check_content(s, 20);
    spot_store_close(s);
    drop_dir();
}

START_TEST(a_torn_or_damaged_generation_falls_back_to_the_one_before)
{
    damage("bundle-0001", -1, -1);
    damage("manifest.json", -1, -1);
    damage("manifest.json", 0, -1);
    damage("manifest.json", 100, -1);
    for (long at = 0; at < BYTES; at += 37) {
        damage("bundle-0000", at, -1);
        damage("bundle-0002", -1, at);
    }
}
END_TEST

START_TEST(a_manifest_changed_at_any_byte_is_noticed_or_harmless)
{
    struct spot_store *s;
    char path[160], text[2048];
    size_t n;
    FILE *f;

    make_dir();
    s = open_store(dir, 1, NULL);
    save(s, 20);
    spot_store_close(s);
    snprintf(path, sizeof(path), "%s/gen-000000000020/manifest.json", dir);
    f = fopen(path, "r");
    n = fread(text, 1, sizeof(text), f);
    fclose(f);
    for (size_t i = 0; i < n; i += 3) {
        struct spot_err err = { 0 };
        char bad[160];

        text[i] ^= 1;
        f = fopen(path, "w");
        fwrite(text, 1, n, f);
        fclose(f);
        text[i] ^= 1;
        s = open_store(dir, 1, &err);
        if (!s) { /* its job is another one now */
            ck_assert_int_eq(err.code, SPOT_EUSAGE);
            continue;
        }
        if (spot_store_verify(s, &err)) {
            ck_assert_int_eq(spot_store_newest(s), -1);
            snprintf(bad, sizeof(bad), "%s/gen-000000000020", dir);
            snprintf(path, sizeof(path), "%s/gen-000000000020.bad", dir);
            ck_assert_int_eq(rename(path, bad), 0);
            snprintf(path, sizeof(path), "%s/gen-000000000020/manifest.json", dir);
        } else {
            check_content(s, 20);
        }
        spot_store_close(s);
    }
    drop_dir();
}
END_TEST

START_TEST(a_full_disk_leaves_the_generation_before)
{
    struct rlimit old, limit;
    struct spot_err err = { 0 };
    struct spot_store *s;
    int64_t step;

    make_dir();
    s = open_store(dir, 1, NULL);
    save(s, 10);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = BYTES / 2;
    setrlimit(RLIMIT_FSIZE, &limit);
    spot_store_begin(s, 20, "");
    for (int b = 0; b < BUNDLES; b++)
        put(s, 20, b);
    ck_assert_int_eq(result(s, &step, &err), -1);
    setrlimit(RLIMIT_FSIZE, &old);
    ck_assert_int_eq(step, 20);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    check_content(s, 10);
    ck_assert_int_eq(count("tmp"), 0);
    save(s, 30); /* there is room again */
    spot_store_close(s);
    drop_dir();
}
END_TEST

START_TEST(another_jobs_state_is_refused_and_so_is_a_directory_in_use)
{
    struct spot_err err = { 0 };
    struct spot_store *s;

    make_dir();
    s = open_store(dir, 1, NULL);
    save(s, 10);
    ck_assert_ptr_null(open_store(dir, 1, &err));
    ck_assert_int_eq(err.code, SPOT_ESYS);
    ck_assert_ptr_nonnull(strstr(err.msg, "in use"));
    spot_store_close(s);
    ck_assert_ptr_null(open_store(dir, 2, &err));
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    s = open_store(dir, 1, NULL);
    check_content(s, 10);
    spot_store_close(s);
    drop_dir();
}
END_TEST

START_TEST(what_a_dead_writer_left_is_removed)
{
    struct spot_store *s;
    char path[128];

    make_dir();
    snprintf(path, sizeof(path), "%s/gen-000000000070.tmp", dir);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/gen-000000000070.tmp/bundle-0000", dir);
    fclose(fopen(path, "w"));
    s = open_store(dir, 1, NULL);
    ck_assert_int_eq(spot_store_newest(s), -1);
    ck_assert_int_eq(count("gen"), 0);
    spot_store_close(s);
    drop_dir();
}
END_TEST

/* A generation that is whole while another is being written is written after it. */
START_TEST(a_whole_generation_waits_for_the_thread)
{
    struct spot_store *s;
    int64_t step;

    make_dir();
    s = open_store(dir, 1, NULL);
    for (int64_t k = 10; k <= 20; k += 10) {
        spot_store_begin(s, k, "");
        for (int b = 0; b < BUNDLES; b++)
            put(s, k, b);
        ck_assert(spot_store_has_all(s, k));
    }
    ck_assert_int_eq(result(s, &step, NULL), 1);
    ck_assert_int_eq(step, 10);
    ck_assert(spot_store_is_busy(s));
    ck_assert_int_eq(result(s, &step, NULL), 1);
    ck_assert_int_eq(step, 20);
    ck_assert(!spot_store_is_busy(s));
    check_content(s, 20);
    spot_store_close(s);
    drop_dir();
}
END_TEST

START_TEST(bundles_of_another_step_twice_or_given_up_do_not_count)
{
    struct spot_store *s;

    make_dir();
    s = open_store(dir, 1, NULL);
    spot_store_begin(s, 10, "");
    put(s, 10, 0);
    put(s, 10, 0);
    put(s, 9, 1);
    put(s, 10, 1);
    ck_assert(!spot_store_has_all(s, 10));
    ck_assert_int_eq(spot_store_writing(s), -1);
    spot_store_cancel(s);
    put(s, 10, 2);
    ck_assert(!spot_store_is_busy(s));
    save(s, 11);
    spot_store_close(s);
    drop_dir();
}
END_TEST

START_TEST(a_private_directory_goes_unless_it_is_kept)
{
    for (int keep = 0; keep < 2; keep++) {
        struct spot_store *s = open_store(NULL, 1, NULL);

        ck_assert_ptr_nonnull(s);
        snprintf(dir, sizeof(dir), "%s", spot_store_dir(s));
        save(s, 10);
        if (keep)
            spot_store_keep(s);
        spot_store_close(s);
        ck_assert_int_eq(access(dir, F_OK), keep ? 0 : -1);
    }
    drop_dir();
}
END_TEST

/* Set aside, or refuse nothing: with a sound generation before it no changed byte is the end. */
START_TEST(a_newest_manifest_changed_at_any_byte_leaves_the_generation_before)
{
    char path[160], text[2048];
    size_t n;
    FILE *f;

    make_dir();
    for (size_t i = 0, end = 1; i < end; i += 3) {
        struct spot_err err = { 0 };
        struct spot_store *s = open_store(dir, 1, &err);

        ck_assert_msg(s != NULL, "byte %zu: %s", i, err.msg);
        if (!i)
            save(s, 10);
        save(s, 20);
        spot_store_close(s);
        snprintf(path, sizeof(path), "%s/gen-000000000020/manifest.json", dir);
        f = fopen(path, "r+");
        end = n = fread(text, 1, sizeof(text), f);
        text[i] ^= 1;
        rewind(f);
        fwrite(text, 1, n, f);
        fclose(f);
        s = open_store(dir, 1, &err);
        ck_assert_msg(s != NULL, "byte %zu: %s", i, err.msg);
        ck_assert_int_ge(spot_store_verify(s, &err), 0);
        check_content(s, spot_store_newest(s) == 20 ? 20 : 10); /* a changed name harms nobody */
        spot_store_close(s);
    }
    drop_dir();
}
END_TEST

/* With the directory in $D. */
static void shell(const char *command)
{
    setenv("D", dir, 1);
    ck_assert_int_eq(system(command), 0);
}

/* A size that no memory holds is that of a damaged manifest, not of a machine in need. */
START_TEST(an_absurd_size_in_a_manifest_is_damage)
{
    struct spot_store *s;

    make_dir();
    s = open_store(dir, 1, NULL);
    save(s, 10);
    save(s, 20);
    spot_store_close(s);
    shell("sed -i 's/\"byte\": *300/\"byte\":999999999999/' $D/gen-000000000020/manifest.json");
    s = open_store(dir, 1, NULL);
    ck_assert_int_eq(spot_store_verify(s, NULL), 1);
    check_content(s, 10);
    spot_store_close(s);
    drop_dir();
}
END_TEST

START_TEST(whatever_lies_where_a_generation_is_written_is_in_nobodys_way)
{
    static const char *const there[] = {
        "mkdir -p $D/gen-000000000020.tmp/x/y && touch $D/gen-000000000020.tmp/x/.z",
        "touch $D/gen-000000000020.tmp",
        "ln -s /nowhere $D/gen-000000000020.tmp",
        "mkdir -p $D/gen-000000000020/bundle-0000 && touch $D/gen-000000000020/.x",
        "touch $D/gen-000000000020",
    };

    for (size_t i = 0; i < sizeof(there) / sizeof(there[0]); i++) {
        struct spot_store *s;

        make_dir();
        s = open_store(dir, 1, NULL);
        save(s, 10);
        shell(there[i]);
        save(s, 20);
        check_content(s, 20);
        ck_assert_int_eq(count("tmp"), 0);
        spot_store_close(s);
        if (i < 3) { /* also when it lies there before */
            shell(there[i]);
            s = open_store(dir, 1, NULL);
            ck_assert_int_eq(count("tmp"), 0);
            spot_store_close(s);
        }
        drop_dir();
    }
}
END_TEST

START_TEST(a_damaged_generation_keeps_no_place_of_a_sound_one)
{
    static const char *const damage_to[] = {
        "printf x | dd of=$D/gen-000000000020/bundle-0001 bs=1 seek=99 conv=notrunc 2>/dev/null",
        "rm $D/gen-000000000020/bundle-0002",
        "rm $D/gen-000000000020/*",
        "sed -i s/0001/0002/ $D/gen-000000000020/manifest.json",
        "mkdir $D/gen-000000000099",
    };

    for (size_t i = 0; i < sizeof(damage_to) / sizeof(damage_to[0]); i++) {
        struct spot_err err = { 0 };
        struct spot_store *s;
        int64_t step;

        make_dir();
        s = open_store(dir, 1, NULL);
        save(s, 10);
        save(s, 20);
        shell(damage_to[i]);
        spot_store_begin(s, 30, "");
        for (int b = 0; b < BUNDLES; b++)
            put(s, 30, b);
        ck_assert_int_eq(result(s, &step, &err), 1);
        ck_assert_ptr_nonnull(strstr(err.msg, "set aside"));
        spot_store_close(s);
        shell("rm -r $D/gen-000000000030");
        s = open_store(dir, 1, NULL);
        ck_assert_int_eq(spot_store_verify(s, NULL), 0);
        check_content(s, i == 4 ? 20 : 10);
        spot_store_close(s);
        drop_dir();
    }
}
END_TEST

START_TEST(a_deleted_generation_is_not_named_any_more_and_the_directory_is_made_again)
{
    struct spot_err err = { 0 };
    struct spot_store *s;
    int64_t step;

    make_dir();
    s = open_store(dir, 1, NULL);
    save(s, 10);
    save(s, 20);
    shell("rm -r $D/gen-000000000020");
    ck_assert_int_eq(result(s, &step, &err), SPOT_STORE_GONE); /* without being asked */
    ck_assert_int_eq(step, 20);
    check_content(s, 10);
    shell("rm -r $D");
    ck_assert(!spot_store_confirm(s));
    ck_assert_int_eq(spot_store_newest(s), -1);
    spot_store_begin(s, 30, "");
    for (int b = 0; b < BUNDLES; b++)
        put(s, 30, b);
    ck_assert_int_eq(result(s, &step, &err), 1);
    ck_assert_ptr_nonnull(strstr(err.msg, "made again"));
    check_content(s, 30);
    ck_assert(spot_store_confirm(s));
    ck_assert_ptr_null(open_store(dir, 1, &err)); /* and it is locked */
    ck_assert_ptr_nonnull(strstr(err.msg, "in use"));
    shell("mv $D $D.x && touch $D"); /* nothing can be written there */
    spot_store_begin(s, 40, "");
    for (int b = 0; b < BUNDLES; b++)
        put(s, 40, b);
    ck_assert_int_eq(result(s, &step, &err), -1);
    ck_assert(!spot_store_confirm(s));
    ck_assert_int_eq(spot_store_newest(s), -1);
    spot_store_close(s);
    shell("rm -r $D.x");
    drop_dir();
}
END_TEST

/* --- links, and what is somebody else's ---------------------------------------------------- */

static const char *const decoy_is_whole =
    "[ \"$(find $D.decoy | sort | tr '\\n' ' ')\" = \"$D.decoy $D.decoy/file $D.decoy/sub "
    "$D.decoy/sub/file \" ] && [ \"$(cat $D.decoy/file $D.decoy/sub/file)\" = \"$(printf "
    "'precious\\nprecious')\" ]";

static void make_decoy(void)
{
    make_dir();
    shell("mkdir -p $D.decoy/sub && echo precious | tee $D.decoy/file >$D.decoy/sub/file");
}

static void drop_decoy(void)
{
    shell(decoy_is_whole);
    shell("rm -r $D.decoy");
    drop_dir();
}

START_TEST(links_are_not_followed_when_generations_are_removed_and_written)
{
    static const char *const there[] = {
        "ln -s $D.decoy $D/gen-000000000020.tmp",
        "mkdir $D/gen-000000000020.tmp && ln -s $D.decoy $D/gen-000000000020.tmp/x && "
        "ln $D.decoy/file $D/gen-000000000020.tmp/bundle-0000",
        "ln -s $D.decoy $D/gen-000000000020",
        "mkdir $D/gen-000000000020 && ln -s $D.decoy/file $D/gen-000000000020/manifest.json && "
        "ln -s $D.decoy $D/gen-000000000020/sub",
        "ln -s $D.decoy $D/gen-000000000010.bad && : >$D/gen-000000000010/bundle-0000",
        "cd $D && mkdir gen-000000000020.tmp && cd gen-000000000020.tmp && for i in $(seq 300); do "
        "mkdir d && cd -P d || exit 1; done && ln -s $D.decoy l",
        "rm -r $D/gen-000000000010 && ln -s $D.decoy $D/gen-000000000010",
    };

    for (size_t i = 0; i < sizeof(there) / sizeof(there[0]); i++) {
        struct spot_store *s;

        make_decoy();
        s = open_store(dir, 1, NULL);
        save(s, 10);
        shell(there[i]);
        save(s, 20);
        check_content(s, 20);
        save(s, 30);
        save(s, 40);
        check_content(s, 40);
        spot_store_close(s);
        shell("[ -z \"$(find $D -type f -path '*/gen-*0/*' ! -perm 600)\" ] && "
              "[ -z \"$(find $D -type d ! -perm 700)\" ]");
        drop_decoy();
    }
}
END_TEST

START_TEST(what_is_not_a_generation_s_name_stays)
{
    struct spot_store *s;

    make_decoy();
    shell("cd $D && mkdir gen-backup.tmp gen-1.tmp gen-000000000005.mine.tmp && : >gen-x.tmp && "
          "mkdir gen-000000000005.0123456789abcdef.tmp");
    s = open_store(dir, 1, NULL);
    save(s, 10);
    spot_store_close(s);
    shell("cd $D && [ -e gen-backup.tmp ] && [ -e gen-1.tmp ] && [ -e gen-x.tmp ] && "
          "[ -e gen-000000000005.mine.tmp ] && "
          "[ ! -e gen-000000000005.0123456789abcdef.tmp ] && rm -r gen-backup.tmp gen-1.tmp "
          "gen-x.tmp gen-000000000005.mine.tmp");
    drop_decoy();
}
END_TEST

START_TEST(the_directory_of_another_job_in_its_place_is_left_alone)
{
    struct spot_err err = { 0 };
    struct spot_store *s;
    int64_t step;

    make_decoy();
    s = open_store(dir, 2, NULL);
    save(s, 10);
    save(s, 20);
    save(s, 30);
    spot_store_close(s);
    shell("mv $D $D.other && mkdir $D");
    s = open_store(dir, 1, NULL);
    save(s, 40);
    shell("mv $D $D.ours && mv $D.other $D && find $D -type f | sort | xargs cksum >$D.was");
    spot_store_begin(s, 50, "");
    for (int b = 0; b < BUNDLES; b++)
        put(s, 50, b);
    ck_assert_int_eq(result(s, &step, &err), -1);
    ck_assert_msg(strstr(err.msg, "another directory now") != NULL, "%s", err.msg);
    spot_store_close(s);
    shell("find $D -type f | sort | xargs cksum | cmp - $D.was && rm -r $D.ours $D.was");
    drop_decoy();
}
END_TEST

int main(void)
{
    return run_suite("store", add_tests(tcase_create("core")));
}
