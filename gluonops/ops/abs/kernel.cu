// abs: element by element.
#include "../_activation/activation.cuh"

__device__ inline float magnitude(float x) { return fabsf(x); }
__device__ inline double magnitude(double x) { return fabs(x); }

template <typename T>
__device__ bool negative(T x) { return x < 0; }
__device__ inline bool negative(uint8_t) { return false; }   // the comparison would be a compiler warning

template <typename T>
__device__ T magnitude(T x) { return negative(x) ? -x : x; }

struct Abs {
    template <typename A>
    __device__ A value(A x) const { return magnitude(x); }

    // 1, -1, or 0 at 0.
    template <typename A>
    __device__ A slope(A x) const { return (x > 0) - negative(x); }
};

template <typename T>
__device__ void forward(const AbsArgs<T> &args) { activate_forward(args, Abs()); }

template <typename T>
__device__ void backward(const AbsArgs<T> &args) { activate_backward(args, Abs()); }
