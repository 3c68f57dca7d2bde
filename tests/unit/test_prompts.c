/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "byte_level_rig.h"
#include "common/json.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "serve/front.h"
#include "serve/openai_state.h"
#include "suite.h"

/* Goal: several prompts of one request are so many requests in one; a prompt that is echoed has the
 * log probabilities of its tokens; places in a text are counted in characters. */

static struct spot_bpe *bpe;
static struct spot_vocabulary vocabulary;
static const uint32_t end_token = 'E', begin_token = 'B';

static void setup(void)
{
    bpe = spot_bpe_of_bytes();
    vocabulary = (struct spot_vocabulary){ .bpe = bpe, .end = &end_token, .n_end = 1 };
}

static void teardown(void)
{
    spot_bpe_free(bpe);
}

static struct spot_front_options options(void)
{
    return (struct spot_front_options){
        .model = "m", .vocabulary = &vocabulary, .n_context = 64, .n_vocabulary = 256
    };
}

static struct spot_request parsed(const char *body)
{
    const struct spot_front_options o = options();
    struct spot_request r;
    struct spot_buf error = { 0 };
    const int status = spot_openai_parse(&o, false, body, strlen(body), &r, &error);

    spot_buf_add(&error, "", 1);
    ck_assert_msg(!status, "%s: %s", body, (char *)error.data);
    spot_buf_release(&error);
    return r;
}

static void check_part(const struct spot_request *r, uint32_t choice, const char *prompt,
                       uint32_t choice_of_part)
{
    uint32_t k;
    const struct spot_request part = spot_request_part(r, choice, &k);

    ck_assert_uint_eq(k, choice_of_part);
    ck_assert_uint_eq(part.n_prompt, strlen(prompt));
    for (size_t i = 0; i < part.n_prompt; i++)
        ck_assert_uint_eq(part.prompt[i], (uint8_t)prompt[i]);
    ck_assert(!part.n_part && !part.part_end);
}

/* --- several prompts -------------------------------------------------------------- */

START_TEST(several_prompts_are_so_many_requests)
{
    static const char *const body[] = {
        "{\"model\":\"m\",\"n\":2,\"seed\":3,\"prompt\":[\"a\",\"bcd\"]}",
        "{\"model\":\"m\",\"n\":2,\"seed\":3,\"prompt\":[[97],[98,99,100]]}",
        "{\"model\":\"m\",\"n\":2,\"prompt\":[\"a\",\"bcd\"]}",
    };
    struct spot_request r = parsed(body[_i]);
    struct spot_buf bytes = { 0 };
    struct spot_request got;
    struct spot_wire_in in;

    spot_request_put(&r, &bytes);
    spot_request_release(&r);
    in = spot_wire_in(bytes.data, bytes.n);
    ck_assert_int_eq(spot_request_get(&got, &in), 0);
    ck_assert_uint_eq(got.n_choice, 4);
    check_part(&got, 0, "a", 0);
    check_part(&got, 1, "a", 1);
    check_part(&got, 2, "bcd", _i < 2 ? 0 : 2); /* with a seed as if it were alone */
    check_part(&got, 3, "bcd", _i < 2 ? 1 : 3);
    spot_request_release(&got);
    for (size_t n = 0; n < bytes.n; n++) {
        in = spot_wire_in(bytes.data, n);
        ck_assert_int_eq(spot_request_get(&got, &in), -1);
    }
    spot_buf_release(&bytes);
}
END_TEST

START_TEST(one_prompt_in_an_array_is_one_prompt)
{
    struct spot_request r = parsed("{\"model\":\"m\",\"n\":2,\"prompt\":[\"ab\"]}");

    ck_assert_uint_eq(r.n_choice, 2);
    check_part(&r, 1, "ab", 1);
    spot_request_release(&r);
}
END_TEST

START_TEST(what_a_tokenizer_puts_before_a_text_is_before_each)
{
    struct spot_request r;

    vocabulary.begin = &begin_token;
    vocabulary.n_begin = 1;
    r = parsed("{\"model\":\"m\",\"prompt\":[\"a\",\"\"]}");
    check_part(&r, 0, "Ba", 0);
    check_part(&r, 1, "B", 1);
    spot_request_release(&r);
    r = parsed("{\"model\":\"m\",\"prompt\":[97]}"); /* tokens are what they are */
    check_part(&r, 0, "a", 0);
    spot_request_release(&r);
    r = parsed("{\"model\":\"m\",\"prompt\":\"a\",\"add_special_tokens\":false}");
    check_part(&r, 0, "a", 0);
    spot_request_release(&r);
    vocabulary.n_begin = 0;
}
END_TEST

/* --- what is told ------------------------------------------------------------------ */

static struct spot_completion *completed(const char *body, const char *const *tokens)
{
    struct spot_request r = parsed(body);
    struct spot_completion *const c = spot_completion_new(&r, &vocabulary);

