// SPDX-License-Identifier: MIT
// Recorded work: launches with their arguments, copies with their addresses. A host's memory is
// read when the graph runs. What a recording does not allow voids it, as on a device.
#include "graph.hpp"

#include <cstdlib>

#include "twin.hpp"

struct CUgraph_st {
    std::vector<std::function<void()>> work;
};

struct CUgraphExec_st {
    std::vector<std::function<void()>> work;
};

namespace
{
struct turn {
    turn() { twin_lock(); }
    ~turn() { twin_unlock(); }
    turn(const turn &) = delete;
    turn &operator=(const turn &) = delete;
};

// A driver that records nothing: SPOT_TWIN_GRAPHS=0, at once; =1, it says so at the end.
bool allows(int step)
{
    const char *const text = getenv("SPOT_TWIN_GRAPHS");

    return !text || !*text || atoi(text) > step;
}
} // namespace

bool twin_forbids(cudaStream_t stream)
{
    if (!stream || !stream->queue->recording)
        return false;
    stream->queue->recording->is_void = true;
    return true;
}

bool twin_forbids_here()
{
    bool any = false;

    for (cudaStream_t stream : twin_streams()) {
        const twin_recording *const r = stream->queue->recording.get();

        if (r && (r->mode == cudaStreamCaptureModeGlobal ||
                  (r->mode == cudaStreamCaptureModeThreadLocal &&
                   r->owner == std::this_thread::get_id())))
            any |= twin_forbids(stream);
    }
    return any;
}

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    const turn turn;

    if (!allows(0))
        return twin_told(cudaErrorNotSupported);
    if (stream->queue->recording)
        return twin_told(cudaErrorIllegalState);
    stream->queue->recording = std::make_shared<twin_recording>();
    stream->queue->recording->owner = std::this_thread::get_id();
    stream->queue->recording->mode = mode;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    const turn turn;
    const std::shared_ptr<twin_recording> r = stream->queue->recording;

    *graph = nullptr;
    if (!r)
        return twin_told(cudaErrorIllegalState);
    if (r->mode != cudaStreamCaptureModeRelaxed && r->owner != std::this_thread::get_id())
        return twin_told(cudaErrorStreamCaptureWrongThread);
    stream->queue->recording = nullptr;
    if (r->is_void || !allows(1))
        return twin_told(cudaErrorStreamCaptureInvalidated);
    *graph = new CUgraph_st{ r->work };
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n)
{
    if (nodes)
        return twin_told(cudaErrorNotSupported);
    *n = graph->work.size();
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    const turn turn;

    (void)flags;
    if (twin_forbids_here())
        return twin_told(cudaErrorStreamCaptureUnsupported);
    *exec = new CUgraphExec_st{ graph->work };
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    const turn turn;

    if (twin_forbids(stream)) // a device would record it as a part
        return twin_told(cudaErrorNotSupported);
    twin_log_line("graph", exec->work.size());
    for (const std::function<void()> &work : exec->work)
        twin_queue_work(stream, work);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    const turn turn;

    delete exec; // what is under way has its own copies
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}
}
