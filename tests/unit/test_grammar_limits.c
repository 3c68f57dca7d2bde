/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L /* stpcpy */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "serve/grammar.h"
#include "suite.h"

/* Goal: what a schema must not say is refused by the place and the word; what a pattern may say
 * beyond the C library's, a schema without a type, and tuples mean what JSON Schema says. Quotes in
 * the tables are single ones: a schema has none of its own. */

static struct spot_bpe *bpe;

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
    struct spot_grammar *const g = spot_grammar_new(schema, strlen(schema), bpe, err);

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
    struct spot_err err = { 0 };

    ck_assert_ptr_null(read_schema(schema, &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(strstr(err.msg, why), "%s: %s", schema, err.msg);
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

int main(void)
{
    TCase *const tc = tcase_create("grammar_limits");

    bpe = spot_bpe_of_bytes();
    tcase_add_loop_test(tc, a_table_of_texts, 0, (int)(sizeof(row) / sizeof(*row)));
    tcase_add_loop_test(tc, what_must_not_be_said_is_named, 0,
                        (int)(sizeof(refused) / sizeof(*refused)));
    tcase_add_loop_test(tc, what_is_too_large_is_named, 0, (int)(sizeof(large) / sizeof(*large)));
    tcase_add_test(tc, more_properties_than_are_supported_are_refused);
    return run_suite("grammar_limits", tc);
}
