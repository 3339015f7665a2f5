// box_iou. Forward: a thread has a box of rhs, and some boxes of lhs. Backward: a warp, or 8 lanes, add up the gradient of
// a box of lhs. A block adds up those of 32 boxes of rhs over a band of the boxes of lhs, and the last one of all bands
// adds up their sums.
#include "../_blocks/blocks.cuh"
#include "../_boxes/boxes.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };
enum { ROWS = 16 };      // boxes of lhs that a thread has in forward
enum { BAND = 256 };     // boxes of lhs that a block has in backward
enum { FEW = 256 };      // boxes of rhs, for which 8 lanes suffice in backward
enum { NUMBERS = 4 };    // of a box

template <bool CENTER, typename T>
__device__ Sides<typename Accumulator<T>::type> sides_at(const T *boxes, int64_t i)
{
    BoxRow<typename Accumulator<T>::type> row;
#pragma unroll
    for (int n = 0; n < NUMBERS; ++n)
        row.numbers[n] = load(boxes, NUMBERS * i + n);
    return sides_of(row, CENTER);
}

// CENTER: the format of the boxes.
template <bool CENTER, typename T>
__device__ void write_ious(const T *__restrict__ lhs, const T *__restrict__ rhs, T *__restrict__ output, int request,
                           int64_t sets, int64_t lhs_count, int64_t rhs_count)
{
    typedef typename Accumulator<T>::type A;
    const int64_t bands = (lhs_count + ROWS - 1) / ROWS;
    for (int64_t item = first_item(); item < sets * bands * rhs_count; item += item_step()) {
        const int64_t band = quotient(item, rhs_count), column = item - band * rhs_count;
        const int64_t set = quotient(band, bands), first = (band - set * bands) * ROWS;
        const int64_t end = minimum(first + ROWS, lhs_count);
        const Sides<A> other = sides_at<CENTER>(rhs, set * rhs_count + column);
#pragma unroll 4
        for (int64_t row = set * lhs_count + first; row < set * lhs_count + end; ++row) {
            const BoxPair<A> pair(sides_at<CENTER>(lhs, row), other, A(TINY_AREA));
            store(output, row * rhs_count + column, pair.iou, request);
        }
    }
}

template <typename T>
__global__ void box_iou_forward(const T *__restrict__ lhs, const T *__restrict__ rhs, T *__restrict__ output,
                                double *__restrict__ partial, int output_request, int64_t step, int64_t sets,
                                int64_t lhs_count, int64_t rhs_count, int64_t is_center)
{
    if (is_center)
        write_ious<true>(lhs, rhs, output, output_request, sets, lhs_count, rhs_count);
    else
        write_ious<false>(lhs, rhs, output, output_request, sets, lhs_count, rhs_count);
}

// Whether an end of a box is that of the overlap. Ends that coincide are those of lhs.
template <bool LHS, typename A>
__device__ bool is_inside(A a, A b) { return LHS ? a >= b : a > b; }

// Sums over the pairs of a box: of the derivatives by its ends, where these are the overlap's, and of those by its
// area. With the areas' sum a, the overlap i and the union u = a - i, the IoU's derivative is a / u^2 by i, and -i / u^2
// by an area.
template <bool LHS, typename A>
struct GradientSum {
    enum { COUNT = 5 };
    A left, top, right, bottom, area;

    __device__ GradientSum() : left(0), top(0), right(0), bottom(0), area(0) {}

    __device__ void add(const Sides<A> &box, const Sides<A> &other, A head)
    {
        const A w = smaller(box.across.high, other.across.high) - larger(box.across.low, other.across.low);
        const A h = smaller(box.down.high, other.down.high) - larger(box.down.low, other.down.low);
        const A areas = box.across.size * box.down.size + other.across.size * other.down.size + A(TINY_AREA);
        if (areas != areas)   // also of boxes that are apart
            area = areas;
        if (!(smaller(w, h) > 0))
            return;
        const A intersection = w * h, inverse = reciprocal(areas - intersection), scale = head * inverse * inverse;
        const A by_intersection = scale * smaller(areas, -lowest<A>());   // of an infinite box it is 0
        left -= is_inside<LHS>(box.across.low, other.across.low) ? by_intersection * h : A(0);
        right += is_inside<LHS>(other.across.high, box.across.high) ? by_intersection * h : A(0);
        top -= is_inside<LHS>(box.down.low, other.down.low) ? by_intersection * w : A(0);
        bottom += is_inside<LHS>(other.down.high, box.down.high) ? by_intersection * w : A(0);
        area -= scale * intersection;
    }

    __device__ A &number(int n)
    {
        return n == 0 ? left : n == 1 ? top : n == 2 ? right : n == 3 ? bottom : area;
    }

    template <typename T>
    __device__ void store_at(T *grad, int64_t i, const Sides<A> &box, bool is_center, int request) const
    {
        const Box<A> by = {left + right, top + bottom, (right - left) / 2 + area * box.down.size,
                           (bottom - top) / 2 + area * box.across.size};
        const BoxRow<A> gradient = row_gradient(by, is_center);
#pragma unroll
        for (int n = 0; n < NUMBERS; ++n)
            store(grad, NUMBERS * i + n, gradient.numbers[n], request);
    }
};

