// The types of which the arguments of a kernel are made; see generate.py.
#ifndef GLUONOPS_NATIVE_RECORD_H_
#define GLUONOPS_NATIVE_RECORD_H_

#include <stdint.h>

#include "simd/half.h"
#include "target.h"

namespace gluonops {

#include "../core/record.inl"

template <> struct Accumulator<Half> { typedef float type; };

// An array whose type is known at run time only.
struct AnyArray {
    const void *values;
    int type;

    template <typename T>
    GLUONOPS_INLINE const T *as() const { return static_cast<const T *>(values); }
};

}  // namespace gluonops

#endif  // GLUONOPS_NATIVE_RECORD_H_
