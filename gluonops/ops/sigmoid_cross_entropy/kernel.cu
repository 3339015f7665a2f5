// sigmoid_cross_entropy: -(w y log(p) + (1 - y) log(1 - p)), with the weight w of positives, element by element.
#include "../_sigmoid/sigmoid.cuh"

template <typename T>
struct CrossEntropy {
    typedef typename Accumulator<T>::type A;
    IgnoredLabel<A> ignored;

    __device__ A value(A x, A y, int64_t) const
    {
        return ignored.unless_ignored(SigmoidOf<T>(x).cross_entropy(y), y);
    }

    __device__ A slope(A x, A y, int64_t) const
    {
        const SigmoidOf<T> sigmoid(x);
        return ignored.unless_ignored((1 - y) * sigmoid.plus - y * sigmoid.minus, y);
    }
};

// The same with a weight of positives for each class.
template <typename T>
struct WeightedCrossEntropy {
    typedef typename Accumulator<T>::type A;
    IgnoredLabel<A> ignored;
    const double *weights;
    int64_t classes, inner;

    __device__ A weight(int64_t place) const
    {
        const int64_t line = quotient(place, inner);
        return A(weights[line - quotient(line, classes) * classes]);
    }

    __device__ A value(A x, A y, int64_t place) const
    {
        const SigmoidOf<T> sigmoid(x);
        const A log1p = Functions<T>::add_log1p(sigmoid.e, A(0));
        const A loss = weight(place) * y * (log1p + sigmoid.below) + (1 - y) * (log1p + sigmoid.above);
        return ignored.unless_ignored(loss, y);
    }

    __device__ A slope(A x, A y, int64_t place) const
    {
        const SigmoidOf<T> sigmoid(x);
        return ignored.unless_ignored((1 - y) * sigmoid.plus - weight(place) * y * sigmoid.minus, y);
    }
};

template <typename T>
__global__ void sigmoid_cross_entropy_forward(const T *__restrict__ data, const T *__restrict__ label,
                                              T *__restrict__ output, int output_request, int64_t size,
                                              int64_t classes, int64_t inner, int64_t ignores, int64_t ignore_label,
                                              int64_t weighted, const double *__restrict__ pos_weight)
{
    const IgnoredLabel<typename Accumulator<T>::type> ignored(ignores, ignore_label);
    const CrossEntropy<T> formula = {ignored};
    const WeightedCrossEntropy<T> with_weights = {ignored, pos_weight, classes, inner};
    if (weighted)
        sigmoid_loss(data, label, output, output_request, size, with_weights);
    else
        sigmoid_loss(data, label, output, output_request, size, formula);
}

template <typename T>
__global__ void sigmoid_cross_entropy_backward(const T *__restrict__ output_grad, const T *__restrict__ data,
                                               const T *__restrict__ label, T *__restrict__ data_grad,
                                               int data_grad_request, int64_t size, int64_t classes, int64_t inner,
                                               int64_t ignores, int64_t ignore_label, int64_t weighted,
                                               const double *__restrict__ pos_weight)
{
    const IgnoredLabel<typename Accumulator<T>::type> ignored(ignores, ignore_label);
    const CrossEntropy<T> formula = {ignored};
    const WeightedCrossEntropy<T> with_weights = {ignored, pos_weight, classes, inner};
    if (weighted)
        sigmoid_loss_backward(output_grad, data, label, data_grad, data_grad_request, size, with_weights);
    else
        sigmoid_loss_backward(output_grad, data, label, data_grad, data_grad_request, size, formula);
}
