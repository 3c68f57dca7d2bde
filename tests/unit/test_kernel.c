/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/simd.h"
#include "engine/cpu/gemm.h"
#include "engine/rope.h"
#include "suite.h"

#ifdef SPOT_CPU_X86
static bool has_avx2(void)
{
    return spot_simd_has(SPOT_SIMD_AVX2);
}
#else /* one variant */
#define spot_vec_avx2 spot_vec_sse2
static bool has_avx2(void)
{
    return false;
}
#endif

/* Goal: each kind of arithmetic gives the bits of its scalar definition, on every variant that
 * this CPU can run; the functions we have in place of libm's are as exact as floats are. */

static void fill(float *x, size_t n, struct spot_rng *rng)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(2 * spot_rng_unit(rng) - 1);
}

/* --- names ------------------------------------------------------------------ */

START_TEST(kinds_are_found_by_name)
{
    struct spot_err err = { 0 };
    bool runs_here;

    ck_assert_str_eq(spot_kernel_name(spot_kernel_find("portable", &err)), "portable");
    ck_assert_ptr_nonnull(spot_kernel_find("auto", &err));
    ck_assert_ptr_null(spot_kernel_find("fast", &err));
    ck_assert_int_eq(err.code, SPOT_EUSAGE);
    ck_assert_str_eq(err.msg,
                     "unknown kernel 'fast', expected auto, fma, fma-bf16, portable, cuda-bf16, "
                     "cuda-fp32, cuda-bf16-tp or cuda-fp32-tp");
    for (size_t i = 0; spot_kernel_list(i, "cpu", &runs_here); i++) {
        const char *const name = spot_kernel_list(i, "cpu", &runs_here);
        const struct spot_kernel *const k = spot_kernel_find(name, &err);

        ck_assert(runs_here == (k != NULL));
        if (k)
            ck_assert_str_eq(spot_kernel_name(k), name);
        else
            ck_assert_int_eq(err.code, SPOT_ESYS);
    }
}
END_TEST

/* --- matrix products ---------------------------------------------------------- */

/* The definition: one chain over k per output element and part; the parts in a tree of halves. */
static float scalar_part(const struct spot_gemm *g, bool is_fused, int64_t row, int64_t col, int p)
{
    const int64_t part = g->parts == SPOT_GEMM_SUM ? p : col / g->n;
    float s = g->is_added ? g->c[row * g->c_row + col] : 0;

    for (int64_t k = 0; k < g->k; k++) {
        const float a = g->a[row * g->a_row + (k + p * g->k) * g->a_col];
        const float b = g->b[part * g->b_part + k * g->b_row + col % g->n * g->b_col];

        if (is_fused) {
            s = fmaf(a, b, s);
        } else {
            const volatile float ab = a * b;

            s = s + ab;
        }
    }
    return s;
}

static float scalar_sum(const struct spot_gemm *g, bool is_fused, int64_t row, int64_t col,
                        int begin, int end)
{
    const int mid = (begin + end) / 2;

    return end - begin == 1 ? scalar_part(g, is_fused, row, col, begin)
                            : scalar_sum(g, is_fused, row, col, begin, mid) +
                                  scalar_sum(g, is_fused, row, col, mid, end);
}

static float scalar_element(const struct spot_gemm *g, bool is_fused, int64_t row, int64_t col)
{
    return scalar_sum(g, is_fused, row, col, 0, g->parts == SPOT_GEMM_SUM ? g->n_part : 1);
}

static int64_t pick(struct spot_rng *rng, const int64_t *from, int n)
{
    return from[spot_rng_below(rng, (uint64_t)n)];
}

