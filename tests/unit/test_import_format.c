/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "suite.h"
#include "trace/import.h"
#include "trace/trace_write.h"

/* Goal: of each format, what a document says and what it becomes, written down side by side as
 * docs/formats/import.md tells; and where in a document that is wrong the fault is. */

static int read_bytes(struct spot_import *imp, const char *format, const void *data, size_t n,
                      struct spot_err *err)
{
    FILE *in = tmpfile();
    int rc;

    ck_assert_ptr_nonnull(in);
    ck_assert_uint_eq(fwrite(data, 1, n, in), n);
    rewind(in);
    rc = format ? spot_import_read(imp, spot_import_find(format), in, "us-west-2a_v100_1.json", err)
                : spot_import_read_own(imp, in, "own", err);
    fclose(in);
    return rc;
}

/* The text of an import as its tool writes it; freed by the caller. */
static char *written(struct spot_import *imp, bool is_events)
{
    struct spot_trace trace;
    struct spot_err err = { 0 };
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);

    spot_import_sort(imp);
    if (imp->kind != SPOT_IMPORT_COUNT && imp->kind != SPOT_IMPORT_NODE) {
        spot_import_write(imp, out);
    } else {
        spot_import_shift(imp, spot_import_first_s(imp));
        ck_assert_msg(!spot_import_trace(imp, &trace, &err), "%s", err.msg);
        if (is_events)
            spot_trace_write_events(&trace, out);
        else
            spot_trace_write_counts(&trace, out);
        spot_trace_release(&trace);
    }
    fclose(out);
    return text;
}

#define SKU(usage, units)                                                                 \
    "{\"description\":\"V100 GPU attached to Spot Preemptible VMs running in Americas\"," \
    "\"category\":{\"usageType\":\"" usage "\"},\"serviceRegions\":[\"us-east1\"],"       \
    "\"pricingInfo\":[{\"effectiveTime\":\"1970-01-01T01:00:00Z\",\"pricingExpression\":" \
    "{\"usageUnit\":\"h\",\"tieredRates\":[{\"startUsageAmount\":0,\"unitPrice\":"        \
    "{\"currencyCode\":\"USD\",\"units\":\"" units "\",\"nanos\":740000000}}]}}]}"
#define AZURE(name, price, currency)                                                             \
    "{\"currencyCode\":\"" currency "\",\"retailPrice\":" price ",\"armRegionName\":\"eastus\"," \
    "\"effectiveStartDate\":\"1970-01-01T02:00:00Z\",\"productName\":\"NC\",\"skuName\":\"" name \
    "\",\"unitOfMeasure\":\"1 Hour\",\"type\":\"Consumption\",\"armSkuName\":\"Standard_NC6\"}"
#define AWS(zone, price, time)                                                           \
    "{\"AvailabilityZone\":\"" zone "\",\"InstanceType\":\"p3\",\"ProductDescription\":" \
    "\"Linux/UNIX\",\"SpotPrice\":\"" price "\",\"Timestamp\":\"1970-01-01T" time "\"}"
#define RANGES "\"ranges\":[{\"index\":0,\"max\":5},{\"index\":1,\"max\":11}]"

static const char prices[] = "time_s,zone,instance_type,market,price_usd_per_h\n";
static const char probes[] = "time_s,zone,instance_type,asked,granted,price_usd_per_h,score\n";

