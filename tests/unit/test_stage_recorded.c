/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "../tiny_model.h"
#include "engine/stage.h"
#include "suite.h"
#include "weights/hf_names.h"

/* Goal: a random model of each dense family, trained for five steps, has the losses, norms of
 * gradients and weights of PyTorch and transformers (tests/data/models/training.txt, by
 * tests/world/record_training.py). */

#define TRAINING "tests/data/models/training.txt"

enum { MODELS = 21, STEPS = 5, SEQUENCES = 3, LENGTH = 20, BUNDLES_MAX = 8 };

static const struct spot_adamw adamw = { 1e-2, 0.9, 0.95, 1e-6, 0.1 };

/* The two numbers behind "NAME WHAT KEY". */
static bool find(const char *name, const char *what, const char *key, double x[2])
{
    FILE *const in = fopen(TRAINING, "re");
    char line[512], want[256];
    bool is_found = false;

    ck_assert_ptr_nonnull(in);
    snprintf(want, sizeof(want), "%s %s %s ", name, what, key);
    while (!is_found && fgets(line, sizeof(line), in))
        is_found = !strncmp(line, want, strlen(want)) &&
                   sscanf(line + strlen(want), "%lf %lf", &x[0], &x[1]) == 2;
    fclose(in);
    return is_found;
}

struct model {
    char name[64];
    struct spot_shape shape;
    int n_bundle;
    struct spot_bundle bundle[BUNDLES_MAX], *ptr[BUNDLES_MAX];
};

static void put_tokens(uint32_t *token, int step, int64_t vocab)
{
    for (int s = 0; s < SEQUENCES; s++)
        for (int64_t i = 0; i <= LENGTH; i++)
            *token++ = (uint32_t)((tiny_token(i, vocab) + 11 * (step * SEQUENCES + s)) % vocab);
}

static void train(struct model *m)
{
    const struct spot_stage_config config = { .shape = m->shape,
                                              .bundle_end = m->n_bundle,
                                              .micro_batch = SEQUENCES,
                                              .n_slot = 1,
                                              .n_microbatch = 1,
                                              .n_thread = 2,
                                              .kernel = spot_kernel_find("portable", NULL) };
    struct spot_err err = { 0 };
    struct spot_stage *const stage = spot_stage_new(&config, m->ptr, &err);
    uint32_t token[SEQUENCES * (LENGTH + 1)];
    int step = 0;

    ck_assert_msg(stage, "%s", err.msg);
    while (step < STEPS) {
        double loss = 0, norm2 = 0, want[2];
        bool is_redone = false;
        char key[16];

        put_tokens(token, step, m->shape.vocab);
        spot_stage_begin(stage);
        spot_stage_forward(stage, 0, token, NULL, NULL, &loss);
        spot_stage_backward(stage, 0, NULL, NULL);
        for (int b = 0; b < m->n_bundle; b++) {
            const struct spot_stage_fault fault = spot_stage_fault(stage, b);

            ck_assert_uint_eq(fault.nonfinite, 0);
            spot_stage_back_off(stage, b, fault.overflow);
            is_redone |= fault.overflow != 0;
        }
        if (is_redone)
            continue;
        if (m->shape.is_tied) { /* both ends have the gradient of both */
            int64_t *const embed = spot_stage_sum(stage, 0);
            int64_t *const head = spot_stage_sum(stage, m->n_bundle - 1);
            const struct spot_arena *const a = &m->bundle[m->n_bundle - 1].arena;
            const int t = spot_arena_find(a, "head.w"),
                      e = spot_arena_find(&m->bundle[0].arena, "wte");
            const size_t n = (size_t)(a->tensor[t].rows * a->tensor[t].cols);

            for (size_t i = 0; i < n; i++) {
                int64_t *const x = &embed[spot_arena_offset(&m->bundle[0].arena, e, 0) + i];
                int64_t *const y = &head[spot_arena_offset(a, t, 0) + i];

                *x = *y = *x + *y;
            }
        }
        for (int b = 0; b < m->n_bundle; b++)
            norm2 += spot_stage_norm2(stage, b);
        snprintf(key, sizeof(key), "%d", step);
        ck_assert(find(m->name, "step", key, want));
        ck_assert_msg(fabs(loss - want[0]) < 2e-5 * want[0],
                      "%s, step %d: loss %.9g, expected %.9g", m->name, step, loss, want[0]);
        ck_assert_msg(fabs(sqrt(norm2) - want[1]) < 2e-4 * want[1],
                      "%s, step %d: norm %.9g, expected %.9g", m->name, step, sqrt(norm2), want[1]);
        for (int b = 0; b < m->n_bundle; b++)
            spot_stage_update(stage, b, &adamw, norm2 > 1 ? 1 / (sqrt(norm2) + 1e-6) : 1);
        step++;
    }
    spot_stage_free(stage);
}