    for (uint32_t i = 0; i < c->request.n_choice; i++)
        for (size_t k = 0; tokens[i][k]; k++) {
            const struct spot_token t = { .id = (uint8_t)tokens[i][k], .logprob = -1 - (double)k };

            ck_assert_int_eq(spot_completion_append(c, i, k, &t), 0);
        }
    ck_assert_uint_eq(c->n_open, 0);
    return c;
}

/* A member of the first choice's logprobs, as it is written. */
static void check_member(const char *text, const char *key, const char *want)
{
    char name[32];
    const char *at;

    snprintf(name, sizeof(name), "\"%s\":", key);
    at = strstr(text, name);
    ck_assert_msg(at && !strncmp(at + strlen(name), want, strlen(want)), "%s of %s", key, text);
}

static char *answer_of(const struct spot_completion *c)
{
    const struct spot_front_options o = options();
    struct spot_buf out = { 0 };

    spot_openai_answer(&o, c, &out);
    spot_buf_add(&out, "", 1);
    return (char *)out.data;
}

START_TEST(a_prompt_that_is_echoed_has_its_log_probabilities)
{
    struct spot_completion *const c =
        completed("{\"model\":\"m\",\"prompt\":\"x\\u00e4E\",\"echo\":true,\"logprobs\":0,\"max_"
                  "tokens\":2,\"stop\":\"x\"}",
                  (const char *const[]){ "\xC3\xA4"
                                         "Eab" });
    char *const text = answer_of(c);

    check_member(text, "text",
                 "\"x\xC3\xA4"
                 "Eab\"");
    check_member(text, "token_logprobs", "[null,-1,-2,-3,-4,-5]");
    check_member(text, "text_offset", "[0,1,1,2,3,4]"); /* the two bytes are one character */
    check_member(text, "finish_reason", "\"length\"");
    check_member(text, "completion_tokens", "2");
    check_member(text, "prompt_tokens", "4");
    free(text);
    spot_completion_unref(c);
}
END_TEST

START_TEST(an_echo_alone_says_the_prompt)
{
    struct spot_completion *c = completed(
        "{\"model\":\"m\",\"prompt\":\"xyz\",\"echo\":true,\"logprobs\":0,\"max_tokens\":0}",
        (const char *const[]){ "yz" });
    char *text = answer_of(c);

    check_member(text, "text", "\"xyz\"");
    check_member(text, "token_logprobs", "[null,-1,-2]");
    check_member(text, "completion_tokens", "0");
    free(text);
    spot_completion_unref(c);
    c = completed("{\"model\":\"m\",\"prompt\":\"xyz\",\"echo\":true,\"max_tokens\":0}",
                  (const char *const[]){ "" });
    text = answer_of(c);
    check_member(text, "text", "\"xyz\"");
    free(text);
    spot_completion_unref(c);
}
END_TEST

/* What a client writes of a chat's markup is tokens, and comes back as it was written. */
START_TEST(a_prompt_names_special_tokens_and_its_echo_too)
{
    struct spot_completion *c;
    char *text;

    vocabulary.bpe = bpe_with_special();
    vocabulary.begin = (const uint32_t[]){ 'B' };
    vocabulary.n_begin = 1;
    c = completed("{\"model\":\"m\",\"prompt\":\"x<|end|>y\",\"echo\":true,\"logprobs\":0,"
                  "\"max_tokens\":0}",
                  (const char *const[]){ "x<y" });
    ck_assert_uint_eq(c->request.n_prompt, 4);
    ck_assert_uint_eq(c->request.prompt[0], 'B');
    ck_assert_uint_eq(c->request.prompt[2], 256);
    c->choice[0].token[1].id = 256;
    text = answer_of(c);
    check_member(text, "text", "\"x<|end|>y\"");
    check_member(text, "tokens", "[\"B\",\"x\",\"<|end|>\",\"y\"]");
    check_member(text, "text_offset", "[0,0,1,8]");
    free(text);
    spot_completion_unref(c);
    spot_bpe_free(vocabulary.bpe);
    vocabulary.bpe = bpe;
    vocabulary.n_begin = 0;
}
END_TEST

START_TEST(each_choice_echoes_its_own_prompt)
{
    struct spot_completion *const c =
        completed("{\"model\":\"m\",\"prompt\":[\"x\",\"yz\"],\"echo\":true,\"max_tokens\":1}",
                  (const char *const[]){ "a", "b" });
    char *const text = answer_of(c);

    check_member(text, "text", "\"xa\"");
    ck_assert_ptr_nonnull(strstr(text, "\"text\":\"yzb\",\"index\":1"));
    check_member(text, "prompt_tokens", "3");
    free(text);
    spot_completion_unref(c);
}
END_TEST