static const struct {
    const char *format, *text, *head, *rows;
    bool is_events;
} good[] = {
    { "events", "0,add,a\n60000,add,b\r\n\n90000,remove,a\n", "time_s,available\n",
      "0,1\n60,2\n90,1\n", false },
    { "events", "0,add,a\n60000,add,b\n90000,remove,a\n", "time_s,event,node\n",
      "0,add,a\n60,add,b\n90,remove,a\n", true },
    { "spotserve",
      "[0, \"add\", {\"nodes\": [\"n1\", \"n2\"]}]\n[30000, \"other\", {\"x\": 2}]\n"
      "[90000, \"remove\", {\"nodes\": [\"n2\"]}]\n",
      "time_s,available\n", "0,2\n90,1\n", false },
    { "spot-event",
      "{\"event\":\"joined\",\"time_s\":1,\"name\":\"a\"}\n"
      "{\"event\":\"joined\",\"time_s\":1,\"name\":\"a\"}\n"
      "{\"event\":\"notice\",\"time_s\":2,\"name\":\"a\"}\n"
      "{\"event\":\"joined\",\"time_s\":3,\"member\":7}\n"
      "{\"event\":\"lost\",\"time_s\":4,\"name\":\"a\"}\n"
      "{\"event\":\"committed\",\"time_s\":9,\"step\":1}\n",
      "time_s,available\n", "0,1\n1,1\n2,2\n3,1\n8,1\n", false },
    { "count-log",
      "2021-12-11, 23:59:30, 55\n2021-12-12, 00:00:30, 55\n2021-12-12, 00:00:10, 54\n"
      "2021-12-12, 00:05:00, 50\n",
      "time_s,available\n", "0,55\n40,54\n330,50\n", false },
    { "skypilot", "{\"metadata\":{\"gap_seconds\":600},\"data\":[1,1,0,4]}",
      "time_s,available,zone,instance_type\n",
      "0,1,us-west-2a,v100_1\n600,1,us-west-2a,v100_1\n1200,0,us-west-2a,v100_1\n1800,4,us-west-2a,"
      "v100_1\n",
      false },
    { "aws-price",
      "{\"SpotPriceHistory\":[" AWS("b", "0.9180", "00:00:10+00:00") "," AWS(
          "a", "1.2", "00:00:10.000Z") "," AWS("b", "0.5", "02:00:00+02:00") "]}",
      prices, "0,b,p3,spot,0.5\n10,a,p3,spot,1.2\n10,b,p3,spot,0.918\n", false },
    { "aws-score",
      "{\"SpotPlacementScores\":[{\"Region\":\"r\",\"AvailabilityZoneId\":\"z\",\"Score\":3},"
      "{\"Region\":\"q\",\"Score\":9}]}",
      probes, "0,q,,0,0,,9\n0,z,,0,0,,3\n", false },
    { "gcp-price", "{\"skus\":[" SKU("Preemptible", "0") "," SKU("OnDemand", "2") "]}", prices,
      "3600,us-east1,V100 GPU,on_demand,2.74\n3600,us-east1,V100 GPU,spot,0.74\n", false },
    { "azure-price",
      "{\"Items\":[" AZURE("NC6 Spot", "0.918", "USD") "," AZURE("NC6", "3.06", "USD") "," AZURE(
          "NC6 Low Priority", "0.6", "USD") "]}",
      prices, "7200,eastus,Standard_NC6,on_demand,3.06\n7200,eastus,Standard_NC6,spot,0.918\n",
      false },
};

START_TEST(a_document_becomes_what_it_says)
{
    struct spot_import imp = { 0 };
    struct spot_err err = { 0 };
    char want[1024], *got;

    ck_assert_msg(!read_bytes(&imp, good[_i].format, good[_i].text, strlen(good[_i].text), &err),
                  "%s: %s", good[_i].format, err.msg);
    got = written(&imp, good[_i].is_events);
    snprintf(want, sizeof(want), "%s%s", good[_i].head, good[_i].rows);
    ck_assert_str_eq(got, want);
    free(got);
    spot_import_release(&imp);
}
END_TEST

/* A month is 730.5 h: x of those that run are interrupted in it, the hazard is -ln(1 - x) / 730.5;
 * of a range, at its middle. */
START_TEST(the_advisor_is_read_as_a_hazard)
{
    static const char text[] =
        "{" RANGES ",\"spot_advisor\":{\"r\":{\"Linux\":{\"g5\":{\"s\":59,\"r\":0}},"
        "\"Windows\":{\"g5\":{\"s\":10,\"r\":1}}}}}";
    struct spot_import imp = { 0 };
    struct spot_err err = { 0 };
    double low, high, savings, hazard;
    char *got;

    ck_assert_msg(!read_bytes(&imp, "aws-advisor", text, strlen(text), &err), "%s", err.msg);
    got = written(&imp, false);
    ck_assert_int_eq(
        sscanf(strchr(got, '\n'), "\nr,g5,Linux,%lf,%lf,%lf,%lf\n", &low, &high, &savings, &hazard),
        4);
    ck_assert(low == 0 && high == 0.05 && savings == 0.59);
    ck_assert_double_eq_tol(hazard, -log(1 - 0.025) / 730, 1e-7);
    free(got);
    spot_import_release(&imp);
}
END_TEST

