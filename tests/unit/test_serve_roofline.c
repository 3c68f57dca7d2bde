/* SPDX-License-Identifier: MIT */
/* Goal: a profile by roofline says what hardware and model allow, and no less memory than they
 * need. Oracles: each matrix counted by hand; the profile written for another length; every
 * pipeline enumerated; what SpotServe measured on its GPUs, which no peak may beat. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/catalogue.h"
#include "model/job_doc.h"
#include "model/serve_roofline.h"
#include "suite.h"

static const struct spot_shape llama = { .n_layer = 32,
                                         .width = 4096,
                                         .n_head = 32,
                                         .seq = 8192,
                                         .vocab = 128256,
                                         .kind = SPOT_DECODER_LLAMA,
                                         .n_kv_head = 8,
                                         .ffn = 14336,
                                         .rope_theta = 5e5 };

static struct spot_roofline a100(void)
{
    return (struct spot_roofline){ .gpus = 8,
                                   .gpu_byte = 40e9,
                                   .flop_per_s = 312e12,
                                   .mem_byte_per_s = 1555e9,
                                   .link_byte_per_s = 300e9,
                                   .nic_byte_per_s = 50e9,
                                   .latency_s = 1e-5,
                                   .weight_byte = 2,
                                   .value_byte = 2,
                                   .max_M = 8,
                                   .max_batch = 8,
                                   .prompt_token = 512,
                                   .output_token = 128,
                                   .context = 640 };
}

static void make(struct spot_job_serve *s, const struct spot_shape *shape,
                 const struct spot_roofline *r)
{
    struct spot_err err;

    ck_assert_msg(!spot_serve_roofline(s, shape, r, &err), "%s", err.msg);
}

static const struct spot_serve_cell *cell(const struct spot_job_serve *s, int64_t M, int64_t B)
{
    for (size_t i = 0; i < s->n_cell; i++)
        if (s->cell[i].M == M && s->cell[i].B == B)
            return &s->cell[i];
    return NULL;
}

/* Of prompts of p tokens, as the profile says it of one layer in one stage. */
static double prefill(struct spot_job_serve s, int64_t M, int64_t B, int64_t p)
{
    const struct spot_serve_shape shape = { 1, M, B, 1, 1 };
    const struct spot_serve_length length = { p, 1, 0 };
    struct spot_serve_time time;

    s.layers = s.stage_layers = 1;
    ck_assert_int_eq(spot_serve_time_of(&s, &shape, &length, &time), 0);
    return time.prefill_s;
}

/* --- time --- */

/* Llama 8B, two of its ranks: wq, wk, wv, wo, gate, up, down, cut as they are in the engine. */
START_TEST(times_are_those_of_every_matrix_by_hand)
{
    enum { RANKS = 2, B = 4, P0 = 512 };
    const double matrix[7][2] = { { 4096, 2048 }, { 4096, 512 },  { 4096, 512 }, { 2048, 4096 },
                                  { 4096, 7168 }, { 4096, 7168 }, { 7168, 4096 } };
    const double norms = 2 * 4096, head = 4096 * 64128.0, cache = 2 * 4 * 128 * 2; /* k and v */
    const struct spot_roofline r = a100();
    const struct spot_serve_cell *c;
    struct spot_job_serve s;
    double elem = norms, flop = 0, scores = 0, head_s, sums_s, context = P0 + 64;

    for (int i = 0; i < 7; i++)
        elem += matrix[i][0] * matrix[i][1];
    flop = 2.0 * B * P0 * elem;
    for (int h = 0; h < 16; h++) /* half of p x p scores of 128, and their sum over values */
        scores += 2 * (0.5 * P0 * P0 * 128 * 2) * B;
    head_s = head * 2 / 1555e9 / 32;
    sums_s = 2 * (2 * 1e-5 + 2 * .5 * B * P0 * 4096 * 2 / 300e9);
    make(&s, &llama, &r);
    c = cell(&s, RANKS, B);
    ck_assert_double_eq_tol(c->prefill_s / ((flop + scores) / 312e12 + sums_s + head_s), 1, 1e-12);
    ck_assert_double_eq_tol(
        c->prefill_least_s / ((elem * 2 + B * P0 * cache) / 1555e9 + sums_s + head_s), 1, 1e-12);
    sums_s = 2 * (2 * 1e-5 + 2 * .5 * B * 4096 * 2 / 300e9);
    ck_assert_double_eq_tol(
        c->decode_s / ((elem * 2 + B * context * cache) / 1555e9 + sums_s + head_s), 1, 1e-12);
    ck_assert_double_eq_tol(c->decode_token_s, B * cache / 1555e9, 1e-18);
    ck_assert_int_eq(s.model_byte, 2 * 8030261248); /* 8.03e9 parameters, as they are published */
    spot_job_serve_release(&s);
}
END_TEST

