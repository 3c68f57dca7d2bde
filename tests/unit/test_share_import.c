/* SPDX-License-Identifier: MIT */
/* Goal: jobs and throughputs come out of the files of others as docs/formats/import.md says; the
 * inputs are small and the results worked out by hand. */
#include <zlib.h>

#include "common/timestamp.h"
#include "doc_rig.h"
#include "trace/share_import.h"

static bool is_strict;

static int import(struct spot_share_import *imp, const char *format, const char *text,
                  struct spot_err *err)
{
    FILE *const in = opened(text);
    int rc;

    *imp = (struct spot_share_import){ .bad.is_strict = is_strict };
    rc = spot_share_import_read(imp, spot_share_format_find(format), in, "t", err);
    fclose(in);
    return rc;
}

static void expect_import(struct spot_share_import *imp, const char *format, const char *text)
{
    struct spot_err err = { 0 };

    ck_assert_msg(!import(imp, format, text, &err), "%s", err.msg);
}

START_TEST(formats_are_found_by_name)
{
    ck_assert_ptr_null(spot_share_format_find("swf"));
    ck_assert_str_eq(spot_share_format_find("sacct")->name, "sacct");
    ck_assert(!spot_share_format_find("gavel")->is_wall_clock);
    ck_assert(spot_share_format_find("philly-csv")->is_wall_clock);
}
END_TEST

/* --- gavel --- */

#define JOB(kind, steps, scale, weight, slo, arrival) \
    kind "\tpython3 main.py\t/dir\t-n\t1\t" steps "\t" scale "\t" weight "\t" slo "\t" arrival "\n"

START_TEST(a_line_of_gavels_trace_is_a_job)
{
    struct spot_share_import imp;
    const struct spot_share_job *job;

    expect_import(&imp, "gavel",
                  JOB("ResNet-18 (batch size 16)", "120.5", "2", "1.5", "-1",
                      "30") "\n"
                            "A3C\tp\td\ta\t0\t7\t1\t1\t3600\t0\r\n");
    ck_assert_uint_eq(imp.jobs.n, 2);
    job = imp.jobs.job;
    ck_assert_str_eq(job[0].id, "000000");
    ck_assert_str_eq(job[0].kind, "ResNet-18 (batch size 16)");
    ck_assert(job[0].steps == 120.5 && job[0].scale == 2 && job[0].weight == 1.5);
    ck_assert(job[0].scale_min == 2 && job[0].scale_max == 2 && job[0].arrival_s == 30);
    ck_assert_str_eq(job[1].id, "000001");
    ck_assert(job[1].steps == 7 && job[1].arrival_s == 0);
    spot_share_import_release(&imp);
}
END_TEST

START_TEST(gavels_measurements_and_oracle_are_throughputs)
{
    struct spot_share_import imp;

    expect_import(&imp, "gavel",
                  "job_type,scale_factor,worker_type,steps_per_s\nA3C,1,k80,2.5\nLM,4,v100,0\n");
    ck_assert_uint_eq(imp.n_speed, 2);
    ck_assert_str_eq(imp.speed[0].kind, "A3C");
    ck_assert_str_eq(imp.speed[1].instance_type, "v100");
    ck_assert(imp.speed[0].steps_per_s == 2.5 && imp.speed[1].scale == 4);
    spot_share_import_release(&imp);
    expect_import(&imp, "gavel",
                  "{\"k80\":{\"('it''s, so', 2)\":{\"null\":4,\"('A3C', 1)\":[1,2]}},"
                  "\"v100\":{\"('A3C', 1)\":{\"null\":0.5}}}");
    ck_assert_uint_eq(imp.n_speed, 2);
    ck_assert_str_eq(imp.speed[0].kind, "it''s, so");
    ck_assert_str_eq(imp.speed[0].instance_type, "k80");
    ck_assert(imp.speed[0].scale == 2 && imp.speed[0].steps_per_s == 4);
    ck_assert_str_eq(imp.speed[1].kind, "A3C");
    ck_assert(imp.speed[1].steps_per_s == 0.5);
    spot_share_import_release(&imp);
}
END_TEST

