// Blocks of neighbouring columns of a (outer, length, inner) tensor: see rows.h.
//
// Where inner is less than a vector, most lanes would be empty. There are two ways to fill them. Where a column is
// short, a block covers several neighbours along outer, and is packed: their columns are copied into one matrix, side
// by side, and the results are copied back. Where it is long, a line of the matrix is several lines of the tensor. So a
// column has several lanes, each of which reduces a share of it; then the shares are folded into one. See ColumnLines.
#pragma once

#include "pieces.h"
#include "rows.h"

namespace gluonops::GLUONOPS_ISA {

// As many items as fill whole cache lines, at least `items`. Vectors do not cross a line then.
template <typename T>
GLUONOPS_INLINE int64_t whole_lines(int64_t items)
{
    const int64_t line = 64 / int64_t(sizeof(T));
    return (items + line - 1) / line * line;
}

// The column of each lane of a vector in a line, and which of the column's elements in that line it is.
template <typename T>
struct LanePositions {
    typedef typename Simd<T>::Indices Indices;
    typedef typename Simd<T>::Index Index;
    Indices column, element;
    Index columns, columns_left, elements;   // a vector has `elements` whole rows of columns, and `columns_left`

    // The first vector's.
    explicit LanePositions(int64_t count)
        : columns(Index(count)), columns_left(Index(Simd<T>::LANES % count)), elements(Index(Simd<T>::LANES / count))
    {
        for (int lane = 0; lane < Simd<T>::LANES; ++lane) {
            column[lane] = Index(lane % count);
            element[lane] = Index(lane / count);
        }
    }

    // Goes on to the next vector's.
    GLUONOPS_INLINE void advance()
    {
        const Indices next = column + columns_left, is_next_element = next >= columns;   // -1 where true
        column = is_next_element ? next - columns : next;
        element += elements - is_next_element;
    }
};

// The lines of a block's matrices. A whole line has `per_line` elements of every column, the first elements of all
// columns first. What a kernel knows of a column it keeps in an array of as many lanes, which has room for
// MAX_BLOCK_COLUMNS. Where per_line is more than 1, there are fewer columns than a vector has lanes.
template <typename T>
struct ColumnLines {
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Indices Indices;
    typedef typename Simd<T>::Index Index;
    int64_t count;      // how many whole lines there are
    int64_t pitch;      // from a line to the next
    int64_t columns;
    int64_t per_line;   // a power of two
    int64_t rest;       // lanes of one more line, or 0
    LanePositions<T> first_positions = LanePositions<T>(1);

    GLUONOPS_INLINE int64_t lanes() const { return columns * per_line; }

    // Writes a matrix of such lines. compute(line, j, mask) gives the values of its vectors.
    template <typename Compute>
    GLUONOPS_INLINE void write(T *to, bool streaming, const Compute &compute) const
    {
        const int64_t width = lanes();
        if (per_line > 1) {   // the lines are short, fill whole vectors and have no gaps
            int64_t line = 0, j = 0;
            for_each_vector<T>(count * width + rest, [&](int64_t i, auto mask) GLUONOPS_LAMBDA {
                store(to + i, compute(line, j, mask), mask);
                j += Simd<T>::LANES;
                line += j == width;
                j = j == width ? 0 : j;
            });
            return;
        }
        for (int64_t line = 0; line < count; ++line)
            write_row(to + line * pitch, width, streaming, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                return compute(line, j, mask);
            });
    }

