// iou_loss, a thread per box. Bytes moved: forward two boxes and a loss, backward three boxes and a head gradient.
#include "../_boxes/boxes.cuh"

template <typename T, typename A>
__device__ BoxLoss<A> loss_at(const T *data, const T *truth, int64_t i, int64_t kind, bool is_center)
{
    BoxRow<A> row, other;
    for (int n = 0; n < 4; ++n) {
        row.numbers[n] = load(data, 4 * i + n);
        other.numbers[n] = load(truth, 4 * i + n);
    }
    const A eps = A(LOSS_EPS);
    return box_loss_of(int(kind), BoxPair<A>(sides_of(row, is_center), sides_of(other, is_center), eps), eps);
}

template <typename T>
__global__ void iou_loss_forward(const T *__restrict__ data, const T *__restrict__ truth, T *__restrict__ output,
                                 int output_request, int64_t count, int64_t kind, int64_t is_center)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t i = first_item(); i < count; i += item_step()) {
        const BoxLoss<A> loss = loss_at<T, A>(data, truth, i, kind, is_center != 0);
        store(output, i, loss.loss, output_request);
    }
}

template <typename T>
__global__ void iou_loss_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                                  const T *__restrict__ truth, T *__restrict__ data_grad, int data_grad_request,
                                  int64_t count, int64_t kind, int64_t is_center)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t i = first_item(); i < count; i += item_step()) {
        const BoxLoss<A> loss = loss_at<T, A>(data, truth, i, kind, is_center != 0);
        const BoxRow<A> gradient = row_gradient(loss.gradient, is_center != 0);
        const A head = load(output_grad, i);
        for (int n = 0; n < 4; ++n)
            store(data_grad, 4 * i + n, head * gradient.numbers[n], data_grad_request);
    }
}
