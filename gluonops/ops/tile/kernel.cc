// tile on the CPU. Bytes moved, forward and backward: the data's and the output's. The tensors are seen as loops,
// outermost first: data has size[l] steps in l, the output repeats[l] times as many.
#include "../../native/kernel.h"

namespace gluonops {

enum { TILE_COUNTS = 8, TILE_LOOPS = TILE_COUNTS + 1 };   // a loop for every count, and one in front of them

struct TileCall {
    int type, loops;   // the last loop is the innermost; at least one
    int64_t size[TILE_LOOPS], repeats[TILE_LOOPS];
    const void *from;
    void *to;
};

GLUONOPS_KERNEL(tile_forward, TileCall)
GLUONOPS_KERNEL(tile_backward, TileCall)

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

void forward(const TileCall &call)
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

}  // namespace

void tile_forward(const TileCall &call) { forward(call); }

void tile_backward(const TileCall &call)
{
    switch (call.type) {
    case FLOAT16: return backward<Half>(call);
    case FLOAT32: return backward<float>(call);
    case FLOAT64: return backward<double>(call);
    case UINT8: return backward<uint8_t>(call);
    case INT8: return backward<int8_t>(call);
    case INT32: return backward<int32_t>(call);
    default: return backward<int64_t>(call);
    }
}

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#ifdef GLUONOPS_REGISTER
#include "../../native/operator.h"

namespace gluonops {
namespace {

struct Tile : Contract {
    static constexpr const char *NAME = "tile";
    struct Attrs {
        Integers tiles;
        int64_t axis;
    };
    static std::vector<const char *> attributes() { return {"tiles", "axis"}; }
    static Attrs parse(const Attributes &given)
    {
        const Attrs attrs = {given.integers("tiles", 1, 1), given.integer("axis", -1)};
        if (attrs.tiles.is_tuple && attrs.axis != -1)
            refuse(NAME, "axis is " + std::to_string(attrs.axis) + " and tiles is the tuple " +
                   shape_text(attrs.tiles.values), "Leave axis out, or pass an integer");
        if (attrs.tiles.is_tuple && attrs.tiles.values.size() > TILE_COUNTS)
            refuse(NAME, "tiles has " + std::to_string(attrs.tiles.values.size()) + " counts; expected at most " +
                   std::to_string(int(TILE_COUNTS)), "Reshape the input first");
        return attrs;
    }
    static Tensors tensors(const Attrs &)
    {
        return {{"data", 'T'}, {"output", 'T'}};
    }
    enum { INPUTS = 1, OUTPUTS = 1 };
    static const std::vector<int> &types() { return floats_and_integers(); }

    // One repeat count per output dimension.
    static std::vector<int64_t> counts(const Attrs &attrs, size_t ndim)
    {
        std::vector<int64_t> repeats;
        if (attrs.tiles.is_tuple) {
            repeats = attrs.tiles.values;
            if (repeats.size() < ndim)
                repeats.insert(repeats.begin(), ndim - repeats.size(), 1);
        } else {
            const size_t axis = size_t(check_axis(NAME, attrs.axis, int(ndim)));
            repeats.assign(ndim, 1);
            repeats[axis] = attrs.tiles.values[0];
        }
        return repeats;
    }
    static Shapes shapes(const Attrs &attrs, const std::vector<int> &ndims)
    {
        const Pattern data = numbered(ndims[0]);
        const std::vector<int64_t> repeats = counts(attrs, data.size());
        const size_t added = repeats.size() - data.size();
        Pattern output;
        for (size_t i = 0; i < repeats.size(); ++i)
            output.push_back(i < added ? Dim(repeats[i]) : data[i - added] * Size("tiles", repeats[i]));
        return {{data, output}, {}};
    }
    // Neighbours that repeat as one block are one loop.
    static TileCall call(const Attrs &attrs, const std::vector<int64_t> &shape, int type, const void *from, void *to)
    {
        const std::vector<int64_t> repeats = counts(attrs, shape.size());
        const size_t added = repeats.size() - shape.size();
        TileCall result = {type, 0, {}, {}, from, to};
        for (size_t i = 0; i < repeats.size(); ++i) {
            const int64_t size = i < added ? 1 : shape[i - added];
            if (result.loops && repeats[i] == 1) {
                result.size[result.loops - 1] *= size;
            } else if (size != 1 || repeats[i] != 1) {
                result.size[result.loops] = size;
                result.repeats[result.loops++] = repeats[i];
            }
        }
        if (!result.loops)
            result.size[0] = result.repeats[0] = result.loops = 1;
        return result;
    }
    static void forward(const Attrs &attrs, Arrays inputs, Arrays outputs)
    {
        tile_forward(call(attrs, inputs[0].shape, inputs[0].dtype, inputs[0].data_ptr, outputs[0].data_ptr));
    }
    static void backward(const Attrs &attrs, Arrays grads, Arrays inputs, Arrays, Arrays results)
    {
        tile_backward(call(attrs, inputs[0].shape, inputs[0].dtype, grads[0].data_ptr, results[0].data_ptr));
    }
};

GLUONOPS_REGISTER_OP(gluonops_tile, Tile)

}  // namespace
}  // namespace gluonops
#endif
