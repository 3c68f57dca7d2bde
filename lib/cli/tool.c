/* SPDX-License-Identifier: MIT */
#include "cli/tool.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/edit_distance.h"
#include "common/utf8.h"
#include "common/version.h"

static const char *tool_name = "spot";
static bool is_quiet, is_verbose;

/* A closed fd 0-2 would be reused by the next open() and corrupted by the
 * next message. Fill the hole with one that fails on use: write-only for
 * stdin, read-only for the others, so that lost output is still reported. */
static void hold_std_fds(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
            _exit(4);
}

void spot_tool_init(const char *name)
{
    tool_name = name;
    hold_std_fds();
    signal(SIGPIPE, SIG_DFL); /* a parent may have set SIG_IGN */
    signal(SIGXFSZ, SIG_IGN); /* a file at its limit is an error like a full disk, not a kill */
}

bool spot_tool_parse(const struct spot_cli *cli, int argc, char **argv, int *first, int *status)
{
    struct spot_err err = { 0 };
    const enum spot_cli_action action = spot_cli_parse(cli, argc, argv, first, &err);

    if (action != SPOT_CLI_RUN)
        *status = spot_tool_finish(action == SPOT_CLI_DONE ? 0 : -1, &err);
    return action == SPOT_CLI_RUN;
}

void spot_tool_talk(const struct spot_tool_common *common)
{
    is_quiet = common->quiet;
    is_verbose = common->verbose;
}

static void talk(const char *kind, const char *fmt, va_list ap)
{
    fprintf(stderr, "%s: %s", tool_name, kind);
    vfprintf(stderr, fmt, ap);
    putc('\n', stderr);
}

void spot_tool_warn(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (!is_quiet)
        talk("warning: ", fmt, ap);
    va_end(ap);
}

void spot_tool_note(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (!is_quiet)
        talk("", fmt, ap);
    va_end(ap);
}

void spot_tool_info(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (is_verbose)
        talk("", fmt, ap);
    va_end(ap);
}

static void list_commands(const char *tool, const char *summary, const struct spot_command *command,
                          FILE *out)
{
    fprintf(out, "usage: %s <command> [options]\n\n%s\n\ncommands:\n", tool, summary);
    for (; command->name; command++)
        fprintf(out, "  %-12s %s\n", command->name, command->summary);
    fprintf(out, "\n'%s <command> --help' shows the options of one.\n", tool);
}

int spot_tool_dispatch(const char *tool, const char *summary, const struct spot_command *command,
                       int argc, char **argv)
{
    struct spot_err err = { 0 };

    spot_tool_init(tool);
    if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "--help-all"))) {
        list_commands(tool, summary, command, stdout);
        return spot_tool_finish(0, &err);
    }
    if (argc >= 2 && !strcmp(argv[1], "--version")) {
        printf("%s %s\n", tool, spot_version());
        return spot_tool_finish(0, &err);
    }
    for (const struct spot_command *c = command; argc >= 2 && c->name; c++)
        if (!strcmp(argv[1], c->name)) {
            static char whole[64]; /* messages name the command and point to its help */

            snprintf(whole, sizeof(whole), "%s %s", tool, c->name);
            tool_name = whole;
            return c->main(argc - 1, argv + 1);
        }
    if (argc < 2) {
        list_commands(tool, summary, command, stderr);
        return spot_err_exit_status(&(struct spot_err){ .code = SPOT_EUSAGE });
    }
    for (const struct spot_command *c = command; c->name; c++)
        if (spot_edit_distance(argv[1], c->name) <= 2)
            return spot_tool_finish(spot_err_set(&err, SPOT_EUSAGE,
                                                 "unknown command '%s'; did you mean '%s'?",
                                                 argv[1], c->name),
                                    &err);
    spot_err_set(&err, SPOT_EUSAGE, "unknown command '%s'", argv[1]);
    return spot_tool_finish(-1, &err);
}

bool spot_tool_stdin_is_idle(const char *path)
{
    return !path && isatty(STDIN_FILENO);
}

FILE *spot_tool_open(const char *path, const char **source, struct spot_err *err)
{
    FILE *in;

    if (!path || !strcmp(path, "-")) {
        *source = "<stdin>";
        return stdin;
    }
    *source = path;
    in = fopen(path, "re");
    if (!in)
        spot_err_sys(err, "cannot open '%s'", path);
    return in;
}

int spot_tool_finish(int rc, struct spot_err *err)
{
    char *said;

    if (!rc && (fflush(stdout) || ferror(stdout)))
        rc = spot_err_sys(err, "cannot write output");
    if (!rc)
        return EXIT_SUCCESS;
    said = spot_utf8_shown(err->msg); /* it may quote a document of anybody's */
    fprintf(stderr, "%s: %s\n", tool_name, said);
    free(said);
    if (err->code == SPOT_EUSAGE)
        fprintf(stderr, "try '%s --help'\n", tool_name);
    return spot_err_exit_status(err);
}