static size_t up64(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* A product of random shape, strides, parts; c's neighbours must stay as they were. */
static void check_product(const struct spot_cpu_kernel *kernel, struct spot_rng *rng, int trial,
                          int n_thread)
{
    /* all rests of 14, rows of the largest tile */
    static const int64_t sizes[] = {
        1, 2, 5, 6, 7, 13, 16, 17, 18, 22, 23, 24, 25, 26, 33, 48, 100
    };
    static const int64_t ks[] = { 1, 3, 64, 255, 256, 257, 600 };
    const bool is_sum = spot_rng_below(rng, 2), is_a_t = spot_rng_below(rng, 2),
               is_b_t = spot_rng_below(rng, 2);
    struct spot_gemm g = { .m = pick(rng, sizes, 17),
                           .n = pick(rng, sizes, 17),
                           .k = pick(rng, ks, 7),
                           .parts = is_sum ? SPOT_GEMM_SUM : SPOT_GEMM_COLS,
                           .n_part = 1 + (int)spot_rng_below(rng, trial % 5 ? 4 : 16) };
    const int64_t cols = is_sum ? g.n : g.n * g.n_part, k_all = is_sum ? g.k * g.n_part : g.k;
    const size_t a_elem = (size_t)((g.m + 16) * k_all),
                 b_elem = (size_t)((g.n * g.k + 5) * g.n_part);
    const size_t c_elem = (size_t)(g.m * (cols + 3));
    float *const a = malloc(a_elem * sizeof(float)), *const b = malloc(b_elem * sizeof(float));
    float *const c = malloc(c_elem * sizeof(float)), *const want = malloc(c_elem * sizeof(float));
    int64_t n_done = 0;
    float *packed = NULL;
    struct spot_gemm_work work[4];
    float *memory[4];

    fill(a, a_elem, rng);
    fill(b, b_elem, rng);
    fill(c, c_elem, rng);
    memcpy(want, c, c_elem * sizeof(float));
    g.is_added = (!is_sum || g.n_part == 1) && spot_rng_below(rng, 2);
    g.a = a;
    g.a_row = is_a_t ? 1 : k_all;
    g.a_col = is_a_t ? g.m : 1;
    g.b = b;
    g.b_row = is_b_t ? 1 : g.n;
    g.b_col = is_b_t ? g.k : 1;
    g.b_part = g.n * g.k + 5;
    g.c = c;
    g.c_row = cols + 3;
    for (int64_t r = 0; r < g.m; r++)
        for (int64_t o = 0; o < cols; o++)
            want[r * g.c_row + o] =
                scalar_element(&g, strcmp(kernel->base.kind, "portable") != 0, r, o);
    for (int t = 0; t < n_thread; t++) {
        memory[t] = aligned_alloc(64, up64(spot_gemm_work_elem(g.n_part) * sizeof(float)));
        work[t] = spot_gemm_work_of(memory[t]);
    }
    if (g.n_part == 1) { /* small products may come with a in place and b packed before */
        g.is_a_in_place = spot_rng_below(rng, 2);
        packed = aligned_alloc(64, up64(spot_gemm_packed_elem(g.n, g.k) * sizeof(float)));
        spot_gemm_pack(kernel, &g, packed);
        g.b_packed = spot_rng_below(rng, 2) ? packed : NULL;
        g.packed_k = g.k;
    }
    for (int t = 0; t < n_thread; t++) {
        const struct spot_block block = spot_gemm_part(kernel, &g, t, n_thread, &work[t]);

        n_done += (block.row_end - block.row) * (block.col_end - block.col);
    }
    ck_assert_int_eq(n_done, g.m * cols);
    ck_assert_mem_eq(c, want, c_elem * sizeof(float));
    for (int t = 0; t < n_thread; t++)
        free(memory[t]);
    free(packed);
    free(a);
    free(b);
    free(c);
    free(want);
}

START_TEST(products_have_the_bits_of_their_scalar_definition)
{
    const struct spot_cpu_kernel *const kernel = spot_cpu_kernel_variant((size_t)_i);
    struct spot_rng rng;

    if (!kernel->runs_here())
        return;
    spot_rng_init(&rng, 3, (uint64_t)_i);
    for (int trial = 0; trial < 60; trial++)
        check_product(kernel, &rng, trial, 1 + trial % 4);
}
END_TEST

START_TEST(packing_makes_panels_of_any_width_from_either_direction)
{
    static const int64_t widths[] = { 4, 6, 14, 16, 32 };
    const struct spot_vec *const vec = _i ? &spot_vec_avx2 : &spot_vec_sse2;
    struct spot_rng rng;

    if (_i && !has_avx2())
        return;
    spot_rng_init(&rng, 4, 0);
    for (int trial = 0; trial < 300; trial++) {
        const int64_t n_line = 1 + (int64_t)spot_rng_below(&rng, 70),
                      n_k = 1 + (int64_t)spot_rng_below(&rng, 40), width = widths[trial % 5];
        const bool is_line_contiguous = spot_rng_below(&rng, 2);
        const int64_t line_stride = is_line_contiguous ? 1 : n_k + 3,
                      k_stride = is_line_contiguous ? n_line + 2 : 1;
        const int64_t n_panel = (n_line + width - 1) / width;
        float from[73 * 73], *const to = malloc((size_t)(n_panel * n_k * width + SPOT_PACK_SLACK) *
                                                sizeof(float));

        fill(from, sizeof(from) / sizeof(*from), &rng);
        vec->pack(to, from, n_line, line_stride, k_stride, n_k, width);
        for (int64_t p = 0; p < n_panel; p++)
            for (int64_t k = 0; k < n_k; k++)
                for (int64_t i = 0; i < width; i++) {
                    const int64_t line = p * width + i;
                    const float want = line < n_line ? from[line * line_stride + k * k_stride] : 0;

                    if (to[(p * n_k + k) * width + i] != want)
                        ck_abort_msg("width %d, line %d of %d, k %d of %d", (int)width, (int)line,
                                     (int)n_line, (int)k, (int)n_k);
                }
        free(to);
    }
}
END_TEST

/* --- vector functions ----------------------------------------------------------- */

enum { N = 75 };

START_TEST(exponential_and_logarithm_are_exact_to_rounding)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 1, 0);
    for (int i = 0; i < 20000; i++) {
        const double x = exp(60 * (spot_rng_unit(&rng) - 0.5));

        ck_assert_double_le(fabs(spot_log(x) - log(x)), 4e-16 * fmax(fabs(log(x)), 0.5));
    }
    ck_assert(spot_log(1) == 0);
    /* softmax of two elements is an exponential over a sum */
    for (int i = 0; i < 20000; i++) {
        const float d = (float)(-90 * spot_rng_unit(&rng));
        const double e = exp((double)d), want = e / (1 + e);
        float x[2] = { 0, d }, stat[2];

        spot_vec_sse2.softmax(x, 2, 2, 1, stat);
        ck_assert_double_le(fabs(x[1] - want), 3e-7 * want + 2e-38);
    }
}
END_TEST

