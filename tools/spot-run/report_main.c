/* SPDX-License-Identifier: MIT */
/* The report of a run: a table and a figure from its event log. */
#include <stdlib.h>
#include <string.h>

#include "cli/plot.h"
#include "cli/rows.h"
#include "cli/tool.h"
#include "common/out.h"
#include "model/report.h"
#include "report_parts.h"
#include "run.h"

struct options {
    struct spot_tool_common common;
    const char *reference, *plot;
    double speedup, price[2]; /* prices of spot and on demand */
};

/* --- the table ----------------------------------------------------------- */

static int64_t standing_steps(const struct spot_run *run)
{
    int64_t n = 0;

    for (size_t i = 0; i < run->n_commit; i++)
        n += !run->commit[i].is_void;
    return n;
}

static void add_pauses(struct spot_table *t, const struct spot_run *run)
{
    for (int restored = 0; restored < 2; restored++)
        for (enum spot_cause c = 0; c < SPOT_CAUSES; c++) {
            double median_s, max_s;
            const size_t n = spot_run_pauses(run, c, restored, &median_s, &max_s);
            char what[64];

            snprintf(what, sizeof(what), "pause after a %s%s", spot_cause_name(c),
                     restored ? ", state from disk" : "");
            if (n)
                spot_table_row(t, what, "median %.0f ms, max %.0f ms (%zu)", 1e3 * median_s,
                               1e3 * max_s, n);
        }
}

static void add_validations(struct spot_table *t, const struct spot_run *run)
{
    const struct spot_validation *least = run->val, *const last = run->val + run->n_val - 1;

    if (!run->n_val)
        return;
    for (size_t i = 1; i < run->n_val; i++)
        if (run->val[i].loss < least->loss)
            least = &run->val[i];
    spot_table_row(t, "validation loss", "%.4f at step %lld, least %.4f at step %lld", last->loss,
                   (long long)last->step, least->loss, (long long)least->step);
}

static void add_lr_changes(struct spot_table *t, const struct spot_run *run)
{
    for (size_t i = 0; i < run->n_lr_change; i++) {
        const struct spot_lr_change *const c = &run->lr_change[i];
        char what[64];

        snprintf(what, sizeof(what), "learning rate from step %lld", (long long)c->after + 1);
        spot_table_row(t, what, "%g, %s", c->lr, c->schedule);
    }
}

static void add_money(struct spot_table *t, const struct spot_run *run, const struct options *o)
{
    const double hours = run->member_s * o->speedup / 3600;

    spot_table_row(t, "machine-hours", "%.3f", hours);
    if (o->price[0] > 0 && o->price[1] > 0)
        spot_table_row(t, "their cost", "%.2f USD spot, %.2f USD on-demand (%.0f %% saved)",
                       hours * o->price[0], hours * o->price[1],
                       100 * (1 - o->price[0] / o->price[1]));
}

static bool has_same_weights(const struct spot_run *run, const struct spot_run *reference)
{
    return run->is_done && reference->is_done && !strcmp(run->state_hex, reference->state_hex);
}

static void add_reference(struct spot_table *t, const struct spot_run *run,
                          const struct spot_run *reference)
{
    int64_t n_step, n_val;
    const int64_t equal = spot_run_equal_steps(run, reference, &n_step);
    const int64_t equal_val = spot_run_equal_validations(run, reference, &n_val);

    if (n_val)
        spot_table_row(t, "validation losses equal to it", "%lld of %lld, bit for bit",
                       (long long)equal_val, (long long)n_val);
    spot_table_row(t, "losses equal to the undisturbed run", "%lld of %lld, bit for bit",
                   (long long)equal, (long long)n_step);
    spot_table_row(t, "weights identical", "%s (%s)",
                   has_same_weights(run, reference) ? "yes" : "NO",
                   run->is_done ? run->state_hex : "the run is not done");
}

/* Check whether the run agrees with the one that it is compared with. */
static int judge(const struct spot_run *run, const struct spot_run *reference, const char *name,
                 struct spot_err *err)
{
    int64_t n_step, n_lost, n_repeated, n_val;
    const int64_t equal_val = spot_run_equal_validations(run, reference, &n_val);
    const int64_t equal = spot_run_equal_steps(run, reference, &n_step);

    spot_run_ledger(run, &n_lost, &n_repeated);
    if (equal != n_step)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "the losses of %lld of %lld steps differ from those of '%s'",
                            (long long)(n_step - equal), (long long)n_step, name);
    if (n_lost || n_repeated)
        return spot_err_set(err, SPOT_EINFEASIBLE, "%lld samples are lost and %lld repeated",
                            (long long)n_lost, (long long)n_repeated);
    if (!has_same_weights(run, reference))
        return spot_err_set(err, SPOT_EINFEASIBLE, "the weights differ from those of '%s'", name);
    if (equal_val != n_val)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "%lld of %lld losses of the validation data differ from those of '%s'",
                            (long long)(n_val - equal_val), (long long)n_val, name);
    return 0;
}

