/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "suite.h"
#include "train/config.h"
#include "train/form.h"
#include "train/state_sources.h"

/* Goal: the message that starts an epoch and the config of a job come back as they were; cut or
 * changed anywhere they are refused or make sense, and never read behind their end. */

enum { G = 7, S = 4 };

static struct spot_form make(void)
{
    static uint32_t stage[] = { 0, 2, 5 }, member[] = { 4, 9, 2, 7, 1, 3, 6, 8 },
                    buddy[] = { 7, 0 };
    static uint32_t share[] = { 0, 1, 7 };
    static struct spot_mesh_peer peer[] = { { 4, "unix:a", false }, { 9, "127.0.0.1:1", false } };
    static struct spot_precopy precopy[] = { { 4, 1 }, { 0, 9 }, { 2, 5 } };
    static struct spot_transfer transfer[] = { { 1, SPOT_FROM_MEMBER, 4, 9 },
                                               { 4, SPOT_FROM_STORE, 0, 7 } };

    return (struct spot_form){ .step = 41,
                               .D = 2,
                               .P = 2,
                               .M = 2,
                               .stage = stage,
                               .share = share,
                               .member = member,
                               .buddy = buddy,
                               .peer = peer,
                               .n_peer = 2,
                               .transfer = transfer,
                               .n_transfer = 2,
                               .precopy = precopy,
                               .n_precopy = 3,
                               .n_precopied = 1 };
}

static const struct spot_form_bounds *bounds(uint32_t n_bundle, int64_t n_microbatch)
{
    static struct spot_form_bounds b;

    b = (struct spot_form_bounds){ n_bundle, n_microbatch, S };
    return &b;
}

/* What a worker relies on without a further look. */
static bool makes_sense(const struct spot_form *f, uint32_t n_bundle)
{
    bool ok = f->step >= 0 && f->D && f->P && f->M && S % f->M == 0 && f->stage[0] == 0 &&
              f->stage[f->P] == n_bundle && f->share[0] == 0 && f->share[f->D] == G;

    for (uint32_t d = 0; d < f->D; d++)
        ok = ok && f->share[d] < f->share[d + 1];
    for (uint32_t p = 0; p < f->P; p++)
        ok = ok && f->stage[p] < f->stage[p + 1];
    for (size_t i = 0; i < f->n_transfer; i++)
        ok = ok && f->transfer[i].bundle < n_bundle && f->transfer[i].origin <= SPOT_FROM_WEIGHTS;
    ok = ok && f->n_precopied <= f->n_precopy;
    for (size_t i = 0; i < f->n_precopy; i++)
        ok = ok && f->precopy[i].bundle < n_bundle && f->precopy[i].to;
    for (size_t i = 0; i < f->n_peer; i++)
        ok = ok && f->peer[i].id && memchr(f->peer[i].address, 0, sizeof(f->peer[i].address));
    return ok;
}

START_TEST(a_form_comes_back_as_it_was)
{
    const struct spot_form f = make();
    struct spot_buf out = { 0 }, again = { 0 };
    struct spot_form got;

    spot_form_put(&out, &f);
    ck_assert_int_eq(spot_form_get(&got, out.data, out.n, bounds(5, G), NULL), 0);
    ck_assert(makes_sense(&got, 5));
    spot_form_put(&again, &got);
    ck_assert_uint_eq(again.n, out.n);
    ck_assert_mem_eq(again.data, out.data, out.n);
    ck_assert_int_eq(spot_form_position(&got, 2), 2);
    ck_assert_int_eq(spot_form_position(&got, 5), -1);
    spot_form_release(&got);
    spot_buf_release(&out);
    spot_buf_release(&again);
}
END_TEST

