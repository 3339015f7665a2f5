// reorg on the CPU: a permutation in every mode, in one pass. Bytes moved, forward and backward: twice the tensor's.
//
// A row of the large image is `stride` rows of the small one, interleaved; the `stride` rows above one small row lie
// side by side. So one plane of the large image is read in order and stride * stride planes of the small one are
// written in order, or the other way round.
#include <utility>

#include "generated/reorg.h"
#include "../../native/kernel.h"

namespace gluonops {

// The large image as lines of `width` cells. A cell is stride * stride elements.
struct Cells { int64_t images, lines, width, stride; };

namespace GLUONOPS_TARGET {
namespace {

// STRIDE vectors of BYTES bytes are split into the elements of each remainder modulo STRIDE, or joined from these. A
// lane of a result is taken from the first two vectors, and replaced if it comes from a later one.
template <typename T, int BYTES, int STRIDE>
struct Interleaved {
    enum { N = BYTES / int(sizeof(T)) };
    typedef T Vector __attribute__((vector_size(BYTES)));
    typedef std::make_integer_sequence<int, N> Lanes;

    static GLUONOPS_INLINE Vector load(const T *from)
    {
        Vector v;
        memcpy(&v, from, BYTES);
        return v;
    }

    static GLUONOPS_INLINE void store(T *to, const Vector &v) { memcpy(to, &v, BYTES); }

    // Elements of `a`, numbered from 0, and of `b`, numbered from N. Clang and GCC spell it differently.
    template <int... INDEX>
    static GLUONOPS_INLINE Vector shuffle(Vector a, Vector b)
    {
#if defined(__clang__)
        return __builtin_shufflevector(a, b, INDEX...);
#else
        return __builtin_shuffle(a, b, Vector{T(INDEX)...});
#endif
    }

    // Where a lane of a result comes from: the vector, and the lane in it. Result `r` of a split has every STRIDE-th
    // element from the r-th on; result `r` of a join has N elements in order.
    template <bool SPLIT>
    static constexpr int vector_of(int r, int lane)
    {
        return SPLIT ? (STRIDE * lane + r) / N : (r * N + lane) % STRIDE;
    }

    template <bool SPLIT>
    static constexpr int lane_of(int r, int lane)
    {
        return SPLIT ? (STRIDE * lane + r) % N : (r * N + lane) / STRIDE;
    }

    template <bool SPLIT, int R, int... I>
    static GLUONOPS_INLINE Vector first_two(const Vector *v, std::integer_sequence<int, I...>)
    {
        return shuffle<(vector_of<SPLIT>(R, I) == 1 ? N + lane_of<SPLIT>(R, I) : lane_of<SPLIT>(R, I))...>(v[0], v[1]);
    }

    template <bool SPLIT, int R, int K, int... I>
    static GLUONOPS_INLINE Vector replaced(Vector result, const Vector *v, std::integer_sequence<int, I...> lanes)
    {
        if constexpr (K < STRIDE) {
            result = shuffle<(vector_of<SPLIT>(R, I) == K ? N + lane_of<SPLIT>(R, I) : I)...>(result, v[K]);
            return replaced<SPLIT, R, K + 1>(result, v, lanes);
        }
        return result;
    }

    template <bool SPLIT, int R>
    static GLUONOPS_INLINE Vector result(const Vector *v)
    {
        return replaced<SPLIT, R, 2>(first_two<SPLIT, R>(v, Lanes()), v, Lanes());
    }

    template <int... R>
    static GLUONOPS_INLINE void split(const T *large, T *small, int64_t step, std::integer_sequence<int, R...>)
    {
        const Vector v[STRIDE] = {load(large + R * N)...};
        (store(small + R * step, result<true, R>(v)), ...);
    }

