/* SPDX-License-Identifier: MIT */
/* Goal: the curve of step times is the one that made the points, an entry that is far off it or of
 * another kind of grid has no say, and a job of which no speed is known is refused with the
 * reason. */
#include <math.h>

#include "doc_rig.h"
#include "model/throughput.h"

enum { POINTS = 8, BATCH = 24 };

static const struct spot_step_curve law = { .pipe = 6, .fill_s = 0.25, .fixed_s = 0.5 };

static struct spot_job_doc job_of(struct spot_job_profile *profile, size_t n)
{
    return (struct spot_job_doc){ .name = "j",
                                  .global_batch = BATCH,
                                  .micro_batch = 1,
                                  .seq = 1,
                                  .profile = profile,
                                  .n_profile = n,
                                  .memory = { .p_min = 1, .p_max = 8, .d_min = 1 },
                                  .cost = { .usd_per_h = -1 } };
}

/* What the law says of D x P where all stages take the same time, by the formula of the header. */
static double law_s(int d, int p)
{
    const double micro = ceil((double)BATCH / d);

    return law.pipe * (micro / p + 1 - 1.0 / p) + law.fill_s * (micro + 2 * p) + law.fixed_s;
}

static void draw(struct spot_job_profile profile[POINTS])
{
    static const int d[POINTS] = { 1, 2, 3, 4, 1, 2, 1, 6 }, p[POINTS] = { 1, 1, 1, 1, 2, 2, 4, 1 };

    for (int i = 0; i < POINTS; i++)
        profile[i] = (struct spot_job_profile){ .grid = { d[i], p[i], 1 },
                                                .micro_batch = 1,
                                                .step_s = law_s(d[i], p[i]) };
}

START_TEST(the_curve_that_made_the_points_is_found_and_a_point_off_it_named)
{
    struct spot_job_profile profile[POINTS];
    const struct spot_job_doc job = job_of(profile, POINTS);
    struct spot_step_curve curve;
    bool is_outlier[POINTS];

    draw(profile);
    spot_step_curve_fit(&curve, &job, is_outlier);
    ck_assert_double_eq_tol(curve.pipe, law.pipe, 1e-9);
    ck_assert_double_eq_tol(curve.fill_s, law.fill_s, 1e-9);
    ck_assert_double_eq_tol(curve.fixed_s, law.fixed_s, 1e-9);
    ck_assert(curve.n_point == POINTS && !curve.n_outlier && spot_step_curve_is_trusted(&curve));
    ck_assert_double_eq_tol(spot_step_curve_at(&curve, &job, 3, 2), law_s(3, 2), 1e-9);
    profile[3].step_s *= 2;
    spot_step_curve_fit(&curve, &job, is_outlier);
    for (int i = 0; i < POINTS; i++)
        ck_assert_int_eq(is_outlier[i], i == 3);
    ck_assert_double_eq_tol(curve.pipe, law.pipe, 1e-9);
    ck_assert_double_eq_tol(curve.miss_max, 0.5, 1e-9); /* it was measured all the same */
    ck_assert(!spot_step_curve_is_trusted(&curve));
}
END_TEST

START_TEST(entries_of_tensor_groups_and_other_micro_batches_have_no_say)
{
    struct spot_job_profile profile[POINTS + 2];
    const struct spot_job_doc job = job_of(profile, POINTS + 2);
    struct spot_throughput t;
    struct spot_err err = { 0 };

    draw(profile);
    profile[POINTS] =
        (struct spot_job_profile){ .grid = { 8, 8, 2 }, .micro_batch = 1, .step_s = 1e-3 };
    profile[POINTS + 1] =
        (struct spot_job_profile){ .grid = { 2, 1, 1 }, .micro_batch = 2, .step_s = 1e-3 };
    ck_assert_int_eq(spot_job_profiled(&job), 6);
    for (int source = SPOT_THROUGHPUT_TABLE; source <= SPOT_THROUGHPUT_BOTH; source++) {
        ck_assert_msg(
            !spot_throughput_init(&t, &job, 16, (enum spot_throughput_source)source, &err), "%s",
            err.msg);
        ck_assert_uint_eq(t.curve.n_point, POINTS);
        ck_assert_double_eq_tol(spot_throughput_at(&t, 2, 1), BATCH / law_s(2, 1), 1e-9);
        /* beyond the stages that were measured the curve alone tells */
        ck_assert_double_eq_tol(spot_throughput_at(&t, 1, 8),
                                source == SPOT_THROUGHPUT_CURVE ? BATCH / law_s(1, 8) : 0, 1e-9);
        spot_throughput_release(&t);
    }
}
END_TEST

