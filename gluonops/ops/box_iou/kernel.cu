// box_iou. Forward: a thread has a box of rhs, and some boxes of lhs. Backward: a block has a band of the boxes of lhs of
// a set, a thread each, and adds up the gradients of both sides' boxes. The last block of a set adds up those of rhs over
// all bands.
#include "../_blocks/blocks.cuh"
#include "../_boxes/boxes.cuh"

enum { THREADS = BAND, WARPS = THREADS / 32 };
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
__device__ void write_ious(const BoxIouArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const int64_t lhs_boxes = args.lhs_boxes, rhs_boxes = args.rhs_boxes, groups = args.row_groups;
    for (int64_t item = first_item(); item < args.sets * groups * rhs_boxes; item += item_step()) {
        const int64_t group = quotient(item, rhs_boxes), column = item - group * rhs_boxes;
        const int64_t set = quotient(group, groups), first = (group - set * groups) * ROWS;
        const int64_t end = minimum(first + ROWS, lhs_boxes);
        const Sides<A> other = sides_at<CENTER>(args.rhs, set * rhs_boxes + column);
#pragma unroll 4
        for (int64_t row = set * lhs_boxes + first; row < set * lhs_boxes + end; ++row) {
            const BoxPair<A> pair(sides_at<CENTER>(args.lhs, row), other, A(TINY_AREA));
            store(args.output, row * rhs_boxes + column, pair.iou, args.output_request);
        }
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

// Sums over the pairs of a box: of the derivatives by the sides of the overlaps, where an end of the box is that of the
// overlap, and of those by its area, with the other sign. With the areas' sum a, the overlap i and the union u = a - i,
// the IoU's derivative is a / u^2 by i, and -i / u^2 by an area.
template <typename A>
struct BoxSums {
    enum { COUNT = 5 };
    A left, top, right, bottom, area;

    __device__ BoxSums() : left(0), top(0), right(0), bottom(0), area(0) {}

    __device__ A &number(int n)
    {
        return n == 0 ? left : n == 1 ? top : n == 2 ? right : n == 3 ? bottom : area;
    }

    // Gives each lane of a warp those of the next one.
    __device__ void rotate()
    {
#pragma unroll
        for (int n = 0; n < COUNT; ++n)
            number(n) = __shfl_sync(0xffffffffu, number(n), (threadIdx.x + 1) % 32);
    }

    template <typename T>
    __device__ void store_gradient(T *grad, int64_t i, const Sides<A> &box, bool is_center, int request) const
    {
        const Box<A> by = {right - left, bottom - top, (right + left) / 2 - area * box.down.size,
                           (bottom + top) / 2 - area * box.across.size};
        const BoxRow<A> gradient = row_gradient(by, is_center);
#pragma unroll
        for (int n = 0; n < NUMBERS; ++n)
            store(grad, NUMBERS * i + n, gradient.numbers[n], request);
    }
};

// Adds a pair to the sums of its boxes. Ends that coincide count as those of lhs.
template <typename A>
__device__ void add_pair(const Sides<A> &lhs, const Sides<A> &rhs, A head, BoxSums<A> &of_lhs, BoxSums<A> &of_rhs)
{
    const A w = smaller(lhs.across.high, rhs.across.high) - larger(lhs.across.low, rhs.across.low);
    const A h = smaller(lhs.down.high, rhs.down.high) - larger(lhs.down.low, rhs.down.low);
    const A areas = lhs.across.size * lhs.down.size + rhs.across.size * rhs.down.size + A(TINY_AREA);
    const A intersection = w * h, inverse = reciprocal(areas - intersection);
    const A scale = smaller(w, h) > 0 ? head * inverse * inverse : A(0);
    const A by_area = areas != areas ? areas : scale * intersection;   // NaN, also of boxes that are apart
    of_lhs.area += by_area;
    of_rhs.area += by_area;
    const A by_intersection = scale * smaller(areas, -lowest<A>());   // of an infinite box it is 0
    add_to_one(lhs.across.low, rhs.across.low, by_intersection, h, of_lhs.left, of_rhs.left);
    add_to_one(lhs.down.low, rhs.down.low, by_intersection, w, of_lhs.top, of_rhs.top);
    add_to_one(rhs.across.high, lhs.across.high, by_intersection, h, of_lhs.right, of_rhs.right);
    add_to_one(rhs.down.high, lhs.down.high, by_intersection, w, of_lhs.bottom, of_rhs.bottom);
}

// The pairs of a band of boxes of lhs, a thread each, with 32 boxes of rhs. In each turn the lanes of a warp have another
// box of rhs each, whose sums go from lane to lane. The sums of rhs over the band go to scratch memory.
template <bool CENTER, typename T, typename A>
__device__ void sum_tile(const BoxIouArgs<T> &args, const Scratch<A> &scratch, int64_t set, int64_t band, int64_t first,
                         const Sides<A> &box, int64_t row, bool exists, BoxSums<A> &of_lhs)
{
    typedef BoxSums<A> Sums;
    __shared__ A of_warps[Sums::COUNT][WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int columns = int(minimum(args.rhs_boxes - first, 32));
    Sums of_rhs;
    for (int turn = 0; turn < 32; ++turn) {
        const int column = (lane + turn) % 32;
        if (exists && column < columns) {
            const Sides<A> other = sides_at<CENTER>(args.rhs, set * args.rhs_boxes + first + column);
            const A head = load(args.output_grad, row * args.rhs_boxes + first + column);
            add_pair(box, other, head, of_lhs, of_rhs);
        }
        of_rhs.rotate();
    }
    __syncthreads();   // the sums of the tile before are read
#pragma unroll
    for (int n = 0; n < Sums::COUNT; ++n)
        of_warps[n][warp][lane] = of_rhs.number(n);
    __syncthreads();   // the sums of all warps
    if (warp < Sums::COUNT && lane < columns) {
        A sum = 0;
        for (int other = 0; other < WARPS; ++other)
            sum += of_warps[warp][other][lane];
        scratch.partial[(band * Sums::COUNT + warp) * args.rhs_boxes + first + lane] = sum;
    }
}

// The boxes of lhs of a band of a set; and those of rhs, by the last of the set's bands.
template <bool CENTER, typename T, typename A>
__device__ void sum_band(const BoxIouArgs<T> &args, const Scratch<A> &scratch, int64_t band)
{
    const int64_t bands = args.bands, set = quotient(band, bands), in_set = (band - set * bands) * THREADS + threadIdx.x;
    const bool exists = in_set < args.lhs_boxes;
    const int64_t row = set * args.lhs_boxes + minimum(in_set, args.lhs_boxes - 1);
    const Sides<A> box = sides_at<CENTER>(args.lhs, row);
    BoxSums<A> of_lhs;
    for (int64_t first = 0; first < args.rhs_boxes; first += 32)
        sum_tile<CENTER>(args, scratch, set, band, first, box, row, exists, of_lhs);
    if (exists)
        of_lhs.store_gradient(args.lhs_grad, row, box, CENTER, args.lhs_grad_request);
    if (!scratch.is_last_block(set, bands))
        return;
    const int64_t of_band = BoxSums<A>::COUNT * args.rhs_boxes;   // numbers in scratch memory
    for (int64_t column = threadIdx.x; column < args.rhs_boxes; column += THREADS) {
        BoxSums<A> all;
#pragma unroll
        for (int n = 0; n < BoxSums<A>::COUNT; ++n)
            all.number(n) = scratch.sum((set * bands * BoxSums<A>::COUNT + n) * args.rhs_boxes + column, bands,
                                        of_band);
        const int64_t rhs_box = set * args.rhs_boxes + column;
        all.store_gradient(args.rhs_grad, rhs_box, sides_at<CENTER>(args.rhs, rhs_box), CENTER,
                           args.rhs_grad_request);
    }
}

template <typename T>
__device__ void backward(const BoxIouArgs<T> &args)
{
    const Scratch<typename Accumulator<T>::type> scratch(args.counts, args.sums);
    for (int64_t band = blockIdx.x; band < args.sets * args.bands; band += gridDim.x)
        if (args.format == BoxIouFormat::Center)
            sum_band<true>(args, scratch, band);
        else
            sum_band<false>(args, scratch, band);
}
