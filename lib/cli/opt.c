/* SPDX-License-Identifier: MIT */
#include "cli/opt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/opt_rule.h"
#include "common/edit_distance.h"
#include "common/num.h"
#include "common/version.h"
#include "common/xalloc.h"

static void print_option(const struct spot_opt *o, FILE *out)
{
    char left[128];
    int n = o->short_name ? snprintf(left, sizeof(left), "  -%c, --%s", o->short_name, o->long_name)
                          : snprintf(left, sizeof(left), "      --%s", o->long_name);

    if (o->arg_name)
        snprintf(left + n, sizeof(left) - (size_t)n,
                 o->type == SPOT_OPT_MAYBE  ? " [<%s>]"
                 : o->type == SPOT_OPT_LIST ? " <%s>..."
                                            : " <%s>",
                 o->arg_name);
    fprintf(out, "%-29s %s\n", left, o->help);
}

static bool has_more(const struct spot_cli *cli)
{
    const struct spot_opt *o = cli->option;

    while (o->type != SPOT_OPT_END && o->type != SPOT_OPT_MORE)
        o++;
    return o->type == SPOT_OPT_MORE;
}

static void print_help(const struct spot_cli *cli, bool all, FILE *out)
{
    bool is_shown = true;

    fprintf(out, "usage: %s %s\n\n%s\n", cli->name, cli->synopsis, cli->summary);
    if (cli->option->type != SPOT_OPT_GROUP) /* a heading brings its own blank line */
        fprintf(out, "\n");
    for (const struct spot_opt *o = cli->option; o->type != SPOT_OPT_END; o++) {
        const bool is_heading = o->type == SPOT_OPT_GROUP || o->type == SPOT_OPT_MORE;

        if (is_heading)
            is_shown = all || o->type == SPOT_OPT_GROUP;
        if (is_shown && is_heading)
            fprintf(out, "\n%s:\n", o->help);
        else if (is_shown)
            print_option(o, out);
    }
    if (all)
        fprintf(out, "      --error-format <name>   text, or json: an object a line on stderr\n");
    fprintf(out, "      --help                  show this help\n");
    if (has_more(cli))
        fprintf(out, "      --help-all              show every option\n");
    fprintf(out, "      --version               show the version\n");
    if (cli->examples)
        fprintf(out, "\nexamples:\n%s", cli->examples);
}

/* Prints the table for programs, one option a line: --name, -c, argument, allowed values (a|b),
 * text; separated by tabs. Completions and the check of the manual use it. */
static void print_table(const struct spot_cli *cli, FILE *out)
{
    for (const struct spot_opt *o = cli->option; o->type != SPOT_OPT_END; o++) {
        const struct spot_opt_choice *c = cli->choice;
        char letter[3] = { '-', o->short_name, '\0' };

        while (c && c->option && o->long_name && strcmp(c->option, o->long_name) != 0)
            c++;
        if (o->long_name)
            fprintf(out, "--%s\t%s\t%s\t%s\t%s\n", o->long_name, o->short_name ? letter : "",
                    o->arg_name ? o->arg_name : "", c && c->option ? c->words : "", o->help);
    }
}

static int unknown_option(const struct spot_cli *cli, const char *name, struct spot_err *err)
{
    const char *best = NULL;
    size_t best_distance = 3;

    for (const struct spot_opt *o = cli->option; o->type != SPOT_OPT_END; o++) {
        size_t d;

        if (!o->long_name)
            continue;
        d = spot_edit_distance(name, o->long_name);
        if (d < best_distance) {
            best_distance = d;
            best = o->long_name;
        }
    }
    if (best)
        return spot_err_kind(err, "unknown",
                             spot_err_set(err, SPOT_EUSAGE,
                                          "unknown option '--%s'; did you mean '--%s'?", name,
                                          best));
    return spot_err_kind(err, "unknown",
                         spot_err_set(err, SPOT_EUSAGE, "unknown option '--%s'", name));
}

