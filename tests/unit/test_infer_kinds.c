/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tiny_adapter.h"
#include "common/temp.h"
#include "infer_rig.h"
#include "weights/load.h"
#include "weights/lora_load.h"

/* Goal: a random model of each family, as its config.json and weights have it, has the logits,
 * greedy tokens and states of transformers, and with adapters the logits of peft
 * (tests/data/models/logits.txt, by tests/world/record_logits.py), and bits that do not tell how
 * they were computed. */

#define LOGITS "tests/data/models/logits.txt"

enum { MODELS = 21, SHARDS = 2, CONTEXT = 40, MORE = 64, N_ROUND = 2 };

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

/* Adapters of the model, of sequences 1 and 2. */
static void adapt(struct rig *r, const char *name)
{
    struct spot_shape one = r->m.shape;
    struct spot_err err = { 0 };
    char path[2][TINY_LINE];

    one.n_shard = 1;
    for (int i = 0; i < TINY_ADAPTERS; i++) {
        char *const dir = spot_temp_template("spot-tiny");

        ck_assert_ptr_nonnull(mkdtemp(dir));
        ck_assert_msg(!tiny_write_adapter(dir, name, &one, i + 1, &err), "%s", err.msg);
        r->lora[i] = spot_lora_load(dir, &r->m.shape, &err);
        ck_assert_msg(r->lora[i] != NULL, "%s: %s", name, err.msg);
        snprintf(path[0], sizeof(path[0]), "%s/adapter_config.json", dir);
        snprintf(path[1], sizeof(path[1]), "%s/adapter_model.safetensors", dir);
        unlink(path[0]);
        unlink(path[1]);
        rmdir(dir);
        free(dir);
    }
    r->has_lora = true;
}

