// box_iou. Forward: a thread has a box of rhs, and some boxes of lhs. Backward: a warp adds up the gradient of a box of lhs.
// A block adds up those of 32 boxes of rhs over a band of the boxes of lhs, and the last one of all bands adds up their
// sums.
#include "../_blocks/blocks.cuh"
#include "../_boxes/boxes.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };
enum { ROWS = 16 };      // boxes of lhs that a thread has in forward
enum { BAND = 1024 };    // boxes of lhs that a block has in backward
enum { NUMBERS = 4 };    // of a box

template <typename T>
__device__ Sides<typename Accumulator<T>::type> sides_at(const T *boxes, int64_t i, bool is_center)
{
    BoxRow<typename Accumulator<T>::type> row;
#pragma unroll
    for (int n = 0; n < NUMBERS; ++n)
        row.numbers[n] = load(boxes, NUMBERS * i + n);
    return sides_of(row, is_center);
}

template <typename T>
__global__ void box_iou_forward(const T *__restrict__ lhs, const T *__restrict__ rhs, T *__restrict__ output,
                                double *__restrict__ partial, int output_request, int64_t step, int64_t sets,
                                int64_t lhs_count, int64_t rhs_count, int64_t is_center)
{
    typedef typename Accumulator<T>::type A;
    const int64_t bands = (lhs_count + ROWS - 1) / ROWS;
    for (int64_t item = first_item(); item < sets * bands * rhs_count; item += item_step()) {
        const int64_t band = quotient(item, rhs_count), column = item - band * rhs_count;
        const int64_t set = quotient(band, bands), first = (band - set * bands) * ROWS;
        const int64_t end = minimum(first + ROWS, lhs_count);
        const Sides<A> other = sides_at(rhs, set * rhs_count + column, is_center != 0);
#pragma unroll 4
        for (int64_t row = set * lhs_count + first; row < set * lhs_count + end; ++row) {
            const BoxPair<A> pair(sides_at(lhs, row, is_center != 0), other, A(TINY_AREA));
            store(output, row * rhs_count + column, pair.iou, output_request);
        }
    }
}

// The sum of the gradients of a box over its pairs.
template <typename A>
struct GradientSum {
    Box<A> by;

    __device__ GradientSum() { by.x = by.y = by.w = by.h = 0; }

    // `pair` has the box as its first one.
    __device__ void add(const BoxPair<A> &pair, A head)
    {
        const Box<A> loss = iou_loss_of(pair).gradient;
        by.x -= head * loss.x;
        by.y -= head * loss.y;
        by.w -= head * loss.w;
        by.h -= head * loss.h;
    }

    __device__ A &number(int n) { return n == 0 ? by.x : n == 1 ? by.y : n == 2 ? by.w : by.h; }

    template <typename T>
    __device__ void store_at(T *grad, int64_t box, bool is_center, int request) const
    {
        const BoxRow<A> gradient = row_gradient(by, is_center);
#pragma unroll
        for (int n = 0; n < NUMBERS; ++n)
            store(grad, NUMBERS * box + n, gradient.numbers[n], request);
    }
};

template <typename T> struct Tensors {
    const T *output_grad, *lhs, *rhs;
    T *lhs_grad, *rhs_grad;
    int lhs_request, rhs_request;
    int64_t sets, lhs_count, rhs_count;
    bool is_center;

    __device__ int64_t column_tiles() const { return (rhs_count + 31) / 32; }
    __device__ int64_t bands() const { return (lhs_count + BAND - 1) / BAND; }
};

// The gradient of a box of lhs, by a warp.
template <typename T>
__device__ void sum_row(const Tensors<T> &tensors, int64_t row)
{
    typedef typename Accumulator<T>::type A;
    const int64_t first_rhs = quotient(row, tensors.lhs_count) * tensors.rhs_count;
    const Sides<A> box = sides_at(tensors.lhs, row, tensors.is_center);
    GradientSum<A> sum;
    for (int64_t column = threadIdx.x % 32; column < tensors.rhs_count; column += 32) {
        const Sides<A> other = sides_at(tensors.rhs, first_rhs + column, tensors.is_center);
        const BoxPair<A> pair(box, other, A(TINY_AREA));
        sum.add(pair, load(tensors.output_grad, row * tensors.rhs_count + column));
    }
#pragma unroll
    for (int n = 0; n < NUMBERS; ++n)
        sum.number(n) = reduce_warp(sum.number(n), Sum());
    if (threadIdx.x % 32 == 0)
        sum.store_at(tensors.lhs_grad, row, tensors.is_center, tensors.lhs_request);
}

