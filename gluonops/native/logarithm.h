// Logarithms of many numbers at once.
#ifndef GLUONOPS_NATIVE_LOGARITHM_H_
#define GLUONOPS_NATIVE_LOGARITHM_H_

#include "simd.h"

namespace gluonops {
namespace GLUONOPS_TARGET {

GLUONOPS_INLINE void logarithms(double *values, int64_t count)
{
    for (int64_t i = 0; i < count; ++i)
        values[i] = logarithm(values[i]);
}

#if defined(__FMA__) && defined(__GLIBC__)
// 1 / c and ln(c) for a number c near the middle of each of 16 parts of [0.7, 1.4). They, the coefficients and the
// steps are those of logf in glibc, from Arm's Optimized Routines (MIT license), so that results are the same to the bit.
struct LogarithmParts {
    double inverse[16] = {
        0x1.661ec79f8f3bep+0, 0x1.571ed4aaf883dp+0, 0x1.49539f0f010bp+0,  0x1.3c995b0b80385p+0,
        0x1.30d190c8864a5p+0, 0x1.25e227b0b8eap+0,  0x1.1bb4a4a1a343fp+0, 0x1.12358f08ae5bap+0,
        0x1.0953f419900a7p+0, 0x1p+0,               0x1.e608cfd9a47acp-1, 0x1.ca4b31f026aap-1,
        0x1.b2036576afce6p-1, 0x1.9c2d163a1aa2dp-1, 0x1.886e6037841edp-1, 0x1.767dcf5534862p-1};
    double logarithm[16] = {
        -0x1.57bf7808caadep-2, -0x1.2bef0a7c06ddbp-2, -0x1.01eae7f513a67p-2, -0x1.b31d8a68224e9p-3,
        -0x1.6574f0ac07758p-3, -0x1.1aa2bc79c81p-3,   -0x1.a4e76ce8c0e5ep-4, -0x1.1973c5a611cccp-4,
        -0x1.252f438e10c1ep-5, 0x0p+0,                0x1.aa5aa5df25984p-5,  0x1.c5e53aa362eb4p-4,
        0x1.526e57720db08p-3,  0x1.bc2860d22477p-3,   0x1.1058bc8a07ee1p-2,  0x1.4043057b6ee09p-2};
};
static constexpr LogarithmParts LOGARITHM_PARTS;

// ln(x) of a positive normal number. The method: x = 2^k z, z = c (1 + r), and a polynomial gives ln(1 + r).
GLUONOPS_INLINE float logarithm_of_normal(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    const uint32_t above = bits - 0x3f330000;   // the bits of 0.7
    const uint32_t part = above >> 19 & 15, z_bits = bits - (above & 0xff800000);
    float z;
    memcpy(&z, &z_bits, sizeof(z));
    const double k = int32_t(above) >> 23;
    const double r = double(z) * LOGARITHM_PARTS.inverse[part] - 1;
    const double start = k * 0x1.62e42fefa39efp-1 + LOGARITHM_PARTS.logarithm[part];
    const double p = r * 0x1.5575b0be00b6ap-2 + -0x1.ffffef20a4123p-2;
    const double r2 = r * r;
    return float((r2 * -0x1.00ea348b88334p-2 + p) * r2 + (start + r));
}

GLUONOPS_INLINE bool is_positive_normal(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits - 0x00800000 < 0x7f000000;
}

// In place. A call of logf for each takes several times as long.
GLUONOPS_INLINE void logarithms(float *values, int64_t count)
{
    int others = 0;
    for (int64_t i = 0; i < count; ++i)
        others += !is_positive_normal(values[i]);
    for (int64_t i = 0; others && i < count; ++i)
        values[i] = logarithm(values[i]);
    for (int64_t i = 0; !others && i < count; ++i)
        values[i] = logarithm_of_normal(values[i]);
}
#else
GLUONOPS_INLINE void logarithms(float *values, int64_t count)
{
    for (int64_t i = 0; i < count; ++i)
        values[i] = logarithm(values[i]);
}
#endif

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_LOGARITHM_H_
