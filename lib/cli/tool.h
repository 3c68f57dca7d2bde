/* SPDX-License-Identifier: MIT */
/* tool.h - the first and last steps of every main(). */
#ifndef SPOT_CLI_TOOL_H
#define SPOT_CLI_TOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/opt.h"
#include "cli/table.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values of the common options; put SPOT_TOOL_OPTIONS(&common) in the table of options. */
struct spot_tool_common {
    const char *output; /* NULL: stdout */
    const char *format; /* see spot_format_parse */
    uint64_t seed;
    bool quiet, verbose;
    bool provenance;
};

#define SPOT_TOOL_COMMON_DEFAULT   \
    {                              \
        .seed = 1, .provenance = 1 \
    }
/* clang-format off */
/* The common options of a command with a single output format. */
#define SPOT_TOOL_OPTIONS_VERBOSITY(c) \
    { SPOT_OPT_FLAG, 'q', "quiet", &(c)->quiet, NULL, "no warnings, no progress", 0, 0 }, \
    { SPOT_OPT_FLAG, 'v', "verbose", &(c)->verbose, NULL, "say more on stderr", 0, 0 }
#define SPOT_TOOL_OPTIONS_OUTPUT(c, what) \
    { SPOT_OPT_GROUP, .help = "common" }, \
    { SPOT_OPT_STRING, 'o', "output", &(c)->output, "file", what, 0, 0 }
#define SPOT_TOOL_OPTIONS_WRITE(c, what) \
    SPOT_TOOL_OPTIONS_OUTPUT(c, what), SPOT_TOOL_OPTIONS_VERBOSITY(c)
/* `forms`: the values of --format, in words. */
#define SPOT_TOOL_OPTIONS_AS(c, forms) \
    SPOT_TOOL_OPTIONS_OUTPUT(c, "write here, complete or not at all (default: stdout)"), \
    SPOT_TEXT("format", &(c)->format, "name", forms), \
    { SPOT_OPT_U64, 0, "seed", &(c)->seed, "n", "seed of what it draws (default: 1)", 0, 0 }, \
    SPOT_TOOL_OPTIONS_VERBOSITY(c), \
    SPOT_FLAG("provenance", &(c)->provenance, "write made_by (default: yes; --no-provenance)")
/* clang-format on */
#define SPOT_TOOL_OPTIONS(c) SPOT_TOOL_OPTIONS_AS(c, "json, jsonl, csv, tsv, table or md")

/* Begin a table that is a command's whole output, in the --format, by default CSV unless stdout is
 * a terminal. Returns 0, or -1 with *err and no table. */
int spot_tool_table(const struct spot_tool_common *common, struct spot_table *table,
                    const char *columns, struct spot_err *err);
/* If rc is 0, write it. *table is released either way. Returns 0, or -1 with *err. */
int spot_tool_table_write(const struct spot_tool_common *common, struct spot_table *table, int rc,
                          struct spot_err *err);

/* Messages on stderr: "tool: warning: ..."; "tool: ..." for notes always, for info with --verbose.
 * spot_tool_set_verbosity applies --quiet and --verbose. */
void spot_tool_set_verbosity(const struct spot_tool_common *common);
void spot_tool_warn(const char *fmt, ...) SPOT_PRINTF(1, 2);
/* Replace missing prices (< 0), spot and on demand, by these defaults, with a warning. */
void spot_tool_assume_prices(double usd_per_h[2], double spot, double on_demand);
/* Warn if others may write in this directory, where they could create links. NULL: no directory. */
void spot_tool_warn_shared(const char *dir);
void spot_tool_note(const char *fmt, ...) SPOT_PRINTF(1, 2);
void spot_tool_info(const char *fmt, ...) SPOT_PRINTF(1, 2);
/* Print a line without the tool's name. */
void spot_tool_print(const char *fmt, ...) SPOT_PRINTF(1, 2);
/* Redraw the progress line in place of the previous one; "": erase it. */
void spot_tool_draw(const char *text);

/* For long-running jobs: from now on messages never block on a stopped terminal (common/outlet.h).
 * Starts a thread. */
void spot_tool_never_wait(void);
/* Before an _exit: write pending messages, unless the reader is blocked. */
void spot_tool_part(void);

/* Find argv[1] in the table (ends with NULL) and run it; handles --help, --version, a missing and
 * an unknown command. Returns the exit status. */
int spot_tool_dispatch(const char *tool, const char *summary, const struct spot_cli *const *command,
                       int argc, char **argv);

/* The main of a tool with a single command. Returns the exit status. */
int spot_tool_run(const struct spot_cli *command, int argc, char **argv);

/* True if no input was named and stdin is a terminal: show help instead of waiting. */
bool spot_tool_stdin_is_idle(const char *path);

/* Open `path` for reading; "-" or NULL is stdin. *source gets the name to
 * use in messages. NULL on failure with *err filled. */
FILE *spot_tool_open(const char *path, const char **source, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLI_TOOL_H */
