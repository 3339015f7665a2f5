// Short rows of a (outer, length, inner) tensor, with inner 1 or 2: see rows.h.
//
// The length * inner elements of one outer are a span. A span fills few vectors, and none of them exactly. So an
// element is computed where it lies, across the ends of spans: vectors are full, and each lane picks its row's value.
// Only a reduction goes span by span: a vector for each span, with several numbers of each row. As many of them as make
// a vector of rows are then combined in pairs, until each lane is a row's.
#pragma once

#include <type_traits>
#include <utility>

#include "rows.h"

namespace gluonops::GLUONOPS_ISA {

const int64_t MAX_SHORT_LENGTH = 128;     // with longer rows little is lost at the end of a row
const int64_t SHORT_BLOCK_BYTES = 4096;   // A block has about so many, which stay in the first-level cache.
const int64_t MAX_SHORT_ROWS = 128;       // A block has no more.
const int64_t SHORT_STREAMING_MIN_BYTES = 32 << 20;   // The fewest bytes that all tensors have together.

// Returns whether this is faster than reducing rows as rows.h or columns.h do: the processor has to permute vectors.
template <typename T>
GLUONOPS_INLINE bool has_short_rows(const RowSizes &sizes)
{
    const bool permutes = WIDTH == 64 || (WIDTH == 32 && sizeof(typename Simd<T>::Scalar) == 4);
    return permutes && sizes.inner <= 2 && sizes.length > 1 && sizes.length <= MAX_SHORT_LENGTH;
}

// Returns whether to write results with streaming stores. They pay where a kernel's tensors do not stay in the caches
// together.
template <typename T>
GLUONOPS_INLINE bool use_streaming_stores_for_short_rows(const RowSizes &sizes, int64_t tensors)
{
    return streams<T>(sizes.elements() * tensors, SHORT_STREAMING_MIN_BYTES);
}

// It has the row of each lane, for every vector of a period of elements. The rows count from that of the vector's first
// span.
template <typename T, int INNER>
struct LaneRows {
    enum { N = Simd<T>::LANES };
    typedef typename Simd<T>::Index Index;
    typename Simd<T>::Indices lanes[MAX_SHORT_LENGTH];   // a period has no more vectors
    int16_t first[MAX_SHORT_LENGTH];                     // rows
    int64_t rows;                                        // how many a period has

    // Returns how many vectors a period has, if spans have this many elements.
    int64_t fill(int64_t span)
    {
        int64_t vectors = 0, row = 0, element = 0;   // where a vector's first lane is
        do {
            first[vectors] = int16_t(row);
            int64_t lane_row = 0;
            for (int lane = 0; lane < N; ++lane) {
                lanes[vectors][lane] = Index(lane_row + element % INNER);
                if (++element == span) {
                    element = 0;
                    lane_row += INNER;
                }
            }
            row += lane_row;
            ++vectors;
        } while (element);
        rows = row;
        return vectors;
    }
};

// The values of rows, for the elements in a vector.
template <typename T>
struct RowsOfLanes {
    typedef typename Simd<T>::Indices Indices;
    int64_t first;
    Indices lanes;

    // `values` has room for a vector more than there are rows.
    template <typename Value>
    GLUONOPS_INLINE auto of(const Value *values) const
    {
        typedef Value Vector __attribute__((vector_size(WIDTH)));
        Vector neighbours;
        memcpy(&neighbours, values + first, WIDTH);
        return __builtin_shuffle(neighbours, lanes);
    }
};

// A block of rows, as a kernel sees it. An element's number counts from the block's first. What a kernel knows of a
// row it keeps in an array of ROOM numbers.
template <typename T, int INNER_>
class ShortRows {
  public:
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    enum { INNER = INNER_, N = Simd<T>::LANES, SPANS = N / INNER, ROOM = MAX_SHORT_ROWS + N };
    int64_t first_row, rows, start, elements;   // `start` is the first element's number in the tensor
    A *scratch;                                 // a number for each element