template <typename T> struct Tensors {
    const T *output_grad, *lhs, *rhs;
    T *lhs_grad, *rhs_grad;
    int lhs_request, rhs_request;
    int64_t sets, lhs_count, rhs_count;

    __device__ int64_t column_tiles() const { return (rhs_count + 31) / 32; }
    __device__ int64_t bands() const { return (lhs_count + BAND - 1) / BAND; }
};

// The gradient of a box of lhs, by some lanes of a warp.
template <bool CENTER, typename T>
__device__ void sum_row(const Tensors<T> &tensors, int64_t row, int lanes)
{
    typedef typename Accumulator<T>::type A;
    const int64_t first_rhs = quotient(row, tensors.lhs_count) * tensors.rhs_count;
    const Sides<A> box = sides_at<CENTER>(tensors.lhs, row);
    GradientSum<true, A> sum;
    for (int64_t column = threadIdx.x % lanes; column < tensors.rhs_count; column += lanes)
        sum.add(box, sides_at<CENTER>(tensors.rhs, first_rhs + column),
                load(tensors.output_grad, row * tensors.rhs_count + column));
#pragma unroll
    for (int n = 0; n < sum.COUNT; ++n)
        sum.number(n) = reduce_lanes(sum.number(n), Sum(), lanes);
    if (threadIdx.x % lanes == 0)
        sum.store_at(tensors.lhs_grad, row, box, CENTER, tensors.lhs_request);
}

// The gradients of a tile of boxes of rhs, a lane each. Each warp has every WARPS-th box of a band of lhs.
template <bool CENTER, typename T, typename A>
__device__ void sum_tile(const Tensors<T> &tensors, const Scratch<A> &scratch, int64_t tile, int64_t band)
{
    typedef GradientSum<false, A> BoxSum;
    __shared__ A of_warps[BoxSum::COUNT][WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t set = quotient(tile, tensors.column_tiles());
    const int64_t column = (tile - set * tensors.column_tiles()) * 32 + lane;
    const bool exists = column < tensors.rhs_count;
    const int64_t rhs_box = set * tensors.rhs_count + minimum(column, tensors.rhs_count - 1);
    const int64_t first = set * tensors.lhs_count, end = first + minimum((band + 1) * BAND, tensors.lhs_count);
    const Sides<A> box = sides_at<CENTER>(tensors.rhs, rhs_box);
    BoxSum sum;
    for (int64_t row = first + band * BAND + warp; row < end && exists; row += WARPS)
        sum.add(box, sides_at<CENTER>(tensors.lhs, row),
                load(tensors.output_grad, row * tensors.rhs_count + column));
#pragma unroll
    for (int n = 0; n < BoxSum::COUNT; ++n)
        of_warps[n][warp][lane] = sum.number(n);
    __syncthreads();   // the sums of all warps
    const int64_t places = tensors.sets * tensors.rhs_count * BoxSum::COUNT;   // of a band in scratch memory
    if (warp < BoxSum::COUNT && exists) {
        A number = 0;
        for (int other = 0; other < WARPS; ++other)
            number += of_warps[warp][other][lane];
        scratch.partial[band * places + rhs_box * BoxSum::COUNT + warp] = number;
    }
    if (!scratch.is_last_block(tile, tensors.bands()) || warp > 0 || !exists)
        return;
    BoxSum all;
#pragma unroll
    for (int n = 0; n < BoxSum::COUNT; ++n)
        all.number(n) = scratch.sum(rhs_box * BoxSum::COUNT + n, tensors.bands(), places);
    all.store_at(tensors.rhs_grad, rhs_box, box, CENTER, tensors.rhs_request);
}

template <bool CENTER, typename T, typename A>
__device__ void sum_boxes(const Tensors<T> &tensors, const Scratch<A> &scratch)
{
    const int64_t tiles = tensors.sets * tensors.column_tiles(), bands = tensors.bands();
    const int lanes = tensors.rhs_count <= FEW ? 8 : 32;   // of a box of lhs
    const int64_t rows = tensors.sets * tensors.lhs_count;
    if (tensors.lhs_request != NOTHING)
        for (int64_t row = first_item() / lanes; row < rows; row += item_step() / lanes)
            sum_row<CENTER>(tensors, row, lanes);
    if (tensors.rhs_request != NOTHING)
        for (int64_t i = blockIdx.x; i < tiles * bands; i += gridDim.x) {
            const int64_t tile = quotient(i, bands);
            sum_tile<CENTER>(tensors, scratch, tile, i - tile * bands);
        }
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
box_iou_backward(const T *__restrict__ output_grad, const T *__restrict__ lhs, const T *__restrict__ rhs,
                 T *__restrict__ lhs_grad, T *__restrict__ rhs_grad, double *__restrict__ partial,
                 int lhs_grad_request, int rhs_grad_request, int64_t step, int64_t sets, int64_t lhs_count,
                 int64_t rhs_count, int64_t is_center)
{
    const Tensors<T> tensors = {output_grad, lhs, rhs, lhs_grad, rhs_grad, lhs_grad_request, rhs_grad_request, sets,
                                lhs_count, rhs_count};
    const int64_t tiles = sets * tensors.column_tiles();
    const Scratch<typename Accumulator<T>::type> scratch(partial, tiles);
    if (step == 0)
        clear_counts(partial, tiles);
    else if (is_center)
        sum_boxes<true>(tensors, scratch);
    else
        sum_boxes<false>(tensors, scratch);
}
