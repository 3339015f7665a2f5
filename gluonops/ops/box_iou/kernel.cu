// box_iou. Forward: a thread per pair. Backward: blockDim.x threads have a box of lhs. Each of them has a box of rhs, with
// those boxes of lhs that gridDim.y blocks share; the last block adds up the sums of all.
#include "../_blocks/blocks.cuh"
#include "../_boxes/boxes.inl"

enum { NUMBERS = 4 };   // of a box

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
__device__ void write_ious(const BoxIouArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const int64_t rows = args.sets * args.lhs_boxes;
    for (int64_t i = first_item(); i < rows * args.rhs_boxes; i += item_step()) {
        const int64_t row = quotient(i, args.rhs_boxes), set = quotient(row, args.lhs_boxes);
        const int64_t other = i - (row - set) * args.rhs_boxes;
        const BoxPair<A> pair(sides_at<CENTER>(args.lhs, row), sides_at<CENTER>(args.rhs, other), A(TINY_AREA));
        store(args.output, i, pair.iou, args.output_request);
    }
}

template <typename T>
__device__ void forward(const BoxIouArgs<T> &args)
{
    if (args.format == BoxIouFormat::Center)
        write_ious<true>(args);
    else
        write_ious<false>(args);
}

// Adds the derivatives of head * IoU by a box of a pair. With the union u and the intersection i, those of the IoU are
// (1 + IoU) / u by i, and -IoU / u by an area. Ends that coincide count as those of lhs.
template <typename A>
__device__ void add_gradient(Box<A> &sum, const Sides<A> &box, const Sides<A> &other, bool is_lhs, A head)
{
    const Sides<A> &lhs = is_lhs ? box : other, &rhs = is_lhs ? other : box;
    Extent<A> across(lhs.across, rhs.across), down(lhs.down, rhs.down);
    if (!is_lhs) {
        across = across.exchanged();
        down = down.exchanged();
    }
    const bool overlaps = across.overlap > 0 && down.overlap > 0;
    const A intersection = overlaps ? across.overlap * down.overlap : A(0);
    const A areas = box.across.size * box.down.size + other.across.size * other.down.size + A(TINY_AREA);
    const A inverse = reciprocal(areas - intersection), by_area = head * inverse * (intersection * inverse);
    const A by_intersection = overlaps ? head * inverse + by_area : A(0);
    const A by_across = by_intersection * down.overlap, by_down = by_intersection * across.overlap;
    sum.x += by_across * across.overlap_by_center;
    sum.y += by_down * down.overlap_by_center;
    sum.w += by_across * across.overlap_by_size - by_area * box.down.size;
    sum.h += by_down * down.overlap_by_size - by_area * box.across.size;
}

template <bool CENTER, typename T, typename A>
__device__ void store_gradient(T *grad, int64_t i, const Box<A> &by, int request)
{
    const BoxRow<A> gradient = row_gradient(by, CENTER);
#pragma unroll
    for (int n = 0; n < NUMBERS; ++n)
        store(grad, NUMBERS * i + n, gradient.numbers[n], request);
}

// The boxes of lhs, a row of threads each.
template <bool CENTER, typename T>
__device__ void lhs_gradient(const BoxIouArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const int64_t rhs_boxes = args.rhs_boxes, blocks = int64_t(gridDim.x) * gridDim.y;
    const int64_t block = int64_t(blockIdx.y) * gridDim.x + blockIdx.x;
    for (int64_t row = block * blockDim.y + threadIdx.y; row < args.sets * args.lhs_boxes; row += blocks * blockDim.y) {
        const int64_t first_rhs = quotient(row, args.lhs_boxes) * rhs_boxes;
        const Sides<A> box = sides_at<CENTER>(args.lhs, row);
        Box<A> sum = {0, 0, 0, 0};
#pragma unroll 2
        for (int64_t i = threadIdx.x; i < rhs_boxes; i += blockDim.x) {
            const Sides<A> other = sides_at<CENTER>(args.rhs, first_rhs + i);
            add_gradient(sum, box, other, true, load(args.output_grad, row * rhs_boxes + i));
        }
        const Box<A> all = {reduce_row(sum.x, Sum()), reduce_row(sum.y, Sum()), reduce_row(sum.w, Sum()),
                            reduce_row(sum.h, Sum())};
        if (threadIdx.x == 0)
            store_gradient<CENTER>(args.lhs_grad, row, all, args.lhs_grad_request);
    }
}

// The boxes of rhs, a thread each.
template <bool CENTER, typename T>
__device__ void rhs_gradient(const BoxIouArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const Scratch<A> scratch(args.counts, args.sums);
    const int64_t boxes = args.sets * args.rhs_boxes, lhs_boxes = args.lhs_boxes;
    const int64_t band = (lhs_boxes + gridDim.y - 1) / gridDim.y, first = minimum(blockIdx.y * band, lhs_boxes);
    const int64_t end = minimum(first + band, lhs_boxes);
    for (int64_t block = blockIdx.x; block * THREADS < boxes; block += gridDim.x) {
        const int64_t i = block * THREADS + threadIdx.y * blockDim.x + threadIdx.x;
        const int64_t existing = minimum(i, boxes - 1), set = quotient(existing, args.rhs_boxes);
        const Sides<A> box = sides_at<CENTER>(args.rhs, existing);
        const T *const heads = args.output_grad + set * lhs_boxes * args.rhs_boxes + existing - set * args.rhs_boxes;
        Box<A> sum = {0, 0, 0, 0};
#pragma unroll 2
        for (int64_t row = first; row < end; ++row) {
            const Sides<A> other = sides_at<CENTER>(args.lhs, set * lhs_boxes + row);
            add_gradient(sum, box, other, false, load(heads, row * args.rhs_boxes));
        }
        const A numbers[NUMBERS] = {sum.x, sum.y, sum.w, sum.h};
        for (int n = 0; n < NUMBERS && i < boxes; ++n)
            scratch.partial[(blockIdx.y * NUMBERS + n) * boxes + i] = numbers[n];
        if (!scratch.is_last_block(block, gridDim.y) || i >= boxes)
            continue;
        const int64_t step = NUMBERS * boxes;
        const Box<A> all = {scratch.sum(i, gridDim.y, step), scratch.sum(boxes + i, gridDim.y, step),
                            scratch.sum(2 * boxes + i, gridDim.y, step), scratch.sum(3 * boxes + i, gridDim.y, step)};
        store_gradient<CENTER>(args.rhs_grad, i, all, args.rhs_grad_request);
    }
}

template <bool CENTER, typename T>
__device__ void write_gradients(const BoxIouArgs<T> &args)
{
    if (args.lhs_grad_request != NOTHING)
        lhs_gradient<CENTER>(args);
    if (args.rhs_grad_request != NOTHING)
        rhs_gradient<CENTER>(args);
}

template <typename T>
__device__ void backward(const BoxIouArgs<T> &args)
{
    if (args.format == BoxIouFormat::Center)
        write_gradients<true>(args);
    else
        write_gradients<false>(args);
}