    template <int... R>
    static GLUONOPS_INLINE void join(const T *small, int64_t step, T *large, std::integer_sequence<int, R...>)
    {
        const Vector v[STRIDE] = {load(small + R * step)...};
        (store(large + R * N, result<false, R>(v)), ...);
    }
};

// small[dx * step + x] <-> large[x * STRIDE + dx] for a row, by vectors; the row has one at least. The last vector
// overlaps the one before it.
template <bool SHRINK, int STRIDE, int BYTES, typename T>
GLUONOPS_INLINE void move_by_vectors(T *large, T *small, int64_t step, int64_t width)
{
    typedef Interleaved<T, BYTES, STRIDE> Vectors;
    enum { N = Vectors::N };
    const std::make_integer_sequence<int, STRIDE> remainders{};
    for (int64_t x = 0;; x += N) {
        x = x + N > width ? width - N : x;
        if (SHRINK)
            Vectors::split(large + STRIDE * x, small + x, step, remainders);
        else
            Vectors::join(small + x, step, large + STRIDE * x, remainders);
        if (x + N >= width)
            return;
    }
}

// The same by elements, for any stride.
template <bool SHRINK, typename T>
GLUONOPS_INLINE void move_by_elements(T *large, T *small, int64_t step, int64_t width, int64_t stride)
{
    for (int64_t dx = 0; dx < stride; ++dx)
        for (int64_t x = 0; x < width; ++x) {
            if (SHRINK)
                small[dx * step + x] = large[x * stride + dx];
            else
                large[x * stride + dx] = small[dx * step + x];
        }
}

// The same for any width: rows shorter than a vector take shorter vectors, down to 8 bytes. STRIDE is the stride, or 0
// for one known at run time.
template <bool SHRINK, int STRIDE, int BYTES, typename T>
GLUONOPS_INLINE void move_row(T *large, T *small, int64_t step, int64_t width, int64_t stride)
{
    enum { N = BYTES / int(sizeof(T)) };
    if constexpr (STRIDE && N >= 2) {
        if (width >= N)
            return move_by_vectors<SHRINK, STRIDE, BYTES>(large, small, step, width);
        if constexpr (BYTES > 8)
            return move_row<SHRINK, STRIDE, BYTES / 2>(large, small, step, width, stride);
    }
    move_by_elements<SHRINK>(large, small, step, width, STRIDE ? STRIDE : stride);
}

// One of the tensors is read, the other written. Streaming stores were tried and do not pay: the parts of a row are
// too short.
template <bool SHRINK, int STRIDE, typename T>
void move(const Cells &cells, const T *from, T *to)
{
    T *large = SHRINK ? const_cast<T *>(from) : to;
    T *small = SHRINK ? to : const_cast<T *>(from);

    const int64_t s = cells.stride, squares = s * s, lines = cells.lines, width = cells.width;
    const int64_t step = lines * width;   // in the small image, from one (dy, dx) to the next
    parallel_for(cells.images * lines, 2 * squares * width * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const int64_t image = row / lines, line = row % lines;
            T *small_row = small + image * squares * step + line * width;
            T *large_rows = large + row * squares * width;
            for (int64_t dy = 0; dy < s; ++dy)
                move_row<SHRINK, STRIDE, WIDTH>(large_rows + dy * s * width, small_row + dy * s * step, step, width, s);
        }
    });
}

// Small strides have vectors.
template <bool SHRINK, typename T>
void move_elements(const Cells &cells, const T *from, T *to)
{
    switch (cells.stride) {
    case 2: return move<SHRINK, 2>(cells, from, to);
    case 3: return move<SHRINK, 3>(cells, from, to);
    case 4: return move<SHRINK, 4>(cells, from, to);
    default: return move<SHRINK, 0>(cells, from, to);
    }
}

const int64_t PAGE = 4096;   // bytes that a thread copies at a time

// A stride of 1 moves nothing.
void copy(const char *from, char *to, int64_t bytes)
{
    const int64_t pages = (bytes + PAGE - 1) / PAGE;
    parallel_for(pages, 2 * PAGE, [=](int64_t first_page, int64_t end_page) {
        const int64_t begin = first_page * PAGE;
        const int64_t end = end_page * PAGE < bytes ? end_page * PAGE : bytes;
        if (end > begin)
            memcpy(to + begin, from + begin, size_t(end - begin));
    });
}

// An unsigned integer of so many bytes: elements only move, whatever they are.
template <int BYTES> struct Word { typedef uint64_t Type; };
template <> struct Word<1> { typedef uint8_t Type; };
template <> struct Word<2> { typedef uint16_t Type; };
template <> struct Word<4> { typedef uint32_t Type; };

// `shrinks`: from the large image to the small one, else back.
template <typename T>
void permute(const ReorgArgs<T> &args, bool shrinks, const T *from, T *to)
{
    typedef typename Word<sizeof(T)>::Type W;
    const Cells cells = {args.images, args.lines, args.cells, args.stride};
    const W *words = reinterpret_cast<const W *>(from);
    W *moved = reinterpret_cast<W *>(to);
    if (args.stride == 1)
        copy(reinterpret_cast<const char *>(from), reinterpret_cast<char *>(to), args.size * int64_t(sizeof(T)));
    else if (shrinks)
        move_elements<true>(cells, words, moved);
    else
        move_elements<false>(cells, words, moved);
}

template <typename T>
void forward(const ReorgArgs<T> &args)
{
    permute(args, !args.reverse, args.data, args.output);
}

// The transposed permutation.
template <typename T>
void backward(const ReorgArgs<T> &args)
{
    permute(args, args.reverse, args.output_grad, args.data_grad);
}

}  // namespace
}  // namespace GLUONOPS_TARGET
}  // namespace gluonops
