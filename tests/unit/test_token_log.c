/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/token_log.h"
#include "suite.h"

/* Goal: what was written is read back; whatever is cut off, what is read is a beginning of it, and
 * the journal goes on behind that; whatever is changed, all records but that one are read. */

enum { N_TOKEN = 12 };
static const uint64_t model = 77, next_model = 78, other_model = 79;
static uint64_t s_model; /* that the server is started with */
static const char *s_numerics = "fp32 weights on CPUs";

enum { HEAD = 16 + SPOT_TOKEN_LOG_NUMERICS };
static char dir[64], path[96], bad_path[104];

static uint64_t s_owner; /* of the request */

struct seen {
    int n_model, n_request, n_token, n_end;
    int n_stray; /* that do not follow from what was told before */
    bool is_wrong;
};

static void on_model(void *user, uint64_t hash, const char *of)
{
    struct seen *const s = user;

    s->n_model++;
    s->is_wrong |= hash != next_model || strcmp(of, "/next") != 0 || s->n_request;
}

static void on_request(void *user, uint64_t number, uint64_t hash,
                       struct spot_request *request_take)
{
    struct seen *const s = user;

    s->is_wrong |= number != 5 || hash != model || s->n_request || request_take->n_prompt != 3 ||
                   request_take->prompt[2] != 9 || request_take->sample.seed != 4 ||
                   request_take->owner != s_owner;
    s->n_request++;
    spot_request_release(request_take);
}

static void on_token(void *user, uint64_t number, uint32_t choice, const struct spot_step_token *t)
{
    struct seen *const s = user;

    s->is_wrong |= number != 5 || choice != 1 || t->token.id != 100 + t->position ||
                   t->token.logprob != -0.5 * t->position || t->token.n_top != 1 ||
                   t->token.top[0].id != 3 || t->is_end != (t->position == N_TOKEN - 1);
    if (s->n_request && t->position == (uint32_t)s->n_token)
        s->n_token++;
    else
        s->n_stray++;
}

static void on_end(void *user, uint64_t number)
{
    struct seen *const s = user;

    s->is_wrong |= number != 5;
    s->n_end++;
}

static struct spot_token_log *open_log(struct seen *s, bool resumes,
                                       struct spot_token_log_damage *damage, struct spot_err *err)
{
    const struct spot_token_log_reader reader = {
        .model = on_model, .request = on_request, .token = on_token, .end = on_end, .user = s
    };

    memset(s, 0, sizeof(*s));
    return spot_token_log_open(dir, s_model, s_numerics, resumes, false, &reader, damage, err);
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
                                          .owner = s_owner,
                                          .sample.seed = 4,
                                          .n_choice = 2,
                                          .n_token_max = 9 };
    struct seen seen;
    struct spot_token_log_damage damage;
    struct spot_token_log *log;

    (void)unlink(path);
    log = open_log(&seen, false, &damage, NULL);
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

static size_t read_file(const char *of, uint8_t *data, size_t cap)
{
    FILE *const f = fopen(of, "rb");
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

static void put_hole(size_t begin, size_t end)
{
    FILE *const f = fopen(path, "r+b");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, (long)begin, SEEK_SET), 0);
    for (size_t i = begin; i < end; i++)
        fputc(0, f);
    fclose(f);
}

static void set_up(void)
{
    s_model = model;
    strcpy(dir, "/tmp/token-log-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/tokens.log", dir);
    snprintf(bad_path, sizeof(bad_path), "%s.bad", path);
    write_file();
}

static void tear_down(void)
{
    (void)unlink(path);
    (void)unlink(bad_path);
    ck_assert_int_eq(rmdir(dir), 0);
}

START_TEST(what_was_written_is_read)
{
    struct seen seen;
    struct spot_token_log_damage damage;
    struct spot_token_log *const log = open_log(&seen, true, &damage, NULL);

    ck_assert_ptr_nonnull(log);
    ck_assert(!seen.is_wrong && seen.n_request == 1 && seen.n_token == N_TOKEN && seen.n_end == 1);
    ck_assert(!damage.n_cut && !damage.n_bad && !seen.n_stray);
    spot_token_log_close(log);
}
END_TEST

