/* SPDX-License-Identifier: MIT */
/* spot-replay import - public and cloud formats in, traces and loads out. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/num.h"
#include "common/out.h"
#include "common/timestamp.h"
#include "common/xalloc.h"
#include "replay.h"
#include "trace/import.h"
#include "trace/trace_write.h"

static struct {
    const char *from, *polarity, *origin, *time, *merge, *columns, *timezone;
    double interval_s, origin_s, max_age_s;
    uint64_t cap;
    bool events, steps, strict;
    struct spot_import_ask ask;
    struct replay_load length;
    struct spot_tool_common common;
} opt = { .cap = 1, .length = REPLAY_LOAD_DEFAULT, .common = SPOT_TOOL_COMMON_DEFAULT };

/* Parses a date, or seconds. */
static int parse_when(const char *name, const char *text, double *time_s, struct spot_err *err)
{
    if (!spot_timestamp_parse(text, time_s) || !spot_num_parse(text, time_s))
        return 0;
    return spot_err_set(err, SPOT_EUSAGE, "--%s must be a date or seconds, got '%s'", name, text);
}

static int read_files(struct spot_import *imp, const struct spot_import_format *format, char **path,
                      struct spot_err *err)
{
    const char *open;

    for (size_t i = 0; i == 0 || path[i]; i++) { /* without operands stdin is read once */
        const char *source;
        FILE *in = spot_tool_open(path[i], &source, err);
        int rc;

        if (!in)
            return -1;
        rc = spot_import_read(imp, format, in, source, err);
        if (in != stdin)
            fclose(in);
        if (rc)
            return -1;
        import_warn_bad(&imp->bad);
        if (!path[i])
            break;
    }
    if (imp->n_region)
        spot_tool_warn("%zu scores are of whole regions; aws gives those of zones with "
                       "--single-availability-zone",
                       imp->n_region);
    open = spot_import_unfinished(imp);
    if (open)
        spot_tool_warn("a document says that more pages follow; they are missing here%s%s",
                       *open ? ": of " : "", open);
    return 0;
}

static bool is_origin_first(const struct spot_import_format *format)
{
    return opt.origin ? !strcmp(opt.origin, "first") : format->is_wall_clock;
}

/* The rows that existed before come first, so that the new files take precedence: they are read
 * last, then rotated to the front. */
static int merge(struct spot_import *imp, struct spot_err *err)
{
    struct spot_import old = { .ask = imp->ask, .kind = imp->kind };
    const char *source;
    FILE *in = spot_tool_open(opt.merge, &source, err);
    int rc;

    if (!in)
        return err->sys_errno == ENOENT ? 0 : -1;
    rc = spot_import_read_own(&old, in, source, err);
    if (in != stdin)
        fclose(in);
    if (!rc)
        spot_import_prepend(imp, &old);
    spot_import_release(&old);
    return rc;
}

/* The last time at which a node came or left; -infinity in the count form. */
static double last_event_s(const struct spot_trace *trace)
{
    double last_s = -INFINITY;

    for (size_t k = 0; k < trace->n_series; k++)
        if (trace->series[k].n_event)
            last_s = fmax(last_s, trace->series[k].event[trace->series[k].n_event - 1].time_s);
    return last_s;
}

/* Replace the rows by those on a grid from start_s; a series begins at the first grid point at or
 * after its first row. */
