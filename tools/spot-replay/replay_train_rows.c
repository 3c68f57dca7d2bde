/* SPDX-License-Identifier: MIT */
/* spot-replay train: its tables, row by row. */
#include <stdio.h>

#include "cli/tool.h"
#include "replay_train.h"

static bool is_read(const struct replay_train *s)
{
    return s->format == SPOT_FORMAT_TABLE || s->format == SPOT_FORMAT_MD;
}

/* People read few digits, programs all. */
/* People read few digits, programs all. */
static void put(struct spot_table *table, const struct replay_train *s, double x, int digits)
{
    if (is_read(s))
        spot_table_fixed(table, x, digits);
    else
        spot_table_real(table, x);
}

/* --- output --- */

void replay_train_print_steps(const struct replay_train *s, const struct spot_sim_policy *policy,
                              const struct spot_sim_row *row, struct spot_table *table)
{
    double samples = 0, usd = 0;

    for (size_t i = 0; i < s->n; i++) {
        const struct spot_sim_row *r = &row[i];

        spot_table_text(table, policy->name);
        spot_table_int(table, (long long)i);
        spot_table_real(table, s->trace.start_s + (double)i * s->interval_s);
        spot_table_int(table, r->available);
        spot_table_int(table, r->gained);
        spot_table_int(table, r->lost);
        spot_table_int(table, r->d);
        spot_table_int(table, r->p);
        spot_table_int(table, r->spares);
        put(table, s, r->cost_s, 1);
        put(table, s, samples += r->samples, 1);
        put(table, s, usd += r->usd, 2);
        for (int c = 0; c < SPOT_SIM_CLASSES; c++)
            put(table, s, r->class_s[c], 0);
        spot_table_int(table, r->asked_d);
        spot_table_int(table, r->asked_p);
        spot_table_real(table, r->carry_s);
    }
}

static const struct spot_column step_column[] = {
    { "policy", false },
    { "interval", true },
    { "time_s", true },
    { "available", true },
    { "gained", true },
    { "lost", true },
    { "D", true },
    { "P", true },
    { "spares", true },
    { "cost_s", true },
    { "samples", true },
    { "usd", true },
    { "effective_s", true },
    { "reconfigure_s", true },
    { "checkpoint_s", true },
    { "redone_s", true },
    { "redundant_s", true },
    { "idle_s", true },
    { "booting_s", true },
    { "asked_D", true },
    { "asked_P", true },
    { "carry_s", true },
};

static const struct spot_column total_column[] = {
    { "policy", false },      { "samples", true },
    { "ideal_share", true },  { "samples_per_s", true },
    { "usd", true },          { "usd_per_msample", true },
    { "effective", true },    { "reconfigure", true },
    { "checkpoint", true },   { "redone", true },
    { "redundant", true },    { "idle", true },
    { "booting", true },      { "migrations", true },
    { "lost_samples", true }, { "may_beat_optimal", false },
};

/* For people: in two parts, what came of it and where the time went. */
static const struct spot_column read_column[] = {
    { "policy", false },     { "samples", true },      { "ideal_share", true },
    { "samples/s", true },   { "usd", true },          { "usd/Msample", true },
    { "migrations", true },  { "lost_samples", true }, { "effective", true },
    { "reconfigure", true }, { "checkpoint", true },   { "redone", true },
    { "redundant", true },   { "idle", true },         { "booting", true },
    { "may_beat", false },
};

/* Its share of ideal's samples; nothing if it ran grids that ideal does not know: that means
 * nothing, also where a warning is not read. */
static void put_share(struct spot_table *table, const struct replay_train *s,
                      const struct spot_sim_policy *policy, double samples)
{
    for (int k = 0; k < s->n_policy; k++)
        if (s->policy[k] == policy && s->is_beyond[k]) {
            spot_table_text(table, "");
            return;
        }
    put(table, s, s->ideal > 0 ? samples / s->ideal : 0, 4);
}

void replay_train_print_total(const struct replay_train *s, const struct spot_sim_policy *policy,
                              const struct spot_sim_row *row, struct spot_table *table)
{
    struct spot_sim_total t;
    double all = 0;

    spot_sim_total(row, s->n, &t);
    for (int c = 0; c < SPOT_SIM_CLASSES; c++)
        all += t.class_s[c];
    spot_table_text(table, policy->name);
    put(table, s, t.samples, 0);
    put_share(table, s, policy, t.samples);
    put(table, s, t.samples / ((double)s->n * s->interval_s), 3);
    if (t.usd > 0) {
        put(table, s, t.usd, 2);
        put(table, s, t.samples > 0 ? t.usd / t.samples * 1e6 : 0, 2);
    } else {
        spot_table_text(table, "");
        spot_table_text(table, "");
    }
    for (int part = 0; part < 2; part++) {
        if (part == is_read(s)) {
            for (int c = 0; c < SPOT_SIM_CLASSES; c++)
                put(table, s, all > 0 ? t.class_s[c] / all : 0, 4);
        } else {
            spot_table_int(table, t.migrations);
            put(table, s, t.lost_samples, 0);
        }
    }
    spot_table_text(table, policy->above ? policy->above : "");
}

void replay_train_begin(const struct replay_train *s, bool has_steps, struct spot_table *table)
{
#define COLUMNS(of) of, sizeof(of) / sizeof(*(of))
    if (has_steps)
        spot_table_init(table, COLUMNS(step_column));
    else if (is_read(s))
        spot_table_init(table, COLUMNS(read_column));
    else
        spot_table_init(table, COLUMNS(total_column));
#undef COLUMNS
    if (table->column == read_column)
        table->break_at = 8; /* where the time went */
}