START_TEST(gelu_and_its_slope_are_those_of_the_tanh_form)
{
    for (int i = -4000; i < 4000; i++) {
        const float in = 0.003F * (float)i, zero = 0;
        float x = in, act, again, slope;
        const double a = sqrt(2 / 3.14159265358979323846), v = in;
        const double t = tanh(a * (v + 0.044715 * v * v * v));

        spot_vec_sse2.gelu(&act, &x, &zero, 1);
        spot_vec_sse2.gelu_slope(&again, &slope, &x, 1);
        ck_assert(act == again && x == in);
        ck_assert_double_eq_tol(act, 0.5 * v * (1 + t), 4e-7 * fmax(1, fabs(v)));
        ck_assert_double_eq_tol(
            slope, 0.5 * (1 + t) + 0.5 * v * (1 - t * t) * a * (1 + 3 * 0.044715 * v * v), 1e-6);
    }
}
END_TEST

START_TEST(swiglu_and_its_gradients_are_those_of_the_definition)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 5, 0);
    for (int i = -4000; i < 4000; i++) {
        const float gate = 0.01F * (float)i, up = (float)(4 * spot_rng_unit(&rng) - 2), d = 0.7F;
        const double s = 1 / (1 + exp(-(double)gate)), v = gate;
        float act, dgate, dup;

        spot_vec_sse2.swiglu(&act, &gate, &up, 1);
        spot_vec_sse2.swiglu_back(&dgate, &dup, &gate, &up, &d, 1);
        ck_assert_double_eq_tol(act, v * s * up, 6e-7 * fabs(v * s * up) + 1e-35);
        ck_assert_double_eq_tol(dup, v * s * d, 6e-7 * fabs(v * s * d) + 1e-35);
        ck_assert_double_eq_tol(dgate, d * up * s * (1 + v * (1 - s)), 1e-6);
    }
}
END_TEST

