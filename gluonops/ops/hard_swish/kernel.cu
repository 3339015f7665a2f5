// hard_swish: element by element.
#include "../_activation/activation.cuh"

template <typename T>
__device__ void forward(const HardSwishArgs<T> &args)
{
    activate(args, HardSwish());
}

template <typename T>
__device__ void backward(const HardSwishArgs<T> &args)
{
    activate_backward(args, HardSwish());
}
