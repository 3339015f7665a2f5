// margin_softmax_cross_entropy on the CPU. Bytes moved: forward the cosines' and three numbers per row, backward twice
// the cosines' (read, write). What is read again after the maximum is still in the cache.
//
// The margin is computed once per row, in double. The row's other classes are those in front of the label's and those
// behind it: the label's exponential is never part of a sum that it would have to be subtracted from.
#include "generated/margin_softmax_cross_entropy.h"
#include "../_softmax/class_loss.h"

namespace gluonops::GLUONOPS_ISA {
namespace {

const double PI = 3.14159265358979323846;

GLUONOPS_INLINE double arc_cosine(double x) { return __builtin_acos(x); }
GLUONOPS_INLINE double cosine_of_pi(double x) { return __builtin_cos(PI * x); }
GLUONOPS_INLINE double sine_of_pi(double x) { return __builtin_sin(PI * x); }
GLUONOPS_INLINE double whole_part(double x) { return __builtin_floor(x); }

#include "../_softmax/margin.inl"

template <typename T>
GLUONOPS_INLINE Margin<double> margin_of(const MarginSoftmaxCrossEntropyArgs<T> &args)
{
    return {args.m1, args.m2, args.m3, args.cosine_of_m2, args.sine_of_m2, args.easy_margin};
}

template <typename T>
GLUONOPS_INLINE RowSizes rows_of_cosines(const MarginSoftmaxCrossEntropyArgs<T> &args)
{
    return {args.rows, args.classes, 1};
}

// The maximum of a row whose label's cosine is `target`, and the logarithm of its sum of exp(scale * (cosine - max)).
template <typename A>
struct RowStatistics { A max, log_sum; };

template <typename T, typename A>
RowStatistics<A> statistics(const T *cosines, int64_t classes, int64_t class_id, A target, A scale)
{
    const T *behind = cosines + class_id + 1;
    const int64_t count_behind = classes - class_id - 1;
    A max = row_max(cosines, class_id);
    const A max_behind = row_max(behind, count_behind);
    max = max_behind > max ? max_behind : max;
    max = target > max ? target : max;
    A sum = exponential(broadcast((target - max) * scale))[0];
    sum += row_exponentials(cosines, class_id, max, scale);
    sum += row_exponentials(behind, count_behind, max, scale);
    return {max, logarithm(sum)};
}

// Returns the logarithm of the smallest number that is not subnormal, rounded up.
GLUONOPS_INLINE float least_exponent(float) { return -87.3365f; }
GLUONOPS_INLINE double least_exponent(double) { return -708.396; }

// Below this exponent an exponential, or its product with `factor`, is subnormal. Processors multiply such numbers
// slowly, and cosines times a scale of 64 make many.
template <typename A>
GLUONOPS_INLINE A flush_limit(A factor)
{
    const A distance = -logarithm(factor < 0 ? -factor : factor);
    return least_exponent(A(0)) + (distance > 0 ? distance : A(0));
}

template <typename T>
void forward(const MarginSoftmaxCrossEntropyArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    const Margin<double> margin = margin_of(args);
    const A scale = A(args.scale);
    const int64_t classes = args.classes;
    parallel_rows(rows_of_cosines(args), sizeof(T), [=](int64_t row) {
        const int64_t class_id = class_of(labels_of(args), row, classes);
        if (class_id < 0) {   // counts as a row of zeros, whatever it holds
            store_scalar(args.output + row, class_id == IGNORED ? A(0) : not_a_number<A>());
            args.max[row] = 0;
            args.log_sum[row] = logarithm(A(classes));
            return;
        }
        const T *cosines = args.data + row * classes;
        const A target = A(margin(double(load_scalar(cosines + class_id))).cosine);
        const RowStatistics<A> row_statistics = statistics(cosines, classes, class_id, target, scale);
        const A distance = (target - row_statistics.max) * scale;
        store_scalar(args.output + row, args.class_weight.of(class_id) * (row_statistics.log_sum - distance));
        args.max[row] = row_statistics.max;
        args.log_sum[row] = row_statistics.log_sum;
    });
}

template <typename T>
struct MarginGradient : ClassRows<T, 1> {
    typedef typename Simd<T>::Scalar A;
    MarginSoftmaxCrossEntropyArgs<T> args;

    template <typename N> struct Row { N max, log_sum, limit, of_label, factor; };

    GLUONOPS_INLINE Row<A> row(int64_t row, int64_t class_id, const T *cosines, int64_t) const
    {
        const A max = args.max[row], log_sum = args.log_sum[row], scale = A(args.scale);
        const A grad_out = load_scalar(args.output_grad + row) * args.class_weight.of(class_id) * scale;
        const auto target = margin_of(args)(double(load_scalar(cosines + class_id)));
        const A log_probability = (A(target.cosine) - max) * scale - log_sum;
        const A probability = exponential(broadcast(log_probability))[0];
        return {max, log_sum, flush_limit(grad_out), grad_out * (probability - 1) * A(target.slope), grad_out};
    }

    template <typename Element, typename Number>
    GLUONOPS_INLINE auto gradient(const Element &at, Number) const
    {
        const auto exponent = (at.inputs[0] - at.row.max) * A(args.scale) - at.row.log_sum;
        const auto flushed = exponent < at.row.limit ? broadcast(lowest<A>()) : exponent;   // NaN stays
        const auto value = at.row.factor * exponential(flushed);
        return at.label.replace_in(value, at.row.of_label);
    }
};

template <typename T>
void backward(const MarginSoftmaxCrossEntropyArgs<T> &args)
{
    const RowSizes sizes = rows_of_cosines(args);
    const MarginGradient<T> pass = {{sizes, {args.data}, {args.data_grad}, labels_of(args), nullptr}, args};
    class_gradient_rows<false>(pass, use_streaming_stores<T>(sizes));
}

}  // namespace
}  // namespace gluonops::GLUONOPS_ISA
