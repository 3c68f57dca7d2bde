// SPDX-License-Identifier: MIT
// The runtime's calls: streams that work late, memory that the host cannot reach, errors that last.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "cuda_runtime.h"
#include "graph.hpp"
#include "twin.hpp"

namespace
{
long setting(const char *name, long otherwise)
{
    const char *const text = getenv(name);

    return text && *text ? strtol(text, nullptr, 10) : otherwise;
}

[[noreturn]] void end(const char *what)
{
    fprintf(stderr, "twin: %s\n", what);
    abort();
}

bool has_failed; // as on a device, for good

bool is_dry()
{
    static const bool dry = setting("SPOT_TWIN_DRY", 0);

    return dry;
}

FILE *log_file()
{
    static FILE *const file =
        getenv("SPOT_TWIN_LOG") ? fopen(getenv("SPOT_TWIN_LOG"), "a") : nullptr;
    static const int is_by_line = file ? setvbuf(file, nullptr, _IOLBF, 0) : 0; // two write to it

    (void)is_by_line;
    return file;
}

// What a call of this thread answered last that was no success, until somebody takes it.
thread_local cudaError_t last_error;

cudaError_t told(cudaError_t status)
{
    if (status != cudaSuccess)
        last_error = status;
    return status;
}

// A device of hundreds of megabytes less, from the first call on that needs it; cudaSetDevice is
// one.
void begin_context()
{
    static const bool is_told = [] {
        if (log_file())
            fprintf(log_file(), "context\n");
        return true;
    }();

    (void)is_told;
}

cudaError_t now()
{
    begin_context();
    return told(has_failed ? cudaErrorLaunchFailure : cudaSuccess);
}

// --- memory -----------------------------------------------------------------------

// The device's memory is mapped twice: at the address that the host is given, which is shut but
// while the device works, and where the twins work.
const size_t SPACE_BYTE = size_t(1) << 36, PAGE_BYTE = 4096;
std::recursive_mutex lock; // of all that follows
unsigned char *space, *alias;
size_t space_used;
int n_open;
pid_t owner;

struct guard {
    unsigned char *at;
    size_t n_byte;
};
std::vector<guard> guards;
std::map<const void *, size_t> pinned, given;

void make_space()
{
    const int fd = memfd_create("twin", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, SPACE_BYTE))
        end("no memory for a device");
    space = static_cast<unsigned char *>(
        mmap(nullptr, SPACE_BYTE, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0));
    alias = static_cast<unsigned char *>(
        mmap(nullptr, SPACE_BYTE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0));
    close(fd);
    if (space == MAP_FAILED || alias == MAP_FAILED)
        end("no addresses for a device");
    owner = getpid();
}

bool is_device(const void *p)
{
    const unsigned char *const at = static_cast<const unsigned char *>(p);

    return space && at >= space && at < space + SPACE_BYTE;
}

bool is_pinned(const void *p)
{
    auto next = pinned.upper_bound(p);

    if (next == pinned.begin())
        return false;
    --next;
    return static_cast<const char *>(p) < static_cast<const char *>(next->first) + next->second;
}

unsigned char *reach(const void *p)
{
    unsigned char *const at = static_cast<unsigned char *>(const_cast<void *>(p));

    return is_device(p) ? alias + (at - space) : at;
}

bool is_open;

void set_memory(bool to_open)
{
    if (space_used && to_open != is_open &&
        mprotect(space, space_used, to_open ? PROT_READ | PROT_WRITE : PROT_NONE))
        end("memory cannot be opened");
    is_open = to_open;
}

// It is shut behind the first runs and then behind one in 16: what the host does wrong in every
// step is met, and a step costs no hundred calls of the kernel.
void open_memory(bool to_open)
{
    static unsigned n_run;

    n_open += to_open ? 1 : -1;
    if (to_open)
        set_memory(true);
    else if (!n_open && (n_run < 16 || n_run % 16 == 0))
        set_memory(false);
    n_run += to_open;
}

void look_at_guards()
{
    for (const guard &g : guards)
        for (size_t i = 0; i < g.n_byte; i++)
            if (reach(g.at)[i] != 0xa5) {
                fprintf(stderr, "twin: byte %zu between two buffers was written over\n", i);
                abort();
            }
}

// --- streams ----------------------------------------------------------------------

uint64_t state;

