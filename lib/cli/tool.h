/* SPDX-License-Identifier: MIT */
/* tool.h - what every main() does first and last. */
#ifndef SPOT_CLI_TOOL_H
#define SPOT_CLI_TOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/opt.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Restore SIGPIPE, hold fds 0-2 open. Call first. */
void spot_tool_init(const char *name);

/* The options every tool has; put SPOT_TOOL_OPTIONS(&common) in its table. */
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
/* Of those, for a command with no choice of form: what it says, and where it writes. */
#define SPOT_TOOL_OPTIONS_TALK(c)                                                         \
    { SPOT_OPT_FLAG, 'q', "quiet", &(c)->quiet, NULL, "no warnings, no progress", 0, 0 }, \
    {                                                                                     \
        SPOT_OPT_FLAG, 'v', "verbose", &(c)->verbose, NULL, "say more on stderr", 0, 0    \
    }
#define SPOT_TOOL_OPTIONS_WRITE(c, what)                                      \
    { SPOT_OPT_GROUP, .help = "common" },                                     \
        { SPOT_OPT_STRING, 'o', "output", &(c)->output, "file", what, 0, 0 }, \
        SPOT_TOOL_OPTIONS_TALK(c)
/* `forms`: what --format takes, in words. */
#define SPOT_TOOL_OPTIONS_AS(c, forms)                                                            \
    { SPOT_OPT_GROUP, .help = "common" },                                                         \
        { SPOT_OPT_STRING,                                                                        \
          'o',                                                                                    \
          "output",                                                                               \
          &(c)->output,                                                                           \
          "file",                                                                                 \
          "write here, complete or not at all (default stdout)",                                  \
          0,                                                                                      \
          0 },                                                                                    \
        { SPOT_OPT_STRING, 0, "format", &(c)->format, "name", forms, 0, 0 },                      \
        { SPOT_OPT_U64, 0, "seed", &(c)->seed, "n", "seed of all randomness (default 1)", 0, 0 }, \
        { SPOT_OPT_FLAG, 'q', "quiet", &(c)->quiet, NULL, "no warnings, no progress", 0, 0 },     \
        { SPOT_OPT_FLAG, 'v', "verbose", &(c)->verbose, NULL, "say more on stderr", 0, 0 },       \
    {                                                                                             \
        SPOT_OPT_FLAG, 0, "provenance", &(c)->provenance, NULL,                                   \
            "write made_by (default yes; --no-provenance)", 0, 0                                  \
    }
#define SPOT_TOOL_OPTIONS(c) SPOT_TOOL_OPTIONS_AS(c, "json, jsonl, csv, tsv, table or md")

/* Parse the arguments as spot_cli_parse does. True: go on, *first is the first operand. False: all
 * is said, --help or an error, and *status is what main returns. */
bool spot_tool_parse(const struct spot_cli *cli, int argc, char **argv, int *first, int *status);

/* Messages on stderr: "tool: warning: ..."; "tool: ..." of note always, of info with --verbose.
 * spot_tool_talk sets what --quiet and --verbose allow. */
void spot_tool_talk(const struct spot_tool_common *common);
void spot_tool_warn(const char *fmt, ...) SPOT_PRINTF(1, 2);
void spot_tool_note(const char *fmt, ...) SPOT_PRINTF(1, 2);
void spot_tool_info(const char *fmt, ...) SPOT_PRINTF(1, 2);

/* One program of a tool with subcommands. */
struct spot_command {
    const char *name, *summary;
    int (*main)(int argc, char **argv); /* argv[0] is the subcommand; returns the exit status */
};

/* Find argv[1] in the table (ends with a NULL name) and run it; answers --help,
 * --version, a missing and an unknown subcommand. Returns the exit status. */
int spot_tool_dispatch(const char *tool, const char *summary, const struct spot_command *command,
                       int argc, char **argv);

/* True if stdin is a terminal and nobody named an input: show help, do not hang. */
bool spot_tool_stdin_is_idle(const char *path);

/* Open `path` for reading; "-" or NULL is stdin. *source gets the name to
 * use in messages. NULL on failure with *err filled. */
FILE *spot_tool_open(const char *path, const char **source, struct spot_err *err);

/* Flush stdout, print err if rc is nonzero, and return the exit status. */
int spot_tool_finish(int rc, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLI_TOOL_H */
