// softmax on the CPU. Bytes moved: forward twice the tensor's (read, write), backward three times. What is read again
// after a reduction is still in the cache.
#include "generated/softmax.h"
#include "../_softmax/class_loss.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

// The inputs are the head gradient and the output.
template <typename T>
struct SoftmaxGradient : ClassRows<T, 2> {
    typedef typename Simd<T>::Scalar A;
    enum { LABELLED = false, SUMS = true };
    A scale;

    template <typename N> struct Row { N sum; };

    GLUONOPS_INLINE Row<A> row(int64_t, int64_t, const T *, int64_t) const { return {0}; }

    GLUONOPS_INLINE bool sums() const { return true; }

    template <typename Element>
    GLUONOPS_INLINE auto term(const Element &at) const { return at.inputs[0] * at.inputs[1]; }

    template <typename Element, typename Number>
    GLUONOPS_INLINE auto gradient(const Element &at, Number) const
    {
        return (at.inputs[0] - at.row.sum) * at.inputs[1] * scale;
    }
};

template <typename T>
void backward(const SoftmaxArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    const RowSizes sizes = class_rows(args);
    const SoftmaxGradient<T> gradient = {{sizes, {args.output_grad, args.output}, {args.data_grad}, {}, nullptr},
                                         inverse_temperature<A>(args.temperature)};
    if (sizes.length < 4 * int64_t(Simd<T>::LANES))
        short_class_gradient(gradient);
    else   // other kernels are as fast
        class_gradient(gradient);
}

template <typename T>
void forward(const SoftmaxArgs<T> &args)
{
    const RowSizes sizes = class_rows(args);
    if (has_short_rows<T>(sizes))
        softmax_short_rows(sizes, args.data, args.output, args.temperature);
    else
        softmax(sizes, args.data, args.output, args.temperature);
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
