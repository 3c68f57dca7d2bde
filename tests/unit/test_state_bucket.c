/* SPDX-License-Identifier: MIT */
/* Goal: commits that go behind a command come back as they were, whatever their places share and
 * however they are cut into objects; what is damaged there is not taken, and the one before is. */
#include "host/state_bucket.h"

#include <stdlib.h>

#include "state_rig.h"

enum { WORLD = 3, PACK = 2 << 20 };

static char command_text[1024];
static struct spot_state_command command;
static struct spot_state_store *store;
static struct spot_state_bucket *bucket;

static struct spot_state_store *open_store(const char *name)
{
    struct spot_err err = { 0 };
    struct spot_state_store *s;
    char text[64];

    snprintf(text, sizeof(text), "mkdir %s", name);
    shell(text);
    s = spot_state_store_open(dir_in_root(name), name, UINT64_MAX, false, &err);
    ck_assert_msg(s != NULL, "%s", err.msg);
    return s;
}

static void setup(void)
{
    make_root();
    shell("mkdir bucket");
    snprintf(
        command_text, sizeof(command_text),
        "f() { cd '%s/bucket' && mkdir -p \"$(dirname \"$2\")\" && case $1 in put) cat >\"$2\" ;; "
        "get) cat \"$2\" ;; delete) rm -f \"$2\" ;; list) find . -type f -printf '%%s %%P\\n' "
        "| grep -F \" $2\" || true ;; esac; }; f",
        root);
    command = (struct spot_state_command){ .command = command_text, .limit_s = 20 };
    store = open_store("store");
    bucket = spot_state_bucket_new(&command);
}

static void teardown(void)
{
    spot_state_bucket_free(bucket);
    spot_state_store_free(store);
    shell("rm -rf \"$PWD\"");
}

static struct spot_state_copy copy_of(uint64_t step)
{
    return (struct spot_state_copy){
        .run_id = "00000000000000ab", .id = { 2, 77, step }, .world = WORLD, .pack_byte = PACK
    };
}

/* Each place: 3.5 MiB that all have, 2.5 MiB of its own, an empty file; made of step and place. */
static void fill(uint64_t step, int place)
{
    char text[400];

    snprintf(text, sizeof(text),
             "rm -rf live && mkdir live live/d && : >live/empty && "
             "seq %llu 1000000 | head -c 3670016 >live/common && "
             "seq %llu 1000000 | head -c 2621440 >live/d/own",
             (unsigned long long)step, (unsigned long long)step * 100 + (unsigned long long)place);
    shell(text);
}

/* A commit in the store, and its records. */
static struct spot_buf commit(const struct spot_state_copy *copy)
{
    struct spot_buf records = { 0 };

    for (int place = 0; place < WORLD; place++) {
        struct spot_state_record record = { .id = copy->id,
                                            .place = (uint32_t)place,
                                            .world = WORLD };
        struct spot_err err = { 0 };

        snprintf(record.run_id, sizeof(record.run_id), "%s", copy->run_id);
        fill(copy->id.step, place);
        ck_assert_msg(!spot_state_take(store, dir_in_root("live"), NULL, 0, false, &record, &err),
                      "%s", err.msg);
        spot_state_bucket_add(&records, &record);
        ck_assert(!spot_state_store_add(store, &record, NULL));
    }
    return records;
}

static void put(uint64_t step)
{
    const struct spot_state_copy copy = copy_of(step);
    struct spot_buf records = commit(&copy);
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_state_bucket_put(bucket, store, &copy, &records, &err), "%s", err.msg);
    spot_buf_release(&records);
}

static void claim(void)
{
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_state_bucket_claim(bucket, "00000000000000ab", &err), "%s", err.msg);
}

/* What comes back is what was committed at that step. */
static void expect(uint64_t step)
{
    const struct spot_state_copy copy = copy_of(step);
    struct spot_state_store *const other = open_store("other");
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_state_bucket_get(bucket, other, &err), "%s", err.msg);
    ck_assert_uint_eq(spot_state_store_count(other), WORLD);
    shell("mkdir back");
    for (int place = 0; place < WORLD; place++) {
        const struct spot_state_record *const record =
            spot_state_store_find(other, &copy.id, (uint32_t)place);

        ck_assert_ptr_nonnull(record);
        ck_assert(!spot_state_lay_out(other, dir_in_root("back"), record, &err));
        fill(step, place);
        shell("diff -r live back");
    }
    spot_state_store_free(other);
    shell("rm -rf other back");
}

START_TEST(a_commit_comes_back_and_what_places_share_is_there_once)
{
    struct spot_state_copy found = { 0 };

    claim();
    put(5);
    ck_assert_int_eq(spot_state_bucket_find(bucket, &found, NULL), 1);
    ck_assert_str_eq(found.run_id, "00000000000000ab");
    ck_assert_uint_eq(found.id.step, 5);
    ck_assert_uint_eq(found.id.key, 77);
    ck_assert_uint_eq(found.world, WORLD);
    expect(5);
    /* 3.5 + 3 * 2.5 MiB, in objects of 2 MiB or a chunk more */
    shell("[ $(cat bucket/gen-*/bundle-* | wc -c) -lt 11700000 ]");
    shell("[ $(ls bucket/gen-*/bundle-* | wc -l) -ge 5 ]");
    shell("[ $(find bucket -size +3145728c | wc -l) -eq 0 ]");
}
END_TEST

