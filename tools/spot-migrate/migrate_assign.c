/* SPDX-License-Identifier: MIT */
/* spot-migrate assign - one assignment problem per line in, one proven answer per line out. */

#include <stdlib.h>
#include <string.h>

#include "cli/tool.h"
#include "common/clock.h"
#include "common/edit_distance.h"
#include "common/json.h"
#include "common/line.h"
#include "common/npy.h"
#include "common/out.h"
#include "common/unpack.h"
#include "common/xalloc.h"
#include "migrate.h"
#include "plan/assign.h"

struct options {
    struct spot_tool_common common;
    const char *objective;
};

struct run {
    bool is_bottleneck;
    unsigned long n_infeasible;
    bool has_doubted; /* a misspelt key was reported; once is enough */
    FILE *out;
};

static int read_cell(const struct spot_json_doc *doc, const struct spot_json_value *row, size_t i,
                     size_t j, int64_t *cost, struct spot_err *err)
{
    const struct spot_json_value *cell = spot_json_entry(row, j);
    char at[SPOT_JSON_POINTER_MAX];

    *cost = spot_json_is_integer(cell) ? spot_json_integer(cell) : SPOT_ASSIGN_FORBIDDEN;
    if (spot_json_is_null(cell) || *cost != SPOT_ASSIGN_FORBIDDEN)
        return 0;
    snprintf(at, sizeof at, "/cost/%zu/%zu", i, j);
    return spot_json_fail(doc, at, err, "expected null or an integer above -2^63");
}

/* Reads `cost` row by row, null for forbidden pairs. The caller frees *cost. */
static int read_cost(const struct spot_json_doc *doc, const struct spot_json_value *rows,
                     struct spot_assign_problem *problem, int64_t **cost, struct spot_err *err)
{
    const size_t n = spot_json_array_size(rows);
    const size_t m = n ? spot_json_array_size(spot_json_entry(rows, 0)) : 0;
    char at[SPOT_JSON_POINTER_MAX];

    problem->n_row = (int)n;
    problem->n_col = (int)m;
    if (m > SPOT_ASSIGN_SIDE_MAX)
        return spot_json_fail(doc, "/cost/0", err, "has %zu entries, the limit is %d", m,
                              SPOT_ASSIGN_SIDE_MAX);
    *cost = spot_xcalloc(n * m, sizeof **cost);
    problem->cost = *cost;
    for (size_t i = 0; i < n; i++) {
        const struct spot_json_value *row = spot_json_entry(rows, i);

        snprintf(at, sizeof at, "/cost/%zu", i);
        if (!spot_json_is_array(row) || spot_json_array_size(row) != m)
            return spot_json_fail(doc, at, err, "expected a row of %zu costs", m);
        for (size_t j = 0; j < m; j++)
            if (read_cell(doc, row, i, j, *cost + i * m + j, err))
                return -1;
    }
    return 0;
}

/* Unknown keys are legal and ignored, so warn about likely misspelt ones. */
static void check_keys(struct run *run, const struct spot_line *line, const char *source,
                       const struct spot_json_value *problem)
{
    static const char *const known[] = { "maximize", "cost" };
    const char *key;
    const struct spot_json_value *value;

    spot_json_object_foreach(problem, key, value)
    {
        for (size_t i = 0; !run->has_doubted && i < sizeof known / sizeof known[0]; i++) {
            const size_t d = spot_edit_distance(key, known[i]);

            if (d == 0 || d > 2 || spot_json_get(problem, known[i]))
                continue;
            spot_tool_warn("%s:%lu: the key '%s' is ignored; did you mean '%s'?", source,
                           line->number, key, known[i]);
            run->has_doubted = true;
        }
    }
}

static int read_problem(const struct spot_json_doc *doc, struct spot_assign_problem *problem,
                        int64_t **cost, struct spot_err *err)
{
    static const struct spot_field field[] = {
        { "maximize", SPOT_F_BOOL, offsetof(struct spot_assign_problem, is_max), NULL, 0, 0,
          false },
        { 0 },
    };
    const struct spot_json_value *rows;

    if (spot_json_read_fields(doc, doc->root, "", field, problem, err) ||
        spot_json_array(doc, doc->root, "", "cost", true, SPOT_ASSIGN_SIDE_MAX, &rows, err))
        return -1;
    return read_cost(doc, rows, problem, cost, err);
}

