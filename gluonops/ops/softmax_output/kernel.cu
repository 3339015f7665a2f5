// softmax_output. A row has 1 to 32 threads, a block, or parts with a block each. It is read once. With normalization
// "valid" and labels to ignore, backward's step COUNT counts the labels, each block a part of them.
#include "../_labels/labels.cuh"
#include "../_softmax/softmax.cuh"
#include "../_softmax/columns.cuh"

// The number of labels that are not ignored, of those that this block walks through.
template <typename Args>
__device__ double count_valid(const Args &args, int64_t rows, int64_t first, int64_t step)
{
    int64_t count = 0;
    for (int64_t r = first; r < rows; r += step)
        count += class_of(args, r) != IGNORED;
    return reduce_block(double(count), Sum());
}

template <typename T, typename L>
__device__ void forward(const SoftmaxOutputArgs<T, L> &args)
{
    if (!softmax_columns(args, 1))
        softmax_rows(args, 1);
}

// The gradient of a row with a class is (softmax - onehot) * scale.
template <typename T, typename L>
__device__ void backward(const SoftmaxOutputArgs<T, L> &args)
{
    typedef typename Accumulator<T>::type A;
    typedef RowChunk<T, STREAMED_BYTES> Chunk;
    const int64_t count = args.batch * args.inner;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    if (args.step == args.COUNT) {
        for (int part = blockIdx.y * gridDim.x + blockIdx.x; part < LABEL_COUNTS; part += gridDim.x * gridDim.y) {
            const int64_t first = int64_t(part) * threads + thread, stride = int64_t(LABEL_COUNTS) * threads;
            const double valid = count_valid(args, count, first, stride);
            if (thread == 0)
                args.label_counts[part] = valid;
        }
        return;
    }

    double divisor = args.normalization == SoftmaxOutputNormalization::Null ? 1
        : args.normalization == SoftmaxOutputNormalization::Batch ? double(args.samples) : double(count);
    if (args.normalization == SoftmaxOutputNormalization::Valid && args.ignore_label.given) {
        divisor = 0;
        for (int part = thread; part < LABEL_COUNTS; part += threads)
            divisor += args.label_counts[part];
        divisor = reduce_block(divisor, Sum());
    }
    const A scale = A(args.grad_scale) / A(divisor > 1 ? divisor : 1);

    const Rows<T> rows(args.classes, args.inner, aligned(args.output) && aligned(args.data_grad));
    for (RowLoop at(count); at.goes_on(); at.next()) {
        const int64_t class_id = class_of(args, at.row);
        const Difference<A> less_one = {1};
        const Product<A> scaled = {class_id == NO_CLASS ? not_a_number<A>() : scale};
        const RowPart part = rows.part(at.row, at.part, at.exists);
#pragma unroll 1
        for (int64_t i = 0; i < part.length; i += Chunk::length()) {
            Chunk p;
            p.read(args.output, rows, part, i, 0);
            p.apply_to(number_of_class(class_id, rows, part, i, Chunk::length()), less_one);
            p.apply(scaled);
            if (class_id == IGNORED)   // its probabilities may be NaN, so they are not multiplied by 0
                p.fill(0);
            p.write(args.data_grad, rows, part, i, args.data_grad_request);
        }
    }
}
