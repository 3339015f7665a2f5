// What yolo.cuh needs of a number, in CUDA.

template <typename A> struct YoloMath {
    static __device__ A exp(A x) { return exponential(x); }
    static __device__ A log(A x) { return logarithm(x); }
    static __device__ A sqrt(A x) { return square_root(x); }
};
