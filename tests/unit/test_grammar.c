/* SPDX-License-Identifier: MIT */
#include <jansson.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/utf8.h"
#include "serve/grammar.h"
#include "suite.h"

/* Goal: what a grammar lets through is what the schema allows: texts that come out of random walks
 * are judged by a validator that works on parsed JSON, texts that go in by tables, by all
 * integers of a range, and by the C library's regular expressions. */

enum { V = 262, WALKS = 100, TEXT_MAX = 1 << 16 };

static struct spot_grammar_words *words;
static struct spot_bpe *bpe; /* the bytes, some longer tokens, one that is special at the end */

/* GPT-2's printable stand-ins for bytes, as UTF-8 in JSON. */
static size_t stand_in(int byte, char *out)
{
    uint32_t code = (uint32_t)byte, n = 0;

    if (!((byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE)) {
        for (int b = 0; b < byte; b++)
            n += !((b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE);
        code = 256 + n;
    }
    if (code == '"' || code == '\\') {
        out[0] = '\\';
        out[1] = (char)code;
        return 2;
    }
    return spot_utf8_put(code, out);
}

static void setup(void)
{
    static const char merges[] = "n u\nl l\nnu ll\n\" :\n\" }\n{ \"\n";
    static const char more[] =
        ",\"nu\":256,\"ll\":257,\"null\":258,\"\\\":\":259,\"\\\"}\":260,\"{\\\"\":261}";
    char vocab[8192];
    size_t n = 0;

    vocab[n++] = '{';
    for (int b = 0; b < 256; b++) {
        n += (size_t)sprintf(vocab + n, "%s\"", b ? "," : "");
        n += stand_in(b, vocab + n);
        n += (size_t)sprintf(vocab + n, "\":%d", b);
    }
    n += (size_t)sprintf(vocab + n, "%s", more);
    bpe = spot_bpe_of_vocab(vocab, n, "v", merges, sizeof(merges) - 1, "m", NULL);
    ck_assert_ptr_nonnull(bpe);
    ck_assert_int_eq(spot_bpe_vocab(bpe), V);
    words = spot_grammar_words_new(bpe);
}

static void teardown(void)
{
    spot_grammar_words_free(words);
    spot_bpe_free(bpe);
}

static struct spot_grammar *grammar(const char *schema)
{
    struct spot_err err = { 0 };
    struct spot_grammar *const g = spot_grammar_new(schema, strlen(schema), words, &err);

    ck_assert_msg(g != NULL, "%s: %s", schema, err.msg);
    return g;
}

/* How many bytes of the text come through; *may_end after them. */
static size_t taken(struct spot_grammar *g, const char *text, size_t n, bool *may_end)
{
    struct spot_grammar_state *const s = spot_grammar_begin(g);
    size_t i = 0;

    while (i < n && !spot_grammar_push(s, (uint8_t)text[i]))
        i++;
    *may_end = spot_grammar_may_end(s);
    spot_grammar_end(s);
    return i;
}

static bool accepts(struct spot_grammar *g, const char *text)
{
    bool may_end;

    return taken(g, text, strlen(text), &may_end) == strlen(text) && may_end;
}

/* --- tables ----------------------------------------------------------------- */

static const struct {
    const char *schema, *yes[8], *no[8]; /* or a form */
} row[] = {
    { "{}", { "{}", "{\"a\":[1,{\"b\":null}]}" }, { "[]", "1", "{ }", "{\"a\"}", "{\"a\":1,}" } },
    { "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"},\"s\":{\"type\":"
      "\"string\","
      "\"maxLength\":2}},\"required\":[\"n\"],\"additionalProperties\":false}",
      { "{\"n\":0}", "{\"n\":-7,\"s\":\"\"}", "{\"n\":12,\"s\":\"a\xC3\xA4\"}",
        "{\"n\":1,\"s\":\"\\n\\u00e4\"}" },
      { "{}", "{\"s\":\"\"}", "{\"n\":01}", "{\"n\":1,\"s\":\"abc\"}", "{\"n\":1.0}",
        "{\"n\":1,\"x\":1}", "{\"s\":\"\",\"n\":1}", "{\"n\":1,}" } },
    { "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"boolean\"},"
      "\"c\":{\"const\":1}}}",
      { "{}", "{\"a\":null}", "{\"b\":true}", "{\"c\":1}", "{\"a\":null,\"c\":1}",
        "{\"a\":null,\"b\":false,\"c\":1}" },
      { "{\"b\":true,\"a\":null}", "{\"c\":2}", "{,\"c\":1}" } },
    { "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":12},"
      "\"minItems\":1,"
      "\"maxItems\":3}",
      { "[1]", "[12,1]", "[9,10,11]" },
      { "[]", "[0]", "[13]", "[1,2,3,4]", "[1,]", "[,1]", "[-1]" } },
    { "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],"
      "\"items\":{\"type\":"
      "\"null\"},\"maxItems\":3}",
      { "[1,\"\"]", "[1,\"x\",null]" },
      { "[]", "[1]", "[1,\"\",null,null]", "[\"\",1]" } },
    { "{\"enum\":[\"a\",\"ab\",\"b\\\"c\",1,null,{\"x\":[1,2]},true]}",
      { "\"a\"", "\"ab\"", "\"b\\\"c\"", "1", "null", "{\"x\":[1,2]}", "true" },
      { "\"\"", "\"abc\"", "11", "false", "{\"x\":[1]}" } },
    { "{\"enum\":[\"a\",1,2],\"type\":\"integer\"}", { "1", "2" }, { "\"a\"", "3" } },
    { "{\"$ref\":\"#/$defs/"
      "t\",\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
      "\"next\":{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#/$defs/"
      "t\"}]}},\"required\":[\"v\",\"next\"]}}}",
      { "{\"v\":1,\"next\":null}",
        "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3,\"next\":null}}}" },
      { "{\"v\":1}", "{\"v\":1,\"next\":{}}" } },
    { "{\"type\":\"object\",\"properties\":{\"ab\":{\"type\":\"null\"}},\"additionalProperties\":{"
      "\"type\":"
      "\"integer\"}}",
      { "{}", "{\"ab\":null}", "{\"a\":1}", "{\"abc\":1,\"\":2}", "{\"ab\":null,\"b\":3}" },
      { "{\"ab\":1}", "{\"a\":null}", "{\"a\\u0062\":1}" } },
    { "{\"type\":[\"string\",\"null\",\"number\",\"integer\"]}",
      { "\"\"", "null", "-0.5e+3", "0", "1E-9", "\"\\ud83d\\ude00\"", "\"\xF0\x9F\x98\x80\"" },
      { "true", "01", "1.", ".5", "\"\\ud83d\"", "\"\xF0\x9F\"", "\"\\ude00\"", "\"\n\"" } },
    { "{\"type\":\"string\",\"format\":\"date\"}",
      { "\"2024-02-28\"" },
      { "\"2024-13-01\"", "\"\"" } },
    { "{\"anyOf\":[{\"const\":\"x\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}]}",
      { "\"x\"", "[]", "[\"x\",[[\"x\"]]]" },
      { "\"y\"", "[1]" } },
    { "{\"type\":\"array\",\"items\":false}", { "[]" }, { "[1]" } },
    { "{\"allOf\":[{\"type\":\"boolean\"}],\"title\":\"t\"}", { "true" }, { "null" } },
    { "{\"type\":\"array\",\"items\":{\"allOf\":[{\"$ref\":\"#/$defs/a\"}],\"nullable\":true},"
      "\"$defs\":{\"a\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"integer\","
      "\"nullable\":false},\"y\":{\"enum\":[\"a\"],\"nullable\":true}}}}}",
      { "[]", "[null]", "[{\"x\":1,\"y\":null},null]", "[{\"y\":\"a\"}]" },
      { "null", "[{\"x\":null}]", "[{\"y\":1}]" } },
    { "{\"json\":{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#/$defs/"
      "a\"}],\"$defs\":{\"a\":{\"const\":1}}}}",
      { "null", "1" },
      { "2" } },
    { "{\"regex\":\"a|b.c\\\\n\\\\$\"}",
      { "a",
        "b\xC3\xA4"
        "c\n$",
        "b\"c\n$" },
      { "ab", "bc\n$", "b\nc\n$" } },
    { "{\"regex\":\"^[^x]{2,3}$\"}", { "ab", "\n\"\\" }, { "a", "abcd", "ax" } },
    { "{\"choice\":[\"yes\",\"no\",\"\\\"\",\"no\"]}",
      { "yes", "no", "\"" },
      { "y", "\\\"", "yesno" } },
    { "{\"seq\":[{\"text\":\"<\"},{\"list\":[{\"json\":{\"type\":\"integer\"}},{\"text\":\"; \"}]},"
      "{\"or\":[{\"text\":\"\"},{\"text\":\">\"}]}]}",
      { "<1", "<1>", "<1; -2; 3>" },
      { "<", "<>", "<1;2", "<1; " } },
    { "{\"without\":\"<tool\"}",
      { "", "<", "<<too l", "<to<t\n", "\xFF" },
      { "<tool", "a<<tool", "<to<tools" } },
    { "{\"without\":\"aab\"}", { "aa", "abab", "ab aaa" }, { "aaab", "baab" } },
    { "{\"without\":\"\"}", { "", "a{", "1[" }, { "{", "[1]", " {", "\n" } },
};

