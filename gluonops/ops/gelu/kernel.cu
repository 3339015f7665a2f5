// gelu: element by element.
#include "../_activation/activation.cuh"

template <typename T> struct GeluOf : Gelu {};
template <>
struct GeluOf<__half> {
    __device__ float value(float x) const { return x * NormalOfHalf(x).probability; }

    __device__ float slope(float x) const
    {
        const NormalOfHalf normal(x);
        return normal.probability + x * normal.density();
    }
};

template <typename T>
__device__ void forward(const GeluArgs<T> &args)
{
    if (args.approximation == GeluApproximation::Tanh)
        activate_forward(args, GeluTanh());
    else
        activate_forward(args, GeluOf<T>());
}

template <typename T>
__device__ void backward(const GeluArgs<T> &args)
{
    if (args.approximation == GeluApproximation::Tanh)
        activate_backward(args, GeluTanh());
    else
        activate_backward(args, GeluOf<T>());
}
