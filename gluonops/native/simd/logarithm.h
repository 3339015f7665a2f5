// Logarithms of many numbers at once.
#ifndef GLUONOPS_NATIVE_LOGARITHM_H_
#define GLUONOPS_NATIVE_LOGARITHM_H_

#include "vectors.h"

namespace gluonops {
namespace GLUONOPS_TARGET {

GLUONOPS_INLINE void logarithms(double *values, int64_t count)
{
    for (int64_t i = 0; i < count; ++i)
        values[i] = logarithm(values[i]);
}

// ln(x) of a positive normal number, within 0.50001 units in its last place: x = 2^k z, with z from 0.7 to 1.4, and
// ln(z) = 2 artanh(s) = 2 (s + s^3 / 3 + s^5 / 5 + ...), with s = (z - 1) / (z + 1). What the series leaves out is below
// 2e-12 of it.
GLUONOPS_INLINE float logarithm_of_normal(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    const uint32_t above = bits - 0x3f330000;   // the bits of 0.7
    const uint32_t z_bits = bits - (above & 0xff800000);
    float z;
    memcpy(&z, &z_bits, sizeof(z));
    const double k = int32_t(above) >> 23;
    const double s = (double(z) - 1) / (double(z) + 1);
    const double square = s * s;
    double series = 1. / 13;
    for (int divisor = 11; divisor > 0; divisor -= 2)
        series = series * square + 1. / divisor;
    return float(k * 0.6931471805599453 + 2 * s * series);
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

}  // namespace GLUONOPS_TARGET
}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_LOGARITHM_H_
