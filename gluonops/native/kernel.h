// What every kernel.cc includes: types, threads, vectors. Kernels take raw pointers and sizes, so that they run without
// MXNet too.
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <type_traits>

#include "simd/half.h"
#include "parallel.h"
#include "record.h"
#include "simd/math.h"
#include "simd/sums.h"
#include "simd/vectors.h"
#include "isa.h"

namespace gluonops {

// The types, numbered as in MXNet.
enum Type { FLOAT32, FLOAT64, FLOAT16, UINT8, INT32, INT8, INT64 };

GLUONOPS_INLINE int size_of(int type)
{
    switch (type) {
    case FLOAT64: case INT64: return 8;
    case FLOAT16: return 2;
    case UINT8: case INT8: return 1;
    default: return 4;
    }
}

// Outputs of this size and more are written with streaming stores: they do not fit into the caches, and an ordinary
// store first reads what it overwrites.
const int64_t STREAMING_MIN_BYTES = 24 << 20;

namespace GLUONOPS_ISA {

// Returns whether a result of so many elements is written with streaming stores, which kernels have in float32 only.
template <typename T>
GLUONOPS_INLINE bool streams(int64_t elements, int64_t least_bytes = STREAMING_MIN_BYTES)
{
    return HAS_STREAMING_STORES && std::is_same<T, float>::value && elements * 4 >= least_bytes;
}

GLUONOPS_INLINE double value_at(const AnyArray &array, int64_t i)
{
    switch (array.type) {
    case FLOAT32: return static_cast<const float *>(array.values)[i];
    case FLOAT64: return static_cast<const double *>(array.values)[i];
    case FLOAT16: return double(widen(static_cast<const Half *>(array.values)[i]));
    case UINT8: return static_cast<const uint8_t *>(array.values)[i];
    case INT32: return static_cast<const int32_t *>(array.values)[i];
    case INT8: return static_cast<const int8_t *>(array.values)[i];
    default: return double(static_cast<const int64_t *>(array.values)[i]);
    }
}

// Copies as memcpy does. With `streaming` all but a few bytes are written with streaming stores.
GLUONOPS_INLINE void copy_bytes(char *to, const char *from, int64_t bytes, bool streaming)
{
#if defined(__x86_64__)
    if (streaming && bytes >= 256) {
        const int64_t unaligned = -reinterpret_cast<intptr_t>(to) & 63;
        memcpy(to, from, size_t(unaligned));
        int64_t i = unaligned;
        for (; i + 64 <= bytes; i += 64)
            for (int part = 0; part < 64; part += WIDTH) {
                Floats v;
                memcpy(&v, from + i + part, WIDTH);
                streaming_store(reinterpret_cast<float *>(to + i + part), v);
            }
        memcpy(to + i, from + i, size_t(bytes - i));
        return;
    }
#endif
    memcpy(to, from, size_t(bytes));
}

}  // namespace GLUONOPS_ISA
}  // namespace gluonops
