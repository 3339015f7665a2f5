// softmax on the CPU. Bytes moved: forward twice the tensor's (read, write), backward three times. What is read again
// after a reduction is still in the cache.
#include "../_softmax/softmax.h"

namespace gluonops {

struct SoftmaxCall {
    int type;
    RowSizes sizes;
    double temperature;
    const void *data;                     // forward
    const void *output_grad, *output;     // backward
    void *result;
};

GLUONOPS_KERNEL(softmax_forward, SoftmaxCall)
GLUONOPS_KERNEL(softmax_backward, SoftmaxCall)

namespace GLUONOPS_TARGET {
namespace {

template <bool STREAMING, typename T>
void backward_rows(const SoftmaxCall &call, const T *output_grad, const T *output, T *data_grad)
{
    typedef typename Simd<T>::Scalar A;
    const int64_t length = call.sizes.length;
    const A scale = A(1) / A(call.temperature);
    parallel_rows(call.sizes, 3 * sizeof(T), [=](int64_t row) {
        const T *head = output_grad + row * length, *y = output + row * length;
        const A dot = row_sum<T>(length, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return load(head + i, mask, A(0)) * load(y + i, mask, A(0));
        });
        write_row<STREAMING>(data_grad + row * length, length, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            return (load(head + i, mask, A(0)) - dot) * load(y + i, mask, A(0)) * scale;
        });
    });
}

template <bool STREAMING, typename T>
void backward_columns(const SoftmaxCall &call, const T *output_grad, const T *output, T *data_grad)
{
    typedef typename Simd<T>::Scalar A;
    const RowSizes sizes = call.sizes;
    const A scale = A(1) / A(call.temperature);
    parallel_column_blocks<T>(sizes, 3 * sizeof(T), [=](int64_t start, int64_t, int64_t columns) {
        alignas(64) A dot_buffer[MAX_BLOCK_COLUMNS];
        A *dot = dot_buffer;
        for_each_column<T>(columns, [=](int64_t j, auto) GLUONOPS_LAMBDA {
            store(dot + j, broadcast(A(0)), FullMask());
        });
        for (int64_t c = 0; c < sizes.length; ++c) {
            const T *head = output_grad + start + c * sizes.inner, *y = output + start + c * sizes.inner;
            for_each_column<T>(columns, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                const auto product = load(head + j, mask, A(0)) * load(y + j, mask, A(0));
                store(dot + j, load(dot + j, FullMask()) + product, FullMask());
            });
        }
        for (int64_t c = 0; c < sizes.length; ++c) {
            const T *head = output_grad + start + c * sizes.inner, *y = output + start + c * sizes.inner;
            T *to = data_grad + start + c * sizes.inner;
            write_row<STREAMING>(to, columns, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                return (load(head + j, mask, A(0)) - load(dot + j, FullMask())) * load(y + j, mask, A(0)) * scale;
            });
        }
    });
}

template <typename T>
void backward(const SoftmaxCall &call)
{
    const T *output_grad = static_cast<const T *>(call.output_grad), *output = static_cast<const T *>(call.output);
    T *data_grad = static_cast<T *>(call.result);
    const bool rows = call.sizes.inner == 1;
    if (use_streaming_stores<T>(call.sizes))
        rows ? backward_rows<true>(call, output_grad, output, data_grad)
             : backward_columns<true>(call, output_grad, output, data_grad);
    else
        rows ? backward_rows<false>(call, output_grad, output, data_grad)
             : backward_columns<false>(call, output_grad, output, data_grad);
}

}  // namespace

void softmax_forward(const SoftmaxCall &call)
{
    switch (call.type) {
    case FLOAT16: return softmax<Half>(call.sizes, call.data, call.result, call.temperature);
    case FLOAT32: return softmax<float>(call.sizes, call.data, call.result, call.temperature);
    default: return softmax<double>(call.sizes, call.data, call.result, call.temperature);
    }
}

void softmax_backward(const SoftmaxCall &call)
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

struct Softmax : Contract {
    static constexpr const char *NAME = "softmax";
    struct Attrs {
        int64_t axis;
        double temperature;
    };
    static std::vector<const char *> attributes() { return {"axis", "temperature"}; }
    static Attrs parse(const Attributes &given)
    {
        return {given.integer("axis", -1), given.number("temperature", 1.0, above(0))};
    }
    static Tensors tensors(const Attrs &)
    {
        return {{"data", 'T'}, {"output", 'T'}};
    }
    enum { INPUTS = 1, OUTPUTS = 1 };
    static const std::vector<int> &types() { return floats(); }
    static Shapes shapes(const Attrs &attrs, const std::vector<int> &ndims)
    {
        const Pattern dims = class_dims(ndims[0], check_axis(NAME, attrs.axis, ndims[0]));
        return {{dims, dims}, {}};
    }
    static void forward(const Attrs &attrs, Arrays inputs, Arrays outputs)
    {
        softmax_forward({inputs[0].dtype, row_sizes(inputs[0].shape, attrs.axis), attrs.temperature,
                         inputs[0].data_ptr, nullptr, nullptr, outputs[0].data_ptr});
    }
    static void backward(const Attrs &attrs, Arrays grads, Arrays inputs, Arrays outputs, Arrays results)
    {
        softmax_backward({inputs[0].dtype, row_sizes(inputs[0].shape, attrs.axis), attrs.temperature, nullptr,
                          grads[0].data_ptr, outputs[0].data_ptr, results[0].data_ptr});
    }
};

GLUONOPS_REGISTER_OP(gluonops_softmax, Softmax)

}  // namespace
}  // namespace gluonops
#endif