START_TEST(places_are_counted_in_characters)
{
    struct spot_completion *const c =
        completed("{\"model\":\"m\",\"prompt\":\"x\",\"logprobs\":0,\"max_tokens\":4}",
                  (const char *const[]){ "\xC3\xA4"
                                         "bc" });
    char *const text = answer_of(c);

    check_member(text, "text_offset", "[0,0,1,2]");
    free(text);
    spot_completion_unref(c);
}
END_TEST

/* Of few, which are parts of characters and of none. */
static uint32_t random_byte(struct spot_rng *rng)
{
    static const uint8_t sign[] = { 'a', 'b', 0xC3, 0xA4, 0xE2, 0x82, 0xAC, 0xFF, 'E' };

    return sign[spot_rng_below(rng, sizeof(sign))];
}

/* A text of the first n ids, without an end. */
static uint32_t characters_of(const uint32_t *id, size_t n, bool is_end)
{
    struct spot_detokenizer d;
    struct spot_buf text = { 0 };
    uint32_t count = 0;

    spot_detok_init(&d, bpe, false, false);
    for (size_t i = 0; i < n; i++)
        spot_detok_push(&d, id[i], &text);
    if (is_end)
        spot_detok_end(&d, &text);
    for (size_t i = 0; i < text.n; i++)
        count += (text.data[i] & 0xC0) != 0x80;
    spot_detok_release(&d);
    spot_buf_release(&text);
    return count;
}

static void check_offsets(struct spot_rng *rng)
{
    const size_t n_prompt = 1 + spot_rng_below(rng, 20), n = spot_rng_below(rng, 20);
    const bool does_echo = spot_rng_below(rng, 2);
    const size_t n_echo = does_echo ? n_prompt - 1 : 0;
    struct spot_request r = { .id = "cmpl-1", .n_choice = 1, .n_token_max = (int64_t)n };
    struct spot_completion *c;
    uint32_t id[64];

    r.prompt = spot_xcalloc(n_prompt, sizeof(*r.prompt));
    for (r.n_prompt = 0; r.n_prompt < n_prompt; r.n_prompt++)
        r.prompt[r.n_prompt] = random_byte(rng);
    r.does_echo = does_echo;
    r.ignores_end = true;
    c = spot_completion_new(&r, &vocabulary);
    for (size_t i = 0; c->n_open; i++) {
        const struct spot_choice *const h = &c->choice[0];
        const uint32_t *const prompt = c->request.prompt;
        struct spot_token t = { .id = i < n_echo ? prompt[i + 1] : random_byte(rng) };

        ck_assert_int_eq(spot_completion_append(c, 0, i, &t), 0);
        id[i] = t.id;
        ck_assert_uint_eq(h->offset[i],
                          i < n_echo ? characters_of(prompt, i + 1, false)
                                     : (does_echo ? characters_of(prompt, n_prompt, true) : 0) +
                                           characters_of(id + n_echo, i - n_echo, false));
    }
    spot_completion_unref(c);
}

START_TEST(a_token_begins_behind_the_characters_before_it)
{
    struct spot_rng rng;

    spot_rng_init(&rng, (uint64_t)_i, 1);
    for (int k = 0; k < 2000; k++)
        check_offsets(&rng);
}
END_TEST

START_TEST(an_end_token_that_is_ignored_ends_nothing)
{
    struct spot_completion *const c =
        completed("{\"model\":\"m\",\"prompt\":\"x\",\"ignore_eos\":true,\"max_tokens\":3}",
                  (const char *const[]){ "aEb" });
    char *const text = answer_of(c);

    check_member(text, "finish_reason", "\"length\"");
    check_member(text, "completion_tokens", "3");
    free(text);
    spot_completion_unref(c);
}
END_TEST

START_TEST(what_was_given_up_has_no_finish_reason)
{
    const struct spot_front_options o = options();
    struct spot_request r = parsed("{\"model\":\"m\",\"prompt\":\"x\",\"stream\":true}");
    struct spot_completion *const c = spot_completion_new(&r, &vocabulary);
    const struct spot_token t = { .id = 'a' };
    struct spot_buf chunk = { 0 };

    ck_assert_int_eq(spot_completion_append(c, 0, 0, &t), 0);
    spot_completion_finish(c, 0, SPOT_FINISH_CANCELLED);
    spot_openai_chunk(&o, c, 0, 0, false, NULL, &chunk);
    spot_buf_add(&chunk, "", 1);
    check_member((char *)chunk.data, "finish_reason", "null");
    spot_buf_release(&chunk);
    spot_completion_unref(c);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("prompts");

    tcase_add_unchecked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, several_prompts_are_so_many_requests, 0, 3);
    tcase_add_loop_test(c, a_token_begins_behind_the_characters_before_it, 0, 2);
    add_tests(c);
    return run_suite("prompts", c);
}
