/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/opt.h"
#include "cli/plot.h"
#include "cli/spark.h"
#include "cli/table.h"
#include "cli/tool.h"
#include "suite.h"

/* Goal: what a tool shows of its data, and of its options, is what stands here; and a command line
 * that makes no sense is refused in words that name the option. */

static char dir[] = "/tmp/spot-cli-XXXXXX";

/* --- tables --- */

static const char columns[] = "name,n#,x#";

static const struct {
    enum spot_format format;
    const char *want;
} shown[] = {
    { SPOT_FORMAT_TABLE, "name     n     x\na\xc3\xa9,\"b    1  0.25\nlong   -22      \n" },
    { SPOT_FORMAT_AUTO, "name     n     x\na\xc3\xa9,\"b    1  0.25\nlong   -22      \n" },
    { SPOT_FORMAT_CSV, "name,n,x\n\"a\xc3\xa9,\"\"b\",1,0.25\nlong,-22,\n" },
    { SPOT_FORMAT_TSV, "name\tn\tx\n\"a\xc3\xa9,\"\"b\"\t1\t0.25\nlong\t-22\t\n" },
    { SPOT_FORMAT_JSONL, "{\"name\":\"a\xc3\xa9,\\\"b\",\"n\":1,\"x\":0.25}\n{\"name\":\"long\","
                         "\"n\":-22,\"x\":null}\n" },
    { SPOT_FORMAT_MD, "| name  |   n |    x |\n|---|---:|---:|\n| a\xc3\xa9,\"b |   1 | 0.25 |\n"
                      "| long  | -22 |      |\n" },
};

static char *printed(const struct spot_table *table, enum spot_format format)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);

    spot_table_print(table, out, format);
    fclose(out);
    return text;
}

START_TEST(a_table_has_each_form)
{
    struct spot_table table;
    char *got;

    spot_table_init(&table, columns);
    spot_table_add(&table, "%s %d %.2f", "a\xc3\xa9,\"b", 1, 0.25);
    spot_table_add(&table, "%s %lld %g", "long", -22LL, NAN);
    got = printed(&table, shown[_i].format);
    ck_assert_str_eq(got, shown[_i].want);
    free(got);
    spot_table_release(&table);
}
END_TEST

START_TEST(a_wide_table_goes_on_below)
{
    struct spot_table table;
    char cell[61], *got, *below;

    memset(cell, 'x', 60);
    cell[60] = '\0';
    spot_table_init(&table, "k,a");
    spot_table_column(&table, "b", false);
    table.break_at = 2;
    spot_table_add(&table, "%zu %s %s", (size_t)1, cell, cell);
    got = printed(&table, SPOT_FORMAT_TABLE);
    below = strstr(got, "\n\nk  b\n1  x");
    ck_assert_msg(below != NULL, "%s", got);
    free(got);
    spot_table_release(&table);
}
END_TEST

START_TEST(programs_get_six_places_and_people_as_many_as_are_asked_for)
{
    static const enum spot_format format[] = { SPOT_FORMAT_TABLE, SPOT_FORMAT_CSV };
    static const char *const want[] = { "name   n      x\na b 7  3  1.235\n",
                                        "name,n,x\na b 7,3,1.234568\n" };
    struct spot_table table;
    char *got;

    for (int i = 0; i < 2; i++) {
        spot_table_init(&table, columns);
        spot_table_row(&table, "a b 7", "%d", 3);
        table.format = format[i];
        spot_table_add(&table, "%.*g", 3, 1.2345678);
        got = printed(&table, format[i]);
        ck_assert_str_eq(got, want[i]);
        free(got);
        spot_table_release(&table);
    }
}
END_TEST

