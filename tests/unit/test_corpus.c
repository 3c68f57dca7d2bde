/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/hash.h"
#include "suite.h"
#include "text/corpus.h"

/* Goal: a corpus gives back the numbers that were written, of each width, from a file or a pipe,
 * at any place; a token outside the vocabulary, a torn file and a false header are refused with
 * the place; a file that shrinks is an error, not a crash. */

enum { N = 300001, HEADER = 1024 }; /* more than one block of the reader */

static uint32_t number(size_t i, int width)
{
    const uint32_t x = (uint32_t)(i * 2654435761U) >> 12;

    return width == 1 ? x & 0xFF : width == 2 ? x & 0xFFFF : x;
}

static void put(FILE *out, uint32_t x, int width)
{
    for (int k = 0; k < width; k++)
        putc((int)(x >> 8 * k & 0xFF), out);
}

/* A file of n numbers after `header` bytes of header that counts `count`. */
static void write_file(char path[32], size_t n, int width, int header, uint32_t count)
{
    FILE *out;
    int fd;

    strcpy(path, "/tmp/spot-corpus-XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    out = fdopen(fd, "w");
    for (int k = 0; k < header / 4; k++)
        put(out, k == 0 ? 20240520 : k == 1 ? 1 : k == 2 ? count : 0, 4);
    for (size_t i = 0; i < n; i++)
        put(out, number(i, width), width);
    fclose(out);
}

static void check_numbers(const struct spot_corpus *c, int width)
{
    static const size_t at[] = { 0, 1, 65535, 65537, N - 7, N };
    uint32_t token[7];

    ck_assert_uint_eq(c->n_token, N);
    for (size_t k = 0; k < 6; k++) {
        const size_t n = N - at[k] < 7 ? N - at[k] : 7;

        ck_assert_int_eq(spot_corpus_read(c, at[k], n, token, NULL), 0);
        for (size_t i = 0; i < n; i++)
            ck_assert_uint_eq(token[i], number(at[k] + i, width));
    }
}

START_TEST(a_file_and_a_pipe_give_the_numbers_that_were_written)
{
    static const char *const names[] = { "bytes", "u16", "u32" };
    char path[32], command[64];
    struct spot_corpus c;
    uint64_t seen[3];
    int width;

    ck_assert_int_eq(spot_corpus_kind("u8", &width, NULL), -1);
    for (int k = 0; k < 3; k++) {
        FILE *pipe;

        ck_assert_int_eq(spot_corpus_kind(names[k], &width, NULL), 0);
        ck_assert_int_eq(width, 1 << k);
        write_file(path, N, width, 0, 0);
        ck_assert_int_eq(spot_corpus_open(&c, path, width, 1 << 20, NULL), 0);
        ck_assert_ptr_null(c.memory);
        check_numbers(&c, width);
        seen[k] = c.xxh3;
        spot_corpus_release(&c);

        snprintf(command, sizeof(command), "cat %s", path);
        pipe = popen(command, "r");
        snprintf(command, sizeof(command), "/dev/fd/%d", fileno(pipe));
        ck_assert_int_eq(spot_corpus_open(&c, command, width, 1 << 20, NULL), 0);
        ck_assert_ptr_nonnull(c.memory);
        check_numbers(&c, width);
        ck_assert_uint_eq(c.xxh3, seen[k]);
        spot_corpus_release(&c);
        pclose(pipe);
        unlink(path);
    }
}
END_TEST

/* Parts of 0, 1, 5 and many tokens, the header of one skipped: as if it were one file. */
START_TEST(several_files_are_what_one_of_all_of_them_is)
{
    static const size_t size[] = { 5, 0, 200000, 1, N - 200006 };
    enum { PARTS = sizeof(size) / sizeof(size[0]) };
    char whole[32], part[PARTS][32];
    const char *path[PARTS];
    struct spot_corpus c, one;
    struct spot_err err = { 0 };

    for (int width = 1; width <= 4; width *= 2) {
        size_t from = 0;

        write_file(whole, N, width, 0, 0);
        for (int k = 0; k < PARTS; k++) {
            const bool has_header = width == 2 && size[k] == 200000;
            FILE *out;

            write_file(part[k], 0, width, has_header ? HEADER : 0, (uint32_t)size[k]);
            path[k] = part[k];
            out = fopen(part[k], "a");
            for (size_t i = 0; i < size[k]; i++)
                put(out, number(from++, width), width);
            fclose(out);
        }
        ck_assert_int_eq(spot_corpus_open(&one, whole, width, 1 << 20, NULL), 0);
        ck_assert_msg(!spot_corpus_open_all(&c, path, PARTS, NULL, width, 1 << 20, &err), "%s",
                      err.msg);
        ck_assert_uint_eq(c.xxh3, one.xxh3);
        check_numbers(&c, width);
        for (size_t at = 200000; at < 200008; at++) {
            uint32_t token[9], want[9];

            ck_assert_int_eq(spot_corpus_read(&c, at - 4, 9, token, NULL), 0);
            ck_assert_int_eq(spot_corpus_read(&one, at - 4, 9, want, NULL), 0);
            ck_assert_mem_eq(token, want, sizeof(want));
        }
        spot_corpus_release(&c);
        spot_corpus_release(&one);
        unlink(whole);
        for (int k = 0; k < PARTS; k++)
            unlink(part[k]);
    }
    path[0] = path[1] = "-";
    ck_assert_int_eq(spot_corpus_open_all(&c, path, 2, NULL, 1, 256, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    spot_corpus_release(&c);
}
END_TEST

/* The identity of a job of bytes is what it always was; another width is another job. */
START_TEST(the_hash_is_of_the_content_and_of_what_a_token_is)
{
    uint8_t *const want = malloc(2 * N);
    struct spot_corpus byte, pair;
    char path[32];

    write_file(path, N, 2, 0, 0);
    for (size_t i = 0; i < N; i++) {
        want[2 * i] = (uint8_t)number(i, 2);
        want[2 * i + 1] = (uint8_t)(number(i, 2) >> 8);
    }
    ck_assert_int_eq(spot_corpus_open(&byte, path, 1, 256, NULL), 0);
    ck_assert_int_eq(spot_corpus_open(&pair, path, 2, 65536, NULL), 0);
    ck_assert_uint_eq(byte.xxh3, spot_hash64(want, 2 * N));
    ck_assert_uint_ne(pair.xxh3, byte.xxh3);
    spot_corpus_release(&byte);
    spot_corpus_release(&pair);
    unlink(path);
    free(want);
}
END_TEST

START_TEST(a_header_is_skipped_and_a_false_one_refused)
{
    struct spot_corpus c;
    struct spot_err err;
    char path[32];

    write_file(path, N, 2, HEADER, N);
    ck_assert_int_eq(spot_corpus_open(&c, path, 2, 65536, &err), 0);
    check_numbers(&c, 2);
    spot_corpus_release(&c);
    unlink(path);
    write_file(path, N, 2, HEADER, N + 1);
    ck_assert_int_eq(spot_corpus_open(&c, path, 2, 65536, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "counts 300002 tokens, there are 300001"));
    spot_corpus_release(&c);
    unlink(path);
}
END_TEST

START_TEST(a_token_out_of_the_vocabulary_is_refused_with_its_place)
{
    for (int width = 1; width <= 4; width *= 2) {
        struct spot_corpus c;
        struct spot_err err;
        char path[32], want[128];
        uint32_t most = 0;
        size_t at = 0;

        for (size_t i = 0; i < N; i++)
            if (number(i, width) > most) {
                most = number(i, width);
                at = i;
            }
        write_file(path, N, width, 0, 0);
        ck_assert_int_eq(spot_corpus_open(&c, path, width, (int64_t)most + 1, &err), 0);
        spot_corpus_release(&c);
        ck_assert_int_eq(spot_corpus_open(&c, path, width, most, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        snprintf(want, sizeof(want), "token %zu (byte %zu) is %u, the vocabulary has %u", at,
                 at * (size_t)width, (unsigned)most, (unsigned)most);
        ck_assert_msg(strstr(err.msg, want) && strstr(err.msg, path), "%s", err.msg);
        spot_corpus_release(&c);
        unlink(path);
    }
}
END_TEST

START_TEST(what_is_torn_or_absent_or_shrinks_is_an_error)
{
    struct spot_corpus c;
    struct spot_err err;
    uint32_t token[4];
    char path[32];

    ck_assert_int_eq(spot_corpus_open(&c, "/tmp", 1, 256, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    spot_corpus_release(&c);
    write_file(path, 7, 1, 0, 0);
    ck_assert_int_eq(spot_corpus_open(&c, path, 2, 65536, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    spot_corpus_release(&c);
    ck_assert_int_eq(spot_corpus_open(&c, path, 1, 256, &err), 0);
    ck_assert_int_eq(truncate(path, 5), 0);
    ck_assert_int_eq(spot_corpus_read(&c, 1, 4, token, &err), 0);
    ck_assert_int_eq(spot_corpus_read(&c, 3, 4, token, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_ptr_nonnull(strstr(err.msg, "ends at byte 5"));
    spot_corpus_release(&c);
    unlink(path);
    ck_assert_int_eq(spot_corpus_open(&c, path, 1, 256, &err), -1);
    ck_assert_int_eq(err.code, SPOT_ESYS);
    spot_corpus_release(&c);
}
END_TEST

START_TEST(a_header_of_another_version_is_refused)
{
    struct spot_corpus c;
    struct spot_err err;
    char path[32], want[128];
    FILE *file;

    write_file(path, 7, 2, HEADER, 7);
    file = fopen(path, "r+");
    ck_assert_int_eq(fseek(file, 4, SEEK_SET), 0);
    put(file, 2, 4);
    fclose(file);
    ck_assert_int_eq(spot_corpus_open(&c, path, 2, 65536, &err), -1);
    snprintf(want, sizeof(want), "%s: token file of version 2, expected 1", path);
    ck_assert_str_eq(err.msg, want);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    spot_corpus_release(&c);
    unlink(path);
}
END_TEST

/* --- of texts --- */

static void write_text(char path[32], const char *text)
{
    int fd;

    strcpy(path, "/tmp/spot-corpus-XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void expect_tokens(const struct spot_corpus *c, const struct spot_tokens *want)
{
    uint32_t *const got = calloc(want->n, sizeof(*got));

    ck_assert_uint_eq(c->n_token, want->n);
    ck_assert_int_eq(spot_corpus_read(c, 0, want->n, got, NULL), 0);
    ck_assert_mem_eq(got, want->id, want->n * sizeof(*got));
    ck_assert_int_eq(spot_corpus_read(c, 3, 2, got, NULL), 0);
    ck_assert_mem_eq(got, want->id + 3, 2 * sizeof(*got));
    free(got);
}

/* From a file, from standard input, and the two as one; the same tokens in a file of numbers are
 * the same corpus. */
START_TEST(texts_become_the_tokens_that_their_tokenizer_makes)
{
    static const char *const text[2] = { "It is the first text, and it'll be read.\n",
                                         "The second\xC3\xA9 one.\n\n\n" };
    struct spot_bpe *const bpe = spot_bpe_open("tests/data/bpe", NULL);
    struct spot_tokens ids = { 0 }, first = { 0 };
    char path[3][32];
    const char *both[2] = { path[0], "-" }, *numbers = path[2];
    struct spot_corpus c;
    struct spot_err err = { 0 };
    uint64_t seen;
    FILE *out;

    ck_assert_ptr_nonnull(bpe);
    for (int k = 0; k < 2; k++) {
        write_text(path[k], text[k]);
        spot_bpe_encode(bpe, text[k], strlen(text[k]), true, &ids);
    }
    spot_bpe_encode(bpe, text[0], strlen(text[0]), true, &first);
    ck_assert_msg(!spot_corpus_open_all(&c, both, 1, bpe, 1, 0, &err), "%s", err.msg);
    expect_tokens(&c, &first);
    spot_corpus_release(&c);
    ck_assert_ptr_nonnull(freopen(path[1], "r", stdin));
    ck_assert_msg(!spot_corpus_open_all(&c, both, 2, bpe, 1, 0, &err), "%s", err.msg);
    expect_tokens(&c, &ids);
    seen = c.xxh3;
    spot_corpus_release(&c);
    write_text(path[2], "");
    out = fopen(path[2], "w");
    fwrite(ids.id, sizeof(*ids.id), ids.n, out);
    fclose(out);
    ck_assert_int_eq(spot_corpus_open_all(&c, &numbers, 1, NULL, 4, 1 << 20, &err), 0);
    ck_assert_uint_eq(c.xxh3, seen);
    spot_corpus_release(&c);
    for (int k = 0; k < 3; k++)
        unlink(path[k]);
    free(ids.id), free(first.id);
    spot_bpe_free(bpe);
}
END_TEST

START_TEST(a_text_that_is_not_there_and_an_input_twice_are_refused)
{
    static const char *const nowhere[] = { "/nowhere/text", "-", "-" };
    struct spot_bpe *const bpe = spot_bpe_of_bytes();
    struct spot_corpus c;
    struct spot_err err = { 0 };

    ck_assert_int_eq(spot_corpus_open_all(&c, nowhere, 1, bpe, 1, 0, &err), -1);
    ck_assert_str_eq(err.msg, "cannot open '/nowhere/text': No such file or directory");
    spot_corpus_release(&c);
    ck_assert_int_eq(spot_corpus_open_all(&c, nowhere, 3, bpe, 1, 0, &err), -1);
    ck_assert_str_eq(err.msg, "standard input can be read once, not 2 times");
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    spot_corpus_release(&c);
    ck_assert_int_eq(setenv("TMPDIR", "/nowhere", 1), 0);
    ck_assert_int_eq(
        spot_corpus_open_all(&c, (const char *const[]){ "/dev/null" }, 1, bpe, 1, 0, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "cannot make a file for tokens like '/nowhere/"));
    spot_corpus_release(&c);
    spot_bpe_free(bpe);
}
END_TEST

int main(void)
{
    return run_suite("corpus", add_tests(tcase_create("core")));
}
