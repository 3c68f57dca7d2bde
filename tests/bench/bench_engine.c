/* SPDX-License-Identifier: MIT */
/* bench_engine - time of a training step against a floor measured in the same run.
 *
 *   bench_engine [L C H T V b THREADS STEPS [KERNEL [SHARDS [Hk F]]]]
 *
 * With Hk, heads of keys and values, and F, width inside the MLP, the model is a Llama.
 * The floor is OpenBLAS doing the products of the step and nothing else: forward, gradient by the
 * input, gradient by the weight, attention as if dense and causal at half price.
 */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "engine/initial_weights.h"
#include "engine/stage.h"

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct bench {
    struct spot_shape shape;
    int micro_batch, n_thread, n_step;
    const char *kernel;
    struct spot_bundle *bundle, **ptr;
    struct spot_stage *stage;
    uint32_t *token;
};

static void die(const struct spot_err *err)
{
    fprintf(stderr, "bench_engine: %s\n", err->msg);
    exit(1);
}

static void open_stage(struct bench *b)
{
    const int n = spot_shape_bundles(&b->shape);
    struct spot_err err = { 0 };
    struct spot_stage_config config = { .shape = b->shape,
                                        .bundle_end = n,
                                        .micro_batch = b->micro_batch,
                                        .n_slot = 1,
                                        .n_microbatch = 1,
                                        .n_thread = b->n_thread };

    config.kernel = spot_kernel_find(b->kernel, &err);
    if (!config.kernel)
        die(&err);
    b->bundle = spot_xcalloc((size_t)n, sizeof(*b->bundle));
    b->ptr = spot_xcalloc((size_t)n, sizeof(struct spot_bundle *));
    for (int i = 0; i < n; i++) {
        if (spot_bundle_init(&b->bundle[i], &b->shape, i, &err))
            die(&err);
        spot_bundle_start(&b->bundle[i], &b->shape, 1);
        b->ptr[i] = &b->bundle[i];
    }
    printf("stage %.1f MB beside %.1f M parameters\n", (double)spot_stage_memory(&config) * 1e-6,
           (double)spot_shape_params(&b->shape) * 1e-6);
    b->stage = spot_stage_new(&config, b->ptr, &err);
    if (!b->stage)
        die(&err);
    b->token = malloc((size_t)b->micro_batch * (size_t)(b->shape.seq + 1) * sizeof(*b->token));
}

/* Seconds of begin, forward, backward, norm and update. */
static void run_step(struct bench *b, int step, double part[5])
{
    const struct spot_adamw adamw = { 1e-4, 0.9, 0.999, 1e-8, 0.01 };
    double loss, t[6];
    struct spot_rng rng;

    spot_rng_init(&rng, 3, (uint64_t)step);
    for (int64_t i = 0; i < b->micro_batch * (b->shape.seq + 1); i++)
        b->token[i] = (uint32_t)spot_rng_below(&rng, (uint64_t)b->shape.vocab);
    t[0] = now_s();
    spot_stage_begin(b->stage);
    t[1] = now_s();
    spot_stage_forward(b->stage, 0, b->token, NULL, NULL, &loss);
    t[2] = now_s();
    spot_stage_backward(b->stage, 0, NULL, NULL);
    t[3] = now_s();
    for (int i = 0; i < spot_shape_bundles(&b->shape); i++)
        spot_stage_norm2(b->stage, i);
    t[4] = now_s();
    for (int i = 0; i < spot_shape_bundles(&b->shape); i++)
        spot_stage_update(b->stage, i, &adamw, 1);
    t[5] = now_s();
    printf("step %d loss %.4f  %.1f ms =", step, loss, 1e3 * (t[5] - t[0]));
    for (int i = 0; i < 5; i++) {
        part[i] = t[i + 1] - t[i];
        printf(" %.1f", 1e3 * part[i]);
    }
    printf("  (begin forward backward norm update)\n");
}

/* c[m][n] = a[m][k] b: three products of equal cost, as the forward and both gradients have. */
static double products_s(int m, int n, int k, float *memory)
{
    float *const x = memory, *const w = x + (size_t)m * (size_t)k,
                 *const y = w + (size_t)n * (size_t)k;
    const double start = now_s();

    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, x, k, w, k, 0, y, n);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, k, n, 1, y, n, w, k, 0, x, k);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n, k, m, 1, y, n, x, k, 0, w, k);
    return now_s() - start;
}

static double floor_s(const struct bench *b)
{
    const int m = b->micro_batch * (int)b->shape.seq, c = (int)b->shape.width,
              v = (int)b->shape.vocab, t = (int)b->shape.seq, d = c / (int)b->shape.n_head;
    const int shape[][2] = { { (int)spot_shape_qkv(&b->shape), c },
                             { c, c },
                             { (int)spot_shape_pre(&b->shape), c },
                             { c, (int)spot_shape_ffn(&b->shape) } };
    const int wide = shape[0][0] > shape[2][0] ? shape[0][0] : shape[2][0];
    const size_t widest = (size_t)(v > wide ? v : wide);
    const size_t elem =
        (size_t)(m > t ? m : t) * (widest + (size_t)wide + (size_t)t) + widest * (size_t)c;
    float *const memory = spot_alloc_aligned(elem, sizeof(float));
    double best = 1e9;

    openblas_set_num_threads(b->n_thread);
    for (size_t i = 0; i < elem; i++)
        memory[i] = 1e-3F * (float)(i % 97);
    for (int trial = 0; trial < 3; trial++) {
        double layer = 0, total;

        for (int i = 0; i < 4; i++)
            layer += products_s(m, shape[i][0], shape[i][1], memory);
        /* forward 2, backward 4 (and 1 again) causal half products: 2 x three products / 2 */
        layer += products_s(t, t, d, memory) * b->micro_batch * (double)b->shape.n_head;
        total = layer * (double)b->shape.n_layer + products_s(m, v, c, memory);
        best = total < best ? total : best;
    }
    spot_free_aligned(memory);
    return best;
}

