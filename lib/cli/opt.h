/* SPDX-License-Identifier: MIT */
/* opt.h - one table per tool drives parsing, --help, completion and docs. */
#ifndef SPOT_CLI_OPT_H
#define SPOT_CLI_OPT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_opt_type {
    SPOT_OPT_END = 0,
    SPOT_OPT_GROUP,  /* heading in --help; `help` is its text */
    SPOT_OPT_MORE,   /* the same for options that only --help-all shows */
    SPOT_OPT_FLAG,   /* bool *; also accepts --no-NAME        */
    SPOT_OPT_STRING, /* const char **; points into argv       */
    SPOT_OPT_U64,    /* uint64_t *, decimal                   */
    SPOT_OPT_REAL,   /* double *, '.' decimal in any locale   */
    SPOT_OPT_SECS,   /* double *, seconds; accepts 90s 5m 2h  */
    SPOT_OPT_SIZE,   /* double *, bytes; accepts 64KiB 1.25GB */
    SPOT_OPT_REALS,  /* double [2], A or A:B; without B the second keeps its value */
    SPOT_OPT_TIMES,  /* double [2], the same in seconds */
    SPOT_OPT_MAYBE,  /* const char **; "" if no value follows; ends at the next option */
    SPOT_OPT_LIST,   /* struct spot_opt_list *; everything up to the next option */
};

/* Values of a SPOT_OPT_LIST in order, collected over all its occurrences. */
struct spot_opt_list {
    const char **item; /* [n], pointing into argv; free() it */
    size_t n;
};

struct spot_opt {
    enum spot_opt_type type;
    char short_name;       /* 0 if none */
    const char *long_name; /* without dashes */
    void *value;           /* where the parsed value goes */
    const char *arg_name;  /* NULL for flags; shown as <arg_name> */
    const char *help;      /* one line, no full stop, default stated */
    double min, max;       /* inclusive bounds; both 0 = unbounded */
};

/* clang-format off */
/* Table rows of a text option and of a flag. */
#define SPOT_TEXT(name, at, arg, what) { SPOT_OPT_STRING, 0, name, at, arg, what, 0, 0 }
#define SPOT_FLAG(name, at, what) { SPOT_OPT_FLAG, 0, name, at, NULL, what, 0, 0 }
/* Table rows of numeric options: name, at, arg, what, min, max. */
#define SPOT_ROW(type, ...) { type, 0, __VA_ARGS__ }
#define SPOT_U64(...) SPOT_ROW(SPOT_OPT_U64, __VA_ARGS__)
#define SPOT_REAL(...) SPOT_ROW(SPOT_OPT_REAL, __VA_ARGS__)
#define SPOT_SECS(...) SPOT_ROW(SPOT_OPT_SECS, __VA_ARGS__)
#define SPOT_SIZE(...) SPOT_ROW(SPOT_OPT_SIZE, __VA_ARGS__)
#define SPOT_REALS(...) SPOT_ROW(SPOT_OPT_REALS, __VA_ARGS__)
#define SPOT_TIMES(...) SPOT_ROW(SPOT_OPT_TIMES, __VA_ARGS__)
/* clang-format on */

/* Options "NAME|NAME" that have no effect unless another one holds: "NAME" is given, "NAME VALUE"
 * has this value; alternatives are separated by '|', and a leading '!' means that none may hold. */
struct spot_opt_need {
    const char *options, *other; /* long names without dashes */
};

/* An option that must be given, or one that takes one of a few words. */
struct spot_opt_required {
    const char *option, *what; /* "join", "the address of the job"; what may be NULL */
};

struct spot_opt_choice {
    const char *option, *words; /* "format", "json|table" */
};

enum { SPOT_OPERANDS_ANY = -1 };

/* A command, or a tool that is one: its options and rules, and the function to run when they hold.
 */
struct spot_cli {
    const char *name;              /* "spot-predict", "spot-run stop" */
    const char *brief;             /* its line in the help of the tool */
    const char *synopsis;          /* "[options] [trace.csv]" */
    const char *summary;           /* one sentence */
    const char *examples;          /* shown last in --help */
    const struct spot_opt *option; /* ends with SPOT_OPT_END */
    bool runs_command;             /* operands form a command with options of its own */
    int n_operand_max;             /* SPOT_OPERANDS_ANY: no limit */
    /* Rules, each may be NULL; a command line that breaks one is rejected. */
    const struct spot_opt_required *required; /* these end with a NULL option */
    const struct spot_opt_choice *choice;
    const struct spot_opt_need *need;
    const char *const *reads; /* options that name inputs, as operands do; ends with NULL */
    bool *given; /* [number of options], set if given, also as --no-; NULL: not needed */
    const char *const
        *writes; /* options that name outputs, which must differ from inputs and other outputs */
    /* Options of another program whose command lines are accepted: taken with their value and
     * ignored. Long and short names, ends with NULL. */
    const char *const *passed_over;
    const struct spot_tool_common *common; /* holds --quiet and --verbose; NULL: none */
    void (*prepare)(void);                 /* called before argv is read; NULL: nothing */
    /* operand [n], followed by NULL. Returns 0, or -1 with *err; an empty message sets the exit
     * status only. */
    int (*run)(char **operand, size_t n, struct spot_err *err);
    int (*run_alone)(struct spot_err *err); /* instead of `run`, for a command without operands */
};

enum spot_cli_action { SPOT_CLI_RUN, SPOT_CLI_DONE, SPOT_CLI_ERROR };

/* Parse argv. On SPOT_CLI_RUN, argv is permuted: the operands are last, in their order, from
 * *first_operand to argc. Options may follow operands, up to "--"; with runs_command the first
 * operand ends the options. --help, --help-all, --help-table and --version print to stdout and give
 * SPOT_CLI_DONE. --error-format takes effect even after an invalid option. */
enum spot_cli_action spot_cli_parse(const struct spot_cli *cli, int argc, char **argv,
                                    int *first_operand, struct spot_err *err);

/* True if the parsed command line or SPOT_ERROR_FORMAT requests JSON errors.
 */
bool spot_cli_wants_json_errors(void);
/* Look for --error-format in the options after argv[i], which is invalid. */
void spot_cli_find_error_format(int argc, char **argv, int i);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLI_OPT_H */
