// softmax_output on the CPU. Bytes moved, forward and backward: twice the tensor's, plus the labels.
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

GLUONOPS_KERNEL(softmax_output_forward, SoftmaxOutputCall)
GLUONOPS_KERNEL(softmax_output_backward, SoftmaxOutputCall)

namespace GLUONOPS_TARGET {
namespace {

// The number of labels that are not ignored.
int64_t count_valid(const SoftmaxOutputCall &call)
{
    const int64_t rows = call.sizes.rows();
    if (!call.labels.ignores)
        return rows;
    int64_t count = 0, *total = &count;
    const Labels labels = call.labels;
    parallel_for(rows, 4 * size_of(labels.array.type), [=](int64_t begin, int64_t end) {
        int64_t count_here = 0;
        for (int64_t row = begin; row < end; ++row)
            count_here += value_at(labels.array, row) != double(labels.ignore_label);
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
    parallel_column_blocks<T>(sizes, 2 * sizeof(T), [=](int64_t start, int64_t first_row, int64_t columns) {
        alignas(64) A weight_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) Index class_id_buffer[MAX_BLOCK_COLUMNS];
        A *weights = weight_buffer;
        Index *class_ids = class_id_buffer;
        for (int64_t j = 0; j < columns; ++j) {
            const int64_t class_id = class_of(labels, first_row + j, sizes.length);
            class_ids[j] = Index(class_id);
            weights[j] = class_id == NO_CLASS ? not_a_number<A>() : scale;
        }
        for (int64_t c = 0; c < sizes.length; ++c) {
            const int64_t line = start + c * sizes.inner;
            write_row<STREAMING>(data_grad + line, columns, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                typename Simd<T>::Indices class_id;
                memcpy(&class_id, class_ids + j, WIDTH);
                const auto zero = broadcast(A(0));
                const auto onehot = class_id == Index(c) ? broadcast(A(1)) : zero;
                const auto error = load(output + line + j, mask, A(0)) - onehot;
                const auto grad = error * load(weights + j, FullMask());
                return class_id == Index(IGNORED) ? zero : grad;
            });
        }
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

}  // namespace

void softmax_output_forward(const SoftmaxOutputCall &call)
{
    switch (call.type) {
    case FLOAT16: return softmax<Half>(call.sizes, call.data, call.result, 1.0);
    case FLOAT32: return softmax<float>(call.sizes, call.data, call.result, 1.0);
    default: return softmax<double>(call.sizes, call.data, call.result, 1.0);
    }
}

void softmax_output_backward(const SoftmaxOutputCall &call)
{
    switch (call.type) {
    case FLOAT16: return backward<Half>(call);
    case FLOAT32: return backward<float>(call);
    default: return backward<double>(call);
    }
}

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#ifdef GLUONOPS_REGISTER
#include "../../native/operator.h"

namespace gluonops {
namespace {

struct SoftmaxOutput : Contract {
    static constexpr const char *NAME = "softmax_output";
    struct Attrs {
        int64_t axis;
        OptionalInteger ignore_label;
        std::string normalization;
        double grad_scale;
    };
    static std::vector<const char *> attributes() { return {"axis", "ignore_label", "normalization", "grad_scale"}; }
    static Attrs parse(const Attributes &given)
    {
        return {given.integer("axis", -1), given.optional_integer("ignore_label"),
                given.choice("normalization", {"null", "batch", "valid"}), given.number("grad_scale", 1.0, Bounds())};
    }
    static Tensors tensors(const Attrs &)
    {
        return {{"data", 'T'}, {"label", 'L'}, {"output", 'T'}};
    }
    enum { INPUTS = 2, OUTPUTS = 1 };
    static const std::vector<int> &types() { return floats(); }
    static Shapes shapes(const Attrs &attrs, const std::vector<int> &ndims)
    {
        Pattern data, label;
        label_dims(NAME, attrs.axis, ndims[0], &data, &label);
        return {{data, label, data}, {}};
    }
    static SoftmaxOutputCall call(const Attrs &attrs, Arrays inputs)
    {
        const double batch = double(inputs[1].shape[0]);
        return {inputs[0].dtype, row_sizes(inputs[0].shape, attrs.axis), labels_of(inputs[1], attrs.ignore_label),
                attrs.normalization == "valid",
                attrs.normalization == "batch" ? attrs.grad_scale / (batch > 1 ? batch : 1) : attrs.grad_scale,
                nullptr, nullptr, nullptr};
    }
    static void forward(const Attrs &attrs, Arrays inputs, Arrays outputs)
    {
        SoftmaxOutputCall made = call(attrs, inputs);
        check_labels(NAME, "label", inputs[1].shape, made.labels, made.sizes.length);
        made.data = inputs[0].data_ptr;
        made.result = outputs[0].data_ptr;
        softmax_output_forward(made);
    }
    static void backward(const Attrs &attrs, Arrays, Arrays inputs, Arrays outputs, Arrays results)
    {
        SoftmaxOutputCall made = call(attrs, inputs);
        made.output = outputs[0].data_ptr;
        made.result = results[0].data_ptr;
        softmax_output_backward(made);
        clear(results[1]);
    }
};

GLUONOPS_REGISTER_OP(gluonops_softmax_output, SoftmaxOutput)

}  // namespace
}  // namespace gluonops
#endif