static void run_bench(struct bench *b)
{
    double best = 1e9, floor, gflop;
    const double n_token = (double)b->micro_batch * (double)b->shape.seq;
    const int64_t n_position = !b->shape.kind.is_gated ? b->shape.seq : 0;
    struct spot_err err = { 0 };

    if (spot_shape_check(&b->shape, &err))
        die(&err);
    printf("%s, L %d C %d H %d T %d V %d b %d, %d threads, %s\n",
           b->shape.kind.is_gated ? "llama" : "gpt2", (int)b->shape.n_layer, (int)b->shape.width,
           (int)b->shape.n_head, (int)b->shape.seq, (int)b->shape.vocab, b->micro_batch,
           b->n_thread, b->kernel);
    open_stage(b);
    for (int i = 0; i < b->n_step; i++) {
        double part[5], sum = 0;

        run_step(b, i, part);
        for (int k = 0; k < 5; k++)
            sum += part[k];
        best = sum < best ? sum : best;
    }
    floor = floor_s(b);
    /* 6 per weight in a product, and attention, causal: llm.c's count */
    gflop = 1e-9 * n_token * 6 *
            (double)(spot_shape_params(&b->shape) - (b->shape.vocab + n_position) * b->shape.width +
                     b->shape.n_layer * b->shape.width * b->shape.seq);
    printf("  best %.1f ms, %.1f token/s, %.1f GFLOP/s; OpenBLAS floor %.1f ms, ratio %.2f\n",
           1e3 * best, n_token / best, gflop / best, 1e3 * floor, best / floor);
    spot_stage_free(b->stage);
    for (int i = 0; i < spot_shape_bundles(&b->shape); i++)
        spot_bundle_release(&b->bundle[i]);
    free(b->bundle);
    free(b->ptr);
    free(b->token);
}

static int number(const char *text)
{
    char *end;
    const long value = strtol(text, &end, 10);

    if (end == text || *end || value < 1 || value > 1 << 20) {
        fprintf(stderr, "bench_engine: expected a number from 1 to 1048576, got '%s'\n", text);
        exit(2);
    }
    return (int)value;
}

int main(int argc, char **argv)
{
    /* the model of 124 M with a byte vocabulary, one tenth of it, a long sequence, a wide layer,
     * and a Llama like the first */
    static const struct spot_shape usual[] = {
        { .n_layer = 6, .width = 384, .n_head = 6, .seq = 64, .vocab = 256, .n_shard = 2 },
        { .n_layer = 12, .width = 768, .n_head = 12, .seq = 64, .vocab = 256, .n_shard = 4 },
        { .n_layer = 2, .width = 768, .n_head = 12, .seq = 1024, .vocab = 256, .n_shard = 4 },
        { .n_layer = 1, .width = 1600, .n_head = 16, .seq = 256, .vocab = 256, .n_shard = 4 },
        { .n_layer = 12,
          .width = 768,
          .n_head = 12,
          .seq = 64,
          .vocab = 256,
          .n_shard = 4,
          .kind = SPOT_DECODER_LLAMA,
          .n_kv_head = 4,
          .ffn = 2048,
          .rope_theta = 1e4 },
    };
    struct bench b = { .kernel = argc > 9 ? argv[9] : "auto" };

    if (argc == 1) {
        for (size_t i = 0; i < 2 * sizeof(usual) / sizeof(usual[0]); i++)
            run_bench(&(struct bench){ .shape = usual[i / 2],
                                       .micro_batch = usual[i / 2].seq > 64 ? 1 : 4,
                                       .n_thread = 1 + (int)i % 2,
                                       .n_step = 3,
                                       .kernel = "auto" });
        return 0;
    }
    if (argc < 9) {
        fprintf(stderr, "usage: bench_engine [L C H T V b THREADS STEPS [KERNEL [SHARDS "
                        "[Hk F]]]]\n");
        return 2;
    }
    b.shape = (struct spot_shape){ .n_layer = number(argv[1]),
                                   .width = number(argv[2]),
                                   .n_head = number(argv[3]),
                                   .seq = number(argv[4]),
                                   .vocab = number(argv[5]),
                                   .n_shard = argc > 10 ? number(argv[10]) : 1 };
    if (argc > 12) {
        b.shape.kind = (struct spot_decoder)SPOT_DECODER_LLAMA;
        b.shape.n_kv_head = number(argv[11]);
        b.shape.ffn = number(argv[12]);
        b.shape.rope_theta = 1e4;
    }
    b.micro_batch = number(argv[6]);
    b.n_thread = number(argv[7]);
    b.n_step = number(argv[8]);
    run_bench(&b);
    return 0;
}
