/* SPDX-License-Identifier: MIT */
/* bench_stage - time of a training step of one whole model on one device, and its share of a peak.
 *
 *   bench_stage [L C H T V b STEPS [KERNEL [PEAK_TFLOPS [Hk F]]]]
 *
 * With Hk, heads of keys and values, and F, width inside the MLP, the model is a Llama.
 *
 * FLOP per token: 6 N + 6 L C T, N without the embedding (llm.c's formula for causal attention).
 * A row per part of a step: the best of STEPS after one to warm up. STEPS 0: one step alone.
 */
#include <string.h>

#include "bench.h"
#include "common/hash.h"
#include "engine/stage.h"

enum { FORWARD, BACKWARD, NORM, UPDATE, PARTS };
static const char *const part_name[] = { "forward", "backward", "norm", "update" };

struct bench {
    struct spot_stage *stage;
    struct spot_bundle **bundle;
    int n_bundle, n_step;
    uint32_t *token;
    double best_s[PARTS], loss, open_s;
};

/* The faults are asked for so that the device has finished what was queued. */
static void run_step(struct bench *b)
{
    const struct spot_adamw adamw = { 1e-4, 0.9, 0.95, 1e-8, 0.1 };
    double at[PARTS + 1];
    struct spot_err err;

    spot_stage_begin(b->stage);
    (void)spot_stage_fault(b->stage, 0);
    at[FORWARD] = bench_now_s();
    spot_stage_forward(b->stage, 0, b->token, NULL, NULL, &b->loss);
    at[BACKWARD] = bench_now_s();
    spot_stage_backward(b->stage, 0, NULL, NULL);
    (void)spot_stage_fault(b->stage, 0);
    at[NORM] = bench_now_s();
    for (int i = 0; i < b->n_bundle; i++)
        (void)spot_stage_norm2(b->stage, i);
    at[UPDATE] = bench_now_s();
    for (int i = 0; i < b->n_bundle; i++)
        spot_stage_update(b->stage, i, &adamw, 1);
    at[PARTS] = bench_now_s();
    bench_die_if(spot_stage_status(b->stage, &err), &err);
    for (int p = 0; p < PARTS; p++)
        if (b->best_s[p] == 0 || at[p + 1] - at[p] < b->best_s[p])
            b->best_s[p] = at[p + 1] - at[p];
}

static void open_bench(struct bench *b, struct spot_stage_config *config)
{
    struct spot_err err;

    b->bundle = bench_bundles(&config->shape, &b->n_bundle);
    config->bundle_end = b->n_bundle;
    bench_die_if(spot_stage_check(config, 0, &err), &err);
    const double at = bench_now_s();
    b->stage = spot_stage_new(config, b->bundle, &err);
    bench_die_if(!b->stage, &err);
    b->open_s = bench_now_s() - at;
    b->token = bench_tokens((size_t)config->micro_batch * (size_t)(config->shape.seq + 1),
                            config->shape.vocab);
}

/* What a checkpoint, a notice, a sum by way of the host and a survivor's new epoch wait for; and
 * the bits of all planes, which are one on devices of one kind. */
static void report_state(struct bench *b)
{
    struct spot_hash_stream *const hash = spot_hash_stream_new();
    double n_elem = 0, at[5];
    struct spot_err err;

    at[0] = bench_now_s();
    bench_die_if(spot_stage_sync(b->stage, SPOT_ALL_BUNDLES, &err), &err);
    at[1] = bench_now_s();
    bench_die_if(spot_stage_renew(b->stage, b->bundle, &err), &err);
    at[2] = bench_now_s();
    for (int turn = 0; turn < 2; turn++) { /* the first touches the pages */
        run_step(b);
        at[3] = bench_now_s();
        for (int i = 0; i < b->n_bundle; i++)
            (void)spot_stage_sum(b->stage, i);
        at[4] = bench_now_s();
    }
    bench_die_if(spot_stage_status(b->stage, &err), &err);
    for (int i = 0; i < b->n_bundle; i++) {
        n_elem += (double)b->bundle[i]->arena.n_elem;
        for (int p = 0; p < SPOT_PLANES; p++)
            spot_hash_stream_add(hash, b->bundle[i]->plane[p],
                                 b->bundle[i]->arena.n_elem * sizeof(float));
    }
    printf("stage opened %.3f s; %.2f GB of state to the host %.3f s, %.1f GB/s; renewed %.2f ms; "
           "sums to the host %.1f GB/s\n",
           b->open_s, 12e-9 * n_elem, at[1] - at[0], 12e-9 * n_elem / (at[1] - at[0]),
           1e3 * (at[2] - at[1]), 8e-9 * n_elem / (at[4] - at[3]));
    printf("bits after %d steps: %016llx\n", b->n_step,
           (unsigned long long)spot_hash_stream_64(hash));
    spot_hash_stream_free(hash);
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
    bench_die_if(!config.kernel, &err);
    open_bench(&b, &config);
    run_step(&b);
    memset(b.best_s, 0, sizeof(b.best_s));
    b.n_step = 1 + atoi(arg[6]);
    for (int i = 1; i < b.n_step; i++)
        run_step(&b);
    report(&b, &config, atof(arg[8]));
    if (b.n_step > 1)
        report_state(&b);
    spot_stage_free(b.stage);
    return 0;
}
