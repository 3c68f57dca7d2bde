/* SPDX-License-Identifier: MIT */
#include "report_parts.h"

#include <stdio.h>

#include "common/json_writer.h"

static const char *outcome(const struct spot_hosting *h)
{
    return h->is_finished ? "finished" : h->has_given_up ? "given_up" : "not_told";
}

static int64_t coordinator_restarts(const struct spot_hosting *h)
{
    return h->coordinators > 0 ? h->coordinators - 1 : 0;
}

/* --- a table --------------------------------------------------------------------------------- */

static void add_causes(struct spot_table *t, const struct spot_hosting *h)
{
    for (enum spot_hosting_cause c = 0; c < SPOT_HOSTING_CAUSES; c++) {
        const size_t n = spot_hosting_rounds(h, c);
        const struct spot_hosting_pauses p = spot_hosting_pauses(h, c);
        char what[48];

        if (!n)
            continue;
        snprintf(what, sizeof(what), "rounds by %s", spot_hosting_cause_name(c));
        if (p.n)
            spot_table_row(t, what, "%zu; between commits median %.1f s, max %.1f s", n, p.median_s,
                           p.max_s);
        else
            spot_table_row(t, what, "%zu", n);
    }
}

static void add_durable(struct spot_table *t, const struct spot_hosting *h)
{
    static const char *const where[] = { "durable on two nodes", "durable on the disk",
                                         "durable behind the command" };

    for (int p = 0; p < SPOT_HOSTING_PLACES; p++) {
        const struct spot_hosting_durable *const d = &h->durable[p];

        if (d->count)
            spot_table_row(t, where[p],
                           "%lld times, last step %lld, lag at most %.2f s, %.3g MB moved",
                           (long long)d->count, (long long)d->step, d->lag_max_s,
                           1e-6 * (double)d->moved_byte);
    }
}

void report_exec_rows(struct spot_table *t, const struct spot_run *run)
{
    const struct spot_hosting *const h = &run->hosting;

    spot_table_row(t, "outcome", "%s after %.1f s", outcome(h), run->end_s);
    spot_table_row(t, "rounds", "%zu, %lld kept by another coordinator or epoch", h->n_round,
                   (long long)h->kept);
    add_causes(t, h);
    spot_table_row(t, "between rounds", "%.1f s", spot_hosting_down_s(h));
    spot_table_row(t, "preemptions", "%lld (%lld with notice, %lld without)",
                   (long long)(run->n_notice + run->n_kill), (long long)run->n_notice,
                   (long long)run->n_kill);
    spot_table_row(t, "joins, failures of ranks", "%lld, %lld", (long long)run->n_join,
                   (long long)h->failures);
    spot_table_row(t, "coordinator restarts", "%lld", (long long)coordinator_restarts(h));
    spot_table_row(t, "commits", "%lld, up to step %lld", (long long)h->commits,
                   (long long)h->step);
    spot_table_row(t, "rolled back", "%lld times, %lld steps", (long long)h->rollbacks,
                   (long long)h->rolled_back);
    add_durable(t, h);
}

/* --- a document ------------------------------------------------------------------------------- */

static void put_causes(struct spot_jw *jw, const struct spot_hosting *h)
{
    for (enum spot_hosting_cause c = 0; c < SPOT_HOSTING_CAUSES; c++) {
        const size_t n = spot_hosting_rounds(h, c);
        const struct spot_hosting_pauses p = spot_hosting_pauses(h, c);
        const char *const name = spot_hosting_cause_name(c);
        char key[48];

        if (!n)
            continue;
        snprintf(key, sizeof(key), "rounds_%s", name);
        spot_jw_int(jw, key, (int64_t)n);
        if (!p.n)
            continue;
        snprintf(key, sizeof(key), "between_commits_%s_median_s", name);
        spot_jw_real(jw, key, p.median_s);
        snprintf(key, sizeof(key), "between_commits_%s_max_s", name);
        spot_jw_real(jw, key, p.max_s);
    }
}

static void put_durable(struct spot_jw *jw, const struct spot_hosting *h)
{
    for (int p = 0; p < SPOT_HOSTING_PLACES; p++) {
        const struct spot_hosting_durable *const d = &h->durable[p];

        if (!d->count)
            continue;
        spot_jw_object(jw, spot_hosting_place_name(p));
        spot_jw_int(jw, "count", d->count);
        spot_jw_int(jw, "step", d->step);
        spot_jw_real(jw, "lag_max_s", d->lag_max_s);
        spot_jw_int(jw, "moved_byte", d->moved_byte);
        spot_jw_end(jw);
    }
}

int report_exec_write(const struct spot_run *run, const struct report_price *price,
                      const struct spot_prov *prov, FILE *out, struct spot_err *err)
{
    const struct spot_hosting *const h = &run->hosting;
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.report", 1, prov);
    spot_jw_int(&jw, "rounds", (int64_t)h->n_round);
    spot_jw_int(&jw, "rounds_kept", h->kept);
    put_causes(&jw, h);
    spot_jw_real(&jw, "down_s", spot_hosting_down_s(h));
    spot_jw_real(&jw, "end_s", run->end_s);
    spot_jw_int(&jw, "notices", run->n_notice);
    spot_jw_int(&jw, "kills", run->n_kill);
    spot_jw_int(&jw, "joins", run->n_join);
    spot_jw_int(&jw, "failures", h->failures);
    spot_jw_int(&jw, "coordinator_restarts", coordinator_restarts(h));
    spot_jw_int(&jw, "commits", h->commits);
    spot_jw_int(&jw, "step", h->step);
    spot_jw_int(&jw, "rollbacks", h->rollbacks);
    spot_jw_int(&jw, "steps_rolled_back", h->rolled_back);
    spot_jw_object(&jw, "durable");
    put_durable(&jw, h);
    spot_jw_end(&jw);
    report_doc_price(&jw, price);
    spot_jw_str(&jw, "outcome", outcome(h));
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}
