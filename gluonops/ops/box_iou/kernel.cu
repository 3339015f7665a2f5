// box_iou. Forward: a thread has a box of rhs, and some boxes of lhs. Backward: a block has a band of the boxes of lhs of
// a set, a thread each, and adds up the gradients of both sides' boxes. The last block of a set adds up those of rhs over
// all bands.
#include "../_blocks/blocks.cuh"
#include "../_boxes/boxes.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };
enum { ROWS = 16 };      // boxes of lhs that a thread has in forward
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

template <typename T> struct Tensors {
    const T *output_grad, *lhs, *rhs;
    T *lhs_grad, *rhs_grad;
    int lhs_request, rhs_request;
    int64_t lhs_count, rhs_count;
};

// The pairs of a band of boxes of lhs, a thread each, with 32 boxes of rhs. In each turn the lanes of a warp have another
// box of rhs each, whose sums go from lane to lane. The sums of rhs over the band go to scratch memory.
template <bool CENTER, typename T, typename A>
__device__ void sum_tile(const Tensors<T> &tensors, const Scratch<A> &scratch, int64_t set, int64_t band, int64_t first,
                         const Sides<A> &box, int64_t row, bool exists, BoxSums<A> &of_lhs)
{
    typedef BoxSums<A> Sums;
    __shared__ A of_warps[Sums::COUNT][WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int columns = int(minimum(tensors.rhs_count - first, 32));
    Sums of_rhs;
    for (int turn = 0; turn < 32; ++turn) {
        const int column = (lane + turn) % 32;
        if (exists && column < columns) {
            const Sides<A> other = sides_at<CENTER>(tensors.rhs, set * tensors.rhs_count + first + column);
            const A head = load(tensors.output_grad, row * tensors.rhs_count + first + column);
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
        scratch.partial[(band * Sums::COUNT + warp) * tensors.rhs_count + first + lane] = sum;
    }
}

// The boxes of lhs of a band of a set; and those of rhs, by the last of the set's bands.
template <bool CENTER, typename T, typename A>
__device__ void sum_band(const Tensors<T> &tensors, const Scratch<A> &scratch, int64_t band, int64_t bands)
{
    const int64_t set = quotient(band, bands), in_set = (band - set * bands) * THREADS + threadIdx.x;
    const bool exists = in_set < tensors.lhs_count;
    const int64_t row = set * tensors.lhs_count + minimum(in_set, tensors.lhs_count - 1);
    const Sides<A> box = sides_at<CENTER>(tensors.lhs, row);
    BoxSums<A> of_lhs;
    for (int64_t first = 0; first < tensors.rhs_count; first += 32)
        sum_tile<CENTER>(tensors, scratch, set, band, first, box, row, exists, of_lhs);
    if (exists)
        of_lhs.store_gradient(tensors.lhs_grad, row, box, CENTER, tensors.lhs_request);
    if (!scratch.is_last_block(set, bands))
        return;
    const int64_t of_band = BoxSums<A>::COUNT * tensors.rhs_count;   // numbers in scratch memory
    for (int64_t column = threadIdx.x; column < tensors.rhs_count; column += THREADS) {
        BoxSums<A> all;
#pragma unroll
        for (int n = 0; n < BoxSums<A>::COUNT; ++n)
            all.number(n) = scratch.sum((set * bands * BoxSums<A>::COUNT + n) * tensors.rhs_count + column, bands,
                                        of_band);
        const int64_t rhs_box = set * tensors.rhs_count + column;
        all.store_gradient(tensors.rhs_grad, rhs_box, sides_at<CENTER>(tensors.rhs, rhs_box), CENTER,
                           tensors.rhs_request);
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS, sizeof(T) == 8 ? 2 : 4)
box_iou_backward(const T *__restrict__ output_grad, const T *__restrict__ lhs, const T *__restrict__ rhs,
                 T *__restrict__ lhs_grad, T *__restrict__ rhs_grad, double *__restrict__ partial,
                 int lhs_grad_request, int rhs_grad_request, int64_t step, int64_t sets, int64_t lhs_count,
                 int64_t rhs_count, int64_t is_center)
{
    const Tensors<T> tensors = {output_grad, lhs, rhs, lhs_grad, rhs_grad, lhs_grad_request, rhs_grad_request,
                                lhs_count, rhs_count};
    const int64_t bands = (lhs_count + THREADS - 1) / THREADS;   // of a set
    const Scratch<typename Accumulator<T>::type> scratch(partial, sets);
    if (step == 0)
        clear_counts(partial, sets);
    for (int64_t band = blockIdx.x; band < sets * bands && step > 0; band += gridDim.x)
        if (is_center)
            sum_band<true>(tensors, scratch, band, bands);
        else
            sum_band<false>(tensors, scratch, band, bands);
}
