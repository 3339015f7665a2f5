// tile on the CPU. Bytes moved, forward and backward: the data's and the output's.
//
// A row of the output is the copies of a span that lie side by side. Where they are short, vectors reach beyond them:
// the next store overwrites what one has written too much, and of what a load has read too much nothing is kept.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "generated/tile.h"
#include "../../native/simd/rows.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

// As many rows, and the spans that they begin with, are neighbours both in the data and in the output.
int64_t neighbouring_rows(const TileLoops &loops, int64_t rows) { return loops.outermost ? loops.sizes[0] : rows; }

// Calls visit(item, count) for items from `begin` to `end`, some at a time, but none across a multiple of `neighbours`.
template <typename Visit>
GLUONOPS_INLINE void for_each_group(int64_t neighbours, int64_t begin, int64_t end, const Visit &visit)
{
    for (int64_t item = begin; item < end;) {
        const int64_t count = std::min(neighbours - item % neighbours, end - item);
        visit(item, count);
        item += count;
    }
}

// -- forward: bytes are copied, of whatever type ----------------------------------------------------------------------

const int64_t LONG_SPAN = 1024;       // bytes; from here on a copy of the span is worth a call
const int64_t PIECE_BYTES = 32768;    // what one call copies of a long span

// Fills a row with copies of a span. What is there already is copied behind itself, so its length doubles.
void repeat(char *to, const char *from, int64_t span, int64_t row_bytes)
{
    memcpy(to, from, size_t(span));
    for (int64_t done = span; done < row_bytes;) {
        const int64_t next = std::min(done, row_bytes - done);
        memcpy(to + done, to, size_t(next));
        done += next;
    }
}

// Rows of spans that a vector or two hold. A vector is filled with copies of a span, and where rows are short too, with
// several rows, if it can be permuted.
struct RowFiller {
    int64_t span, row_bytes;
    int64_t step = span;    // from a vector to the next one of its row
    int64_t rows_at_once = 1;
    Words pattern = {};

    RowFiller(int64_t span, int64_t row_bytes) : span(span), row_bytes(row_bytes)
    {
        if (!permutes())
            return;
        step = WIDTH / span * span;
        rows_at_once = std::max(WIDTH / row_bytes, int64_t(1));
        const int64_t word = 4, words = span / word, row_words = row_bytes / word;
        for (int64_t lane = 0; lane < WIDTH / word; ++lane)
            pattern[lane] = uint32_t(lane / row_words * words + lane % row_words % words);
    }

    GLUONOPS_INLINE bool permutes() const { return WIDTH > 16 && span <= WIDTH && span % 4 == 0; }

    // Fills consecutive rows from consecutive spans, as far as memory reaches for vectors. Returns how many.
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
            from += self.rows_at_once * self.span;
            row += self.rows_at_once;
        }
        return std::min(row, rows);
    }
};

void copy_short_spans(const char *from, char *to, const TileLoops &loops, int64_t spans)
{
    const int64_t span = loops.span, repeats = loops.repeats[0];
    const int64_t row_bytes = span * repeats, rows = spans * loops.copies / repeats;
    const char *from_end = from + spans * span;
    const RowFiller filler(span, row_bytes);
    parallel_for(rows, 2 * row_bytes, [=, &loops, &filler](int64_t begin, int64_t end) {
        const char *to_end = to + end * row_bytes;
        for_each_group(neighbouring_rows(loops, rows), begin, end, [=, &loops, &filler](int64_t first, int64_t count) {
            const char *sources = from + loops.source_of(first * repeats);
            char *output = to + first * row_bytes;
            int64_t row = 0;
            if (filler.permutes())
                row = filler.fill<1, true>(output, to_end, sources, from_end, count);
            else if (span <= WIDTH)
                row = filler.fill<1, false>(output, to_end, sources, from_end, count);
            else if (span <= 2 * WIDTH)
                row = filler.fill<2, false>(output, to_end, sources, from_end, count);
            for (; row < count; ++row)
                repeat(output + row * row_bytes, sources + row * span, span, row_bytes);
        });
    });
}

// A thread copies pieces of spans, so that a tensor of one row is shared by all threads too.
void copy_long_spans(const char *from, char *to, const TileLoops &loops, int64_t spans)
{
    const int64_t span = loops.span, copies = spans * loops.copies;
    const bool streaming = copies * span >= STREAMING_MIN_BYTES;

    const auto copy_piece = [=, &loops](int64_t copy, int64_t start, int64_t bytes) GLUONOPS_LAMBDA {
        copy_bytes(to + copy * span + start, from + loops.source_of(copy) + start, bytes, streaming);
    };
    parallel_spans(copies, span, PIECE_BYTES, 2, copy_piece);
}

template <typename T>
void forward(const TileArgs<T> &args)
{
    if (!args.elements)
        return;
    TileLoops in_bytes = args.loops;
    in_bytes.span *= int64_t(sizeof(T));
    const auto copy_spans = in_bytes.span >= LONG_SPAN ? copy_long_spans : copy_short_spans;
    copy_spans(reinterpret_cast<const char *>(args.data), reinterpret_cast<char *>(args.output), in_bytes,
               args.elements / args.loops.span);
}