/* --- accounts --- */

START_TEST(a_row_of_philly_is_a_job_of_seconds_and_what_ran_none_is_left_out)
{
    struct spot_share_import imp;
    const struct spot_share_job *job;
    double want_s;

    expect_import(&imp, "philly-csv",
                  "user,submit_time,gpus,run_time_s,job_id\n"
                  "ann,2017-10-03 10:00:00,4,90.5,app_1\n"
                  ",120,1,60,\n"
                  "bob,130,0,60,on_no_gpu\n"
                  "bob,130,2,,never_ran\n"
                  "bob,130,2,0,ran_no_second\n");
    ck_assert_uint_eq(imp.jobs.n, 2);
    ck_assert_uint_eq(imp.n_left_out, 3);
    job = imp.jobs.job;
    ck_assert_int_eq(spot_timestamp_parse("2017-10-03T10:00:00Z", &want_s), 0);
    ck_assert_str_eq(job[0].id, "app_1");
    ck_assert_str_eq(job[0].user, "ann");
    ck_assert_str_eq(job[0].kind, SPOT_SHARE_KIND_SECOND);
    ck_assert(job[0].arrival_s == want_s && job[0].steps == 90.5 && job[0].scale == 4);
    ck_assert_str_eq(job[1].id, "000001"); /* of its place */
    ck_assert_str_eq(job[1].user, "");
    ck_assert(job[1].arrival_s == 120 && job[1].steps == 60);
    spot_share_import_release(&imp);
}
END_TEST

#define SACCT "JobID|JobName|User|Submit|Elapsed|AllocTRES\n"

START_TEST(a_line_of_sacct_is_a_job_of_its_gpus_or_nodes)
{
    static const struct {
        const char *id, *user;
        double arrival_s, run_s;
        int64_t scale;
    } want[] = {
        { "7", "ann", 0, 90061, 4 },   /* 1 day, 1 h, 1 min, 1 s; GPUs before nodes */
        { "8", "bob", 60, 90, 2 },     /* no GPU: its nodes */
        { "9_[1]", "", 61, 3600, 1 },  /* neither: one */
        { "10", "cy", 3600, 59, 100 }, /* seconds since 1970 are a date, too */
        { "14", "cy", 3600, 60, 3 },   /* a site that counts GPUs by type only */
        { "15", "cy", 3600, 60, 2 },   /* what only looks like a GPU or a node */
    };
    struct spot_share_import imp;

    expect_import(&imp, "sacct",
                  SACCT "7|n|ann|1970-01-01T00:00:00|1-01:01:01|"
                        "billing=8,cpu=8,gres/gpu=4,gres/gpu:a100=4,node=2\n"
                        "7.batch|n||1970-01-01T00:00:00|1-01:01:01|gres/gpu=4\n"
                        "8|n|bob|1970-01-01T00:01:00|01:30|cpu=8,node=2\r\n"
                        "9_[1]|n||1970-01-01T00:01:01|01:00:00|cpu=1\n"
                        "10|n|cy|3600|00:00:59|gres/gpu=100,node=25\n"
                        "11|n|cy|3600|00:00:00|node=1\n"
                        "12|n|cy|3600|00:01:00|\n"
                        "13|n|cy|3600|00:01:00|gres/gpu=0\n"
                        "14|n|cy|3600|00:01:00|cpu=8,gres/gpu:a100=2,gres/gpu:v100=1,node=2\n"
                        "15|n|cy|3600|00:01:00|gres/gpumem=80G,gres/shard=9,mynode=7,node=2\n");
    ck_assert_uint_eq(imp.jobs.n, 6);
    ck_assert_uint_eq(imp.n_left_out, 3);
    for (size_t i = 0; i < 6; i++) {
        const struct spot_share_job *const job = &imp.jobs.job[i];

        ck_assert_str_eq(job->id, want[i].id);
        ck_assert_str_eq(job->user, want[i].user);
        ck_assert(job->arrival_s == want[i].arrival_s && job->steps == want[i].run_s);
        ck_assert_int_eq(job->scale, want[i].scale);
    }
    spot_share_import_release(&imp);
}
END_TEST

