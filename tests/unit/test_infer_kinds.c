/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tiny_model.h"
#include "common/temp.h"
#include "infer_rig.h"
#include "weights/load.h"

/* Goal: a random model of each family, as its config.json and weights have it, has the logits and
 * greedy tokens of transformers (tests/data/models/logits.txt, by tests/world/record_logits.py),
 * and bits that do not tell how they were computed. */

#define LOGITS "tests/data/models/logits.txt"

enum { MODELS = 16, SHARDS = 2, CONTEXT = 40, MORE = 64, N_ROUND = 2 };

/* Bundles as the files give them; the model's directory is gone again. */
static void load(struct rig *r, int i, char name[64], int64_t n_shard, int64_t seq)
{
    char *const dir = spot_temp_template("spot-tiny");
    char config[TINY_LINE], path[2][TINY_LINE];
    struct spot_err err = { 0 };
    struct spot_weights *weights;

    memset(r, 0, sizeof(*r));
    ck_assert(tiny_find(i, name, config));
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_msg(!tiny_write(dir, name, config, &err), "%s", err.msg);
    snprintf(path[0], sizeof(path[0]), "%s/config.json", dir);
    snprintf(path[1], sizeof(path[1]), "%s/model.safetensors", dir);
    ck_assert_int_eq(spot_hf_config_load(path[0], &r->m.shape, &err), 0);
    r->m.shape.n_shard = n_shard;
    ck_assert_msg(!spot_shape_check(&r->m.shape, &err), "%s", err.msg);
    r->m.n_bundle = spot_shape_bundles(&r->m.shape);
    weights = spot_weights_open(dir, &r->m.shape, &err);
    ck_assert_msg(weights != NULL, "%s: %s", name, err.msg);
    for (int b = 0; b < r->m.n_bundle; b++) {
        r->m.ptr[b] = &r->m.bundle[b];
        ck_assert_int_eq(spot_bundle_init(r->m.ptr[b], &r->m.shape, b, &err), 0);
        ck_assert_msg(!spot_weights_read(weights, r->m.ptr[b], &err), "%s", err.msg);
    }
    spot_weights_close(weights);
    unlink(path[0]);
    unlink(path[1]);
    rmdir(dir);
    free(dir);
    r->T = seq;
    r->V = r->m.shape.vocab;
    r->C = r->m.shape.width;
}

static void pack(struct rig *r, int type)
{
    r->n_byte[type] =
        spot_infer_image_byte(&r->m.shape, (enum spot_infer_type)type, 0, r->m.n_bundle);
    r->image[type] = spot_alloc_aligned(r->n_byte[type], 1);
    spot_infer_image_pack(r->image[type], &r->m.shape, (enum spot_infer_type)type, 0, r->m.n_bundle,
                          r->m.ptr);
    for (int s = 0; s < SEQUENCES && !r->token[s]; s++) {
        r->token[s] = calloc((size_t)r->T, sizeof(uint32_t));
        for (int64_t t = 0; t < r->T; t++)
            r->token[s][t] = tiny_token(t + 3 * s, r->V);
    }
}

/* --- what transformers computes -------------------------------------------------- */

struct recorded {
    double logit[2][64];
    int at[2];
    uint32_t greedy[MORE];
};

static void read_recorded(const char *name, int64_t vocab, struct recorded *to)
{
    FILE *const in = fopen(LOGITS, "re");
    static char line[1 << 14];
    int n = 0;

    ck_assert_ptr_nonnull(in);
    while (fgets(line, sizeof(line), in)) {
        char model[64], what[16];
        int at, used = 0;

        if (sscanf(line, "%63s %15s %d%n", model, what, &at, &used) < 3 || strcmp(model, name) != 0)
            continue;
        for (int64_t i = 0; i < (*what == 'l' ? vocab : MORE); i++) {
            char *end;
            const double x = strtod(line + used, &end);

            ck_assert_ptr_ne(end, line + used);
            used = (int)(end - line);
            if (*what == 'l') {
                to->logit[n][i] = x;
                to->at[n] = at;
            } else {
                to->greedy[i] = (uint32_t)x;
            }
        }
        n += *what == 'l';
    }
    fclose(in);
    ck_assert_int_eq(n, 2);
}

static void continue_greedily(struct spot_infer *f, int id, const float *row, int64_t vocab,
                              const uint32_t *want)
{
    float logit[64];
    int64_t at = TINY_PROMPT;

    memcpy(logit, row, (size_t)vocab * sizeof(*logit));
    for (int i = 0; i < MORE; i++) {
        uint32_t best = 0;

        for (uint32_t v = 1; v < vocab; v++)
            best = logit[v] > logit[best] ? v : best;
        ck_assert_msg(best == want[i], "token %d: %u, expected %u", i, best, want[i]);
        ck_assert_int_eq(
            spot_infer_run(f, &(struct spot_infer_item){ id, at++, 1, &best, SPOT_POOL_NONE, NULL },
                           1, NULL, NULL, logit, NULL),
            0);
    }
}

