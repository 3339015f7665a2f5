// softmax on the CPU. Bytes moved: forward twice the tensor's (read, write), backward three times; what is read
// again after a reduction is still in the cache.
#include "generated/softmax.h"
#include "../../native/rows.h"

namespace gluonops {

struct SoftmaxCall {
    int type;
    RowSizes sizes;
    double temperature;
    const void *data;                     // forward
    const void *output_grad, *output;     // backward
    void *result;
};

namespace GLUONOPS_TARGET {
namespace {

template <bool PAST_CACHE, typename T>
void backward_rows(const SoftmaxCall &call, const T *output_grad, const T *output, T *data_grad)
{
    typedef typename Simd<T>::Scalar A;
    const int64_t classes = call.sizes.classes;
    const A scale = inverse<A>(call.temperature);
    each_row(call.sizes, 3 * sizeof(T), [=](int64_t row) {
        const T *g = output_grad + row * classes, *y = output + row * classes;
        const A along = row_sum<T>(classes, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
            return load(g + i, lanes, A(0)) * load(y + i, lanes, A(0));
        });
        write_row<PAST_CACHE>(data_grad + row * classes, classes, [=](int64_t i, auto lanes) GLUONOPS_LAMBDA {
            return (load(g + i, lanes, A(0)) - along) * load(y + i, lanes, A(0)) * scale;
        });
    });
}

template <bool PAST_CACHE, typename T>
void backward_columns(const SoftmaxCall &call, const T *output_grad, const T *output, T *data_grad)
{
    typedef typename Simd<T>::Scalar A;
    const RowSizes sizes = call.sizes;
    const A scale = inverse<A>(call.temperature);
    each_block<T>(sizes, 3 * sizeof(T), [=](int64_t start, int64_t, int64_t width) {
        alignas(64) A along[COLUMNS];
        A *sums = along;
        each_column<T>(width, [=](int64_t j, auto) GLUONOPS_LAMBDA { store(sums + j, all(A(0)), All()); });
        for (int64_t c = 0; c < sizes.classes; ++c) {
            const T *g = output_grad + start + c * sizes.inner, *y = output + start + c * sizes.inner;
            each_column<T>(width, [=](int64_t j, auto lanes) GLUONOPS_LAMBDA {
                store(sums + j, load(sums + j, All()) + load(g + j, lanes, A(0)) * load(y + j, lanes, A(0)), All());
            });
        }
        for (int64_t c = 0; c < sizes.classes; ++c) {
            const T *g = output_grad + start + c * sizes.inner, *y = output + start + c * sizes.inner;
            write_row<PAST_CACHE>(data_grad + start + c * sizes.inner, width, [=](int64_t j, auto lanes) GLUONOPS_LAMBDA {
                return (load(g + j, lanes, A(0)) - load(sums + j, All())) * load(y + j, lanes, A(0)) * scale;
            });
        }
    });
}

template <typename T>
void backward(const SoftmaxCall &call)
{
    const T *output_grad = static_cast<const T *>(call.output_grad), *output = static_cast<const T *>(call.output);
    T *data_grad = static_cast<T *>(call.result);
    if (past_cache<T>(call.sizes))
        call.sizes.inner == 1 ? backward_rows<true>(call, output_grad, output, data_grad)
                              : backward_columns<true>(call, output_grad, output, data_grad);
    else
        call.sizes.inner == 1 ? backward_rows<false>(call, output_grad, output, data_grad)
                              : backward_columns<false>(call, output_grad, output, data_grad);
}

template <typename T>
void forward(const SoftmaxCall &call)
{
    probabilities<T>(call.sizes, call.data, call.result, call.temperature);
}

}  // namespace

}  // namespace GLUONOPS_TARGET

inline SoftmaxCall adapt(const SoftmaxAttrs &attrs, const SoftmaxTensors &tensors, Workspace &)
{
    SoftmaxCall call = {};
    call.type = tensors.data.type;
    call.sizes = row_sizes(tensors.data.shape(), attrs.axis);
    call.temperature = attrs.temperature;
    call.data = tensors.data.data;
    call.output_grad = tensors.output_grad.data;
    call.output = tensors.output.data;
    call.result = tensors.backward ? tensors.data_grad.data : tensors.output.data;
    return call;
}

}  // namespace gluonops
