// softmax on the CPU. Bytes moved: forward twice the tensor's (read, write), backward three times. What is read again
// after a reduction is still in the cache.
#include "generated/softmax.h"
#include "../_softmax/short_softmax.h"

namespace gluonops {

namespace GLUONOPS_TARGET {
namespace {

template <bool STREAMING, typename T>
void backward_rows(const SoftmaxArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    const T *output_grad = args.output_grad, *output = args.output;
    T *data_grad = args.data_grad;
    const int64_t length = args.classes;
    const A scale = inverse_temperature<A>(args.temperature);
    parallel_rows(class_rows(args), 3 * sizeof(T), [=](int64_t row) {
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
void backward_columns(const SoftmaxArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    const T *output_grad = args.output_grad, *output = args.output;
    T *data_grad = args.data_grad;
    const A scale = inverse_temperature<A>(args.temperature);
    parallel_columns<false, T>(class_rows(args), 3, [=](ColumnBlock<T> &block) {
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
void backward_short_rows(const SoftmaxArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    typedef ShortRows<T, INNER> Block;
    const T *output_grad = args.output_grad, *output = args.output;
    T *data_grad = args.data_grad;
    const A scale = inverse_temperature<A>(args.temperature);
    parallel_short_rows<T, INNER>(class_rows(args), 3, [=](const Block &block) {
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
void backward_short_rows(const SoftmaxArgs<T> &args)
{
    if (args.inner == 1)
        backward_short_rows<STREAMING, 1>(args);
    else
        backward_short_rows<STREAMING, 2>(args);
}

template <typename T>
void backward(const SoftmaxArgs<T> &args)
{
    const RowSizes sizes = class_rows(args);
    const bool rows = reduces_along_rows<T>(sizes);
    const bool fills_vectors = sizes.length >= 4 * int64_t(Simd<T>::LANES);   // then other kernels are as fast
    if (has_short_rows<T>(sizes) && !fills_vectors)
        use_streaming_stores_for_short_rows<T>(sizes, 3) ? backward_short_rows<true>(args)
                                                         : backward_short_rows<false>(args);
    else if (use_streaming_stores<T>(sizes))
        rows ? backward_rows<true>(args) : backward_columns<true>(args);
    else
        rows ? backward_rows<false>(args) : backward_columns<false>(args);
}

template <typename T>
void forward(const SoftmaxArgs<T> &args)
{
    const RowSizes sizes = class_rows(args);
    if (!has_short_rows<T>(sizes))
        softmax(sizes, args.data, args.output, args.temperature);
    else if (use_streaming_stores_for_short_rows<T>(sizes, 2))
        softmax_short_rows<true>(sizes, args.data, args.output, args.temperature);
    else
        softmax_short_rows<false>(sizes, args.data, args.output, args.temperature);
}

}  // namespace
}  // namespace GLUONOPS_TARGET
}  // namespace gluonops
