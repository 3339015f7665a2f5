// Softmax along the rows of a (outer, length, inner) tensor; a row holds the logits of all classes.
#pragma once

#include "../../native/simd/columns.h"
#include "../_labels/labels.h"

namespace gluonops::GLUONOPS_ISA {

// Returns the rows of classes, from the arguments of an operator.
template <typename Args>
inline RowSizes class_rows(const Args &args) { return {args.batch, args.classes, args.inner}; }

// Returns the factor of (x - max). It is finite, so that 0 stays 0 whatever the temperature.
template <typename A>
GLUONOPS_INLINE A inverse_temperature(double temperature)
{
    const A scale = A(1) / A(temperature), largest = -lowest<A>();
    return scale < largest ? scale : largest;
}

// Returns the sum of exp((x - max) * scale). Each exponential is also written to `exponentials`, unless that is null.
// The next row is prefetched meanwhile.
template <typename T, typename A>
GLUONOPS_INLINE A row_exponentials(const T *x, int64_t length, A max, A scale, A *exponentials = nullptr)
{
    return row_sum<T>(length, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
        __builtin_prefetch(x + i + length);
        const auto value = exponential((load(x + i, mask, lowest<A>()) - max) * scale);
        if (exponentials)
            store(exponentials + i, value, mask);
        return value;
    });
}

// A block of columns has each column's maximum in all its lanes, and in its first lane the sum of
// exp((x - max) * scale). Both arrays are padded to whole vectors. Each exponential is also written to `exponentials`,
// unless that is null; its lines are `exponentials_pitch` elements apart. Without SCALES, scale is 1. It is a function
// for all operators. It takes a copy of the lines, which no store of a vector can change, as far as the compiler knows.
template <bool SCALES, typename T, typename A>
void column_max_and_sum(const T *x, ColumnLines<T> lines, A scale, A *__restrict max, A *__restrict sum,
                        A *__restrict exponentials = nullptr, int64_t exponentials_pitch = 0)
{
    typedef typename Simd<T>::Vector V;
    const int64_t pitch = lines.pitch;
    const A low = lowest<A>();

    for_each_vector<T>(lines.lanes(), [=](int64_t j, auto) GLUONOPS_LAMBDA {
        store(max + j, broadcast(low));
    });
    lines.reduce(max, [=](int64_t line, int64_t j, auto mask) GLUONOPS_LAMBDA {
        return load(x + line * pitch + j, mask, low);
    }, [](V max, V logits) GLUONOPS_LAMBDA { return maximum(logits, max); });
    lines.fold(max, [](V a, V b) GLUONOPS_LAMBDA { return maximum(a, b); });
    lines.spread(max);

    lines.sum(sum, [=](int64_t line, int64_t j, auto mask) GLUONOPS_LAMBDA {
        const V shifted = load(x + line * pitch + j, mask, low) - load(max + j);
        const V value = exponential(SCALES ? shifted * scale : shifted);
        if (exponentials)
            store(exponentials + line * exponentials_pitch + j, value, mask);
        return value;
    });
}

// Softmax of rows, one after the other. Exponentials are computed once, or twice without memory for them.
template <typename T, typename A>
GLUONOPS_INLINE void softmax_row_by_row(const T *data, T *output, int64_t rows, int64_t length, A scale,
                                        A *exponentials, bool streaming)
{
    for (int64_t row = 0; row < rows; ++row) {
        const T *logits = data + row * length;
        T *to = output + row * length;
        const A max = row_max(logits, length);
        const A inverse_sum = A(1) / row_exponentials(logits, length, max, scale, exponentials);
        if (exponentials)
            write_row(to, length, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                return load(exponentials + i, mask) * inverse_sum;
            });
        else
            write_row(to, length, streaming, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                return exponential((load(logits + i, mask) - max) * scale) * inverse_sum;
            });
    }
}

// It takes one row or more, with three under way. While a row's exponentials are computed, the next row's maximum
// is found, and the row before is divided by its sum: they take what exponentials leave free of the processor.
template <typename T, typename A>
GLUONOPS_INLINE void softmax_rows_overlapping(const T *data, T *output, int64_t rows, int64_t length, A scale,
                                              A *exponentials, A *exponentials_before)
{
    typedef typename Simd<T>::Vector V;
    const A low = lowest<A>();
    A max = row_max(data, length), inverse_sum = 0;
    for (int64_t row = 0; row < rows; ++row) {
        const bool has_before = row > 0, has_next = row + 1 < rows;
        const T *logits = data + row * length, *next = logits + length;
        T *before = output + (row - 1) * length;
        V next_max = broadcast(low);
        const A sum = row_sum<T>(length, [=, &next_max](int64_t i, auto mask) GLUONOPS_LAMBDA {
            const V value = exponential((load(logits + i, mask, low) - max) * scale);
            store(exponentials + i, value, mask);
            if (has_next)
                next_max = maximum(load(next + i, mask, low), next_max);
            if (has_before)
                store(before + i, load(exponentials_before + i, mask) * inverse_sum, mask);
            return value;
        });
        max = reduce_max(next_max);
        inverse_sum = A(1) / sum;
        A *const free = exponentials_before;
        exponentials_before = exponentials;
        exponentials = free;
    }
    write_row(output + (rows - 1) * length, length, false, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
        return load(exponentials_before + i, mask) * inverse_sum;
    });
}

