/* SPDX-License-Identifier: MIT */
/* The command line: options anywhere before "--", operands in their order, limits in full, and
 * rules between options. */
#include "cli/opt.h"

#include <stdlib.h>
#include <string.h>

#include "suite.h"

enum { ARGS_MAX = 12 };

static struct {
    bool deep, wide;
    uint64_t count, level;
    double share, price[2], notice_s[2];
    const char *output, *maybe, *form;
    struct spot_opt_list list;
} got;

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "test" },
    { SPOT_OPT_FLAG, 'd', "deep", &got.deep, NULL, "a flag", 0, 0 },
    { SPOT_OPT_U64, 'n', "count", &got.count, "n", "a number", 1, 1 << 24 },
    { SPOT_OPT_REAL, 0, "share", &got.share, "x", "another", 0.25, 1048577 },
    { SPOT_OPT_FLAG, 'w', "wide", &got.wide, NULL, "needs count or deep", 0, 0 },
    { SPOT_OPT_U64, 0, "level", &got.level, "n", "not with deep or output z", 0, 9 },
    { SPOT_OPT_STRING, 'o', "output", &got.output, "file", "a text", 0, 0 },
    { SPOT_OPT_MAYBE, 0, "maybe", &got.maybe, "x", "a text or none", 0, 0 },
    { SPOT_OPT_LIST, 0, "list", &got.list, "x", "some texts", 0, 0 },
    { SPOT_OPT_STRING, 0, "form", &got.form, "name", "of a few", 0, 0 },
    { SPOT_OPT_REALS, 0, "price", got.price, "spot[:od]", "two numbers", 0, 10 },
    { SPOT_OPT_TIMES, 0, "notice", got.notice_s, "loss[:gain]", "two times", 0, 86400 },
    { SPOT_OPT_END },
};

/* `line` is split at blanks; argv keeps pointing into text. */
static enum spot_cli_action parse(const char *line, bool runs_command, char *text,
                                  char *argv[ARGS_MAX], int *argc, int *first, struct spot_err *err)
{
    static char name[] = "t";
    const struct spot_cli cli = {
        .name = name,
        .option = option,
        .runs_command = runs_command,
        .n_operand_max = 5,
        .choice = (const struct spot_opt_choice[]){ { "form", "json|table|md" }, { NULL, NULL } },
        .required = strstr(line, "--form")
                        ? (const struct spot_opt_required[]){ { "output", "where it goes" },
                                                              { NULL, NULL } }
                        : NULL,
        .need = (const struct spot_opt_need[]){ { "share", "output x" },
                                                { "level", "!deep|output z" },
                                                { "wide", "count|deep" },
                                                { NULL, NULL } },
    };
    char *rest = strcpy(text, line);

    free(got.list.item);
    memset(&got, 0, sizeof(got));
    argv[0] = name;
    for (*argc = 1; (argv[*argc] = strtok_r(rest, " ", &rest)); (*argc)++)
        ck_assert_int_lt(*argc, ARGS_MAX - 1);
    return spot_cli_parse(&cli, *argc, argv, first, err);
}

static const struct order {
    const char *line, *operands;
    bool runs_command, deep;
    uint64_t count;
    const char *output;
} orders[] = {
    { "-d --count 3 a b", "a b", false, true, 3, NULL },
    { "a -d b --count 3", "a b", false, true, 3, NULL },
    { "a b --count=3 -do x", "a b", false, true, 3, "x" },
    { "a -o b -", "a -", false, false, 0, "b" },
    { "- -n3 a", "- a", false, false, 3, NULL },
    { "a -- -d b", "a -d b", false, false, 0, NULL },
    { "a -d -- -- -n", "a -- -n", false, true, 0, NULL },
    { "-o -- a", "a", false, false, 0, "--" },
    { "--", "", false, false, 0, NULL },
    { "-d", "", false, true, 0, NULL },
    { "-d a -n 3", "a -n 3", true, true, 0, NULL },
    { "-d -- a -n 3", "a -n 3", true, true, 0, NULL },
    { "--share 1 -o x", "", false, false, 0, "x" },
    { "-w -n 1", "", false, false, 1, NULL },
    { "-w a -d", "a", false, true, 0, NULL },
    { "-o x --form md", "", false, false, 0, "x" },
    { "-d -- a b c d e f", "a b c d e f", true, true, 0, NULL },
    { "-w --no-wide", "", false, false, 0, NULL },
    { "--level 1 -d --no-deep -o y", "", false, false, 0, "y" },
};

START_TEST(options_follow_operands_up_to_two_dashes_or_a_command)
{
    const struct order *o = &orders[_i];
    char text[128], operands[128] = "", *argv[ARGS_MAX];
    struct spot_err err = { 0 };
    int argc, first;

    ck_assert_msg(parse(o->line, o->runs_command, text, argv, &argc, &first, &err) == SPOT_CLI_RUN,
                  "%s: %s", o->line, err.msg);
    for (int i = first; i < argc; i++) {
        strcat(operands, i > first ? " " : "");
        strcat(operands, argv[i]);
    }
    ck_assert_str_eq(operands, o->operands);
    ck_assert_ptr_null(argv[argc]);
    ck_assert_int_eq(got.deep, o->deep);
    ck_assert_uint_eq(got.count, o->count);
    ck_assert_pstr_eq(got.output, o->output);
}
END_TEST