START_TEST(nobody_else_may_read_it)
{
    struct seen seen;
    struct spot_token_log_damage damage;
    struct stat st;

    ck_assert(!stat(path, &st) && (st.st_mode & 07777) == 0600);
    ck_assert(!chmod(path, 0644)); /* as versions before wrote it */
    spot_token_log_close(open_log(&seen, true, &damage, NULL));
    ck_assert(!stat(path, &st) && (st.st_mode & 07777) == 0600);
}
END_TEST

START_TEST(a_request_is_read_with_its_owner)
{
    struct seen seen;
    struct spot_token_log_damage damage;

    s_owner = 0x0123456789abcdef;
    write_file();
    spot_token_log_close(open_log(&seen, true, &damage, NULL));
    ck_assert(!seen.is_wrong && seen.n_request == 1 && seen.n_token == N_TOKEN && !damage.n_bad);
    s_owner = 0;
}
END_TEST

START_TEST(a_file_that_is_there_is_not_overwritten)
{
    struct spot_err err = { 0 };
    struct seen seen;
    struct spot_token_log_damage damage;

    ck_assert_ptr_null(open_log(&seen, false, &damage, &err));
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
}
END_TEST

/* The other would write the file anew under the one that runs. */
START_TEST(of_two_that_open_it_the_second_is_refused_and_changes_nothing)
{
    uint8_t before[4096], after[4096];
    struct spot_err err = { 0 };
    struct seen seen, none;
    struct spot_token_log_damage damage;
    struct spot_token_log *const log = open_log(&seen, true, &damage, NULL);
    const size_t n = read_file(path, before, sizeof(before));

    ck_assert_ptr_nonnull(log);
    for (int resumes = 0; resumes < 2; resumes++) {
        ck_assert_ptr_null(open_log(&none, resumes, &damage, &err));
        ck_assert_int_eq(err.code, SPOT_ESYS);
        ck_assert_ptr_nonnull(strstr(err.msg, dir));
        ck_assert_ptr_nonnull(strstr(err.msg, "in use by another job"));
        ck_assert_int_eq(none.n_request + none.n_token, 0);
    }
    ck_assert_uint_eq(read_file(path, after, sizeof(after)), n);
    ck_assert(!memcmp(before, after, n));
    spot_token_log_close(log);
    spot_token_log_close(open_log(&seen, true, &damage, &err));
    ck_assert_int_eq(seen.n_token, N_TOKEN);
}
END_TEST

START_TEST(a_directory_is_made_and_one_without_a_name_is_none)
{
    const struct spot_token_log_reader reader = { .user = NULL };
    struct spot_err err = { 0 };
    char deeper[80];
    struct spot_token_log_damage damage;
    struct spot_token_log *log;

    ck_assert_ptr_null(
        spot_token_log_open("", model, s_numerics, false, false, &reader, &damage, &err));
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    ck_assert_int_ne(access("/tokens.log", F_OK), 0);
    snprintf(deeper, sizeof(deeper), "%s/made", dir);
    log = spot_token_log_open(deeper, model, s_numerics, false, false, &reader, &damage, &err);
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
    const size_t n = read_file(path, data, sizeof(data));

    for (size_t cut = HEAD; cut < n; cut++) {
        struct seen seen, again;
        struct spot_token_log_damage damage;
        struct spot_token_log *log;

        put_file(data, cut);
        log = open_log(&seen, true, &damage, NULL);
        ck_assert_ptr_nonnull(log);
        ck_assert(!seen.is_wrong && !seen.n_end && !seen.n_stray && !damage.n_bad);
        if (seen.n_request && seen.n_token < N_TOKEN)
            put_token(log, (uint32_t)seen.n_token);
        ck_assert(!spot_token_log_write(log, NULL));
        spot_token_log_close(log);
        log = open_log(&again, true, &damage, NULL);
        ck_assert_ptr_nonnull(log);
        ck_assert(!again.is_wrong && !damage.n_cut && !damage.n_bad);
        ck_assert_int_eq(again.n_token, seen.n_token + (seen.n_request && seen.n_token < N_TOKEN));
        spot_token_log_close(log);
    }
}
END_TEST

