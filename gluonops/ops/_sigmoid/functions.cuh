// The functions of the losses of a sigmoid, as exact as a type T of tensors.
//
//     exp_minus(x)     exp(-x), for x from 0 on; below 2^-126 it may be 0
//     inverse(x)       1 / x, for x from 1 to 2
//     add_log1p(e, y)  y + log(1 + e), for e from 0 to 1
template <typename T> struct Functions;

template <>
struct Functions<double> {
    __device__ static double exp_minus(double x) { return exponential(-x); }
    __device__ static double inverse(double x) { return 1 / x; }
    __device__ static double add_log1p(double e, double y)
    {
        const double sum = 1 + e, lost = e - (sum - 1);
        return y + (logarithm(sum) + lost / sum);
    }
};

template <>
struct Functions<float> {
    // 2^power, times what the rounding of `power` has lost: 1 - lost.
    __device__ static float exp_minus(float x)
    {
        const float power = larger(x * -1.4426950408889634f, -200.f), value = power_of_two(power);
        const float lost = fma(power, 1.4286068e-06f, fma(power, 0.693145751953125f, x));
        return fma(-value, lost, value);   // NaN where x is infinite and the value 0
    }

    // A step of Newton's method makes it exact.
    __device__ static float inverse(float x)
    {
        const float near = reciprocal(x);
        return fma(near, fma(-x, near, 1.f), near);
    }

    // Returns the polynomial nearest to log(1 + e) / e, relative to it: within 5e-09. Of e - 1/2, so that its terms
    // fall.
    __device__ static float add_log1p(float e, float y)
    {
        return fma(e, polynomial(e - 0.5f, 0.810930192f, -0.288527101f, 0.13260901f, -0.0676876977f, 0.0366354734f,
                                 -0.0205702949f, 0.0115761515f, -0.00674991263f, 0.00525334897f, -0.00324402284f), y);
    }
};

// A result is rounded to float16, whose numbers are 1e-3 apart.
template <>
struct Functions<__half> {
    __device__ static float exp_minus(float x) { return power_of_two(x * -1.4426950408889634f); }
    __device__ static float inverse(float x) { return reciprocal(x); }

    // It is the function above, within 8e-06.
    __device__ static float add_log1p(float e, float y)
    {
        return fma(e, polynomial(e, 0.999991596f, -0.499361366f, 0.325206667f, -0.210048661f, 0.101222254f,
                                 -0.0238691401f), y);
    }
};