static int put_on_grid(struct spot_trace *trace, double start_s, struct spot_err *err)
{
    const double last_s = last_event_s(trace), span_s = fmax(trace->end_s - start_s, 0);
    struct spot_trace grid = { 0 };
    struct spot_trace_builder b = { .trace = &grid, .source = "import" };
    int rc = spot_trace_check_grid(trace, (double)trace->n_series * span_s / opt.interval_s,
                                   opt.interval_s, SPOT_TRACE_GRID_MAX,
                                   "a larger --interval, or a later --origin", err);

    if (rc)
        return rc;
    for (size_t k = 0; k < trace->n_series && !rc; k++) {
        const struct spot_trace_series *s = &trace->series[k];
        size_t n = spot_trace_grid_n(start_s, trace->end_s, opt.interval_s);

        /* events between the last two rows belong to the second of them */
        if (s->event && n && n < SIZE_MAX && start_s + (double)(n - 1) * opt.interval_s < last_s)
            n++;
        if (n == SIZE_MAX)
            rc = spot_err_set(err, SPOT_EUSAGE, "--interval gives more than %d rows",
                              SPOT_TRACE_ROWS_MAX);
        for (size_t i = 0; i < n && !rc; i++) {
            const double time_s = start_s + (double)i * opt.interval_s;
            const struct spot_trace_row row = { .series = k,
                                                .zone = s->zone,
                                                .instance_type = s->instance_type,
                                                .time_s = time_s,
                                                .available = spot_trace_at(s, time_s),
                                                .requested = -1,
                                                .price_usd_per_h = NAN };

            /* before its first row a series is 0 in the node form, and unknown in the count form */
            if (s->event || time_s >= s->time_s[0] || i + 1 == n)
                rc = spot_trace_build(&b, &row, err);
        }
    }
    spot_trace_release(trace);
    spot_trace_find_span(&grid);
    *trace = grid;
    return rc;
}

/* Drop rows that repeat the previous count, except the last row. */
static void keep_steps(struct spot_trace *trace)
{
    for (size_t k = 0; k < trace->n_series; k++) {
        struct spot_trace_series *s = &trace->series[k];
        size_t n = 0;

        for (size_t i = 0; i < s->n; i++) {
            if (n && i + 1 < s->n && s->available[i] == s->available[n - 1])
                continue;
            s->time_s[n] = s->time_s[i];
            s->available[n++] = s->available[i];
        }
        s->n = n;
    }
}

static int put_trace(struct spot_import *imp, FILE *out, struct spot_err *err)
{
    const bool is_from_0 = imp->kind == SPOT_IMPORT_NODE && !opt.origin;
    struct spot_trace trace;
    int rc = spot_import_trace(imp, &trace, err);

    if (rc)
        return rc;
    import_warn_bad(&imp->bad);
    if (opt.interval_s > 0)
        rc = put_on_grid(&trace, is_from_0 ? 0 : trace.start_s, err);
    if (opt.steps)
        keep_steps(&trace);
    if (!rc && opt.events)
        spot_trace_write_events(&trace, out);
    else if (!rc)
        spot_trace_write_counts(&trace, out);
    spot_trace_release(&trace);
    return rc;
}

static bool is_of_machines(const struct spot_import_format *format)
{
    return format->kind == SPOT_IMPORT_COUNT || format->kind == SPOT_IMPORT_NODE;
}

/* A job that imports every hour must not continue with old data: fail if nothing was read, or if it
 * is too old. */
static int check_age(const struct spot_import *imp, size_t n_new, struct spot_err *err)
{
    double newest_s = imp->end_s, age_s;
    struct timespec now;

    for (size_t i = 0; i < imp->n_row; i++)
        newest_s = fmax(newest_s, imp->row[i].time_s);
    for (size_t i = 0; i < imp->n_node; i++)
        newest_s = fmax(newest_s, imp->node[i].time_s);
    if (!imp->n_row && !imp->n_node)
        return spot_err_set(err, SPOT_EDATA, "no rows in the input");
    clock_gettime(CLOCK_REALTIME, &now);
    age_s = (double)now.tv_sec - (newest_s + opt.origin_s);
    if (opt.max_age_s > 0 && age_s > opt.max_age_s)
        return spot_err_set(err, SPOT_EDATA, "the newest row is %.0f s old, --max-age is %.0f s",
                            age_s, opt.max_age_s);
    if (!n_new && opt.origin)
        spot_tool_warn("nothing new in the input: the newest row is %.0f s old", age_s);
    return 0;
}