/* Sum and sum of squares of each tensor, as files have them. */
static void check_weights(const struct model *m)
{
    int n_checked = 0;

    for (int b = 0; b < m->n_bundle; b++) {
        const struct spot_arena *const a = &m->bundle[b].arena;
        struct spot_hf_name list[SPOT_HF_NAMES_MAX];
        const size_t n = spot_hf_names(&m->shape, b, list);

        for (size_t i = 0; i < n; i++) {
            const int t = spot_arena_find(a, list[i].ours);
            const struct spot_tensor *const tensor = &a->tensor[t];
            const struct spot_hf_rows rows = spot_hf_rows(&m->shape, tensor, &list[i], 0);
            const int64_t n_row = spot_hf_n_row(&m->shape, tensor, &list[i]);
            const float *const x = m->bundle[b].plane[SPOT_PLANE_MASTER] +
                                   spot_arena_offset(a, t, 0) + rows.first * tensor->cols;
            double sum = 0, square = 0, want[2], size;
            char full[SPOT_HF_NAME_MAX];

            if (spot_arena_is_copy(&m->shape, a, t) || !strcmp(list[i].ours, "wpe"))
                continue; /* theirs has positions that are not trained here */
            for (int64_t k = 0; k < n_row * tensor->cols; k++) {
                const double w = (double)x[k] - (double)spot_hf_rest(&m->shape, &list[i]);

                sum += w;
                square += w * w;
            }
            spot_hf_name_of(&m->shape, b, &list[i], 0, full);
            ck_assert_msg(find(m->name, "tensor", full, want), "%s: no %s", m->name, full);
            size = sqrt((double)(n_row * tensor->cols));
            ck_assert_msg(fabs(sum - want[0]) < 5e-4 * size, "%s %s: sum %.9g, expected %.9g",
                          m->name, full, sum, want[0]);
            ck_assert_msg(fabs(square - want[1]) < 5e-4 * size,
                          "%s %s: squares %.9g, expected %.9g", m->name, full, square, want[1]);
            n_checked++;
        }
    }
    ck_assert_int_ge(n_checked, 15);
}

START_TEST(five_steps_are_those_of_pytorch)
{
    char config[TINY_LINE];
    struct model m = { .n_bundle = 0 };
    struct spot_err err = { 0 };

    ck_assert(tiny_find(_i, m.name, config));
    ck_assert_int_eq(spot_hf_config_parse(config, m.name, &m.shape, &err), 0);
    if (m.shape.kind.n_expert)
        return;
    m.shape.n_shard = 1;
    m.shape.seq = LENGTH;
    m.n_bundle = spot_shape_bundles(&m.shape);
    ck_assert_int_le(m.n_bundle, BUNDLES_MAX);
    for (int b = 0; b < m.n_bundle; b++) {
        m.ptr[b] = &m.bundle[b];
        ck_assert_int_eq(spot_bundle_init(m.ptr[b], &m.shape, b, &err), 0);
        tiny_fill(m.ptr[b], &m.shape, m.name);
        for (int t = 0; t < SPOT_TENSORS_MAX; t++)
            m.bundle[b].exponent[t] = SPOT_EXPONENT_START;
    }
    if (m.shape.is_tied)
        memcpy(m.bundle[m.n_bundle - 1].plane[SPOT_PLANE_MASTER] +
                   spot_arena_offset(&m.bundle[m.n_bundle - 1].arena,
                                     spot_arena_find(&m.bundle[m.n_bundle - 1].arena, "head.w"), 0),
               m.bundle[0].plane[SPOT_PLANE_MASTER] +
                   spot_arena_offset(&m.bundle[0].arena, spot_arena_find(&m.bundle[0].arena, "wte"),
                                     0),
               (size_t)(m.shape.vocab * m.shape.width) * sizeof(float));
    train(&m);
    check_weights(&m);
    for (int b = 0; b < m.n_bundle; b++)
        spot_bundle_release(&m.bundle[b]);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("core");

    tcase_add_loop_test(tc, five_steps_are_those_of_pytorch, 0, MODELS);
    return run_suite("stage_recorded", tc);
}
