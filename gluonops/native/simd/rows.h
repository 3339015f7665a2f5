// Loops over the rows of a tensor of shape (outer, length, inner): there is one row of `length` elements for each
// (outer, inner).
//
// Where inner is 1 the elements of a row are neighbours in memory, and vectors run along the row. Elsewhere the rows
// are columns: vectors run across neighbouring columns, in blocks whose intermediate results stay in the first-level
// cache. Short rows are reduced as columns too: a row that fills no vector costs as much as one that does.
#pragma once

#include "../kernel.h"

namespace gluonops::GLUONOPS_ISA {

struct RowSizes {
    int64_t outer, length, inner;

    GLUONOPS_INLINE int64_t rows() const { return outer * inner; }
    GLUONOPS_INLINE int64_t elements() const { return outer * length * inner; }
    GLUONOPS_INLINE bool empty() const { return !outer || !length || !inner; }
};

// Returns whether rows are reduced by vectors that run along them.
template <typename T>
GLUONOPS_INLINE bool reduces_along_rows(const RowSizes &sizes)
{
    return sizes.inner == 1 && sizes.length >= 2 * int64_t(Simd<T>::LANES);
}

// Returns the maximum of a row, which is at least the lowest finite number. NaNs are left out.
template <typename T>
GLUONOPS_INLINE typename Simd<T>::Scalar row_max(const T *x, int64_t length)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector V;
    enum { N = Simd<T>::LANES };
    const A low = lowest<A>();
    V max0 = broadcast(low), max1 = max0, max2 = max0, max3 = max0;
    int64_t i = 0;
    for (; i + 4 * N <= length; i += 4 * N) {
        max0 = maximum(load(x + i), max0);
        max1 = maximum(load(x + i + N), max1);
        max2 = maximum(load(x + i + 2 * N), max2);
        max3 = maximum(load(x + i + 3 * N), max3);
    }
    for (; i + N <= length; i += N)
        max0 = maximum(load(x + i), max0);
    if (i < length)
        max1 = maximum(load(x + i, PartialMask{length - i}, low), max1);
    return reduce_max(maximum(maximum(max0, max1), maximum(max2, max3)));
}

const int64_t ROW_SUM_BLOCK = 16 * SUM_BLOCK;   // elements, whatever the vectors' width; the narrowest have 4 lanes

