// SPDX-License-Identifier: MIT
// Programs that are wrong, each in one way that a device would punish some day:
// tests/unit/test_twin.c asks whether the twin does at once. They are compiled as the kernels are.
#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "cuda_runtime.h"
#include "engine/cuda/device.h"

namespace
{
struct room {
    cudaStream_t stream;
    float *device, *pinned;
    enum { N = 64 };

    room()
    {
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        cudaMalloc(reinterpret_cast<void **>(&device), N * sizeof(float));
        cudaMallocHost(reinterpret_cast<void **>(&pinned), N * sizeof(float));
        cudaMemsetAsync(device, 0, N * sizeof(float), stream);
    }
    float first()
    {
        float x = 0;

        cudaMemcpyAsync(&x, device, sizeof(x), cudaMemcpyDeviceToHost, stream);
        return x;
    }
    ~room()
    {
        cudaFree(device);
        cudaFreeHost(pinned);
        cudaStreamDestroy(stream);
    }
};

// Warp 0 writes what warp 1 reads, and no barrier lies between.
__global__ void no_barrier(float *out)
{
    __shared__ float x;

    if (threadIdx.x == 0)
        x = 1;
    if (threadIdx.x == 32)
        *out = std::isnan(x) ? 2 : x;
}

__global__ void last_block(float *out)
{
    *out = static_cast<float>(blockIdx.x);
}

__global__ void unwritten(float *out)
{
    __shared__ float x;

    *out = x;
    x = 5; // for a block that follows
}

__global__ void nothing(float *) {}

// How many results a launch has in so many runs.
int outcomes(void (*kernel)(float *), unsigned grid, unsigned block)
{
    std::set<float> seen;
    room r;

    for (int i = 0; i < 60; i++) {
        SPOT_LAUNCH(kernel, grid, block, 0, r.stream, r.device);
        seen.insert(r.first());
    }
    return static_cast<int>(seen.size());
}

int warps()
{
    return outcomes(no_barrier, 1, 64);
}

int blocks()
{
    return outcomes(last_block, 5, 1);
}

int shared()
{
    room r;

    SPOT_LAUNCH(unwritten, 3, 1, 0, r.stream, r.device);
    return std::isnan(r.first());
}

// The source is changed while the copy may still be on its way.
int copy_of(bool is_pinned)
{
    int n_late = 0;

    for (int i = 0; i < 30; i++) {
        room r;
        float own = 1;
        float *const from = is_pinned ? r.pinned : &own;

        *from = 1;
        cudaMemcpyAsync(r.device, from, sizeof(*from), cudaMemcpyHostToDevice, r.stream);
        *from = 2;
        n_late += r.first() > 1;
    }
    return n_late;
}

int pinned_copy()
{
    return copy_of(true);
}

int pageable_copy()
{
    return copy_of(false);
}

// What is read before anybody waited.
int late_download()
{
    int n_late = 0;

    for (int i = 0; i < 30; i++) {
        room r;

        *r.pinned = 7;
        cudaMemcpyAsync(r.pinned, r.device, sizeof(float), cudaMemcpyDeviceToHost, r.stream);
        n_late += *r.pinned > 1;
        cudaStreamSynchronize(r.stream);
    }
    return n_late;
}

int free_waits()
{
    room r;
    void *other;

    cudaMalloc(&other, 1);
    *r.pinned = 7;
    cudaMemcpyAsync(r.pinned, r.device, sizeof(float), cudaMemcpyDeviceToHost, r.stream);
    cudaFree(other);
    return *r.pinned < 1;
}

int host_reads()
{
    room r;

    return *static_cast<volatile float *>(r.device) > 0;
}

int host_writes()
{
    room r;

    *static_cast<volatile float *>(r.device) = 1;
    return 0;
}

int wrong_kind()
{
    room r;
    float x = 0;

    cudaMemcpyAsync(&x, r.device, sizeof(x), cudaMemcpyDeviceToDevice, r.stream);
    return 0;
}

int beyond()
{
    room r;

    twin_guard(r.device + 32, 32 * sizeof(float));
    cudaMemsetAsync(r.device, 0, 33 * sizeof(float), r.stream);
    cudaStreamSynchronize(r.stream);
    return 0;
}

int large_shared()
{
    room r;

    SPOT_LAUNCH(nothing, 1, 32, 49 << 10, r.stream, r.device);
    return 0;
}

int last_error()
{
    room r;
    int n = 0;

    for (int i = 0; i < 30; i++) {
        cudaMemsetAsync(r.device, 0, sizeof(float), r.stream);
        while (cudaStreamQuery(r.stream) == cudaErrorNotReady)
            n += cudaGetLastError() == cudaErrorNotReady;
    }
    return n;
}

// Products of so many shapes; of one shape, whose bias is aligned as it may be. 1: all is well.
int products(int n_shape, bool is_part)
{
    struct spot_err err;
    void *memory;
    struct spot_device *const dev = spot_device_open(1 << 20, &memory, &err);
    char *const at = static_cast<char *>(memory);
    int rc;

    for (int i = 0; i < n_shape; i++) {
        struct spot_product p = {};

        p.real = SPOT_BF16;
        p.m = 1;
        p.n = 8;
        p.k = is_part ? 8 : i + 1;
        p.a = at;
        p.b = at + 65536;
        p.c = at + (512 << 10);
        p.is_b_transposed = true;
        p.epilogue = SPOT_BIAS;
        p.bias = at + (768 << 10) + (is_part && i ? 16 : 0);
        p.is_part = is_part;
        spot_device_product(dev, &p);
    }
    rc = spot_device_status(dev, &err);
    spot_device_close(dev);
    return rc ? 0 : 1;
}

int many_shapes()
{
    return products(300, false);
}

int bias_of_a_part()
{
    return products(2, true);
}

// --- products against sums in double precision, whatever the library refuses or drops ---

enum { ROWS = 33, COLS = 24, TERMS = 300, OPERAND = ROWS * TERMS };

float bf16_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    bits &= 0xffff0000U;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

// Small whole numbers, the last term of each sum larger than all others.
float number(int i, int k)
{
    return k == TERMS - 1 ? 64 : static_cast<float>((i * 7 + k * 5) % 5 - 2);
}

float read(const unsigned char *x, bool is_half, int i)
{
    float y;
    uint32_t bits;

    if (!is_half) {
        memcpy(&y, x + 4 * i, 4);
        return y;
    }
    bits = static_cast<uint32_t>(x[2 * i] | x[2 * i + 1] << 8) << 16;
    memcpy(&y, &bits, sizeof(y));
    return y;
}

void write(unsigned char *x, bool is_half, int i, float y)
{
    uint32_t bits;

    memcpy(&bits, &y, sizeof(bits));
    if (is_half) {
        x[2 * i] = static_cast<unsigned char>(bits >> 16);
        x[2 * i + 1] = static_cast<unsigned char>(bits >> 24);
    } else {
        memcpy(x + 4 * i, &y, 4);
    }
}

struct operands {
    alignas(256) unsigned char a[4 * OPERAND];
    alignas(256) unsigned char b[4 * OPERAND];
    alignas(256) unsigned char c[4 * ROWS * COLS];
    alignas(256) unsigned char bias[4 * COLS];
    alignas(256) unsigned char aux[4 * ROWS * COLS];
};

void fill(operands *x, const spot_product &p)
{
    const bool is_half = p.real == SPOT_BF16;

    for (int k = 0; k < p.k; k++) {
        for (int i = 0; i < p.m; i++)
            write(x->a, is_half, static_cast<int>(p.is_a_transposed ? k * p.m + i : i * p.k + k),
                  number(i, k));
        for (int j = 0; j < p.n; j++)
            write(x->b, is_half, static_cast<int>(p.is_b_transposed ? j * p.k + k : k * p.n + j),
                  number(j + 3, k));
    }
    for (int j = 0; j < p.n; j++)
        write(x->bias, is_half, j, static_cast<float>(j));
    for (int i = 0; i < p.m * p.n; i++)
        write(x->aux, is_half, i, bf16_of(static_cast<float>(i % 7) / 4 - 1));
}

double gelu_slope(double x)
{
    const double a = 0.7978845608028654, t = tanh(a * (x + 0.044715 * x * x * x));

    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * a * (1 + 3 * 0.044715 * x * x);
}

double wanted(const spot_product &p, int i, int j)
{
    double x = 0;

    for (int k = 0; k < p.k; k++)
        x += static_cast<double>(number(i, k)) * number(j + 3, k);
    if (p.epilogue == SPOT_BIAS || p.epilogue == SPOT_BIAS_GELU)
        x += j;
    if (p.epilogue == SPOT_BIAS_GELU)
        x = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    if (p.epilogue == SPOT_GELU_BACK)
        x *= gelu_slope(static_cast<double>((i * static_cast<int>(p.n) + j) % 7) / 4 - 1);
    return x;
}

bool is_right(struct spot_device *dev, operands *on_device, spot_product p)
{
    static operands x;
    const bool is_half = p.real == SPOT_BF16, is_half_out = is_half && !p.is_c_float;
    bool is_good = true;

    fill(&x, p);
    spot_device_upload(dev, on_device, &x, sizeof(x));
    p.a = on_device->a;
    p.b = on_device->b;
    p.c = on_device->c;
    p.bias = on_device->bias;
    p.aux = on_device->aux;
    spot_device_product(dev, &p);
    spot_device_download(dev, &x, on_device, sizeof(x));
    for (int i = 0; i < p.m; i++)
        for (int j = 0; j < p.n; j++) {
            const double want = wanted(p, i, j);
            const double got = read(x.c, is_half_out, i * static_cast<int>(p.n) + j);

            is_good &= fabs(got - want) <= 1e-3 + fabs(want) * (is_half_out ? 5e-3 : 1e-4);
        }
    return is_good;
}

// --- graphs ---

__global__ void add_number(float *out, float x)
{
    *out += x;
}

cudaGraphExec_t exec_of(cudaGraph_t graph)
{
    cudaGraphExec_t exec = nullptr;

    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    return exec;
}

// A copy reads what the host's memory holds when the graph runs; a launch has the argument of the
// recording; nothing is done before, and twice afterwards.
int graph()
{
    room r;
    cudaGraph_t graph = nullptr;
    size_t n_node = 0;
    float x = 10;
    int n = 0;

    cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal);
    *r.pinned = 1;
    cudaMemcpyAsync(r.device, r.pinned, sizeof(float), cudaMemcpyHostToDevice, r.stream);
    SPOT_LAUNCH(add_number, 1, 1, 0, r.stream, r.device, x);
    cudaStreamEndCapture(r.stream, &graph);
    cudaGraphGetNodes(graph, nullptr, &n_node);
    n += n_node == 2 && r.first() == 0;
    x = 20;
    const cudaGraphExec_t exec = exec_of(graph);

