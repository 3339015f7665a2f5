// abs, one thread per element. Bytes moved: forward twice the tensor's, backward three times; once more
// where the request is to add.

__device__ inline float magnitude(float x) { return fabsf(x); }
__device__ inline double magnitude(double x) { return fabs(x); }

template <typename T>
__device__ bool negative(T x) { return x < 0; }
__device__ inline bool negative(uint8_t) { return false; }   // the comparison would be a compiler warning

template <typename T>
__device__ T magnitude(T x) { return negative(x) ? -x : x; }

template <typename T>
__global__ void abs_forward(const T *__restrict__ data, T *__restrict__ output, int output_request,
                            int64_t size)
{
    for (int64_t i = first_item(); i < size; i += item_step())
        store(output, i, magnitude(load(data, i)), output_request);
}

template <typename T>
__global__ void abs_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                             T *__restrict__ data_grad, int data_grad_request, int64_t size)
{
    for (int64_t i = first_item(); i < size; i += item_step()) {
        const typename Accumulator<T>::type x = load(data, i);
        store(data_grad, i, load(output_grad, i) * ((x > 0) - negative(x)), data_grad_request);
    }
}