/* Where records begin, as the lengths of a sound file say; the last is its end. */
static int find_records(const uint8_t *data, size_t n, size_t *at)
{
    int n_record = 0;

    for (at[0] = HEAD; at[n_record] < n; n_record++) {
        const uint8_t *const p = data + at[n_record];

        at[n_record + 1] =
            at[n_record] + 12 +
            ((size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24);
    }
    return n_record;
}

/* Record 0 is the request, k the token k - 1, the last the end. */
static void check_without(int record, const struct seen *s, const struct spot_token_log_damage *d)
{
    const int n_token = record == 0 ? 0 : record <= N_TOKEN ? record - 1 : N_TOKEN;

    ck_assert(!s->is_wrong);
    ck_assert_int_eq(s->n_request, record != 0);
    ck_assert_int_eq(s->n_token, n_token);
    ck_assert_int_eq(s->n_stray, N_TOKEN - n_token - (record >= 1 && record <= N_TOKEN));
    ck_assert_int_eq(s->n_end, record != N_TOKEN + 1);
    ck_assert_int_eq((int)d->n_bad, record != N_TOKEN + 1);
    ck_assert(d->is_kept == (d->n_bad > 0) && (d->n_cut > 0) == (record == N_TOKEN + 1));
}

START_TEST(a_changed_byte_loses_its_record_alone)
{
    uint8_t data[4096], kept[4096];
    size_t at[N_TOKEN + 3];
    const size_t n = read_file(path, data, sizeof(data));
    int record = 0;

    ck_assert_int_eq(find_records(data, n, at), N_TOKEN + 2);
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            struct spot_err err = { 0 };
            struct spot_token_log_damage damage;
            struct seen seen;
            struct spot_token_log *log;

            record += i >= HEAD && i == at[record + 1];
            data[i] ^= (uint8_t)(1 << bit);
            put_file(data, n);
            log = open_log(&seen, true, &damage, &err);
            if (i < HEAD) {
                ck_assert_ptr_null(log);
                ck_assert_int_eq(err.code, SPOT_EDATA);
            } else {
                ck_assert_ptr_nonnull(log);
                check_without(record, &seen, &damage);
                if (damage.n_bad)
                    ck_assert_uint_eq(damage.n_bad_byte, at[record + 1] - at[record]);
            }
            if (damage.is_kept)
                ck_assert(read_file(bad_path, kept, sizeof(kept)) == n && !memcmp(kept, data, n));
            data[i] ^= (uint8_t)(1 << bit);
            spot_token_log_close(log);
        }
}
END_TEST

/* A page of the disk, over lengths too: what is whole behind it is read. */
START_TEST(a_hole_in_the_middle_loses_what_it_touches)
{
    uint8_t data[4096];
    size_t at[N_TOKEN + 3];
    const size_t n = read_file(path, data, sizeof(data));

    (void)find_records(data, n, at);
    for (int first = 1; first <= N_TOKEN; first++)
        for (int last = first; last <= N_TOKEN; last++) {
            struct spot_token_log_damage damage;
            struct seen seen;

            put_file(data, n);
            put_hole(at[first] + 2, at[last] + 9);
            spot_token_log_close(open_log(&seen, true, &damage, NULL));
            ck_assert(!seen.is_wrong && damage.n_bad && !damage.n_cut);
            ck_assert_uint_eq(damage.n_bad_byte, at[last + 1] - at[first]);
            ck_assert_int_eq(seen.n_token, first - 1);
            ck_assert_int_eq(seen.n_stray, N_TOKEN - last);
            ck_assert_int_eq(seen.n_end, 1);
        }
}
END_TEST

