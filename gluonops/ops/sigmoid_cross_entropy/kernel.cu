// sigmoid_cross_entropy: -(w y log(p) + (1 - y) log(1 - p)), with the weight w of positives, element by element.
#include "../_sigmoid/sigmoid.cuh"

template <typename T>
struct CrossEntropy {
    typedef typename Accumulator<T>::type A;

    __device__ A value(A x, A y, int64_t) const { return SigmoidOf<T>(x).cross_entropy(y); }

    __device__ A slope(A x, A y, int64_t) const
    {
        const SigmoidOf<T> sigmoid(x);
        return (1 - y) * sigmoid.plus - y * sigmoid.minus;
    }
};

// The same with a weight of positives for each class.
template <typename T>
struct WeightedCrossEntropy {
    typedef typename Accumulator<T>::type A;
    const SigmoidCrossEntropyArgs<T> &args;

    __device__ A weight(int64_t index) const
    {
        const int64_t line = quotient(index, args.inner);
        return args.pos_weight.values[line - quotient(line, args.classes) * args.classes];
    }

    __device__ A value(A x, A y, int64_t index) const
    {
        const SigmoidOf<T> sigmoid(x);
        const A log1p = Functions<T>::add_log1p(sigmoid.e, A(0));
        return weight(index) * y * (log1p + sigmoid.below) + (1 - y) * (log1p + sigmoid.above);
    }

    __device__ A slope(A x, A y, int64_t index) const
    {
        const SigmoidOf<T> sigmoid(x);
        return (1 - y) * sigmoid.plus - weight(index) * y * sigmoid.minus;
    }
};

template <typename T>
__device__ void forward(const SigmoidCrossEntropyArgs<T> &args)
{
    if (args.pos_weight.values)
        sigmoid_loss(args, WeightedCrossEntropy<T>{args});
    else
        sigmoid_loss(args, CrossEntropy<T>());
}

template <typename T>
__device__ void backward(const SigmoidCrossEntropyArgs<T> &args)
{
    if (args.pos_weight.values)
        sigmoid_loss_backward(args, WeightedCrossEntropy<T>{args});
    else
        sigmoid_loss_backward(args, CrossEntropy<T>());
}
