// softmax on the CPU. Bytes moved: forward twice the tensor's (read, write), backward three times. What is read again
// after a reduction is still in the cache.
#include "generated/softmax.h"
#include "../_softmax/short_softmax.h"

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

template <bool STREAMING, typename T>
void backward_rows(const SoftmaxCall &call, const T *output_grad, const T *output, T *data_grad)
{
    typedef typename Simd<T>::Scalar A;
    const int64_t length = call.sizes.length;
    const A scale = inverse_temperature<A>(call.temperature);
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
    const A scale = inverse_temperature<A>(call.temperature);
    parallel_columns<false, T>(sizes, 3, [=](ColumnBlock<T> &block) {
        alignas(64) A dot_buffer[MAX_BLOCK_COLUMNS];
        A *dot = dot_buffer;
        const T *heads = block.read(output_grad), *outputs = block.read(output);
        T *grads = block.write(data_grad);
        const ColumnLines<T> lines = block.lines;
        const int64_t pitch = lines.pitch;
        for_each_column<T>(lines.lanes(), [=](int64_t j, auto) GLUONOPS_LAMBDA {
            store(dot + j, broadcast(A(0)), FullMask());
        });
        lines.reduce(dot, [=](int64_t line, int64_t j, auto mask) GLUONOPS_LAMBDA {
            const int64_t i = line * pitch + j;
            return load(heads + i, mask, A(0)) * load(outputs + i, mask, A(0));
        }, [](auto sum, auto product) GLUONOPS_LAMBDA { return sum + product; });
        lines.fold_sums(dot);
        lines.spread(dot);
        lines.each([=](int64_t line, int64_t width) GLUONOPS_LAMBDA {
            const T *head = heads + line * pitch, *y = outputs + line * pitch;
            write_row<STREAMING>(grads + line * pitch, width, [=](int64_t j, auto mask) GLUONOPS_LAMBDA {
                return (load(head + j, mask, A(0)) - load(dot + j, FullMask())) * load(y + j, mask, A(0)) * scale;
            });
        });
    });
}

template <bool STREAMING, int INNER, typename T>
void backward_short_rows(const SoftmaxCall &call, const T *output_grad, const T *output, T *data_grad)
{
    typedef typename Simd<T>::Scalar A;
    typedef ShortRows<T, INNER> Block;
    const A scale = inverse_temperature<A>(call.temperature);
    parallel_short_rows<T, INNER>(call.sizes, 3, [=](const Block &block) {
        alignas(64) A dot_buffer[Block::ROOM];
        A *dot = dot_buffer, *products = block.scratch;
        const T *head = output_grad + block.start, *y = output + block.start;
        block.each([=](int64_t i, auto mask, const auto &) GLUONOPS_LAMBDA {
            store(products + i, load(head + i, mask, A(0)) * load(y + i, mask, A(0)), mask);
        });
        block.sum(dot, products);
        T *grad = data_grad + block.start;
        block.template write<STREAMING>(grad, [=, &block](int64_t i, auto mask, const auto &lanes) GLUONOPS_LAMBDA {
            block.prefetch_next(head, i);
            block.prefetch_next(y, i);
            return (load(head + i, mask, A(0)) - lanes.of(dot)) * load(y + i, mask, A(0)) * scale;
        });
    });
}

template <bool STREAMING, typename T>
void backward_short_rows(const SoftmaxCall &call, const T *output_grad, const T *output, T *data_grad)
{
    if (call.sizes.inner == 1)
        backward_short_rows<STREAMING, 1>(call, output_grad, output, data_grad);
    else
        backward_short_rows<STREAMING, 2>(call, output_grad, output, data_grad);
}

template <typename T>
void backward(const SoftmaxCall &call)
{
    const T *output_grad = static_cast<const T *>(call.output_grad), *output = static_cast<const T *>(call.output);
    T *data_grad = static_cast<T *>(call.result);
    const bool rows = reduces_along_rows<T>(call.sizes);
    const bool fills_vectors = call.sizes.length >= 4 * int64_t(Simd<T>::LANES);   // then other kernels are as fast
    if (has_short_rows<T>(call.sizes) && !fills_vectors)
        use_streaming_stores_for_short_rows<T>(call.sizes, 3)
            ? backward_short_rows<true>(call, output_grad, output, data_grad)
            : backward_short_rows<false>(call, output_grad, output, data_grad);
    else if (use_streaming_stores<T>(call.sizes))
        rows ? backward_rows<true>(call, output_grad, output, data_grad)
             : backward_columns<true>(call, output_grad, output, data_grad);
    else
        rows ? backward_rows<false>(call, output_grad, output, data_grad)
             : backward_columns<false>(call, output_grad, output, data_grad);
}

template <typename T>
void forward(const SoftmaxCall &call)
{
    if (!has_short_rows<T>(call.sizes))
        return softmax<T>(call.sizes, call.data, call.result, call.temperature);
    const T *data = static_cast<const T *>(call.data);
    T *output = static_cast<T *>(call.result);
    if (use_streaming_stores_for_short_rows<T>(call.sizes, 2))
        softmax_short_rows<true>(call.sizes, data, output, call.temperature);
    else
        softmax_short_rows<false>(call.sizes, data, output, call.temperature);
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
