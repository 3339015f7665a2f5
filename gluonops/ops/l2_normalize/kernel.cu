// l2_normalize: over the channels of feature maps, mostly; see rms.cuh and columns.cuh.
#include "../_rms/columns.cuh"

template <typename T>
__device__ void forward(const L2NormalizeArgs<T> &args) { normalize(args); }

template <typename T>
__device__ void backward(const L2NormalizeArgs<T> &args) { normalize_backward(args); }