/* Many requests at once, and arithmetic is what takes the time of a token too. */
START_TEST(a_large_batch_is_bound_by_arithmetic)
{
    struct spot_roofline r = a100();
    struct spot_job_serve s;
    const struct spot_serve_cell *c;
    const double elem = 218112000, per_token = 4 * 32 * 128; /* one rank; scores and values */

    r.max_batch = 1024;
    r.gpu_byte = 1e13;
    r.value_byte = 1e-3; /* next to no cache to be read */
    make(&s, &llama, &r);
    c = cell(&s, 1, 1024);
    ck_assert_double_eq_tol(
        c->decode_s / (1024 * (2 * elem + per_token * 576 + 2 * 4096 * 128256.0 / 32) / 312e12), 1,
        1e-9);
    ck_assert_double_eq_tol(c->decode_token_s / (1024 * per_token / 312e12), 1, 1e-12);
    spot_job_serve_release(&s);
}
END_TEST

/* Four of 32 experts: a token is multiplied with four; of 8 tokens each draws its own. */
START_TEST(experts_count_as_they_are_chosen)
{
    struct spot_shape dense = llama, moe = llama;
    const struct spot_roofline r = a100();
    struct spot_job_serve s;
    const double expert = 3 * 4096 * 448.0, rest = 4096.0 * (2 * 4096 + 2 * 1024) + 2 * 4096,
                 router = 32 * 4096, head_s = 2 * 4096 * 128256.0 / 1555e9 / 32,
                 cache_s = 576 * 2 * 8 * 128 * 2 / 1555e9;
    double byte;

    moe.ffn = 448; /* 32 of them are one of 14336 */
    moe.kind.n_expert = 32;
    moe.kind.n_chosen = 4;
    make(&s, &moe, &r);
    byte = 2 * (rest + router + 32 * expert * (1 - pow(1 - 4 / 32.0, 8)));
    ck_assert_double_eq_tol(cell(&s, 1, 8)->decode_s / (byte / 1555e9 + 8 * cache_s + head_s), 1,
                            1e-12);
    ck_assert_double_eq_tol(cell(&s, 1, 8)->prefill_token_s /
                                (8 * 2 * (rest + router + 4 * expert) / 312e12),
                            1, 1e-12);
    ck_assert_double_eq_tol(spot_roofline_gpu_byte(&r, &moe, 1, 1) -
                                spot_roofline_gpu_byte(&r, &dense, 1, 1),
                            32 * 2 * router, 1);
    spot_job_serve_release(&s);
}
END_TEST

/* Every other layer sees 100 positions. */
START_TEST(layers_with_a_window_read_no_more_than_it)
{
    struct spot_shape shape = llama;
    const struct spot_roofline r = a100();
    struct spot_job_serve all, some;
    const double cache = 2 * 8 * 128 * 2, pair_s = 4 * 32 * 128 / 312e12;

    make(&all, &llama, &r);
    shape.kind.window = 100;
    shape.kind.local = (struct spot_layer_set){ 2, 1 };
    make(&some, &shape, &r);
    ck_assert_double_eq_tol(cell(&all, 1, 8)->decode_s - cell(&some, 1, 8)->decode_s,
                            8 * cache * (576 - 100) / 2 / 1555e9, 1e-12);
    ck_assert_double_eq_tol(cell(&some, 1, 8)->decode_token_s, 8 * cache / 2 / 1555e9, 1e-15);
    ck_assert_double_eq_tol(cell(&all, 1, 8)->prefill_s - cell(&some, 1, 8)->prefill_s,
                            8 * pair_s / 2 * (512 * 512 / 2.0 - 512 * 100), 1e-12);
    shape.kind.window = 4096; /* no prompt reaches it */
    spot_job_serve_release(&some);
    make(&some, &shape, &r);
    ck_assert(cell(&all, 1, 8)->prefill_s == cell(&some, 1, 8)->prefill_s);
    spot_job_serve_release(&all);
    spot_job_serve_release(&some);
}
END_TEST

