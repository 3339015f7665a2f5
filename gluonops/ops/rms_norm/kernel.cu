// rms_norm: see rms.cuh.
#include "../_rms/rms.cuh"

template <typename T>
__global__ void __launch_bounds__(256, 2)
rms_norm_forward(const T *__restrict__ data, const T *__restrict__ scale, T *__restrict__ output,
                 typename Accumulator<T>::type *__restrict__ inverse, double *__restrict__ partial, int output_request,
                 int inverse_request, int64_t step, int64_t outer, int64_t length, int64_t inner, double share, double eps)
{
    scale_rows(data, scale, output, inverse, output_request, inverse_request, outer, length, inner, share, eps);
}

template <typename T>
__global__ void __launch_bounds__(256, sizeof(T) < 8 ? 2 : 1)
rms_norm_backward(const T *__restrict__ output_grad, const T *__restrict__ data, const T *__restrict__ scale,
                  const typename Accumulator<T>::type *__restrict__ inverse, T *__restrict__ data_grad,
                  T *__restrict__ scale_grad, double *__restrict__ partial, int data_grad_request, int scale_grad_request,
                  int64_t step, int64_t outer, int64_t length, int64_t inner, double share, double eps)
{
    __shared__ typename ScaleSums<T>::Groups groups;
    scale_rows_backward(output_grad, data, scale, inverse, data_grad, scale_grad, partial, groups, data_grad_request,
                        scale_grad_request, step, outer, length, inner, share, eps);
}
