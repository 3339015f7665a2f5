// float16 in software. It is only a storage type: every kernel computes in float. Conversions round to nearest even,
// and preserve infinities, NaN and subnormal numbers. Where the processor has instructions for them, vectors.h uses
// these.
#pragma once

#include <stdint.h>
#include <string.h>

#include "../isa.h"

namespace gluonops {

struct Half {
    uint16_t bits;
};

namespace GLUONOPS_ISA {

GLUONOPS_INLINE uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

GLUONOPS_INLINE float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

GLUONOPS_INLINE float widen(Half half)
{
    const uint32_t sign = uint32_t(half.bits & 0x8000u) << 16;
    uint32_t bits = uint32_t(half.bits & 0x7fffu) << 13;
    const uint32_t exponent = bits & (0x7c00u << 13);
    bits += (127u - 15u) << 23;
    if (exponent == 0x7c00u << 13)   // infinity, NaN
        bits += (128u - 16u) << 23;
    else if (exponent == 0)          // zero, subnormal: let the subtraction normalise it
        bits = bits_of(float_of(bits + (1u << 23)) - float_of(113u << 23));
    return float_of(bits | sign);
}

GLUONOPS_INLINE Half narrow(float x)
{
    uint32_t bits = bits_of(x), half;
    const uint32_t sign = bits & 0x80000000u;
    bits ^= sign;
    if (bits >= (127u + 16u) << 23) {         // too large for a float16, infinity, NaN
        half = bits > 255u << 23 ? 0x7e00u : 0x7c00u;
    } else if (bits < 113u << 23) {           // subnormal or zero: let the addition round it
        const uint32_t magic = (127u - 15u + 23u - 10u + 1u) << 23;
        half = bits_of(float_of(bits) + float_of(magic)) - magic;
    } else {
        const uint32_t odd = bits >> 13 & 1u;
        half = (bits - ((127u - 15u) << 23) + 0xfffu + odd) >> 13;
    }
    const Half result = {uint16_t(half | sign >> 16)};
    return result;
}

}  // namespace GLUONOPS_ISA
}  // namespace gluonops
