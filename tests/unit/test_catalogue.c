/* SPDX-License-Identifier: MIT */
/* Goal: every reader of a catalogue sees the same rows. Oracle: rows by hand. */
#include "doc_rig.h"
#include "model/catalogue.h"

struct seen {
    char text[512];
    int n;
};

static int on_row(const struct spot_catalogue_row *row, void *user, struct spot_err *err)
{
    struct seen *s = user;
    const size_t at = strlen(s->text);

    snprintf(s->text + at, sizeof(s->text) - at, "%s/%s %g %g %d %d %g\n", row->zone, row->type,
             row->usd_per_h[true], row->usd_per_h[false], (int)row->quota, (int)row->gpus,
             row->speed);
    return ++s->n == 3 ? spot_csv_fail(row->csv, SPOT_CATALOGUE_ZONE, err, "enough") : 0;
}

static int read_rows(const char *text, spot_catalogue_fn *take, void *user, struct spot_prov *prov,
                     struct spot_err *err)
{
    char path[32];
    int rc;

    *err = (struct spot_err){ 0 };
    put_file(path, text, strlen(text));
    rc = spot_catalogue_read(path, take, user, prov, err);
    unlink(path);
    return rc;
}

static int read_text(const char *text, struct seen *seen, struct spot_prov *prov,
                     struct spot_err *err)
{
    *seen = (struct seen){ .n = 0 };
    return read_rows(text, on_row, seen, prov, err);
}

START_TEST(rows_have_what_is_given_and_say_what_is_not)
{
    struct spot_prov prov = { 0 };
    struct spot_err err;
    struct seen s;

    ck_assert_int_eq(read_text("zone,x,instance_type,spot_usd_per_h,on_demand_usd_per_h,quota,gpus,"
                               "speed\na,?,g,0.5,,3,8,2\n,?,h,,1.5,,,\n",
                               &s, &prov, &err),
                     0);
    ck_assert_str_eq(s.text, "a/g 0.5 -1 3 8 2\n/h -1 1.5 -1 1 1\n");
    ck_assert_uint_eq(prov.n_input, 1);
    ck_assert_int_eq(read_text("instance_type\ng\n", &s, NULL, &err), 0);
    ck_assert_str_eq(s.text, "/g -1 -1 -1 1 1\n");
    spot_prov_release(&prov);
}
END_TEST

START_TEST(what_is_wrong_is_refused_with_its_place)
{
    static const struct {
        const char *text, *place;
    } bad[] = {
        { "instance_type,spot_usd_per_h\ng,-1\n", ":2:3: spot_usd_per_h: " },
        { "instance_type,on_demand_usd_per_h\ng,x\n", ":2:3: on_demand_usd_per_h: " },
        { "instance_type,quota\ng,1.5\n", ":2:3: quota: " },
        { "instance_type,gpus\ng,-1\n", ":2:3: gpus: " },
        { "instance_type,speed\ng,0\n", ":2:3: speed: " },
        { "instance_type,zone\n,a\n", ":2:1: instance_type: expected a name" },
        { "instance_type,zone\ng,\nh,\ni,z\n", ":4:3: zone: enough" },
        { "zone\na\n", "instance_type" },
        { "instance_type,zone\n", ": no row under the header" },
    };
    struct spot_err err;
    struct seen s;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(read_text(bad[i].text, &s, NULL, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_msg(strstr(err.msg, bad[i].place), "%s", err.msg);
    }
    ck_assert_int_eq(spot_catalogue_read("/nowhere/c.csv", on_row, &s, NULL, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
}
END_TEST

static int on_any(const struct spot_catalogue_row *row, void *user, struct spot_err *err)
{
    (void)row;
    (void)err;
    ++*(int *)user;
    return 0;
}

#define SALE "instance_type,zone,spot_usd_per_h,on_demand_usd_per_h\n"

START_TEST(the_same_offer_twice_is_refused_and_one_on_each_market_is_not)
{
    static const struct {
        const char *text, *place;
    } of[] = {
        { SALE "g,,1,2\nh,,1,2\n", NULL },
        { SALE "g,a,1,\ng,b,1,\ng,a,,2\ng,,1,\n", NULL },
        { SALE "g,a,1,\nh,a,1,\ng,a,1,\n", ":4:1: 'g' in a is offered twice on spot: on line 2" },
        { SALE "g,,,2\ng,,1,3\n", ":3:1: 'g' is offered twice: on line 2" },
        { SALE "g,a,1,\ng,a,,2\ng,a,3,\n", ":4:1: 'g' in a is offered twice on spot: on line 2" },
        { SALE "g,,0,\ng,,0,\n", ":3:1: 'g' is offered twice on spot: on line 2" },
        { "instance_type,speed\ng,1\nh,2\ng,3\n", ":4:1: 'g' is offered twice: on line 2" },
    };
    struct spot_err err;
    int n = 0;

    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        ck_assert_int_eq(read_rows(of[i].text, on_any, &n, NULL, &err), of[i].place ? -1 : 0);
        ck_assert_msg(!of[i].place || strstr(err.msg, of[i].place), "%s", err.msg);
        ck_assert_int_eq(err.code, of[i].place ? SPOT_EDATA : 0);
    }
}
END_TEST

static int find(struct spot_catalogue_type *type, const char *text, struct spot_err *err)
{
    FILE *const in = opened(text);
    const int rc = spot_catalogue_find(type, "g", in, "c", NULL, err);

    fclose(in);
    return rc;
}

START_TEST(hardware_is_that_of_all_rows_of_a_type_and_one_that_says_otherwise_is_refused)
{
    struct spot_catalogue_type type;
    struct spot_err err = { 0 };

    ck_assert_msg(!find(&type,
                        "instance_type,zone,gpus,gpu_mem_byte,spot_usd_per_h\ng,a,,5,1\n"
                        "h,a,1,9,1\ng,b,8,5,2\n",
                        &err),
                  "%s", err.msg);
    ck_assert(type.gpus == 8 && type.gpu_mem_byte == 5 && type.spot_usd_per_h == 1);
    ck_assert_int_eq(find(&type, "instance_type\ng\n", &err), 0);
    ck_assert(type.gpus == 1 && type.gpu_mem_byte == -1);
    expect_refused(find(&type, "instance_type,gpus\ng,8\nh,4\ng,4\n", &err), &err,
                   "c:4:3: gpus: 4, but line 2 of 'g' says otherwise");
    expect_refused(find(&type, "instance_type,gpu_mem_byte\ng,8\ng,4\n", &err), &err,
                   "c:3:3: gpu_mem_byte: 4, but line 2 of 'g' says otherwise");
}
END_TEST

static int on_priced(const struct spot_catalogue_row *row, void *user, struct spot_err *err)
{
    ++*(int *)user;
    return spot_catalogue_need_price(row, err);
}

START_TEST(who_needs_prices_is_told_which_columns_lack)
{
    static const char *const text[] = { "instance_type,spot_usd_per_h\ng,\n",
                                        "instance_type,on_demand_usd_per_h\ng,2\n" };
    struct spot_err err = { 0 };
    int n = 0;

    for (size_t i = 0; i < 2; i++)
        ck_assert_msg(!read_rows(text[i], on_priced, &n, NULL, &err), "%s", err.msg);
    ck_assert_int_eq(read_rows("instance_type\ng\n", on_priced, &n, NULL, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, ":1: header lacks the prices: expected a column "
                                          "on_demand_usd_per_h or spot_usd_per_h"));
    ck_assert_int_eq(n, 3);
}
END_TEST

int main(void)
{
    return run_suite("catalogue", add_tests(tcase_create("catalogue")));
}