static void write_wide(struct spot_jw *jw, const char *key, spot_int128 value)
{
    char text[48], *p = text + sizeof text - 1;
    const bool is_negative = value < 0;

    *p = '\0';
    do {
        const int digit = (int)(value % 10);

        *--p = (char)('0' + (is_negative ? -digit : digit));
        value /= 10;
    } while (value);
    if (is_negative)
        *--p = '-';
    spot_jw_raw(jw, key, p);
}

static void write_wides(struct spot_jw *jw, const char *key, const spot_int128 *value, int n)
{
    spot_jw_array(jw, key);
    for (int i = 0; i < n; i++)
        write_wide(jw, NULL, value[i]);
    spot_jw_end(jw);
}

static void write_ints(struct spot_jw *jw, const char *key, const int *value, int n)
{
    spot_jw_array(jw, key);
    for (int i = 0; i < n; i++)
        spot_jw_int(jw, NULL, value[i]);
    spot_jw_end(jw);
}

/* An answer, with the additional values of the other objective. */
struct result {
    struct spot_assignment answer, proof;
    int64_t largest;
};

static void write_violator(struct spot_jw *jw, const struct spot_assignment *answer)
{
    spot_jw_object(jw, "violator");
    write_ints(jw, "rows", answer->bad_row, answer->n_bad_row);
    write_ints(jw, "cols", answer->bad_col, answer->n_bad_col);
    spot_jw_end(jw);
}

/* `below`: the answer for the costs below the bottleneck, with its violator. */
static void write_bottleneck(struct spot_jw *jw, const struct result *result)
{
    if (result->proof.n_bad_row + result->proof.n_bad_col == 0) {
        spot_jw_null(jw, "bottleneck"); /* no pair was chosen */
        return;
    }
    spot_jw_int(jw, "bottleneck", result->largest);
    spot_jw_object(jw, "below");
    write_violator(jw, &result->proof);
    spot_jw_end(jw);
}

