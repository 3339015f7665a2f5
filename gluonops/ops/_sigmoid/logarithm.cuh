// What the formulas of the sigmoid's losses need, for CUDA.

// log(1 + x) for x from 0 to 1. The last term is what 1 + x has lost.
template <typename V>
__device__ V log1p_of(V x)
{
    const V sum = 1 + x;
    return logarithm(sum) + (x - (sum - 1)) / sum;
}

template <typename V> __device__ V log_of(V x) { return logarithm(x); }
template <typename V> __device__ V every(double x) { return V(x); }
