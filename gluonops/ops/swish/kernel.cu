// swish: element by element.
#include "../_activation/activation.cuh"

template <typename T>
__device__ void forward(const SwishArgs<T> &args) { activate(args, Swish{args.beta}); }

template <typename T>
__device__ void backward(const SwishArgs<T> &args) { activate_backward(args, Swish{args.beta}); }
