/* SPDX-License-Identifier: MIT */
/* sim_rig.h - a simulation of training with a shipped job. */
#ifndef SPOT_TESTS_SIM_RIG_H
#define SPOT_TESTS_SIM_RIG_H

#include <stdio.h>

#include "peers/registry.h"
#include "peers/train_peers.h"
#include "suite.h"

/* By the minute, without notices or a trace yet. */
static inline struct spot_sim_train load_sim(const char *name, int n_max, struct spot_job_doc *job,
                                             struct spot_throughput *throughput,
                                             struct spot_cost_table *table)
{
    struct spot_err err = { 0 };
    char path[96];

    snprintf(path, sizeof(path), "examples/jobs/%s.json", name);
    ck_assert_msg(!spot_job_doc_load(job, path, &err), "%s", err.msg);
    ck_assert(!spot_throughput_init(throughput, job, n_max, SPOT_THROUGHPUT_TABLE, &err));
    spot_cost_table_init(table, job, throughput);
    return (struct spot_sim_train){ .job = job,
                                    .throughput = throughput,
                                    .table = table,
                                    .interval_s = 60,
                                    .look_ahead = 12,
                                    .seed = 1 };
}

static inline void unload_sim(struct spot_job_doc *job, struct spot_throughput *throughput,
                              struct spot_cost_table *table)
{
    spot_cost_table_release(table);
    spot_throughput_release(throughput);
    spot_job_doc_release(job);
}

/* Samples of a policy; row [sim.n_interval]. */
static inline double samples_of(const struct spot_sim_train *sim, const char *policy,
                                struct spot_sim_row *row)
{
    struct spot_err err = { 0 };
    struct spot_sim_total total;

    ck_assert_msg(!spot_sim_train_run(sim, spot_registry_find("train", policy, &err), row, &err),
                  "%s", err.msg);
    spot_sim_total(row, sim->n_interval, &total);
    return total.samples;
}

#endif /* SPOT_TESTS_SIM_RIG_H */
