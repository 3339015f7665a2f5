// softmax_cross_entropy on the CPU. Bytes moved: forward the logits' and three numbers per row, backward twice the
// logits' (read, write); dense labels' as often. What is read again after a reduction is still in the cache.
//
// A row's target distribution is label_weight * label + uniform: with sparse labels, label is 1 at the class and 0
// elsewhere.
#include "generated/softmax_cross_entropy.h"
#include "../_labels/labels.h"
#include "../_softmax/softmax.h"

namespace gluonops {

struct SoftmaxCrossEntropyCall {
    int type;
    RowSizes sizes;
    bool sparse;
    Labels labels;             // sparse
    const void *dense;         // dense
    double smoothing;
    const void *data;
    void *output, *max, *log_sum;                  // backward reads max and log_sum
    const void *output_grad;                       // backward
    void *data_grad, *label_grad;                  // backward; label_grad with dense labels only
};

namespace GLUONOPS_TARGET {
namespace {

// The call with typed pointers. A is what T computes in, and the type of max and log_sum.
template <typename T>
struct TypedCall {
    typedef typename Simd<T>::Scalar A;
    RowSizes sizes;
    bool sparse, smooth;
    Labels labels;
    A label_weight, uniform, smoothing;
    const T *data, *dense, *output_grad;
    T *output, *data_grad, *label_grad;
    A *max, *log_sum;

    explicit TypedCall(const SoftmaxCrossEntropyCall &call)
        : sizes(call.sizes), sparse(call.sparse), smooth(call.smoothing > 0), labels(call.labels),
          label_weight(A(1 - call.smoothing)), uniform(A(call.smoothing / double(call.sizes.length))),
          smoothing(A(call.smoothing)), data(static_cast<const T *>(call.data)),
          dense(static_cast<const T *>(call.dense)), output_grad(static_cast<const T *>(call.output_grad)),
          output(static_cast<T *>(call.output)), data_grad(static_cast<T *>(call.data_grad)),
          label_grad(static_cast<T *>(call.label_grad)), max(static_cast<A *>(call.max)),
          log_sum(static_cast<A *>(call.log_sum)) {}
};

template <typename T>
void forward_rows(const TypedCall<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    const TypedCall<T> call = given;
    const int64_t classes = call.sizes.length;
    parallel_rows(call.sizes, (call.sparse ? 1 : 2) * sizeof(T), [=](int64_t row) {
        const int64_t class_id = call.sparse ? class_of(call.labels, row, classes) : NO_CLASS;
        const T *logits = call.data + row * classes;
        if (class_id == IGNORED) {   // counts as a row of zeros, whatever it holds
            store_scalar(call.output + row, A(0));
            call.max[row] = 0;
            call.log_sum[row] = logarithm(A(classes));
            return;
        }
        const A max = row_max(logits, classes);
        const A log_sum = logarithm(row_exponentials<false>(logits, classes, max, A(1)));
        A loss = 0;
        if (!call.sparse) {
            const T *label = call.dense + row * classes;
            const A label_weight = call.label_weight, uniform = call.uniform;
            loss = row_sum<T>(classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto target = label_weight * load(label + i, mask, A(0)) + uniform;
                const auto nll = log_sum - (load(logits + i, mask, A(0)) - max);
                return target * nll;
            });
        } else if (class_id == NO_CLASS) {
            loss = not_a_number<A>();
        } else {
            if (call.smooth)
                loss = call.uniform * row_sum<T>(classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                    return log_sum - (load(logits + i, mask, A(0)) - max);
                });
            const A nll = log_sum - (load_scalar(logits + class_id) - max);
            loss += call.label_weight * nll;
        }
        store_scalar(call.output + row, loss);
        call.max[row] = max;
        call.log_sum[row] = log_sum;
    });
}

template <typename T>
void forward_columns(const TypedCall<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    const TypedCall<T> call = given;
    const int64_t classes = call.sizes.length;
    parallel_columns<false, T>(call.sizes, call.sparse ? 1 : 2, [=](ColumnBlock<T> &block) {
        alignas(64) A max_buffer[MAX_BLOCK_COLUMNS], log_sum_buffer[MAX_BLOCK_COLUMNS], loss_buffer[MAX_BLOCK_COLUMNS];
        A *max = max_buffer, *log_sum = log_sum_buffer, *loss = loss_buffer;
        const T *logits = block.read(call.data), *labels = call.sparse ? nullptr : block.read(call.dense);
        const int64_t columns = block.columns, stride = block.stride;

        column_max_and_sum<false>(logits, block.matrix(), columns, A(1), max, log_sum);
        for (int64_t j = 0; j < columns; ++j)
            log_sum[j] = logarithm(log_sum[j]);

        for_each_column<T>(columns, [=](int64_t j, auto) GLUONOPS_LAMBDA {
            store(loss + j, broadcast(A(0)), FullMask());
        });
        if (!call.sparse || call.smooth)
            for (int64_t c = 0; c < classes; ++c)
                for_each_column<T>(columns, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                    const auto shifted = load(logits + c * stride + j, mask, A(0)) - load(max + j, FullMask());
                    const auto nll = load(log_sum + j, FullMask()) - shifted;
                    auto target = broadcast(call.uniform);
                    if (!call.sparse)
                        target += call.label_weight * load(labels + c * stride + j, mask, A(0));
                    store(loss + j, load(loss + j, FullMask()) + target * nll, FullMask());
                });

        for (int64_t j = 0; j < columns; ++j) {
            const int64_t row = block.first_row + j, class_id = call.sparse ? class_of(call.labels, row, classes) : 0;
            if (call.sparse && class_id >= 0) {
                const A nll = log_sum[j] - (load_scalar(logits + class_id * stride + j) - max[j]);
                loss[j] += call.label_weight * nll;
            }
            if (class_id == NO_CLASS)
                loss[j] = not_a_number<A>();
            store_scalar(call.output + row, class_id == IGNORED ? A(0) : loss[j]);
            call.max[row] = class_id == IGNORED ? A(0) : max[j];
            call.log_sum[row] = class_id == IGNORED ? logarithm(A(classes)) : log_sum[j];
        }
    });
}

