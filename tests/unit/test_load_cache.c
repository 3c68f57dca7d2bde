/* SPDX-License-Identifier: MIT */
/* Goal: what a cache of prefixes finds, in a load, in the simulator and for a plan. Oracles: a list
 * of blocks by their last use, looked through from end to end; times of the profile summed by hand.
 */
#define _POSIX_C_SOURCE 200809L /* fmemopen */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "model/job_doc.h"
#include "sim/serve_batch.h"
#include "sim/serve_queue.h"
#include "suite.h"
#include "trace/load_cache.h"
#include "trace/load_trace.h"

enum { BLOCK = 16, ROOM = 1 << 12 };

/* --- the oracle --- */

struct list {
    uint32_t id[ROOM]; /* the one used last first */
    size_t n, room;
};

static bool holds(const struct list *l, uint32_t id)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->id[i] == id)
            return true;
    return false;
}

static int32_t found(const struct list *l, const struct spot_load *load, size_t i)
{
    size_t n, k = 0;
    const uint32_t *block = spot_load_blocks(load, i, &n);

    while (k < n && holds(l, block[k]))
        k++;
    return (int32_t)k * BLOCK < load->prompt_token[i] ? (int32_t)k * BLOCK
                                                      : load->prompt_token[i] - 1;
}

static void use(struct list *l, const struct spot_load *load, size_t i)
{
    size_t n;
    const uint32_t *block = spot_load_blocks(load, i, &n);

    for (size_t j = n; j-- > 0;) {
        size_t k = 0;

        while (k < l->n && l->id[k] != block[j])
            k++;
        l->n += k == l->n;
        memmove(l->id + 1, l->id, k * sizeof(*l->id));
        l->id[0] = block[j];
        l->n = l->n < l->room ? l->n : l->room;
    }
}

/* Prompts that go on from a part of an earlier one's, at random. */
static struct spot_load tree_of(struct spot_rng *rng, size_t n, double gap_s)
{
    struct spot_load load = { 0 };
    uint32_t fresh = 0, *block = spot_xcalloc(64, sizeof(*block));
    double time_s = 0;

    for (size_t i = 0; i < n; i++) {
        const int64_t prompt = 1 + (int64_t)spot_rng_below(rng, 40 * BLOCK);
        const size_t n_block = (size_t)(prompt + BLOCK - 1) / BLOCK;
        size_t shared = 0, n_old;

        if (i && spot_rng_unit(rng) < .8) {
            const uint32_t *old = spot_load_blocks(&load, (size_t)spot_rng_below(rng, i), &n_old);

            shared = n_old ? (size_t)spot_rng_below(rng, n_old + 1) : 0;
            shared = shared < n_block ? shared : n_block;
            if (old)
                memcpy(block, old, shared * sizeof(*block));
        }
        for (size_t k = shared; k < n_block; k++)
            block[k] = fresh++;
        time_s += gap_s * spot_rng_unit(rng);
        spot_load_add(&load, time_s, (int32_t)prompt, 1 + (int32_t)spot_rng_below(rng, 20), NULL);
        if (spot_rng_unit(rng) < .9)
            ck_assert(!spot_load_add_blocks(&load, BLOCK, block, n_block, NULL));
    }
    free(block);
    return load;
}

START_TEST(a_cache_finds_what_a_list_by_use_has)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 3, 0);
    for (int round = 0; round < 40; round++) {
        struct spot_load load = tree_of(&rng, 150, 1);
        struct list *list = spot_xcalloc(1, sizeof(*list));
        int32_t *all;

        list->room = (size_t)spot_rng_below(&rng, round % 2 ? 30 : 600);
        all = spot_load_cached(&load, (int64_t)list->room * BLOCK + BLOCK - 1);
        ck_assert(all);
        for (size_t i = 0; i < load.n; i++) {
            ck_assert_int_eq(all[i], found(list, &load, i));
            use(list, &load, i);
        }
        free(all);
        free(list);
        spot_load_release(&load);
    }
}
END_TEST

