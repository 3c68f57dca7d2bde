/* SPDX-License-Identifier: MIT */
/* bench_decode - prompts and single tokens through the serving engine, a GPT-2 with a tied head.
 *
 *   bench_decode [TYPE [L C H T V]]      bf16 12 768 12 1024 50304; BACKEND=cpu: without a device
 *
 * name<TAB>value. Of a step the median of 40, after a context of half the sequence (GPU_SMALL: 4,
 * 16), with the choice of its tokens by as many threads as there are processors: by launches,
 * as a graph, with tokens chosen on the device, and as a graph with that (SPOT_CUDA_DECODE). The
 * tokens of all four must be the same.
 */
#include <unistd.h>

#include "bench.h"
#include "engine/infer.h"
#include "engine/sample.h"

enum { BATCH = 64, STEPS = 40 };

static const char *const ways[] = { "", "graphs", "tokens", "graphs+tokens" };
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static const struct spot_sample sample = { .temperature = 0.8, .top_p = 0.95, .repetition = 1 };

static struct spot_err err;
static struct spot_infer *engine;
static uint32_t *token;
static float *logit;
static int64_t vocab;
static int n_step = STEPS, step;
static struct spot_infer_pick pick[BATCH];
static struct spot_sample_work *work;       /* [thread][V] */
static uint32_t first_way[4][STEPS][BATCH]; /* tokens of each size of batch */

static struct spot_infer_item sequence(int64_t n_token)
{
    return (struct spot_infer_item){
        spot_infer_open(engine, &err), 0, n_token, token, SPOT_POOL_NONE, NULL
    };
}

static void choose(void *user, int i, int thread)
{
    (void)user;
    if (!pick[i].is_chosen)
        pick[i].token = spot_sample_choose(&sample, logit + i * vocab, vocab, NULL, (uint64_t)i,
                                           (uint64_t)step, work + thread * vocab);
}

/* A step and its tokens; the time of choosing on the host by itself. */
static double step_s(const struct spot_infer_item *item, int n, double *choose_s)
{
    const double at = bench_now_s();
    int n_row = 0;

    for (int i = 0; i < n; i++)
        pick[i] = (struct spot_infer_pick){ .is_wanted = true,
                                            .temperature = sample.temperature,
                                            .top_p = sample.top_p,
                                            .noise = spot_sample_noise(sample.seed, (uint64_t)i,
                                                                       (uint64_t)step) };
    bench_die_if(spot_infer_run_picks(engine, item, n, pick, NULL, NULL, logit, &err), &err);
    *choose_s = bench_now_s();
    for (int i = 0; i < n; i++)
        n_row += !pick[i].is_chosen;
    if (n_row)
        spot_infer_each(engine, n, choose, NULL);
    *choose_s = bench_now_s() - *choose_s;
    return bench_now_s() - at;
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

/* How many tokens differ from those of the first way. */
static int differ(int size, int way, int n)
{
    int n_other = 0;

    for (int i = 0; i < n; i++)
        if (!way)
            first_way[size][step][i] = pick[i].token;
        else
            n_other += first_way[size][step][i] != pick[i].token;
    return n_other;
}

static void decode(int size, int way, int64_t context, double image_byte)
{
    const int n = 1 << 2 * size;
    struct spot_infer_item item[BATCH];
    double s[STEPS], chosen_s[STEPS];
    struct spot_infer_counts before, after;
    char launches[64] = "";
    int n_other = 0;

    for (int i = 0; i < n; i++) {
        item[i] = sequence(context);
        run_s(&item[i], 1);
        item[i].first = context;
        item[i].n_token = 1;
    }
    before = spot_infer_counts(engine);
    for (step = 0; step < n_step; step++) {
        s[step] = step_s(item, n, &chosen_s[step]);
        n_other += differ(size, way, n);
        for (int i = 0; i < n; i++)
            item[i].first++;
    }
    after = spot_infer_counts(engine);
    if (after.n_graph > before.n_graph)
        snprintf(launches, sizeof(launches), ", 1 launch for %llu",
                 (unsigned long long)after.n_node);
    qsort(s, (size_t)n_step, sizeof(s[0]), by);
    qsort(chosen_s, (size_t)n_step, sizeof(s[0]), by);
    printf(
        "batch %d, context %lld, %s\t%.3f ms a step, %.3f on the host, %.0f tokens/s, %.0f GB/s, "
        "%.1f KB down%s%s\n",
        n, (long long)context, *ways[way] ? ways[way] : "launches", s[n_step / 2] * 1e3,
        chosen_s[n_step / 2] * 1e3, n / s[n_step / 2], image_byte / s[n_step / 2] * 1e-9,
        (double)(after.fetched_byte - before.fetched_byte) / n_step / 1e3, launches,
        n_other ? ", OTHER TOKENS" : "");
    for (int i = 0; i < n; i++)
        spot_infer_close(engine, item[i].sequence);
}

int main(int argc, char **argv)
{
    const int type = spot_infer_type_find(argc > 1 ? argv[1] : "bf16");
    const char *const backend = getenv("BACKEND");
    const bool is_small = getenv("GPU_SMALL");
    const int n_thread = (int)sysconf(_SC_NPROCESSORS_ONLN);
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
    struct spot_infer_config c = { .n_thread = n_thread,
                                   .n_sequence = BATCH,
                                   .n_page = BATCH * (int)(n[3] / SPOT_INFER_PAGE + 1),
                                   .token_max = (int)n[3],
                                   .backend = backend ? backend : "cuda" };

    c.image_byte = spot_infer_image_byte(&shape, (enum spot_infer_type)type, 0, n_bundle);
    void *const image = spot_alloc_aligned(c.image_byte, 1);
    spot_infer_image_pack(image, &shape, (enum spot_infer_type)type, 0, n_bundle, bundle);
    c.image = image;
    vocab = n[4];
    token = bench_tokens((size_t)n[3], vocab);
    logit = spot_xcalloc(BATCH * (size_t)vocab, sizeof(*logit));
    work = spot_xcalloc((size_t)n_thread * (size_t)vocab, sizeof(*work));
    n_step = is_small ? 4 : STEPS;
    for (int way = 0; way < (backend ? 1 : WAYS); way++) {
        setenv("SPOT_CUDA_DECODE", ways[way], 1);
        engine = spot_infer_new(&c, &err);
        bench_die_if(!engine, &err);
        if (!way)
            printf("kind\t%s\n", spot_infer_kernel(engine));
        for (int k = 3; k >= 0 && !way; k--)
            prompt((n[3] - 1) >> k);
        for (int size = 0; size < 4; size++)
            decode(size, way, is_small ? 16 : n[3] / 2, (double)c.image_byte);
        spot_infer_free(engine);
    }
    return 0;
}
