/* SPDX-License-Identifier: MIT */
/* bench_infer - tokens per second of decoding and prefill, beside the read bandwidth of the
 * machine.
 *
 *   bench_infer [-k KERNEL] [-t TYPE] [-a RANK[xN]] [-m CONFIG] [THREADS [ROUNDS [L C H Hk F V
 * SHARDS]]]
 *
 * A tied Llama with random weights (stories110M's shape unless told), or the model of a config.json
 * (-m); -a: each sequence with one of N adapters of all products, four unless told. Each figure is
 * the median of ROUNDS; the bandwidth is that of the same threads reading the image once, probed in
 * the same round, so that load on the machine meets both.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "engine/infer.h"
#include "weights/hf_config.h"
#include "weights/lora_load.h"

enum { ADAPTERS_MAX = 16 };
static int64_t rank; /* of adapters; 0: none */
static int n_adapter = 4;

enum { ROUNDS_MAX = 99, PREFILL = 512, BATCH_MAX = 16, CONTEXT = 32 };

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof(*x), by_size);
    return x[n / 2];
}

/* Random numbers that repeat: what they are does not matter, and there are many. */
enum { NOISE = 1 << 20 };

struct maker {
    void *image;
    const struct spot_shape *shape;
    const float *noise;
    int first, n; /* bundles first, first + 2, .. below n */
};

static void *make_bundles(void *user)
{
    const struct maker *const m = user;

    for (int b = m->first; b < m->n; b += 2) {
        struct spot_bundle bundle;
        struct spot_err err = { 0 };

        if (spot_bundle_init(&bundle, m->shape, b, &err)) {
            fprintf(stderr, "bench_infer: %s\n", err.msg);
            exit(1);
        }
        for (size_t i = 0; i < bundle.arena.n_elem; i += NOISE)
            memcpy(bundle.plane[SPOT_PLANE_MASTER] + i, m->noise,
                   (bundle.arena.n_elem - i < NOISE ? bundle.arena.n_elem - i : NOISE) *
                       sizeof(float));
        spot_infer_image_put(m->image, &bundle);
        spot_bundle_release(&bundle);
    }
    return NULL;
}

static void *weights(const struct spot_shape *shape, enum spot_infer_type type, size_t *n_byte)
{
    const int n = spot_shape_bundles(shape);
    float *const noise = spot_xcalloc(NOISE, sizeof(*noise));
    struct maker maker[2];
    struct spot_rng rng;
    pthread_t other;
    void *image;

    spot_rng_init(&rng, 1, 0);
    for (int i = 0; i < NOISE; i++)
        noise[i] = 0.04F * ((float)spot_rng_unit(&rng) - 0.5F);
    *n_byte = spot_infer_image_byte(shape, type, 0, n);
    image = spot_alloc_aligned(*n_byte, 1);
    if (!image)
        exit(1);
    spot_infer_image_begin(image, shape, type, 0, n);
    for (int i = 0; i < 2; i++)
        maker[i] = (struct maker){ image, shape, noise, i, n };
    if (pthread_create(&other, NULL, make_bundles, &maker[1]))
        exit(1);
    make_bundles(&maker[0]);
    pthread_join(other, NULL);
    free(noise);
    return image;
}

/* n_part parts of a fused product, each of its own outputs of a shard. */
static struct spot_lora_part part_of(int64_t r, int64_t n_part, int64_t n_a, int64_t n_b, int64_t S)
{
    struct spot_lora_part p = { r * n_part, NULL, NULL, NULL };
    const int64_t n_panel = n_b / SPOT_LORA_PANEL;

    r = p.rank;

    p.a = spot_alloc_aligned((size_t)(r * n_a), sizeof(float));
    p.b = spot_alloc_aligned((size_t)(r * n_b), sizeof(float));
    for (int64_t i = 0; i < r * n_a; i++)
        p.a[i] = 0.01F * (float)(i % 7 - 3);
    memset(p.b, 0, (size_t)(r * n_b) * sizeof(float));
    for (int64_t i = 0; i < n_panel; i++)
        for (int64_t k = 0; k < r * SPOT_LORA_PANEL; k++)
            if (i % (n_panel / S) * n_part / (n_panel / S) == k / SPOT_LORA_PANEL * n_part / r)
                p.b[i * r * SPOT_LORA_PANEL + k] = 0.01F * (float)(k % 5 + 1);
    spot_lora_span(&p, n_panel);
    return p;
}

