// Functions of numbers and of vectors: exponentials, logarithms and the like.
#pragma once

#include "vectors.h"

namespace gluonops::GLUONOPS_ISA {

// The C library computes single numbers.
GLUONOPS_INLINE float exponential(float x) { return __builtin_expf(x); }
GLUONOPS_INLINE double exponential(double x) { return __builtin_exp(x); }
GLUONOPS_INLINE float exponential_minus_one(float x) { return __builtin_expm1f(x); }
GLUONOPS_INLINE double exponential_minus_one(double x) { return __builtin_expm1(x); }
GLUONOPS_INLINE float logarithm(float x) { return __builtin_logf(x); }
GLUONOPS_INLINE double logarithm(double x) { return __builtin_log(x); }
GLUONOPS_INLINE float square_root(float x) { return __builtin_sqrtf(x); }
GLUONOPS_INLINE double square_root(double x) { return __builtin_sqrt(x); }
GLUONOPS_INLINE float power(float base, float exponent) { return __builtin_powf(base, exponent); }
GLUONOPS_INLINE double power(double base, double exponent) { return __builtin_pow(base, exponent); }
GLUONOPS_INLINE float arctangent(float x) { return __builtin_atanf(x); }
GLUONOPS_INLINE double arctangent(double x) { return __builtin_atan(x); }

// Returns a polynomial of x, from its highest coefficients.
template <typename V, typename... A>
GLUONOPS_INLINE V polynomial(V x, V sum, A... coefficients)
{
    ((sum = sum * x + coefficients), ...);
    return sum;
}

// exp(x) for x up to 40, to about one unit in the last place; subnormal results and NaN are right too.
#if defined(__AVX512F__)
// The method: x = k ln 2 + r, where k is a multiple of 1/16. Two registers hold 2^0, 2^(1/16), ...: the numbers, and
// their rounding errors. Three terms of a polynomial give exp(r) - 1.
GLUONOPS_INLINE Floats exponential(Floats x)
{
    const __m512 powers = {1.0f,        1.04427373f, 1.09050775f, 1.13878858f,
                           1.18920708f, 1.24185777f, 1.29683959f, 1.35425556f,
                           1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
                           1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f};
    const __m512 powers_low = {0.0f,             4.83347016e-08f,  -1.30775399e-08f, 5.38622231e-08f,
                               3.79763527e-08f,  4.4968381e-08f,   -4.01899953e-08f, -1.01233493e-08f,
                               2.4203235e-08f,   -4.50089885e-08f, 8.07090483e-09f,  9.83621717e-09f,
                               -2.47553267e-08f, -9.23577037e-09f, -1.1239278e-08f,  9.84532811e-09f};
    x = maximum(broadcast(-104.0f), x);   // exp(-104) is 0; NaN stays
    const float magic = 786432.0f;        // 1.5 * 2^19: adding it rounds to sixteenths, found in the low bits
    const Floats shifted = x * 1.44269504088896341f + magic;
    const Floats k = shifted - magic;
    const Floats r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
    const Floats p = (r * 0.16667026f + 0.5000162f) * (r * r) + r;
    const __m512i sixteenth = __m512i(shifted);   // its low four bits count
    const Floats power = Floats(_mm512_permutexvar_ps(sixteenth, powers));
    const Floats power_low = Floats(_mm512_permutexvar_ps(sixteenth, powers_low));
    return Floats(_mm512_scalef_ps(__m512((power * p + power_low) + power), __m512(k)));   // 2^floor(k)
}
#else
// The method: x = k ln 2 + r, and a polynomial gives exp(r). 2^k is multiplied in two factors, so that neither
// underflows.
GLUONOPS_INLINE Floats exponential(Floats x)
{
    x = maximum(broadcast(-104.0f), x);
    const float magic = 12582912.0f;   // 1.5 * 2^23: adding it rounds to a whole number, found in the low bits
    const Floats shifted = x * 1.44269504088896341f + magic;
    const Floats k = shifted - magic;
    const Floats r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
    Floats p = polynomial(r, broadcast(1.9875691500e-4f), 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                          1.6666665459e-1f, 5.0000001201e-1f);
    p = p * (r * r) + r + 1.0f;
    return p * Floats((Words(shifted) + (127u + 64u)) << 23) * 5.42101086242752217e-20f;   // 2^(k + 64) 2^-64
}
#endif

// Does the same with whole numbers k.
GLUONOPS_INLINE Doubles exponential(Doubles x)
{
    x = maximum(broadcast(-746.0), x);
    const double magic = 6755399441055744.0;   // 1.5 * 2^52
    const Doubles shifted = x * 1.4426950408889634074 + magic;
    const Doubles k = shifted - magic;
    const Doubles r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    Doubles p = polynomial(r, broadcast(1.0 / 6227020800.0), 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
                           1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0,
                           1.0 / 6.0, 0.5);
    p = p * (r * r) + r + 1.0;
    return p * Doubles((LongWords(shifted) + (1023u + 128u)) << 52) * 2.93873587705571877e-39;   // 2^(k + 128) 2^-128
}

// arctan(x), to about one unit in the last place; NaN stays. The method is that of the Cephes library: tan(pi / 8) and
// tan(3 pi / 8) separate three intervals, and a polynomial is used near 0.
GLUONOPS_INLINE Floats arctangent(Floats x)
{
    const Floats size = x < 0 ? -x : x, zero = {};
    const Ints is_large = size > 2.414213562373095f, is_middle = size > 0.4142135623730950f;
    const Floats middle = is_middle ? (size - 1) / (size + 1) : size;
    const Floats r = is_large ? -1 / size : middle;
    const Floats offset = is_middle ? broadcast(0.7853981633974483f) : zero;
    const Floats start = is_large ? broadcast(1.570796326794897f) : offset;
    const Floats z = r * r;
    const Floats p = polynomial(z, broadcast(8.05374449538e-2f), -1.38776856032e-1f, 1.99777106478e-1f,
                                -3.33329491539e-1f);
    const Floats angle = start + (p * z * r + r);
    return x < 0 ? -angle : angle;
}

GLUONOPS_INLINE Doubles arctangent(Doubles x)
{
    const Doubles size = x < 0 ? -x : x, zero = {};
    const Longs is_large = size > 2.41421356237309504880, is_middle = size > 0.66;
    const Doubles middle = is_middle ? (size - 1) / (size + 1) : size;
    const Doubles r = is_large ? -1 / size : middle;
    const Doubles offset = is_middle ? broadcast(0.78539816339744830962) : zero;
    const Doubles start = is_large ? broadcast(1.57079632679489661923) : offset;
    const Doubles z = r * r;
    const Doubles p = polynomial(z, broadcast(-8.750608600031904122785e-1), -1.615753718733365076637e1,
                                 -7.500855792314704667340e1, -1.228866684490136173410e2, -6.485021904942025371773e1);
    const Doubles q = polynomial(z, z + 2.485846490142306297962e1, 1.650270098316988542046e2,
                                 4.328810604912902668951e2, 4.853903996359136964868e2, 1.945506571482613964425e2);
    const Doubles angle = start + (r * (z * p / q) + r);
    return x < 0 ? -angle : angle;
}

// exp(x) for any x: infinite where the result is too large, 0 where it is too small. For vectors, the square of
// exp(x / 2).
GLUONOPS_INLINE float full_range_exponential(float x) { return exponential(x); }
GLUONOPS_INLINE double full_range_exponential(double x) { return exponential(x); }
GLUONOPS_INLINE Floats full_range_exponential(Floats x)
{
    const Floats half = x * 0.5f, root = exponential(half > 44.5f ? broadcast(44.5f) : half);
    return root * root;
}

GLUONOPS_INLINE Doubles full_range_exponential(Doubles x)
{
    const Doubles half = x * 0.5, root = exponential(half > 360.0 ? broadcast(360.0) : half);
    return root * root;
}

// 2 artanh(z) by its series z + z^3 / 3 + z^5 / 5 + ...
template <int TERMS, typename V>
GLUONOPS_INLINE V twice_artanh(V z)
{
    const V square = z * z;
    V sum = every<V>(1.0 / (2 * TERMS + 1));
    for (int i = TERMS - 1; i >= 0; --i)
        sum = sum * square + every<V>(1.0 / (2 * i + 1));
    return 2 * z * sum;
}

// log(1 + x) for x from 0 to 1.
GLUONOPS_INLINE Floats log1p_of(Floats x) { return twice_artanh<7>(x / (2 + x)); }
GLUONOPS_INLINE Doubles log1p_of(Doubles x) { return twice_artanh<16>(x / (2 + x)); }

// log(x) for x above 0 that is not subnormal: x = m 2^k, with m between the square roots of 1/2 and 2.
GLUONOPS_INLINE Floats log_of(Floats x)
{
    const Ints bits = Ints(x), k = (bits - 0x3f3504f3) >> 23;
    const Floats m = Floats(bits - (k << 23));
    return twice_artanh<5>((m - 1) / (m + 1)) + __builtin_convertvector(k, Floats) * 0.693147180559945309f;
}

GLUONOPS_INLINE Doubles log_of(Doubles x)
{
    const Longs bits = Longs(x), k = (bits - 0x3fe6a09e667f3bcdLL) >> 52;
    const Doubles m = Doubles(bits - (k << 52));
    return twice_artanh<11>((m - 1) / (m + 1)) + __builtin_convertvector(k, Doubles) * 0.693147180559945309417;
}

// ln(x) of a positive normal number, within 0.50001 units in its last place: x = 2^k z, with z from 0.7 to 1.4, and
// ln(z) = 2 artanh(s) = 2 (s + s^3 / 3 + s^5 / 5 + ...), with s = (z - 1) / (z + 1). What the series leaves out is
// below 2e-12 of it.
GLUONOPS_INLINE float logarithm_of_normal(float x)
{
    const uint32_t above = bits_of(x) - 0x3f330000;   // the bits of 0.7
    const float z = float_of(bits_of(x) - (above & 0xff800000));
    const double k = int32_t(above) >> 23;
    const double s = (double(z) - 1) / (double(z) + 1);
    const double square = s * s;
    double series = 1. / 13;
    for (int divisor = 11; divisor > 0; divisor -= 2)
        series = series * square + 1. / divisor;
    return float(k * 0.6931471805599453 + 2 * s * series);
}

GLUONOPS_INLINE bool is_positive_normal(float x) { return bits_of(x) - 0x00800000 < 0x7f000000; }

// Replaces many numbers by their logarithms. A call of logf for each takes several times as long.
GLUONOPS_OUTLINE void logarithms(float *values, int64_t count)
{
    int others = 0;
    for (int64_t i = 0; i < count; ++i)
        others += !is_positive_normal(values[i]);
    if (others)
        for (int64_t i = 0; i < count; ++i)
            values[i] = logarithm(values[i]);
    else
        for (int64_t i = 0; i < count; ++i)
            values[i] = logarithm_of_normal(values[i]);
}

GLUONOPS_OUTLINE void logarithms(double *values, int64_t count)
{
    for (int64_t i = 0; i < count; ++i)
        values[i] = logarithm(values[i]);
}

}  // namespace gluonops::GLUONOPS_ISA
