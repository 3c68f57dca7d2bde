/* SPDX-License-Identifier: MIT */
#include "replay_share_worth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot.h"
#include "common/num.h"
#include "common/xalloc.h"

/* --- rows --- */

static void add_incentives(const struct replay_share_worth *w, size_t tariff,
                           enum spot_format format, struct spot_table *table)
{
    const struct spot_share_worth *x = &w->tariff[tariff];
    const struct spot_share_turn *first = &x->turn[0], *last = &x->turn[x->n_turn - 1];
    const double n_user = (double)x->n_user;
    size_t left[SPOT_SHARE_TOO_DEAR + 1] = { 0 };

    for (size_t u = 0; u < x->n_user; u++)
        left[x->user[u].stand]++;
    spot_table_text(table, spot_share_policy_name[w->policy]);
    spot_table_text(table, spot_share_tariff_name[tariff]);
    spot_table_int(table, (long long)x->n_user);
    spot_table_rounded(table, format, (double)x->n_gain_first / n_user, 3);
    spot_table_rounded(table, format, (double)x->n_gain / n_user, 3);
    spot_table_int(table, (long long)left[SPOT_SHARE_STAYS]);
    spot_table_int(table, (long long)left[SPOT_SHARE_TOO_SLOW]);
    spot_table_int(table, (long long)left[SPOT_SHARE_TOO_DEAR]);
    spot_table_int(table, (long long)x->n_turn);
    spot_table_rounded(table, format, first->index, 3);
    spot_table_rounded(table, format, last->index, 3);
    spot_table_rounded(table, format, first->wait_s / 3600, 3);
    spot_table_rounded(table, format, last->wait_s / 3600, 3);
    spot_table_rounded(table, format, x->own_usd, 3);
    spot_table_rounded(table, format, x->usd, 3);
}

static void add_users(const struct replay_share_worth *w, size_t tariff, enum spot_format format,
                      struct spot_table *table)
{
    for (size_t u = 0; u < w->tariff[tariff].n_user; u++) {
        const struct spot_share_user *x = &w->tariff[tariff].user[u];

        spot_table_text(table, spot_share_policy_name[w->policy]);
        spot_table_text(table, spot_share_tariff_name[tariff]);
        spot_table_text(table, x->name);
        spot_table_int(table, (long long)x->n_job);
        spot_table_rounded(table, format, x->run_s / 3600, 3);
        spot_table_rounded(table, format, x->on_demand_usd, 3);
        spot_table_rounded(table, format, x->spot_usd, 3);
        spot_table_rounded(table, format, x->spot_wait_s / 3600, 3);
        spot_table_text(table, x->takes_spot ? "spot" : "on-demand");
        spot_table_rounded(table, format, x->first_usd, 3);
        spot_table_rounded(table, format, x->first_wait_s / 3600, 3);
        spot_table_rounded(table, format, x->usd, 3);
        spot_table_rounded(table, format, x->wait_s / 3600, 3);
        spot_table_text(table, spot_share_stand_name[x->stand]);
        spot_table_int(table, (long long)x->turn);
    }
}

static void add_turns(const struct replay_share_worth *w, size_t tariff, enum spot_format format,
                      struct spot_table *table)
{
    for (size_t t = 0; t < w->tariff[tariff].n_turn; t++) {
        const struct spot_share_turn *x = &w->tariff[tariff].turn[t];

        spot_table_text(table, spot_share_policy_name[w->policy]);
        spot_table_text(table, spot_share_tariff_name[tariff]);
        spot_table_int(table, (long long)t + 1);
        spot_table_int(table, (long long)x->n_member);
        spot_table_rounded(table, format, x->index, 3);
        spot_table_rounded(table, format, x->wait_s / 3600, 3);
        spot_table_rounded(table, format, x->reserved_usd, 3);
        spot_table_rounded(table, format, x->burst_usd, 3);
        spot_table_int(table, (long long)x->too_slow);
        spot_table_int(table, (long long)x->too_dear);
    }
}

void replay_share_worth_rows(const struct replay_share_worth *w, size_t n, const char *report,
                             enum spot_format format, struct spot_table *table)
{
    static const struct spot_column incentive[] = {
        { "policy", false },     { "tariff", false },   { "users", true },
        { "gain_first", true },  { "gain", true },      { "members", true },
        { "too_slow", true },    { "too_dear", true },  { "turns", true },
        { "index_first", true }, { "index", true },     { "wait_first_h", true },
        { "wait_h", true },      { "alone_usd", true }, { "usd", true },
    };
    static const struct spot_column user[] = {
        { "policy", false },   { "tariff", false },      { "user", false },
        { "jobs", true },      { "run_h", true },        { "on_demand_usd", true },
        { "spot_usd", true },  { "spot_wait_h", true },  { "alone", false },
        { "first_usd", true }, { "first_wait_h", true }, { "usd", true },
        { "wait_h", true },    { "end", false },         { "turn", true },
    };
    static const struct spot_column turn[] = {
        { "policy", false },  { "tariff", false },  { "turn", true },         { "members", true },
        { "index", true },    { "wait_h", true },   { "reserved_usd", true }, { "burst_usd", true },
        { "too_slow", true }, { "too_dear", true },
    };
    const bool is_user = !strcmp(report, "users"), is_turn = !strcmp(report, "turns");

