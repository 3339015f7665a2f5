// softmax_output: see softmax.cuh, and class_loss.cuh for the gradient. With normalization "valid" and labels to
// ignore, backward's step COUNT counts the labels, each block a part of them.
#include "../_softmax/class_loss.cuh"

template <typename T, typename L>
__device__ void forward(const SoftmaxOutputArgs<T, L> &args) { softmax_rows(args, 1); }

// The number of labels that are not ignored, in LABEL_COUNTS parts.
template <typename T, typename L>
__device__ void count_valid(const SoftmaxOutputArgs<T, L> &args)
{
    const int64_t rows = args.batch * args.inner, threads = blockDim.x * blockDim.y;
    const int thread = thread_number();
    for (int part = blockIdx.y * gridDim.x + blockIdx.x; part < LABEL_COUNTS; part += gridDim.x * gridDim.y) {
        int64_t count = 0;
        for (int64_t row = part * threads + thread; row < rows; row += LABEL_COUNTS * threads)
            count += class_of(args, row) != IGNORED;
        const double of_block = reduce_block(double(count), Sum());
        if (thread == 0)
            args.label_counts[part] = of_block;
    }
}

// Returns the number that divides the gradient, unless it is 0.
template <typename T, typename L>
__device__ double divisor(const SoftmaxOutputArgs<T, L> &args)
{
    if (args.normalization == SoftmaxOutputNormalization::Null)
        return 1;
    if (args.normalization == SoftmaxOutputNormalization::Batch)
        return double(args.samples);
    if (!args.ignore_label.has_value)
        return double(args.batch * args.inner);
    double count = 0;
    for (int part = thread_number(); part < LABEL_COUNTS; part += blockDim.x * blockDim.y)
        count += args.label_counts[part];
    return reduce_block(count, Sum());
}

// (output - onehot) * scale
template <typename T, typename L>
struct SoftmaxOutputGradient : ClassPass<SoftmaxOutputArgs<T, L>> {
    typedef typename Accumulator<T>::type A;
    struct Row { A factor; };
    A scale;

    __device__ SoftmaxOutputGradient(const SoftmaxOutputArgs<T, L> &args, A scale)
        : ClassPass<SoftmaxOutputArgs<T, L>>(args), scale(scale) {}

    __device__ Row row(int64_t, int64_t, int64_t) const { return {scale}; }

    template <typename Element>
    __device__ A gradient(const Element &at) const
    {
        return at.label.subtract_from(at.inputs[0], A(1)) * at.row.factor;
    }
};

template <typename T, typename L>
__device__ void backward(const SoftmaxOutputArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    if (args.step == args.COUNT) {
        count_valid(args);
        return;
    }
    const double count = divisor(args);
    const ClassRows<T, 1> tensors = {class_rows(args), {args.output}, {args.data_grad}, {args.data_grad_request}};
    class_gradient(tensors, SoftmaxOutputGradient<T, L>(args, A(args.grad_scale) / A(count > 1 ? count : 1)));
}