// Softmax of rows whose elements are neighbours.
template <typename T>
inline void softmax_rows(const RowSizes &sizes, const T *data, T *output, double temperature)
{
    typedef typename Simd<T>::Scalar A;
    const bool streaming = use_streaming_stores<T>(sizes);
    const A scale = inverse_temperature<A>(temperature);
    const int64_t length = sizes.length, line = Simd<A>::LANES;
    const int64_t pitch = (length + line - 1) / line * line;   // Two rows' exponentials are so far apart.
    if (sizes.empty())
        return;
    parallel_for(sizes.outer, 2 * length * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        const bool overlaps = !streaming && fits_scratch<A>(2 * pitch);
        const Scratch<A> scratch(overlaps ? 2 * pitch : length);
        A *exponentials = scratch.memory;
        const T *from = data + begin * length;
        T *to = output + begin * length;
        const auto overlap = [=](A scale) GLUONOPS_LAMBDA {
            softmax_rows_overlapping(from, to, end - begin, length, scale, exponentials, exponentials + pitch);
        };
        const bool drops_scale = HAS_STREAMING_STORES && std::is_same<A, float>::value;   // where speed matters
        if (!overlaps || !exponentials)
            softmax_row_by_row(from, to, end - begin, length, scale, exponentials, streaming);
        else if (drops_scale && scale == A(1))
            overlap(A(1));   // the compiler leaves the product out
        else
            overlap(scale);
        store_fence();
    });
}

// Spreads the class ids of columns over their lanes. A lane gets its class as seen from the first lane of its line, so
// that it is the line's first class where they meet, and NO_CLASS where they cannot.
template <typename T, typename Index>
GLUONOPS_INLINE void spread_class_ids(const ColumnLines<T> &lines, Index *class_ids)
{
    typedef typename Simd<T>::Indices Indices;
    lines.spread(class_ids, [](Indices class_id, Indices element) GLUONOPS_LAMBDA {
        const Indices none = broadcast(Index(NO_CLASS));
        const Indices within = class_id >= element ? class_id - element : none;
        return class_id == Index(IGNORED) ? class_id : within;
    });
}

// Softmax of columns.
template <typename T>
inline void softmax_columns(const RowSizes &sizes, const T *data, T *output, double temperature)
{
    typedef typename Simd<T>::Scalar A;
    const bool streaming = use_streaming_stores<T>(sizes);
    const A scale = inverse_temperature<A>(temperature);
    parallel_columns<true, T>(sizes, 2, [=](ColumnBlock<T> &block) {
        alignas(64) A max_buffer[MAX_BLOCK_COLUMNS], sum_buffer[MAX_BLOCK_COLUMNS];
        A *max = max_buffer, *sum = sum_buffer;
        const T *logits = block.read(data);
        T *probabilities = block.write(output);
        const ColumnLines<T> lines = block.lines;
        const int64_t pitch = lines.pitch, scratch_pitch = block.scratch_pitch;
        const A *exponentials = block.scratch;
        column_max_and_sum<true>(logits, lines, scale, max, sum, block.scratch, scratch_pitch);

        A *inverse_sum = sum;
        for_each_vector<T>(block.columns, [=](int64_t j, auto) GLUONOPS_LAMBDA {
            store(inverse_sum + j, A(1) / load(sum + j));
        });
        lines.spread(inverse_sum);
        if (exponentials)
            lines.write(probabilities, streaming, [=](int64_t line, int64_t j, auto mask) GLUONOPS_LAMBDA {
                return load(exponentials + line * scratch_pitch + j, mask) * load(inverse_sum + j, mask);
            });
        else
            lines.write(probabilities, streaming, [=](int64_t line, int64_t j, auto mask) GLUONOPS_LAMBDA {
                const auto shifted = load(logits + line * pitch + j, mask) - load(max + j, mask);
                return exponential(shifted * scale) * load(inverse_sum + j, mask);
            });
    });
}

// exp((x - max) * scale) over its sum along each row; scale is 1 / temperature.
template <typename T>
inline void softmax(const RowSizes &sizes, const T *data, T *output, double temperature)
{
    if (reduces_along_rows<T>(sizes))
        softmax_rows(sizes, data, output, temperature);
    else
        softmax_columns(sizes, data, output, temperature);
}

}  // namespace gluonops::GLUONOPS_ISA
