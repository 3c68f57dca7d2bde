/* SPDX-License-Identifier: MIT */
/* Tokens chosen from rows of logits, as spot_sample_choose does. It adds weights one after the
 * other, in the order of tokens or of logits; here they are added in parts and computed a little
 * differently, so a sum may differ by less than SLACK of it. A comparison that this could turn is
 * not decided: the row is marked, and the host chooses from its logits. */
#include "engine/cuda/infer_kernels.h"
#include "engine/cuda/launch.cuh"

enum { CANDIDATES = SPOT_CUDA_CANDIDATES, SEGMENT = SPOT_CUDA_CHOOSE_MAX / BLOCK };

/* An exponential errs by less than 1e-12 on either side, a sum of 2^18 by 2^-35 of them. */
constexpr double SLACK = 1e-9;

typedef unsigned long long word;

struct room {
    double weight[CANDIDATES]; /* of candidates in order, or of a segment's tokens */
    word key[CANDIDATES];
    double sum[BLOCK]; /* of segments: BLOCK parts of the row, in order */
    word top[BLOCK / WARP];
    int count[BLOCK], n_warp[BLOCK / WARP];
    int n, segment;
    double before, target;
};

/* A row, and what is known of it. */
struct row {
    const float *logit;
    int n, n_number;     /* logits; those that are no NaN */
    uint32_t top, least; /* keys */
    double max, scale;
};

/* Ordered like the logits, in which both zeros are equal; 0: NaN. */
__device__ static uint32_t key_of(float x)
{
    const uint32_t bits = static_cast<uint32_t>(__float_as_int(x == 0 ? 0.0F : x));

    return x != x ? 0 : bits >> 31 ? ~bits : bits | 0x80000000U;
}

__device__ static float value_of(uint32_t key)
{
    return __int_as_float(static_cast<int>(key >> 31 ? key & 0x7fffffffU : ~key));
}

/* exp(x) for -700 <= x <= 0: x = -n ln 2 + r. */
__device__ static double exp_of(double x)
{
    constexpr double term[] = { 1.0 / 6227020800,
                                1.0 / 479001600,
                                1.0 / 39916800,
                                1.0 / 3628800,
                                1.0 / 362880,
                                1.0 / 40320,
                                1.0 / 5040,
                                1.0 / 720,
                                1.0 / 120,
                                1.0 / 24,
                                1.0 / 6,
                                1.0 / 2,
                                1,
                                1 };
    const int n = static_cast<int>(0.5 - x * 1.4426950408889634);
    const double r = fma(static_cast<double>(n), 1.9082149292705877e-10,
                         fma(static_cast<double>(n), 0.693147180369123816490, x));
    double p = 0;

#pragma unroll
    for (int i = 0; i < 14; i++)
        p = fma(p, r, term[i]);
    return p * __longlong_as_double(static_cast<long long>(1023 - n) << 52);
}

/* Relative to that of the largest; 0 of a NaN. */
__device__ static double weight_of(const struct row &w, float logit)
{
    const double x = (static_cast<double>(logit) - w.max) * w.scale;

    return x >= -700 ? exp_of(x) : 0;
}

/* Over a block; `room` is free again after the next barrier. */
__device__ static word block_top(word x, word *room)
{
    for (int d = WARP / 2; d > 0; d /= 2) {
        const word other = __shfl_xor_sync(ALL_LANES, x, d);

        x = other > x ? other : x;
    }
    if (threadIdx.x % WARP == 0)
        room[threadIdx.x / WARP] = x;
    __syncthreads();
    for (int i = 0; i < BLOCK / WARP; i++)
        x = room[i] > x ? room[i] : x;
    return x;
}

__device__ static int block_count(int x, int *room)
{
    for (int d = WARP / 2; d > 0; d /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, d);
    if (threadIdx.x % WARP == 0)
        room[threadIdx.x / WARP] = x;
    __syncthreads();
    x = 0;
    for (int i = 0; i < BLOCK / WARP; i++)
        x += room[i];
    return x;
}

/* The first of the largest logits, behind its key; 0: all are NaN. */
__device__ static word survey(struct room &r, struct row &w)
{
    word top = 0, least = 0;
    int n = 0;

    for (int i = static_cast<int>(threadIdx.x); i < w.n; i += BLOCK) {
        const uint32_t key = key_of(w.logit[i]);
        const word one = static_cast<word>(key) << 32 | ~static_cast<uint32_t>(i);

        if (!key)
            continue;
        n++;
        top = one > top ? one : top;
        least = ~key > least ? ~key : least;
    }
    top = block_top(top, r.top);
    w.n_number = block_count(n, r.n_warp); /* a barrier lies in it */
    least = block_top(least, r.top);
    w.top = static_cast<uint32_t>(top >> 32);
    w.least = ~static_cast<uint32_t>(least);
    w.max = static_cast<double>(value_of(w.top));
    return top;
}