START_TEST(an_empty_cache_and_a_load_without_blocks_find_nothing)
{
    struct spot_load load = { 0 };
    struct spot_load_cache *c;

    spot_load_add(&load, 0, 100, 5, NULL);
    ck_assert_ptr_null(spot_load_cached(&load, 1000));
    ck_assert(!spot_load_add_blocks(&load, BLOCK, (const uint32_t[]){ 1, 2, 3 }, 3, NULL));
    ck_assert_ptr_null(spot_load_cached(&load, 0));
    spot_load_add(&load, 1, 48, 5, NULL);
    ck_assert(!spot_load_add_blocks(&load, BLOCK, (const uint32_t[]){ 1, 2, 3 }, 3, NULL));
    c = spot_load_cache_new(&load, BLOCK - 1);
    spot_load_cache_use(c, 0);
    ck_assert_int_eq(spot_load_cache_found(c, 1), 0);
    spot_load_cache_free(c);
    c = spot_load_cache_new(&load, 1000);
    spot_load_cache_use(c, 0);
    ck_assert_int_eq(spot_load_cache_found(c, 0), 48);
    ck_assert_int_eq(spot_load_cache_found(c, 1), 47); /* all of it, and the last is computed */
    spot_load_cache_clear(c);
    ck_assert_int_eq(spot_load_cache_found(c, 1), 0);
    spot_load_cache_free(c);
    spot_load_release(&load);
}
END_TEST

/* --- the document --- */

static int read_text(struct spot_load *load, const char *text, struct spot_err *err)
{
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    const int rc = spot_load_read(load, in, "t", 0, err);

    fclose(in);
    return rc;
}

START_TEST(blocks_are_read_as_they_were_written)
{
    static const char text[] = "time_s,prompt_tokens,output_tokens,blocks\n"
                               "0,1100,5,512:46-47 2000\n1,5,1,\n2,513,1,512:46 46\n"
                               "3,1536,9,512:4294967294-4294967295 0\n4,20,1,512:\n";
    struct spot_load load;
    struct spot_err err;
    char *again = NULL;
    size_t n, n_byte;
    FILE *out;

    /* nothing but an empty list */
    ck_assert(!read_text(&load, "time_s,prompt_tokens,output_tokens,blocks\n4,20,1,512:\n", &err));
    spot_load_blocks(&load, 0, &n);
    ck_assert_uint_eq(n, 0);
    spot_load_release(&load);
    ck_assert_msg(!read_text(&load, text, &err), "%s", err.msg);
    ck_assert_int_eq(spot_load_blocks(&load, 0, &n)[1], 47);
    ck_assert_uint_eq(n, 3);
    spot_load_blocks(&load, 1, &n);
    ck_assert_uint_eq(n, 0);
    ck_assert_uint_eq(spot_load_blocks(&load, 3, &n)[1], UINT32_MAX);
    ck_assert(!spot_load_cut(&load, 0, 3, &err));
    spot_load_sort(&load);
    out = open_memstream(&again, &n_byte);
    spot_load_write(&load, out);
    fclose(out);
    ck_assert_int_eq(strncmp(again, text, n_byte), 0);
    free(again);
    spot_load_release(&load);
}
END_TEST

START_TEST(blocks_that_are_none_are_refused_at_their_place)
{
    static const char *const cell[] = { "512",
                                        "x:1",
                                        "0:1",
                                        ":1",
                                        "512:a",
                                        "512:3-",
                                        "512:3-2",
                                        "512:-1",
                                        "512:1,2",
                                        "512:1 2 3",
                                        "512:0-4294967295",
                                        "512:4294967296",
                                        "16:1-64 70",
                                        "512:1-2x",
                                        "512: 1" };

    for (size_t i = 0; i < sizeof(cell) / sizeof(*cell); i++) {
        struct spot_load load;
        struct spot_err err;
        char text[160];

        snprintf(text, sizeof(text), "blocks,time_s,prompt_tokens,output_tokens\n\"%s\",0,1000,5\n",
                 cell[i]);
        ck_assert_msg(read_text(&load, text, &err) == -1, "'%s'", cell[i]);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_ptr_nonnull(strstr(err.msg, "t:2:1"));
    }
}
END_TEST

START_TEST(two_sizes_of_blocks_are_refused)
{
    struct spot_load load;
    struct spot_err err;

    ck_assert_int_eq(
        read_text(&load, "time_s,prompt_tokens,output_tokens,blocks\n0,99,1,16:1\n1,99,1,32:1\n",
                  &err),
        -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "t:3:"));
}
END_TEST

/* --- the simulator --- */

static struct spot_job_doc job;

static void load_job(void)
{
    struct spot_err err;

    ck_assert(!spot_job_doc_load(&job, "examples/serve/gpt-20b.json", &err));
    for (size_t i = 0; i < job.serve.n_cell; i++) {
        job.serve.cell[i].prefill_token_s = .9 * job.serve.cell[i].prefill_s / 512;
        job.serve.cell[i].decode_token_s = .2 * job.serve.cell[i].decode_s / 640;
    }
}

struct law {
    struct spot_serve_batches batches;
    struct spot_serve_shape shape;
};

static struct spot_batch_time time_batch(void *user, const size_t *request, size_t n)
{
    const struct law *law = user;

    return spot_serve_batch_time(&law->batches, &law->shape, request, n);
}

