// hard_swish: element by element.
#include "../_activation/activation.cuh"

template <typename T>
__global__ void hard_swish_forward(const T *__restrict__ data, T *__restrict__ output, int output_request,
                               int64_t size)
{
    activate(data, output, output_request, size, HardSwish());
}

template <typename T>
__global__ void hard_swish_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                                T *__restrict__ data_grad, int data_grad_request, int64_t size)
{
    activate_backward(output_grad, data, data_grad, data_grad_request, size, HardSwish());
}