START_TEST(each_conversion_is_a_cell)
{
    static const enum spot_format format[] = { SPOT_FORMAT_TABLE, SPOT_FORMAT_CSV };
    static const char *const want[] = { "a  b     c         d     e\n7  8  0.33  0.333333  0.30\n",
                                        "a,b,c,d,e\n7,8,0.3333333333333333,0.333333,0.30\n" };
    struct spot_table table;
    char *got;

    for (int i = 0; i < 2; i++) {
        spot_table_init(&table, "a#,b#,c#,d#,e#");
        table.format = format[i];
        spot_table_add(&table, "%d %zu", 7, (size_t)8);
        spot_table_add(&table, "%.2e %G %.*f", 1.0 / 3, 1.0 / 3, 2, 0.3);
        got = printed(&table, format[i]);
        ck_assert_str_eq(got, want[i]);
        free(got);
        spot_table_release(&table);
    }
}
END_TEST

START_TEST(a_format_has_a_name)
{
    static const char *const name[] = { "json", "jsonl", "csv", "tsv", "table", "md" };
    struct spot_err err = { 0 };
    enum spot_format format;

    for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
        ck_assert_int_eq(spot_format_parse(name[i], &format, &err), 0);
        ck_assert_int_eq(format, (int)i + 1);
        ck_assert_int_eq(spot_format_settle(format, NULL, SPOT_FORMAT_MD), format);
    }
    ck_assert_int_eq(spot_format_parse(NULL, &format, &err), 0);
    ck_assert_int_eq(spot_format_settle(format, "file", SPOT_FORMAT_CSV), SPOT_FORMAT_CSV);
    ck_assert_int_eq(spot_format_parse("xml", &format, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
}
END_TEST

START_TEST(a_trend_rises_from_the_lowest_glyph_to_the_highest)
{
    static const double x[] = { 0, 3.5, 7 }, flat[] = { 4, 4 };
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);

    spot_spark(out, x, 3, true);
    spot_spark(out, flat, 2, true);
    spot_spark(out, x, 3, false);
    fclose(out);
    ck_assert_int_eq(text[0], ' ');
    ck_assert_int_eq(text[2], '#');
    ck_assert_ptr_nonnull(strstr(text, "\xe2\x96\x81"));
    ck_assert_ptr_nonnull(strstr(text, "\xe2\x96\x88"));
    free(text);
}
END_TEST

/* --- figures --- */

static char *file_text(const char *path)
{
    static char text[1 << 16];
    FILE *in = fopen(path, "r");

    ck_assert_ptr_nonnull(in);
    text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
    fclose(in);
    return text;
}

static const double at[] = { 0, 1, 2, NAN, 4 }, low[] = { 1, 1, 1, 2, 3 },
                    high[] = { 2, 3, 4, 5, 6 };
static const struct spot_series series[] = {
    { .label = "held", .style = SPOT_SERIES_STEP, .n = 5, .x = at, .y = low },
    { .label = "it's `id`", .style = SPOT_SERIES_LINE, .n = 5, .x = at, .y = high, .width = 3 },
    { .label = "dots", .style = SPOT_SERIES_DOT, .n = 3, .x = at, .y = high },
    { .label = "80 %", .style = SPOT_SERIES_BAND, .n = 3, .x = at, .y = low, .y2 = high },
    { .label = "", .style = SPOT_SERIES_MARK, .n = 1, .x = at + 1, .y = high, .colour = "#123456" },
};
static const struct spot_figure figure = { .title = "a finding",
                                           .x_label = "time (h)",
                                           .y_label = "instances",
                                           .made_by = "spot-test",
                                           .series = series,
                                           .n_series = 5,
                                           .is_count = true };

START_TEST(a_script_holds_the_data_and_quotes_what_it_is_told)
{
    struct spot_err err = { 0 };
    char path[64], *text;

    snprintf(path, sizeof(path), "%s/a.gp", dir);
    ck_assert_msg(!spot_plot(&figure, path, &err), "%s", err.msg);
    text = file_text(path);
    ck_assert_int_eq(strncmp(text, "# spot-test\nset terminal svg", 28), 0);
    ck_assert_ptr_nonnull(strstr(text, "'a finding'"));
    ck_assert_ptr_nonnull(strstr(text, "'it''s `id`'")); /* no double quotes: nothing is run */
    ck_assert_ptr_nonnull(strstr(text, "$s0 << EOD\n0 1\n2 1\n\n4 3\nEOD")); /* held; then a gap */
    ck_assert_ptr_nonnull(strstr(text, "$s3 << EOD\n0 1 2\n1 1 3\n2 1 4\nEOD"));
    ck_assert_ptr_nonnull(strstr(text, "#123456"));
}
END_TEST