START_TEST(layers_without_times_count_by_their_parameters)
{
    struct spot_job_layer layer[] = {
        { .params = 100 }, { .params = 10 }, { .params = 10 }, { .params = 40 }
    };
    struct spot_job_doc job = job_of(NULL, 0);
    const struct spot_step_curve pipe = { .pipe = 1 };

    job.layer = layer;
    job.n_layer = 4;
    job.global_batch = 4;
    /* no model is told: all are the same. 3 and the last, four micro batches: 4 3 + 1 */
    ck_assert_double_eq(spot_step_curve_at(&pipe, &job, 1, 2), 13);
    /* of a model: the embedding only looks up, the others weigh 1, 1 and 4: 2 and 4, 4 4 + 2 */
    job.model.shape.n_layer = 2;
    ck_assert_double_eq(spot_step_curve_at(&pipe, &job, 1, 2), 18);
    /* 8 stages of 4 layers, as if they could be cut: halves, 4 / 2 + 7 / 2 */
    ck_assert_double_eq(spot_step_curve_at(&pipe, &job, 1, 8), 5.5);
    layer[1].forward_s = 1;
    layer[1].backward_s = 2; /* now times count: 3 and 0, 4 3 + 0 */
    ck_assert_double_eq(spot_step_curve_at(&pipe, &job, 1, 2), 12);
}
END_TEST

START_TEST(sources_have_names)
{
    enum spot_throughput_source source;
    struct spot_err err = { 0 };

    ck_assert(!spot_throughput_source_parse("table", &source, &err) &&
              source == SPOT_THROUGHPUT_TABLE);
    ck_assert(!spot_throughput_source_parse("law", &source, &err) &&
              source == SPOT_THROUGHPUT_CURVE);
    ck_assert(!spot_throughput_source_parse("both", &source, &err) &&
              source == SPOT_THROUGHPUT_BOTH);
    expect_fail(spot_throughput_source_parse("curve", &source, &err), &err, SPOT_EUSAGE,
                "--throughput: expected table, law or both, got 'curve'");
}
END_TEST

static void expect_unknown(const struct spot_job_doc *job, int n_max,
                           enum spot_throughput_source source, int code, const char *want)
{
    struct spot_throughput t;
    struct spot_err err = { 0 };

    expect_fail(spot_throughput_init(&t, job, n_max, source, &err), &err, code, want);
}

START_TEST(a_job_of_which_no_speed_is_known_is_refused_with_the_reason)
{
    struct spot_job_layer layer[2] = { { .params = 1000 }, { .params = 1000 } };
    struct spot_job_profile profile[2] = {
        { .grid = { 1, 1, 1 }, .micro_batch = 1, .step_s = 1, .is_outlier = true },
        { .grid = { 2, 1, 1 }, .micro_batch = 1, .step_s = 1, .is_outlier = true },
    };
    struct spot_job_doc job = job_of(profile, 2);

    expect_unknown(&job, 4, SPOT_THROUGHPUT_BOTH, SPOT_EDATA,
                   "job 'j': all 2 entries of its profile are outliers, nothing is left to fit; "
                   "the source 'table' takes them as they are");
    job.n_profile = 0;
    expect_unknown(&job, 4, SPOT_THROUGHPUT_BOTH, SPOT_EDATA,
                   "job 'j' has no profile: its speed is not known; spot-run profile "
                   "measures one, docs/formats/job.md describes how to write one");
    job.n_profile = 2;
    profile[0].is_outlier = profile[1].is_outlier = false;
    job.memory.d_min = BATCH + 1;
    expect_unknown(&job, 64, SPOT_THROUGHPUT_BOTH, SPOT_EINFEASIBLE,
                   "job 'j' runs on no grid: its limits ask for at least 25 pipelines, a step has "
                   "24 microbatches (/global_batch over /micro_batch)");
    job.memory.d_min = 2;
    job.memory.p_min = 4;
    expect_unknown(&job, 7, SPOT_THROUGHPUT_BOTH, SPOT_EINFEASIBLE,
                   "job 'j' runs on no grid of up to 7 instances: its limits ask for at least 8");
    job.memory.d_min = job.memory.p_min = 1;
    job.memory.state_byte_per_param = 16;
    job.memory.node_byte = 10000; /* of which 9200 may be filled; of two stages
                                   * the first has both layers, 32000 (model/stage_split.h) */
    job.layer = layer;
    job.n_layer = 2;
    expect_unknown(&job, 4, SPOT_THROUGHPUT_CURVE, SPOT_EINFEASIBLE,
                   "job 'j' fits on no grid of up to 4 instances: the largest stage needs 3.2e+04 "
                   "bytes at least, an instance has 9.2e+03");
}
END_TEST

int main(void)
{
    return run_suite("throughput", add_tests(tcase_create("core")));
}
