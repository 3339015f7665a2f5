// Blocks of neighbouring columns of a (outer, length, inner) tensor: see rows.h.
//
// Where inner is less than a vector, most lanes would be empty. There are two ways to fill them. Where a column is short,
// a block covers several neighbours along outer, and is packed: their columns are copied into one matrix, side by side,
// and the results are copied back. Where it is long, a line of the matrix is several lines of the tensor. So a column
// has several lanes, each of which reduces a share of it; then the shares are folded into one. See ColumnLines.
#ifndef GLUONOPS_NATIVE_COLUMNS_H_
#define GLUONOPS_NATIVE_COLUMNS_H_

#include <utility>

#include "rows.h"

namespace gluonops {
namespace GLUONOPS_TARGET {

// The inner neighbours of one (outer, class) are a piece. How many bytes lie between the pieces of two neighbours along
// outer, and of two lines.
struct PieceSteps { int64_t outer, line; };

// Copies pieces of BYTES bytes, for each of `outers` and a range of lines.
template <int BYTES>
GLUONOPS_INLINE void copy_each_piece(char *to, PieceSteps to_step, const char *from, PieceSteps from_step,
                                     int64_t outers, int64_t first_line, int64_t end_line)
{
    for (int64_t outer = 0; outer < outers; ++outer)
        for (int64_t line = first_line; line < end_line; ++line) {
            char *target = to + outer * to_step.outer + line * to_step.line;
            memcpy(target, from + outer * from_step.outer + line * from_step.line, BYTES);
        }
}

// A square of numbers: as many as its side fill 16 bytes.
template <typename Word>
struct Square {
    enum { SIDE = 16 / int(sizeof(Word)) };
    typedef Word Vector __attribute__((vector_size(16)));
    Vector vectors[SIDE];

    // Numbers of two vectors in turn: their first halves, or their second halves.
    template <int... I>
    static GLUONOPS_INLINE Vector in_turn(Vector a, Vector b, int half, std::integer_sequence<int, I...>)
    {
        const Vector first = {Word(I / 2 + I % 2 * SIDE)...}, second = {Word(SIDE / 2 + I / 2 + I % 2 * SIDE)...};
        return __builtin_shuffle(a, b, half ? second : first);
    }

    // Each round shuffles the bits of a number's place by one; after all rounds row and column have changed places.
    GLUONOPS_INLINE void transpose()
    {
        const std::make_integer_sequence<int, SIDE> numbers;
        for (int round = 1; round < SIDE; round *= 2) {
            const Square before = *this;
            for (int i = 0; i < SIDE; ++i)
                vectors[i] = in_turn(before.vectors[i / 2], before.vectors[i / 2 + SIDE / 2], i % 2, numbers);
        }
    }
};

// Copies numbers whose neighbours along one direction are neighbours in `from`, and along the other one in `to`.
// A square of them is read along the first, and written along the second.
template <typename Word>
GLUONOPS_INLINE void copy_square(char *to, int64_t to_step, const char *from, int64_t from_step)
{
    Square<Word> square;
    for (int i = 0; i < Square<Word>::SIDE; ++i)
        memcpy(&square.vectors[i], from + i * from_step, 16);
    square.transpose();
    for (int i = 0; i < Square<Word>::SIDE; ++i)
        memcpy(to + i * to_step, &square.vectors[i], 16);
}

// Copies pieces of one number each, for each of `outers` and each of `lines`, by squares. The last squares overlap those
// before them.
template <typename Word>
void copy_numbers(char *to, PieceSteps to_step, const char *from, PieceSteps from_step, int64_t outers, int64_t lines)
{
    enum { SIDE = Square<Word>::SIDE, BYTES = sizeof(Word) };
    if (outers < SIDE || lines < SIDE)
        return copy_each_piece<BYTES>(to, to_step, from, from_step, outers, 0, lines);
    const bool packs = from_step.line == BYTES;   // else it unpacks: outers are neighbours in `from`
    const int64_t to_side = packs ? to_step.line : to_step.outer;
    const int64_t from_side = packs ? from_step.outer : from_step.line;
    for (int64_t i = 0; i < outers; i += SIDE)
        for (int64_t j = 0; j < lines; j += SIDE) {
            const int64_t outer = i + SIDE < outers ? i : outers - SIDE, line = j + SIDE < lines ? j : lines - SIDE;
            copy_square<Word>(to + outer * to_step.outer + line * to_step.line, to_side,
                              from + outer * from_step.outer + line * from_step.line, from_side);
        }
}

const int64_t LINES_AT_ONCE = 128;   // of a matrix, which stay in the first-level cache while all pieces are copied

// Copies pieces of BYTES bytes, for each of `outers` and each of `lines`.
template <int BYTES>
void copy_pieces(char *to, PieceSteps to_step, const char *from, PieceSteps from_step, int64_t outers, int64_t lines)
{
    if constexpr (BYTES == 2)
        return copy_numbers<uint16_t>(to, to_step, from, from_step, outers, lines);
    if constexpr (BYTES == 4)
        return copy_numbers<uint32_t>(to, to_step, from, from_step, outers, lines);
    if constexpr (BYTES == 8)
        return copy_numbers<uint64_t>(to, to_step, from, from_step, outers, lines);
    for (int64_t first = 0; first < lines; first += LINES_AT_ONCE) {
        const int64_t end = first + LINES_AT_ONCE < lines ? first + LINES_AT_ONCE : lines;
        copy_each_piece<BYTES>(to, to_step, from, from_step, outers, first, end);
    }
}

typedef void (*CopyPieces)(char *, PieceSteps, const char *, PieceSteps, int64_t, int64_t);

// The function for pieces of an even number of bytes, less than a vector of 64.
template <int... HALVES>
CopyPieces copy_pieces_of(int64_t bytes, std::integer_sequence<int, HALVES...>)
{
    static constexpr CopyPieces functions[] = {copy_pieces<2 * HALVES + 2>...};
    return functions[bytes / 2 - 1];
}

// As many items as fill whole cache lines, at least `items`. Vectors do not cross a line then.
template <typename T>
GLUONOPS_INLINE int64_t whole_lines(int64_t items)
{
    const int64_t line = 64 / int64_t(sizeof(T));
    return (items + line - 1) / line * line;
}

// The lines of a block's matrices. A whole line has `per_line` elements of every column, the first elements of all
// columns first. What a kernel knows of a column it keeps in an array of as many lanes, which has room for
// MAX_BLOCK_COLUMNS.
template <typename T>
struct ColumnLines {
    typedef typename Simd<T>::Scalar A;
    int64_t count;      // of whole lines
    int64_t pitch;      // from a line to the next
    int64_t columns;
    int64_t per_line;   // a power of two
    int64_t rest;       // lanes of one more line, or 0

