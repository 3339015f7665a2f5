// sigmoid_focal_loss: element by element.
#include "../_sigmoid/sigmoid.cuh"

struct OfElement {
    SigmoidFocal formula;

    template <typename A>
    __device__ A value(A x, A y, int64_t) const { return formula.value(x, y); }
    template <typename A>
    __device__ A slope(A x, A y, int64_t) const { return formula.slope(x, y); }
};

template <typename T>
__global__ void sigmoid_focal_loss_forward(const T *__restrict__ data, const T *__restrict__ label,
                                           T *__restrict__ output, int output_request, int64_t size, int64_t ignores,
                                           int64_t ignore_label, double gamma, double alpha)
{
    const OfElement formula = {{{ignores != 0, double(ignore_label)}, gamma, alpha}};
    sigmoid_loss(data, label, output, output_request, size, formula);
}

template <typename T>
__global__ void sigmoid_focal_loss_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                                            const T *__restrict__ label, T *__restrict__ data_grad,
                                            int data_grad_request, int64_t size, int64_t ignores,
                                            int64_t ignore_label, double gamma, double alpha)
{
    const OfElement formula = {{{ignores != 0, double(ignore_label)}, gamma, alpha}};
    sigmoid_loss_backward(output_grad, data, label, data_grad, data_grad_request, size, formula);
}
