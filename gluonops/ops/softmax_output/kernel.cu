// softmax_output. A row has 1 to 32 threads, a block, or parts with a block each. It is read once. With normalization
// "valid" and labels to ignore, step 0 of backward counts the labels, each block a part of them.
#include "../_labels/labels.cuh"
#include "../_softmax/softmax.cuh"
#include "../_softmax/columns.cuh"

enum { BY_ONE, BY_BATCH, BY_VALID };   // normalization
enum { COUNTS = 256 };                  // numbers that step 0 of backward writes

// The number of labels that are not ignored, of those that this block walks through.
template <typename L>
__device__ double count_valid(const L *label, int64_t rows, int64_t ignore_label, int64_t first, int64_t step)
{
    int64_t count = 0;
    for (int64_t r = first; r < rows; r += step)
        count += class_of(label, r, 0, true, ignore_label) != IGNORED;
    return reduce_block(double(count), Sum());
}

template <typename T, typename L>
__global__ void __launch_bounds__(256, sizeof(T) == 8 ? 1 : 2)
softmax_output_forward(const T *__restrict__ data, const L *__restrict__ label, T *__restrict__ output,
                       double *__restrict__ partial, int output_request, int64_t step, int64_t outer,
                       int64_t classes, int64_t inner, int64_t ignores, int64_t ignore_label, int64_t batch,
                       int64_t normalization, double grad_scale)
{
    if (!softmax_columns(data, output, output_request, outer * inner, classes, inner, 1))
        softmax_rows(data, output, partial, output_request, step, outer * inner, classes, inner, 1);
}

// The gradient of a row with a class is (softmax - onehot) * scale.
template <typename T, typename L>
__global__ void __launch_bounds__(256, sizeof(T) == 8 ? 2 : 3)
softmax_output_backward(const T *__restrict__ output, const L *__restrict__ label, T *__restrict__ data_grad,
                        double *__restrict__ partial, int data_grad_request, int64_t step, int64_t outer,
                        int64_t classes, int64_t inner, int64_t ignores, int64_t ignore_label, int64_t batch,
                        int64_t normalization, double grad_scale)
{
    typedef typename Accumulator<T>::type A;
    typedef RowChunk<T, STREAMED_BYTES> Chunk;
    const int64_t count = outer * inner;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    if (step == 0) {
        for (int part = blockIdx.y * gridDim.x + blockIdx.x; part < COUNTS; part += gridDim.x * gridDim.y) {
            const int64_t first = int64_t(part) * threads + thread, stride = int64_t(COUNTS) * threads;
            const double valid = count_valid(label, count, ignore_label, first, stride);
            if (thread == 0)
                partial[part] = valid;
        }
        return;
    }

    double divisor = normalization == BY_ONE ? 1 : normalization == BY_BATCH ? double(batch) : double(count);
    if (normalization == BY_VALID && ignores) {
        divisor = 0;
        for (int part = thread; part < COUNTS; part += threads)
            divisor += partial[part];
        divisor = reduce_block(divisor, Sum());
    }
    const A scale = A(grad_scale) / A(divisor > 1 ? divisor : 1);

    const Rows<T> rows(classes, inner, aligned(output) && aligned(data_grad));
    for (RowLoop at(count); at.goes_on(); at.next()) {
        const int64_t class_id = class_of(label, at.row, classes, ignores, ignore_label);
        const Difference<A> less_one = {1};
        const Product<A> scaled = {class_id == NO_CLASS ? not_a_number<A>() : scale};
        const RowPart part = rows.part(at.row, at.part, at.exists);
#pragma unroll 1
        for (int64_t i = 0; i < part.length; i += Chunk::length()) {
            Chunk p;
            p.read(output, rows, part, i, 0);
            p.apply_to(number_of_class(class_id, rows, part, i, Chunk::length()), less_one);
            p.apply(scaled);
            if (class_id == IGNORED)   // its probabilities may be NaN, so they are not multiplied by 0
                p.fill(0);
            p.write(data_grad, rows, part, i, data_grad_request);
        }
    }
}
