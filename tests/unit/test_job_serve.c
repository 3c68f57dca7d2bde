/* SPDX-License-Identifier: MIT */
/* Goal: what serves is read as it was written; holes in a profile are named. */
#include <stdlib.h>
#include <string.h>

#include "model/job_doc.h"
#include "suite.h"

#define JOB(serve) "{\"schema\":\"spot.job/1\",\"name\":\"j\",\"kind\":\"serve\"" serve "}"
#define BASE(more) \
    JOB(",\"serve\":{\"layers\":4,\"max_batch\":2,\"prompt_tokens\":8,\"output_tokens\":4" more "}")
#define CELL(m, b) "{\"M\":" m ",\"B\":" b ",\"prefill_s\":1,\"decode_s\":1}"
#define CELLS(...) ",\"cells\":[" __VA_ARGS__ "]"

#define ROW(b, s, token)                                                                 \
    "{\"M\":1,\"B\":" b ",\"prefill_s\":" s ",\"decode_s\":1,\"prefill_token_s\":" token \
    ",\"prefill_square_s\":1,\"prefill_least_s\":50,\"prefill_least_token_s\":1}"

/* Of the 10 tokens of half an answer nine take 1.8 s, and all of them 1 s. */
#define LATE(b)                                                                 \
    "{\"M\":1,\"B\":" b                                                         \
    ",\"prefill_s\":9,\"decode_s\":1,\"prefill_token_s\":1,\"decode_token_s\":" \
    "0.2}"

#define WHOLE CELLS(CELL("1", "1") "," CELL("1", "2"))

static const struct bad_case {
    const char *text, *message;
} bad_cases[] = {
    { JOB(""), "lacks the key 'serve'" },
    { JOB(",\"serve\":3"), "/serve: expected an object" },
    { JOB(",\"serve\":{}"), "/serve: lacks the key 'layers'" },
    { BASE(""), "/serve: lacks the key 'cells'" },
    { BASE(CELLS("")), "/serve/cells: has no times at all" },
    { BASE(CELLS(CELL("1", "1"))),
      "/serve/cells: has M 1, but not with B 2, which batches up to 2 need" },
    { BASE(CELLS(CELL("3", "1"))), "/serve/cells/0: M 3 and B 1 have to be powers of two" },
    { BASE(CELLS(CELL("1", "1") "," CELL("1", "2") "," CELL("1", "1"))),
      "/serve/cells/2: M 1 with B 1 is given twice" },
    { BASE(CELLS("{\"M\":1,\"B\":1,\"prefill_s\":0,\"decode_s\":1}")),
      "/serve/cells/0/prefill_s: 0 is outside" },
    { BASE(",\"embed\":[{\"B\":2,\"s\":0}]" CELLS(CELL("1", "1") "," CELL("1", "2"))),
      "/serve/embed: has no B 1, which batches up to 2 need" },
    { BASE(",\"stage_layers\":3" CELLS(CELL("1", "1") "," CELL("1", "2"))),
      "/serve: stage_layers 3 is below layers 4" },
    { JOB(",\"serve\":{\"layers\":4,\"max_batch\":3,\"prompt_tokens\":8,\"output_tokens\":4" CELLS(
          CELL("1", "1")) "}"),
      "/serve/max_batch: 3 is not a power of two" },
    { BASE(CELLS(ROW("1", "1", "0") "," ROW("2", "1", "0"))),
      "is missing beside decode_token_s, prefill_square_s or prefill_least_s" },
    { BASE(CELLS(ROW("1", "1", "2") "," ROW("2", "1", "2") "," CELL("2", "1") "," CELL("2", "2"))),
      "/serve/cells/2: lacks prefill_token_s, but the first cell has it" },
    { BASE(WHOLE ",\"embed\":[{\"B\":1,\"s\":0},{\"B\":2,\"s\":0},{\"B\":1,\"s\":0}]"),
      "/serve/embed/2: B 1 is given twice" },
    { BASE(WHOLE ",\"context\":11"),
      "/serve/context: 11 is below the 8 and 4 tokens of the profile" },
    { BASE(CELLS(LATE("1") "," LATE("2"))),
      "/serve/cells/0: decode_token_s makes a context of one token take no time" },
    { BASE(WHOLE ",\"spread\":[1]"), "/serve/spread: has one quantile" },
    { BASE(WHOLE ",\"spread\":[1,0.5]"), "/serve/spread/1: is below the one before it" },
    { BASE(WHOLE ",\"sharing\":[1,1.5,1.4]"), "/serve/sharing/2: is below the one before it" },
    { BASE(WHOLE ",\"sharing\":[1.1,1.5]"), "/serve/sharing/0: is of one replica at work" },
    { BASE(WHOLE ",\"sharing\":[1,true]"), "/serve/sharing/1: expected a number above 0" },
    { BASE(CELLS("{\"M\":1,\"B\":1,\"prefill_s\":1,\"decode_s\":1,\"join\":-1}")),
      "/serve/cells/0/join: -1 is outside" },
};

