/* SPDX-License-Identifier: MIT */
/* What moves in a job of N parameters on D x P members, at r bytes/s in and out of each: the laws
 * of docs/design/24-parallel-state.md beside what the planner that a job uses makes of it. 12 bytes
 * of state for each parameter. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "suite.h"
#include "train/estimate.h"

static const double rate = 1.25e9;

struct size {
    const char *name;
    struct spot_job_config config;
    double least, most; /* parameters, in 1e9 */
};

static struct size sizes(int i)
{
    static const struct {
        const char *name;
        struct spot_decoder kind;
        int64_t layers, width, heads, ffn, vocab;
        double least, most;
    } of[] = { { "12M", SPOT_DECODER_GPT2, 6, 384, 6, 0, 256, .010, .015 },
               { "86M", SPOT_DECODER_GPT2, 12, 768, 12, 0, 256, .084, .088 },
               { "1.5B", SPOT_DECODER_GPT2, 48, 1600, 25, 0, 50257, 1.5, 1.7 },
               { "7B", SPOT_DECODER_LLAMA, 32, 4096, 32, 11008, 32000, 6.5, 7 } };
    struct size s = { .name = of[i].name, .least = of[i].least, .most = of[i].most };

    s.config.shape = (struct spot_shape){ .kind = of[i].kind,
                                          .n_layer = of[i].layers,
                                          .width = of[i].width,
                                          .n_head = of[i].heads,
                                          .seq = 128,
                                          .vocab = of[i].vocab,
                                          .n_shard = 1 };
    if (of[i].kind.family) {
        s.config.shape.n_kv_head = of[i].heads;
        s.config.shape.ffn = of[i].ffn;
        s.config.shape.rope_theta = 10000;
        s.config.shape.norm_eps = 1e-5;
    }
    s.config.micro_batch = 1;
    s.config.global_batch = 128;
    snprintf(s.config.kernel, sizeof(s.config.kernel), "%s", "portable");
    return s;
}

static const struct spot_estimate_move *find(const struct spot_estimate *e, const char *kind)
{
    for (size_t i = 0; i < e->n_move; i++)
        if (!strcmp(e->move[i].kind, kind))
            return &e->move[i];
    return NULL;
}

static void check_grid(const struct size *s, int64_t D, int64_t P)
{
    const struct spot_estimate_options o = { .config = &s->config,
                                             .grid = { D, P, 1 },
                                             .n_member = D * P,
                                             .n_thread = 1,
                                             .byte_per_s = rate };
    struct spot_estimate e;
    struct spot_err err = { 0 };
    double most = 0, all = 0;
    const struct spot_estimate_move *m;

    ck_assert_msg(!spot_estimate_init(&e, &o, &err), "%s %lldx%lld: %s", s->name, (long long)D,
                  (long long)P, err.msg);
    ck_assert_msg((double)e.n_param >= 1e9 * s->least && (double)e.n_param <= 1e9 * s->most,
                  "%s has %lld parameters", s->name, (long long)e.n_param);
    for (int64_t p = 0; p < P; p++) {
        all += 12. * (double)e.worker[p].n_param;
        most = fmax(most, 12. * (double)e.worker[p].n_param);
    }
    ck_assert_double_eq(all, 12. * (double)e.n_param);
    if (D > 1) {
        /* the others have it all */
        m = find(&e, "pipeline_lost");
        ck_assert_ptr_nonnull(m);
        ck_assert_int_eq(m->byte, 0);
        /* one stage, into one link */
        m = find(&e, "worker_replaced");
        ck_assert_ptr_nonnull(m);
        ck_assert_double_eq((double)m->byte, 12. * (double)e.worker[P - 1].n_param);
        ck_assert_double_eq_tol(m->move_s, (double)m->byte / rate, 1e-6 * m->move_s);
    }
    m = find(&e, "worker_relieved");
    ck_assert_ptr_nonnull(m);
    ck_assert_double_eq((double)m->byte, 12. * (double)e.worker[P - 1].n_param);
    /* all of it once, each stage into its own link: as long as the largest */
    m = find(&e, "pipeline_joins");
    ck_assert_ptr_nonnull(m);
    ck_assert_double_eq((double)m->byte, all);
    ck_assert_double_ge(m->move_s, most / rate * (1 - 1e-9));
    ck_assert_double_le(m->move_s, most / rate * 1.05);
    printf("# %-5s %lldx%-2lld  one stage %8.1f MB %7.3f s, a pipeline %9.1f MB %7.3f s\n", s->name,
           (long long)D, (long long)P, (double)find(&e, "worker_relieved")->byte / 1e6,
           find(&e, "worker_relieved")->move_s, all / 1e6, m->move_s);
    /* whatever the state: 16 MiB of the program */
    ck_assert_double_le(e.coordinator_byte, 128e6);
    spot_estimate_release(&e);
}

START_TEST(what_moves_is_what_the_laws_say_up_to_7b_on_64_members)
{
    static const int64_t grid[][2] = {
        { 1, 2 }, { 2, 2 }, { 4, 4 }, { 2, 8 }, { 8, 8 }, { 4, 16 }
    };

    for (int i = 0; i < 4; i++) {
        const struct size s = sizes(i);

        for (size_t g = 0; g < sizeof(grid) / sizeof(grid[0]); g++)
            if (grid[g][1] <= spot_shape_bundles(&s.config.shape))
                check_grid(&s, grid[g][0], grid[g][1]);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_test(tc, what_moves_is_what_the_laws_say_up_to_7b_on_64_members);
    return run_suite("size_laws", tc);
}
