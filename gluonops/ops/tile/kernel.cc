// tile on the CPU. Bytes moved, forward and backward: the data's and the output's. The tensors are seen as loops,
// outermost first: data has size[l] steps in l, the output repeats[l] times as many.
#include "generated/tile.h"
#include "../../native/kernel.h"

namespace gluonops {

enum { TILE_LOOPS = 8 + 1 };   // a loop for every count that the contract allows, and one in front of them

struct TileCall {
    int type, loops;   // the last loop is the innermost; at least one
    int64_t size[TILE_LOOPS], repeats[TILE_LOOPS];
    const void *from;
    void *to;
};

namespace GLUONOPS_TARGET {
namespace {

// A row is what the innermost loop makes: of the output in forward, of the data in backward.

// The row of data that row `i` of the output repeats.
int64_t origin(const TileCall &call, int64_t i)
{
    int64_t row = 0, stride = 1;
    for (int l = call.loops - 2; l >= 0; --l) {
        const int64_t span = call.size[l] * call.repeats[l];
        row += i % span % call.size[l] * stride;
        i /= span;
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

// How many rows copy `c` of any row lies behind the first.
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

// Fills a row with copies of a segment, in steps of doubling length; short rows without a call.
GLUONOPS_INLINE void repeat(char *to, const char *from, int64_t segment, int64_t row)
{
    if (segment <= 8 && 8 % segment == 0) {   // a few whole elements: they fill a word, and words a vector
        uint64_t word = 0;
        memcpy(&word, from, size_t(segment));
        for (int64_t bits = segment * 8; bits < 64; bits *= 2)
            word |= word << bits;
        const LongWords v = word - LongWords{};
        for (; row >= WIDTH; row -= WIDTH, to += WIDTH)
            memcpy(to, &v, WIDTH);
        for (; row >= 8; row -= 8, to += 8)
            memcpy(to, &word, 8);
        if (row)
            memcpy(to, &word, size_t(row));
        return;
    }
    memcpy(to, from, size_t(segment));
    for (int64_t done = segment; done < row;) {
        const int64_t next = done < row - done ? done : row - done;
        memcpy(to + done, to, size_t(next));
        done += next;
    }
}

const int64_t PIECE = 32768;   // bytes that one copy moves at a time

void copy(const TileCall &call)
{
    const int last = call.loops - 1;
    const int64_t segment = call.size[last] * size_of(call.type), repeats = call.repeats[last];
    int64_t rows = 1;
    for (int l = 0; l < last; ++l)
        rows *= call.size[l] * call.repeats[l];
    const char *from = static_cast<const char *>(call.from);
    char *to = static_cast<char *>(call.to);
    if (rows == 0 || segment == 0)
        return;
    if (segment < 1024) {
        parallel_for(rows, 2 * segment * repeats, [=, &call](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; ++row)
                repeat(to + row * segment * repeats, from + origin(call, row) * segment, segment, segment * repeats);
        });
        return;
    }
    const int64_t pieces = (segment + PIECE - 1) / PIECE;
    const bool streaming = rows * repeats * segment >= STREAMING_MIN_BYTES;
    parallel_for(rows * repeats * pieces, 2 * segment / pieces, [=, &call](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t start = i % pieces * PIECE, copy = i / pieces;
            const int64_t bytes = segment - start < PIECE ? segment - start : PIECE;
            copy_bytes(to + copy * segment + start, from + origin(call, copy / repeats) * segment + start, bytes,
                       streaming);
        }
        store_fence();
    });
}

// What sums are made in: float16 in float, integers modulo their size.
template <typename T> struct Sum { typedef T Type; };
template <> struct Sum<Half> { typedef float Type; };
template <> struct Sum<int8_t> { typedef uint8_t Type; };
template <> struct Sum<int32_t> { typedef uint32_t Type; };
template <> struct Sum<int64_t> { typedef uint64_t Type; };

GLUONOPS_INLINE float element(Half x) { return widen(x); }
template <typename T> GLUONOPS_INLINE T element(T x) { return x; }

template <typename T, typename A> GLUONOPS_INLINE void assign(T &to, A sum) { to = T(sum); }
GLUONOPS_INLINE void assign(Half &to, float sum) { to = narrow(sum); }

const int64_t BLOCK = 1024;   // elements of a row that are summed at a time

// Sums of a run of elements over its copies, which lie `size` elements apart.
template <typename T, typename A>
GLUONOPS_INLINE void add_copies(const T *copy, int64_t repeats, int64_t size, int64_t width, A *sums)
{
    for (int64_t r = 0; r < repeats; ++r, copy += size)
        for (int64_t x = 0; x < width; ++x)
            sums[x] += element(copy[x]);
}

// As add_copies with all of a short segment, whose size is a power of two: as many copies as fill LANES elements are
// added at a time, and what that gives is folded in halves.
template <int LANES, typename T, typename A>
GLUONOPS_INLINE void add_short_copies(const T *copy, int64_t items, int64_t size, A *sums)
{
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

// Every element is the sum of its copies, in an order that only the sizes determine.
template <typename T>
void backward(const TileCall &call)
{
    typedef typename Sum<T>::Type A;
    const int last = call.loops - 1;
    const int64_t size = call.size[last], repeats = call.repeats[last];
    int64_t rows = 1, copies = 1;
    for (int l = 0; l < last; ++l) {
        rows *= call.size[l];
        copies *= call.repeats[l];
    }
    const T *from = static_cast<const T *>(call.from);
    T *to = static_cast<T *>(call.to);
    if (rows == 0 || size == 0)
        return;
    const int64_t blocks = (size + BLOCK - 1) / BLOCK;
    const int64_t items = size * repeats;
    const bool few = size <= 8 && !(size & (size - 1)) && items >= 16;
    parallel_for(rows * blocks, (size / blocks + 1) * (copies * repeats + 1) * int64_t(sizeof(T)),
                 [=, &call](int64_t begin, int64_t end) {
        A sums[BLOCK];
        for (int64_t i = begin; i < end; ++i) {
            const int64_t row = i / blocks, start = i % blocks * BLOCK;
            const int64_t width = size - start < BLOCK ? size - start : BLOCK, first = first_copy(call, row);
            for (int64_t x = 0; x < width; ++x)
                sums[x] = 0;
            for (int64_t c = 0; c < copies; ++c) {
                const T *copy = from + (first + distance(call, c)) * size * repeats + start;
                if (few && items >= 128)
                    add_short_copies<64>(copy, items, size, sums);
                else if (few)
                    add_short_copies<16>(copy, items, size, sums);
                else
                    add_copies(copy, repeats, size, width, sums);
            }
            for (int64_t x = 0; x < width; ++x)
                assign(to[row * size + start + x], sums[x]);
        }
    });
}

template <typename T>
void forward(const TileCall &call)
{
    copy(call);   // bytes, of whatever type
}

}  // namespace

}  // namespace GLUONOPS_TARGET

// One repeat count per output dimension.
inline std::vector<int64_t> tile_counts(const TileAttrs &attrs, int64_t ndim)
{
    std::vector<int64_t> repeats(size_t(ndim), 1);
    if (!attrs.tiles.is_tuple) {
        repeats[size_t(attrs.axis < 0 ? attrs.axis + ndim : attrs.axis)] = attrs.tiles.values[0];
        return repeats;
    }
    repeats = attrs.tiles.values;
    if (int64_t(repeats.size()) < ndim)
        repeats.insert(repeats.begin(), size_t(ndim) - repeats.size(), 1);
    return repeats;
}

inline TileCall adapt(const TileAttrs &attrs, const TileTensors &tensors, Workspace &)
{
    const std::vector<int64_t> &shape = tensors.data.shape();
    const std::vector<int64_t> repeats = tile_counts(attrs, int64_t(shape.size()));
    const size_t added = repeats.size() - shape.size();
    TileCall call = {};
    call.type = tensors.data.type;
    call.from = tensors.backward ? tensors.output_grad.data : tensors.data.data;
    call.to = tensors.backward ? tensors.data_grad.data : tensors.output.data;
    for (size_t i = 0; i < repeats.size(); ++i) {
        const int64_t size = i < added ? 1 : shape[i - added];
        if (call.loops && repeats[i] == 1) {   // neighbours that repeat as one block are one loop
            call.size[call.loops - 1] *= size;
        } else if (size != 1 || repeats[i] != 1) {
            call.size[call.loops] = size;
            call.repeats[call.loops++] = repeats[i];
        }
    }
    if (!call.loops)
        call.size[0] = call.repeats[0] = call.loops = 1;
    return call;
}

}  // namespace gluonops
