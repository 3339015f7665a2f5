// abs, 16 bytes per thread where the tensors are aligned, else an element.

__device__ inline float magnitude(float x) { return fabsf(x); }
__device__ inline double magnitude(double x) { return fabs(x); }

template <typename T>
__device__ bool negative(T x) { return x < 0; }
__device__ inline bool negative(uint8_t) { return false; }   // the comparison would be a compiler warning

template <typename T>
__device__ T magnitude(T x) { return negative(x) ? -x : x; }

template <typename T>
__device__ T slope(T x) { return (x > 0) - negative(x); }

template <typename T>
__global__ void abs_forward(const T *__restrict__ data, T *__restrict__ output, int output_request,
                            int64_t size)
{
    typedef typename Accumulator<T>::type A;
    const int64_t packed = aligned(data) && aligned(output) ? size / Pack<T>::SIZE * Pack<T>::SIZE : 0;
    for (int64_t i = first_item() * Pack<T>::SIZE; i < packed; i += item_step() * Pack<T>::SIZE) {
        const Pack<T> x = load_pack(data, i);
        A values[Pack<T>::SIZE];
#pragma unroll
        for (int j = 0; j < Pack<T>::SIZE; ++j)
            values[j] = magnitude(load(x.items, j));
        store_pack(output, i, values, output_request);
    }
    for (int64_t i = packed + first_item(); i < size; i += item_step())
        store(output, i, magnitude(load(data, i)), output_request);
}

template <typename T>
__global__ void abs_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                             T *__restrict__ data_grad, int data_grad_request, int64_t size)
{
    typedef typename Accumulator<T>::type A;
    const bool all = aligned(output_grad) && aligned(data) && aligned(data_grad);
    const int64_t packed = all ? size / Pack<T>::SIZE * Pack<T>::SIZE : 0;
    for (int64_t i = first_item() * Pack<T>::SIZE; i < packed; i += item_step() * Pack<T>::SIZE) {
        const Pack<T> head = load_pack(output_grad, i), x = load_pack(data, i);
        A values[Pack<T>::SIZE];
#pragma unroll
        for (int j = 0; j < Pack<T>::SIZE; ++j)
            values[j] = load(head.items, j) * slope(load(x.items, j));
        store_pack(data_grad, i, values, data_grad_request);
    }
    for (int64_t i = packed + first_item(); i < size; i += item_step())
        store(data_grad, i, load(output_grad, i) * slope(load(data, i)), data_grad_request);
}
