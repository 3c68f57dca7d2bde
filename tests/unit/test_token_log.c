/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/token_log.h"
#include "suite.h"

/* Goal: what was written is read back; whatever is cut off or changed, what is read is a beginning
 * of it, and the journal goes on behind that. */

enum { N_TOKEN = 12 };
static const uint64_t model = 77, next_model = 78, other_model = 79;
static uint64_t s_model; /* that the server is started with */
static const char *s_numerics = "fp32 weights on CPUs";

enum { HEAD = 16 + SPOT_TOKEN_LOG_NUMERICS };
static char dir[64], path[96];

struct seen {
    int n_model, n_request, n_token, n_end;
    bool is_wrong;
};

static int on_model(void *user, uint64_t hash, const char *of)
{
    struct seen *const s = user;

    s->n_model++;
    s->is_wrong |= hash != next_model || strcmp(of, "/next") != 0 || s->n_request;
    return 0;
}

static int on_request(void *user, uint64_t number, uint64_t hash, struct spot_request *request_take)
{
    struct seen *const s = user;

    s->is_wrong |= number != 5 || hash != model || s->n_request || request_take->n_prompt != 3 ||
                   request_take->prompt[2] != 9 || request_take->sample.seed != 4;
    s->n_request++;
    spot_request_release(request_take);
    return 0;
}

static int on_token(void *user, uint64_t number, uint32_t choice, const struct spot_step_token *t)
{
    struct seen *const s = user;

    s->is_wrong |= number != 5 || choice != 1 || !s->n_request ||
                   t->position != (uint32_t)s->n_token || t->token.id != 100 + t->position ||
                   t->token.logprob != -0.5 * t->position || t->token.n_top != 1 ||
                   t->token.top[0].id != 3 || t->is_end != (t->position == N_TOKEN - 1);
    s->n_token++;
    return 0;
}

static int on_end(void *user, uint64_t number)
{
    struct seen *const s = user;

    s->is_wrong |= number != 5 || s->n_token != N_TOKEN;
    s->n_end++;
    return 0;
}

static struct spot_token_log *open_log(struct seen *s, bool resumes, uint64_t *n_cut,
                                       struct spot_err *err)
{
    const struct spot_token_log_reader reader = {
        .model = on_model, .request = on_request, .token = on_token, .end = on_end, .user = s
    };

    memset(s, 0, sizeof(*s));
    return spot_token_log_open(dir, s_model, s_numerics, resumes, false, &reader, n_cut, err);
}

static void put_token(struct spot_token_log *log, uint32_t k)
{
    const struct spot_step_token t = { .position = k,
                                       .is_end = k == N_TOKEN - 1,
                                       .token = { .id = 100 + k,
                                                  .logprob = -0.5 * k,
                                                  .n_top = 1,
                                                  .top = { { .id = 3, .logprob = -1 } } } };

    spot_token_log_put_token(log, 5, 1, &t);
}

/* A file with a request, its tokens and its end. */
static void write_file(void)
{
    uint32_t prompt[] = { 7, 8, 9 };
    const struct spot_request request = { .id = "cmpl-1",
                                          .prompt = prompt,
                                          .n_prompt = 3,
                                          .sample.seed = 4,
                                          .n_choice = 2,
                                          .n_token_max = 9 };
    struct seen seen;
    uint64_t n_cut;
    struct spot_token_log *log;

    (void)unlink(path);
    log = open_log(&seen, false, &n_cut, NULL);
    ck_assert_ptr_nonnull(log);
    spot_token_log_put_request(log, 5, model, &request);
    ck_assert(!spot_token_log_write(log, NULL));
    for (uint32_t k = 0; k < N_TOKEN; k++) {
        put_token(log, k);
        ck_assert(!spot_token_log_write(log, NULL));
    }
    spot_token_log_put_end(log, 5);
    ck_assert(!spot_token_log_write(log, NULL));
    spot_token_log_close(log);
}

static size_t read_file(uint8_t *data, size_t cap)
{
    FILE *const f = fopen(path, "rb");
    size_t n;

    ck_assert_ptr_nonnull(f);
    n = fread(data, 1, cap, f);
    fclose(f);
    return n;
}

static void put_file(const uint8_t *data, size_t n)
{
    FILE *const f = fopen(path, "wb");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, n, f), n);
    fclose(f);
}

