/* SPDX-License-Identifier: MIT */
/* Goal: what is taken comes back to the byte, whatever the directory held meanwhile; an unchanged
 * chunk takes no room again; what is damaged, too large or no file is refused, and nothing of it is
 * left.
 */
#define _XOPEN_SOURCE 700
#include <sys/stat.h>

#include "host/state_store.h"
#include "state_rig.h"

enum { MIB = 1 << 20 };

static struct spot_err err;
static struct spot_state_store *store;

static void open_store(uint64_t limit_byte)
{
    store = spot_state_store_open(dir_in_root(""), root, limit_byte, false, &err);
    ck_assert_msg(store != NULL, "%s", err.msg);
}

static void set_up(void)
{
    make_root();
    shell("mkdir -p live/sub && head -c 3000000 /dev/urandom >live/sub/big && : >live/empty && "
          "echo 7 >live/step && chmod 640 live/step && cp -r live want");
    open_store(16 * MIB);
}

static void tear_down(void)
{
    spot_state_store_free(store);
    shell("rm -rf live want chunk held");
    ck_assert_int_eq(rmdir(root), 0);
}

/* As place 0 of a world of 1; NULL with err. */
static const struct spot_state_record *take(uint64_t step)
{
    struct spot_state_record r = { .id = { 1, 5, step }, .world = 1, .run_id = "run" };

    err = (struct spot_err){ 0 };
    if (spot_state_take(store, dir_in_root("live"), NULL, 0, false, &r, &err)) {
        spot_state_record_release(&r);
        return NULL;
    }
    ck_assert_int_eq(spot_state_store_add(store, &r, &err), 0);
    return spot_state_store_find(store, &(struct spot_state_id){ 1, 5, step }, 0);
}

START_TEST(what_is_taken_comes_back_and_nothing_else)
{
    const struct spot_state_record *const r = take(1);

    ck_assert_ptr_nonnull(r);
    ck_assert_uint_eq(spot_state_record_byte(r), 3000002);
    shell("rm live/empty && echo other >live/sub/big && mkdir live/more && echo x >live/more/y");
    ck_assert_int_eq(spot_state_lay_out(store, dir_in_root("live"), r, &err), 0);
    shell("diff -r live want && [ $(stat -c %a live/step) = 640 ]");
    ck_assert_int_eq(spot_state_lay_out(store, dir_in_root("live"), NULL, &err), 0);
    shell("[ -z \"$(ls -A live)\" ]");
}
END_TEST

START_TEST(an_unchanged_chunk_takes_no_room_again_and_the_sweep_keeps_what_is_held)
{
    uint64_t first;

    ck_assert_ptr_nonnull(take(1));
    first = spot_state_store_used(store);
    ck_assert_uint_eq(first, 3000002);
    shell("echo 8 >live/step");
    ck_assert_ptr_nonnull(take(2));
    ck_assert_uint_eq(spot_state_store_used(store), first + 2);
    shell("cp live/step want/step");
    spot_state_store_drop(store, 0);
    spot_state_store_sweep(store);
    ck_assert_uint_eq(spot_state_store_used(store), first);
    spot_state_store_free(store); /* and another process finds it */
    open_store(16 * MIB);
    ck_assert_uint_eq(spot_state_store_count(store), 1);
    ck_assert_uint_eq(spot_state_store_used(store), first);
    ck_assert_int_eq(
        spot_state_lay_out(store, dir_in_root("live"), spot_state_store_at(store, 0), &err), 0);
    shell("diff -r live want");
}
END_TEST

