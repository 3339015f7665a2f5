// softmax_focal_loss: a function of the nll of a row's class; see class_loss.cuh.
#include "../_softmax/class_loss.cuh"
#include "../_softmax/focal.inl"

template <typename T, typename L>
struct FocalLoss : LabelLoss<SoftmaxFocalLossArgs<T, L>> {
    using LabelLoss<SoftmaxFocalLossArgs<T, L>>::LabelLoss;
    typedef typename Accumulator<T>::type A;

    __device__ A loss(int64_t class_id, A nll, A, const SoftmaxSums<T> &) const
    {
        const A error = -exponential_minus_one(-nll);
        return this->args.alpha.of(class_id) * (power_of<T>(error, A(this->args.gamma)) * nll);
    }
};

template <typename T, typename L>
struct FocalGradient : ClassPass<SoftmaxFocalLossArgs<T, L>> {
    using ClassPass<SoftmaxFocalLossArgs<T, L>>::ClassPass;
    typedef typename Accumulator<T>::type A;
    struct Row { Exponential<T> probability; A factor; };

    __device__ Row row(int64_t row, int64_t class_id, int64_t start) const
    {
        const SoftmaxFocalLossArgs<T, L> &args = this->args;
        const A max = args.max[row], log_sum = args.log_sum[row];
        Row numbers = {Exponential<T>(max, 1, log_sum), 0};
        if (class_id >= 0) {
            const A nll = log_sum - (load(args.data, start + class_id * args.inner) - max);
            const A slope = args.alpha.of(class_id) * focal_slope<T>(nll, A(args.gamma));
            numbers.factor = load(args.output_grad, row) * slope;
        }
        return numbers;
    }

    template <typename Element>
    __device__ A gradient(const Element &at) const
    {
        return at.label.subtract_from(at.row.probability(at.inputs[0]), A(1)) * at.row.factor;
    }
};

template <typename T, typename L>
__device__ void forward(const SoftmaxFocalLossArgs<T, L> &args)
{
    class_loss(logit_rows(args), FocalLoss<T, L>(args));
}

template <typename T, typename L>
__device__ void backward(const SoftmaxFocalLossArgs<T, L> &args)
{
    class_gradient(logit_rows(args), FocalGradient<T, L>(args));
}