START_TEST(who_computes_mirrors_or_inherits_a_bundle_keeps_it_and_one_member_gives_it)
{
    struct spot_form f = make();

    /* 9 and 1 compute stage 0, 7 mirrors it beside stage 1; 1 inherits bundle 4 */
    ck_assert(spot_form_computes(&f, 1, 1) && !spot_form_computes(&f, 1, 2));
    ck_assert(!spot_form_computes(&f, -1, 0));
    ck_assert(spot_form_keeps(&f, 9, 0) && spot_form_keeps(&f, 9, 1) && !spot_form_keeps(&f, 9, 4));
    ck_assert(spot_form_keeps(&f, 7, 1) && spot_form_keeps(&f, 7, 3));
    ck_assert(spot_form_keeps(&f, 1, 1) && spot_form_keeps(&f, 1, 4) && !spot_form_keeps(&f, 1, 3));
    /* 5 will receive a copy of bundle 2: it takes part, and keeps it once the pre-copy is in force
     */
    ck_assert(spot_form_is_active(&f, 5) && !spot_form_keeps(&f, 5, 2));
    f.n_precopied = 3;
    ck_assert(spot_form_keeps(&f, 5, 2) && !spot_form_keeps(&f, 5, 3));
    ck_assert(!spot_form_is_active(&f, 11));
    ck_assert(!spot_form_keeps(&(struct spot_form){ 0 }, 5, 2)); /* before there is a grid */
    ck_assert_uint_eq(spot_form_sender(&f, 1), 4);
    ck_assert_uint_eq(spot_form_sender(&f, 2), 2);
}
END_TEST

/* A grid of D x P x M whose position i has the id 3 + i, and two members without a place. */
static struct spot_form grid_of(uint32_t D, uint32_t P, uint32_t M)
{
    struct spot_form f = { .D = D, .P = P, .M = M, .n_peer = D * P * M + 2 };

    f.stage = calloc(P + 1, sizeof(*f.stage));
    f.member = calloc(f.n_peer, sizeof(*f.member));
    f.buddy = calloc(P, sizeof(*f.buddy));
    f.peer = calloc(f.n_peer, sizeof(*f.peer));
    for (uint32_t p = 0; p <= P; p++)
        f.stage[p] = p;
    for (uint32_t i = 0; i < f.n_peer; i++) {
        f.peer[i].id = 3 + i;
        if (i < D * P * M)
            f.member[i] = 3 + i;
    }
    return f;
}

static bool is_marked(struct spot_form *f, uint32_t me, uint32_t other, bool is_nccl)
{
    spot_form_mark_on_demand(f, me, is_nccl);
    for (size_t i = 0; i < f->n_peer; i++)
        if (f->peer[i].id == other)
            return f->peer[i].on_demand;
    ck_abort_msg("not a peer");
}

START_TEST(members_that_exchange_nothing_are_marked_alike_on_both_sides)
{
    static const uint32_t grid[][3] = { { 1, 1, 1 }, { 2, 3, 2 }, { 5, 2, 1 }, { 40, 1, 1 } };

    for (size_t g = 0; g < sizeof(grid) / sizeof(grid[0]); g++)
        for (int is_nccl = 0; is_nccl < 2; is_nccl++) {
            struct spot_form f = grid_of(grid[g][0], grid[g][1], grid[g][2]);
            const uint32_t last = 2 + (uint32_t)f.n_peer;
            struct spot_transfer transfer[] = { { 0, SPOT_FROM_MEMBER, last, 3 },
                                                { 0, SPOT_FROM_STORE, 0, 4 } };
            struct spot_precopy precopy[] = { { 0, last } };

            f.buddy[0] = last - 1;
            f.transfer = transfer;
            f.n_transfer = 2;
            f.precopy = precopy;
            f.n_precopy = 1;
            for (uint32_t a = 3; a <= last; a++)
                for (uint32_t b = 3; b < a; b++)
                    ck_assert_int_eq(is_marked(&f, a, b, is_nccl), is_marked(&f, b, a, is_nccl));
            ck_assert(!is_marked(&f, last, 3, is_nccl));     /* sends a bundle */
            ck_assert(!is_marked(&f, last - 1, 3, is_nccl)); /* mirrors the first stage */
            ck_assert(is_marked(&f, last, last - 1, is_nccl));
            f.transfer = NULL;
            f.precopy = NULL;
            spot_form_release(&f);
        }
}
END_TEST

static size_t pairs_of(uint32_t D, uint32_t P)
{
    struct spot_form f = grid_of(D, P, 1);
    size_t n = 0;

    for (uint32_t i = 0; i < D * P; i++) {
        spot_form_mark_on_demand(&f, f.member[i], false);
        for (size_t k = 0; k < f.n_peer; k++)
            n += !f.peer[k].on_demand;
    }
    spot_form_release(&f);
    return n / 2;
}