    for (int i = 2; i < 4; i++) {
        *r.pinned = static_cast<float>(i);
        cudaGraphLaunch(exec, r.stream);
        n += r.first() == static_cast<float>(i) + 10;
    }
    cudaGraphLaunch(exec, r.stream);
    cudaGraphExecDestroy(exec); // what is under way goes on
    return n + (r.first() == 13);
}

// Each call is refused within a recording, voids it, and the stream works again afterwards.
int graph_refusals()
{
    room r;
    float pageable = 0;
    void *memory = nullptr;
    cudaEvent_t event;
    int n = 0;

    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaEventRecord(event, r.stream);
    const std::function<cudaError_t()> calls[] = {
        [&] { return cudaStreamSynchronize(r.stream); },
        [&] { return cudaStreamQuery(r.stream); },
        [&] { return cudaMalloc(&memory, 4); },
        [&] { return cudaMallocHost(&memory, 4); },
        [&] { return cudaFree(r.device); },
        [&] { return cudaFreeHost(r.pinned); },
        [&] { return cudaHostRegister(&pageable, 4, cudaHostRegisterDefault); },
        [&] { return cudaHostUnregister(r.pinned); },
        [&] { return cudaMemcpyAsync(r.device, &pageable, 4, cudaMemcpyHostToDevice, r.stream); },
        [&] { return cudaMemcpyAsync(&pageable, r.device, 4, cudaMemcpyDeviceToHost, r.stream); },
        [&] { return cudaStreamWaitEvent(r.stream, event, 0); },
    };

    for (const auto &call : calls) {
        cudaGraph_t graph = nullptr;

        cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal);
        const cudaError_t said = call();
        const bool is_void =
            cudaStreamEndCapture(r.stream, &graph) == cudaErrorStreamCaptureInvalidated;

        cudaGetLastError();
        n += is_void && !graph && cudaStreamSynchronize(r.stream) == cudaSuccess &&
             (said == cudaErrorStreamCaptureUnsupported || said == cudaErrorStreamCaptureIsolation);
    }
    cudaEventDestroy(event);
    return n;
}