    ShortRows(int64_t span, A *scratch) : scratch(scratch), span(span), vectors(lane_rows.fill(span)) {}

    void begin(int64_t first_span, int64_t count)
    {
        first_row = first_span * INNER;
        rows = count * INNER;
        start = first_span * span;
        elements = count * span;
    }

    // Brings the element of the next block that has number i nearer. The processor foresees one pass over memory, and
    // not that another block follows the passes over this one.
    GLUONOPS_INLINE void prefetch_next(const T *x, int64_t i) const { __builtin_prefetch(x + elements + i); }

    // Returns the elements of `x`, which begins at the block: in the type that they are computed in, perhaps in scratch
    // memory.
    GLUONOPS_INLINE const A *widened(const T *x) const
    {
        if constexpr (std::is_same<T, A>::value) {
            return x;
        } else {
            A *wide = scratch;
            each([=](int64_t i, auto mask, const auto &) GLUONOPS_LAMBDA {
                store(wide + i, load(x + i, mask), mask);
            });
            return wide;
        }
    }

    // values[row] = the row's numbers, combined. combine takes vectors; `nothing` changes nothing.
    template <typename Combine>
    GLUONOPS_INLINE void reduce(A *values, const A *numbers, A nothing, const Combine &combine) const
    {
        for (int64_t row = 0; row < rows; row += N) {
            const int64_t first = row / INNER * span, last = elements - span;
            const auto span_at = [=](int64_t i) GLUONOPS_LAMBDA {
                return numbers + (first + i * span < last ? first + i * span : last);
            };
            V reduced;
            if (span <= N) {
                reduced = fold<SPANS, 1>([=](int64_t i) GLUONOPS_LAMBDA {
                    return load(span_at(i), PartialMask{span}, nothing);
                }, 0, combine);
            } else if (span <= 2 * N) {
                reduced = fold<SPANS, 1>([=](int64_t i) GLUONOPS_LAMBDA {
                    const A *numbers_of_span = span_at(i);
                    return combine(load(numbers_of_span), load(numbers_of_span + N, PartialMask{span - N}, nothing));
                }, 0, combine);
            } else {
                V reduced_spans[SPANS];
                for (int64_t i = 0; i < SPANS; ++i)
                    reduced_spans[i] = reduce_span(span_at(i), nothing, combine);
                const V *of_spans = reduced_spans;
                reduced = fold<SPANS, 1>([=](int64_t i) GLUONOPS_LAMBDA { return of_spans[i]; }, 0, combine);
            }
            store(values + row, reduced);
        }
    }

    GLUONOPS_INLINE void sum(A *sums, const A *numbers) const
    {
        reduce(sums, numbers, A(0), [](V a, V b) GLUONOPS_LAMBDA { return a + b; });
    }

    // Calls visit(i, mask, lanes) for vectors of elements.
    template <typename Visit>
    GLUONOPS_INLINE void each(const Visit &visit) const
    {
        int64_t i = 0, vector = 0, first = 0;
        for (; i + N <= elements; i += N) {
            visit(i, FullMask(), rows_of(vector, first));
            if (++vector == vectors) {
                vector = 0;
                first += lane_rows.rows;
            }
        }
        if (i < elements)
            visit(i, PartialMask{elements - i}, rows_of(vector, first));
    }

    // Writes to[0 .. elements). compute(i, mask, lanes) gives the values.
    template <typename Compute>
    GLUONOPS_INLINE void write(T *to, bool streaming, const Compute &compute) const
    {
        const bool aligned = reinterpret_cast<uintptr_t>(to) % (N * sizeof(T)) == 0;
        each([=](int64_t i, auto mask, const RowsOfLanes<T> &lanes) GLUONOPS_LAMBDA {
            if constexpr (std::is_same<decltype(mask), FullMask>::value)
                store(to + i, compute(i, mask, lanes), streaming && aligned);
            else
                store(to + i, compute(i, mask, lanes), mask);
        });
    }

