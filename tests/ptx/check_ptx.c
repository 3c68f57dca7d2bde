/* SPDX-License-Identifier: MIT */
/* Every kernel as nvcc compiled it, at small shapes against double precision, under several orders
 * of warps and blocks; then the same with kernels that are wrong on purpose, each of which must be
 * seen.
 *
 *   check_ptx [NAME] FILE.ptx...       TAP on standard output; NAME: that test alone
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/rig.h"

static uint64_t state;
static char wrong[256];

static double draw(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(state >> 11) / 0x1p52 - 1;
}

double rig_draw(void)
{
    return draw();
}

static uint16_t half_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void *rig_room(enum spot_real real, int64_t n)
{
    return ptx_memory((size_t)n * (real == SPOT_BF16 ? 2 : 4));
}

void *rig_numbers(enum spot_real real, int64_t n, double size)
{
    void *const x = rig_room(real, n);

    for (int64_t i = 0; i < n; i++)
        if (real == SPOT_BF16)
            ((uint16_t *)x)[i] = half_of((float)(draw() * size));
        else
            ((float *)x)[i] = (float)(draw() * size);
    return x;
}

double rig_at(enum spot_real real, const void *x, int64_t i)
{
    const uint32_t bits =
        real == SPOT_BF16 ? (uint32_t)((const uint16_t *)x)[i] << 16 : ((const uint32_t *)x)[i];
    float y;

    memcpy(&y, &bits, sizeof(y));
    return (double)y;
}

void rig_near(const char *what, enum spot_real real, const void *x, int64_t i, double want,
              double slack)
{
    const double got = rig_at(real, x, i),
                 limit = slack + fabs(want) * (real == SPOT_BF16 ? 0x1p-8 : 1e-5);

    if (!(fabs(got - want) <= limit) && !wrong[0])
        snprintf(wrong, sizeof(wrong), "%s [%lld] is %.9g, not %.9g", what, (long long)i, got,
                 want);
}

void rig_equal(const char *what, int64_t got, int64_t want)
{
    if (got != want && !wrong[0])
        snprintf(wrong, sizeof(wrong), "%s is %lld, not %lld", what, (long long)got,
                 (long long)want);
}

const char *rig_wrong(void)
{
    static char told[600];
    const char *const error = ptx_error();

    snprintf(told, sizeof(told), "%s", error ? error : wrong);
    wrong[0] = '\0';
    return told[0] ? told : NULL;
}

/* --- the tests ------------------------------------------------------------------ */

static const struct {
    const char *name;
    rig_test *run;
    bool is_bf16_only;
} tests[] = {
    { "element by element", rig_elements, false },
    { "products of our own, and a question to others", rig_products, false },
    { "SwiGLU", rig_swiglu, false },
    { "norms", rig_norms, false },
    { "sums of columns", rig_columns, false },
    { "embedding", rig_embedding, false },
    { "classifier", rig_classifier, false },
    { "classifier by shards", rig_shards, false },
    { "attention row by row", rig_rows_attention, false },
    { "attention on tensor cores, heads of 64", rig_flash_64, true },
    { "attention on tensor cores, heads of 128", rig_flash_128, true },
    { "rotation", rig_rotation, false },
    { "fixed-point sums", rig_quantise, false },
    { "norm of the gradient and AdamW", rig_update, false },
    { "products of few tokens", rig_skinny, false },
    { "rows of serving", rig_serving_rows, false },
    { "attention over pages", rig_paged, false },
    { "choosing tokens", rig_choose, false },
};

static const char *run(rig_test *test, enum spot_real real, uint64_t seed)
{
    ptx_seed(seed);
    state = 99;
    test(real);
    ptx_forget_memory();
    return rig_wrong();
}

/* --- what must be seen ------------------------------------------------------------- */

