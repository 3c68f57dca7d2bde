/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* sched_getaffinity */
#include "train/self_test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/threads.h"
#include "engine/initial_weights.h"
#include "engine/stage.h"
#include "train/evidence.h"

enum { BUNDLES = 3, SEQ = 32, VOCAB = 128 };

static const struct known {
    const char *kernel;
    uint64_t hash;
} known[] = {
    { "fma", UINT64_C(0x0a7eaa167771012d) },
    { "fma-bf16", UINT64_C(0x85967af532123220) },
    { "portable", UINT64_C(0x2ab984c9ddf8943b) },
};

static const struct spot_shape shape = {
    .n_layer = 1, .width = 64, .n_head = 2, .seq = SEQ, .vocab = VOCAB, .n_shard = 2
};

/* Two microbatches, their sums, and the update. */
static uint64_t run(struct spot_stage *stage, struct spot_bundle *const *bundle)
{
    static const struct spot_adamw adamw = { 1e-2, 0.9, 0.95, 1e-8, 0.1 };
    struct spot_evidence evidence[2][BUNDLES];
    uint32_t token[SEQ + 1];
    double loss[2] = { 0 };
    uint64_t hash;

    spot_stage_begin(stage);
    for (uint32_t j = 0; j < 2; j++) {
        for (uint32_t i = 0; i <= SEQ; i++)
            token[i] = (i * i * 7 + i * 13 + j * 31) % VOCAB;
        spot_stage_forward(stage, 0, token, NULL, NULL, &loss[j]);
        spot_stage_backward(stage, 0, NULL, NULL);
    }
    memset(evidence, 0, sizeof(evidence));
    for (int b = 0; b < BUNDLES; b++)
        spot_evidence_take(&evidence[0][b], bundle[b], spot_stage_sum(stage, b));
    for (int b = 0; b < BUNDLES; b++)
        spot_stage_update(stage, b, &adamw, 0.5);
    for (int b = 0; b < BUNDLES; b++)
        spot_evidence_take(&evidence[1][b], bundle[b], spot_stage_sum(stage, b));
    hash = spot_hash64(evidence, sizeof(evidence));
    return spot_hash64(loss, sizeof(loss)) ^ hash;
}

/* The initial weights, drawn once for all kinds: that is a third of a test. NULL: no memory. */
static const struct spot_bundle *initial(int index)
{
    static struct spot_bundle drawn[BUNDLES];
    struct spot_bundle *const b = &drawn[index];

    if (!b->plane[SPOT_PLANE_MASTER] && !spot_bundle_init(b, &shape, index, NULL))
        spot_bundle_start(b, &shape, 1);
    return b->plane[SPOT_PLANE_MASTER] ? b : NULL;
}

static int start(struct spot_bundle *bundle, int index)
{
    const struct spot_bundle *const from = initial(index);

    if (!from || spot_bundle_init(bundle, &shape, index, NULL))
        return -1;
    memcpy(bundle->plane[SPOT_PLANE_MASTER], from->plane[SPOT_PLANE_MASTER],
           from->arena.n_elem * sizeof(float)); /* the rest is 0 at the start */
    return 0;
}

uint64_t spot_self_test_hash(const struct spot_kernel *kernel)
{
    struct spot_bundle bundle[BUNDLES] = { { 0 } }, *all[BUNDLES];
    struct spot_stage *stage = NULL;
    uint64_t hash = 0;
    int n = 0;

    while (n < BUNDLES && !start(&bundle[n], n)) {
        all[n] = &bundle[n];
        n++;
    }
    if (n == BUNDLES)
        stage = spot_stage_new(&(struct spot_stage_config){ .shape = shape,
                                                            .bundle_end = BUNDLES,
                                                            .micro_batch = 1,
                                                            .n_slot = 1,
                                                            .n_microbatch = 2,
                                                            .n_thread = 1,
                                                            .kernel = kernel },
                               all, NULL);
    if (stage)
        hash = run(stage, all);
    spot_stage_free(stage);
    while (n-- > 0)
        spot_bundle_release(&bundle[n]);
    return hash;
}

/* 0: not yet; 1; -1: it does not */
static signed char result[sizeof(known) / sizeof(known[0])];

static const struct known *find(const char *kernel)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (!strcmp(kernel, known[i].kernel))
            return &known[i];
    return NULL;
}

static bool passes(const struct known *k)
{
    const struct spot_kernel *const kernel = spot_kernel_find(k->kernel, NULL);

    return kernel && spot_self_test_hash(kernel) == k->hash;
}

bool spot_self_test_passes(const char *kernel)
{
    const struct known *const k = find(kernel);

    if (!k)
        return true;
    if (!result[k - known])
        result[k - known] = passes(k) ? 1 : -1;
    return result[k - known] > 0;
}

/* --- the result of another process ------------------------------------------ */

void spot_self_test_print(const char *kernel, bool passes_here, char *text, size_t n)
{
    snprintf(text, n, "%s%s", kernel, passes_here ? "" : SPOT_SELF_TEST_FAILED);
}

void spot_self_test_take(const char *text)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const size_t n = strlen(known[i].kernel);

        if (strncmp(text, known[i].kernel, n) != 0)
            continue;
        if (!text[n])
            result[i] = 1;
        else if (!strcmp(text + n, SPOT_SELF_TEST_FAILED))
            result[i] = -1;
    }
}

/* --- all processors ----------------------------------------------------------- */

struct place {
    const struct known *known;
    int cpu;
    bool passes;
};

static void *test_there(void *user)
{
    struct place *const p = user;
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET((size_t)p->cpu, &one);
    (void)pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
    p->passes = passes(p->known);
    return NULL;
}

/* The first n processors of the set; returns how many there are of these. */
static size_t choose(const cpu_set_t *set, size_t n, const struct known *k, struct place *place)
{
    size_t n_place = 0;

    for (int cpu = 0; cpu < CPU_SETSIZE && n_place < n; cpu++)
        if (CPU_ISSET((size_t)cpu, set))
            place[n_place++] = (struct place){ .known = k, .cpu = cpu };
    return n_place;
}

bool spot_self_test_all(const char *kernel, size_t n, int *cpu)
{
    const struct known *const k = find(kernel);
    struct place place[CPU_SETSIZE];
    pthread_t thread[CPU_SETSIZE];
    bool is_started[CPU_SETSIZE];
    bool all = true;
    cpu_set_t set;

    *cpu = 0;
    if (!k)
        return true;
    if (sched_getaffinity(0, sizeof(set), &set)) /* more processors than a set has */
        return passes(k);
    for (int b = 0; b < BUNDLES; b++)
        (void)initial(b); /* which threads then only read */
    n = choose(&set, n, k, place);
    for (size_t i = 0; i < n; i++)
        is_started[i] = !spot_thread_start(&thread[i], test_there, &place[i], NULL);
    for (size_t i = 0; i < n; i++) {
        if (is_started[i])
            pthread_join(thread[i], NULL);
        else
            place[i].passes = passes(k);
        if (!place[i].passes)
            *cpu = place[i].cpu;
        all = all && place[i].passes;
    }
    return all;
}
