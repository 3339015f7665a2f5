// Softmax of short rows, such as ten classes: see native/simd/short_rows.h.
#pragma once

#include "../../native/simd/short_rows.h"
#include "softmax.h"

namespace gluonops::GLUONOPS_ISA {

// A block of short rows has each row's maximum and the sum of exp((x - max) * scale), which is also written to the
// block's scratch memory.
template <typename T, int INNER, typename A>
GLUONOPS_INLINE void short_row_exponentials(const T *x, const ShortRows<T, INNER> &block, A scale, A *max, A *sum)
{
    typedef typename Simd<T>::Vector V;
    const A low = lowest<A>();
    A *exponentials = block.scratch;
    block.reduce(max, block.widened(x), low, [](V a, V b) GLUONOPS_LAMBDA { return maximum(a, b); });
    block.each([=, &block](int64_t i, auto mask, const auto &lanes) GLUONOPS_LAMBDA {
        block.prefetch_next(x, i);
        store(exponentials + i, exponential((load(x + i, mask, low) - lanes.of(max)) * scale), mask);
    });
    block.sum(sum, exponentials);
}

// Softmax of short rows.
template <typename T>
inline void softmax_short_rows(const RowSizes &sizes, const T *data, T *output, double temperature)
{
    typedef typename Simd<T>::Scalar A;
    const bool streaming = use_streaming_stores_for_short_rows<T>(sizes, 2);
    const A scale = inverse_temperature<A>(temperature);
    parallel_short_rows<T>(sizes, 2, [=](const auto &block) {
        enum { ROOM = std::decay_t<decltype(block)>::ROOM };
        alignas(64) A max_buffer[ROOM], sum_buffer[ROOM];
        A *max = max_buffer, *inverse_sum = sum_buffer;
        const A *exponentials = block.scratch;
        short_row_exponentials(data + block.start, block, scale, max, inverse_sum);
        for_each_vector<T>(block.rows, [=](int64_t j, auto) GLUONOPS_LAMBDA {
            store(inverse_sum + j, A(1) / load(inverse_sum + j));
        });
        T *to = output + block.start;
        block.write(to, streaming, [=](int64_t i, auto mask, const auto &lanes) GLUONOPS_LAMBDA {
            return load(exponentials + i, mask) * lanes.of(inverse_sum);
        });
    });
}

}  // namespace gluonops::GLUONOPS_ISA
