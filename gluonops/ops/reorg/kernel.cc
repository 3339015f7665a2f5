// reorg on the CPU: a permutation in every mode, in one pass. Bytes moved, forward and backward: twice the tensor's.
//
// A row of the large image is `stride` rows of the small one, interleaved; the `stride` rows above one small row lie
// side by side. So one plane of the large image is read in order and stride * stride planes of the small one are
// written in order, or the other way round.
#include "generated/reorg.h"
#include "../../native/kernel.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

// The large image as lines of `width` cells. A cell is stride * stride elements.
struct Cells { int64_t images, lines, width, stride; };

// small[dx * step + x] <-> large[x * stride + dx] for `width` cells of a row. Where these are few, and their number is
// known, GCC has to be kept from unrolling the loop, or else it makes no vectors of it.
template <bool SHRINK, typename T>
GLUONOPS_INLINE void move_cells(T *__restrict large, T *__restrict small, int64_t step, int64_t width, int64_t stride)
{
#pragma GCC ivdep
#pragma GCC unroll 1
    for (int64_t x = 0; x < width; ++x)
        for (int64_t dx = 0; dx < stride; ++dx) {
            if (SHRINK)
                small[dx * step + x] = large[x * stride + dx];
            else
                large[x * stride + dx] = small[dx * step + x];
        }
}

// The same for a whole row, by vectors, which the compiler makes of N cells, or of fewer in shorter rows. The last
// vector overlaps the one before it. STRIDE is the stride, or 0 for one known at run time.
template <bool SHRINK, int STRIDE, int N, typename T>
GLUONOPS_INLINE void move_row(T *large, T *small, int64_t step, int64_t width, int64_t stride)
{
    if constexpr (STRIDE && N >= 2) {
        if (width < N)
            return move_row<SHRINK, STRIDE, N / 2>(large, small, step, width, stride);
        for (int64_t x = 0; x < width; x += N) {
            x = x + N > width ? width - N : x;
            move_cells<SHRINK>(large + STRIDE * x, small + x, step, N, STRIDE);
        }
    } else {
        move_cells<SHRINK>(large, small, step, width, STRIDE ? STRIDE : stride);
    }
}

// One of the tensors is read, the other written. Streaming stores were tried and do not pay: the parts of a row are
// too short.
template <bool SHRINK, int STRIDE, typename T>
void move(const Cells &cells, const T *from, T *to)
{
    enum { N = WIDTH / int(sizeof(T)) };
    T *large = SHRINK ? const_cast<T *>(from) : to;
    T *small = SHRINK ? to : const_cast<T *>(from);

    const int64_t s = cells.stride, squares = s * s, lines = cells.lines, width = cells.width;
    const int64_t step = lines * width;   // One (dy, dx) is so far from the next in the small image.
    parallel_for(cells.images * lines, 2 * squares * width * int64_t(sizeof(T)), [=](int64_t begin, int64_t end) {
        if (STRIDE == 1) {   // nothing moves
            memcpy(to + begin * width, from + begin * width, size_t((end - begin) * width) * sizeof(T));
            return;
        }
        for (int64_t row = begin; row < end; ++row) {
            const int64_t image = row / lines, line = row % lines;
            T *small_row = small + image * squares * step + line * width;
            T *large_rows = large + row * squares * width;
            for (int64_t dy = 0; dy < s; ++dy)
                move_row<SHRINK, STRIDE, N>(large_rows + dy * s * width, small_row + dy * s * step, step, width, s);
        }
    });
}

// Calls the code for the stride. Small strides have vectors.
template <bool SHRINK, typename T>
void move_elements(const Cells &cells, const T *from, T *to)
{
    switch (cells.stride) {
    case 1: return move<SHRINK, 1>(cells, from, to);
    case 2: return move<SHRINK, 2>(cells, from, to);
    case 3: return move<SHRINK, 3>(cells, from, to);
    case 4: return move<SHRINK, 4>(cells, from, to);
    default: return move<SHRINK, 0>(cells, from, to);
    }
}

// An unsigned integer of so many bytes: elements only move, whatever they are.
template <int BYTES> struct Word { typedef uint64_t Type; };
template <> struct Word<1> { typedef uint8_t Type; };
template <> struct Word<2> { typedef uint16_t Type; };
template <> struct Word<4> { typedef uint32_t Type; };

// Moves the elements from the large image to the small one if `shrinks`, and otherwise back.
template <typename T>
void permute(const ReorgArgs<T> &args, bool shrinks, const T *from, T *to)
{
    typedef typename Word<sizeof(T)>::Type W;
    const Cells cells = {args.images, args.lines, args.cells, args.stride};
    const W *words = reinterpret_cast<const W *>(from);
    W *moved = reinterpret_cast<W *>(to);
    if (shrinks)
        move_elements<true>(cells, words, moved);
    else
        move_elements<false>(cells, words, moved);
}

template <typename T>
void forward(const ReorgArgs<T> &args)
{
    permute(args, !args.reverse, args.data, args.output);
}

// Backward is the transposed permutation.
template <typename T>
void backward(const ReorgArgs<T> &args)
{
    permute(args, args.reverse, args.output_grad, args.data_grad);
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