    // Reduces every lane over all lines: values[j] = combine(values[j], term(line, j, mask)), in the order of the
    // lines. combine takes vectors.
    template <typename Term, typename Combine>
    GLUONOPS_INLINE void reduce(A *values, const Term &term, const Combine &combine) const
    {
        enum { N = Simd<T>::LANES };
        const int64_t lines = count;
        for_each_column_tile<T>(lanes(), [=](int64_t j, auto mask, auto group) GLUONOPS_LAMBDA {
            enum { VECTORS = decltype(group)::VECTORS };
            typename Simd<T>::Vector reduced[VECTORS];
            for (int v = 0; v < VECTORS; ++v)
                reduced[v] = load(values + j + v * N);
            for (int64_t line = 0; line < lines; ++line)
                for (int v = 0; v < VECTORS; ++v)
                    reduced[v] = combine(reduced[v], term(line, j + v * N, mask));
            for (int v = 0; v < VECTORS; ++v)
                store(values + j + v * N, reduced[v]);
        });
        for_each_vector<T>(rest, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
            store(values + j, combine(load(values + j), term(lines, j, mask)), mask);
        });
    }

    // Reduces the lanes of each column to its first one. combine(a, b) takes vectors.
    template <typename Combine>
    GLUONOPS_INLINE void fold(A *values, const Combine &combine) const
    {
        enum { N = Simd<T>::LANES };
        int64_t left = lanes() / 2;
        for (; left >= columns && 2 * left > N; left /= 2)
            for (int64_t j = 0; j < left; j += N)
                store(values + j, combine(load(values + j), load(values + j + left)));
        if (left < columns)
            return;
        auto folded = load(values);   // a load from the middle of what was just stored would wait
        for (; left >= columns; left /= 2)
            folded = combine(folded, __builtin_shuffle(folded, lane_numbers<T>() + Index(left)));
        store(values, folded);
    }

    // The sum of term(line, j, mask) over each column, in its first lane. `sums` is padded to whole vectors.
    template <typename Term>
    GLUONOPS_INLINE void sum(A *sums, const Term &term) const
    {
        enum { N = Simd<T>::LANES };
        const int64_t lines = count;
        for_each_column_tile<T>(lanes(), [=](int64_t j, auto mask, auto group) GLUONOPS_LAMBDA {
            enum { VECTORS = decltype(group)::VECTORS };
            typedef typename Simd<T>::Vector V;
            V vectors[VECTORS];
            sum_in_blocks(lines, vectors, [=](int64_t begin, int64_t end, V (&vectors)[VECTORS]) GLUONOPS_LAMBDA {
                for (int64_t line = begin; line < end; ++line)
                    for (int v = 0; v < VECTORS; ++v)
                        vectors[v] += term(line, j + v * N, mask);
            });
            for (int v = 0; v < VECTORS; ++v)
                store(sums + j + v * N, vectors[v]);
        });
        for_each_vector<T>(rest, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
            store(sums + j, load(sums + j) + term(lines, j, mask), mask);
        });
        fold(sums, [](auto a, auto b) GLUONOPS_LAMBDA { return a + b; });
    }

    // Copies the first lane of each column to its others.
    template <typename Value>
    GLUONOPS_INLINE void spread(Value *values) const
    {
        spread(values, [](Indices value, Indices) GLUONOPS_LAMBDA { return value; });
    }

    // Does the same, and changes the copies by adapt(value, element), for the lanes of each element of a line.
    template <typename Value, typename Adapt>
    GLUONOPS_INLINE void spread(Value *values, const Adapt &adapt) const
    {
        if (per_line == 1)
            return;
        Indices first;
        memcpy(&first, values, WIDTH);
        LanePositions<T> positions = first_positions;
        for (int64_t j = 0; j < lanes(); j += Simd<T>::LANES, positions.advance()) {
            const Indices value = adapt(__builtin_shuffle(first, positions.column), positions.element);
            memcpy(values + j, &value, WIDTH);
        }
    }
};

// A block of columns, as a kernel sees it: matrices whose lines `lines` describes. Neighbours in a column are `step`
// elements apart. The block's columns are the rows from `first_row` on.
template <typename T>
class ColumnBlock {
  public:
    typedef typename Simd<T>::Scalar A;
    int64_t first_row, columns, step;
    ColumnLines<T> lines;
    int64_t scratch_pitch;
    A *scratch;   // as many lines, `scratch_pitch` apart; or null

    // `packs` has room for a matrix of every tensor that the kernel reads and writes. If it is null, nothing is packed.
    ColumnBlock(const RowSizes &sizes, int64_t per_line, T *packs, A *scratch)
        : scratch(scratch), sizes(sizes), per_line(per_line), packs(packs),
          first_positions(per_line > 1 ? sizes.inner : 1) {}

    // Begins at an outer and a column. It covers `outers` neighbours along outer, and `width` columns of each.
    void begin(int64_t outer, int64_t outers, int64_t column, int64_t width)
    {
        first_row = outer * sizes.inner + column;
        start = outer * sizes.length * sizes.inner + column;
        pieces = outers;
        columns = outers * width;
        scratch_pitch = whole_lines<T>(columns * per_line);
        step = packs ? scratch_pitch : sizes.inner;
        lines = {sizes.length / per_line, step * per_line, columns, per_line, sizes.length % per_line * columns,
                 first_positions};
        used = results = 0;
    }

    // Returns the matrix of a tensor that the kernel reads.
    const T *read(const T *tensor)
    {
        if (!packs)
            return tensor + start;
        T *matrix = next_pack();
        copy(matrix, pack_step(), tensor + start, tensor_step());
        return matrix;
    }

    // Returns the matrix of a tensor that the kernel writes.
    T *write(T *tensor)
    {
        if (!packs)
            return tensor + start;
        result[results] = tensor + start;
        return result_pack[results++] = next_pack();
    }

    // Ends the block: what was written to matrices reaches the tensors.
    void end() const
    {
        for (int i = 0; i < results; ++i)
            copy(result[i], tensor_step(), result_pack[i], pack_step());
    }

