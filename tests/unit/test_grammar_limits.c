/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L /* stpcpy */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "large_vocabulary.h"
#include "serve/grammar.h"
#include "suite.h"

/* Goal: what a schema must not say is refused by the place and the word; what a pattern may say
 * beyond the C library's, a schema without a type, and tuples mean what JSON Schema says. Quotes in
 * the tables are single ones: a schema has none of its own. */

static struct spot_bpe *bpe;
static struct spot_grammar_words *words;

static char *quoted(const char *text)
{
    char *const copy = spot_xstrdup(text);

    for (char *c = copy; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    return copy;
}

static struct spot_grammar *read_schema(const char *text, struct spot_err *err)
{
    char *const schema = quoted(text);
    struct spot_grammar *const g = spot_grammar_new(schema, strlen(schema), words, err);

    free(schema);
    return g;
}

static bool accepts(struct spot_grammar *g, const char *text)
{
    struct spot_grammar_state *const s = spot_grammar_begin(g);
    char *const value = quoted(text);
    size_t i = 0;
    bool is_whole;

    while (value[i] && !spot_grammar_push(s, (uint8_t)value[i]))
        i++;
    is_whole = !value[i] && spot_grammar_may_end(s);
    spot_grammar_end(s);
    free(value);
    return is_whole;
}

/* --- what means something ---------------------------------------------------------- */

static const struct {
    const char *schema, *yes[4], *no[4];
} row[] = {
    { "{'pattern':'^\\\\d{2}-\\\\D$'}", { "'07-x'", "'99-_'" }, { "'7-x'", "'07-8'", "7" } },
    { "{'pattern':'^\\\\w+\\\\s\\\\W$'}",
      { "'a_Z9 !'", "'x -'" },
      { "'a-b !'", "'a !!'", "' !'" } },
    { "{'pattern':'^[\\\\d.]+\\\\S$'}", { "'1.2x'", "'..'" }, { "'1.2 '", "'x'" } },
    { "{'pattern':'^[^a-m]b?$'}", { "'zb'", "'n'" }, { "'ab'", "'m'" } },
    { "{'pattern':'^[a-mc-z]$'}", { "'d'", "'z'" }, { "'A'", "'dd'" } },
    { "{'pattern':'^(?:ab){2,}?$'}", { "'abab'", "'ababab'" }, { "'ab'", "'aba'" } },
    { "{'pattern':'b'}", { "'b'", "'abc'" }, { "'ac'" } },
    { "{'properties':{'a':true},'required':['a']}", { "{'a':[1]}", "{'a':{}}" }, { "{}", "1" } },
    { "{'additionalProperties':{'type':'null'}}", { "{}", "{'x':null}" }, { "{'x':1}" } },
    { "{'items':{'type':'null'},'maxItems':1}", { "[]", "[null]" }, { "[null,null]", "{}" } },
    { "{'minLength':2}", { "'ab'" }, { "'a'", "2" } },
    { "{'type':'array'}", { "[]", "[1,'a',{}]" }, { "{}" } },
    { "{'anyOf':[{'title':'anything'}]}", { "1", "{'a':1}" }, { "a" } },
    { "{'prefixItems':[{'const':1},{'const':2}],'items':false}",
      { "[1,2]" },
      { "[1]", "[1,2,3]" } },
    { "{'enum':[1,2.5,'a',[],{},true,null],'type':['string','array','boolean']}",
      { "'a'", "[]", "true" },
      { "1", "{}", "null" } },
    { "{'enum':[1,2.5,'a',{},null],'type':'number'}", { "1", "2.5" }, { "'a'", "null" } },
    { "{'enum':[1,{},null],'type':'object'}", { "{}" }, { "1", "null" } },
    { "{'enum':[1,{},null],'type':'null'}", { "null" }, { "1" } },
    { "{'$ref':'#/$defs/a~1b~0c','$defs':{'a/b~c':{'const':7}}}", { "7" }, { "8" } },
    { "{'type':'integer','exclusiveMinimum':1,'exclusiveMaximum':4}", { "2", "3" }, { "1", "4" } },
};

START_TEST(a_table_of_texts)
{
    struct spot_err err = { 0 };
    struct spot_grammar *const g = read_schema(row[_i].schema, &err);

    ck_assert_msg(g, "%s: %s", row[_i].schema, err.msg);
    for (size_t k = 0; k < 4 && row[_i].yes[k]; k++)
        ck_assert_msg(accepts(g, row[_i].yes[k]), "%s refuses %s", row[_i].schema, row[_i].yes[k]);
    for (size_t k = 0; k < 4 && row[_i].no[k]; k++)
        ck_assert_msg(!accepts(g, row[_i].no[k]), "%s takes %s", row[_i].schema, row[_i].no[k]);
    spot_grammar_free(g);
}
END_TEST

/* --- what is refused ----------------------------------------------------------------- */

static const char *const refused[][2] = {
    { "{'pattern':'\\\\b'}", "has an escape that is not supported" },
    { "{'pattern':'[ab'}", "has a class without an end" },
    { "{'pattern':'(ab'}", "has a group without an end" },
    { "{'pattern':'a**'}", "has a character in a place where it is not supported" },
    { "{'pattern':'a)'}", "has a character in a place where it is not supported" },
    { "{'pattern':'a{x}'}", "has a repetition that is not supported" },
    { "{'pattern':'a{3,2}'}", "has a repetition that is not supported" },
    { "{'pattern':'a{99999}'}", "has a repetition that is not supported" },
    { "{'pattern':'^a|b$'}", "has ^ or $ and alternatives outside a group" },
    { "{'enum':[1],'const':1}", "enum and const together are not supported" },
    { "{'type':'string','minLength':-1}", "minLength must be an integer of 0 to 65535" },
    { "{'type':'array','maxItems':'1'}", "maxItems must be an integer of 0 to 65535" },
    { "{'type':'integer','minimum':0.5}", "minimum of an integer must be an integer of at most" },
    { "{'type':'integer','exclusiveMaximum':4611686018427387904}",
      "exclusiveMaximum of an integer" },
    { "{'type':'string','pattern':1}", "pattern and format must be texts" },
    { "{'pattern':'a','format':'date'}", "pattern and format together are not supported" },
    { "{'pattern':'a','minLength':1}", "a length beside pattern or format is not supported" },
    { "{'prefixItems':[true,true],'maxItems':1}", "maxItems below the number of prefixItems" },
    { "{'prefixItems':[true],'items':false,'minItems':2}", "no text is valid under this schema" },
    { "{'items':[true]}", "items as an array is not supported" },
    { "{'type':'object','required':1}", "required must be an array of texts" },
    { "{'type':'object','required':[1]}", "required must be an array of texts" },
    { "{'type':'object','properties':[]}", "properties must be an object" },
    { "{'type':'object','additionalProperties':1}", "additionalProperties must be true, false" },
    { "{'type':[]}", "type must be a name or an array of names" },
    { "{'type':[1]}", "type must be a name or an array of names" },
    { "{'anyOf':{}}", "anyOf must be an array of schemas" },
    { "{'$ref':1}", "$ref must be a text" },
    { "{'anyOf':[true],'type':'null'}",
      "type beside anyOf, oneOf, allOf or $ref is not supported" },
    { "{'allOf':[true,true]}", "allOf of more than one schema is not supported" },
    { "{'minimum':1}", "type is missing" },
    { "{'items':1}", "a schema must be an object, true or false" },
};

static void expect_refused(const char *schema, const char *why)
{
    struct spot_err err = { 0 }, first = { 0 };
    char *const text = quoted(schema);

    ck_assert_ptr_null(read_schema(schema, &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(strstr(err.msg, why), "%s: %s", schema, err.msg);
    ck_assert_int_eq(spot_grammar_check(text, strlen(text), &first), -1);
    ck_assert_str_eq(first.msg, err.msg);
    free(text);
}

START_TEST(what_must_not_be_said_is_named)
{
    expect_refused(refused[_i][0], refused[_i][1]);
}
END_TEST

/* A text n times between a start and an end. */
static char *repeated(const char *start, const char *text, int n, const char *end)
{
    char *const all = spot_xcalloc(strlen(start) + (size_t)n * strlen(text) + strlen(end) + 1, 1);
    char *at = stpcpy(all, start);

    for (int i = 0; i < n; i++)
        at = stpcpy(at, text);
    strcpy(at, end);
    return all;
}

static const struct {
    const char *start, *text;
    int n;
    const char *end, *why;
} large[] = {
    { "{'pattern':'", "(", 1000, "a'}", "is nested too deeply" },
    { "{'pattern':'", "a", 70000, "'}", "is too long" },
    { "{'pattern':'[", "\\\\w", 200, "]'}", "has a class of too many ranges" },
    { "{'type':'object','properties':{'", "k", 300, "':true}}", "a key of more than 256 bytes" },
    { "{'const':'", "0123456789", 30000, "'}", "the schema is too large" },
};

START_TEST(what_is_too_large_is_named)
{
    char *const schema = repeated(large[_i].start, large[_i].text, large[_i].n, large[_i].end);

    expect_refused(schema, large[_i].why);
    free(schema);
}
END_TEST

START_TEST(more_properties_than_are_supported_are_refused)
{
    char *const schema = spot_xcalloc(32 * 600, 1);
    char *at = stpcpy(schema, "{'type':'object','properties':{");

    for (int i = 0; i < 513; i++)
        at += sprintf(at, "%s'p%d':true", i ? "," : "", i);
    strcpy(at, "}}");
    expect_refused(schema, "more than 512 properties are not supported");
    free(schema);
}
END_TEST

/* --- what takes too much ------------------------------------------------------------- */

static struct spot_grammar_words *many_words;

static void open_large(void)
{
    struct spot_err err = { 0 };
    struct spot_bpe *const many = large_vocabulary(0, &err);

    ck_assert_msg(many != NULL, "%s", err.msg);
    many_words = spot_grammar_words_new(many);
    spot_bpe_free(many);
}

static void close_large(void)
{
    spot_grammar_words_free(many_words);
}

static int mask(struct spot_grammar_state *s)
{
    enum { N = LARGE_WORDS };
    float *const logit = spot_xcalloc(N, sizeof(*logit));
    const int rc = spot_grammar_mask(s, NULL, 0, logit, N);

    free(logit);
    return rc;
}

/* The first place in a text whose mask is too much, with masks at all places before or at none of
 * them; the length of the text: there is none. */
static size_t too_much_at(const char *schema, const char *text, size_t known)
{
    struct spot_err err = { 0 };
    struct spot_grammar *const g = spot_grammar_new(schema, strlen(schema), many_words, &err);
    struct spot_grammar_state *s;
    size_t at = 0;

    ck_assert_msg(g != NULL, "%s: %s", schema, err.msg);
    s = spot_grammar_begin(g);
    while (at < strlen(text) && (at < known || !mask(s)))
        ck_assert_int_eq(spot_grammar_push(s, (uint8_t)text[at++]), 0);
    spot_grammar_end(s);
    spot_grammar_free(g);
    return at;
}

/* 26 loops, each of which may have begun at each letter, and be at each count. */
static char *overlapping(int max)
{
    char *const schema = spot_xcalloc(1024, 1);
    char *at = stpcpy(schema, "{\"pattern\":\"^(");

    for (char c = 'a'; c <= 'z'; c++)
        at += sprintf(at, "%s(.*%c.{0,%d})*", c > 'a' ? "|" : "", c, max);
    strcpy(at, ")*$\"}");
    return schema;
}

/* What was found before, here or by a replica that has it no more, makes no difference. */
START_TEST(repetitions_that_overlap_too_much_are_given_up_by_the_text_alone)
{
    static const int max[] = { 60000, 600, 60 };
    static const char text[] = "\"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
    char *const schema = overlapping(max[_i]);
    const size_t at = too_much_at(schema, text, 0);

    ck_assert_uint_lt(at, strlen(text));
    ck_assert_uint_gt(at, 0);
    ck_assert_uint_eq(too_much_at(schema, text, at), at);
    ck_assert_uint_gt(too_much_at(schema, text, at + 1), at);
    free(schema);
}
END_TEST

static const struct {
    const char *schema, *text;
} usual[] = {
    { "{'type':'object'}", "{'ab':[1,{'c':'def'}],'x':1.5e3}" },
    { "{'type':'string','maxLength':60000}", "'abcd efgh" },
    { "{'type':'string','minLength':50,'maxLength':100}", "'abcd efgh" },
    { "{'pattern':'^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\\\\.[a-zA-Z]{2,63}$'}",
      "'ab.cd@gh.i.jk.com'" },
    { "{'pattern':'abc'}", "'xxabxabcxx'" },
    { "{'pattern':'^([a-z]{1,20} ){0,50}[a-z]{1,20}$'}", "'abc def ghi jkl'" },
    { "{'pattern':'^.*a.{0,1000}$'}",
      "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" },
    { "{'anyOf':[{'type':'string','maxLength':100},{'type':'string','minLength':3},"
      "{'pattern':'^a.*b$'}]}",
      "'abcdefgh" },
    { "{'items':{'properties':{'a':{'type':['string','null']},'b':{'type':'number'}},"
      "'additionalProperties':true}}",
      "[{'a':'xy','b':1.5,'c':[{}]}" },
};

START_TEST(what_people_write_is_far_from_too_much)
{
    char *const schema = quoted(usual[_i].schema), *const text = quoted(usual[_i].text);

    ck_assert_uint_eq(too_much_at(schema, text, 0), strlen(text));
    free(schema);
    free(text);
}
END_TEST

START_TEST(a_schema_is_bounded_in_bytes)
{
    char *const schema = spot_xcalloc(SPOT_GRAMMAR_SCHEMA_MAX + 32, 1);
    struct spot_err err = { 0 };

    strcpy(schema, "{\"type\":\"null\"}");
    memset(schema + strlen(schema), ' ', SPOT_GRAMMAR_SCHEMA_MAX - strlen(schema));
    ck_assert_msg(!spot_grammar_check(schema, SPOT_GRAMMAR_SCHEMA_MAX, &err), "%s", err.msg);
    schema[SPOT_GRAMMAR_SCHEMA_MAX] = ' ';
    ck_assert_int_eq(spot_grammar_check(schema, SPOT_GRAMMAR_SCHEMA_MAX + 1, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "the schema is too large: 131073 bytes, 131072 at most"));
    free(schema);
}
END_TEST

START_TEST(grammars_that_are_idle_are_taken_again)
{
    struct spot_grammar_pool *const pool = spot_grammar_pool_new(bpe);
    struct spot_err err = { 0 };
    struct spot_grammar *const first = spot_grammar_pool_take(pool, "{}", &err);
    struct spot_grammar *const second = spot_grammar_pool_take(pool, "{}", &err);
    char schema[64];

    ck_assert_ptr_ne(first, second); /* each is one choice's at a time */
    spot_grammar_pool_give_back(pool, "{}", first);
    ck_assert_ptr_eq(spot_grammar_pool_take(pool, "{}", &err), first);
    spot_grammar_pool_give_back(pool, "{}", first);
    spot_grammar_pool_give_back(pool, "{}", second);
    for (int i = 0; i < 20; i++) {
        snprintf(schema, sizeof(schema), "{\"const\":%d}", i);
        spot_grammar_pool_give_back(pool, schema, spot_grammar_pool_take(pool, schema, &err));
    }
    ck_assert_ptr_null(spot_grammar_pool_take(pool, "{\"type\":1}", &err));
    spot_grammar_pool_free(pool);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("grammar_limits");

    bpe = spot_bpe_of_bytes();
    words = spot_grammar_words_new(bpe);
    tcase_add_loop_test(tc, a_table_of_texts, 0, (int)(sizeof(row) / sizeof(*row)));
    tcase_add_loop_test(tc, what_must_not_be_said_is_named, 0,
                        (int)(sizeof(refused) / sizeof(*refused)));
    tcase_add_loop_test(tc, what_is_too_large_is_named, 0, (int)(sizeof(large) / sizeof(*large)));
    tcase_add_unchecked_fixture(tc, open_large, close_large);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, repetitions_that_overlap_too_much_are_given_up_by_the_text_alone, 0, 3);
    tcase_add_loop_test(tc, what_people_write_is_far_from_too_much, 0,
                        (int)(sizeof(usual) / sizeof(*usual)));
    add_tests(tc);
    return run_suite("grammar_limits", tc);
}