START_TEST(only_adjacent_stages_replicas_and_mirrors_are_connected)
{
    ck_assert_uint_eq(pairs_of(1, 8), 7 + 1);               /* a chain, and its ends */
    ck_assert_uint_eq(pairs_of(2, 8), 2 * (7 + 1) + 8);     /* two, and a pair of replicas each */
    ck_assert_uint_eq(pairs_of(8, 2), 2 * 28 + 8);          /* two stages of 8, each with each */
    ck_assert_uint_eq(pairs_of(4, 128), 4 * 128 + 128 * 6); /* not 512 * 511 / 2 = 130816 */
    ck_assert_uint_le(pairs_of(512, 1), 512 * 24);
}
END_TEST

START_TEST(a_form_cut_anywhere_or_of_another_model_is_refused)
{
    const struct spot_form f = make();
    struct spot_buf out = { 0 };
    struct spot_form got;
    struct spot_err err;

    spot_form_put(&out, &f);
    for (size_t n = 0; n < out.n; n++) {
        ck_assert_int_eq(spot_form_get(&got, out.data, n, bounds(5, G), &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
    }
    spot_buf_add(&out, "x", 1);
    ck_assert_int_eq(spot_form_get(&got, out.data, out.n, bounds(5, G), &err), -1);
    ck_assert_int_eq(spot_form_get(&got, out.data, out.n - 1, bounds(4, G), &err), -1);
    ck_assert_int_eq(spot_form_get(&got, out.data, out.n - 1, bounds(6, G), &err), -1);
    ck_assert_int_eq(spot_form_get(&got, out.data, out.n - 1, bounds(5, G + 1), &err), -1);
    spot_buf_release(&out);
}
END_TEST

START_TEST(a_form_with_any_bytes_changed_is_refused_or_makes_sense)
{
    const struct spot_form f = make();
    struct spot_buf out = { 0 };
    struct spot_rng rng;
    uint8_t *copy;

    spot_form_put(&out, &f);
    copy = malloc(out.n);
    spot_rng_init(&rng, 3, 0);
    for (int k = 0; k < 200000; k++) {
        const uint64_t n = 1 + spot_rng_below(&rng, 3);
        struct spot_form got;

        memcpy(copy, out.data, out.n);
        for (uint64_t i = 0; i < n; i++)
            copy[spot_rng_below(&rng, out.n)] =
                (uint8_t)(spot_rng_below(&rng, 2) ? spot_rng_below(&rng, 256) : 0xFF);
        if (spot_form_get(&got, copy, out.n, bounds(5, G), NULL))
            continue;
        if (!makes_sense(&got, 5))
            ck_abort_msg("case %d was taken", k);
        spot_form_release(&got);
    }
    free(copy);
    spot_buf_release(&out);
}
END_TEST

START_TEST(a_group_whose_size_does_not_divide_the_shards_is_refused)
{
    struct spot_form f = make(), got;
    struct spot_form_bounds odd = { 5, G, 3 };
    struct spot_buf out = { 0 };

    spot_form_put(&out, &f);
    ck_assert_int_eq(spot_form_get(&got, out.data, out.n, &odd, NULL), -1);
    odd.n_shard = 6;
    ck_assert_int_eq(spot_form_get(&got, out.data, out.n, &odd, NULL), 0);
    spot_form_release(&got);
    spot_buf_release(&out);
}
END_TEST

START_TEST(positions_count_members_then_stages_then_pipelines)
{
    const struct spot_form f = make();
    int64_t begin, end, k = 0;

    ck_assert_uint_eq(spot_form_size(&f), 8);
    ck_assert_uint_eq(spot_form_replicas(&f), 4);
    for (uint32_t d = 0; d < 2; d++)
        for (uint32_t p = 0; p < 2; p++)
            for (uint32_t m = 0; m < 2; m++, k++) {
                const struct spot_form_place at = spot_form_place(&f, k);

                ck_assert(at.d == d && at.p == p && at.m == m);
                ck_assert_uint_eq(spot_form_member(&f, d, p, m), f.member[k]);
                ck_assert_uint_eq(spot_form_replica(&f, p, 2 * d + m), f.member[k]);
                /* the first of the last stage tells the losses */
                spot_form_losses(&f, k, &begin, &end);
                ck_assert_int_eq(begin, p == 1 && m == 0 ? f.share[d] : 0);
                ck_assert_int_eq(end, p == 1 && m == 0 ? f.share[d + 1] : 0);
            }
    spot_form_losses(&f, -1, &begin, &end);
    ck_assert_int_eq(end - begin, 0);
}
END_TEST

START_TEST(a_pipeline_without_a_microbatch_is_refused)
{
    struct spot_form f = make(), got;
    uint32_t share[] = { 0, 7, 7 };
    struct spot_buf out = { 0 };

    f.share = share;
    spot_form_put(&out, &f);
    ck_assert_int_eq(spot_form_get(&got, out.data, out.n, bounds(5, G), NULL), -1);
    spot_buf_release(&out);
}
END_TEST

static struct spot_job_config config_of(void)
{
    return (struct spot_job_config){ .shape = { 2, 16, 2, 8, 256, 2 },
                                     .micro_batch = 1,
                                     .global_batch = 4,
                                     .n_step = 10,
                                     .seed = 3,
                                     .data_xxh3 = 4,
                                     .adamw = { 1e-3, 0.9, 0.95, 1e-8, 0.1 },
                                     .clip_norm = 1,
                                     .kernel = "portable" };
}

START_TEST(sources_come_back_and_cut_anywhere_they_are_refused)
{
    uint64_t hash[] = { 1, UINT64_MAX, 7 };
    const struct spot_state_sources s = {
        .state = "/a/b", .job = 12, .load = "/c", .load_xxh3 = hash, .n_load = 3
    };
    struct spot_state_sources got;
    struct spot_buf out = { 0 };

    spot_state_sources_put(&out, &s);
    for (size_t n = 0; n <= out.n; n++) {
        struct spot_wire_in in = spot_wire_in(out.data, n);

        spot_state_sources_get(&in, &got);
        ck_assert_int_eq(spot_wire_in_done(&in), n == out.n);
        if (n == out.n) {
            ck_assert_str_eq(got.state, s.state);
            ck_assert_str_eq(got.load, s.load);
            ck_assert_uint_eq(got.job, s.job);
            ck_assert_uint_eq(got.n_load, s.n_load);
            ck_assert_mem_eq(got.load_xxh3, hash, sizeof(hash));
        }
        spot_state_sources_release(&got);
    }
    spot_buf_release(&out);
}
END_TEST

START_TEST(a_config_comes_back_and_names_its_trajectory)
{
    const struct spot_job_config c = config_of();
    struct spot_job_config got, other = c;
    struct spot_buf out = { 0 };
    struct spot_wire_in in;

    spot_job_config_put(&out, &c);
    in = spot_wire_in(out.data, out.n);
    memset(&got, 0, sizeof(got));
    spot_job_config_get(&in, &got);
    ck_assert(spot_wire_in_done(&in));
    ck_assert_int_eq(spot_job_config_check(&got, NULL), 0);
    ck_assert_uint_eq(spot_job_id(&got), spot_job_id(&c));
    other.n_step = 99; /* more steps of the same job */
    ck_assert_uint_eq(spot_job_id(&other), spot_job_id(&c));
    other = c;
    other.comm = SPOT_COMM_NCCL; /* another transport, the same bits */
    ck_assert_uint_eq(spot_job_id(&other), spot_job_id(&c));
    other = got;
    other.weight_xxh3 = 77; /* weights of its losses, which workers are told of */
    out.n = 0;
    spot_job_config_put(&out, &other);
    in = spot_wire_in(out.data, out.n);
    spot_job_config_get(&in, &got);
    ck_assert(spot_wire_in_done(&in));
    ck_assert_uint_eq(got.weight_xxh3, 77);
    ck_assert_int_eq(spot_job_words(&got), 2 * got.shape.seq + 1);
    ck_assert_int_eq(spot_job_words(&c), c.shape.seq + 1);
    for (int k = 0; k < 10; k++) {
        other = c;
        other.weight_xxh3 += k == 9;
        other.reduce = k == 8 ? SPOT_REDUCE_FAST : SPOT_REDUCE_EXACT;
        other.shape.n_layer += k == 0;
        other.seed += k == 1;
        other.data_xxh3 += k == 2;
        other.init_xxh3 += k == 7;
        other.adamw.lr *= k == 3 ? 2 : 1;
        other.global_batch += k == 4;
        other.clip_norm += k == 5;
        other.kernel[0] = k == 6 ? 'q' : 'p';
        ck_assert_uint_ne(spot_job_id(&other), spot_job_id(&c));
    }
    spot_buf_release(&out);
}
END_TEST

START_TEST(a_llama_comes_back_and_names_its_own_trajectory)
{
    struct spot_job_config c = config_of(), got, other;
    struct spot_buf out = { 0 };
    struct spot_wire_in in;

    c.shape = (struct spot_shape){
        2, 16, 4, 8, 256, 2, SPOT_DECODER_LLAMA, 2, 44, 1e4, false, .norm_eps = 1e-6
    };
    spot_job_config_put(&out, &c);
    in = spot_wire_in(out.data, out.n);
    memset(&got, 0x55, sizeof(got));
    spot_job_config_get(&in, &got);
    ck_assert(spot_wire_in_done(&in));
    ck_assert_mem_eq(&got.shape, &c.shape, offsetof(struct spot_shape, is_tied)); /* then padding */
    ck_assert(got.shape.is_tied == c.shape.is_tied && got.shape.norm_eps == c.shape.norm_eps);
    ck_assert_int_eq(spot_job_config_check(&got, NULL), 0);
    for (int k = 0; k < 5; k++) {
        other = c;
        other.shape.norm_eps *= k == 4 ? 2 : 1;
        other.shape.kind.family -= k == 0;
        other.shape.n_kv_head += k == 1;
        other.shape.ffn += k == 2;
        other.shape.rope_theta += k == 3;
        ck_assert_uint_ne(spot_job_id(&other), spot_job_id(&c));
    }
    spot_buf_release(&out);
}
END_TEST

START_TEST(a_state_of_before_there_were_llamas_or_other_eps_is_of_the_same_job)
{
    struct spot_job_config c = config_of();

    ck_assert_uint_eq(spot_job_id(&c), UINT64_C(0x13a78dc171c9bc95));
    c.shape.norm_eps = 1e-5; /* said, or left to be the usual one */
    ck_assert_uint_eq(spot_job_id(&c), UINT64_C(0x13a78dc171c9bc95));
    c.shape.norm_eps = (double)1e-5F; /* as a file may write it */
    ck_assert_uint_eq(spot_job_id(&c), UINT64_C(0x13a78dc171c9bc95));
    c.shape.norm_eps = 1e-6;
    ck_assert_uint_ne(spot_job_id(&c), UINT64_C(0x13a78dc171c9bc95));
}
END_TEST

START_TEST(a_config_that_cannot_run_is_refused)
{
    for (int k = 0; k < 16; k++) {
        struct spot_job_config c = config_of();

        c.shape.vocab = k == 0 ? (1 << 20) + 1 : c.shape.vocab;
        c.micro_batch = k == 1 ? 0 : k == 2 ? 3 : k == 3 ? -1 : 1;
        c.global_batch = k == 4 ? 0 : k == 5 ? 5000 : k == 6 ? INT64_MIN : 4;
        c.n_step = k == 7 ? 0 : 10;
        c.adamw.lr = k == 8 ? 0.0 / 0.0 : k == 9 ? -1 : 1e-3;
        c.clip_norm = k == 10 ? 1 / 0.0 : 1;
        c.shape.width = k == 11 ? 1 << 15 : 16;
        c.comm = k == 12 ? SPOT_COMM_NCCL : k == 13 ? 7 : SPOT_COMM_SOCKETS;
        c.reduce = k == 14 ? SPOT_REDUCE_FAST : SPOT_REDUCE_EXACT;
        if (k > 14)
            c.shape = (struct spot_shape){ 2, 16, 2,   8,     256,          2, SPOT_DECODER_LLAMA,
                                           2, 44, 1e4, false, .norm_eps = 0 };
        c.shape.ffn = k == 15 ? 45 : c.shape.ffn;
        ck_assert_msg(spot_job_config_check(&c, NULL) == -1, "case %d", k);
    }
}
END_TEST

int main(void)
{
    return run_suite("form", add_tests(tcase_create("core")));
}
