/* SPDX-License-Identifier: MIT */
/* spot-migrate plan - two layouts and a cluster in, ordered transfers out. */

#include <stdlib.h>
#include <unistd.h>

#include "cli/plot.h"
#include "cli/rows.h"
#include "cli/tool.h"
#include "common/out.h"
#include "migrate.h"

struct options {
    struct spot_tool_common common;
    enum spot_format format;
    const char *from, *to, *cluster, *plot;
    double deadline_s, memory_cap_byte, layer_s;
    bool explain;
};

static int write_plan(const struct options *options, const struct moves_doc *moves,
                      const struct spot_prov *prov, struct spot_err *err)
{
    struct spot_out out = { 0 };
    int rc = spot_out_open(&out, options->common.output, err);

    if (rc)
        return -1;
    if (options->format == SPOT_FORMAT_JSON)
        rc = spot_moves_write(&moves->doc, prov, out.file, err);
    else
        moves_table(moves, out.file, options->format);
    return spot_out_finish(&out, rc, err);
}

static int make_plan(const struct options *options, const struct spot_layout *to,
                     struct spot_migration_problem *problem, const struct spot_prov *prov,
                     struct spot_err *err)
{
    struct spot_migration_plan plan;
    struct moves_doc moves;
    int rc;

    if (spot_migrate(problem, &plan, err))
        return -1;
    moves_doc_init(&moves, to, problem, &plan);
    for (size_t k = 0; k < moves.doc.n_why && options->explain; k++)
        fprintf(stderr, "%s\n", moves.doc.why[k]);
    rc = options->plot ? moves_plot(problem, &plan, options->plot, err) : 0;
    if (!rc && !spot_plot_takes_stdout(options->plot, options->common.output))
        rc = write_plan(options, &moves, prov, err);
    moves_doc_release(&moves);
    spot_migration_plan_release(&plan);
    return rc;
}

static int run_plan(const struct options *options, struct spot_err *err)
{
    struct spot_prov prov = { .tool = "spot-migrate plan",
                              .seed = options->common.seed,
                              .is_off = !options->common.provenance };
    struct spot_layout from = { 0 }, to = { 0 };
    struct spot_cluster cluster = { 0 };
    struct spot_migration_problem problem = { 0 };
    int rc = -1;

    if (spot_layout_load(&from, options->from, err) || spot_layout_load(&to, options->to, err) ||
        spot_cluster_load(&cluster, options->cluster, err))
        goto out;
    spot_prov_add(&prov, options->from, from.json.hash);
    spot_prov_add(&prov, options->to, to.json.hash);
    spot_prov_add(&prov, options->cluster, cluster.json.hash);
    if (spot_migration_of_layouts(&problem, &from, &to, &cluster, err))
        goto out;
    if (options->deadline_s >= 0)
        problem.deadline_s = options->deadline_s;
    if (options->memory_cap_byte >= 0)
        problem.memory_cap_byte = options->memory_cap_byte;
    problem.restarts = options->layer_s >= 0;
    problem.layer_s = options->layer_s;
    rc = make_plan(options, &to, &problem, &prov, err);
out:
    spot_prov_release(&prov);
    spot_migration_problem_release(&problem);
    spot_layout_release(&from);
    spot_layout_release(&to);
    spot_cluster_release(&cluster);
    return rc;
}

static int check_options(struct options *o, struct spot_err *err)
{
    if (spot_format_parse(o->common.format, &o->format, err))
        return -1;
    if (o->format == SPOT_FORMAT_AUTO)
        o->format =
            !o->common.output && isatty(STDOUT_FILENO) ? SPOT_FORMAT_TABLE : SPOT_FORMAT_JSON;
    return 0;
}

static struct options options = {
    .common = SPOT_TOOL_COMMON_DEFAULT, .deadline_s = -1, .memory_cap_byte = -1, .layer_s = -1
};

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "documents" },
    SPOT_TEXT("from", &options.from, "layout.json", "who holds what now (required)"),
    SPOT_TEXT("to", &options.to, "layout.json",
              "target layout; places that it names are kept (required)"),
    SPOT_TEXT("cluster", &options.cluster, "cluster.json", "nodes, links, prices (required)"),
    { SPOT_OPT_GROUP, .help = "plan" },
    SPOT_SECS("deadline", &options.deadline_s, "duration",
              "time until leaving nodes are gone (default: the cluster's)", 0, 1e9),
    SPOT_ROW_MEMORY_CAP(&options.memory_cap_byte),
    SPOT_SECS("layer-time", &options.layer_s, "duration",
              "order moves for the earliest restart of serving; pass time of a layer", 0, 1e6),
    SPOT_ROW_EXPLAIN(&options.explain),
    SPOT_ROW_PLOT(&options.plot),
    SPOT_TOOL_OPTIONS(&options.common),
    { SPOT_OPT_END },
};

static int migrate_plan(struct spot_err *err)
{
    return check_options(&options, err) || run_plan(&options, err) ? -1 : 0;
}

const struct spot_cli migrate_plan_command = {
    .name = "spot-migrate plan",
    .brief = "who sends what to whom when the grid changes",
    .reads = (const char *const[]){ "from", "to", "cluster", NULL },
    .writes = (const char *const[]){ "output", "plot", NULL },
    .required = (const struct spot_opt_required[]){ { "from", "the layout now" },
                                                    { "to", "the layout wanted" },
                                                    { "cluster", "nodes and links" },
                                                    { NULL, NULL } },
    .synopsis = "--from layout.json --to layout.json --cluster cluster.json",
    .summary = "Plan which node sends what to which when the grid changes.",
    .examples = "  spot-migrate plan --from old.json --to new.json --cluster c.json --explain\n"
                "  spot-migrate plan --from old.json --to new.json --cluster c.json "
                "--deadline 30s\n",
    .option = option,
    .common = &options.common,
    .run_alone = migrate_plan,
};
