// tile on the CPU. Bytes moved, forward and backward: the data's and the output's.
//
// The tensors are seen as loops, outermost first: data has size[l] steps in loop l, the output repeats[l] times as
// many. A row is what the innermost loop covers: in forward a row of the output, in backward a row of the data.
#include "generated/tile.h"
#include "../../native/kernel.h"

namespace gluonops {

enum { TILE_LOOPS = 8 + 1 };   // a loop for every count that the contract allows, and one in front of them

struct TileCall {
    int type;
    int loops;   // at least one; the last one is the innermost
    int64_t size[TILE_LOOPS];
    int64_t repeats[TILE_LOOPS];
    const void *from;
    void *to;
};

namespace GLUONOPS_TARGET {
namespace {

// The row of data that row `i` of the output repeats.
int64_t origin(const TileCall &call, int64_t i)
{
    int64_t row = 0, stride = 1;
    for (int l = call.loops - 2; l >= 0; --l) {
        const int64_t output_size = call.size[l] * call.repeats[l];
        row += i % output_size % call.size[l] * stride;
        i /= output_size;
        stride *= call.size[l];
    }
    return row;
}

// The row of the output that is the first copy of row `i` of data.
int64_t first_copy(const TileCall &call, int64_t i)
{
    int64_t row = 0, stride = 1;
    for (int l = call.loops - 2; l >= 0; --l) {
        row += i % call.size[l] * stride;
        i /= call.size[l];
        stride *= call.size[l] * call.repeats[l];
    }
    return row;
}

// How many rows copy `c` of any row lies behind the first copy.
int64_t distance(const TileCall &call, int64_t c)
{
    int64_t rows = 0, stride = 1;
    for (int l = call.loops - 2; l >= 0; --l) {
        stride *= call.size[l];
        rows += c % call.repeats[l] * stride;
        c /= call.repeats[l];
        stride *= call.repeats[l];
    }
    return rows;
}

// Forward: bytes are copied, of whatever type. A segment is the innermost loop's data, which a row repeats.

// Fills a row with copies of a segment that fills a word of 8 bytes a whole number of times.
GLUONOPS_INLINE void repeat_word(char *to, const char *from, int64_t segment, int64_t row)
{
    uint64_t word = 0;
    memcpy(&word, from, size_t(segment));
    for (int64_t bits = segment * 8; bits < 64; bits *= 2)
        word |= word << bits;

    const LongWords words = word - LongWords{};   // a vector of them
    for (; row >= WIDTH; row -= WIDTH, to += WIDTH)
        memcpy(to, &words, WIDTH);
    for (; row >= 8; row -= 8, to += 8)
        memcpy(to, &word, 8);
    if (row)
        memcpy(to, &word, size_t(row));
}

// Fills a row with copies of a segment. What is there already is copied behind itself, so its length doubles.
GLUONOPS_INLINE void repeat(char *to, const char *from, int64_t segment, int64_t row)
{
    if (segment <= 8 && 8 % segment == 0) {
        repeat_word(to, from, segment, row);
        return;
    }
    memcpy(to, from, size_t(segment));
    for (int64_t done = segment; done < row;) {
        const int64_t next = done < row - done ? done : row - done;
        memcpy(to + done, to, size_t(next));
        done += next;
    }
}

const int64_t LONG_SEGMENT = 1024;    // bytes; from here on a copy of the segment is worth a call
const int64_t PIECE_BYTES = 32768;    // what one call copies of a long segment

const int64_t FEWEST_ROWS = 32;   // for which patterns are worth their computation

#if defined(__AVX2__)
// Makes rows by permuting a vector that begins with their segments: several short rows at a time, or one row as several
// vectors. Loads and stores reach beyond a segment and a row: the next row overwrites what is too much.
class Permutation {
  public:
    Permutation(int64_t segment, int64_t row_bytes)
        : segment(segment), row_bytes(row_bytes), rows_at_once(row_bytes < WIDTH ? WIDTH / row_bytes : 1),
          vectors((rows_at_once * row_bytes + WIDTH - 1) / WIDTH)
    {
        const int64_t words = segment / 4, row_words = row_bytes / 4;
        for (int64_t i = 0; i < vectors * (WIDTH / 4); ++i)
            patterns[i / (WIDTH / 4)][i % (WIDTH / 4)] = uint32_t(i / row_words * words + i % row_words % words);
    }

    static bool fits(int64_t segment, int64_t row_bytes)
    {
        return segment % 4 == 0 && segment <= WIDTH && row_bytes <= MOST_PATTERNS * WIDTH;
    }

