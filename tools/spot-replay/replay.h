/* SPDX-License-Identifier: MIT */
/* replay.h - shared by the commands of spot-replay. */
#ifndef SPOT_REPLAY_REPLAY_H
#define SPOT_REPLAY_REPLAY_H

#include "cli/tool.h"
#include "common/bad_rows.h"
#include "trace/load_generate.h"
#include "trace/load_import.h"
#include "trace/load_trace.h"
#include "trace/share_import.h"
#include "trace/trace.h"

/* The rows of the table in main.c. */
extern const struct spot_cli replay_generate_command;
extern const struct spot_cli replay_describe_command;
extern const struct spot_cli replay_import_command;
extern const struct spot_cli replay_live_command;
extern const struct spot_cli replay_train_command;
extern const struct spot_cli replay_serve_command;
extern const struct spot_cli replay_deadline_command;
extern const struct spot_cli replay_share_command;
extern const struct spot_cli replay_fleet_command;

/* True if --policy is "list"; then the policies of the kind (peers/registry.h) have been printed.
 */
bool replay_lists(const char *kind, const char *text);

/* Parse --policy: at most `most` rows are stored as the first members of the structs of `size`
 * bytes at `played`. Returns 0, or -1 with *err. */
int replay_policies(const char *kind, const char *text, size_t most, void *played, size_t size,
                    size_t *n, struct spot_err *err);

/* --- spot-replay describe --kind load --- */

struct replay_describe_load {
    const char *path, *plot;
    double from_s, to_s; /* negative: start of the load; end of the load */
    int64_t context;     /* 0: any */
    enum spot_format format;
    const struct spot_tool_common *common;
};

/* Returns 0, or -1 with *err. */
int describe_load(const struct replay_describe_load *ask, struct spot_err *err);

/* --- spot-replay generate --kind load, and the lengths that import assigns to requests --- */

/* The options; initialise it with REPLAY_LOAD_DEFAULT. */
struct replay_load {
    const char *arrivals, *swing, *prompt, *output, *lengths;
    double rate_per_s;
    uint64_t n_request, context;
};

#define REPLAY_LOAD_DEFAULT                                                      \
    {                                                                            \
        .arrivals = "poisson", .prompt = "512", .output = "128", .rate_per_s = 1 \
    }

/* Make the distributions of lengths. `sample` holds the load of --lengths, if it was given. Returns
 * 0, or -1. */
int replay_load_lengths(const struct replay_load *opt, struct spot_load_dist *dist,
                        struct spot_load *sample, struct spot_err *err);

/* Generate a load and write it. Returns 0, or -1 with *err. */
int replay_generate_load(const struct replay_load *opt, double hours,
                         const struct spot_tool_common *common, struct spot_err *err);

/* Warn how many rows were left out, if any, and why the first one was. */
void import_warn_bad(const struct spot_bad_rows *bad);

/* --- spot-replay import of request logs --- */

struct replay_import_load {
    const struct spot_load_format *format;
    const char *columns, *origin; /* NULL: not given */
    double origin_s;              /* used if origin is neither `first` nor NULL */
    bool is_strict;               /* refuse rows that cannot be read */
    struct replay_load length;    /* for formats without lengths */
    const struct spot_tool_common *common;
};

/* Read the files (none: stdin) and write the load. Returns 0, or -1 with *err. */
int import_load(const struct replay_import_load *ask, char **path, struct spot_err *err);

/* --- spot-replay import of jobs that share a cluster --- */

/* Read the files (none: stdin), subtract origin_s (NAN: the first time) from all times, and write
 * jobs or throughputs. Returns 0, or -1 with *err. */
int import_share(const struct spot_share_format *format, char **path, double origin_s,
                 bool is_strict, const struct spot_tool_common *common, struct spot_err *err);

#endif /* SPOT_REPLAY_REPLAY_H */
