// l2_normalize: over the channels of feature maps, mostly; see rms.cuh.
#include "../_rms/rms.cuh"

template <typename T>
__device__ void forward(const L2NormalizeArgs<T> &args) { scale_rows(args); }

template <typename T>
__device__ void backward(const L2NormalizeArgs<T> &args) { scale_rows_backward(args); }