static int64_t panels(int64_t n)
{
    return (n + SPOT_LORA_PANEL - 1) / SPOT_LORA_PANEL * SPOT_LORA_PANEL;
}

static const struct spot_lora *adapter(const struct spot_shape *s)
{
    struct spot_lora *const l = spot_xcalloc(1, sizeof(*l));
    const int64_t S = s->n_shard, c = s->width;

    l->n_layer = s->n_layer;
    l->part = spot_xcalloc((size_t)l->n_layer * SPOT_LORA_PRODUCTS, sizeof(*l->part));
    for (int64_t i = 0; i < l->n_layer * SPOT_LORA_PRODUCTS; i += SPOT_LORA_PRODUCTS) {
        l->part[i + SPOT_LORA_QKV] = part_of(rank, 3, c, S * panels(spot_shape_qkv(s) / S), S);
        l->part[i + SPOT_LORA_UP] = part_of(rank, 2, c, S * panels(spot_shape_pre(s) / S), S);
        l->part[i + SPOT_LORA_PROJ] = part_of(rank, 1, spot_shape_attended(s), panels(c), 1);
        l->part[i + SPOT_LORA_DOWN] = part_of(rank, 1, spot_shape_ffn(s), panels(c), 1);
    }
    return l;
}

/* --- bandwidth: each thread sums its part of the image, as a product would read it --- */

struct probe {
    const uint64_t *word;
    size_t n_word;
    uint64_t sum;
};

/* Four streams of vectors: one alone does not keep the memory busy. */
static void *read_part(void *user)
{
    typedef uint64_t vec __attribute__((vector_size(64), aligned(8)));
    enum { STREAMS = 4, LINE = 8 };
    struct probe *const p = user;
    const size_t n = p->n_word / STREAMS / LINE * LINE;
    vec s[STREAMS] = { { 0 } };

    for (size_t i = 0; i < n; i += LINE)
        for (size_t k = 0; k < STREAMS; k++) {
            const uint64_t *const at = p->word + k * n + i;

            __builtin_prefetch(at + 512);
            s[k] ^= *(const vec *)(const void *)at;
        }
    for (int k = 0; k < STREAMS; k++)
        for (int j = 0; j < LINE; j++)
            p->sum ^= s[k][j];
    return NULL;
}

static double probe_s(const void *image, size_t n_byte, int n_thread)
{
    struct probe part[64];
    pthread_t thread[64];
    const size_t n = n_byte / 8 / (size_t)n_thread;
    const double start = now_s();

    for (int t = 0; t < n_thread; t++) {
        part[t] = (struct probe){ (const uint64_t *)image + n * (size_t)t, n, 0 };
        if (t && pthread_create(&thread[t], NULL, read_part, &part[t]))
            exit(1);
    }
    read_part(&part[0]);
    for (int t = 1; t < n_thread; t++)
        pthread_join(thread[t], NULL);
    return now_s() - start + 1e-12 * (double)(part[0].sum & 1);
}

/* --- one run: n sequences that have `context` tokens each get n_token more --- */

static double run_s(struct spot_infer *f, int n, int64_t context, int64_t n_token, float *logit)
{
    static uint32_t token[PREFILL];
    struct spot_infer_item item[BATCH_MAX];
    struct spot_err err = { 0 };
    double start;

    for (int i = 0; i < PREFILL; i++)
        token[i] = (uint32_t)(i * 37 % 101);
    for (int i = 0; i < n; i++) {
        const int id = spot_infer_open(f, &err);

        item[i] = (struct spot_infer_item){ id, context, n_token, token, SPOT_POOL_NONE, NULL };
        if (rank && id >= 0)
            spot_infer_adopt(f, id, 1 + i % n_adapter);
        if (id < 0 || spot_infer_reserve(f, id, context, &err)) {
            fprintf(stderr, "bench_infer: %s\n", err.msg);
            exit(1);
        }
    }
    start = now_s();
    if (spot_infer_run(f, item, n, NULL, NULL, logit, &err)) {
        fprintf(stderr, "bench_infer: %s\n", err.msg);
        exit(1);
    }
    start = now_s() - start;
    for (int i = 0; i < n; i++)
        spot_infer_close(f, item[i].sequence);
    return start;
}

