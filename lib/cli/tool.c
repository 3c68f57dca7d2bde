/* SPDX-License-Identifier: MIT */
#include "cli/tool.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/csv_reader.h"
#include "common/edit_distance.h"
#include "common/json_writer.h"
#include "common/out.h"
#include "common/outlet.h"
#include "common/utf8.h"
#include "common/version.h"

static const char *tool_name = "spot";
static bool is_quiet, is_verbose;
static struct spot_outlet *outlet; /* for messages that must not block; NULL: stderr */

enum { OUTLET_BYTE = 1 << 16, LINE_BYTE = 8192 };
static const double parting_s = 1; /* how long to wait at the end for a stopped terminal */

/* A closed fd 0-2 would be reused by the next open() and corrupted by the
 * next message. Fill the hole with one that fails on use: write-only for
 * stdin, read-only for the others, so that lost output is still reported. */
static void hold_std_fds(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
            _exit(4);
}

static void warn_doubt(const char *sentence)
{
    spot_tool_warn("%s", sentence);
}

/* Restore SIGPIPE, hold fds 0-2 open. */
static void init(const char *name)
{
    tool_name = name;
    spot_csv_doubts(warn_doubt);
    hold_std_fds();
    signal(SIGPIPE, SIG_DFL); /* a parent may have set SIG_IGN */
    signal(SIGXFSZ, SIG_IGN); /* a file size limit becomes an error like a full disk */
}

/* --- messages ------------------------------------------------------------------------ */

void spot_tool_never_wait(void)
{
    if (!outlet && spot_outlet_is_needed(STDERR_FILENO))
        outlet = spot_outlet_new(STDERR_FILENO, OUTLET_BYTE, true,
                                 NULL); /* on failure messages may block */
}

void spot_tool_part(void)
{
    (void)spot_outlet_free(outlet, parting_s);
    outlet = NULL;
}

/* A single write, so that lines of several processes do not mix. */
static void put(const char *line, size_t n)
{
    if (outlet)
        (void)spot_outlet_put(outlet, line, n);
    else
        (void)fwrite(line, 1, n, stderr);
}

/* Prints a message as a JSON object; err: details of an error, NULL for other messages. */
static void put_json(const char *level, const char *text, const struct spot_err *err)
{
    char *line = NULL, name[SPOT_ERR_NAME];
    size_t n = 0;
    FILE *const out = open_memstream(&line, &n);
    struct spot_jw jw;

    if (!out)
        return;
    spot_jw_init(&jw, out, false);
    spot_jw_object(&jw, NULL);
    spot_jw_str(&jw, "tool", tool_name);
    spot_jw_str(&jw, "level", level);
    if (err)
        spot_jw_str(&jw, "code", spot_err_name(err, name));
    if (err && err->at.file_byte)
        spot_jw_text(&jw, "file", err->msg, err->at.file_byte);
    if (err && err->at.line)
        spot_jw_int(&jw, "line", (int64_t)err->at.line);
    if (err && err->at.column)
        spot_jw_int(&jw, "column", (int64_t)err->at.column);
    if (err && err->at.n_pointer)
        spot_jw_text(&jw, "pointer", err->msg + err->at.pointer, err->at.n_pointer);
    spot_jw_str(&jw, "message", text);
    spot_jw_end(&jw);
    (void)spot_jw_close(&jw, NULL);
    if (!fclose(out))
        put(line, n);
    free(line);
}

/* level NULL: a line without the tool's name. */
static void print_level(const char *level, const char *fmt, va_list ap)
{
    char line[LINE_BYTE];
    const bool is_warning = level && !strcmp(level, "warning"),
               is_json = spot_cli_wants_json_errors();
    size_t n = is_json || !level ? 0
                                 : (size_t)snprintf(line, sizeof(line), "%s: %s", tool_name,
                                                    is_warning ? "warning: " : "");

    n += (size_t)vsnprintf(line + n, sizeof(line) - n, fmt, ap);
    if (is_json) {
        put_json(level ? level : "note", line, NULL);
        return;
    }
    n = n < sizeof(line) - 1 ? n : sizeof(line) - 2;
    line[n++] = '\n';
    put(line, n);
}

static void print_error(const char *fmt, ...) SPOT_PRINTF(1, 2);
static void print_error(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    print_level("error", fmt, ap);
    va_end(ap);
}

void spot_tool_print(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    print_level(NULL, fmt, ap);
    va_end(ap);
}

void spot_tool_draw(const char *text)
{
    static const char over[] = "\r\033[K";
    char line[LINE_BYTE];
    const size_t n = (size_t)snprintf(line, sizeof(line), "%s%s", over, text);

    if (spot_cli_wants_json_errors())
        return;
    if (!outlet)
        (void)fwrite(line, 1, n, stderr);
    else if (spot_outlet_wait(outlet, 0, 0)) /* an outdated progress line is not shown later */
        (void)spot_outlet_put(outlet, line, n);
}

static void report_error(const struct spot_err *err)
{
    char *text;

    if (spot_cli_wants_json_errors()) {
        put_json("error", err->msg, err);
        return;
    }
    text = spot_utf8_shown(err->msg); /* it may quote an untrusted document */
    print_error("%s", text);
    free(text);
    if (err->code == SPOT_EUSAGE)
        spot_tool_print("try '%s --help'", tool_name);
}

