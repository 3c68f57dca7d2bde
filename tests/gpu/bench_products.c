/* SPDX-License-Identifier: MIT */
/* bench_products - the products of a training step, one by one, and the bits of all of them.
 *
 *   bench_products [N C V]      rows, width, vocabulary; 32768 768 50304
 *
 * name<TAB>TFLOP/s. The last line is a hash over small, odd and these shapes: devices whose hash is
 * one may work on one job. Status 1 if two runs of a product differ.
 */
#include <string.h>

#include "bench.h"
#include "common/hash.h"
#include "engine/cuda/device.h"

enum { RUNS = 12 };

static struct spot_device *dev;
static struct spot_err err;
static char *memory;
static uint16_t *host;
static size_t room;
static uint64_t bits;
static bool is_other;

/* Numbers of either sign between 0.5 and 2 in bf16, two of which are such a number in fp32. */
static void fill(void *at, size_t n_byte, uint32_t seed)
{
    for (size_t i = 0; i < n_byte / 2; i++) {
        seed = seed * 1664525U + 1013904223U;
        host[i] = (uint16_t)(0x3f00U | (seed >> 16 & 0x80ffU));
    }
    spot_device_upload(dev, at, host, n_byte);
    spot_device_wait(dev);
}

static void *cut(size_t *used, int64_t n_byte)
{
    char *const at = memory + *used;

    *used += ((size_t)n_byte + 255) / 256 * 256;
    if (*used > room)
        bench_die_if(spot_err_set(&err, SPOT_EINFEASIBLE, "no room for %zu bytes", *used), &err);
    return at;
}

static uint64_t hash_of(const void *c, size_t n_byte)
{
    spot_device_download(dev, host, c, n_byte);
    return spot_hash64(host, n_byte);
}

static void time_it(const char *name, struct spot_product p)
{
    const int64_t size = p.real == SPOT_BF16 ? 2 : 4,
                  c_byte = p.m * p.n * (p.is_c_float ? 4 : size);
    size_t used = 0;
    void *const a = cut(&used, p.m * p.k * size), *const b = cut(&used, p.k * p.n * size),
                *const bias = cut(&used, p.n * size);

    p.c = cut(&used, c_byte);
    p.aux = cut(&used, p.m * p.n * size);
    fill(a, (size_t)(p.m * p.k * size), 1);
    fill(b, (size_t)(p.k * p.n * size), 2);
    fill(bias, (size_t)(p.n * size), 3);
    fill(p.aux, (size_t)(p.m * p.n * size), 4);
    p.a = a;
    p.b = b;
    p.bias = bias;
    spot_device_product(dev, &p);
    const uint64_t first = hash_of(p.c, (size_t)c_byte);
    const double at = bench_now_s();
    for (int i = 0; i < RUNS; i++)
        spot_device_product(dev, &p);
    spot_device_wait(dev);
    const double s = (bench_now_s() - at) / RUNS;
    bench_die_if(spot_device_status(dev, &err), &err);
    is_other |= hash_of(p.c, (size_t)c_byte) != first;
    bits = spot_hash64((const uint64_t[]){ bits, first }, 2 * sizeof(bits));
    if (name)
        printf("%s %lldx%lldx%lld\t%.1f\n", name, (long long)p.m, (long long)p.k, (long long)p.n,
               2e-12 * (double)p.m * (double)p.n * (double)p.k / s);
}

/* A layer and its head as GPT-2 has them: N rows, C wide, V tokens. */
static void layer(enum spot_real real, int64_t N, int64_t C, int64_t V, bool is_told)
{
    const struct {
        const char *name;
        int64_t n, k;
        bool is_b_transposed;
        enum spot_epilogue epilogue;
    } rows[] = {
        { "qkv", 3 * C, C, true, SPOT_BIAS },
        { "proj", C, C, false, SPOT_BIAS },
        { "fc1, GELU", 4 * C, C, true, SPOT_BIAS_GELU },
        { "fc2", C, 4 * C, false, SPOT_BIAS },
        { "head", V, C, true, SPOT_PLAIN },
        { "by x of the head", C, V, false, SPOT_PLAIN },
        { "by x of fc2, GELU", 4 * C, C, true, SPOT_GELU_BACK },
        { "by x of fc1", C, 4 * C, false, SPOT_PLAIN },
        { "by x of qkv", C, 3 * C, false, SPOT_PLAIN },
    };
    const struct {
        const char *name;
        int64_t m;
    } weights[] = { { "by w of qkv", 3 * C },
                    { "by w of proj", C },
                    { "by w of fc", 4 * C },
                    { "by w of the head", V } };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const bool is_gelu = rows[i].epilogue > SPOT_BIAS;

        if (is_gelu && real == SPOT_F32)
            continue; /* a kernel of our own */
        time_it(is_told ? rows[i].name : NULL,
                (struct spot_product){ .real = real,
                                       .m = N,
                                       .n = rows[i].n,
                                       .k = rows[i].k,
                                       .is_b_transposed = rows[i].is_b_transposed,
                                       .epilogue = rows[i].epilogue });
    }
    for (size_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++)
        time_it(is_told ? weights[i].name : NULL, (struct spot_product){ .real = real,
                                                                         .m = weights[i].m,
                                                                         .n = C,
                                                                         .k = N,
                                                                         .is_a_transposed = true,
                                                                         .is_c_float = true });
}

int main(int argc, char **argv)
{
    int64_t n[] = { 32768, 768, 50304 };
    size_t version;
    void *at;

    for (int i = 1; i < argc && i <= 3; i++)
        n[i - 1] = atoll(argv[i]);
    /* logits and the head's input and weights, or what enters and leaves the activation */
    room = (size_t)(4 * n[0] * (n[2] > 8 * n[1] ? n[2] : 8 * n[1]) + 8 * (n[0] + n[2]) * n[1]) +
           (64 << 20);
    host = spot_xcalloc(room / 2, 1);
    dev = spot_device_open(room, &at, &err);
    bench_die_if(!dev || spot_device_blas(&version, &err), &err);
    memory = at;
    for (int real = SPOT_F32; real <= SPOT_BF16;
         real++) { /* of tests, of no multiples, for nobody */
        layer((enum spot_real)real, 26, 24, 19, false);
        layer((enum spot_real)real, 70, 64, 256, false);
        layer((enum spot_real)real, 75, 128, 11, false);
    }
    layer(SPOT_BF16, n[0], n[1], n[2], true);
    printf("cuBLASLt %zu, bits of all products\t%016llx%s\n", version, (unsigned long long)bits,
           is_other ? ", NOT THE SAME TWICE" : "");
    spot_device_close(dev);
    return is_other;
}