START_TEST(rms_norm_is_that_of_its_definition)
{
    struct spot_rng rng;
    float x[3 * N], w[N], y[3 * N], stat[6];

    spot_rng_init(&rng, 6, 0);
    for (int64_t n = 1; n <= N; n++) {
        const float eps = n % 2 ? 1e-6F : 1e-2F;

        fill(x, (size_t)(3 * n), &rng);
        fill(w, (size_t)n, &rng);
        spot_vec_sse2.rms(y, stat, x, w, eps, 3, n);
        for (int64_t r = 0; r < 3; r++) {
            double square = 0;

            for (int64_t i = 0; i < n; i++)
                square += (double)x[r * n + i] * x[r * n + i];
            for (int64_t i = 0; i < n; i++)
                ck_assert_double_eq_tol(
                    y[r * n + i], x[r * n + i] / sqrt(square / (double)n + (double)eps) * w[i],
                    1e-6);
        }
    }
}
END_TEST

START_TEST(angles_of_rotary_positions_are_exact_to_rounding)
{
    enum { T = 3000, D = 64 };
    static float turn[T * D];
    struct spot_rng rng;

    spot_rng_init(&rng, 7, 0);
    for (int i = 0; i < 20000; i++) {
        const double x = spot_rng_unit(&rng) * exp(14 * spot_rng_unit(&rng) - 0.2);
        double s, c;

        ck_assert_double_le(fabs(spot_exp_down(-x / 2048) - exp(-x / 2048)),
                            1e-15 * exp(-x / 2048));
        spot_sincos(x, &s, &c);
        ck_assert_double_eq_tol(s, sin(x), 1e-15);
        ck_assert_double_eq_tol(c, cos(x), 1e-15);
    }
    ck_assert(spot_exp_down(0) == 1 && spot_exp_down(-1e6) == 0);
    ck_assert(spot_exp_down(-1e300) == 0 && spot_exp_down(-INFINITY) == 0);
    ck_assert(isnan(spot_exp_down(NAN)));
    spot_rope_table(turn,
                    &(struct spot_shape){
                        .kind = SPOT_DECODER_LLAMA, .seq = T, .head_dim = D, .rope_theta = 10000 },
                    false);
    for (int t = 0; t < T; t++)
        for (int i = 0; i < D / 2; i++) {
            const double angle = t * pow(10000, -2.0 * i / D);

            ck_assert_double_eq_tol(turn[t * D + i], cos(angle), 4e-8);
            ck_assert_double_eq_tol(turn[t * D + D / 2 + i], sin(angle), 4e-8);
        }
}
END_TEST

START_TEST(quantise_rounds_to_nearest_even_and_reports_the_largest)
{
    const float g[] = { 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 0.49F, -7, 3, 0x1p20F, -0x1.000002p20F };
    const int64_t want[] = { 0, 2, 2, 0, -2, 0, -7, 3, 1 << 20, -(1 << 20) };
    const struct spot_vec *const vecs[] = { &spot_vec_sse2, &spot_vec_avx2 };
    const struct spot_vec *const vec = vecs[_i];
    float most;
    uint32_t top;

    if (_i && !has_avx2())
        return;
    for (int n = 1; n <= 10; n++) {
        int64_t sum[11];

        for (int i = 0; i < 11; i++)
            sum[i] = 1000 + i;
        top = vec->quantise(sum, g, n, 1, false);
        for (int i = 0; i < 11; i++)
            ck_assert_int_eq(sum[i], 1000 + i + (i < n ? want[i] : 0));
        memcpy(&most, &top, sizeof(most));
        ck_assert(most == (n < 3 ? g[n - 1] : n < 7 ? 2.5F : n < 9 ? 7 : 0x1.000002p20F) || n == 9);
    }
    for (int i = 0; i < 3; i++) {
        const float bad[] = { NAN, INFINITY, -INFINITY }, x[] = { 1, bad[i], 2 };
        int64_t sum[3] = { 0 };

        ck_assert_uint_ge(vec->quantise(sum, x, 3, 1, true), 0x7f800000U);
    }
}
END_TEST