  private:
    int64_t span;
    LaneRows<T, INNER> lane_rows;
    int64_t vectors;

    GLUONOPS_INLINE RowsOfLanes<T> rows_of(int64_t vector, int64_t first) const
    {
        return {first + lane_rows.first[vector], lane_rows.lanes[vector]};
    }

    // A span fills vectors.
    template <typename Combine>
    GLUONOPS_INLINE V reduce_span(const A *numbers, A nothing, const Combine &combine) const
    {
        V reduced = load(numbers);
        int64_t i = N;
        for (; i + N <= span; i += N)
            reduced = combine(reduced, load(numbers + i));
        return i < span ? combine(reduced, load(numbers + i, PartialMask{span - i}, nothing)) : reduced;
    }

    // Combines the vectors of COUNT spans, STRIDE apart from `first` on, into one with N / COUNT numbers of each span.
    template <int COUNT, int STRIDE, typename Vectors, typename Combine>
    static GLUONOPS_INLINE V fold(const Vectors &vector_of, int64_t first, const Combine &combine)
    {
        if constexpr (COUNT == 1) {
            return vector_of(first);
        } else {
            const V a = fold<COUNT / 2, 2 * STRIDE>(vector_of, first, combine);
            const V b = fold<COUNT / 2, 2 * STRIDE>(vector_of, first + STRIDE, combine);
            return fold_pair<N / COUNT>(a, b, combine, std::make_integer_sequence<int, N>());
        }
    }

    // Combines each lane with the one DISTANCE away: of `a` where the lane's number lacks that bit, of `b` elsewhere.
    template <int DISTANCE, typename Combine, int... I>
    static GLUONOPS_INLINE V fold_pair(V a, V b, const Combine &combine, std::integer_sequence<int, I...>)
    {
        typedef typename Simd<T>::Indices Indices;
        const Indices own = {(I & DISTANCE ? I + N : I)...};
        const Indices others = {(I & DISTANCE ? I - DISTANCE + N : I + DISTANCE)...};
        return combine(__builtin_shuffle(a, b, own), __builtin_shuffle(a, b, others));
    }
};

template <typename RowBlock, typename T, typename Body>
inline void parallel_short_blocks(const RowSizes &sizes, int64_t tensors, const Body &body)
{
    typedef typename Simd<T>::Scalar A;
    const RowSizes s = sizes;
    const int64_t span = s.length * RowBlock::INNER;   // elements
    const int64_t group = RowBlock::SPANS;             // spans of whole vectors of rows
    const int64_t fitting = SHORT_BLOCK_BYTES / int64_t(sizeof(A)) / (span * group);
    const int64_t most = MAX_SHORT_ROWS / RowBlock::N;
    const int64_t spans = group * (fitting < 1 ? 1 : fitting > most ? most : fitting);
    const int64_t blocks = (s.outer + spans - 1) / spans;
    parallel_for(blocks, spans * span * tensors * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        alignas(64) A scratch[RowBlock::N * MAX_SHORT_LENGTH];
        RowBlock block(span, scratch);
        for (int64_t i = begin; i < end; ++i) {
            const int64_t left = s.outer - i * spans;
            block.begin(i * spans, left < spans ? left : spans);
            body(block);
        }
        store_fence();
    });
}

// Calls body(block) for every block of rows, on several threads. The kernel reads and writes `tensors` tensors.
template <typename T, typename Body>
inline void parallel_short_rows(const RowSizes &sizes, int64_t tensors, const Body &body)
{
    if (sizes.empty())
        return;
    if (sizes.inner == 1)
        parallel_short_blocks<ShortRows<T, 1>, T>(sizes, tensors, body);
    else
        parallel_short_blocks<ShortRows<T, 2>, T>(sizes, tensors, body);
}

}  // namespace gluonops::GLUONOPS_ISA