START_TEST(files_that_are_compressed_are_read_and_add_up)
{
    static const char text[] = SACCT "7|n|ann|60|00:01:00|node=1\n";
    const struct spot_share_format *const sacct = spot_share_format_find("sacct");
    struct spot_share_import imp = { 0 };
    struct spot_err err = { 0 };
    char path[32];
    gzFile z;
    FILE *in;

    put_file(path, "", 0);
    z = gzopen(path, "w");
    ck_assert_int_eq(gzwrite(z, text, sizeof(text) - 1), (int)sizeof(text) - 1);
    gzclose(z);
    for (size_t i = 1; i <= 2; i++) {
        in = fopen(path, "r");
        ck_assert_msg(!spot_share_import_read(&imp, sacct, in, path, &err), "%s", err.msg);
        fclose(in);
        ck_assert_uint_eq(imp.jobs.n, i);
    }
    unlink(path);
    spot_share_import_release(&imp);
}
END_TEST

/* --- what is refused --- */

#define SPEEDS "job_type,scale_factor,worker_type,steps_per_s\n"
#define PHILLY "submit_time,run_time_s,gpus\n"

static const struct {
    const char *format, *text, *want;
} bad[] = {
    { "gavel", "", "t: empty input" },
    { "gavel", "a\tb\n", "t:1: expected 10 fields between tabs, got 2" },
    { "gavel", JOB("a", "1", "1", "1", "-1", "0") JOB("", "1", "1", "1", "-1", "0"),
      "t:2: job type: expected a name, got ''" },
    { "gavel", JOB("a\x7f", "1", "1", "1", "-1", "0"),
      "t:1: job type: expected a name, got 'a\x7f'" },
    { "gavel", JOB("a", "x", "1", "1", "-1", "0"),
      "t:1: total steps: expected a number in its range, got 'x'" },
    { "gavel", JOB("a", "1", "0", "1", "-1", "0"),
      "t:1: scale factor: expected a number in its range, got '0'" },
    { "gavel", JOB("a", "1", "1.5", "1", "-1", "0"),
      "t:1: scale factor: expected a whole number, got '1.5'" },
    { "gavel", JOB("a", "1", "1", "0", "-1", "0"),
      "t:1: priority: expected a number in its range, got '0'" },
    { "gavel", JOB("a", "1", "1", "1", "-2", "0"),
      "t:1: SLO: expected a number in its range, got '-2'" },
    { "gavel", JOB("a", "1", "1", "1", "-1", "-1"),
      "t:1: arrival: expected a number in its range, got '-1'" },
    { "gavel", SPEEDS "a,0,v100,1\n", "t:2:3: scale_factor: 0 is outside [1, 100000]" },
    { "gavel", SPEEDS "a,1,v100,-1\n", "t:2:10: steps_per_s: -1 is outside [0, 1000000000000]" },
    { "gavel", SPEEDS "a,1,,1\n", "t:2:1: job_type: expected a name" },
    { "gavel", "{}", "t:1:1: /: has no throughputs" },
    { "gavel", "{\"k80\":{\"A3C\":{\"null\":1}}}",
      "t:1:15: /k80/A3C: expected a key like ('kind', 1)" },
    { "gavel", "{\"k80\":{\"('A3C', 0)\":{\"null\":1}}}",
      "t:1:22: /k80/('A3C', 0): expected a key like ('kind', 1)" },
    { "gavel", "{\"k80\":{\"('A3C', 1\":{\"null\":1}}}",
      "t:1:21: /k80/('A3C', 1: expected a key like ('kind', 1)" },
    { "gavel", "{\"k80\":{\"('A3C', 1)\":{}}}",
      "t:1:22: /k80/('A3C', 1): expected \"null\", the steps/s alone" },
    { "gavel", "{\"k80\":{\"('A3C', 1)\":{\"null\":-1}}}",
      "t:1:22: /k80/('A3C', 1): expected \"null\", the steps/s alone" },
    { "philly-csv", PHILLY "soon,1,1\n",
      "t:2:1: submit_time: expected a date or seconds, got 'soon'" },
    { "philly-csv", PHILLY "1e12,1,1\n",
      "t:2:1: submit_time: expected a date or seconds, got '1e12'" },
    { "philly-csv", PHILLY "0,-1,1\n", "t:2:3: run_time_s: -1 is outside [0, 1000000000]" },
    { "philly-csv", PHILLY "0,1,-1\n", "t:2:5: gpus: -1 is outside [0, 100000]" },
    { "sacct", "JobID|User|Submit|Elapsed\n",
      "t:1: no column AllocTRES: sacct -P -o JobID,User,Submit,Elapsed,AllocTRES" },
    { "sacct", SACCT "7|n|ann\n", "t:2: 3 fields, fewer than the header" },
    { "sacct", SACCT "|n|ann|0|01:00|node=1\n", "t:2: JobID: expected a name, got ''" },
    { "sacct", SACCT "7|n|ann|Unknown|01:00|node=1\n",
      "t:2: Submit: expected a date, got 'Unknown'" },
    { "sacct", SACCT "7|n|ann|1e12|01:00|node=1\n", "t:2: Submit: expected a date, got '1e12'" },
    { "sacct", SACCT "7|n|ann|0|59|node=1\n",
      "t:2: Elapsed: expected [days-]hours:minutes:seconds, got '59'" },
    { "sacct", SACCT "7|n|ann|0|x-01:00|node=1\n",
      "t:2: Elapsed: expected [days-]hours:minutes:seconds, got 'x-01:00'" },
    { "sacct", SACCT "7|n|ann|0|-1-30:00:00|node=1\n",
      "t:2: Elapsed: expected [days-]hours:minutes:seconds, got '-1-30:00:00'" },
    { "sacct", SACCT "7|n|ann|0|01:00:00:00|node=1\n",
      "t:2: Elapsed: expected [days-]hours:minutes:seconds, got '01:00:00:00'" },
    { "sacct", SACCT "7|n|ann|0|01:00s|node=1\n",
      "t:2: Elapsed: expected [days-]hours:minutes:seconds, got '01:00s'" },
    { "sacct", SACCT "7|n|ann|0|99999-00:00:00|node=1\n",
      "t:2: Elapsed: expected [days-]hours:minutes:seconds, got '99999-00:00:00'" },
};

