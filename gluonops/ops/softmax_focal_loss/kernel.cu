// softmax_focal_loss: a function of the nll of a row's class.
#include "../_softmax/class_loss.cuh"

__device__ inline float expm1_of(float x) { return expm1f(x); }
__device__ inline double expm1_of(double x) { return expm1(x); }

// base^exponent, as exact as T, of a base that is not below 0 but for what rounding does.
template <typename T> struct PowerOf;
template <> struct PowerOf<float> { __device__ static float at(float x, float y) { return powf(x, y); } };
template <> struct PowerOf<double> { __device__ static double at(double x, double y) { return pow(x, y); } };
template <>
struct PowerOf<__half> {
    __device__ static float at(float base, float exponent)
    {
        if (base <= 0)
            return exponent == 0 ? 1 : 0;
        return power_of_two(exponent * binary_logarithm(base));
    }
};

// (1 - p)^gamma * nll, with the probability p = exp(-nll).
template <typename T>
struct Focal {
    typedef typename Accumulator<T>::type A;
    A gamma;

    __device__ A value(A nll) const { return PowerOf<T>::at(-expm1_of(-nll), gamma) * nll; }

    // Near 0 the error 1 - p is the nll. At infinity p * nll is 0.
    __device__ A slope(A nll) const
    {
        const A error = -expm1_of(-nll), p = exponential(-nll);
        const A ratio = error == 0 ? A(1) : p == 0 ? A(0) : nll / error;
        return PowerOf<T>::at(error, gamma) * (1 + gamma * p * ratio);
    }
};

template <typename T, typename L>
__global__ void __launch_bounds__(256, sizeof(T) == 4 ? 4 : sizeof(T) == 2 ? 3 : 2)
softmax_focal_loss_forward(const T *__restrict__ data, const L *__restrict__ label, T *__restrict__ output,
                           typename Accumulator<T>::type *__restrict__ max,
                           typename Accumulator<T>::type *__restrict__ log_sum, double *__restrict__ partial,
                           int output_request, int max_request, int log_sum_request, int64_t step, int64_t outer,
                           int64_t classes, int64_t inner, int64_t ignores, int64_t ignore_label, int64_t weighted,
                           const double *__restrict__ alpha, double gamma)
{
    typedef typename Accumulator<T>::type A;
    const RowLabels<A> labels = {classes, ignores != 0, ignore_label, weighted ? alpha : 0};
    const Focal<T> focal = {A(gamma)};
    class_loss_forward(data, label, output, max, log_sum, partial, output_request, max_request, log_sum_request, step,
                       outer * inner, inner, labels, focal);
}

template <typename T, typename L>
__global__ void __launch_bounds__(256, sizeof(T) == 8 ? 2 : 3)
softmax_focal_loss_backward(const T *__restrict__ output_grad, const T *__restrict__ data, const L *__restrict__ label,
                            const typename Accumulator<T>::type *__restrict__ max,
                            const typename Accumulator<T>::type *__restrict__ log_sum, T *__restrict__ data_grad,
                            double *__restrict__ partial, int data_grad_request, int64_t step, int64_t outer,
                            int64_t classes, int64_t inner, int64_t ignores, int64_t ignore_label, int64_t weighted,
                            const double *__restrict__ alpha, double gamma)
{
    typedef typename Accumulator<T>::type A;
    const RowLabels<A> labels = {classes, ignores != 0, ignore_label, weighted ? alpha : 0};
    const Focal<T> focal = {A(gamma)};
    class_loss_backward(output_grad, data, label, max, log_sum, data_grad, data_grad_request, outer * inner, inner,
                        labels, focal);
}