/* As a server writes it: each request in a record of its own. */
START_TEST(records_of_one_write_are_lost_one_by_one)
{
    uint8_t data[4096];
    size_t at[N_TOKEN + 3], n;
    struct spot_token_log_damage damage;
    struct seen seen;
    struct spot_token_log *log = open_log(&seen, true, &damage, NULL);

    spot_token_log_next_record(log); /* nothing was put: none */
    spot_token_log_put_model(log, next_model, "/next");
    spot_token_log_next_record(log);
    spot_token_log_next_record(log);
    spot_token_log_put_end(log, 5);
    spot_token_log_next_record(log);
    ck_assert_int_eq(spot_token_log_replace(log, NULL), 0);
    spot_token_log_put_end(log, 5);
    spot_token_log_next_record(log);
    spot_token_log_put_end(log, 5);
    ck_assert_int_eq(spot_token_log_write(log, NULL), 0);
    spot_token_log_close(log);
    n = read_file(path, data, sizeof(data));
    ck_assert_int_eq(find_records(data, n, at), 4);
    for (int k = 0; k < 4; k++) {
        data[at[k] + 12] ^= 1;
        put_file(data, n);
        data[at[k] + 12] ^= 1;
        spot_token_log_close(open_log(&seen, true, &damage, NULL));
        ck_assert(!seen.is_wrong && seen.n_model == (k > 0) && seen.n_end == (k ? 2 : 3));
    }
}
END_TEST

/* Rolled from `model` to the next, whoever is started with either may go on. */
START_TEST(a_journal_of_two_models_goes_on_with_either_and_no_third)
{
    const uint64_t started_with[] = { model, next_model, other_model };
    struct spot_token_log_damage damage;
    struct seen seen;
    struct spot_token_log *log = open_log(&seen, true, &damage, NULL);

    ck_assert_ptr_nonnull(log);
    spot_token_log_set_model(log, next_model);
    spot_token_log_put_model(log, model, "");
    spot_token_log_put_model(log, next_model, "/next");
    ck_assert(!spot_token_log_replace(log, NULL));
    spot_token_log_close(log);
    for (int i = 0; i < 3; i++) {
        struct spot_err err = { 0 };

        s_model = started_with[i];
        log = open_log(&seen, true, &damage, &err);
        ck_assert_int_eq(log != NULL, i < 2);
        if (log) {
            ck_assert(!seen.is_wrong && seen.n_model == 1 && !damage.n_cut && !damage.n_bad);
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
    struct spot_token_log_damage damage;
    struct seen seen;

    s_numerics = "q8 weights on CPUs";
    ck_assert_ptr_null(open_log(&seen, true, &damage, &err));
    s_numerics = told;
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "with fp32 weights on CPUs"));
    ck_assert_ptr_nonnull(strstr(err.msg, "cannot be continued with q8 weights on CPUs"));
    ck_assert_int_eq(seen.n_token, 0);
}
END_TEST

START_TEST(written_anew_it_has_what_was_put_last)
{
    struct seen seen;
    struct spot_token_log_damage damage;
    uint64_t before;
    struct spot_token_log *log = open_log(&seen, true, &damage, NULL);

    ck_assert_ptr_nonnull(log);
    before = spot_token_log_byte(log);
    ck_assert(!spot_token_log_replace(log, NULL));
    ck_assert_uint_lt(spot_token_log_byte(log), before);
    spot_token_log_close(log);
    log = open_log(&seen, true, &damage, NULL);
    ck_assert_ptr_nonnull(log);
    ck_assert(!seen.n_request && !seen.n_token && !damage.n_cut && !damage.n_bad);
    spot_token_log_close(log);
}
END_TEST

int main(void)
{
    TCase *const t = tcase_create("file");

    tcase_add_checked_fixture(t, set_up, tear_down);
    add_tests(t);
    return run_suite("token_log", t);
}