START_TEST(panels_and_multiples_have_a_drawing_for_each)
{
    static const char *const names[] = { "x", "y", "z" };
    struct spot_figure panel[2] = { figure, figure };
    struct spot_err err = { 0 };
    char path[64], *text;

    panel[1].x_name = panel[1].y_name = names;
    panel[1].n_name = 3;
    snprintf(path, sizeof(path), "%s/b.gp", dir);
    ck_assert_msg(!spot_plot_panels(panel, 2, path, &err), "%s", err.msg);
    text = file_text(path);
    ck_assert_ptr_nonnull(strstr(text, "set multiplot layout 2,1"));
    ck_assert_ptr_nonnull(strstr(text, "$s9 << EOD"));
    ck_assert_ptr_nonnull(strstr(text, "'z' 2"));
    panel[0].n_series = 3;
    ck_assert_msg(!spot_plot_multiples(&panel[0], path, &err), "%s", err.msg);
    text = file_text(path);
    ck_assert_ptr_nonnull(strstr(text, "set multiplot layout 2,1"));
    ck_assert_ptr_nonnull(strstr(text, "set label 2 'dots'"));
}
END_TEST

START_TEST(where_no_figure_can_be_is_told)
{
    static const char *const path[] = { "a.bmp", "svg", "/nowhere/a.gp", "/nowhere/a.svg" };
    struct spot_err err = { 0 };

    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(spot_plot(&figure, path[i], &err), -1);
        ck_assert_int_eq(err.code, i < 2 ? SPOT_EUSAGE : SPOT_ESYS);
        ck_assert_msg(strstr(err.msg, path[i]) != NULL, "%s", err.msg);
    }
    ck_assert_int_eq(spot_plot(&figure, "/dev/null", &err), -1);
    ck_assert_int_eq(spot_plot_check("a.svg", &err) + spot_plot_check("-", &err), 0);
    ck_assert(spot_plot_takes_stdout("-", NULL) && spot_plot_takes_stdout("-", "-"));
    ck_assert(!spot_plot_takes_stdout("-", "file") && !spot_plot_takes_stdout("a.gp", NULL) &&
              !spot_plot_takes_stdout(NULL, NULL));
}
END_TEST

/* Text and pictures are gnuplot's, where there is one. */
START_TEST(text_goes_to_stdout_and_a_picture_to_its_file)
{
    struct spot_err err = { 0 };
    char path[64], *text;
    const int old = dup(STDOUT_FILENO);

    if (system("command -v gnuplot >/dev/null"))
        return;
    snprintf(path, sizeof(path), "%s/text", dir);
    fflush(stdout);
    ck_assert_ptr_nonnull(freopen(path, "w", stdout));
    ck_assert_msg(!spot_plot(&figure, "-", &err), "%s", err.msg);
    fflush(stdout);
    dup2(old, STDOUT_FILENO);
    close(old);
    text = file_text(path);
    ck_assert_msg(strstr(text, "a finding") && strstr(text, "time (h)"), "%s", text);
    snprintf(path, sizeof(path), "%s/a.svg", dir);
    ck_assert_msg(!spot_plot(&figure, path, &err), "%s", err.msg);
    ck_assert_ptr_nonnull(strstr(file_text(path), "<svg"));
}
END_TEST

/* --- options --- */

static struct {
    bool fast;
    const char *in, *out, *mode, *maybe, *plot;
    uint64_t n;
    double x, time_s, byte;
    struct spot_opt_list list;
} o;

