// The types of which the arguments of a kernel are made; see generate.py.
#pragma once

#include <stdint.h>

#include "simd/half.h"
#include "isa.h"

namespace gluonops {

#include "../cuda/record.inl"

template <> struct Accumulator<Half> { typedef float type; };

// Texts that C++ and CUDA share call this function. In CUDA it is faster than a division of 64 bits.
GLUONOPS_INLINE int64_t quotient(int64_t a, int64_t b) { return a / b; }

// An array whose type is known at run time only.
struct AnyArray {
    const void *values;
    int type;

    template <typename T>
    GLUONOPS_INLINE const T *as() const { return static_cast<const T *>(values); }
};

}  // namespace gluonops
