// softmax_cross_entropy: class_loss.cuh has the layouts, and cross_entropy.inl the formulas.
#include "../_softmax/class_loss.cuh"
#include "../_softmax/cross_entropy.inl"

// Dense labels have the type of the data; a kernel for labels of another type needs no code for them.
template <typename T, typename L> struct Same { enum { TYPE = false }; };
template <typename T> struct Same<T, T> { enum { TYPE = true }; };

// The blocks that share a multiprocessor. A kernel with dense labels needs more registers.
template <typename T, typename L>
struct MinBlocks {
    enum {
        DENSE = Same<T, L>::TYPE,
        FORWARD = sizeof(T) == 8 ? 2 : sizeof(T) == 2 && DENSE ? 3 : 4,
        SPARSE = sizeof(T) == 8 ? 2 : sizeof(T) == 2 && sizeof(L) == 8 ? 3 : 4,
        BACKWARD = SPARSE - (sizeof(T) == 2 ? 2 : 1) * DENSE
    };
};

template <typename T, typename L>
__device__ bool is_dense(const SoftmaxCrossEntropyArgs<T, L> &args) { return Same<T, L>::TYPE && !args.sparse_label; }

// Dense labels, or null.
template <typename T, typename L>
__device__ const T *dense_label(const SoftmaxCrossEntropyArgs<T, L> &args)
{
    return is_dense(args) ? reinterpret_cast<const T *>(args.label) : 0;
}

// Returns the class of a row's label. With dense labels it is 0, which counts for nothing.
template <typename T, typename L>
__device__ int64_t class_or_none(const SoftmaxCrossEntropyArgs<T, L> &args, int64_t row)
{
    return is_dense(args) ? 0 : class_of(args, row);
}

// Labels are classes, all of the same weight, and are not smoothed.
template <typename T, typename L>
struct PlainLoss : LabelLoss<SoftmaxCrossEntropyArgs<T, L>> {
    using LabelLoss<SoftmaxCrossEntropyArgs<T, L>>::LabelLoss;
    typedef typename Accumulator<T>::type A;

    __device__ A loss(int64_t, A nll, A, const SoftmaxSums<T> &) const { return this->args.label_weight * nll; }
};

// Labels are classes, all of the same weight.
template <typename T, typename L>
struct PlainGradient : ClassPass<SoftmaxCrossEntropyArgs<T, L>> {
    using ClassPass<SoftmaxCrossEntropyArgs<T, L>>::ClassPass;
    typedef typename Accumulator<T>::type A;
    struct Row { Exponential<T> probability; A factor; };

    __device__ Row row(int64_t row, int64_t, int64_t) const
    {
        return {Exponential<T>(this->args.max[row], 1, this->args.log_sum[row]), load(this->args.output_grad, row)};
    }

    template <typename Element>
    __device__ A gradient(const Element &at) const
    {
        return gradient_by_logit(at, at.row.probability(at.inputs[0]), this->args.uniform, this->args.label_weight);
    }
};

// A softmax's sums, and those of a target distribution: of target, and of target * (x - max).
template <typename T>
struct TargetSums : SoftmaxSums<T> {
    enum { NUMBERS = TARGET_NUMBERS };
    typedef typename Accumulator<T>::type A;
    A target, weighted_logits;

    __device__ TargetSums() : target(0), weighted_logits(0) {}

    __device__ void raise_max(A to)
    {
        if (target != 0)   // else max may still be so low that the difference is not finite
            weighted_logits += target * (this->max - to);
        SoftmaxSums<T>::raise_max(to);
    }

    // Adds a chunk and its targets, and turns the chunk into exponentials.
    template <typename Chunk>
    __device__ void add_chunks(Chunk &x, const Chunk &targets)
    {
        raise_max(x.fold(this->max, Largest()));
        A of_targets = 0, of_logits = 0;   // those of the chunk are added up first, as in RowChunk::dot
#pragma unroll
        for (int k = 0; k < Chunk::SIZE; ++k)
            if (k < x.count) {
                of_targets += targets.values[k];
                of_logits += targets.values[k] * (x.values[k] - this->max);
            }
        target += of_targets;
        weighted_logits += of_logits;
        SoftmaxSums<T>::add_chunk(x);
    }

    __device__ void add(TargetSums other)
    {
        raise_max(larger(other.max, this->max));
        other.raise_max(this->max);
        this->exponentials += other.exponentials;
        target += other.target;
        weighted_logits += other.weighted_logits;
    }

    __device__ void reduce(int lanes)
    {
        raise_max(reduce_warp(this->max, Largest(), lanes));
        this->exponentials = reduce_warp(this->exponentials, Sum(), lanes);
        target = reduce_warp(target, Sum(), lanes);
        weighted_logits = reduce_warp(weighted_logits, Sum(), lanes);
    }

