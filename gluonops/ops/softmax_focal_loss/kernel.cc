// softmax_focal_loss on the CPU. Bytes moved: forward the logits' and three numbers per row, backward twice the logits'
// (read, write).
#include "generated/softmax_focal_loss.h"
#include "../_softmax/class_loss.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

template <typename T, typename A>
GLUONOPS_INLINE A power_of(A base, A exponent) { return power(base, exponent); }

#include "../_softmax/focal.inl"

template <typename T>
struct FocalLoss : ClassRows<T, 1> {
    typedef typename Simd<T>::Scalar A;
    SoftmaxFocalLossArgs<T> args;

    GLUONOPS_INLINE bool sums() const { return false; }

    template <typename Element>
    GLUONOPS_INLINE auto term(const Element &at) const { return at.inputs[0]; }

    GLUONOPS_INLINE A loss(int64_t class_id, A nll, A) const
    {
        return args.alpha.of(class_id) * (power(-exponential_minus_one(-nll), A(args.gamma)) * nll);
    }
};

template <typename T>
struct FocalGradient : ClassRows<T, 1> {
    typedef typename Simd<T>::Scalar A;
    SoftmaxFocalLossArgs<T> args;

    template <typename N> struct Row { N max, log_sum, factor; };

    GLUONOPS_INLINE Row<A> row(int64_t row, int64_t class_id, const T *logits, int64_t step) const
    {
        const A max = args.max[row], log_sum = args.log_sum[row];
        const A nll = log_sum - (load_scalar(logits + class_id * step) - max);
        const A slope = args.alpha.of(class_id) * focal_slope<T>(nll, A(args.gamma));
        return {max, log_sum, load_scalar(args.output_grad + row) * slope};
    }

    template <typename Element, typename Number>
    GLUONOPS_INLINE auto gradient(const Element &at, Number) const
    {
        const auto p = exponential(at.inputs[0] - at.row.max - at.row.log_sum);
        return at.label.subtract_from(p, A(1)) * at.row.factor;
    }
};

template <typename T>
void forward(const SoftmaxFocalLossArgs<T> &args)
{
    class_loss(FocalLoss<T>{{class_rows(args), {args.data}, {}, labels_of(args), nullptr}, args});
}

template <typename T>
void backward(const SoftmaxFocalLossArgs<T> &args)
{
    class_gradient(FocalGradient<T>{{class_rows(args), {args.data}, {args.data_grad}, labels_of(args), nullptr}, args});
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