static const struct {
    const char *format, *text, *want;
} bad[] = {
    { "events", "0,add,a\n5,start,b\n", ":2:3: event: expected add or remove, got 'start'" },
    { "events", "x,add,a\n", ":1:1:" },
    { "events", "0,add\n", ":1" },
    { "events", "", ": empty input" },
    { "events", "0,add,\n", ":1" },
    { "spotserve", "[0, \"add\", {\"nodes\": [\"a\", 7]}]\n",
      "/2/nodes/1: expected a node's name" },
    { "spotserve", "[0, \"add\", {}]\n", "nodes" },
    { "spotserve", "{}\n", ":1" },
    { "spotserve", "[0, 7]\n", "/1: expected add, remove or another event's name" },
    { "spotserve", "[-1, \"add\", {\"nodes\": []}]\n", ":1" },
    { "spot-event", "{\"event\":\"lost\",\"time_s\":\"x\",\"name\":\"a\"}\n",
      "/time_s: expected a number" },
    { "spot-event", "{\"event\":\"lost\",\"time_s\":1}\n", ":1" },
    { "spot-event", "[1]\n", ":1" },
    { "spot-event", "", ": empty input" },
    { "spot-event", "{\"event\":\"lost\",\"time_s\":2e11,\"name\":\"a\"}\n",
      "/time_s: 2e+11 is outside [0, 1e+11]" },
    { "count-log", "2021-02-30, 00:00:00, 5\n", ":1:1: date: expected YYYY-MM-DD,HH:MM:SS" },
    { "count-log", "2021-02-01, 00:00:00, many\n", ":1:" },
    { "count-log", "2021-02-01, 00:00:00\n", ":1" },
    { "skypilot", "{\"metadata\":{\"gap_seconds\":600},\n\"data\":[1,\n  -2]}",
      "/data/1: expected" },
    { "skypilot", "{\"metadata\":{\"gap_seconds\":0},\"data\":[1]}", "gap_seconds" },
    { "skypilot", "{\"metadata\":{\"gap_seconds\":1}}", "data" },
    { "aws-price", "{\"SpotPriceHistory\":[" AWS("b", "free", "00:00:10Z") "]}",
      "/SpotPriceHistory/0/SpotPrice: expected a price, got 'free'" },
    { "aws-price", "{\"SpotPriceHistory\":[" AWS("b", "1", "99:00:10Z") "]}", "Timestamp" },
    { "aws-price", "{\"SpotPriceHistory\":[7]}", "/SpotPriceHistory/0" },
    { "aws-price", "{}", "SpotPriceHistory" },
    { "aws-score", "{\"SpotPlacementScores\":[{\"Region\":\"r\",\"Score\":11}]}",
      "/SpotPlacementScores/0/Score: 11 is outside [1, 10]" },
    { "aws-score", "{\"SpotPlacementScores\":[{\"Score\":1}]}", "/SpotPlacementScores/0" },
    { "aws-advisor", "{" RANGES ",\"spot_advisor\":{\"r\":{\"Linux\":{\"g\":{\"s\":5,\"r\":7}}}}}",
      "/spot_advisor/r/Linux/g: there is no range 7" },
    { "aws-advisor", "{\"ranges\":[{\"index\":0}],\"spot_advisor\":{}}", "ranges" },
    { "aws-advisor", "{" RANGES "}", "spot_advisor" },
    { "gcp-price", "{\"skus\":[" SKU("Preemptible", "two") "]}",
      "/skus/0/pricingInfo/0/pricingExpression: expected tieredRates" },
    { "gcp-price", "{\"skus\":[{}]}", "/skus/0" },
    { "azure-price", "{\"Items\":[" AZURE("NC6", "1", "EUR") "]}",
      "/Items/0/currencyCode: expected USD, got 'EUR'" },
    { "azure-price", "{\"Items\":[{\"type\":1}]}", "/Items/0" },
    { "azure-price", "[", "" },
};

START_TEST(what_is_wrong_is_named_with_its_place)
{
    struct spot_import imp = { .bad.is_strict = true };
    struct spot_err err = { 0 };

    ck_assert_msg(read_bytes(&imp, bad[_i].format, bad[_i].text, strlen(bad[_i].text), &err) == -1,
                  "%s: %s was taken", bad[_i].format, bad[_i].text);
    ck_assert_int_ne(err.code, 0);
    ck_assert_msg(strstr(err.msg, bad[_i].want) != NULL, "%s", err.msg);
    ck_assert_msg(strncmp(err.msg, "us-west-2a_v100_1.json", 22) == 0, "%s", err.msg);
    spot_import_release(&imp);
}
END_TEST