START_TEST(a_chunk_whose_hash_does_not_match_is_refused_and_its_state_is_held_no_more)
{
    const struct spot_state_record *const r = take(1);
    static unsigned char bad[3] = "9\n";
    const struct spot_state_piece piece = { r->chunk[r->n_chunk - 1], 2 };

    ck_assert_int_eq(spot_state_store_put(store, &piece, bad, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    /* every bit of one byte */
    shell("f=$(ls -S chunk/* | head -n 1) && b=$(od -An -tu1 -j77 -N1 $f) && "
          "printf \"\\$(printf %o $((255 - b)))\" | dd of=$f bs=1 seek=77 conv=notrunc "
          "status=none");
    ck_assert_int_eq(spot_state_lay_out(store, dir_in_root("live"), r, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_uint_eq(spot_state_store_count(store), 0);
}
END_TEST

START_TEST(a_state_that_does_not_fit_is_refused_and_the_one_before_stays)
{
    spot_state_store_free(store);
    open_store(4 * MIB);
    ck_assert_ptr_nonnull(take(1));
    shell("head -c 3000000 /dev/urandom >live/sub/big");
    ck_assert_ptr_null(take(2));
    ck_assert_int_eq(err.code, SPOT_ESYS);
    spot_state_store_sweep(store);
    ck_assert_uint_eq(spot_state_store_used(store), 3000002);
    ck_assert_int_eq(
        spot_state_lay_out(store, dir_in_root("live"), spot_state_store_at(store, 0), &err), 0);
    shell("diff -r live want");
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
    shell("ln -s /etc/passwd live/link");
    ck_assert_ptr_null(take(1));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    shell("rm live/link && mkfifo live/pipe");
    ck_assert_ptr_null(take(1));
    ck_assert_int_eq(err.code, SPOT_EDATA);
}
END_TEST

static void ck_decoy(void)
{
    shell("[ \"$(ls -A decoy)\" = file ] && [ \"$(cat decoy/file)\" = precious ]");
}

/* Of names in a manifest. */
static void ck_not_taken(const char *path)
{
    struct spot_state_record r = { .id = { 1, 5, 1 }, .world = 1, .run_id = "run" };

    err = (struct spot_err){ 0 };
    ck_assert_msg(spot_state_take(store, dir_in_root("live"), &path, 1, false, &r, &err) == -1,
                  "%s", path);
    ck_assert_msg(err.code == SPOT_EDATA || strstr(err.msg, "No such file"), "%s", err.msg);
    spot_state_record_release(&r);
}

START_TEST(what_names_lead_to_elsewhere_is_neither_taken_nor_written)
{
    static const char *const path[] = {
        "k/file", "k", "k/../../decoy/file", "../decoy/file", "link", "pipe", "sub"
    };
    static const char *const laid[] = { "k/new", "link", "sub/big/x", "../decoy/new" };
    struct spot_state_file file = { .mode = 0600 };
    struct spot_state_record r = { .file = &file, .n_file = 1 };

    shell("mkdir decoy && echo precious >decoy/file");
    for (size_t i = 0; i < sizeof(path) / sizeof(path[0]); i++) {
        shell("cd live && rm -f k link pipe && ln -s ../decoy k && ln -s ../decoy/file link && "
              "mkfifo pipe");
        ck_not_taken(path[i]);
    }
    for (size_t i = 0; i < sizeof(laid) / sizeof(laid[0]); i++) {
        file.path = (char *)(uintptr_t)laid[i];
        (void)spot_state_lay_out(store, dir_in_root("live"), &r, &err);
        ck_decoy();
    }
    shell("rm -r decoy");
}
END_TEST

START_TEST(links_in_a_store_are_not_followed_and_names_of_others_stay)
{
    const struct spot_state_record *const r = take(1);
    char hex[SPOT_HASH_HEX];

    shell("mkdir decoy && echo precious >decoy/file && : >chunk/notes.txt && : >held/notes.txt && "
          "mkdir chunk/00000000000000000000000000000000 && "
          "ln decoy/file chunk/11111111111111111111111111111111 && "
          "ln -s ../decoy/file chunk/22222222222222222222222222222222");
    spot_hash128_hex(r->chunk[0], hex);
    setenv("CHUNK", hex, 1);
    shell("rm chunk/$CHUNK && mkfifo chunk/$CHUNK"); /* which is not waited for */
    ck_assert_int_eq(spot_state_lay_out(store, dir_in_root("live"), r, &err), -1);
    ck_assert_uint_eq(spot_state_store_count(store), 0);
    spot_state_store_sweep(store);
    shell("[ \"$(ls chunk held | tr '\\n' ' ')\" = "
          "'chunk: 00000000000000000000000000000000 notes.txt  held: notes.txt ' ] && "
          "rm held/notes.txt");
    ck_decoy();
    spot_state_store_free(store);
    shell("rm -r chunk && ln -s decoy chunk");
    store = spot_state_store_open(dir_in_root(""), root, MIB, false, &err);
    ck_assert_ptr_null(store);
    ck_decoy();
    shell("rm -r decoy");
}
END_TEST

/* Every cut of a record, and paths that lead elsewhere. */
START_TEST(a_malformed_record_is_refused)
{
    static const char *const path[] = { "/etc/x", "../x", "a/../x", "a//x", "", "./x", "a/" };
    struct spot_state_record back, r = { .world = 1 };
    struct spot_buf out = { 0 };
    struct spot_wire_in in;

    spot_state_record_put(&out, take(1));
    in = spot_wire_in(out.data, out.n);
    ck_assert_int_eq(spot_state_record_get(&in, &back, &err), 0);
    spot_state_record_release(&back);
    for (size_t n = 0; n < out.n; n++) {
        in = spot_wire_in(out.data, n);
        ck_assert_int_eq(spot_state_record_get(&in, &back, &err), -1);
    }
    for (size_t i = 0; i < sizeof(path) / sizeof(*path); i++) {
        struct spot_state_file file = { .path = (char *)(uintptr_t)path[i] };

        r.file = &file;
        r.n_file = 1;
        out.n = 0;
        spot_state_record_put(&out, &r);
        in = spot_wire_in(out.data, out.n);
        ck_assert_msg(spot_state_record_get(&in, &back, &err) == -1, "%s", path[i]);
    }
    spot_buf_release(&out);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    add_tests(tc);
    return run_suite("state_store", tc);
}
