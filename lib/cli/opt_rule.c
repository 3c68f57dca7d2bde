/* SPDX-License-Identifier: MIT */
#include "cli/opt_rule.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/plot.h"
#include "common/out.h"
#include "common/xalloc.h"

enum { NAME_MAX_BYTE = 64, TEXT_MAX_BYTE = 160 };

static const struct spot_opt *find(const struct spot_cli *cli, const char *name)
{
    for (const struct spot_opt *o = cli->option; o->type != SPOT_OPT_END; o++)
        if (o->long_name && !strcmp(o->long_name, name))
            return o;
    return NULL;
}

static const char *text_of(const struct spot_opt *o)
{
    return o && o->type == SPOT_OPT_STRING ? *(const char *const *)o->value : NULL;
}

/* The i-th value of an option; NULL after the last. */
static const char *item_of(const struct spot_opt *o, size_t i)
{
    const struct spot_opt_list *const list = o && o->type == SPOT_OPT_LIST ? o->value : NULL;

    return list ? (i < list->n ? list->item[i] : NULL) : i ? NULL : text_of(o);
}

/* --- options that need others --- */

/* True if a condition holds. "NAME": the option was given (a flag: and is set). "NAME VALUE": the
 * option has this value, even by default. */
static bool is_so(const struct spot_cli *cli, const bool *given, const char *what)
{
    const char *value = strchr(what, ' ');
    char name[NAME_MAX_BYTE];
    const struct spot_opt *o;

    snprintf(name, sizeof(name), "%.*s", (int)(value ? value - what : (ptrdiff_t)strlen(what)),
             what);
    o = find(cli, name);
    assert(o); /* otherwise a rule names an option that does not exist */
    if (!value)
        return given[o - cli->option] && (o->type != SPOT_OPT_FLAG || *(const bool *)o->value);
    return text_of(o) && !strcmp(text_of(o), value + 1);
}

/* True if one of the alternatives holds. Their names go to text: "--a, --b or --c". */
static bool is_one_so(const struct spot_cli *cli, const bool *given, const char *others,
                      char text[TEXT_MAX_BYTE])
{
    char *copy = spot_xstrdup(others), *rest = copy, *one;
    bool found = false;
    size_t n = 0;

    while ((one = strtok_r(rest, "|", &rest))) {
        found = found || is_so(cli, given, one);
        n += (size_t)snprintf(text + n, TEXT_MAX_BYTE - n, "%s--%s",
                              !n              ? ""
                              : rest && *rest ? ", "
                                              : " or ",
                              one);
        assert(n < TEXT_MAX_BYTE);
    }
    free(copy);
    return found;
}

static int check_need(const struct spot_cli *cli, const bool *given, const char *option,
                      const char *others, struct spot_err *err)
{
    const bool is_not = others[0] == '!';
    char text[TEXT_MAX_BYTE];

    return !is_so(cli, given, option) || is_one_so(cli, given, others + is_not, text) != is_not
               ? 0
               : spot_err_set(err, SPOT_EUSAGE, "--%s has no effect %s %s", option,
                              is_not ? "with" : "without", text);
}

static int check_needs(const struct spot_cli *cli, const bool *given, struct spot_err *err)
{
    int rc = 0;

    for (const struct spot_opt_need *need = cli->need; !rc && need && need->options; need++) {
        char *const copy = spot_xstrdup(need->options), *rest = copy, *one;

        while (!rc && (one = strtok_r(rest, "|", &rest)))
            rc = check_need(cli, given, one, need->other, err);
        free(copy);
    }
    return rc;
}

/* --- required options, and options with fixed values --- */

static int check_required(const struct spot_cli *cli, const bool *given, struct spot_err *err)
{
    for (const struct spot_opt_required *r = cli->required; r && r->option; r++)
        if (!is_so(cli, given, r->option))
            return spot_err_kind(err, "missing",
                                 spot_err_set(err, SPOT_EUSAGE, "--%s is missing%s%s", r->option,
                                              r->what ? ": " : "", r->what ? r->what : ""));
    return 0;
}

/* "a|b|c" as "a, b or c". */
static void list_words(const char *words, char text[TEXT_MAX_BYTE])
{
    size_t n = 0;

    for (const char *at = words; *at && n + 5 < TEXT_MAX_BYTE; at++) {
        const char *const between = strchr(at + 1, '|') ? ", " : " or ";

        n += (size_t)snprintf(text + n, TEXT_MAX_BYTE - n, *at == '|' ? "%s" : "%.1s",
                              *at == '|' ? between : at);
    }
}

static bool is_word_of(const char *words, const char *word)
{
    const size_t n = strlen(word);

    for (const char *at = words; at; at = strchr(at, '|'), at += at != NULL)
        if (n && n == strcspn(at, "|") && !strncmp(at, word, n))
            return true;
    return false;
}

