// iou_loss, a thread per box. Bytes moved: forward two boxes and a loss, backward three boxes and a head gradient.
#include "../_boxes/boxes.inl"

template <typename T>
__device__ BoxLoss<typename Accumulator<T>::type> loss_at(const IouLossArgs<T> &args, int64_t i, bool is_center)
{
    typedef typename Accumulator<T>::type A;
    BoxRow<A> row, other;
    for (int n = 0; n < 4; ++n) {
        row.numbers[n] = load(args.data, 4 * i + n);
        other.numbers[n] = load(args.truth, 4 * i + n);
    }
    const A eps = A(LOSS_EPS);
    const BoxPair<A> pair(sides_of(row, is_center), sides_of(other, is_center), eps);
    return box_loss_of<IouLossKind>(args.kind, pair, eps);
}

template <typename T>
__device__ void forward(const IouLossArgs<T> &args)
{
    const bool is_center = args.format == IouLossFormat::Center;
    for (int64_t i = first_item(); i < args.count; i += item_step())
        store(args.output, i, loss_at(args, i, is_center).loss, args.output_request);
}

template <typename T>
__device__ void backward(const IouLossArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    const bool is_center = args.format == IouLossFormat::Center;
    for (int64_t i = first_item(); i < args.count; i += item_step()) {
        const BoxRow<A> gradient = row_gradient(loss_at(args, i, is_center).gradient, is_center);
        const A grad_out = load(args.output_grad, i);
        for (int n = 0; n < 4; ++n)
            store(args.data_grad, 4 * i + n, grad_out * gradient.numbers[n], args.data_grad_request);
    }
}
