// tile on the CPU. Bytes moved, forward and backward: the data's and the output's.
//
// The tensors are seen as loops, outermost first: data has size[l] steps in loop l, the output repeats[l] times as
// many. A row is what the innermost loop covers: a segment of the data, and in the output its copies, side by side.
// Where they are short, vectors reach beyond them: the next store overwrites what one has written too much, and of what
// a load has read too much nothing is kept.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "generated/tile.h"
#include "../../native/simd/rows.h"

namespace gluonops {

namespace GLUONOPS_TARGET {
namespace {

// The row of data that row `i` of the output repeats; or, if TO_OUTPUT, the row of the output that is the first copy of
// row `i` of data.
template <bool TO_OUTPUT>
int64_t row_of(const TileLoops &loops, int64_t i)
{
    int64_t row = 0, stride = 1;
    for (int l = loops.count - 2; l >= 0; --l) {
        const int64_t size = loops.size[l], output_size = size * loops.repeats[l];
        row += i % output_size % size * stride;
        i /= TO_OUTPUT ? size : output_size;
        stride *= TO_OUTPUT ? output_size : size;
    }
    return row;
}

// How many rows copy `c` of any row lies behind the first copy.
int64_t distance(const TileLoops &loops, int64_t c)
{
    int64_t rows = 0, stride = 1;
    for (int l = loops.count - 2; l >= 0; --l) {
        stride *= loops.size[l];
        rows += c % loops.repeats[l] * stride;
        c /= loops.repeats[l];
        stride *= loops.repeats[l];
    }
    return rows;
}

// How many rows of data there are, and how many rows of the output repeat each of them.
struct RowCounts { int64_t rows, copies; };

RowCounts row_counts(const TileLoops &loops)
{
    RowCounts counts = {1, 1};
    for (int l = 0; l < loops.count - 1; ++l) {
        counts.rows *= loops.size[l];
        counts.copies *= loops.repeats[l];
    }
    return counts;
}

// Calls visit(item, count) for runs of items from `begin` to `end`. No run crosses a multiple of `neighbours`.
template <typename Visit>
GLUONOPS_INLINE void for_each_run(int64_t neighbours, int64_t begin, int64_t end, const Visit &visit)
{
    for (int64_t item = begin; item < end;) {
        const int64_t run = std::min(neighbours - item % neighbours, end - item);
        visit(item, run);
        item += run;
    }
}

// As many rows are neighbours both in the data and in the output.
int64_t neighbouring_rows(const TileLoops &loops) { return loops.count < 2 ? 1 : loops.size[loops.count - 2]; }

// -- forward: bytes are copied, of whatever type ----------------------------------------------------------------------

const int64_t LONG_SEGMENT = 1024;    // bytes; from here on a copy of the segment is worth a call
const int64_t PIECE_BYTES = 32768;    // what one call copies of a long segment

// Fills a row with copies of a segment. What is there already is copied behind itself, so its length doubles.
void repeat(char *to, const char *from, int64_t segment, int64_t row_bytes)
{
    memcpy(to, from, size_t(segment));
    for (int64_t done = segment; done < row_bytes;) {
        const int64_t next = std::min(done, row_bytes - done);
        memcpy(to + done, to, size_t(next));
        done += next;
    }
}

// Rows of segments that a vector or two hold. A vector is filled with copies of a segment, and where rows are short too,
// with several rows, if it can be permuted.
struct RowFiller {
    int64_t segment, row_bytes;
    int64_t step = segment;     // from a vector to the next one of its row
    int64_t rows_at_once = 1;
    Words pattern = {};

    RowFiller(int64_t segment, int64_t row_bytes) : segment(segment), row_bytes(row_bytes)
    {
        if (!permutes())
            return;
        step = WIDTH / segment * segment;
        rows_at_once = std::max(WIDTH / row_bytes, int64_t(1));
        const int64_t word = 4, words = segment / word, row_words = row_bytes / word;
        for (int64_t lane = 0; lane < WIDTH / word; ++lane)
            pattern[lane] = uint32_t(lane / row_words * words + lane % row_words % words);
    }

    GLUONOPS_INLINE bool permutes() const { return WIDTH > 16 && segment <= WIDTH && segment % 4 == 0; }