START_TEST(a_table_of_texts)
{
    struct spot_grammar *const g = grammar(row[_i].schema);

    for (size_t k = 0; k < 8 && row[_i].yes[k]; k++)
        ck_assert_msg(accepts(g, row[_i].yes[k]), "refused: %s", row[_i].yes[k]);
    for (size_t k = 0; k < 8 && row[_i].no[k]; k++)
        ck_assert_msg(!accepts(g, row[_i].no[k]), "taken: %s", row[_i].no[k]);
    spot_grammar_free(g);
}
END_TEST

static const char *const refused[][2] = {
    { "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"strin\"}}}",
      "properties/a: no such type: strin" },
    { "{\"type\":\"array\",\"uniqueItems\":true}", "uniqueItems is not supported" },
    { "{\"type\":\"string\",\"pattern\":\"(?=a)\"}", "has lookahead, lookbehind" },
    { "{\"type\":\"string\",\"pattern\":\"[b-a]\"}", "end comes before its start" },
    { "{\"type\":\"string\",\"format\":\"email\"}", "format is not supported: email" },
    { "{\"$ref\":\"#\"}", "leads to nothing but itself" },
    { "{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"anyOf\":[{\"type\":\"null\"},{\"$ref\":\"#/"
      "$defs/a\"}]}}}",
      "itself" },
    { "{\"$ref\":\"http://x/y\"}", "within the schema" },
    { "{\"$ref\":\"#/nowhere\"}", "nothing at $ref" },
    { "{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "no text is valid" },
    { "{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", "no text is valid" },
    { "{\"type\":\"object\",\"properties\":{\"a\":false},\"required\":[\"a\"]}",
      "no text is valid" },
    { "{\"type\":\"object\",\"required\":[\"a\"]}", "lacks what required names: a" },
    { "{\"$defs\":{\"t\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/"
      "t\"},\"minItems\":1}},\"$ref\":\"#/$defs/t\"}",
      "no text is valid" },
    { "{\"type\":\"number\",\"minimum\":1}", "minimum is supported of integers only" },
    { "{\"enum\":[]}", "enum must be" },
    { "{\"type\":\"string\",\"nullable\":1}", "nullable must be" },
    { "[1]", "object" },
    { "{\"type\":", "schema:1" },
};

START_TEST(what_is_not_supported_is_named)
{
    struct spot_err err = { 0 };

    ck_assert_ptr_null(spot_grammar_new(refused[_i][0], strlen(refused[_i][0]), words, &err));
    ck_assert_int_eq(err.code, SPOT_EDATA);
    ck_assert_msg(strstr(err.msg, refused[_i][1]) != NULL, "%s: %s", refused[_i][0], err.msg);
}
END_TEST

/* --- all integers, and another engine for patterns ---------------------------- */

START_TEST(integers_are_those_of_the_range)
{
    struct spot_rng rng;

    spot_rng_init(&rng, (uint64_t)_i, 1);
    for (int k = 0; k < 8; k++) {
        const int low = (int)(spot_rng_next(&rng) % 260) - 130,
                  high = low + (int)(spot_rng_next(&rng) % 140);
        char schema[128], text[16];
        struct spot_grammar *g;

        sprintf(schema, "{\"type\":\"integer\",\"minimum\":%d,\"exclusiveMaximum\":%d}", low,
                high + 1);
        g = grammar(schema);
        for (int x = -1200; x <= 1200; x++) {
            sprintf(text, "%d", x);
            ck_assert_msg(accepts(g, text) == (low <= x && x <= high), "%s: %d", schema, x);
        }
        spot_grammar_free(g);
    }
}
END_TEST

static const char *const pattern[] = {
    "^a*b$",          "^(a|bc)+$",    "^[a-b]{2,3}c?$",  "b",     "^a", "c$", "^[^a]*$",
    "^(ab|a)(c|bc)$", "^(a?b){2}c*$", "^((a|b)*c){1,}$", "^.c.$", "^$"
};

START_TEST(patterns_are_those_of_the_c_library)
{
    char schema[128];
    struct spot_grammar *g;
    regex_t regex;

    sprintf(schema, "{\"type\":\"string\",\"pattern\":\"%s\"}", pattern[_i]);
    g = grammar(schema);
    ck_assert_int_eq(regcomp(&regex, pattern[_i], REG_EXTENDED | REG_NOSUB), 0);
    for (int k = 0; k < 3 + 9 + 27 + 81 + 243 + 1; k++) { /* all texts of a, b, c up to 5 */
        char text[8] = "", quoted[16];
        int n = 0, rest = k, of = 1;

        for (; rest >= of; of *= 3, n++)
            rest -= of;
        for (int i = 0; i < n; i++, rest /= 3)
            text[i] = (char)('a' + rest % 3);
        sprintf(quoted, "\"%s\"", text);
        ck_assert_msg(accepts(g, quoted) == !regexec(&regex, text, 0, NULL, 0), "%s: %s",
                      pattern[_i], text);
    }
    regfree(&regex);
    spot_grammar_free(g);
}
END_TEST

/* --- random schemas, random walks --------------------------------------------- */

static size_t add_schema(struct spot_rng *rng, int depth, char *out)
{
    const uint64_t kind = spot_rng_next(rng) % (depth ? 9 : 5);
    const int a = (int)(spot_rng_next(rng) % 4), b = a + (int)(spot_rng_next(rng) % 4);
    char *const start = out;

    switch (kind) {
    case 0:
        out +=
            sprintf(out, "{\"type\":\"integer\",\"minimum\":%d,\"maximum\":%d}", -a * 17, b * 1003);
        break;
    case 1:
        out += sprintf(out, "{\"type\":\"string\",\"minLength\":%d,\"maxLength\":%d}", a, b);
        break;
    case 2:
        out += sprintf(out, "{\"enum\":[\"x\",%d,null,[%d],{\"k\":\"v\"}]}", a, b);
        break;
    case 3:
        out += sprintf(out, "{\"type\":[\"boolean\",\"number\"]}");
        break;
    case 4:
        out +=
            sprintf(out, "{\"type\":\"string\",\"pattern\":\"^[a-c\\\"]{%d,%d}\\\\\\\\?$\"}", a, b);
        break;
    case 5:
        out += sprintf(out, "{\"type\":\"array\",\"minItems\":%d,\"maxItems\":%d,\"items\":", a, b);
        out += add_schema(rng, depth - 1, out);
        out += sprintf(out, "}");
        break;
    case 6:
        out += sprintf(out, "{\"anyOf\":[");
        out += add_schema(rng, depth - 1, out);
        out += sprintf(out, ",");
        out += add_schema(rng, depth - 1, out);
        out += sprintf(out, "]}");
        break;
    default:
        out += sprintf(
            out,
            "{\"type\":\"object\",\"required\":[%s],\"additionalProperties\":%s,\"properties\":{",
            a & 1 ? "\"p0\"" : "", a & 2 ? "false" : "{\"type\":\"null\"}");
        for (int i = 0; i < 3; i++) {
            out += sprintf(out, "%s\"p%d\":", i ? "," : "", i);
            out += add_schema(rng, depth - 1, out);
        }
        out += sprintf(out, "}}");
    }
    return (size_t)(out - start);
}

static bool is_valid(const json_t *schema, const json_t *v);

static bool is_type(const json_t *type, const json_t *v)
{
    const char *const name = json_string_value(type);
    size_t i;
    json_t *one;

    json_array_foreach(type, i, one) if (is_type(one, v)) return true;
    return name && (!strcmp(name, "integer")   ? json_is_integer(v)
                    : !strcmp(name, "number")  ? json_is_number(v)
                    : !strcmp(name, "string")  ? json_is_string(v)
                    : !strcmp(name, "boolean") ? json_is_boolean(v)
                    : !strcmp(name, "array")   ? json_is_array(v)
                                               : json_is_object(v));
}

static bool is_within(const json_t *schema, const char *low, const char *high, double x)
{
    const json_t *const a = json_object_get(schema, low), *const b = json_object_get(schema, high);

    return (!a || x >= json_number_value(a)) && (!b || x <= json_number_value(b));
}

static double characters(const char *text)
{
    double n = 0;

    for (; *text; text++)
        n += (*text & 0xC0) != 0x80;
    return n;
}

static bool is_string_valid(const json_t *schema, const json_t *v)
{
    const json_t *const expression = json_object_get(schema, "pattern");
    regex_t regex;
    bool is = is_within(schema, "minLength", "maxLength", characters(json_string_value(v)));

    if (expression) {
        ck_assert_int_eq(regcomp(&regex, json_string_value(expression), REG_EXTENDED | REG_NOSUB),
                         0);
        is = is && !regexec(&regex, json_string_value(v), 0, NULL, 0);
        regfree(&regex);
    }
    return is;
}

static bool is_object_valid(const json_t *schema, json_t *v)
{
    const json_t *const properties = json_object_get(schema, "properties");
    const char *key;
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(schema, "required"), i,
                       one) if (!json_object_get(v, json_string_value(one))) return false;
    json_object_foreach(v, key, one)
    {
        const json_t *const declared = json_object_get(properties, key);

        if (declared ? !is_valid(declared, one)
                     : !is_valid(json_object_get(schema, "additionalProperties"), one))
            return false;
    }
    return true;
}

