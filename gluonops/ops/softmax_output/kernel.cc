// softmax_output on the CPU. Bytes moved, forward and backward: twice the tensor's, plus the labels.
#include "generated/softmax_output.h"
#include "../../native/rows.h"

namespace gluonops {

struct SoftmaxOutputCall {
    int type;
    RowSizes sizes;
    Labels labels;
    bool count_valid;    // whether scale is to be divided by the number of labels that are not ignored
    double scale;
    const void *data;    // forward
    const void *output;  // backward
    void *result;
};

namespace GLUONOPS_TARGET {
namespace {

int64_t count_valid(const SoftmaxOutputCall &call)
{
    const int64_t rows = call.sizes.outer * call.sizes.inner;
    if (!call.labels.ignores)
        return rows;
    int64_t count = 0, *total = &count;
    const Labels labels = call.labels;
    parallel_for(rows, 4 * size_of(labels.type), [=](int64_t begin, int64_t end) {
        int64_t here = 0;
        for (int64_t row = begin; row < end; ++row)
            here += label_value(labels, row) != double(labels.ignore);
        __atomic_fetch_add(total, here, __ATOMIC_RELAXED);
    });
    return count;
}

// (output - onehot) * weight: 0 in an ignored row whatever it holds, NaN where the label is no class.
template <bool PAST_CACHE, typename T, typename A>
void backward_rows(const SoftmaxOutputCall &call, const T *output, T *data_grad, A scale)
{
    enum { N = Simd<T>::LANES };
    const int64_t classes = call.sizes.classes;
    const Labels labels = call.labels;
    each_row(call.sizes, 2 * sizeof(T), [=](int64_t row) {
        const int64_t named = class_of(labels, row, classes);
        const T *y = output + row * classes;
        T *grad = data_grad + row * classes;
        if (named < 0) {
            const A value = named == IGNORED ? A(0) : not_a_number<A>();
            write_row<PAST_CACHE>(grad, classes, [=](int64_t, auto) GLUONOPS_LAMBDA { return all(value); });
            return;
        }
        write_row<PAST_CACHE>(grad, classes, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
            auto v = load(y + i, lanes, A(0));
            if (uint64_t(named - i) < N)
                v[named - i] -= 1;
            return v * scale;
        });
    });
}

template <bool PAST_CACHE, typename T, typename A>
void backward_columns(const SoftmaxOutputCall &call, const T *output, T *data_grad, A scale)
{
    typedef typename Simd<T>::Index Index;
    const RowSizes sizes = call.sizes;
    const Labels labels = call.labels;
    each_block<T>(sizes, 2 * sizeof(T), [=](int64_t start, int64_t first_row, int64_t width) {
        alignas(64) A weight[COLUMNS];
        alignas(64) Index name[COLUMNS];
        A *weights = weight;
        Index *names = name;
        for (int64_t j = 0; j < width; ++j) {
            const int64_t named = class_of(labels, first_row + j, sizes.classes);
            names[j] = Index(named);
            weights[j] = named == NO_CLASS ? not_a_number<A>() : scale;
        }
        for (int64_t c = 0; c < sizes.classes; ++c)
            write_row<PAST_CACHE>(data_grad + start + c * sizes.inner, width, [=](int64_t j, auto lanes) GLUONOPS_LAMBDA {
                typename Simd<T>::Indices named;
                memcpy(&named, names + j, WIDTH);
                const auto zero = all(A(0));
                const auto hit = named == Index(c) ? all(A(1)) : zero;
                const auto grad = (load(output + start + c * sizes.inner + j, lanes, A(0)) - hit) *
                                  load(weights + j, All());
                return named == Index(IGNORED) ? zero : grad;
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
    if (past_cache<T>(call.sizes))
        call.sizes.inner == 1 ? backward_rows<true>(call, output, data_grad, weight)
                              : backward_columns<true>(call, output, data_grad, weight);
    else
        call.sizes.inner == 1 ? backward_rows<false>(call, output, data_grad, weight)
                              : backward_columns<false>(call, output, data_grad, weight);
}

template <typename T>
void forward(const SoftmaxOutputCall &call)
{
    probabilities<T>(call.sizes, call.data, call.result, 1.0);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline SoftmaxOutputCall adapt(const SoftmaxOutputAttrs &attrs, const SoftmaxOutputTensors &tensors, Workspace &)
{
    typedef SoftmaxOutputAttrs::Normalization Normalization;
    SoftmaxOutputCall call = {};
    call.type = tensors.data.type;
    call.sizes = row_sizes(tensors.data.shape(), attrs.axis);
    call.labels = {tensors.label.data, tensors.label.type, attrs.ignore_label.has_value(),
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
