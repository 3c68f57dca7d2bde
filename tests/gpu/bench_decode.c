/* SPDX-License-Identifier: MIT */
/* bench_decode - prompts and single tokens through the serving engine, a GPT-2 with a tied head.
 *
 *   bench_decode [TYPE [L C H T V]]      bf16 12 768 12 1024 50304; BACKEND=cpu: without a device
 *
 * name<TAB>value. Of a step the median of 40, after a context of half the sequence.
 */
#include "bench.h"
#include "engine/infer.h"

enum { BATCH = 64, STEPS = 40 };

static struct spot_err err;
static struct spot_infer *engine;
static uint32_t *token;
static float *logit;

static struct spot_infer_item sequence(int64_t n_token)
{
    return (struct spot_infer_item){
        spot_infer_open(engine, &err), 0, n_token, token, SPOT_POOL_NONE, NULL
    };
}

static double run_s(const struct spot_infer_item *item, int n)
{
    const double at = bench_now_s();

    bench_die_if(spot_infer_run(engine, item, n, NULL, NULL, logit, &err), &err);
    return bench_now_s() - at;
}

static void prompt(int64_t n_token)
{
    double best = 1e9;

    for (int i = 0; i < 4; i++) {
        const struct spot_infer_item item = sequence(n_token);
        const double s = run_s(&item, 1);

        best = i && s < best ? s : best; /* the first one warms up */
        spot_infer_close(engine, item.sequence);
    }
    printf("prompt of %lld\t%.2f ms, %.0f tokens/s\n", (long long)n_token, best * 1e3,
           (double)n_token / best);
}

static int by(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void decode(int n, int64_t context, double image_byte)
{
    struct spot_infer_item item[BATCH];
    double s[STEPS];

    for (int i = 0; i < n; i++) {
        item[i] = sequence(context);
        run_s(&item[i], 1);
        item[i].first = context;
        item[i].n_token = 1;
    }
    for (int k = 0; k < STEPS; k++) {
        s[k] = run_s(item, n);
        for (int i = 0; i < n; i++)
            item[i].first++;
    }
    qsort(s, STEPS, sizeof(s[0]), by);
    printf("batch %d, context %lld\t%.3f ms a step, %.0f tokens/s, %.0f GB/s of weights\n", n,
           (long long)context, s[STEPS / 2] * 1e3, n / s[STEPS / 2],
           image_byte / s[STEPS / 2] * 1e-9);
    for (int i = 0; i < n; i++)
        spot_infer_close(engine, item[i].sequence);
}

int main(int argc, char **argv)
{
    const int type = spot_infer_type_find(argc > 1 ? argv[1] : "bf16");
    const char *const backend = getenv("BACKEND");
    int64_t n[] = { 12, 768, 12, 1024, 50304 };
    int n_bundle;

    for (int i = 2; i < argc && i < 7; i++)
        n[i - 2] = atoll(argv[i]);
    const struct spot_shape shape = { .n_layer = n[0],
                                      .width = n[1],
                                      .n_head = n[2],
                                      .seq = n[3],
                                      .vocab = n[4],
                                      .n_shard = 1,
                                      .is_tied = true };
    struct spot_bundle **const bundle = bench_bundles(&shape, &n_bundle);
    struct spot_infer_config c = { .n_thread = 1,
                                   .n_sequence = BATCH,
                                   .n_page = BATCH * (int)(n[3] / SPOT_INFER_PAGE + 1),
                                   .token_max = (int)n[3],
                                   .backend = backend ? backend : "cuda" };

    c.image_byte = spot_infer_image_byte(&shape, (enum spot_infer_type)type, 0, n_bundle);
    void *const image = spot_alloc_aligned(c.image_byte, 1);
    spot_infer_image_pack(image, &shape, (enum spot_infer_type)type, 0, n_bundle, bundle);
    c.image = image;
    engine = spot_infer_new(&c, &err);
    bench_die_if(!engine, &err);
    token = bench_tokens((size_t)n[3], n[4]);
    logit = spot_xcalloc(BATCH * (size_t)n[4], sizeof(*logit));
    printf("kind\t%s\n", spot_infer_kernel(engine));
    for (int k = 3; k >= 0; k--)
        prompt((n[3] - 1) >> k);
    for (int k = 1; k <= BATCH; k *= 4)
        decode(k, n[3] / 2, (double)c.image_byte);
    spot_infer_free(engine);
    return 0;
}