static int parse_whole(const char *text, uint64_t *value)
{
    char *stop;

    errno = 0;
    *value = strtoull(text, &stop, 10);
    return text[0] < '0' || text[0] > '9' || *stop || errno ? -1 : 0;
}

static void append(struct spot_opt_list *list, const char *text)
{
    list->item = spot_xrealloc(list->item, list->n + 1, sizeof(*list->item));
    list->item[list->n++] = text;
}

static int assign_number(const struct spot_opt *o, const char *text, void *value,
                         struct spot_err *err)
{
    static const char *const wants[] = {
        [SPOT_OPT_U64] = "a whole number",
        [SPOT_OPT_REAL] = "a number",
        [SPOT_OPT_SECS] = "a duration such as 90s, 5m or 2h",
        [SPOT_OPT_SIZE] = "a size such as 4096, 64KiB or 1.25GB",
    };
    char min[SPOT_NUM_TEXT], max[SPOT_NUM_TEXT];
    uint64_t whole = 0;
    double x = 0;
    int bad = -1;

    if (o->type == SPOT_OPT_U64) {
        bad = parse_whole(text, &whole);
        x = (double)whole;
    } else if (o->type == SPOT_OPT_REAL) {
        bad = spot_num_parse(text, &x);
    } else if (o->type == SPOT_OPT_SECS) {
        bad = spot_num_parse_secs(text, &x);
    } else if (o->type == SPOT_OPT_SIZE) {
        bad = spot_num_parse_size(text, &x);
    }
    if (bad)
        return spot_err_kind(err, "value",
                             spot_err_set(err, SPOT_EUSAGE, "--%s must be %s, got '%s'",
                                          o->long_name, wants[o->type], text));
    if ((o->min != 0 || o->max != 0) &&
        (x < o->min || x > o->max ||
         (whole <= INT64_MAX && spot_num_compare_whole((int64_t)whole, o->max) > 0)))
        return spot_err_kind(
            err, "value",
            spot_err_set(err, SPOT_EUSAGE, "--%s must be between %s and %s, got '%s'", o->long_name,
                         spot_num_format(o->min, min), spot_num_format(o->max, max), text));
    if (o->type == SPOT_OPT_U64)
        *(uint64_t *)value = whole;
    else
        *(double *)value = x;
    return 0;
}

/* "A" or "A:B" */
static int assign_pair(const struct spot_opt *o, const char *text, struct spot_err *err)
{
    char *const copy = spot_xstrdup(text), *const colon = strchr(copy, ':');
    double *const value = o->value;
    struct spot_opt each = *o;
    int rc;

    each.type = o->type == SPOT_OPT_TIMES ? SPOT_OPT_SECS : SPOT_OPT_REAL;
    if (colon)
        *colon = '\0';
    rc = assign_number(&each, copy, &value[0], err);
    if (!rc && colon)
        rc = assign_number(&each, colon + 1, &value[1], err);
    free(copy);
    return rc;
}

static int assign(const struct spot_opt *o, const char *text, struct spot_err *err)
{
    if (o->type == SPOT_OPT_STRING || o->type == SPOT_OPT_MAYBE) {
        *(const char **)o->value = text;
        return 0;
    }
    if (o->type == SPOT_OPT_LIST) {
        append(o->value, text);
        return 0;
    }
    if (o->type == SPOT_OPT_REALS || o->type == SPOT_OPT_TIMES)
        return assign_pair(o, text, err);
    return assign_number(o, text, o->value, err);
}

/* '_' matches '-', as in command lines of Python tools. */
static bool is_name(const char *long_name, const char *text)
{
    for (; *long_name; long_name++, text++)
        if (*text != *long_name && !(*text == '_' && *long_name == '-'))
            return false;
    return true;
}

static const struct spot_opt *find_long(const struct spot_cli *cli, const char *name, size_t len)
{
    for (const struct spot_opt *o = cli->option; o->type != SPOT_OPT_END; o++)
        if (o->long_name && strlen(o->long_name) == len && is_name(o->long_name, name))
            return o;
    return NULL;
}

