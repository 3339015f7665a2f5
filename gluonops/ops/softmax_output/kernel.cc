// softmax_output on the CPU. Bytes moved, forward and backward: twice the tensor's, plus the labels.
#include "generated/softmax_output.h"
#include "../_softmax/class_loss.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

// Returns the number of labels that are not ignored.
template <typename T>
int64_t count_valid(const SoftmaxOutputArgs<T> &args)
{
    const int64_t rows = class_rows(args).rows();
    if (!args.ignore_label.has_value)
        return rows;
    int64_t count = 0, *total = &count;
    const Labels labels = labels_of(args);
    parallel_for(rows, 4 * size_of(labels.array.type), [=](int64_t begin, int64_t end) {
        int64_t count_here = 0;
        for (int64_t row = begin; row < end; ++row)
            count_here += value_at(labels.array, row) != double(labels.ignore_label.value);
        __atomic_fetch_add(total, count_here, __ATOMIC_RELAXED);
    });
    return count;
}

// Returns the number that divides the gradient, unless it is 0.
template <typename T>
int64_t divisor(const SoftmaxOutputArgs<T> &args)
{
    switch (args.normalization) {
    case SoftmaxOutputNormalization::Batch: return args.samples;
    case SoftmaxOutputNormalization::Valid: return count_valid(args);
    default: return 1;
    }
}

// (output - onehot) * scale
template <typename T>
struct SoftmaxOutputGradient : ClassRows<T, 1> {
    typedef typename Simd<T>::Scalar A;
    A scale;

    template <typename N> struct Row { N factor; };

    GLUONOPS_INLINE Row<A> row(int64_t, int64_t, const T *, int64_t) const { return {scale}; }

    template <typename Element, typename Number>
    GLUONOPS_INLINE auto gradient(const Element &at, Number) const
    {
        return at.label.subtract_from(at.inputs[0], A(1)) * at.row.factor;
    }
};

template <typename T>
void backward(const SoftmaxOutputArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    const int64_t count = divisor(args);
    const A scale = A(args.grad_scale / double(count > 1 ? count : 1));
    class_gradient(SoftmaxOutputGradient<T>{
        {class_rows(args), {args.output}, {args.data_grad}, labels_of(args), nullptr}, scale});
}

template <typename T>
void forward(const SoftmaxOutputArgs<T> &args)
{
    softmax(class_rows(args), args.data, args.output, 1.0);
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
