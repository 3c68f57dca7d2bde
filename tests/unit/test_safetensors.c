/* SPDX-License-Identifier: MIT */
/* Goal: a safetensors header means exactly one layout or is refused, whatever it claims. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/le.h"
#include "shard/safetensors.h"
#include "suite.h"

static int parse(const char *text, struct spot_st *st, struct spot_err *err)
{
    return spot_st_parse(st, text, strlen(text), "f", err);
}

#define T(shape, begin, end) \
    "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static const struct bad_case {
    const char *text, *part; /* of the message */
} bad_case[] = {
    { "", "expected '{'" },
    { " {}", "expected '{'" },
    { "{", "expected '\"'" },
    { "{}x", "text after the end" },
    { "{\"a\":1}", "expected '{'" },
    { "{\"a\":" T("[2]", "0", "8") ",}", "expected '\"'" },
    { "{\"a\":" T("[2]", "0", "8") ",\"a\":" T("[2]", "8", "16") "}", "duplicate tensor 'a'" },
    { "{\"a\":" T("[2]", "0", "8") ",\"\\u0061\":" T("[2]", "8", "16") "}", "duplicate tensor" },
    { "{\"a\":" T("[2]", "0", "4") "}", "span 4 bytes, dtype and shape ask for 8" },
    { "{\"a\":" T("[2]", "8", "0") "}", "expected data_offsets" },
    { "{\"a\":" T("[2]", "4", "12") "}", "begins at 4, the tensor before ends at 0" },
    { "{\"a\":" T("[2]", "0", "8") ",\"b\":" T("[2]", "4", "12") "}", "begins at 4" },
    { "{\"a\":" T("[2]", "0", "8") ",\"b\":" T("[2]", "12", "20") "}", "begins at 12" },
    { "{\"a\":" T("[4294967296,4294967296]", "0", "0") "}", "ask for more than" },
    { "{\"a\":" T("[18446744073709551615,4611686018427387905]", "0", "4") "}", "more than" },
    { "{\"a\":" T("[4611686018427387904]", "0", "0") "}", "more than" },
    { "{\"a\":" T("[18446744073709551616]", "0", "0") "}", "beyond 64 bits" },
    { "{\"a\":" T("[-1]", "0", "0") "}", "expected a whole number" },
    { "{\"a\":" T("[1.0]", "0", "4") "}", "expected ']'" },
    { "{\"a\":" T("[01]", "0", "4") "}", "leading zero" },
    { "{\"a\":" T("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "0", "4") "}", "more than 16 numbers" },
    { "{\"a\":{\"dtype\":\"F31\",\"shape\":[],\"data_offsets\":[0,4]}}", "unknown dtype 'F31'" },
    { "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}",
      "12 bits, expected whole" },
    { "{\"a\":{\"dtype\":\"F4\",\"shape\":[],\"data_offsets\":[0,1]}}", "4 bits, expected whole" },
    { "{\"a\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,4]}}", "ask for 2" },
    { "{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[2],\"data_offsets\":[0,2]}}", "12 bits" },
    { "{\"a\":{\"dtype\":\"F6_E3M2\",\"shape\":[3,4],\"data_offsets\":[0,12]}}", "ask for 9" },
    { "{\"a\":{\"dtype\":\"F6_E3M2\",\"shape\":[3074457345618258603],\"data_offsets\":[0,0]}}",
      "more than" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", "lacks data_offsets" },
    { "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", "duplicate key 'dtype'" },
    { "{\"a\":{\"size\":4}}", "unknown key 'size'" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0]}}", "expected data_offsets" },
    { "{\"__metadata__\":{\"k\":1}}", "expected '\"'" },
    { "{\"__metadata__\":{\"k\":null}}", "expected '\"'" },
    { "{\"__metadata__\":nul}", "expected '{'" },
    { "{\"__metadata__\":null1}", "expected '}'" },
    { "{\"__metadata__\":null,\"__metadata__\":{}}", "duplicate key '__metadata__'" },
    { "{\"__metadata__\":{},\"__metadata__\":{}}", "duplicate key '__metadata__'" },
    { "{\"\xff\":1}", "invalid UTF-8" },
    { "{\"\xc0\xaf\":1}", "invalid UTF-8" },
    { "{\"\xed\xa0\x80\":1}", "invalid UTF-8" },
    { "{\"\\ud800\":1}", "surrogate" },
    { "{\"\\u0000\":1}", "not a character" },
    { "{\"\\x\":1}", "unknown escape" },
    { "{\"a\n\":1}", "control character" },
    { "{\"a", "unfinished string" },
};