static int check_choices(const struct spot_cli *cli, struct spot_err *err)
{
    char text[TEXT_MAX_BYTE];

    for (const struct spot_opt_choice *c = cli->choice; c && c->option; c++) {
        const char *const word = text_of(find(cli, c->option));

        if (!word || is_word_of(c->words, word))
            continue;
        list_words(c->words, text);
        return spot_err_kind(
            err, "value",
            spot_err_set(err, SPOT_EUSAGE, "--%s must be %s, got '%s'", c->option, text, word));
    }
    return 0;
}

static int check_operands(const struct spot_cli *cli, char *const *operand, int n_operand,
                          struct spot_err *err)
{
    if (cli->runs_command || cli->n_operand_max < 0 || n_operand <= cli->n_operand_max)
        return 0;
    return spot_err_set(err, SPOT_EUSAGE, "unexpected operand '%s'", operand[cli->n_operand_max]);
}

/* --- outputs that are inputs --- */

static bool is_same_directory(const char *a, const char *b)
{
    const char *const path[2] = { a, b };
    struct stat st[2];

    for (int i = 0; i < 2; i++) {
        const char *slash = strrchr(path[i], '/');
        char *dir = spot_xstrdup(slash ? path[i] : ".");
        int rc;

        if (slash)
            dir[slash == path[i] ? 1 : slash - path[i]] = '\0';
        rc = stat(dir, &st[i]);
        free(dir);
        if (rc)
            return false;
    }
    return st[0].st_dev == st[1].st_dev && st[0].st_ino == st[1].st_ino;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* True if writing one file would destroy the other. Pipes and devices have no contents to lose. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat st[2];
    const bool has_a = !stat(a, &st[0]), has_b = !stat(b, &st[1]);

    if (!strcmp(a, "-") || !strcmp(b, "-") || spot_out_is_special(a) || spot_out_is_special(b))
        return false;
    if (has_a && has_b)
        return st[0].st_dev == st[1].st_dev && st[0].st_ino == st[1].st_ino;
    return has_a == has_b && !strcmp(last_part(a), last_part(b)) && is_same_directory(a, b);
}

static int check_output(const struct spot_cli *cli, const char *output, char *const *operand,
                        int n_operand, struct spot_err *err)
{
    const char *const path = text_of(find(cli, output));
    bool is_later = false;

    if (!path)
        return 0;
    for (int i = 0; !cli->runs_command && i < n_operand; i++)
        if (is_same_file(path, operand[i]))
            return spot_err_set(err, SPOT_EUSAGE, "--%s would overwrite the input '%s'", output,
                                operand[i]);
    for (const char *const *in = cli->reads; in && *in; in++) {
        const struct spot_opt *const o = find(cli, *in);
        const char *other;

        for (size_t i = 0; (other = item_of(o, i)); i++)
            if (is_same_file(path, other))
                return spot_err_set(err, SPOT_EUSAGE,
                                    "--%s would overwrite '%s', the input of --%s", output, other,
                                    *in);
    }
    for (const char *const *out = cli->writes; *out; out++) {
        const char *other = is_later ? text_of(find(cli, *out)) : NULL;

        is_later = is_later || !strcmp(*out, output);
        if (other && is_same_file(path, other))
            return spot_err_set(err, SPOT_EUSAGE, "--%s and --%s would both write '%s'", output,
                                *out, other);
    }
    return 0;
}

static bool reads_stdin(const struct spot_opt *o)
{
    const char *path;

    for (size_t i = 0; (path = item_of(o, i)); i++)
        if (!strcmp(path, "-"))
            return true;
    return false;
}

/* Standard input can be used only once. */
static int check_stdin(const struct spot_cli *cli, struct spot_err *err)
{
    const char *reader = NULL;

    for (const char *const *in = cli->reads; in && *in; in++) {
        if (!reads_stdin(find(cli, *in)))
            continue;
        if (reader)
            return spot_err_set(err, SPOT_EUSAGE,
                                "only one of --%s and --%s can come from standard input", reader,
                                *in);
        reader = *in;
    }
    return 0;
}

int spot_opt_check(const struct spot_cli *cli, const bool *given, char *const *operand,
                   int n_operand, struct spot_err *err)
{
    const char *const picture = text_of(find(cli, "plot"));

    if (check_operands(cli, operand, n_operand, err) || check_needs(cli, given, err) ||
        (picture && spot_plot_check(picture, err)) || check_choices(cli, err) ||
        check_required(cli, given, err) || check_stdin(cli, err))
        return -1;
    for (const char *const *out = cli->writes; out && *out; out++)
        if (check_output(cli, *out, operand, n_operand, err))
            return -1;
    return 0;
}
