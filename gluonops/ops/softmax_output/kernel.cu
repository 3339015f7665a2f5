// softmax_output: 1 to 32 threads per row, a block, or several blocks, with which forward needs two steps. Backward has
// two with normalization "valid" and labels to ignore: in step 0 the blocks count the labels, each a part of them.

enum { BY_ONE, BY_BATCH, BY_VALID };   // normalization
enum { COUNTS = 256 };                  // numbers that step 0 of backward leaves

// The labels that count, of those that this block walks through.
template <typename L>
__device__ double count_valid(const L *label, int64_t rows, int64_t ignore_label, int64_t first, int64_t step)
{
    double count = 0;
    for (int64_t r = first; r < rows; r += step)
        count += double(load(label, r)) != double(ignore_label);
    return across_block(count, Sum());
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
    const Shares<2> shares = {partial, step};
    for (int64_t r = first_row(); r < outer * inner; r += row_step())
        probabilities(data, output, WideRow<T>(r, classes, inner, packed), A(1), output_request, r, shares);
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
            const double count = count_valid(label, rows, ignore_label, int64_t(part) * threads + thread,
                                             int64_t(COUNTS) * threads);
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
        count = across_block(count, Sum());
    }
    const A scale = A(grad_scale) / A(count > 1 ? count : 1);
    const bool packed = packed_rows(classes, inner, output, data_grad, data_grad);
    for (int64_t r = first_row(); r < rows; r += row_step()) {
        const WideRow<T> row(r, classes, inner, packed);
        const int64_t named = class_of(label, r, classes, ignores, ignore_label);
        const int64_t hit = row.start + named * inner;   // in front of the row where there is no class
        const A weight = named == NO_CLASS ? not_a_number<A>() : scale;
        for (int64_t i = row.first; i < row.end; i += row.step) {
            Items<T> p;
            if (named == IGNORED) {   // its probabilities may be NaN, so they are not multiplied by 0
                p.fill(0);
            } else {
                p.read(output, row, i);
#pragma unroll
                for (int k = 0; k < WideRow<T>::ITEMS; ++k)
                    p.values[k] = (p.values[k] - (row.at(i, k) == hit)) * weight;
            }
            p.write(data_grad, row, i, data_grad_request);
        }
    }
}