static bool is_valid(const json_t *schema, const json_t *v)
{
    const json_t *const list = json_object_get(schema, "enum"), *const any = json_object_get(
                                                                    schema, "anyOf");
    json_t *one;
    size_t i;

    if (json_is_false(schema))
        return false;
    json_array_foreach(any, i, one) if (is_valid(one, v)) return true;
    json_array_foreach(list, i, one) if (json_equal(one, (json_t *)(uintptr_t)v)) return true;
    if (any || list)
        return false;
    if (json_object_get(schema, "type") && json_is_string(json_object_get(schema, "type")) &&
        !strcmp(json_string_value(json_object_get(schema, "type")), "null"))
        return json_is_null(v);
    if (!is_type(json_object_get(schema, "type"), v))
        return false;
    if (json_is_integer(v) &&
        !is_within(schema, "minimum", "maximum", (double)json_integer_value(v)))
        return false;
    if (json_is_string(v))
        return is_string_valid(schema, v);
    if (json_is_object(v))
        return is_object_valid(schema, (json_t *)(uintptr_t)v);
    json_array_foreach(v, i,
                       one) if (!is_valid(json_object_get(schema, "items"), one)) return false;
    return !json_is_array(v) ||
           is_within(schema, "minItems", "maxItems", (double)json_array_size(v));
}

