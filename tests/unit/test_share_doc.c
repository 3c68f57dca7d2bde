/* SPDX-License-Identifier: MIT */
/* Goal: what shares a cluster is read as docs/formats/share.md says, in any order of rows and
 * columns; each thing that cannot be is refused with its place. */
#include <math.h>

#include "doc_rig.h"
#include "model/share_doc.h"

/* Columns in another order than documented, and one that means nothing here. */
static const char jobs_text[] = "kind,id,arrival_s,colour,scale,steps,weight,slo_s,done,on,user,"
                                "scale_min,scale_max\n"
                                "b,late,20,red,4,100,2.5,3600,10,v100,ann,2,8\n"
                                "\"a,\"\"x\"\"\",tie2,10,,1,0.5,,,,,,,\n"
                                "a,tie1,10,,2,7,,,,,,,\n";

START_TEST(jobs_come_by_arrival_then_id_with_what_is_not_said_filled_in)
{
    struct spot_share_jobs jobs;
    struct spot_err err = { 0 };
    FILE *const in = opened(jobs_text);
    const struct spot_share_job *job;

    ck_assert_msg(!spot_share_jobs_read(&jobs, in, "t", &err), "%s", err.msg);
    fclose(in);
    ck_assert_uint_eq(jobs.n, 3);
    job = jobs.job;
    ck_assert_str_eq(job[0].id, "tie1");
    ck_assert(job[0].scale == 2 && job[0].scale_min == 2 && job[0].scale_max == 2);
    ck_assert(job[0].weight == 1 && isinf(job[0].slo_s) && job[0].done == 0);
    ck_assert_str_eq(job[0].on, "");
    ck_assert_str_eq(job[0].user, "");
    ck_assert_str_eq(job[1].id, "tie2");
    ck_assert_str_eq(job[1].kind, "a,\"x\"");
    ck_assert(job[1].steps == 0.5);
    ck_assert_str_eq(job[2].id, "late");
    ck_assert(job[2].arrival_s == 20 && job[2].weight == 2.5 && job[2].slo_s == 3600);
    ck_assert(job[2].done == 10 && job[2].scale_min == 2 && job[2].scale_max == 8);
    ck_assert_str_eq(job[2].on, "v100");
    ck_assert_str_eq(job[2].user, "ann");
    spot_share_jobs_release(&jobs);
    ck_assert_uint_eq(jobs.n, 0);
}
END_TEST

/* What is written: the columns that an import fills. */
START_TEST(jobs_that_were_written_are_read_as_they_were)
{
    struct spot_share_jobs jobs, again;
    struct spot_err err = { 0 };
    char *text = NULL;
    size_t n;
    FILE *file = opened(jobs_text);

    ck_assert_int_eq(spot_share_jobs_read(&jobs, file, "t", &err), 0);
    fclose(file);
    file = open_memstream(&text, &n);
    spot_share_jobs_write(&jobs, file);
    fclose(file);
    ck_assert_str_eq(text, "id,arrival_s,kind,steps,scale,weight,slo_s,user,scale_min,scale_max\n"
                           "tie1,10,a,7,2,1,,,2,2\n"
                           "tie2,10,\"a,\"\"x\"\"\",0.5,1,1,,,1,1\n"
                           "late,20,b,100,4,2.5,3600,ann,2,8\n");
    file = opened(text);
    ck_assert_msg(!spot_share_jobs_read(&again, file, "t", &err), "%s", err.msg);
    fclose(file);
    for (size_t i = 0; i < jobs.n; i++) {
        ck_assert_str_eq(again.job[i].id, jobs.job[i].id);
        ck_assert_str_eq(again.job[i].kind, jobs.job[i].kind);
        ck_assert_mem_eq(&again.job[i].weight, &jobs.job[i].weight, 2 * sizeof(double));
        ck_assert_int_eq(again.job[i].scale_min, jobs.job[i].scale_min);
        ck_assert_int_eq(again.job[i].scale_max, jobs.job[i].scale_max);
    }
    free(text);
    spot_share_jobs_release(&jobs);
    spot_share_jobs_release(&again);
}
END_TEST