template <bool STREAMING, typename T>
void backward_rows(const TypedCall<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    enum { N = Simd<T>::LANES };
    const TypedCall<T> call = given;
    const int64_t classes = call.sizes.length;
    parallel_rows(call.sizes, (call.sparse ? 2 : 4) * sizeof(T), [=](int64_t row) {
        const T *logits = call.data + row * classes;
        T *grad = call.data_grad + row * classes;
        const A head = load_scalar(call.output_grad + row), max = call.max[row], log_sum = call.log_sum[row];
        const A label_weight = call.label_weight, uniform = call.uniform;
        if (!call.sparse) {
            const T *label = call.dense + row * classes;
            const A target_sum = row_sum<T>(classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                return label_weight * load(label + i, mask, A(0)) + uniform;
            });
            write_row<STREAMING>(grad, classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto p = exponential(load(logits + i, mask, A(0)) - max - log_sum);
                const auto scaled = target_sum * p;
                const auto target = label_weight * load(label + i, mask, A(0)) + uniform;
                return head * (scaled - target);
            });
            T *label_grad = call.label_grad + row * classes;
            write_row<STREAMING>(label_grad, classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
                const auto log_p = load(logits + i, mask, A(0)) - max - log_sum;
                return -label_weight * head * log_p;
            });
            return;
        }
        const int64_t class_id = class_of(call.labels, row, classes);
        if (class_id < 0) {   // whatever the row or the head gradient holds
            const A value = class_id == IGNORED ? A(0) : not_a_number<A>();
            write_row<STREAMING>(grad, classes, [=](int64_t, auto) GLUONOPS_LAMBDA { return broadcast(value); });
            return;
        }
        write_row<STREAMING>(grad, classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            auto error = exponential(load(logits + i, mask, A(0)) - max - log_sum) - uniform;
            if (uint64_t(class_id - i) < N)
                error[class_id - i] -= label_weight;
            return error * head;
        });
    });
}