/* --- pollux --- */

static int read_part(struct spot_share_import *imp, const char *name, const char *text,
                     struct spot_err *err)
{
    FILE *const in = opened(text);
    const int rc = spot_share_import_read(imp, spot_share_format_find("pollux"), in, name, err);

    fclose(in);
    return rc;
}

static void expect_part(struct spot_share_import *imp, const char *name, const char *text)
{
    struct spot_err err = { 0 };

    ck_assert_msg(!read_part(imp, name, text, &err), "%s", err.msg);
}

#define PLACEMENTS "placement,local_bsz,step_time,sync_time\n"
#define EPOCHS     "progress,iteration,metric,grad_sqr,grad_var\n"

/* The training "toy": 200 steps of 16 samples, of which a worker takes 8 at a time. */
START_TEST(a_training_lasts_as_long_as_its_steps_with_the_best_batch_of_each_epoch)
{
    struct spot_share_import imp = { 0 };

    expect_part(&imp, "x/toy/placements.csv",
                PLACEMENTS "1,8,1.0,0.2\n2,8,1.1,0.3\n14,8,9,1\n"
                           "41,8,1,1\n11,8,1,1\n4444,8,3,1\n");
    expect_part(&imp, "x/toy/scalability.csv",
                "num_nodes,num_replicas,local_bsz,step_time,sync_time\n6,24,8,5,1\n6,22,8,1,1\n");
    expect_part(&imp, "x/toy/validation-16.csv", EPOCHS "100,90,1,1,3\n200,180,1,1,3\n");
    ck_assert(!spot_share_import_settle(&imp, &(struct spot_err){ 0 }));
    ck_assert_uint_eq(imp.n_speed, 2); /* more workers would have less than 8 samples each */
    for (size_t i = 0; i < imp.n_speed; i++) {
        ck_assert_str_eq(imp.speed[i].kind, "toy");
        ck_assert_str_eq(imp.speed[i].instance_type, "gpu");
        ck_assert_int_eq(imp.speed[i].scale, (int64_t)i + 1);
    }
    /* one worker: two parts, of which the first waits for nobody */
    ck_assert_double_eq_tol(1 / imp.speed[0].steps_per_s, 200 * (0.8 + 1.0), 1e-9);
    ck_assert_double_eq_tol(1 / imp.speed[1].steps_per_s, 200 * 1.1, 1e-9);
    spot_share_import_release(&imp);
}
END_TEST

