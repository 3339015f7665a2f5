// box_iou. Forward: a thread per pair. Backward: a thread has a box and a band of the other input's boxes.
#include "../_blocks/blocks.cuh"
#include "../_boxes/boxes.inl"

enum { NUMBERS = 4 };   // A box has so many.

template <typename T>
__device__ Sides<typename Accumulator<T>::type> sides_at(const BoxIouArgs<T> &args, const T *boxes, int64_t i)
{
    BoxRow<typename Accumulator<T>::type> row;
#pragma unroll
    for (int n = 0; n < NUMBERS; ++n)
        row.numbers[n] = load(boxes, NUMBERS * i + n);
    return sides_of(row, args.format == BoxIouFormat::Center);
}

template <typename T>
__device__ void forward(const BoxIouArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const int64_t rows = args.sets * args.lhs_boxes;
    for (int64_t i = first_item(); i < rows * args.rhs_boxes; i += item_step()) {
        const int64_t row = quotient(i, args.rhs_boxes), set = quotient(row, args.lhs_boxes);
        const int64_t other = i - (row - set) * args.rhs_boxes;
        const BoxPair<A> pair(sides_at(args, args.lhs, row), sides_at(args, args.rhs, other), A(TINY_AREA));
        store(args.output, i, pair.iou, args.output_request);
    }
}

// Sums over the pairs of a box of the derivatives of head * IoU: by the ends of the overlap that are the box's own, and
// by the box's area, with the opposite sign.
template <typename A>
struct Slopes {
    A left = 0, right = 0, top = 0, bottom = 0, area = 0;

    // With the union u and the intersection i, the derivatives of the IoU are (1 + IoU) / u by i, and -IoU / u by an
    // area. Ends that coincide count as those of lhs. A product with 0 is NaN where the other factor is.
    template <bool IS_LHS>
    __device__ void add(const Sides<A> &box, const Sides<A> &other, A head)
    {
        const Side<A> &x = box.across, &other_x = other.across, &y = box.down, &other_y = other.down;
        const A width = smaller(x.high, other_x.high) - larger(x.low, other_x.low);
        const A height = smaller(y.high, other_y.high) - larger(y.low, other_y.low);
        const bool overlaps = width > 0 && height > 0;
        const A intersection = overlaps ? width * height : A(0);
        const A areas = x.size * y.size + other_x.size * other_y.size + A(TINY_AREA);
        const A inverse = reciprocal(areas - intersection), by_area = head * inverse * (intersection * inverse);
        const A by_intersection = overlaps ? head * inverse + by_area : A(0);
        const A by_width = by_intersection * height, by_height = by_intersection * width;
        left += by_width * A(IS_LHS ? x.low >= other_x.low : x.low > other_x.low);
        right += by_width * A(IS_LHS ? x.high <= other_x.high : x.high < other_x.high);
        top += by_height * A(IS_LHS ? y.low >= other_y.low : y.low > other_y.low);
        bottom += by_height * A(IS_LHS ? y.high <= other_y.high : y.high < other_y.high);
        area += by_area;
    }

    __device__ BoxRow<A> gradient(const Sides<A> &box, bool is_center) const
    {
        const Box<A> by = {right - left, bottom - top, (right + left) / 2 - area * box.down.size,
                           (bottom + top) / 2 - area * box.across.size};
        return row_gradient(by, is_center);
    }
};

// One of the inputs. The counts of boxes are those of a set, and the steps lead from a box to the next one in
// output_grad.
template <typename T>
struct Input {
    const T *boxes, *others;
    int64_t count, other_count, step, other_step, bands;
    T *grad;
    int request;
    Scratch<typename Accumulator<T>::type> scratch;
};

// A thread has a box and a band of the other input's boxes. The last of the blocks that have the same boxes adds up the
// derivatives of all bands.
template <bool IS_LHS, typename T>
__device__ void sum_band(const BoxIouArgs<T> &args, const Input<T> &input, int64_t number)
{
    typedef typename Accumulator<T>::type A;
    const int64_t block = quotient(number, input.bands), band = number - block * input.bands;
    const int64_t boxes = args.sets * input.count, i = block * THREADS + threadIdx.x;
    const int64_t existing = minimum(i, boxes - 1), set = quotient(existing, input.count);
    const int64_t in_band = quotient(input.other_count + input.bands - 1, input.bands);
    const int64_t first = band * in_band, end = minimum(first + in_band, input.other_count);
    const Sides<A> box = sides_at(args, input.boxes, existing);
    const T *other = input.others + NUMBERS * (set * input.other_count + first);
    const T *head = args.output_grad + set * args.lhs_boxes * args.rhs_boxes
                    + (existing - set * input.count) * input.step + first * input.other_step;
    Slopes<A> slopes;
#pragma unroll 2
    for (int64_t more = end - first; more > 0; --more, other += NUMBERS, head += input.other_step)
        slopes.template add<IS_LHS>(box, sides_at(args, other, 0), load(head, 0));
    const BoxRow<A> gradient = slopes.gradient(box, args.format == BoxIouFormat::Center);
    for (int n = 0; n < NUMBERS && i < boxes; ++n)
        input.scratch.partial[NUMBERS * (band * boxes + i) + n] = gradient.numbers[n];
    if (!input.scratch.is_last_block(block, input.bands))
        return;
    const int64_t end_of_block = NUMBERS * minimum((block + 1) * THREADS, boxes);
    for (int64_t place = NUMBERS * block * THREADS + threadIdx.x; place < end_of_block; place += THREADS)
        store(input.grad, place, input.scratch.sum(place, input.bands, NUMBERS * boxes), input.request);
}

template <typename T>
__device__ void backward(const BoxIouArgs<T> &args)
{
    typedef Scratch<typename Accumulator<T>::type> Sums;
    const Input<T> lhs = {args.lhs, args.rhs, args.lhs_boxes, args.rhs_boxes, args.rhs_boxes, 1, args.lhs_bands,
                          args.lhs_grad, args.lhs_grad_request, Sums(args.lhs_counts, args.lhs_sums)};
    const Input<T> rhs = {args.rhs, args.lhs, args.rhs_boxes, args.lhs_boxes, 1, args.rhs_boxes, args.rhs_bands,
                          args.rhs_grad, args.rhs_grad_request, Sums(args.rhs_counts, args.rhs_sums)};
    const int64_t of_lhs = args.lhs_blocks * args.lhs_bands, all = of_lhs + args.rhs_blocks * args.rhs_bands;
    for (int64_t number = blockIdx.x; number < all; number += gridDim.x) {
        if (number < of_lhs && lhs.request != NOTHING)
            sum_band<true>(args, lhs, number);
        else if (number >= of_lhs && rhs.request != NOTHING)
            sum_band<false>(args, rhs, number - of_lhs);
    }
}
