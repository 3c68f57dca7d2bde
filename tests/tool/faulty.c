/* SPDX-License-Identifier: MIT */
/* faulty - a worker whose machine computes, or remembers, wrong numbers:
 *
 *   faulty ADDRESS NAME FAULT FROM PLACE BIT [ONCE]
 *
 * With FROM 0 the fault is there from the test at the start on, which it then fails. FAULT is
 * weight, moment, update, sum, activation, gemm, ulp or tokens. From the FROM-th step that it
 * computes on (1, 2,
 * ...), in each step, or with ONCE in that one alone, a bit is another: of a weight, before a step
 * or by its update, of the first moment beside it, of a gradient sum, of an activation that the
 * backward pass reads, of an element of the PLACE-th product; or each 1,000th product of a matrix
 * product is one ulp off; or of a token, after it came. Weights and moments stay wrong once they
 * are. PLACE chooses which, modulo their number.
 *
 * Nothing of this is in the product: the linker puts these functions before those of the library
 * (--wrap, tests/tests.mk). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/stage_cpu.h"
#include "train/pipeline.h"
#include "train/self_test.h"
#include "train/worker.h"

static const char *fault;
static long from, n_step, place, n_gemm;
static int bit;
static bool is_once, is_done;

static bool strikes(const char *what)
{
    return !strcmp(fault, what) && (is_once ? n_step == from && !is_done : n_step >= from);
}

static void flip(void *at, size_t size)
{
    ((uint8_t *)at)[(size_t)bit / 8 % size] ^= (uint8_t)(1 << bit % 8);
    is_done = true;
}

/* Element PLACE of the tensors of all bundles that the stage has. */
static struct spot_bundle *find(const struct spot_stage *s, size_t *element)
{
    struct spot_bundle *const bundle = s->bundle[place % s->n_bundle];
    const struct spot_tensor *const t = &bundle->arena.tensor[place % bundle->arena.n_tensor];

    *element = spot_arena_offset(&bundle->arena, (int)(t - bundle->arena.tensor), 0) +
               (size_t)(place % (t->rows * t->cols));
    return bundle;
}

void __real_spot_stage_begin(struct spot_stage *stage);
void __wrap_spot_stage_begin(struct spot_stage *stage);
void __real_spot_stage_update(struct spot_stage *stage, int bundle, const struct spot_adamw *adamw,
                              double scale);
void __wrap_spot_stage_update(struct spot_stage *stage, int bundle, const struct spot_adamw *adamw,
                              double scale);
void __real_spot_stage_forward(struct spot_stage *stage, int slot, const uint32_t *token,
                               const float *act_in, float *act_out, double *loss);
void __wrap_spot_stage_forward(struct spot_stage *stage, int slot, const uint32_t *token,
                               const float *act_in, float *act_out, double *loss);
void __real_spot_stage_backward(struct spot_stage *stage, int slot, const float *dact_out,
                                float *dact_in);
void __wrap_spot_stage_backward(struct spot_stage *stage, int slot, const float *dact_out,
                                float *dact_in);
struct spot_block __real_spot_gemm_part(const struct spot_cpu_kernel *kernel,
                                        const struct spot_gemm *g, int thread, int n_thread,
                                        const struct spot_gemm_work *work);
struct spot_block __wrap_spot_gemm_part(const struct spot_cpu_kernel *kernel,
                                        const struct spot_gemm *g, int thread, int n_thread,
                                        const struct spot_gemm_work *work);

static bool is_updated = true; /* since the last begin: a new step */

void __wrap_spot_stage_begin(struct spot_stage *stage)
{
    size_t e;
    struct spot_bundle *const bundle = find(stage, &e);

    n_step += is_updated;
    is_updated = false;
    n_gemm = 0;
    if (n_step == from && !is_done && !strcmp(fault, "weight"))
        flip(&bundle->plane[SPOT_PLANE_MASTER][e], sizeof(float));
    if (n_step == from && !is_done && !strcmp(fault, "moment"))
        flip(&bundle->plane[SPOT_PLANE_M][e], sizeof(float));
    __real_spot_stage_begin(stage);
}

void __wrap_spot_stage_update(struct spot_stage *stage, int bundle, const struct spot_adamw *adamw,
                              double scale)
{
    size_t e;
    struct spot_bundle *const struck = find(stage, &e);

    is_updated = true;
    __real_spot_stage_update(stage, bundle, adamw, scale);
    if (n_step == from && !is_done && !strcmp(fault, "update") && struck->index == bundle)
        flip(&struck->plane[SPOT_PLANE_MASTER][e], sizeof(float));
}

