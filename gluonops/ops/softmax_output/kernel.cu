// softmax_output. A row has 1 to 32 threads, a block, or several blocks, with which forward needs two passes.
// Backward needs two with normalization "valid" and labels to ignore: in the first the blocks count the labels, each
// a part of them.
#include "../_labels/labels.cuh"
#include "../_softmax/softmax.cuh"

enum { BY_ONE, BY_BATCH, BY_VALID };   // normalization
enum { COUNTS = 256 };                  // numbers that the first pass of backward writes

// The number of labels that are not ignored, of those that this block walks through.
template <typename L>
__device__ double count_valid(const L *label, int64_t rows, int64_t ignore_label, int64_t first, int64_t step)
{
    double count = 0;
    for (int64_t r = first; r < rows; r += step)
        count += double(load(label, r)) != double(ignore_label);
    return reduce_block(count, Sum());
}

template <typename T, typename L>
__global__ void __launch_bounds__(512, 1)
softmax_output_forward(const T *__restrict__ data, const L *__restrict__ label, T *__restrict__ output,
                       double *__restrict__ partial, int output_request, int64_t step, int64_t outer,
                       int64_t classes, int64_t inner, int64_t ignores, int64_t ignore_label, int64_t batch,
                       int64_t normalization, double grad_scale)
{
    typedef typename Accumulator<T>::type A;
    const bool packed = packed_rows(classes, inner, data, output, output);
    const Partials<2> partials = {partial, step};
    for (int64_t r = first_row(); r < outer * inner; r += row_step()) {
        const ChunkedRow<T> row(r, classes, inner, packed);
        softmax_row(data, output, row, A(1), output_request, r, partials);
    }
}

template <typename T, typename L>
__global__ void __launch_bounds__(512, 1)
softmax_output_backward(const T *__restrict__ output, const L *__restrict__ label, T *__restrict__ data_grad,
                        double *__restrict__ partial, int data_grad_request, int64_t step, int64_t outer,
                        int64_t classes, int64_t inner, int64_t ignores, int64_t ignore_label, int64_t batch,
                        int64_t normalization, double grad_scale)
{
    typedef typename Accumulator<T>::type A;
    const int64_t rows = outer * inner;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    if (step == 0) {
        for (int part = blockIdx.y * gridDim.x + blockIdx.x; part < COUNTS; part += gridDim.x * gridDim.y) {
            const int64_t first = int64_t(part) * threads + thread, stride = int64_t(COUNTS) * threads;
            const double count = count_valid(label, rows, ignore_label, first, stride);
            if (thread == 0)
                partial[part] = count;
        }
        return;
    }

    double count = normalization == BY_ONE ? 1 : normalization == BY_BATCH ? double(batch) : double(rows);
    if (normalization == BY_VALID && ignores) {
        count = 0;
        for (int part = thread; part < COUNTS; part += threads)
            count += partial[part];
        count = reduce_block(count, Sum());
    }
    const A scale = A(grad_scale) / A(count > 1 ? count : 1);

    const bool packed = packed_rows(classes, inner, output, data_grad, data_grad);
    for (int64_t r = first_row(); r < rows; r += row_step()) {
        const ChunkedRow<T> row(r, classes, inner, packed);
        const int64_t class_id = class_of(label, r, classes, ignores, ignore_label);
        const int64_t class_index = row.start + class_id * inner;   // in front of the row where there is no class
        const A weight = class_id == NO_CLASS ? not_a_number<A>() : scale;
        for (int64_t i = row.first; i < row.end; i += row.step) {
            RowChunk<T> p;
            if (class_id == IGNORED) {   // its probabilities may be NaN, so they are not multiplied by 0
                p.fill(0);
            } else {
                p.read(output, row, i);
#pragma unroll
                for (int k = 0; k < ChunkedRow<T>::ITEMS; ++k) {
                    const bool onehot = row.index(i, k) == class_index;
                    p.values[k] = (p.values[k] - onehot) * weight;
                }
            }
            p.write(data_grad, row, i, data_grad_request);
        }
    }
}
