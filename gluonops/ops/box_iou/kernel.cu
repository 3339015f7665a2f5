// box_iou, a thread per pair of boxes; in backward a row of threads per box, which sums over the boxes of the other set.
// Bytes moved: forward the output, backward twice the head gradient.
#include "../_boxes/boxes.cuh"

template <typename T, typename A>
__device__ Sides<A> sides_at(const T *boxes, int64_t i, bool is_center)
{
    BoxRow<A> row;
    for (int n = 0; n < 4; ++n)
        row.numbers[n] = load(boxes, 4 * i + n);
    return sides_of(row, is_center);
}

template <typename T>
__global__ void box_iou_forward(const T *__restrict__ lhs, const T *__restrict__ rhs, T *__restrict__ output,
                                int output_request, int64_t sets, int64_t lhs_count, int64_t rhs_count,
                                int64_t is_center)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t i = first_item(); i < sets * lhs_count * rhs_count; i += item_step()) {
        const int64_t row = i / rhs_count, column = i % rhs_count, set = row / lhs_count;
        const BoxPair<A> pair(sides_at<T, A>(lhs, row, is_center != 0),
                              sides_at<T, A>(rhs, set * rhs_count + column, is_center != 0), A(TINY_AREA));
        store(output, i, pair.iou, output_request);
    }
}

// Adds the derivatives of head * IoU to a sum, by the first box of the pair.
template <typename A>
__device__ void add_gradient(Box<A> &sum, const BoxPair<A> &pair, A head)
{
    const Box<A> by = iou_loss_of(pair).gradient;
    sum.x -= head * by.x;
    sum.y -= head * by.y;
    sum.w -= head * by.w;
    sum.h -= head * by.h;
}

template <typename T, typename A>
__device__ void store_gradient(T *grad, int64_t i, const Box<A> &own, bool is_center, int request)
{
    Box<A> sum;
    sum.x = reduce_row(own.x, Sum());
    sum.y = reduce_row(own.y, Sum());
    sum.w = reduce_row(own.w, Sum());
    sum.h = reduce_row(own.h, Sum());
    const BoxRow<A> gradient = row_gradient(sum, is_center);
    if (threadIdx.x == 0)
        for (int n = 0; n < 4; ++n)
            store(grad, 4 * i + n, gradient.numbers[n], request);
}

template <typename T>
__global__ void box_iou_backward(const T *__restrict__ output_grad, const T *__restrict__ lhs,
                                 const T *__restrict__ rhs, T *__restrict__ lhs_grad, T *__restrict__ rhs_grad,
                                 int lhs_grad_request, int rhs_grad_request, int64_t sets, int64_t lhs_count,
                                 int64_t rhs_count, int64_t is_center)
{
    typedef typename Accumulator<T>::type A;
    const bool center = is_center != 0;
    const int64_t lhs_boxes = sets * lhs_count, rhs_boxes = sets * rhs_count;
    for (int64_t r = first_row(); r < lhs_boxes + rhs_boxes; r += row_step()) {   // the boxes of lhs, then of rhs
        const bool of_lhs = r < lhs_boxes;
        const int64_t i = of_lhs ? r : r - lhs_boxes;
        const int64_t count = of_lhs ? rhs_count : lhs_count, set = i / (of_lhs ? lhs_count : rhs_count);
        const Sides<A> box = sides_at<T, A>(of_lhs ? lhs : rhs, i, center);
        Box<A> sum = {0, 0, 0, 0};
        for (int64_t j = threadIdx.x; j < count; j += blockDim.x) {
            const Sides<A> other = sides_at<T, A>(of_lhs ? rhs : lhs, set * count + j, center);
            const int64_t row = of_lhs ? i : set * lhs_count + j, column = of_lhs ? j : i % rhs_count;
            const A head = load(output_grad, row * rhs_count + column);
            const BoxPair<A> pair(of_lhs ? box : other, of_lhs ? other : box, A(TINY_AREA));
            add_gradient(sum, of_lhs ? pair : pair.exchanged(), head);
        }
        store_gradient(of_lhs ? lhs_grad : rhs_grad, i, sum, center, of_lhs ? lhs_grad_request : rhs_grad_request);
    }
}