static const struct spot_opt *find_short(const struct spot_cli *cli, char c)
{
    for (const struct spot_opt *o = cli->option; o->type != SPOT_OPT_END; o++)
        if (o->short_name == c)
            return o;
    return NULL;
}

static bool is_value(const char *arg)
{
    return arg[0] != '-' || !arg[1];
}

/* Reads the values of option argv[*i] from the arguments after it. */
static int take_values(const struct spot_opt *o, char **argv, int argc, int *i,
                       struct spot_err *err)
{
    if (o->type == SPOT_OPT_MAYBE && (*i + 1 >= argc || !is_value(argv[*i + 1])))
        return assign(o, "", err);
    if (*i + 1 >= argc)
        return spot_err_kind(
            err, "missing",
            spot_err_set(err, SPOT_EUSAGE, "--%s needs a <%s>", o->long_name, o->arg_name));
    if (assign(o, argv[++*i], err))
        return -1;
    while (o->type == SPOT_OPT_LIST && *i + 1 < argc && is_value(argv[*i + 1]))
        append(o->value, argv[++*i]);
    return 0;
}

static void mark_given(const struct spot_cli *cli, const struct spot_opt *o)
{
    if (cli->given)
        cli->given[o - cli->option] = true;
}

static int parse_long(const struct spot_cli *cli, char **argv, int argc, int *i, bool *given,
                      struct spot_err *err)
{
    const char *name = argv[*i] + 2;
    const char *eq = strchr(name, '=');
    const size_t len = eq ? (size_t)(eq - name) : strlen(name);
    const struct spot_opt *o = find_long(cli, name, len);
    char copy[64];

    if (!o && !strncmp(name, "no-", 3) && !eq) {
        o = find_long(cli, name + 3, len - 3);
        if (o && o->type == SPOT_OPT_FLAG) {
            *(bool *)o->value = false;
            mark_given(cli, o);
            return 0;
        }
        o = NULL;
    }
    if (!o) {
        snprintf(copy, sizeof(copy), "%.*s", (int)len, name);
        return unknown_option(cli, copy, err);
    }
    given[o - cli->option] = true;
    mark_given(cli, o);
    if (o->type == SPOT_OPT_FLAG) {
        if (eq)
            return spot_err_set(err, SPOT_EUSAGE, "--%s takes no value", o->long_name);
        *(bool *)o->value = true;
        return 0;
    }
    return eq ? assign(o, eq + 1, err) : take_values(o, argv, argc, i, err);
}

static int parse_short(const struct spot_cli *cli, char **argv, int argc, int *i, bool *given,
                       struct spot_err *err)
{
    for (const char *p = argv[*i] + 1; *p; p++) {
        const struct spot_opt *o = find_short(cli, *p);

        if (!o)
            return spot_err_kind(err, "unknown",
                                 spot_err_set(err, SPOT_EUSAGE, "unknown option '-%c'", *p));
        given[o - cli->option] = true;
        mark_given(cli, o);
        if (o->type == SPOT_OPT_FLAG) {
            *(bool *)o->value = true;
            continue;
        }
        if (p[1])
            return assign(o, p + 1, err);
        if (*i + 1 >= argc)
            return spot_err_kind(
                err, "missing",
                spot_err_set(err, SPOT_EUSAGE, "-%c needs a <%s>", *p, o->arg_name));
        return assign(o, argv[++*i], err);
    }
    return 0;
}

static enum { AS_ENVIRONMENT, TEXT, JSON } error_format;

bool spot_cli_wants_json_errors(void)
{
    const char *const text = getenv("SPOT_ERROR_FORMAT");

    return error_format == JSON ||
           (error_format == AS_ENVIRONMENT && text && !strcmp(text, "json"));
}

/* If argv[*i] is --error-format, take it, with its value. Returns 1, 0 if it is not, -1 with *err.
 */