static void set_up(void)
{
    s_model = model;
    strcpy(dir, "/tmp/token-log-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/tokens.log", dir);
    write_file();
}

static void tear_down(void)
{
    (void)unlink(path);
    (void)rmdir(dir);
}

START_TEST(what_was_written_is_read)
{
    struct seen seen;
    uint64_t n_cut;
    struct spot_token_log *const log = open_log(&seen, true, &n_cut, NULL);

    ck_assert_ptr_nonnull(log);
    ck_assert(!seen.is_wrong && seen.n_request == 1 && seen.n_token == N_TOKEN && seen.n_end == 1);
    ck_assert_uint_eq(n_cut, 0);
    spot_token_log_close(log);
}
END_TEST

START_TEST(a_file_that_is_there_is_not_overwritten)
{
    struct spot_err err = { 0 };
    struct seen seen;
    uint64_t n_cut;

    ck_assert_ptr_null(open_log(&seen, false, &n_cut, &err));
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
}
END_TEST

/* The other would write the file anew under the one that runs. */
START_TEST(of_two_that_open_it_the_second_is_refused_and_changes_nothing)
{
    uint8_t before[4096], after[4096];
    struct spot_err err = { 0 };
    struct seen seen, none;
    uint64_t n_cut;
    struct spot_token_log *const log = open_log(&seen, true, &n_cut, NULL);
    const size_t n = read_file(before, sizeof(before));

    ck_assert_ptr_nonnull(log);
    for (int resumes = 0; resumes < 2; resumes++) {
        ck_assert_ptr_null(open_log(&none, resumes, &n_cut, &err));
        ck_assert_int_eq(err.code, SPOT_ESYS);
        ck_assert_ptr_nonnull(strstr(err.msg, dir));
        ck_assert_ptr_nonnull(strstr(err.msg, "in use by another job"));
        ck_assert_int_eq(none.n_request + none.n_token, 0);
    }
    ck_assert_uint_eq(read_file(after, sizeof(after)), n);
    ck_assert(!memcmp(before, after, n));
    spot_token_log_close(log);
    spot_token_log_close(open_log(&seen, true, &n_cut, &err));
    ck_assert_int_eq(seen.n_token, N_TOKEN);
}
END_TEST

START_TEST(a_directory_is_made_and_one_without_a_name_is_none)
{
    const struct spot_token_log_reader reader = { .user = NULL };
    struct spot_err err = { 0 };
    char deeper[80];
    uint64_t n_cut;
    struct spot_token_log *log;

    ck_assert_ptr_null(
        spot_token_log_open("", model, s_numerics, false, false, &reader, &n_cut, &err));
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    ck_assert_int_ne(access("/tokens.log", F_OK), 0);
    snprintf(deeper, sizeof(deeper), "%s/made", dir);
    log = spot_token_log_open(deeper, model, s_numerics, false, false, &reader, &n_cut, &err);
    ck_assert_ptr_nonnull(log);
    spot_token_log_close(log);
    snprintf(deeper, sizeof(deeper), "%s/made/tokens.log", dir);
    ck_assert_int_eq(unlink(deeper), 0);
    snprintf(deeper, sizeof(deeper), "%s/made", dir);
    ck_assert_int_eq(rmdir(deeper), 0);
}
END_TEST

START_TEST(cut_anywhere_a_beginning_is_read_and_gone_on_with)
{
    uint8_t data[4096];
    const size_t n = read_file(data, sizeof(data));

    for (size_t cut = HEAD; cut < n; cut++) {
        struct seen seen, again;
        uint64_t n_cut;
        struct spot_token_log *log;

        put_file(data, cut);
        log = open_log(&seen, true, &n_cut, NULL);
        ck_assert_ptr_nonnull(log);
        ck_assert(!seen.is_wrong && !seen.n_end);
        if (seen.n_request && seen.n_token < N_TOKEN)
            put_token(log, (uint32_t)seen.n_token);
        ck_assert(!spot_token_log_write(log, NULL));
        spot_token_log_close(log);
        log = open_log(&again, true, &n_cut, NULL);
        ck_assert_ptr_nonnull(log);
        ck_assert(!again.is_wrong && !n_cut);
        ck_assert_int_eq(again.n_token, seen.n_token + (seen.n_request && seen.n_token < N_TOKEN));
        spot_token_log_close(log);
    }
}
END_TEST

