/* SPDX-License-Identifier: MIT */
/* bench_llmc - the same GPT-2, weights and tokens in llm.c's CPU trainer and here, in turn.
 *
 *   SPOT_LLMC=/path/to/llm.c/train_gpt2 bench_llmc [THREADS]
 *
 * The head is tied, as theirs is; 4 x 64 tokens, the same in each of 10 steps; AdamW as in their
 * main(). Prints the largest difference of a step's loss and the ratio of the best steps. Without
 * the variable it says so and ends. The peer is built with its own Makefile ("make train_gpt2").
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "engine/initial_weights.h"
#include "engine/stage.h"

enum { B = 4, T = 64, STEPS = 10, HEADER = 256, PATH_BYTE = 4200 };

struct model {
    struct spot_shape shape;
    int n_bundle;
    struct spot_bundle *bundle, **ptr;
    uint32_t token[B * (T + 1)];
};

struct result {
    double loss[STEPS], best_s;
};

static void die(const char *what)
{
    fprintf(stderr, "bench_llmc: %s\n", what);
    exit(1);
}

static void open_model(struct model *m, const struct spot_shape *shape)
{
    struct spot_err err = { 0 };
    struct spot_rng rng;
    uint32_t text[B * T + 1];

    m->shape = *shape;
    m->n_bundle = spot_shape_bundles(shape);
    m->bundle = spot_xcalloc((size_t)m->n_bundle, sizeof(*m->bundle));
    m->ptr = spot_xcalloc((size_t)m->n_bundle, sizeof(struct spot_bundle *));
    for (int b = 0; b < m->n_bundle; b++) {
        if (spot_bundle_init(&m->bundle[b], shape, b, &err))
            die(err.msg);
        spot_bundle_start(&m->bundle[b], shape, 1);
        m->ptr[b] = &m->bundle[b];
    }
    spot_rng_init(&rng, 3, 0);
    for (int i = 0; i <= B * T; i++)
        text[i] = (uint32_t)spot_rng_below(&rng, (uint64_t)shape->vocab);
    for (int s = 0; s < B; s++)
        memcpy(m->token + s * (T + 1), text + s * T, (T + 1) * sizeof(*text));
}

static void close_model(struct model *m)
{
    for (int b = 0; b < m->n_bundle; b++)
        spot_bundle_release(&m->bundle[b]);
    free(m->bundle);
    free(m->ptr);
}

/* --- their files ------------------------------------------------------------------ */

static FILE *create(const char *dir, const char *name)
{
    char path[PATH_BYTE];
    FILE *out;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    out = fopen(path, "wb");
    if (!out)
        die("cannot write to the temporary directory");
    return out;
}

/* One tensor of a bundle as theirs lie, outputs first; ours of one shard lie so but for those of
 * `is_in_first`. */
static void write_tensor(const struct spot_bundle *b, const char *name, bool is_in_first, FILE *out)
{
    const int t = spot_arena_find(&b->arena, name);
    const int64_t rows = b->arena.tensor[t].rows, cols = b->arena.tensor[t].cols;
    const float *const x = b->plane[SPOT_PLANE_MASTER] + spot_arena_offset(&b->arena, t, 0);

    if (!is_in_first) {
        fwrite(x, sizeof(*x), (size_t)(rows * cols), out);
        return;
    }
    for (int64_t c = 0; c < cols; c++)
        for (int64_t r = 0; r < rows; r++)
            fwrite(&x[r * cols + c], sizeof(*x), 1, out);
}

static void write_weights(const struct model *m, const char *dir)
{
    static const struct {
        const char *name;
        bool is_in_first;
    } layer[] = {
        { "ln1.w", false }, { "ln1.b", false },  { "qkv.w", false }, { "qkv.b", false },
        { "proj.w", true }, { "proj.b", false }, { "ln2.w", false }, { "ln2.b", false },
        { "up.w", false },  { "up.b", false },   { "down.w", true }, { "down.b", false }
    };
    const struct spot_shape *const s = &m->shape;
    const int header[HEADER] = { 20240326,        3,
                                 (int)s->seq,     (int)s->vocab,
                                 (int)s->n_layer, (int)s->n_head,
                                 (int)s->width,   (int)spot_shape_vocab_rows(s) };
    FILE *const out = create(dir, "gpt2_124M.bin");

    fwrite(header, sizeof(*header), HEADER, out);
    write_tensor(&m->bundle[0], "wte", false, out);
    write_tensor(&m->bundle[0], "wpe", false, out);
    for (size_t i = 0; i < sizeof(layer) / sizeof(layer[0]); i++)
        for (int b = 1; b <= s->n_layer; b++)
            write_tensor(&m->bundle[b], layer[i].name, layer[i].is_in_first, out);
    write_tensor(&m->bundle[m->n_bundle - 1], "lnf.w", false, out);
    write_tensor(&m->bundle[m->n_bundle - 1], "lnf.b", false, out);
    if (fclose(out))
        die("cannot write the weights");
}

/* One batch and no more, so that every step takes it. */
static void write_tokens(const struct model *m, const char *dir, const char *name)
{
    const int header[HEADER] = { 20240520, 1, B * T + 1 };
    FILE *const out = create(dir, name);

    fwrite(header, sizeof(*header), HEADER, out);
    for (int i = 0; i <= B * T; i++) {
        const int s = i < B * T ? i / T : B - 1;
        const uint16_t token = (uint16_t)m->token[s * (T + 1) + i - s * T];

        fwrite(&token, sizeof(token), 1, out);
    }
    if (fclose(out))
        die("cannot write the tokens");
}

