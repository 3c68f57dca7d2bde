/* SPDX-License-Identifier: MIT */
/* bench_stage - time of a training step of one whole model on one device, and its share of a peak.
 *
 *   bench_stage [L C H T V b STEPS [KERNEL [PEAK_TFLOPS [Hk F]]]]
 *
 * With Hk, heads of keys and values, and F, width inside the MLP, the model is a Llama.
 *
 * FLOP per token: 6 N + 6 L C T, N without the embedding (llm.c's formula for causal attention).
 * A row per part of a step: the best of STEPS after one to warm up.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "engine/initial_weights.h"
#include "engine/stage.h"

enum { FORWARD, BACKWARD, NORM, UPDATE, PARTS };
static const char *const part_name[] = { "forward", "backward", "norm", "update" };

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die_if(int rc, const struct spot_err *err)
{
    if (!rc)
        return;
    fprintf(stderr, "bench_stage: %s\n", err->msg);
    exit(spot_err_exit_status(err));
}

struct bench {
    struct spot_stage *stage;
    int n_bundle;
    uint32_t *token;
    double best_s[PARTS], loss;
};

/* The faults are asked for so that the device has finished what was queued. */
static void run_step(struct bench *b)
{
    const struct spot_adamw adamw = { 1e-4, 0.9, 0.95, 1e-8, 0.1 };
    double at[PARTS + 1];
    struct spot_err err;

    spot_stage_begin(b->stage);
    (void)spot_stage_fault(b->stage, 0);
    at[FORWARD] = now_s();
    spot_stage_forward(b->stage, 0, b->token, NULL, NULL, &b->loss);
    at[BACKWARD] = now_s();
    spot_stage_backward(b->stage, 0, NULL, NULL);
    (void)spot_stage_fault(b->stage, 0);
    at[NORM] = now_s();
    for (int i = 0; i < b->n_bundle; i++)
        (void)spot_stage_norm2(b->stage, i);
    at[UPDATE] = now_s();
    for (int i = 0; i < b->n_bundle; i++)
        spot_stage_update(b->stage, i, &adamw, 1);
    at[PARTS] = now_s();
    die_if(spot_stage_status(b->stage, &err), &err);
    for (int p = 0; p < PARTS; p++)
        if (b->best_s[p] == 0 || at[p + 1] - at[p] < b->best_s[p])
            b->best_s[p] = at[p + 1] - at[p];
}

static void open_bench(struct bench *b, const struct spot_stage_config *config)
{
    struct spot_bundle **const ptr =
        spot_xcalloc((size_t)config->bundle_end, sizeof(struct spot_bundle *));
    const size_t n_token = (size_t)config->micro_batch * (size_t)(config->shape.seq + 1);
    struct spot_rng rng;
    struct spot_err err;

    die_if(spot_shape_check(&config->shape, &err), &err);
    die_if(spot_stage_check(config, 0, &err), &err);
    for (int i = 0; i < config->bundle_end; i++) {
        ptr[i] = spot_xcalloc(1, sizeof(*ptr[i]));
        die_if(spot_bundle_init(ptr[i], &config->shape, i, &err), &err);
        spot_bundle_start(ptr[i], &config->shape, 1);
    }
    b->n_bundle = config->bundle_end;
    b->stage = spot_stage_new(config, ptr, &err);
    die_if(!b->stage, &err);
    b->token = spot_xcalloc(n_token, sizeof(*b->token));
    spot_rng_init(&rng, 3, 0);
    for (size_t i = 0; i < n_token; i++)
        b->token[i] = (uint32_t)spot_rng_below(&rng, (uint64_t)config->shape.vocab);
}

static void report(const struct bench *b, const struct spot_stage_config *config, double peak)
{
    const struct spot_shape *const s = &config->shape;
    const double n_token = (double)config->micro_batch * (double)s->seq;
    const double n_param = (double)spot_shape_params(s);
    const double flop = 6 * (n_param - (double)(s->vocab * s->width)) +
                        6 * (double)s->n_layer * (double)s->width * (double)s->seq;
    double step_s = 0;

    printf("| part | ms |\n| --- | --- |\n");
    for (int p = 0; p < PARTS; p++) {
        printf("| %s | %.2f |\n", part_name[p], b->best_s[p] * 1e3);
        step_s += b->best_s[p];
    }
    printf("| step | %.2f |\n", step_s * 1e3);
    printf("%s, %s, L%lld C%lld H%lld T%lld V%lld b%d, %.1f M parameters, stage %.2f GB: %.0f "
           "tokens/s, "
           "%.1f TFLOP/s, %.1f %% of %.0f; update %.0f GB/s\n",
           s->kind.is_gated ? "llama" : "gpt2", spot_kernel_name(config->kernel),
           (long long)s->n_layer, (long long)s->width, (long long)s->n_head, (long long)s->seq,
           (long long)s->vocab, config->micro_batch, n_param * 1e-6,
           (double)spot_stage_memory(config) * 1e-9, n_token / step_s,
           flop * n_token / step_s * 1e-12, flop * n_token / step_s * 1e-12 / peak * 100, peak,
           34 * n_param / b->best_s[UPDATE] * 1e-9);
}

int main(int argc, char **argv)
{
    const char *const text[] = { "12", "768",       "12",  "1024", "50304", "32",
                                 "10", "cuda-bf16", "989", "0",    "0" };
    enum { N_ARG = sizeof(text) / sizeof(text[0]) };
    const char *arg[N_ARG];
    struct spot_stage_config config = { .n_slot = 1, .n_microbatch = 1, .n_thread = 1 };
    struct bench b = { 0 };
    struct spot_err err;

    for (int i = 0; i < N_ARG; i++)
        arg[i] = i + 1 < argc ? argv[i + 1] : text[i];
    config.shape = (struct spot_shape){ .n_layer = atoll(arg[0]),
                                        .width = atoll(arg[1]),
                                        .n_head = atoll(arg[2]),
                                        .seq = atoll(arg[3]),
                                        .vocab = atoll(arg[4]),
                                        .n_shard = 1 };
    if (atoll(arg[9])) {
        config.shape.kind = (struct spot_decoder)SPOT_DECODER_LLAMA;
        config.shape.n_kv_head = atoll(arg[9]);
        config.shape.ffn = atoll(arg[10]);
        config.shape.rope_theta = 1e4;
    }
    config.micro_batch = atoi(arg[5]);
    config.kernel = spot_kernel_find(arg[7], &err);
    die_if(!config.kernel, &err);
    config.bundle_end = spot_shape_bundles(&config.shape);
    open_bench(&b, &config);
    run_step(&b);
    memset(b.best_s, 0, sizeof(b.best_s));
    for (int i = 0; i < atoi(arg[6]); i++)
        run_step(&b);
    report(&b, &config, atof(arg[8]));
    spot_stage_free(b.stage);
    return 0;
}
