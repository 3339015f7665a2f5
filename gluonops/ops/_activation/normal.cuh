// The normal distribution, for CUDA.
__device__ inline float complementary_error(float x) { return erfcf(x); }
__device__ inline double complementary_error(double x) { return erfc(x); }

// P(X < x), and the density at x.
template <typename A>
struct Normal {
    A x, probability;

    __device__ explicit Normal(A x) : x(x), probability(complementary_error(x * A(-0.70710678118654752440)) / 2) {}
    __device__ A density() const { return exponential(x * x / -2) * A(0.39894228040143267794); }
};