static const struct {
    rig_test *test;
    struct ptx_mutation m;
    const char *what;
} mutations[] = {
    { rig_flash_64,
      { "12flash_kernelILi64", "bar.sync", 0, PTX_DROP, 0, 0 },
      "forward, no barrier before a tile is read" },
    { rig_flash_64,
      { "12flash_kernelILi64", "bar.sync", 1, PTX_DROP, 0, 0 },
      "forward, no barrier before a tile is overwritten" },
    { rig_flash_128,
      { "12flash_kernelILi128", "bar.sync", 0, PTX_DROP, 0, 0 },
      "the same for heads of 128" },
    { rig_flash_128,
      { "12flash_kernelILi128", "bar.sync", 1, PTX_DROP, 0, 0 },
      "the same for heads of 128" },
    { rig_flash_64,
      { "flash_back_kernelILi64ELi64ELb1", "bar.sync", 0, PTX_DROP, 0, 0 },
      "keys backward, no barrier before a tile is read" },
    { rig_flash_64,
      { "flash_back_kernelILi64ELi64ELb1", "bar.sync", 1, PTX_DROP, 0, 0 },
      "keys backward, no barrier after" },
    { rig_flash_64,
      { "flash_back_kernelILi64ELi64ELb0", "bar.sync", 0, PTX_DROP, 0, 0 },
      "queries backward, no barrier before" },
    { rig_flash_64,
      { "flash_back_kernelILi64ELi64ELb0", "bar.sync", 1, PTX_DROP, 0, 0 },
      "queries backward, no barrier after" },
    { rig_flash_128,
      { "flash_back_kernelILi128", "bar.sync", 0, PTX_DROP, 0, 0 },
      "backward of heads of 128, no barrier before" },
    { rig_flash_128,
      { "flash_back_kernelILi128", "bar.sync", 1, PTX_DROP, 0, 0 },
      "backward of heads of 128, no barrier after" },
    { rig_flash_64,
      { "12flash_kernel", "cp.async.wait_group", 0, PTX_ADD, 0, 1 },
      "forward waits for one group less" },
    { rig_flash_64,
      { "flash_back_kernelILi64ELi64ELb1", "cp.async.wait_group", 0, PTX_ADD, 0, 1 },
      "keys backward wait for one group less" },
    { rig_flash_64,
      { "flash_back_kernelILi64ELi64ELb0", "cp.async.wait_group", 0, PTX_ADD, 0, 1 },
      "queries backward wait for one group less" },
    { rig_flash_128,
      { "128", "cp.async.wait_group", 0, PTX_ADD, 0, 1 },
      "heads of 128 wait for one group less" },
    { rig_flash_64,
      { "12flash_kernel", "cp.async.wait_group", 0, PTX_DROP, 0, 0 },
      "forward does not wait" },
    { rig_flash_64,
      { "12flash_kernel", "cp.async.commit_group", 0, PTX_DROP, 0, 0 },
      "the first tiles are no group of their own" },
    { rig_flash_64,
      { "12flash_kernel", "cp.async.cg", 2, PTX_DROP, 0, 0 },
      "rows of a tile are not fetched" },
    { rig_flash_64,
      { "12flash_kernel", "ldmatrix", 0, PTX_SWAP, 1, 2 },
      "matrices of a fragment of q swapped" },
    { rig_flash_64,
      { "12flash_kernel", "ldmatrix.sync.aligned.m8n8.x4.shared", 1, PTX_SWAP, 0, 3 },
      "matrices of a fragment of k swapped" },
    { rig_flash_64,
      { "12flash_kernel", "ldmatrix.sync.aligned.m8n8.x4.trans", 0, PTX_SWAP, 0, 1 },
      "matrices of a fragment of v swapped" },
    { rig_flash_64,
      { "12flash_kernel", "ldmatrix.sync.aligned.m8n8.x4.trans", 2, PTX_ADD, 4, 16 },
      "a fragment of v from the next columns" },
    { rig_flash_64,
      { "12flash_kernel", "mma", 0, PTX_SWAP, 8, 9 },
      "halves of a fragment of k swapped" },
    { rig_flash_64,
      { "12flash_kernel", "mma", 3, PTX_SWAP, 4, 5 },
      "rows of a fragment of q swapped" },
    { rig_flash_64,
      { "12flash_kernel", "mma", -1, PTX_SWAP, 0, 2 },
      "rows of all results swapped" },
    { rig_flash_64,
      { "12flash_kernel", "mma", 40, PTX_DROP, 0, 0 },
      "one product of probabilities and values is missing" },
    { rig_flash_64,
      { "flash_back_kernelILi64ELi64ELb1", "mma", 70, PTX_SWAP, 8, 9 },
      "a fragment of the keys' gradient swapped" },
    { rig_flash_64,
      { "flash_back_kernelILi64ELi64ELb0", "mma", 70, PTX_SWAP, 5, 6 },
      "a fragment of the queries' gradient swapped" },
    { rig_flash_128,
      { "flash_back_kernelILi128ELi32ELb1", "mma", 50, PTX_SWAP, 4, 7 },
      "the same for heads of 128" },
    { rig_flash_64,
      { "12flash_kernel", "shfl", 0, PTX_DROP, 0, 0 },
      "a maximum over two lanes instead of four" },
    { rig_flash_64,
      { "12flash_kernel", "shfl", 0, PTX_ADD, 3, 2 },
      "a maximum with a lane of another row" },
    { rig_flash_64,
      { "12flash_kernel", "ex2", 0, PTX_DROP, 0, 0 },
      "what was summed does not fade" },
    { rig_flash_64,
      { "12flash_kernel", "st.global.v2.u16", 0, PTX_ADD, 0, 2 },
      "a pair is stored beside its place" },
    { rig_flash_64,
      { "12flash_kernel", "st.global.f32", 0, PTX_DROP, 0, 0 },
      "a row's log-sum is not written" },
    { rig_flash_64,
      { "flash_five_kernelILi64", "bar.sync", 0, PTX_DROP, 0, 0 },
      "five products, no barrier before a tile is read" },
    { rig_flash_64,
      { "flash_five_kernelILi64", "bar.sync", 1, PTX_DROP, 0, 0 },
      "five products, gradients of scores read before they are there" },
    { rig_flash_64,
      { "flash_five_kernelILi64", "bar.sync", 2, PTX_DROP, 0, 0 },
      "five products, a tile is overwritten too early" },
    { rig_flash_128,
      { "flash_five_kernelILi128", "bar.sync", 0, PTX_DROP, 0, 0 },
      "the same for heads of 128, before" },
    { rig_flash_128,
      { "flash_five_kernelILi128", "bar.sync", 1, PTX_DROP, 0, 0 },
      "the same for heads of 128, between" },
    { rig_flash_128,
      { "flash_five_kernelILi128", "bar.sync", 2, PTX_DROP, 0, 0 },
      "the same for heads of 128, after" },
    { rig_flash_64,
      { "flash_five_kernelILi64", "cp.async.wait_group", 0, PTX_ADD, 0, 1 },
      "five products wait for one group less" },
    { rig_flash_128,
      { "flash_five_kernelILi128", "cp.async.wait_group", 0, PTX_DROP, 0, 0 },
      "five products do not wait" },
    { rig_flash_64,
      { "flash_five_kernelILi64", "ldmatrix.sync.aligned.m8n8.x4.shared", 1, PTX_SWAP, 0, 3 },
      "five products, matrices of a fragment swapped" },
    { rig_flash_64,
      { "flash_five_kernelILi64", "ldmatrix.sync.aligned.m8n8.x4.trans", 40, PTX_SWAP, 1, 2 },
      "five products, matrices of the gradients of scores swapped" },
    { rig_flash_64,
      { "flash_five_kernelILi64", "mma", 191, PTX_DROP, 0, 0 },
      "five products, one of the queries' gradient is missing" },
    { rig_flash_128,
      { "flash_five_kernelILi128", "mma", 100, PTX_SWAP, 4, 7 },
      "five products, heads of 128, rows of a fragment swapped" },
    { rig_flash_64,
      { "flash_five_kernelILi64", "st.shared.v2", 3, PTX_ADD, 0, 4 },
      "five products, a gradient of a score beside its place" },
    { rig_flash_64,
      { "flash_five_kernelILi64", "ld.global.v2", 5, PTX_DROP, 0, 0 },
      "five products, what earlier keys gave a query is forgotten" },
    { rig_flash_128,
      { "flash_five_kernelILi128", "st.global.v2.f32", 2, PTX_ADD, 0, 8 },
      "five products, what keys give a query beside its place" },
    { rig_flash_64,
      { "flash_five_kernelILi64", "ld.shared.f32", 0, PTX_ADD, 0, 4 },
      "five products, another query's log-sum" },
    { rig_quantise,
      { "quantise_kernelILi4", "ld.global.v2", 0, PTX_ADD, 0, 16 },
      "a pair of another sum" },
    { rig_columns,
      { "column_partial_kernelIfLi4", "ld.global", 0, PTX_ADD, 0, 16 },
      "columns of the neighbour" },
    { rig_columns,
      { "column_partial_kernelI13__nv_bfloat16Li4", "fma.rn.f32", 1, PTX_DROP, 0, 0 },
      "a row's part of a sum is left out" },
    { rig_rows_attention,
      { "14forward_kernel", "shfl.sync.idx", 0, PTX_ADD, 3, 1 },
      "a row's weight of the next key" },
    { rig_rows_attention, { "dot_kernel", "shfl", 2, PTX_DROP, 0, 0 }, "a sum over half a warp" },
    { rig_classifier,
      { "classify", "bar.sync", 0, PTX_DROP, 0, 0 },
      "maxima read before they are written" },
    { rig_classifier,
      { "classify", "bar.sync", 1, PTX_DROP, 0, 0 },
      "sums read before they are written" },
    { rig_classifier,
      { "classify", "st.shared", 1, PTX_ADD, 0, -4 },
      "a sum in another warp's place" },
    { rig_shards,
      { "10sum_kernel", "bar.sync", 0, PTX_DROP, 0, 0 },
      "sums of a shard before they are written" },
    { rig_shards,
      { "10top_kernel", "bar.sync", 0, PTX_DROP, 0, 0 },
      "tops before they are written" },
    { rig_embedding,
      { "token_back", "bar.sync", 0, PTX_DROP, 0, 0 },
      "a block's largest gradient too early" },
    { rig_embedding,
      { "position_back", "atom", 0, PTX_DROP, 0, 0 },
      "the largest gradient is not told" },
    { rig_update, { "norm2", "bar.sync", 0, PTX_DROP, 0, 0 }, "partial norms too early" },
    { rig_update, { "adamw", "atom", 0, PTX_DROP, 0, 0 }, "the largest sum is not told" },
    { rig_update, { "adamw", "fma.rn.f32", 0, PTX_SWAP, 1, 3 }, "a moment that is mixed up" },
    { rig_quantise,
      { "quantise", "add.rn.f64", -1, PTX_DROP, 0, 0 },
      "a gradient that is not rounded" },
    { rig_norms, { "11norm_kernel", "shfl", 0, PTX_ADD, 3, 1 }, "a sum over the wrong lanes" },
    { rig_norms, { "norm_back", "shfl", 9, PTX_DROP, 0, 0 }, "half a sum" },
    { rig_columns, { "column_total", "ld.global", -1, PTX_ADD, 0, 4 }, "the neighbour's column" },
    { rig_skinny,
      { "13skinny_kernel", "bar.sync", 0, PTX_DROP, 0, 0 },
      "inputs of a product read before they are there" },
    { rig_skinny,
      { "13skinny_kernel", "bar.sync", 1, PTX_DROP, 0, 0 },
      "sums of warps read before they are there" },
    { rig_skinny, { "13skinny_kernel", "st.shared", 1, PTX_ADD, 0, 4 }, "another token's input" },
    { rig_skinny, { "skinny_total", "add.f32", -1, PTX_DROP, 0, 0 }, "a split that is not added" },
    { rig_skinny, { "13skinny_kernel", "fma.rn.f32", 0, PTX_DROP, 0, 0 }, "an input left out" },
    { rig_skinny,
      { "12panel_kernelILi8", "bar.sync", 0, PTX_DROP, 0, 0 },
      "a prompt's inputs read before they are there" },
    { rig_skinny,
      { "12panel_kernelILi8", "bar.sync", 1, PTX_DROP, 0, 0 },
      "a prompt's inputs overwritten too early" },
    { rig_skinny,
      { "12panel_kernelILi1", "bar.sync", 0, PTX_DROP, 0, 0 },
      "the same for few tokens, before" },
    { rig_skinny,
      { "12panel_kernelILi1", "bar.sync", 1, PTX_DROP, 0, 0 },
      "the same for few tokens, after" },
    { rig_skinny,
      { "12panel_kernelILi8", "cp.async.wait_group", 0, PTX_ADD, 0, 1 },
      "a prompt waits for one group of weights less" },
    { rig_skinny,
      { "12panel_kernelILi1", "cp.async.wait_group", 0, PTX_ADD, 0, 1 },
      "few tokens wait for one group of weights less" },
    { rig_skinny,
      { "12panel_kernelILi8", "ldmatrix.sync.aligned.m8n8.x4.trans", 0, PTX_SWAP, 1, 2 },
      "matrices of a fragment of weights swapped" },
    { rig_skinny,
      { "12panel_kernelILi1", "ldmatrix.sync.aligned.m8n8.x4.shared", 0, PTX_SWAP, 0, 1 },
      "matrices of a fragment of inputs swapped" },
    { rig_skinny,
      { "12panel_kernelILi8", "mma", 1, PTX_DROP, 0, 0 },
      "the second part of an input is not multiplied" },
    { rig_skinny,
      { "12panel_kernelILi1", "mma", 4, PTX_SWAP, 8, 9 },
      "halves of a fragment of inputs swapped" },
    { rig_skinny,
      { "12panel_kernelILi8", "st.shared.v2", 0, PTX_ADD, 0, 144 },
      "a token's inputs in its neighbour's place" },
    { rig_skinny,
      { "12panel_kernelILi1", "sub.f32", 0, PTX_DROP, 0, 0 },
      "the rest of an input is not what is left" },
    { rig_skinny,
      { "12panel_kernelILi8", "add.f32", -1, PTX_DROP, 0, 0 },
      "a prompt's split that is not added" },
    { rig_serving_rows, { "pick", "ld.global", 0, PTX_ADD, 0, 4 }, "another row" },
    { rig_paged,
      { "12place_kernel", "bar.sync", 0, PTX_DROP, 0, 0 },
      "keys placed before they are turned" },
    { rig_paged,
      { "13attend_kernel", "bar.sync", 0, PTX_DROP, 0, 0 },
      "pages and keys before they are told" },
    { rig_paged,
      { "13attend_kernel", "bar.sync", 1, PTX_DROP, 0, 0 },
      "keys read before they are there" },
    { rig_paged,
      { "13attend_kernel", "bar.sync", 2, PTX_DROP, 0, 0 },
      "keys overwritten by values too early" },
    { rig_paged,
      { "13attend_kernel", "bar.sync", 3, PTX_DROP, 0, 0 },
      "values read before they are there" },
    { rig_paged,
      { "13attend_kernel", "setp.gt.s32", -1, PTX_ADD, 2, 1 },
      "a query that does not see its own key" },
    { rig_paged,
      { "13attend_kernel", "setp.gt.s32", -1, PTX_ADD, 2, -1 },
      "a query that sees the next key" },
    { rig_paged,
      { "13attend_kernel", "ldmatrix", 1, PTX_SWAP, 0, 1 },
      "matrices of a fragment of keys swapped" },
    { rig_paged,
      { "13attend_kernel", "ldmatrix", 30, PTX_SWAP, 1, 2 },
      "matrices of a fragment of values swapped" },
    { rig_paged,
      { "13attend_kernel", "mma", 0, PTX_SWAP, 8, 9 },
      "halves of a fragment of keys swapped" },
    { rig_paged,
      { "13attend_kernel", "mma", 3, PTX_SWAP, 4, 5 },
      "rows of a fragment of queries swapped" },
    { rig_paged, { "13attend_kernel", "mma", -1, PTX_SWAP, 0, 2 }, "rows of all results swapped" },
    { rig_paged,
      { "13attend_kernel", "mma", 2, PTX_DROP, 0, 0 },
      "the second piece of keys is not multiplied" },
    { rig_paged,
      { "13attend_kernel", "mma", 4, PTX_DROP, 0, 0 },
      "the third piece of keys is not multiplied" },
    { rig_paged,
      { "13attend_kernel", "mma", 6, PTX_DROP, 0, 0 },
      "the second piece of queries is not multiplied" },
    { rig_paged,
      { "13attend_kernel", "mma", 102, PTX_DROP, 0, 0 },
      "the second piece of weights is not multiplied" },
    { rig_paged,
      { "13attend_kernel", "mma", 99, PTX_SWAP, 8, 9 },
      "halves of a fragment of values swapped" },
    { rig_paged,
      { "13attend_kernel", "sub.f32", 4, PTX_DROP, 0, 0 },
      "the rest of a key is not what is left" },
    { rig_paged,
      { "13attend_kernel", "st.shared.v2", 4, PTX_ADD, 0, 272 },
      "a piece of a key in the next dimension's place" },
    { rig_paged,
      { "13attend_kernel", "shfl", 0, PTX_DROP, 0, 0 },
      "a largest score over two lanes" },
    { rig_paged,
      { "13attend_kernel", "shfl", 3, PTX_ADD, 3, 4 },
      "weights summed with a lane of another row" },
    { rig_paged, { "13attend_kernel", "ex2", 3, PTX_DROP, 0, 0 }, "a score that is no weight" },
    { rig_paged,
      { "13attend_kernel", "st.global.f32", 16, PTX_DROP, 0, 0 },
      "the largest score of a row is not written" },
    { rig_paged, { "11join_kernel", "ex2", -1, PTX_DROP, 0, 0 }, "a part that does not fade" },
    { rig_choose,
      { "13choose_kernel", "bar.sync", 0, PTX_DROP, 0, 0 },
      "tops of warps read early" },
    { rig_choose, { "13choose_kernel", "bar.sync", 1, PTX_DROP, 0, 0 }, "numbers read early" },
    { rig_choose, { "13choose_kernel", "bar.sync", 3, PTX_DROP, 0, 0 }, "sums read early" },
    { rig_choose, { "13choose_kernel", "bar.sync", 4, PTX_DROP, 0, 0 }, "a count overwritten" },
    { rig_choose, { "13choose_kernel", "bar.sync", 5, PTX_DROP, 0, 0 }, "a count read early" },
    { rig_choose, { "13choose_kernel", "bar.sync", 6, PTX_DROP, 0, 0 }, "places read early" },
    { rig_choose, { "13choose_kernel", "bar.sync", 7, PTX_DROP, 0, 0 }, "candidates sorted early" },
    { rig_choose, { "13choose_kernel", "bar.sync", 8, PTX_DROP, 0, 0 }, "padding sorted early" },
    { rig_choose, { "13choose_kernel", "bar.sync", 9, PTX_DROP, 0, 0 }, "steps of a sort mixed" },
    { rig_choose, { "13choose_kernel", "bar.sync", 10, PTX_DROP, 0, 0 }, "weights read early" },
    { rig_choose,
      { "13choose_kernel", "bar.sync", 11, PTX_DROP, 0, 0 },
      "sums read early, no filter" },
    { rig_choose, { "13choose_kernel", "bar.sync", 12, PTX_DROP, 0, 0 }, "a segment read early" },
    { rig_choose, { "13choose_kernel", "bar.sync", 13, PTX_DROP, 0, 0 }, "its weights read early" },
    { rig_choose, { "13choose_kernel", "shfl", 0, PTX_DROP, 0, 0 }, "a top over fewer lanes" },
    { rig_choose, { "13choose_kernel", "shfl", 10, PTX_DROP, 0, 0 }, "NaN over fewer lanes" },
    { rig_choose, { "13choose_kernel", "shfl", 25, PTX_DROP, 0, 0 }, "a count over fewer lanes" },
    { rig_choose, { "13choose_kernel", "setp.nan.f32", -1, PTX_DROP, 0, 0 }, "NaN as a logit" },
    { rig_choose, { "13choose_kernel", "selp.f32", -1, PTX_DROP, 0, 0 }, "zeros that differ" },
    { rig_choose,
      { "13choose_kernel", "setp.lt.u64", 0, PTX_DROP, 0, 0 },
      "a sort without comparing" },
    { rig_choose, { "13choose_kernel", "xor.pred", 1, PTX_DROP, 0, 0 }, "a sort in one direction" },
    { rig_choose,
      { "13choose_kernel", "st.shared.f64", 1, PTX_DROP, 0, 0 },
      "a candidate of no weight" },
    { rig_choose,
      { "13choose_kernel", "fma.rn.f64", -1, PTX_DROP, 0, 0 },
      "exponentials cut short" },
    { rig_choose, { "13choose_kernel", "abs.f64", 0, PTX_DROP, 0, 0 }, "a share from one side" },
    { rig_choose,
      { "13choose_kernel", "setp.gt.f64", 21, PTX_DROP, 0, 0 },
      "a draw that is never sure" },
    { rig_choose,
      { "13choose_kernel", "setp.lt.f64", 3, PTX_DROP, 0, 0 },
      "a draw sure on one side" },
};