START_TEST(jobs_have_a_priority_all_or_none)
{
    static const char text[] = "id,arrival_s,kind,steps,scale,priority,ended_s\n"
                               "a,1,k,5,1,spot,\nb,2,k,5,1,high,9\n";
    struct spot_share_jobs jobs;
    struct spot_err err = { 0 };
    FILE *file = opened(text);
    char *again = NULL;
    size_t n;

    ck_assert_msg(!spot_share_jobs_read(&jobs, file, "t", &err), "%s", err.msg);
    fclose(file);
    ck_assert(jobs.has_classes && jobs.job[0].priority == SPOT_SHARE_SPOT);
    ck_assert(jobs.job[1].priority == SPOT_SHARE_HIGH && isinf(jobs.job[0].ended_s));
    ck_assert(jobs.job[1].ended_s >= 9 && jobs.job[1].ended_s <= 9);
    file = open_memstream(&again, &n);
    spot_share_jobs_write(&jobs, file);
    fclose(file);
    ck_assert_str_eq(again, "id,arrival_s,kind,steps,scale,weight,slo_s,user,priority\n"
                            "a,1,k,5,1,1,,,spot\nb,2,k,5,1,1,,,high\n");
    free(again);
    spot_share_jobs_release(&jobs);
    file = opened(jobs_text);
    ck_assert(!spot_share_jobs_read(&jobs, file, "t", &err) && !jobs.has_classes);
    fclose(file);
    spot_share_jobs_release(&jobs);
}
END_TEST

#define HEAD "id,arrival_s,kind,steps,scale,weight,slo_s,done,on,user,scale_min,scale_max\n"

static const struct {
    const char *text, *want;
} bad_jobs[] = {
    { HEAD, "t:2:1: no jobs after the header" },
    { HEAD ",0,a,1,1,,,,,,,\n", "t:2:1: id: expected a name" },
    { HEAD "x,0,,1,1,,,,,,,\n", "t:2:5: kind: expected a name" },
    { HEAD "x,0,a,1,1,,,,,\x7f,,\n", "t:2:15: user: control character in a name" },
    { HEAD "x,-1,a,1,1,,,,,,,\n", "t:2:3: arrival_s: -1 is outside [0, 1000000000000]" },
    { HEAD "x,0,a,0,1,,,,,,,\n", "t:2:7: steps: 0 is outside [1e-09, 1e+15]" },
    { HEAD "x,0,a,1,0,,,,,,,\n", "t:2:9: scale: 0 is outside [1, 100000]" },
    { HEAD "x,0,a,1,1.5,,,,,,,\n", "t:2:9: scale: expected a whole number, got '1.5'" },
    { HEAD "x,0,a,1,1,0,,,,,,\n", "t:2:11: weight: 0 is outside [1e-06, 1000000]" },
    { HEAD "x,0,a,1,1,,0,,,,,\n", "t:2:12: slo_s: 0 is outside [0.001, 1000000000000]" },
    { HEAD "x,0,a,1,1,,,2,,,,\n", "t:2:13: done: 2 is outside [0, 1]" },
    { HEAD "x,0,a,1,4,,,,,,5,\n", "t:2:16: scale_min: 5 is outside [1, 4]" },
    { HEAD "x,0,a,1,4,,,,,,,3\n", "t:2:17: scale_max: 3 is outside [4, 100000]" },
    { HEAD "y,5,a,1,4,,,,,,,\nx,0,a,1,4,,,,,,,\ny,9,a,1,4,,,,,,,\n",
      "t: two jobs have the id 'y'" },
    { "id,arrival_s,kind,steps,scale,priority\nx,0,a,1,1,low\n",
      "t:2:11: priority: expected high or spot, got 'low'" },
    { "id,arrival_s,kind,steps,scale,priority\nx,0,a,1,1,high\ny,0,a,1,1,\n",
      "t:3:11: priority: expected a priority of all jobs, or of none" },
    { "id,arrival_s,kind,steps,scale,priority\nx,0,a,1,1,\ny,0,a,1,1,spot\n",
      "t:3:11: priority: expected a priority of all jobs, or of none" },
    { "id,arrival_s,kind,steps,scale,ended_s\nx,5,a,1,1,4\n",
      "t:2:11: ended_s: 4 is outside [5, 1000000000000]" },
};