static void release_adapters(struct rig *r)
{
    for (int i = 0; i < TINY_ADAPTERS; i++)
        spot_lora_free((struct spot_lora *)(uintptr_t)r->lora[i]);
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

        if (sscanf(line, "%63s %15s %d%n", model, what, &at, &used) < 3 ||
            strcmp(model, name) != 0 || (*what != 'l' && *what != 'g'))
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

/* One line, of n numbers. */
static void read_row(const char *name, const char *kind, int64_t n, double *to)
{
    FILE *const in = fopen(LOGITS, "re");
    static char line[1 << 14];
    bool is_found = false;

    ck_assert_ptr_nonnull(in);
    while (!is_found && fgets(line, sizeof(line), in)) {
        char model[64], what[16];
        int at, used = 0;

        if (sscanf(line, "%63s %15s %d%n", model, what, &at, &used) < 3 ||
            strcmp(model, name) != 0 || strcmp(what, kind) != 0)
            continue;
        is_found = true;
        for (int64_t i = 0; i < n; i++) {
            char *end;

            to[i] = strtod(line + used, &end);
            ck_assert_ptr_ne(end, line + used);
            used = (int)(end - line);
        }
    }
    fclose(in);
    ck_assert_msg(is_found, "%s: no %s", name, kind);
}

static void check_row(const char *name, const char *kind, int64_t n, const float *got)
{
    double want[64];

    ck_assert_int_le(n, 64);
    read_row(name, kind, n, want);
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(fabs((double)got[i] - want[i]) < 1e-4, "%s: %s %d: %.7g, expected %.7g", name,
                      kind, (int)i, (double)got[i], want[i]);
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

/* All in one run: the model as it is, and two adapters of it. */
START_TEST(adapters_of_each_family_have_the_logits_of_peft)
{
    static const char *const kind[] = { "logits", "adapted1", "adapted2" };
    struct spot_infer_item item[SEQUENCES];
    struct recorded want = { .at = { 0 } };
    struct spot_err err = { 0 };
    struct spot_infer *f;
    char name[64] = "";
    float *logit;
    struct rig r;

    load(&r, _i / 2, name, 1 + _i % 2, TINY_PROMPT);
    adapt(&r, name);
    pack(&r, SPOT_INFER_FP32);
    read_recorded(name, r.V, &want);
    f = engine(&r, SPOT_INFER_FP32, (struct spot_infer_config){ .n_thread = 2 });
    logit = calloc((size_t)(SEQUENCES * r.V), sizeof(*logit));
    for (int s = 0; s < SEQUENCES; s++)
        item[s] = (struct spot_infer_item){ .sequence = open_sequence(&r, f, s),
                                            .n_token = TINY_PROMPT,
                                            .token = r.token[0] };
    ck_assert_msg(!spot_infer_run(f, item, SEQUENCES, NULL, NULL, logit, &err), "%s", err.msg);
    for (int s = 1; s < SEQUENCES; s++)
        check_row(name, kind[s], r.V, logit + s * r.V);
    for (int64_t v = 0; v < r.V; v++)
        ck_assert(fabs((double)logit[v] - want.logit[1][v]) < 1e-4);
    free(logit);
    spot_infer_free(f);
    release_adapters(&r);
    rig_close(&r);
}
END_TEST

START_TEST(states_of_each_family_are_those_of_transformers)
{
    struct spot_err err = { 0 };
    struct spot_infer *f;
    struct spot_infer_item item[2];
    char name[64] = "";
    float *state;
    struct rig r;

    load(&r, _i / 2, name, 1 + _i % 2, TINY_PROMPT);
    pack(&r, SPOT_INFER_FP32);
    f = engine(&r, SPOT_INFER_FP32, (struct spot_infer_config){ .n_thread = 2 });
    state = calloc((size_t)(2 * r.C), sizeof(*state));
    for (int k = 0; k < 2; k++)
        item[k] = (struct spot_infer_item){ .sequence = spot_infer_open(f, NULL),
                                            .n_token = TINY_PROMPT,
                                            .token = r.token[0],
                                            .pool = k ? SPOT_POOL_MEAN : SPOT_POOL_LAST,
                                            .state = state + k * r.C };
    ck_assert_msg(!spot_infer_run(f, item, 2, NULL, NULL, NULL, &err), "%s", err.msg);
    check_row(name, "state", r.C, state);
    check_row(name, "mean", r.C, state + r.C);
    free(state);
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
    adapt(&r, name);
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
    release_adapters(&r);
    rig_close(&r);
}
END_TEST

/* In chunks that the seed chooses, beside a sequence that gives logits. */
static void pool_in_chunks(const struct rig *r, int type, enum spot_pool pool, uint64_t seed,
                           float *state)
{
    struct spot_infer *const f =
        engine(r, type,
               (struct spot_infer_config){ .n_thread = 1 + (int)(seed % 3),
                                           .kernel = seed % 2 ? NULL : "portable" });
    const int id = open_sequence(r, f, 1), other = open_sequence(r, f, 2);
    float *const logit = calloc((size_t)r->V, sizeof(*logit));
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 0);
    for (int64_t at = 0, n; at < r->T; at += n) {
        n = seed ? 1 + (int64_t)spot_rng_below(&rng, (uint64_t)(r->T - at)) : r->T;
        const struct spot_infer_item item[] = {
            { .sequence = other, .first = at, .n_token = n, .token = r->token[2] + at },
            { .sequence = id,
              .first = at,
              .n_token = n,
              .token = r->token[1] + at,
              .pool = pool,
              .state = state },
        };

        ck_assert_int_eq(spot_infer_run(f, item + !seed, seed ? 2 : 1, NULL, NULL, logit, NULL), 0);
    }
    free(logit);
    spot_infer_free(f);
}

START_TEST(bits_of_states_do_not_tell_how_they_were_computed)
{
    const int type = _i % SPOT_INFER_TYPES;
    char name[64] = "";
    float *want, *got;
    struct rig r;

    load(&r, _i / SPOT_INFER_TYPES, name, SHARDS, CONTEXT);
    adapt(&r, name);
    pack(&r, type);
    want = calloc((size_t)r.C, sizeof(*want));
    got = calloc((size_t)r.C, sizeof(*got));
    for (int pool = SPOT_POOL_LAST; pool <= SPOT_POOL_MEAN; pool++) {
        pool_in_chunks(&r, type, (enum spot_pool)pool, 0, want);
        for (uint64_t seed = 1; seed <= (is_long() ? 20 : 2); seed++) {
            pool_in_chunks(&r, type, (enum spot_pool)pool, seed + (uint64_t)_i, got);
            ck_assert_mem_eq(want, got, (size_t)r.C * sizeof(*got));
        }
    }
    free(want);
    free(got);
    release_adapters(&r);
    rig_close(&r);
}
END_TEST

/* Pages of an adapter are not found by others, and those of its own are. */
START_TEST(sequences_share_pages_of_their_own_adapter_alone)
{
    struct spot_infer *f;
    char name[64] = "";
    float logit[64];
    struct rig r;

    load(&r, 0, name, SHARDS, CONTEXT);
    adapt(&r, name);
    pack(&r, SPOT_INFER_FP32);
    f = engine(&r, SPOT_INFER_FP32, (struct spot_infer_config){ .n_page = 12, .n_kept = 8 });
    for (int s = 0; s < SEQUENCES; s++) {
        const int id = open_sequence(&r, f, s);

        ck_assert_int_eq(spot_infer_find(f, id, r.token[0], CONTEXT, 8), 0);
        ck_assert_int_eq(spot_infer_run(f,
                                        &(struct spot_infer_item){ .sequence = id,
                                                                   .n_token = CONTEXT,
                                                                   .token = r.token[0] },
                                        1, NULL, NULL, logit, NULL),
                         0);
        spot_infer_close(f, id);
    }
    for (int s = 0; s < SEQUENCES; s++) {
        const int id = open_sequence(&r, f, s);

        ck_assert_int_eq(spot_infer_find(f, id, r.token[0], CONTEXT, 8),
                         CONTEXT / SPOT_INFER_PAGE * SPOT_INFER_PAGE);
        spot_infer_close(f, id);
    }
    spot_infer_free(f);
    release_adapters(&r);
    rig_close(&r);
}
END_TEST

/* A mean needs the state of each token. */
START_TEST(a_mean_of_a_part_is_refused)
{
    struct spot_err err = { 0 };
    struct spot_infer *f;
    struct spot_infer_item item;
    char name[64] = "";
    float state[64];
    struct rig r;

    load(&r, 0, name, SHARDS, CONTEXT);
    pack(&r, SPOT_INFER_FP32);
    f = engine(&r, SPOT_INFER_FP32, (struct spot_infer_config){ .n_sequence = 1 });
    item = (struct spot_infer_item){
        .sequence = spot_infer_open(f, NULL), .n_token = 4, .token = r.token[0], .state = state
    };
    item.pool = SPOT_POOL_LAST;
    ck_assert_int_eq(spot_infer_run(f, &item, 1, NULL, NULL, NULL, NULL), 0);
    item.pool = SPOT_POOL_MEAN;
    item.first = 4;
    ck_assert_int_eq(spot_infer_run(f, &item, 1, NULL, NULL, NULL, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    item.first = 0;
    ck_assert_int_eq(spot_infer_run(f, &item, 1, NULL, NULL, NULL, NULL), 0);
    spot_infer_free(f);
    rig_close(&r);
}
END_TEST

int main(void)
{
    TCase *const tc = tcase_create("core");

    (void)f64_microbatch; /* training is not asked here */

    tcase_add_loop_test(tc, each_family_has_the_logits_of_transformers, 0, 2 * MODELS);
    tcase_add_loop_test(tc, adapters_of_each_family_have_the_logits_of_peft, 0, 2 * MODELS);
    tcase_add_loop_test(tc, states_of_each_family_are_those_of_transformers, 0, 2 * MODELS);
    tcase_add_loop_test(tc, bits_of_states_do_not_tell_how_they_were_computed, 0,
                        MODELS * SPOT_INFER_TYPES);
    tcase_add_test(tc, sequences_share_pages_of_their_own_adapter_alone);
    tcase_add_test(tc, a_mean_of_a_part_is_refused);
    tcase_add_loop_test(tc, bits_of_each_family_do_not_tell_how_they_were_computed, 0,
                        MODELS * SPOT_INFER_TYPES);
    return run_suite("infer_kinds", tc);
}