static bool said[16];
static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "things" },
    { SPOT_OPT_FLAG, 'f', "fast", &o.fast, NULL, "be fast", 0, 0 },
    { SPOT_OPT_STRING, 'o', "output", &o.out, "file", "where to", 0, 0 },
    { SPOT_OPT_STRING, 0, "input", &o.in, "file", "where from", 0, 0 },
    { SPOT_OPT_STRING, 0, "mode", &o.mode, "x", "a or b", 0, 0 },
    { SPOT_OPT_STRING, 0, "plot", &o.plot, "file", NULL, 0, 0 },
    { SPOT_OPT_U64, 'n', "count", &o.n, "n", "how many", 1, 9 },
    { SPOT_OPT_REAL, 0, "share", &o.x, "x", "of it", 0, 1 },
    { SPOT_OPT_MORE, .help = "more things" },
    { SPOT_OPT_SECS, 0, "time", &o.time_s, "t", "how long", 0, 1e6 },
    { SPOT_OPT_SIZE, 0, "size", &o.byte, "size", "how large", 0, 1e15 },
    { SPOT_OPT_MAYBE, 0, "watch", &o.maybe, "t", "again", 0, 0 },
    { SPOT_OPT_LIST, 0, "data", &o.list, "file", "what", 0, 0 },
    { .type = SPOT_OPT_END },
};
static const struct spot_opt_need need[] = {
    { "share", "fast" }, { "time", "mode a|mode b" }, { "size", "!fast" }, { NULL, NULL }
};
static const char *const reads[] = { "input", "data", NULL };
static const char *const writes[] = { "output", "plot", NULL };
static const struct spot_cli cli = { .name = "spot-test",
                                     .synopsis = "[options] [file]",
                                     .summary = "Test.",
                                     .examples = "  spot-test -n 3\n",
                                     .option = option,
                                     .need = need,
                                     .reads = reads,
                                     .writes = writes,
                                     .n_operand_max = SPOT_OPERANDS_ANY,
                                     .given = said };

enum { WORDS_MAX = 16 };

/* Split at blanks; argv points into the text. */
static int words(char *text, char *argv[WORDS_MAX])
{
    char *rest = text;
    int n = 0;

    while (n < WORDS_MAX - 1 && (argv[n] = strtok_r(rest, " ", &rest)))
        n++;
    argv[n] = NULL;
    return n;
}

static enum spot_cli_action parse(const char *line, int *first, int *argc, char *argv[WORDS_MAX],
                                  struct spot_err *err)
{
    static char text[256];

    free(o.list.item);
    memset(&o, 0, sizeof(o));
    memset(said, 0, sizeof(said));
    snprintf(text, sizeof(text), "spot-test %s", line);
    *argc = words(text, argv);
    return spot_cli_parse(&cli, *argc, argv, first, err);
}

START_TEST(options_are_read_wherever_they_stand)
{
    struct spot_err err = { 0 };
    char *argv[WORDS_MAX];
    int first, argc;

    ck_assert_int_eq(parse("one -fn3 --share=0.5 two --mode a --time 2m --watch -- --three", &first,
                           &argc, argv, &err),
                     SPOT_CLI_RUN);
    ck_assert(o.fast && o.n == 3 && o.x == 0.5 && o.time_s == 120);
    ck_assert_str_eq(o.mode, "a");
    ck_assert_str_eq(o.maybe, "");
    ck_assert_int_eq(argc - first, 3);
    ck_assert_str_eq(argv[first], "one");
    ck_assert_str_eq(argv[first + 2], "--three");
    ck_assert(said[1] && !said[2] && said[6]);
    ck_assert_int_eq(
        parse("--fast --no-fast --size 64KiB --data a b -o c --data d", &first, &argc, argv, &err),
        SPOT_CLI_RUN);
    ck_assert(!o.fast && o.byte == 65536 && o.list.n == 3);
    ck_assert_str_eq(o.list.item[2], "d");
    ck_assert_str_eq(o.out, "c");
    ck_assert_int_eq(parse("--watch=2s", &first, &argc, argv, &err), SPOT_CLI_RUN);
    ck_assert_str_eq(o.maybe, "2s");
    free(o.list.item);
    o.list.item = NULL;
}
END_TEST

