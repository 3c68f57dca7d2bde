/* SPDX-License-Identifier: MIT */
/* Goal: templates give what jinja2 gives with the settings of transformers
 * (tests/data/templates.json says which version recorded it); what is not known is told with its
 * place, and nothing runs for ever. */
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "text/template.h"

static int rendered(const char *text, const struct spot_json_value *context, struct spot_buf *out,
                    struct spot_err *err)
{
    const struct spot_template_input input = { .values = { context }, .now_s = 1750000000 };
    struct spot_template *const t = spot_template_parse(text, strlen(text), "t", err);
    const int rc = t ? spot_template_render(t, &input, out, err) : -1;

    spot_template_free(t);
    return rc;
}

START_TEST(templates_give_what_jinja2_gives)
{
    struct spot_json_doc doc;
    struct spot_err err = { 0 };
    const struct spot_json_value *cases;

    ck_assert_msg(!spot_json_load_path(&doc, "tests/data/templates.json", &err), "%s", err.msg);
    cases = spot_json_get(doc.root, "cases");
    ck_assert_uint_gt(spot_json_array_size(cases), 20);
    for (size_t i = 0; i < spot_json_array_size(cases); i++) {
        const struct spot_json_value *const one = spot_json_entry(cases, i);
        const char *const text = spot_json_text(spot_json_get(one, "template"));
        const char *const want = spot_json_text(spot_json_get(one, "want"));
        struct spot_buf out = { 0 };
        const int rc = rendered(text, spot_json_get(doc.root, "context"), &out, &err);

        ck_assert_msg(rc == (want ? 0 : -1), "%s: %s", text, rc ? err.msg : "is taken");
        if (want)
            ck_assert_msg(out.n == strlen(want) && !memcmp(out.data, want, out.n),
                          "%s: '%.*s', expected '%s'", text, (int)out.n, (char *)out.data, want);
        spot_buf_release(&out);
    }
    spot_json_release(&doc);
}
END_TEST

static const struct {
    const char *text;
    int code;
    const char *why;
} refused[] = {
    { "a\n  {{ x | nope }}", SPOT_EDATA, "t:2:10: unknown filter 'nope'" },
    { "{% if x is nope %}{% endif %}", SPOT_EDATA, "t:1:12: unknown test 'nope'" },
    { "{% include 'x' %}", SPOT_EDATA, "unknown tag 'include'" },
    { "{% for x in y %}", SPOT_EDATA, "'endfor'" },
    { "{{ x.y.z }}", SPOT_EDATA, "'x' is undefined" },
    { "{{ nope(1) }}", SPOT_EDATA, "unknown function 'nope'" },
    { "{{ 'a'.nope(1) }}", SPOT_EDATA, "no method 'nope'" },
    { "{{ raise_exception('why') }}", SPOT_EDATA, "why" },
    { "{% for i in range(9999) %}{% for k in range(9999) %}{% endfor %}{% endfor %}",
      SPOT_EINFEASIBLE, "more than" },
    { "{% set ns = namespace(s='0123456789abcdef') %}{% for i in range(40) %}"
      "{% set ns.s = ns.s + ns.s %}{% endfor %}",
      SPOT_EINFEASIBLE, "bytes" },
    { "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", SPOT_EINFEASIBLE, "inside of each other" },
    { "{{ range(9999999999) }}", SPOT_EINFEASIBLE, "steps" },
    { "{{ 'ab' * 999999999 }}", SPOT_EINFEASIBLE, "bytes" },
};

START_TEST(what_is_not_known_or_too_much_is_told)
{
    struct spot_err err = { 0 };
    struct spot_buf out = { 0 };

    ck_assert_int_eq(rendered(refused[_i].text, NULL, &out, &err), -1);
    ck_assert_msg(strstr(err.msg, refused[_i].why) != NULL, "%s", err.msg);
    ck_assert_int_eq(err.code, refused[_i].code);
    ck_assert_uint_eq(out.n, 0);
}
END_TEST

START_TEST(what_is_nested_too_deep_is_told)
{
    char text[5000];
    struct spot_err err = { 0 };
    struct spot_buf out = { 0 };

    memset(text, '(', sizeof(text) - 1);
    memcpy(text, "{{", 2);
    text[sizeof(text) - 1] = '\0';
    ck_assert_int_eq(rendered(text, NULL, &out, &err), -1);
    ck_assert_msg(strstr(err.msg, "too deep") != NULL, "%s", err.msg);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, templates_give_what_jinja2_gives);
    tcase_add_loop_test(tc, what_is_not_known_or_too_much_is_told, 0,
                        (int)(sizeof(refused) / sizeof(refused[0])));
    tcase_add_test(tc, what_is_nested_too_deep_is_told);
    return run_suite("template", tc);
}
