// The normal distribution, for CUDA: P(X < x), and the density at x.
template <typename A>
struct Normal {
    A x, probability;

    __device__ explicit Normal(A x) : x(x), probability(complementary_error(x * A(-0.70710678118654752440)) / 2) {}
    __device__ A density() const { return exponential(x * x / -2) * A(0.39894228040143267794); }
};

// The same functions to the precision of float16, in half as many instructions. The tail 1 - P is t exp(-z^2 +
// polynomial(t)) / 2 with z = |x| / sqrt(2) and t = 1 / (1 + z / 2); its relative error is 1.2e-7 (Press et al.,
// Numerical Recipes, 6.2).
struct NormalOfHalf {
    float x, probability;

    __device__ explicit NormalOfHalf(float x) : x(x)
    {
        const float z = fabsf(x) * 0.70710678f, t = __fdividef(1, 1 + z / 2);
        const float of_t = polynomial(t, -1.26551223f, 1.00002368f, 0.37409196f, 0.09678418f, -0.18628806f, 0.27886807f,
                                      -1.13520398f, 1.48851587f, -0.82215223f, 0.17087277f);
        const float tail = t * exp_of(of_t - z * z) / 2;
        probability = x < 0 ? tail : 1 - tail;
    }

    __device__ static float exp_of(float x) { return power_of_two(x * 1.4426950408889634f); }
    __device__ float density() const { return exp_of(x * x / -2) * 0.39894228f; }
};