static int run(char **path, const struct spot_import_format *format, struct spot_err *err)
{
    struct spot_import imp = { .ask = opt.ask, .bad = { .is_strict = opt.strict } };
    struct spot_out out = { 0 };
    size_t n_new;
    int rc = -1;

    if (read_files(&imp, format, path, err))
        goto done;
    n_new = imp.n_row + imp.n_node;
    if (is_origin_first(format) && (imp.n_row || imp.n_node))
        opt.origin_s = spot_import_first_s(&imp);
    spot_import_shift(&imp, opt.origin_s);
    if (opt.merge && merge(&imp, err))
        goto done;
    spot_import_sort(&imp);
    if (check_age(&imp, n_new, err))
        goto done;
    if (spot_out_open(&out, opt.common.output, err))
        goto done;
    rc = 0;
    if (is_of_machines(format))
        rc = put_trace(&imp, out.file, err);
    else
        spot_import_write(&imp, out.file);
    rc = spot_out_finish(&out, rc, err);
done:
    spot_import_release(&imp);
    return rc;
}

/* Parses, for instance, --columns time=Timestamp,available=count. */
static int read_columns(struct spot_err *err)
{
    static const char *const key[SPOT_IMPORT_COLUMNS] = { "time", "available", "zone",
                                                          "instance_type" };
    char *rest = spot_xstrdup(opt.columns), *entry; /* the names point into it until the end */

    while ((entry = strtok_r(rest, ",", &rest))) {
        char *name = strchr(entry, '=');
        size_t k = 0;

        if (name)
            *name++ = '\0';
        while (k < SPOT_IMPORT_COLUMNS && strcmp(entry, key[k]) != 0)
            k++;
        if (k == SPOT_IMPORT_COLUMNS || !name || !*name || *name == '?' || opt.ask.column[k])
            return spot_err_set(err, SPOT_EUSAGE,
                                "--columns must be key=name once for time, available, zone or "
                                "instance_type, got '%s%s%s'",
                                entry, name ? "=" : "", name ? name : "");
        opt.ask.column[k] = name;
    }
    return 0;
}

static int check_csv(struct spot_err *err)
{
    if (opt.columns && read_columns(err))
        return -1;
    if (!opt.ask.column[SPOT_IMPORT_COLUMN_TIME] || !opt.ask.column[SPOT_IMPORT_COLUMN_AVAILABLE])
        return spot_err_set(err, SPOT_EUSAGE,
                            "--from csv needs --columns time=NAME,available=NAME");
    if (opt.timezone && spot_timestamp_zone(opt.timezone, &opt.ask.utc_offset_s))
        return spot_err_set(err, SPOT_EUSAGE, "--timezone must be Z or +hh:mm, got '%s'",
                            opt.timezone);
    return 0;
}

static int check_options(const struct spot_import_format *format, struct spot_err *err)
{
    opt.ask.cap = (int32_t)opt.cap;
    opt.ask.is_inverted = opt.polarity && !strcmp(opt.polarity, "unavailable");
    if (opt.ask.is_inverted && format->kind != SPOT_IMPORT_COUNT)
        return spot_err_set(err, SPOT_EUSAGE, "--polarity is for formats that count machines");
    if (!strcmp(format->name, "csv") && check_csv(err))
        return -1;
    if (!strcmp(format->name, "aws-score") && !opt.ask.instance_type)
        return spot_err_set(err, SPOT_EUSAGE,
                            "aws-score does not name the type: give --instance-type");
    if (opt.time && parse_when("time", opt.time, &opt.ask.time_s, err))
        return -1;
    if (opt.events && format->kind == SPOT_IMPORT_COUNT)
        return spot_err_set(err, SPOT_EUSAGE, "%s does not name its nodes: no --events",
                            format->name);
    if (!is_of_machines(format) && (opt.events || opt.steps || opt.interval_s > 0))
        return spot_err_set(err, SPOT_EUSAGE, "--events, --steps and --interval are for counts");
    if (opt.origin && strcmp(opt.origin, "first") != 0 && strcmp(opt.origin, "unix") != 0 &&
        parse_when("origin", opt.origin, &opt.origin_s, err))
        return -1;
    if (opt.max_age_s > 0 && !format->is_wall_clock && !opt.origin)
        return spot_err_set(err, SPOT_EUSAGE, "--max-age: times of %s are no dates; give --origin",
                            format->name);
    if (opt.merge && is_origin_first(format))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--merge needs an --origin that stays: unix or a date");
    if (opt.merge && format->kind == SPOT_IMPORT_NODE && !opt.events)
        return spot_err_set(err, SPOT_EUSAGE, "--merge of %s works in the node form: add --events",
                            format->name);
    return 0;
}

