/* SPDX-License-Identifier: MIT */
/* The product for shapes that cuBLASLt refuses, and the question whether an algorithm adds up every
 * term, against double precision. */
#include <math.h>
#include <string.h>

#include "engine/cuda/device_state.h"
#include "ptx/rig.h"

enum { M = 19, N = 21, K = 37 };

static double term(const struct spot_product *p, int i, int j, int k)
{
    return rig_at(p->real, p->a, p->is_a_transposed ? k * M + i : i * K + k) *
           rig_at(p->real, p->b, p->is_b_transposed ? j * K + k : k * N + j);
}

static void product_of(enum spot_real real, bool is_c_float, int way)
{
    const enum spot_real out = is_c_float ? SPOT_F32 : real;
    struct spot_product p = { .real = real, .m = M, .n = N, .k = K, .is_c_float = is_c_float };

    p.a = rig_numbers(real, M * K, 1);
    p.b = rig_numbers(real, K * N, 1);
    p.is_a_transposed = way & 1;
    p.is_b_transposed = way & 2;
    p.epilogue = way & 1 ? SPOT_BIAS : SPOT_PLAIN;
    p.bias = rig_numbers(real, N, 1);
    p.c = rig_room(out, M * N);
    spot_device_plain_product(&p, NULL);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double want = p.epilogue == SPOT_BIAS ? rig_at(real, p.bias, j) : 0;

            for (int k = 0; k < K; k++)
                want += term(&p, i, j, k);
            rig_near("plain product", out, p.c, i * N + j, want, 1e-5);
        }
}

/* The question is answered by the plain product, and then by one that forgets the last term. */
static void question_of(enum spot_real real)
{
    struct spot_product p = { .real = real, .m = M, .n = N, .k = 300, .epilogue = SPOT_BIAS };
    uint32_t *const is_wrong = rig_room(SPOT_F32, 2);

    p.a = rig_room(real, M * p.k);
    p.b = rig_room(real, p.k * N);
    p.c = rig_room(real, M * N);
    p.bias = rig_room(real, N);
    memset(is_wrong, 0, 2 * sizeof(*is_wrong));
    rig_equal("questions", spot_device_questions(&p), 1);
    spot_device_ask_product(&p, 0, NULL);
    spot_device_plain_product(&p, NULL);
    spot_device_judge_product(&p, 0, &is_wrong[0], NULL);
    p.k--;
    spot_device_judge_product(&p, 0, &is_wrong[1], NULL);
    rig_equal("all terms are there", is_wrong[0], 0);
    rig_equal("a term is missing", is_wrong[1], 1);
}

void rig_products(enum spot_real real)
{
    for (int way = 0; way < 4; way++) {
        product_of(real, false, way);
        product_of(real, real == SPOT_BF16, way);
    }
    question_of(real);
}