START_TEST(refuses_a_wrong_header_and_says_why)
{
    const struct bad_case *c = &bad_case[_i];
    struct spot_st st;
    struct spot_err err = { 0 };

    ck_assert_msg(parse(c->text, &st, &err) == -1, "accepted: %s", c->text);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(strstr(err.msg, c->part), "'%s' lacks '%s'", err.msg, c->part);
    ck_assert_uint_eq(st.n_tensor, 0);
}
END_TEST

START_TEST(sorts_tensors_by_place_and_decodes_names)
{
    struct spot_st st;
    struct spot_err err = { 0 };

    ck_assert_msg(!parse("{ \"__metadata__\": null ,\"a\":" T("[]", "0", "4") "}", &st, &err), "%s",
                  err.msg);
    ck_assert_uint_eq(st.n_tensor, 1);
    spot_st_release(&st);
    ck_assert_msg(
        !parse("{ \"__metadata__\":{\"k\":\"v\"},\n\"z\\u00e9\\ud83d\\ude00\":" T(
                   "[2,1]", "4", "12") ",\"e\":" T("[0,7]", "12", "12") ",\"a\":" T("[]", "0",
                                                                                    "4") "}   ",
               &st, &err),
        "%s", err.msg);
    ck_assert_uint_eq(st.n_tensor, 3);
    ck_assert_uint_eq(st.data_byte, 12);
    ck_assert_str_eq(st.tensor[0].name, "a");
    ck_assert_int_eq(st.tensor[0].n_dim, 0);
    ck_assert_str_eq(st.tensor[1].name, "z\xc3\xa9\xf0\x9f\x98\x80");
    ck_assert_uint_eq(st.tensor[1].begin, 4);
    ck_assert_int_eq(spot_st_find(&st, "e"), 2);
    ck_assert_int_eq(spot_st_find(&st, "f"), -1);
    spot_st_release(&st);
}
END_TEST

/* Bits of each type as the format's own reader counts them (its enum Dtype, bitsize). */
static const struct dtype_case {
    const char *name;
    unsigned bit, byte;
} dtype_case[] = {
    { "BOOL", 8, 1 },        { "F4", 4, 1 },          { "F6_E2M3", 6, 1 }, { "F6_E3M2", 6, 1 },
    { "U8", 8, 1 },          { "I8", 8, 1 },          { "F8_E5M2", 8, 1 }, { "F8_E4M3", 8, 1 },
    { "F8_E8M0", 8, 1 },     { "F8_E4M3FNUZ", 8, 1 }, { "I16", 16, 2 },    { "U16", 16, 2 },
    { "F8_E5M2FNUZ", 8, 1 }, { "F16", 16, 2 },        { "BF16", 16, 2 },   { "I32", 32, 4 },
    { "U32", 32, 4 },        { "F32", 32, 4 },        { "C64", 64, 8 },    { "F64", 64, 8 },
    { "I64", 64, 8 },        { "U64", 64, 8 },
};

enum { DTYPES = sizeof(dtype_case) / sizeof(dtype_case[0]) };

START_TEST(takes_every_dtype_of_the_format_at_its_size)
{
    const struct dtype_case *d = &dtype_case[_i];
    struct spot_st st;
    struct spot_err err = { 0 };
    char text[128];

    ck_assert_int_eq(DTYPES, SPOT_DTYPES);
    for (unsigned n = 0; n < 40; n++) {
        snprintf(text, sizeof(text),
                 "{\"a\":{\"dtype\":\"%s\",\"shape\":[%u],\"data_offsets\":[0,%u]}}", d->name, n,
                 n * d->bit / 8);
        if (n * d->bit % 8) {
            ck_assert_int_eq(parse(text, &st, &err), -1);
            continue;
        }
        ck_assert_msg(!parse(text, &st, &err), "%s", err.msg);
        ck_assert_str_eq(spot_dtype_name(st.tensor[0].dtype), d->name);
        ck_assert_uint_eq(spot_dtype_byte(st.tensor[0].dtype), d->byte);
        spot_st_release(&st);
    }
}
END_TEST

START_TEST(a_file_without_tensors_is_one)
{
    struct spot_st st;
    struct spot_err err = { 0 };

    ck_assert_msg(!parse("{}  ", &st, &err), "%s", err.msg);
    ck_assert_uint_eq(st.n_tensor, 0);
    ck_assert_uint_eq(st.data_byte, 0);
    spot_st_release(&st);
}
END_TEST

