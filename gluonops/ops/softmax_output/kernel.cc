// softmax_output on the CPU. Bytes moved, forward and backward: twice the tensor's, plus the labels.
#include "generated/softmax_output.h"
#include "../_labels/labels.h"
#include "../_softmax/softmax.h"

namespace gluonops {

struct SoftmaxOutputCall {
    int type;
    RowSizes sizes;
    Labels labels;
    bool count_valid;    // whether to divide scale by the number of labels that are not ignored
    double scale;
    const void *data;    // forward
    const void *output;  // backward
    void *result;
};

namespace GLUONOPS_TARGET {
namespace {

// The number of labels that are not ignored.
int64_t count_valid(const SoftmaxOutputCall &call)
{
    const int64_t rows = call.sizes.rows();
    if (!call.labels.ignore_label.given)
        return rows;
    int64_t count = 0, *total = &count;
    const Labels labels = call.labels;
    parallel_for(rows, 4 * size_of(labels.array.type), [=](int64_t begin, int64_t end) {
        int64_t count_here = 0;
        for (int64_t row = begin; row < end; ++row)
            count_here += value_at(labels.array, row) != double(labels.ignore_label.value);
        __atomic_fetch_add(total, count_here, __ATOMIC_RELAXED);
    });
    return count;
}

// The gradient is (output - onehot) * scale. An ignored row gets 0 whatever it holds; a label that is no class gives
// NaN.
template <bool STREAMING, typename T, typename A>
void backward_rows(const SoftmaxOutputCall &call, const T *output, T *data_grad, A scale)
{
    enum { N = Simd<T>::LANES };
    const int64_t classes = call.sizes.length;
    const Labels labels = call.labels;
    parallel_rows(call.sizes, 2 * sizeof(T), [=](int64_t row) {
        const int64_t class_id = class_of(labels, row, classes);
        const T *y = output + row * classes;
        T *grad = data_grad + row * classes;
        if (class_id < 0) {
            const A value = class_id == IGNORED ? A(0) : not_a_number<A>();
            write_row<STREAMING>(grad, classes, [=](int64_t, auto) GLUONOPS_LAMBDA { return broadcast(value); });
            return;
        }
        write_row<STREAMING>(grad, classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            auto v = load(y + i, mask, A(0));
            if (uint64_t(class_id - i) < N)
                v[class_id - i] -= 1;
            return v * scale;
        });
    });
}

template <bool STREAMING, typename T, typename A>
void backward_columns(const SoftmaxOutputCall &call, const T *output, T *data_grad, A scale)
{
    typedef typename Simd<T>::Index Index;
    const RowSizes sizes = call.sizes;
    const Labels labels = call.labels;
    parallel_columns<false, T>(sizes, 2, [=](ColumnBlock<T> &block) {
        alignas(64) A weight_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) Index class_id_buffer[MAX_BLOCK_COLUMNS];
        A *weights = weight_buffer;
        Index *class_ids = class_id_buffer;
        const T *probabilities = block.read(output);
        T *grads = block.write(data_grad);
        const ColumnLines<T> lines = block.lines;
        for (int64_t j = 0; j < block.columns; ++j) {
            const int64_t class_id = class_of(labels, block.first_row + j, sizes.length);
            class_ids[j] = Index(class_id);
            weights[j] = class_id == NO_CLASS ? not_a_number<A>() : scale;
        }
        spread_class_ids(lines, class_ids);
        lines.spread(weights);
        lines.each([=](int64_t number, int64_t width) GLUONOPS_LAMBDA {
            const int64_t line = number * lines.pitch;
            const Index first_class = Index(number * lines.per_line);
            write_row<STREAMING>(grads + line, width, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                typename Simd<T>::Indices class_id;
                memcpy(&class_id, class_ids + j, WIDTH);
                const auto zero = broadcast(A(0));
                const auto onehot = class_id == first_class ? broadcast(A(1)) : zero;
                const auto error = load(probabilities + line + j, mask, A(0)) - onehot;
                const auto grad = error * load(weights + j, FullMask());
                return class_id == Index(IGNORED) ? zero : grad;
            });
        });
    });
}

template <typename T>
void backward(const SoftmaxOutputCall &call)
{
    typedef typename Simd<T>::Scalar A;
    const T *output = static_cast<const T *>(call.output);
    T *data_grad = static_cast<T *>(call.result);
    double scale = call.scale;
    if (call.count_valid) {
        const int64_t count = count_valid(call);
        scale /= double(count > 1 ? count : 1);
    }
    const A weight = A(scale);
    const bool rows = call.sizes.inner == 1;
    if (use_streaming_stores<T>(call.sizes))
        rows ? backward_rows<true>(call, output, data_grad, weight)
             : backward_columns<true>(call, output, data_grad, weight);
    else
        rows ? backward_rows<false>(call, output, data_grad, weight)
             : backward_columns<false>(call, output, data_grad, weight);
}

template <typename T>
void forward(const SoftmaxOutputCall &call)
{
    softmax(call.sizes, static_cast<const T *>(call.data), static_cast<T *>(call.result), 1.0);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline SoftmaxOutputCall adapt(const SoftmaxOutputAttrs &attrs, const SoftmaxOutputTensors &tensors, Workspace &)
{
    typedef SoftmaxOutputAttrs::Normalization Normalization;
    SoftmaxOutputCall call = {};
    call.type = tensors.data.type;
    call.sizes = row_sizes(tensors.data.shape(), attrs.axis);
    call.labels = {{tensors.label.data, tensors.label.type}, attrs.ignore_label.has_value(),
                   attrs.ignore_label.value_or(0)};
    call.count_valid = attrs.normalization == Normalization::Valid;
    call.scale = attrs.grad_scale;
    if (attrs.normalization == Normalization::Batch) {
        const double batch = double(tensors.label.shape()[0]);
        call.scale = attrs.grad_scale / (batch > 1 ? batch : 1);
    }
    call.data = tensors.data.data;
    call.output = tensors.output.data;
    call.result = tensors.backward ? tensors.data_grad.data : tensors.output.data;
    return call;
}

}  // namespace gluonops