// The gradients of a tile of boxes of rhs, a lane each. Each warp has every WARPS-th box of a band of lhs.
template <typename T, typename A>
__device__ void sum_tile(const Tensors<T> &tensors, const Scratch<A> &scratch, int64_t tile, int64_t band)
{
    __shared__ A of_warps[NUMBERS][WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t set = quotient(tile, tensors.column_tiles());
    const int64_t column = (tile - set * tensors.column_tiles()) * 32 + lane;
    const int64_t rhs_box = set * tensors.rhs_count + minimum(column, tensors.rhs_count - 1);
    const int64_t first_lhs = set * tensors.lhs_count, end = minimum((band + 1) * BAND, tensors.lhs_count);
    const Sides<A> box = sides_at(tensors.rhs, rhs_box, tensors.is_center);
    GradientSum<A> sum;
    for (int64_t row = first_lhs + band * BAND + warp; row < first_lhs + end && column < tensors.rhs_count; row += WARPS) {
        const BoxPair<A> pair(sides_at(tensors.lhs, row, tensors.is_center), box, A(TINY_AREA));
        sum.add(pair.exchanged(), load(tensors.output_grad, row * tensors.rhs_count + column));
    }
#pragma unroll
    for (int n = 0; n < NUMBERS; ++n)
        of_warps[n][warp][lane] = sum.number(n);
    __syncthreads();   // the sums of all warps
    const int64_t places = tensors.sets * tensors.rhs_count * NUMBERS;   // of a band in scratch memory
    if (warp < NUMBERS && column < tensors.rhs_count) {
        A number = 0;
        for (int other = 0; other < WARPS; ++other)
            number += of_warps[warp][other][lane];
        scratch.partial[band * places + rhs_box * NUMBERS + warp] = number;
    }
    if (!scratch.is_last_block(tile, tensors.bands()) || warp > 0 || column >= tensors.rhs_count)
        return;
    GradientSum<A> all;
#pragma unroll
    for (int n = 0; n < NUMBERS; ++n)
        all.number(n) = scratch.sum(rhs_box * NUMBERS + n, tensors.bands(), places);
    all.store_at(tensors.rhs_grad, rhs_box, tensors.is_center, tensors.rhs_request);
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
box_iou_backward(const T *__restrict__ output_grad, const T *__restrict__ lhs, const T *__restrict__ rhs,
                 T *__restrict__ lhs_grad, T *__restrict__ rhs_grad, double *__restrict__ partial,
                 int lhs_grad_request, int rhs_grad_request, int64_t step, int64_t sets, int64_t lhs_count,
                 int64_t rhs_count, int64_t is_center)
{
    typedef typename Accumulator<T>::type A;
    const Tensors<T> tensors = {output_grad, lhs, rhs, lhs_grad, rhs_grad, lhs_grad_request, rhs_grad_request, sets,
                                lhs_count, rhs_count, is_center != 0};
    const int64_t tiles = sets * tensors.column_tiles(), bands = tensors.bands();
    if (step == 0) {
        clear_counts(partial, tiles);
        return;
    }
    const Scratch<A> scratch(partial, tiles);
    const int64_t first_row = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32;
    if (lhs_grad_request != NOTHING)
        for (int64_t row = first_row; row < sets * lhs_count; row += int64_t(gridDim.x) * WARPS)
            sum_row(tensors, row);
    if (rhs_grad_request != NOTHING)
        for (int64_t i = blockIdx.x; i < tiles * bands; i += gridDim.x) {
            const int64_t tile = quotient(i, bands);
            sum_tile(tensors, scratch, tile, i - tile * bands);
        }
}
