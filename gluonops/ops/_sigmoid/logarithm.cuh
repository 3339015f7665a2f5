// What the formulas of the sigmoid's losses need, for CUDA.
__device__ inline float log1p_of(float x) { return log1pf(x); }
__device__ inline double log1p_of(double x) { return log1p(x); }
template <typename V> __device__ V log_of(V x) { return logarithm(x); }
template <typename V> __device__ V every(double x) { return V(x); }
