/* SPDX-License-Identifier: MIT */
/* serve_model_rig.h - tiny random models that speak letters, and one engine that says what they
 * say; files of a test in a directory of its own. */
#ifndef SPOT_TESTS_SERVE_MODEL_RIG_H
#define SPOT_TESTS_SERVE_MODEL_RIG_H

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/rng.h"
#include "common/xalloc.h"
#include "engine/infer.h"
#include "engine/initial_weights.h"
#include "serve/served_model.h"
#include "suite.h"
#include "train/model_dir.h"

enum { CONTEXT = 640, TURNS = 30000 };

static char dir[] = "/tmp/spot-serve-XXXXXX";

/* PREFIX DIR/NAME; it stays as long as the process. */
static inline const char *named(const char *prefix, const char *name)
{
    static char text[64][96];
    char wanted_text[96];
    int i = 0;

    snprintf(wanted_text, sizeof(wanted_text), "%s%s/%s", prefix, dir, name);
    while (*text[i] && strcmp(text[i], wanted_text) != 0)
        ck_assert_int_lt(++i, 64);
    memcpy(text[i], wanted_text, sizeof(wanted_text));
    return text[i];
}

static inline const char *in_dir(const char *name)
{
    return named("", name);
}

static inline const char *at_dir(const char *name)
{
    return named("unix:", name);
}

