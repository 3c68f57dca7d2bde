/* SPDX-License-Identifier: MIT */
#include "report_parts.h"

#include <string.h>

#include "common/json_writer.h"

/* Keys such as pause_kill_median_s, or pause_disk_kill_... if the state came from disk; causes that
 * did not occur are left out. */
static void put_pauses(struct spot_jw *jw, const struct spot_run *run)
{
    for (int restored = 0; restored < 2; restored++)
        for (enum spot_cause c = 0; c < SPOT_CAUSES; c++) {
            double median_s, max_s;
            const size_t n = spot_run_pauses(run, c, restored, &median_s, &max_s);
            const char *from = restored ? "disk_" : "", *cause = spot_cause_name(c);
            char key[64];

            if (!n)
                continue;
            snprintf(key, sizeof(key), "pause_%s%s_count", from, cause);
            spot_jw_int(jw, key, (int64_t)n);
            snprintf(key, sizeof(key), "pause_%s%s_median_s", from, cause);
            spot_jw_real(jw, key, median_s);
            snprintf(key, sizeof(key), "pause_%s%s_max_s", from, cause);
            spot_jw_real(jw, key, max_s);
        }
}

void report_doc_price(struct spot_jw *jw, const struct report_price *p)
{
    spot_jw_real(jw, "machine_h", p->machine_h);
    if (p->spot_usd_per_h > 0)
        spot_jw_real(jw, "spot_usd", p->machine_h * p->spot_usd_per_h);
    if (p->on_demand_usd_per_h > 0)
        spot_jw_real(jw, "on_demand_usd", p->machine_h * p->on_demand_usd_per_h);
}

static void put_reference(struct spot_jw *jw, const struct spot_run *run,
                          const struct spot_run *reference)
{
    int64_t n_step, n_val;
    const int64_t equal = spot_run_equal_steps(run, reference, &n_step);
    const int64_t equal_val = spot_run_equal_validations(run, reference, &n_val);

    spot_jw_int(jw, "reference_steps", n_step);
    spot_jw_int(jw, "reference_equal_steps", equal);
    if (n_val) {
        spot_jw_int(jw, "reference_validations", n_val);
        spot_jw_int(jw, "reference_equal_validations", equal_val);
    }
    spot_jw_bool(jw, "reference_equal_weights",
                 run->is_done && reference->is_done &&
                     !strcmp(run->state_hex, reference->state_hex));
}

static void put_validations(struct spot_jw *jw, const struct spot_run *run)
{
    if (!run->n_val)
        return;
    spot_jw_array(jw, "validations");
    for (size_t i = 0; i < run->n_val; i++) {
        spot_jw_object(jw, NULL);
        spot_jw_int(jw, "step", run->val[i].step);
        spot_jw_real(jw, "loss", run->val[i].loss);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void put_lr_changes(struct spot_jw *jw, const struct spot_run *run)
{
    if (!run->n_lr_change)
        return;
    spot_jw_array(jw, "lr_changes");
    for (size_t i = 0; i < run->n_lr_change; i++) {
        spot_jw_object(jw, NULL);
        spot_jw_int(jw, "after", run->lr_change[i].after);
        spot_jw_real(jw, "lr", run->lr_change[i].lr);
        spot_jw_str(jw, "lr_schedule", run->lr_change[i].schedule);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

int report_doc_write(const struct spot_run *run, const struct spot_run *reference,
                     const struct report_price *price, const struct spot_prov *prov, FILE *out,
                     struct spot_err *err)
{
    int64_t n_lost, n_repeated, n_step = 0;
    struct spot_jw jw;

    for (size_t i = 0; i < run->n_commit; i++)
        n_step += !run->commit[i].is_void;
    spot_run_ledger(run, &n_lost, &n_repeated);
    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.report", 1, prov);
    spot_jw_int(&jw, "steps", n_step);
    spot_jw_real(&jw, "end_s", run->end_s);
    spot_jw_int(&jw, "notices", run->n_notice);
    spot_jw_int(&jw, "kills", run->n_kill);
    spot_jw_int(&jw, "joins", run->n_join);
    spot_jw_int(&jw, "coordinator_restarts", (int64_t)run->n_resume);
    spot_jw_int(&jw, "epochs", (int64_t)run->n_grid);
    spot_jw_int(&jw, "samples_lost", n_lost);
    spot_jw_int(&jw, "samples_repeated", n_repeated);
    spot_jw_int(&jw, "steps_recomputed", run->n_recomputed);
    spot_jw_int(&jw, "steps_in_flight", run->n_in_flight);
    spot_jw_real(&jw, "step_median_s", run->median_step_s);
    put_validations(&jw, run);
    put_lr_changes(&jw, run);
    put_pauses(&jw, run);
    report_doc_price(&jw, price);
    spot_jw_bool(&jw, "done", run->is_done);
    if (run->is_done)
        spot_jw_str(&jw, "state_xxh3_128", run->state_hex);
    if (reference)
        put_reference(&jw, run, reference);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}