START_TEST(a_job_that_cannot_be_is_refused_where_it_is_wrong)
{
    struct spot_share_jobs jobs;
    struct spot_err err = { 0 };
    FILE *const in = opened(bad_jobs[_i].text);

    expect_refused(spot_share_jobs_read(&jobs, in, "t", &err), &err, bad_jobs[_i].want);
    fclose(in);
    ck_assert_ptr_null(jobs.job);
}
END_TEST

START_TEST(names_end_at_255_bytes_and_jobs_at_100000)
{
    enum { N = SPOT_SHARE_JOBS_MAX + 1 };
    char name[SPOT_SHARE_NAME_MAX + 2], text[sizeof(name) + 64];
    char *const many = malloc((size_t)N * 20);
    struct spot_share_jobs jobs;
    struct spot_err err = { 0 };
    size_t at = (size_t)sprintf(many, "id,arrival_s,kind,steps,scale\n");
    FILE *in;

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    snprintf(text, sizeof(text), "id,arrival_s,kind,steps,scale\n%s,0,a,1,1\n", name);
    in = opened(text);
    expect_refused(spot_share_jobs_read(&jobs, in, "t", &err), &err,
                   "t:2:1: id: longer than 255 bytes");
    fclose(in);
    snprintf(text, sizeof(text), "id,arrival_s,kind,steps,scale\n%s,0,a,1,1\n", name + 1);
    in = opened(text);
    ck_assert_msg(!spot_share_jobs_read(&jobs, in, "t", &err), "%s", err.msg);
    fclose(in);
    spot_share_jobs_release(&jobs);
    for (int i = 0; i < N; i++)
        at += (size_t)sprintf(many + at, "j%d,0,a,1,1\n", i);
    in = opened(many);
    expect_refused(spot_share_jobs_read(&jobs, in, "t", &err), &err,
                   "t:100002:1: id: more than 100000 jobs");
    fclose(in);
    free(many);
}
END_TEST

/* --- the cluster --- */