static const struct {
    const char *line, *want;
} refused[] = {
    { "--fats", "--fast" }, /* did you mean */
    { "--zzzzzz", "zzzzzz" },
    { "-z", "-z" },
    { "--count", "--count" },
    { "--count x", "'x'" },
    { "--count 0", "1" },
    { "--count 10", "9" },
    { "--count -1", "-1" },
    { "--share 2 --fast", "2" },
    { "--share half --fast", "half" },
    { "--time soon --mode a", "soon" },
    { "--size big", "big" },
    { "--fast=yes", "fast" },
    { "--share 0.5", "--share has no effect without --fast" },
    { "--time 1s", "--time has no effect without --mode a or --mode b" },
    { "--fast --size 1", "--size has no effect with --fast" },
    { "--input /tmp/spot-test-x -o /tmp/spot-test-x", "/tmp/spot-test-x" },
    { "/tmp/spot-test-x -o /tmp/spot-test-x", "/tmp/spot-test-x" },
    { "--data a /tmp/spot-test-x -o /tmp/../tmp/spot-test-x", "/tmp/" },
    { "-o /tmp/spot-test-x.svg --plot /tmp/spot-test-x.svg", "/tmp/spot-test-x.svg" },
    { "--plot x.bmp", "x.bmp" },
};

START_TEST(a_command_line_without_sense_is_refused)
{
    struct spot_err err = { 0 };
    char *argv[WORDS_MAX];
    int first, argc;

    ck_assert_msg(parse(refused[_i].line, &first, &argc, argv, &err) == SPOT_CLI_ERROR, "%s",
                  refused[_i].line);
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    ck_assert_msg(strstr(err.msg, refused[_i].want) != NULL, "%s: %s", refused[_i].line, err.msg);
    free(o.list.item);
    o.list.item = NULL;
}
END_TEST

/* --- the first and the last of a tool --- */

static const struct spot_opt no_option[] = { { .type = SPOT_OPT_END } };
static char heard[16];

static int run_inner(char **operand, size_t n, struct spot_err *err)
{
    (void)err;
    snprintf(heard, sizeof(heard), "%zu %.8s", n, operand[0]);
    return 0;
}

static const struct spot_cli inner = {
    .name = "spot inner",
    .brief = "does it",
    .synopsis = "[x]",
    .summary = "Does it.",
    .n_operand_max = 1,
    .option = no_option,
    .run = run_inner,
};
static const struct spot_cli *const command[] = { &inner, NULL };

/* What main would print and return. */
static int dispatch(const char *line, char *said_text, size_t n)
{
    char text[128], *argv[WORDS_MAX], path[64];
    const int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    int argc, status;

    snprintf(text, sizeof(text), "spot %s", line);
    argc = words(text, argv);
    snprintf(path, sizeof(path), "%s/said", dir);
    fflush(stdout);
    ck_assert_ptr_nonnull(freopen(path, "w", stdout));
    dup2(STDOUT_FILENO, STDERR_FILENO);
    status = spot_tool_dispatch("spot", "A tool.", command, argc, argv);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    snprintf(said_text, n, "%.*s", (int)n - 1, file_text(path));
    return status;
}

START_TEST(a_tool_answers_for_its_commands)
{
    char text[1024];

    ck_assert_int_eq(dispatch("inner x", text, sizeof(text)), 0);
    ck_assert_str_eq(heard, "1 x");
    ck_assert_int_eq(dispatch("inner x y", text, sizeof(text)), 2);
    ck_assert_int_eq(dispatch("--help", text, sizeof(text)), 0);
    ck_assert_ptr_nonnull(strstr(text, "usage: spot <command>"));
    ck_assert_ptr_nonnull(strstr(text, "  inner        does it\n"));
    ck_assert_int_eq(dispatch("--version", text, sizeof(text)), 0);
    ck_assert_int_eq(strncmp(text, "spot 0.", 7), 0);
    ck_assert_int_eq(dispatch("", text, sizeof(text)), 2);
    ck_assert_ptr_nonnull(strstr(text, "usage:"));
    ck_assert_int_eq(dispatch("iner", text, sizeof(text)), 2);
    ck_assert_ptr_nonnull(strstr(text, "did you mean 'inner'?"));
    ck_assert_int_eq(dispatch("something", text, sizeof(text)), 2);
    ck_assert_ptr_nonnull(strstr(text, "unknown command 'something'"));
}
END_TEST