/* --- in the order of tokens: all of them take part --- */

__device__ static int segment_length(const struct row &w)
{
    return (w.n + BLOCK - 1) / BLOCK;
}

/* Sums of the segments, and of all of them. */
__device__ static double sum_segments(struct room &r, const struct row &w)
{
    const int j = static_cast<int>(threadIdx.x), length = segment_length(w);
    const int end = (j + 1) * length < w.n ? (j + 1) * length : w.n;
    double sum = 0;

    for (int i = j * length; i < end; i++)
        sum += weight_of(w, w.logit[i]);
    r.sum[j] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < BLOCK; i++)
        sum += r.sum[i];
    return sum;
}

/* One thread: the segment in which the running sum passes the target; -1: none. */
__device__ static void find_segment(struct room &r, double target)
{
    double sum = 0;
    int s = 0;

    while (s < BLOCK && !(sum + r.sum[s] > target))
        sum += r.sum[s++];
    r.segment = s < BLOCK ? s : -1;
    r.before = sum;
    r.target = target;
}

/* One thread: the first of n weights at which the running sum, which begins with `sum`, passes the
 * target; -1 where it is not sure. */
__device__ static int passes(const double *weight, int n, double sum, double target, double slack)
{
    for (int i = 0; i < n; i++) {
        const double next = sum + weight[i];

        if (next > target)
            return next > target * (1 + slack) && (sum <= 0 || sum < target * (1 - slack)) ? i : -1;
        sum = next;
    }
    return -1;
}

/* No filter. A token whose weight the host takes for 0 is met by noise 0 alone. */
__device__ static int64_t draw_of_all(struct room &r, const struct row &w, double noise)
{
    const int length = segment_length(w);
    const double all = sum_segments(r, w);
    int at;

    if (threadIdx.x == 0)
        find_segment(r, noise * all);
    __syncthreads();
    if (r.segment < 0 || !(noise > 0))
        return -1;
    for (int i = static_cast<int>(threadIdx.x); i < length; i += BLOCK)
        r.weight[i] =
            r.segment * length + i < w.n ? weight_of(w, w.logit[r.segment * length + i]) : 0;
    __syncthreads();
    if (threadIdx.x != 0)
        return -1;
    at = passes(r.weight, length, r.before, r.target, SLACK);
    return at < 0 ? -1 : r.segment * length + at;
}

/* --- in the order of logits: the largest ones, which are candidates --- */

__device__ static int count_from(struct room &r, const struct row &w, uint32_t key)
{
    int n = 0;

    for (int i = static_cast<int>(threadIdx.x); i < w.n; i += BLOCK)
        n += key_of(w.logit[i]) >= key;
    __syncthreads(); /* all have read the last count */
    return block_count(n, r.n_warp);
}

/* A key that at most CANDIDATES logits reach: by halves of the range of logits and of the numbers
 * between them, in turn, until they are at least `want` or no key is left to try. */
__device__ static uint32_t threshold(struct room &r, const struct row &w, int want)
{
    uint32_t low = w.least, high = w.top + 1; /* more reach low, no more reach high */

    if (w.n_number <= CANDIDATES)
        return 1;
    for (int turn = 0; high - low > 1; turn++) {
        uint32_t middle = low + (high - low) / 2;

        if (turn % 2 == 0) {
            const uint32_t mean = key_of(value_of(low) * 0.5F + value_of(high - 1) * 0.5F);

            middle = mean > low && mean < high ? mean : middle;
        }
        const int n = count_from(r, w, middle);

        if (n > CANDIDATES) {
            low = middle;
            continue;
        }
        high = middle;
        if (n >= want)
            break;
    }
    return high;
}

/* The logits from this key on, in no order; behind each its token, the first of equal ones largest.
 */
__device__ static void gather(struct room &r, const struct row &w, uint32_t from)
{
    const int j = static_cast<int>(threadIdx.x);
    int n = 0;

    for (int i = j; i < w.n; i += BLOCK)
        n += key_of(w.logit[i]) >= from;
    r.count[j] = n;
    __syncthreads();
    n = 0;
    for (int i = 0; i < j; i++)
        n += r.count[i];
    if (j == BLOCK - 1)
        r.n = n + r.count[j];
    for (int i = j; i < w.n; i += BLOCK) {
        const uint32_t key = key_of(w.logit[i]);

        if (key >= from)
            r.key[n++] = static_cast<word>(key) << 32 | ~static_cast<uint32_t>(i);
    }
    __syncthreads();
}

