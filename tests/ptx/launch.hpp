// SPDX-License-Identifier: MIT
// launch.hpp - a launch of spot's sources goes to the PTX that nvcc made of them.
#ifndef SPOT_TESTS_PTX_LAUNCH_HPP
#define SPOT_TESTS_PTX_LAUNCH_HPP

#include <dlfcn.h>

#include <tuple>
#include <utility>

#include "ptx/ptx.h"

template <typename Values, size_t... I>
static inline void ptx_launch_with(struct ptx_launch launch, const Values &values,
                                   std::index_sequence<I...>)
{
    const void *const argument[] = { &std::get<I>(values)... };

    launch.argument = argument;
    launch.n_argument = sizeof...(I);
    ptx_launch(&launch);
}

// Both compilers mangle alike, so a kernel has the name of the function that a C++ compiler makes
// of it: the program exports them.
template <typename... P, typename... A>
static inline void ptx_launch_of(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, A... a)
{
    Dl_info info;

    twin_check_shared(reinterpret_cast<const void *>(kernel), shared);
    if (!dladdr(reinterpret_cast<void *>(kernel), &info) || !info.dli_sname)
        abort();
    ptx_launch_with({ info.dli_sname, { grid.x, grid.y, grid.z }, block.x, shared, nullptr, 0 },
                    std::tuple<P...>(static_cast<P>(a)...), std::index_sequence_for<P...>());
}

#define SPOT_LAUNCH(kernel, grid, block, shared, stream, ...) \
    ((void)(stream), ptx_launch_of((kernel), grid, block, shared, __VA_ARGS__))

#endif // SPOT_TESTS_PTX_LAUNCH_HPP
