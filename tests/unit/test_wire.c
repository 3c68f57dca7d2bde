/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "comm/wire.h"
#include "suite.h"

/* Goal: what was put is got back, bit for bit and little endian; a message cut anywhere, or one
 * that claims more than it has, is bad, gives zeros and never reads behind its end. */

static void put_all(struct spot_buf *out)
{
    spot_put_u8(out, 0xAB);
    spot_put_u32(out, 0x01020304);
    spot_put_u64(out, UINT64_MAX - 1);
    spot_put_i64(out, INT64_MIN);
    spot_put_f64(out, -0.0);
    spot_put_text(out, "h\xC3\xA4llo");
}

static bool get_all(struct spot_wire_in *in)
{
    char text[8];
    bool same = spot_get_u8(in) == 0xAB;
    double zero;

    same &= spot_get_u32(in) == 0x01020304;
    same &= spot_get_u64(in) == UINT64_MAX - 1;
    same &= spot_get_i64(in) == INT64_MIN;
    zero = spot_get_f64(in);
    same &= zero == 0 && (in->bad || signbit(zero));
    spot_get_text(in, text, sizeof(text));
    return same && !strcmp(text, "h\xC3\xA4llo");
}

START_TEST(what_was_put_is_got_back)
{
    struct spot_buf out = { 0 };
    struct spot_wire_in in;

    put_all(&out);
    ck_assert_uint_eq(out.n, 1 + 4 + 8 + 8 + 8 + 4 + 6);
    ck_assert(!memcmp(out.data, "\xAB\x04\x03\x02\x01\xFE\xFF", 7)); /* little endian */
    in = spot_wire_in(out.data, out.n);
    ck_assert(get_all(&in));
    ck_assert(spot_wire_in_done(&in));
    ck_assert_uint_eq(spot_get_u8(&in), 0);
    ck_assert(!spot_wire_in_done(&in));
    spot_buf_release(&out);
}
END_TEST

START_TEST(a_message_cut_at_any_byte_is_bad)
{
    struct spot_buf out = { 0 };

    put_all(&out);
    for (size_t n = 0; n < out.n; n++) {
        unsigned char *part = malloc(n + 1); /* of its own, so that a sanitizer sees an overrun */
        struct spot_wire_in in = spot_wire_in(part, n);

        memcpy(part, out.data, n);
        ck_assert(!get_all(&in));
        ck_assert(in.bad);
        ck_assert_uint_eq(spot_get_u64(&in), 0);
        free(part);
    }
    spot_buf_release(&out);
}
END_TEST

START_TEST(a_count_that_cannot_be_there_is_bad)
{
    struct spot_buf out = { 0 };
    struct spot_wire_in in;

    spot_put_u32(&out, 3);
    spot_buf_add(&out, "123456789012", 12);
    in = spot_wire_in(out.data, out.n);
    ck_assert_uint_eq(spot_get_count(&in, 4), 3);
    ck_assert(!in.bad);
    in = spot_wire_in(out.data, out.n);
    ck_assert_uint_eq(spot_get_count(&in, 5), 0);
    ck_assert(in.bad);
    memset(out.data, 0xFF, 4);
    in = spot_wire_in(out.data, out.n);
    ck_assert_uint_eq(spot_get_count(&in, 1), 0);
    ck_assert(in.bad);
    spot_buf_release(&out);
}
END_TEST

START_TEST(a_text_too_long_or_with_a_nul_is_bad_and_empty)
{
    static const char *const wrong[] = { "\4\0\0\0abcd", "\3\0\0\0a\0c", "\5\0\0\0abcd",
                                         "\377\377\377\377abcd" };
    char text[4];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct spot_wire_in in = spot_wire_in(wrong[i], i == 1 ? 7 : 8);

        strcpy(text, "old");
        spot_get_text(&in, text, sizeof(text));
        ck_assert(in.bad);
        ck_assert_str_eq(text, "");
    }
}
END_TEST

/* What others say is shown to people: no byte of it moves their terminal. */
START_TEST(a_plain_text_moves_no_terminal)
{
    struct spot_buf out = { 0 };
    struct spot_wire_in in;
    char text[32], cut[4];

    spot_put_text(&out, "a\x1b[2Jb\xff");
    in = spot_wire_in(out.data, out.n);
    spot_get_plain(&in, text, sizeof(text));
    ck_assert(spot_wire_in_done(&in));
    ck_assert_str_eq(text, "a?[2Jb?");
    in = spot_wire_in(out.data, out.n);
    spot_get_plain(&in, cut, sizeof(cut));
    ck_assert(in.bad);
    ck_assert_str_eq(cut, "");
    spot_buf_release(&out);
}
END_TEST

int main(void)
{
    return run_suite("wire", add_tests(tcase_create("core")));
}
