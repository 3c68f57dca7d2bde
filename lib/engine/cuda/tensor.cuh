/* SPDX-License-Identifier: MIT */
/* tensor.cuh - the instructions of tensor cores (sm_80 and up) by name, and on the CPU by
 * definition.
 *
 * Fragments of mma.m16n8k16, for lane = 4 g + t:
 *   a[0..3]  pairs of columns 2t of rows g, g + 8; then columns 2t + 8 of rows g, g + 8
 *   b[0..1]  pairs of rows 2t, then 2t + 8, of column g
 *   d[0..3]  columns 2t, 2t + 1 of row g, then of row g + 8
 */
#ifndef SPOT_ENGINE_CUDA_TENSOR_CUH
#define SPOT_ENGINE_CUDA_TENSOR_CUH

#include "engine/cuda/launch.cuh"

#ifndef SPOT_TWIN

__device__ inline unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

/* d += a b */
__device__ inline void mma(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Four 8 x 8 matrices; lane 8 i + r says where row r of matrix i lies. A lane gets columns 2t, 2t +
 * 1 of row g of each. */
__device__ inline void load_matrices(uint32_t r[4], const bf16 *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row)));
}

/* The same, each matrix transposed: rows 2t, 2t + 1 of column g. */
__device__ inline void load_transposed(uint32_t r[4], const bf16 *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row)));
}

/* 16 bytes into shared memory, zeros if not is_there; arrives with copies_wait. */
__device__ inline void copy_async(bf16 *to, const bf16 *from, bool is_there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(is_there ? 16 : 0));
}

__device__ inline void copies_commit()
{
    asm volatile("cp.async.commit_group;");
}

/* All but the last `n` groups are there; make them known to the block with __syncthreads. */
template <int n> __device__ inline void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(n));
}

#define SPOT_ALLOW_SHARED(kernel, n_byte)                                             \
    (void)cudaFuncSetAttribute((kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, \
                               static_cast<int>(n_byte))

#else

static inline float half_of(const unsigned char *fragment, int word, int half)
{
    bf16 x;

    memcpy(&x, fragment + 4 * word + 2 * half, sizeof(x));
    return __bfloat162float(x);
}

static inline void mma(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    const int lane = static_cast<int>(threadIdx.x % WARP), g = lane / 4, t = lane % 4;
    unsigned char mine[24];

    memcpy(mine, a, 16);
    memcpy(mine + 16, b, 8);
    const unsigned char(*const all)[64] = twin_exchange(mine, sizeof(mine));

    for (int i = 0; i < 4; i++) {
        const int row = g + 8 * (i / 2), col = 2 * t + i % 2;
        float s = d[i];

        for (int k = 0; k < 16; k++)
            s += half_of(all[row % 8 * 4 + k % 8 / 2], row / 8 + k / 8 * 2, k % 2) *
                 half_of(all[col * 4 + k % 8 / 2] + 16, k / 8, k % 2);
        d[i] = s;
    }
}

static inline void load_rows(uint32_t r[4], const bf16 *row, bool is_transposed)
{
    const int lane = static_cast<int>(threadIdx.x % WARP), g = lane / 4, t = lane % 4;
    const unsigned char(*const all)[64] = twin_exchange(&row, sizeof(row));

    if (reinterpret_cast<uintptr_t>(row) % 16)
        abort(); /* as a device would */
    for (int i = 0; i < 4; i++) {
        bf16 pair[2];

        for (int j = 0; j < 2; j++) {
            const bf16 *from;

            memcpy(&from, all[8 * i + (is_transposed ? 2 * t + j : g)], sizeof(from));
            pair[j] = from[is_transposed ? g : 2 * t + j];
        }
        memcpy(&r[i], pair, sizeof(r[i]));
    }
}

static inline void load_matrices(uint32_t r[4], const bf16 *row)
{
    load_rows(r, row, false);
}

static inline void load_transposed(uint32_t r[4], const bf16 *row)
{
    load_rows(r, row, true);
}

static inline void copy_async(bf16 *to, const bf16 *from, bool is_there)
{
    if (reinterpret_cast<uintptr_t>(to) % 16 || reinterpret_cast<uintptr_t>(from) % 16)
        abort(); /* as a device would */
    twin_copy_async(to, is_there ? from : nullptr);
}

static inline void copies_commit()
{
    twin_copies_commit();
}

template <int n> static inline void copies_wait()
{
    twin_copies_wait(n);
}

#endif

/* Two neighbours of a row as one register. */
__device__ inline uint32_t pair_of(float low, float high)
{
    const bf16 pair[2] = { __float2bfloat16(low), __float2bfloat16(high) };
    uint32_t bits;

    memcpy(&bits, pair, sizeof(bits));
    return bits;
}

/* Two neighbours as N pairs of bf16 whose sum they are, as far as that goes: each is what bf16
 * holds of the rest. */
template <int N> __device__ inline void cut(uint32_t piece[N], float low, float high)
{
    for (int i = 0; i < N; i++) {
        piece[i] = pair_of(low, high);
        low -= __int_as_float(static_cast<int>(piece[i] << 16));
        high -= __int_as_float(static_cast<int>(piece[i] & 0xffff0000U));
    }
}

/* The same into N arrays of `size` elements; `to` is a multiple of 4 bytes. */
template <int N> __device__ inline void cut(bf16 *to, int size, float low, float high)
{
    uint32_t piece[N];

    cut<N>(piece, low, high);
    for (int i = 0; i < N; i++)
        *reinterpret_cast<uint32_t *>(to + i * size) = piece[i];
}

/* Over the four lanes that share rows. */
__device__ inline float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 1));
    return fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 2));
}

__device__ inline float quad_sum(float x)
{
    x += __shfl_xor_sync(ALL_LANES, x, 1);
    return x + __shfl_xor_sync(ALL_LANES, x, 2);
}

#endif /* SPOT_ENGINE_CUDA_TENSOR_CUH */