enum {
    N_TEST = sizeof(tests) / sizeof(tests[0]),
    N_MUTATION = sizeof(mutations) / sizeof(mutations[0]),
    SEEDS = 2
};

static int number, n_failed;

static void tell(bool is_well, const char *what, const char *more)
{
    number++;
    n_failed += !is_well;
    printf("%sok %d - %s%s%s\n", is_well ? "" : "not ", number, what, more ? ": " : "",
           more ? more : "");
    fflush(stdout);
}

static bool is_wanted(const char *only, const char *name)
{
    return !only || !strcmp(only, name);
}

static void run_tests(const char *only)
{
    for (int i = 0; i < N_TEST; i++) {
        const char *bad = NULL;

        if (!is_wanted(only, tests[i].name))
            continue;
        for (int k = 0; !bad && k < 2 * SEEDS; k++)
            if (k % 2 || !tests[i].is_bf16_only)
                bad = run(tests[i].run, k % 2 ? SPOT_BF16 : SPOT_F32, (uint64_t)k + 1);
        tell(!bad, tests[i].name, bad);
    }
}

static void run_mutations(void)
{
    for (int i = 0; i < N_MUTATION; i++) {
        const int n = ptx_mutate(&mutations[i].m);
        const char *seen = NULL;
        char what[300];

        for (int k = 0; n && !seen && k < 2 * SEEDS; k++)
            seen = run(mutations[i].test, k % 2 ? SPOT_F32 : SPOT_BF16, (uint64_t)k + 1);
        snprintf(what, sizeof(what), "seen: %s", mutations[i].what);
        tell(seen != NULL, what, seen ? NULL : n ? "nobody noticed" : "no such instruction");
        if (seen)
            printf("# %s\n", seen);
    }
    ptx_mutate(NULL);
}