    // Fills consecutive rows from consecutive segments, as far as memory reaches for vectors. Returns how many.
    template <int VECTORS, bool PERMUTES>
    GLUONOPS_INLINE int64_t fill(char *to, const char *to_end, const char *from, const char *from_end,
                                 int64_t rows) const
    {
        const RowFiller self = *this;   // as far as the compiler knows, a row could overwrite the members
        int64_t row = 0;
        const int64_t bytes = VECTORS * WIDTH;
        while (row < rows && from_end - from >= bytes && to_end - to >= self.row_bytes + bytes) {
            Words vectors[VECTORS];
            for (int v = 0; v < VECTORS; ++v)
                memcpy(&vectors[v], from + v * WIDTH, WIDTH);
            if (PERMUTES)
                vectors[0] = __builtin_shuffle(vectors[0], self.pattern);
            for (int64_t i = 0; i < self.row_bytes; i += self.step)
                for (int v = 0; v < VECTORS; ++v)
                    memcpy(to + i + v * WIDTH, &vectors[v], WIDTH);
            to += self.rows_at_once * self.row_bytes;
            from += self.rows_at_once * self.segment;
            row += self.rows_at_once;
        }
        return std::min(row, rows);
    }
};

void copy_short_segments(const char *from, char *to, const TileLoops &loops, int64_t segment)
{
    const RowCounts counts = row_counts(loops);
    const int64_t row_bytes = segment * loops.repeats[loops.count - 1];
    const char *from_end = from + counts.rows * segment;
    const RowFiller filler(segment, row_bytes);
    parallel_for(counts.rows * counts.copies, 2 * row_bytes, [=, &loops, &filler](int64_t begin, int64_t end) {
        const char *to_end = to + end * row_bytes;
        for_each_run(neighbouring_rows(loops), begin, end, [=, &loops, &filler](int64_t first, int64_t rows) {
            const char *segments = from + row_of<false>(loops, first) * segment;
            char *output = to + first * row_bytes;
            int64_t row = 0;
            if (filler.permutes())
                row = filler.fill<1, true>(output, to_end, segments, from_end, rows);
            else if (segment <= WIDTH)
                row = filler.fill<1, false>(output, to_end, segments, from_end, rows);
            else if (segment <= 2 * WIDTH)
                row = filler.fill<2, false>(output, to_end, segments, from_end, rows);
            for (; row < rows; ++row)
                repeat(output + row * row_bytes, segments + row * segment, segment, row_bytes);
        });
    });
}

// A thread copies pieces of segments, so that a tensor of one row is shared by all threads too.
void copy_long_segments(const char *from, char *to, const TileLoops &loops, int64_t segment)
{
    const RowCounts counts = row_counts(loops);
    const int64_t repeats = loops.repeats[loops.count - 1], copies = counts.rows * counts.copies * repeats;
    const int64_t pieces = (segment + PIECE_BYTES - 1) / PIECE_BYTES;
    const bool streaming = copies * segment >= STREAMING_MIN_BYTES;

    parallel_for(copies * pieces, 2 * segment / pieces, [=, &loops](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t copy = i / pieces, start = i % pieces * PIECE_BYTES;
            const char *piece = from + row_of<false>(loops, copy / repeats) * segment + start;
            copy_bytes(to + copy * segment + start, piece, std::min(segment - start, PIECE_BYTES), streaming);
        }
        store_fence();
    });
}

template <typename T>
void forward(const TileArgs<T> &args)
{
    const TileLoops &loops = args.loops;
    const int64_t segment = loops.size[loops.count - 1] * int64_t(sizeof(T));
    const char *from = reinterpret_cast<const char *>(args.data);
    char *to = reinterpret_cast<char *>(args.output);
    if (segment >= LONG_SEGMENT)
        copy_long_segments(from, to, loops, segment);
    else if (segment > 0)
        copy_short_segments(from, to, loops, segment);
}

// -- backward: every element is the sum of its copies, in an order that only the sizes determine ----------------------

// Vectors of sums. Integers wrap around, which unsigned arithmetic defines.
template <typename T, bool = std::is_integral<T>::value>
struct Sums {
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Vector Vector;
    enum { LANES = Simd<T>::LANES };

