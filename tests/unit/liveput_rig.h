/* SPDX-License-Identifier: MIT */
/* liveput_rig.h - a job so small that everything that can happen to it can be tried. */
#ifndef SPOT_TESTS_LIVEPUT_RIG_H
#define SPOT_TESTS_LIVEPUT_RIG_H

#include <string.h>

#include "plan/train/liveput_inner.h"
#include "suite.h"

/* Two layers, cheap and costly changes; 4 instances: grids 1x1 .. 4x1, 1x2, 2x2. */
static const char rig_job_text[] =
    "{\"schema\":\"spot.job/1\",\"name\":\"t\",\"kind\":\"train\",\"global_batch\":8,"
    "\"layers\":[{\"params\":40},{\"params\":60}],"
    "\"cost\":{\"move_byte_per_param\":1,\"p2p\":[{\"byte\":1,\"s\":0.1}],\"process_s\":2,"
    "\"rendezvous_s\":7,\"add_per_group_s\":1,\"remove_per_group_s\":0.3},"
    "\"profile\":[{\"D\":1,\"P\":1,\"step_s\":8},{\"D\":2,\"P\":1,\"step_s\":4.2},"
    "{\"D\":3,\"P\":1,\"step_s\":3.1},{\"D\":1,\"P\":2,\"step_s\":4.6},"
    "{\"D\":2,\"P\":2,\"step_s\":2.4}]}";

struct fixture {
    struct spot_job_doc job;
    struct spot_throughput throughput;
    struct spot_cost_table table;
};

static inline void load(struct fixture *f)
{
    struct spot_err err = { 0 };

    ck_assert_msg(!spot_job_doc_parse(&f->job, rig_job_text, strlen(rig_job_text), "t", &err), "%s",
                  err.msg);
    ck_assert(!spot_throughput_init(&f->throughput, &f->job, 4, SPOT_THROUGHPUT_TABLE, &err));
    spot_cost_table_init(&f->table, &f->job, &f->throughput);
}

static inline void unload(struct fixture *f)
{
    spot_cost_table_release(&f->table);
    spot_throughput_release(&f->throughput);
    spot_job_doc_release(&f->job);
}

static inline bool fits(const struct spot_cost_table *t, int g, int n)
{
    return t->d[g] * t->p[g] <= n;
}

/* `to` cut to what fits: here P = 1 or 2 and n >= 2, so fewer pipelines always fit. */
static inline int cut(const struct spot_cost_table *t, int to, int n)
{
    return fits(t, to, n) ? to : spot_cost_grid(t, n / t->p[to], t->p[to]);
}

/* Losses of 1 from 3 or more only: the count stays within 2..4. */
static inline void gentle_chain(struct spot_count_chain *chain)
{
    spot_count_chain_init(chain, 4);
    for (int k = 0; k < 40; k++) {
        spot_count_chain_observe(chain, 4, 3);
        spot_count_chain_observe(chain, 3, 3);
        spot_count_chain_observe(chain, 3, 4);
        spot_count_chain_observe(chain, 4, 4);
    }
    memset(chain->size, 0, sizeof(chain->size));
    chain->size[0][1] = chain->size[1][1] = 1;
}

#endif /* SPOT_TESTS_LIVEPUT_RIG_H */
