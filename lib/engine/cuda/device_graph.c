/* SPDX-License-Identifier: MIT */
/* Recording the stream of a device, and running what was recorded. */
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "comm/comm_nccl.h"
#include "common/xalloc.h"
#include "engine/cuda/device_state.h"

struct spot_device_graph {
    cudaGraphExec_t exec;
    size_t n_node;
};

/* Other threads of the process, of training or of NCCL, may wait and take memory meanwhile: hence a
 * recording of this thread alone. */
bool spot_device_record(struct spot_device *dev)
{
    if (!spot_device_is_ok(dev))
        return false;
    if (cudaStreamBeginCapture(dev->stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess)
        return true;
    (void)cudaGetLastError();
    return false;
}

/* An error of a call that was to be recorded is an error of the recording only. */
struct spot_device_graph *spot_device_recorded(struct spot_device *dev)
{
    struct spot_device_graph *const g = spot_xcalloc(1, sizeof(*g));
    cudaGraph_t graph = NULL;
    cudaError_t status = cudaStreamEndCapture(dev->stream, &graph);

    if (status == cudaSuccess)
        status = cudaGraphGetNodes(graph, NULL, &g->n_node);
    if (status == cudaSuccess)
        status = cudaGraphInstantiate(&g->exec, graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    if (status == cudaSuccess && spot_device_is_ok(dev))
        return g;
    (void)cudaGetLastError();
    dev->err = (struct spot_err){ 0 };
    spot_device_graph_free(g);
    return NULL;
}

void spot_device_replay(struct spot_device *dev, struct spot_device_graph *graph)
{
    if (spot_device_is_ok(dev))
        spot_device_note(dev, "a graph", cudaGraphLaunch(graph->exec, dev->stream));
}

size_t spot_device_graph_nodes(const struct spot_device_graph *graph)
{
    return graph->n_node;
}

void spot_device_graph_free(struct spot_device_graph *graph)
{
    if (!graph)
        return;
    if (graph->exec && !spot_nccl.is_held())
        cudaGraphExecDestroy(graph->exec);
    free(graph);
}