/* A step of 256 samples is worth (3 + 1) / (3/16 + 1) of 16; in the first epoch the noise is
 * nothing. */
START_TEST(larger_batches_are_worth_what_the_noise_says_and_steps_lie_between_the_measured)
{
    struct spot_share_import imp = { 0 };
    const double worth = 4 / (3 / 16.0 + 1);

    expect_part(&imp, "toy/validation-256.csv", EPOCHS "100,1,1,1,0\n210,1,1,1,3\n");
    expect_part(&imp, "toy/validation-16.csv", EPOCHS "100,1,1,1,0\n200,1,1,1,3\n");
    expect_part(&imp, "toy/placements.csv",
                PLACEMENTS "4444,1,3,1\n4444,16,3,1\n4,4,2,1\n4,64,2,1\n444,2,2,1\n444,32,2,1\n");
    expect_part(&imp, "toy/scalability.csv",
                "num_nodes,num_replicas,local_bsz,step_time,sync_time\n"
                "6,24,1,5,1\n6,24,16,5,1\n");
    ck_assert(!spot_share_import_settle(&imp, &(struct spot_err){ 0 }));
    for (size_t i = 0; i < imp.n_speed; i++)
        if (imp.speed[i].scale == 16)
            ck_assert_double_eq_tol(1 / imp.speed[i].steps_per_s, 100 * 3 + 100 * 3 / worth, 1e-6);
        else if (imp.speed[i].scale ==
                 20) { /* halfway to 24; 13 samples at most: 260 is too many */
            ck_assert_double_ge(1 / imp.speed[i].steps_per_s, 100 * 4 + 100 * 4 / worth);
            ck_assert_double_le(1 / imp.speed[i].steps_per_s, 1.01 * (100 * 4 + 100 * 4 / worth));
        }
    ck_assert_uint_eq(imp.n_speed, 24 - 4 + 1);
    spot_share_import_release(&imp);
}
END_TEST

START_TEST(a_workload_is_jobs_of_one_whole_training)
{
    struct spot_share_import imp = { 0 };

    expect_part(
        &imp, "toy/workload-1.csv",
        "name,time,application,num_replicas,batch_size\na-0,53,toy,6,2048\nb-1,60,ncf,1,9\n");
    ck_assert_uint_eq(imp.jobs.n, 2);
    ck_assert_str_eq(imp.jobs.job[0].kind, "toy");
    ck_assert(imp.jobs.job[0].steps == 1 && imp.jobs.job[0].scale == 6);
    ck_assert(imp.jobs.job[0].scale_min == 1 && imp.jobs.job[0].scale_max == 64);
    ck_assert(imp.jobs.job[1].arrival_s == 60 && imp.jobs.job[1].scale_max == 1);
    spot_share_import_release(&imp);
}
END_TEST