// Returns the sum over a row of term(i, mask), in an order that depends on the row's length only.
template <typename T, typename Term>
GLUONOPS_INLINE typename Simd<T>::Scalar row_sum(int64_t length, const Term &term)
{
    typedef typename Simd<T>::Vector V;
    typedef typename Simd<T>::Index Index;
    enum { N = Simd<T>::LANES };
    V sums[4];
    sum_in_blocks<ROW_SUM_BLOCK>(length, sums, [&](int64_t begin, int64_t end, V (&sums)[4]) GLUONOPS_LAMBDA {
        int64_t i = begin;
        for (; i + 4 * N <= end; i += 4 * N) {
            sums[0] += term(i, FullMask());
            sums[1] += term(i + N, FullMask());
            sums[2] += term(i + 2 * N, FullMask());
            sums[3] += term(i + 3 * N, FullMask());
        }
        for (; i + N <= end; i += N)
            sums[0] += term(i, FullMask());
        if (i < end) {
            const V rest = term(i, PartialMask{end - i}), zero = {};
            sums[1] += lane_numbers<T>() < Index(end - i) ? rest : zero;
        }
    });
    return reduce_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// Calls body(row) for every row, on several threads; inner is 1.
template <typename Body>
inline void parallel_rows(const RowSizes &sizes, int64_t bytes_per_element, const Body &body)
{
    if (sizes.length)
        parallel_for_each(sizes.outer, sizes.length * bytes_per_element, body);
}

// Calls body(row, first, items) for spans of `span` elements of every row, of which the last one may be shorter.
template <typename Body>
inline void parallel_spans(int64_t rows, int64_t length, int64_t span, int64_t bytes_per_element, const Body &body)
{
    const int64_t spans = (length + span - 1) / span, longest = length < span ? length : span;
    parallel_for_each(rows * spans, longest * bytes_per_element, [=](int64_t i) GLUONOPS_LAMBDA {
        const int64_t first = i % spans * span, left = length - first;
        body(i / spans, first, left < span ? left : span);
    });
}

const int64_t MAX_BLOCK_COLUMNS = 512;
const int64_t BLOCK_BYTES = 262144;   // The bytes of a block's input, which stays in the second-level cache.

// Returns how many columns a block has: a multiple of a cache line.
template <typename T>
GLUONOPS_INLINE int64_t block_columns(const RowSizes &sizes)
{
    const int64_t line = 64 / int64_t(sizeof(T));
    const int64_t fitting = BLOCK_BYTES / int64_t(sizeof(T)) / (sizes.length + 1) / line * line;
    const int64_t columns = fitting < line ? line : fitting > MAX_BLOCK_COLUMNS ? MAX_BLOCK_COLUMNS : fitting;
    return columns < sizes.inner ? columns : sizes.inner;
}

// Calls body(start, first_row, columns) for every block of columns, on several threads: the block's first element, its
// first row and how many columns it has.
template <typename T, typename Body>
inline void parallel_column_blocks(const RowSizes &sizes, int64_t bytes_per_element, const Body &body)
{
    if (sizes.empty())
        return;
    const int64_t most_columns = block_columns<T>(sizes);
    const int64_t blocks = (sizes.inner + most_columns - 1) / most_columns;
    const RowSizes s = sizes;
    parallel_for_each(s.outer * blocks, most_columns * s.length * bytes_per_element, [=](int64_t i) GLUONOPS_LAMBDA {
        const int64_t outer = i / blocks, column = i % blocks * most_columns;
        const int64_t remaining = s.inner - column;
        body(outer * s.length * s.inner + column, outer * s.inner + column,
             remaining < most_columns ? remaining : most_columns);
    });
}

// The sums of a block's columns, which grow line by line.
template <typename T>
class ColumnSums {
  public:
    typedef typename Simd<T>::Scalar A;

    // Adds to the columns from `j` on; end_line() follows each line.
    GLUONOPS_INLINE void add(int64_t j, typename Simd<T>::Vector terms) { store(sums + j, load(sums + j) + terms); }

    GLUONOPS_INLINE void end_line()
    {
        if (++lines % SUM_BLOCK == 0)
            end_block();
    }

    // Padded to whole vectors.
    GLUONOPS_INLINE A *result()
    {
        if (blocks) {
            end_block();
            for (int64_t j = 0; j < MAX_BLOCK_COLUMNS; ++j)
                sums[j] = A(totals[j]);
        }
        return sums;
    }

  private:
    alignas(64) A sums[MAX_BLOCK_COLUMNS] = {};
    alignas(64) double totals[MAX_BLOCK_COLUMNS];   // of whole blocks, where there are such
    int64_t lines = 0, blocks = 0;

    void end_block()
    {
        for (int64_t j = 0; j < MAX_BLOCK_COLUMNS; ++j) {
            totals[j] = (blocks ? totals[j] : 0) + double(sums[j]);
            sums[j] = 0;
        }
        ++blocks;
    }
};

// A visit keeps COUNT vectors of columns in registers.
template <int COUNT> struct ColumnTile { enum { VECTORS = COUNT }; };

// It is for_each_vector, with up to four vectors at a time: visit(column, mask, ColumnTile<count>()).
template <typename T, typename Visit>
GLUONOPS_INLINE void for_each_column_tile(int64_t columns, const Visit &visit)
{
    enum { N = Simd<T>::LANES };
    int64_t j = 0;
    for (; j + 4 * N <= columns; j += 4 * N)
        visit(j, FullMask(), ColumnTile<4>());
    for (; j + N <= columns; j += N)
        visit(j, FullMask(), ColumnTile<1>());
    if (j < columns)
        visit(j, PartialMask{columns - j}, ColumnTile<1>());
}

// Returns whether streaming stores pay for a call's results: they have to be large, and written in spans that are long
// enough.
template <typename T>
GLUONOPS_INLINE bool use_streaming_stores(const RowSizes &sizes)
{
    const int64_t span = sizes.inner == 1 ? sizes.length : block_columns<T>(sizes);
    return streams<T>(sizes.elements()) && span * int64_t(sizeof(T)) >= 512;
}

const int64_t MAX_SCRATCH_BYTES = 1 << 20;

template <typename A>
GLUONOPS_INLINE bool fits_scratch(int64_t items)
{
    return items * int64_t(sizeof(A)) <= MAX_SCRATCH_BYTES;
}

// Scratch memory of one thread, which begins at a cache line. `memory` is null where it would not stay in the cache, or
// cannot be allocated.
template <typename A>
struct Scratch {
    A *memory;

    explicit Scratch(int64_t items) : memory(nullptr), allocated(nullptr)
    {
        if (!fits_scratch<A>(items))
            return;
        allocated = malloc(size_t(items) * sizeof(A) + CACHE_LINE);
        const uintptr_t aligned = (reinterpret_cast<uintptr_t>(allocated) + CACHE_LINE) / CACHE_LINE * CACHE_LINE;
        memory = allocated ? reinterpret_cast<A *>(aligned) : nullptr;
    }
    ~Scratch() { free(allocated); }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

  private:
    enum { CACHE_LINE = 64 };
    void *allocated;
};

}  // namespace gluonops::GLUONOPS_ISA
