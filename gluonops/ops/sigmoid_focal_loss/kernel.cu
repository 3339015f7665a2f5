// sigmoid_focal_loss: alpha_t error^gamma times the cross-entropy, element by element, with
// error = y (1 - p) + (1 - y) p.
#include "../_sigmoid/sigmoid.cuh"

// error^gamma, and the sum of by_loss error^gamma and by_error gamma error^(gamma - 1). Most losses have a gamma of 2.
struct Square {
    template <typename A> __device__ A of(A error) const { return error * error; }

    template <typename A>
    __device__ A slope(A error, A by_loss, A by_error) const
    {
        return error * fma(A(2), by_error, error * by_loss);
    }
};

template <typename A>
struct Exponent {
    A gamma;

    // Returns x, but at least a number whose logarithm is finite, and whose power is as good as 0.
    __device__ static A positive(A x) { return Max()(x, A(1e-37)); }

    __device__ A of(A error) const { return exponential(gamma * logarithm(positive(error))); }

    __device__ A slope(A error, A by_loss, A by_error) const
    {
        return of(error) * (by_loss + gamma * (by_error / positive(error)));
    }
};

template <typename T, typename Easing>
struct Focal {
    typedef typename Accumulator<T>::type A;
    A positives, negatives;   // their weights
    Easing easing;

    __device__ A weight(A y) const { return fma(positives, y, negatives * (1 - y)); }

    __device__ A value(A x, A y, int64_t) const
    {
        const SigmoidOf<T> sigmoid(x);
        const A error = fma(y, sigmoid.minus, (1 - y) * sigmoid.plus);
        return weight(y) * easing.of(error) * sigmoid.cross_entropy(y);
    }

    // The derivative of the error by x is (1 - 2 y) p (1 - p).
    __device__ A slope(A x, A y, int64_t) const
    {
        const SigmoidOf<T> sigmoid(x);
        const A of_positive = y * sigmoid.minus, of_negative = (1 - y) * sigmoid.plus;
        const A by_error = sigmoid.plus * sigmoid.minus * (1 - y - y) * sigmoid.cross_entropy(y);
        return weight(y) * easing.slope(of_positive + of_negative, of_negative - of_positive, by_error);
    }
};

template <typename T, typename Easing>
__device__ Focal<T, Easing> focal(const SigmoidFocalLossArgs<T> &args, const Easing &easing)
{
    typedef typename Accumulator<T>::type A;
    const bool has_weights = args.alpha >= 0;   // -1 stands for none
    return {has_weights ? A(args.alpha) : A(1), has_weights ? A(1 - args.alpha) : A(1), easing};
}

template <typename T>
__device__ void forward(const SigmoidFocalLossArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    if (args.gamma == 2)
        sigmoid_loss(args, focal(args, Square()));
    else
        sigmoid_loss(args, focal(args, Exponent<A>{A(args.gamma)}));
}

template <typename T>
__device__ void backward(const SigmoidFocalLossArgs<T> &args)
{
    typedef typename Accumulator<T>::type A;
    if (args.gamma == 2)
        sigmoid_loss_backward(args, focal(args, Square()));
    else
        sigmoid_loss_backward(args, focal(args, Exponent<A>{A(args.gamma)}));
}