static int say(char **operand, size_t n, struct spot_err *err)
{
    struct spot_tool_common common = SPOT_TOOL_COMMON_DEFAULT;
    const char *source;

    (void)n;
    common.quiet = operand[0][0] == 'q';
    common.verbose = operand[0][0] == 'v';
    spot_tool_set_verbosity(&common);
    spot_tool_warn("w %d", 1);
    spot_tool_note("n %d", 2);
    spot_tool_info("i %d", 3);
    ck_assert_ptr_eq(spot_tool_open("-", &source, err), stdin);
    ck_assert_str_eq(source, "<stdin>");
    ck_assert(!spot_tool_stdin_is_idle("x"));
    ck_assert_ptr_null(spot_tool_open("/nowhere/x", &source, err));
    return -1;
}

START_TEST(a_tool_says_as_much_as_it_may)
{
    static const struct spot_cli one = { .name = "spot say",
                                         .synopsis = "x",
                                         .summary = "Says.",
                                         .n_operand_max = 1,
                                         .option = no_option,
                                         .run = say };
    static const struct spot_cli *const talk[] = { &one, NULL };
    static const char *const line[] = { "q", "x", "v" };
    static const char end[] = "spot say: cannot open '/nowhere/x': No such file or directory\n";
    static const char *const want[] = { "", "spot say: warning: w 1\nspot say: n 2\n",
                                        "spot say: warning: w 1\nspot say: n 2\nspot say: i 3\n" };
    char path[64], whole[512];

    snprintf(path, sizeof(path), "%s/talk", dir);
    for (int k = 0; k < 3; k++) {
        char name[] = "spot", verb[] = "say", how[2] = { line[k][0], 0 };
        char *argv[] = { name, verb, how, NULL };
        const int old = dup(STDERR_FILENO);
        FILE *to = fopen(path, "w");

        dup2(fileno(to), STDERR_FILENO);
        ck_assert_int_eq(spot_tool_dispatch("spot", "", talk, 3, argv), 4);
        dup2(old, STDERR_FILENO);
        close(old);
        fclose(to);
        snprintf(whole, sizeof(whole), "%s%s", want[k], end);
        ck_assert_str_eq(file_text(path), whole);
    }
}
END_TEST

START_TEST(help_tells_the_common_options_and_all_of_them_when_asked)
{
    struct spot_err err = { 0 };
    char path[64], *argv[WORDS_MAX], *text;
    int first, argc;

    for (int all = 0; all < 2; all++) {
        const int old = dup(STDOUT_FILENO);

        snprintf(path, sizeof(path), "%s/help", dir);
        fflush(stdout);
        ck_assert_ptr_nonnull(freopen(path, "w", stdout));
        ck_assert_int_eq(parse(all ? "--help-all" : "--help", &first, &argc, argv, &err),
                         SPOT_CLI_DONE);
        fflush(stdout);
        dup2(old, STDOUT_FILENO);
        close(old);
        text = file_text(path);
        ck_assert_ptr_nonnull(strstr(text, "spot-test [options] [file]"));
        ck_assert_ptr_nonnull(strstr(text, "-n, --count"));
        ck_assert_ptr_nonnull(strstr(text, "  spot-test -n 3\n"));
        ck_assert_int_eq(strstr(text, "--size") != NULL, all);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");
    char text[64];
    int status;

    if (!mkdtemp(dir))
        return 77;
    tcase_add_loop_test(tc, a_table_has_each_form, 0, sizeof(shown) / sizeof(shown[0]));
    tcase_add_loop_test(tc, a_command_line_without_sense_is_refused, 0,
                        sizeof(refused) / sizeof(refused[0]));
    add_tests(tc);
    status = run_suite("cli", tc);
    snprintf(text, sizeof(text), "rm -r '%s'", dir);
    return system(text) ? EXIT_FAILURE : status;
}