START_TEST(fixed_point_is_exact_up_to_its_limit)
{
    struct spot_rng rng;

    spot_rng_init(&rng, 2, 0);
    for (int i = 0; i < 5000; i++) {
        const int e = (int)spot_rng_below(&rng, 51) - 10;
        const float g = (float)ldexp(2 * spot_rng_unit(&rng) - 1, e);
        int64_t sum = INT64_C(1) << 61;
        const int64_t old = sum, want = (int64_t)nearbyint(ldexp((double)g, 10));

        spot_vec_sse2.quantise(&sum, &g, 1, 1024, false);
        ck_assert_int_eq(sum - old, want);
        ck_assert(spot_vec_sse2.norm2(&sum, 1, 0x1p-30) ==
                  (double)sum * 0x1p-30 * ((double)sum * 0x1p-30));
    }
}
END_TEST

/* The functions of Llama's layers; fills 8 rows of results. */
static void run_llama(const struct spot_vec *v, int64_t n, uint64_t seed, float out[8][2 * N])
{
    struct spot_rng rng;
    float in[5][2 * N], stat[4];

    spot_rng_init(&rng, seed, 1);
    fill(in[0], sizeof(in) / sizeof(float), &rng);
    memset(out, 0, 8 * sizeof(out[0]));
    v->rms(out[0], stat, in[0], in[1], 1e-6F, 2, n);
    v->rms_again(out[1], stat, in[0], in[1], 2, n);
    v->rms_back(out[2], in[3], in[4], stat, in[0], in[1], 2, n);
    v->rms_grad(out[3], in[4], stat, in[0], 2, n, n / 3, n);
    v->swiglu(out[4], in[0], in[1], n);
    v->swiglu_back(out[5], out[6], in[0], in[1], in[2], n);
    memcpy(out[7], in[2], sizeof(out[7]));
    v->rotate(out[7], in[3], n, -1);
}

/* Runs every function on both tables; fills 16 rows of results. */
static void run_all(const struct spot_vec *v, int64_t n, uint64_t seed, float out[16][2 * N],
                    int64_t sum[N], double number[4])
{
    const struct spot_adamw_step step = { 1e-3F, 0.01F, 0.9F,  0.99F, 1e-8F,
                                          0.1F,  0.01F, 10.0F, 100.F, 0.1F };
    struct spot_rng rng;
    float in[6][2 * N], stat[4];
    uint32_t top;

    spot_rng_init(&rng, seed, 0);
    fill(in[0], sizeof(in) / sizeof(float), &rng);
    memset(out, 0, 16 * sizeof(out[0]));
    v->norm(out[0], stat, in[0], in[1], in[2], 1e-6F, 2, n);
    v->norm_again(out[1], stat, in[0], in[1], in[2], 2, n);
    v->norm_back(out[2], in[3], in[4], stat, in[0], in[1], 2, n);
    v->norm_grad(out[3], out[4], in[4], stat, in[0], 2, n, n / 3, n);
    v->column_sum(out[5], in[0], 2, n, n / 3, n);
    memcpy(out[6], in[0], sizeof(out[6]));
    v->add(out[6], in[1], n);
    v->mul(out[6], in[2], n);
    v->add2(out[6], in[3], in[4], n);
    v->gelu(out[7], out[6], in[0], n);
    v->gelu_slope(out[8], out[9], in[0], n);
    memcpy(out[10], in[0], sizeof(out[10]));
    v->softmax(out[10], n, n + 3, 2.5F, stat);
    memcpy(out[11], in[0], sizeof(out[11]));
    v->softmax_again(out[11], n, n + 3, 2.5F, stat);
    memcpy(out[12], in[1], sizeof(out[12]));
    v->softmax_back(out[12], out[11], n, 0.3F, 0.7F);
    out[13][0] = v->dot(in[0], in[1], n);
    memcpy(out[14], in[2], sizeof(out[14]));
    number[0] = v->exp_sum(out[14], n, v->max(out[14], n));
    v->scale(out[14], n, 0.1F);
    memset(sum, 0, N * sizeof(*sum));
    top = v->quantise(sum, in[3], n, 0x1p40, n % 2);
    number[1] = top;
    number[2] = v->norm2(sum, n, 0x1p-40);
    for (int i = 0; i < n; i++)
        in[5][i] *= in[5][i];
    number[3] = v->adamw(in[0], in[4], in[5], sum, n, &step);
    memcpy(out[15], in[0], sizeof(out[15]));
    for (int i = 0; i < n; i++)
        out[13][i + 1] = in[4][i] + in[5][i];
}

