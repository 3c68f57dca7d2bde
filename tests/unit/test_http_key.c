/* SPDX-License-Identifier: MIT */
#include "comm/http_key.h"
#include "front_rig.h"

/* Goal: a key is what a client can send: blanks around it and comments are none, and a file without
 * a key opens no door. */

static char path[64];

static struct spot_http_keys *load(const char *text, size_t n, struct spot_err *err)
{
    FILE *const f = fopen(path, "wb");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(text, 1, n, f), n);
    fclose(f);
    return spot_http_keys_load(path, err);
}

static void setup(void)
{
    rig_begin();
    snprintf(path, sizeof(path), "%s/keys", rig_dir);
}

static void teardown(void)
{
    (void)unlink(path);
    rig_end_all();
}

static const char *const no_key[] = {
    "", "\n\n", "\n   \n", " \t \r\n", "# a comment\n  # another\n", " "
};

START_TEST(a_file_without_a_key_is_refused)
{
    struct spot_err err = { 0 };

    ck_assert_ptr_null(load(no_key[_i], strlen(no_key[_i]), &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "contains no key"));
}
END_TEST

START_TEST(a_key_has_its_length_without_the_blanks_and_no_nul)
{
    struct spot_err err = { 0 };
    struct spot_http_keys *keys;
    char text[300];

    memset(text, 'k', sizeof(text));
    memset(text, ' ', 20);
    keys = load(text, 20 + 255, &err);
    ck_assert_ptr_nonnull(keys);
    spot_http_keys_free(keys);
    ck_assert_ptr_null(load(text, 20 + 256, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "more than 255 bytes"));
    ck_assert_ptr_null(load("ab\0cd\n", 6, &err)); /* "ab" would be easier to guess */
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "NUL"));
}
END_TEST

static const struct {
    const char *text, *says;
} odd[] = { { "one\n#\n\n one \n", ":4: the same key as in line 1" },
            { "\xef\xbb\xbfone\n", ":1: a key has a byte that is not printable ASCII" },
            { "one\nk\xc3\xa4se\n", ":2: a key has a byte that is not printable ASCII" },
            { "one\ntw\to\n", ":2: a key has a byte" },
            { "Bearer one\n", ":1: a key begins with 'Bearer'" },
            { "bearer  one", ":1: a key begins with 'Bearer'" },
            { "one share=0", ":1: share= takes" },
            { "one share=x", ":1: share= takes" },
            { "one\ntwo priority=1.5", ":2: priority= takes" },
            { "one priority=101 share=1", ":1: priority= takes" } };

START_TEST(a_key_that_no_client_could_send_is_refused_by_its_line)
{
    struct spot_err err = { 0 };

    ck_assert_ptr_null(load(odd[_i].text, strlen(odd[_i].text), &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(strstr(err.msg, odd[_i].says) != NULL, "no '%s' in: %s", odd[_i].says, err.msg);
}
END_TEST

START_TEST(what_is_no_file_of_keys_is_not_read_for_ever)
{
    struct spot_err err = { 0 };

    ck_assert_ptr_null(spot_http_keys_load("/dev/zero", &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "not a file of keys"));
    ck_assert_ptr_null(spot_http_keys_load(rig_dir, &err));
    ck_assert_int_eq(err.code, SPOT_ESYS);
}
END_TEST

static const struct {
    const char *key;
    int status;
} shown[] = {
    { "spaced", 200 },     { "tab", 200 },
    { "with space", 200 }, { "last", 200 },
    { "#c", 401 },         { "# a comment", 401 },
    { "with", 401 },       { "with#sign", 200 },
    { "termed", 200 },     { "termed share=2.5", 401 },
};

START_TEST(blanks_around_a_key_and_comments_open_no_door)
{
    static const char text[] =
        "# a comment\n\n  spaced  \r\n\ttab\t\n   \nwith space\n#c\nwith#sign\n"
        "termed share=2.5\tpriority=-3 \nlast";
    char header[64];
    struct client k;
    struct spot_err err = { 0 };

    spot_http_keys_free(load(text, sizeof(text) - 1, &err));
    ck_assert_int_eq(err.code, 0);
    rig_options.api_key_file = path;
    rig_open();
    for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++) {
        snprintf(header, sizeof(header), "Authorization: Bearer %s\r\n", shown[i].key);
        client_once(&k, "GET", "/v1/models", header, "");
        ck_assert_msg(client_status(&k) == shown[i].status, "%s: %s", header, client_text(&k));
        client_close(&k);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("http_key");
    TCase *const tc = rig_case(s, "file", setup, teardown);

    tcase_add_loop_test(tc, a_file_without_a_key_is_refused, 0, sizeof(no_key) / sizeof(*no_key));
    tcase_add_loop_test(tc, a_key_that_no_client_could_send_is_refused_by_its_line, 0,
                        sizeof(odd) / sizeof(*odd));
    tcase_add_test(tc, what_is_no_file_of_keys_is_not_read_for_ever);
    tcase_add_test(tc, a_key_has_its_length_without_the_blanks_and_no_nul);
    tcase_add_test(tc, blanks_around_a_key_and_comments_open_no_door);
    return rig_run(s);
}
