// softmax_output, a warp or a block per row. Bytes moved: forward twice the tensor's (it is read once more
// right after a reduction, which the cache serves), backward twice as well, plus the labels.

enum { BY_ONE, BY_BATCH, BY_VALID };   // normalization

// Blocks cannot wait for one another, so every block at work counts the labels for itself. To keep that from
// growing with the square of the rows, no more blocks are at work then than fill a GPU.
enum { COUNTING_BLOCKS = 1024 };

template <typename L>
__device__ int64_t count_valid(const L *label, int64_t rows, int64_t ignore_label)
{
    int64_t count = 0;
    for (int64_t r = threadIdx.y * blockDim.x + threadIdx.x; r < rows; r += blockDim.x * blockDim.y)
        count += double(load(label, r)) != double(ignore_label);
    return across_block(count, Sum());
}

template <typename T, typename L>
__global__ void __launch_bounds__(1024)
softmax_output_forward(const T *__restrict__ data, const L *__restrict__ label, T *__restrict__ output,
                       int output_request, int64_t outer, int64_t classes, int64_t inner, int64_t ignores,
                       int64_t ignore_label, int64_t batch, int64_t normalization, double grad_scale)
{
    typedef typename Accumulator<T>::type A;
    for (int64_t r = first_row(); r < outer * inner; r += row_step())
        probabilities(data, output, Row(r, classes, inner), A(1), output_request);
}

template <typename T, typename L>
__global__ void __launch_bounds__(1024)
softmax_output_backward(const T *__restrict__ output, const L *__restrict__ label, T *__restrict__ data_grad,
                        int data_grad_request, int64_t outer, int64_t classes, int64_t inner, int64_t ignores,
                        int64_t ignore_label, int64_t batch, int64_t normalization, double grad_scale)
{
    typedef typename Accumulator<T>::type A;
    const int64_t rows = outer * inner;
    int64_t step = row_step(), count = normalization == BY_ONE ? 1 : normalization == BY_BATCH ? batch : rows;
    if (normalization == BY_VALID && ignores) {
        if (blockIdx.x >= COUNTING_BLOCKS)
            return;
        if (gridDim.x > COUNTING_BLOCKS)
            step = int64_t(COUNTING_BLOCKS) * blockDim.y;
        count = count_valid(label, rows, ignore_label);
    }
    const A scale = A(grad_scale) / A(count > 1 ? count : 1);
    for (int64_t r = first_row(); r < rows; r += step) {
        const Row row(r, classes, inner);
        const int64_t named = class_of(label, r, classes, ignores, ignore_label);
        const int64_t hit = row.start + named * inner;   // in front of the row where there is no class
        const A weight = named == NO_CLASS ? not_a_number<A>() : scale;
        for (int64_t i = row.first; i < row.end; i += row.step) {
            // An ignored row's probabilities may be NaN: they are not multiplied by 0 but left alone.
            const A grad = named == IGNORED ? 0 : (load(output, i) - (i == hit)) * weight;
            store(data_grad, i, grad, data_grad_request);
        }
    }
}
