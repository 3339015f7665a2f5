// abs. Where the tensors are aligned, a thread moves packs of 16 bytes; the rest, or everything, goes by elements.

__device__ inline float magnitude(float x) { return fabsf(x); }
__device__ inline double magnitude(double x) { return fabs(x); }

template <typename T>
__device__ bool negative(T x) { return x < 0; }
__device__ inline bool negative(uint8_t) { return false; }   // the comparison would be a compiler warning

template <typename T>
__device__ T magnitude(T x) { return negative(x) ? -x : x; }

// The derivative: 1, -1, or 0 at 0.
template <typename T>
__device__ T slope(T x) { return (x > 0) - negative(x); }

// How many of the elements lie in whole packs.
template <typename T>
__device__ int64_t elements_in_packs(int64_t elements) { return elements / Pack<T>::SIZE * Pack<T>::SIZE; }

template <typename T>
__global__ void abs_forward(const T *__restrict__ data, T *__restrict__ output, int output_request,
                            int64_t size)
{
    typedef typename Accumulator<T>::type A;
    const bool all_aligned = aligned(data) && aligned(output);
    const int64_t packed = all_aligned ? elements_in_packs<T>(size) : 0;

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
    const bool all_aligned = aligned(output_grad) && aligned(data) && aligned(data_grad);
    const int64_t packed = all_aligned ? elements_in_packs<T>(size) : 0;

    for (int64_t i = first_item() * Pack<T>::SIZE; i < packed; i += item_step() * Pack<T>::SIZE) {
        const Pack<T> head = load_pack(output_grad, i);
        const Pack<T> x = load_pack(data, i);
        A values[Pack<T>::SIZE];
#pragma unroll
        for (int j = 0; j < Pack<T>::SIZE; ++j)
            values[j] = load(head.items, j) * slope(load(x.items, j));
        store_pack(data_grad, i, values, data_grad_request);
    }

    for (int64_t i = packed + first_item(); i < size; i += item_step())
        store(data_grad, i, load(output_grad, i) * slope(load(data, i)), data_grad_request);
}