static void list_formats(void)
{
    for (const struct spot_import_format *f = spot_import_format; f->name; f++)
        printf("%-15s %s\n", f->name, f->summary);
    for (const struct spot_load_format *f = spot_load_format; f->name; f++)
        printf("%-15s %s\n", f->name, f->summary);
    for (const struct spot_share_format *f = spot_share_format; f->name; f++)
        printf("%-15s %s\n", f->name, f->summary);
}

/* Refuse options that only apply to traces when a load is imported. */
static int check_load_options(const struct spot_load_format *format, struct spot_err *err)
{
    const char *const wrong = opt.polarity            ? "polarity"
                              : opt.ask.zone          ? "zone"
                              : opt.ask.instance_type ? "instance-type"
                              : opt.merge             ? "merge"
                              : opt.max_age_s > 0     ? "max-age"
                              : opt.events            ? "events"
                              : opt.steps             ? "steps"
                              : opt.interval_s > 0    ? "interval"
                                                      : NULL;

    if (wrong)
        return spot_err_set(err, SPOT_EUSAGE, "--%s is for traces; %s gives a load", wrong,
                            format->name);
    if (opt.origin && strcmp(opt.origin, "first") != 0 && strcmp(opt.origin, "unix") != 0)
        return parse_when("origin", opt.origin, &opt.origin_s, err);
    return 0;
}

static int run_load(char **path, const struct spot_load_format *format, struct spot_err *err)
{
    const struct replay_import_load ask = { .format = format,
                                            .columns = opt.columns,
                                            .origin = opt.origin,
                                            .origin_s = opt.origin_s,
                                            .is_strict = opt.strict,
                                            .length = opt.length,
                                            .common = &opt.common };

    return import_load(&ask, path, err);
}

/* For jobs only the origin and --strict have a meaning. */
static int run_share(char **path, const struct spot_share_format *format, struct spot_err *err)
{
    const bool is_first = opt.origin ? !strcmp(opt.origin, "first") : format->is_wall_clock;

    if (opt.polarity || opt.ask.zone || opt.ask.instance_type || opt.merge || opt.events ||
        opt.steps || opt.interval_s > 0)
        return spot_err_set(err, SPOT_EUSAGE,
                            "%s gives jobs: of the options, only --origin and --strict are for it",
                            format->name);
    if (opt.origin && !is_first && strcmp(opt.origin, "unix") != 0 &&
        parse_when("origin", opt.origin, &opt.origin_s, err))
        return -1;
    return import_share(format, path, is_first ? NAN : opt.origin_s, opt.strict, &opt.common, err);
}

static int replay_import(char **operand, size_t n, struct spot_err *err)
{
    const struct spot_import_format *format;
    const struct spot_load_format *load;
    const struct spot_share_format *share;

    (void)n;
    if (!strcmp(opt.from, "help")) {
        list_formats();
        return 0;
    }
    format = spot_import_find(opt.from);
    load = spot_load_format_find(opt.from);
    share = spot_share_format_find(opt.from);
    if (!format && !load && !share)
        return spot_err_set(err, SPOT_EUSAGE, "unknown format '%s'; --from help lists them",
                            opt.from);
    if (spot_tool_stdin_is_idle(operand[0]))
        return spot_err_set(err, SPOT_EUSAGE, "no input: name a file, or - for stdin");
    if (share)
        return run_share(operand, share, err);
    if (load)
        return check_load_options(load, err) ? -1 : run_load(operand, load, err);
    return check_options(format, err) ? -1 : run(operand, format, err);
}

