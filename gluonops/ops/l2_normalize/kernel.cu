// l2_normalize: over the channels of feature maps, mostly; see rms.cuh and columns.cuh.
#include "../_rms/columns.cuh"

template <typename T>
__global__ void __launch_bounds__(256, 2)
l2_normalize_forward(const T *__restrict__ data, const T *__restrict__ scale, T *__restrict__ output,
                     typename Accumulator<T>::type *__restrict__ inverse, double *__restrict__ partial, int output_request,
                     int inverse_request, int64_t step, int64_t outer, int64_t length, int64_t inner, double share, double eps)
{
    normalize(data, scale, output, inverse, output_request, inverse_request, outer, length, inner, share, eps);
}

template <typename T>
__global__ void __launch_bounds__(256, sizeof(T) == 2 ? 2 : 1)
l2_normalize_backward(const T *__restrict__ output_grad, const T *__restrict__ data, const T *__restrict__ scale,
                      const typename Accumulator<T>::type *__restrict__ inverse, T *__restrict__ data_grad,
                      T *__restrict__ scale_grad, double *__restrict__ partial, int data_grad_request, int scale_grad_request,
                      int64_t step, int64_t outer, int64_t length, int64_t inner, double share, double eps)
{
    normalize_backward(output_grad, data, scale, inverse, data_grad, scale_grad, partial, data_grad_request,
                       scale_grad_request, step, outer, length, inner, share, eps);
}
