// tile on the CPU. Bytes moved, forward and backward: the data's and the output's.
//
// The tensors are seen as loops, outermost first: data has size[l] steps in loop l, the output repeats[l] times as
// many. A row is what the innermost loop covers: in forward a row of the output, in backward a row of the data.
#include <type_traits>

#include "generated/tile.h"
#include "../../native/kernel.h"

namespace gluonops {

namespace GLUONOPS_TARGET {
namespace {

// The row of data that row `i` of the output repeats.
int64_t origin(const TileLoops &loops, int64_t i)
{
    int64_t row = 0, stride = 1;
    for (int l = loops.count - 2; l >= 0; --l) {
        const int64_t output_size = loops.size[l] * loops.repeats[l];
        row += i % output_size % loops.size[l] * stride;
        i /= output_size;
        stride *= loops.size[l];
    }
    return row;
}

// The row of the output that is the first copy of row `i` of data.
int64_t first_copy(const TileLoops &loops, int64_t i)
{
    int64_t row = 0, stride = 1;
    for (int l = loops.count - 2; l >= 0; --l) {
        row += i % loops.size[l] * stride;
        i /= loops.size[l];
        stride *= loops.size[l] * loops.repeats[l];
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

// Loops of which the innermost are seen as one: `outside` has them merged into its last loop. `inside` has these loops
// alone, with single elements as its rows.
struct SplitLoops { TileLoops outside, inside; };

// `count` is less than TILE_LOOPS.
SplitLoops split(const TileLoops &loops, int count)
{
    SplitLoops result = {loops, loops};
    TileLoops &outside = result.outside, &inside = result.inside;
    const int first = loops.count - count;
    outside.count = first + 1;
    for (int l = first + 1; l < loops.count; ++l) {
        outside.size[first] *= loops.size[l];
        outside.repeats[first] *= loops.repeats[l];
    }

    inside.count = count + 1;
    for (int l = 0; l < count; ++l) {
        inside.size[l] = loops.size[first + l];
        inside.repeats[l] = loops.repeats[first + l];
    }
    inside.size[count] = inside.repeats[count] = 1;
    return result;
}

// How many rows of data there are, and how many copies the output has of each of them.
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

// The loops with as many of the innermost ones in one as fit. `fits(inside)` says which do; at least one is merged.
template <typename Fits>
SplitLoops split_to_fit(const TileLoops &loops, int64_t fewest_rows, const Fits &fits)
{
    const int most = loops.count < TILE_LOOPS ? loops.count : TILE_LOOPS - 1;
    for (int count = most; count > 1; --count) {
        const SplitLoops candidate = split(loops, count);
        if (row_counts(candidate.outside).rows >= fewest_rows && fits(candidate.inside))
            return candidate;
    }
    return split(loops, 1);
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
//
// The rows are those of loops that are seen as one. What the innermost of them repeats are words of 4 bytes, or else
// segments have 16 bytes at most: these are permuted byte by byte, in a vector that repeats 16 bytes.
class Permutation {
  public:
    // `inside` has the loops of a row, `size` is that of an element.
    Permutation(const TileLoops &inside, int64_t size)
        : segment(segment_bytes(inside, size)), row_bytes(whole_row_bytes(inside, size)), by_bytes(!repeats_words(inside, size)),
          rows_at_once(row_bytes < WIDTH ? WIDTH / row_bytes : 1)
    {
        if (by_bytes && rows_at_once > LANE / segment)
            rows_at_once = LANE / segment;
        vectors = (rows_at_once * row_bytes + WIDTH - 1) / WIDTH;
        const int64_t items = row_bytes / size;
        for (int64_t i = 0; i < items; ++i)
            for (int64_t byte = 0; byte < size; ++byte)
                source[i * size + byte] = uint8_t(origin(inside, i) * size + byte);

        for (int64_t i = 0; i < rows_at_once * row_bytes; ++i) {
            const int64_t from = i / row_bytes * segment + source[i % row_bytes];
            if (by_bytes)
                patterns[i / WIDTH].bytes[i % WIDTH] = uint8_t(from);
            else
                patterns[i / WIDTH].words[i % WIDTH / 4] = uint32_t(from / 4);
        }
    }

    static bool fits(const TileLoops &inside, int64_t size)
    {
        const int64_t longest = repeats_words(inside, size) ? int64_t(WIDTH) : int64_t(LANE);
        return segment_bytes(inside, size) <= longest && whole_row_bytes(inside, size) <= MOST_PATTERNS * WIDTH;
    }

    // Fills rows from consecutive segments, of which `readable` bytes may be read; `writable` bytes may be written.
    void fill(char *to, const char *from, int64_t rows, int64_t writable, int64_t readable) const
    {
        if (by_bytes)
            fill_rows<true>(to, from, rows, writable, readable);
        else
            fill_rows<false>(to, from, rows, writable, readable);
    }

  private:
    enum { MOST_PATTERNS = 8, LANE = 16 };
    union Pattern {
        uint8_t bytes[WIDTH];
        uint32_t words[WIDTH / 4];
    };
    int64_t segment, row_bytes;
    bool by_bytes;
    int64_t rows_at_once, vectors;
    alignas(64) Pattern patterns[MOST_PATTERNS] = {};
    uint8_t source[MOST_PATTERNS * WIDTH];   // of every byte of a row, in its segment

    static bool repeats_words(const TileLoops &inside, int64_t size)
    {
        return inside.size[inside.count - 2] * size % 4 == 0;
    }

    static int64_t segment_bytes(const TileLoops &inside, int64_t size) { return row_counts(inside).rows * size; }

    static int64_t whole_row_bytes(const TileLoops &inside, int64_t size)
    {
        return segment_bytes(inside, size) * row_counts(inside).copies;
    }

    // The members are copied: as far as the compiler knows, a row could overwrite them.
    template <bool BY_BYTES>
    void fill_rows(char *to, const char *from, int64_t rows, int64_t writable, int64_t readable) const
    {
        const int64_t count = vectors, at_once = rows_at_once, to_step = row_bytes, from_step = segment;
        int64_t row = 0;
        for (; row < rows && writable >= count * WIDTH && readable >= WIDTH; row += at_once) {
            const Words data = BY_BYTES ? repeated_lane(from) : first_words(from);
            for (int64_t v = 0; v < count; ++v) {
                Words pattern;
                memcpy(&pattern, &patterns[v], WIDTH);
                const Words part = BY_BYTES ? shuffle_bytes(data, pattern) : __builtin_shuffle(data, pattern);
                memcpy(to + v * WIDTH, &part, WIDTH);
            }
            to += at_once * to_step;
            from += at_once * from_step;
            writable -= at_once * to_step;
            readable -= at_once * from_step;
        }
        for (; row < rows; ++row, to += to_step, from += from_step)
            for (int64_t i = 0; i < to_step; ++i)
                to[i] = from[source[i]];
    }

    static Words first_words(const char *from)
    {
        Words data;
        memcpy(&data, from, WIDTH);
        return data;
    }

    // A vector of the same 16 bytes again and again.
    static Words repeated_lane(const char *from)
    {
        const __m128i lane = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
#if defined(__AVX512F__)
        return Words(_mm512_broadcast_i32x4(lane));
#else
        return Words(_mm256_broadcastsi128_si256(lane));
#endif
    }

    // The bytes of each 16 that the pattern names.
    static Words shuffle_bytes(Words data, Words pattern)
    {
#if defined(__AVX512BW__)
        return Words(_mm512_shuffle_epi8(__m512i(data), __m512i(pattern)));
#else
        return Words(_mm256_shuffle_epi8(__m256i(data), __m256i(pattern)));
#endif
    }
};
#else
class Permutation {
  public:
    Permutation(const TileLoops &, int64_t) {}
    static bool fits(const TileLoops &, int64_t) { return false; }
    void fill(char *, const char *, int64_t, int64_t, int64_t) const {}
};
#endif

// How many rows of the output, from row `i` on, repeat consecutive rows of data; of the data, how many have consecutive
// copies.
int64_t consecutive_rows(const TileLoops &loops, int64_t i)
{
    if (loops.count < 2)
        return 1;
    const int64_t size = loops.size[loops.count - 2];
    return size - i % size;
}

// Rows of a loop whose segments are too long to be permuted, or too few.
void repeat_segments(const char *from, char *to, const TileLoops &loops, int64_t rows, int64_t segment)
{
    const int64_t row_bytes = segment * loops.repeats[loops.count - 1];
    parallel_for(rows, 2 * row_bytes, [=, &loops](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end;) {
            const int64_t left = end - row, consecutive = consecutive_rows(loops, row);
            const int64_t run = consecutive < left ? consecutive : left;
            const char *start = from + origin(loops, row) * segment;
            for (int64_t done = 0; done < run; ++done)
                repeat(to + (row + done) * row_bytes, start + done * segment, segment, row_bytes);
            row += run;
        }
    });
}

// Rows of loops that are seen as one.
void permute_segments(const char *from, char *to, const SplitLoops &parts, int64_t size)
{
    const TileLoops *outside = &parts.outside;
    const int64_t segment = outside->size[outside->count - 1] * size;
    const int64_t row_bytes = segment * outside->repeats[outside->count - 1];
    const RowCounts counts = row_counts(*outside);
    const int64_t data_bytes = counts.rows * segment;
    const Permutation given(parts.inside, size);
    const Permutation *permutation = &given;
    parallel_for(counts.rows * counts.copies, 2 * row_bytes, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end;) {
            const int64_t left = end - row, consecutive = consecutive_rows(*outside, row);
            const int64_t run = consecutive < left ? consecutive : left;
            const int64_t start = origin(*outside, row) * segment;
            permutation->fill(to + row * row_bytes, from + start, run, left * row_bytes, data_bytes - start);
            row += run;
        }
    });
}

// A thread fills whole rows. `size` is that of an element.
void copy_short_segments(const char *from, char *to, const TileLoops &loops, int64_t rows, int64_t segment,
                         int64_t size)
{
    const auto fits = [=](const TileLoops &inside) { return Permutation::fits(inside, size); };
    const SplitLoops parts = split_to_fit(loops, FEWEST_ROWS, fits);
    if (row_counts(parts.outside).rows >= FEWEST_ROWS && fits(parts.inside))
        permute_segments(from, to, parts, size);
    else
        repeat_segments(from, to, loops, rows, segment);
}

// A thread copies pieces of segments, so that a tensor of one row is shared by all threads too.
void copy_long_segments(const char *from, char *to, const TileLoops &loops, int64_t rows, int64_t segment)
{
    const int64_t repeats = loops.repeats[loops.count - 1];
    const int64_t pieces = (segment + PIECE_BYTES - 1) / PIECE_BYTES;
    const bool streaming = rows * repeats * segment >= STREAMING_MIN_BYTES;

    parallel_for(rows * repeats * pieces, 2 * segment / pieces, [=, &loops](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t copy = i / pieces, row = copy / repeats;
            const int64_t start = i % pieces * PIECE_BYTES;
            const int64_t bytes = segment - start < PIECE_BYTES ? segment - start : PIECE_BYTES;
            const char *piece = from + origin(loops, row) * segment + start;
            copy_bytes(to + copy * segment + start, piece, bytes, streaming);
        }
        store_fence();
    });
}

template <typename T>
void forward(const TileArgs<T> &args)
{
    const TileLoops &loops = args.loops;
    const int last = loops.count - 1;
    const int64_t size = sizeof(T), segment = loops.size[last] * size;
    const RowCounts counts = row_counts(loops);
    const int64_t rows = counts.rows * counts.copies;
    if (rows == 0 || segment == 0)
        return;

    const char *from = reinterpret_cast<const char *>(args.data);
    char *to = reinterpret_cast<char *>(args.output);
    if (segment < LONG_SEGMENT)
        copy_short_segments(from, to, loops, rows, segment, size);
    else
        copy_long_segments(from, to, loops, rows, segment);
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
    if constexpr (std::is_same<T, float>::value)
        switch (repeats) {
        case 1: return add_rows<SIZE, 1, T>;
        case 2: return add_rows<SIZE, 2, T>;
        case 3: return add_rows<SIZE, 3, T>;
        case 4: return add_rows<SIZE, 4, T>;
        }
    return add_rows<SIZE, 0, T>;
}

// Whether the order of a row's sums is that of add_short_rows.
bool adds_in_halves(int64_t size, int64_t repeats)
{
    const bool power_of_two = !(size & (size - 1));
    return size <= 8 && power_of_two && size * repeats >= 16;
}

// Integers, whose gradients are rare, have one loop for all sizes.
template <typename T>
AddRows<T> add_rows_for(int64_t size, int64_t repeats)
{
    if constexpr (std::is_integral<T>::value)
        return add_rows<0, 0, T>;
    if (adds_in_halves(size, repeats))
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
void sum_short_rows(const TileLoops &loops, const T *from, T *to, int64_t rows, int64_t copies)
{
    typedef typename Sum<T>::Type A;
    const int64_t size = loops.size[loops.count - 1], repeats = loops.repeats[loops.count - 1], items = size * repeats;
    const AddRows<T> add = add_rows_for<T>(size, repeats);
    int64_t distance_buffer[KNOWN_DISTANCES];
    for (int64_t c = 0; c < copies && c < KNOWN_DISTANCES; ++c)
        distance_buffer[c] = distance(loops, c);
    const int64_t *distances = distance_buffer;

    parallel_for(rows, (copies * items + size) * int64_t(sizeof(T)), [=, &loops](int64_t begin, int64_t end) {
        A sums[BLOCK];
        for (int64_t row = begin; row < end;) {
            int64_t run = BLOCK / size < end - row ? BLOCK / size : end - row;
            if (copies > 1) {
                const int64_t consecutive = consecutive_rows(loops, row);
                run = consecutive < run ? consecutive : run;
            }
            for (int64_t x = 0; x < run * size; ++x)
                sums[x] = 0;
            const int64_t first = copies > 1 ? first_copy(loops, row) : row;
            for (int64_t c = 0; c < copies; ++c) {
                const int64_t rows_behind = c < KNOWN_DISTANCES ? distances[c] : distance(loops, c);
                add(from + (first + rows_behind) * items, run, size, repeats, sums);
            }
            for (int64_t x = 0; x < run * size; ++x)
                assign(to[row * size + x], sums[x]);
            row += run;
        }
    });
}

#if defined(__AVX2__)
// The sums of the copies of short rows, whose loops are seen as one. Within a row of the output the elements of a copy
// have the same distances in every copy. So a copy is one load and one permutation: of several neighbouring rows, if
// they fit into two vectors.
template <typename T>
class ShortSums {
  public:
    explicit ShortSums(const SplitLoops &parts)
        : items(row_counts(parts.inside).rows), row_items(items * row_counts(parts.inside).copies),
          rows_at_once((2 * LANES - span(parts.inside)) / row_items + 1)
    {
        if (rows_at_once > LANES / items)
            rows_at_once = LANES / items;
        for (int64_t i = 0; i < rows_at_once * items; ++i)
            places[i] = Index(i / items * row_items + first_copy(parts.inside, i % items));
        vectors = places[rows_at_once * items - 1] < LANES ? 1 : 2;

        const int64_t outer = row_counts(parts.outside).copies, inner = row_counts(parts.inside).copies;
        for (int64_t c = 0; c < outer; ++c)
            for (int64_t k = 0; k < inner; ++k)
                offsets[copies++] = distance(parts.outside, c) * row_items + distance(parts.inside, k);
    }

    // Whether rows can be summed so; `copies` are those of an element.
    static bool fits(const TileLoops &inside, int64_t copies)
    {
        return row_counts(inside).rows <= LANES && span(inside) <= 2 * LANES && copies <= MOST_COPIES;
    }

    // Sums consecutive rows. `from` is the first copy of the first one; of it `readable` elements may be read, and
    // `writable` elements may be written.
    void sum(T *to, const T *from, int64_t rows, int64_t writable, int64_t readable) const
    {
        if (vectors == 1)
            sum_rows<1>(to, from, rows, writable, readable);
        else
            sum_rows<2>(to, from, rows, writable, readable);
    }

  private:
    typedef typename Sum<T>::Type A;
    typedef typename std::conditional<sizeof(A) == 8, int64_t, int32_t>::type Index;
    typedef A Vector __attribute__((vector_size(WIDTH)));
    typedef Index Indices __attribute__((vector_size(WIDTH)));
    enum { LANES = WIDTH / int(sizeof(A)), MOST_COPIES = 64 };
    int64_t items, row_items, rows_at_once, vectors;
    int64_t copies = 0;
    int64_t offsets[MOST_COPIES];
    Index places[LANES] = {};   // of the elements of a copy

    // How many elements of the output a copy lies in.
    static int64_t span(const TileLoops &inside) { return first_copy(inside, row_counts(inside).rows - 1) + 1; }

    // The members are copied: as far as the compiler knows, a sum could overwrite them.
    template <int VECTORS>
    void sum_rows(T *to, const T *from, int64_t rows, int64_t writable, int64_t readable) const
    {
        const int64_t count = copies, at_once = rows_at_once, to_step = items, from_step = row_items;
        const int64_t reach = offsets[count - 1] + VECTORS * LANES;   // the last offset is the largest
        Indices pattern;
        memcpy(&pattern, places, WIDTH);
        int64_t row = 0;
        for (; row < rows && writable >= LANES && readable >= reach; row += at_once) {
            Vector total = {};
            for (int64_t c = 0; c < count; ++c) {
                const Vector first = lanes_at(from + offsets[c]);
                if constexpr (VECTORS == 1)
                    total += __builtin_shuffle(first, pattern);
                else
                    total += __builtin_shuffle(first, lanes_at(from + offsets[c] + LANES), pattern);
            }
            store_lanes(to, total);
            to += at_once * to_step;
            from += at_once * from_step;
            writable -= at_once * to_step;
            readable -= at_once * from_step;
        }
        for (; row < rows; ++row, to += to_step, from += from_step)
            for (int64_t i = 0; i < to_step; ++i) {
                A total = 0;
                for (int64_t c = 0; c < count; ++c)
                    total += element(from[offsets[c] + places[i]]);
                assign(to[i], total);
            }
    }

    GLUONOPS_INLINE static Vector lanes_at(const T *from)
    {
        if constexpr (std::is_same<T, Half>::value) {
            return load(from, FullMask());
        } else {
            Vector lanes;
            memcpy(&lanes, from, WIDTH);
            return lanes;
        }
    }

    GLUONOPS_INLINE static void store_lanes(T *to, Vector lanes)
    {
        if constexpr (std::is_same<T, Half>::value)
            store(to, lanes, FullMask());
        else
            memcpy(to, &lanes, WIDTH);
    }
};

// Rows of loops that are seen as one.
template <typename T>
void sum_split_rows(const SplitLoops &parts, const T *from, T *to)
{
    const TileLoops *outside = &parts.outside;
    const int last = outside->count - 1;
    const int64_t items = outside->size[last], row_items = items * outside->repeats[last];
    const RowCounts counts = row_counts(*outside);
    const int64_t from_items = counts.rows * counts.copies * row_items;
    const ShortSums<T> given(parts);
    const ShortSums<T> *sums = &given;
    const int64_t row_bytes = (counts.copies * row_items + items) * int64_t(sizeof(T));
    parallel_for(counts.rows, row_bytes, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end;) {
            const int64_t left = end - row;
            const int64_t consecutive = counts.copies > 1 ? consecutive_rows(*outside, row) : left;
            const int64_t run = consecutive < left ? consecutive : left;
            const int64_t start = first_copy(*outside, row) * row_items;
            sums->sum(to + row * items, from + start, run, left * items, from_items - start);
            row += run;
        }
    });
}

// Sums the rows as above if several loops can be seen as one. Returns whether it did. There are no vectors of integers.
template <typename T>
bool sum_short_loops(const TileLoops &loops, const T *from, T *to, int64_t copies)
{
    if constexpr (!std::is_integral<T>::value) {
        const auto fits = [=](const TileLoops &inside) { return ShortSums<T>::fits(inside, copies); };
        const SplitLoops parts = split_to_fit(loops, FEWEST_ROWS, fits);
        if (parts.outside.count == loops.count)
            return false;
        sum_split_rows(parts, from, to);
        return true;
    }
    return false;
}
#else
template <typename T>
bool sum_short_loops(const TileLoops &, const T *, T *, int64_t)
{
    return false;
}
#endif

// Longer rows: a thread sums blocks of a row.
template <typename T>
void sum_long_rows(const TileLoops &loops, const T *from, T *to, int64_t rows, int64_t copies)
{
    typedef typename Sum<T>::Type A;
    const int64_t size = loops.size[loops.count - 1], repeats = loops.repeats[loops.count - 1];
    const int64_t blocks = (size + BLOCK - 1) / BLOCK;
    const int64_t block_bytes = (size / blocks + 1) * (copies * repeats + 1) * int64_t(sizeof(T));
    parallel_for(rows * blocks, block_bytes, [=, &loops](int64_t begin, int64_t end) {
        A sums[BLOCK];
        for (int64_t i = begin; i < end; ++i) {
            const int64_t row = i / blocks, start = i % blocks * BLOCK;
            const int64_t width = size - start < BLOCK ? size - start : BLOCK;
            for (int64_t x = 0; x < width; ++x)
                sums[x] = 0;

            const int64_t first = first_copy(loops, row);
            for (int64_t c = 0; c < copies; ++c) {
                const T *copy = from + (first + distance(loops, c)) * size * repeats + start;
                for (int64_t r = 0; r < repeats; ++r)
                    add_rows<0, 1>(copy + r * size, 1, width, 1, sums);
            }

            for (int64_t x = 0; x < width; ++x)
                assign(to[row * size + start + x], sums[x]);
        }
    });
}

template <typename T>
void backward(const TileArgs<T> &args)
{
    const TileLoops &loops = args.loops;
    const int64_t size = loops.size[loops.count - 1], repeats = loops.repeats[loops.count - 1];
    const RowCounts counts = row_counts(loops);   // of a row, each copy has `repeats` copies of its elements
    if (counts.rows == 0 || size == 0)
        return;

    const T *from = args.output_grad;
    T *to = args.data_grad;
    if (size > BLOCK)
        sum_long_rows(loops, from, to, counts.rows, counts.copies);
    else if (adds_in_halves(size, repeats) || !sum_short_loops(loops, from, to, counts.copies * repeats))
        sum_short_rows(loops, from, to, counts.rows, counts.copies);
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