/* The mask, and what push says of each token after this text. */
static void check_mask(struct spot_grammar *g, const char *text, size_t n, const float *logit)
{
    for (uint32_t id = 0; id < V; id++) {
        struct spot_grammar_state *const s = spot_grammar_begin(g);

        for (size_t i = 0; i < n; i++)
            ck_assert_int_eq(spot_grammar_push(s, (uint8_t)text[i]), 0);
        ck_assert_msg((spot_grammar_push(s, id) == 0) == (logit[id] == 0), "token %u after %.*s",
                      id, (int)n, text);
        spot_grammar_end(s);
    }
}

/* A random text through the mask; texts that grow prefer what closes. Returns its length. */
static size_t random_walk(struct spot_grammar *g, struct spot_rng *rng, char *text, bool is_checked)
{
    struct spot_grammar_state *const s = spot_grammar_begin(g);
    size_t n = 0;

    while (!spot_grammar_must_end(s) && !(spot_grammar_may_end(s) && spot_rng_next(rng) % 4 == 0)) {
        float logit[V] = { 0 };
        uint32_t id = 0, n_allowed = 0;

        spot_grammar_mask(s, NULL, 0, logit, V);
        if (is_checked && n < 100 && spot_rng_next(rng) % 8 == 0)
            check_mask(g, text, n, logit);
        for (uint32_t i = 0; i < V; i++)
            n_allowed += logit[i] == 0;
        ck_assert_msg(n_allowed > 0, "nothing may follow %.*s", (int)n, text);
        if (spot_rng_next(rng) % 3 == 0 &&
            (logit['"'] == 0 || logit[']'] == 0 || logit['}'] == 0)) {
            id = logit['"'] == 0 ? '"' : logit[']'] == 0 ? ']' : '}';
        } else {
            uint32_t k = (uint32_t)(spot_rng_next(rng) % n_allowed);

            for (id = 0; logit[id] != 0 || k--; id++)
                ;
        }
        ck_assert_int_eq(spot_grammar_push(s, id), 0);
        {
            size_t n_byte;
            const uint8_t *const byte = spot_bpe_token(bpe, id, &n_byte);

            ck_assert_uint_lt(n + n_byte, TEXT_MAX);
            memcpy(text + n, byte, n_byte);
            n += n_byte;
        }
    }
    spot_grammar_end(s);
    return n;
}

