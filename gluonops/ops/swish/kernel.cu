// swish: element by element.
#include "../_activation/activation.cuh"

template <typename T>
__device__ void forward(const SwishArgs<T> &args)
{
    const Swish formula = {args.beta};
    activate(args, formula);
}

template <typename T>
__device__ void backward(const SwishArgs<T> &args)
{
    const Swish formula = {args.beta};
    activate_backward(args, formula);
}