START_TEST(nothing_is_no_document_of_any_format)
{
    for (const struct spot_import_format *f = spot_import_format; f->name; f++) {
        struct spot_import imp = { .ask.column = { "t", "n", NULL, NULL } };
        struct spot_err err = { 0 };

        ck_assert_int_eq(read_bytes(&imp, f->name, "", 0, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_msg(strstr(err.msg, "us-west-2a_v100_1.json: empty input") == err.msg, "%s: %s",
                      f->name, err.msg);
        spot_import_release(&imp);
    }
}
END_TEST

START_TEST(columns_are_found_by_name_and_times_by_zone)
{
    static const char text[] =
        "zone,free,when\nb,3,1970-01-01T02:00:00\na,1,60\na,2,1970-01-01T00:03:00Z\n";
    struct spot_import imp = { .ask = { .utc_offset_s = 7200,
                                        .is_inverted = true,
                                        .cap = 4,
                                        .column = { "when", "free", "zone", NULL } } };
    struct spot_err err = { 0 };
    char *got;

    ck_assert_msg(!read_bytes(&imp, "csv", text, strlen(text), &err), "%s", err.msg);
    got = written(&imp, false);
    ck_assert_str_eq(got, "time_s,available,zone\n0,1,b\n60,3,a\n180,2,a\n");
    free(got);
    imp.ask.column[SPOT_IMPORT_COLUMN_ZONE] = "room";
    ck_assert_int_eq(read_bytes(&imp, "csv", text, strlen(text), &err), -1);
    ck_assert_msg(strstr(err.msg, "room") != NULL, "%s", err.msg);
    spot_import_release(&imp);
}
END_TEST

/* What an import wrote is read again, and says nothing new. */
START_TEST(its_own_documents_add_nothing)
{
    static const size_t which[] = { 0, 6, 7 };

    for (size_t k = 0; k < sizeof(which) / sizeof(which[0]); k++) {
        struct spot_import imp = { 0 }, own = { 0 };
        struct spot_err err = { 0 };
        char *first, *second;

        ck_assert_int_eq(read_bytes(&imp, good[which[k]].format, good[which[k]].text,
                                    strlen(good[which[k]].text), &err),
                         0);
        first = written(&imp, false);
        own.kind = imp.kind == SPOT_IMPORT_NODE ? SPOT_IMPORT_COUNT : imp.kind;
        ck_assert_msg(!read_bytes(&own, NULL, first, strlen(first), &err), "%s", err.msg);
        if (own.kind == imp.kind)
            spot_import_prepend(&imp, &own);
        second = written(own.kind == imp.kind ? &imp : &own, false);
        ck_assert_str_eq(second, first);
        free(first);
        free(second);
        spot_import_release(&imp);
        spot_import_release(&own);
    }
}
END_TEST

/* Machines that came in two windows: the document of the first with the second log is that of both
 * logs, in the node form; prices and scores are merged alike. */
START_TEST(a_later_window_is_merged_with_what_an_earlier_one_wrote)
{
    static const char first[] = "0,add,a\n1000,add,b\n", second[] = "2000,remove,a\n3000,add,a\n";
    struct spot_import both = { 0 }, one = { 0 }, next = { 0 }, own = { 0 };
    struct spot_err err = { 0 };
    char *want, *document, *got;

    ck_assert_int_eq(read_bytes(&both, "events", first, strlen(first), &err), 0);
    ck_assert_int_eq(read_bytes(&both, "events", second, strlen(second), &err), 0);
    ck_assert_int_eq(read_bytes(&one, "events", first, strlen(first), &err), 0);
    ck_assert_int_eq(read_bytes(&next, "events", second, strlen(second), &err), 0);
    want = written(&both, true);
    document = written(&one, true);
    own.kind = SPOT_IMPORT_NODE;
    ck_assert_msg(!read_bytes(&own, NULL, document, strlen(document), &err), "%s", err.msg);
    spot_import_prepend(&next, &own);
    got = written(&next, true);
    ck_assert_str_eq(got, want);
    ck_assert_str_eq(got, "time_s,event,node\n0,add,a\n1,add,b\n2,remove,a\n3,add,a\n");
    free(want), free(document), free(got);
    spot_import_release(&both);
    spot_import_release(&one);
    spot_import_release(&next);
    spot_import_release(&own);
}
END_TEST

START_TEST(a_document_of_another_kind_is_not_merged)
{
    static const struct {
        enum spot_import_kind kind;
        const char *text, *want;
        int code;
    } wrong[] = {
        { SPOT_IMPORT_NODE, "time_s,available\n0,1\n",
          "own:1:1: expected the node form (time_s,event,node)", SPOT_EDATA },
        { SPOT_IMPORT_PRICE, "time_s,zone,instance_type,market,price_usd_per_h\n0,a,b,spot,-1\n",
          "own:2:12: price_usd_per_h: -1 is outside [0, 1000000000]", SPOT_EDATA },
        { SPOT_IMPORT_PROBE, "time_s,zone,instance_type,asked,granted\n-1,a,b,1,1\n",
          "own:2:1: time_s: -1 is outside [0, 100000000000]", SPOT_EDATA },
        { SPOT_IMPORT_HAZARD, "", "this format has no times to merge by", SPOT_EUSAGE },
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct spot_import own = { .kind = wrong[i].kind };
        struct spot_err err = { 0 };

        ck_assert_int_eq(read_bytes(&own, NULL, wrong[i].text, strlen(wrong[i].text), &err), -1);
        ck_assert_str_eq(err.msg, wrong[i].want);
        ck_assert_int_eq(err.code, wrong[i].code);
        spot_import_release(&own);
    }
}
END_TEST

/* Sorted, but of no trace. */
START_TEST(machines_that_come_twice_and_times_before_the_origin_make_no_trace)
{
    static const struct {
        const char *format, *text, *want;
        double origin_s;
    } wrong[] = {
        { "events", "0,add,a\n5000,add,a\n",
          "us-west-2a_v100_1.json:2:1: add of 'a', which is already there", 0 },
        { "events", "0,add,a\n5000,remove,b\n",
          "us-west-2a_v100_1.json:2:1: remove of 'b', which is not there", 0 },
        { "events", "0,add,a\n9000,remove,a\n", "a time of -5 s lies before the origin", 5 },
        { "count-log", "2021-02-01, 00:00:00, 5\n", "a time of -1 s lies before the origin",
          1612137601 },
        { "spot-event", "{\"event\":\"committed\",\"time_s\":9,\"step\":1}\n", "nothing to import",
          0 },
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct spot_import imp = { .bad.is_strict = true };
        struct spot_trace trace;
        struct spot_err err = { 0 };

        ck_assert_msg(
            !read_bytes(&imp, wrong[i].format, wrong[i].text, strlen(wrong[i].text), &err), "%s",
            err.msg);
        spot_import_sort(&imp);
        spot_import_shift(&imp, wrong[i].origin_s);
        ck_assert_int_eq(spot_import_trace(&imp, &trace, &err), -1);
        ck_assert_str_eq(err.msg, wrong[i].want);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_uint_eq(trace.n_series, 0);
        spot_import_release(&imp);
    }
}
END_TEST

START_TEST(a_nul_byte_is_named_wherever_it_stands)
{
    static const struct {
        const char text[24];
        size_t n;
        const char *want;
    } wrong[] = {
        { "\n[0, \"add\"\0]\n", 13, "us-west-2a_v100_1.json:2:10: NUL byte" },
        { "\n\0[0]\n", 6, "us-west-2a_v100_1.json:2:1: NUL byte" },
        { "[0\0", 3, "us-west-2a_v100_1.json:1:3: NUL byte" },
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct spot_import imp = { 0 };
        struct spot_err err = { 0 };

        ck_assert_int_eq(read_bytes(&imp, "spotserve", wrong[i].text, wrong[i].n, &err), -1);
        ck_assert_str_eq(err.msg, wrong[i].want);
        spot_import_release(&imp);
    }
}
END_TEST

/* gzip of an import is that import; half of it is told as such. */
START_TEST(a_file_may_be_compressed)
{
    static char text[40000];
    unsigned char packed[sizeof(text)];
    z_stream z = { .next_out = packed, .avail_out = sizeof(packed) };
    struct spot_import plain = { 0 }, imp = { 0 }, half = { 0 };
    struct spot_err err = { 0 };
    char *a, *b;
    size_t n = 0;

    for (int k = 0; k < 1000; k++)
        n += (size_t)sprintf(text + n, "%d,add,n%d\n", 1000 * k, k);
    z.next_in = (unsigned char *)text;
    z.avail_in = (unsigned)n;
    ck_assert_int_eq(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    ck_assert_int_eq(read_bytes(&plain, "events", text, n, &err), 0);
    ck_assert_msg(!read_bytes(&imp, "events", packed, z.total_out, &err), "%s", err.msg);
    a = written(&plain, true);
    b = written(&imp, true);
    ck_assert_str_eq(a, b);
    free(a);
    free(b);
    ck_assert_int_eq(read_bytes(&half, "events", packed, z.total_out / 2, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(strstr(err.msg, "gzip") != NULL, "%s", err.msg);
    spot_import_release(&plain);
    spot_import_release(&imp);
    spot_import_release(&half);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, a_document_becomes_what_it_says, 0, sizeof(good) / sizeof(good[0]));
    tcase_add_loop_test(tc, what_is_wrong_is_named_with_its_place, 0, sizeof(bad) / sizeof(bad[0]));
    add_tests(tc);
    return run_suite("import_format", tc);
}
