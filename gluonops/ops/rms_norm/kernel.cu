// rms_norm: see rms.cuh.
#include "../_rms/rms.cuh"

template <typename T>
__device__ void forward(const RmsNormArgs<T> &args) { scale_rows(args); }

template <typename T>
__device__ void backward(const RmsNormArgs<T> &args) { scale_rows_backward(args); }
