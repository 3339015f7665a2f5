// margin_softmax_cross_entropy: see class_loss.cuh. The threads of a row all compute the margin for backward: this
// takes no memory and no barrier.
#include "../_softmax/class_loss.cuh"
#include "../_softmax/angles.cuh"
#include "../_softmax/margin.inl"

template <typename T, typename L>
__device__ Margin<typename Accumulator<T>::type> margin_of(const MarginSoftmaxCrossEntropyArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    return {A(args.m1), A(args.m2), A(args.m3), A(args.cosine_of_m2), A(args.sine_of_m2), args.easy_margin};
}

template <typename T, typename L>
__device__ RowSizes class_rows(const MarginSoftmaxCrossEntropyArgs<T, L> &args) { return {args.rows, args.classes, 1}; }

template <typename T, typename L>
struct MarginLoss : LabelLoss<MarginSoftmaxCrossEntropyArgs<T, L>> {
    using LabelLoss<MarginSoftmaxCrossEntropyArgs<T, L>>::LabelLoss;
    typedef typename Accumulator<T>::type A;

    struct Row { bool reads; int64_t class_id; A logit; };

    __device__ bool has_sums(int64_t class_id) const { return class_id >= 0; }

    __device__ Row row(int64_t row, const Rows<T> &rows) const
    {
        const int64_t class_id = this->class_of_row(row);
        const bool reads = has_sums(class_id);
        return {reads, class_id, reads ? logit_of_class(*this, rows, row, class_id) : A(0)};
    }

    __device__ SoftmaxSums<T> none() const { return SoftmaxSums<T>(A(this->args.scale)); }
    __device__ A logit(A cosine) const { return margin_of(this->args)(cosine).cosine; }

    template <typename Chunk>
    __device__ void add(SoftmaxSums<T> &sums, Chunk *x, const Row &row, const Rows<T> &rows,
                        const RowSplit &split) const
    {
        x[0].replace(number_of_class(row.class_id, rows, split, 0, Chunk::length()), row.logit);
        sums.add_chunk(x[0]);
    }

    __device__ A loss(int64_t class_id, A nll, A, const SoftmaxSums<T> &) const
    {
        return this->args.class_weight.of(class_id) * nll;
    }
};

// grad_out * scale * softmax, and another number for the label's cosine.
template <typename T, typename L>
struct MarginGradient : ClassPass<MarginSoftmaxCrossEntropyArgs<T, L>> {
    using ClassPass<MarginSoftmaxCrossEntropyArgs<T, L>>::ClassPass;
    typedef typename Accumulator<T>::type A;
    struct Row { Exponential<T> probability; A of_label, factor; };

    __device__ Row row(int64_t row, int64_t class_id, int64_t start) const
    {
        const MarginSoftmaxCrossEntropyArgs<T, L> &args = this->args;
        const A max = args.max[row], log_sum = args.log_sum[row], scale = A(args.scale);
        Row numbers = {Exponential<T>(max, scale, log_sum), 0, 0};
        if (class_id >= 0) {
            const MarginValue<A> target = margin_of(args)(load(args.data, start + class_id));
            const A probability = exponential((target.cosine - max) * scale - log_sum);
            numbers.factor = load(args.output_grad, row) * args.class_weight.of(class_id) * scale;
            numbers.of_label = numbers.factor * (probability - 1) * target.slope;
        }
        return numbers;
    }

    template <typename Element>
    __device__ A gradient(const Element &at) const
    {
        return at.label.replace_in(at.row.probability(at.inputs[0]) * at.row.factor, at.row.of_label);
    }
};

template <typename T, typename L>
__device__ void forward(const MarginSoftmaxCrossEntropyArgs<T, L> &args)
{
    class_loss(logit_rows(args), MarginLoss<T, L>(args));
}

template <typename T, typename L>
__device__ void backward(const MarginSoftmaxCrossEntropyArgs<T, L> &args)
{
    class_gradient(logit_rows(args), MarginGradient<T, L>(args));
}