static struct result run_peer(const struct model *m, const char *peer, int n_thread)
{
    struct result r = { .best_s = INFINITY };
    char dir[] = "/tmp/bench_llmc.XXXXXX", data[PATH_BYTE], command[2 * PATH_BYTE], line[512];
    int n = 0;
    FILE *in;

    if (!mkdtemp(dir))
        die("cannot make a temporary directory");
    snprintf(data, sizeof(data), "%s/dev", dir);
    mkdir(data, 0700);
    snprintf(data, sizeof(data), "%s/dev/data", dir);
    mkdir(data, 0700);
    snprintf(data, sizeof(data), "%s/dev/data/tinyshakespeare", dir);
    mkdir(data, 0700);
    write_weights(m, dir);
    write_tokens(m, data, "tiny_shakespeare_train.bin");
    write_tokens(m, data, "tiny_shakespeare_val.bin");
    snprintf(command, sizeof(command), "cd %s && OMP_NUM_THREADS=%d exec stdbuf -oL '%s' 2>&1", dir,
             n_thread, peer);
    in = popen(command, "re");
    if (!in)
        die("cannot start the peer");
    while (n < STEPS && fgets(line, sizeof(line), in)) {
        int step;
        double loss, ms;

        if (sscanf(line, "step %d: train loss %lf (took %lf ms)", &step, &loss, &ms) != 3)
            continue;
        r.loss[n++] = loss;
        r.best_s = ms * 1e-3 < r.best_s ? ms * 1e-3 : r.best_s;
    }
    pclose(in); /* it meets a closed pipe */
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    if (system(command))
        die("cannot remove the temporary directory");
    if (n < STEPS)
        die("the peer did not make its steps; is SPOT_LLMC llm.c's train_gpt2?");
    return r;
}

/* --- ours ----------------------------------------------------------------------- */

static void tie(struct spot_stage *stage, const struct model *m)
{
    const struct spot_arena *const first = &m->bundle[0].arena, *const last =
                                                                    &m->bundle[m->n_bundle - 1]
                                                                         .arena;
    const size_t n = first->n_elem - first->replicated_elem;
    int64_t *const wte = spot_stage_sum(stage, 0) + first->replicated_elem,
                   *const head = spot_stage_sum(stage, m->n_bundle - 1) + last->replicated_elem;

    for (size_t i = 0; i < n; i++)
        wte[i] = head[i] = wte[i] + head[i];
}

static struct result run_ours(struct model *m, int n_thread)
{
    static const struct spot_adamw adamw = { 1e-4, 0.9, 0.999, 1e-8, 0 };
    struct spot_err err = { 0 };
    const struct spot_stage_config config = { .shape = m->shape,
                                              .bundle_end = m->n_bundle,
                                              .micro_batch = B,
                                              .n_slot = 1,
                                              .n_microbatch = 1,
                                              .n_thread = n_thread,
                                              .kernel = spot_kernel_find("auto", &err) };
    struct spot_stage *const stage = spot_stage_new(&config, m->ptr, &err);
    struct result r = { .best_s = INFINITY };

    if (!stage)
        die(err.msg);
    for (int step = 0; step < STEPS; step++) {
        const double start_s = spot_clock_s();
        double took_s;

        spot_stage_begin(stage);
        spot_stage_forward(stage, 0, m->token, NULL, NULL, &r.loss[step]);
        spot_stage_backward(stage, 0, NULL, NULL);
        tie(stage, m);
        for (int b = 0; b < m->n_bundle; b++)
            spot_stage_norm2(stage, b);
        for (int b = 0; b < m->n_bundle; b++)
            spot_stage_update(stage, b, &adamw, 1);
        took_s = spot_clock_s() - start_s;
        r.best_s = took_s < r.best_s ? took_s : r.best_s;
    }
    spot_stage_free(stage);
    return r;
}

static void compare(const struct spot_shape *shape, const char *peer, int n_thread)
{
    struct model m = { 0 };
    struct result theirs, ours;
    double worst = 0;

    open_model(&m, shape);
    theirs = run_peer(&m, peer, n_thread);
    ours = run_ours(&m, n_thread);
    for (int i = 0; i < STEPS; i++)
        worst = fmax(worst, fabs(ours.loss[i] - theirs.loss[i]));
    printf("%.1fM parameters, %d threads: %.0f token/s, llm.c %.0f, ratio %.2f; loss %.6f to %.6f, "
           "at most %.1e from theirs\n",
           (double)spot_shape_params(shape) * 1e-6, n_thread, B * T / ours.best_s,
           B * T / theirs.best_s, theirs.best_s / ours.best_s, ours.loss[0], ours.loss[STEPS - 1],
           worst);
    close_model(&m);
}

int main(int argc, char **argv)
{
    static const struct spot_shape shapes[] = {
        { .n_layer = 6,
          .width = 384,
          .n_head = 6,
          .seq = T,
          .vocab = 4096,
          .n_shard = 1,
          .is_tied = 1 },
        { .n_layer = 12,
          .width = 768,
          .n_head = 12,
          .seq = T,
          .vocab = 50257,
          .n_shard = 1,
          .is_tied = 1 },
    };
    const char *const peer = getenv("SPOT_LLMC");
    const int n_thread = argc > 1 ? atoi(argv[1]) : (int)sysconf(_SC_NPROCESSORS_ONLN);

    if (!peer) {
        puts("skipped: SPOT_LLMC does not name llm.c's train_gpt2");
        return 0;
    }
    if (n_thread < 1 || n_thread > 256)
        die("expected 1 to 256 threads");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        compare(&shapes[i], peer, n_thread);
    return 0;
}
