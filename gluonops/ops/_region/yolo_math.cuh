// What yolo.cuh needs of a number, in CUDA.

__device__ inline float square_root(float x) { return sqrtf(x); }
__device__ inline double square_root(double x) { return ::sqrt(x); }

template <typename A> struct YoloMath {
    static __device__ A exp(A x) { return exponential(x); }
    static __device__ A log(A x) { return logarithm(x); }
    static __device__ A sqrt(A x) { return square_root(x); }
};