uint64_t draw(uint64_t below)
{
    if (!state)
        state = static_cast<uint64_t>(setting("SPOT_TWIN_SEED", 1)) * UINT64_C(0x9e3779b97f4a7c15);
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    // twice the same, and most often it needs no division
    return below & (below - 1) ? (state >> 33) % below : (state >> 33) & (below - 1);
}
} // namespace

uint64_t twin_draw(uint64_t below)
{
    return draw(below);
}

namespace
{
std::vector<cudaStream_t> streams;

void run(cudaStream_t stream, size_t n)
{
    if (!n || stream->queue->work.empty())
        return;
    open_memory(true);
    for (; n && !stream->queue->work.empty(); n--) {
        const std::function<void()> work = std::move(stream->queue->work.front());

        stream->queue->work.pop_front();
        if (!has_failed && !is_dry())
            work();
    }
    open_memory(false);
}

void queue(cudaStream_t stream, std::function<void()> work)
{
    const std::lock_guard<std::recursive_mutex> turn(lock);

    if (!stream)
        end("work without a stream");
    if (stream->queue->recording) {
        stream->queue->recording->work.push_back(std::move(work));
        return;
    }
    stream->queue->work.push_back(std::move(work));
    if (!draw(8))
        run(stream, draw(stream->queue->work.size() + 1));
}

void later(cudaStream_t stream, void (*work)(void *), void *user)
{
    if (stream->queue->recording)
        end("work of a library is recorded, which it does once");
    queue(stream, [=]() { work(user); });
}

void *reach_of(const void *p)
{
    return reach(p);
}

bool is_busy(cudaStream_t stream)
{
    return stream->is_busy && stream->is_busy(stream->user);
}

// As on a device: behind a collective whose peer is gone this waits for ever.
void settle(cudaStream_t stream)
{
    const struct timespec a_while = { 0, 100000 };

    {
        const std::lock_guard<std::recursive_mutex> turn(lock);

        run(stream, SIZE_MAX);
        look_at_guards();
    }
    while (is_busy(stream))
        nanosleep(&a_while, nullptr);
}

// Streams may come and go meanwhile, of other threads.
void settle_all()
{
    const struct timespec a_while = { 0, 100000 };
    bool any_busy = true;

    while (any_busy) {
        {
            const std::lock_guard<std::recursive_mutex> turn(lock);

            any_busy = false;
            for (cudaStream_t stream : streams) {
                run(stream, SIZE_MAX);
                any_busy |= is_busy(stream);
            }
            look_at_guards();
        }
        if (any_busy)
            nanosleep(&a_while, nullptr);
    }
}
} // namespace

void twin_queue_work(cudaStream_t stream, std::function<void()> work)
{
    queue(stream, std::move(work));
}

void twin_lock()
{
    lock.lock();
}

void twin_unlock()
{
    lock.unlock();
}

const std::vector<cudaStream_t> &twin_streams()
{
    return streams;
}

cudaError_t twin_told(cudaError_t status)
{
    return told(status);
}

void twin_log_line(const char *what, size_t n)
{
    if (log_file())
        fprintf(log_file(), "%s %zu\n", what, n);
}

// Whether the call is refused: of a stream that records, or without one.
static bool is_refused(cudaStream_t stream)
{
    const std::lock_guard<std::recursive_mutex> turn(lock);

    return stream ? twin_forbids(stream) : twin_forbids_here();
}

#define REFUSE_WHERE_RECORDED(stream) \
    if (is_refused(stream))           \
    return told(cudaErrorStreamCaptureUnsupported)

extern "C" {

// --- the machine -----------------------------------------------------------------

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = static_cast<int>(setting("SPOT_TWIN_DRIVER", CUDART_VERSION));
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
    if (setting("SPOT_TWIN_DRIVER", CUDART_VERSION) < CUDART_VERSION)
        return told(cudaErrorInsufficientDriver);
    *n = static_cast<int>(setting("SPOT_TWIN_DEVICES", 1));
    return told(*n ? cudaSuccess : cudaErrorNoDevice);
}

static thread_local int device_now;

int twin_device(void)
{
    return device_now;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = device_now;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= setting("SPOT_TWIN_DEVICES", 1))
        return told(cudaErrorInvalidDevice);
    begin_context();
    device_now = device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int n, int device)
{
    snprintf(id, static_cast<size_t>(n), "0000:%02x:00.0", static_cast<unsigned>(device));
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    const int sm = static_cast<int>(setting("SPOT_TWIN_SM", 90));

    (void)device;
    *value = attribute == cudaDevAttrMultiProcessorCount      ? 132
             : attribute == cudaDevAttrComputeCapabilityMajor ? sm / 10
                                                              : sm % 10;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_byte, size_t *total_byte)
{
    *free_byte = *total_byte = static_cast<size_t>(setting("SPOT_TWIN_MEMORY", 1L << 32));
    return cudaSuccess;
}