const struct spot_cli replay_import_command = {
    .name = "spot-replay import",
    .brief = "turn a public or cloud format into a trace or a load",
    .need = (const struct spot_opt_need[]){ { "cap", "polarity unavailable" },
                                            { "time", "from aws-score" },
                                            { "columns", "from csv|from burstgpt" },
                                            { "timezone", "from csv" },
                                            { "prompt-tokens|output-tokens|lengths",
                                              "from azure-functions" },
                                            { "lengths", "!prompt-tokens" },
                                            { "lengths", "!output-tokens" },
                                            { NULL, NULL } },
    .reads = (const char *const[]){ "lengths", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .n_operand_max = SPOT_OPERANDS_ANY,
    .required = (const struct spot_opt_required[]){ { "from", "a format; --from help lists them" },
                                                    { NULL, NULL } },
    .choice = (const struct spot_opt_choice[]){ { "polarity", "available|unavailable" },
                                                { "format", "csv" },
                                                { NULL, NULL } },
    .synopsis = "--from format [options] [file...]",
    .summary =
        "Turn a public or cloud format into an availability trace, a load of requests, jobs, "
        "prices,\n"
        "scores or hazards. Overlapping windows and repeated files change nothing, except for "
        "loads.\n"
        "--from help lists formats.",
    .examples =
        "  spot-replay import --from events --interval 60 p3trace.csv\n"
        "  spot-replay import --from aws-price --origin unix --merge all.csv -o all.csv new.json\n",
    .option =
        (const struct spot_opt[]){
            { SPOT_OPT_GROUP, .help = "input" },
            SPOT_TEXT("from", &opt.from, "format", "format of the input"),
            SPOT_TEXT("columns", &opt.columns, "key=name,..",
                      "csv, burstgpt: where time, available, zone, .. are"),
            SPOT_TEXT("timezone", &opt.timezone, "+hh:mm",
                      "csv: time zone of dates without one (default: UTC)"),
            SPOT_TEXT("zone", &opt.ask.zone, "name", "zone of the whole trace"),
            SPOT_ROW_INSTANCE_TYPE(&opt.ask.instance_type),
            SPOT_TEXT("polarity", &opt.polarity, "what",
                      "whether numbers count available (default) or unavailable"),
            SPOT_U64("cap", &opt.cap, "n", "machines asked for, if unavailable (default: 1)", 1,
                     SPOT_TRACE_COUNT_MAX),
            SPOT_TEXT("time", &opt.time, "when",
                      "time of a snapshot: date or seconds (default: 0)"),
            SPOT_FLAG("strict", &opt.strict,
                      "refuse rows that cannot be read, instead of leaving them out"),
            { SPOT_OPT_MORE, .help = "lengths where a load has none (azure-functions)" },
            SPOT_TEXT("prompt-tokens", &opt.length.prompt, "law",
                      "N or lognormal:MEDIAN:SIGMA (default: 512)"),
            SPOT_TEXT("output-tokens", &opt.length.output, "law",
                      "output lengths, in the same form (default: 128)"),
            SPOT_TEXT("lengths", &opt.length.lengths, "file",
                      "draw both lengths from the requests of this load"),
            { SPOT_OPT_GROUP, .help = "output" },
            SPOT_TEXT("origin", &opt.origin, "when",
                      "time_s 0: first, unix or a date (default: first, for dates)"),
            SPOT_TEXT("merge", &opt.merge, "file", "merge with this earlier import, if it exists"),
            SPOT_SECS("max-age", &opt.max_age_s, "time",
                      "fail if the newest row is older (status 3; default: any age)", 1e-3, 1e12),
            SPOT_ROW_SPACING(&opt.interval_s),
            SPOT_ROW_CHANGES(&opt.steps),
            SPOT_ROW_NODE_FORM(&opt.events),
            SPOT_TOOL_OPTIONS_AS(&opt.common, "csv"),
            { SPOT_OPT_END },
        },
    .common = &opt.common,
    .run = replay_import,
};