    GLUONOPS_INLINE int64_t lanes() const { return columns * per_line; }

    // Calls visit(line, lanes) for every line. The elements of its first lanes are those number line * per_line.
    template <typename Visit>
    GLUONOPS_INLINE void each(const Visit &visit) const
    {
        for (int64_t line = 0; line < count; ++line)
            visit(line, lanes());
        if (rest)
            visit(count, rest);
    }

    // Reduces the lanes of each column to its first one. combine(a, b) takes vectors.
    template <typename Combine>
    GLUONOPS_INLINE void fold(A *values, const Combine &combine) const
    {
        for (int64_t left = lanes() / 2; left >= columns; left /= 2)
            for (int64_t j = 0; j < left; j += Simd<T>::LANES)
                store(values + j, combine(load(values + j, FullMask()), load(values + j + left, FullMask())), FullMask());
    }

    GLUONOPS_INLINE void fold_sums(A *sums) const
    {
        fold(sums, [](auto a, auto b) GLUONOPS_LAMBDA { return a + b; });
    }

    // Copies the first lane of each column to its others.
    template <typename Value>
    GLUONOPS_INLINE void spread(Value *values) const
    {
        for (int64_t done = columns; done < lanes(); done *= 2)
            memcpy(values + done, values, size_t(done) * sizeof(Value));
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

    // `packs` has room for a matrix of every tensor that the kernel reads and writes; null: nothing is packed.
    ColumnBlock(const RowSizes &sizes, int64_t per_line, T *packs, A *scratch)
        : scratch(scratch), sizes(sizes), per_line(per_line), packs(packs) {}

    // Begins at an outer and a column. It covers `outers` neighbours along outer, and `width` columns of each.
    void begin(int64_t outer, int64_t outers, int64_t column, int64_t width)
    {
        first_row = outer * sizes.inner + column;
        start = outer * sizes.length * sizes.inner + column;
        pieces = outers;
        columns = outers * width;
        scratch_pitch = whole_lines<T>(columns * per_line);
        step = packs ? scratch_pitch : sizes.inner;
        lines = {sizes.length / per_line, step * per_line, columns, per_line, sizes.length % per_line * columns};
        used = results = 0;
    }

    // The matrix of a tensor that the kernel reads.
    const T *read(const T *tensor)
    {
        if (!packs)
            return tensor + start;
        T *matrix = next_pack();
        copy(matrix, pack_step(), tensor + start, tensor_step());
        return matrix;
    }

    // The matrix of a tensor that the kernel writes.
    T *write(T *tensor)
    {
        if (!packs)
            return tensor + start;
        result[results] = tensor + start;
        return result_pack[results++] = next_pack();
    }

    // Ends: what was written reaches its tensor.
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
        const auto function = copy_pieces_of(sizes.inner * int64_t(sizeof(T)), std::make_integer_sequence<int, 31>());
        function(reinterpret_cast<char *>(to), to_step, reinterpret_cast<const char *>(from), from_step, pieces,
                 sizes.length);
    }
};

const int64_t FEWEST_FOLDED_LINES = 4;   // for which folding costs little

// How many elements of a column a line of a matrix has: several where vectors would not be full, and columns are long.
template <typename T>
GLUONOPS_INLINE int64_t elements_per_line(const RowSizes &sizes)
{
    const int64_t lanes = Simd<T>::LANES;
    if (sizes.inner >= lanes)
        return 1;
    int64_t count = 1;   // of elements that fill whole vectors
    while (count * sizes.inner % lanes)
        count *= 2;
    if (sizes.length < FEWEST_FOLDED_LINES * count)
        return 1;
    while (count * sizes.inner < 4 * lanes && sizes.length >= FEWEST_FOLDED_LINES * 2 * count)
        count *= 2;
    return count;
}

const int64_t PACK_BYTES = 4096;   // of a packed matrix: all of a kernel stay in the first-level cache

// How many neighbours along outer a block covers: 1 where vectors are full without packing.
template <typename T>
GLUONOPS_INLINE int64_t packed_outers(const RowSizes &sizes)
{
    const int64_t lanes = Simd<T>::LANES;
    if (sizes.inner >= lanes)
        return 1;
    const int64_t fitting = PACK_BYTES / int64_t(sizeof(T)) / sizes.length;
    const int64_t columns = fitting < 2 * lanes ? 2 * lanes : fitting > MAX_BLOCK_COLUMNS ? MAX_BLOCK_COLUMNS : fitting;
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

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_COLUMNS_H_