static const struct {
    const char *name, *text, *want;
} bad_part[] = {
    { "toy/placements.csv", PLACEMENTS "1,8,1,2\n",
      "toy/placements.csv:2:7: sync_time: more than the step's 1 s" },
    { "toy/placements.csv", PLACEMENTS "1,0,1,0\n",
      "toy/placements.csv:2:3: local_bsz: 0 is outside [1, 1073741824]" },
    { "toy/validation-8.csv", EPOCHS "5,1,1,1,1\n4,1,1,1,1\n",
      "toy/validation-8.csv:3:1: progress: less than the epoch before" },
    { "toy/validation-8.csv", EPOCHS "nan,1,1,1,1\n",
      "toy/validation-8.csv:2:1: progress: expected a number, got 'nan'" },
    { "toy/validation-x.csv", EPOCHS "1,1,1,1,1\n",
      "toy/validation-x.csv:1:1: header lacks the column name" },
    { "placements.csv", PLACEMENTS "1,8,1,0\n",
      "placements.csv:1:1: header lacks the column name" },
};

START_TEST(a_part_that_cannot_be_is_refused_where_it_is)
{
    struct spot_share_import imp = { .bad.is_strict = true };
    struct spot_err err = { 0 };

    expect_refused(read_part(&imp, bad_part[_i].name, bad_part[_i].text, &err), &err,
                   bad_part[_i].want);
    spot_share_import_release(&imp);
}
END_TEST

START_TEST(a_training_of_which_a_part_is_missing_is_refused)
{
    struct spot_share_import imp = { 0 };
    struct spot_err err = { 0 };

    expect_part(&imp, "toy/placements.csv", PLACEMENTS "1,8,1,0\n");
    expect_refused(spot_share_import_settle(&imp, &err), &err,
                   "training 'toy': no file validation-BATCH.csv");
    spot_share_import_release(&imp);
}
END_TEST

START_TEST(a_pod_that_ran_is_a_job_of_its_seconds)
{
    struct spot_share_import imp;

    expect_import(&imp, "alibaba-2023",
                  "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
                  "creation_time,deletion_time,scheduled_time\n"
                  "a,1,1,2,1000,,LS,Running,100,500,130.0\nb,1,1,0,0,,BE,Running,0,9,1.0\n"
                  "c,1,1,1,460,V100M16,BE,Pending,7,90,\n");
    ck_assert_uint_eq(imp.jobs.n, 1);
    ck_assert_uint_eq(imp.n_left_out, 2);
    ck_assert_str_eq(imp.jobs.job[0].kind, SPOT_SHARE_KIND_SECOND);
    ck_assert(imp.jobs.job[0].arrival_s == 100 && imp.jobs.job[0].steps == 370);
    ck_assert_int_eq(imp.jobs.job[0].scale, 2);
    ck_assert(imp.jobs.has_classes && imp.jobs.job[0].priority == SPOT_SHARE_HIGH);
    spot_share_import_release(&imp);
    expect_import(&imp, "alibaba-2023",
                  "name,num_gpu,creation_time,deletion_time,scheduled_time,qos\n"
                  "a,1,0,9,1,BE\nb,1,0,9,1,Burstable\nc,1,0,9,1,Guaranteed\n");
    ck_assert(imp.jobs.job[0].priority == SPOT_SHARE_SPOT);
    ck_assert(imp.jobs.job[1].priority == SPOT_SHARE_SPOT);
    ck_assert(imp.jobs.job[2].priority == SPOT_SHARE_HIGH);
    spot_share_import_release(&imp);
    expect_import(&imp, "alibaba-2023",
                  "name,num_gpu,creation_time,deletion_time,scheduled_time\na,1,0,9,1\n");
    ck_assert(!imp.jobs.has_classes && imp.jobs.job[0].priority == SPOT_SHARE_NO_CLASS);
    spot_share_import_release(&imp);
}
END_TEST