static void fill_table(struct spot_table *t, const struct spot_run *run,
                       const struct spot_run *reference, const struct options *o)
{
    int64_t n_lost, n_repeated;

    if (run->is_served || run->is_hosted) {
        (run->is_served ? report_serve_rows : report_exec_rows)(t, run);
        add_money(t, run, o);
        return;
    }
    spot_run_ledger(run, &n_lost, &n_repeated);
    spot_table_row(t, "steps committed", "%lld in %.1f s", (long long)standing_steps(run),
                   run->end_s);
    spot_table_row(t, "preemptions", "%lld (%lld with notice, %lld without)",
                   (long long)(run->n_notice + run->n_kill), (long long)run->n_notice,
                   (long long)run->n_kill);
    if (run->n_resume)
        spot_table_row(t, "coordinator restarts", "%zu", run->n_resume);
    spot_table_row(t, "joins, epochs", "%lld, %zu", (long long)run->n_join, run->n_grid);
    spot_table_row(t, "samples lost", "%lld", (long long)n_lost);
    spot_table_row(t, "samples repeated", "%lld", (long long)n_repeated);
    spot_table_row(t, "steps recomputed", "%lld committed ones, %lld in flight",
                   (long long)run->n_recomputed, (long long)run->n_in_flight);
    spot_table_row(t, "median step", "%.1f ms", 1e3 * run->median_step_s);
    add_validations(t, run);
    add_lr_changes(t, run);
    add_pauses(t, run);
    add_money(t, run, o);
    if (reference)
        add_reference(t, run, reference);
}

/* --- main ---------------------------------------------------------------- */

static int print(const char *path, const struct spot_run *run, const struct spot_run *reference,
                 const struct options *o, enum spot_format format, struct spot_err *err)
{
    const struct report_price price = { run->member_s * o->speedup / 3600, o->price[0],
                                        o->price[1] };
    struct spot_prov prov = { .tool = "spot-run report",
                              .seed = o->common.seed,
                              .is_off = !o->common.provenance };
    struct spot_table table;
    struct spot_out out;
    int rc = 0;

    spot_prov_add(&prov, strcmp(path, "-") != 0 ? path : "<stdin>", run->xxh3);
    if (reference)
        spot_prov_add(&prov, strcmp(o->reference, "-") != 0 ? o->reference : "<stdin>",
                      reference->xxh3);
    if (spot_out_open(&out, o->common.output, err))
        return -1;
    if (format == SPOT_FORMAT_JSON) {
        rc = run->is_served   ? report_serve_write(run, &price, &prov, out.file, err)
             : run->is_hosted ? report_exec_write(run, &price, &prov, out.file, err)
                              : report_doc_write(run, reference, &price, &prov, out.file, err);
    } else {
        spot_table_init(&table, "what,measured");
        fill_table(&table, run, reference, o);
        spot_table_print(&table, out.file, format);
        spot_table_release(&table);
    }
    spot_prov_release(&prov);
    return spot_out_finish(&out, rc, err);
}

static int load(struct spot_run *run, const char *path, struct spot_err *err)
{
    if (spot_run_load(run, path, err))
        return -1;
    if (run->is_cut)
        spot_tool_warn("%s: the last line is unfinished: left out", path);
    for (size_t i = 0; i < run->n_hole; i++)
        spot_tool_warn("%s: has no record of steps %lld to %lld, which a restart found done", path,
                       (long long)run->hole[i].from + 1, (long long)run->hole[i].to);
    return 0;
}

static int report(const char *path, const struct options *o, struct spot_err *err)
{
    struct spot_run run, reference = { 0 };
    const struct spot_run *against = o->reference ? &reference : NULL;
    enum spot_format format;
    int rc;

    if (spot_format_parse(o->common.format, &format, err))
        return -1;
    format = spot_format_settle(format, o->common.output, SPOT_FORMAT_JSON);
    if (load(&run, path, err))
        return -1;
    if (o->reference && run.is_served)
        rc = spot_err_set(err, SPOT_EUSAGE, "--reference: %s is the log of a server", path);
    else if (o->reference && run.is_hosted)
        rc =
            spot_err_set(err, SPOT_EUSAGE, "--reference: %s is the log of a foreign command", path);
    else
        rc = o->reference ? load(&reference, o->reference, err) : 0;
    if (!rc && !spot_plot_takes_stdout(o->plot, o->common.output))
        rc = print(path, &run, against, o, format, err);
    if (!rc && o->plot)
        rc = run.is_served   ? report_serve_plot(&run, o->plot, err)
             : run.is_hosted ? report_exec_plot(&run, o->plot, err)
                             : report_plot(&run, against, o->plot, err);
    if (!rc && against)
        rc = judge(&run, against, o->reference, err);
    spot_run_release(&run);
    spot_run_release(&reference);
    return rc;
}

static struct options o = { .common = SPOT_TOOL_COMMON_DEFAULT, .speedup = 1 };

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "options" },
    SPOT_TEXT("reference", &o.reference, "file",
              "compare with the events of an undisturbed run; exit 1 if they differ"),
    SPOT_ROW_PLOT(&o.plot),
    SPOT_ROW_SPEEDUP(&o.speedup),
    SPOT_ROW_USD_PER_H(o.price),
    SPOT_TOOL_OPTIONS(&o.common),
    { .type = SPOT_OPT_END },
};

static int run_report(char **operand, size_t n, struct spot_err *err)
{
    (void)n;
    return report(operand[0] ? operand[0] : "-", &o, err);
}

const struct spot_cli run_report_command = {
    .name = "spot-run report",
    .brief = "summarise a run from its event log",
    .reads = (const char *const[]){ "reference", NULL },
    .writes = (const char *const[]){ "output", "plot", NULL },
    .n_operand_max = 1,
    .synopsis = "[options] [events.jsonl]",
    .summary = "Summarise a run from its event log: steps, samples, pauses, cost.",
    .examples = "  spot-run report --reference calm.jsonl --plot run.svg storm.jsonl\n",
    .option = option,
    .common = &o.common,
    .run = run_report,
};
