// Functions of a number: the one home of exp, log and square roots on a GPU.
struct __half;

template <typename A> __device__ A exponential(A x) { return exp(x); }
template <typename A> __device__ A full_range_exponential(A x) { return exp(x); }   // that of C++'s vectors is another
template <typename A> __device__ A exponential_minus_one(A x) { return expm1(x); }
template <typename A> __device__ A logarithm(A x) { return log(x); }
template <typename A> __device__ A power(A base, A exponent) { return pow(base, exponent); }
template <typename A> __device__ A square_root(A x) { return sqrt(x); }
template <typename A> __device__ A arc_cosine(A x) { return acos(x); }
template <typename A> __device__ A arctangent(A x) { return atan(x); }
template <typename A> __device__ A complementary_error(A x) { return erfc(x); }

// 2^x in one instruction, within some 1e-7 of it. A result below 2^-126 is 0.
__device__ inline float power_of_two(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// Returns the logarithm to base 2 in one instruction: within some 1e-7 from 1 to 2, and a relative 1e-7 above.
__device__ inline float binary_logarithm(float x)
{
    float exponent;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(exponent) : "f"(x));
    return exponent;
}

// 1 / x in one instruction, within 1e-7 of it; 0 beyond 2^126.
__device__ inline float reciprocal(float x)
{
    float near;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(x));
    return near;
}

__device__ inline double reciprocal(double x) { return 1 / x; }

// Functions as exact as T, which take few instructions for float16. exp(x) is of(x * unit()), and log is that of a
// number from 1 on.
template <typename T>
struct ExponentialOf {
    typedef typename Accumulator<T>::type A;
    __device__ static A unit() { return 1; }
    __device__ static A of(A x) { return exponential(x); }
    __device__ static A log(A x) { return logarithm(x); }
};
template <>
struct ExponentialOf<__half> {
    __device__ static float unit() { return 1.4426950408889634f; }
    __device__ static float of(float x) { return power_of_two(x); }
    __device__ static float log(float x) { return binary_logarithm(x) * 0.6931471805599453f; }
};

// It is as exact as T, too. A base is not below 0 but for what rounding does.
template <typename T, typename A> __device__ A power_of(A base, A exponent) { return power(base, exponent); }
template <> __device__ inline float power_of<__half>(float base, float exponent)
{
    const float of_zero = exponent == 0 ? 1 : 0;
    return base <= 0 ? of_zero : power_of_two(exponent * binary_logarithm(base));
}

// One instruction each. Of a number and NaN they return the number.
template <typename A> __device__ A smaller(A a, A b) { return fmin(a, b); }
template <typename A> __device__ A larger(A a, A b) { return fmax(a, b); }

// constant + x * (first + x * (...)).
__device__ inline float polynomial(float, float constant) { return constant; }
template <typename... Coefficients>
__device__ float polynomial(float x, float constant, Coefficients... others)
{
    return fma(polynomial(x, others...), x, constant);
}

template <typename A> __device__ A not_a_number() { return __int_as_float(0x7fc00000); }

template <typename A> __device__ A infinity() { return __int_as_float(0x7f800000); }

// Returns the lowest finite number: unlike -infinity it can be subtracted from itself.
template <typename A> __device__ A lowest();
template <> __device__ inline float lowest<float>() { return -3.402823466e+38f; }
template <> __device__ inline double lowest<double>() { return -1.7976931348623157e+308; }