/* What a layer keeps for its backward pass, and what leaves the stage. */
void __wrap_spot_stage_forward(struct spot_stage *stage, int slot, const uint32_t *token,
                               const float *act_in, float *act_out, double *loss)
{
    const long n = (long)spot_stage_boundary_elem(stage);
    float *kept = act_out;

    __real_spot_stage_forward(stage, slot, token, act_in, act_out, loss);
    for (int i = 0; !kept && i < stage->n_bundle; i++)
        if (stage->slot && stage->slot[slot].save[i].mid)
            kept = stage->slot[slot].save[i].mid;
    if (kept && strikes("activation"))
        flip(&kept[place % n], sizeof(float));
}

void __wrap_spot_stage_backward(struct spot_stage *stage, int slot, const float *dact_out,
                                float *dact_in)
{
    size_t e;
    struct spot_bundle *const bundle = find(stage, &e);

    __real_spot_stage_backward(stage, slot, dact_out, dact_in);
    if (strikes("sum"))
        flip(&spot_stage_sum(stage, bundle->index)[e], sizeof(int64_t));
}

struct spot_block __wrap_spot_gemm_part(const struct spot_cpu_kernel *kernel,
                                        const struct spot_gemm *g, int thread, int n_thread,
                                        const struct spot_gemm_work *work)
{
    const struct spot_block b = __real_spot_gemm_part(kernel, g, thread, n_thread, work);
    const int64_t cols = b.col_end - b.col, n = (b.row_end - b.row) * cols;

    if (n > 0 && strikes("gemm") && n_gemm++ == place % 16)
        flip(&g->c[(b.row + place % n / cols) * g->c_row + b.col + place % n % cols],
             sizeof(float));
    if (strikes("ulp"))
        for (int64_t at = 999; at < n * g->k; at += 1000) {
            const int64_t i = at / g->k;
            float *const c = &g->c[(b.row + i / cols) * g->c_row + b.col + i % cols];

            *c = nextafterf(*c, INFINITY);
        }
    return b;
}

int __real_spot_pipeline_step(const struct spot_pipeline *pl, int64_t step, const uint32_t *token,
                              double *loss, const struct spot_pipeline_check *check,
                              struct spot_pipeline_times *times, struct spot_err *err);
int __wrap_spot_pipeline_step(const struct spot_pipeline *pl, int64_t step, const uint32_t *token,
                              double *loss, const struct spot_pipeline_check *check,
                              struct spot_pipeline_times *times, struct spot_err *err);

static void flip_token(const uint32_t *token, size_t n)
{
    if (n)
        flip((void *)(uintptr_t)&token[(size_t)place % n], 1);
}

int __wrap_spot_pipeline_step(const struct spot_pipeline *pl, int64_t step, const uint32_t *token,
                              double *loss, const struct spot_pipeline_check *check,
                              struct spot_pipeline_times *times, struct spot_err *err)
{
    const bool reads = pl->at.p == 0 || pl->at.p + 1 == pl->form->P;
    int64_t begin, end;

    n_step += is_updated; /* which begins here, not with the stage */
    spot_form_microbatches(pl->form, pl->at.d, &begin, &end);
    if (reads && strikes("tokens")) {
        flip_token(token, (size_t)(end - begin) * pl->n_token);
        if (!is_once)
            flip_token(check->token, (size_t)check->order.again.n * pl->n_token);
    }
    n_step -= is_updated;
    return __real_spot_pipeline_step(pl, step, token, loss, check, times, err);
}

/* The test of each kind, which is made once, without the fault. */
static void pass_test(void)
{
    const char *const what = fault, *name;
    bool runs_here;

    fault = "";
    for (size_t i = 0; (name = spot_kernel_list(i, "cpu", &runs_here)); i++)
        if (runs_here)
            (void)spot_self_test_passes(name);
    fault = what;
    n_step = 0;
    is_updated = true;
}

int main(int argc, char **argv)
{
    struct spot_worker_options options = {
        .backend = "cpu", .device = "auto", .n_thread = 1, .join_timeout_s = 60
    };
    struct spot_err err = { 0 };

    if (argc < 7)
        return 2;
    options.join = argv[1];
    options.name = argv[2];
    fault = argv[3];
    from = atol(argv[4]);
    place = atol(argv[5]);
    bit = atoi(argv[6]);
    is_once = argc > 7;
    if (from > 0)
        pass_test();
    if (!spot_worker_run(&options, &err))
        return 0;
    fprintf(stderr, "%s\n", err.msg);
    return spot_err_exit_status(&err);
}