    template <typename Mask>
    static GLUONOPS_INLINE Vector load(const T *from, Mask mask) { return GLUONOPS_TARGET::load(from, mask, A(0)); }
    template <typename Mask>
    static GLUONOPS_INLINE void store(T *to, Vector sum, Mask mask) { GLUONOPS_TARGET::store(to, sum, mask); }
};

template <typename T>
struct Sums<T, true> {
    typedef typename std::make_unsigned<T>::type Vector __attribute__((vector_size(WIDTH)));
    enum { LANES = WIDTH / int(sizeof(T)) };

    static GLUONOPS_INLINE size_t bytes(FullMask) { return WIDTH; }
    static GLUONOPS_INLINE size_t bytes(PartialMask mask) { return size_t(mask.lanes) * sizeof(T); }
    template <typename Mask>
    static GLUONOPS_INLINE Vector load(const T *from, Mask mask)
    {
        Vector lanes = {};
        memcpy(&lanes, from, bytes(mask));
        return lanes;
    }
    template <typename Mask>
    static GLUONOPS_INLINE void store(T *to, const Vector &sum, Mask mask) { memcpy(to, &sum, bytes(mask)); }
};

// Where the copies of a segment lie, from its first one on: at each offset `repeats` of them, side by side.
struct Copies {
    const int64_t *offsets;
    int64_t count, size, repeats;

    GLUONOPS_INLINE int64_t last() const { return offsets[count - 1] + (repeats - 1) * size; }
};

// The sums of some neighbouring elements.
template <int VECTORS, typename T, typename Mask>
GLUONOPS_INLINE void sum_vectors(T *to, const T *from, const Copies &copies, Mask mask)
{
    enum { LANES = Sums<T>::LANES };
    typename Sums<T>::Vector sums[VECTORS] = {};
    for (int64_t c = 0; c < copies.count; ++c) {
        const T *copy = from + copies.offsets[c];
        for (int64_t r = 0; r < copies.repeats; ++r, copy += copies.size)
            for (int v = 0; v < VECTORS; ++v)
                sums[v] += Sums<T>::load(copy + v * LANES, mask);
    }
    for (int v = 0; v < VECTORS; ++v)
        Sums<T>::store(to + v * LANES, sums[v], mask);
}

// The sums of `width` elements of a segment.
template <typename T>
GLUONOPS_INLINE void sum_segment(T *to, const T *to_end, const T *from, const T *from_end, int64_t width,
                                 const Copies &copies)
{
    enum { LANES = Sums<T>::LANES };
    const int64_t reach = copies.last() + LANES;
    int64_t x = 0;
    for (; x + 4 * LANES <= width; x += 4 * LANES)
        sum_vectors<4>(to + x, from + x, copies, FullMask());
    for (; x < width; x += LANES) {
        if (to_end - to >= x + LANES && from_end - from >= x + reach)
            sum_vectors<1>(to + x, from + x, copies, FullMask());
        else
            sum_vectors<1>(to + x, from + x, copies, PartialMask{std::min(width - x, int64_t(LANES))});
    }
}

// Sums of neighbouring short segments: of as many at a time as fill a vector, and whose copies lie in two vectors.
// Returns how many of `rows` have been summed: as far as memory reaches for vectors. The processor has to permute them.
template <typename T>
int64_t sum_short_segments(T *to, const T *to_end, const T *from, const T *from_end, int64_t rows, const Copies &copies)
{
    typedef typename Simd<T>::Vector V;
    enum { LANES = Simd<T>::LANES };
    const int64_t size = copies.size, step = size * copies.repeats;
    if (WIDTH == 16 || size > LANES)
        return 0;
    const int64_t at_once = std::min(LANES / size, (2 * LANES - size) / step + 1), reach = copies.last() + 2 * LANES;
    typename Simd<T>::Indices pattern;
    for (int64_t lane = 0; lane < LANES; ++lane)
        pattern[lane] = std::min(lane / size * step, 2 * LANES - size) + lane % size;
    int64_t row = 0;
    for (; row < rows && to_end - to >= LANES && from_end - from >= reach; row += at_once) {
        V sum = {};
        for (int64_t c = 0; c < copies.count; ++c) {
            const T *copy = from + copies.offsets[c];
            for (int64_t r = 0; r < copies.repeats; ++r, copy += size)
                sum += __builtin_shuffle(load(copy, FullMask()), load(copy + LANES, FullMask()), pattern);
        }
        store(to, sum, FullMask());
        to += at_once * size;
        from += at_once * step;
    }
    return std::min(row, rows);
}

// The sum of a single element: its neighbouring copies are a row.
template <typename T>
typename Simd<T>::Scalar sum_element(const T *from, const Copies &copies)
{
    typedef typename Simd<T>::Scalar A;
    A sum = 0;
    for (int64_t c = 0; c < copies.count; ++c) {
        const T *row = from + copies.offsets[c];
        sum += row_sum<T>(copies.repeats, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return load(row + i, mask, A(0));
        });
    }
    return sum;
}

const int64_t PIECE = 1024;   // elements of a long segment that a thread sums at a time

template <typename T>
void backward(const TileArgs<T> &args)
{
    const TileLoops &loops = args.loops;
    const int64_t size = loops.size[loops.count - 1], repeats = loops.repeats[loops.count - 1], step = size * repeats;
    const RowCounts counts = row_counts(loops);
    if (counts.rows == 0 || size == 0)
        return;
    std::vector<int64_t> offsets;
    for (int64_t c = 0; c < counts.copies; ++c)
        offsets.push_back(distance(loops, c) * step);
    const Copies copies = {offsets.data(), counts.copies, size, repeats};
    const T *from = args.output_grad, *from_end = from + counts.rows * counts.copies * step;
    T *to = args.data_grad;

    const int64_t pieces = (size + PIECE - 1) / PIECE;
    const int64_t bytes = (counts.copies * step + size) / pieces * int64_t(sizeof(T));
    const int64_t neighbours = pieces > 1 ? pieces : neighbouring_rows(loops);
    parallel_for(counts.rows * pieces, bytes, [=, &loops](int64_t begin, int64_t end) {
        const auto start_of = [=](int64_t item) { return item / pieces * size + item % pieces * PIECE; };
        const T *to_end = to + start_of(end);
        for_each_run(neighbours, begin, end, [=, &loops](int64_t item, int64_t run) {
            const int64_t row = item / pieces, start = item % pieces * PIECE;
            T *sums = to + row * size + start;
            const T *first = from + row_of<true>(loops, row) * step + start;
            if (pieces > 1)
                return sum_segment(sums, to_end, first, from_end, std::min(run * PIECE, size - start), copies);
            int64_t i = 0;
            if constexpr (!std::is_integral<T>::value) {
                if (size > 1)
                    i = sum_short_segments(sums, to_end, first, from_end, run, copies);
                for (; size == 1 && i < run; ++i)
                    store_scalar(sums + i, sum_element(first + i * step, copies));
            }
            for (; i < run; ++i)
                sum_segment(sums + i * size, to_end, first + i * step, from_end, size, copies);
        });
    });
}

}  // namespace
}  // namespace GLUONOPS_TARGET

