// SPDX-License-Identifier: MIT
// graph.hpp - streams that record in place of working: what runtime.cpp and graph.cpp share. The
// lock of the device is held by whoever calls.
#ifndef SPOT_TWIN_GRAPH_HPP
#define SPOT_TWIN_GRAPH_HPP

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "cuda_runtime_api.h"

struct twin_recording {
    std::vector<std::function<void()>> work;
    std::thread::id owner;
    enum cudaStreamCaptureMode mode;
    bool is_void; // by a call that no recording allows
};

struct twin_queue {
    std::deque<std::function<void()>> work;
    std::shared_ptr<twin_recording> recording; // null: none
};

// The device's lock.
void twin_lock();
void twin_unlock();
// All streams of the process.
const std::vector<cudaStream_t> &twin_streams();
cudaError_t twin_told(cudaError_t status);
// A line of the log.
void twin_log_line(const char *what, size_t n);

// True where the stream records: what was asked of it voids its recording.
bool twin_forbids(cudaStream_t stream);
// The same of a call that is about no stream: where this thread records, or any does for all
// threads.
bool twin_forbids_here();

#endif // SPOT_TWIN_GRAPH_HPP