START_TEST(the_two_newest_stay_and_the_newest_counts)
{
    claim();
    for (uint64_t step = 1; step <= 3; step++)
        put(step);
    shell("[ $(ls -d bucket/gen-*/manifest.json | wc -l) -eq 2 ]");
    shell("[ $(find bucket -type f | grep -c bundle) -le 14 ]");
    expect(3);
}
END_TEST

static const char *const damage[] = {
    "rm $newest/bundle-0000",
    "rm $newest/bundle-0002",
    "truncate -s -1 $newest/bundle-0000",
    "truncate -s -1 $newest/bundle-0003",
    "printf x | dd of=$newest/bundle-0000 bs=1 seek=100 conv=notrunc status=none",
    "printf x | dd of=$newest/bundle-0002 bs=1 seek=100 conv=notrunc status=none",
    "echo '{\"schema\":\"spot.state/1\"}' >$newest/manifest.json",
    "sed -i 's/\"nodes\": *3/\"nodes\": 2/' $newest/manifest.json",
    "sed -i '0,/\"step\": *2/s//\"step\": 3/' $newest/manifest.json",
    "sed -i 's/\"step\": *5/\"step\": 3/' $newest/manifest.json",
    "sed -i 's/00000000000000ab/00000000000000ac/' $newest/manifest.json",
    "sed -i 's/\"xxh3_128\": *\"[0-9a-f]/&0/; s/\\(\"xxh3_128\": *\"[0-9a-f]*\\)[0-9a-f]\"/\\1\"/' "
    "$newest/manifest.json",
    "sed -i 's/\"commit\"/\"comet\"/' $newest/manifest.json",
};

START_TEST(of_one_that_is_damaged_nothing_is_taken_and_the_one_before_comes_back)
{
    struct spot_state_store *const other = open_store("first");
    struct spot_state_copy found = { 0 };
    struct spot_err err = { 0 };
    char text[256];

    claim();
    put(1);
    put(5); /* generation 2 */
    snprintf(text, sizeof(text), "newest=$(ls -d bucket/gen-* | tail -n 1); %s", damage[_i]);
    shell(text);
    ck_assert_int_eq(spot_state_bucket_find(bucket, &found, NULL), 1);
    if (found.id.step != 1) { /* the manifest does not show it */
        ck_assert_int_eq(spot_state_bucket_get(bucket, other, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
    }
    ck_assert_uint_eq(spot_state_store_count(other), 0);
    spot_state_store_free(other);
    expect(1);
}
END_TEST

START_TEST(a_commit_that_cannot_be_read_here_is_none_there)
{
    const struct spot_state_copy copy = copy_of(1);
    struct spot_buf records = commit(&copy);
    struct spot_err err = { 0 };

    claim();
    shell("for f in store/chunk/*; do printf x | dd of=$f bs=1 seek=3 conv=notrunc status=none; "
          "done");
    ck_assert_int_eq(spot_state_bucket_put(bucket, store, &copy, &records, &err), -1);
    ck_assert_msg(strstr(err.msg, "damaged") != NULL, "%s", err.msg);
    shell("[ $(find bucket -name 'bundle*' | wc -l) -eq 0 ]");
    spot_buf_release(&records);
}
END_TEST

START_TEST(another_run_is_refused_and_a_second_writer_takes_over)
{
    struct spot_state_bucket *const second = spot_state_bucket_new(&command);
    char owner[SPOT_RUN_ID_MAX];
    struct spot_buf records;
    const struct spot_state_copy copy = copy_of(2);
    struct spot_err err = { 0 };

    ck_assert(!spot_state_bucket_owner(bucket, owner, NULL));
    ck_assert_str_eq(owner, "");
    claim();
    put(1);
    ck_assert(!spot_state_bucket_owner(second, owner, NULL));
    ck_assert_str_eq(owner, "00000000000000ab");
    ck_assert_int_eq(spot_state_bucket_claim(second, "00000000000000ac", &err), -1);
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    put(3);
    ck_assert(!spot_state_bucket_claim(second, owner, NULL));
    records = commit(&copy);
    ck_assert_int_eq(spot_state_bucket_put(bucket, store, &copy, &records, &err), -1);
    ck_assert_msg(strstr(err.msg, "taken over") != NULL, "%s", err.msg);
    ck_assert(!spot_state_bucket_put(second, store, &copy, &records, NULL));
    spot_buf_release(&records);
    spot_state_bucket_free(second);
    expect(2);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, of_one_that_is_damaged_nothing_is_taken_and_the_one_before_comes_back,
                        0, (int)(sizeof(damage) / sizeof(*damage)));
    add_tests(tc);
    return run_suite("state_bucket", tc);
}