    spot_table_init(table, is_user ? user : is_turn ? turn : incentive, is_turn ? 10 : 15);
    for (size_t k = 0; k < n; k++)
        for (size_t t = 0; t < SPOT_SHARE_TARIFFS; t++)
            (is_user ? add_users : is_turn ? add_turns : add_incentives)(&w[k], t, format, table);
}

/* --- pictures --- */

enum { PANELS = 3, SHOWN_MAX = 3 };

/* Both last for n_turn: where none leaves any more all goes on as it is. */
static void draw_turns(const struct spot_share_worth *x, size_t n_turn, double **xy,
                       struct spot_series *series, size_t tariff)
{
    double *turn = xy[0] = spot_xcalloc(n_turn, sizeof(double));
    double *member = xy[1] = spot_xcalloc(n_turn, sizeof(double));
    double *index = xy[2] = spot_xcalloc(n_turn, sizeof(double));

    for (size_t t = 0; t < n_turn; t++) {
        const struct spot_share_turn *now = &x->turn[t < x->n_turn ? t : x->n_turn - 1];

        turn[t] = (double)t + 1;
        member[t] = (double)(t < x->n_turn ? now->n_member : x->n_member) / (double)x->n_user;
        index[t] = now->index;
    }
    series[tariff] = (struct spot_series){
        .label = spot_share_tariff_name[tariff], .n = n_turn, .x = turn, .y = member
    };
    series[SPOT_SHARE_TARIFFS + tariff] =
        (struct spot_series){ .label = spot_share_tariff_name[tariff],
                              .n = x->n_member ? n_turn : x->n_turn,
                              .x = turn,
                              .y = index };
}

/* What sharing costs over what they pay alone, from the luckiest user on. */
static void draw_users(const struct spot_share_worth *x, double **xy, struct spot_series *series,
                       size_t tariff)
{
    double *part = xy[0] = spot_xcalloc(x->n_user, sizeof(double));
    double *ratio = xy[1] = spot_xcalloc(x->n_user, sizeof(double));

    for (size_t u = 0; u < x->n_user; u++)
        ratio[u] = fmin(SHOWN_MAX, x->user[u].first_usd / spot_share_alone_usd(&x->user[u]));
    qsort(ratio, x->n_user, sizeof(*ratio), spot_num_compare);
    for (size_t u = 0; u < x->n_user; u++)
        part[u] = (double)(u + 1) / (double)x->n_user;
    series[2 * SPOT_SHARE_TARIFFS + tariff] = (struct spot_series){
        .label = spot_share_tariff_name[tariff], .n = x->n_user, .x = part, .y = ratio
    };
}

int replay_share_worth_plot(const struct replay_share_worth *w, const char *path,
                            struct spot_err *err)
{
    struct spot_series series[PANELS * SPOT_SHARE_TARIFFS] = { 0 };
    double *xy[5 * SPOT_SHARE_TARIFFS] = { 0 };
    const struct spot_figure panel[PANELS] = {
        { .title = "users that have not left",
          .x_label = "turn",
          .y_label = "share of users",
          .series = series,
          .n_series = SPOT_SHARE_TARIFFS },
        { .title = "what members pay for a worker-hour",
          .x_label = "turn",
          .y_label = "of its price on demand",
          .series = series + SPOT_SHARE_TARIFFS,
          .n_series = SPOT_SHARE_TARIFFS },
        { .title = "what a user pays when all share",
          .x_label = "share of users",
          .y_label = "of what he pays alone (3: or more)",
          .series = series + 2 * SPOT_SHARE_TARIFFS,
          .n_series = SPOT_SHARE_TARIFFS },
    };
    size_t n_turn = 0;
    int rc;

    for (size_t t = 0; t < SPOT_SHARE_TARIFFS; t++)
        if (w->tariff[t].n_turn + 1 > n_turn)
            n_turn = w->tariff[t].n_turn + 1;
    for (size_t t = 0; t < SPOT_SHARE_TARIFFS; t++) {
        draw_turns(&w->tariff[t], n_turn, xy + 5 * t, series, t);
        draw_users(&w->tariff[t], xy + 5 * t + 3, series, t);
    }
    rc = spot_plot_panels(panel, PANELS, path, err);
    for (size_t i = 0; i < sizeof(xy) / sizeof(*xy); i++)
        free(xy[i]);
    return rc;
}