/* One replica, one request at a time: found and waited for as a loop over requests has it. */
START_TEST(one_replica_computes_what_it_does_not_find)
{
    struct spot_rng rng;

    load_job();
    spot_rng_init(&rng, 5, 0);
    for (int round = 0; round < 10; round++) {
        const bool passes = round % 2;
        struct spot_load load = tree_of(&rng, 120, 30);
        struct list *list = spot_xcalloc(1, sizeof(*list));
        const struct spot_serve_queue_rule rule = { .batching = passes ? SPOT_BATCH_PASSES
                                                                       : SPOT_BATCH_SHARED,
                                                    .cache_token = 100 * BLOCK };
        struct spot_serve_queue *q = spot_serve_queue_new(&load, &rule);
        struct law law = { .batches = { .serve = &job.serve,
                                        .load = &load,
                                        .served = passes ? spot_serve_queue_served(q) : NULL,
                                        .found = spot_serve_queue_served(q) },
                           .shape = { 3, 4, 1, 1, 1 } };
        struct spot_serve_totals totals;
        const struct spot_served *served;
        double free_s = 0;

        list->room = 100;
        spot_serve_queue_add(q, &(struct spot_replica_law){ time_batch, &law, 1 });
        spot_serve_queue_run(q, INFINITY);
        served = spot_serve_queue_finish(q, &totals);
        for (size_t i = 0; i < load.n; i++) {
            const int32_t had = found(list, &load, i);
            const struct spot_serve_length length = { load.prompt_token[i], load.output_token[i],
                                                      had };
            struct spot_serve_time t;

            use(list, &load, i);
            spot_serve_time_of(&job.serve, &law.shape, &length, &t);
            free_s = fmax(free_s, load.time_s[i]);
            ck_assert_int_eq(served[i].cached_token, had);
            if (!passes) /* a pass has another time of its tokens */
                ck_assert_double_eq_tol(served[i].end_s, free_s + t.request_s, 1e-6);
            free_s = served[i].end_s;
        }
        spot_serve_queue_free(q);
        free(list);
        spot_load_release(&load);
    }
    spot_job_doc_release(&job);
}
END_TEST

/* Two conversations in turn, of equal load: each goes on where its begin is. */
START_TEST(a_prompt_goes_where_its_begin_is_held)
{
    static const enum spot_batching batching[] = { SPOT_BATCH_PASSES, SPOT_BATCH_SHARED,
                                                   SPOT_BATCH_POOLS };

    load_job();
    for (int k = 0; k < 3; k++) {
        const struct spot_serve_queue_rule rule = { .batching = batching[k],
                                                    .pool_max = 8,
                                                    .cache_token = 10000 };
        struct spot_load load = { 0 };
        struct spot_serve_queue *q;
        struct spot_serve_totals totals;
        const struct spot_served *served;
        struct law law = { .shape = { 3, 4, 1, 1, 1 } };

        for (uint32_t i = 0; i < 20; i++) { /* the other one first, each second time */
            const uint32_t who = (i ^ i >> 1) & 1;
            const uint32_t block[] = { who, who + 2, who + 4, who + 6, 100 + i };

            spot_load_add(&load, 50 * (i / 2), 5 * BLOCK, 4, NULL);
            ck_assert(!spot_load_add_blocks(&load, BLOCK, block, 5, NULL));
        }
        q = spot_serve_queue_new(&load, &rule);
        law.batches = (struct spot_serve_batches){ .serve = &job.serve,
                                                   .load = &load,
                                                   .served = k ? NULL : spot_serve_queue_served(q),
                                                   .found = spot_serve_queue_served(q) };
        for (int r = 0; r < 2; r++)
            spot_serve_queue_add(q, &(struct spot_replica_law){ time_batch, &law, 1 });
        spot_serve_queue_run(q, 275);
        spot_serve_queue_pause(q, 0);
        spot_serve_queue_resume(q, 0, NULL);
        spot_serve_queue_run(q, INFINITY);
        served = spot_serve_queue_finish(q, &totals);
        for (size_t i = 0; i < 20; i++) /* but the first of each, and the one behind a pause */
            if (i > 1 && i / 2 != 6)
                ck_assert_msg(served[i].cached_token == 4 * BLOCK, "%d: %zu", k, i);
        ck_assert_int_eq(served[0].cached_token + served[1].cached_token, 0);
        ck_assert_int_eq(served[12].cached_token + served[13].cached_token, 4 * BLOCK);
        spot_serve_queue_free(q);
        spot_load_release(&load);
    }
    spot_job_doc_release(&job);
}
END_TEST

int main(void)
{
    return run_suite("load_cache", add_tests(tcase_create("load_cache")));
}
