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
__device__ void forward(const SoftmaxFocalLossArgs<T, L> &args)
{
    const Focal<T> focal = {typename Accumulator<T>::type(args.gamma)};
    class_loss_forward(args, args.alpha, focal);
}

template <typename T, typename L>
__device__ void backward(const SoftmaxFocalLossArgs<T, L> &args)
{
    const Focal<T> focal = {typename Accumulator<T>::type(args.gamma)};
    class_loss_backward(args, args.alpha, focal);
}
