// softmax_output on the CPU. Bytes moved, forward and backward: twice the tensor's, plus the labels.
#include "generated/softmax_output.h"
#include "../_softmax/softmax.h"

namespace gluonops {

template <typename T>
void derive(const SoftmaxOutputAttrs &, Arrays inputs, SoftmaxOutputArgs<T> &args)
{
    args.samples = inputs[1].shape()[0];
}

namespace GLUONOPS_TARGET {
namespace {

// The number of labels that are not ignored.
template <typename T>
int64_t count_valid(const SoftmaxOutputArgs<T> &args)
{
    const int64_t rows = class_rows(args).rows();
    if (!args.ignore_label.given)
        return rows;
    int64_t count = 0, *total = &count;
    const Labels labels = labels_of(args);
    parallel_for(rows, 4 * size_of(labels.array.type), [=](int64_t begin, int64_t end) {
        int64_t count_here = 0;
        for (int64_t row = begin; row < end; ++row)
            count_here += value_at(labels.array, row) != double(labels.ignore_label.value);
        __atomic_fetch_add(total, count_here, __ATOMIC_RELAXED);
    });
    return count;
}

// The number that divides the gradient, unless it is 0.
template <typename T>
int64_t divisor(const SoftmaxOutputArgs<T> &args)
{
    switch (args.normalization) {
    case SoftmaxOutputNormalization::Batch: return args.samples;
    case SoftmaxOutputNormalization::Valid: return count_valid(args);
    default: return 1;
    }
}

// The gradient is (output - onehot) * scale. An ignored row gets 0 whatever it holds; a label that is no class gives
// NaN.
template <bool STREAMING, typename T, typename A>
void backward_rows(const SoftmaxOutputArgs<T> &args, A scale)
{
    enum { N = Simd<T>::LANES };
    const int64_t classes = args.classes;
    const Labels labels = labels_of(args);
    const T *output = args.output;
    T *data_grad = args.data_grad;
    parallel_rows(class_rows(args), 2 * sizeof(T), [=](int64_t row) {
        const int64_t class_id = class_of(labels, row, classes);
        const T *y = output + row * classes;
        T *grad = data_grad + row * classes;
        if (class_id < 0)
            return write_row_without_class<STREAMING>(grad, classes, class_id);
        write_row<STREAMING>(grad, classes, [=](int64_t i, auto mask) GLUONOPS_LAMBDA {
            auto v = load(y + i, mask, A(0));
            if (uint64_t(class_id - i) < N)
                v[class_id - i] -= 1;
            return v * scale;
        });
    });
}

template <bool STREAMING, typename T, typename A>
void backward_columns(const SoftmaxOutputArgs<T> &args, A scale)
{
    typedef typename Simd<T>::Index Index;
    const int64_t classes = args.classes;
    const Labels labels = labels_of(args);
    const T *output = args.output;
    T *data_grad = args.data_grad;
    parallel_columns<false, T>(class_rows(args), 2, [=](ColumnBlock<T> &block) {
        alignas(64) A weight_buffer[MAX_BLOCK_COLUMNS];
        alignas(64) Index class_id_buffer[MAX_BLOCK_COLUMNS];
        A *weights = weight_buffer;
        Index *class_ids = class_id_buffer;
        const T *probabilities = block.read(output);
        T *grads = block.write(data_grad);
        const ColumnLines<T> lines = block.lines;
        for (int64_t j = 0; j < block.columns; ++j) {
            const int64_t class_id = class_of(labels, block.first_row + j, classes);
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
void backward(const SoftmaxOutputArgs<T> &args)
{
    typedef typename Simd<T>::Scalar A;
    const int64_t count = divisor(args);
    const A scale = A(args.grad_scale / double(count > 1 ? count : 1));
    if (use_streaming_stores<T>(class_rows(args)))
        args.inner == 1 ? backward_rows<true>(args, scale) : backward_columns<true>(args, scale);
    else
        args.inner == 1 ? backward_rows<false>(args, scale) : backward_columns<false>(args, scale);
}

template <typename T>
void forward(const SoftmaxOutputArgs<T> &args)
{
    softmax(class_rows(args), args.data, args.output, 1.0);
}

}  // namespace
}  // namespace GLUONOPS_TARGET
}  // namespace gluonops
