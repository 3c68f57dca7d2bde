/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <stdlib.h>

#include "job_rig.h"

/* Goal: M workers that share a stage give the bits of one: on every grid of up to six workers and
 * one of eight, of two architectures, whatever the shares. Oracle: one worker. */

static struct spot_trainer_options shared(uint32_t D, uint32_t P, uint32_t M, bool is_llama)
{
    struct spot_trainer_options o = job((uint64_t)D * P * M, D, P, M);

    o.config.shape = (struct spot_shape){
        .n_layer = 2, .width = 24, .n_head = 12, .seq = 8, .vocab = 256, .n_shard = 12
    };
    if (is_llama)
        o.config.shape = (struct spot_shape){ .n_layer = 2,
                                              .width = 24,
                                              .n_head = 12,
                                              .seq = 8,
                                              .vocab = 256,
                                              .n_shard = 6,
                                              .kind = SPOT_DECODER_LLAMA,
                                              .n_kv_head = 6,
                                              .ffn = 36,
                                              .rope_theta = 1e4,
                                              .norm_eps = 1e-5 };
    o.config.global_batch = 5;
    o.config.n_step = 3;
    o.durable_every_s = 3600;
    o.settle_s = 0.02;
    return o;
}

static char alone[2][40]; /* of one worker, by architecture */

static void run_alone(void)
{
    for (int k = 0; k < 2; k++) {
        const struct spot_trainer_options o = shared(1, 1, 1, k);
        const struct outcome got = run_job(&o);

        ck_assert_msg(!got.rc, "%s", got.err.msg);
        memcpy(alone[k], got.result.state_hex, sizeof(alone[k]));
    }
}

/* Five microbatches, four bundles, twelve shards. */
START_TEST(every_grid_of_so_many_workers_gives_the_bits_of_one)
{
    int n_grid = 0;

    for (int d = 1; d <= 5; d++)
        for (int p = 1; p <= 4; p++)
            for (int m = 1; m <= 12; m++) {
                struct spot_trainer_options o = shared((uint32_t)d, (uint32_t)p, (uint32_t)m, 0);

                if (12 % m || d * p * m != _i)
                    continue;
                expect_state(&o, alone[0]);
                n_grid++;
            }
    ck_assert_int_ge(n_grid, 1);
}
END_TEST

static const struct {
    uint32_t D, P, M;
    bool is_llama;
    const char *shares;
} way[] = {
    { 2, 2, 2, false, "even" }, { 1, 1, 4, false, "even" }, { 2, 1, 2, false, "1,4" },
    { 1, 1, 2, true, "even" },  { 1, 2, 3, true, "even" },  { 2, 1, 2, true, "even" },
};

START_TEST(so_does_each_way_to_share_a_stage)
{
    struct spot_trainer_options o = shared(way[_i].D, way[_i].P, way[_i].M, way[_i].is_llama);

    ck_assert_int_eq(spot_split_parse(way[_i].shares, &o.shares, NULL), 0);
    expect_state(&o, alone[way[_i].is_llama]);
}
END_TEST

int main(int argc, char **argv)
{
    TCase *tc = tcase_create("core");

    be_worker(argc, argv);
    make_dir();
    tcase_add_unchecked_fixture(tc, run_alone, NULL);
    tcase_add_loop_test(tc, every_grid_of_so_many_workers_gives_the_bits_of_one, 2, 7);
    tcase_add_loop_test(tc, so_does_each_way_to_share_a_stage, 0, sizeof(way) / sizeof(way[0]));
    return run_job_suite("job_grids", tc);
}