static void measure(const struct spot_shape *shape, enum spot_infer_type type, const char *kernel,
                    int n_thread, int n_round)
{
    static double s[4][ROUNDS_MAX], share[ROUNDS_MAX], probe[ROUNDS_MAX];
    static const int batch[] = { 1, 4, 16 };
    struct spot_infer_config c = { .n_thread = n_thread,
                                   .n_sequence = BATCH_MAX,
                                   .n_page = 256,
                                   .token_max = PREFILL,
                                   .kernel = kernel };
    const struct spot_lora *lora[ADAPTERS_MAX];
    struct spot_err err = { 0 };
    struct spot_infer *f;
    float *logit;
    void *image;
    double one;

    for (int i = 0; rank && i < n_adapter; i++)
        lora[i] = adapter(shape);
    c.lora = lora;
    c.n_lora = rank ? n_adapter : 0;
    c.image = image = weights(shape, type, &c.image_byte);
    f = spot_infer_new(&c, &err);
    if (!f) {
        fprintf(stderr, "bench_infer: %s\n", err.msg);
        exit(1);
    }
    logit = spot_xcalloc((size_t)(BATCH_MAX * shape->vocab), sizeof(*logit));
    for (int r = -1; r < n_round; r++) {
        const int at = r < 0 ? 0 : r;

        probe[at] = probe_s(image, c.image_byte, n_thread);
        for (int i = 0; i < 3; i++)
            s[i][at] = run_s(f, batch[i], CONTEXT, 1, logit);
        share[at] = probe[at] / s[0][at];
        s[3][at] = run_s(f, 1, 0, PREFILL, logit);
    }
    one = 1 / median(s[0], n_round);
    printf("%s (%s, %d threads, %.0f MB, probe %.1f GB/s): one %.1f tok/s, %.2f of the probe",
           spot_infer_type_name((int)type), spot_infer_kernel(f), n_thread,
           (double)c.image_byte * 1e-6, (double)c.image_byte * 1e-9 / median(probe, n_round), one,
           median(share, n_round));
    for (int i = 1; i < 3; i++)
        printf("; batch %d %.0f tok/s, %.2f of one", batch[i], batch[i] / median(s[i], n_round),
               batch[i] / median(s[i], n_round) / one);
    printf("; prefill of %d %.0f tok/s\n", PREFILL, PREFILL / median(s[3], n_round));
    fflush(stdout); /* the next image takes a while */
    spot_infer_free(f);
    spot_free_aligned(image);
    free(logit);
}

int main(int argc, char **argv)
{
    const char *kernel = NULL, *config = NULL;
    int only = -1;

    if (argc > 2 && !strcmp(argv[1], "-k")) {
        kernel = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc > 2 && !strcmp(argv[1], "-t")) {
        only = spot_infer_type_find(argv[2]);
        argc -= 2;
        argv += 2;
    }
    if (argc > 2 && !strcmp(argv[1], "-a")) {
        char *end;

        rank = strtoll(argv[2], &end, 10);
        if (*end == 'x')
            n_adapter = (int)strtol(end + 1, NULL, 10);
        argc -= 2;
        argv += 2;
    }
    if (argc > 2 && !strcmp(argv[1], "-m")) {
        config = argv[2];
        argc -= 2;
        argv += 2;
    }
    int64_t n[] = { 2, 9, 12, 768, 12, 12, 2048, 32000, 4 };

    for (int i = 1; i < argc && i <= 9; i++)
        n[i - 1] = strtoll(argv[i], NULL, 10);
    struct spot_shape shape = { .n_layer = n[2],
                                .width = n[3],
                                .n_head = n[4],
                                .seq = 1024,
                                .vocab = n[7],
                                .n_shard = n[8],
                                .kind = SPOT_DECODER_LLAMA,
                                .n_kv_head = n[5],
                                .ffn = n[6],
                                .rope_theta = 10000,
                                .is_tied = 1 };
    struct spot_err err = { 0 };

    if (config && !spot_hf_config_load(config, &shape, &err)) {
        shape.n_shard = n[8];
        shape.seq = 1024;
    }
    if (n_adapter < 1 || n_adapter > ADAPTERS_MAX || n[0] < 1 || n[0] > 64 || n[1] < 1 ||
        n[1] > ROUNDS_MAX || err.msg[0] || spot_shape_check(&shape, &err)) {
        fprintf(stderr, "bench_infer: 1 to 64 threads, 1 to %d rounds; %s\n", ROUNDS_MAX, err.msg);
        return 1;
    }
    for (int type = 0; type < SPOT_INFER_TYPES; type++)
        if (only < 0 || type == only)
            measure(&shape, (enum spot_infer_type)type, kernel, (int)n[0], (int)n[1]);
    return 0;
}
