/* SPDX-License-Identifier: MIT */
/* spot-replay train: its tables, row by row. */
#include <math.h>

#include "cli/tool.h"
#include "replay_train.h"

static bool is_read(const struct replay_train *s)
{
    return s->format == SPOT_FORMAT_TABLE || s->format == SPOT_FORMAT_MD;
}

/* --- output --- */

void replay_train_print_steps(const struct replay_train *s, const struct spot_sim_policy *policy,
                              const struct spot_sim_row *row, struct spot_table *table)
{
    double samples = 0, usd = 0;

    for (size_t i = 0; i < s->n; i++) {
        const struct spot_sim_row *r = &row[i];

        samples += r->samples;
        usd += r->usd;
        spot_table_add(table, "%s %zu %g %d %d %d %d %d %d %.1e %.1e %.2e", policy->name, i,
                       s->trace.start_s + (double)i * s->interval_s, r->available, r->gained,
                       r->lost, r->d, r->p, r->spares, r->cost_s, samples, usd);
        for (int c = 0; c < SPOT_SIM_CLASSES; c++)
            spot_table_add(table, "%.0e", r->class_s[c]);
        spot_table_add(table, "%d %d %g", r->asked_d, r->asked_p, r->carry_s);
    }
}

static const char step_column[] =
    "policy,interval#,time_s#,available#,gained#,lost#,D#,P#,spares#,cost_s#,samples#,"
    "usd#,effective_s#,reconfigure_s#,checkpoint_s#,redone_s#,redundant_s#,idle_s#,"
    "booting_s#,asked_D#,asked_P#,carry_s#";

static const char total_column[] =
    "policy,samples#,ideal_share#,samples_per_s#,usd#,usd_per_msample#,effective#,"
    "reconfigure#,checkpoint#,redone#,redundant#,idle#,booting#,migrations#,"
    "lost_samples#,may_beat_optimal";

/* Columns for people, in two parts: the results, and where the time went. */
static const char read_column[] =
    "policy,samples#,ideal_share#,samples/s#,usd#,usd/Msample#,migrations#,lost_samples#,"
    "effective#,reconfigure#,checkpoint#,redone#,redundant#,idle#,booting#,may_beat";

/* The policy's share of the samples of ideal; NaN if it used grids that ideal does not know, since
 * such a ratio is meaningless, even to readers who do not see the warning. */
static double share_of(const struct replay_train *s, const struct spot_sim_policy *policy,
                       double samples)
{
    for (int k = 0; k < s->n_policy; k++)
        if (s->policy[k] == policy && s->is_beyond[k])
            return NAN;
    return s->ideal > 0 ? samples / s->ideal : 0;
}

void replay_train_print_total(const struct replay_train *s, const struct spot_sim_policy *policy,
                              const struct spot_sim_row *row, struct spot_table *table)
{
    struct spot_sim_total t;
    double all = 0;

    spot_sim_total(row, s->n, &t);
    for (int c = 0; c < SPOT_SIM_CLASSES; c++)
        all += t.class_s[c];
    spot_table_add(table, "%s %.0e %.4e %.3e %.2e %.2e", policy->name, t.samples,
                   share_of(s, policy, t.samples), t.samples / ((double)s->n * s->interval_s),
                   t.usd > 0 ? t.usd : NAN,
                   t.usd > 0 ? (t.samples > 0 ? t.usd / t.samples * 1e6 : 0) : NAN);
    for (int part = 0; part < 2; part++) {
        if (part != is_read(s))
            spot_table_add(table, "%lld %.0e", (long long)t.migrations, t.lost_samples);
        for (int c = 0; part == is_read(s) && c < SPOT_SIM_CLASSES; c++)
            spot_table_add(table, "%.4e", all > 0 ? t.class_s[c] / all : 0);
    }
    spot_table_add(table, "%s", policy->above ? policy->above : "");
}

void replay_train_begin(const struct replay_train *s, bool has_steps, struct spot_table *table)
{
    spot_table_init(table, has_steps ? step_column : is_read(s) ? read_column : total_column);
    table->format = s->format;
    table->break_at = !has_steps && is_read(s) ? 8 : 0; /* second part: where the time went */
}