static const struct values {
    const char *line, *operands, *maybe, *list;
} values[] = {
    { "a b", "a b", NULL, "" },
    { "a --maybe", "a", "", "" },
    { "--maybe -d a", "a", "", "" },
    { "a --maybe b", "a", "b", "" },
    { "a --maybe - b", "a b", "-", "" },
    { "--maybe=a b", "b", "a", "" },
    { "z --list a - c -d e", "z e", NULL, "a - c" },
    { "--list=a b --list c d", "b", NULL, "a c d" },
    { "--list a -- b", "b", NULL, "a" },
};

static void join(char *text, const char *const *item, size_t n)
{
    *text = '\0';
    for (size_t i = 0; i < n; i++) {
        strcat(text, i ? " " : "");
        strcat(text, item[i]);
    }
}

START_TEST(an_option_may_take_one_value_or_none_or_all_that_follow)
{
    const struct values *v = &values[_i];
    char text[128], joined[128], *argv[ARGS_MAX];
    struct spot_err err = { 0 };
    int argc, first;

    ck_assert_msg(parse(v->line, false, text, argv, &argc, &first, &err) == SPOT_CLI_RUN, "%s: %s",
                  v->line, err.msg);
    join(joined, (const char *const *)argv + first, (size_t)(argc - first));
    ck_assert_str_eq(joined, v->operands);
    ck_assert_pstr_eq(got.maybe, v->maybe);
    join(joined, got.list.item, got.list.n);
    ck_assert_str_eq(joined, v->list);
}
END_TEST

START_TEST(an_option_may_have_a_second_number_behind_a_colon)
{
    char text[128], *argv[ARGS_MAX];
    struct spot_err err = { 0 };
    int argc, first;

    ck_assert_int_eq(parse("--price .5:3 --notice 2m", false, text, argv, &argc, &first, &err),
                     SPOT_CLI_RUN);
    ck_assert_double_eq(got.price[0], .5);
    ck_assert_double_eq(got.price[1], 3);
    ck_assert_double_eq(got.notice_s[0], 120);
    ck_assert_double_eq(got.notice_s[1], 0);
    ck_assert_int_eq(parse("--notice=1s:1h --price 2", false, text, argv, &argc, &first, &err),
                     SPOT_CLI_RUN);
    ck_assert_double_eq(got.notice_s[1], 3600);
    ck_assert_double_eq(got.price[0], 2);
}
END_TEST

static const struct refusal {
    const char *line, *message;
} refusals[] = {
    { "--count 16777217", "--count must be between 1 and 16777216, got '16777217'" },
    { "a --count 0", "--count must be between 1 and 16777216, got '0'" },
    { "--share 0.1", "--share must be between 0.25 and 1048577, got '0.1'" },
    { "a --coun 1", "unknown option '--coun'; did you mean '--count'?" },
    { "a -x", "unknown option '-x'" },
    { "a --count", "--count needs a <n>" },
    { "a --list", "--list needs a <x>" },
    { "--share 1", "--share has no effect without --output x" },
    { "--share 1 -o y", "--share has no effect without --output x" },
    { "-w", "--wide has no effect without --count or --deep" },
    { "-w -d --no-deep", "--wide has no effect without --count or --deep" },
    { "--level 1 a -d", "--level has no effect with --deep or --output z" },
    { "-oz --level=1", "--level has no effect with --deep or --output z" },
    { "a b c d e -d f", "unexpected operand 'f'" },
    { "--form md", "--output is missing: where it goes" },
    { "--form xml", "--form must be json, table or md, got 'xml'" },
    { "--form xml -o x", "--form must be json, table or md, got 'xml'" },
    { "--form js -o x", "--form must be json, table or md, got 'js'" },
    { "--form= -o x", "--form must be json, table or md, got ''" },
    { "--price 1:11", "--price must be between 0 and 10, got '11'" },
    { "--price 1:", "--price must be a number, got ''" },
    { "--price :1", "--price must be a number, got ''" },
    { "--price 1:2:3", "--price must be a number, got '2:3'" },
    { "--notice 1s:x", "--notice must be a duration such as 90s, 5m or 2h, got 'x'" },
    { "--form json|table -o x", "--form must be json, table or md, got 'json|table'" },
};

START_TEST(wrong_options_are_named_before_and_after_operands)
{
    char text[128], *argv[ARGS_MAX];
    struct spot_err err = { 0 };
    int argc, first;

    ck_assert_int_eq(parse(refusals[_i].line, false, text, argv, &argc, &first, &err),
                     SPOT_CLI_ERROR);
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    ck_assert_str_eq(err.msg, refusals[_i].message);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, options_follow_operands_up_to_two_dashes_or_a_command, 0,
                        sizeof(orders) / sizeof(orders[0]));
    tcase_add_loop_test(tc, an_option_may_take_one_value_or_none_or_all_that_follow, 0,
                        sizeof(values) / sizeof(values[0]));
    tcase_add_test(tc, an_option_may_have_a_second_number_behind_a_colon);
    tcase_add_loop_test(tc, wrong_options_are_named_before_and_after_operands, 0,
                        sizeof(refusals) / sizeof(refusals[0]));
    return run_suite("opt", tc);
}