START_TEST(random_texts_are_valid)
{
    static char schema[1 << 16], text[TEXT_MAX];
    struct spot_rng rng;

    spot_rng_init(&rng, (uint64_t)_i, 2);
    for (int k = 0; k < WALKS / 10; k++) {
        struct spot_err err = { 0 };
        struct spot_grammar *g;
        json_t *parsed;

        schema[add_schema(&rng, 3, schema)] = '\0';
        g = spot_grammar_new(schema, strlen(schema), words, &err);
        ck_assert_msg(g || strstr(err.msg, "no text is valid"), "%s: %s", schema, err.msg);
        parsed = json_loads(schema, JSON_DECODE_ANY, NULL);
        ck_assert_ptr_nonnull(parsed);
        for (int walk = 0; g && walk < 10; walk++) {
            const size_t n = random_walk(g, &rng, text, walk == 0);
            json_t *const v = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

            ck_assert_msg(v && is_valid(parsed, v), "%s: %.*s", schema, (int)n, text);
            json_decref(v);
        }
        json_decref(parsed);
        spot_grammar_free(g);
    }
}
END_TEST

/* Many ways at once, and more sets than are kept: the state finds itself again. */
START_TEST(a_hostile_schema_stays_small)
{
    static const char schema[] =
        "{\"$defs\":{\"t\":{\"anyOf\":[{\"type\":\"null\"},"
        "{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/t\"}},"
        "{\"type\":\"array\",\"minItems\":1,\"items\":{\"$ref\":\"#/$defs/t\"}},"
        "{\"type\":\"array\",\"maxItems\":900,\"items\":{\"$ref\":\"#/$defs/t\"}}]}},\"$ref\":\"#/"
        "$defs/t\"}";
    struct spot_grammar *const g = grammar(schema);
    struct spot_grammar_state *const s = spot_grammar_begin(g);
    float logit[V] = { 0 };

    for (int i = 0; i < 200; i++)
        ck_assert_int_eq(spot_grammar_push(s, '['), 0);
    for (int i = 0; i < 200; i++) {
        spot_grammar_mask(s, NULL, 0, logit, V);
        ck_assert(logit[']'] == 0);
        ck_assert_int_eq(spot_grammar_push(s, ']'), 0);
    }
    ck_assert(spot_grammar_must_end(s) && spot_grammar_may_end(s));
    ck_assert_int_eq(spot_grammar_push(s, ']'), -1);
    spot_grammar_end(s);
    spot_grammar_free(g);
}
END_TEST