// One repeat count per output dimension.
inline std::vector<int64_t> tile_counts(const TileAttrs &attrs, int64_t ndim)
{
    if (!attrs.tiles.is_tuple) {
        std::vector<int64_t> repeats(size_t(ndim), 1);
        const int64_t axis = attrs.axis < 0 ? attrs.axis + ndim : attrs.axis;
        repeats[size_t(axis)] = attrs.tiles.values[0];
        return repeats;
    }
    std::vector<int64_t> repeats = attrs.tiles.values;
    if (int64_t(repeats.size()) < ndim)
        repeats.insert(repeats.begin(), size_t(ndim) - repeats.size(), 1);
    return repeats;
}

// A dimension that does not repeat joins the loop outside it: the two repeat as one block.
template <typename T>
void derive(const TileAttrs &attrs, Arrays inputs, TileArgs<T> &args)
{
    const std::vector<int64_t> &shape = inputs[0].shape();
    const std::vector<int64_t> repeats = tile_counts(attrs, int64_t(shape.size()));
    const size_t added = repeats.size() - shape.size();   // dimensions in front, which the data lacks
    TileLoops &loops = args.loops;
    for (size_t i = 0; i < repeats.size(); ++i) {
        const int64_t size = i < added ? 1 : shape[i - added];
        if (loops.count && repeats[i] == 1) {
            loops.size[loops.count - 1] *= size;
        } else if (size != 1 || repeats[i] != 1) {
            loops.size[loops.count] = size;
            loops.repeats[loops.count] = repeats[i];
            ++loops.count;
        }
    }
    if (!loops.count) {
        loops.size[0] = loops.repeats[0] = 1;
        loops.count = 1;
    }
}

}  // namespace gluonops
