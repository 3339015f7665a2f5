// softmax_cross_entropy on the CPU. Bytes moved: forward the logits' and three numbers per row, backward twice the
// logits' (read, write); dense labels' as often. What is read again after a reduction is still in the cache.
// cross_entropy.inl has the formulas.
#include "generated/softmax_cross_entropy.h"
#include "../_softmax/class_loss.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

#include "../_softmax/cross_entropy.inl"

// Labels are classes, all of the same weight.
template <typename T>
struct PlainLoss : ClassRows<T, 1> {
    typedef typename Simd<T>::Scalar A;
    SoftmaxCrossEntropyArgs<T> args;

    GLUONOPS_INLINE bool sums() const { return args.smoothing > 0; }

    template <typename Element>
    GLUONOPS_INLINE auto term(const Element &at) const
    {
        return args.uniform * (at.row.log_sum - (at.inputs[0] - at.row.max));
    }

    GLUONOPS_INLINE A loss(int64_t, A nll, A sum) const { return sum + args.label_weight * nll; }
};

template <typename T>
struct PlainGradient : ClassRows<T, 1> {
    typedef typename Simd<T>::Scalar A;
    SoftmaxCrossEntropyArgs<T> args;

    template <typename N> struct Row { N max, log_sum, factor; };

    GLUONOPS_INLINE Row<A> row(int64_t row, int64_t, const T *, int64_t) const
    {
        return {args.max[row], args.log_sum[row], load_scalar(args.output_grad + row)};
    }

    template <typename Element, typename Number>
    GLUONOPS_INLINE auto gradient(const Element &at, Number) const
    {
        const auto p = exponential(at.inputs[0] - at.row.max - at.row.log_sum);
        return gradient_by_logit(at, p, args.uniform, args.label_weight);
    }
};

// Labels are probabilities, or classes have weights. The second input are such labels.
template <typename T>
struct WeightedLoss : ClassRows<T, 2> {
    typedef typename Simd<T>::Scalar A;
    enum { VARIES = true };
    SoftmaxCrossEntropyArgs<T> args;

    GLUONOPS_INLINE bool sums() const { return !args.sparse_label || args.smoothing > 0; }

    template <typename Element>
    GLUONOPS_INLINE auto term(const Element &at) const
    {
        const auto nll = at.row.log_sum - (at.inputs[0] - at.row.max);
        return target_of(args, at) * nll;
    }

    GLUONOPS_INLINE A loss(int64_t class_id, A nll, A sum) const
    {
        return args.sparse_label ? sum + args.label_weight * args.class_weight.of(class_id) * nll : sum;
    }
};

template <typename T>
struct WeightedGradient : ClassRows<T, 2, 2> {
    typedef typename Simd<T>::Scalar A;
    enum { SUMS = true, VARIES = true };
    SoftmaxCrossEntropyArgs<T> args;

    // The sum of the target distribution, and the label's share of it.
    template <typename N> struct Row { N sum, share, max, log_sum, factor; };

    GLUONOPS_INLINE Row<A> row(int64_t row, int64_t class_id, const T *, int64_t) const
    {
        A sum = 0, share = 0;
        if (args.sparse_label) {
            share = args.label_weight * args.class_weight.of(class_id);
            sum = share + args.uniform * A(args.class_weight.sum);
        }
        return {sum, share, args.max[row], args.log_sum[row], load_scalar(args.output_grad + row)};
    }

    GLUONOPS_INLINE bool sums() const { return !args.sparse_label; }

    template <typename Element>
    GLUONOPS_INLINE auto term(const Element &at) const
    {
        return target_of(args, at);
    }

    template <typename Element, int RESULT>
    GLUONOPS_INLINE auto gradient(const Element &at, std::integral_constant<int, RESULT>) const
    {
        const auto log_p = at.inputs[0] - at.row.max - at.row.log_sum;
        if constexpr (RESULT) {
            return gradient_by_label(args, at, log_p);
        } else {
            const auto expected = at.row.sum * exponential(log_p);
            return gradient_by_logit(at, expected, term(at), at.row.share);
        }
    }
};

template <typename T>
GLUONOPS_INLINE bool is_plain(const SoftmaxCrossEntropyArgs<T> &args)
{
    return args.sparse_label && !args.class_weight.values;
}

template <typename T>
void forward(const SoftmaxCrossEntropyArgs<T> &args)
{
    const RowSizes sizes = class_rows(args);
    const Labels labels = args.sparse_label ? labels_of(args) : Labels();
    const T *dense = args.sparse_label ? nullptr : args.label.template as<T>();
    if (is_plain(args))
        short_class_loss(PlainLoss<T>{{sizes, {args.data}, {}, labels, nullptr}, args});
    else
        class_loss(WeightedLoss<T>{{sizes, {args.data, dense}, {}, labels, args.class_weight.values}, args});
}

template <typename T>
void backward(const SoftmaxCrossEntropyArgs<T> &args)
{
    const RowSizes sizes = class_rows(args);
    const Labels labels = args.sparse_label ? labels_of(args) : Labels();
    const T *dense = args.sparse_label ? nullptr : args.label.template as<T>();
    T *label_grad = args.sparse_label ? nullptr : args.label_grad;
    if (is_plain(args))
        short_class_gradient(PlainGradient<T>{{sizes, {args.data}, {args.data_grad}, labels, nullptr}, args});
    else
        class_gradient(WeightedGradient<T>{{sizes, {args.data, dense}, {args.data_grad, label_grad}, labels,
                                            args.class_weight.values}, args});
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
