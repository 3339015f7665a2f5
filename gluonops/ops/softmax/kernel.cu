// softmax, a warp or a block per row. Bytes moved: forward twice the tensor's (read, write), backward three
// times. Both read a row once more right after a reduction over it, which the cache serves.

template <typename T>
__global__ void __launch_bounds__(1024)
softmax_forward(const T *__restrict__ data, T *__restrict__ output, int output_request, int64_t outer,
                int64_t classes, int64_t inner, double temperature)
{
    typedef typename Accumulator<T>::type A;
    const A scale = 1 / A(temperature);
    for (int64_t r = first_row(); r < outer * inner; r += row_step())
        probabilities(data, output, Row(r, classes, inner), scale, output_request);
}

template <typename T>
__global__ void __launch_bounds__(1024)
softmax_backward(const T *__restrict__ output_grad, const T *__restrict__ output, T *__restrict__ data_grad,
                 int data_grad_request, int64_t outer, int64_t classes, int64_t inner, double temperature)
{
    typedef typename Accumulator<T>::type A;
    const A scale = 1 / A(temperature);
    for (int64_t r = first_row(); r < outer * inner; r += row_step()) {
        const Row row(r, classes, inner);
        A along = 0;
        for (int64_t i = row.first; i < row.end; i += row.step)
            along += load(output_grad, i) * load(output, i);
        along = across_row(along, Sum());
        for (int64_t i = row.first; i < row.end; i += row.step)
            store(data_grad, i, (load(output_grad, i) - along) * load(output, i) * scale, data_grad_request);
    }
}
