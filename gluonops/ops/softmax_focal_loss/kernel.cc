// softmax_focal_loss on the CPU. Bytes moved: forward the logits' and three numbers per row, backward twice the logits'
// (read, write).
#include "generated/softmax_focal_loss.h"
#include "../_softmax/softmax.h"

namespace gluonops {

namespace GLUONOPS_TARGET {
namespace {

GLUONOPS_INLINE float power(float base, float exponent) { return __builtin_powf(base, exponent); }
GLUONOPS_INLINE double power(double base, double exponent) { return __builtin_pow(base, exponent); }
GLUONOPS_INLINE float expm1_of(float x) { return __builtin_expm1f(x); }
GLUONOPS_INLINE double expm1_of(double x) { return __builtin_expm1(x); }
GLUONOPS_INLINE float exponential_of(float x) { return __builtin_expf(x); }
GLUONOPS_INLINE double exponential_of(double x) { return __builtin_exp(x); }

// (1 - p)^gamma * nll, with the probability p = exp(-nll).
template <typename A>
GLUONOPS_INLINE A focal_loss(A nll, A gamma)
{
    return power(-expm1_of(-nll), gamma) * nll;
}

// Its derivative. Near 0 the error 1 - p is the nll. At infinity p * nll is 0.
template <typename A>
GLUONOPS_INLINE A focal_slope(A nll, A gamma)
{
    const A error = -expm1_of(-nll), p = exponential_of(-nll);
    const A ratio = error == 0 ? A(1) : p == 0 ? A(0) : nll / error;
    return power(error, gamma) * (1 + gamma * p * ratio);
}

// Writes the three numbers of a row. `logits` is its first element; its neighbours are `step` elements apart.
template <typename T, typename A>
GLUONOPS_INLINE void store_row(const SoftmaxFocalLossArgs<T> &args, int64_t row, const T *logits, int64_t step, A max,
                               A log_sum)
{
    const int64_t class_id = class_of(labels_of(args), row, args.classes);
    if (class_id == IGNORED) {   // counts as a row of zeros, whatever it holds
        store_scalar(args.output + row, A(0));
        args.max[row] = 0;
        args.log_sum[row] = logarithm(A(args.classes));
        return;
    }
    A loss = not_a_number<A>();
    if (class_id != NO_CLASS) {
        const A nll = log_sum - (load_scalar(logits + class_id * step) - max);
        loss = args.alpha.of(class_id) * focal_loss(nll, A(args.gamma));
    }
    store_scalar(args.output + row, loss);
    args.max[row] = max;
    args.log_sum[row] = log_sum;
}

// The factor of (softmax - onehot) in the gradient of a row with a class.
template <typename T>
GLUONOPS_INLINE typename Simd<T>::Scalar row_factor(const SoftmaxFocalLossArgs<T> &args, int64_t row, int64_t class_id,
                                                    const T *logits, int64_t step)
{
    typedef typename Simd<T>::Scalar A;
    const A nll = args.log_sum[row] - (load_scalar(logits + class_id * step) - args.max[row]);
    return load_scalar(args.output_grad + row) * (args.alpha.of(class_id) * focal_slope(nll, A(args.gamma)));
}

template <typename T>
void forward_rows(const SoftmaxFocalLossArgs<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    const SoftmaxFocalLossArgs<T> args = given;
    const int64_t classes = args.classes;
    parallel_rows(class_rows(args), sizeof(T), [=](int64_t row) {
        const T *logits = args.data + row * classes;
        const A max = row_max(logits, classes);
        store_row(args, row, logits, 1, max, logarithm(row_exponentials<false>(logits, classes, max, A(1))));
    });
}

template <typename T>
void forward_columns(const SoftmaxFocalLossArgs<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    const SoftmaxFocalLossArgs<T> args = given;
    parallel_columns<false, T>(class_rows(args), 1, [=](ColumnBlock<T> &block) {
        alignas(64) A max[MAX_BLOCK_COLUMNS], sum[MAX_BLOCK_COLUMNS];
        const T *logits = block.read(args.data);
        column_max_and_sum<false>(logits, block.lines, A(1), max, sum);
        for (int64_t j = 0; j < block.columns; ++j)
            store_row(args, block.first_row + j, logits + j, block.step, max[j], logarithm(sum[j]));
    });
}

template <bool STREAMING, typename T>
void backward_rows(const SoftmaxFocalLossArgs<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    enum { N = Simd<T>::LANES };
    const SoftmaxFocalLossArgs<T> args = given;
    const int64_t classes = args.classes;
    parallel_rows(class_rows(args), 2 * sizeof(T), [=](int64_t row) {
        const int64_t class_id = class_of(labels_of(args), row, classes);
        const T *logits = args.data + row * classes;
        T *grad = args.data_grad + row * classes;
        if (class_id < 0)
            return write_row_without_class<STREAMING>(grad, classes, class_id);
        const A factor = row_factor(args, row, class_id, logits, 1), max = args.max[row], log_sum = args.log_sum[row];
        write_row<STREAMING>(grad, classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            auto error = exponential(load(logits + i, mask, A(0)) - max - log_sum);
            if (uint64_t(class_id - i) < N)
                error[class_id - i] -= A(1);
            return error * factor;
        });
    });
}

template <bool STREAMING, typename T>
void backward_columns(const SoftmaxFocalLossArgs<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Index Index;
    const SoftmaxFocalLossArgs<T> args = given;
    parallel_columns<false, T>(class_rows(args), 2, [=](ColumnBlock<T> &block) {
        alignas(64) A max_buffer[MAX_BLOCK_COLUMNS], log_sum_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) A factor_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) Index class_id_buffer[MAX_BLOCK_COLUMNS];
        A *factor = factor_buffer, *max = max_buffer, *log_sum = log_sum_buffer;
        Index *class_ids = class_id_buffer;
        const T *logits = block.read(args.data);
        T *grads = block.write(args.data_grad);
        const ColumnLines<T> lines = block.lines;
        for (int64_t j = 0; j < block.columns; ++j) {
            const int64_t row = block.first_row + j, class_id = class_of(labels_of(args), row, args.classes);
            class_ids[j] = Index(class_id);
            factor[j] = class_id < 0 ? not_a_number<A>() : row_factor(args, row, class_id, logits + j, block.step);
            max[j] = args.max[row];
            log_sum[j] = args.log_sum[row];
        }
        spread_class_ids(lines, class_ids);
        lines.spread(factor);
        lines.spread(max);
        lines.spread(log_sum);
        lines.each([=](int64_t number, int64_t width) GLUONOPS_LAMBDA {
            const int64_t line = number * lines.pitch;
            const Index first_class = Index(number * lines.per_line);
            write_row<STREAMING>(grads + line, width, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                const auto zero = broadcast(A(0));
                const auto shifted = load(logits + line + j, mask, A(0)) - load(max + j, FullMask());
                const auto p = exponential(shifted - load(log_sum + j, FullMask()));
                typename Simd<T>::Indices class_id;
                memcpy(&class_id, class_ids + j, WIDTH);
                const auto target = class_id == first_class ? broadcast(A(1)) : zero;
                const auto grad = load(factor + j, FullMask()) * (p - target);
                return class_id == Index(IGNORED) ? zero : grad;
            });
        });
    });
}

template <typename T>
void forward(const SoftmaxFocalLossArgs<T> &args)
{
    if (reduces_along_rows<T>(class_rows(args)))
        forward_rows(args);
    else
        forward_columns(args);
}

template <typename T>
void backward(const SoftmaxFocalLossArgs<T> &args)
{
    if (use_streaming_stores<T>(class_rows(args)))
        args.inner == 1 ? backward_rows<true>(args) : backward_columns<true>(args);
    else
        args.inner == 1 ? backward_rows<false>(args) : backward_columns<false>(args);
}

}  // namespace
}  // namespace GLUONOPS_TARGET
}  // namespace gluonops