START_TEST(what_is_written_reads_back)
{
    static char name[3][24] = { "plain", "quote\" \\ \n", "\xc3\xa9" };
    struct spot_st_tensor t[3] = { 0 };
    struct spot_buf out = { 0 };
    struct spot_st st;
    struct spot_err err = { 0 };
    uint64_t n, data_byte;

    for (int i = 0; i < 3; i++) {
        t[i].name = name[i];
        t[i].dtype = i == 1 ? SPOT_DT_F4 : (enum spot_dtype)(5 * i);
        t[i].n_dim = i;
        t[i].dim[0] = 6;
        t[i].dim[1] = (uint64_t)i + 2;
    }
    data_byte = spot_st_write(t, 3, &out);
    ck_assert_uint_eq(out.n % 8, 0);
    ck_assert_int_eq(spot_st_prefix(out.data, "f", &n, &err), 0);
    ck_assert_uint_eq(n, out.n - 8);
    ck_assert_msg(!spot_st_parse(&st, (const char *)out.data + 8, n, "f", &err), "%s", err.msg);
    ck_assert_uint_eq(st.data_byte, data_byte);
    for (int i = 0; i < 3; i++) {
        ck_assert_str_eq(st.tensor[i].name, name[i]);
        ck_assert_int_eq(st.tensor[i].dtype, t[i].dtype);
        ck_assert_int_eq(st.tensor[i].n_dim, i);
        for (int d = 0; d < i; d++)
            ck_assert_uint_eq(st.tensor[i].dim[d], t[i].dim[d]);
    }
    spot_st_release(&st);
    spot_buf_release(&out);
}
END_TEST

START_TEST(refuses_an_absurd_length_before_reading_it)
{
    static const uint64_t wrong[] = { 0, 1, SPOT_ST_HEADER_MAX + 1, UINT64_C(1) << 40, UINT64_MAX };
    unsigned char prefix[8];
    struct spot_err err = { 0 };
    uint64_t n;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        spot_le_put(prefix, wrong[i], 8);
        ck_assert_int_eq(spot_st_prefix(prefix, "f", &n, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
    }
}
END_TEST

/* Memory is bounded by a number of tensors, not by the text alone. */
START_TEST(refuses_more_tensors_than_a_table_may_have)
{
    struct spot_buf text = { 0 };
    struct spot_st st;
    struct spot_err err = { 0 };
    char one[96];

    spot_buf_add(&text, "{", 1);
    for (int i = 0; i <= SPOT_ST_TENSORS_MAX; i++) {
        const int n = snprintf(one, sizeof(one),
                               "%s\"%x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                               i ? "," : "", (unsigned)i);

        spot_buf_add(&text, one, (size_t)n);
    }
    spot_buf_add(&text, "}", 1);
    ck_assert_uint_lt(text.n, SPOT_ST_HEADER_MAX);
    ck_assert_int_eq(spot_st_parse(&st, (const char *)text.data, text.n, "f", &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "more than 1048576 tensors"));
    spot_buf_release(&text);
}
END_TEST

START_TEST(every_cut_and_every_changed_byte_is_refused_or_still_consistent)
{
    static const char good[] = "{\"a\":" T("[2]", "0", "8") ",\"b\":" T("[1]", "8", "12") "}";
    char text[sizeof(good)];
    struct spot_st st;

    for (size_t cut = 0; cut < sizeof(good) - 1; cut++)
        ck_assert_int_eq(spot_st_parse(&st, good, cut, "f", NULL), -1);
    for (size_t i = 0; i < sizeof(good) - 1; i++)
        for (int v = 0; v < 256; v++) {
            memcpy(text, good, sizeof(good));
            text[i] = (char)v;
            if (spot_st_parse(&st, text, sizeof(good) - 1, "f", NULL))
                continue;
            for (size_t t = 1; t < st.n_tensor; t++)
                ck_assert_uint_eq(st.tensor[t].begin, st.tensor[t - 1].end);
            spot_st_release(&st);
        }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, refuses_a_wrong_header_and_says_why, 0,
                        sizeof(bad_case) / sizeof(bad_case[0]));
    tcase_add_loop_test(tc, takes_every_dtype_of_the_format_at_its_size, 0, DTYPES);
    add_tests(tc);
    return run_suite("safetensors", tc);
}