/* A second method for lengths: the profile written for the other length says the same of it. */
START_TEST(a_profile_says_of_another_length_what_one_written_for_it_does)
{
    static const int64_t prompt[] = { 1, 16, 100, 2000, 8000 };
    struct spot_roofline r = a100(), other;

    r.context = 8192;
    for (int i = 0; i < 5; i++) {
        struct spot_job_serve s, of_it;

        other = r;
        other.prompt_token = prompt[i];
        make(&s, &llama, &r);
        make(&of_it, &llama, &other);
        for (size_t k = 0; k < s.n_cell; k++) {
            const int64_t M = s.cell[k].M, B = s.cell[k].B;
            const double told = prefill(s, M, B, prompt[i]);

            ck_assert_double_eq_tol(told / prefill(of_it, M, B, prompt[i]), 1, 1e-9);
            ck_assert_double_eq_tol(
                told, fmax(of_it.cell[k].prefill_s, of_it.cell[k].prefill_least_s), 1e-9 * told);
            ck_assert_double_eq_tol(s.cell[k].decode_s + s.cell[k].decode_token_s *
                                                             (double)(prompt[i] - r.prompt_token),
                                    of_it.cell[k].decode_s,
                                    1e-9); /* memory decides in all of them */
        }
        spot_job_serve_release(&s);
        spot_job_serve_release(&of_it);
    }
}
END_TEST

START_TEST(more_work_takes_no_less_and_better_hardware_no_more)
{
    struct spot_roofline r = a100(), better[4];
    struct spot_job_serve s;

    for (int k = 0; k < 4; k++)
        better[k] = r;
    better[0].flop_per_s *= 2;
    better[1].mem_byte_per_s *= 2;
    better[2].link_byte_per_s *= 2;
    better[3].latency_s /= 2;
    make(&s, &llama, &r);
    for (size_t i = 0; i < s.n_cell; i++) {
        const struct spot_serve_cell *c = &s.cell[i], *twice = cell(&s, c->M, 2 * c->B);

        for (int64_t p = 1; p < 8192; p *= 2)
            ck_assert(prefill(s, c->M, c->B, 2 * p) >= prefill(s, c->M, c->B, p));
        ck_assert(!twice || (twice->prefill_s >= c->prefill_s && twice->decode_s >= c->decode_s));
        ck_assert(!twice || twice->decode_s <= 2 * c->decode_s);
        for (int k = 0; k < 4; k++) {
            struct spot_job_serve b;

            make(&b, &llama, &better[k]);
            ck_assert(b.cell[i].prefill_s <= c->prefill_s && b.cell[i].decode_s <= c->decode_s);
            ck_assert(b.cell[i].prefill_least_s <= c->prefill_least_s);
            spot_job_serve_release(&b);
        }
    }
    /* and over links that cost nothing, more ranks are sooner done */
    r.link_byte_per_s = r.nic_byte_per_s = INFINITY;
    r.latency_s = 0;
    spot_job_serve_release(&s);
    make(&s, &llama, &r);
    for (int64_t M = 2; M <= 8; M *= 2)
        ck_assert(cell(&s, M, 4)->prefill_s < cell(&s, M / 2, 4)->prefill_s &&
                  cell(&s, M, 4)->decode_s < cell(&s, M / 2, 4)->decode_s);
    spot_job_serve_release(&s);
}
END_TEST

