// Loops over several threads. A chunk is a range of items; what a kernel computes for an item must not depend on the
// chunk it is in, so results are the same for any number of threads and chunks.
#pragma once

#include <stdint.h>

#include "pool.h"
#include "simd/vectors.h"
#include "isa.h"

namespace gluonops::GLUONOPS_ISA {

// A thread that is free takes the next chunk. So a thread that another process interrupts only holds up one chunk.
const int64_t CHUNKS_PER_THREAD = 4;

// Calls body(begin, end) for ranges that together are 0 to `items`, on several threads if it pays. An item touches
// about `bytes` bytes.
template <typename Body>
inline void parallel_for(int64_t items, int64_t bytes, const Body &body)
{
    const int threads = team_size(items, bytes);
    if (threads < 2) {
        body(int64_t(0), items);
        return;
    }

    Loop loop;
    loop.compute = [](const void *body, int64_t begin, int64_t end) {
        (*static_cast<const Body *>(body))(begin, end);
    };
    loop.body = &body;
    loop.items = items;
    loop.chunks = threads * CHUNKS_PER_THREAD < items ? threads * CHUNKS_PER_THREAD : items;
    run_loop(loop, threads);
}

// Calls body(item) for every item, which may write with streaming stores.
template <typename Body>
inline void parallel_for_each(int64_t items, int64_t bytes, const Body &body)
{
    parallel_for(items, bytes, [&](int64_t begin, int64_t end) {
        for (int64_t item = begin; item < end; ++item)
            body(item);
        store_fence();
    });
}

// Calls body(begin, items) for ranges that begin at multiples of `unit`.
template <typename Body>
inline void parallel_units(int64_t items, int64_t unit, int64_t bytes, const Body &body)
{
    parallel_for((items + unit - 1) / unit, unit * bytes, [=](int64_t first, int64_t last) {
        const int64_t begin = first * unit, end = last * unit < items ? last * unit : items;
        body(begin, end - begin);
        store_fence();
    });
}

}  // namespace gluonops::GLUONOPS_ISA
