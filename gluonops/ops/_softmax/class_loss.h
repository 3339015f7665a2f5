// Losses that are a function of the nll of a row's class: on the CPU. An operator supplies a formula,
//
//     template <typename A> A value(A nll)   the loss of a row,
//     template <typename A> A slope(A nll)   its derivative.
//
// Bytes moved: forward the logits' and three numbers per row, backward twice the logits'.
#ifndef GLUONOPS_OPS_CLASS_LOSS_H_
#define GLUONOPS_OPS_CLASS_LOSS_H_

#include "../_labels/labels.h"
#include "softmax.h"

namespace gluonops {

struct ClassLossCall {
    int type;
    RowSizes sizes;
    Labels labels;
    ClassWeights weights;
    const void *data;
    void *output, *max, *log_sum;   // backward reads max and log_sum
    const void *output_grad;        // backward
    void *data_grad;
};

// The call without what follows from an operator's own attributes.
template <typename Call, typename Attrs, typename Tensors>
inline Call class_loss_call(const Attrs &attrs, const Tensors &tensors)
{
    Call call = {};
    call.type = tensors.data.type;
    call.sizes = row_sizes(tensors.data.shape(), attrs.axis);
    call.labels = {{tensors.label.data, tensors.label.type}, attrs.ignore_label.has_value(),
                   attrs.ignore_label.value_or(0)};
    call.data = tensors.data.data;
    call.output = tensors.output.data;
    call.max = tensors.max.data;
    call.log_sum = tensors.log_sum.data;
    call.output_grad = tensors.output_grad.data;
    call.data_grad = tensors.data_grad.data;
    return call;
}

namespace GLUONOPS_TARGET {

// The call with typed pointers. A is what T computes in, and the type of max and log_sum.
template <typename T>
struct ClassLoss {
    typedef typename Simd<T>::Scalar A;
    RowSizes sizes;
    Labels labels;
    const A *weights;   // null without
    const T *data, *output_grad;
    T *output, *data_grad;
    A *max, *log_sum;

    explicit ClassLoss(const ClassLossCall &call)
        : sizes(call.sizes), labels(call.labels), weights(static_cast<const A *>(call.weights.values)),
          data(static_cast<const T *>(call.data)), output_grad(static_cast<const T *>(call.output_grad)),
          output(static_cast<T *>(call.output)), data_grad(static_cast<T *>(call.data_grad)),
          max(static_cast<A *>(call.max)), log_sum(static_cast<A *>(call.log_sum)) {}

    GLUONOPS_INLINE int64_t class_id(int64_t row) const { return class_of(labels, row, sizes.length); }
    GLUONOPS_INLINE A weight_of(int64_t class_id) const { return weights ? weights[class_id] : A(1); }

    // Writes the three numbers of a row. `logits` is its first element; its neighbours are `step` elements apart.
    template <typename Formula>
    GLUONOPS_INLINE void write(int64_t row, const T *logits, int64_t step, A row_max, A row_log_sum,
                               const Formula &formula) const
    {
        const int64_t id = class_id(row);
        if (id == IGNORED) {   // counts as a row of zeros, whatever it holds
            store_scalar(output + row, A(0));
            max[row] = 0;
            log_sum[row] = logarithm(A(sizes.length));
            return;
        }
        A loss = not_a_number<A>();
        if (id != NO_CLASS) {
            const A nll = row_log_sum - (load_scalar(logits + id * step) - row_max);
            loss = weight_of(id) * formula.value(nll);
        }
        store_scalar(output + row, loss);
        max[row] = row_max;
        log_sum[row] = row_log_sum;
    }