/* Descending, by a bitonic network of the next power of two. */
__device__ static void sort(struct room &r)
{
    int size = 1;

    while (size < r.n)
        size *= 2;
    for (int i = r.n + static_cast<int>(threadIdx.x); i < size; i += BLOCK)
        r.key[i] = 0;
    __syncthreads();
    for (int k = 2; k <= size; k *= 2)
        for (int d = k / 2; d > 0; d /= 2) {
            for (int i = static_cast<int>(threadIdx.x); i < size / 2; i += BLOCK) {
                const int a = 2 * i - (i & (d - 1)), b = a + d;
                const word x = r.key[a], y = r.key[b];

                if ((x < y) == ((a & k) == 0)) {
                    r.key[a] = y;
                    r.key[b] = x;
                }
            }
            __syncthreads();
        }
}

/* How many candidates are kept of those of which k may be, as `cut` of sample.c; -1 where it is not
 * sure. Sums beyond the share of top_p = 1 are of tokens that weigh less than SLACK together. */
__device__ static int keep(const struct room &r, const struct row &w,
                           const struct spot_cuda_choice &c, int k, double all)
{
    const double share = c.top_p * all;
    double sum = 0;
    int n = 0;

    for (; n < k; n++) {
        const bool is_near = n && fabs(sum - share) <= SLACK * share;
        const double weight = n < r.n ? r.weight[n] : 0;

        if (n && (is_near ? c.top_p >= 1 : sum > share))
            break;
        if (n == r.n)
            return -1;
        if (weight < c.min_p * (1 - SLACK))
            break;
        if (is_near ||
            (weight <= c.min_p * (1 + SLACK) && static_cast<uint32_t>(r.key[n] >> 32) != w.top))
            return -1;
        sum += weight;
    }
    return n;
}

__device__ static int64_t draw_of_best(struct room &r, const struct row &w,
                                       const struct spot_cuda_choice &c)
{
    const bool is_cut = c.top_k > 0 && c.top_k < w.n_number;
    const int k = is_cut ? c.top_k : w.n_number;
    double all = is_cut ? 0 : sum_segments(r, w), sum = 0;
    int at = -1, n;

    gather(r, w, threshold(r, w, is_cut ? k : CANDIDATES / 2));
    sort(r);
    for (int i = static_cast<int>(threadIdx.x); i < r.n; i += BLOCK)
        r.weight[i] = weight_of(w, value_of(static_cast<uint32_t>(r.key[i] >> 32)));
    __syncthreads();
    if (threadIdx.x != 0 || (is_cut && r.n < k))
        return -1;
    for (int i = 0; is_cut && i < k; i++)
        all += r.weight[i];
    n = keep(r, w, c, k, all);
    for (int i = 0; i < n; i++)
        sum += r.weight[i];
    if (n > 0)
        at = passes(r.weight, n, 0, c.noise * sum, 4 * SLACK);
    return at < 0 ? -1 : static_cast<int64_t>(~static_cast<uint32_t>(r.key[at]));
}

/* One block per row, which reads its n logits two to some thirty times. Thread 0 has the result. */
__global__ void __launch_bounds__(BLOCK)
    choose_kernel(struct spot_cuda_chosen *chosen, const struct spot_cuda_choice *choice,
                  const float *logit, int64_t n, int64_t stride)
{
    __shared__ struct room r;
    const struct spot_cuda_choice c = choice[blockIdx.x];
    struct row w = { logit + blockIdx.x * stride, static_cast<int>(n), 0, 0, 0, 0, c.scale };
    int64_t token;

    if (!c.is_wanted)
        return;
    const word top = survey(r, w);

    if (!(c.scale > 0) || !top || fabs(w.max) == INFINITY)
        token = top ? static_cast<int64_t>(~static_cast<uint32_t>(top)) : 0;
    else if (c.top_k > 0 || c.top_p < 1 || c.min_p > 0)
        token = draw_of_best(r, w, c);
    else
        token = draw_of_all(r, w, c.noise);
    if (threadIdx.x == 0)
        chosen[blockIdx.x] = { static_cast<uint32_t>(token < 0 ? 0 : token), token >= 0 };
}

void spot_cuda_infer_choose(struct spot_cuda_chosen *chosen, const struct spot_cuda_choice *choice,
                            const float *logit, int64_t n_row, int64_t n, int64_t stride,
                            spot_stream s)
{
    static_assert(SEGMENT <= CANDIDATES, "a segment's weights have room");
    SPOT_LAUNCH(choose_kernel, blocks_of(n_row, 1), BLOCK, 0, s, chosen, choice, logit, n, stride);
}
