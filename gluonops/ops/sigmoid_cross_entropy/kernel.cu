// sigmoid_cross_entropy: element by element.
#include "../_sigmoid/sigmoid.cuh"

// The formula with the weight of positives of an element's class.
struct WithWeights {
    SigmoidCrossEntropy formula;
    const double *weights;   // null without
    int64_t classes, inner;

    template <typename A>
    __device__ A weight(int64_t place) const
    {
        if (!weights)
            return 1;
        const int64_t line = quotient(place, inner);
        return A(weights[line - quotient(line, classes) * classes]);
    }

    template <typename A>
    __device__ A value(A x, A y, int64_t place) const { return formula.value(x, y, weight<A>(place)); }
    template <typename A>
    __device__ A slope(A x, A y, int64_t place) const { return formula.slope(x, y, weight<A>(place)); }
};

__device__ inline WithWeights formula_of(int64_t classes, int64_t inner, int64_t ignores, int64_t ignore_label,
                                         int64_t weighted, const double *pos_weight)
{
    const SigmoidCrossEntropy formula = {{ignores != 0, double(ignore_label)}};
    const WithWeights with_weights = {formula, weighted ? pos_weight : 0, classes, inner};
    return with_weights;
}

template <typename T>
__global__ void sigmoid_cross_entropy_forward(const T *__restrict__ data, const T *__restrict__ label,
                                              T *__restrict__ output, int output_request, int64_t size,
                                              int64_t classes, int64_t inner, int64_t ignores, int64_t ignore_label,
                                              int64_t weighted, const double *__restrict__ pos_weight)
{
    sigmoid_loss(data, label, output, output_request, size,
                 formula_of(classes, inner, ignores, ignore_label, weighted, pos_weight));
}

template <typename T>
__global__ void sigmoid_cross_entropy_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                                               const T *__restrict__ label, T *__restrict__ data_grad,
                                               int data_grad_request, int64_t size, int64_t classes, int64_t inner,
                                               int64_t ignores, int64_t ignore_label, int64_t weighted,
                                               const double *__restrict__ pos_weight)
{
    sigmoid_loss_backward(output_grad, data, label, data_grad, data_grad_request, size,
                          formula_of(classes, inner, ignores, ignore_label, weighted, pos_weight));
}