START_TEST(what_cannot_be_is_refused_where_it_is)
{
    struct spot_share_import imp;
    struct spot_err err = { 0 };

    is_strict = true;
    expect_refused(import(&imp, bad[_i].format, bad[_i].text, &err), &err, bad[_i].want);
    is_strict = false; /* tests may share a process */
    spot_share_import_release(&imp);
}
END_TEST

START_TEST(a_row_that_cannot_be_read_is_left_out_and_the_last_record_of_a_job_is_kept)
{
    struct spot_share_import imp;

    expect_import(&imp, "sacct",
                  SACCT
                  "7|n|ann|0|01:00|node=1\n8|n|ann|Unknown|01:00|node=1\n9|n\n"
                  "7|n|ann|0|03:00|node=1\n10|n|ann|5|01:00|node=2\n10|n|ann|5|01:00|node=2\n");
    ck_assert_uint_eq(imp.bad.n, 2);
    ck_assert_str_eq(imp.bad.first.msg, "t:3: Submit: expected a date, got 'Unknown'");
    ck_assert(!spot_share_import_settle(&imp, &(struct spot_err){ 0 }));
    ck_assert_uint_eq(imp.jobs.n, 2);
    ck_assert_uint_eq(imp.n_replaced, 1); /* what is repeated as it was says nothing new */
    ck_assert_str_eq(imp.jobs.job[0].id, "7");
    ck_assert(imp.jobs.job[0].steps == 180);
    ck_assert_str_eq(imp.jobs.job[1].id, "10");
    spot_share_import_release(&imp);
    expect_import(&imp, "gavel", SPEEDS "a,1,v100,3\na,2,v100,4\na,1,k80,5\na,1,v100,6\n");
    ck_assert(!spot_share_import_settle(&imp, &(struct spot_err){ 0 }));
    ck_assert_uint_eq(imp.n_speed, 3);
    ck_assert(imp.speed[0].steps_per_s == 6 && imp.speed[2].steps_per_s == 5);
    ck_assert_uint_eq(imp.n_replaced, 1);
    spot_share_import_release(&imp);
}
END_TEST

START_TEST(a_nul_byte_and_a_job_too_many_are_refused)
{
    enum { N = SPOT_SHARE_JOBS_MAX };
    struct spot_share_import imp;
    struct spot_err err = { 0 };
    char nul[] = JOB("a", "1", "1", "1", "-1", "0");
    char *const many = malloc((size_t)(N + 1) * 32);
    size_t at = (size_t)sprintf(many, PHILLY);
    FILE *in = tmpfile();

    nul[3] = '\0';
    fwrite(nul, 1, sizeof(nul) - 1, in);
    rewind(in);
    imp = (struct spot_share_import){ 0 };
    expect_refused(spot_share_import_read(&imp, spot_share_format, in, "t", &err), &err,
                   "t:1:4: NUL byte");
    fclose(in);
    spot_share_import_release(&imp);
    for (int i = 0; i <= N; i++)
        at += (size_t)sprintf(many + at, "%d,1,1\n", i);
    expect_refused(import(&imp, "philly-csv", many, &err), &err,
                   "t:100002:1: submit_time: more than 100000 jobs");
    spot_share_import_release(&imp);
    at = 0;
    for (int i = 0; i <= N; i++)
        at += (size_t)sprintf(many + at, "a\t\t\t\t0\t1\t1\t1\t-1\t0\n");
    expect_refused(import(&imp, "gavel", many, &err), &err, "t:100001: more than 100000 jobs");
    ck_assert_uint_eq(imp.jobs.n, N);
    spot_share_import_release(&imp);
    free(many);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, what_cannot_be_is_refused_where_it_is, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_loop_test(tc, a_part_that_cannot_be_is_refused_where_it_is, 0,
                        sizeof(bad_part) / sizeof(bad_part[0]));
    add_tests(tc);
    return run_suite("share_import", tc);
}
