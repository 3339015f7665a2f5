// softmax: 1 to 32 threads per row, a block, or several blocks, which need two steps.

// What (x - max) is multiplied with: finite, so that the largest is 0 whatever the temperature.
template <typename A>
__device__ A inverse(double temperature)
{
    const A scale = 1 / A(temperature), largest = -lowest<A>();
    return scale < largest ? scale : largest;
}

template <typename T>
__global__ void __launch_bounds__(512, 1)
softmax_forward(const T *__restrict__ data, T *__restrict__ output, double *__restrict__ partial,
                int output_request, int64_t step, int64_t outer, int64_t classes, int64_t inner,
                double temperature)
{
    typedef typename Accumulator<T>::type A;
    const A scale = inverse<A>(temperature);
    const bool packed = packed_rows(classes, inner, data, output, output);
    const Shares<2> shares = {partial, step};
    for (int64_t r = first_row(); r < outer * inner; r += row_step())
        probabilities(data, output, WideRow<T>(r, classes, inner, packed), scale, output_request, r, shares);
}

template <typename T>
__global__ void __launch_bounds__(512, 1)
softmax_backward(const T *__restrict__ output_grad, const T *__restrict__ output, T *__restrict__ data_grad,
                 double *__restrict__ partial, int data_grad_request, int64_t step, int64_t outer,
                 int64_t classes, int64_t inner, double temperature)
{
    typedef typename Accumulator<T>::type A;
    const A scale = inverse<A>(temperature);
    const bool packed = packed_rows(classes, inner, output_grad, output, data_grad);
    const Shares<1> shares = {partial, step};
    for (int64_t r = first_row(); r < outer * inner; r += row_step()) {
        const WideRow<T> row(r, classes, inner, packed);
        Items<T> head, y;
        A along = 0;
        for (int64_t i = row.first; i < row.end && !shares.taking(); i += row.step) {
            head.read(output_grad, row, i);
            y.read(output, row, i);
#pragma unroll
            for (int k = 0; k < WideRow<T>::ITEMS; ++k)
                along += head.values[k] * y.values[k];
        }
        along = total(along, shares, r);
        if (shares.leaving()) {
            if (threadIdx.x == 0)
                *shares.own(r) = along;
            continue;
        }
        for (int64_t i = row.first; i < row.end; i += row.step) {
            if (shares.taking() || !row.fits()) {
                head.read(output_grad, row, i);
                y.read(output, row, i);
            }
#pragma unroll
            for (int k = 0; k < WideRow<T>::ITEMS; ++k)
                y.values[k] *= (head.values[k] - along) * scale;
            y.write(data_grad, row, i, data_grad_request);
        }
    }
}