// -- backward: every element is the sum of its copies, in an order that only the sizes determine ----------------------

// Vectors of sums. Integers wrap around, which unsigned arithmetic defines.
template <typename T, bool = std::is_integral<T>::value>
struct Sums {
    typedef typename Simd<T>::Vector Vector;
    enum { LANES = Simd<T>::LANES };

    template <typename Mask>
    static GLUONOPS_INLINE Vector load(const T *from, Mask mask) { return GLUONOPS_ISA::load(from, mask); }
    template <typename Mask>
    static GLUONOPS_INLINE void store(T *to, Vector sum, Mask mask) { GLUONOPS_ISA::store(to, sum, mask); }
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

// Where the copies of a span lie, from its first one on: at each offset a row.
struct Copies {
    const int64_t *offsets;
    int64_t count, span, repeats;

    GLUONOPS_INLINE int64_t last() const { return offsets[count - 1] + (repeats - 1) * span; }

    // Whether there are more copies than one block of sums has.
    GLUONOPS_INLINE bool are_many() const { return count * repeats > SUM_BLOCK; }

    // Sums all copies: add(sums, copy) adds one, whose first element is `copy`. That of the first copy is `from`.
    // Whether they are MANY is asked for outside of the loop over elements, which is slower by a quarter otherwise.
    template <bool MANY, typename V, int VECTORS, typename T, typename Add>
    GLUONOPS_INLINE void sum(V (&sums)[VECTORS], const T *from, const Add &add) const
    {
        if constexpr (MANY)
            return sum_many(sums, from, add);
        V registers[VECTORS] = {};   // The compiler may leave what the caller owns in memory.
        for (int64_t c = 0; c < count; ++c) {
            const T *copy = from + offsets[c];
            for (int64_t r = 0; r < repeats; ++r, copy += span)
                add(registers, copy);
        }
        for (int v = 0; v < VECTORS; ++v)
            sums[v] = registers[v];
    }

    // The same in blocks.
    template <typename V, int VECTORS, typename T, typename Add>
    GLUONOPS_OUTLINE void sum_many(V (&sums)[VECTORS], const T *from, const Add &add) const
    {
        int64_t c = 0, r = 0;   // the next copy
        sum_in_blocks(count * repeats, sums, [&](int64_t begin, int64_t end, V (&sums)[VECTORS]) GLUONOPS_LAMBDA {
            for (int64_t left = end - begin; left > 0;) {
                const int64_t stop = std::min(repeats, r + left);
                const T *copy = from + offsets[c] + r * span;
                left -= stop - r;
                for (; r < stop; ++r, copy += span)
                    add(sums, copy);
                c += r == repeats;
                r = r == repeats ? 0 : r;
            }
        });
    }
};

// The sums of some neighbouring elements.
template <bool MANY, int VECTORS, typename T, typename Mask>
GLUONOPS_INLINE void sum_vectors(T *to, const T *from, const Copies &copies, Mask mask)
{
    enum { LANES = Sums<T>::LANES };
    typename Sums<T>::Vector sums[VECTORS];
    copies.sum<MANY>(sums, from, [=](auto &sums, const T *copy) GLUONOPS_LAMBDA {
        for (int v = 0; v < VECTORS; ++v)
            sums[v] += Sums<T>::load(copy + v * LANES, mask);
    });
    for (int v = 0; v < VECTORS; ++v)
        Sums<T>::store(to + v * LANES, sums[v], mask);
}

// The sums of `width` elements of a span.
template <bool MANY, typename T>
GLUONOPS_INLINE void sum_span(T *to, const T *to_end, const T *from, const T *from_end, int64_t width,
                              const Copies &copies)
{
    enum { LANES = Sums<T>::LANES };
    const int64_t reach = copies.last() + LANES;
    int64_t x = 0;
    for (; x + 4 * LANES <= width; x += 4 * LANES)
        sum_vectors<MANY, 4>(to + x, from + x, copies, FullMask());
    for (; x < width; x += LANES) {
        if (to_end - to >= x + LANES && from_end - from >= x + reach)
            sum_vectors<MANY, 1>(to + x, from + x, copies, FullMask());
        else
            sum_vectors<MANY, 1>(to + x, from + x, copies, PartialMask{std::min(width - x, int64_t(LANES))});
    }
}

// Sums of neighbouring short spans: of as many at a time as fill a vector, and whose copies lie in two vectors. Returns
// how many of `rows` have been summed: as far as memory reaches for vectors. The processor has to permute them.
template <bool MANY, typename T>
int64_t sum_short_spans(T *to, const T *to_end, const T *from, const T *from_end, int64_t rows, const Copies &copies)
{
    typedef typename Simd<T>::Vector V;
    enum { LANES = Simd<T>::LANES };
    const int64_t size = copies.span, step = size * copies.repeats;
    if (WIDTH == 16 || size > LANES)
        return 0;
    const int64_t at_once = std::min(LANES / size, (2 * LANES - size) / step + 1), reach = copies.last() + 2 * LANES;
    typename Simd<T>::Indices pattern;
    for (int64_t lane = 0; lane < LANES; ++lane)
        pattern[lane] = std::min(lane / size * step, 2 * LANES - size) + lane % size;
    int64_t row = 0;
    for (; row < rows && to_end - to >= LANES && from_end - from >= reach; row += at_once) {
        V sum[1];
        copies.sum<MANY>(sum, from, [=](V (&sum)[1], const T *copy) GLUONOPS_LAMBDA {
            sum[0] += __builtin_shuffle(load(copy), load(copy + LANES), pattern);
        });
        store(to, sum[0]);
        to += at_once * size;
        from += at_once * step;
    }
    return std::min(row, rows);
}

// Returns the sum of a single element: its neighbouring copies are a row.
template <typename T>
typename Simd<T>::Scalar sum_element(const T *from, const Copies &copies)
{
    typedef typename Simd<T>::Scalar A;
    GrowingSum<A> sum;
    for (int64_t c = 0; c < copies.count; ++c) {
        const T *row = from + copies.offsets[c];
        sum.add(row_sum<T>(copies.repeats, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return load(row + i, mask);
        }));
    }
    return sum.result();
}