START_TEST(types_keep_their_order_and_are_on_demand_unless_they_say_spot)
{
    struct spot_share_cluster cluster;
    struct spot_err err = { 0 };
    char path[32];
    const char text[] = "instance_type,count,market,usd_per_h,hazard_per_h\n"
                        "v100,4,spot,0.5,0.01\nk80,8,,,\np100,0,on-demand,2,\n";

    put_file(path, text, strlen(text));
    ck_assert_msg(!spot_share_cluster_load(&cluster, path, &err), "%s", err.msg);
    unlink(path);
    ck_assert_uint_eq(cluster.n, 3);
    ck_assert_str_eq(cluster.type[0].name, "v100");
    ck_assert(cluster.type[0].is_spot && cluster.type[0].count == 4);
    ck_assert(cluster.type[0].usd_per_h == 0.5 && cluster.type[0].hazard_per_h == 0.01);
    ck_assert_str_eq(cluster.type[1].name, "k80");
    ck_assert(!cluster.type[1].is_spot && cluster.type[1].usd_per_h == 0);
    ck_assert(!cluster.type[2].is_spot && cluster.type[2].count == 0);
    spot_share_cluster_release(&cluster);
    ck_assert_int_eq(spot_share_cluster_load(&cluster, path, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
}
END_TEST

#define TYPES "instance_type,count,market,usd_per_h,hazard_per_h\n"

static const struct {
    const char *text, *want;
} bad_cluster[] = {
    { TYPES, "t:2:1: no types after the header" },
    { TYPES ",1,,,\n", "t:2:1: instance_type: expected a name" },
    { TYPES "a,-1,,,\n", "t:2:3: count: -1 is outside [0, 100000]" },
    { TYPES "a,1,Spot,,\n", "t:2:5: market: expected spot or on-demand, got 'Spot'" },
    { TYPES "a,1,,x,\n", "t:2:6: usd_per_h: expected a number, got 'x'" },
    { TYPES "a,1,,,-1\n", "t:2:7: hazard_per_h: -1 is outside [0, 10000]" },
    { TYPES "a,1,,,\nb,1,,,\na,2,,,\n", "t:4:1: instance_type: 'a' is named twice" },
};

START_TEST(a_type_that_cannot_be_is_refused_where_it_is_wrong)
{
    struct spot_share_cluster cluster;
    struct spot_err err = { 0 };
    FILE *const in = opened(bad_cluster[_i].text);

    expect_refused(spot_share_cluster_read(&cluster, in, "t", &err), &err, bad_cluster[_i].want);
    fclose(in);
    ck_assert_ptr_null(cluster.type);
}
END_TEST

START_TEST(a_cluster_has_64_types_at_most)
{
    struct spot_share_cluster cluster;
    struct spot_err err = { 0 };
    char text[1024] = "instance_type,count\n";
    size_t at = strlen(text);
    FILE *in;

    for (int i = 0; i < SPOT_SHARE_TYPES_MAX; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "t%d,1\n", i);
    in = opened(text);
    ck_assert_msg(!spot_share_cluster_read(&cluster, in, "t", &err), "%s", err.msg);
    fclose(in);
    ck_assert_uint_eq(cluster.n, SPOT_SHARE_TYPES_MAX);
    spot_share_cluster_release(&cluster);
    snprintf(text + at, sizeof(text) - at, "t64,1\n");
    in = opened(text);
    expect_refused(spot_share_cluster_read(&cluster, in, "t", &err), &err,
                   "t:66:1: instance_type: more than 64 types");
    fclose(in);
}
END_TEST

/* --- throughputs --- */

static const char rates_text[] =
    "{\"schema\":\"spot.throughput/1\",\"colour\":[1],\"rows\":["
    "{\"kind\":\"b\",\"scale\":1,\"instance_type\":\"v100\",\"steps_per_s\":2},"
    "{\"kind\":\"a\",\"scale\":2,\"instance_type\":\"v100\",\"steps_per_s\":3.5,\"x\":null},"
    "{\"kind\":\"a\",\"scale\":1,\"instance_type\":\"v100\",\"steps_per_s\":2},"
    "{\"kind\":\"a\",\"scale\":1,\"instance_type\":\"k80\",\"steps_per_s\":0.25},"
    "{\"kind\":\"second\",\"scale\":1,\"instance_type\":\"k80\",\"steps_per_s\":0.5}]}";

START_TEST(a_throughput_is_found_by_kind_scale_and_type)
{
    struct spot_job_rates t;
    struct spot_err err = { 0 };
    char path[32];

    put_file(path, rates_text, strlen(rates_text));
    ck_assert_msg(!spot_job_rates_load(&t, path, &err), "%s", err.msg);
    unlink(path);
    ck_assert_uint_eq(t.n, 5);
    ck_assert(spot_job_rates_find(&t, "a", 2, "v100") == 3.5);
    ck_assert(spot_job_rates_find(&t, "a", 1, "k80") == 0.25);
    ck_assert(spot_job_rates_find(&t, "b", 1, "v100") == 2);
    ck_assert(spot_job_rates_find(&t, "a", 2, "k80") == 0);
    ck_assert(spot_job_rates_find(&t, "b", 2, "v100") == 0);
    ck_assert(spot_job_rates_find(&t, "c", 1, "v100") == 0);
    /* a step of kind second takes one, unless a row says otherwise */
    ck_assert(spot_job_rates_find(&t, "second", 1, "v100") == 1);
    ck_assert(spot_job_rates_find(&t, "second", 1, "k80") == 0.5);
    spot_job_rates_release(&t);
    ck_assert(spot_job_rates_find(&t, "second", 8, "v100") == 1); /* of none at all */
    ck_assert_int_eq(spot_job_rates_load(&t, path, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
}
END_TEST

static const struct {
    const char *from, *to, *want;
} bad_rates[] = {
    { "throughput/1", "throughput/2",
      "t:1:11: /schema: expected \"spot.throughput/1\", got \"spot.throughput/2\"" },
    { "\"rows\"", "\"row\"", "t:1:1: /: lacks the key 'rows'" },
    { "[{\"kind\":\"b\",\"scale\":1,\"instance_type\":\"v100\",\"steps_per_s\":2}", "[7",
      "t:1:52: /rows/0: expected an object" },
    { "\"kind\":\"b\",", "", "t:1:52: /rows/0: lacks the key 'kind'" },
    { "\"scale\":2", "\"scale\":0", "t:1:134: /rows/1/scale: 0 is outside [1, 100000]" },
    { "0.25", "-1", "t:1:307: /rows/3/steps_per_s: -1 is outside [0, 1000000000000] 1/s" },
    { "\"scale\":2", "\"scale\":1", "t:1:51: /rows: has 'a' on 1 'v100' twice" },
};

START_TEST(throughputs_that_cannot_be_are_refused_where_they_are_wrong)
{
    char *const text = edited(rates_text, bad_rates[_i].from, bad_rates[_i].to);
    struct spot_job_rates t;
    struct spot_err err = { 0 };

    expect_refused(spot_job_rates_parse(&t, text, strlen(text), "t", &err), &err,
                   bad_rates[_i].want);
    ck_assert_ptr_null(t.row);
    free(text);
}
END_TEST

/* --- jobs on a cluster --- */

static void fill(struct spot_share_jobs *jobs, int64_t scale, const char *kind)
{
    struct spot_share_job *const job = spot_share_jobs_add(jobs, "j", kind, NULL);

    job->scale = scale;
    job->steps = 1;
}

START_TEST(a_job_runs_where_there_are_workers_and_a_throughput)
{
    char v100[] = "v100", k80[] = "k80";
    struct spot_share_type type[] = { { .name = v100, .count = 2 }, { .name = k80, .count = 1 } };
    const struct spot_share_cluster cluster = { .type = type, .n = 2 };
    struct spot_share_jobs jobs = { 0 };
    struct spot_job_rates t;
    struct spot_err err = { 0 };
    double rate[3][2];

    ck_assert_int_eq(spot_job_rates_parse(&t, rates_text, strlen(rates_text), "t", &err), 0);
    fill(&jobs, 1, "a");
    fill(&jobs, 2, "a");
    fill(&jobs, 1, "b");
    ck_assert_msg(!spot_share_rates(&jobs, &cluster, &t, &rate[0][0], &err), "%s", err.msg);
    ck_assert(rate[0][0] == 2 && rate[0][1] == 0.25);
    ck_assert(rate[1][0] == 3.5 && rate[1][1] == 0);
    ck_assert(rate[2][0] == 2 && rate[2][1] == 0);
    type[0].count = 1; /* too few of the only type that the second runs on */
    expect_fail(spot_share_rates(&jobs, &cluster, &t, &rate[0][0], &err), &err, SPOT_EINFEASIBLE,
                "job 'j' needs 2 workers of one type that it runs on; there are at most 1 (v100)");
    jobs.job[1].scale = 4;
    expect_fail(spot_share_rates(&jobs, &cluster, &t, &rate[0][0], &err), &err, SPOT_EINFEASIBLE,
                "job 'j': no throughput of 'a' on 4 workers of any type of the cluster");
    spot_job_rates_release(&t);
    spot_share_jobs_release(&jobs);
}
END_TEST

START_TEST(jobs_are_read_from_a_file_or_it_is_said_that_there_is_none)
{
    struct spot_share_jobs jobs;
    struct spot_err err = { 0 };
    char path[32];

    put_file(path, jobs_text, strlen(jobs_text));
    ck_assert_msg(!spot_share_jobs_load(&jobs, path, &err), "%s", err.msg);
    ck_assert_uint_eq(jobs.n, 3);
    spot_share_jobs_release(&jobs);
    ck_assert_ptr_nonnull(freopen(path, "r", stdin));
    ck_assert_msg(!spot_share_jobs_load(&jobs, "-", &err), "%s", err.msg);
    ck_assert_uint_eq(jobs.n, 3);
    spot_share_jobs_release(&jobs);
    unlink(path);
    expect_fail(spot_share_jobs_load(&jobs, "/nowhere/j.csv", &err), &err, SPOT_ESYS,
                "cannot open /nowhere/j.csv: No such file or directory");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, a_job_that_cannot_be_is_refused_where_it_is_wrong, 0,
                        sizeof(bad_jobs) / sizeof(bad_jobs[0]));
    tcase_add_loop_test(tc, a_type_that_cannot_be_is_refused_where_it_is_wrong, 0,
                        sizeof(bad_cluster) / sizeof(bad_cluster[0]));
    tcase_add_loop_test(tc, throughputs_that_cannot_be_are_refused_where_they_are_wrong, 0,
                        sizeof(bad_rates) / sizeof(bad_rates[0]));
    add_tests(tc);
    return run_suite("share_doc", tc);
}
