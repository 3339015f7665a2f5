// softmax. A row has 1 to 32 threads, a block, or several blocks, which need two passes.
#include "../_softmax/softmax.cuh"

// The factor of (x - max). It is finite, so that 0 stays 0 whatever the temperature.
template <typename A>
__device__ A inverse_temperature(double temperature)
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
    const A scale = inverse_temperature<A>(temperature);
    const bool packed = packed_rows(classes, inner, data, output, output);
    const Partials<2> partials = {partial, step};
    for (int64_t r = first_row(); r < outer * inner; r += row_step()) {
        const ChunkedRow<T> row(r, classes, inner, packed);
        softmax_row(data, output, row, scale, output_request, r, partials);
    }
}

template <typename T>
__global__ void __launch_bounds__(512, 1)
softmax_backward(const T *__restrict__ output_grad, const T *__restrict__ output, T *__restrict__ data_grad,
                 double *__restrict__ partial, int data_grad_request, int64_t step, int64_t outer,
                 int64_t classes, int64_t inner, double temperature)
{
    typedef typename Accumulator<T>::type A;
    const A scale = inverse_temperature<A>(temperature);
    const bool packed = packed_rows(classes, inner, output_grad, output, data_grad);
    const Partials<1> partials = {partial, step};
    for (int64_t r = first_row(); r < outer * inner; r += row_step()) {
        const ChunkedRow<T> row(r, classes, inner, packed);
        RowChunk<T> head, y;
        A dot = 0;   // of the head gradient and the output
        for (int64_t i = row.first; i < row.end && !partials.combine_pass(); i += row.step) {
            head.read(output_grad, row, i);
            y.read(output, row, i);
#pragma unroll
            for (int k = 0; k < ChunkedRow<T>::ITEMS; ++k)
                dot += head.values[k] * y.values[k];
        }
        dot = sum_over_row(dot, partials, r);
        if (partials.write_pass()) {
            if (threadIdx.x == 0)
                *partials.own(r) = dot;
            continue;
        }
        for (int64_t i = row.first; i < row.end; i += row.step) {
            const bool still_in_registers = row.fits() && !partials.combine_pass();
            if (!still_in_registers) {
                head.read(output_grad, row, i);
                y.read(output, row, i);
            }
#pragma unroll
            for (int k = 0; k < ChunkedRow<T>::ITEMS; ++k)
                y.values[k] *= (head.values[k] - dot) * scale;
            y.write(data_grad, row, i, data_grad_request);
        }
    }
}