// The sums of `width` elements of `count` spans, or of `count` whole short ones. As far as the compiler knows, a sum of
// bytes could overwrite `copies` if it were not the function's own.
template <bool MANY, typename T>
void sum_spans(T *to, const T *to_end, const T *from, const T *from_end, int64_t count, int64_t width, Copies copies)
{
    const int64_t size = copies.span, step = size * copies.repeats;
    int64_t i = 0;
    if constexpr (!std::is_integral<T>::value) {
        if (size > 1)
            i = sum_short_spans<MANY>(to, to_end, from, from_end, count, copies);
        for (; size == 1 && i < count; ++i)
            store_scalar(to + i, sum_element(from + i * step, copies));
    }
    for (; i < count; ++i)
        sum_span<MANY>(to + i * size, to_end, from + i * step, from_end, width, copies);
}

const int64_t PIECE = 1024;   // elements of a long span that a thread sums at a time

template <typename T>
void backward(const TileArgs<T> &args)
{
    const TileLoops &loops = args.loops;
    if (!args.elements)
        return;
    const int64_t size = loops.span, repeats = loops.repeats[0], spans = args.elements / size;
    std::vector<int64_t> offsets;
    for (int64_t c = 0; c < loops.copies; c += repeats)
        offsets.push_back(loops.copy_of(0, c));
    const Copies copies = {offsets.data(), int64_t(offsets.size()), size, repeats};
    const T *from = args.output_grad, *from_end = from + args.elements * loops.copies;
    T *to = args.data_grad;

    const int64_t pieces = (size + PIECE - 1) / PIECE;
    const int64_t bytes = (loops.copies + 1) * size / pieces * int64_t(sizeof(T));
    const int64_t neighbours = pieces > 1 ? 1 : neighbouring_rows(loops, spans);
    parallel_for(spans * pieces, bytes, [=, &loops](int64_t begin, int64_t end) {
        const auto start_of = [=](int64_t item) { return item / pieces * size + item % pieces * PIECE; };
        const T *to_end = to + start_of(end);
        for_each_group(neighbours, begin, end, [=, &loops](int64_t item, int64_t count) {
            const int64_t start = item % pieces * PIECE, width = std::min(PIECE, size - start);
            const T *first = from + loops.copy_of(item / pieces, 0) + start;
            T *sums = to + start_of(item);
            // Sums of integers are exact in any order, and need no blocks.
            if constexpr (!std::is_integral<T>::value)
                if (copies.are_many())
                    return sum_spans<true>(sums, to_end, first, from_end, count, width, copies);
            sum_spans<false>(sums, to_end, first, from_end, count, width, copies);
        });
    });
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA

namespace gluonops {

// A dimension that does not repeat belongs to the block of the dimension outside it.
template <typename T>
void derive(const TileAttrs &attrs, Arrays inputs, TileArgs<T> &args)
{
    const std::vector<int64_t> &shape = inputs[0].shape(), &counts = attrs.tiles.values;
    const int64_t ndim = inputs[0].ndim(), count = int64_t(counts.size()), axis = inputs[0].axis(attrs.axis);
    const bool is_tuple = attrs.tiles.is_tuple;
    TileLoops &loops = args.loops;
    loops.span = loops.copies = loops.repeats[0] = 1;
    int64_t level = 0, *block = &loops.span;
    for (int64_t i = 1; i <= std::max(ndim, count); ++i) {   // from the last dimension on
        const bool repeats = is_tuple ? i <= count : i == ndim - axis;
        const int64_t copies = repeats ? counts[size_t(is_tuple ? count - i : 0)] : 1;
        *block *= i <= ndim ? shape[size_t(ndim - i)] : 1;
        if (copies == 1)
            continue;
        loops.outermost = level;
        loops.repeats[level] = copies;
        loops.copies *= copies;
        block = &loops.sizes[level++];
        *block = 1;
    }
}

}  // namespace gluonops
