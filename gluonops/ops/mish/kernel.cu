// mish: element by element.
#include "../_activation/activation.cuh"

template <typename T>
__device__ void forward(const MishArgs<T> &args) { activate(args, Mish()); }

template <typename T>
__device__ void backward(const MishArgs<T> &args) { activate_backward(args, Mish()); }
