// margin_softmax_cross_entropy on the CPU. Bytes moved: forward the cosines' and three numbers per row, backward twice
// the cosines' (read, write). What is read again after the maximum is still in the cache.
//
// The margin is computed once per row, in double. The row's other classes are those in front of the label's and those
// behind it: the label's exponential is never part of a sum that it would have to be subtracted from.
#include "generated/margin_softmax_cross_entropy.h"
#include "../_labels/labels.h"
#include "../_softmax/softmax.h"

namespace gluonops {

struct MarginSoftmaxCrossEntropyCall {
    int type;
    RowSizes sizes;
    Labels labels;
    ClassWeights weights;
    double scale, m1, m2, m3;
    bool easy_margin;
    const void *data;
    void *output, *max, *log_sum;      // backward reads max and log_sum
    const void *output_grad;           // backward
    void *data_grad;
};

namespace GLUONOPS_TARGET {
namespace {

const double PI = 3.14159265358979323846;

GLUONOPS_INLINE double root(double x) { return __builtin_sqrt(x); }
GLUONOPS_INLINE double arc_cosine(double x) { return __builtin_acos(x); }
GLUONOPS_INLINE double cosine_of_pi(double x) { return __builtin_cos(PI * x); }
GLUONOPS_INLINE double sine_of_pi(double x) { return __builtin_sin(PI * x); }
GLUONOPS_INLINE double whole_part(double x) { return __builtin_floor(x); }

#include "../_softmax/margin.cuh"

// The call with typed pointers. A is what T computes in, and the type of max and log_sum.
template <typename T>
struct TypedCall {
    typedef typename Simd<T>::Scalar A;
    RowSizes sizes;
    Labels labels;
    const A *weights;   // null without
    A scale;
    Margin<double> margin;
    const T *data, *output_grad;
    T *output, *data_grad;
    A *max, *log_sum;

    explicit TypedCall(const MarginSoftmaxCrossEntropyCall &call)
        : sizes(call.sizes), labels(call.labels), weights(static_cast<const A *>(call.weights.values)),
          scale(A(call.scale)),
          margin{call.m1, call.m2, call.m3, __builtin_cos(call.m2), __builtin_sin(call.m2), call.easy_margin},
          data(static_cast<const T *>(call.data)), output_grad(static_cast<const T *>(call.output_grad)),
          output(static_cast<T *>(call.output)), data_grad(static_cast<T *>(call.data_grad)),
          max(static_cast<A *>(call.max)), log_sum(static_cast<A *>(call.log_sum)) {}

    GLUONOPS_INLINE A weight_of(int64_t class_id) const { return weights ? weights[class_id] : A(1); }
};

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
    sum += row_exponentials<false>(cosines, class_id, max, scale);
    sum += row_exponentials<false>(behind, count_behind, max, scale);
    return {max, logarithm(sum)};
}

// The logarithm of the smallest number that is not subnormal, rounded up.
GLUONOPS_INLINE float least_exponent(float) { return -87.3365f; }
GLUONOPS_INLINE double least_exponent(double) { return -708.396; }

// Below this exponent an exponential, or its product with `factor`, is subnormal. Processors multiply such numbers slowly,
// and cosines times a scale of 64 make many.
template <typename A>
GLUONOPS_INLINE A flush_limit(A factor)
{
    const A distance = -logarithm(factor < 0 ? -factor : factor);
    return least_exponent(A(0)) + (distance > 0 ? distance : A(0));
}

template <typename T>
void forward(const MarginSoftmaxCrossEntropyCall &given)
{
    typedef typename Simd<T>::Scalar A;
    const TypedCall<T> call(given);
    const int64_t classes = call.sizes.length;
    parallel_rows(call.sizes, sizeof(T), [=](int64_t row) {
        const int64_t class_id = class_of(call.labels, row, classes);
        if (class_id < 0) {   // counts as a row of zeros, whatever it holds
            store_scalar(call.output + row, class_id == IGNORED ? A(0) : not_a_number<A>());
            call.max[row] = 0;
            call.log_sum[row] = logarithm(A(classes));
            return;
        }
        const T *cosines = call.data + row * classes;
        const A target = A(call.margin(double(load_scalar(cosines + class_id))).cosine);
        const RowStatistics<A> row_statistics = statistics(cosines, classes, class_id, target, call.scale);
        const A distance = (target - row_statistics.max) * call.scale;
        store_scalar(call.output + row, call.weight_of(class_id) * (row_statistics.log_sum - distance));
        call.max[row] = row_statistics.max;
        call.log_sum[row] = row_statistics.log_sum;
    });
}

template <bool STREAMING, typename T>
void backward_rows(const MarginSoftmaxCrossEntropyCall &given)
{
    typedef typename Simd<T>::Scalar A;
    enum { N = Simd<T>::LANES };
    const TypedCall<T> call(given);
    const int64_t classes = call.sizes.length;
    parallel_rows(call.sizes, 2 * sizeof(T), [=](int64_t row) {
        const T *cosines = call.data + row * classes;
        T *grad = call.data_grad + row * classes;
        const int64_t class_id = class_of(call.labels, row, classes);
        if (class_id < 0) {   // whatever the row or the head gradient holds
            const A value = class_id == IGNORED ? A(0) : not_a_number<A>();
            write_row<STREAMING>(grad, classes, [=](int64_t, auto) GLUONOPS_LAMBDA { return broadcast(value); });
            return;
        }
        const A max = call.max[row], log_sum = call.log_sum[row], scale = call.scale;
        const A head = load_scalar(call.output_grad + row) * call.weight_of(class_id) * scale;
        const A limit = flush_limit(head);
        const auto target = call.margin(double(load_scalar(cosines + class_id)));
        const A log_probability = (A(target.cosine) - max) * scale - log_sum;
        const A probability = exponential(broadcast(log_probability))[0];
        const A label_grad = head * (probability - 1) * A(target.slope);
        write_row<STREAMING>(grad, classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            const auto exponent = (load(cosines + i, mask, A(0)) - max) * scale - log_sum;
            auto value = head * exponential(exponent < limit ? broadcast(lowest<A>()) : exponent);   // NaN stays
            if (uint64_t(class_id - i) < N)
                value[class_id - i] = label_grad;
            return value;
        });
    });
}

template <typename T>
void backward(const MarginSoftmaxCrossEntropyCall &call)
{
    if (use_streaming_stores<T>(call.sizes))
        backward_rows<true, T>(call);
    else
        backward_rows<false, T>(call);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline MarginSoftmaxCrossEntropyCall adapt(const MarginSoftmaxCrossEntropyAttrs &attrs,
                                           const MarginSoftmaxCrossEntropyTensors &tensors, Workspace &memory)
{
    MarginSoftmaxCrossEntropyCall call = {};
    call.type = tensors.data.type;
    call.sizes = row_sizes(tensors.data.shape(), -1);
    call.labels = {{tensors.label.data, tensors.label.type}, attrs.ignore_label.has_value(),
                   attrs.ignore_label.value_or(0)};
    call.weights = class_weights(attrs.class_weight, call.sizes.length, call.type, memory);
    call.scale = attrs.scale;
    call.m1 = attrs.m1;
    call.m2 = attrs.m2;
    call.m3 = attrs.m3;
    call.easy_margin = attrs.easy_margin;
    call.data = tensors.data.data;
    call.output = tensors.output.data;
    call.max = tensors.max.data;
    call.log_sum = tensors.log_sum.data;
    call.output_grad = tensors.output_grad.data;
    call.data_grad = tensors.data_grad.data;
    return call;
}

}  // namespace gluonops
