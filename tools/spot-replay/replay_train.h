/* SPDX-License-Identifier: MIT */
/* replay_train.h - the parts of spot-replay train. */
#ifndef SPOT_REPLAY_REPLAY_TRAIN_H
#define SPOT_REPLAY_REPLAY_TRAIN_H

#include "cli/plot.h"
#include "cli/table.h"
#include "peers/train_peers.h"

enum { REPLAY_POLICIES_MAX = 64 };

struct replay_train {
    struct spot_job_doc job;
    enum spot_throughput_source source;
    struct spot_throughput throughput;
    struct spot_cost_table table;
    bool is_ready; /* table and throughput above are made */
    struct spot_sim_train sim;
    int *available; /* [n] */
    struct spot_trace trace;
    size_t n;
    double interval_s, notice_loss_s, notice_gain_s;
    struct spot_peer_prices peers;
    int look_ahead;
    double ideal; /* samples of the policy `ideal` */
    const struct spot_sim_policy *policy[REPLAY_POLICIES_MAX];
    /* it was left out at least once, and a warning was given */
    bool is_left_out[REPLAY_POLICIES_MAX];
    bool is_beyond[REPLAY_POLICIES_MAX]; /* it used grids that are not in `throughput` */
    int n_policy;
    bool is_all; /* --policy all */
    enum spot_format format;
};

/* Run policy k of the list into row[n]. Returns 0; 1 if it cannot be played (SPOT_EINFEASIBLE) and
 * is left out with a warning, since there are others; or -1 with *err. */
int replay_train_play(struct replay_train *s, int k, struct spot_sim_row *row,
                      struct spot_err *err);

/* From now on print which policy takes long and what to change, unless is_quiet. */
void replay_train_watch(bool is_quiet);

/* "all" means the policies that can be played: without an on-demand price, all except one. */
void replay_train_leave_out(struct replay_train *s);

/* Rows of a table, totals or steps: begin it, then add. */
void replay_train_begin(const struct replay_train *s, bool has_steps, struct spot_table *table);

void replay_train_print_steps(const struct replay_train *s, const struct spot_sim_policy *policy,
                              const struct spot_sim_row *row, struct spot_table *table);
void replay_train_print_total(const struct replay_train *s, const struct spot_sim_policy *policy,
                              const struct spot_sim_row *row, struct spot_table *table);

/* Warn of policies that used grids which other policies, including ideal, do not have. */
void replay_train_warn(const struct replay_train *s);
void replay_train_release(struct replay_train *s);

/* A figure built policy by policy: "samples", "grids" or "cost". */
struct replay_figure {
    const char *picture;
    struct spot_series series[SPOT_PLOT_MULTIPLES_MAX];
    double *memory[2 * SPOT_PLOT_MULTIPLES_MAX];
    size_t n_series, n_memory;
    char left_out[512]; /* names of policies that are not drawn */
};

void replay_figure_add(struct replay_figure *figure, const struct replay_train *s,
                       const struct spot_sim_policy *policy, const struct spot_sim_row *row);
int replay_figure_draw(struct replay_figure *figure, const struct replay_train *s, const char *path,
                       struct spot_err *err);
void replay_figure_release(struct replay_figure *figure);

#endif /* SPOT_REPLAY_REPLAY_TRAIN_H */