static int write_answer(const struct run *run, const struct spot_assign_problem *problem,
                        const struct result *result, struct spot_err *err)
{
    const struct spot_assignment *answer = &result->answer;
    struct spot_jw jw;

    spot_jw_init(&jw, run->out, false);
    spot_jw_object(&jw, NULL);
    spot_jw_bool(&jw, "feasible", answer->is_feasible);
    if (answer->is_feasible) {
        if (run->is_bottleneck)
            write_bottleneck(&jw, result);
        write_wide(&jw, "cost", answer->cost);
        write_ints(&jw, "assignment", answer->col_of_row, problem->n_row);
        write_wides(&jw, "u", answer->u, problem->n_row);
        write_wides(&jw, "v", answer->v, problem->n_col);
    } else {
        write_violator(&jw, answer);
    }
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

/* `number`: number of the problem in the source, or its line. */
static int solve(struct run *run, const struct spot_assign_problem *problem, const char *source,
                 unsigned long number, struct spot_err *err)
{
    const double begin_s = spot_clock_cpu_s();
    struct result result = { 0 };
    int rc = run->is_bottleneck ? spot_assign_bottleneck(problem, &result.largest, &result.answer,
                                                         &result.proof, err)
                                : spot_assign(problem, &result.answer, err);

    if (!rc) {
        spot_tool_info("%s:%lu: %d x %d in %.6f s", source, number, problem->n_row, problem->n_col,
                       spot_clock_cpu_s() - begin_s);
        run->n_infeasible += !result.answer.is_feasible;
        rc = write_answer(run, problem, &result, err);
    }
    spot_assignment_release(&result.answer);
    spot_assignment_release(&result.proof);
    return rc;
}

static int solve_line(struct run *run, const struct spot_line *line, const char *source,
                      struct spot_err *err)
{
    struct spot_json_doc doc;
    struct spot_assign_problem problem = { 0 };
    int64_t *cost = NULL;
    int rc;

    if (spot_json_parse_line(&doc, line->text, line->n, source, line->number, err))
        return -1;
    rc = read_problem(&doc, &problem, &cost, err);
    if (!rc) {
        check_keys(run, line, source, doc.root);
        rc = solve(run, &problem, source, line->number, err);
    }
    spot_json_release(&doc);
    free(cost);
    return rc;
}

/* Reads NumPy matrices, one after another. */
static int solve_matrices(struct run *run, FILE *in, const char *source, struct spot_err *err)
{
    int c;

    for (unsigned long n = 1; (c = getc(in)) != EOF; n++) {
        struct spot_assign_problem problem;
        struct spot_npy m;
        int rc;

        ungetc(c, in);
        if (spot_npy_read(&m, in, source, SPOT_ASSIGN_SIDE_MAX, err))
            return -1;
        if (run->is_bottleneck || m.n_row != m.n_col || !m.n_row)
            spot_npy_widen(&m);
        problem = (struct spot_assign_problem){
            .n_row = (int)m.n_row, .n_col = (int)m.n_col, .cost = m.cell, .narrow = &m.narrow
        };
        rc = solve(run, &problem, source, n, err);
        spot_npy_release(&m);
        if (rc)
            return rc;
    }
    return 0;
}

static int solve_lines(struct run *run, FILE *in, const char *source, struct spot_err *err)
{
    struct spot_line line = { 0 };
    int rc;

    while ((rc = spot_line_read(&line, in, SPOT_JSON_BYTE_MAX, source, err)) > 0)
        if (strspn(line.text, " \t\r") < line.n && solve_line(run, &line, source, err)) {
            rc = -1;
            break;
        }
    spot_line_release(&line);
    return rc;
}

static int solve_stream(struct run *run, FILE *in, const char *source, struct spot_err *err)
{
    struct spot_unpack unpack;

    if (spot_unpack_open(&unpack, in, source, err))
        return -1;
    return spot_unpack_close(&unpack,
                             spot_npy_begins(unpack.in)
                                 ? solve_matrices(run, unpack.in, source, err)
                                 : solve_lines(run, unpack.in, source, err),
                             err);
}

static int run_assign(const struct options *options, const char *path, struct spot_err *err)
{
    struct run run = { .is_bottleneck = !strcmp(options->objective, "bottleneck") };
    struct spot_out out = { 0 };
    const char *source;
    FILE *in = spot_tool_open(path, &source, err);
    int rc;

    if (!in)
        return -1;
    rc = spot_out_open(&out, options->common.output, err);
    run.out = out.file;
    if (!rc)
        rc = spot_out_finish(&out, solve_stream(&run, in, source, err), err);
    if (in != stdin)
        fclose(in);
    if (!rc && run.n_infeasible)
        return spot_err_set(err, SPOT_EINFEASIBLE, "%lu of the problems cannot be solved",
                            run.n_infeasible);
    return rc;
}

static struct options options = { .common = SPOT_TOOL_COMMON_DEFAULT, .objective = "sum" };

static const struct spot_opt option[] = {
    SPOT_TEXT("objective", &options.objective, "name",
              "sum, or bottleneck: least largest cost (default: sum)"),
    SPOT_TOOL_OPTIONS_WRITE(&options.common,
                            "write here, complete or not at all (default: stdout)"),
    { SPOT_OPT_END },
};

static int migrate_assign(char **operand, size_t n, struct spot_err *err)
{
    (void)n;
    if (spot_tool_stdin_is_idle(operand[0]))
        return spot_err_set(err, SPOT_EUSAGE, "no problems: name a file, or - for standard input");
    return run_assign(&options, operand[0], err);
}

const struct spot_cli migrate_assign_command = {
    .name = "spot-migrate assign",
    .brief = "solve assignment problems, each with its proof",
    .writes = (const char *const[]){ "output", NULL },
    .n_operand_max = 1,
    .choice = (const struct spot_opt_choice[]){ { "objective", "sum|bottleneck" }, { NULL, NULL } },
    .synopsis = "[options] FILE|-",
    .summary = "Solve assignment problems exactly, each with its proof.",
    .examples = "  echo '{\"cost\":[[4,1],[2,null]]}' | spot-migrate assign -\n"
                "  spot-migrate assign --objective bottleneck costs.npy\n",
    .option = option,
    .common = &options.common,
    .run = migrate_assign,
};
