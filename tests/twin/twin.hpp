// SPDX-License-Identifier: MIT
// twin.hpp - what the runtime's streams and the machinery of launches share.
#ifndef SPOT_TWIN_TWIN_HPP
#define SPOT_TWIN_TWIN_HPP

#include <cstdint>
#include <functional>

#include "cuda_runtime_api.h"

// Behind all that the stream has; the lock of the device is held while it runs.
void twin_queue_work(cudaStream_t stream, std::function<void()> work);

// A number below `below`, of SPOT_TWIN_SEED.
uint64_t twin_draw(uint64_t below);

// The thread's last error and device lie among what is poisoned: kept meanwhile (true), and back.
void twin_keep_thread(bool is_to_keep);

#endif // SPOT_TWIN_TWIN_HPP