    __device__ A &number(int i)
    {
        return i == 2 ? target : i == 3 ? weighted_logits : SoftmaxSums<T>::number(i);
    }
};

// Labels are probabilities or smoothed, or classes have weights. The second input are labels that are probabilities.
template <typename T, typename L>
struct WeightedLoss : LabelLoss<SoftmaxCrossEntropyArgs<T, L>> {
    using LabelLoss<SoftmaxCrossEntropyArgs<T, L>>::LabelLoss;
    typedef typename Accumulator<T>::type A;
    typedef TargetSums<T> Sums;
    typedef RowOfLoss Row;
    enum { BYTES = Pack<T>::SIZE * sizeof(A) };   // The registers would not do for more.

    __device__ int64_t class_of_row(int64_t row) const { return class_or_none(this->args, row); }
    __device__ Sums none() const { return Sums(); }

    template <typename Chunk>
    __device__ void add(Sums &sums, Chunk *x, const Row &, const Rows<T> &rows, const RowSplit &split) const
    {
#pragma unroll
        for (int k = 0; k < Chunk::SIZE; ++k)
            if (k < x[0].count) {
                const A weight = this->args.class_weight.of(split.position + rows.offset(k));
                x[1].values[k] = (this->args.label_weight * x[1].values[k] + this->args.uniform) * weight;
            }
        sums.add_chunks(x[0], x[1]);
    }

    __device__ A loss(int64_t class_id, A nll, A log_sum, const Sums &sums) const
    {
        const A of_targets = sums.target * log_sum - sums.weighted_logits;
        return is_dense(this->args) ? of_targets
            : of_targets + this->args.label_weight * this->args.class_weight.of(class_id) * nll;
    }
};

template <typename T, typename L>
struct WeightedGradient : ClassPass<SoftmaxCrossEntropyArgs<T, L>> {
    using ClassPass<SoftmaxCrossEntropyArgs<T, L>>::ClassPass;
    typedef typename Accumulator<T>::type A;
    enum { BYTES = Pack<T>::SIZE * sizeof(A), SUMS = Same<T, L>::TYPE };   // The registers would not do for more.

    // The sum of the target distribution, and the label's share of it.
    struct Row { A sum, share, max, log_sum, factor; };

    __device__ int64_t class_of_row(int64_t row) const { return class_or_none(this->args, row); }
    __device__ A weight(int64_t class_id) const { return this->args.class_weight.of(class_id); }
    __device__ bool sums() const { return is_dense(this->args); }

    __device__ Row row(int64_t row, int64_t class_id, int64_t) const
    {
        const SoftmaxCrossEntropyArgs<T, L> &args = this->args;
        Row numbers = {0, 0, args.max[row], args.log_sum[row], load(args.output_grad, row)};
        if (!is_dense(args) && class_id >= 0) {
            numbers.share = args.label_weight * args.class_weight.of(class_id);
            numbers.sum = numbers.share + args.uniform * A(args.class_weight.sum);
        }
        return numbers;
    }

    template <typename Element>
    __device__ A term(const Element &at) const
    {
        return target_of(this->args, at);
    }

    template <typename Element>
    __device__ A log_probability(const Element &at) const { return at.inputs[0] - at.row.max - at.row.log_sum; }

    template <typename Element>
    __device__ A gradient(const Element &at) const
    {
        return gradient_by_logit(at, at.row.sum * exponential(log_probability(at)), term(at), at.row.share);
    }

    template <typename Element>
    __device__ A second_gradient(const Element &at) const
    {
        return gradient_by_label(this->args, at, log_probability(at));
    }
};

// Returns the logits and dense labels, and their gradients.
template <typename T, typename L>
__device__ ClassRows<T, 2, 2> logit_and_label_rows(const SoftmaxCrossEntropyArgs<T, L> &args)
{
    T *const label_grad = is_dense(args) ? reinterpret_cast<T *>(args.label_grad) : 0;
    return {class_rows(args), {args.data, dense_label(args)}, {args.data_grad, label_grad},
            {args.data_grad_request, args.label_grad_request}};
}

template <typename T, typename L>
__device__ void forward(const SoftmaxCrossEntropyArgs<T, L> &args)
{
    if (is_dense(args) || args.class_weight.values || args.uniform > 0)
        class_loss(logit_and_label_rows(args), WeightedLoss<T, L>(args));
    else
        class_loss(logit_rows(args), PlainLoss<T, L>(args));
}

template <typename T, typename L>
__device__ void backward(const SoftmaxCrossEntropyArgs<T, L> &args)
{
    if (is_dense(args) || args.class_weight.values)
        class_gradient(logit_and_label_rows(args), WeightedGradient<T, L>(args));
    else
        class_gradient(logit_rows(args), PlainGradient<T, L>(args));
}