START_TEST(vector_functions_have_the_same_bits_on_every_variant)
{
    if (!has_avx2())
        return;
    for (int64_t n = 1; n <= N - 3; n++) {
        static float a[16][2 * N], b[16][2 * N];
        int64_t sum_a[N], sum_b[N];
        double number_a[4], number_b[4];

        run_all(&spot_vec_sse2, n, (uint64_t)n, a, sum_a, number_a);
        run_all(&spot_vec_avx2, n, (uint64_t)n, b, sum_b, number_b);
        ck_assert_mem_eq(a, b, sizeof(a));
        ck_assert_mem_eq(sum_a, sum_b, sizeof(sum_a));
        ck_assert_mem_eq(number_a, number_b, sizeof(number_a));
        ck_assert_mem_eq(a[0], a[1], sizeof(a[0]));   /* norm again */
        ck_assert_mem_eq(a[10], a[11], sizeof(a[0])); /* softmax again */
        run_llama(&spot_vec_sse2, n, (uint64_t)n, a);
        run_llama(&spot_vec_avx2, n, (uint64_t)n, b);
        ck_assert_mem_eq(a, b, 8 * sizeof(a[0]));
        ck_assert_mem_eq(a[0], a[1], sizeof(a[0])); /* norm again */
    }
}
END_TEST

START_TEST(results_do_not_depend_on_what_lies_behind_the_end)
{
    /* an odd length, then the same data with other values behind it */
    float x[2][40], stat[2];

    for (int64_t n = 1; n < 33; n++) {
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < 40; i++)
                x[k][i] = i < n ? (float)((i * 37) % 11) : (float)(100 * k + i);
        spot_vec_sse2.softmax(x[0], n, n, 1, stat);
        spot_vec_sse2.softmax(x[1], n, n, 1, stat);
        ck_assert_mem_eq(x[0], x[1], (size_t)n * sizeof(float));
        for (int i = (int)n; i < 40; i++)
            ck_assert(x[1][i] == (float)(100 + i));
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");
    int n_variant = 0;

    while (spot_cpu_kernel_variant((size_t)n_variant))
        n_variant++;
    tcase_add_test(tc, kinds_are_found_by_name);
    tcase_add_loop_test(tc, products_have_the_bits_of_their_scalar_definition, 0, n_variant);
    tcase_add_loop_test(tc, packing_makes_panels_of_any_width_from_either_direction, 0, 2);
    tcase_add_test(tc, exponential_and_logarithm_are_exact_to_rounding);
    tcase_add_test(tc, gelu_and_its_slope_are_those_of_the_tanh_form);
    tcase_add_test(tc, swiglu_and_its_gradients_are_those_of_the_definition);
    tcase_add_test(tc, rms_norm_is_that_of_its_definition);
    tcase_add_test(tc, angles_of_rotary_positions_are_exact_to_rounding);
    tcase_add_loop_test(tc, quantise_rounds_to_nearest_even_and_reports_the_largest, 0, 2);
    tcase_add_test(tc, fixed_point_is_exact_up_to_its_limit);
    tcase_add_test(tc, vector_functions_have_the_same_bits_on_every_variant);
    tcase_add_test(tc, results_do_not_depend_on_what_lies_behind_the_end);
    return run_suite("kernel", tc);
}