/* Flush stdout, print err if rc is nonzero, and return the exit status. */
static int finish(int rc, struct spot_err *err)
{
    if (!rc && (fflush(stdout) || ferror(stdout)))
        rc = spot_err_sys(err, "cannot write output");
    if (rc && err->msg[0])
        report_error(err);
    spot_tool_part();
    return rc ? spot_err_exit_status(err) : EXIT_SUCCESS;
}

int spot_tool_table(const struct spot_tool_common *common, struct spot_table *table,
                    const char *columns, struct spot_err *err)
{
    enum spot_format format;

    if (spot_format_parse(common->format, &format, err))
        return -1;
    spot_table_init(table, columns);
    table->format = spot_format_settle(format, common->output, SPOT_FORMAT_CSV);
    return 0;
}

int spot_tool_table_write(const struct spot_tool_common *common, struct spot_table *table, int rc,
                          struct spot_err *err)
{
    struct spot_out out;

    rc = rc ? rc : spot_out_open(&out, common->output, err);
    if (!rc) {
        spot_table_print(table, out.file, table->format);
        rc = spot_out_finish(&out, 0, err);
    }
    spot_table_release(table);
    return rc;
}

void spot_tool_set_verbosity(const struct spot_tool_common *common)
{
    is_quiet = common->quiet;
    is_verbose = common->verbose;
}

void spot_tool_warn(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (!is_quiet)
        print_level("warning", fmt, ap);
    va_end(ap);
}

void spot_tool_assume_prices(double usd_per_h[2], double spot, double on_demand)
{
    const double assumed[2] = { spot, on_demand };
    static const char *const of[2] = { "spot", "on demand" };

    for (int i = 0; i < 2; i++)
        if (usd_per_h[i] < 0) {
            usd_per_h[i] = assumed[i];
            spot_tool_warn("%g usd/h %s is assumed, as for a p3.2xlarge in 2020; set it with "
                           "--usd-per-h",
                           assumed[i], of[i]);
        }
}

void spot_tool_warn_shared(const char *dir)
{
    struct stat st;

    if (dir && !stat(dir, &st) && S_ISDIR(st.st_mode) && st.st_mode & 022)
        spot_tool_warn(
            "other users may write in '%s' (mode %04o): chmod go-w it, as it would have been "
            "made",
            dir, (unsigned)(st.st_mode & 07777));
}

void spot_tool_note(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (!is_quiet)
        print_level("note", fmt, ap);
    va_end(ap);
}

void spot_tool_info(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (is_verbose)
        print_level("note", fmt, ap);
    va_end(ap);
}

static int run(const struct spot_cli *command, int argc, char **argv)
{
    struct spot_err err = { 0 };
    enum spot_cli_action action;
    int first, rc;

    if (command->prepare)
        command->prepare();
    action = spot_cli_parse(command, argc, argv, &first, &err);
    if (action != SPOT_CLI_RUN)
        return finish(action == SPOT_CLI_DONE ? 0 : -1, &err);
    if (command->common)
        spot_tool_set_verbosity(command->common);
    rc = command->run_alone ? command->run_alone(&err)
                            : command->run(argv + first, (size_t)(argc - first), &err);
    return finish(rc, &err);
}

int spot_tool_run(const struct spot_cli *command, int argc, char **argv)
{
    init(command->name);
    return run(command, argc, argv);
}

/* "stop" */
static const char *word_of(const struct spot_cli *command)
{
    return strrchr(command->name, ' ') + 1;
}

static void list_commands(const char *tool, const char *summary,
                          const struct spot_cli *const *command, FILE *out)
{
    fprintf(out, "usage: %s <command> [options]\n\n%s\n\ncommands:\n", tool, summary);
    for (; *command; command++)
        fprintf(out, "  %-12s %s\n", word_of(*command), (*command)->brief);
    fprintf(out, "\n'%s <command> --help' shows the options of one.\n", tool);
}

static int unknown_command(const struct spot_cli *const *command, const char *name,
                           struct spot_err *err)
{
    for (; *command; command++)
        if (spot_edit_distance(name, word_of(*command)) <= 2)
            return spot_err_kind(err, "unknown",
                                 spot_err_set(err, SPOT_EUSAGE,
                                              "unknown command '%s'; did you mean '%s'?", name,
                                              word_of(*command)));
    return spot_err_kind(err, "unknown",
                         spot_err_set(err, SPOT_EUSAGE, "unknown command '%s'", name));
}

int spot_tool_dispatch(const char *tool, const char *summary, const struct spot_cli *const *command,
                       int argc, char **argv)
{
    struct spot_err err = { 0 };

    init(tool);
    if (argc < 2) {
        list_commands(tool, summary, command, stderr);
        return spot_err_exit_status(&(struct spot_err){ .code = SPOT_EUSAGE });
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "--help-all")) {
        list_commands(tool, summary, command, stdout);
        return finish(0, &err);
    }
    if (!strcmp(argv[1], "--version")) {
        printf("%s %s\n", tool, spot_version());
        return finish(0, &err);
    }
    for (const struct spot_cli *const *c = command; *c; c++)
        if (!strcmp(argv[1], word_of(*c))) {
            tool_name = (*c)->name; /* messages name the command and point to its help */
            return run(*c, argc - 1, argv + 1);
        }
    spot_cli_find_error_format(argc, argv, 1);
    return finish(unknown_command(command, argv[1], &err), &err);
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