/* In bounds, whatever else the machine does. */
#define UNTIL(condition)                                                                 \
    do {                                                                                 \
        for (int turn_ = 0; !(condition); turn_++) {                                     \
            ck_assert_msg(turn_ < TURNS, "never came about: %s; %s", #condition, why()); \
            spot_clock_sleep(0.002);                                                     \
        }                                                                                \
    } while (0)

static inline void add_line(const char *path, const char *fmt, va_list args)
{
    FILE *const out = fopen(path, "a");

    vfprintf(out, fmt, args);
    fputc('\n', out);
    fclose(out);
}

/* What a file says, "" where there is none. */
static inline const char *read_text(const char *path)
{
    static char text[1 << 16];
    FILE *const in = fopen(path, "r");

    text[in ? fread(text, 1, sizeof(text) - 1, in) : 0] = '\0';
    if (in)
        fclose(in);
    return text;
}

static inline void write_text(const char *path, const char *text)
{
    FILE *const out = fopen(path, "w");

    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    fclose(out);
}

/* The warnings of a server and its workers. */
static inline const char *why(void)
{
    return read_text(in_dir("warnings"));
}

static inline void warn(const char *fmt, ...) SPOT_PRINTF(1, 2);
static inline void warn(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    add_line(in_dir("warnings"), fmt, args);
    va_end(args);
}

/* --- models --- */

static const struct spot_shape shape = { 4, 32, 4,     CONTEXT, 256,          2, SPOT_DECODER_LLAMA,
                                         2, 64, 10000, 0,       .norm_eps = 0 };

/* Large weights, so that words differ; and those of the head alone that print. */
static inline void draw_bundle(struct spot_bundle *bundle, int b, uint64_t seed)
{
    struct spot_rng rng;

    ck_assert_int_eq(spot_bundle_init(bundle, &shape, b, NULL), 0);
    spot_bundle_start(bundle, &shape, seed);
    spot_rng_init(&rng, seed, (uint64_t)b);
    for (int t = 0; t < bundle->arena.n_tensor; t++) {
        const struct spot_tensor *const tensor = &bundle->arena.tensor[t];
        const bool is_head = t == spot_arena_find(&bundle->arena, "head.w");

        for (int s = 0; s < (tensor->is_sharded ? shape.n_shard : 1); s++) {
            float *const w =
                bundle->plane[SPOT_PLANE_MASTER] + spot_arena_offset(&bundle->arena, t, s);

            for (int64_t k = 0; k < tensor->rows * tensor->cols; k++) {
                const int64_t word = s * tensor->rows + k / tensor->cols;

                w[k] += (float)(spot_rng_unit(&rng) - 0.5) * (is_head ? 2.0F : 0.6F);
                if (is_head && (word < ' ' || word > '~'))
                    w[k] = 0;
            }
        }
    }
}

static inline void make_model(const char *name, uint64_t seed)
{
    struct spot_err err = { 0 };
    struct spot_model_dir *const to = spot_model_dir_open(in_dir(name), NULL, &err);
    struct spot_bundle bundle[8], *all[8];
    const int n = spot_shape_bundles(&shape);

    ck_assert_msg(to, "%s", err.msg);
    for (int b = 0; b < n; b++) {
        draw_bundle(&bundle[b], b, seed);
        all[b] = &bundle[b];
    }
    ck_assert_msg(!spot_model_dir_write(to, &shape, NULL, true, all, SPOT_DT_F32, &err), "%s",
                  err.msg);
    for (int b = 0; b < n; b++)
        spot_bundle_release(&bundle[b]);
    spot_model_dir_close(to);
}

/* --- one engine here --- */

static inline void no_progress(void *user)
{
    (void)user;
}

/* The next word where each that was said counts `frequency` less; its probability goes to *logprob.
 */
static inline int choose_word(float *logit, const char *said, double frequency, double *logprob)
{
    double sum = 0;
    int best = 0;

    for (int v = 0; v < 256; v++)
        sum += exp(logit[v]);
    for (const char *c = said; *c; c++)
        logit[(uint8_t)*c] -= (float)frequency;
    for (int v = 1; v < 256; v++)
        best = logit[v] > logit[best] ? v : best;
    for (const char *c = said; *c; c++)
        logit[best] += *c == (char)best ? (float)frequency : 0;
    *logprob += logit[best] - log(sum);
    return best;
}

/* The likeliest words behind a prompt, a token at a time, in a text of its own; *logprob, unless
 * NULL, is that of all. */
static inline char *wanted_with(const char *model, const char *prompt, int n_token,
                                double frequency, double *logprob)
{
    const size_t n_prompt = strlen(prompt);
    char *const text = spot_xcalloc((size_t)n_token + 1, 1);
    struct spot_served_model m;
    struct spot_err err = { 0 };
    struct spot_infer *infer;
    float logit[256];
    double ignored = 0;
    int id;

    ck_assert_msg(!spot_served_model_open(&m, in_dir(model), NULL, 0, &err), "%s", err.msg);
    const size_t n_byte =
        spot_infer_image_byte(&m.shape, SPOT_INFER_FP32, 0, spot_shape_bundles(&m.shape));
    void *const image = spot_alloc_aligned(n_byte, 1);

    ck_assert_int_eq(spot_served_model_pack(&m, SPOT_INFER_FP32, 0, spot_shape_bundles(&m.shape),
                                            image, no_progress, NULL, &err),
                     0);
    infer = spot_infer_new(&(struct spot_infer_config){ .image = image,
                                                        .image_byte = n_byte,
                                                        .n_thread = 1,
                                                        .n_sequence = 1,
                                                        .n_page = CONTEXT / SPOT_INFER_PAGE + 1,
                                                        .token_max = CONTEXT },
                           &err);
    ck_assert_msg(infer, "%s", err.msg);
    id = spot_infer_open(infer, NULL);
    if (logprob)
        *logprob = 0;
    for (size_t i = 0; i + 1 < n_prompt + (size_t)n_token; i++) {
        const uint32_t token = (uint8_t)(i < n_prompt ? prompt[i] : text[i - n_prompt]);
        const struct spot_infer_item item = { id, (int64_t)i, 1, &token, SPOT_POOL_NONE, NULL };

        ck_assert_int_eq(spot_infer_run(infer, &item, 1, NULL, NULL, logit, &err), 0);
        if (i + 1 >= n_prompt)
            text[i + 1 - n_prompt] =
                (char)choose_word(logit, text, frequency, logprob ? logprob : &ignored);
    }
    spot_infer_free(infer);
    spot_free_aligned(image);
    spot_served_model_release(&m);
    return text;
}

static inline char *wanted(const char *model, const char *prompt, int n_token)
{
    return wanted_with(model, prompt, n_token, 0, NULL);
}

#endif /* SPOT_TESTS_SERVE_MODEL_RIG_H */