// --- streams and events ------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    const std::lock_guard<std::recursive_mutex> turn(lock);

    (void)flags;
    *stream = new CUstream_st{ nullptr, nullptr, later, reach_of, new twin_queue, device_now };
    streams.push_back(*stream);
    return now();
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    bool is_empty;

    REFUSE_WHERE_RECORDED(stream);
    {
        const std::lock_guard<std::recursive_mutex> turn(lock);

        is_empty = stream->queue->work.empty();
        run(stream, 1 + draw(4));
    }
    return !is_empty || is_busy(stream) ? told(cudaErrorNotReady) : now();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    REFUSE_WHERE_RECORDED(stream);
    settle(stream);
    return now();
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    REFUSE_WHERE_RECORDED(stream);
    settle(stream);
    const std::lock_guard<std::recursive_mutex> turn(lock);

    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i] == stream)
            streams.erase(streams.begin() + static_cast<long>(i--));
    delete stream->queue;
    delete stream;
    return now();
}

struct CUevent_st {
    cudaStream_t stream; // it was recorded behind its work
    const twin_recording *recording;
};

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = new CUevent_st{};
    return now();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    event->stream = stream;
    event->recording = stream->queue->recording.get();
    return now();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    if (event->recording != stream->queue->recording.get()) { // a device would let it join
        is_refused(stream);
        if (event->recording)
            is_refused(event->stream);
        return told(cudaErrorStreamCaptureIsolation);
    }
    if (stream != event->stream)
        settle(event->stream);
    return now();
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return now();
}

// --- memory ------------------------------------------------------------------------

// What a device would hold by chance: NaN in every type.
cudaError_t cudaMalloc(void **memory, size_t n_byte)
{
    REFUSE_WHERE_RECORDED(nullptr);
    const std::lock_guard<std::recursive_mutex> turn(lock);
    const size_t all = (n_byte + PAGE_BYTE - 1) / PAGE_BYTE * PAGE_BYTE + PAGE_BYTE;

    if (!space || owner != getpid())
        make_space();
    if (all > SPACE_BYTE - space_used)
        return told(cudaErrorMemoryAllocation);
    *memory = space + space_used;
    given[*memory] = all;
    if (!is_dry())
        memset(alias + space_used, 0xff, n_byte);
    set_memory(false); // the new end is shut
    space_used += all;
    if (n_open)
        end("memory is taken while the device works");
    return now();
}

cudaError_t cudaFree(void *memory)
{
    if (!memory)
        return now();
    REFUSE_WHERE_RECORDED(nullptr);
    settle_all(); // a device ends what it does first
    const std::lock_guard<std::recursive_mutex> turn(lock);
    const auto it = given.find(memory);

    if (it == given.end())
        end("what is freed was not given");
    const unsigned char *const begin = static_cast<unsigned char *>(memory);

    for (size_t i = 0; i < guards.size();)
        if (guards[i].at >= begin && guards[i].at < begin + it->second)
            guards.erase(guards.begin() + static_cast<long>(i));
        else
            i++;
    madvise(reach(memory), it->second, MADV_REMOVE);
    if (begin + it->second == space + space_used)
        space_used = static_cast<size_t>(begin - space);
    given.erase(it);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t n_byte)
{
    REFUSE_WHERE_RECORDED(nullptr);
    const std::lock_guard<std::recursive_mutex> turn(lock);

    *memory = aligned_alloc(256, (n_byte + 255) / 256 * 256);
    if (!*memory)
        return told(cudaErrorMemoryAllocation);
    memset(*memory, 0xff, n_byte);
    pinned[*memory] = n_byte;
    return now();
}

cudaError_t cudaFreeHost(void *memory)
{
    REFUSE_WHERE_RECORDED(nullptr);
    settle_all();
    const std::lock_guard<std::recursive_mutex> turn(lock);

    if (memory && !pinned.erase(memory))
        end("what is freed was not page-locked");
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *memory, size_t n_byte, unsigned flags)
{
    REFUSE_WHERE_RECORDED(nullptr);
    const std::lock_guard<std::recursive_mutex> turn(lock);

    (void)flags;
    if (is_pinned(memory))
        return told(cudaErrorHostMemoryAlreadyRegistered);
    pinned[memory] = n_byte;
    return now();
}