START_TEST(each_family_has_the_logits_of_transformers)
{
    const int64_t shards = 1 + _i % 2, n_row = TINY_PROMPT;
    struct recorded want = { .at = { 0 } };
    struct spot_err err = { 0 };
    struct spot_infer *f;
    char name[64] = "";
    float *logit;
    struct rig r;
    int id;

    load(&r, _i / 2, name, shards, TINY_PROMPT + MORE + 1);
    pack(&r, SPOT_INFER_FP32);
    read_recorded(name, r.V, &want);
    f = engine(&r, SPOT_INFER_FP32, (struct spot_infer_config){ .logit_max = TINY_PROMPT });
    id = spot_infer_open(f, &err);
    logit = calloc((size_t)(n_row * r.V), sizeof(*logit));
    ck_assert_msg(!spot_infer_run_rows(
                      f,
                      &(struct spot_infer_item){ id, 0, n_row, r.token[0], SPOT_POOL_NONE, NULL },
                      1, &n_row, NULL, NULL, logit, &err),
                  "%s", err.msg);
    for (int i = 0; i < 2; i++)
        for (int64_t v = 0; v < r.V; v++)
            ck_assert_msg(fabs((double)logit[want.at[i] * r.V + v] - want.logit[i][v]) < 1e-4,
                          "%s: position %d, token %d: %.7g, expected %.7g", name, want.at[i],
                          (int)v, (double)logit[want.at[i] * r.V + v], want.logit[i][v]);
    continue_greedily(f, id, logit + (n_row - 1) * r.V, r.V, want.greedy);
    free(logit);
    spot_infer_free(f);
    rig_close(&r);
}
END_TEST

/* --- bits ------------------------------------------------------------------------- */

START_TEST(bits_of_each_family_do_not_tell_how_they_were_computed)
{
    static const char *const kernels[] = { "portable", "avx2", "avxvnni", "avx512", "avx512bf16" };
    const int type = _i % SPOT_INFER_TYPES;
    float *want[SEQUENCES];
    char name[64] = "";
    struct rig r;

    load(&r, _i / SPOT_INFER_TYPES, name, SHARDS, CONTEXT);
    pack(&r, type);
    for (int s = 0; s < SEQUENCES; s++)
        want[s] = one_by_one(&r, type, s, "portable");
    for (int round = 0; round < (is_long() ? 48 : N_ROUND); round++) {
        const int k = is_long() ? round : round + N_ROUND * _i; /* other rounds in each case */
        const int M = 1 + k % 2;
        const int n_stage = 1 + k % (r.m.n_bundle < STAGES ? r.m.n_bundle : STAGES);
        struct spot_infer_config c = { .kernel = kernels[k / 2 % 5] };
        struct spot_infer *runs_here;
        struct meeting meeting;
        struct member member[MEMBERS];
        pthread_t thread[MEMBERS];

        c.image = r.image[type];
        c.image_byte = r.n_byte[type];
        c.n_thread = c.n_sequence = c.n_page = c.token_max = 1;
        runs_here = spot_infer_new(&c, NULL);
        if (!runs_here)
            continue;
        spot_infer_free(runs_here);
        pthread_barrier_init(&meeting.here, NULL, (unsigned)M);
        for (int m = 0; m < M; m++) {
            member[m] = (struct member){ &meeting,      &r,       type,        m,    M,    n_stage,
                                         1 + k / 3 % 3, c.kernel, (uint64_t)k, want, false };
            ck_assert_int_eq(pthread_create(&thread[m], NULL, play, &member[m]), 0);
        }
        for (int m = 0; m < M; m++)
            pthread_join(thread[m], NULL);
        for (int m = 0; m < M; m++)
            ck_assert_msg(!member[m].differs, "%s, round %d, member %d of %d", name, k, m, M);
        pthread_barrier_destroy(&meeting.here);
    }
    for (int s = 0; s < SEQUENCES; s++)
        free(want[s]);
    rig_close(&r);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("core");

    (void)f64_microbatch; /* training is not asked here */

    tcase_add_loop_test(tc, each_family_has_the_logits_of_transformers, 0, 2 * MODELS);
    tcase_add_loop_test(tc, bits_of_each_family_do_not_tell_how_they_were_computed, 0,
                        MODELS * SPOT_INFER_TYPES);
    return run_suite("infer_kinds", tc);
}