static void tell_coverage(void)
{
    const char *unrun[256];
    size_t n_run, n;

    ptx_coverage(&n_run, &n, unrun);
    tell(n_run == n, "every kernel ran", n_run < n ? unrun[0] : NULL);
}

/* A memcpy to an address whose alignment the compiler does not know becomes such stores. */
static void tell_stores(const char *only)
{
    static const char *const byte[] = { "st.global.u8", "st.global.b8" };
    const char *const name = "no kernel stores byte by byte";
    int n = 0;

    if (!is_wanted(only, name))
        return;
    for (int i = 0; i < 2; i++)
        n += ptx_mutate(&(struct ptx_mutation){ "", byte[i], -1, PTX_DROP, 0, 0 });
    ptx_mutate(NULL);
    tell(!n, name, n ? "one does" : NULL);
}

int main(int argc, char **argv)
{
    const char *const only = argc > 1 && !strstr(argv[1], ".ptx") ? argv[1] : NULL;

    for (int i = only ? 2 : 1; i < argc; i++)
        ptx_load(argv[i]);
    run_tests(only);
    tell_stores(only);
    if (!only) {
        tell_coverage();
        run_mutations();
    }
    printf("1..%d\n", number);
    fprintf(stderr, "%llu instructions of threads\n", (unsigned long long)ptx_count());
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