cudaError_t cudaHostUnregister(void *memory)
{
    REFUSE_WHERE_RECORDED(nullptr);
    settle_all();
    const std::lock_guard<std::recursive_mutex> turn(lock);

    if (!pinned.erase(memory))
        end("what is unregistered was not page-locked");
    return cudaSuccess;
}

static size_t n_copied[4];

static void check_ends(const void *to, const void *from, int kind)
{
    if (is_device(to) != (kind != cudaMemcpyDeviceToHost) ||
        is_device(from) != (kind != cudaMemcpyHostToDevice))
        end("a copy between other memories than its kind says");
}

// It moves, and counts, whenever the graph runs.
static cudaError_t record_copy(void *to, const void *from, size_t n_byte, int kind,
                               cudaStream_t stream)
{
    if ((kind == cudaMemcpyHostToDevice && !is_pinned(from)) ||
        (kind == cudaMemcpyDeviceToHost && !is_pinned(to))) {
        twin_forbids(stream);
        return told(cudaErrorStreamCaptureUnsupported);
    }
    queue(stream, [=]() {
        n_copied[kind] += n_byte;
        memcpy(to, from, n_byte);
    });
    return now();
}

// A source is read when the copy runs, also one that is not page-locked: a device that reaches the
// host's memory by itself need not stage it. A copy to memory that is not page-locked is waited
// for.
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_byte, int kind,
                            cudaStream_t stream)
{
    static long n_download;
    bool is_later;

    {
        const std::lock_guard<std::recursive_mutex> turn(lock);

        if (n_byte)
            check_ends(to, from, kind);
        if (stream->queue->recording)
            return record_copy(to, from, n_byte, kind, stream);
        n_copied[kind] += n_byte;
        if (log_file())
            fprintf(log_file(), "copy %d %zu\n", kind, n_byte);
        if (kind == cudaMemcpyDeviceToHost && ++n_download == setting("SPOT_TWIN_FAIL_AT", 0))
            has_failed = true;
        is_later = kind != cudaMemcpyDeviceToHost || is_pinned(to);
        queue(stream, [=]() { memcpy(to, from, n_byte); });
    }
    if (!is_later)
        settle(stream);
    return now();
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t n_byte, cudaStream_t stream)
{
    if (n_byte && !is_device(to))
        end("memory of the host is cleared as the device's");
    queue(stream, [=]() { memset(to, value, n_byte); });
    return now();
}

size_t twin_copied(int kind)
{
    return n_copied[kind];
}

int twin_is_locked(const void *host)
{
    const std::lock_guard<std::recursive_mutex> turn(lock);

    return is_pinned(host);
}

void twin_guard(void *memory, size_t n_byte)
{
    settle_all(); // what clears the whole comes before
    const std::lock_guard<std::recursive_mutex> turn(lock);

    memset(reach(memory), 0xa5, n_byte);
    guards.push_back({ static_cast<unsigned char *>(memory), n_byte });
}

// --- errors ------------------------------------------------------------------------

cudaError_t cudaPeekAtLastError(void)
{
    return has_failed ? cudaErrorLaunchFailure : last_error;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t status = cudaPeekAtLastError();

    last_error = cudaSuccess;
    return status;
}

const char *cudaGetErrorString(cudaError_t status)
{
    return status == cudaErrorLaunchFailure   ? "unspecified launch failure"
           : status == cudaErrorInvalidDevice ? "invalid device ordinal"
                                              : "no such thing";
}

const char *cudaGetErrorName(cudaError_t status)
{
    return status == cudaErrorLaunchFailure   ? "cudaErrorLaunchFailure"
           : status == cudaErrorInvalidDevice ? "cudaErrorInvalidDevice"
                                              : "cudaErrorUnknown";
}
}

void twin_log_launch(const char *kernel, dim3 grid, dim3 block, const char *arguments)
{
    if (log_file())
        fprintf(log_file(), "%s %u %u %u %u%s\n", kernel, grid.x, grid.y, grid.z, block.x,
                arguments);
}

void twin_keep_thread(bool is_to_keep)
{
    static cudaError_t error;
    static int device;

    if (is_to_keep) {
        error = last_error;
        device = device_now;
    } else {
        last_error = error;
        device_now = device;
    }
}