  private:
    enum { MOST_RESULTS = 2 };
    RowSizes sizes;
    int64_t per_line;
    T *packs;
    LanePositions<T> first_positions;
    int64_t start, pieces, used;
    int results;
    T *result[MOST_RESULTS];
    T *result_pack[MOST_RESULTS];

    T *next_pack() { return packs + used++ * sizes.length * step; }

    PieceSteps pack_step() const { return {sizes.inner * int64_t(sizeof(T)), step * int64_t(sizeof(T))}; }

    PieceSteps tensor_step() const
    {
        const int64_t line = sizes.inner * int64_t(sizeof(T));
        return {sizes.length * line, line};
    }

    void copy(T *to, PieceSteps to_step, const T *from, PieceSteps from_step) const
    {
        copy_pieces(reinterpret_cast<char *>(to), to_step, reinterpret_cast<const char *>(from), from_step,
                    sizes.inner * int64_t(sizeof(T)), pieces, sizes.length);
    }
};

const int64_t FEWEST_FOLDED_LINES = 4;   // for which folding costs little

// Returns how many elements of a column a line of a matrix has: several where vectors would not be full, and columns
// are long.
template <typename T>
GLUONOPS_INLINE int64_t elements_per_line(const RowSizes &sizes)
{
    const int64_t lanes = Simd<T>::LANES;
    if (sizes.inner >= lanes)
        return 1;
    int64_t count = 1;   // the elements that fill whole vectors
    while (count * sizes.inner % lanes)
        count *= 2;
    if (sizes.length < FEWEST_FOLDED_LINES * count)
        return 1;
    while (count * sizes.inner < 4 * lanes && sizes.length >= FEWEST_FOLDED_LINES * 2 * count)
        count *= 2;
    return count;
}

// A packed matrix has about so many bytes. Then all that a kernel reads and copies stays in the first-level cache.
// Twice as many bytes took twice the time.
const int64_t PACK_BYTES = 2048;

// Returns how many neighbours along outer a block covers, which is 1 if vectors are full without packing.
template <typename T>
GLUONOPS_INLINE int64_t packed_outers(const RowSizes &sizes)
{
    const int64_t lanes = Simd<T>::LANES;
    if (sizes.inner >= lanes)
        return 1;
    const int64_t fitting = PACK_BYTES / int64_t(sizeof(T)) / sizes.length, whole = 4 * lanes;
    const int64_t filled = (fitting + whole / 2) / whole * whole;   // for_each_column_tile fills them
    const int64_t columns = filled < whole ? 2 * lanes : filled > MAX_BLOCK_COLUMNS ? MAX_BLOCK_COLUMNS : filled;
    const int64_t outers = columns / sizes.inner;
    return outers < sizes.outer ? outers : sizes.outer;
}

// Calls body(block) for every block of columns, on several threads. The kernel reads and writes `tensors` tensors.
// If SCRATCH, a block has scratch memory, unless it would not stay in the cache. Where `may_fold` is false, a line of a
// matrix has one element of every column.
template <bool SCRATCH, typename T, typename Body>
inline void parallel_columns(const RowSizes &sizes, int64_t tensors, const Body &body, bool may_fold = true)
{
    typedef typename Simd<T>::Scalar A;
    if (sizes.empty())
        return;
    const RowSizes s = sizes;
    const int64_t per_line = may_fold ? elements_per_line<T>(s) : 1;
    const int64_t outers = per_line > 1 ? 1 : packed_outers<T>(s);
    const int64_t width = outers > 1 || per_line > 1 ? s.inner : block_columns<T>(s);
    const int64_t groups = (s.outer + outers - 1) / outers, slices = (s.inner + width - 1) / width;
    const int64_t items = whole_lines<T>(outers * width * per_line) * ((s.length + per_line - 1) / per_line);
    parallel_for(groups * slices, items * tensors * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        const Scratch<T> packs(outers > 1 ? items * tensors : 0);
        const Scratch<A> scratch(SCRATCH ? items : 0);
        ColumnBlock<T> block(s, per_line, outers > 1 ? packs.memory : nullptr, SCRATCH ? scratch.memory : nullptr);
        const int64_t outers_at_once = packs.memory ? outers : 1;
        for (int64_t i = begin; i < end; ++i) {
            const int64_t first = i / slices * outers, column = i % slices * width;
            const int64_t last = first + outers < s.outer ? first + outers : s.outer;
            const int64_t columns_left = s.inner - column;
            for (int64_t outer = first; outer < last; outer += outers_at_once) {
                const int64_t outers_left = last - outer;
                block.begin(outer, outers_left < outers_at_once ? outers_left : outers_at_once, column,
                            columns_left < width ? columns_left : width);
                body(block);
                block.end();
            }
        }
        store_fence();
    });
}

}  // namespace gluonops::GLUONOPS_ISA