int recorded_library()
{
    struct spot_err err;
    void *memory;
    struct spot_device *const dev = spot_device_open(sizeof(operands), &memory, &err);
    spot_product p = {};

    p.m = p.n = p.k = 16;
    p.a = p.b = memory;
    p.c = static_cast<float *>(memory) + 256;
    p.is_c_float = true;
    spot_device_product(dev, &p); // an algorithm is chosen
    spot_device_record(dev);
    spot_device_product(dev, &p);
    return 0;
}

// The number of products that are right, of 2 types, 4 ways to lie, 2 types out and 4 epilogues.
int every_product()
{
    struct spot_err err;
    void *memory;
    struct spot_device *const dev = spot_device_open(sizeof(operands), &memory, &err);
    int n_right = 0;

    for (int way = 0; way < 64; way++) {
        spot_product p = {};

        p.real = way & 1 ? SPOT_BF16 : SPOT_F32;
        p.m = ROWS;
        p.n = way & 32 ? COLS : COLS - 1;
        p.k = TERMS;
        p.is_a_transposed = way & 2;
        p.is_b_transposed = way & 4;
        p.epilogue = static_cast<enum spot_epilogue>(way / 8 % 4);
        p.is_c_float = p.real == SPOT_F32 || (p.epilogue == SPOT_PLAIN && way & 32);
        n_right += is_right(dev, static_cast<operands *>(memory), p);
    }
    n_right = spot_device_status(dev, &err) ? -1 : n_right;
    spot_device_close(dev);
    return n_right;
}

const struct {
    const char *name;
    int (*run)();
} bites[] = {
    { "warps", warps },
    { "blocks", blocks },
    { "shared", shared },
    { "pinned copy", pinned_copy },
    { "pageable copy", pageable_copy },
    { "late download", late_download },
    { "free waits", free_waits },
    { "host reads", host_reads },
    { "host writes", host_writes },
    { "wrong kind", wrong_kind },
    { "beyond", beyond },
    { "large shared", large_shared },
    { "last error", last_error },
    { "many shapes", many_shapes },
    { "bias of a part", bias_of_a_part },
    { "every product", every_product },
    { "graph", graph },
    { "graph refusals", graph_refusals },
    { "recorded library", recorded_library },
};
} // namespace

// How often the twin bit, or a number that the test knows; -1: no such name.
extern "C" __attribute__((visibility("default"))) int twin_bite(const char *name)
{
    for (const auto &b : bites)
        if (!strcmp(b.name, name))
            return b.run();
    return -1;
}