template <bool STREAMING, typename T>
void backward_columns(const TypedCall<T> &given)
{
    typedef typename Simd<T>::Scalar A;
    typedef typename Simd<T>::Index Index;
    const TypedCall<T> call = given;
    const int64_t classes = call.sizes.length;
    parallel_columns<false, T>(call.sizes, call.sparse ? 2 : 4, [=](ColumnBlock<T> &block) {
        alignas(64) A head_buffer[MAX_BLOCK_COLUMNS], log_sum_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) A target_sum_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) Index class_id_buffer[MAX_BLOCK_COLUMNS];
        A *head = head_buffer, *log_sum = log_sum_buffer, *target_sum = target_sum_buffer;
        Index *class_ids = class_id_buffer;
        const T *logits = block.read(call.data), *labels = call.sparse ? nullptr : block.read(call.dense);
        T *grads = block.write(call.data_grad), *label_grads = call.sparse ? nullptr : block.write(call.label_grad);
        const int64_t columns = block.columns, stride = block.stride;
        for (int64_t j = 0; j < columns; ++j) {
            const int64_t row = block.first_row + j, class_id = call.sparse ? class_of(call.labels, row, classes) : 0;
            class_ids[j] = Index(class_id);
            head[j] = class_id == NO_CLASS ? not_a_number<A>() : load_scalar(call.output_grad + row);
            target_sum[j] = A(call.sparse);
            log_sum[j] = call.log_sum[row];
        }
        if (!call.sparse)
            for (int64_t c = 0; c < classes; ++c)
                for_each_column<T>(columns, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                    const auto label = load(labels + c * stride + j, mask, A(0));
                    const auto target = call.label_weight * label + call.uniform;
                    store(target_sum + j, load(target_sum + j, FullMask()) + target, FullMask());
                });
        const A *max = call.max + block.first_row;
        for (int64_t c = 0; c < classes; ++c) {
            const int64_t line = c * stride;
            write_row<STREAMING>(grads + line, columns, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                const auto zero = broadcast(A(0));
                const auto log_p = load(logits + line + j, mask, A(0)) - load(max + j, mask, A(0)) -
                                   load(log_sum + j, FullMask());
                const auto p = exponential(log_p);
                if (!call.sparse) {
                    const auto scaled = load(target_sum + j, FullMask()) * p;
                    const auto target = call.label_weight * load(labels + line + j, mask, A(0)) + call.uniform;
                    return load(head + j, FullMask()) * (scaled - target);
                }
                typename Simd<T>::Indices class_id;
                memcpy(&class_id, class_ids + j, WIDTH);
                const auto target = (class_id == Index(c) ? broadcast(call.label_weight) : zero) + call.uniform;
                const auto grad = load(head + j, FullMask()) * (p - target);
                return class_id == Index(IGNORED) ? zero : grad;
            });
            if (!call.sparse)
                write_row<STREAMING>(label_grads + line, columns, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                    const auto log_p = load(logits + line + j, mask, A(0)) - load(max + j, mask, A(0)) -
                                       load(log_sum + j, FullMask());
                    return -call.label_weight * load(head + j, FullMask()) * log_p;
                });
        }
    });
}

template <typename T>
void forward(const SoftmaxCrossEntropyCall &call)
{
    const TypedCall<T> typed(call);
    if (call.sizes.inner == 1)
        forward_rows(typed);
    else
        forward_columns(typed);
}

template <typename T>
void backward(const SoftmaxCrossEntropyCall &call)
{
    const TypedCall<T> typed(call);
    const bool rows = call.sizes.inner == 1;
    if (use_streaming_stores<T>(call.sizes))
        rows ? backward_rows<true>(typed) : backward_columns<true>(typed);
    else
        rows ? backward_rows<false>(typed) : backward_columns<false>(typed);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline SoftmaxCrossEntropyCall adapt(const SoftmaxCrossEntropyAttrs &attrs, const SoftmaxCrossEntropyTensors &tensors,
                                     Workspace &)
{
    SoftmaxCrossEntropyCall call = {};
    call.type = tensors.data.type;
    call.sizes = row_sizes(tensors.data.shape(), attrs.axis);
    call.sparse = attrs.sparse_label;
    call.labels = {{tensors.label.data, tensors.label.type}, attrs.ignore_label.has_value(),
                   attrs.ignore_label.value_or(0)};
    call.dense = tensors.label.data;
    call.smoothing = attrs.smoothing;
    call.data = tensors.data.data;
    call.output = tensors.output.data;
    call.max = tensors.max.data;
    call.log_sum = tensors.log_sum.data;
    call.output_grad = tensors.output_grad.data;
    call.data_grad = tensors.data_grad.data;
    call.label_grad = tensors.label_grad.data;
    return call;
}

}  // namespace gluonops
