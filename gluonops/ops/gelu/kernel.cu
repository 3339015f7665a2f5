// gelu: element by element.
#include "../_activation/activation.cuh"

template <typename T> struct GeluOf : Gelu {};
template <>
struct GeluOf<__half> {
    __device__ float value(float x) const { return x * NormalOfHalf(x).probability; }

    __device__ float slope(float x) const
    {
        const NormalOfHalf normal(x);
        return normal.probability + x * normal.density();
    }
};

template <typename T>
__global__ void gelu_forward(const T *__restrict__ data, T *__restrict__ output, int output_request,
                               int64_t size, int64_t is_tanh)
{
    if (is_tanh)
        activate(data, output, output_request, size, GeluTanh());
    else
        activate(data, output, output_request, size, GeluOf<T>());
}

template <typename T>
__global__ void gelu_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                                T *__restrict__ data_grad, int data_grad_request, int64_t size, int64_t is_tanh)
{
    if (is_tanh)
        activate_backward(output_grad, data, data_grad, data_grad_request, size, GeluTanh());
    else
        activate_backward(output_grad, data, data_grad, data_grad_request, size, GeluOf<T>());
}