START_TEST(a_changed_byte_ends_what_is_read)
{
    uint8_t data[4096];
    const size_t n = read_file(data, sizeof(data));

    for (size_t i = 0; i < n; i++) {
        struct spot_err err = { 0 };
        struct seen seen;
        uint64_t n_cut;
        struct spot_token_log *log;

        data[i] ^= 0x10;
        put_file(data, n);
        data[i] ^= 0x10;
        log = open_log(&seen, true, &n_cut, &err);
        if (i < HEAD) {
            ck_assert_ptr_null(log);
            ck_assert_int_eq(err.code, SPOT_EDATA);
            continue;
        }
        ck_assert_ptr_nonnull(log);
        ck_assert(!seen.is_wrong && !seen.n_end && n_cut > 0);
        spot_token_log_close(log);
    }
}
END_TEST

/* Rolled from `model` to the next, whoever is started with either may go on. */
START_TEST(a_journal_of_two_models_goes_on_with_either_and_no_third)
{
    const uint64_t started_with[] = { model, next_model, other_model };
    uint64_t n_cut;
    struct seen seen;
    struct spot_token_log *log = open_log(&seen, true, &n_cut, NULL);

    ck_assert_ptr_nonnull(log);
    spot_token_log_set_model(log, next_model);
    spot_token_log_put_model(log, model, "");
    spot_token_log_put_model(log, next_model, "/next");
    ck_assert(!spot_token_log_replace(log, NULL));
    spot_token_log_close(log);
    for (int i = 0; i < 3; i++) {
        struct spot_err err = { 0 };

        s_model = started_with[i];
        log = open_log(&seen, true, &n_cut, &err);
        ck_assert_int_eq(log != NULL, i < 2);
        if (log) {
            ck_assert(!seen.is_wrong && seen.n_model == 1 && !n_cut);
            ck_assert_uint_eq(spot_token_log_model(log), next_model);
        } else {
            ck_assert_int_eq(err.code, SPOT_EDATA);
        }
        spot_token_log_close(log);
    }
}
END_TEST

START_TEST(a_journal_does_not_go_on_with_other_bits)
{
    const char *const told = s_numerics;
    struct spot_err err = { 0 };
    uint64_t n_cut;
    struct seen seen;

    s_numerics = "q8 weights on CPUs";
    ck_assert_ptr_null(open_log(&seen, true, &n_cut, &err));
    s_numerics = told;
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "with fp32 weights on CPUs"));
    ck_assert_ptr_nonnull(strstr(err.msg, "those of q8 weights on CPUs"));
    ck_assert_int_eq(seen.n_token, 0);
}
END_TEST

START_TEST(written_anew_it_has_what_was_put_last)
{
    struct seen seen;
    uint64_t n_cut, before;
    struct spot_token_log *log = open_log(&seen, true, &n_cut, NULL);

    ck_assert_ptr_nonnull(log);
    before = spot_token_log_byte(log);
    ck_assert(!spot_token_log_replace(log, NULL));
    ck_assert_uint_lt(spot_token_log_byte(log), before);
    spot_token_log_close(log);
    log = open_log(&seen, true, &n_cut, NULL);
    ck_assert_ptr_nonnull(log);
    ck_assert(!seen.n_request && !seen.n_token && !n_cut);
    spot_token_log_close(log);
}
END_TEST

int main(void)
{
    TCase *const t = tcase_create("file");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, what_was_written_is_read);
    tcase_add_test(t, a_file_that_is_there_is_not_overwritten);
    tcase_add_test(t, of_two_that_open_it_the_second_is_refused_and_changes_nothing);
    tcase_add_test(t, a_directory_is_made_and_one_without_a_name_is_none);
    tcase_add_test(t, cut_anywhere_a_beginning_is_read_and_gone_on_with);
    tcase_add_test(t, a_changed_byte_ends_what_is_read);
    tcase_add_test(t, a_journal_of_two_models_goes_on_with_either_and_no_third);
    tcase_add_test(t, a_journal_does_not_go_on_with_other_bits);
    tcase_add_test(t, written_anew_it_has_what_was_put_last);
    return run_suite("token_log", t);
}