static int take_error_format(char **argv, int argc, int *i, struct spot_err *err)
{
    static const char name[] = "--error-format";
    const size_t n = sizeof(name) - 1;
    const char *value;

    if (strncmp(argv[*i], name, n) != 0 || (argv[*i][n] && argv[*i][n] != '='))
        return 0;
    if (!argv[*i][n] && *i + 1 >= argc)
        return spot_err_kind(err, "missing",
                             spot_err_set(err, SPOT_EUSAGE, "%s needs a <name>", name));
    value = argv[*i][n] ? argv[*i] + n + 1 : argv[++*i];
    if (strcmp(value, "json") != 0 && strcmp(value, "text") != 0)
        return spot_err_kind(
            err, "value",
            spot_err_set(err, SPOT_EUSAGE, "%s must be text or json, got '%s'", name, value));
    error_format = value[0] == 'j' ? JSON : TEXT;
    return 1;
}

/* Whether argv[*i] is an option of another program, which is taken with its value and not used. */
static bool is_passed_over(const struct spot_cli *cli, char **argv, int *i)
{
    const char *const name = argv[*i] + (argv[*i][1] == '-' ? 2 : 1);
    const size_t n = strcspn(name, "=");

    for (const char *const *at = cli->passed_over; at && *at; at++)
        if (strlen(*at) == n && is_name(*at, name)) {
            if (!name[n] && argv[*i + 1])
                ++*i;
            return true;
        }
    return false;
}

void spot_cli_find_error_format(int argc, char **argv, int i)
{
    while (++i < argc && strcmp(argv[i], "--") != 0)
        if (take_error_format(argv, argc, &i, NULL))
            return;
}

/* The options of argv[1..argc), without those after "--" or after a command. Options move to the
 * front, operands to operand[]; given[] marks the options. Returns the number of operands, -1 with
 * *err, or -2 after --help and the like. */
static int parse_options(const struct spot_cli *cli, int argc, char **argv, char **operand,
                         bool *given, struct spot_err *err)
{
    int n_operand = 0, n_front = 1;
    bool is_over = false;

    for (int i = 1; i < argc; i++) {
        char *arg = argv[i];
        const int first = i;
        int rc;

        if (is_over || arg[0] != '-' || !arg[1]) { /* an operand, or "-" for stdin */
            operand[n_operand++] = arg;
            is_over = is_over || cli->runs_command;
            continue;
        }
        if (!strcmp(arg, "--")) {
            is_over = true;
        } else if (!strcmp(arg, "--help-table")) {
            print_table(cli, stdout);
            return -2;
        } else if (!strcmp(arg, "--help") || !strcmp(arg, "--help-all")) {
            print_help(cli, arg[6] == '-', stdout);
            return -2;
        } else if (!strcmp(arg, "--version")) {
            printf("%s %s\n", cli->name, spot_version());
            return -2;
        } else if ((rc = take_error_format(argv, argc, &i, err)) < 0) {
            return -1;
        } else if (!rc && !is_passed_over(cli, argv, &i) &&
                   (arg[1] == '-' ? parse_long(cli, argv, argc, &i, given, err)
                                  : parse_short(cli, argv, argc, &i, given, err))) {
            if (!cli->runs_command)
                spot_cli_find_error_format(argc, argv, i);
            return -1;
        }
        for (int k = first; k <= i; k++)
            argv[n_front++] = argv[k];
    }
    return n_operand;
}

static size_t count_options(const struct spot_cli *cli)
{
    size_t n = 0;

    while (cli->option[n].type != SPOT_OPT_END)
        n++;
    return n;
}

enum spot_cli_action spot_cli_parse(const struct spot_cli *cli, int argc, char **argv,
                                    int *first_operand, struct spot_err *err)
{
    char **operand = spot_xcalloc((size_t)argc + 1, sizeof(*operand));
    bool *given = spot_xcalloc(count_options(cli) + 1, sizeof(*given));
    int n = parse_options(cli, argc, argv, operand, given, err);

    if (n >= 0 && spot_opt_check(cli, given, operand, n, err))
        n = -1;
    for (int i = 0; i < n; i++)
        argv[argc - n + i] = operand[i];
    free(operand);
    free(given);
    if (n < 0)
        return n == -1 ? SPOT_CLI_ERROR : SPOT_CLI_DONE;
    *first_operand = argc - n;
    return SPOT_CLI_RUN;
}