START_TEST(refuses_wrong_profiles_with_their_place)
{
    struct spot_job_doc job;
    struct spot_err err = { 0 };
    const char *text = bad_cases[_i].text;

    ck_assert_int_eq(spot_job_doc_parse(&job, text, strlen(text), "j", &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(strstr(err.msg, bad_cases[_i].message), "%s", err.msg);
    ck_assert_ptr_null(job.serve.cell);
}
END_TEST

START_TEST(a_job_that_serves_is_read_as_it_was_written)
{
    struct spot_job_doc job, again;
    struct spot_err err;
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);

    ck_assert_int_eq(spot_job_doc_load(&job, "examples/serve/gpt-6.7b.json", &err), 0);
    ck_assert_int_eq(job.kind, SPOT_JOB_SERVE);
    ck_assert_int_eq(spot_job_doc_write(&job, NULL, out, &err), 0);
    fclose(out);
    ck_assert_msg(!spot_job_doc_parse(&again, text, n, "again", &err), "%s", err.msg);
    ck_assert_uint_eq(again.serve.n_cell, 20);
    ck_assert_mem_eq(again.serve.cell, job.serve.cell, 20 * sizeof(*job.serve.cell));
    ck_assert_mem_eq(again.serve.embed, job.serve.embed, 4 * sizeof(*job.serve.embed));
    ck_assert_int_eq(again.serve.stage_layers, 36);
    ck_assert_double_eq(again.serve.factor, 1.1);
    ck_assert_double_eq(again.serve.decode_hop_s, 0.00007);
    spot_job_doc_release(&again);
    spot_job_doc_release(&job);
    free(text);
}
END_TEST

/* What is optional comes back, and a document without it is as before. */
START_TEST(company_and_sharing_are_read_as_they_were_written)
{
    static const char *const text[] = {
        BASE(WHOLE),
        BASE(CELLS(CELL("1", "1") ",{\"M\":1,\"B\":2,\"prefill_s\":1,\"decode_s\":1,\"join\":0."
                                  "7}") ",\"spread\":[0.5,1.5],\"sharing\":[1,1.25,1.75]"),
    };
    const struct spot_serve_shape one = { 1, 1, 1, 1, 1 }, two = { 1, 1, 2, 1, 1 };

    for (int given = 0; given < 2; given++) {
        struct spot_job_doc job, again;
        struct spot_serve_time time;
        struct spot_err err;
        char *written = NULL;
        size_t n;
        FILE *out = open_memstream(&written, &n);

        ck_assert_msg(!spot_job_doc_parse(&job, text[given], strlen(text[given]), "j", &err), "%s",
                      err.msg);
        ck_assert_int_eq(spot_job_doc_write(&job, NULL, out, &err), 0);
        fclose(out);
        ck_assert_msg(!spot_job_doc_parse(&again, written, n, "again", &err), "%s", err.msg);
        ck_assert_uint_eq(again.serve.n_sharing, given ? 3 : 0);
        ck_assert_uint_eq(again.serve.n_spread, given ? 2 : 0);
        for (size_t k = 0; k < again.serve.n_sharing; k++)
            ck_assert_double_eq(again.serve.sharing[k], job.serve.sharing[k]);
        ck_assert_int_eq(spot_serve_time(&again.serve, &one, &time), 0);
        ck_assert_double_eq(time.join, 1);
        ck_assert_int_eq(spot_serve_time(&again.serve, &two, &time), 0);
        ck_assert_double_eq(time.join, given ? 0.7 : 1);
        spot_job_doc_release(&job);
        spot_job_doc_release(&again);
        free(written);
    }
}
END_TEST

/* Two stages, two prompts' parts: 2 (10 + 3 (p - 8) + (p^2 - 64)) (2 + 1), or what is least. */
START_TEST(prompts_have_a_square_a_least_time_and_parts_that_add_up)
{
    const char *text = JOB(",\"serve\":{\"layers\":4,\"max_batch\":2,\"prompt_tokens\":8,"
                           "\"output_tokens\":4,\"parts_add_up\":true"
                           ",\"cells\":[" ROW("1", "100", "3") "," ROW("2", "200", "3") "]}");
    const struct spot_serve_shape shape = { 2, 1, 2, 2, 1 };
    struct spot_serve_length length = { 12, 4, 0 };
    struct spot_serve_time time;
    struct spot_job_doc job;
    struct spot_err err;

    ck_assert_msg(!spot_job_doc_parse(&job, text, strlen(text), "j", &err), "%s", err.msg);
    ck_assert_int_eq(spot_serve_time_of(&job.serve, &shape, &length, &time), 0);
    ck_assert_double_eq_tol(time.prefill_s, 2 * (100 + 3 * 4 + 80) * 3, 1e-9);
    length.prompt_token = 2; /* 100 - 18 - 60 = 22 is below 50 - 6 */
    ck_assert_int_eq(spot_serve_time_of(&job.serve, &shape, &length, &time), 0);
    ck_assert_double_eq_tol(time.prefill_s, 2 * 44 * 3, 1e-9);
    job.serve.parts_add_up = false; /* as in SpotServe's artifact */
    ck_assert_int_eq(spot_serve_time_of(&job.serve, &shape, &length, &time), 0);
    ck_assert_double_eq_tol(time.prefill_s, 44 * 3, 1e-9);
    spot_job_doc_release(&job);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("job_serve");

    tcase_add_loop_test(tc, refuses_wrong_profiles_with_their_place, 0,
                        sizeof(bad_cases) / sizeof(*bad_cases));
    add_tests(tc);
    return run_suite("job_serve", tc);
}