/* Its T4s, fp32: 8.1e12 operations and 320e9 bytes a second at their peak. */
START_TEST(nothing_that_spotserve_measured_beats_the_peak)
{
    static const struct {
        const char *model;
        int64_t layers, width, heads;
    } of[] = { { "6.7b", 32, 4096, 32 }, { "20b", 44, 6144, 48 }, { "30b", 48, 7168, 56 } };

    for (int i = 0; i < 3; i++) {
        const struct spot_shape shape = { .n_layer = of[i].layers,
                                          .width = of[i].width,
                                          .n_head = of[i].heads,
                                          .seq = 640,
                                          .vocab = 51200 };
        struct spot_roofline r = { .gpus = 4,
                                   .gpu_byte = 1e12,
                                   .flop_per_s = 8.1e12,
                                   .mem_byte_per_s = 320e9,
                                   .link_byte_per_s = INFINITY,
                                   .nic_byte_per_s = INFINITY,
                                   .weight_byte = 4,
                                   .value_byte = 4,
                                   .max_M = 16,
                                   .max_batch = 8,
                                   .prompt_token = 512,
                                   .output_token = 128,
                                   .context = 640 };
        struct spot_job_serve peak, usual;
        struct spot_job_doc job;
        struct spot_err err;
        char path[64];

        snprintf(path, sizeof(path), "examples/serve/gpt-%s.json", of[i].model);
        ck_assert_int_eq(spot_job_doc_load(&job, path, &err), 0);
        make(&peak, &shape, &r);
        r.flop_per_s *= 0.5;
        r.mem_byte_per_s *= 0.75;
        make(&usual, &shape, &r);
        for (size_t k = 0; k < job.serve.n_cell; k++) {
            const struct spot_serve_cell *was = &job.serve.cell[k];
            const struct spot_serve_cell *is = cell(&peak, was->M, was->B);
            const struct spot_serve_cell *told = cell(&usual, was->M, was->B);

            if (!is)
                continue;
            /* the head's share is not in their layers */
            ck_assert_msg(was->decode_s > is->decode_s * 0.95 && was->prefill_s > is->prefill_s,
                          "%s: M %d, B %d", of[i].model, (int)was->M, (int)was->B);
            if (was->M == 1) /* no links in it: the default shares of the peaks */
                ck_assert_msg(fabs(log(told->prefill_s / was->prefill_s)) < log(1.35) &&
                                  fabs(log(told->decode_s / was->decode_s)) < log(1.2),
                              "%s: B %d", of[i].model, (int)was->B);
        }
        spot_job_serve_release(&peak);
        spot_job_serve_release(&usual);
        spot_job_doc_release(&job);
    }
}
END_TEST

/* --- memory --- */

/* Of the fullest GPU, summed stage by stage: Llama 8B in 16 bits, 8 requests of 640 tokens. */
static double fullest_byte(int P, int M)
{
    double most = 0;

    for (int p = 0, first = 0; p < P; p++) {
        const int next = 32 * (p + 1) / P;
        const int kv = M < 8 ? 8 / M : 1; /* heads of a rank: none is cut */
        double elem = 0;

        for (int layer = first; layer < next; layer++)
            elem += 2.0 * 4096 * (4096.0 / M) + 2.0 * 4096 * 128 * kv + 3.0 * 4096 * (14336.0 / M) +
                    2 * 4096 + 8.0 * 640 * 2 * 128 * kv;
        elem += p == 0 ? 4096.0 * (128256.0 / M) : 0;
        elem += p == P - 1 ? 4096.0 * (128256.0 / M) + 4096 : 0;
        most = fmax(most, 2 * elem);
        first = next;
    }
    return most;
}

START_TEST(the_fewest_gpus_are_those_from_which_on_all_pipelines_fit)
{
    static const double gpu_gb[] = { 40, 18.1, 10, 6, 4, 3, 2.3, 1.3 };

    for (int i = 0; i < 8; i++) {
        struct spot_roofline r = a100();
        struct spot_job_serve s;
        int bad = 0;

        r.gpu_byte = gpu_gb[i] * 1e9;
        make(&s, &llama, &r);
        for (int M = 1; M <= 8; M *= 2) {
            const bool has_room = fullest_byte(32, M) <= r.gpu_byte;

            ck_assert_int_eq(cell(&s, M, 1) != NULL, has_room);
            for (int P = 1; P <= 32; P *= 2) {
                ck_assert_double_eq_tol(
                    spot_roofline_gpu_byte(&r, &llama, P, M) / fullest_byte(P, M), 1, 1e-12);
                if (has_room && fullest_byte(P, M) > r.gpu_byte)
                    bad = P * M > bad ? P * M : bad;
            }
        }
        ck_assert_int_eq(s.gpus_min, bad + 1);
        spot_job_serve_release(&s);
    }
}
END_TEST