START_TEST(the_end_is_a_token)
{
    struct spot_grammar *const g = grammar("{\"const\":7}");
    struct spot_grammar_state *const s = spot_grammar_begin(g);
    const uint32_t end = V - 1;
    float logit[V + 3] = { 0 };

    spot_grammar_mask(s, &end, 1, logit, V + 3);
    for (uint32_t i = 0; i < V + 3; i++)
        ck_assert_msg((logit[i] == 0) == (i == '7'), "%u", i);
    ck_assert_int_eq(spot_grammar_push(s, '7'), 0);
    memset(logit, 0, sizeof(logit));
    spot_grammar_mask(s, &end, 1, logit, V + 3);
    for (uint32_t i = 0; i < V + 3; i++)
        ck_assert_msg((logit[i] == 0) == (i == end), "%u", i);
    spot_grammar_end(s);
    spot_grammar_free(g);
}
END_TEST

int main(void)
{
    TCase *const c = tcase_create("grammar");

    tcase_add_unchecked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, a_table_of_texts, 0, (int)(sizeof(row) / sizeof(*row)));
    tcase_add_loop_test(c, what_is_not_supported_is_named, 0,
                        (int)(sizeof(refused) / sizeof(*refused)));
    tcase_add_loop_test(c, integers_are_those_of_the_range, 0, 6);
    tcase_add_loop_test(c, patterns_are_those_of_the_c_library, 0,
                        (int)(sizeof(pattern) / sizeof(*pattern)));
    tcase_add_loop_test(c, random_texts_are_valid, 0, 10);
    tcase_add_test(c, a_hostile_schema_stays_small);
    tcase_add_test(c, the_end_is_a_token);
    return run_case("grammar", c);
}