    // Fills rows from consecutive segments, of which `readable` bytes may be read; `writable` bytes may be written.
    // Returns how many rows are done: those near the end of either are not.
    int64_t fill(char *to, const char *from, int64_t rows, int64_t writable, int64_t readable) const
    {
        int64_t row = 0;
        for (; row + rows_at_once <= rows; row += rows_at_once) {
            if ((writable -= rows_at_once * row_bytes) < vectors * WIDTH || readable < WIDTH)
                break;
            Words data;
            memcpy(&data, from, WIDTH);
            for (int64_t v = 0; v < vectors; ++v) {
                const Words part = __builtin_shuffle(data, patterns[v]);
                memcpy(to + v * WIDTH, &part, WIDTH);
            }
            to += rows_at_once * row_bytes;
            from += rows_at_once * segment;
            readable -= rows_at_once * segment;
        }
        return row;
    }

  private:
    enum { MOST_PATTERNS = 8 };
    int64_t segment, row_bytes, rows_at_once, vectors;
    Words patterns[MOST_PATTERNS];
};
#else
class Permutation {
  public:
    Permutation(int64_t, int64_t) {}
    static bool fits(int64_t, int64_t) { return false; }
    int64_t fill(char *, const char *, int64_t, int64_t, int64_t) const { return 0; }
};
#endif

// How many rows of the output, from row `i` on, repeat consecutive rows of data; of the data, how many have consecutive
// copies.
int64_t consecutive_rows(const TileCall &call, int64_t i)
{
    if (call.loops < 2)
        return 1;
    const int64_t size = call.size[call.loops - 2];
    return size - i % size;
}

// A thread fills whole rows.
void copy_short_segments(const char *from, char *to, const TileCall &call, int64_t rows, int64_t segment)
{
    const int64_t row_bytes = segment * call.repeats[call.loops - 1];
    const bool permutes = rows >= FEWEST_ROWS && Permutation::fits(segment, row_bytes);
    int64_t data_bytes = segment;
    for (int l = 0; l < call.loops - 1; ++l)
        data_bytes *= call.size[l];

    parallel_for(rows, 2 * row_bytes, [=, &call](int64_t begin, int64_t end) {
        const Permutation permutation(permutes ? segment : 4, permutes ? row_bytes : 4);
        for (int64_t row = begin; row < end;) {
            const int64_t left = end - row, consecutive = consecutive_rows(call, row);
            const int64_t run = consecutive < left ? consecutive : left;
            const int64_t start = origin(call, row) * segment;
            char *target = to + row * row_bytes;
            int64_t done = 0;
            if (permutes)
                done = permutation.fill(target, from + start, run, left * row_bytes, data_bytes - start);
            for (; done < run; ++done)
                repeat(target + done * row_bytes, from + start + done * segment, segment, row_bytes);
            row += run;
        }
    });
}

// A thread copies pieces of segments, so that a tensor of one row is shared by all threads too.
void copy_long_segments(const char *from, char *to, const TileCall &call, int64_t rows, int64_t segment)
{
    const int64_t repeats = call.repeats[call.loops - 1];
    const int64_t pieces = (segment + PIECE_BYTES - 1) / PIECE_BYTES;
    const bool streaming = rows * repeats * segment >= STREAMING_MIN_BYTES;

    parallel_for(rows * repeats * pieces, 2 * segment / pieces, [=, &call](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t copy = i / pieces, row = copy / repeats;
            const int64_t start = i % pieces * PIECE_BYTES;
            const int64_t bytes = segment - start < PIECE_BYTES ? segment - start : PIECE_BYTES;
            const char *piece = from + origin(call, row) * segment + start;
            copy_bytes(to + copy * segment + start, piece, bytes, streaming);
        }
        store_fence();
    });
}

void copy(const TileCall &call)
{
    const int last = call.loops - 1;
    const int64_t segment = call.size[last] * size_of(call.type);
    int64_t rows = 1;
    for (int l = 0; l < last; ++l)
        rows *= call.size[l] * call.repeats[l];
    if (rows == 0 || segment == 0)
        return;

    const char *from = static_cast<const char *>(call.from);
    char *to = static_cast<char *>(call.to);
    if (segment < LONG_SEGMENT)
        copy_short_segments(from, to, call, rows, segment);
    else
        copy_long_segments(from, to, call, rows, segment);
}

template <typename T>
void forward(const TileCall &call)
{
    copy(call);
}

// Backward: every element is the sum of its copies, in an order that only the sizes determine.

// The type of the sums: float for float16; integers wrap around, which unsigned arithmetic defines.
template <typename T> struct Sum { typedef T Type; };
template <> struct Sum<Half> { typedef float Type; };
template <> struct Sum<int8_t> { typedef uint8_t Type; };
template <> struct Sum<int32_t> { typedef uint32_t Type; };
template <> struct Sum<int64_t> { typedef uint64_t Type; };

GLUONOPS_INLINE float element(Half x) { return widen(x); }
template <typename T> GLUONOPS_INLINE T element(T x) { return x; }

template <typename T, typename A> GLUONOPS_INLINE void assign(T &to, A sum) { to = T(sum); }
GLUONOPS_INLINE void assign(Half &to, float sum) { to = narrow(sum); }

// Adding up. In the output, `repeats` copies of a row's `size` elements are neighbours, and so are those of the next row:
// a function adds these copies of some rows to the rows' sums.
template <typename T>
using AddRows = void (*)(const T *copy, int64_t rows, int64_t size, int64_t repeats, typename Sum<T>::Type *sums);

// SIZE and REPEATS are 0 if only `size` and `repeats` say how many.
template <int SIZE, int REPEATS, typename T>
void add_rows(const T *__restrict copy, int64_t rows, int64_t size, int64_t repeats,
              typename Sum<T>::Type *__restrict sums)
{
    const int64_t width = SIZE ? SIZE : size, count = REPEATS ? REPEATS : repeats;
    for (int64_t row = 0; row < rows; ++row, sums += width)
        for (int64_t r = 0; r < count; ++r, copy += width)
            for (int64_t x = 0; x < width; ++x)
                sums[x] += element(copy[x]);
}

// For a size that is a power of two. LANES elements are added at a time, which are several copies. Then the two halves
// of these sums are added, until one copy is left.
template <int LANES, typename T>
void add_short_rows(const T *copy, int64_t rows, int64_t size, int64_t repeats, typename Sum<T>::Type *sums)
{
    typedef typename Sum<T>::Type A;
    const int64_t items = size * repeats;
    for (int64_t row = 0; row < rows; ++row, copy += items, sums += size) {
        A partial[LANES] = {};
        int64_t i = 0;
        for (; i + LANES <= items; i += LANES)
            for (int64_t x = 0; x < LANES; ++x)
                partial[x] += element(copy[i + x]);
        for (int64_t x = 0; i + x < items; ++x)
            partial[x] += element(copy[i + x]);

        for (int64_t half = LANES / 2; half >= size; half /= 2)
            for (int64_t x = 0; x < half; ++x)
                partial[x] += partial[x + half];

        for (int64_t x = 0; x < size; ++x)
            sums[x] += partial[x];
    }
}

template <int SIZE, typename T>
AddRows<T> add_rows_of(int64_t repeats)
{
    switch (repeats) {
    case 1: return add_rows<SIZE, 1, T>;
    case 2: return add_rows<SIZE, 2, T>;
    case 3: return add_rows<SIZE, 3, T>;
    case 4: return add_rows<SIZE, 4, T>;
    default: return add_rows<SIZE, 0, T>;
    }
}

template <typename T>
AddRows<T> add_rows_for(int64_t size, int64_t repeats)
{
    const bool power_of_two = !(size & (size - 1));
    if (size <= 8 && power_of_two && size * repeats >= 16)
        return size * repeats >= 128 ? add_short_rows<64, T> : add_short_rows<16, T>;
    switch (size) {
    case 1: return add_rows_of<1, T>(repeats);
    case 2: return add_rows_of<2, T>(repeats);
    case 3: return add_rows_of<3, T>(repeats);
    case 4: return add_rows_of<4, T>(repeats);
    case 5: return add_rows_of<5, T>(repeats);
    case 6: return add_rows_of<6, T>(repeats);
    case 7: return add_rows_of<7, T>(repeats);
    case 8: return add_rows_of<8, T>(repeats);
    default: return add_rows<0, 0, T>;
    }
}

const int64_t BLOCK = 1024;            // elements whose sums are kept at a time
const int64_t KNOWN_DISTANCES = 64;    // of copies, which are computed once

// Rows that have a block or less: a thread sums blocks of rows whose copies are neighbours too.
template <typename T>
void sum_short_rows(const TileCall &call, const T *from, T *to, int64_t rows, int64_t copies)
{
    typedef typename Sum<T>::Type A;
    const int64_t size = call.size[call.loops - 1], repeats = call.repeats[call.loops - 1], items = size * repeats;
    const AddRows<T> add = add_rows_for<T>(size, repeats);
    int64_t distance_buffer[KNOWN_DISTANCES];
    for (int64_t c = 0; c < copies && c < KNOWN_DISTANCES; ++c)
        distance_buffer[c] = distance(call, c);
    const int64_t *distances = distance_buffer;

    parallel_for(rows, (copies * items + size) * int64_t(sizeof(T)), [=, &call](int64_t begin, int64_t end) {
        A sums[BLOCK];
        for (int64_t row = begin; row < end;) {
            int64_t run = BLOCK / size < end - row ? BLOCK / size : end - row;
            if (copies > 1) {
                const int64_t consecutive = consecutive_rows(call, row);
                run = consecutive < run ? consecutive : run;
            }
            for (int64_t x = 0; x < run * size; ++x)
                sums[x] = 0;
            const int64_t first = copies > 1 ? first_copy(call, row) : row;
            for (int64_t c = 0; c < copies; ++c) {
                const int64_t rows_behind = c < KNOWN_DISTANCES ? distances[c] : distance(call, c);
                add(from + (first + rows_behind) * items, run, size, repeats, sums);
            }
            for (int64_t x = 0; x < run * size; ++x)
                assign(to[row * size + x], sums[x]);
            row += run;
        }
    });
}

// Longer rows: a thread sums blocks of a row.
template <typename T>
void sum_long_rows(const TileCall &call, const T *from, T *to, int64_t rows, int64_t copies)
{
    typedef typename Sum<T>::Type A;
    const int64_t size = call.size[call.loops - 1], repeats = call.repeats[call.loops - 1];
    const int64_t blocks = (size + BLOCK - 1) / BLOCK;
    const int64_t block_bytes = (size / blocks + 1) * (copies * repeats + 1) * int64_t(sizeof(T));
    parallel_for(rows * blocks, block_bytes, [=, &call](int64_t begin, int64_t end) {
        A sums[BLOCK];
        for (int64_t i = begin; i < end; ++i) {
            const int64_t row = i / blocks, start = i % blocks * BLOCK;
            const int64_t width = size - start < BLOCK ? size - start : BLOCK;
            for (int64_t x = 0; x < width; ++x)
                sums[x] = 0;

            const int64_t first = first_copy(call, row);
            for (int64_t c = 0; c < copies; ++c) {
                const T *copy = from + (first + distance(call, c)) * size * repeats + start;
                for (int64_t r = 0; r < repeats; ++r)
                    add_rows<0, 1>(copy + r * size, 1, width, 1, sums);
            }

            for (int64_t x = 0; x < width; ++x)
                assign(to[row * size + start + x], sums[x]);
        }
    });
}

template <typename T>
void backward(const TileCall &call)
{
    const int last = call.loops - 1;
    int64_t rows = 1, copies = 1;   // copies: of a row, each of them with `repeats` copies of its elements
    for (int l = 0; l < last; ++l) {
        rows *= call.size[l];
        copies *= call.repeats[l];
    }
    if (rows == 0 || call.size[last] == 0)
        return;

    const T *from = static_cast<const T *>(call.from);
    T *to = static_cast<T *>(call.to);
    if (call.size[last] <= BLOCK)
        sum_short_rows(call, from, to, rows, copies);
    else
        sum_long_rows(call, from, to, rows, copies);
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

// Writes the loops. A dimension that does not repeat joins the loop outside it: the two repeat as one block.
inline void set_loops(TileCall &call, const std::vector<int64_t> &shape, const std::vector<int64_t> &repeats)
{
    const size_t added = repeats.size() - shape.size();   // dimensions in front, which the data lacks
    for (size_t i = 0; i < repeats.size(); ++i) {
        const int64_t size = i < added ? 1 : shape[i - added];
        if (call.loops && repeats[i] == 1) {
            call.size[call.loops - 1] *= size;
        } else if (size != 1 || repeats[i] != 1) {
            call.size[call.loops] = size;
            call.repeats[call.loops] = repeats[i];
            ++call.loops;
        }
    }
    if (!call.loops) {
        call.size[0] = call.repeats[0] = 1;
        call.loops = 1;
    }
}

inline TileCall adapt(const TileAttrs &attrs, const TileTensors &tensors, Workspace &)
{
    const std::vector<int64_t> &shape = tensors.data.shape();
    TileCall call = {};
    call.type = tensors.data.type;
    call.from = tensors.backward ? tensors.output_grad.data : tensors.data.data;
    call.to = tensors.backward ? tensors.data_grad.data : tensors.output.data;
    set_loops(call, shape, tile_counts(attrs, int64_t(shape.size())));
    return call;
}

}  // namespace gluonops