START_TEST(what_cannot_fit_says_the_least_memory_that_would_do)
{
    struct spot_roofline r = a100();
    const double least = fullest_byte(32, 8);
    struct spot_job_serve s;
    struct spot_err err = { 0 };
    char told[64];

    r.gpu_byte = least - 1;
    ck_assert_int_eq(spot_serve_roofline(&s, &llama, &r, &err), -1);
    ck_assert_int_eq(err.code, SPOT_EINFEASIBLE);
    snprintf(told, sizeof(told), "; %.3f GB would do", ceil(1e-6 * least) * 1e-3);
    ck_assert_msg(strstr(err.msg, told), "%s, expected %s", err.msg, told);
    r.gpu_byte = least;
    make(&s, &llama, &r);
    ck_assert_ptr_null(cell(&s, 1, 1)); /* one rank alone holds too much of a layer */
    ck_assert_ptr_nonnull(cell(&s, 8, 8));
    spot_job_serve_release(&s);
}
END_TEST

START_TEST(what_makes_no_profile_is_refused)
{
    static const struct {
        int64_t batch, ranks, prompt, context;
        const char *message;
    } bad[] = { { 3, 1, 8, 100, "a batch of 3 is not a power of two" },
                { 2048, 1, 8, 100, "a batch of 2048" },
                { 1, 64, 8, 100, "64 ranks of a tensor group, expected 1 to the 32 heads" },
                { 1, 1, 90, 100, "a prompt of 90 and an answer of 20 tokens are beyond" },
                { 1, 1, 8, 9000, "a context of 9000 is beyond the model's 8192" } };

    for (int i = 0; i < 5; i++) {
        struct spot_roofline r = a100();
        struct spot_job_serve s;
        struct spot_err err;

        r.max_batch = bad[i].batch;
        r.max_M = bad[i].ranks;
        r.prompt_token = bad[i].prompt;
        r.output_token = 20;
        r.context = bad[i].context;
        ck_assert_int_eq(spot_serve_roofline(&s, &llama, &r, &err), -1);
        ck_assert_int_eq(err.code, SPOT_EDATA);
        ck_assert_msg(strstr(err.msg, bad[i].message), "%s", err.msg);
    }
}
END_TEST

/* --- catalogue --- */

static int find(struct spot_catalogue_type *t, const char *text, struct spot_err *err)
{
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    const int rc = spot_catalogue_find(t, "b", in, "c.csv", NULL, err);

    fclose(in);
    return rc;
}

START_TEST(a_type_is_found_with_what_is_known_of_it)
{
    struct spot_catalogue_type t;
    struct spot_err err;

    ck_assert_int_eq(find(&t,
                          "gpu_flop_per_s,instance_type,gpus,x,spot_usd_per_h\n"
                          "1e12,a,2,,\n3e12,b,4,,0.5\n5e12,c,8,,\n",
                          &err),
                     0);
    ck_assert_int_eq(t.gpus, 4);
    ck_assert_double_eq(t.gpu_flop_per_s, 3e12);
    ck_assert_double_eq(t.spot_usd_per_h, 0.5);
    ck_assert(t.gpu_mem_byte < 0 && t.on_demand_usd_per_h < 0);
    ck_assert_int_eq(find(&t, "instance_type,gpus\na,2\n", &err), -1);
    ck_assert_str_eq(err.msg, "c.csv: no row has the instance type 'b'");
    ck_assert_int_eq(find(&t, "instance_type,gpus\nb,0\n", &err), -1);
    ck_assert_msg(strstr(err.msg, "c.csv:2:3: gpus: "), "%s", err.msg);
    ck_assert_int_eq(find(&t, "gpus\n1\n", &err), -1);
    ck_assert_msg(strstr(err.msg, "instance_type"), "%s", err.msg);
}
END_TEST

int main(void)
{
    return run_suite("serve_roofline", add_tests(tcase_create("serve_roofline")));
}