    // The factor of (softmax - onehot) in a row's gradient. It is 0 in an ignored row.
    template <typename Formula>
    GLUONOPS_INLINE A factor(int64_t row, int64_t id, const T *logits, int64_t step, const Formula &formula) const
    {
        if (id == IGNORED)
            return A(0);
        if (id == NO_CLASS)
            return not_a_number<A>();
        const A nll = log_sum[row] - (load_scalar(logits + id * step) - max[row]);
        return load_scalar(output_grad + row) * (weight_of(id) * formula.slope(nll));
    }
};

template <typename T, typename Formula>
void class_loss_forward_rows(const ClassLoss<T> &given, const Formula &formula)
{
    typedef typename Simd<T>::Scalar A;
    const ClassLoss<T> call = given;
    const int64_t classes = call.sizes.length;
    parallel_rows(call.sizes, sizeof(T), [=](int64_t row) {
        const T *logits = call.data + row * classes;
        const A max = row_max(logits, classes);
        const A log_sum = logarithm(row_exponentials<false>(logits, classes, max, A(1)));
        call.write(row, logits, 1, max, log_sum, formula);
    });
}

template <typename T, typename Formula>
void class_loss_forward_columns(const ClassLoss<T> &given, const Formula &formula)
{
    typedef typename Simd<T>::Scalar A;
    const ClassLoss<T> call = given;
    parallel_columns<false, T>(call.sizes, 1, [=](ColumnBlock<T> &block) {
        alignas(64) A max[MAX_BLOCK_COLUMNS], sum[MAX_BLOCK_COLUMNS];
        const T *logits = block.read(call.data);
        column_max_and_sum<false>(logits, block.lines, A(1), max, sum);
        for (int64_t j = 0; j < block.columns; ++j)
            call.write(block.first_row + j, logits + j, block.step, max[j], logarithm(sum[j]), formula);
    });
}

template <typename T, typename Formula>
void class_loss_forward(const ClassLossCall &call, const Formula &formula)
{
    const ClassLoss<T> typed(call);
    if (reduces_along_rows<T>(call.sizes))
        class_loss_forward_rows(typed, formula);
    else
        class_loss_forward_columns(typed, formula);
}

template <bool STREAMING, typename T, typename Formula>
void class_loss_backward_rows(const ClassLoss<T> &given, const Formula &formula)
{
    typedef typename Simd<T>::Scalar A;
    enum { N = Simd<T>::LANES };
    const ClassLoss<T> call = given;
    const int64_t classes = call.sizes.length;
    parallel_rows(call.sizes, 2 * sizeof(T), [=](int64_t row) {
        const int64_t class_id = call.class_id(row);
        const T *logits = call.data + row * classes;
        T *grad = call.data_grad + row * classes;
        const A factor = call.factor(row, class_id, logits, 1, formula);
        if (class_id < 0) {   // whatever the row or the head gradient holds
            write_row<STREAMING>(grad, classes, [=](int64_t, auto) GLUONOPS_LAMBDA { return broadcast(factor); });
            return;
        }
        const A max = call.max[row], log_sum = call.log_sum[row];
        write_row<STREAMING>(grad, classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            auto error = exponential(load(logits + i, mask, A(0)) - max - log_sum);
            if (uint64_t(class_id - i) < N)
                error[class_id - i] -= A(1);
            return error * factor;
        });
    });
}

template <bool STREAMING, typename T, typename Formula>
void class_loss_backward_columns(const ClassLoss<T> &given, const Formula &formula)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Index Index;
    const ClassLoss<T> call = given;
    parallel_columns<false, T>(call.sizes, 2, [=](ColumnBlock<T> &block) {
        alignas(64) A factor_buffer[MAX_BLOCK_COLUMNS], max_buffer[MAX_BLOCK_COLUMNS], log_sum_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) Index class_id_buffer[MAX_BLOCK_COLUMNS];
        A *factor = factor_buffer, *max = max_buffer, *log_sum = log_sum_buffer;
        Index *class_ids = class_id_buffer;
        const T *logits = block.read(call.data);
        T *grads = block.write(call.data_grad);
        const ColumnLines<T> lines = block.lines;
        for (int64_t j = 0; j < block.columns; ++j) {
            const int64_t row = block.first_row + j, class_id = call.class_id(row);
            class_ids[j] = Index(class_id);
            factor[j] = call.factor(row, class_id, logits + j, block.step, formula);
            max[j] = call.max[row];
            log_sum[j] = call.log_sum[row];
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

template <bool STREAMING, typename T, typename Formula>
void class_loss_backward_of_layout(const ClassLoss<T> &call, const Formula &formula)
{
    if (call.sizes.inner == 1)
        class_loss_backward_rows<STREAMING>(call, formula);
    else
        class_loss_backward_columns<STREAMING>(call, formula);
}

template <typename T, typename Formula>
void class_loss_backward(const ClassLossCall &call, const Formula &formula)
{
    const ClassLoss<T> typed(call);
    if (use_streaming_stores<T>(call.sizes))
        class_loss_backward_of_layout<true>(typed, formula);
    else
        class_loss_backward_of_layout<false>(typed, formula);
}

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#endif  // GLUONOPS_OPS_CLASS_LOSS_H_
